/* What a filter keeps is counted in the order of the source, and seeking behind it gives what
   walking there gives: over random graphs, with records that cannot be read, that a map rejects and
   that are excluded. */
#include "base/philox.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"
#include "tests/loaders/streams.h"

typedef struct shelf {
  int64_t n, first, bad, epochs;
  mr_care_t care;
} shelf_t;

/* What was fetched: how many records, and how often one that does not follow the one before. */
static _Atomic int64_t n_fetched, n_jumps, last_index;

static mr_err_t shelf_plan(mr_stage_t *s) {
  const shelf_t *t = s->state;
  s->out_spec[0] = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                               .n_fields = 1,
                               .field = {{.name = "value", .dtype = MR_I64}},
                               .n_records = t->n,
                               .n_epochs = t->epochs};
  s->writes = 1;
  return MR_OK;
}

static mr_err_t shelf_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  const shelf_t *t = s->state;
  for (int i = 0; i < n; i++) {
    n_fetched += 1;
    n_jumps += index[i] != last_index + 1;
    last_index = index[i];
    if (t->bad && index[i] % t->bad == t->bad - 1)
      return mr_stage_fail(s, MR_ERR_DATA, "record %lld is torn", (long long)index[i]);
    *(int64_t *)out[i].field->data = t->first + index[i];
    out[i].key = (uint64_t)(t->first + index[i]);
  }
  return MR_OK;
}

static void shelf_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  *out->file = 0, out->offset = -1;
  out->key = (uint64_t)(((const shelf_t *)s->state)->first + index);
}

static const mr_opt_t shelf_opts[] = {
    {.name = "n", .type = MR_OPT_INT, .offset = offsetof(shelf_t, n), .hi = 1e12, .positional = 1},
    {.name = "first",
     .type = MR_OPT_INT,
     .offset = offsetof(shelf_t, first),
     .def = "0",
     .hi = 1e9},
    {.name = "bad", .type = MR_OPT_INT, .offset = offsetof(shelf_t, bad), .def = "0", .hi = 1e9},
    {.name = "epochs",
     .type = MR_OPT_INT,
     .offset = offsetof(shelf_t, epochs),
     .def = "1",
     .hi = 1e9},
    MR_CARE_OPTS(shelf_t, care),
    {0}};

static const mr_stage_def_t mr_stage_shelf = {
    .name = "shelf",
    .help = "Counts what is fetched.",
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = shelf_opts,
    .state_sz = sizeof(shelf_t),
    .plan = shelf_plan,
    .source = &(const mr_source_def_t){
        .fetch = shelf_fetch, .where = shelf_where, .care = offsetof(shelf_t, care)}};

static mr_err_t weigh_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }

/* A map that changes nothing, and finds every eleventh record bad. */
static mr_err_t weigh_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  int64_t v = *(const int64_t *)in->field->data;
  return v % 11 ? MR_OK : mr_stage_fail(s, MR_ERR_DATA, "record %lld is light", (long long)v);
}

static const mr_stage_def_t mr_stage_weigh = {.name = "weigh",
                                              .help = "Rejects records.",
                                              .in = {{"in", MR_FLOW_RECORDS, false}},
                                              .out = {{"out", MR_FLOW_RECORDS, false}},
                                              .plan = weigh_plan,
                                              .map = &(const mr_map_def_t){.run = weigh_map}};

static stream_t stream_from(const char *text, int64_t number) {
  stream_t t = {0};
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(text);
  assert_int_equal(mr_graph_start_number(g, "batch", number, &d), MR_OK);
  stream_now = &t;
  if (mr_graph_run(g, &d) < 0) fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  return t;
}

static void same_from(const char *text, const stream_t *all, int k) {
  stream_t rest = stream_from(text, k), resumed = {0};
  assert_same_stream(text, all, k < all->n ? k : all->n, &rest);
  stream_free(&rest);
  if (k < 1 || k > all->n) return;
  resumed = stream_resume(text, all, k - 1, true);
  assert_same_stream(text, all, k, &resumed);
  stream_free(&resumed);
}

/* ---- random graphs ---- */

static mr_philox_t draw;

static int below(int n) { return (int)mr_philox_integers(&draw, 0, n); }
static const char *one_of(const char *const *word, int n) { return word[below(n)]; }

static void append(char *text, const char *words) { strcat(strcat(text, " ! "), words); }

static void append_source(char *text, int n, int first, bool careful) {
  static const char *const care[] = {"", " on-bad=skip-replace bad=7", " on-bad=skip-replace",
                                     " skip-records=3,20-30 on-bad=skip-replace",
                                     " bad=5 on-bad=skip-replace bad-seed=3"};
  static const char *const order[] = {"shuffle seed=7",
                                      "shuffle seed=2 bijective",
                                      "slice 3:",
                                      "slice :40",
                                      "slice 1::2",
                                      "repeat 1",
                                      "sequential shard=1/2",
                                      "shuffle seed=1 shard=0/2"};
  sprintf(text + strlen(text), "shelf %d first=%d epochs=3%s", n, first,
          careful ? one_of(care + 1, 4) : care[0]);
  for (int k = below(3); k > 0; k--) append(text, one_of(order, 8));
}

