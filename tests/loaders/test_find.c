/* The places of a record by the inverses of the orders are those that a walk over all batches
   finds, for random chains of them. */
#include "pipeline/records/find.h"

#include "pipeline/stage_order.h"
#include "tests/loaders/streams.h"
#include "tests/random.h"

enum { BATCHES_MOST = 2000, TEXT_MOST = 4096, APART = 1000 };

typedef struct drawn {
  round_t *r;
  char text[TEXT_MOST];
  int sources, joins;
} drawn_t;

static int upto(drawn_t *t, int n) { return (int)(round_bits(t->r) % (uint64_t)n); }

static void put(drawn_t *t, const char *format, ...) {
  size_t at = strlen(t->text);
  va_list list;
  va_start(list, format);
  vsnprintf(t->text + at, sizeof t->text - at, format, list);
  va_end(list);
}

/* Every source's numbers are its own. */
static void put_source(drawn_t *t) {
  int first = APART * ++t->sources, n = 1 + upto(t, upto(t, 4) ? 40 : 3);
  if (upto(t, 3))
    put(t, "range %d stop=%d step=1", first, first + n);
  else
    put(t, "range %d stop=%d step=-3", first + 3 * n, first);
  if (!upto(t, 3)) put(t, " epochs=%d", 1 + upto(t, 4));
}

static void put_order(drawn_t *t) {
  int k = upto(t, 16), n = 1 + upto(t, 3);
  switch (k) {
    case 0:
    case 1: put(t, " ! shuffle seed=%d", upto(t, 99)); break;
    case 2: put(t, " ! shuffle seed=%d epochs=%d", upto(t, 99), 1 + upto(t, 5)); break;
    case 3: put(t, " ! shuffle seed=%d shard=%d/%d", upto(t, 99), upto(t, n), n); break;
    case 4:
      put(t, " ! shuffle seed=%d epochs=%d shard=%d/%d %s", upto(t, 99), 1 + upto(t, 5), upto(t, n),
          n, upto(t, 2) ? "whole-shards" : "drop-remainder");
      break;
    case 5: put(t, " ! shuffle seed=2 reshuffle=false epochs=%d", 1 + upto(t, 4)); break;
    case 6: put(t, " ! shuffle seed=3 epochs=%d first=%d", 1 + upto(t, 4), 1 + upto(t, 30)); break;
    case 7:
      put(t, " ! sequential epochs=%d shard=%d/%d %s", 1 + upto(t, 5), upto(t, n), n,
          upto(t, 2)   ? ""
          : upto(t, 2) ? "whole-shards"
                       : "drop-remainder");
      break;
    case 8:
      put(t, " ! %s epochs=%d resume=%d:%d", upto(t, 2) ? "shuffle seed=4" : "sequential",
          2 + upto(t, 4), upto(t, 4), 1 + upto(t, 8));
      break;
    case 9: put(t, " ! repeat %d %s", n, upto(t, 2) ? "" : "reseed-each-epoch=false"); break;
    case 10: put(t, " ! slice %d::%d", upto(t, 6), 1 + upto(t, 3)); break;
    case 11: put(t, " ! slice ::-%d", 1 + upto(t, 3)); break;
    case 12:
      put(t, " ! window-shuffle %d seed=%d %s", 1 + upto(t, 12), upto(t, 9),
          upto(t, 2) ? "" : "within-epoch");
      break;
    case 13: put(t, " ! seed 3 ! shuffle ! random-map"); break;
    case 14: put(t, " ! every-third"); break;
    default: put(t, " ! sequential"); break;
  }
}

static void put_stream(drawn_t *t, int depth);

