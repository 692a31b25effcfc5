/* The graph of a training step: gradients of the loss (for the whole batch, or averaged over its
   parts), clipping, and the optimizer's update of each parameter. */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "model/control/control.h"
#include "model/optim/step_private.h"
#include "model/transforms/transforms.h"

/* ---- the step ---- */

/* Gradient i where it is to lie.  One that is widened lies so before: ranks then send it narrow. */
static mr_var_t *gradient_that_lies(mr__optim_step_t *s, int i) {
  mr_var_t *x = s->grad[i];
  const mr_eqn_t *e = x ? x->def : NULL;
  bool widened = e && e->op == &mr_op_convert_element_type;
  mr_var_t *y = mr_lax_shard(s->g, widened ? e->in[0] : x, s->loss->lies[i]);
  return widened && y ? mr_lax_convert(s->g, y, x->aval.dtype) : y;
}

static mr_err_t run_parts(mr__optim_step_t *s) {
  int n = s->to - s->from;
  mr_var_t **all = mr_mem_take(&s->g->mem, (size_t)(n * s->n_out) * sizeof *all);
  mr__optim_sums_t sums = {0};
  if (s->loss->ranks && s->loss->ranks->pipeline) return mr__optim_run_stage(s);
  if (s->loss->ranks && s->loss->ranks->zero >= 3) {
    MR_TRY(mr__optim_run_gathered(s, all));
    return mr__optim_exchange(s, all, &sums);
  }
  if (s->loss->reads) MR_TRY(mr__optim_run_placed(s, all, &sums));
  for (int k = s->from; k < s->to && !s->loss->reads; k++) {
    mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof *grad);
    MR_TRY(mr__optim_run_part(s, k, all + (k - s->from) * s->n_out, grad));
    s->computed = s->g->n_eqn;
    mr__optim_sums_add(s, &sums, k, s->n, grad);
  }
  if (s->loss->ranks) return mr__optim_exchange(s, all, &sums);
  s->grad = mr__optim_sums_end(s, &sums, s->n);
  for (int i = 0; s->loss->lies && i < s->n; i++)
    if (s->loss->lies[i]) s->grad[i] = gradient_that_lies(s, i);
  for (int i = 0; i < s->n_out; i++) s->out[i] = mr__optim_join(s, all, i);
  return s->g->diag.code;
}

/* Element k of the squares of mr_lax_sum_squares_pair, as the root in f32. */
static mr_var_t *root_of_pair(mr_fn_t *g, mr_var_t *pair, int64_t k) {
  mr_var_t *v = mr_lax_slice(g, pair, &k, (int64_t[]){k + 1});
  return mr_lax_convert(g, mr_lax_sqrt(g, mr_lax_reshape(g, v, 0, NULL)), MR_F32);
}

/* Divides v by a fixed loss scale. */
static mr_var_t *divide_by_scale(mr__optim_step_t *s, mr_var_t *v) {
  double fixed = (double)s->o->loss_scale;
  return !mr__optim_is_dynamic(s) && fixed > 0 && fixed != 1 ? mr_lax_scale(s->g, 1 / fixed, v) : v;
}

/* The scalar v in the dtype of parameter i. */
static mr_var_t *as_parameter(mr__optim_step_t *s, int i, mr_var_t *v) {
  return mr_lax_convert(s->g, v, mr__optim_aval(s, i)->dtype);
}

/* Divides the gradients by a dynamic scale.  This comes before their norm, whose squares would
   overflow with the scale in them. */
static void unscale_each(mr__optim_step_t *s) {
  for (int i = s->lo; mr__optim_is_dynamic(s) && i < s->hi; i++)
    s->grad[i] = mr_lax_div(s->g, s->grad[i], as_parameter(s, i, s->scale[0]));
}

/* The rule of the scale; one that is fixed stays, and its state counts alone. */
static mr_loss_scale_t step_rule(const mr__optim_step_t *s) {
  mr_loss_scale_t c = s->o->dynamic;
  if (!mr__optim_is_dynamic(s)) c = (mr_loss_scale_t){.start = 1, .factor = 1};
  if (s->o->only_finite) c.max_bad = INT32_MAX; /* none is applied because it is late */
  return c;
}

