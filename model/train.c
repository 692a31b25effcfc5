/* Compiled steps of training and evaluation.  The graph of a training step is the update of
   mr_optim_step_fn with its first results replaced by one vector of numbers (`reported`); runs
   write that vector into a ring, from which mr_train_step_read takes it. */
#include "model/train.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"
#include "model/ops/operands.h"
#include "model/placed.h"
#include "model/train_fp8.h"
#include "model/train_runs.h"
#include "model/transforms/transforms.h"

mr_train_config_t mr_train_default(int64_t batch) {
  return (mr_train_config_t){.optim = mr_optim_of("adamw"),
                             .compute = {.dtype = MR_BF16},
                             .batch = batch,
                             .accumulate = 1};
}

/* The dtype that set k of a step (values, slots..., average) is kept in. */
static mr_dtype_t kept_in(const mr_compute_t *c, int k, int n_slots) {
  mr_dtype_t t = !k ? c->values : k <= n_slots ? c->slots : MR_F32;
  return t ? t : MR_F32;
}

void mr_train_want_sets(const mr_compute_t *c, mr_params_t *params) {
  if (c->values) mr_params_want(params, MR_SET_VALUES, 0, c->values);
  for (int i = 0; i < MR_PARAM_SLOTS && c->slots; i++)
    mr_params_want(params, MR_SET_SLOT, i, c->slots);
}

/* The device that a step computes on, or NULL if it computes in the host's memory. */
static const mr_backend_t *device_of(const mr_compute_t *c) {
  return c->device && !c->device->host ? c->device : NULL;
}

/* The common part of both kinds of step. */
typedef struct step {
  mr_exec_t *exec;
  mr_loss_t loss;
  mr_params_t list; /* names and places only: no arenas */
  int64_t batch;
  mr__runs_t runs;
  mr__placed_t placed; /* the parameters on a device */
} step_t;

struct mr_train_step {
  step_t s;
  mr_optim_t optim;
  mr_compute_t compute;
  mr__fp8_ring_t fp8;
  mr_err_t (*wait)(void *arg);
  void *wait_arg;
  bool
      *forward; /* [n_var] of the compiled graph: the loss depends on it; NULL: not found out yet */
  mr_err_t waited; /* what the last run's wait returned */
};

struct mr_eval_step {
  step_t s;
  mr_dtype_t kept;         /* of the parameters it reads */
  mr_train_step_t *lender; /* its parameters on a device are evaluated; NULL: none */
};

static void step_fini(step_t *s) {
  mr__runs_fini(&s->runs);
  mr__placed_fini(&s->placed);
  mr_exec_destroy(s->exec);
  mr_params_fini(&s->list);
}

/* there: the fields lie on the device before a run. */
static mr_err_t step_runs(step_t *s, bool there, int n_reported, mr_diag_t *diag) {
  int n = s->loss.n_fields + s->loss.masked;
  return mr__runs_init(&s->runs, mr_exec_fn(s->exec), s->placed.backend, n,
                       there ? s->loss.n_fields : 0, n_reported, diag);
}

/* A checkpoint or the caller may pass the parameters of another model. */
static mr_err_t same_params(const step_t *s, const mr_params_t *p, mr_diag_t *diag) {
  if (p->n != s->list.n || p->arena_size != s->list.arena_size || p->count != s->list.count)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "parameters of another model: %lld in %d tensors, want %lld in %d",
                   (long long)p->count, p->n, (long long)s->list.count, s->list.n);
  return MR_OK;
}

mr_err_t mr_train_check_classes(const mr_model_field_t *f, const int32_t *label, int64_t n,
                                mr_diag_t *diag) {
  for (int64_t i = 0; i < n; i++)
    if (label[i] != MR_LABEL_NONE && (label[i] < 0 || label[i] >= f->classes))
      return mr_fail(diag, MR_ERR_DATA, "record %lld of the batch has %s %d, want [0,%lld)",
                     (long long)i, f->name, label[i], (long long)f->classes);
  return MR_OK;
}

/* The checks that both kinds of run begin with, and the fields of a batch as its first inputs. */
static mr_err_t step_begin(step_t *s, const mr_params_t *params, const void *const *field,
                           const mr__scalars_t *scalars, mr_diag_t *diag) {
  const mr_loss_t *l = &s->loss;
  MR_TRY(same_params(s, params, diag));
  for (int i = s->runs.there; i < l->n_fields; i++)
    if (l->field[i].classes && l->field[i].aval.dtype == MR_I32 && !l->field[i].aval.ndim)
      MR_TRY(mr_train_check_classes(&l->field[i], field[i], s->batch, diag));
  return mr__runs_begin(&s->runs, field, scalars, diag);
}

