/* A far batch behind rebatch is found by arithmetic also where steps before it are left out. */
#include "tests/loaders/streams.h"

#include "pipeline/records/batch_layout.h"

static _Atomic int64_t made; /* records */

static mr_err_t counted_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  made++;
  out->field[0] = in->field[0];
  return MR_OK;
}
static const mr_stage_def_t mr_stage_counted =
    STREAM_STAGE("counted", .map = &(const mr_map_def_t){.run = counted_map});

/* text from buffer `number` of its last stage, rebatch, on. */
static stream_t run_from(const char *text, int64_t number) {
  stream_t t = {0};
  mr_diag_t d = {0};
  bool found = false;
  mr_graph_t *g = stream_graph(text);
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  assert_int_equal(mr_graph_seek(g, "rebatch", number, &found, &d), MR_OK);
  if (!found) fail_msg("%s: batch %d does not follow from its number", text, (int)number);
  stream_now = &t;
  if (mr_graph_run(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  return t;
}

static void found_as_walked(const char *text) {
  stream_t all = stream_run(text);
  assert_in_range(all.n, 2, STREAM_MAX);
  for (int k = 0; k <= all.n; k += 1 + all.n / 8) {
    stream_t rest = run_from(text, k);
    if (rest.n != all.n - k) fail_msg("%s: %d batches from %d on", text, rest.n, k);
    for (int i = 0; i < rest.n; i++) {
      const element_t *a = &all.element[k + i], *b = &rest.element[i];
      if (a->n != b->n || a->epoch != b->epoch || a->flags != b->flags ||
          memcmp(a->value, b->value, (size_t)a->n * 8) != 0)
        fail_msg("%s: batch %d differs when begun at %d", text, k + i, k);
    }
    stream_free(&rest);
  }
  stream_free(&all);
}

/* ---- records before a batch ---- */

static void random_steps_left_out_count_as_one_by_one(void **state) {
  srand(11);
  for (int round = 0; round < 300; round++) {
    char list[128] = "";
    int64_t size = 1 + rand() % 9, each = rand() % 40, batches = (each + size - 1) / size;
    int64_t record = 0, a = rand() % 30, b = rand() % 60, wide = rand() % 20;
    snprintf(list, sizeof list, "%d,%d-%d,%d", (int)a, (int)b, (int)(b + wide), (int)(2 * a + 1));
    mr_ranges_t steps;
    assert_int_equal(mr_ranges_parse(&steps, list, NULL), MR_OK);
    mr_left_out_t t = {&steps, size, batches, each};
    for (int64_t i = 0; i < 100; i++) {
      bool last = batches && i % batches == batches - 1;
      int64_t n = last ? each - (batches - 1) * size : size;
      if (mr_left_out_before(&t, i) != record)
        fail_msg("round %d, %s: %d records before batch %d of %d", round, list, (int)record, (int)i,
                 (int)size);
      if (mr_ranges_has(&steps, (uint64_t)i + 1)) continue;
      assert_int_equal(mr_left_out_batch(&t, record, 1000), i);
      assert_int_equal(mr_left_out_batch(&t, record + n - 1, 1000), i);
      record += n;
    }
    mr_ranges_fini(&steps);
  }
}

static void no_batch_holds_a_record_behind_steps_that_are_all_left_out(void **state) {
  mr_ranges_t steps;
  assert_int_equal(mr_ranges_parse(&steps, "0-2,4-18446744073709551615", NULL), MR_OK);
  mr_left_out_t t = {&steps, 8, 0, 0};
  assert_int_equal(mr_left_out_batch(&t, 7, INT64_C(1) << 58), 2);
  assert_int_equal(mr_left_out_batch(&t, 8, INT64_C(1) << 58), INT64_C(1) << 58);
  mr_ranges_fini(&steps);
}

/* ---- streams ---- */

static void streams_of_positions(void **state) {
  static const char *const batch[] = {
      "batch 8 skip-steps=2,5-6",
      "batch 8 skip-steps=13,14,26 drop-remainder workers=3",
      "batch 7 skip-steps=1,2,15-17 workers=2",
      "batch 7 skip-steps=1,3,5,7,9,58 across-epochs",
      "batch 7 skip-steps=1,4-20,50-99 across-epochs drop-remainder",
  };
  for (size_t i = 0; i < sizeof batch / sizeof *batch; i++) {
    char text[256];
    snprintf(text, sizeof text, "range 101 ! shuffle seed=7 epochs=4 ! %s ! rebatch 5", batch[i]);
    found_as_walked(text);
    snprintf(text, sizeof text,
             "range 101 ! shuffle seed=7 epochs=4 ! %s ! identity ! rebatch 9 drop-remainder",
             batch[i]);
    found_as_walked(text);
    snprintf(text, sizeof text,
             "range 101 ! shuffle seed=7 epochs=4 ! %s ! rebatch 9 name=first ! rebatch 4",
             batch[i]);
    found_as_walked(text);
  }
}

static void streams_that_are_walked(void **state) {
  static const char *const batch[] = {
      "filter modulo=3 remainder=1:2 ! batch 8 skip-steps=2,5-6",
      "filter key=7:70 ! batch 5 drop-remainder skip-steps=1,3,12,13,26-30 workers=2",
      "filter modulo=3 ! batch 4 across-epochs skip-steps=3,4,20",
      "to-iter-dataset ! batch 6 skip-steps=2-9,33",
      "rand mul=3 below=3 ! keep-if ! batch 5 skip-steps=2-9,33",
      "batch 4 order=grain-workers loader-workers=3 skip-steps=2,5,6,7,8,9,10,11",
      "batch 4 order=grain-workers loader-workers=5 skip-steps=99,101,102",
  };
  for (size_t i = 0; i < sizeof batch / sizeof *batch; i++) {
    char text[256];
    snprintf(text, sizeof text, "range 101 ! shuffle seed=7 epochs=4 ! %s ! rebatch 7", batch[i]);
    found_as_walked(text);
  }
}

/* Made before and in the last batch but one, of two. */
static int64_t made_from(const char *text, int64_t number) {
  made = 0;
  stream_t t = run_from(text, number);
  if (t.n != 2) fail_msg("%s: %d batches left, want 2", text, t.n);
  stream_free(&t);
  return made;
}

static void records_before_a_far_step_are_not_made(void **state) {
  /* 200 of 200,000,000 batches of 5 are left out, what is left makes 142,857,000 batches of 7 */
  assert_in_range(made_from("range 1000 ! shuffle epochs=1000000 ! counted ! "
                            "batch 5 skip-steps=100-199,300-399 ! rebatch 7",
                            142856998),
                  14, 24);
  assert_in_range(made_from("range 1000 ! shuffle epochs=1000000 ! filter modulo=2 ! counted ! "
                            "batch 5 skip-steps=100-199,300-399 ! rebatch 7",
                            71428427),
                  11, 25);
}

int main(void) {
  static const mr_stage_def_t *const own[] = {&mr_stage_counted, NULL};
  stream_stages = own;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_steps_left_out_count_as_one_by_one),
      cmocka_unit_test(no_batch_holds_a_record_behind_steps_that_are_all_left_out),
      cmocka_unit_test(streams_of_positions),
      cmocka_unit_test(streams_that_are_walked),
      cmocka_unit_test(records_before_a_far_step_are_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
