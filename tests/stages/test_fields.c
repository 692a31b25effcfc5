/* Records of five fields of five dtypes, one of them ragged, through shuffle, filter, mix, maps on
   single fields, select, rename and batch: every byte follows from the record's key, whatever the
   workers and wherever the stream starts. */
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/vectors.h"

enum { ROWS = 7, SEEN = 4096 };
enum { A, B, C, TOKENS, LABEL }; /* as the source has them */

typedef struct five {
  int64_t n, base;
} five_t;

static uint8_t table[2048][3]; /* of field a: what a source has in memory */

static mr_err_t five_plan(mr_stage_t *s) {
  const five_t *t = s->state;
  mr_spec_t spec = {
      .flow = MR_FLOW_RECORDS,
      .n_fields = 5,
      .field = {{.name = "a", .dtype = MR_U8, .ndim = 1, .dim = {3}},
                {.name = "b", .dtype = MR_F32},
                {.name = "c", .dtype = MR_I64, .ndim = 1, .dim = {2}},
                {.name = "tokens", .dtype = MR_U32, .ndim = 2, .dim = {ROWS, 2}, .ragged = true},
                mr_field_of_label(5)},
      .n_records = t->n,
      .n_epochs = 1};
  s->out_spec[0] = spec;
  s->writes = 1 << B | 1 << C | 1 << TOKENS | 1 << LABEL;
  return MR_OK;
}

static mr_err_t five_fetch(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out) {
  const five_t *t = s->state;
  for (int i = 0; i < n; i++) {
    int64_t key = t->base + index[i];
    mr_value_t *v = out[i].field;
    v[A].data = table[key];
    *(float *)v[B].data = (float)key * .5f;
    ((int64_t *)v[C].data)[0] = key, ((int64_t *)v[C].data)[1] = -key;
    v[TOKENS].rows = key % (ROWS + 1);
    for (int k = 0; k < 2 * v[TOKENS].rows; k++)
      ((uint32_t *)v[TOKENS].data)[k] = (uint32_t)(key * 100 + k);
    *(int32_t *)v[LABEL].data = (int32_t)(key % 5);
    out[i].key = (uint64_t)key;
  }
  return MR_OK;
}

static const mr_opt_t five_opts[] = {
    {.name = "n", .type = MR_OPT_INT, .offset = offsetof(five_t, n), .def = "100"},
    {.name = "base", .type = MR_OPT_INT, .offset = offsetof(five_t, base), .def = "0"},
    {0}};
static const mr_stage_def_t five = {.name = "five",
                                    .help = "Test source.",
                                    .out = {{"out", MR_FLOW_RECORDS, false}},
                                    .opts = five_opts,
                                    .state_sz = sizeof(five_t),
                                    .plan = five_plan,
                                    .source = &(const mr_source_def_t){.fetch = five_fetch}};

/* shorten: the tokens without their first row, where the key is even. */
static mr_err_t shorten_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->writes = (uint16_t)(1u << mr_spec_find(&s->in_spec[0], "tokens"));
  return MR_OK;
}
static mr_err_t shorten_run(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  int f = mr_spec_find(&s->in_spec[0], "tokens");
  const mr_value_t *from = &in->field[f];
  mr_value_t *to = &out->field[f];
  if (in->key % 2 || !from->rows) return *to = *from, MR_OK;
  to->rows = from->rows - 1;
  memcpy(to->data, (const uint32_t *)from->data + 2, (size_t)to->rows * 8);
  return MR_OK;
}
static const mr_stage_def_t shorten = {.name = "shorten",
                                       .help = "Test map.",
                                       .in = {{"in", MR_FLOW_RECORDS, false}},
                                       .out = {{"out", MR_FLOW_RECORDS, false}},
                                       .plan = shorten_plan,
                                       .map = &(const mr_map_def_t){.run = shorten_run}};

/* ---- the oracle ---- */

static uint64_t key_seen[SEEN];
static int n_seen;

static void check_record(const mr_spec_t *spec, const mr_buf_t *b, int i) {
  int64_t key = (int64_t)b->key[i];
  const mr_buf_field_t *f = b->field;
  assert_int_equal(spec->n_fields, 5); /* tokens, label, picture (was a), b, c */
  int64_t first = f[0].offset[i], rows = f[0].offset[i + 1] - first, cut = 0;
  if (key % 2 == 0 && key % (ROWS + 1)) cut = 1;
  assert_int_equal(rows, key % (ROWS + 1) - cut);
  for (int64_t k = 0; k < 2 * rows; k++)
    assert_int_equal(((uint32_t *)f[0].data)[2 * first + k], key * 100 + 2 * cut + k);
  assert_int_equal(((int32_t *)f[1].data)[i], key % 5);
  assert_memory_equal((uint8_t *)f[2].data + 3 * (ptrdiff_t)i, table[key], 3);
  assert_true(((float *)f[3].data)[i] == (float)key * .5f);
  assert_int_equal(((int64_t *)f[4].data)[2 * i], key);
  assert_int_equal(((int64_t *)f[4].data)[2 * i + 1], -key);
  assert_int_equal(b->excluded[i], 0);
}