/* The settings of parameter i's update. */
static mr_optim_in_t step_in(mr__optim_step_t *s, int i, mr_var_t *scale) {
  mr_optim_in_t in = {.p = s->p[i], .g = s->grad[i], .t = s->t};
  double rate = s->loss->each ? (double)s->loss->each[i].rate : 1;
  mr_var_t *lr = rate == 1 ? s->lr : mr_lax_scale(s->g, rate, s->lr);
  in.lr = as_parameter(s, i, lr), in.scale = as_parameter(s, i, scale);
  for (int k = 0; k < s->o->def->n_slots; k++) in.slot[k] = s->slot[k][i - s->lo];
  return in;
}

/* Parameter i's update by the optimizer. */
static mr_err_t step_apply(mr__optim_step_t *s, int i, const mr_optim_in_t *in, mr_var_t **out) {
  mr_optim_t o = *s->o;
  if (s->loss->each && !s->loss->each[i].decays) o.weight_decay = 0;
  return o.def->update(s->g, &o, in, out);
}

/* f32[]: the largest magnitude of parameter i after its update, computed for this alone.  The
   barrier keeps passes from taking the later update for the same one: all updates would then be
   kept until the verdict. */
static mr_var_t *step_reach(mr__optim_step_t *s, int i, mr_var_t *scale) {
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  mr_var_t *then[1 + MR_OPTIM_SLOTS] = {NULL};
  mr_optim_in_t in = step_in(s, i, scale);
  in.g = mr_lax_optimization_barrier(s->g, in.g);
  if (!in.g || step_apply(s, i, &in, then) < 0) return NULL;
  mr_var_t *v = mr_lax_abs(s->g, mr_lax_convert(s->g, then[0], MR_F32));
  return v && v->aval.ndim ? mr_lax_reduce_max(s->g, v, v->aval.ndim, axes) : v;
}

/* f32[]: 0 if all parameters are below the limit after their updates, else infinite; NULL: there is
   no limit. */
static mr_var_t *step_excess(mr__optim_step_t *s, mr_var_t *scale) {
  mr_fn_t *g = s->g;
  mr_var_t *most = NULL;
  if (!(s->o->below > 0) || !s->n_scale) return NULL;
  const char *outer = mr_scope_enter(g, MR_OPTIM_REACH);
  for (int i = s->lo; i < s->hi && g->diag.code >= 0; i++) {
    if (mr__optim_is_frozen(s, i)) continue;
    mr_var_t *v = step_reach(s, i, scale);
    most = most ? mr_lax_max(g, most, v) : v;
  }
  if (s->share) most = mr__optim_most(s, most);
  if (!most) most = mr_literal(g, MR_F32, 0);
  mr_var_t *fits = mr_lax_lt(g, most, mr_literal(g, MR_F32, (double)s->o->below));
  most = mr_lax_select_n(g, fits, mr_literal(g, MR_F32, INFINITY), mr_literal(g, MR_F32, 0));
  mr_scope_leave(g, outer);
  return most;
}

/* bool[]: loss, norm and excess (unless NULL) are finite, and no more steps than allowed were not,
   in a row. */
static mr_var_t *step_is_good(mr__optim_step_t *s, mr_var_t *norm, mr_var_t *excess) {
  enum { BAD = 2 }; /* of mr_scale_state_t */
  mr_fn_t *g = s->g;
  mr_var_t *look[] = {norm, mr_lax_convert(g, s->out[0], MR_F32), excess};
  mr_var_t *finite = mr_optim_finite(g, excess ? 3 : 2, look);
  mr_var_t *few = mr_lax_le(g, s->scale[BAD], mr_literal(g, MR_I32, s->o->dynamic.max_bad));
  mr_var_t *both = mr_lax_add(g, mr_lax_convert(g, finite, MR_I32), mr_lax_convert(g, few, MR_I32));
  return mr_lax_eq(g, both, mr_literal(g, MR_I32, 2));
}

/* Writes the next state of the scale to next[n_scale].  *apply: whether the step is
   applied; NULL if all steps are.  scale: of the gradients. */
