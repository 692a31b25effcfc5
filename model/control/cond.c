/* The op cond: runs one of several functions, chosen by an index.  If vmap maps the index itself,
   all of them run and their results are selected.  After jax.lax.cond and switch. */
#include <stdio.h>
#include <stdlib.h>

#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

mr_err_t mr__cond_emit(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_eqn_t **e) {
  int n_in = branch[0]->n_in;
  mr_attr_t attr = mr_attr_fns("branches", n, branch);
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(n_in + 1) * sizeof(mr_var_t *));
  v[0] = index;
  for (int i = 0; i < n_in; i++) v[i + 1] = in[i];
  *e = mr_emit(f, &mr_op_cond, n_in + 1, v, 1, &attr, branch[0]->n_out);
  return mr_rule_done(f);
}

mr_err_t mr_lax_switch(mr_fn_t *f, mr_var_t *index, int n, const mr_fn_t *const *branch,
                       mr_var_t *const *in, mr_var_t **out) {
  mr_eqn_t *e;
  if (n < 1) return mr__call_refuse(f, "switch", "%d branches, want at least one", n);
  for (int j = 0; j < n; j++) {
    char what[32];
    snprintf(what, sizeof what, "branch %d", j);
    MR_TRY(mr__call_whole(f, "switch", what, branch[j]));
  }
  MR_TRY(mr__cond_emit(f, index, n, branch, in, &e));
  for (int k = 0; k < e->n_out; k++) out[k] = e->out[k];
  return MR_OK;
}

mr_err_t mr_lax_cond(mr_fn_t *f, mr_var_t *pred, const mr_fn_t *when_true,
                     const mr_fn_t *when_false, mr_var_t *const *in, mr_var_t **out) {
  const mr_fn_t *branch[] = {when_false, when_true};
  if (pred && (pred->aval.dtype != MR_BOOL || pred->aval.ndim)) {
    char text[MR_AVAL_TEXT];
    return mr__call_refuse(f, "cond", "the predicate is %s, want bool[]",
                           mr_aval_text(&pred->aval, text));
  }
  return mr_lax_switch(f, mr_lax_convert(f, pred, MR_I32), 2, branch, in, out);
}

int mr__cond_branches(const mr_eqn_t *e, const mr_fn_t *const **b) {
  return mr_attr_calls(mr_attr_get(e, "branches"), b);
}

static mr_err_t cond_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  const mr_fn_t *const *b;
  int n = mr__cond_branches(e, &b);
  if (n < 1 || e->n_in < 1) return mr_shape_fail(e, diag, "want an index i32[] and a branch");
  mr_aval_t index = mr_aval_scalar(MR_I32);
  MR_TRY(mr__call_fits(e, "the index, operand", 0, &e->in[0]->aval, &index, diag));
  for (int j = 0; j < n; j++) {
    if (b[j]->n_in != e->n_in - 1 || b[j]->n_out != e->n_out)
      return mr_fail(diag, MR_ERR_SHAPE,
                     "%s%scond: branch %d takes %d values and gives %d, want %d and %d as branch 0",
                     e->scope, *e->scope ? ": " : "", j, b[j]->n_in, b[j]->n_out, e->n_in - 1,
                     e->n_out);
    for (int i = 1; i < e->n_in; i++)
      MR_TRY(mr__call_fits(e, "operand", i - 1, &e->in[i]->aval, &b[j]->in[i - 1]->aval, diag));
    for (int k = 0; k < e->n_out; k++) {
      char one[MR_AVAL_TEXT], other[MR_AVAL_TEXT];
      if (!mr_aval_equal(&b[j]->out[k]->aval, &b[0]->out[k]->aval))
        return mr_fail(diag, MR_ERR_SHAPE, "%s%scond: result %d is %s in branch 0, %s in branch %d",
                       e->scope, *e->scope ? ": " : "", k, mr_aval_text(&b[0]->out[k]->aval, one),
                       mr_aval_text(&b[j]->out[k]->aval, other), j);
      out[k] = b[0]->out[k]->aval;
    }
  }
  return MR_OK;
}

/* Emits cond over own[n], or fails as why did.  Destroys own[n] in both cases. */
static mr_err_t emit_own(mr_fn_t *f, mr_var_t *index, int n, mr_fn_t **own, mr_var_t *const *in,
                         const mr_diag_t *why, mr_eqn_t **e) {
  mr_err_t err = why->code < 0
                     ? mr__call_failed(f, why)
                     : mr__cond_emit(f, index, n, (const mr_fn_t *const *)(uintptr_t)own, in, e);
  for (int j = 0; j < n; j++) mr_fn_destroy(own[j]);
  return err;
}

