/* Predicted times of ranks: tables of rates are read or refused, a pipeline waits as long as its
   schedule says, what runs beside computation hides behind it, and ranks receive in a step the
   bytes that its graph was planned with. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/collect.h"
#include "model/exec/device.h"
#include "model/ir/op.h"
#include "model/train/pipeline_plan.h"
#include "model/train/times.h"
#include "tests/model/vit_step.h"

enum { RANKS_MOST = 4 };

/* ---- tables ---- */

#define NUMBERS "f32-gflops 10\ncopy-gbs 2\nequation-us 1\ncall-us 3\nmessage-us 5\nlink-gbs 4\n"
#define GOOD "millrace ranks 1\nsource here\n" NUMBERS "beside no\n"

static void a_table_is_read_with_its_units(void **state) {
  mr_rates_t r;
  mr_diag_t diag = {0};
  if (mr_rates_parse(GOOD, strlen(GOOD), &r, &diag) < 0) fail_msg("%s", diag.text);
  assert_string_equal(r.source, "here");
  assert_false(r.beside);
  assert_float_equal(mr_rates_call(&r, 3, 4e9), 3e-6 + 15e-6 + 1, 1e-9);
  assert_float_equal(mr_rates_equation(&r, MR_F32, 10e9, 1), 1 + 1e-6, 1e-9);
  assert_float_equal(mr_rates_equation(&r, MR_BF16, 10e9, 1), 1 + 1e-6, 1e-9); /* as f32 */
  assert_float_equal(mr_rates_equation(&r, MR_F32, 1, 4e9), 2 + 1e-6, 1e-9);
  static const char *const known[] = {"threads", "8xH200"};
  for (int i = 0; i < 2; i++)
    if (mr_rates_read(known[i], &r, &diag) < 0) fail_msg("%s", diag.text);
}

