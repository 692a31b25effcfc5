#include <inttypes.h>

#include "base/philox.h"
#include "tests/vectors.h"

typedef unsigned __int128 u128;

static uint64_t bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static u128 big(const char *s) {
  u128 v = 0;
  for (; *s >= '0' && *s <= '9'; s++) v = v * 10 + (u128)(*s - '0');
  return v;
}

/* Value k of a row of kind what; false where the kind is not this generator's. */
static int expect(mr_philox_t *g, const char *what, int k, const char *text) {
  int64_t lo, hi;
  uint64_t hex = strtoull(text, NULL, 16);
  if (!strcmp(what, "raw")) return mr_philox_next64(g) == hex;
  if (!strcmp(what, "raw32")) return mr_philox_next32(g) == strtoull(text, NULL, 10);
  if (!strcmp(what, "random")) return bits(mr_philox_random(g)) == hex;
  if (!strcmp(what, "uniform")) return bits(mr_philox_uniform(g, -3.0, 5.5)) == hex;
  if (!strcmp(what, "mixed")) {
    if (k == 1) return bits(mr_philox_random(g)) == hex;
    if (k == 3) return bits(mr_philox_uniform(g, 0, 1)) == hex;
    return mr_philox_integers(g, 0, 10) == strtoll(text, NULL, 10);
  }
  if (sscanf(what, "int:%" SCNd64 ":%" SCNd64, &lo, &hi) == 2 ||
      sscanf(what, "arr:%" SCNd64 ":%" SCNd64, &lo, &hi) == 2)
    return mr_philox_integers(g, lo, hi) == strtoll(text, NULL, 10);
  fail_msg("unknown kind %s", what);
  return 0;
}

static int other_kind(const char *what) {
  return !strncmp(what, "perm", 4) || !strcmp(what, "normal") || !strcmp(what, "randomf");
}

static void draws_match_numpy(void **state) {
  FILE *f = vectors_open("philox.txt");
  char line[4096];
  int checked = 0;
  while (vectors_line(f, line, sizeof line)) {
    char *key = strtok(line, " "), *what = strtok(NULL, " "), *text;
    if (other_kind(what)) continue;
    mr_philox_t g;
    mr_philox_init(&g, (uint64_t)big(key), (uint64_t)(big(key) >> 64));
    for (int k = 0; (text = strtok(NULL, " ")); k++, checked++)
      if (!expect(&g, what, k, text)) fail_msg("key %s %s value %d: want %s", key, what, k, text);
  }
  fclose(f);
  vectors_met(checked, 1001);
}

static void a_range_of_one_draws_nothing(void **state) {
  mr_philox_t g;
  mr_philox_init(&g, 12, 0);
  assert_int_equal(mr_philox_integers(&g, 7, 8), 7);
  assert_int_equal(g.at, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(draws_match_numpy),
      cmocka_unit_test(a_range_of_one_draws_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
