/* Loss and gradients of the parts of a batch.  What parts give is added in an order that depends on
   their numbers alone: a chain, or a tree whose subtrees may be computed by others. */
#include "model/control/control.h"
#include "model/optim/step_private.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

bool mr__optim_is_split(const mr_optim_loss_t *loss, int i) {
  return loss->parts > 1 && loss->split[i];
}

int64_t mr__optim_rows(const mr_optim_loss_t *loss, int i, int from, int to) {
  int64_t rows = 0;
  for (int k = from; k < to; k++) rows += loss->part[k]->in[i]->aval.dim[0];
  return rows;
}

const mr_aval_t *mr__optim_aval(const mr__optim_step_t *s, int i) {
  return &s->loss->part[0]->in[s->loss->n_data + i]->aval;
}

/* The parts whose records the data inputs have: those that are computed, or with ranks all. */
static int input_from_part(const mr__optim_step_t *s) { return s->loss->ranks ? 0 : s->from; }
static int input_to_part(const mr__optim_step_t *s) {
  return s->loss->ranks ? s->loss->parts : s->to;
}

/* Data input i of the step. */
static mr_aval_t step_whole(const mr__optim_step_t *s, int i) {
  mr_aval_t a = s->loss->part[0]->in[i]->aval;
  if (mr__optim_is_split(s->loss, i))
    a.dim[0] = mr__optim_rows(s->loss, i, input_from_part(s), input_to_part(s));
  return a;
}

/* The share of part k's records in those of all parts. */
static double weight_of_part(const mr_optim_loss_t *loss, int k) {
  for (int i = 0; i < loss->n_data; i++)
    if (mr__optim_is_split(loss, i))
      return (double)loss->part[k]->in[i]->aval.dim[0] /
             (double)mr__optim_rows(loss, i, 0, loss->parts);
  return 1.0 / loss->parts;
}

void mr__optim_inputs(mr__optim_step_t *s) {
  const mr_fn_t *f = s->loss->part[0];
  int n_data = s->loss->n_data, n_slots = s->o->def->n_slots, sets = mr_optim_sets(s->o);
  for (int i = 0; i < n_data; i++) mr_fn_input(s->g, step_whole(s, i));
  mr_fn_input(s->g, mr_aval_scalar(MR_F32));
  mr_fn_input(s->g, mr_aval_scalar(MR_F32));
  for (int i = 0; i < s->n_scale; i++) mr_fn_input(s->g, mr_aval_scalar(i ? MR_I32 : MR_F32));
  if (s->n_fp8) {
    mr_aval_t scales = f->in[f->n_in - 1]->aval;
    mr_fn_input(s->g, scales);
    mr_fn_input(s->g, mr_aval_of(MR_F32, s->loss->fp8->history, scales.dim[0], scales.dim[1]));
  }
  for (int set = 0; set < sets; set++)
    for (int i = set ? s->lo : s->p_lo; i < (set ? s->hi : s->p_hi); i++)
      mr_fn_input(s->g, f->in[n_data + i]->aval);
  s->data = s->g->in; /* the array has its final place now */
  s->lr = s->data[n_data];
  s->t = s->data[n_data + 1];
  s->scale = s->data + n_data + 2;
  s->fp8 = s->scale + s->n_scale;
  s->p = mr_mem_take(&s->g->mem, (size_t)(s->n + 1) * sizeof *s->p);
  mr_var_t **first = s->fp8 + s->n_fp8, **later = first + s->p_hi - s->p_lo;
  for (int i = s->p_lo; s->p && i < s->p_hi; i++) s->p[i] = first[i - s->p_lo];
  for (int k = 0; k < n_slots; k++) s->slot[k] = later + k * (s->hi - s->lo);
  s->average = later + n_slots * (s->hi - s->lo);
}

/* The piece of data input i that part k reads. */
static mr_var_t *piece_of_input(mr__optim_step_t *s, int i, int k) {
  mr_var_t *x = s->data[i];
  if (!mr__optim_is_split(s->loss, i) || input_to_part(s) - input_from_part(s) == 1) return x;
  int64_t start[MR_MAX_NDIM] = {0}, limit[MR_MAX_NDIM];
  for (int d = 0; d < x->aval.ndim; d++) limit[d] = x->aval.dim[d];
  start[0] = mr__optim_rows(s->loss, i, input_from_part(s), k);
  limit[0] = mr__optim_rows(s->loss, i, input_from_part(s), k + 1);
  return mr_lax_slice(s->g, x, start, limit);
}

mr_fn_t *mr__optim_light_loss(mr__optim_step_t *s, int k) {
  mr_fn_t *f = mr_fn_copy(s->loss->part[k], &s->g->diag);
  if (!f || mr_passes_before_grad(f, NULL, &s->g->diag) >= 0) return f;
  mr_fn_destroy(f);
  return NULL;
}

/* Appends the loss of part k. */
static mr_err_t run_loss(mr__optim_step_t *s, int k, mr_var_t *const *in, mr_var_t **out) {
  mr_fn_t *f = mr__optim_light_loss(s, k);
  if (!f) return s->g->diag.code;
  mr_err_t err = mr_inline(s->g, f, in, out);
  mr_fn_destroy(f);
  return err;
}