static void step_start(step_t *s) {
  mr__runs_send(&s->runs);
  mr_exec_start(s->exec, s->runs.in, s->runs.out);
  mr__runs_end(&s->runs);
}

/* ---- training: the graph ---- */
enum { SITES = 1 << 16 }; /* dropout numbers reserved for a part: more than any model uses */

/* Traces the loss once for each part.  The first trace fills the list of parameters. */
static mr_err_t trace_parts(mr_params_t *list, const mr_loss_t *l, const mr_train_config_t *t,
                            mr_fn_t **part, mr_diag_t *diag) {
  for (int k = 0; k < t->accumulate; k++) {
    mr_loss_use_t use = {
        .batch = t->batch / t->accumulate, .train = true, .first_site = (uint32_t)k * SITES};
    mr_params_t again = {0};
    part[k] = mr_loss_fn(l, &t->compute, &use, k ? &again : list, diag);
    mr_params_fini(&again);
    if (!part[k]) return diag->code;
  }
  return MR_OK;
}

float mr_train_limit(const mr_compute_t *c) {
  if (kept_in(c, 0, 0) != MR_F16) return 0;
  /* What is rounded at random may become one anywhere beyond the largest number. */
  return c->stochastic ? nextafterf(MR_TRAIN_F16_MOST, INFINITY) : 65520;
}

/* The graph of mr_optim_step_fn for the traced parts: loss, gradients and update. */
static mr_err_t update_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag) {
  bool split[MR_LOSS_FIELDS + 3] = {false};
  for (int i = 0; i < l->n_fields + l->masked; i++) split[i] = true;
  mr_fn_t **part = calloc((size_t)t->accumulate, sizeof *part);
  if (!part) return mr_no_memory(diag, "a step");
  mr_err_t err = trace_parts(list, l, t, part, diag);
  mr_optim_loss_t loss = {mr_loss_n_data(l), (int)t->accumulate, (const mr_fn_t *const *)part,
                          split, t->compute.fp8.history ? &t->compute.fp8 : NULL};
  mr_optim_t optim = t->optim;
  optim.below = mr_train_limit(&t->compute);
  if (err >= 0) err = mr_optim_step_fn(&loss, &optim, out, diag);
  for (int k = 0; k < t->accumulate; k++) mr_fn_destroy(part[k]);
  free(part);
  return err;
}

static mr_var_t *sum_of(mr_fn_t *f, mr_var_t *x) { return mr_lax_reduce_sum(f, x, 1, (int[]){0}); }

/* The graph divides the loss by the batch size, whatever number of records counts, so that
   excluding a record does not change the weight of the others in the gradient.  The reported loss
   is the mean over the records that count. */
static mr_var_t *mean_of_counted(mr_fn_t *f, mr_var_t *loss, mr_var_t *counted, int64_t batch) {
  mr_var_t *all = mr_literal(f, MR_F32, (double)batch), *none = mr_literal(f, MR_F32, 0);
  mr_var_t *mean = mr_lax_mul(f, loss, mr_lax_div(f, all, counted));
  mean = mr_lax_select_n(f, mr_lax_eq(f, counted, all), mean, loss);
  return mr_lax_select_n(f, mr_lax_eq(f, counted, none), mean, loss);
}

static mr_var_t *vector_of(mr_fn_t *f, int n, mr_var_t **scalar) {
  for (int i = 0; i < n; i++) scalar[i] = mr_lax_reshape_to(f, scalar[i], 1);
  return mr_lax_concatenate(f, n, scalar, 0);
}

/* Traces the metrics from the fields and the loss's outputs.  On success reported->counts is set.
 */
