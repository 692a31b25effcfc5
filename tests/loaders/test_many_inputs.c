/* Stages that join streams take thousands: in the order of linking or by letters, with weights by
   place or name, in the order that a plain evaluation gives, and resumed at any batch. */
#include "base/philox.h"
#include "tests/loaders/streams.h"

#include "tests/graph_text.h" /* after cmocka.h */

enum { RECORDS = 1000 /* of each source */, BATCH = 97 };

/* Source i gives i * RECORDS + k for k in [0,RECORDS). */
static void add_sources(int n) {
  for (int i = 0; i < n; i++)
    add_text("range %d stop=%d name=s%d ! m.\n", i * RECORDS, (i + 1) * RECORDS, i);
}

/* ---- the order of a mix ---- */

/* grain's order, plainly: record k is of the first input whose share of k + 1 records is another
   than of k, where each input takes its part of what those before it leave. */
static int64_t plainly(const int64_t *share, int n, int64_t k) {
  __int128 left = 0, a = k, b = (__int128)k + 1;
  for (int i = 0; i < n; i++) left += share[i];
  for (int i = 0; i < n; i++) {
    __int128 na = a * (left - share[i]) / left, nb = b * (left - share[i]) / left;
    if (a - na != b - nb) return (int64_t)i * RECORDS + (int64_t)(b - nb - 1);
    left -= share[i], a = na, b = nb;
  }
  fail_msg("record %lld is of no input", (long long)k);
  return -1;
}

/* Weights w of [1,9], drawn; the smallest counts 100. */
static void draw_weights(int n, int64_t *share) {
  mr_philox_t rng;
  mr_philox_init(&rng, 41, 7);
  for (int i = 0; i < n; i++) share[i] = 100 * (int64_t)mr_philox_integers(&rng, 1, 10);
  share[n / 2] = 100;
}

static void a_mix_of_thousands_has_the_order_of_a_plain_evaluation(void **state) {
  static const int sizes[] = {9, 27, 703, 4000};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    int n = sizes[k];
    int64_t *share = calloc((size_t)n, sizeof *share), at = 0;
    draw_weights(n, share);
    n_text = 0;
    add_sources(n);
    add_text("mix name=m weights=");
    for (int i = 0; i < n; i++) add_text("%s%d", i ? "," : "", (int)share[i] / 100);
    add_text(" ! limit 9000 ! batch %d", BATCH);
    stream_t t = stream_run(text);
    for (int i = 0; i < t.n; i++)
      for (int r = 0; r < t.element[i].n; r++, at++)
        if (t.element[i].value[r] != plainly(share, n, at))
          fail_msg("%d inputs: record %lld is %lld, want %lld", n, (long long)at,
                   (long long)t.element[i].value[r], (long long)plainly(share, n, at));
    assert_int_equal(at, n > 9 ? 9000 : at);
    assert_true(at > 1000);
    for (int from = 0; from < t.n - 1; from += t.n / 3 + 1) {
      stream_t rest = stream_resume(text, &t, from, true);
      assert_int_equal(rest.n, t.n - 1 - from);
      for (int i = 0; i < rest.n; i++)
        assert_true(same_element(&rest.element[i], &t.element[from + 1 + i]));
      stream_free(&rest);
    }
    stream_free(&t), free(share);
  }
}

/* ---- names ---- */

static void names_of_inputs_continue_the_alphabet(void **state) {
  static const struct {
    int i;
    const char *name;
  } row[] = {{0, "a"},   {7, "h"},    {25, "z"},    {26, "aa"},
             {51, "az"}, {701, "zz"}, {702, "aaa"}, {MR_INPUTS_MAX - 1, "fan"}};
  char name[MR_INPUT_LETTERS];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_string_equal(mr_input_letters(row[i].i, name), row[i].name);
}

static void expect_alike(const char *one, const char *other) {
  stream_t a = stream_run(one), b = stream_run(other);
  assert_true(a.n > 0);
  assert_int_equal(a.n, b.n);
  for (int i = 0; i < a.n; i++) assert_true(same_element(&a.element[i], &b.element[i]));
  stream_free(&a), stream_free(&b);
}