bool mr__optim_is_dynamic(const mr__optim_step_t *s) { return s->o->dynamic.patience > 0; }

mr_var_t *mr__optim_loss_seed(mr__optim_step_t *s, int k) {
  double fixed = s->o->loss_scale > 0 ? (double)s->o->loss_scale : 1;
  double weight = weight_of_part(s->loss, k);
  mr_dtype_t t = s->loss->part[0]->out[0]->aval.dtype;
  if (mr__optim_is_dynamic(s))
    return mr_lax_convert(
        s->g, s->loss->parts > 1 ? mr_lax_scale(s->g, weight, s->scale[0]) : s->scale[0], t);
  return mr_literal(s->g, t, s->loss->tree ? fixed * weight : fixed / s->loss->parts);
}

const char *mr__optim_by_fp8(mr__optim_step_t *s) {
  const char *by = s->g->by;
  s->g->by = "fp8";
  return by;
}

mr_var_t **mr__optim_inputs_of_part(mr__optim_step_t *s, int k) {
  int n_data = s->loss->n_data, n_in = s->loss->part[k]->n_in;
  mr_var_t **in = mr_mem_take(&s->g->mem, (size_t)n_in * sizeof *in);
  for (int i = 0; in && i < n_in; i++)
    in[i] = i < n_data ? piece_of_input(s, i, k) : i - n_data < s->n ? s->p[i - n_data] : s->fp8[0];
  return in;
}

mr_err_t mr__optim_run_part(mr__optim_step_t *s, int k, mr_var_t **out, mr_var_t **grad) {
  int n_data = s->loss->n_data, n = s->n + (s->n_fp8 > 0);
  mr_var_t **d = mr_mem_take(&s->g->mem, (size_t)n * sizeof *d);
  mr_var_t **in = s->p ? mr__optim_inputs_of_part(s, k) : NULL;
  if (!in) return s->g->diag.code;
  MR_TRY(run_loss(s, k, in, out));
  s->forward = s->g->n_var;
  MR_TRY(mr_backward(s->g, out[0], mr__optim_loss_seed(s, k), n, in + n_data, d));
  for (int i = 0; i < s->n; i++) grad[i] = d[i];
  const char *by = mr__optim_by_fp8(s);
  if (s->n_fp8) s->amax = s->amax ? mr_lax_max(s->g, s->amax, d[s->n]) : d[s->n];
  s->g->by = by;
  return s->g->diag.code;
}

/* ---- the order in which parts are added ---- */

/* How many of the sums that wait are added to what part k gives.  Those of a rank are sums of the
   tree of all parts, whose left halves another rank may have. */
int mr__optim_sums_before(const mr__optim_step_t *s, int k) {
  int n = 0, origin = input_from_part(s), size = 1;
  if (!s->loss->tree) return k > s->from;
  for (int at = k - origin; at & 1 && (at - 1) * size + origin >= s->from; at >>= 1) n++, size *= 2;
  return n;
}

void mr__optim_sums_add(mr__optim_step_t *s, mr__optim_sums_t *sums, int k, int n, mr_var_t **x) {
  for (int left = mr__optim_sums_before(s, k); left; left--) {
    mr_var_t **was = sums->of[--sums->n];
    for (int i = 0; i < n; i++) x[i] = mr_lax_add(s->g, was[i], x[i]);
  }
  sums->of[sums->n++] = x;
}

mr_var_t **mr__optim_sums_end(mr__optim_step_t *s, mr__optim_sums_t *sums, int n) {
  while (sums->n > 1) {
    mr_var_t **x = sums->of[--sums->n], **was = sums->of[sums->n - 1];
    for (int i = 0; i < n; i++) was[i] = mr_lax_add(s->g, was[i], x[i]);
  }
  return sums->of[0];
}

mr_var_t *mr__optim_weighted(mr__optim_step_t *s, int k, mr_var_t *x) {
  return s->loss->tree ? mr_lax_scale(s->g, weight_of_part(s->loss, k), x) : x;
}

mr_var_t *mr__optim_sum_of_scalars(mr__optim_step_t *s, int n, mr_var_t **x) {
  mr__optim_sums_t sums = {0};
  for (int k = 0; k < n; k++) mr__optim_sums_add(s, &sums, s->from + k, 1, &x[k]);
  mr_var_t *sum = mr__optim_sums_end(s, &sums, 1)[0];
  return s->loss->tree ? sum : mr_lax_scale(s->g, 1.0 / s->loss->parts, sum);
}

mr_var_t *mr__optim_join(mr__optim_step_t *s, mr_var_t **all, int i) {
  int n = s->to - s->from;
  mr_var_t **x = mr_mem_take(&s->g->mem, (size_t)n * sizeof *x);
  for (int k = 0; k < n; k++) x[k] = all[k * s->n_out + i];
  if (s->loss->parts == 1 || !x[0]) return x[0];
  if (x[0]->aval.ndim) return n == 1 ? x[0] : mr_lax_concatenate(s->g, n, x, 0);
  for (int k = 0; k < n; k++) x[k] = mr__optim_weighted(s, s->from + k, x[k]);
  return mr__optim_sum_of_scalars(s, n, x);
}
