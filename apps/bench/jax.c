/* The cases of bench/jax.sh, which bench/peers/jax_micro.py runs in JAX: large and small compiled
   functions, the overhead of a call, and the time of compiling. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bench.h"
#include "base/clock.h"
#include "model/exec/device.h"
#include "model/model.h"
#include "model/train/train.h"

enum { RUNS_MAX = 2000, RUNS_MIN = 5, IN_MAX = 8, OUT_MAX = 8 };
#define RUN_SECONDS 1.0

/* ---- the functions; arg is unused ---- */
static mr_err_t trace_empty(mr_fn_t *f, void *arg) { return mr_fn_return(f, 1, f->in); }

static mr_err_t trace_waves(mr_fn_t *f, void *arg) {
  mr_var_t *x = f->in[0];
  for (int i = 0; i < 10; i++)
    x = mr_lax_add(f, mr_lax_scale(f, 0.5, x), mr_lax_scale(f, 0.1, mr_lax_sin(f, x)));
  return mr_fn_return(f, 1, &x);
}

static mr_err_t trace_product(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_dot(f, f->in[0], f->in[1]);
  return mr_fn_return(f, 1, &y);
}

/* Makes f compute g, a transform of another function, and frees g. */
static mr_err_t bench_jax_become(mr_fn_t *f, mr_fn_t *g) {
  mr_var_t *out[OUT_MAX];
  mr_err_t e = mr_inline(f, g, f->in, out);
  if (e >= 0) e = mr_fn_return(f, g->n_out, out);
  mr_fn_destroy(g);
  return e;
}

static mr_err_t trace_hessian(mr_fn_t *f, void *arg) {
  mr_fn_t *inner = mr_fn_create(), *g = NULL;
  mr_var_t *x = mr_fn_input(inner, f->in[0]->aval);
  mr_var_t *y = mr_lax_reduce_sum(inner, mr_lax_mul(inner, x, x), 1, (int[]){0});
  mr_fn_return(inner, 1, &y);
  mr_err_t e = mr_hessian(inner, 1, (int[]){0}, &g, &f->diag);
  mr_fn_destroy(inner);
  return e < 0 ? e : bench_jax_become(f, g);
}

static mr_err_t trace_matvecs(mr_fn_t *f, void *arg) {
  mr_fn_t *inner = mr_fn_create(), *g = NULL;
  mr_var_t *w = mr_fn_input(inner, f->in[0]->aval);
  mr_aval_t one = mr_aval(MR_F32, 1, &f->in[1]->aval.dim[1]);
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}};
  mr_var_t *y = mr_lax_dot_general(inner, w, mr_fn_input(inner, one), &d, MR_F32);
  mr_fn_return(inner, 1, &y);
  mr_err_t e = mr_vmap(inner, f->in[1]->aval.dim[0], (int[]){MR_UNMAPPED, 0}, NULL, &g, &f->diag);
  mr_fn_destroy(inner);
  return e < 0 ? e : bench_jax_become(f, g);
}

/* tanh layers and the mean squared error; in: w1 b1 w2 b2 w3 b3 x y. */
static mr_err_t trace_mlp(mr_fn_t *f, void *arg) {
  mr_fn_t *t = mr_fn_create(), *g = NULL;
  for (int i = 0; i < f->n_in; i++) mr_fn_input(t, f->in[i]->aval);
  mr_var_t *x = t->in[6];
  for (int k = 0; k < 3; k++) {
    x = mr_lax_linear(t, x, t->in[2 * k], t->in[2 * k + 1], false);
    if (k < 2) x = mr_lax_tanh(t, x);
  }
  mr_var_t *d = mr_lax_sub(t, x, t->in[7]);
  mr_var_t *loss = mr_lax_reduce_sum(t, mr_lax_mul(t, d, d), 2, (int[]){0, 1});
  loss = mr_lax_scale(t, 1.0 / (double)mr_aval_elems(&x->aval), loss);
  mr_fn_return(t, 1, &loss);
  mr_err_t e = mr_value_and_grad(t, 6, (int[]){0, 1, 2, 3, 4, 5}, &g, &f->diag);
  mr_fn_destroy(t);
  return e < 0 ? e : bench_jax_become(f, g);
}

typedef struct jax_case {
  const char *run_us, *compile_ms; /* names of the figures */
  mr_emit_fn *trace;
  int n_in, n_out;
  int64_t dim[IN_MAX][2]; /* of f32 inputs; 0: no such dimension */
} jax_case_t;

static const jax_case_t cases[] = {
    {"waves_us", "waves_compile_ms", trace_waves, 1, 1, {{1000, 1000}}},
    {"hessian_us", "hessian_compile_ms", trace_hessian, 1, 1, {{1000}}},
    {"matvecs_us", "matvecs_compile_ms", trace_matvecs, 2, 1, {{512, 512}, {256, 512}}},
    {"mlp_us",
     "mlp_compile_ms",
     trace_mlp,
     8,
     7,
     {{784, 512}, {512}, {512, 512}, {512}, {512, 10}, {10}, {128, 784}, {128, 10}}},
    {"matmul_us", "matmul_compile_ms", trace_product, 2, 1, {{2000, 2000}, {2000, 2000}}},
    {"dispatch_us", "empty_compile_ms", trace_empty, 1, 1, {{0}}},
};

typedef struct bound {
  const jax_case_t *c;
  mr_queue_t *queue;
  mr_array_t *in[IN_MAX];
} bound_t;

