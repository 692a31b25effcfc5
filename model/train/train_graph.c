/* The graph of a training step: the update of mr_optim_step_fn with its first results replaced by
   one vector of numbers (`reported`), and conversions of the sets that are kept narrow. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/control/control.h"
#include "model/mesh/mesh.h"
#include "model/ops/operands.h"
#include "model/optim/exchange.h"
#include "model/optim/pipeline_rank.h"
#include "model/train/cut.h"
#include "model/train/ranks.h"
#include "model/train/step.h"
#include "model/transforms/transforms.h"

enum { SITES = 1 << 16 }; /* dropout numbers reserved for a part: more than any model uses */

/* What goes with a pipeline, beside what mr_optim_step_fn checks. */
static mr_err_t check_pipeline_config(const mr_train_config_t *t, mr_diag_t *diag) {
  int stages = t->pipeline.stages, ranks = mr__step_ranks(t).size;
  if (t->mesh && mr_mesh_axis(t->mesh, MR__RANKS_AXIS, strlen(MR__RANKS_AXIS)) >= 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pipeline: an axis of the mesh is called %s, which is that of the stages' own "
                   "exchange where ranks have parts of parameters; want another name, such as data",
                   MR__RANKS_AXIS);
  if (t->mesh && (ranks < stages || ranks % stages))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pipeline: %d stages of the %d ranks along axis %s of the mesh, want a rank "
                   "along it for each stage of a pipeline, so %s=%d or a multiple",
                   stages, ranks, t->mesh->name[mr_mesh_batch(t->mesh)],
                   t->mesh->name[mr_mesh_batch(t->mesh)], stages);
  if (ranks < stages || ranks % stages)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pipeline: %d stages of %d ranks, want a rank for each stage of a pipeline, so "
                   "%d or a multiple",
                   stages, ranks, stages);
  if (t->ordered && ranks / stages > t->ordered)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pipeline: %d pipelines of %d stages share %lld microbatches, want at least one "
                   "for each",
                   ranks / stages, stages, (long long)t->ordered);
  if (t->compute.fp8.history)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "fp8 beside a pipeline of %d stages, want none: scales are not of stages",
                   stages);
  if (!t->ordered || t->batch % t->ordered)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "pipeline: %lld microbatches do not divide the batch of %lld records: %lld left "
                   "over, want a batch of a multiple, such as %lld",
                   (long long)t->ordered, (long long)t->batch,
                   (long long)(t->ordered ? t->batch % t->ordered : 0),
                   (long long)(t->ordered ? (t->batch / t->ordered + 1) * t->ordered : 8));
  return MR_OK;
}

/* A step cut over a mesh works through its batch in one part. */
static mr_err_t check_cut(const mr_train_config_t *t, mr_diag_t *diag) {
  int axis = mr_mesh_batch(t->mesh), n = t->mesh->size[axis];
  if (t->ordered || t->accumulate != 1)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "ordered=%lld, accumulate=%lld beside a mesh that cuts parameters: want "
                   "ordered=0, accumulate=1",
                   (long long)t->ordered, (long long)t->accumulate);
  if (t->zero < 0 || t->zero > MR_ZERO_MOST)
    return mr_fail(diag, MR_ERR_CONFIG, "zero: %d, want [0,%d]", t->zero, MR_ZERO_MOST);
  if (t->compute.fp8.history)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "fp8 beside a mesh that cuts parameters: want none, as scales are not of parts");
  if (t->batch % n)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "a batch of %lld records does not divide among the %d ranks of axis %s: %lld left "
        "over, want a multiple such as %lld",
        (long long)t->batch, n, t->mesh->name[axis], (long long)(t->batch % n),
        (long long)(t->batch / n + 1) * n);
  return MR_OK;
}

