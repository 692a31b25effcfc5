/* Going to a batch by its number gives what walking there gives, and looks at few records. */
#include "pipeline/stage_order.h"
#include "tests/loaders/streams.h"

/* Counts how many positions were asked for. */
static _Atomic int64_t asked;

static mr_err_t counted_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}
static mr_err_t counted_order(mr_stage_t *s, int64_t position, mr_at_t *at) {
  asked++;
  return MR_OK;
}
static mr_period_t counted_period(const mr_stage_t *s, const mr_period_t *in) { return in[0]; }

static const mr_stage_def_t mr_stage_counted = {
    .name = "counted",
    .help = "Counts positions asked for.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = counted_plan,
    .order = &(const mr_order_def_t){.at = counted_order, .period = counted_period},
};

/* text from buffer `number` of stage "batch" on. */
static stream_t run_from(const char *text, int64_t number) {
  stream_t t = {0};
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(text);
  assert_int_equal(mr_graph_start_number(g, "batch", number, &d), MR_OK);
  stream_now = &t;
  if (mr_graph_run(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  return t;
}

static void same_words(const char *text, const stream_t *a, int from, const stream_t *b) {
  for (int i = 0; i < b->n; i++)
    if (memcmp(a->element[from + i].word, b->element[i].word, (size_t)a->n_words * 8) != 0)
      fail_msg("%s: state of batch %d differs when seeked", text, from + i);
}

/* From every batch, or some of many. */
static void seeks_as_it_walks(const char *text) {
  stream_t all = stream_run(text);
  assert_in_range(all.n, 2, STREAM_MAX);
  for (int k = 0; k <= all.n + 1; k += 1 + all.n / 12) {
    stream_t rest = run_from(text, k);
    int from = k < all.n ? k : all.n;
    assert_same_stream(text, &all, from, &rest);
    same_words(text, &all, from, &rest);
    stream_free(&rest);
  }
  stream_free(&all);
}

static void streams_without_holes(void **state) {
  seeks_as_it_walks("range 11 ! shuffle seed=3 epochs=5 ! to-iter-dataset ! batch 4");
  seeks_as_it_walks(
      "range 23 ! shuffle seed=3 epochs=3 ! random-map seed=7 ! rand below=9 ! "
      "to-iter-dataset ! random-map seed=8 ! rand below=9 ! batch 4 workers=3");
  seeks_as_it_walks("range 40 ! seed 3 ! to-iter-dataset ! limit 31 ! batch 4");
}

static void seeking_in_the_order_of_grains_workers_equals_walking(void **state) {
  for (int workers = 1; workers <= 7; workers++) {
    char text[256];
    snprintf(text, sizeof text,
             "range 23 ! shuffle seed=12 epochs=4 ! batch 4 order=grain-workers loader-workers=%d",
             workers);
    seeks_as_it_walks(text);
    snprintf(text, sizeof text,
             "range 29 ! sequential epochs=4 ! filter modulo=3 remainder=1:2 ! batch 2 "
             "order=grain-workers loader-workers=%d drop-remainder",
             workers);
    seeks_as_it_walks(text);
    snprintf(text, sizeof text,
             "range 31 ! shuffle seed=1 epochs=3 ! to-iter-dataset ! random-map seed=7 ! "
             "rand below=9 ! mp-prefetch %d ! batch 4",
             workers);
    seeks_as_it_walks(text);
    snprintf(text, sizeof text,
             "range 31 ! to-iter-dataset ! filter modulo=8 remainder=0:2 ! mp-prefetch %d ! "
             "batch 2",
             workers);
    seeks_as_it_walks(text);
  }
}

static void seeking_behind_filters_equals_walking(void **state) {
  static const char *const before[] = {
      "range 101 ! shuffle seed=7 epochs=5",
      "range 101 ! sequential epochs=5",
      "range 10 ! repeat 9 ! shuffle seed=7 epochs=3",
      "range 30 ! shuffle seed=7 ! repeat 4",
      "range 30 ! shuffle seed=7 epochs=3 ! repeat 4 reseed-each-epoch=false",
      "range 64 ! shuffle seed=3 epochs=4 shard=1/3",
      "range 63 ! sequential epochs=4 shard=1/3",
      "range 64 ! sequential epochs=4 shard=1/3",
      "range 64 ! shuffle seed=3 epochs=4 ! shuffle seed=4 shard=0/2",
      "range 64 ! shuffle seed=3 epochs=4 ! slice 3:50",
      "range 64 ! slice 3:50:2 ! shuffle seed=3 epochs=4",
      "range 40 ! seed 3 ! shuffle epochs=3 ! random-map ! rand below=9",
      "range 60 ! shuffle seed=3 epochs=4 ! window-shuffle 8 seed=2",
      "range 60 ! shuffle seed=3 epochs=4 ! window-shuffle 8 seed=2 within-epoch",
  };
  static const char *const batch[] = {
      "filter modulo=3 remainder=1:2 ! batch 8",
      "filter key=7:30 ! batch 5 drop-remainder",
      "filter modulo=3 remainder=1:2 ! batch 8 across-epochs workers=2",
      "filter modulo=7 ! batch 3 across-epochs",
      "to-iter-dataset ! random-map seed=1 ! filter modulo=3 remainder=1:2 ! batch 8",
      "filter p=0.5 seed=4 ! to-iter-dataset ! batch 8 drop-remainder"};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
      char text[512];
      snprintf(text, sizeof text, "%s ! %s", before[i], batch[k]);
      seeks_as_it_walks(text);
    }
}

static void filters_that_no_period_helps(void **state) {
  /* each epoch grain misses another record there, and one comes twice */
  seeks_as_it_walks(
      "range 65537 ! shuffle seed=3 epochs=5 ! filter key=0:32767 ! batch 16384 "
      "across-epochs");
  seeks_as_it_walks("range 40 ! shuffle seed=2 epochs=4 ! rand mul=3 below=3 ! keep-if ! batch 5");
  seeks_as_it_walks(
      "range 90 ! shuffle seed=1 epochs=3 ! filter modulo=4 ! mix weights=2,1 name=m "
      "range 200 stop=260 epochs=3 ! m.b m. ! batch 4");
}

static void filters_after_streams_that_end(void **state) {
  seeks_as_it_walks(
      "range 40 ! shuffle seed=2 epochs=9 ! to-iter-dataset ! limit 250 ! "
      "filter modulo=3 ! batch 4");
  seeks_as_it_walks(
      "range 40 ! shuffle seed=2 ! to-iter-dataset ! repeat 3 ! filter modulo=3 ! "
      "batch 4");
  seeks_as_it_walks(
      "range 40 ! shuffle seed=2 epochs=6 ! to-iter-dataset ! window-shuffle 7 "
      "seed=1 ! filter modulo=3 ! batch 4");
}

/* A mix holds the same records again once each input has come a whole number of epochs far. */
static void filters_after_mixes(void **state) {
  static const char *const mix[] = {
      "range 20 ! shuffle seed=7 epochs=9 ! mix name=m range 100 stop=120 epochs=9 ! shuffle "
      "seed=8 "
      "! m.b m.",
      "range 20 ! sequential epochs=9 ! mix weights=2,1 name=m range 100 stop=110 epochs=9 ! m.b "
      "m.",
      "range 24 ! shuffle seed=7 epochs=9 ! mix weights=3,2,1 exact name=m range 100 stop=109 "
      "epochs=7 ! shuffle seed=3 ! m.b range 200 stop=206 epochs=7 ! m.c m.",
      "range 12 ! shuffle seed=7 epochs=9 ! filter modulo=5 invert ! mix weights=7,3 name=m range "
      "100 stop=131 epochs=9 ! m.b m.",
  };
  static const char *const batch[] = {
      "filter modulo=3 remainder=1:2 ! batch 8 across-epochs",
      "filter key=7:105 ! batch 5 drop-remainder",
      "repeat 3 ! filter modulo=4 remainder=1:2 ! to-iter-dataset ! batch 7",
      "filter modulo=3 ! batch 4 order=grain-workers loader-workers=3",
      "to-iter-dataset ! filter modulo=3 remainder=1:2 ! batch 8"};
  for (size_t i = 0; i < sizeof mix / sizeof *mix; i++)
    for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
      char text[512];
      snprintf(text, sizeof text, "%s ! %s", mix[i], batch[k]);
      seeks_as_it_walks(text);
    }
}