static mr_err_t step_scale(mr__optim_step_t *s, mr_var_t *norm, mr_var_t *scale, mr_var_t **next,
                           mr_var_t **apply) {
  mr_fn_t *g = s->g;
  *apply = NULL;
  if (!s->n_scale) return MR_OK;
  mr_var_t *skipped = mr_lax_convert(g, s->scale[MR_SCALE_VARS - 1], MR_F32);
  s->t = mr_lax_sub(g, s->t, skipped);
  mr_loss_scale_t rule = step_rule(s);
  mr_var_t *look[] = {norm, step_excess(s, scale)};
  mr_var_t *finite = s->o->only_finite ? step_is_good(s, look[0], look[1])
                                       : mr_optim_finite(g, look[1] ? 2 : 1, look);
  return mr_optim_scale_step(g, &rule, finite, s->scale, next, apply);
}

/* v if the step is applied, else was. */
static mr_var_t *select_if_applied(mr__optim_step_t *s, mr_var_t *apply, mr_var_t *was,
                                   mr_var_t *v) {
  return apply ? mr_lax_select_n(s->g, apply, was, v) : v;
}

/* Leaves parameter i as it is, with what is kept for it. */
static void keep_one(mr__optim_step_t *s, int i, mr_var_t **next) {
  int sets = 1 + s->o->def->n_slots, each = s->hi - s->lo;
  mr_var_t **later = next + s->p_hi - s->p_lo + i - s->lo;
  next[i - s->p_lo] = s->p[i];
  for (int k = 1; k < sets; k++) later[(k - 1) * each] = s->slot[k - 1][i - s->lo];
  if (s->o->ema > 0) later[(sets - 1) * each] = s->average[i - s->lo];
}

/* Updates parameter i: next has all values, then each later set's tensors [lo,hi). */
static mr_err_t update_one(mr__optim_step_t *s, int i, mr_var_t *scale, mr_var_t *apply,
                           mr_var_t **next) {
  int sets = 1 + s->o->def->n_slots, each = s->hi - s->lo;
  mr_var_t **later = next + s->p_hi - s->p_lo + i - s->lo;
  mr_optim_in_t in = step_in(s, i, scale);
  mr_var_t *then[1 + MR_OPTIM_SLOTS];
  mr_var_t *select = s->o->def->chooses ? NULL : apply;
  if (s->o->def->chooses) in.apply = apply;
  MR_TRY(step_apply(s, i, &in, then));
  for (int k = 0; k < sets; k++)
    *(k ? &later[(k - 1) * each] : &next[i - s->p_lo]) =
        select_if_applied(s, select, k ? in.slot[k - 1] : in.p, then[k]);
  if (s->o->ema > 0) {
    mr_var_t *was = s->average[i - s->lo];
    mr_var_t *count = mr_lax_sub(s->g, s->t, mr_literal(s->g, MR_F32, (double)s->o->ema_after));
    later[(sets - 1) * each] = select_if_applied(
        s, apply, was, mr_optim_debiased_ema(s->g, s->o->ema, count, was, then[0]));
  }
  return s->g->diag.code;
}

/* v, or the largest magnitude among tensors [from,to) of the products of fp8 if that is not
   finite. */
static mr_var_t *step_or_clamped_most(mr__optim_step_t *s, int from, int to, mr_var_t *v) {
  const char *by = mr__optim_by_fp8(s);
  int64_t products = s->amax->aval.dim[0];
  mr_var_t *met = mr_lax_slice(s->g, s->amax, (int64_t[]){0, from}, (int64_t[]){products, to});
  mr_var_t *most = mr_lax_reduce_max(s->g, met, 2, (int[]){0, 1});
  mr_var_t *finite = mr_optim_finite(s->g, 1, &most);
  v = mr_lax_select_n(s->g, finite, mr_lax_convert(s->g, most, v->aval.dtype), v);
  s->g->by = by;
  return v;
}

/* A product of fp8 clamps an infinity.  One in an operand belongs to the loss, and one in a
   cotangent, which the loss scale may have caused, to the gradients' norm. */
static mr_var_t *step_loss_of_all(mr__optim_step_t *s, mr_var_t *loss) {
  return s->n_fp8 ? step_or_clamped_most(s, 0, MR_FP8_TENSORS - 1, loss) : loss;
}

static mr_var_t *step_norm_of_all(mr__optim_step_t *s, mr_var_t *norm) {
  return s->n_fp8 ? step_or_clamped_most(s, MR_FP8_TENSORS - 1, MR_FP8_TENSORS, norm) : norm;
}

