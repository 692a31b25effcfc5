/* One AdamW update of one tensor: p, g, m, v, lr, t, grad_scale and perhaps apply -> p, m, v, in
   place if the caller has donated them.  The op is one f32 kernel; other dtypes are written out as
   primitives at once.  apply is an operand, not a select after the op, so that a step that may be
   skipped moves no more bytes than one that may not. */
#include <math.h>

#include "model/ops/lax.h"
#include "model/ops/rules.h"

/* b x + (1 - b) g */
static mr_var_t *decay_average(mr_fn_t *f, double b, mr_var_t *x, mr_var_t *g) {
  return mr_lax_add(f, mr_lax_scale(f, b, x), mr_lax_scale(f, 1 - b, g));
}

/* 1 - b^t, computed in t's dtype, then converted to `as`. */
static mr_var_t *bias_correction(mr_fn_t *f, double b, mr_var_t *t, mr_dtype_t as) {
  mr_dtype_t dtype = t->aval.dtype;
  mr_var_t *power = mr_lax_pow(f, mr_literal(f, dtype, b), t);
  return mr_lax_convert(f, mr_lax_sub(f, mr_literal(f, dtype, 1), power), as);
}

enum { ADAMW_IN = 7 }; /* operands without apply */

/* in: p, g, m, v, lr, t, grad_scale; c: b1, b2, eps, weight_decay.  Rounds to p's dtype wherever
   optax does.  p, m and v stay where apply, which may be NULL, is false. */
static mr_err_t adamw_written_out(mr_fn_t *f, const double c[4], mr_var_t *const *in,
                                  mr_var_t *apply, mr_var_t **out) {
  mr_var_t *p = in[0], *t = in[5];
  double b1 = c[0], b2 = c[1];
  mr_var_t *eps = mr_literal(f, p->aval.dtype, c[2]);
  mr_var_t *g = mr_lax_mul(f, in[1], in[6]);
  mr_var_t *m = decay_average(f, b1, in[2], g);
  mr_var_t *v = decay_average(f, b2, in[3], mr_lax_integer_pow(f, g, 2));
  mr_var_t *root = mr_lax_sqrt(f, mr_lax_div(f, v, bias_correction(f, b2, t, p->aval.dtype)));
  mr_var_t *along = mr_lax_div(f, m, bias_correction(f, b1, t, p->aval.dtype));
  along = mr_lax_div(f, along, mr_lax_add(f, root, eps));
  along = mr_lax_add(f, along, mr_lax_scale(f, c[3], p));
  out[0] = mr_lax_sub(f, p, mr_lax_mul(f, in[4], along));
  out[1] = m;
  out[2] = v;
  for (int i = 0; apply && i < 3; i++)
    out[i] = mr_lax_select_n(f, apply, in[i ? i + 1 : 0], out[i]);
  return mr_rule_done(f);
}

mr_err_t mr_lax_adamw(mr_fn_t *f, const mr_adamw_config_t *c, mr_var_t *const in[4], mr_var_t *lr,
                      mr_var_t *t, mr_var_t *grad_scale, mr_var_t *out[3]) {
  return mr_lax_adamw_where(f, c, in, lr, t, grad_scale, NULL, out);
}

mr_err_t mr_lax_adamw_where(mr_fn_t *f, const mr_adamw_config_t *c, mr_var_t *const in[4],
                            mr_var_t *lr, mr_var_t *t, mr_var_t *grad_scale, mr_var_t *apply,
                            mr_var_t *out[3]) {
  mr_var_t *all[] = {in[0], in[1], in[2], in[3], lr, t, grad_scale, apply};
  mr_dtype_t dtype = in[0] ? in[0]->aval.dtype : MR_F32;
  if (dtype != MR_F32 && mr_is_float(dtype)) { /* the fused kernel takes f32 alone */
    const double config[] = {c->b1, c->b2, c->eps, c->weight_decay};
    all[4] = mr_lax_convert(f, lr, dtype);
    if (dtype == MR_F64) all[5] = mr_lax_convert(f, t, dtype);
    all[6] = mr_lax_convert(f, grad_scale, dtype);
    return adamw_written_out(f, config, all, apply, out);
  }
  mr_attr_t attr[] = {mr_attr_float("b1", c->b1), mr_attr_float("b2", c->b2),
                      mr_attr_float("eps", c->eps), mr_attr_float("weight_decay", c->weight_decay)};
  mr_eqn_t *e = mr_emit(f, &mr_op_adamw, ADAMW_IN + (apply != NULL), all, 4, attr, 3);
  for (int i = 0; i < 3; i++) out[i] = e ? e->out[i] : NULL;
  return mr_rule_done(f);
}

static mr_err_t adamw_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_aval_t scalar = mr_aval_scalar(MR_F32), flag = mr_aval_scalar(MR_BOOL);
  if (e->n_in != ADAMW_IN && e->n_in != ADAMW_IN + 1)
    return mr_shape_fail(e, diag, "want 7 operands, or 8 with apply");
  if (e->in[0]->aval.dtype != MR_F32) return mr_shape_fail(e, diag, "want f32 parameters");
  for (int i = 1; i < 4; i++)
    if (!mr_aval_equal(&e->in[0]->aval, &e->in[i]->aval))
      return mr_shape_fail(e, diag, "p, g, m and v must be alike");
  for (int i = 4; i < ADAMW_IN; i++)
    if (!mr_aval_equal(&e->in[i]->aval, &scalar))
      return mr_shape_fail(e, diag, "lr, t and grad_scale must be f32[]");
  if (e->n_in > ADAMW_IN && !mr_aval_equal(&e->in[ADAMW_IN]->aval, &flag))
    return mr_shape_fail(e, diag, "apply must be bool[]");
  for (int i = 0; i < 3; i++) out[i] = e->in[0]->aval;
  return MR_OK;
}

static mr_err_t adamw_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  static const char *const name[] = {"b1", "b2", "eps", "weight_decay"};
  double config[4];
  for (int i = 0; i < 4; i++) config[i] = mr_attr_get(e, name[i])->f;
  mr_var_t *apply = e->n_in > ADAMW_IN ? e->in[ADAMW_IN] : NULL;
  return adamw_written_out(f, config, e->in, apply, out);
}

static bool adamw_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 2) return false;
  mr_var_t *in[4], *out[3], *apply = k ? mr_literal(s->f, MR_BOOL, k == 1) : NULL;
  for (int i = 0; i < 4; i++) in[i] = mr_sample_f32(s, i == 3 ? 0.5 : -1, 1, 2, 3);
  mr_var_t *lr = mr_sample_scalar(s, MR_F32, 0.1, 0.5), *t = mr_sample_scalar(s, MR_F32, 2, 4);
  mr_adamw_config_t c = {.b1 = 0.9f, .b2 = 0.95f, .eps = 1e-2f, .weight_decay = 0.1f};
  mr_lax_adamw_where(s->f, &c, in, lr, t, mr_sample_scalar(s, MR_F32, 0.5, 1.5), apply, out);
  return mr_sample_done(s, out[0]);
}

const mr_op_def_t mr_op_adamw = {
    .open = adamw_open,
    .batch = mr_batch_open,
    .sample = adamw_sample,
    .name = "adamw",
    .n_in = -1,
    .n_out = 3,
    .shape = adamw_shape,
    .ad = {.jvp = mr_jvp_open, .vjp = mr_vjp_open},
    .reuse = {.of = {1, 4, 8}},
    .amp = {MR_AMP_WIDE},
    .cost = {.each = 14},
    .shard = {mr_shard_each},
};