static void put_join(drawn_t *t, int depth) {
  int inputs = 2 + upto(t, 3), name = ++t->joins, kind = upto(t, 4);
  put(t, " ! %s name=j%d", kind == 0 ? "concatenate" : kind == 1 ? "zip" : "mix", name);
  if (kind == 2) {
    put(t, " weights=%d", 1 + upto(t, 9));
    for (int i = 1; i < inputs; i++) put(t, ",%d", 1 + upto(t, 9));
    if (upto(t, 2)) put(t, " exact");
    if (!upto(t, 3)) {
      put(t, " resume=%d:", upto(t, 60));
      for (int i = 0; i < inputs; i++) put(t, "%s%d", i ? "," : "", upto(t, 30));
    }
  }
  for (int i = 1; i < inputs; i++) {
    put(t, " ");
    put_stream(t, depth + 1);
    put(t, " ! j%d.%c", name, 'a' + i);
  }
  put(t, " j%d.", name);
}

static void put_stream(drawn_t *t, int depth) {
  put_source(t);
  for (int n = upto(t, 4); n > 0; n--) put_order(t);
  if (depth < 2 && !upto(t, depth + 2)) put_join(t, depth);
  for (int n = upto(t, 3); n > 0 && depth; n--) put_order(t);
  for (int n = upto(t, 4); n > 0 && !depth; n--) put_order(t);
}

/* Settings of batches; what a resume writes among them. */
static void put_batch(drawn_t *t) {
  int size = 1 + upto(t, 9), hosts = 1 + upto(t, size < 3 ? size : 3);
  put(t, " ! batch %d", size);
  if (!upto(t, 4)) put(t, " drop-remainder");
  if (!upto(t, 4)) put(t, " across-epochs");
  if (!upto(t, 4)) put(t, " host=%d/%d", upto(t, hosts), hosts);
  if (!upto(t, 4)) put(t, " skip-steps=%d-%d", 1 + upto(t, 6), 6 + upto(t, 9));
  if (!upto(t, 5)) put(t, " resume=%d:%d", upto(t, 50), upto(t, 20));
}

/* An order that cannot say where it takes a position. */
static mr_err_t every_third_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->out_spec[0].n_records = (s->in_spec[0].n_records + 2) / 3;
  return MR_OK;
}

static mr_err_t every_third_at(mr_stage_t *s, int64_t position, mr_at_t *at) {
  int64_t n = s->out_spec[0].n_records;
  at->index = position / n * s->in_spec[0].n_records + position % n * 3;
  return MR_OK;
}

static const mr_stage_def_t mr_stage_every_third = {
    .name = "every-third",
    .help = "Takes every third record of an epoch.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = every_third_plan,
    .order = &(const mr_order_def_t){.at = every_third_at},
};

static const mr_stage_def_t *const find_stages[] = {&mr_stage_every_third, NULL};

/* ---- comparing ---- */

typedef struct place {
  int64_t number, epoch;
  int slot;
} place_t;

typedef struct places {
  place_t at[BATCHES_MOST * 9];
  int n;
} places_t;

static mr_err_t note_place(void *ctx, const mr_found_place_t *f, mr_diag_t *diag) {
  places_t *p = ctx;
  assert_true(p->n < BATCHES_MOST * 9);
  p->at[p->n++] = (place_t){f->number, f->epoch, f->slot};
  return MR_OK;
}

static bool holds(const element_t *x, int slot, int64_t value) {
  for (int i = 0; i < x->width; i++)
    if (x->value[slot * x->width + i] == value) return true;
  return false;
}

/* The places of a record in what a run gave, whose first batch is number `first`. */
static void walk_places(const stream_t *t, int64_t first, int64_t value, places_t *p) {
  p->n = 0;
  for (int b = 0; b < t->n; b++)
    for (int i = 0; i < t->element[b].n; i++)
      if (holds(&t->element[b], i, value))
        p->at[p->n++] = (place_t){first + b, t->element[b].epoch, i};
}