/* ---- forward mode: a second cond that gives the tangents ---- */

/* *out: (operands, tangents of wrt) -> (tangents of the results that have one in some branch). */
static mr_err_t tangent_branch(const mr_fn_t *b, int n, const int *wrt, const bool *moves,
                               mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *j;
  MR_TRY(mr_jvp(b, n, wrt, &j, diag));
  mr_var_t **d = mr_mem_take(&j->mem, (size_t)(b->n_out + 1) * sizeof(mr_var_t *));
  int n_out = 0;
  for (int k = 0; k < b->n_out; k++)
    if (moves[k]) d[n_out++] = j->out[b->n_out + k];
  mr_fn_return(j, n_out, d);
  mr_dce(j);
  *out = j;
  return MR_OK;
}

static mr_err_t cond_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  const mr_fn_t *const *b;
  mr_diag_t why = {0};
  mr_eqn_t *c;
  int n = mr__cond_branches(e, &b), n_wrt = 0, n_in = e->n_in - 1, at = 0;
  int *wrt = mr_mem_take(&f->mem, (size_t)e->n_in * sizeof(int));
  bool *given = mr_mem_take(&f->mem, (size_t)(e->n_in + 2 * e->n_out) + 1);
  bool *moves = given + e->n_in, *one = moves + e->n_out;
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)(2 * e->n_in) * sizeof(mr_var_t *));
  for (int i = 0; i < n_in; i++) {
    in[i] = e->in[i + 1];
    given[i] = din[i + 1] && mr_is_float(in[i]->aval.dtype);
    if (given[i]) in[n_in + n_wrt] = din[i + 1], wrt[n_wrt++] = i;
  }
  for (int j = 0; j < n; j++) {
    mr__call_moves(b[j], given, one);
    for (int k = 0; k < e->n_out; k++) moves[k] |= one[k];
  }
  mr_fn_t **own = mr_mem_take(&f->mem, (size_t)n * sizeof(mr_fn_t *));
  for (int j = 0; j < n && why.code >= 0; j++)
    tangent_branch(b[j], n_wrt, wrt, moves, &own[j], &why);
  mr_err_t err = emit_own(f, e->in[0], n, own, in, &why, &c);
  for (int k = 0; k < e->n_out && err >= 0; k++)
    if (moves[k]) dout[k] = c->out[at++];
  return err;
}

/* ---- vmap ---- */

/* bool (B): whether an example takes branch j of n by index i32[B]; NULL: all do. */
static mr_var_t *takes_branch(mr_fn_t *f, mr_var_t *index, int j, int n) {
  mr_var_t *at = mr_literal(f, MR_I32, j);
  if (n == 1) return NULL;
  return j == 0       ? mr_lax_le(f, index, at)
         : j == n - 1 ? mr_lax_ge(f, index, at)
                      : mr_lax_eq(f, index, at);
}

/* Makes an operand of floats a constant for the examples that take another branch.  The branch's
   slope may be infinite for them, and 0 times infinity would turn their cotangents of 0 into NaN.
   As in jax. */
static mr_batched_t cond_freeze_others(mr_fn_t *f, const mr_batched_t *x, mr_var_t *which,
                                       int64_t size) {
  if (!which || !mr_is_float(x->var->aval.dtype)) return *x;
  mr_var_t *v = mr_batch_front(f, x, size);
  return (mr_batched_t){mr_batch_select(f, which, mr_lax_stop_gradient(f, v), v), 0};
}

static mr_err_t select_all(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  const mr_fn_t *const *b;
  int n = mr__cond_branches(e, &b);
  int64_t size = mr_batch_size(1, in);
  mr_batched_t *y = mr_mem_take(&f->mem, (size_t)(e->n_out + 1) * sizeof *y);
  mr_batched_t *x = mr_mem_take(&f->mem, (size_t)e->n_in * sizeof *x);
  for (int j = 0; j < n; j++) {
    mr_var_t *which = takes_branch(f, in[0].var, j, n);
    for (int i = 1; i < e->n_in && f->diag.code >= 0; i++)
      x[i] = cond_freeze_others(f, &in[i], which, size);
    MR_TRY(mr_rule_done(f));
    MR_TRY(mr_inline_mapped(f, b[j], x + 1, y));
    for (int k = 0; k < e->n_out; k++) {
      mr_var_t *v = mr_batch_front(f, &y[k], size);
      out[k] = (mr_batched_t){j ? mr_batch_select(f, which, out[k].var, v) : v, 0};
    }
  }
  return mr_rule_done(f);
}