/* Writes the next state of fp8 to next[n_fp8]. */
static mr_err_t step_fp8(mr__optim_step_t *s, mr_var_t *apply, mr_var_t **next) {
  if (!s->n_fp8) return MR_OK;
  MR_TRY(mr_fp8_next(s->g, s->loss->fp8, s->amax, s->fp8[0], s->fp8[1], &next[0], &next[1]));
  for (int i = 0; i < s->n_fp8; i++) next[i] = select_if_applied(s, apply, s->fp8[i], next[i]);
  return s->g->diag.code;
}

/* The global norm of the gradients without a fixed loss scale, and the factor that limits it to
   clip_norm.  Squares of a gradient whose norm is above 1.8e19 overflow, which without clipping is
   a norm that is not finite: with it, a second sum of smaller squares gives norm and factor.  A
   norm above FLT_MAX of a finite gradient is reported as that. */
static void step_norm(mr__optim_step_t *s, mr_var_t **norm, mr_var_t **scale) {
  mr_fn_t *g = s->g;
  double most = (double)s->o->clip_norm;
  *scale = mr_literal(g, MR_F32, 1);
  if (!(most > 0)) {
    mr_var_t *root = mr_lax_sqrt(g, mr__optim_squares(s, false));
    *norm = step_norm_of_all(s, divide_by_scale(s, mr_lax_convert(g, root, MR_F32)));
    return;
  }
  mr_var_t *pair = mr__optim_squares(s, true);
  mr_var_t *plain = divide_by_scale(s, root_of_pair(g, pair, 0));
  mr_var_t *small = divide_by_scale(s, root_of_pair(g, pair, 1));
  mr_var_t *large = mr_lax_scale(g, ldexp(1, MR_SQUARES_SHIFT), small);
  mr_var_t *fits = mr_optim_finite(g, 1, &plain), *finite = mr_optim_finite(g, 1, &small);
  mr_var_t *reported = mr_lax_min(g, large, mr_literal(g, MR_F32, (double)FLT_MAX));
  reported = mr_lax_select_n(g, fits, mr_lax_select_n(g, finite, large, reported), plain);
  *norm = step_norm_of_all(s, reported);
  mr_var_t *of_plain = mr_lax_div(g, mr_literal(g, MR_F32, most), *norm);
  double less = ldexp(most, -MR_SQUARES_SHIFT);
  mr_var_t *of_small = mr_lax_div(g, mr_literal(g, MR_F32, less), small);
  *scale = mr_lax_min(g, mr_lax_select_n(g, fits, of_small, of_plain), *scale);
}

static mr_err_t step_update(mr__optim_step_t *s, mr_var_t **next) {
  mr_var_t *apply, *norm, *scale;
  unscale_each(s);
  step_norm(s, &norm, &scale);
  scale = divide_by_scale(s, scale);
  *next++ = norm;
  MR_TRY(step_scale(s, norm, scale, next, &apply));
  next += s->n_scale;
  MR_TRY(step_fp8(s, apply, next));
  next += s->n_fp8;
  for (int i = s->lo; i < s->hi; i++)
    if (mr__optim_is_frozen(s, i))
      keep_one(s, i, next);
    else
      MR_TRY(update_one(s, i, scale, apply, next));
  if (s->share && s->p_hi - s->p_lo == s->n) mr__optim_take_updates(s, next);
  return s->g->diag.code;
}

static mr_err_t step_build(mr__optim_step_t *s) {
  int n = s->n_out + 1 + s->n_scale + s->n_fp8 + s->p_hi - s->p_lo +
          (mr_optim_sets(s->o) - 1) * (s->hi - s->lo);
  s->out = mr_mem_take(&s->g->mem, (size_t)n * sizeof *s->out);
  mr__optim_inputs(s);
  MR_TRY(run_parts(s));
  s->out[0] = step_loss_of_all(s, s->out[0]);
  const char *outer = mr_scope_enter(s->g, s->o->def->name);
  MR_TRY(step_update(s, s->out + s->n_out));
  mr_scope_leave(s->g, outer);
  return mr_fn_return(s->g, n, s->out);
}

