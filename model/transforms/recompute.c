/* On a device, a value that one kernel computes and another one reads is written to memory and read
   from there, and is kept until then.  Where the second kernel can compute it again by a few plain
   operations from what is kept anyway, neither is needed: the factor of GELU from its tanh, or what
   a layer normalization subtracts its mean from.

   Equations whose ops are no units of loops (ir/unit.h) stand between kernels.  A value is computed
   again by an equation behind such a one, if this moves fewer bytes, and keeps no more of them than
   before.  After the trade of min-cut rematerialization in PyTorch's AOTAutograd, by a search from
   each value instead of a cut of the graph. */
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/transforms/build.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* Values of LARGE bytes or more are computed again, through at most DEEP operations; a value that
   is SMALL times smaller may be kept for it. */
enum { LARGE = 1 << 16, SMALL = 32, DEEP = 5 };

typedef struct again {
  mr_fn_t *f;
  mr_eqn_t **old; /* the equations before, in order */
  int n_old, n_var;
  int *part;       /* [n_old] how many equations that are no units are before it */
  int *place;      /* [n_var] index in old of the equation that computes it, -1: an input */
  int *last;       /* [n_var] index in old up to which it is kept in any case, -1: none */
  bool *elsewhere; /* [n_var] read in a part other than its own, or by what is no unit */
  bool *stop;      /* [n_var] whether the search at hand ends there */
  mr_var_t **copy; /* [n_var] computed again in part copy_in */
  int *copy_in;    /* [n_var] */
  mr_var_t **in;   /* the operands of all equations as they will be; set when all are decided */
} again_t;

/* ---- what is known of values ---- */

static bool again_unit(const mr_eqn_t *e, mr_unit_t *u) {
  *u = (mr_unit_t){0};
  return e->op->fuse.unit && e->n_out == 1 && e->n_in <= MR_UNIT_IN && e->op->fuse.unit(e, u);
}

/* Ops that take an instruction or two. */
static bool is_plain(const mr_eqn_t *e) {
  static const mr_op_def_t *const plain[] = {
      &mr_op_add, &mr_op_add_any, &mr_op_sub, &mr_op_mul,      &mr_op_neg,
      &mr_op_max, &mr_op_min,     &mr_op_abs, &mr_op_select_n, &mr_op_convert_element_type};
  mr_unit_t u;
  if (!again_unit(e, &u)) return false;
  if (u.kind == MR_UNIT_SAME || u.kind == MR_UNIT_REPEAT) return true;
  for (size_t i = 0; u.kind == MR_UNIT_EACH && i < sizeof plain / sizeof *plain; i++)
    if (e->op == plain[i]) return true;
  return e->op == &mr_op_integer_pow && mr_attr_get(e, "y")->i[0] == 2;
}

static const mr_eqn_t *made_by(const again_t *s, const mr_var_t *v) {
  return v->literal || s->place[v->id] < 0 ? NULL : s->old[s->place[v->id]];
}

static bool is_broadcast(const again_t *s, const mr_var_t *v) {
  mr_unit_t u;
  const mr_eqn_t *e = made_by(s, v);
  return e && again_unit(e, &u) && (u.kind == MR_UNIT_REPEAT || u.kind == MR_UNIT_INDEX);
}

static bool is_plain_result(const again_t *s, const mr_var_t *v) {
  const mr_eqn_t *e = made_by(s, v);
  return e && is_plain(e);
}

/* Plain values that only units read may be computed again themselves, so that their reads keep them
   no longer. */
