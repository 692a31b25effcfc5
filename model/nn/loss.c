/* Traces losses to graphs, makes their parameters, and has the metrics of classifiers.  A loss is a
   function of fields that traces itself; this file adds what all need around it: inputs for the
   fields, weights of records that count, seed and step, and precision. */
#include "model/nn/loss.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"
#include "model/control/table.h"

int mr_loss_n_data(const mr_loss_t *l) { return l->n_fields + l->masked + 2; }

mr_aval_t mr_loss_held(const mr_model_field_t *field) {
  mr_aval_t a = field->aval;
  if (field->held) a.dtype = field->held;
  return a;
}

/* v[c] for each channel, spread to x's shape. */
static mr_var_t *spread_channels(mr_fn_t *f, const mr_var_t *x, const float *v, int dim) {
  int64_t n = x->aval.dim[dim];
  mr_var_t *each[3];
  assert(n >= 1 && n <= 3);
  for (int c = 0; c < n; c++)
    each[c] = mr_lax_reshape_to(f, mr_literal(f, MR_F32, (double)v[c]), 1);
  mr_var_t *all = n == 1 ? each[0] : mr_lax_concatenate(f, (int)n, each, 0);
  return mr_lax_broadcast_in_dim(f, all, x->aval.ndim, x->aval.dim, (int[]){dim});
}

/* The steps are those of the stage normalize, each rounded to f32, so that the bits are the same
   wherever division is rounded correctly. */
mr_var_t *mr_loss_values(mr_fn_t *f, const mr_model_field_t *field, mr_var_t *x) {
  if (!field->held || !x) return x;
  mr_origin_t before = mr_origin(f);
  f->by = "normalize";
  x = mr_lax_convert(f, x, MR_F32);
  if (x && field->held == MR_U8) {
    int dim = field->channel + 1;
    x = mr_lax_div(f, x, mr_lax_full(f, &x->aval, 255));
    if (x) x = mr_lax_sub(f, x, spread_channels(f, x, field->mean, dim));
    if (x) x = mr_lax_div(f, x, spread_channels(f, x, field->std, dim));
  }
  mr_origin_set(f, before);
  return x;
}

mr_err_t mr_compute_check(const mr_compute_t *c, mr_diag_t *diag) {
  if (c->threads < 0 || c->threads > 1024)
    return mr_fail(diag, MR_ERR_CONFIG, "threads: %d, want [0,1024]", c->threads);
  if (c->dtype != MR_F32 && c->dtype != MR_BF16 && c->dtype != MR_F16)
    return mr_fail(diag, MR_ERR_CONFIG, "dtype: %s, want f32, bf16 or f16",
                   mr_dtype_name(c->dtype));
  const mr_dtype_t kept[] = {c->values, c->slots, c->reads};
  for (int i = 0; i < 3; i++)
    if (kept[i] && kept[i] != MR_F32 && kept[i] != MR_BF16 && kept[i] != MR_F16)
      return mr_fail(diag, MR_ERR_CONFIG, "dtype of %s: %s, want f32, bf16 or f16",
                     i == 1 ? "slots" : "parameters", mr_dtype_name(kept[i]));
  if (!c->fp8.history) return MR_OK;
  if (c->dtype != MR_BF16)
    return mr_fail(diag, MR_ERR_CONFIG, "fp8: the model computes in %s, want bf16 beside it",
                   mr_dtype_name(c->dtype));
  if (c->remat != MR_NN_REMAT_NONE)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "fp8: remat is %s, want none: scales do not reach the products of recomputed "
                   "blocks",
                   mr_nn_remat_name(c->remat));
  return mr_fp8_check(&c->fp8, diag);
}

static mr_aval_t batched_aval(const mr_aval_t *record, int64_t B) {
  mr_aval_t a = {.dtype = record->dtype, .ndim = record->ndim + 1, .dim = {B}};
  if (a.ndim > MR_MAX_NDIM) return a; /* mr_fn_input refuses it */
  for (int d = 0; d < record->ndim; d++) a.dim[d + 1] = record->dim[d];
  return a;
}