/* The sums of parts [from,to) alone. */
static mr_err_t step_build_parts(mr__optim_step_t *s) {
  int n = s->n_out + (s->n_fp8 > 0) + s->n;
  s->out = mr_mem_take(&s->g->mem, (size_t)n * sizeof *s->out);
  mr__optim_inputs(s);
  MR_TRY(run_parts(s));
  mr_var_t **next = s->out + s->n_out;
  if (s->n_fp8) *next++ = s->amax;
  for (int i = 0; i < s->n; i++) next[i] = s->grad[i];
  return mr_fn_return(s->g, n, s->out);
}

static bool can_compute(mr_dtype_t t) { return mr_is_float(t) && !mr_is_storage(t); }

/* Checks that part k was traced, has parameters, and has dtypes that optimizers compute in. */
static mr_err_t check_part(const mr_optim_loss_t *l, int k, mr_diag_t *diag) {
  const mr_fn_t *f = l->part[k];
  char text[MR_AVAL_TEXT];
  if (f->diag.code < 0)
    return mr_diag_prefix(diag, f->diag.code, &f->diag, "part %d of the loss failed", k);
  if (f->n_out < 1) return mr_fail(diag, MR_ERR_SHAPE, "part %d of the loss gives no value", k);
  if (l->n_data < 0 || f->n_in <= l->n_data + (l->fp8 != NULL))
    return mr_fail(diag, MR_ERR_CONFIG, "a loss without parameters");
  const mr_aval_t *last = &f->in[f->n_in - 1]->aval;
  if (l->fp8 && (last->dtype != MR_F32 || last->ndim != 2 || last->dim[1] != MR_FP8_TENSORS))
    return mr_fail(diag, MR_ERR_SHAPE, "the last input is %s, want the scales of fp8, f32[n,%d]",
                   mr_aval_text(last, text), MR_FP8_TENSORS);
  for (int i = l->n_data; i < f->n_in; i++)
    if (!can_compute(f->in[i]->aval.dtype))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "parameter %d is %s, want f32, bf16, f16 or f64: the loss may convert it to "
                     "what it computes in",
                     i - l->n_data, mr_aval_text(&f->in[i]->aval, text));
  if (f->out[0]->aval.ndim || !can_compute(f->out[0]->aval.dtype))
    return mr_fail(diag, MR_ERR_SHAPE, "the loss is %s, want a scalar of f32, bf16, f16 or f64",
                   mr_aval_text(&f->out[0]->aval, text));
  return MR_OK;
}

/* Whether data input i of part k differs from the first part's in its number of records alone,
   which is that of all its split inputs, and which a tree may. */
static bool differs_in_records(const mr_optim_loss_t *l, int k, int i) {
  mr_aval_t a = l->part[k]->in[i]->aval;
  const mr_aval_t *first = &l->part[0]->in[i]->aval;
  int64_t rows = a.dim[0];
  bool same = l->tree && rows > 0 && a.ndim == first->ndim;
  for (int j = 0; same && j < l->n_data; j++)
    same = !l->split[j] || (l->part[k]->in[j]->aval.dim[0] == rows &&
                            l->part[0]->in[j]->aval.dim[0] == first->dim[0]);
  a.dim[0] = first->dim[0];
  return same && mr_aval_equal(&a, first);
}

static bool f32_holds(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16 || t == MR_F16; }

/* Checks that each rank has a stage of a pipeline, and the stages all parameters. */
static mr_err_t check_pipeline(const mr_optim_loss_t *l, mr_diag_t *diag) {
  const mr_optim_ranks_t *r = l->ranks;
  const mr_pipeline_t *p = r->pipeline;
  int n = l->part[0]->n_in - l->n_data;
  bool good = p->stages >= 2 && p->stages <= MR_PIPELINE_STAGES && r->size >= p->stages &&
              r->size % p->stages == 0 && l->tree && l->parts <= MR_PIPELINE_PARTS &&
              mr__pipe_lines(r) <= l->parts && (r->zero == 1 || r->zero == 3) && r->rank >= 0 &&
              r->rank < r->size && !p->first[0] && p->first[p->stages] == n;
  for (int s = 0; good && s < p->stages; s++) good = p->first[s] < p->first[s + 1];
  if (!good || l->fp8)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "pipelines of %d stages, %d ranks, %d parts of a tree: want a rank for each stage of a "
        "pipeline, each of at least one of %d parameters, at least a part a pipeline, at most %d "
        "parts, and no fp8",
        p->stages, r->size, l->parts, n, MR_PIPELINE_PARTS);
  return MR_OK;
}

