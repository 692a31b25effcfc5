/* Calls the recipe's step through mr_jitted: the first call compiles, later ones find it cached. */
#include "apps/bench_cached.h"

#include <stdlib.h>

#include "base/clock.h"
#include "model/jit.h"
#include "model/train.h"
#include "model/transforms/transforms.h"

enum { CALLS = 4 };

typedef struct cached {
  const mr_loss_t *loss;
  mr_train_config_t train;
  mr_queue_t *queue;
  mr_jitted_t *jitted;
  int n_in, n_out;
  mr_array_t **in, **out;
} cached_t;

static mr_err_t bench_cached_build(const cached_t *c, mr_fn_t **step, mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_err_t e = mr_train_step_fn(c->loss, &c->train, &list, step, diag);
  mr_params_fini(&list);
  return e;
}

static mr_err_t bench_cached_trace(mr_fn_t *f, void *arg) {
  const cached_t *c = arg;
  mr_fn_t *step = NULL;
  MR_TRY(bench_cached_build(c, &step, &f->diag));
  mr_var_t **out = mr_mem_take(&f->mem, (size_t)(step->n_out + 1) * sizeof *out);
  mr_err_t e = mr_inline(f, step, f->in, out);
  if (e >= 0) e = mr_fn_return(f, step->n_out, out);
  mr_fn_destroy(step);
  return e;
}

/* An array of zeros, but 1 for f32 scalars, by which the optimizer divides. */
static mr_array_t *filled(const mr_aval_t *a, mr_diag_t *diag) {
  float *x = calloc(1, mr_aval_bytes(a) + sizeof *x);
  if (!x) return NULL;
  if (!a->ndim && a->dtype == MR_F32) *x = 1;
  mr_array_t *y = mr_array_of(*a, x, diag);
  free(x);
  return y;
}

static mr_err_t make_arguments(cached_t *c, mr_diag_t *diag) {
  mr_fn_t *step = NULL;
  MR_TRY(bench_cached_build(c, &step, diag));
  c->in = calloc((size_t)step->n_in + 1, sizeof *c->in);
  c->out = calloc((size_t)step->n_out + 1, sizeof *c->out);
  mr_err_t e = c->in && c->out ? MR_OK : MR_ERR_NOMEM;
  for (c->n_out = step->n_out; e >= 0 && c->n_in < step->n_in; c->n_in++) {
    c->in[c->n_in] = filled(&step->in[c->n_in]->aval, diag);
    if (!c->in[c->n_in]) e = MR_ERR_NOMEM;
  }
  mr_fn_destroy(step);
  return e < 0 ? mr_fail(diag, e, "no memory for the arguments of a step") : e;
}

/* Times one call until it returns, then waits for its run. */
static mr_err_t time_call(cached_t *c, double *ms, mr_diag_t *diag) {
  double from = mr_now_s();
  MR_TRY(mr_jitted_call(c->jitted, c->n_in, c->in, c->n_out, c->out, diag));
  *ms = 1e3 * (mr_now_s() - from);
  mr_err_t e = mr_block_until_ready(c->out[0], diag);
  for (int i = 0; i < c->n_out; i++) mr_array_drop(c->out[i]);
  return e;
}

static mr_err_t bench_cached_run(cached_t *c, mr_bench_t *out, mr_diag_t *diag) {
  double ms[CALLS];
  MR_TRY(make_arguments(c, diag));
  MR_TRY(mr_queue_create(&c->queue, diag));
  MR_TRY(mr_jitted_create(c->queue, "step", bench_cached_trace, c, NULL, &c->jitted, diag));
  for (int i = 0; i < CALLS; i++) MR_TRY(time_call(c, &ms[i], diag));
  mr_bench_add(out, "call_first_ms", ms[0]);
  mr_bench_add(out, "call_cached_ms", mr_bench_median(ms + 1, CALLS - 1));
  mr_bench_add(out, "call_compiles", (double)mr_jitted_stats(c->jitted).misses);
  return MR_OK;
}

mr_err_t mr_bench_cached(const mr_loss_t *l, const mr_train_config_t *t, mr_bench_t *out,
                         mr_diag_t *diag) {
  cached_t c = {.loss = l, .train = *t};
  mr_err_t e = bench_cached_run(&c, out, diag);
  mr_jitted_destroy(c.jitted);
  mr_queue_destroy(c.queue);
  for (int i = 0; i < c.n_in; i++) mr_array_drop(c.in[i]);
  free(c.in);
  free(c.out);
  return e;
}