/* With input letters in the reverse order of the text, and weights by the names of either. */
static void inputs_are_linked_and_weighed_by_name(void **state) {
  enum { N = 40 };
  static const char *const way[] = {"letters", "stages"};
  char *by_place, name[MR_INPUT_LETTERS];
  n_text = 0;
  add_sources(N);
  add_text("mix name=m weights=");
  for (int i = 0; i < N; i++) add_text("%s%d", i ? "," : "", 1 + i % 7);
  add_text(" ! limit 2000 ! batch %d", BATCH);
  by_place = strdup(text);
  for (size_t w = 0; w < sizeof way / sizeof *way; w++) {
    n_text = 0;
    for (int i = N - 1; i >= 0; i--)
      add_text("range %d stop=%d name=s%d ! m.%s\n", i * RECORDS, (i + 1) * RECORDS, i,
               mr_input_letters(i, name));
    add_text("mix name=m weights=");
    for (int k = 0; k < N; k++) {
      int i = (k * 9 + 5) % N;
      if (w)
        add_text("%ss%d:%d", k ? "," : "", i, 1 + i % 7);
      else
        add_text("%s%s:%d", k ? "," : "", mr_input_letters(i, name), 1 + i % 7);
    }
    add_text(" ! limit 2000 ! batch %d", BATCH);
    expect_alike(by_place, text);
  }
  free(by_place);
}

static void expect_refused(const char *weights, const char *sentence) {
  mr_diag_t diag = {0};
  n_text = 0;
  add_sources(3);
  add_text("mix name=m weights=%s ! batch 4", weights);
  mr_graph_t *g = stream_graph(text);
  assert_true(mr_graph_settle(g, &diag) < 0);
  if (!strstr(diag.text, sentence)) fail_msg("%s: %s", weights, diag.text);
  mr_graph_destroy(g);
}

static void weights_with_wrong_names_are_refused_by_name(void **state) {
  expect_refused("a:1,b:2,s9:3", "\"s9\" is no input");
  expect_refused("a:1,b:2,a:3", "want 3 numbers");
  expect_refused("a:1,b:2", "want 3 numbers");
  expect_refused("1,2,c:3", "want 3 numbers");
  expect_refused("a:1,2,c:3", "want 3 numbers");
  expect_refused("a:1,b:0,c:3", "want 3 numbers");
}