mr_err_t mr_train_parts_check(const mr_train_config_t *t, mr_diag_t *diag) {
  if (t->pipeline.stages) MR_TRY(check_pipeline_config(t, diag));
  if (t->mesh && !t->pipeline.stages) return check_cut(t, diag);
  if (t->accumulate < 1 || t->batch % t->accumulate)
    return mr_fail(diag, MR_ERR_CONFIG, "accumulate: %lld, want a divisor of the batch %lld",
                   (long long)t->accumulate, (long long)t->batch);
  if (t->ranks > 1 && !t->pipeline.stages && t->ordered < t->ranks)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%d ranks that share ordered=%lld parts, want at least a part a rank", t->ranks,
                   (long long)t->ordered);
  if (t->zero < 0 || t->zero > MR_ZERO_MOST)
    return mr_fail(diag, MR_ERR_CONFIG, "zero: %d, want [0,%d]", t->zero, MR_ZERO_MOST);
  if (t->zero && t->ranks > 1 && mr__step_device(&t->compute))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "zero=%d: ranks on device %s keep whole slots, want zero=0 or device=cpu",
                   t->zero, t->compute.device->name);
  if (!t->ordered) return MR_OK;
  if (t->ordered < 0 || t->ordered > MR_ORDERED_MOST || (t->ordered & (t->ordered - 1)))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "ordered: %lld, want a power of two in [1,%d], or 0 for none",
                   (long long)t->ordered, MR_ORDERED_MOST);
  if (t->ordered > t->batch)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "ordered: %lld parts of a batch of %lld records, want at most a part a record",
                   (long long)t->ordered, (long long)t->batch);
  if (t->accumulate > 1)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "accumulate: %lld beside ordered=%lld, which splits the batch too; want one of "
                   "them",
                   (long long)t->accumulate, (long long)t->ordered);
  return MR_OK;
}

int64_t mr_train_parts(const mr_train_config_t *t) {
  return t->ordered ? t->ordered : t->accumulate;
}

int64_t mr_train_part_at(const mr_train_config_t *t, int64_t k) {
  int64_t parts = mr_train_parts(t), more = t->batch % parts;
  return k * (t->batch / parts) + (k < more ? k : more);
}

/* Traces the loss once for each part.  The first trace fills the list of parameters. */
static mr_err_t trace_parts(mr_params_t *list, const mr_loss_t *l, const mr_train_config_t *t,
                            mr_fn_t **part, mr_diag_t *diag) {
  for (int k = 0; k < mr_train_parts(t); k++) {
    int64_t at = mr_train_part_at(t, k);
    mr_loss_use_t use = {.batch = mr_train_part_at(t, k + 1) - at,
                         .train = true,
                         .first_site = t->ordered ? 0 : (uint32_t)k * SITES,
                         .first_record = t->ordered ? at : 0};
    mr_params_t again = {0};
    part[k] = mr_loss_fn(l, &t->compute, &use, k ? &again : list, diag);
    mr_params_fini(&again);
    if (!part[k]) return diag->code;
  }
  return MR_OK;
}

float mr_train_limit(const mr_compute_t *c) {
  if (mr__step_kept_in(c, 0, 0) != MR_F16) return 0;
  /* What is rounded at random may become one anywhere beyond the largest number. */
  return c->stochastic ? nextafterf(MR_TRAIN_F16_MOST, INFINITY) : 65520;
}

/* How gradients, and values where the loss reads them, are to lie on a mesh that cuts arrays; heap.
 */
typedef struct lies {
  const char **gradient, **value; /* [list->n] a NULL for one that may lie anywhere, or lies so */
  char *chars;
} lies_t;

static void lies_fini(lies_t *l) {
  free((void *)l->gradient), free((void *)l->value), free(l->chars);
}

/* Ranks with pieces of slots receive their terms of the gradients alone, and with zero=3 others'
   pieces of the values for as long as they are read; stages keep their parts of values that come
   whole.  The caller ends *l. */
static mr_err_t place_further(const mr_train_config_t *t, const mr_params_t *list, lies_t *l,
                              mr_diag_t *diag) {
  mr__cut_t cut = {.at = NULL};
  size_t n = (size_t)list->n + 1;
  *l = (lies_t){.gradient = calloc(n, sizeof *l->gradient),
                .value = t->zero == 3 ? calloc(n, sizeof *l->value) : NULL,
                .chars = malloc(2 * n * MR_PLACEMENT_TEXT)};
  bool got = l->gradient && l->chars && (l->value || t->zero != 3);
  mr_err_t e = got ? MR_OK : mr_no_memory(diag, "placements");
  if (e >= 0) e = mr__cut_init(t, list, &cut, diag);
  for (int i = 0; e >= 0 && i < list->n; i++) {
    char *at = l->chars + 2 * (size_t)i * MR_PLACEMENT_TEXT, *value = at + MR_PLACEMENT_TEXT;
    if (!cut.share && mr__cut_gradient(&cut, i, at)) l->gradient[i] = at;
    bool moves = cut.share ? mr__cut_value(&cut, i, value) : mr__cut_read(&cut, i, value);
    if (l->value && moves) l->value[i] = value;
  }
  mr__cut_fini(&cut);
  return e;
}