static void other_texts_are_refused_with_the_line(void **state) {
  static const struct {
    const char *text, *says;
  } row[] = {
      {"", "line 1: , want millrace ranks 1"},
      {"millrace ranks 2\n", "line 1: millrace ranks 2"},
      {"millrace ranks 1\nsource a\n" NUMBERS, "beside is missing"},
      {"millrace ranks 1\n" NUMBERS "beside no\n", "source is missing"},
      {GOOD "colour 3\n", "line 10: unknown name colour"},
      {GOOD "call-us 3\n", "line 10: call-us is there twice"},
      {GOOD "bf16-gflops nan\n", "line 10: bf16-gflops nan, want a number"},
      {GOOD "bf16-gflops 0\n", "want a number in [0.001,1e12]"},
      {GOOD "bf16-gflops 3 4\n", "line 10: bf16-gflops 3 4"},
      {"millrace ranks 1\nsource\n" NUMBERS "beside no\n", "line 2: source , want a line of text"},
      {"millrace ranks 1\nsource a\n" NUMBERS "beside maybe\n", "beside maybe, want yes or no"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_rates_t r;
    mr_diag_t diag = {0};
    assert_int_equal(mr_rates_parse(row[i].text, strlen(row[i].text), &r, &diag), MR_ERR_DATA);
    if (!strstr(diag.text, row[i].says)) fail_msg("%s, want %s", diag.text, row[i].says);
  }
  mr_rates_t r;
  mr_diag_t diag = {0};
  assert_int_equal(mr_rates_read("tape", &r, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "want threads or 8xH200"));
}

/* ---- pipelines ---- */

/* A model whose stages cost nearly the same: blocks are most of it. */
static vit_t even_vit(int layers) {
  vit_t c = vit_default();
  c.model.image = 16, c.model.embed = 96, c.model.mlp = 384, c.model.heads = 4;
  c.model.layers = layers, c.how.dtype = MR_F32, c.how.threads = 1;
  return c;
}

static mr_train_config_t piped(const vit_t *c, int stages, int ranks, int64_t parts,
                               mr_pipeline_kind_t kind, int64_t batch) {
  mr_train_config_t t = mr_train_default(batch);
  mr_pipeline_plan_t plan;
  mr_diag_t diag = {0};
  mr_loss_t l = mr_vit_loss(&c->model);
  const mr_pipeline_want_t want = {.stages = stages, .kind = kind};
  t.compute = c->how, t.ordered = parts, t.ranks = ranks;
  if (stages && mr_pipeline_plan(&l, &c->how, batch / parts, &want, &plan, &diag) < 0)
    fail_msg("%s", diag.text);
  if (stages) t.pipeline = plan.cut;
  return t;
}

/* Plans the ranks of t, whose graphs belong to x. */
static void plan_ranks(const vit_t *c, mr_train_config_t t, int n, mr_exec_t **x,
                       mr_times_rank_t *rank) {
  mr_loss_t l = mr_vit_loss(&c->model);
  for (int i = 0; i < n; i++) {
    mr_params_t list = {0};
    mr_diag_t diag = {0};
    t.rank = i;
    if (mr_train_step_plan_rank(&l, &t, &list, &x[i], &diag) < 0) fail_msg("%s", diag.text);
    mr_params_fini(&list);
    rank[i] = (mr_times_rank_t){.f = mr_exec_fn(x[i]), .rank = i};
  }
}

/* The share of the time in which all ranks compute that they wait.  The last block, of which the
   head reads one token, costs little: there is one more, and stages are nearly even. */
static double predicted_bubble(int stages, int64_t parts, mr_pipeline_kind_t kind) {
  const mr_rates_t r = {.flop_s = {[MR_F32] = 1e9}, .copy_s = 1e30, .link_s = 1e30};
  vit_t c = even_vit(8 * stages + 1);
  mr_train_config_t t = piped(&c, stages, stages, parts, kind, 2 * parts);
  mr_exec_t *x[RANKS_MOST];
  mr_times_rank_t rank[RANKS_MOST];
  mr_mesh_t m;
  mr_diag_t diag = {0};
  double computes = 0, ends = 0;
  plan_ranks(&c, t, stages, x, rank);
  mr_mesh_parse(NULL, stages, &m, NULL);
  if (mr_times(&r, &m, stages, rank, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < stages; i++) {
    computes += rank[i].compute_s / stages;
    if (rank[i].ends_s > ends) ends = rank[i].ends_s;
  }
  mr_times_fini(stages, rank);
  for (int i = 0; i < stages; i++) mr_exec_destroy(x[i]);
  return ends / computes - 1;
}

static void a_pipeline_waits_a_stage_less_than_there_are_for_each_microbatch(void **state) {
  static const struct {
    int stages;
    int64_t parts;
  } row[] = {{2, 2}, {2, 4}, {4, 4}, {4, 8}};
  for (int kind = 0; kind < 2; kind++)
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
      double want = (row[i].stages - 1) / (double)row[i].parts;
      double bubble = predicted_bubble(row[i].stages, row[i].parts, (mr_pipeline_kind_t)kind);
      if (fabs(bubble - want) > 0.1 * want)
        fail_msg("%d stages, %d microbatches: a bubble of %g, want %g", row[i].stages,
                 (int)row[i].parts, bubble, want);
    }
}

/* ---- collectives beside computation ---- */

/* Of two ranks with zero=2, whose buckets leave during the backward pass: what a collective takes
   is waited for, or hidden behind what is computed meanwhile. */
static void collectives_beside_computation_hide_behind_it(void **state) {
  mr_rates_t r = {.flop_s = {[MR_F32] = 1e9}, .copy_s = 1e30, .link_s = 1e7};
  vit_t c = even_vit(4);
  mr_train_config_t t;
  c.model.embed = 192, c.model.mlp = 768; /* several buckets */
  t = piped(&c, 0, 2, 8, MR_PIPELINE_1F1B, 16);
  mr_exec_t *x;
  mr_times_rank_t rank;
  mr_mesh_t m;
  mr_diag_t diag = {0};
  double ends[2], calls = 0, hidden = 0;
  t.zero = 2;
  mr_mesh_parse("data=2", 2, &m, NULL);
  for (int beside = 0; beside < 2; beside++) {
    r.beside = beside;
    plan_ranks(&c, t, 1, &x, &rank);
    if (mr_times(&r, &m, 1, &rank, &diag) < 0) fail_msg("%s", diag.text);
    ends[beside] = rank.ends_s, calls = 0;
    for (int i = 0; i < rank.n_call; i++) calls += rank.call[i].s;
    for (int i = 0; beside && i < rank.n_call; i++)
      if (rank.call[i].beside && rank.call[i].waits_s < rank.call[i].s) hidden += rank.call[i].s;
    if (!beside) assert_float_equal(ends[0], rank.compute_s + calls, 1e-6 * ends[0]);
    mr_times_fini(1, &rank);
    mr_exec_destroy(x);
  }
  if (!(hidden > 0.1 * calls && ends[1] < ends[0] - 0.1 * hidden))
    fail_msg("%g s of %g hidden, %g s instead of %g", hidden, calls, ends[1], ends[0]);
}

/* ---- bytes ---- */

static _Thread_local int64_t received; /* of the rank of this thread */
static _Thread_local int size_of_call;

static mr_err_t counted_create(const mr_device_t *d, const char *id, int rank, int size,
                               double limit_s, mr_collect_t **out, mr_diag_t *diag) {
  size_of_call = size;
  return mr_collect_threads.create(d, id, rank, size, limit_s, out, diag);
}
static void counted_all_gather(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  received += (int64_t)bytes * (size_of_call - 1);
  mr_collect_threads.all_gather(c, bytes, in, out);
}
static void counted_all_to_all(mr_collect_t *c, size_t bytes, const void *in, void *out) {
  received += (int64_t)bytes * (size_of_call - 1);
  mr_collect_threads.all_to_all(c, bytes, in, out);
}
static void counted_send_receive(mr_collect_t *c, int to, int from, size_t bytes, const void *in,
                                 void *out) {
  if (from >= 0) received += (int64_t)bytes;
  mr_collect_threads.send_receive(c, to, from, bytes, in, out);
}

typedef struct member {
  mr_train_config_t t;
  vit_t c;
  mr_collect_ops_t ops;
  pthread_t thread;
  char id[32];
  int64_t received; /* in one step */
  mr_diag_t why;
} member_t;

static void *member_main(void *arg) {
  member_t *m = arg;
  mr_params_t p = {0};
  mr_train_step_t *step = NULL;
  mr_train_out_t out = {0};
  int64_t n = m->t.batch;
  float *images = calloc((size_t)n * 16 * 16 * 3, sizeof *images);
  void *fields = aligned_alloc(64, (size_t)n * 16 * 16 * 3 * sizeof(float));
  int32_t *labels = aligned_alloc(64, 64 * sizeof(float) * 4);
  memcpy(fields, images, (size_t)n * 16 * 16 * 3 * sizeof(float));
  for (int i = 0; i < n; i++) labels[i] = i % 10;
  m->t.collect_ops = &m->ops;
  mr_err_t e =
      m->ops.create(mr_device_default(), m->id, m->t.rank, m->t.ranks, 60, &m->t.collect, &m->why);
  if (e >= 0) e = vit_params(&m->c, 3, &p, &m->why);
  if (e >= 0) e = vit_step(&m->c, m->t, &step, &m->why);
  received = 0;
  if (e >= 0) e = vit_run(step, &p, fields, labels, 1e-2f, 1, 5, &out, &m->why);
  m->received = received;
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  if (m->t.collect) m->ops.destroy(m->t.collect);
  free(images), free(fields), free(labels);
  return NULL;
}

/* Ranks that exchange by a table, as processes do, and count. */
static void ranks_receive_the_bytes_that_are_planned(void **state) {
  static const struct {
    int ranks, zero, stages;
  } row[] = {{2, 0, 0}, {3, 1, 0}, {4, 2, 0}, {2, 0, 2}, {4, 0, 2}, {4, 0, 4}};
  const mr_rates_t r = {.flop_s = {[MR_F32] = 1e9}, .copy_s = 1e9, .link_s = 1e9};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    int n = row[i].ranks;
    vit_t c = even_vit(2);
    mr_train_config_t t = piped(&c, row[i].stages, n, 8, MR_PIPELINE_1F1B, 16);
    mr_exec_t *x[RANKS_MOST];
    mr_times_rank_t rank[RANKS_MOST];
    member_t m[RANKS_MOST];
    mr_mesh_t mesh;
    mr_diag_t diag = {0};
    t.zero = row[i].zero;
    plan_ranks(&c, t, n, x, rank);
    mr_mesh_parse(NULL, n, &mesh, NULL);
    if (mr_times(&r, &mesh, n, rank, &diag) < 0) fail_msg("%s", diag.text);
    for (int k = 0; k < n; k++) {
      m[k] = (member_t){.t = t, .c = c, .ops = mr_collect_threads};
      m[k].t.rank = k, m[k].ops.create = counted_create;
      m[k].ops.all_gather = counted_all_gather, m[k].ops.all_to_all = counted_all_to_all;
      m[k].ops.send_receive = counted_send_receive;
      snprintf(m[k].id, sizeof m[k].id, "times %zu", i);
      assert_int_equal(pthread_create(&m[k].thread, NULL, member_main, &m[k]), 0);
    }
    for (int k = 0; k < n; k++) pthread_join(m[k].thread, NULL);
    for (int k = 0; k < n; k++) {
      int64_t planned = 0;
      for (int j = 0; j < rank[k].n_call; j++) planned += rank[k].call[j].bytes;
      if (m[k].why.code < 0) fail_msg("rank %d of %d: %s", k, n, m[k].why.text);
      if (m[k].received != planned || !planned)
        fail_msg("rank %d of %d, zero=%d, %d stages: %lld bytes received, %lld planned", k, n,
                 row[i].zero, row[i].stages, (long long)m[k].received, (long long)planned);
    }
    mr_times_fini(n, rank);
    for (int k = 0; k < n; k++) mr_exec_destroy(x[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_table_is_read_with_its_units),
      cmocka_unit_test(other_texts_are_refused_with_the_line),
      cmocka_unit_test(a_pipeline_waits_a_stage_less_than_there_are_for_each_microbatch),
      cmocka_unit_test(collectives_beside_computation_hide_behind_it),
      cmocka_unit_test(ranks_receive_the_bytes_that_are_planned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