static mr_err_t check_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  assert_int_equal(b->field[0].offset[0], 0);
  assert_int_equal(b->size, mr_buf_bytes(&s->in_spec[0], b, b->n));
  for (int i = 0; i < b->n; i++) {
    check_record(&s->in_spec[0], b, i);
    key_seen[n_seen++] = b->key[i];
  }
  mr_buf_unref(b);
  return MR_OK;
}
static const mr_stage_def_t check = {.name = "check",
                                     .help = "Compares every byte.",
                                     .in = {{"in", MR_FLOW_BATCHES, false}},
                                     .step = &(const mr_step_def_t){.run = check_step}};
static const mr_stage_def_t *const own[] = {&five, &shorten, &check, NULL};
static mr_registry_t reg;

static mr_err_t run(const char *stages, int64_t first, mr_diag_t *d) {
  mr_graph_t *g = mr_graph_create(&reg);
  *d = (mr_diag_t){0};
  n_seen = 0;
  mr_err_t e = mr_graph_parse(g, stages, NULL, 0, d);
  if (e >= 0) e = mr_graph_settle(g, d);
  if (e >= 0 && first) e = mr_graph_start_number(g, "bat", first, d);
  if (e >= 0) e = mr_graph_run(g, d);
  mr_graph_destroy(g);
  return e;
}

static void every_byte_follows_from_the_key(void **state) {
  static const char *const way[] = {
      "five n=100 ! shuffle seed=3 epochs=2 ! shorten ! select tokens,label,a,b,c ! rename "
      "a:picture ! batch 16 name=bat workers=%d ! check",
      "five n=100 ! shuffle seed=3 epochs=2 ! mix.a five n=60 base=1000 ! filter 1,2,3 ! "
      "window-shuffle 7 seed=2 ! mix.b mix name=mix ! shorten ! select tokens,label,a,b,c ! rename "
      "a:picture ! batch 16 name=bat workers=%d ! rebatch 7 ! check"};
  uint64_t whole[SEEN];
  for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
    int n_whole = 0;
    for (int workers = 1; workers <= 3; workers++) {
      char text[512];
      mr_diag_t d;
      snprintf(text, sizeof text, way[k], workers);
      if (run(text, 0, &d) < 0) fail_msg("%s", d.text);
      assert_true(n_seen > 60);
      if (workers == 1) memcpy(whole, key_seen, sizeof whole), n_whole = n_seen;
      assert_int_equal(n_seen, n_whole);
      assert_memory_equal(key_seen, whole, (size_t)n_seen * 8);
      if (k) continue;
      if (run(text, 3, &d) < 0) fail_msg("%s", d.text);
      assert_int_equal(n_seen, n_whole - 48);
      assert_memory_equal(key_seen, whole + 48, (size_t)n_seen * 8);
    }
  }
}

static void fields_that_do_not_fit_are_refused_by_name(void **state) {
  static const char *const row[][2] = {
      {"five ! select a,d ! batch 4 ! check", "no field \"d\"; the records have a, b, c, tokens"},
      {"five ! select a,a ! batch 4 ! check", "a is named twice"},
      {"five ! drop a,b,c,tokens,label ! batch 4 ! check", "a record needs a field"},
      {"five ! rename a:b ! batch 4 ! check", "two fields would be called b"},
      {"five ! rename a:9 ! batch 4 ! check", "want OLD:NEW"},
      {"five ! mix.a five ! drop c ! mix.b mix name=mix ! batch 4 ! check",
       "input a have 5 fields"},
      {"five ! zip.a five ! drop c ! zip.b zip name=zip ! batch 4 ! check", "both have a field a"},
      {"five ! zip.a five ! zip.b zip name=zip ! batch 4 ! check", "field tokens"},
      {"five ! flip p=1 ! batch 4 ! check", "takes u8 pictures"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_diag_t d;
    assert_true(run(row[i][0], 0, &d) < 0);
    if (!strstr(d.text, row[i][1])) fail_msg("%s: %s", row[i][0], d.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_follows_from_the_key),
                                     cmocka_unit_test(fields_that_do_not_fit_are_refused_by_name)};
  for (int i = 0; i < 2048; i++)
    for (int k = 0; k < 3; k++) table[i][k] = (uint8_t)(i * 7 + k);
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, own);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