static void again_find_uses(again_t *s) {
  mr_unit_t u;
  for (int v = 0; v < s->n_var; v++) s->place[v] = s->last[v] = s->copy_in[v] = -1;
  for (int i = 0, part = 0; i < s->n_old; i++) {
    const mr_eqn_t *e = s->old[i];
    bool unit = again_unit(e, &u);
    s->part[i] = part += !unit && e->op->kind != MR_OP_ALIAS;
    for (int k = 0; k < e->n_in; k++) {
      const mr_var_t *v = e->in[k];
      if (v->literal) continue;
      const mr_eqn_t *def = made_by(s, v);
      s->elsewhere[v->id] |= !unit || (def && s->part[s->place[v->id]] != part);
      if (!unit || !def || !is_plain(def)) s->last[v->id] = i;
    }
    for (int k = 0; k < e->n_out; k++) {
      s->place[e->out[k]->id] = i;
      s->elsewhere[e->out[k]->id] |= !unit;
    }
  }
  for (int k = 0; k < s->f->n_out; k++)
    if (!s->f->out[k]->literal) s->last[s->f->out[k]->id] = s->n_old;
}

/* Whether v is read in a part other than its own and `part`. */
static bool read_between(const again_t *s, const mr_var_t *v, int part) {
  mr_unit_t u;
  for (int i = s->place[v->id] + 1; i < s->n_old; i++)
    for (int k = 0; k < s->old[i]->n_in; k++)
      if (s->old[i]->in[k] == v && (!again_unit(s->old[i], &u) ||
                                    (s->part[i] != part && s->part[i] != s->part[s->place[v->id]])))
        return true;
  return s->last[v->id] == s->n_old;
}

/* Whether an equation of the part of `at` reads v in any case. */
static bool read_here(const again_t *s, const mr_var_t *v, int at) {
  int i = at, part = s->part[at];
  while (i > 0 && s->part[i - 1] == part) i--;
  for (; i < s->n_old && s->part[i] == part; i++)
    for (int k = 0; k < s->old[i]->n_in; k++)
      if (s->old[i]->in[k] == v) return true;
  return false;
}

/* ---- the search ---- */

/* What computing a value again at an equation costs. */
typedef struct price {
  double kept;  /* bytes that are kept longer than before */
  double moved; /* bytes that are read */
} price_t;

enum { NEVER = -1 };

/* The price of having v at equation `at`, for a value of `bytes`; kept NEVER: too deep. */
static price_t price_of(again_t *s, const mr_var_t *v, int at, size_t bytes, int depth) {
  price_t stop = {0}, through = {0};
  if (v->literal) return stop;
  size_t own = mr_aval_bytes(&v->aval);
  bool small = own <= bytes / SMALL;
  s->stop[v->id] = true;
  stop.moved = small || read_here(s, v, at) ? 0 : (double)own;
  if (small || s->place[v->id] < 0 || s->last[v->id] >= at) {
    if (!is_broadcast(s, v)) return stop;
  } else {
    stop.kept = s->elsewhere[v->id] ? (double)own : NEVER;
  }
  if (!is_plain_result(s, v) || depth == DEEP) return stop;
  const mr_eqn_t *e = made_by(s, v);
  for (int k = 0; k < e->n_in && through.kept != NEVER; k++) {
    price_t p = price_of(s, e->in[k], at, bytes, depth + 1);
    through.kept = p.kept == NEVER ? NEVER : through.kept + p.kept;
    through.moved += p.moved;
  }
  bool cheaper = through.kept != NEVER &&
                 (stop.kept == NEVER || is_broadcast(s, v) || through.kept < stop.kept);
  s->stop[v->id] = !cheaper;
  return cheaper ? through : stop;
}

/* Whether equation `at` should compute operand v again. */
static bool should_recompute(again_t *s, mr_var_t *v, int at) {
  if (!is_plain_result(s, v) || is_broadcast(s, v)) return false;
  const mr_eqn_t *e = made_by(s, v);
  size_t bytes = mr_aval_bytes(&v->aval);
  mr_unit_t u;
  price_t all = {0};
  if (bytes < LARGE || s->part[s->place[v->id]] == s->part[at] || !again_unit(s->old[at], &u))
    return false;
  if (s->last[v->id] >= at) return false; /* kept for another reader */
  for (int k = 0; k < e->n_in; k++) {
    price_t p = price_of(s, e->in[k], at, bytes, 1);
    if (p.kept == NEVER) return false;
    all.kept += p.kept, all.moved += p.moved;
  }
  double saved = (double)bytes * (read_between(s, v, s->part[at]) ? 1 : 2);
  return all.kept <= (double)bytes && all.moved < saved;
}