/* Checks that ranks can share the parts, and that f32 holds what they exchange. */
static mr_err_t check_ranks(const mr_optim_loss_t *l, mr_diag_t *diag) {
  const mr_optim_ranks_t *r = l->ranks;
  const mr_fn_t *f = l->part[0];
  char text[MR_AVAL_TEXT];
  if (r->pipeline)
    MR_TRY(check_pipeline(l, diag));
  else if (!l->tree || r->size < 1 || r->size > l->parts || r->rank < 0 || r->rank >= r->size)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "rank %d of %d ranks that share %d parts, want a tree of at least a part a rank",
                   r->rank, r->size, l->parts);
  for (int i = l->n_data; i < f->n_in + f->n_out; i++) {
    const mr_var_t *v = i < f->n_in ? f->in[i] : f->out[i - f->n_in];
    if (v && !f32_holds(v->aval.dtype))
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s %d of the loss is %s, which ranks do not exchange, want f32, bf16 or f16",
                     i < f->n_in ? "input" : "output", i < f->n_in ? i : i - f->n_in,
                     mr_aval_text(&v->aval, text));
  }
  return MR_OK;
}

/* Checks that some parameter is updated, by a rate that is a number. */
static mr_err_t check_each(const mr_optim_loss_t *l, mr_diag_t *diag) {
  int n = l->part[0]->n_in - l->n_data - (l->fp8 != NULL), moving = 0;
  for (int i = 0; i < n; i++) {
    moving += !l->each[i].frozen;
    if (!(l->each[i].rate >= 0 && l->each[i].rate <= FLT_MAX))
      return mr_fail(diag, MR_ERR_CONFIG, "parameter %d has %g times the learning rate, want >= 0",
                     i, (double)l->each[i].rate);
  }
  if (moving) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "all %d parameters are frozen, want one that is not", n);
}

static mr_err_t step_check(const mr_optim_loss_t *l, mr_diag_t *diag) {
  if (l->parts < 1)
    return mr_fail(diag, MR_ERR_CONFIG, "a step of %d parts, want 1 or more", l->parts);
  if (l->tree && (l->parts & (l->parts - 1)))
    return mr_fail(diag, MR_ERR_CONFIG, "a tree of %d parts, want a power of two", l->parts);
  if (l->fp8) MR_TRY(mr_fp8_check(l->fp8, diag));
  if (l->ranks) MR_TRY(check_ranks(l, diag));
  for (int k = 0; k < l->parts; k++) {
    const mr_fn_t *f = l->part[k], *first = l->part[0];
    MR_TRY(check_part(l, k, diag));
    for (int i = 0; l->parts > 1 && i < l->n_data; i++)
      if (l->split[i] && !f->in[i]->aval.ndim)
        return mr_fail(diag, MR_ERR_SHAPE, "data input %d is a scalar: it has no parts", i);
    bool same = f->n_in == first->n_in && f->n_out == first->n_out;
    for (int i = 0; same && i < f->n_in; i++)
      same = mr_aval_equal(&f->in[i]->aval, &first->in[i]->aval) ||
             (i < l->n_data && mr__optim_is_split(l, i) && differs_in_records(l, k, i));
    if (!same) return mr_fail(diag, MR_ERR_SHAPE, "part %d of the loss differs from the first", k);
  }
  return l->each ? check_each(l, diag) : MR_OK;
}

static int64_t elements_of_parameter(const void *arg, int i) {
  const mr_optim_loss_t *loss = arg;
  return mr_aval_elems(&loss->part[0]->in[loss->n_data + i]->aval);
}

