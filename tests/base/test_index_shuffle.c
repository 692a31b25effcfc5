#include <inttypes.h>

#include "base/index_shuffle_private.h"
#include "base/isa.h"
#include "base/seedseq.h"
#include "tests/vectors.h"

static void every_golden_index_shuffles_as_grain_does(void **state) {
  FILE *f = vectors_open("index_shuffle.txt");
  char line[256];
  int rows = 0;
  while (vectors_line(f, line, sizeof line)) {
    uint64_t index, max, want;
    uint32_t seed;
    int rounds;
    assert_int_equal(sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu32 " %d %" SCNu64, &index, &max,
                            &seed, &rounds, &want),
                     5);
    mr_index_shuffle_t s;
    mr_index_shuffle_init(&s, max, seed, rounds);
    if (mr_index_shuffle_at(&s, index) != want) fail_msg("row %s", line);
    rows++;
  }
  fclose(f);
  vectors_met(rows, 101);
}

static void a_small_range_is_permuted(void **state) {
  for (uint64_t max = 0; max < 300; max += 7) {
    uint8_t seen[300] = {0};
    mr_index_shuffle_t s;
    mr_index_shuffle_init(&s, max, 99, MR_SHUFFLE_ROUNDS);
    for (uint64_t i = 0; i <= max; i++) {
      uint64_t at = mr_index_shuffle_at(&s, i);
      assert_true(at <= max);
      assert_int_equal(seen[at]++, 0);
    }
  }
}

static void all_results_of_small_ranges_are_those_one_by_one(void **state) {
  static mr_shuffled_t all[MR_SHUFFLE_TOGETHER];
  int n = 1;
  for (uint64_t max = 0; max < MR_SHUFFLE_ALL_MAX; max += 1 + max / 5)
    for (int rounds = MR_SHUFFLE_ROUNDS; rounds <= 16; rounds += 12) {
      mr_index_shuffle_t s[MR_SHUFFLE_TOGETHER];
      for (int k = 0; k < n; k++)
        mr_index_shuffle_init(&s[k], max, (uint32_t)k * 0x9E3779B9u + (uint32_t)max, rounds);
      mr_index_shuffle_all(s, n, all);
      for (int k = 0; k < n; k++)
        for (uint64_t i = 0; i <= max; i++)
          assert_int_equal(all[k][i], mr_index_shuffle_at(&s[k], i));
      n = n % MR_SHUFFLE_TOGETHER + 1;
    }
}

static void every_instruction_set_walks_alike(void **state) {
  static mr__goes_t plain, avx2;
  if (!mr_isa_available(MR_ISA_AVX2)) skip();
  for (uint32_t seed = 0; seed < 40; seed++) {
    mr_index_shuffle_t s;
    mr_index_shuffle_init(&s, 1 + seed * 25, seed * 0x9E3779B9u, seed % 4 ? 4 : 16);
    mr__index_shuffle_plain(&s, plain);
    mr__index_shuffle_avx2(&s, avx2);
    assert_memory_equal(plain, avx2, sizeof plain);
  }
}

/* Fewer walks than lanes, as many, one more, all; seeds that continue after the last one. */
static void tiny_orders_of_many_seeds_are_those_one_by_one(void **state) {
  static const int many[] = {1, 2, 63, 64, 65, 192, 193, MR_SHUFFLE_TINY_TOGETHER};
  static mr_shuffled_tiny_t all[MR_SHUFFLE_TINY_TOGETHER];
  for (size_t m = 0; m < sizeof many / sizeof *many; m++)
    for (uint64_t max = 1; max < MR_SHUFFLE_TINY_MAX; max++) {
      int n = many[m], each = n < 100 ? 1 + n / 16 : n / 16;
      uint32_t seed = UINT32_MAX - (uint32_t)n / 2;
      if (!mr_index_shuffle_tiny(max, seed, n, all)) skip(); /* not on this machine */
      for (int k = 0; k < n; k += k < n - each ? each : 1) {
        mr_index_shuffle_t s;
        mr_index_shuffle_init(&s, max, seed + (uint32_t)k, MR_SHUFFLE_ROUNDS);
        for (uint64_t i = 0; i <= max; i++)
          if (all[k][i] != mr_index_shuffle_at(&s, i))
            fail_msg("%d seeds, max %d: number %d of seed %d: %d", n, (int)max, (int)i, k,
                     all[k][i]);
      }
    }
}