/* ---- the new list ---- */

static mr_var_t *again_current(const again_t *s, mr_var_t *v, int part) {
  return !v->literal && v->id < s->n_var && s->copy_in[v->id] == part ? s->copy[v->id] : v;
}

/* Emits the equation of v again, behind those of its operands up to where the search ended. */
static mr_err_t compute_again(again_t *s, mr_var_t *v, int at) {
  mr_eqn_t *e = s->old[s->place[v->id]];
  mr_var_t *in[MR_UNIT_IN];
  for (int k = 0; k < e->n_in; k++) {
    mr_var_t *x = e->in[k];
    if (!x->literal && !s->stop[x->id] && again_current(s, x, s->part[at]) == x)
      MR_TRY(compute_again(s, x, at));
    if (!x->literal && s->stop[x->id] && s->last[x->id] < at) s->last[x->id] = at;
    in[k] = again_current(s, x, s->part[at]);
  }
  mr_origin_t before = mr_origin(s->f);
  mr_origin_from(s->f, e, "recompute");
  mr_eqn_t *c = mr_emit(s->f, e->op, e->n_in, in, e->n_attr, e->attr, 1);
  mr_origin_set(s->f, before);
  if (c) s->copy[v->id] = c->out[0], s->copy_in[v->id] = s->part[at];
  return s->f->diag.code;
}

static mr_err_t again_rewrite(again_t *s) {
  size_t n = 0;
  for (int i = 0; i < s->n_old; i++) {
    mr_eqn_t *e = s->old[i];
    for (int k = 0; k < e->n_in; k++) {
      mr_var_t *v = e->in[k];
      if (v->literal || again_current(s, v, s->part[i]) != v) continue;
      if (should_recompute(s, v, i)) MR_TRY(compute_again(s, v, i));
    }
    for (int k = 0; k < e->n_in; k++) s->in[n++] = again_current(s, e->in[k], s->part[i]);
    MR_TRY(mr__keep(s->f, e));
  }
  n = 0;
  for (int i = 0; i < s->n_old; i++)
    for (int k = 0; k < s->old[i]->n_in; k++) s->old[i]->in[k] = s->in[n++];
  return MR_OK;
}

mr_err_t mr_recompute(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  if (!t->rows || f->n_eqn == 0) return MR_OK;
  again_t s = {.f = f, .n_old = f->n_eqn, .n_var = f->n_var};
  size_t n = (size_t)f->n_var + 1, m = (size_t)f->n_eqn + 1, ends = 1;
  for (int i = 0; i < f->n_eqn; i++) ends += (size_t)f->eqn[i]->n_in;
  mr_err_t e = MR_ERR_NOMEM;
  s.old = calloc(m, sizeof(mr_eqn_t *));
  s.place = calloc(3 * n + m, sizeof(int));
  s.elsewhere = calloc(2 * n, sizeof(bool)), s.copy = calloc(n + ends, sizeof(mr_var_t *));
  if (s.old && s.place && s.elsewhere && s.copy) {
    s.last = s.place + n, s.copy_in = s.last + n, s.part = s.copy_in + n;
    s.stop = s.elsewhere + n, s.in = s.copy + n;
    memcpy(s.old, f->eqn, (size_t)f->n_eqn * sizeof(mr_eqn_t *));
    again_find_uses(&s);
    f->n_eqn = 0;
    e = again_rewrite(&s);
  }
  free(s.old), free(s.place), free(s.elsewhere), free(s.copy);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "recompute")
                                    : mr_diag_relay(diag, e, &f->diag);
}