static mr_err_t trace_metrics(mr_fn_t *f, const mr_loss_t *l, int64_t batch, mr_var_t *const *in,
                              mr_var_t *const *out, mr_loss_report_t *reported) {
  mr_var_t *field[MR_LOSS_FIELDS + 1];
  for (int i = 0; i < l->n_fields + l->masked; i++)
    field[i] = i < l->n_fields ? mr_loss_values(f, &l->field[i], in[i]) : in[i];
  MR_TRY(f->diag.code);
  MR_TRY(l->metrics(l->of, f, field, out, reported));
  const mr_aval_t rows = mr_aval_of(MR_F32, batch);
  if (!reported->counts) reported->counts = mr_lax_full(f, &rows, 1);
  for (int i = 0; i < l->n_metrics; i++)
    if (f->diag.code >= 0 && !reported->metric[i])
      return mr_fail(&f->diag, MR_ERR_CONFIG, "the loss has no %s", l->metric[i]);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

/* The layout of the results of update_fn. */
typedef struct layout {
  int outs, n_sets; /* outputs of the loss for metrics; tensors of all sets */
  int n_state;      /* what else passes from step to step: the loss scale's scalars, and fp8's */
} layout_t;

static layout_t train_layout_of(const mr_fn_t *u, const mr_train_config_t *t,
                                const mr_params_t *list) {
  layout_t y = {.n_state = (mr_optim_counts(&t->optim) ? MR_SCALE_VARS : 0) +
                           (t->compute.fp8.history ? 2 : 0),
                .n_sets = mr_train_step_in_place(t, list)};
  y.outs = u->n_out - y.n_state - y.n_sets - 3; /* loss, losses and norm */
  return y;
}

/* Traces the vector that a step reports from u, the results of update_fn. */
static mr_var_t *train_report(mr_fn_t *f, const mr_loss_t *l, int64_t batch, const layout_t *y,
                              int n_params, mr_var_t **u) {
  mr_var_t *reported[MR_REPORT_METRICS + MR_LOSS_METRICS], *out[MR_LOSS_OUTS] = {NULL};
  mr_var_t *const *p = u + y->outs + 3 + y->n_state;
  mr_loss_report_t each = {0};
  for (int i = 0; i < y->outs; i++) out[i] = u[1 + i];
  if (trace_metrics(f, l, batch, f->in, out, &each) < 0) return NULL;
  mr_var_t *counted = sum_of(f, each.counts);
  reported[MR_REPORT_LOSS] = mean_of_counted(f, u[0], counted, batch);
  reported[MR_REPORT_GRAD_NORM] = u[y->outs + 2];
  reported[MR_REPORT_PARAM_NORM] = mr_lax_sqrt(f, mr_lax_sum_squares(f, n_params, p));
  reported[MR_REPORT_COUNTED] = counted;
  for (int i = 0; i < l->n_metrics; i++)
    reported[MR_REPORT_METRICS + i] = sum_of(f, mr_lax_mul(f, each.metric[i], each.counts));
  return vector_of(f, MR_REPORT_METRICS + l->n_metrics, reported);
}

/* x, of set k, in dtype t; the conversion names the setting that keeps the set narrow. draw: NULL,
   or seed and step of a rounding at random, tensor number `site`. */
static mr_var_t *train_kept(mr_fn_t *f, mr_var_t *x, mr_dtype_t t, int k, int n_slots,
                            mr_var_t *const *draw, int site) {
  mr_origin_t before = mr_origin(f);
  f->by = k && k <= n_slots ? "slot-dtype" : "param-dtype";
  mr_var_t *y = draw && t != MR_F32
                    ? mr_lax_stochastic_round(f, x, t, (uint32_t)site, draw[0], draw[1])
                    : mr_lax_convert(f, x, t);
  mr_origin_set(f, before);
  return y;
}

/* Equations in the order of a run: conversions of what is kept narrow are next to what reads or
   writes them.  At the two ends of the graph, where report_fn writes them, they would keep a wide
   copy of every slot from the first equation to the last. */
typedef struct train_order {
  mr_eqn_t **eqn;    /* [n] placed */
  mr_eqn_t **reads;  /* by var id: the conversion of an input that gives it, not yet placed */
  mr_eqn_t **writes; /* by var id: the conversion of it to an output, not yet placed */
  int n;
} train_order_t;

static void train_place(train_order_t *o, mr_eqn_t *e) {
  for (int k = 0; k < e->n_in; k++) {
    mr_eqn_t *before = o->reads[e->in[k]->id];
    o->reads[e->in[k]->id] = NULL;
    if (before) o->eqn[o->n++] = before;
  }
  o->eqn[o->n++] = e;
  for (int k = 0; k < e->n_out; k++)
    if (o->writes[e->out[k]->id]) o->eqn[o->n++] = o->writes[e->out[k]->id];
}

/* The conversions are f's equations [0,first) and [last,n_eqn). */
static mr_err_t train_order_kept(mr_fn_t *f, int first, int last) {
  size_t n = (size_t)f->n_var + 1;
  train_order_t o = {.eqn = mr_mem_take(&f->mem, (size_t)(f->n_eqn + 1) * sizeof(mr_eqn_t *)),
                     .reads = mr_mem_take(&f->mem, n * sizeof(mr_eqn_t *)),
                     .writes = mr_mem_take(&f->mem, n * sizeof(mr_eqn_t *))};
  if (f->mem.failed) return f->diag.code;
  for (int i = 0; i < first; i++) o.reads[f->eqn[i]->out[0]->id] = f->eqn[i];
  for (int i = last; i < f->n_eqn; i++) {
    int id = f->eqn[i]->in[0]->id;
    if (f->eqn[i]->in[0]->def && !o.reads[id] && !o.writes[id]) o.writes[id] = f->eqn[i];
  }
  for (int i = first; i < last; i++) train_place(&o, f->eqn[i]);
  for (int i = 0; i < first; i++) /* what only the outputs read */
    if (o.reads[f->eqn[i]->out[0]->id]) o.eqn[o.n++] = f->eqn[i];
  for (int i = last; i < f->n_eqn; i++)
    if (o.writes[f->eqn[i]->in[0]->id] != f->eqn[i]) o.eqn[o.n++] = f->eqn[i];
  assert(o.n == f->n_eqn);
  memcpy(f->eqn, o.eqn, (size_t)o.n * sizeof(mr_eqn_t *));
  return MR_OK;
}

/* Traces update_fn with its first results replaced by the vector that a step reports. */
static mr_err_t report_fn(mr_fn_t *f, const mr_loss_t *l, const mr_train_config_t *t,
                          const mr_params_t *list, const mr_fn_t *update) {
  layout_t y = train_layout_of(update, t, list);
  mr_var_t **u = mr_mem_take(&f->mem, (size_t)update->n_out * sizeof *u);
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)update->n_in * sizeof *in);
  int first = update->n_in - y.n_sets, n_slots = t->optim.def->n_slots;
  for (int i = 0; i < update->n_in; i++) {
    mr_aval_t a = update->in[i]->aval;
    if (i >= first) a.dtype = kept_in(&t->compute, (i - first) / list->n, n_slots);
    mr_fn_input(f, a);
  }
  MR_TRY(f->diag.code);
  for (int i = 0; i < update->n_in; i++)
    in[i] = i < first ? f->in[i]
                      : train_kept(f, f->in[i], MR_F32, (i - first) / list->n, n_slots, NULL, 0);
  int n_read = f->n_eqn;
  MR_TRY(mr_inline(f, update, in, u));
  mr_var_t **result = u + y.outs + 2; /* the place of the norm */
  mr_var_t *const *draw = t->compute.stochastic ? f->in + mr_loss_n_data(l) - 2 : NULL;
  const char *outer = mr_scope_enter(f, "reported");
  *result = train_report(f, l, t->batch, &y, list->n, u);
  mr_scope_leave(f, outer);
  int n_reported = f->n_eqn;
  for (int i = 0; i < y.n_sets && f->diag.code >= 0; i++) {
    mr_var_t **to = &result[1 + y.n_state + i];
    int k = i / list->n;
    *to = train_kept(f, *to, kept_in(&t->compute, k, n_slots), k, n_slots, draw, i);
  }
  MR_TRY(train_order_kept(f, n_read, n_reported));
  return mr_fn_return(f, 1 + y.n_state + y.n_sets, result);
}