/* mr_optim_ranks_t.zero: stages have shares in any case. */
static int zero_of_graph(const mr_train_config_t *t) {
  return t->pipeline.stages && t->zero < 3 ? 1 : t->zero;
}

/* The graph of mr_optim_step_fn for the traced parts: loss, gradients and update. */
static mr_err_t update_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag) {
  bool split[MR_LOSS_FIELDS + 3] = {false};
  for (int i = 0; i < l->n_fields + l->masked; i++) split[i] = true;
  int parts = (int)mr_train_parts(t);
  mr_fn_t **part = calloc((size_t)parts, sizeof *part);
  if (!part) return mr_no_memory(diag, "a step");
  mr_err_t err = trace_parts(list, l, t, part, diag);
  const mr_pipeline_t *pipeline = t->pipeline.stages ? &t->pipeline : NULL;
  mr__step_ranks_t of = mr__step_ranks(t);
  const mr_optim_ranks_t ranks = {of.rank, of.size, MR__RANKS_AXIS, zero_of_graph(t), pipeline};
  mr_optim_loss_t loss = {.n_data = mr_loss_n_data(l),
                          .parts = parts,
                          .tree = t->ordered > 0,
                          .ranks = t->ranks > 1 && (!t->mesh || pipeline) ? &ranks : NULL,
                          .part = (const mr_fn_t *const *)part,
                          .split = split,
                          .fp8 = t->compute.fp8.history ? &t->compute.fp8 : NULL};
  mr_optim_each_t *each = NULL;
  if (err >= 0) err = mr_train_each(list, &t->rules, l->no_decay, &each, diag);
  loss.each = each;
  lies_t lies = {NULL};
  if (err >= 0 && t->mesh && (pipeline ? t->zero == 3 : t->zero))
    err = place_further(t, list, &lies, diag);
  loss.lies = pipeline ? NULL : lies.gradient, loss.reads = lies.value;
  mr_optim_t optim = t->optim;
  optim.below = mr_train_limit(&t->compute);
  if (err >= 0) err = mr_optim_step_fn(&loss, &optim, out, diag);
  for (int k = 0; k < parts; k++) mr_fn_destroy(part[k]);
  free(part), free(each), lies_fini(&lies);
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

/* The layout of the results of update_fn. */
typedef struct layout {
  int outs, n_sets;          /* outputs of the loss for metrics; tensors of all sets */
  mr__share_t values, share; /* of slots and average */
  int n_state; /* what else passes from step to step: the loss scale's scalars, and fp8's */
} layout_t;

static layout_t train_layout_of(const mr_fn_t *u, const mr_train_config_t *t,
                                const mr_params_t *list) {
  layout_t y = {.n_state = (mr_optim_counts(&t->optim) ? MR_SCALE_VARS : 0) +
                           (t->compute.fp8.history ? 2 : 0),
                .n_sets = mr_train_step_in_place(t, list),
                .values = mr__step_values(t, list),
                .share = mr__step_share(t, list)};
  y.outs = u->n_out - y.n_state - y.n_sets - 3; /* loss, losses and norm */
  return y;
}

/* A tensor of a set. */
typedef struct place {
  int set, tensor;
} place_t;

/* Tensor number i of the sets: the values, then those of each later set that the rank has. */
static place_t place_in_sets(const layout_t *y, int i) {
  int each = y->share.to - y->share.from, later = i - (y->values.to - y->values.from);
  if (later < 0) return (place_t){0, y->values.from + i};
  return (place_t){1 + later / each, y->share.from + later % each};
}

/* The new values p of parameters [values.from,values.to) where the ranks of stages keep them: some
   have just made their parts of a value and others have received the whole, and the norm of both
   has the same bits. */
static mr_err_t place_values(mr_fn_t *f, const mr_train_config_t *t, const mr_params_t *list,
                             mr__share_t values, mr_var_t *const *p, mr_var_t **placed) {
  mr__cut_t cut = {.at = NULL};
  char text[MR_PLACEMENT_TEXT];
  bool lies = t->mesh && t->pipeline.stages;
  mr_err_t e = lies ? mr__cut_init(t, list, &cut, &f->diag) : MR_OK;
  for (int i = 0; e >= 0 && i < values.to - values.from; i++)
    placed[i] =
        lies && mr__cut_value(&cut, values.from + i, text) ? mr_lax_shard(f, p[i], text) : p[i];
  mr__cut_fini(&cut);
  return f->diag.code < 0 ? f->diag.code : e;
}

/* f32[]: the squares of all values, of which p are the rank's, as mr_lax_sum_squares adds them. */
static mr_var_t *squares_of_values(mr_fn_t *f, const mr_train_config_t *t, const mr_params_t *list,
                                   const layout_t *y, mr_var_t *const *p) {
  int n = y->values.to - y->values.from;
  mr_var_t **placed = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof(mr_var_t *));
  if (!placed || place_values(f, t, list, y->values, p, placed) < 0) return NULL;
  if (!mr__step_has_value_shares(t)) return mr_lax_sum_squares(f, n, placed);
  const mr__step_ranks_t of = mr__step_ranks(t);
  const mr_optim_ranks_t ranks = {
      .rank = of.rank, .size = of.size, .axis = MR__RANKS_AXIS, .zero = t->zero};
  int *first = mr_mem_take(&f->mem, (size_t)(of.size + 1) * sizeof *first);
  mr_var_t **own = mr_mem_take(&f->mem, (size_t)(n + 1) * sizeof *own);
  if (!first || !own) return NULL;
  for (int r = 0; r <= of.size; r++) first[r] = mr__step_first(t, list, r);
  for (int i = 0; i < n; i++) own[i] = mr_lax_sum_squares_wide(f, placed[i]);
  return mr_lax_convert(f, mr__exchange_sum_each(f, &ranks, first, own, 1), MR_F32);
}