/* Multiplies the loss of each record by the weight of its class. */
static void weigh_classes(mr_fn_t *f, const mr_loss_t *l, mr_var_t *const *field,
                          mr_loss_out_t *out) {
  mr_var_t *label = NULL;
  for (int i = 0; i < l->n_fields && !label; i++)
    if (l->field[i].classes == l->classes && l->classes) label = field[i];
  if (!label || !out->losses) return;
  const mr_aval_t *a = &out->losses->aval;
  mr_var_t *weight = mr_lax_full(f, a, 1);
  for (int64_t c = 0; c < l->classes; c++) {
    if (l->class_weight[c] == 1) continue;
    mr_var_t *here = mr_lax_eq(f, label, mr_lax_full(f, &label->aval, (double)c));
    weight = mr_lax_select_n(f, here, weight, mr_lax_full(f, a, (double)l->class_weight[c]));
  }
  out->losses = mr_lax_mul(f, out->losses, weight);
  mr_var_t *sum = mr_lax_reduce_sum(f, out->losses, 1, (int[]){0});
  out->loss = mr_lax_scale(f, 1 / (double)a->dim[0], sum);
}

static void loss_build(mr_fn_t *f, const mr_loss_t *l, const mr_compute_t *c,
                       const mr_loss_use_t *use, mr_params_t *params) {
  mr_var_t *field[MR_LOSS_FIELDS + 1], *result[MR_LOSS_OUTS + 2];
  mr_loss_out_t out = {0};
  int n = 0;
  for (int i = 0; i < l->n_fields; i++)
    field[i] = mr_fn_input(f, batched_aval(&l->field[i].aval, use->batch));
  if (l->masked) field[l->n_fields] = mr_fn_input(f, mr_aval_of(MR_F32, use->batch));
  mr_nn_t s = {.f = f,
               .params = params,
               .train = use->train,
               .remat = use->train ? mr_nn_policy(c->remat) : NULL,
               .next_site = use->first_site,
               .first_record = use->first_record,
               .records = use->batch,
               .whole = use->whole};
  if (c->precision) f->precision = c->precision;
  s.seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  s.step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  if (f->diag.code < 0) return;
  mr_err_t e = l->trace(l->of, &s, field, &out);
  if (e < 0 && f->diag.code >= 0) mr_fail(&f->diag, e, "the loss could not be traced");
  if (use->train && l->class_weight) weigh_classes(f, l, field, &out);
  result[n++] = out.loss;
  for (int i = 0; i < MR_LOSS_OUTS && out.out[i]; i++) result[n++] = out.out[i];
  result[n++] = out.losses;
  mr_fn_return(f, n, result);
}

/* mr_amp of f; the modules of params get the dtypes that their inputs and outputs then have.  The
   model itself keeps its inputs as they are given to it. */
static void loss_amp(const mr_fn_t *f, const mr_amp_policy_t *policy, mr_params_t *params,
                     mr_fn_t **out, mr_diag_t *diag) {
  mr_dtype_t *now = malloc((size_t)(f->n_var + 1) * sizeof *now);
  if (!now) mr_no_memory(diag, "the model's graph");
  if (!now || mr_amp_dtypes(f, policy, now, out, diag) < 0) return free(now);
  for (int i = 0; i < params->n_module; i++) {
    mr_module_t *m = &params->module[i];
    if (m->in_var >= 0 && *m->name) m->in.dtype = now[m->in_var];
    if (m->out_var >= 0) m->out.dtype = now[m->out_var];
  }
  free(now);
}

/* The first row of a text that names nothing in f.  An evaluation lacks what only training does,
   dropout for one: there the name of an op is enough. */
static const mr_amp_row_t *unmatched_row(const mr_amp_policy_t *policy, const mr_fn_t *f,
                                         bool train) {
  for (int i = 0; i < policy->n_rows; i++) {
    mr_amp_policy_t one = {.enters = policy->enters, .n_rows = 1, .row = {policy->row[i]}};
    if (mr_amp_unmatched(&one, f) && (train || !mr_op_find(policy->row[i].name)))
      return &policy->row[i];
  }
  return NULL;
}