int mr_train_step_in_place(const mr_train_config_t *t, const mr_params_t *list) {
  return mr_optim_sets(&t->optim) * list->n;
}

mr_err_t mr_train_step_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *update = NULL;
  MR_TRY(mr_optim_check(&t->optim, diag));
  if (t->accumulate < 1 || t->batch % t->accumulate)
    return mr_fail(diag, MR_ERR_CONFIG, "accumulate: %lld, want a divisor of the batch %lld",
                   (long long)t->accumulate, (long long)t->batch);
  MR_TRY(update_fn(l, t, list, &update, diag));
  mr_fn_t *f = mr_fn_create();
  mr_err_t e = f ? MR_OK : mr_no_memory(diag, "a step");
  if (f && (e = report_fn(f, l, t, list, update)) < 0) mr_diag_relay(diag, e, &f->diag);
  mr_fn_destroy(update);
  if (e >= 0)
    *out = f;
  else
    mr_fn_destroy(f);
  return e < 0 ? e : MR_OK;
}

/* ---- training: the step ---- */
static mr_err_t build_train(step_t *s, const mr_loss_t *l, const mr_train_config_t *t,
                            bool plan_only, mr_diag_t *diag) {
  mr_fn_t *f = NULL;
  MR_TRY(mr_train_step_fn(l, t, &s->list, &f, diag));
  mr_compile_options_t options = {.skip = t->skip,
                                  .in_place = mr_train_step_in_place(t, &s->list),
                                  .backend = t->compute.device,
                                  .threads = t->compute.threads,
                                  .pin = t->compute.pin,
                                  .plan_only = plan_only};
  mr_err_t e = mr_compile(f, &options, &s->exec, diag);
  mr_fn_destroy(f);
  return e;
}