static int compare_record(const char *text, mr_graph_t *g, const stream_t *walked, int64_t first,
                          int64_t value, int64_t begin, int64_t end) {
  static places_t want, got;
  char why[200];
  mr_diag_t d = {0};
  int kept = 0;
  walk_places(walked, first, value, &want);
  for (int i = 0; i < want.n; i++)
    if (want.at[i].number >= begin && want.at[i].number < end) want.at[kept++] = want.at[i];
  want.n = kept, got.n = 0;
  mr_find_t find = {
      .key = (uint64_t)value, .first = begin, .end = end, .found = note_place, .ctx = &got};
  mr_err_t e = mr_graph_find(g, "batch", &find, why, sizeof why, &d);
  if (e != MR_OK || *why) fail_msg("%s: %d %s %s", text, e, why, d.text);
  for (int i = 0; i < want.n || i < got.n; i++) {
    const place_t *a = &want.at[i], *b = &got.at[i];
    if (i < want.n && i < got.n && a->number == b->number && a->epoch == b->epoch &&
        a->slot == b->slot)
      continue;
    fail_msg(
        "%s: record %lld: place %d of %d is %lld:%lld:%d, the inverse says %lld:%lld:%d of "
        "%d",
        text, (long long)value, i, want.n, (long long)a->number, (long long)a->epoch, a->slot,
        (long long)b->number, (long long)b->epoch, b->slot, got.n);
  }
  return want.n;
}

/* The number of the first batch, which a resume in the settings decides; -1: the graph does not
   settle, or is too long. */
static int64_t first_of(mr_graph_t *g) {
  mr_diag_t d = {0};
  if (mr_graph_settle(g, &d) < 0) return -1;
  const mr_spec_t *spec = &mr_graph_stage(g, "batch")->out_spec[0];
  int64_t most;
  if (!spec->n_epochs || __builtin_mul_overflow(spec->n_batches, spec->n_epochs, &most) ||
      most > BATCHES_MOST)
    return -1;
  return 0;
}

static int64_t resumed_at(const char *text) {
  const char *batch = strstr(text, "! batch"), *at = batch ? strstr(batch, "resume=") : NULL;
  return at ? strtoll(strchr(at, ':') + 1, NULL, 10) : 0;
}

static int compare_all(drawn_t *t) {
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(t->text), *walked = stream_graph(t->text);
  stream_t all = {0};
  int found = -1;
  bool begins;
  int64_t first = resumed_at(t->text);
  if (first_of(g) < 0) goto done;
  if (mr_graph_settle(walked, &d) < 0) fail_msg("%s: %s", t->text, d.text);
  if (mr_graph_seek(walked, "batch", first, &begins, &d) < 0 || !begins) goto done;
  stream_now = &all;
  if (mr_graph_run(walked, &d) < 0) goto done; /* a position that the batches cannot begin at */
  found = 0;
  for (int s = 1; s <= t->sources; s++)
    for (int k = 0; k < 130; k += 1 + upto(t, 3)) {
      int64_t begin = first + upto(t, 3), end = upto(t, 2) ? INT64_MAX : begin + 1 + upto(t, 40);
      found += compare_record(t->text, g, &all, first, APART * s + k, begin, end);
    }
done:
  stream_free(&all);
  mr_graph_destroy(g), mr_graph_destroy(walked);
  return found;
}

static void the_inverse_finds_what_a_walk_finds(void **state) {
  round_t r = round_first(250);
  int compared = 0, places = 0;
  while (round_next(&r)) {
    drawn_t t = {.r = &r};
    put_stream(&t, 0);
    put_batch(&t);
    int n = compare_all(&t);
    if (n < 0) continue;
    compared++, places += n;
  }
  printf("%d graphs, %d places\n", compared, places);
  if (!getenv("MILLRACE_ROUNDS")) assert_true(compared > 100 && places > 1000);
}

/* ---- what positions do not decide ---- */

static void expect_reason(const char *text, const char *reason) {
  places_t *p = calloc(1, sizeof *p);
  char why[200] = "";
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(text);
  mr_find_t find = {.key = 3, .end = INT64_MAX, .found = note_place, .ctx = p};
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  if (mr_graph_find(g, "batch", &find, why, sizeof why, &d) != MR_OK || !strstr(why, reason))
    fail_msg("%s: %s", text, why);
  assert_int_equal(p->n, 0);
  mr_graph_destroy(g);
  free(p);
}