/* Of a policy's rows that name an op which does not take the compute dtype, the first. */
static void loss_note_unfit(void *arg, const mr_amp_row_t *row, const mr_eqn_t *e) {
  const mr_amp_row_t **first = arg;
  if (!*first && !strcmp(row->name, e->op->name)) *first = row;
}

/* Refuses rows that would do nothing. */
static mr_err_t loss_check_rows(const mr_amp_policy_t *policy, const mr_fn_t *f, bool train,
                                mr_diag_t *diag) {
  const mr_amp_row_t *row = unmatched_row(policy, f, train);
  if (row)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "amp-rule: no op and no part of the model is called \"%s\"; `millrace explain` lists them",
        row->name);
  mr_amp_each_unfit(policy, f, loss_note_unfit, (void *)&row);
  if (row)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "amp-rule: %s=compute: %s does not take %s, want f32, original or class",
                   row->name, row->name, mr_dtype_name(policy->compute));
  return MR_OK;
}

/* f, written in f32, in the dtype of computation; f is taken over. */
static mr_fn_t *loss_in_dtype(mr_fn_t *f, const mr_compute_t *c, bool train, mr_params_t *params,
                              mr_diag_t *diag) {
  if (c->dtype == MR_F32) return f;
  mr_amp_policy_t policy = c->policy ? *c->policy : mr_amp_usual(c->dtype);
  mr_fn_t *narrow = NULL;
  policy.compute = c->dtype;
  if (loss_check_rows(&policy, f, train, diag) >= 0) loss_amp(f, &policy, params, &narrow, diag);
  mr_fn_destroy(f);
  return narrow;
}

/* x rounded to t, in f32, with the gradient of x: x + (rounded - x), which is exact, where the
   difference counts as constant.  Differentiating the conversions would round the gradient too. */
static mr_var_t *round_straight_through(mr_fn_t *g, mr_var_t *x, mr_dtype_t t) {
  mr_var_t *r = mr_lax_convert(g, mr_lax_convert(g, x, t), MR_F32);
  return mr_lax_add(g, x, mr_lax_stop_gradient(g, mr_lax_sub(g, r, x)));
}

/* f, taken over, of parameters that are rounded to t first.  This is outside what mr_amp rewrites,
   so that no rule changes it. */
