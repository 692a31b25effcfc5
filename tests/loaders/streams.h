/* Runs a graph of record stages and keeps what comes out, for tests of orders.

   The graph's text ends before its sink: "collect" is added.  Besides the program's own stages
   there are some of this file, as a program may add its own, all on records of one i64: affine (x
   -> mul*x + add), rand (x -> mul*x + integers(0, below) of the record's generator), raw-random (x
   -> x, one raw draw, the bits of one random()) and keep-if (keeps x % mod != 0). */
#ifndef MR_TESTS_LOADERS_STREAMS_H
#define MR_TESTS_LOADERS_STREAMS_H

#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_step.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/vectors.h"

enum { STREAM_MAX = 100000, STREAM_WORDS = 512 };

typedef struct element {
  int64_t *value; /* [n * width] */
  bool hole;      /* its first record stands for one */
  int n, width;   /* records in the batch, numbers in a record */
  int64_t position, epoch;
  uint32_t flags;
  int64_t *word; /* [n_words] of the stream */
} element_t;

typedef struct stream {
  element_t *element; /* [n] */
  int n, n_words;
} stream_t;

static stream_t *stream_now;

static inline mr_err_t collect_step(mr_stage_t *s) {
  mr_buf_t *b;
  stream_t *t = stream_now;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (t->n == STREAM_MAX) return mr_stage_fail(s, MR_ERR_USAGE, "too many batches for a test");
  if ((t->n & (t->n - 1)) == 0) /* full: twice as many */
    t->element = realloc(t->element, sizeof(element_t) * (t->n ? 2 * (size_t)t->n : 1));
  const mr_spec_t *spec = &s->in_spec[0];
  element_t *x = &t->element[t->n++];
  *x = (element_t){.n = b->n, .width = 1, .position = b->position, .epoch = b->epoch};
  x->flags = b->flags, x->hole = b->n && b->key[0] == UINT64_MAX;
  for (int i = 0; i < spec->field->ndim; i++) x->width *= (int)spec->field->dim[i];
  size_t bytes = (size_t)x->n * (size_t)x->width * mr_dtype_size(spec->field->dtype);
  x->value = malloc(bytes + 8);
  memcpy(x->value, b->data, bytes);
  t->n_words = spec->n_words;
  x->word = calloc((size_t)spec->n_words + 1, sizeof *x->word);
  if (b->word) memcpy(x->word, b->word, (size_t)spec->n_words * 8);
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t mr_stage_collect = {
    .name = "collect",
    .help = "Keeps all batches for a test.",
    .in = {{"in", MR_FLOW_BATCHES, false}},
    .step = &(const mr_step_def_t){.run = collect_step}};

typedef struct arith {
  int64_t mul, add, below, mod;
} arith_t;

static inline mr_err_t arith_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->writes = 1;
  return MR_OK;
}

static inline mr_err_t affine_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const arith_t *a = s->state;
  *(int64_t *)out->field->data = *(const int64_t *)in->field->data * a->mul + a->add;
  return MR_OK;
}

static inline mr_err_t rand_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  const arith_t *a = s->state;
  if (!in->rng) return mr_stage_fail(s, MR_ERR_USAGE, "a record has no generator");
  *(int64_t *)out->field->data =
      *(const int64_t *)in->field->data * a->mul + mr_philox_integers(in->rng, 0, a->below);
  return MR_OK;
}

static inline mr_err_t raw_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  s->writes = 1;
  s->out_spec[0].field->ndim = 1, s->out_spec[0].field->dim[0] = 3;
  return MR_OK;
}

static inline mr_err_t raw_map(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out) {
  int64_t *to = out->field->data;
  if (!in->rng) return mr_stage_fail(s, MR_ERR_USAGE, "a record has no generator");
  to[0] = *(const int64_t *)in->field->data;
  to[1] = (int64_t)mr_philox_next64(in->rng);
  double r = mr_philox_random(in->rng);
  memcpy(&to[2], &r, sizeof r);
  return MR_OK;
}

static inline mr_err_t keep_if_keep(mr_stage_t *s, const mr_rec_t *rec, bool *keep) {
  *keep = *(const int64_t *)rec->field->data % ((const arith_t *)s->state)->mod != 0;
  return MR_OK;
}