static void joins_of_streams(void **state) {
  seeks_as_it_walks(
      "range 10 stop=80 ! filter modulo=3 ! to-iter-dataset ! mix weights=2,1 name=m "
      "range 200 stop=260 ! to-iter-dataset ! m.b m. ! batch 4");
  seeks_as_it_walks(
      "range 90 ! filter modulo=3 ! to-iter-dataset ! zip name=z "
      "range 50 ! shuffle seed=7 ! to-iter-dataset ! z.b z. ! batch 4");
  seeks_as_it_walks(
      "range 40 ! shuffle seed=1 epochs=3 ! zip name=z range 40 epochs=3 ! shuffle "
      "seed=7 ! z.b z. ! filter modulo=3 ! batch 4");
  /* a hole in either input is one, and which records meet differs from epoch to epoch */
  seeks_as_it_walks(
      "range 40 ! shuffle seed=1 epochs=5 ! zip name=z range 40 epochs=5 ! shuffle "
      "seed=7 ! filter modulo=3 ! z.b z. ! filter modulo=2 ! batch 4");
  seeks_as_it_walks(
      "range 30 ! filter modulo=3 ! to-iter-dataset ! concatenate name=c "
      "range 50 stop=83 ! to-iter-dataset ! c.b c. ! batch 4");
  seeks_as_it_walks(
      "range 30 ! shuffle seed=1 epochs=2 ! concatenate name=c range 50 stop=83 "
      "epochs=2 ! c.b c. ! filter modulo=3 ! batch 4");
  seeks_as_it_walks(
      "range 4 ! interleave 2 name=i range 10 stop=42 ! i.b range 50 stop=55 ! i.c "
      "range 60 stop=90 ! i.d i. ! batch 3");
}

