/* mp-prefetch behind interleave deals whole streams out to its workers, as grain's does. */
#include "tests/loaders/streams.h"
#include "tests/vectors.h"

/* "range 0 stop=4 ! interleave C name=i  range 100 stop=103 ! i.b ..  i. ! mp-prefetch P ! batch B"
 */
static void graph_of(const char *lengths, int cycle, int workers, int batch, char *text, size_t n) {
  size_t at = 0;
  const char *rest = lengths;
  for (int k = 0; *rest; k++) {
    int length = (int)strtol(rest, (char **)&rest, 10);
    char to[32];
    if (*rest == ',') rest++;
    snprintf(to, sizeof to, k ? "i.%c " : "interleave %d name=i ", k ? 'a' + k : cycle);
    at += (size_t)snprintf(text + at, n - at, "range %d stop=%d ! %s ", 100 * k, 100 * k + length,
                           to);
  }
  snprintf(text + at, n - at, "i. ! mp-prefetch %d ! batch %d", workers, batch);
}

static void the_order_is_grains_at_every_step(void **state) {
  FILE *f = vectors_open("interleave_workers.txt");
  char line[1024], lengths[64], text[1024];
  int cycle, workers, at, rows = 0;
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    if (*line == '#') continue;
    assert_int_equal(sscanf(line, "%d %d %63s | %n", &cycle, &workers, lengths, &at), 3);
    graph_of(lengths, cycle, workers, 1, text, sizeof text);
    stream_t all = stream_run(text);
    int n = 0;
    for (char *p = line + at, *end; *p && *p != '\n'; p = end + (*end == ' '), n++) {
      if (n >= all.n || all.element[n].value[0] != strtol(p, &end, 10))
        fail_msg("%s: record %d of %s", text, n, line);
    }
    assert_int_equal(n, all.n);
    for (int i = 0; i < all.n; i++) { /* and it resumes from any */
      stream_t rest = stream_resume(text, &all, i, true);
      assert_same_stream(text, &all, i + 1, &rest);
      stream_free(&rest);
    }
    stream_free(&all);
    rows++;
  }
  fclose(f);
  assert_true(rows >= 20);
}

static void workers_without_a_stream_are_passed_over(void **state) {
  char text[1024];
  graph_of("4,2", 2, 5, 3, text, sizeof text);
  stream_t t = stream_run(text);
  static const int64_t want[] = {0, 100, 1, 101, 2, 3};
  assert_int_equal(t.n, 2);
  assert_memory_equal(t.element[0].value, want, 24);
  assert_memory_equal(t.element[1].value, want + 3, 24);
  stream_free(&t);
}

/* Runs the batches from number i on. */
static stream_t run_from(const char *text, int64_t i) {
  mr_diag_t d = {0};
  bool found;
  stream_t t = {0};
  mr_graph_t *g = stream_graph(text);
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  assert_int_equal(mr_graph_seek(g, "batch", i, &found, &d), MR_OK);
  assert_true(found);
  stream_now = &t;
  if (mr_graph_run(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  return t;
}

/* A batch found by its number is the one of the whole run. */
static void a_step_is_found_without_those_before_it(void **state) {
  char text[1024];
  graph_of("40,23,57,9,31", 2, 3, 4, text, sizeof text);
  stream_t all = stream_run(text);
  for (int i = 0; i < all.n; i++) {
    stream_t t = run_from(text, i);
    assert_same_stream(text, &all, i, &t);
    stream_free(&t);
  }
  stream_free(&all);
}

/* Of two workers one has a stream of ten records, the other one of a thousand. */
static void a_step_is_found_behind_the_end_of_a_workers_streams(void **state) {
  char text[1024];
  graph_of("1000,10", 1, 2, 8, text, sizeof text);
  stream_t all = stream_run(text);
  assert_int_equal(all.n, 127);
  for (int i = 97; i < all.n + 3; i += 10) {
    stream_t t = run_from(text, i);
    if (i < all.n)
      assert_same_stream(text, &all, i, &t);
    else
      assert_int_equal(t.n, 0);
    stream_free(&t);
  }
  stream_free(&all);
}

static void behind_the_end_there_is_no_step(void **state) {
  char text[1024];
  for (int cycle = 1; cycle < 4; cycle++) {
    graph_of("40,9,12", cycle, 1, 4, text, sizeof text);
    stream_t all = stream_run(text);
    for (int i = all.n; i < 3 * all.n; i += all.n) {
      stream_t t = run_from(text, i);
      assert_int_equal(t.n, 0);
      stream_free(&t);
    }
    stream_free(&all);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_order_is_grains_at_every_step),
      cmocka_unit_test(workers_without_a_stream_are_passed_over),
      cmocka_unit_test(a_step_is_found_without_those_before_it),
      cmocka_unit_test(a_step_is_found_behind_the_end_of_a_workers_streams),
      cmocka_unit_test(behind_the_end_there_is_no_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