static mr_fn_t *loss_of_rounded(mr_fn_t *f, int n_data, mr_dtype_t t, mr_diag_t *diag) {
  mr_fn_t *g = mr_fn_create();
  if (!g) {
    mr_fn_destroy(f);
    mr_no_memory(diag, "the model's graph");
    return NULL;
  }
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(f->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  g->by = "param-dtype";
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  for (int i = 0; i < f->n_in && g->diag.code >= 0; i++)
    in[i] = i < n_data ? g->in[i] : round_straight_through(g, g->in[i], t);
  g->by = "";
  if (g->diag.code >= 0 && mr_inline(g, f, in, out) >= 0) mr_fn_return(g, f->n_out, out);
  mr_fn_destroy(f);
  if (g->diag.code >= 0) return g;
  mr_diag_relay(diag, g->diag.code, &g->diag);
  mr_fn_destroy(g);
  return NULL;
}

/* f, taken over, of fields as batches hold them.  This is outside what mr_amp rewrites: values are
   computed in f32, as on the host. */
static mr_fn_t *loss_of_held(mr_fn_t *f, const mr_loss_t *l, mr_diag_t *diag) {
  bool held = false;
  for (int i = 0; i < l->n_fields; i++) held |= l->field[i].held != 0;
  if (!held) return f;
  mr_fn_t *g = mr_fn_create();
  if (!g) {
    mr_fn_destroy(f);
    mr_no_memory(diag, "the model's graph");
    return NULL;
  }
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(f->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++) {
    mr_aval_t a = f->in[i]->aval;
    if (i < l->n_fields && l->field[i].held) a.dtype = l->field[i].held;
    mr_fn_input(g, a);
  }
  for (int i = 0; i < f->n_in && g->diag.code >= 0; i++)
    in[i] = i < l->n_fields ? mr_loss_values(g, &l->field[i], g->in[i]) : g->in[i];
  if (g->diag.code >= 0 && mr_inline(g, f, in, out) >= 0) mr_fn_return(g, f->n_out, out);
  mr_fn_destroy(f);
  if (g->diag.code >= 0) return g;
  mr_diag_relay(diag, g->diag.code, &g->diag);
  mr_fn_destroy(g);
  return NULL;
}

/* f, taken over, with its products in f8. */
static mr_fn_t *loss_in_f8(mr_fn_t *f, const mr_fp8_t *c, mr_diag_t *diag) {
  mr_fn_t *g = NULL;
  int n;
  mr_fp8_products(f, c->format, &g, &n, diag); /* fails with diag set and g NULL */
  mr_fn_destroy(f);
  return g;
}

mr_fn_t *mr_loss_fn(const mr_loss_t *l, const mr_compute_t *c, const mr_loss_use_t *use,
                    mr_params_t *params, mr_diag_t *diag) {
  if (mr_compute_check(c, diag) < 0) return NULL;
  if (use->batch < 1 || use->batch > 1 << 20) {
    mr_fail(diag, MR_ERR_CONFIG, "a batch of %lld records, want [1,1048576]",
            (long long)use->batch);
    return NULL;
  }
  mr_fn_t *f = mr_fn_create();
  if (!f) {
    mr_no_memory(diag, "the model's graph");
    return NULL;
  }
  loss_build(f, l, c, use, params);
  if (f->diag.code < 0) {
    mr_diag_relay(diag, f->diag.code, &f->diag);
    mr_fn_destroy(f);
    return NULL;
  }
  f = loss_in_dtype(f, c, use->train, params, diag);
  if (f && c->reads) f = loss_of_rounded(f, mr_loss_n_data(l), c->reads, diag);
  if (f) f = loss_of_held(f, l, diag);
  return f && c->fp8.history && use->train ? loss_in_f8(f, &c->fp8, diag) : f;
}

mr_err_t mr_loss_params_list(const mr_loss_t *l, mr_params_t *params, mr_diag_t *diag) {
  const mr_compute_t c = {.dtype = MR_F32};
  const mr_loss_use_t use = {.batch = 1};
  mr_diag_t own = {0};
  mr_fn_t *f = mr_loss_fn(l, &c, &use, params, &own);
  if (!f) return mr_diag_relay(diag, own.code, &own);
  mr_fn_destroy(f);
  return MR_OK;
}

mr_err_t mr_loss_params(const mr_loss_t *l, uint64_t seed, mr_params_t *params, mr_diag_t *diag) {
  MR_TRY(mr_loss_params_list(l, params, diag));
  MR_TRY(mr_params_alloc(params, diag));
  return mr_params_init(params, seed, diag);
}

/* The first class with the largest logit; 0 for a row of NaNs, which has no largest one. */
static mr_var_t *first_largest(mr_fn_t *f, mr_var_t *logits) {
  const mr_aval_t *a = &logits->aval;
  mr_aval_t row = mr_aval_of(MR_F32, a->dim[0]);
  mr_var_t *most = mr_lax_reduce_max(f, logits, 1, (int[]){1});
  most = mr_lax_broadcast_in_dim(f, most, 2, a->dim, (int[]){0});
  mr_var_t *at = mr_lax_iota(f, MR_F32, 2, a->dim, 1);
  mr_var_t *here =
      mr_lax_select_n(f, mr_lax_eq(f, logits, most), mr_lax_full(f, a, (double)a->dim[1]), at);
  mr_var_t *first = mr_lax_neg(f, mr_lax_reduce_max(f, mr_lax_neg(f, here), 1, (int[]){1}));
  mr_var_t *none = mr_lax_eq(f, first, mr_lax_full(f, &row, (double)a->dim[1]));
  return mr_lax_select_n(f, none, first, mr_lax_full(f, &row, 0));
}

const mr_metric_def_t mr_loss_top5 = {
    .name = "top5",
    .help = "Share of records whose class is among the five of the largest scores.",
    .role = MR_METRIC_JUDGED,
    .more_is_better = true};

mr_var_t *mr_loss_report_top5(mr_fn_t *f, mr_var_t *logits, mr_var_t *right) {
  if (!logits || !right) return NULL;
  const mr_aval_t *a = &logits->aval;
  const mr_aval_t row = mr_aval_of(MR_F32, a->dim[0]);
  const int last[] = {1}, rows[] = {0};
  mr_var_t *at = mr_lax_iota(f, MR_F32, 2, a->dim, 1), *zero = mr_lax_full(f, a, 0);
  mr_var_t *here = mr_lax_eq(f, at, mr_lax_broadcast_in_dim(f, right, 2, a->dim, rows));
  mr_var_t *own = mr_lax_reduce_sum(f, mr_lax_select_n(f, here, zero, logits), 1, last);
  mr_var_t *above = mr_lax_gt(f, logits, mr_lax_broadcast_in_dim(f, own, 2, a->dim, rows));
  mr_var_t *n = mr_lax_reduce_sum(f, mr_lax_convert(f, above, MR_F32), 1, last);
  mr_var_t *few = mr_lax_convert(f, mr_lax_lt(f, n, mr_lax_full(f, &row, 5)), MR_F32);
  /* A score that is no number is above none and below none. */
  return mr_lax_mul(f, few, mr_lax_convert(f, mr_lax_eq(f, own, own), MR_F32));
}

mr_err_t mr_loss_report_classes(mr_fn_t *f, mr_var_t *logits, mr_var_t *labels,
                                mr_loss_report_t *reported) {
  if (!logits || !labels) return f->diag.code;
  mr_var_t *none = mr_lax_full(f, &labels->aval, MR_LABEL_NONE);
  mr_var_t *want = mr_lax_convert(f, labels, MR_F32);
  reported->counts = mr_lax_convert(f, mr_lax_ne(f, labels, none), MR_F32);
  reported->guess = first_largest(f, logits);
  reported->metric[0] = mr_lax_convert(f, mr_lax_eq(f, reported->guess, want), MR_F32);
  if (logits->aval.dim[1] >= MR_LOSS_TOP5_FROM)
    reported->metric[1] = mr_loss_report_top5(f, logits, want);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

mr_err_t mr_loss_report_targets(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets, mr_var_t *mask,
                                mr_loss_report_t *reported) {
  if (!logits || !targets) return f->diag.code;
  mr_var_t *guess = first_largest(f, logits), *want = first_largest(f, targets);
  reported->counts = mask;
  reported->metric[0] = mr_lax_convert(f, mr_lax_eq(f, guess, want), MR_F32);
  if (logits->aval.dim[1] >= MR_LOSS_TOP5_FROM)
    reported->metric[1] = mr_loss_report_top5(f, logits, want);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

mr_var_t *mr_loss_of_targets(mr_fn_t *f, mr_var_t *logits, mr_var_t *targets, mr_var_t *mask,
                             double smoothing) {
  if (!logits || !targets) return NULL;
  const int last[] = {1};
  const mr_aval_t *a = &logits->aval;
  const char *outer = mr_amp_stop(f); /* in f32, as the cross-entropy of classes */
  if (smoothing > 0) {
    mr_var_t *even = mr_lax_full(f, &targets->aval, smoothing / (double)a->dim[1]);
    targets = mr_lax_add(f, mr_lax_scale(f, 1 - smoothing, targets), even);
  }
  mr_var_t *top = mr_lax_stop_gradient(f, mr_lax_reduce_max(f, logits, 1, last));
  mr_var_t *x = mr_lax_sub(f, logits, mr_lax_broadcast_in_dim(f, top, 2, a->dim, (int[]){0}));
  mr_var_t *lse = mr_lax_log(f, mr_lax_reduce_sum(f, mr_lax_exp(f, x), 1, last));
  x = mr_lax_sub(f, x, mr_lax_broadcast_in_dim(f, lse, 2, a->dim, (int[]){0}));
  mr_var_t *loss = mr_lax_reduce_sum(f, mr_lax_mul(f, targets, x), 1, last);
  loss = mr_lax_mul(f, mr_lax_neg(f, loss), mask);
  mr_scope_leave(f, outer);
  return loss;
}