static mr_err_t cond_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in,
                           mr_batched_t *out) {
  if (in[0].axis >= 0) return select_all(f, e, in, out);
  const mr_fn_t *const *b;
  mr_diag_t fine = {0};
  mr_eqn_t *c;
  int n = mr__cond_branches(e, &b);
  int64_t size = mr__call_size(f, e, in);
  bool *mapped = mr_mem_take(&f->mem, (size_t)(e->n_in + e->n_out) + 1);
  bool *gives = mapped + e->n_in;
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)e->n_in * sizeof(mr_var_t *));
  mr_fn_t **own = mr_mem_take(&f->mem, (size_t)n * sizeof(mr_fn_t *));
  for (int i = 1; i < e->n_in; i++) {
    mapped[i - 1] = in[i].axis >= 0;
    v[i - 1] = mapped[i - 1] ? mr_batch_front(f, &in[i], size) : in[i].var;
  }
  /* Twice, as a result that is mapped in one branch must be mapped in all. */
  for (int j = 0; j < 2 * n && f->diag.code >= 0; j++) {
    mr_fn_destroy(own[j % n]);
    own[j % n] = NULL;
    mr__call_mapped(f, b[j % n], size, mapped, gives, &own[j % n]);
  }
  mr_err_t err = emit_own(f, in[0].var, n, own, v, f->diag.code < 0 ? &f->diag : &fine, &c);
  for (int k = 0; k < e->n_out && err >= 0; k++)
    out[k] = (mr_batched_t){c->out[k], gives[k] ? 0 : -1};
  return err;
}

/* A sample of three branches: (x sin(y), -x), (x, -x), and (2, y^2). */
static bool cond_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 0) return false;
  mr_fn_t *b[3];
  mr_var_t *out[3][2];
  for (int j = 0; j < 3; j++) {
    b[j] = mr_fn_create();
    mr_var_t *x = mr_fn_input(b[j], mr_aval_of(MR_F32, 2, 3)), *y = mr_fn_input(b[j], x->aval);
    out[j][0] = j == 0   ? mr_lax_mul(b[j], x, mr_lax_sin(b[j], y))
                : j == 1 ? x
                         : mr_lax_full(b[j], &x->aval, 2);
    out[j][1] = j == 2 ? mr_lax_mul(b[j], y, y) : mr_lax_neg(b[j], x);
    mr_fn_return(b[j], 2, out[j]);
  }
  mr_var_t *index = mr_sample_scalar(s, MR_I32, -1, 3), *y[2];
  mr_var_t *in[] = {mr_sample_f32(s, -1, 1, 2, 3), mr_sample_f32(s, -1, 1, 2, 3)};
  if (mr_lax_switch(s->f, index, 3, (const mr_fn_t *const *)(uintptr_t)b, in, y) >= 0)
    mr_fn_return(s->f, 2, y);
  for (int j = 0; j < 3; j++) mr_fn_destroy(b[j]);
  return true;
}

static void cond_reach(const mr_eqn_t *e, const bool *in, bool *out) {
  const mr_fn_t *const *b;
  int n = mr__cond_branches(e, &b);
  mr_mem_t mem = {0};
  bool *one = mr_mem_take(&mem, (size_t)e->n_out + 1);
  for (int k = 0; k < e->n_out; k++) out[k] = false;
  for (int j = 0; j < n; j++) {
    mr__call_moves(b[j], in + 1, one);
    for (int k = 0; k < e->n_out; k++) out[k] |= one[k];
  }
  mr_mem_fini(&mem);
}

static mr_err_t cond_spend(mr_fn_t *f, mr_eqn_t *e) { return mr__spend_called(f, e, "branches"); }

const mr_op_def_t mr_op_cond = {
    MR_RULES_PRIMITIVE,
    .name = "cond",
    .n_in = -1,
    .n_out = -1,
    .shape = cond_shape,
    .batch = cond_batch,
    .sample = cond_sample,
    .ad = {.jvp = cond_jvp, .vjp = mr__cond_vjp, .reach = cond_reach, .spend = cond_spend},
    .amp = {MR_AMP_FOLLOW},
    .shard = {mr_shard_whole},
};