static void four_to_the_eighth_loses_its_last_record_as_in_grain(void **state) {
  mr_index_shuffle_t s;
  mr_index_shuffle_init(&s, 65536, 12, MR_SHUFFLE_ROUNDS);
  assert_int_equal(mr_index_shuffle_at(&s, 65536), mr_index_shuffle_at(&s, 0));
}

static void a_bijective_shuffle_is_grains_but_there(void **state) {
  static const uint64_t max[] = {1, 9, 16384, 65535, 65537, 262143, 262145, 999999, 1u << 31};
  mr_index_shuffle_t s, t;
  for (size_t k = 0; k < sizeof max / sizeof *max; k++) {
    mr_index_shuffle_init(&s, max[k], 12, MR_SHUFFLE_ROUNDS);
    mr_index_shuffle_init_bijective(&t, max[k], 12, MR_SHUFFLE_ROUNDS);
    for (uint64_t i = 0; i <= max[k] && i < 1000; i++)
      assert_true(mr_index_shuffle_at(&s, i) == mr_index_shuffle_at(&t, i));
  }
  uint8_t *seen = calloc(65537, 1);
  mr_index_shuffle_init_bijective(&t, 65536, 12, MR_SHUFFLE_ROUNDS);
  for (uint64_t i = 0; i <= 65536; i++) seen[mr_index_shuffle_at(&t, i)]++;
  for (int i = 0; i <= 65536; i++) assert_int_equal(seen[i], 1);
  free(seen);
}

static void other_numbers_of_rounds_are_refused(void **state) {
  static const int rounds[] = {-2, 0, 1, 3, 17, 18, 40, 1 << 20};
  struct {
    mr_index_shuffle_t s;
    uint8_t after[256];
  } v;
  for (size_t k = 0; k < sizeof rounds / sizeof *rounds; k++) {
    memset(&v, 0xAB, sizeof v);
    assert_int_equal(mr_index_shuffle_init(&v.s, 99, 3, rounds[k]), MR_ERR_CONFIG);
    assert_int_equal(mr_index_shuffle_at(&v.s, 7), 0);
    memset(&v.s, 0xAB, sizeof v.s);
    assert_int_equal(mr_index_shuffle_init_bijective(&v.s, 99, 3, rounds[k]), MR_ERR_CONFIG);
    for (size_t i = 0; i < sizeof v.after; i++) assert_int_equal(v.after[i], 0xAB);
  }
  assert_int_equal(mr_index_shuffle_init(&v.s, 99, 3, MR_SHUFFLE_ROUNDS_MAX), MR_OK);
  assert_int_equal(v.after[0], 0xAB);
}

static void seed_sequences_match_numpy(void **state) {
  FILE *f = vectors_open("seedsequence.txt");
  char line[512];
  int rows = 0;
  while (vectors_line(f, line, sizeof line)) {
    uint32_t word[64], want[4], got[4];
    uint64_t wide[2];
    size_t n = 0;
    char *p = line;
    do {
      uint64_t v = strtoull(p, &p, 10);
      word[n++] = (uint32_t)v;
      if (v >> 32) word[n++] = (uint32_t)(v >> 32);
    } while (*p++ == ',');
    while (*p == ' ' || *p == '|') p++;
    int k = sscanf(p, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " | %" SCNu64 " %" SCNu64,
                   want, want + 1, want + 2, want + 3, wide, wide + 1);
    assert_int_equal(k, 6);
    mr_seed_sequence(word, n, got, 4);
    assert_memory_equal(got, want, sizeof want);
    assert_true(wide[0] == (got[0] | (uint64_t)got[1] << 32));
    assert_true(wide[1] == (got[2] | (uint64_t)got[3] << 32));
    rows++;
  }
  fclose(f);
  vectors_met(rows, 11);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_golden_index_shuffles_as_grain_does),
      cmocka_unit_test(a_small_range_is_permuted),
      cmocka_unit_test(all_results_of_small_ranges_are_those_one_by_one),
      cmocka_unit_test(every_instruction_set_walks_alike),
      cmocka_unit_test(tiny_orders_of_many_seeds_are_those_one_by_one),
      cmocka_unit_test(four_to_the_eighth_loses_its_last_record_as_in_grain),
      cmocka_unit_test(a_bijective_shuffle_is_grains_but_there),
      cmocka_unit_test(other_numbers_of_rounds_are_refused),
      cmocka_unit_test(seed_sequences_match_numpy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