static bool counts_steps(const mr_train_step_t *t) { return mr_optim_counts(&t->optim); }

/* The input with the scales of fp8: behind the data, lr, t and the loss scale's scalars. */
static int train_first_fp8(const mr_train_step_t *t) {
  return mr_loss_n_data(&t->s.loss) + 2 + (counts_steps(t) ? MR_SCALE_VARS : 0);
}

mr_err_t mr_train_step_create(const mr_loss_t *l, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_train_step_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "a compiled step");
  assert(!config->there || device_of(&config->compute));
  t->s.batch = config->batch;
  t->s.loss = *l;
  t->optim = config->optim;
  t->compute = config->compute;
  t->compute.policy = NULL; /* the caller's, used while the step is built */
  float fixed = config->optim.loss_scale > 0 ? config->optim.loss_scale : 1;
  t->s.runs.scale[0] = mr_scale_state_start(
      config->optim.dynamic.patience > 0 ? config->optim.dynamic.start : fixed);
  if (device_of(&config->compute) && config->compute.fp8.history)
    mr_fail(&own, MR_ERR_NORULE, "fp8: device %s has no kernels of f8, want device=cpu beside it",
            config->compute.device->name);
  mr_err_t err = own.code < 0 ? own.code : build_train(&t->s, l, config, false, &own);
  t->s.placed = (mr__placed_t){.backend = device_of(&config->compute),
                               .n_slots = config->optim.def->n_slots,
                               .average = config->optim.ema > 0,
                               .moments = true};
  if (err >= 0) err = step_runs(&t->s, config->there, MR_REPORT_METRICS + l->n_metrics, &own);
  if (err >= 0 && t->s.placed.backend) mr_exec_wait_beside(t->s.exec);
  if (err >= 0 && t->compute.fp8.history)
    err = mr__fp8_ring_init(&t->fp8, mr_exec_fn(t->s.exec), train_first_fp8(t), &own);
  if (err < 0) {
    mr_train_step_destroy(t);
    return mr_diag_relay(diag, err, &own);
  }
  *out = t;
  return MR_OK;
}

static mr_train_plan_t train_plan_of(const mr_exec_t *x) {
  mr_train_plan_t p = {.peak = mr_exec_peak_bytes(x)};
  const mr_fn_t *f = mr_exec_fn(x);
  for (int i = 0; i < f->n_eqn; i++) {
    mr_cost_t c = mr_cost_of(f->eqn[i]);
    p.flop += c.flop, p.bytes += c.bytes;
  }
  return p;
}

mr_err_t mr_train_step_plan(const mr_loss_t *l, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag) {
  step_t s = {.batch = config->batch};
  mr_diag_t own = {0};
  mr_err_t err = build_train(&s, l, config, true, &own);
  if (err >= 0) *out = train_plan_of(s.exec);
  step_fini(&s);
  return mr_diag_relay(diag, err, &own);
}

mr_scale_state_t *mr_train_step_scale(mr_train_step_t *t) {
  return mr__runs_scale_of(&t->s.runs, t->s.runs.begun);
}

mr_train_fp8_t mr_train_step_fp8(const mr_train_step_t *t) {
  return mr__fp8_ring_at(&t->fp8, t->s.runs.begun);
}

/* Points inputs and outputs at the sets that the step updates, in its order.  MR_ERR_CONFIG if
   params have no average but the step needs it. */
