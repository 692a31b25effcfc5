/* jax.random against the vectors of golden/jax_random.txt, partitionable rows. */
#include <inttypes.h>
#include <math.h>

#include "base/erf.h"
#include "base/threefry.h"
#include "tests/vectors.h"

static float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static void expect_near(float got, uint32_t want_bits) {
  float want = from_bits(want_bits);
  float ulp = nextafterf(fabsf(want), INFINITY) - fabsf(want);
  if (fabsf(got - want) > 4 * ulp + 1e-7f) fail_msg("got %.9g, want %.9g", got, want);
}

/* One value of a row: its text is compared with what key gives for element i. */
static int check_value(const char *what, mr_key_t key, uint64_t i, const char *text) {
  uint32_t a, b;
  if (!strncmp(what, "split:", 6) || !strncmp(what, "fold_in:", 8) || !strcmp(what, "key")) {
    assert_int_equal(sscanf(text, "%" SCNu32 ",%" SCNu32, &a, &b), 2);
    mr_key_t k = key;
    if (what[0] == 's') k = mr_key_split(key, i);
    if (what[0] == 'f') k = mr_key_fold_in(key, (uint32_t)strtoul(what + 8, NULL, 10));
    assert_int_equal(k.a, a);
    assert_int_equal(k.b, b);
  } else if (!strncmp(what, "bits:", 5)) {
    assert_int_equal(mr_key_bits(key, i), (uint32_t)strtoul(text, NULL, 10));
  } else if (!strncmp(what, "uniform:", 8)) {
    float lo = 0, hi = 1, got;
    sscanf(what, "uniform:%*d:%f:%f", &lo, &hi);
    got = mr_key_uniform(key, i, lo, hi);
    memcpy(&a, &got, sizeof a);
    assert_int_equal(a, (uint32_t)strtoul(text, NULL, 16));
  } else if (!strncmp(what, "normal:", 7)) {
    expect_near(mr_key_normal(key, i), (uint32_t)strtoul(text, NULL, 16));
  } else if (!strncmp(what, "tnormal:", 8)) {
    mr_truncated_t cut = mr_truncated(-2, 2);
    expect_near(mr_key_truncated_normal(key, i, &cut), (uint32_t)strtoul(text, NULL, 16));
  } else {
    return 0; /* not offered here */
  }
  return 1;
}

static void random_numbers_equal_those_of_jax(void **state) {
  FILE *in = vectors_open("jax_random.txt");
  char *line = NULL;
  size_t cap = 0;
  int checked = 0;
  while (getline(&line, &cap, in) > 0) {
    char *save, *part = strtok_r(line, " \n", &save);
    if (!part || strcmp(part, "1")) continue;
    mr_key_t key = mr_key((uint64_t)strtoll(strtok_r(NULL, " \n", &save), NULL, 10));
    const char *what = strtok_r(NULL, " \n", &save);
    for (uint64_t i = 0; (part = strtok_r(NULL, " \n", &save)); i++)
      checked += check_value(what, key, i, part);
  }
  free(line);
  fclose(in);
  vectors_met(checked, 301);
}

static void the_inverse_of_erf_is_one(void **state) {
  for (float x = -0.999f; x < 1; x += 0.0137f) assert_true(fabsf(mr_erf(mr_erfinv(x)) - x) < 4e-7f);
  assert_true(isinf(mr_erfinv(1)) && mr_erfinv(-1) < 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_numbers_equal_those_of_jax),
                                     cmocka_unit_test(the_inverse_of_erf_is_one)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
