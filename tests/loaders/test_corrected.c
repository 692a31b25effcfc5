/* grain's oddities, one by one: there by default, gone with the option that is named after it, and
   nothing moves where the oddity does not show. */
#include "base/machine.h"
#include "pipeline/run/memory.h"
#include "tests/loaders/streams.h"

static size_t machine_bytes; /* that the machine says it has; 0: its own */
size_t __real_mr_machine_memory(void);
size_t __wrap_mr_machine_memory(void);

size_t __wrap_mr_machine_memory(void) {
  return machine_bytes ? machine_bytes : __real_mr_machine_memory();
}

/* All numbers of a stream in one row, -1 behind them; the caller frees it. */
static int64_t *values_of(const char *text, int64_t *n) {
  mr_diag_t d = {0};
  stream_t t = {0};
  stream_now = &t;
  mr_graph_t *g = stream_graph(text);
  if (mr_graph_run(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  *n = 0;
  for (int i = 0; i < t.n; i++) *n += t.element[i].n;
  int64_t *all = malloc((size_t)(*n + 1) * sizeof *all), at = 0;
  for (int i = 0; i < t.n; i++)
    for (int k = 0; k < t.element[i].n; k++) all[at++] = t.element[i].value[k];
  all[at] = -1;
  stream_free(&t);
  return all;
}

/* How many of the numbers [lo,hi) come exactly once in the row. */
static int64_t come_once(const int64_t *row, int64_t n, int64_t lo, int64_t hi) {
  uint8_t *seen = calloc((size_t)(hi - lo), 1);
  int64_t once = 0;
  for (int64_t i = 0; i < n; i++)
    if (row[i] >= lo && row[i] < hi && seen[row[i] - lo] < 2) seen[row[i] - lo]++;
  for (int64_t i = 0; i < hi - lo; i++) once += seen[i] == 1;
  free(seen);
  return once;
}

static void expect_alike(const char *one, const char *other) {
  int64_t n, m, *a = values_of(one, &n), *b = values_of(other, &m);
  if (n != m || memcmp(a, b, (size_t)n * sizeof *a)) fail_msg("%s and %s differ", one, other);
  free(a), free(b);
}

static void a_shuffle_of_4_to_the_k_and_one_gives_all_when_bijective(void **state) {
  int64_t n, *row = values_of("range 65537 ! shuffle seed=12 ! batch 4096", &n);
  assert_int_equal(n, 65537);
  assert_int_equal(come_once(row, n, 0, 65537), 65535); /* one twice, one never */
  assert_int_equal(come_once(row, n, 65536, 65537), 0);
  free(row);
  row = values_of("range 65537 ! shuffle seed=12 bijective ! batch 4096", &n);
  assert_int_equal(n, 65537);
  assert_int_equal(come_once(row, n, 0, 65537), 65537);
  free(row);
  expect_alike("range 65536 ! shuffle seed=12 ! batch 4096",
               "range 65536 ! shuffle seed=12 bijective ! batch 4096");
  expect_alike("range 1000 ! shuffle seed=3 epochs=3 ! batch 64",
               "range 1000 ! shuffle seed=3 epochs=3 bijective ! batch 64");
}

/* Of 10 records shard 0 of 3 has 0..3, shard 1 4..6, shard 2 7..9. */
static void whole_shards_give_each_of_their_records_every_epoch(void **state) {
  static const int64_t first[] = {0, 4, 7, 10};
  char text[128];
  int64_t n, *row;
  row = values_of("range 10 ! shuffle seed=2 shard=0/3 ! batch 4", &n);
  assert_int_equal(n, 3); /* grain's: one record stays out */
  free(row);
  for (int shard = 0; shard < 3; shard++) {
    int64_t lo = first[shard], hi = first[shard + 1];
    snprintf(text, sizeof text,
             "range 10 ! shuffle seed=2 shard=%d/3 epochs=4 whole-shards ! batch 4", shard);
    row = values_of(text, &n);
    assert_int_equal(n, 4 * (hi - lo));
    for (int epoch = 0; epoch < 4; epoch++)
      assert_int_equal(come_once(row + epoch * (hi - lo), hi - lo, lo, hi), hi - lo);
    free(row);
  }
  expect_alike("range 12 ! shuffle seed=2 shard=1/3 epochs=5 ! batch 4",
               "range 12 ! shuffle seed=2 shard=1/3 epochs=5 whole-shards ! batch 4");
}

static void whole_strided_shards_too(void **state) {
  int64_t n, *row = values_of("range 10 ! sequential shard=0/3 epochs=2 ! batch 4", &n);
  assert_int_equal(n, 6); /* grain's: 20 positions over three shards */
  free(row);
  row = values_of("range 10 ! sequential shard=0/3 epochs=2 whole-shards ! batch 4", &n);
  static const int64_t want[] = {0, 3, 6, 9, 0, 3, 6, 9};
  assert_int_equal(n, 8);
  assert_memory_equal(row, want, sizeof want);
  free(row);
  expect_alike("range 12 ! sequential shard=2/3 epochs=2 ! batch 3",
               "range 12 ! sequential shard=2/3 epochs=2 whole-shards ! batch 3");
}

static void a_short_window_stays_within_its_epoch(void **state) {
  int64_t n, *row = values_of("range 10 epochs=3 ! window-shuffle 4 seed=5 ! batch 10", &n);
  assert_int_equal(n, 30);
  int64_t kept = 0;
  for (int e = 0; e < 3; e++) kept += come_once(row + 10 * e, 10, 0, 10);
  assert_true(kept < 30); /* grain's: some twice, some never */
  free(row);
  row = values_of("range 10 epochs=3 ! window-shuffle 4 seed=5 within-epoch ! batch 10", &n);
  assert_int_equal(n, 30);
  for (int e = 0; e < 3; e++) {
    assert_int_equal(come_once(row + 10 * e, 4, 0, 4), 4);
    assert_int_equal(come_once(row + 10 * e + 4, 4, 4, 8), 4);
    assert_int_equal(come_once(row + 10 * e + 8, 2, 8, 10), 2);
  }
  assert_memory_not_equal(row, row + 10, 80);
  free(row);
  expect_alike("range 12 epochs=3 ! window-shuffle 4 seed=5 ! batch 6",
               "range 12 epochs=3 ! window-shuffle 4 seed=5 within-epoch ! batch 6");
}

static void a_window_that_has_no_room_is_refused_before_the_run(void **state) {
  static const struct {
    const char *text;
    bool fits;
  } tries[] = {{"range 2000000 ! to-iter-dataset ! window-shuffle 1000000 seed=1 ! batch 4", true},
               {"range 2000000 ! to-iter-dataset ! window-shuffle 1100000 seed=1 ! batch 4", false},
               {"range 1000 ! to-iter-dataset ! window-shuffle 1000000000 seed=1 ! batch 4", true},
               {"range 2000000 ! window-shuffle 2000000 seed=1 ! batch 4", true},
               {"range 1000000000 ! batch 65536 workers=64", true}}; /* pools need not fill */
  machine_bytes = 40000000;                                          /* 38 bytes a record */
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    mr_stage_memory_t row[8];
    size_t total;
    mr_diag_t d = {0};
    mr_graph_t *g = stream_graph(tries[i].text);
    assert_int_equal(mr_graph_settle(g, &d), MR_OK);
    assert_int_equal(mr_graph_memory(g, true, row, &total, &d), MR_OK);
    mr_err_t e = mr_graph_memory_check(g, row, &d);
    if (e != (tries[i].fits ? MR_OK : MR_ERR_NOMEM)) fail_msg("%s: %s", tries[i].text, d.text);
    if (!tries[i].fits) assert_int_equal(mr_graph_run(g, &d), MR_ERR_NOMEM);
    if (!tries[i].fits && !strstr(d.text, "want a smaller window-size")) fail_msg("%s", d.text);
    mr_graph_destroy(g);
  }
  machine_bytes = 0;
}

static void the_seed_of_a_window_wraps_with_wrap_seed(void **state) {
  mr_diag_t d = {0};
  int64_t n, m, *row, *rest;
  stream_t t = {0};
  stream_now = &t;
  mr_graph_t *g = stream_graph("range 12 ! window-shuffle 4 seed=4294967295 ! batch 4");
  assert_int_equal(mr_graph_run(g, &d), MR_ERR_CONFIG);
  assert_non_null(strstr(d.text, "4294967296, want at most 2^32-1; wrap-seed continues from 0"));
  mr_graph_destroy(g);
  stream_free(&t);
  row = values_of("range 12 ! window-shuffle 4 seed=4294967295 wrap-seed ! batch 4", &n);
  rest = values_of("range 4 stop=12 ! window-shuffle 4 seed=0 ! batch 4", &m);
  assert_int_equal(n, 12);
  assert_int_equal(m, 8);
  assert_memory_equal(row + 4, rest, 64);
  free(row), free(rest);
  expect_alike("range 12 ! to-iter-dataset ! window-shuffle 5 seed=7 ! batch 4",
               "range 12 ! to-iter-dataset ! window-shuffle 5 seed=7 wrap-seed ! batch 4");
}

static void a_window_of_4_to_the_k_and_one_gives_all_when_bijective(void **state) {
  int64_t n, *row = values_of("range 65537 ! window-shuffle 65537 seed=3 ! batch 4096", &n);
  assert_int_equal(come_once(row, n, 0, 65537), 65535);
  free(row);
  row = values_of("range 65537 ! window-shuffle 65537 seed=3 bijective ! batch 4096", &n);
  assert_int_equal(come_once(row, n, 0, 65537), 65537);
  free(row);
}

static int64_t below(const int64_t *row, int64_t n, int64_t limit) {
  int64_t k = 0;
  for (int64_t i = 0; i < n; i++) k += row[i] < limit;
  return k;
}

static void a_mix_takes_the_weights_as_they_are_when_exact(void **state) {
#define MIX(w) "range 7000 ! mix weights=" w " name=m range 10000 stop=13000 ! m.b m. ! batch 1000"
  int64_t n, *row = values_of(MIX("7,3"), &n);
  assert_int_equal(below(row, 9990, 10000), 6990); /* grain's: 233 of 333 */
  free(row);
  row = values_of(MIX("7,3 exact"), &n);
  assert_int_equal(n, 10000);
  for (int64_t i = 0; i < n; i += 10) assert_int_equal(below(row + i, 10, 10000), 7);
  assert_int_equal(come_once(row, n, 0, 13000), 10000); /* none twice */
  free(row);
  expect_alike(MIX("7,3 exact"), MIX("0.7,0.3 exact"));
  expect_alike(MIX("7,3 exact"), MIX("1400,600 exact"));
  expect_alike(MIX("1,1"), MIX("1,1 exact"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shuffle_of_4_to_the_k_and_one_gives_all_when_bijective),
      cmocka_unit_test(whole_shards_give_each_of_their_records_every_epoch),
      cmocka_unit_test(whole_strided_shards_too),
      cmocka_unit_test(a_short_window_stays_within_its_epoch),
      cmocka_unit_test(a_window_that_has_no_room_is_refused_before_the_run),
      cmocka_unit_test(the_seed_of_a_window_wraps_with_wrap_seed),
      cmocka_unit_test(a_window_of_4_to_the_k_and_one_gives_all_when_bijective),
      cmocka_unit_test(a_mix_takes_the_weights_as_they_are_when_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