static mr_err_t set_params(mr_train_step_t *t, const mr_params_t *params, int in, int out,
                           mr_diag_t *diag) {
  int slots = t->optim.def->n_slots, sets = mr_optim_sets(&t->optim);
  for (int k = 0; k < sets; k++) {
    mr_set_kind_t kind = !k ? MR_SET_VALUES : k <= slots ? MR_SET_SLOT : MR_SET_AVERAGE;
    const mr_param_set_t *set =
        mr__placed_set(&t->s.placed, params, kind, kind == MR_SET_SLOT ? k - 1 : 0);
    if (!set && k > slots)
      return mr_fail(diag, MR_ERR_CONFIG, "ema: the parameters have no room for their average");
    if (set->dtype != kept_in(&t->compute, k, slots))
      return mr_fail(diag, MR_ERR_SHAPE, "parameters: set %d is kept in %s, the step wants %s", k,
                     mr_dtype_name(set->dtype), mr_dtype_name(kept_in(&t->compute, k, slots)));
    for (int i = 0; i < params->n; i++)
      t->s.runs.in[in++] = t->s.runs.out[out++] = mr_params_at(params, set, i);
  }
  return MR_OK;
}

mr_err_t mr_train_step_run(mr_train_step_t *t, mr_params_t *params, const void *const *field,
                           const mr_train_in_t *given, mr_diag_t *diag) {
  step_t *s = &t->s;
  mr__runs_t *r = &s->runs;
  int in = mr_loss_n_data(&s->loss), out = 1;
  if (s->placed.backend && s->placed.of != params) MR_TRY(mr_train_step_put(t, params, diag));
  const mr__scalars_t now = {given->seed, (uint32_t)given->step, given->lr, (float)given->step};
  MR_TRY(step_begin(s, params, field, &now, diag));
  mr__runs_rate(r, in), in += 2;
  if (counts_steps(t)) mr__runs_scale(r, in, out), in += MR_SCALE_VARS, out += MR_SCALE_VARS;
  if (t->fp8.n) {
    mr__fp8_ring_bind(&t->fp8, r->begun, r->in + in, r->out + out);
    in += 2, out += 2;
  }
  MR_TRY(set_params(t, params, in, out, diag));
  t->waited = MR_OK;
  step_start(s);
  if (t->waited < 0) return t->waited;
  /* A command that the device has refused is this step's; what fails later is found by its mark. */
  if (s->placed.backend) MR_TRY(s->placed.backend->check(diag));
  s->placed.newer = true;
  r->begun++;
  return MR_OK;
}

mr_err_t mr_train_step_put(mr_train_step_t *t, const mr_params_t *params, mr_diag_t *diag) {
  MR_TRY(same_params(&t->s, params, diag));
  return mr__placed_put(&t->s.placed, params, diag);
}

mr_err_t mr_train_step_fetch(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  mr__placed_t *p = &t->s.placed;
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->backend || !p->newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  return mr__placed_fetch(p, params, diag);
}

mr_err_t mr_train_step_fetch_begin(mr_train_step_t *t, mr_params_t *params, mr_diag_t *diag) {
  mr__placed_t *p = &t->s.placed;
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->backend || !p->newer) return MR_OK;
  if (t->wait) MR_TRY(t->wait(t->wait_arg));
  return mr__placed_fetch_begin(p, params, diag);
}

mr_err_t mr_train_step_fetch_end(mr_train_step_t *t, mr_diag_t *diag) {
  return mr__placed_fetch_end(&t->s.placed, diag);
}

mr_err_t mr_train_step_read(mr_train_step_t *t, bool wait, mr_train_out_t *out, mr_diag_t *diag) {
  mr__runs_t *r = &t->s.runs;
  mr_err_t e = mr__runs_await(r, wait, diag);
  if (e != MR_OK) return e;
  if (counts_steps(t)) mr__runs_read_scale(r);
  const float *reported = mr__runs_reported(r);
  const mr_scale_state_t *was = mr__runs_scale_of(r, r->read);
  const mr_scale_state_t *next = mr__runs_scale_of(r, r->read + 1);
  float fixed = t->optim.loss_scale > 0 ? t->optim.loss_scale : 1;
  *out = (mr_train_out_t){.step = r->scalars[r->read % MR_TRAIN_RING].step,
                          .loss = reported[MR_REPORT_LOSS],
                          .grad_norm = reported[MR_REPORT_GRAD_NORM],
                          .param_norm = reported[MR_REPORT_PARAM_NORM],
                          .loss_scale = t->optim.dynamic.patience > 0 ? was->scale : fixed,
                          .applied = !counts_steps(t) || next->skipped == was->skipped,
                          .bad = counts_steps(t) ? next->bad : 0,
                          .skipped = counts_steps(t) ? next->skipped : 0,
                          .counted = (double)reported[MR_REPORT_COUNTED]};
  for (int i = 0; i < t->s.loss.n_metrics && out->counted > 0; i++)
    out->metric[i] = (double)reported[MR_REPORT_METRICS + i] / out->counted;
  r->read++;
  return MR_OK;
}