static void write_graph(char *text) {
  static const char *const filter[] = {"filter modulo=3 remainder=1:2", "filter key=7:60",
                                       "filter p=0.5 seed=4", "filter modulo=5 invert",
                                       "filter 1,2,5,8,11,22,23,24,30,33,44,50 field=value"};
  static const char *const batch[] = {"batch 5", "batch 8 across-epochs workers=2",
                                      "batch 3 drop-remainder", "to-iter-dataset ! batch 4",
                                      "batch 4 order=grain-workers loader-workers=2"};
  bool careful = below(2);
  int kind = below(4), n = 30 + below(60);
  *text = 0;
  append_source(text, n, 0, careful);
  if (careful && below(2)) append(text, "weigh");
  if (kind == 1) { /* mix; the filter before it or behind it */
    if (below(2)) append(text, one_of(filter, 5));
    append(text, "mix weights=2,1 name=m ");
    append_source(text, n, 100, careful);
    strcat(text, " ! m.b m.");
  }
  if (kind == 2) append(text, one_of(filter, 5)); /* two filters */
  if (kind == 3) append(text, "to-iter-dataset");
  append(text, one_of(filter, 5));
  if (kind != 3 && below(2)) append(text, "shuffle seed=9");
  append(text, kind == 3 ? "batch 4" : one_of(batch, 5));
}

static void seeking_behind_filters_of_random_graphs_equals_walking(void **state) {
  for (uint64_t seed = 0; seed < 400; seed++) {
    char text[2048];
    mr_diag_t d = {0};
    mr_philox_init(&draw, seed, 1);
    write_graph(text);
    mr_graph_t *g = stream_graph(text);
    bool settles = mr_graph_settle(g, &d) >= 0;
    mr_graph_destroy(g);
    if (!settles) continue; /* slices of nothing */
    stream_t all = stream_run(text);
    for (int k = 0; k <= all.n + 1; k += 1 + all.n / 5) same_from(text, &all, k);
    stream_free(&all);
  }
}

/* ---- what is read ---- */

static void read_by(const char *text, int64_t number) {
  n_fetched = n_jumps = 0;
  last_index = -2;
  stream_t t = stream_from(text, number);
  if (t.n < 1 || t.n > 3) fail_msg("%s: %d batches are left", text, t.n);
  stream_free(&t);
}

static void a_period_is_read_once_in_the_order_of_the_source(void **state) {
  static const struct {
    const char *text;
    int64_t number, records, jumps; /* of the last two batches, each record is fetched to be made */
  } row[] = {
      {"shelf 5000 ! shuffle epochs=100000 ! filter modulo=2 ! batch 5", 49999998, 5000, 20},
      {"shelf 5000 ! shuffle epochs=100000 ! filter modulo=2 ! to-iter-dataset ! batch 5", 49999998,
       5000, 20},
      {"shelf 5000 ! shuffle epochs=100000 ! to-iter-dataset ! filter modulo=2 ! batch 5", 49999998,
       5000, 20},
      {"shelf 5000 ! slice :1000 ! shuffle epochs=100000 ! filter modulo=2 ! batch 5", 9999998,
       1000, 20},
      {"shelf 5000 ! slice ::2 ! shuffle epochs=100000 ! filter modulo=4 ! batch 5", 24999998, 2500,
       2520},
      {"shelf 5000 ! shuffle seed=1 ! filter modulo=2 ! batch 5", 498, 5000, 20},
      {"shelf 1000 ! shuffle epochs=100000 ! mix weights=2,1 name=m shelf 1000 first=1000 "
       "epochs=100000 ! shuffle seed=3 ! m.b m. ! filter modulo=2 ! batch 5 across-epochs",
       14999998, 2000, 40},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    read_by(row[i].text, row[i].number);
    if (n_fetched < row[i].records || n_fetched > row[i].records + 20 || n_jumps > row[i].jumps)
      fail_msg("%s: %lld records read, %lld jumps", row[i].text, (long long)n_fetched,
               (long long)n_jumps);
  }
}

static void a_near_step_does_not_read_the_whole_source(void **state) {
  read_by("shelf 100000 ! to-iter-dataset ! limit 400 ! filter modulo=2 ! batch 50", 3);
  assert_in_range(n_fetched, 1, 1000);
}

int main(void) {
  static const mr_stage_def_t *const own[] = {&mr_stage_shelf, &mr_stage_weigh, NULL};
  stream_stages = own;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seeking_behind_filters_of_random_graphs_equals_walking),
      cmocka_unit_test(a_period_is_read_once_in_the_order_of_the_source),
      cmocka_unit_test(a_near_step_does_not_read_the_whole_source),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