static mr_err_t bench_jax_bind(bound_t *b, mr_diag_t *diag) {
  for (int i = 0; i < b->c->n_in; i++) {
    const int64_t *dim = b->c->dim[i];
    mr_aval_t a = mr_aval(MR_F32, (dim[0] > 0) + (dim[1] > 0), dim);
    size_t n = (size_t)mr_aval_elems(&a);
    float *v = malloc(n * sizeof *v);
    if (!v) return mr_no_memory(diag, "a measurement");
    for (size_t k = 0; k < n; k++) v[k] = (float)((k * 2654435761u >> 7) % 2001) / 1000 - 1;
    b->in[i] = mr_array_of(a, v, diag);
    free(v);
    if (!b->in[i]) return diag->code;
  }
  return MR_OK;
}

static void drop_inputs(bound_t *b) {
  for (int i = 0; i < IN_MAX; i++) {
    mr_array_drop(b->in[i]);
    b->in[i] = NULL;
  }
}

/* Measures the seconds until the call returns, and until its results are ready. */
static mr_err_t bench_jax_call(bound_t *b, mr_jitted_t *j, double *back, double *there,
                               mr_diag_t *diag) {
  mr_array_t *out[OUT_MAX];
  double from = mr_now_s();
  MR_TRY(mr_jitted_call(j, b->c->n_in, b->in, b->c->n_out, out, diag));
  *back = mr_now_s() - from;
  mr_err_t e = MR_OK;
  for (int i = 0; i < b->c->n_out && e >= 0; i++) e = mr_block_until_ready(out[i], diag);
  *there = mr_now_s() - from;
  for (int i = 0; i < b->c->n_out; i++) mr_array_drop(out[i]);
  return e;
}

typedef struct times {
  double back, there, compile; /* medians of calls; of the first tracing and compiling */
} times_t;

static mr_err_t bench_jax_time_runs(bound_t *b, mr_jitted_t *j, times_t *t, mr_diag_t *diag) {
  double back[RUNS_MAX], there[RUNS_MAX], unused, begin = mr_now_s();
  int n = 0;
  for (int i = 0; i < 2; i++) MR_TRY(bench_jax_call(b, j, &unused, &unused, diag));
  for (; n < RUNS_MAX && (n < RUNS_MIN || mr_now_s() - begin < RUN_SECONDS); n++)
    MR_TRY(bench_jax_call(b, j, &back[n], &there[n], diag));
  t->back = mr_bench_median(back, n);
  t->there = mr_bench_median(there, n);
  return MR_OK;
}

static mr_err_t trace_and_compile(const bound_t *b, mr_fn_t *f, mr_diag_t *diag) {
  mr_exec_t *x = NULL;
  for (int i = 0; i < b->c->n_in; i++) mr_fn_input(f, *mr_array_aval(b->in[i]));
  if (b->c->trace(f, NULL) < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  MR_TRY(mr_compile(f, NULL, &x, diag));
  mr_exec_destroy(x);
  return MR_OK;
}

/* Times the first compilation of this function in the process, when no cache has it. */
static mr_err_t time_compile(const bound_t *b, times_t *t, mr_diag_t *diag) {
  double from = mr_now_s();
  mr_fn_t *f = mr_fn_create();
  if (!f) return mr_no_memory(diag, "a graph");
  mr_err_t e = trace_and_compile(b, f, diag);
  mr_fn_destroy(f);
  t->compile = mr_now_s() - from;
  return e;
}

static mr_err_t time_case(bound_t *b, times_t *t, mr_diag_t *diag) {
  mr_jitted_t *j = NULL;
  mr_err_t e = bench_jax_bind(b, diag);
  if (e >= 0) e = time_compile(b, t, diag);
  if (e >= 0) e = mr_jitted_create(b->queue, "bench", b->c->trace, NULL, NULL, &j, diag);
  if (e >= 0) e = bench_jax_time_runs(b, j, t, diag);
  mr_jitted_destroy(j);
  drop_inputs(b);
  return e;
}

/* Times the first compilation of the recipe's training step in this process. */
static mr_err_t time_vit(mr_bench_t *out, mr_diag_t *diag) {
  mr_vit_config_t vit = mr_vit_default();
  mr_train_config_t train = mr_train_default(128);
  mr_train_step_t *step = NULL;
  double from = mr_now_s();
  mr_loss_t loss = mr_vit_loss(&vit);
  MR_TRY(mr_train_step_create(&loss, &train, &step, diag));
  mr_bench_add(out, "vit_compile_ms", 1e3 * (mr_now_s() - from));
  mr_train_step_destroy(step);
  return MR_OK;
}

mr_err_t mr_bench_jax(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  bound_t b = {0};
  MR_TRY(mr_queue_create(&b.queue, diag));
  mr_err_t e = MR_OK;
  for (size_t i = 0; i < sizeof cases / sizeof *cases && e >= 0; i++) {
    times_t t;
    b.c = &cases[i];
    e = time_case(&b, &t, diag);
    if (e < 0) break;
    mr_bench_add(out, b.c->run_us, 1e6 * t.there);
    mr_bench_add(out, b.c->compile_ms, 1e3 * t.compile);
    if (b.c->trace == trace_product) mr_bench_add(out, "async_us", 1e6 * t.back);
  }
  mr_queue_destroy(b.queue);
  if (e >= 0) e = time_vit(out, diag);
  mr_bench_add(out, "threads", mr_device_threads(mr_device_default()));
  return e;
}