void mr_train_step_retake(mr_train_step_t *t) { mr__runs_retake(&t->s.runs); }

/* The vector that a step reports begins with the loss: concatenate of it and other scalars. */
const mr_var_t *mr_train_loss_of(const mr_fn_t *f) {
  const mr_eqn_t *reported = f->n_out ? f->out[0]->def : NULL;
  return reported && reported->n_in ? reported->in[0] : NULL;
}

static bool *train_forward(const mr_fn_t *f) {
  bool *of_loss = calloc((size_t)f->n_var + 1, sizeof *of_loss);
  const mr_var_t *loss = mr_train_loss_of(f);
  if (!of_loss || !loss) return of_loss;
  of_loss[loss->id] = true;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    const mr_eqn_t *e = f->eqn[i];
    bool moves = false;
    for (int k = 0; k < e->n_out; k++) moves |= of_loss[e->out[k]->id];
    for (int k = 0; moves && k < e->n_in; k++) of_loss[e->in[k]->id] = true;
  }
  return of_loss;
}

mr_train_part_t mr_train_part_of(mr_train_step_t *s, const mr_eqn_t *e) {
  const char *name = s->optim.def->name;
  size_t n = strlen(name);
  if (!s->forward) s->forward = train_forward(mr_exec_fn(s->s.exec));
  for (int k = 0; s->forward && k < e->n_out; k++)
    if (s->forward[e->out[k]->id]) return MR_PART_FORWARD;
  bool update = !strncmp(e->scope, name, n) && (!e->scope[n] || e->scope[n] == '/');
  return update ? MR_PART_UPDATE : MR_PART_BACKWARD;
}

static bool may_update(void *arg) {
  mr_train_step_t *s = arg;
  s->waited = s->wait(s->wait_arg);
  return s->waited >= 0;
}

void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg) {
  s->wait = wait;
  s->wait_arg = arg;
  bool in_place = !s->s.placed.backend; /* a device's runs write to no array of the host */
  mr_exec_gate(s->s.exec, wait && in_place ? may_update : NULL, s);
}

const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s) { return s->s.exec; }

mr_exec_t *mr_train_step_profiled(mr_train_step_t *s) { return s->s.exec; }

void mr_train_step_destroy(mr_train_step_t *s) {
  if (!s) return;
  step_fini(&s->s);
  mr__fp8_ring_fini(&s->fp8);
  free(s->forward);
  free(s);
}

/* ---- evaluation ---- */
/* The graph (data, parameters) -> f32 (the rows of mr_eval_rows_t in order, B elements each). */
static mr_err_t rows_fn(mr_fn_t *f, const mr_loss_t *l, int64_t batch, const mr_fn_t *loss,
                        mr_dtype_t kept) {
  mr_var_t *out[MR_LOSS_OUTS] = {NULL}, *row[3 + MR_LOSS_METRICS];
  mr_loss_report_t reported = {0};
  int n = 0;
  mr_var_t **u = mr_mem_take(&f->mem, (size_t)loss->n_out * sizeof *u);
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)loss->n_in * sizeof *in);
  for (int i = 0; i < loss->n_in; i++) {
    mr_aval_t a = loss->in[i]->aval;
    if (i >= mr_loss_n_data(l)) a.dtype = kept;
    mr_fn_input(f, a);
  }
  MR_TRY(f->diag.code);
  for (int i = 0; i < loss->n_in; i++)
    in[i] = i < mr_loss_n_data(l) ? f->in[i] : mr_lax_convert(f, f->in[i], MR_F32);
  MR_TRY(mr_inline(f, loss, in, u));
  for (int i = 0; i + 2 < loss->n_out; i++) out[i] = u[1 + i];
  MR_TRY(trace_metrics(f, l, batch, f->in, out, &reported));
  row[n++] = u[loss->n_out - 1];
  row[n++] = reported.counts;
  if (l->classes) row[n++] = reported.guess;
  for (int i = 0; i < l->n_metrics; i++) row[n++] = reported.metric[i];
  mr_var_t *all = mr_lax_concatenate(f, n, row, 0);
  return mr_fn_return(f, 1, &all);
}

