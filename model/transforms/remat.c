/* Rematerialization: the list is rewritten in order; before an equation that reads a cheap value
   from far above, the equations that compute the value are emitted again. */
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

/* A use is far if it is more than FAR equations after the value was computed or last read; only
   values of LARGE bytes or more are computed again.  An operand may be kept longer for that if it
   is SMALL times smaller: a bias, which only the forward pass reads. */
enum { FAR = 24, LARGE = 1 << 16, SMALL = 32 };

typedef struct remat {
  mr_fn_t *f;
  mr_eqn_t **old; /* the equations before, in order */
  int n_old;
  mr_var_t ***in; /* [n_old] their operands before, as those of equations in the new list change */
  int *place;     /* [n_var] index in old of the equation that computes it, -1: an input */
  int *last;      /* [n_var] index in old of its last use */
  mr_var_t **now; /* [n_var] its latest copy; NULL: itself */
  int *fresh;     /* [n_var] index in old where that was computed or last read */
  int n_var;
} remat_t;

static void find_uses(remat_t *r) {
  for (int v = 0; v < r->n_var; v++) r->place[v] = r->last[v] = r->fresh[v] = -1;
  for (int i = 0; i < r->n_old; i++) {
    const mr_eqn_t *e = r->old[i];
    for (int k = 0; k < e->n_in; k++) r->last[e->in[k]->id] = i;
    for (int k = 0; k < e->n_out; k++) r->place[e->out[k]->id] = i;
  }
  for (int k = 0; k < r->f->n_out; k++) r->last[r->f->out[k]->id] = r->n_old;
}

static bool is_far(const remat_t *r, const mr_var_t *v, int at) {
  return r->place[v->id] >= 0 && at - r->fresh[v->id] > FAR;
}

/* Values of f8 are kept instead of what they are widened to, which takes more; and so are inputs,
   which are kept anyway: parameters without a copy in f32. */
static bool widens_input_or_storage(const remat_t *r, int i) {
  const mr_eqn_t *e = r->old[i];
  const mr_var_t *from = e->n_in ? r->in[i][0] : NULL;
  if (!from || !mr__is_conversion(e)) return false;
  return mr_is_storage(from->aval.dtype) ||
         (!from->literal && r->place[from->id] < 0 &&
          mr_dtype_size(from->aval.dtype) < mr_dtype_size(e->out[0]->aval.dtype));
}

/* WAY: of moves from inputs to their copy. */
enum { WAY = 6 };

/* Whether equation i only moves elements of inputs that are narrow: the parameters of several
   products side by side. */
static bool copies_narrow_inputs(const remat_t *r, int i, int way) {
  const mr_eqn_t *e = r->old[i];
  if (way == WAY || !e->op->cost.moves || e->op->collective || !e->n_in || e->n_out != 1)
    return false;
  for (int k = 0; k < e->n_in; k++) {
    const mr_var_t *x = r->in[i][k];
    if (x->literal || x->aval.dtype != e->out[0]->aval.dtype || !mr_is_narrow(x->aval.dtype) ||
        x->aval.dtype == MR_F32)
      return false;
    if (r->place[x->id] >= 0 && !copies_narrow_inputs(r, r->place[x->id], way + 1)) return false;
  }
  return true;
}

/* Whether equation i computes from what is kept anyway what takes no less: another dtype of it, or
   several inputs as one. */
static bool is_of_kept(const remat_t *r, int i) {
  return widens_input_or_storage(r, i) || (r->old[i]->n_in > 1 && copies_narrow_inputs(r, i, 0));
}

static bool is_cheap(const remat_t *r, const mr_var_t *v) {
  int i = r->place[v->id];
  return i >= 0 && (r->old[i]->op->cost.cheap || is_of_kept(r, i));
}

/* Whether v can be read at equation `at` without keeping a value of more than `small` bytes longer
   than now: v is an input, is read there or later anyway, is small, or can itself be computed again
   from such values by a cheap op. */
static bool is_reachable(const remat_t *r, const mr_var_t *v, int at, size_t small) {
  if (v->literal || r->place[v->id] < 0) return true;
  bool cheap_and_far = is_cheap(r, v) && is_far(r, v, at);
  if (!cheap_and_far) return r->last[v->id] >= at || mr_aval_bytes(&v->aval) <= small;
  int i = r->place[v->id];
  if (is_of_kept(r, i)) return true;
  for (int k = 0; k < r->old[i]->n_in; k++)
    if (!is_reachable(r, r->in[i][k], at, small)) return false;
  return true;
}