static void passes_and_windows(void **state) {
  seeks_as_it_walks("range 11 ! shuffle seed=42 ! to-iter-dataset ! repeat 9 ! batch 4");
  seeks_as_it_walks("range 29 ! filter modulo=3 ! to-iter-dataset ! repeat 7 ! batch 4");
  seeks_as_it_walks("range 31 ! to-iter-dataset ! window-shuffle 4 seed=42 ! batch 3");
  seeks_as_it_walks(
      "range 61 ! filter modulo=3 remainder=1:2 ! to-iter-dataset ! "
      "window-shuffle 8 seed=42 ! batch 3");
  seeks_as_it_walks(
      "range 32 ! to-iter-dataset ! window-shuffle 4 seed=42 ! random-map seed=3 ! "
      "rand below=5 ! repeat 3 ! batch 3");
}

static void holes_that_come_as_records(void **state) {
  seeks_as_it_walks("range 50 ! filter modulo=3 ! to-iter-dataset allow-nones ! batch 4");
}

/* Seeks to `number` of a stream that has two batches from there on. */
static int64_t asked_by(const char *text, int64_t number) {
  asked = 0;
  stream_t t = run_from(text, number);
  if (t.n != 2) fail_msg("%s: %d batches left, want 2", text, t.n);
  stream_free(&t);
  return asked;
}

static void whole_periods_of_a_mix_are_not_looked_at(void **state) {
  /* 200 and 100 of 300 positions, so 3000 hold as many of each kind as the next 3000 */
  static const char mixed[] =
      "range 1000 ! shuffle epochs=1000000 ! mix weights=2,1 name=m range 1000 stop=2000 "
      "epochs=1000000 ! shuffle seed=3 ! m.b m. ! counted ! filter modulo=2 ! ";
  char text[512];
  snprintf(text, sizeof text, "%sbatch 5 across-epochs", mixed);
  assert_in_range(asked_by(text, 149999998), 3000, 6100);
  snprintf(text, sizeof text, "%sto-iter-dataset ! batch 5", mixed);
  assert_in_range(asked_by(text, 149999998), 3000, 6100);
}

static void whole_epochs_are_not_looked_at(void **state) {
  /* a million epochs of a thousand records, 10 of them in the last two batches */
  assert_in_range(asked_by("range 1000 ! shuffle epochs=1000000 ! counted ! to-iter-dataset ! "
                           "batch 5",
                           199999998),
                  10, 16);
  assert_in_range(asked_by("range 1000 ! shuffle epochs=1000000 ! counted ! batch 5 "
                           "order=grain-workers loader-workers=8",
                           199999998),
                  10, 96);
  /* 500 of each thousand stay: an epoch is counted, the last one is walked */
  assert_in_range(asked_by("range 1000 ! shuffle epochs=1000000 ! counted ! filter modulo=2 ! "
                           "batch 5",
                           99999998),
                  1000, 2100);
  assert_in_range(asked_by("range 1000 ! shuffle epochs=1000000 ! counted ! filter modulo=2 ! "
                           "to-iter-dataset ! batch 5",
                           99999998),
                  1000, 2100);
  assert_in_range(asked_by("range 1000 ! shuffle epochs=1000000 ! counted ! to-iter-dataset ! "
                           "filter modulo=2 ! batch 5",
                           99999998),
                  1000, 2100);
}

int main(void) {
  static const mr_stage_def_t *const own[] = {&mr_stage_counted, NULL};
  stream_stages = own;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_without_holes),
      cmocka_unit_test(seeking_in_the_order_of_grains_workers_equals_walking),
      cmocka_unit_test(seeking_behind_filters_equals_walking),
      cmocka_unit_test(filters_that_no_period_helps),
      cmocka_unit_test(filters_after_streams_that_end),
      cmocka_unit_test(filters_after_mixes),
      cmocka_unit_test(joins_of_streams),
      cmocka_unit_test(passes_and_windows),
      cmocka_unit_test(holes_that_come_as_records),
      cmocka_unit_test(whole_epochs_are_not_looked_at),
      cmocka_unit_test(whole_periods_of_a_mix_are_not_looked_at),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