/* In a graph where b is the letter of one input and the name of the stage of the other. */
static void a_name_that_means_two_inputs_is_refused(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = stream_graph(
      "range 9 name=b ! m.a range 9 name=x ! m.b mix name=m weights=a:9,b:1 ! batch 4");
  assert_true(mr_graph_settle(g, &diag) < 0);
  if (!strstr(diag.text, "\"b\" is no input")) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

static void an_endless_input_is_named(void **state) {
  static const char *const graph[] = {
      "range 9 ! repeat 0 ! m. range 9 ! m. concatenate name=m ! batch 4",
      "range 9 ! m. range 9 ! repeat 0 ! m. concatenate name=m ! batch 4"};
  for (int i = 0; i < 2; i++) {
    mr_diag_t diag = {0};
    mr_graph_t *g = stream_graph(graph[i]);
    assert_true(mr_graph_settle(g, &diag) < 0);
    if (!strstr(diag.text, i ? "input b has" : "input a has") || !strstr(diag.text, "never ends"))
      fail_msg("%s", diag.text);
    mr_graph_destroy(g);
  }
}

/* A link to a letter leaves the inputs before it free. */
static void an_input_that_is_left_out_is_named(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g =
      stream_graph("range 9 ! m.a range 9 ! m.b range 9 ! m.ab concatenate name=m ! batch 4");
  assert_true(mr_graph_settle(g, &diag) < 0);
  if (!strstr(diag.text, "input ab is connected, but c is not")) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
}

/* ---- the other stages ---- */

static void streams_of_hundreds_follow_one_another_and_stand_side_by_side(void **state) {
  enum { N = 300, SLOTS = 200 };
  n_text = 0;
  add_sources(N);
  add_text("concatenate name=m ! slice 0:%d:%d ! batch %d", N * RECORDS, RECORDS / 4, 4 * N);
  stream_t t = stream_run(text);
  assert_int_equal(t.n, 1);
  assert_int_equal(t.element[0].n, 4 * N);
  for (int64_t i = 0; i < 4 * N; i++) assert_int_equal(t.element[0].value[i], i * RECORDS / 4);
  stream_free(&t);
  n_text = 0;
  add_sources(N);
  add_text("zip name=m ! batch 10");
  t = stream_run(text);
  assert_int_equal(t.n, RECORDS / 10);
  assert_int_equal(t.element[3].width, N);
  for (int64_t i = 0; i < N; i++) assert_int_equal(t.element[3].value[i], i * RECORDS + 30);
  stream_free(&t);
  n_text = 0;
  add_sources(SLOTS);
  add_text("interleave %d name=m ! batch %d", SLOTS, SLOTS);
  t = stream_run(text);
  assert_int_equal(t.n, RECORDS);
  for (int64_t i = 0; i < SLOTS; i++) assert_int_equal(t.element[5].value[i], i * RECORDS + 5);
  stream_t rest = stream_resume(text, &t, 7, true);
  assert_int_equal(rest.n, t.n - 8);
  assert_true(same_element(&rest.element[0], &t.element[8]));
  stream_free(&rest), stream_free(&t);
}

/* ---- the state of an interleave ---- */

static void interleave_text(int cycle, int inputs) {
  n_text = 0;
  add_sources(inputs);
  add_text("interleave %d name=m ! batch %d", cycle, BATCH);
}

/* What a run says that resumes the graph in text after batch `from` of an earlier one. */
static mr_err_t resume_says(const stream_t *earlier, int from, stream_t *rest, mr_diag_t *diag) {
  const element_t *x = &earlier->element[from];
  mr_graph_t *g = stream_graph(text);
  mr_err_t e = mr_graph_start_words(g, "batch", x->position, x->word, earlier->n_words, diag);
  stream_now = rest;
  if (e >= 0) e = mr_graph_run(g, diag);
  mr_graph_destroy(g);
  return e;
}

/* Both shapes have states of as many numbers. */
static void a_state_of_another_interleave_is_refused(void **state) {
  static const struct {
    int cycle[2], inputs[2];
    const char *sentence;
  } row[] = {
      {{9, 10}, {11, 10}, "the saved state is of cycle-length=9, and this stage has 10 of 10"},
      {{10, 9}, {10, 11}, "the saved state is of cycle-length=10, and this stage has 9 of 11"},
      {{9, 8}, {11, 12}, "the saved state is of cycle-length=9, and this stage has 8 of 12"},
      {{8, 9},
       {12, 11},
       "the saved state is of cycle-length=8 or less, and this stage has 9 of 11"},
      {{8, 4}, {12, 12}, "has 4 open streams beyond the 4 of cycle-length"},
      {{40, 30}, {60, 70}, "the saved state is of cycle-length=40"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_diag_t diag = {0};
    stream_t rest = {0};
    interleave_text(row[i].cycle[0], row[i].inputs[0]);
    stream_t t = stream_run(text);
    interleave_text(row[i].cycle[1], row[i].inputs[1]);
    if (resume_says(&t, 5, &rest, &diag) >= 0 || !strstr(diag.text, row[i].sentence))
      fail_msg("row %zu: %d batches, %s", i, rest.n, diag.text);
    assert_int_equal(rest.n, 0);
    stream_free(&rest), stream_free(&t);
  }
}

/* A longer cycle within the slots of a state gives each record once. */
static void a_longer_cycle_loses_and_repeats_no_record(void **state) {
  enum { N = 12, FROM = 5 };
  static char seen[N * RECORDS];
  mr_diag_t diag = {0};
  stream_t rest = {0};
  memset(seen, 0, sizeof seen);
  interleave_text(4, N);
  stream_t t = stream_run(text);
  interleave_text(8, N);
  if (resume_says(&t, FROM, &rest, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i <= FROM; i++)
    for (int k = 0; k < t.element[i].n; k++) seen[t.element[i].value[k]]++;
  for (int i = 0; i < rest.n; i++)
    for (int k = 0; k < rest.element[i].n; k++) seen[rest.element[i].value[k]]++;
  for (int i = 0; i < N * RECORDS; i++) assert_int_equal(seen[i], 1);
  stream_free(&rest), stream_free(&t);
}

/* As docs/limits.md says: two numbers, one a slot and one an input. */
static void an_interleave_of_more_than_its_state_holds_is_refused(void **state) {
  for (int over = 0; over <= 1; over++) {
    mr_diag_t diag = {0};
    int inputs = MR_STREAM_WORDS_MAX - 2 - 16 + over;
    interleave_text(16, inputs);
    mr_graph_t *g = stream_graph(text);
    mr_err_t e = mr_graph_settle(g, &diag);
    if (over ? e >= 0 || !strstr(diag.text, "has 511 numbers, want at most 510") : e < 0)
      fail_msg("%d inputs: %s", inputs, diag.text);
    mr_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mix_of_thousands_has_the_order_of_a_plain_evaluation),
      cmocka_unit_test(names_of_inputs_continue_the_alphabet),
      cmocka_unit_test(inputs_are_linked_and_weighed_by_name),
      cmocka_unit_test(weights_with_wrong_names_are_refused_by_name),
      cmocka_unit_test(a_name_that_means_two_inputs_is_refused),
      cmocka_unit_test(an_endless_input_is_named),
      cmocka_unit_test(an_input_that_is_left_out_is_named),
      cmocka_unit_test(streams_of_hundreds_follow_one_another_and_stand_side_by_side),
      cmocka_unit_test(a_state_of_another_interleave_is_refused),
      cmocka_unit_test(a_longer_cycle_loses_and_repeats_no_record),
      cmocka_unit_test(an_interleave_of_more_than_its_state_holds_is_refused),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(text);
  return failed;
}