static const mr_opt_t arith_opts[] = {
    {.name = "mul", .type = MR_OPT_INT, .offset = offsetof(arith_t, mul), .def = "1"},
    {.name = "add", .type = MR_OPT_INT, .offset = offsetof(arith_t, add), .def = "0"},
    {.name = "below", .type = MR_OPT_INT, .offset = offsetof(arith_t, below), .def = "1"},
    {.name = "mod", .type = MR_OPT_INT, .offset = offsetof(arith_t, mod), .def = "3"},
    {0}};

#define STREAM_STAGE(text, ...)                                               \
  {                                                                           \
    .name = text, .help = "Test stage.", .opts = arith_opts,                  \
    .in = {{"in", MR_FLOW_RECORDS, false}}, .state_sz = sizeof(arith_t),      \
    .out = {{"out", MR_FLOW_RECORDS, false}}, .plan = arith_plan, __VA_ARGS__ \
  }
static const mr_stage_def_t mr_stage_affine =
    STREAM_STAGE("affine", .map = &(const mr_map_def_t){.run = affine_map});
static const mr_stage_def_t mr_stage_rand =
    STREAM_STAGE("rand", .map = &(const mr_map_def_t){.run = rand_map});
static const mr_stage_def_t mr_stage_keep_if =
    STREAM_STAGE("keep-if", .filter = &(const mr_filter_def_t){.keep = keep_if_keep});
static const mr_stage_def_t mr_stage_raw_random = {
    .name = "raw-random",
    .help = "Test stage.",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .plan = raw_plan,
    .map = &(const mr_map_def_t){.run = raw_map},
};
static const mr_stage_def_t *const stream_table[] = {&mr_stage_collect, &mr_stage_affine,
                                                     &mr_stage_rand,    &mr_stage_raw_random,
                                                     &mr_stage_keep_if, NULL};

/* Stages of a test program's own. */
static const mr_stage_def_t *const *stream_stages;

static inline mr_graph_t *stream_graph(const char *text) {
  static mr_registry_t reg;
  mr_diag_t d = {0};
  char *whole = malloc(strlen(text) + 16);
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
    mr_registry_add(&reg, stream_table);
    if (stream_stages) mr_registry_add(&reg, stream_stages);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  assert_non_null(g);
  assert_non_null(whole);
  sprintf(whole, "%s ! collect", text);
  if (mr_graph_parse(g, whole, NULL, 0, &d) < 0) fail_msg("%.300s: %s", text, d.text);
  free(whole);
  return g;
}

static inline void stream_free(stream_t *t) {
  for (int i = 0; i < t->n; i++) free(t->element[i].value), free(t->element[i].word);
  free(t->element);
  *t = (stream_t){0};
}

/* Runs text; from: the element of an earlier run after which its stage "stage" resumes, or NULL;
   words: with its state too. */
static inline stream_t stream_resume_at(const char *text, const char *stage,
                                        const stream_t *earlier, int from, bool words) {
  stream_t t = {0};
  mr_diag_t d = {0};
  mr_graph_t *g = stream_graph(text);
  if (earlier) {
    const element_t *x = &earlier->element[from];
    int n = words ? earlier->n_words : 0;
    assert_int_equal(mr_graph_start_words(g, stage, x->position, x->word, n, &d), MR_OK);
  }
  stream_now = &t;
  if (mr_graph_run(g, &d) < 0) fail_msg("%.600s: %s", text, d.text);
  mr_graph_destroy(g);
  return t;
}

static inline stream_t stream_resume(const char *text, const stream_t *earlier, int from,
                                     bool words) {
  return stream_resume_at(text, "batch", earlier, from, words);
}

static inline stream_t stream_run(const char *text) { return stream_resume(text, NULL, 0, false); }

static inline bool same_element(const element_t *a, const element_t *b) {
  return a->n == b->n && a->width == b->width && a->position == b->position &&
         a->epoch == b->epoch && a->flags == b->flags &&
         !memcmp(a->value, b->value, (size_t)a->n * (size_t)a->width * 8);
}

/* b is a from element number `from` on. */
static inline void assert_same_stream(const char *text, const stream_t *a, int from,
                                      const stream_t *b) {
  if (a->n - from != b->n) fail_msg("%s: %d batches, want %d", text, b->n, a->n - from);
  for (int i = 0; i < b->n; i++)
    if (!same_element(&a->element[from + i], &b->element[i]))
      fail_msg("%s: batch %d differs from %d", text, i, from + i);
}

#endif
