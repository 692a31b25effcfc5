/* Streams with holes: batches close up over them, whatever the workers, and resume anywhere. */
#include "tests/loaders/streams.h"

#define FILTERED "range 101 ! shuffle seed=7 epochs=3 ! filter modulo=3 remainder=1:2 ! "

static void batches_close_up_over_holes(void **state) {
  stream_t t = stream_run("range 11 ! filter modulo=3 remainder=1:2 ! batch 4");
  static const int64_t want[] = {1, 2, 4, 5, 7, 8, 10};
  assert_int_equal(t.n, 2);
  assert_int_equal(t.element[0].n, 4);
  assert_int_equal(t.element[1].n, 3);
  assert_memory_equal(t.element[0].value, want, 32);
  assert_memory_equal(t.element[1].value, want + 4, 24);
  assert_int_equal(t.element[0].position, 6);  /* the next record to look at */
  assert_int_equal(t.element[1].position, 11); /* the next epoch */
  assert_int_equal(t.element[0].flags, 0);
  assert_int_equal(t.element[1].flags, MR_BUF_EPOCH_END);
  stream_free(&t);
}

static void a_full_last_batch_ends_its_epoch_too(void **state) {
  stream_t t = stream_run("range 13 ! filter key=0:7 ! batch 4 drop-remainder");
  assert_int_equal(t.n, 2);
  assert_int_equal(t.element[0].flags, 0);
  assert_int_equal(t.element[1].flags, MR_BUF_EPOCH_END);
  assert_int_equal(t.element[1].position, 8);
  stream_free(&t);
}

static void workers_do_not_move_the_boundaries(void **state) {
  static const char *const batch[] = {"batch 8", "batch 8 drop-remainder", "batch 8 across-epochs"};
  for (int k = 0; k < 3; k++) {
    char text[256];
    snprintf(text, sizeof text, FILTERED "%s", batch[k]);
    stream_t one = stream_run(text);
    for (int w = 2; w <= 7; w++) {
      snprintf(text, sizeof text, FILTERED "%s workers=%d", batch[k], w);
      stream_t more = stream_run(text);
      assert_same_stream(text, &one, 0, &more);
      stream_free(&more);
    }
    stream_free(&one);
  }
}

static void a_filtered_stream_resumes_after_any_batch(void **state) {
  static const char *const batch[] = {"batch 8", "batch 5 drop-remainder workers=3",
                                      "batch 8 across-epochs workers=2"};
  for (int k = 0; k < 3; k++) {
    char text[256];
    snprintf(text, sizeof text, FILTERED "%s", batch[k]);
    stream_t all = stream_run(text);
    assert_int_equal(all.n_words, 0); /* the position says all */
    for (int i = 0; i < all.n; i++) {
      stream_t rest = stream_resume(text, &all, i, false);
      assert_same_stream(text, &all, i + 1, &rest);
      stream_free(&rest);
    }
    stream_free(&all);
  }
}

static void a_filter_on_content_sees_what_maps_made(void **state) {
  stream_t t = stream_run("range 9 ! affine mul=2 add=1 ! keep-if ! batch 3 workers=2");
  static const int64_t want[] = {1, 5, 7, 11, 13, 17};
  assert_int_equal(t.n, 2);
  assert_memory_equal(t.element[0].value, want, 24);
  assert_memory_equal(t.element[1].value, want + 3, 24);
  stream_free(&t);
}

static void a_stream_without_a_record_gives_no_batch(void **state) {
  stream_t t = stream_run("range 9 epochs=3 ! filter key=20:30 ! batch 3 workers=2");
  assert_int_equal(t.n, 0);
  stream_free(&t);
}

static void a_failing_filter_fails_the_graph(void **state) {
  mr_diag_t d = {0};
  stream_t t = {0};
  stream_now = &t;
  mr_graph_t *g = stream_graph("range 9 ! rand ! keep-if ! batch 3 workers=4");
  assert_true(mr_graph_run(g, &d) < 0);
  assert_string_equal(d.text, "rand: a record has no generator");
  mr_graph_destroy(g);
  stream_free(&t);
}

static void an_endless_stream_whose_records_all_go_can_be_stopped(void **state) {
  mr_diag_t d = {0};
  stream_t t = {0};
  stream_now = &t;
  mr_graph_t *g =
      stream_graph("range 4000000000000000 epochs=0 ! filter key=5e15:6e15 ! batch 3 workers=3");
  assert_int_equal(mr_graph_start(g, &d), MR_OK);
  mr_graph_stop(g);
  assert_int_equal(mr_graph_join(g, &d), MR_OK);
  assert_int_equal(t.n, 0);
  mr_graph_destroy(g);
  stream_free(&t);
}

static void an_order_after_a_stream_without_positions_is_refused(void **state) {
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph("range 9 ! to-iter-dataset ! shuffle seed=1 ! batch 3");
  assert_int_equal(mr_graph_settle(g, &d), MR_ERR_SHAPE);
  assert_non_null(strstr(d.text, "shuffle: takes records by position"));
  mr_graph_destroy(g);
}

static void a_range_of_more_positions_than_can_be_counted_is_refused(void **state) {
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph("range 4000000000000000 epochs=1000000000 ! batch 3");
  assert_int_equal(mr_graph_settle(g, &d), MR_ERR_CONFIG);
  assert_non_null(strstr(d.text, "range: setting epochs = 1000000000: 4000000000000000 numbers"));
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_close_up_over_holes),
      cmocka_unit_test(a_full_last_batch_ends_its_epoch_too),
      cmocka_unit_test(workers_do_not_move_the_boundaries),
      cmocka_unit_test(a_filtered_stream_resumes_after_any_batch),
      cmocka_unit_test(a_filter_on_content_sees_what_maps_made),
      cmocka_unit_test(a_stream_without_a_record_gives_no_batch),
      cmocka_unit_test(a_failing_filter_fails_the_graph),
      cmocka_unit_test(an_endless_stream_whose_records_all_go_can_be_stopped),
      cmocka_unit_test(an_order_after_a_stream_without_positions_is_refused),
      cmocka_unit_test(a_range_of_more_positions_than_can_be_counted_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
