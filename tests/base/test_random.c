/* Every row of golden/jax_random.txt, in both layouts. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "base/erf.h"
#include "base/random.h"
#include "tests/vectors.h"

#define MOST 128

static int checked, rows[2];

static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint32_t to_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static void expect_near(const float *got, const uint32_t *want, int n) {
  for (int i = 0; i < n; i++) {
    float w = from_bits(want[i]), ulp = nextafterf(fabsf(w), INFINITY) - fabsf(w);
    if (fabsf(got[i] - w) > 4 * ulp + 1e-7f) fail_msg("got %.9g, want %.9g", got[i], w);
  }
}

static void expect_keys(const mr_prng_t *got, char **text, int n) {
  for (int i = 0; i < n; i++) {
    uint32_t a, b;
    assert_int_equal(sscanf(text[i], "%" SCNu32 ",%" SCNu32, &a, &b), 2);
    assert_true(got[i].key.a == a && got[i].key.b == b);
  }
}

static bool check_keys(const char *what, mr_prng_t k, char **text, int n) {
  mr_prng_t keys[MOST] = {k};
  if (!strncmp(what, "split:", 6)) {
    assert_int_equal(atoi(what + 6), n);
    mr_random_split(k, (size_t)n, keys);
  } else if (!strncmp(what, "fold_in:", 8)) {
    keys[0] = mr_random_fold_in(k, (uint32_t)strtoul(what + 8, NULL, 10));
  } else if (strcmp(what, "key")) {
    return false;
  }
  expect_keys(keys, text, n);
  return true;
}

static bool check_integers(const char *what, mr_prng_t k, char **text, int n) {
  int64_t want[MOST];
  for (int i = 0; i < n; i++) want[i] = strtoll(text[i], NULL, 10);
  uint32_t words[MOST];
  int32_t ints[MOST], lo, hi;
  uint8_t coins[MOST];
  float p;
  mr_diag_t diag = {0};
  size_t m = (size_t)n;
  if (!strncmp(what, "bits", 4)) {
    mr_random_bits(k, m, words);
  } else if (!strncmp(what, "perm:", 5)) {
    assert_int_equal(mr_random_permutation(k, (uint32_t)n, words, &diag), MR_OK);
  } else if (sscanf(what, "bernoulli:%*d:%f", &p) == 1) {
    mr_random_bernoulli(k, m, p, coins);
    for (int i = 0; i < n; i++) words[i] = coins[i];
  } else if (sscanf(what, "randint:%*d:%" SCNd32 ":%" SCNd32, &lo, &hi) == 2) {
    mr_random_randint(k, m, lo, hi, ints);
    for (int i = 0; i < n; i++) assert_int_equal(ints[i], want[i]);
    return true;
  } else {
    return false;
  }
  for (int i = 0; i < n; i++) assert_int_equal(words[i], want[i]);
  return true;
}

static void seed_example(mr_prng_t k, float *got) {
  mr_prng_t sub[2];
  mr_random_split(k, 2, sub);
  mr_random_uniform(sub[0], 1, 0, 1, &got[0]);
  mr_random_uniform(sub[1], 1, 0, 1, &got[1]);
  got[2] = got[0] + 2 * got[1];
}

static bool check_floats(const char *what, mr_prng_t k, char **text, int n) {
  uint32_t want[MOST];
  float got[MOST], lo = 0, hi = 1;
  for (int i = 0; i < n; i++) want[i] = (uint32_t)strtoul(text[i], NULL, 16);
  size_t m = (size_t)n;
  if (!strncmp(what, "normal:", 7)) {
    mr_random_normal(k, m, got);
    expect_near(got, want, n);
    return true;
  }
  if (sscanf(what, "tnormal:%*d:%f:%f", &lo, &hi) == 2) {
    mr_random_truncated_normal(k, m, lo, hi, got);
    expect_near(got, want, n);
    return true;
  }
  if (!strcmp(what, "seed_example")) {
    seed_example(k, got);
  } else if (!strncmp(what, "uniform:", 8)) {
    sscanf(what, "uniform:%*d:%f:%f", &lo, &hi);
    mr_random_uniform(k, m, lo, hi, got);
  } else {
    return false;
  }
  for (int i = 0; i < n; i++) assert_int_equal(to_bits(got[i]), want[i]);
  return true;
}

static void every_row_of_jax_is_met_in_both_layouts(void **state) {
  FILE *in = vectors_open("jax_random.txt");
  char *line = NULL, *text[MOST];
  size_t cap = 0;
  while (getline(&line, &cap, in) > 0) {
    if (*line == '#') continue;
    char *save, *part = strtok_r(line, " \n", &save);
    mr_key_layout_t layout = *part == '1' ? MR_KEY_PARTITIONABLE : MR_KEY_ORIGINAL;
    mr_prng_t k = mr_prng(strtoull(strtok_r(NULL, " \n", &save), NULL, 10), layout);
    const char *what = strtok_r(NULL, " \n", &save);
    int n = 0;
    while (n < MOST && (part = strtok_r(NULL, " \n", &save))) text[n++] = part;
    if (!check_keys(what, k, text, n) && !check_integers(what, k, text, n) &&
        !check_floats(what, k, text, n))
      fail_msg("no function for the row \"%s\"", what);
    checked += n;
    rows[layout]++;
  }
  free(line);
  fclose(in);
  assert_int_equal(rows[0], rows[1]);
  assert_true(rows[0] >= 160 && checked > 3000);
}

static void an_empty_range_of_integers_gives_its_start(void **state) {
  int32_t got[3];
  mr_random_randint(mr_prng(1, MR_KEY_PARTITIONABLE), 3, 5, 5, got);
  for (int i = 0; i < 3; i++) assert_int_equal(got[i], 5);
  mr_random_randint(mr_prng(1, MR_KEY_PARTITIONABLE), 3, INT32_MIN, INT32_MAX, got);
  assert_true(got[0] != got[1]);
}

static void nothing_is_drawn_for_no_elements(void **state) {
  mr_diag_t diag = {0};
  uint32_t untouched = 7;
  mr_random_bits(mr_prng(0, MR_KEY_ORIGINAL), 0, &untouched);
  assert_int_equal(mr_random_permutation(mr_prng(0, MR_KEY_ORIGINAL), 0, &untouched, &diag), MR_OK);
  assert_int_equal(untouched, 7);
}

/* Made by tests/golden/tnormal.py: bounds far out in the tail, too. */
static FILE *open_golden(const char *name) { return vectors_open(name); }