static void where_positions_do_not_decide_the_stage_is_named(void **state) {
  expect_reason("range 9 ! shuffle ! filter name=odd modulo=2 ! batch 2", "odd");
  expect_reason("range 9 ! to-iter-dataset name=walk ! batch 2", "walk");
  expect_reason("range 9 ! batch 2 order=grain-workers loader-workers=2", "batch");
}

/* The seeds of windows end within the stream, and with them the steps that can be known. */
static void places_before_a_failure_are_found_and_the_failing_one_is_named(void **state) {
  places_t *p = calloc(1, sizeof *p);
  char why[200];
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(
      "range 10 ! repeat 20 ! window-shuffle 5 seed=4294967290 ! batch 4"); /* six windows */
  mr_find_t find = {.key = 7, .end = INT64_MAX, .found = note_place, .ctx = p};
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  assert_true(mr_graph_find(g, "batch", &find, why, sizeof why, &d) < 0);
  assert_int_equal(p->n, 3);
  for (int i = 0; i < p->n; i++) { /* 7 lies in the second window of each ten records */
    int64_t position = p->at[i].number * 4 + p->at[i].slot;
    assert_in_range(position, 10 * i + 5, 10 * i + 9);
  }
  if (!strstr(d.text, "step 8, slot 2: ")) fail_msg("%s", d.text); /* position 30 */
  mr_graph_destroy(g);
  free(p);
}

/* As many as a test waits for in any case: a walk over these positions would take hours. */
static void a_record_of_a_billion_is_found_in_each_of_a_thousand_epochs(void **state) {
  places_t *p = calloc(1, sizeof *p);
  char why[200];
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph("range 1000000000 ! shuffle seed=5 epochs=1000 ! batch 1000");
  mr_find_t find = {.key = 123456789, .end = INT64_MAX, .found = note_place, .ctx = p};
  assert_int_equal(mr_graph_settle(g, &d), MR_OK);
  assert_int_equal(mr_graph_find(g, "batch", &find, why, sizeof why, &d), MR_OK);
  assert_int_equal(p->n, 1000);
  for (int i = 0; i < p->n; i++) {
    assert_int_equal(p->at[i].epoch, i);
    assert_int_equal(p->at[i].number / 1000000, i);
  }
  mr_graph_destroy(g);
  free(p);
}

static mr_err_t note_ten(void *ctx, const mr_found_place_t *f, mr_diag_t *diag) {
  places_t *p = ctx;
  note_place(ctx, f, diag);
  return p->n < 10 ? MR_OK : MR_END;
}

/* Finds in a stream of billions, for which a walk would take hours, and expects n places. */
static mr_err_t find_in_billions(const char *text, mr_find_t find, places_t *p, mr_diag_t *d) {
  char why[200];
  mr_graph_t *g = stream_graph(text);
  find.end = INT64_MAX, find.ctx = p, p->n = 0;
  *d = (mr_diag_t){0};
  if (mr_graph_settle(g, d) < 0) fail_msg("%s: %s", text, d->text);
  mr_err_t e = mr_graph_find(g, "batch", &find, why, sizeof why, d);
  mr_graph_destroy(g);
  return e;
}

/* The seeds of 2^32 windows end in the twenty-second epoch. */
static void a_failure_behind_billions_of_positions_is_found_soon(void **state) {
  places_t *p = calloc(1, sizeof *p);
  mr_diag_t d;
  const char *text = "range 1000000000 ! repeat 1000 ! window-shuffle 5 seed=0 ! batch 4";
  assert_true(find_in_billions(text, (mr_find_t){.key = 7, .found = note_place}, p, &d) < 0);
  assert_int_equal(p->n, 22);
  for (int64_t i = 0; i < p->n; i++) { /* 7 lies in the second window of each billion */
    int64_t position = p->at[i].number * 4 + p->at[i].slot;
    assert_in_range(position, i * 1000000000 + 5, i * 1000000000 + 9);
  }
  if (!strstr(d.text, "step 5368709121, slot 0: ")) fail_msg("%s", d.text); /* position 5 * 2^32 */
  /* The first failure is before the first place that fails, by more than a window of the search. */
  mr_find_t second = {.key = 300000000, .found = note_place};
  text = "range 1000000000 ! repeat 1000 ! window-shuffle 5 seed=4294967290 ! batch 4";
  assert_true(find_in_billions(text, second, p, &d) < 0);
  assert_int_equal(p->n, 0);
  if (!strstr(d.text, "step 8, slot 2: ")) fail_msg("%s", d.text);
  free(p);
}