static bool should_rematerialize(const remat_t *r, const mr_var_t *v, int at) {
  size_t bytes = mr_aval_bytes(&v->aval);
  return !v->literal && is_cheap(r, v) && is_far(r, v, at) && bytes >= LARGE &&
         is_reachable(r, v, at, bytes / SMALL);
}

static mr_var_t *current_var(const remat_t *r, mr_var_t *v) {
  return v->id < r->n_var && r->now[v->id] ? r->now[v->id] : v;
}

/* Emits the equation that computes v again; from here its outputs replace the old ones. */
static mr_err_t remat_again(remat_t *r, mr_var_t *v, int at) {
  int i = r->place[v->id];
  mr_eqn_t *e = r->old[i];
  mr_var_t **in = calloc((size_t)e->n_in + 1, sizeof(mr_var_t *));
  if (!in) return mr_no_memory(&r->f->diag, "remat");
  for (int k = 0; k < e->n_out; k++) r->fresh[e->out[k]->id] = at;
  mr_err_t err = MR_OK;
  for (int k = 0; k < e->n_in && err >= 0; k++) {
    mr_var_t *x = r->in[i][k];
    if (!x->literal && is_cheap(r, x) && is_far(r, x, at)) err = remat_again(r, x, at);
    in[k] = current_var(r, x);
  }
  mr_origin_t before = mr_origin(r->f);
  mr_origin_from(r->f, e, "remat");
  mr_eqn_t *copy = err < 0 ? NULL : mr_emit(r->f, e->op, e->n_in, in, e->n_attr, e->attr, e->n_out);
  mr_origin_set(r->f, before);
  for (int k = 0; copy && k < e->n_out; k++) r->now[e->out[k]->id] = copy->out[k];
  free(in);
  return err < 0 ? err : r->f->diag.code;
}

static mr_err_t remat_rewrite(remat_t *r) {
  for (int i = 0; i < r->n_old; i++) {
    mr_eqn_t *e = r->old[i];
    for (int k = 0; k < e->n_in; k++)
      if (should_rematerialize(r, e->in[k], i)) MR_TRY(remat_again(r, e->in[k], i));
    for (int k = 0; k < e->n_in; k++) {
      if (!e->in[k]->literal) r->fresh[e->in[k]->id] = i;
      e->in[k] = current_var(r, e->in[k]);
    }
    for (int k = 0; k < e->n_out; k++) r->fresh[e->out[k]->id] = i;
    MR_TRY(mr__keep(r->f, e));
  }
  return MR_OK;
}

static size_t remat_count_operands(const mr_fn_t *f) {
  size_t n = 0;
  for (int i = 0; i < f->n_eqn; i++) n += (size_t)f->eqn[i]->n_in;
  return n;
}

/* Fills old, and in with lists that lie in operand. */
static void remat_list(remat_t *r, mr_var_t **operand) {
  for (int i = 0; i < r->n_old; i++) {
    r->old[i] = r->f->eqn[i], r->in[i] = operand;
    for (int k = 0; k < r->old[i]->n_in; k++) *operand++ = r->old[i]->in[k];
  }
}

mr_err_t mr_remat(mr_fn_t *f, mr_diag_t *diag) {
  if (f->n_eqn == 0) return MR_OK;
  remat_t r = {.f = f, .n_old = f->n_eqn, .n_var = f->n_var};
  size_t n = (size_t)f->n_var + 1;
  mr_var_t **operand = calloc(remat_count_operands(f) + 1, sizeof(mr_var_t *));
  r.old = calloc((size_t)f->n_eqn, sizeof(mr_eqn_t *));
  r.in = calloc((size_t)f->n_eqn, sizeof(mr_var_t **));
  r.place = calloc(3 * n, sizeof(int)), r.last = r.place + n, r.fresh = r.last + n;
  r.now = calloc(n, sizeof(mr_var_t *));
  mr_err_t e = MR_ERR_NOMEM;
  if (operand && r.old && r.in && r.place && r.now) {
    remat_list(&r, operand);
    find_uses(&r);
    f->n_eqn = 0;
    e = remat_rewrite(&r);
  }
  free(operand), free(r.old), free(r.in);
  free(r.place), free(r.now);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "remat")
                                    : mr_diag_relay(diag, e, &f->diag);
}