/* Traces the vector that a step reports from u, the results of update_fn. */
static mr_var_t *train_report(mr_fn_t *f, const mr_loss_t *l, const mr_train_config_t *t,
                              const mr_params_t *list, const layout_t *y, mr_var_t **u) {
  mr_var_t *reported[MR_REPORT_METRICS + MR_LOSS_METRICS], *out[MR_LOSS_OUTS] = {NULL};
  mr_var_t *const *p = u + y->outs + 3 + y->n_state;
  mr_loss_report_t each = {0};
  for (int i = 0; i < y->outs; i++) out[i] = u[1 + i];
  if (mr__step_metrics(f, l, t->batch, f->in, out, &each) < 0) return NULL;
  mr_var_t *counted = sum_of(f, each.counts);
  reported[MR_REPORT_LOSS] = mean_of_counted(f, u[0], counted, t->batch);
  reported[MR_REPORT_GRAD_NORM] = u[y->outs + 2];
  reported[MR_REPORT_PARAM_NORM] = mr_lax_sqrt(f, squares_of_values(f, t, list, y, p));
  reported[MR_REPORT_COUNTED] = counted;
  for (int i = 0; i < l->n_metrics; i++)
    reported[MR_REPORT_METRICS + i] = sum_of(f, mr_lax_mul(f, each.metric[i], each.counts));
  return vector_of(f, MR_REPORT_METRICS + l->n_metrics, reported);
}

/* x, of set k, in dtype t; the conversion names the setting that keeps the set narrow. draw: NULL,
   or seed and step of a rounding at random, tensor number `site`. */