/* Sets which parameters are updated. */
static mr_err_t step_set_share(mr__optim_step_t *s) {
  const mr_optim_ranks_t *r = s->loss->ranks;
  s->hi = s->p_hi = s->n;
  if (!r || !r->zero) return MR_OK;
  s->share = mr_mem_take(&s->g->mem, (size_t)(r->size + 1) * sizeof *s->share);
  if (!s->share) return s->g->diag.code;
  for (int k = 0; k <= r->size; k++)
    s->share[k] = r->pipeline
                      ? mr__pipe_share_from(r->pipeline, elements_of_parameter, s->loss, r->size, k)
                      : mr_optim_share_from(s->n, elements_of_parameter, s->loss, r->size, k);
  s->lo = s->share[r->rank], s->hi = s->share[r->rank + 1];
  if (r->zero >= 3) s->p_lo = s->lo, s->p_hi = s->hi;
  return MR_OK;
}

static mr_err_t step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, int from, int to,
                        mr_err_t (*build)(mr__optim_step_t *s), mr_fn_t **out, mr_diag_t *diag) {
  MR_TRY(mr_optim_check(o, diag));
  MR_TRY(step_check(loss, diag));
  const mr_fn_t *first = loss->part[0];
  mr__optim_step_t s = {.g = mr_fn_create(), .loss = loss, .o = o, .from = from, .to = to};
  if (!s.g) return mr_no_memory(diag, "the graph of a step of %s", o->def->name);
  s.n_fp8 = loss->fp8 ? 2 : 0;
  s.n = first->n_in - loss->n_data - (loss->fp8 != NULL), s.n_out = first->n_out;
  s.n_scale = mr_optim_counts(o) ? MR_SCALE_VARS : 0;
  mr_err_t err = step_set_share(&s);
  if (err >= 0) err = build(&s);
  if (err < 0) {
    mr_diag_relay(diag, err, &s.g->diag);
    mr_fn_destroy(s.g);
    return err;
  }
  mr_dce(s.g);
  *out = s.g;
  return MR_OK;
}

mr_err_t mr_optim_step_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, mr_fn_t **out,
                          mr_diag_t *diag) {
  const mr_optim_ranks_t *r = loss->ranks;
  bool shared =
      r && r->size >= 1 && r->rank >= 0 && r->rank < r->size; /* else step_check refuses */
  if (shared && r->pipeline)
    shared = r->pipeline->stages >= 1 && r->pipeline->stages <= r->size; /* likewise */
  int n = shared ? mr__pipe_lines(r) : 1, own = shared ? r->rank % n : 0;
  int from = shared ? mr_optim_rank_from(loss->parts, n, own) : 0;
  int to = shared ? mr_optim_rank_from(loss->parts, n, own + 1) : loss->parts;
  return step_fn(loss, o, from, to, step_build, out, diag);
}

mr_err_t mr_optim_parts_fn(const mr_optim_loss_t *loss, const mr_optim_t *o, int from, int to,
                           mr_fn_t **out, mr_diag_t *diag) {
  assert(0 <= from && from < to && to <= loss->parts && !loss->ranks);
  return step_fn(loss, o, from, to, step_build_parts, out, diag);
}

/* (1 - d) / (1 - d^n): what the newest of n steps counts for.  1 - d^n is 2h / (1 + h) with
   h = tanh(-n log(d) / 2), which is exact for a d near 1 too. */
static mr_var_t *share_of_newest(mr_fn_t *f, double d, mr_var_t *n) {
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  mr_var_t *h = mr_lax_tanh(f, mr_lax_scale(f, -log(d) / 2, n));
  mr_var_t *share = mr_lax_div(f, mr_lax_add(f, h, one), mr_lax_scale(f, 2, h));
  return mr_lax_min(f, mr_lax_scale(f, 1 - d, share), one);
}

mr_var_t *mr_optim_debiased_ema(mr_fn_t *f, float decay, mr_var_t *count, mr_var_t *average,
                                mr_var_t *p) {
  mr_dtype_t t = p->aval.dtype;
  mr_var_t *share = share_of_newest(f, (double)decay, count);
  mr_var_t *rest = mr_lax_sub(f, mr_literal(f, MR_F32, 1), share);
  return mr_lax_add(f, mr_lax_mul(f, average, mr_lax_convert(f, rest, t)),
                    mr_lax_mul(f, p, mr_lax_convert(f, share, t)));
}

mr_var_t *mr_optim_ema(mr_fn_t *f, float decay, mr_var_t *average, mr_var_t *p) {
  double d = (double)decay;
  return mr_lax_add(f, mr_lax_scale(f, d, average), mr_lax_scale(f, 1 - d, p));
}
