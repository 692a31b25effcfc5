/* Streams that hold no record: those without an end fail with a sentence, and the others end with
   one, whatever stages stand between the filter and the batch. */
#include "tests/loaders/streams.h"

static mr_diag_t why;

static mr_err_t run(mr_graph_t *g) {
  static stream_t t;
  stream_free(&t);
  stream_now = &t;
  why = (mr_diag_t){0};
  mr_err_t e = mr_graph_run(g, &why);
  if (e >= 0 && t.n) fail_msg("%d batches, want none", t.n);
  stream_free(&t);
  return e;
}

static void expect_failure(const char *text, mr_err_t code, const char *says) {
  mr_graph_t *g = stream_graph(text);
  mr_err_t e = run(g);
  if (e != code || !strstr(why.text, says))
    fail_msg("%s: %d \"%s\", want %d \"...%s...\"", text, e, why.text, code, says);
  mr_graph_destroy(g);
}

#define NONE "filter name=f key=90:99"
#define BESIDE " ! m.b m. ! batch 4"

static void an_endless_stream_without_records_fails(void **state) {
  static const char *const text[] = {
      "range 30 ! " NONE " ! repeat ! batch 4",
      "range 30 ! " NONE " ! shuffle seed=1 epochs=0 ! batch 4",
      "range 30 epochs=0 ! " NONE " ! batch 4 workers=3",
      "range 30 epochs=0 ! " NONE " ! batch 4 across-epochs",
      "range 30 epochs=1000000000 ! " NONE " ! batch 4",
      "range 30 ! " NONE " ! repeat ! batch 4 order=grain-workers loader-workers=3",
      "range 30 ! " NONE " ! repeat ! mp-prefetch 2 ! batch 4",
      "range 30 ! " NONE " ! repeat ! window-shuffle 4 seed=1 ! batch 4",
      "range 30 ! " NONE
      " ! repeat ! to-iter-dataset ! window-shuffle 4 seed=1 wrap-seed ! batch 4",
      "range 30 ! " NONE " ! repeat ! to-iter-dataset ! limit 5 ! batch 4",
      "range 30 ! " NONE " ! repeat ! slice ::2 ! batch 4",
      "range 30 ! " NONE " ! random-map seed=1 ! repeat ! batch 4",
      "range 30 ! to-iter-dataset ! repeat ! " NONE " ! batch 4",
      "range 30 epochs=0 ! to-iter-dataset ! " NONE " ! batch 4",
      "range 30 ! " NONE " ! repeat ! mix name=m range 30 ! filter p=0 ! repeat" BESIDE,
      "range 30 ! " NONE " ! repeat ! interleave 2 name=m range 30 ! filter p=0 ! repeat" BESIDE,
      "range 30 ! " NONE " ! shuffle epochs=0 ! zip name=m range 30 ! shuffle epochs=0" BESIDE,
      "range 30 ! affine mul=3 ! keep-if name=f ! repeat ! batch 4",
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    expect_failure(text[i], MR_ERR_DATA, "\"f\" removed all of them");
}

static void an_epoch_too_short_for_a_batch_fails_where_it_comes_for_ever(void **state) {
  expect_failure("range 30 epochs=0 ! filter key=0:2 ! batch 4 drop-remainder", MR_ERR_DATA,
                 "an epoch has only 3 records, and drop-remainder drops them");
  expect_failure("range 3 epochs=0 ! batch 4 drop-remainder", MR_ERR_CONFIG, "only 3 records");
}

static char *report(const char *text) {
  char *said = NULL;
  size_t n;
  FILE *f = open_memstream(&said, &n);
  mr_graph_t *g = stream_graph(text);
  if (run(g) < 0) fail_msg("%s: %s", text, why.text);
  mr_graph_report(g, f);
  fclose(f);
  mr_graph_destroy(g);
  return said;
}

static void a_stream_that_ends_without_a_batch_says_why(void **state) {
  static const char *const text[][2] = {
      {"range 30 epochs=3 ! " NONE " ! batch 4", "removed every record"},
      {"range 30 ! " NONE " ! to-iter-dataset ! repeat ! batch 4 workers=3", "removed every"},
      {"range 30 ! " NONE " ! concatenate name=m range 9 ! filter p=0" BESIDE, "removed every"},
      {"range 30 ! filter key=0:2 ! batch 4 drop-remainder", "3 records are fewer than a batch"},
      {"range 3 ! batch 4 ! rebatch 8 drop-remainder", "3 records are fewer than a batch of 8"},
  };
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    char *said = report(text[i][0]);
    if (!strstr(said, "gave nothing: ") || !strstr(said, text[i][1]))
      fail_msg("%s: \"%s\", want \"...%s...\"", text[i][0], said, text[i][1]);
    free(said);
  }
  char *said = report("range 0 stop=30 ! filter p=0 ! batch 4 ! rebatch 3");
  assert_non_null(strstr(said, "gave nothing"));
  free(said);
}

/* A record in one of a hundred epochs is still found. */
static void rare_records_are_waited_for(void **state) {
  stream_t t = stream_run(
      "range 100 ! shuffle seed=1 epochs=0 ! slice 0:1 ! filter key=0:9 ! to-iter-dataset ! "
      "limit 20 ! batch 20");
  assert_int_equal(t.n, 1);
  assert_int_equal(t.element[0].n, 20);
  stream_free(&t);
}

/* Of two parts of a shuffled stream each has the only record in every second epoch. */
static void parts_of_an_order_wait_for_their_turn(void **state) {
  stream_t t = stream_run(
      "range 30 ! filter key=7:7 ! shuffle seed=1 epochs=200 ! mp-prefetch 2 ! batch 300");
  assert_int_equal(t.n, 1);
  assert_int_equal(t.element[0].n, 200);
  stream_free(&t);
}

static void seeking_in_an_empty_stream_fails_too(void **state) {
  static const int64_t number[] = {1, 1000, INT64_C(1) << 40};
  for (int i = 0; i < 3; i++) {
    mr_diag_t d = {0};
    bool found;
    mr_graph_t *g = stream_graph("range 30 ! " NONE " ! repeat ! batch 4");
    assert_int_equal(mr_graph_settle(g, &d), MR_OK);
    assert_int_equal(mr_graph_seek(g, "batch", number[i], &found, &d), MR_OK);
    assert_int_equal(run(g), MR_ERR_DATA);
    mr_graph_destroy(g);
  }
}

static void a_label_that_the_data_lack_is_refused(void **state) {
  expect_failure("synthetic n=64 ! filter 99 ! repeat ! batch 4", MR_ERR_CONFIG,
                 "no record has the label 99, since the data set synthetic has the classes 0 to 9");
  expect_failure("synthetic n=64 ! filter 3,-1 ! shuffle ! batch 4", MR_ERR_CONFIG, "label -1");
  expect_failure("synthetic n=64 ! filter 10 ! concatenate name=m synthetic n=9" BESIDE,
                 MR_ERR_CONFIG, "label 10");
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph("range 30 ! filter 25 ! batch 4"); /* nothing is known of these */
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_endless_stream_without_records_fails),
      cmocka_unit_test(an_epoch_too_short_for_a_batch_fails_where_it_comes_for_ever),
      cmocka_unit_test(a_stream_that_ends_without_a_batch_says_why),
      cmocka_unit_test(rare_records_are_waited_for),
      cmocka_unit_test(parts_of_an_order_wait_for_their_turn),
      cmocka_unit_test(seeking_in_an_empty_stream_fails_too),
      cmocka_unit_test(a_label_that_the_data_lack_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