static mr_var_t *train_keep(mr_fn_t *f, mr_var_t *x, mr_dtype_t t, int k, int n_slots,
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
static mr_err_t train_order_conversions(mr_fn_t *f, int first, int last) {
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
    if (i >= first)
      a.dtype = mr__step_kept_in(&t->compute, place_in_sets(&y, i - first).set, n_slots);
    mr_fn_input(f, a);
  }
  MR_TRY(f->diag.code);
  for (int i = 0; i < update->n_in; i++)
    in[i] = i < first ? f->in[i]
                      : train_keep(f, f->in[i], MR_F32, place_in_sets(&y, i - first).set, n_slots,
                                   NULL, 0);
  int n_read = f->n_eqn;
  MR_TRY(mr_inline(f, update, in, u));
  mr_var_t **result = u + y.outs + 2; /* the place of the norm */
  mr_var_t *const *draw = t->compute.stochastic ? f->in + mr_loss_n_data(l) - 2 : NULL;
  const char *outer = mr_scope_enter(f, "reported");
  *result = train_report(f, l, t, list, &y, u);
  mr_scope_leave(f, outer);
  int n_reported = f->n_eqn;
  for (int i = 0; i < y.n_sets && f->diag.code >= 0; i++) {
    mr_var_t **to = &result[1 + y.n_state + i];
    place_t at = place_in_sets(&y, i);
    *to = train_keep(f, *to, mr__step_kept_in(&t->compute, at.set, n_slots), at.set, n_slots, draw,
                     at.set * list->n + at.tensor);
  }
  MR_TRY(train_order_conversions(f, n_read, n_reported));
  return mr_fn_return(f, 1 + y.n_state + y.n_sets, result);
}

static int64_t elements_of_listed(const void *arg, int i) {
  const mr_params_t *list = arg;
  return (int64_t)list->param[i].size;
}

int mr__step_shares(const mr_train_config_t *t) {
  if (t->ranks <= 1 || t->mesh) return 0;
  return t->pipeline.stages && t->zero < 3 ? 1 : t->zero;
}

mr__step_ranks_t mr__step_ranks(const mr_train_config_t *t) {
  int at[MR_MESH_AXES];
  if (!t->mesh) return (mr__step_ranks_t){t->rank, t->ranks};
  mr_mesh_place(t->mesh, t->rank, at);
  return (mr__step_ranks_t){at[mr_mesh_batch(t->mesh)], t->mesh->size[mr_mesh_batch(t->mesh)]};
}

int mr__step_first(const mr_train_config_t *t, const mr_params_t *list, int rank) {
  int ranks = mr__step_ranks(t).size;
  return t->pipeline.stages
             ? mr__pipe_share_from(&t->pipeline, elements_of_listed, list, ranks, rank)
             : mr_optim_share_from(list->n, elements_of_listed, list, ranks, rank);
}

mr__share_t mr__step_share(const mr_train_config_t *t, const mr_params_t *list) {
  int rank = mr__step_ranks(t).rank;
  bool shares = t->ranks > 1 && (t->pipeline.stages || (t->zero && !t->mesh));
  if (!shares) return (mr__share_t){0, list->n};
  return (mr__share_t){mr__step_first(t, list, rank), mr__step_first(t, list, rank + 1)};
}

bool mr__step_has_value_shares(const mr_train_config_t *t) {
  return t->ranks > 1 && t->zero == 3 && (t->pipeline.stages || !t->mesh);
}

mr__share_t mr__step_values(const mr_train_config_t *t, const mr_params_t *list) {
  return mr__step_has_value_shares(t) ? mr__step_share(t, list) : (mr__share_t){0, list->n};
}

void mr_train_share_of(const mr_train_config_t *t, const mr_params_t *list, int *from, int *to) {
  mr__share_t share = mr__step_share(t, list);
  *from = share.from, *to = share.to;
}

int mr_train_step_in_place(const mr_train_config_t *t, const mr_params_t *list) {
  mr__share_t share = mr__step_share(t, list), values = mr__step_values(t, list);
  return values.to - values.from + (mr_optim_sets(&t->optim) - 1) * (share.to - share.from);
}

mr_err_t mr_train_step_fn(const mr_loss_t *l, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *update = NULL;
  MR_TRY(mr_optim_check(&t->optim, diag));
  MR_TRY(mr_train_parts_check(t, diag));
  MR_TRY(update_fn(l, t, list, &update, diag));
  mr_fn_t *f = mr_fn_create();
  mr_err_t e = f ? MR_OK : mr_no_memory(diag, "a step");
  if (f && (e = report_fn(f, l, t, list, update)) < 0) mr_diag_relay(diag, e, &f->diag);
  mr_fn_destroy(update);
  if (e >= 0 && t->mesh) e = mr__cut_step_fn(l, t, list, &f, diag);
  if (e >= 0)
    *out = f;
  else
    mr_fn_destroy(f);
  return e < 0 ? e : MR_OK;
}
