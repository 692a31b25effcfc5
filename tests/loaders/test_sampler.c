#include "loaders/orders/sampler.h"

#include <inttypes.h>
#include <pthread.h>

#include "tests/vectors.h"

enum { CASES_MAX = 256 };

typedef struct golden_case {
  mr_sampler_t s;
  int64_t sampler_len, local_len;
  uint32_t crc;
  uint64_t sum;
} golden_case_t;

static int read_cases(golden_case_t *c) {
  FILE *f = vectors_open("sampler_cases.txt");
  char line[256], seed[32], shard[32];
  int n = 0, shuffle, id;
  while (vectors_line(f, line, sizeof line)) {
    golden_case_t *g = &c[n];
    mr_sampler_conf_t k = {.n_shards = 1};
    assert_int_equal(sscanf(line,
                            "%d %" SCNd64 " %d %31s %" SCNd64 " %31s %" SCNd64 " %" SCNd64
                            " %" SCNu32 " %" SCNu64,
                            &id, &k.n_records, &shuffle, seed, &k.n_epochs, shard, &g->sampler_len,
                            &g->local_len, &g->crc, &g->sum),
                     10);
    assert_int_equal(id, n);
    k.shuffle = shuffle, k.seeded = seed[0] != '-', k.seed = (uint32_t)strtoul(seed, NULL, 10);
    int drop = 0;
    if (shard[0] != '-')
      assert_int_equal(sscanf(shard, "%" SCNd64 "/%" SCNd64 "/%d", &k.shard, &k.n_shards, &drop),
                       3);
    k.drop_remainder = drop;
    assert_int_equal(mr_sampler_init(&g->s, &k, NULL), MR_OK);
    assert_true(++n < CASES_MAX);
  }
  fclose(f);
  return n;
}

static uint32_t crc32_u64(uint32_t crc, uint64_t x) {
  for (int b = 0; b < 64; b += 8) {
    crc ^= (uint32_t)(x >> b) & 255;
    for (int i = 0; i < 8; i++) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
  }
  return crc;
}

static void whole_runs_hash_as_in_grain(void **state) {
  golden_case_t c[CASES_MAX];
  int n = read_cases(c);
  assert_true(n > 0);
  for (int k = 0; k < n; k++) {
    assert_int_equal(c[k].s.len, c[k].sampler_len);
    assert_int_equal(c[k].s.local_len, c[k].local_len);
    uint32_t crc = ~0u;
    uint64_t sum = 0, key;
    for (int64_t i = 0, record; i < c[k].local_len; i++) {
      mr_sampler_at(&c[k].s, mr_sampler_index(&c[k].s, i), &record, &key);
      crc = crc32_u64(crc, (uint64_t)record), sum += (uint64_t)record;
    }
    if (~crc != c[k].crc || sum != c[k].sum) fail_msg("case %d differs", k);
  }
}

static void records_and_generator_keys_match_grain(void **state) {
  golden_case_t c[CASES_MAX];
  int n = read_cases(c), rows = 0, k;
  FILE *f = vectors_open("sampler_keys.txt");
  char line[256], want_key[32];
  int64_t local, index, want, record;
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%d %" SCNd64 " %" SCNd64 " %" SCNd64 " %31s", &k, &local, &index,
                            &want, want_key),
                     5);
    assert_true(k < n);
    uint64_t key;
    assert_int_equal(mr_sampler_index(&c[k].s, local), index);
    mr_sampler_at(&c[k].s, index, &record, &key);
    if (record != want) fail_msg("row %s: got record %" PRId64, line, record);
    assert_int_equal(c[k].s.conf.seeded, want_key[0] != '-');
    if (want_key[0] != '-' && key != strtoull(want_key, NULL, 10)) fail_msg("row %s: key", line);
    rows++;
  }
  fclose(f);
  vectors_met(rows, 101);
}

static void sequential_shards_are_strided(void **state) {
  mr_sampler_conf_t k = {.n_records = 10,
                         .n_epochs = 1,
                         .sequential = true,
                         .seeded = true,
                         .seed = 5,
                         .shard = 1,
                         .n_shards = 3,
                         .drop_remainder = true};
  mr_sampler_t s;
  assert_int_equal(mr_sampler_init(&s, &k, NULL), MR_OK);
  assert_int_equal(s.len, 9);
  assert_int_equal(s.local_len, 3);
  for (int64_t i = 0, record; i < 3; i++) {
    uint64_t key;
    mr_sampler_at(&s, mr_sampler_index(&s, i), &record, &key);
    assert_int_equal(record, i * 3 + 1);
    assert_int_equal(key, 5 + i * 3 + 1);
  }
}

static void a_shard_without_records_is_refused(void **state) {
  mr_sampler_conf_t k = {.n_records = 3, .n_epochs = 1, .shard = 4, .n_shards = 5};
  mr_sampler_t s;
  mr_diag_t d = {0};
  assert_int_equal(mr_sampler_init(&s, &k, &d), MR_ERR_CONFIG);
  assert_string_equal(d.text, "shard 4/5 of 3 records has no records");
}

static void a_shuffle_without_a_seed_and_bad_shards_are_refused(void **state) {
  mr_sampler_conf_t k = {.n_records = 3, .n_epochs = 1, .n_shards = 1, .shuffle = true};
  mr_sampler_t s;
  int64_t i, n;
  assert_int_equal(mr_sampler_init(&s, &k, NULL), MR_ERR_CONFIG);
  k = (mr_sampler_conf_t){.n_records = INT64_MAX, .n_epochs = 3, .n_shards = 1};
  assert_int_equal(mr_sampler_init(&s, &k, NULL), MR_ERR_CONFIG);
  static const char *const bad[] = {"3/3", "-1/3", "1",    "1/",           "/2",
                                    "1/0", "a/b",  "1/2x", "1/99999999999"};
  for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
    assert_false(mr_sampler_parse_shard(bad[b], &i, &n));
  assert_true(mr_sampler_parse_shard("2/3", &i, &n));
  assert_true(i == 2 && n == 3);
}

static void *walk(void *arg) {
  mr_sampler_t *s = arg;
  uint64_t hash = 0, key;
  for (int64_t i = 0, record; i < 20000; i++) {
    mr_sampler_at(s, i * 7919 % 90000, &record, &key); /* jumps between epochs */
    hash = hash * 31 + (uint64_t)record;
  }
  return (void *)(uintptr_t)hash;
}

static void threads_that_jump_between_epochs_agree(void **state) {
  mr_sampler_conf_t k = {
      .n_records = 45000, .shuffle = true, .seeded = true, .seed = 12, .n_shards = 1};
  mr_sampler_t s;
  assert_int_equal(mr_sampler_init(&s, &k, NULL), MR_OK);
  pthread_t t[4];
  void *alone = walk(&s), *got;
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, walk, &s), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(t[i], &got);
    assert_ptr_equal(got, alone);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_runs_hash_as_in_grain),
      cmocka_unit_test(records_and_generator_keys_match_grain),
      cmocka_unit_test(sequential_shards_are_strided),
      cmocka_unit_test(a_shard_without_records_is_refused),
      cmocka_unit_test(a_shuffle_without_a_seed_and_bad_shards_are_refused),
      cmocka_unit_test(threads_that_jump_between_epochs_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