/* Of two inputs the second fails, which gives one record of fifty. */
static void the_failure_of_an_input_is_found_among_the_others_records(void **state) {
  places_t *p = calloc(1, sizeof *p);
  mr_diag_t d;
  const char *text =
      "range 1000000000 ! repeat 1000 ! mix name=j weights=49,1 exact "
      "range 2000000000 stop=3000000000 ! repeat 1000 ! window-shuffle 5 seed=4194967296 ! j.b "
      "j. ! batch 4";
  mr_find_t find = {.key = 2700000000, .found = note_place};
  assert_true(find_in_billions(text, find, p, &d) < 0); /* its windows end after 5e8 records */
  assert_int_equal(p->n, 0);
  long long step = 0, want = 500000000ll * 50 / 4;
  assert_int_equal(sscanf(d.text, "step %lld", &step), 1);
  if (step < want - 25 || step > want + 25) fail_msg("%s, want step %lld", d.text, want);
  free(p);
}

/* The last window of a billion records fails, and each part of the shuffled epoch may hold it. */
static void a_failure_that_no_position_shows_ends_the_search(void **state) {
  places_t *p = calloc(1, sizeof *p);
  mr_diag_t d;
  const char *text =
      "range 1000000000 ! window-shuffle 5 seed=4094967297 ! shuffle seed=1 ! batch 4";
  mr_find_t find = {.key = 999999997, .found = note_place};
  assert_true(find_in_billions(text, find, p, &d) < 0);
  if (!strstr(d.text, "window-shuffle")) fail_msg("%s", d.text);
  find.key = 7; /* one that does not fail is found */
  if (find_in_billions(text, find, p, &d) != MR_OK) fail_msg("%s", d.text);
  assert_int_equal(p->n, 1);
  free(p);
}

/* A window that has grown over ten million records without this one meets as many that are this. */
static void a_wide_window_over_many_places_gives_them_a_few_at_a_time(void **state) {
  places_t *p = calloc(1, sizeof *p);
  mr_diag_t d;
  const char *text =
      "range 10000000 ! concatenate name=j range 10000000 stop=10000001 ! repeat 10000000 "
      "! j.b j. ! batch 4";
  mr_find_t find = {.key = 10000000, .found = note_ten};
  if (find_in_billions(text, find, p, &d) != MR_OK) fail_msg("%s", d.text);
  assert_int_equal(p->n, 10);
  for (int i = 0; i < 10; i++) assert_int_equal(p->at[i].number * 4 + p->at[i].slot, 10000000 + i);
  free(p);
}

int main(void) {
  stream_stages = find_stages;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_inverse_finds_what_a_walk_finds),
      cmocka_unit_test(where_positions_do_not_decide_the_stage_is_named),
      cmocka_unit_test(places_before_a_failure_are_found_and_the_failing_one_is_named),
      cmocka_unit_test(a_record_of_a_billion_is_found_in_each_of_a_thousand_epochs),
      cmocka_unit_test(a_failure_behind_billions_of_positions_is_found_soon),
      cmocka_unit_test(the_failure_of_an_input_is_found_among_the_others_records),
      cmocka_unit_test(a_failure_that_no_position_shows_ends_the_search),
      cmocka_unit_test(a_wide_window_over_many_places_gives_them_a_few_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