static void truncated_normals_between_any_bounds_are_those_of_jax(void **state) {
  FILE *f = open_golden("tnormal.txt");
  char line[512];
  int rows_met = 0;
  while (vectors_line(f, line, sizeof line)) {
    uint32_t lo, hi, want[16];
    int layout, at, used;
    uint64_t seed;
    assert_int_equal(
        sscanf(line, "%d %" SCNu64 " %" SCNx32 " %" SCNx32 "%n", &layout, &seed, &lo, &hi, &at), 4);
    for (int i = 0; i < 16; i++, at += used)
      assert_int_equal(sscanf(line + at, "%" SCNx32 "%n", &want[i], &used), 1);
    float got[16];
    mr_prng_t k = mr_prng(seed, layout ? MR_KEY_PARTITIONABLE : MR_KEY_ORIGINAL);
    mr_random_truncated_normal(k, 16, from_bits(lo), from_bits(hi), got);
    expect_near(got, want, 16);
    rows_met++;
  }
  fclose(f);
  vectors_met(rows_met, 46);
}

static void erf_and_its_inverse_are_those_of_jax(void **state) {
  FILE *f = open_golden("erf.txt");
  char line[64], what[8];
  uint32_t x, y;
  int seen = 0;
  while (vectors_line(f, line, sizeof line)) {
    assert_int_equal(sscanf(line, "%7s %" SCNx32 " %" SCNx32, what, &x, &y), 3);
    float got = strcmp(what, "erf") ? mr_erfinv(from_bits(x)) : mr_erf(from_bits(x));
    if (!strcmp(what, "erf"))
      assert_int_equal(to_bits(got), y);
    else
      assert_true(got == from_bits(y) || fabsf(got / from_bits(y) - 1) <= 4 * 0x1p-23f);
    seen++;
  }
  fclose(f);
  vectors_met(seen, 399);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_of_jax_is_met_in_both_layouts),
      cmocka_unit_test(truncated_normals_between_any_bounds_are_those_of_jax),
      cmocka_unit_test(erf_and_its_inverse_are_those_of_jax),
      cmocka_unit_test(an_empty_range_of_integers_gives_its_start),
      cmocka_unit_test(nothing_is_drawn_for_no_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