static mr_err_t build_eval(step_t *s, const mr_compute_t *c, const mr_train_step_t *lender,
                           mr_diag_t *diag) {
  mr_loss_use_t use = {.batch = s->batch};
  mr_fn_t *loss = mr_loss_fn(&s->loss, c, &use, &s->list, diag), *f = loss ? mr_fn_create() : NULL;
  mr_compile_options_t options = {.backend = c->device,
                                  .lender = lender ? lender->s.exec : NULL,
                                  .threads = c->threads,
                                  .pin = c->pin};
  mr_err_t e = f ? rows_fn(f, &s->loss, s->batch, loss, kept_in(c, 0, 0)) : MR_ERR_NOMEM;
  if (f && e < 0) mr_diag_relay(diag, e, &f->diag);
  if (e >= 0) e = mr_compile(f, &options, &s->exec, diag);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  return e < 0 && diag->code >= 0 ? mr_no_memory(diag, "a step") : e;
}

mr_err_t mr_eval_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                             mr_train_step_t *lender, mr_eval_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_eval_step_t *e = calloc(1, sizeof *e);
  if (!e) return mr_no_memory(diag, "a compiled step");
  e->s.batch = batch;
  e->s.loss = *l;
  e->kept = kept_in(c, 0, 0);
  e->s.placed = (mr__placed_t){.backend = device_of(c)};
  e->lender = lender;
  mr_err_t err = build_eval(&e->s, c, lender, &own);
  int rows = 2 + (l->classes > 0) + l->n_metrics;
  if (err >= 0) err = step_runs(&e->s, false, rows * (int)batch, &own);
  if (err < 0) {
    mr_eval_step_destroy(e);
    return mr_diag_relay(diag, err, &own);
  }
  *out = e;
  return MR_OK;
}

/* Points *out at the set that is evaluated: the host's, the training step's on the device, or a
   copy of its own there. */
static mr_err_t eval_judged(mr_eval_step_t *e, const mr_params_t *params,
                            const mr_param_set_t **out, mr_diag_t *diag) {
  const mr_param_set_t *judged = mr_params_judged(params);
  const mr_backend_t *device = e->s.placed.backend;
  bool lent = e->lender && e->lender->s.placed.backend == device;
  mr__placed_t *p = lent ? &e->lender->s.placed : &e->s.placed;
  if (device && p->of != params) {
    MR_TRY(same_params(&e->s, params, diag));
    if (!lent) p->average = judged->kind == MR_SET_AVERAGE;
    MR_TRY(mr__placed_put(p, params, diag));
  }
  *out = mr__placed_set(p, params, judged->kind, judged->number);
  return MR_OK;
}

mr_err_t mr_eval_step_run(mr_eval_step_t *e, const mr_params_t *params, const void *const *field,
                          mr_diag_t *diag) {
  step_t *s = &e->s;
  const mr_param_set_t *judged;
  MR_TRY(eval_judged(e, params, &judged, diag));
  if (judged->dtype != e->kept)
    return mr_fail(diag, MR_ERR_SHAPE, "parameters are kept in %s, the evaluation wants %s",
                   mr_dtype_name(judged->dtype), mr_dtype_name(e->kept));
  MR_TRY(step_begin(s, params, field, &(mr__scalars_t){0}, diag)); /* masks are not drawn */
  for (int i = 0; i < params->n; i++)
    s->runs.in[mr_loss_n_data(&s->loss) + i] = mr_params_at(params, judged, i);
  step_start(s);
  s->runs.begun++;
  return MR_OK;
}

mr_err_t mr_eval_step_read(mr_eval_step_t *e, bool wait, mr_eval_rows_t *out, mr_diag_t *diag) {
  step_t *s = &e->s;
  mr_err_t err = mr__runs_await(&s->runs, wait, diag);
  if (err != MR_OK) return err;
  const float *row = mr__runs_reported(&s->runs);
  s->runs.read++;
  *out = (mr_eval_rows_t){.losses = row, .counts = row + s->batch};
  row += 2 * s->batch;
  if (s->loss.classes) out->guess = row, row += s->batch;
  for (int i = 0; i < s->loss.n_metrics; i++, row += s->batch) out->metric[i] = row;
  return MR_OK;
}

void mr_eval_step_destroy(mr_eval_step_t *e) {
  if (!e) return;
  step_fini(&e->s);
  free(e);
}
