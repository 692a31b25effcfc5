/* Conversion between dtypes.  Between floats it is linear, and its derivative is the conversion
   back; to or from others it is constant.  A literal is converted while the graph is built, so amp
   leaves no conversions of constants behind. */
#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_convert(mr_fn_t *f, mr_var_t *x, mr_dtype_t to) {
  if (!x || x->aval.dtype == to) return x;
  if (x->literal) return mr_literal_like(f, to, x);
  return mr_emit1(f, &mr_op_convert_element_type, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_dtype("new_dtype", to), mr_attr_bool("weak_type", false)});
}

bool mr__is_conversion(const mr_eqn_t *e) { return e->op == &mr_op_convert_element_type; }

static mr_err_t convert_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  out[0] = e->in[0]->aval;
  out[0].dtype = (mr_dtype_t)mr_attr_get(e, "new_dtype")->i[0];
  return MR_OK;
}

static mr_err_t convert_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  mr_dtype_t from = e->in[0]->aval.dtype;
  if (mr_is_float(from) && mr_is_float(e->out[0]->aval.dtype))
    din[0] = mr_lax_convert(f, dout[0], from);
  return mr_rule_done(f);
}

static mr_err_t convert_jvp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *din, mr_var_t **dout) {
  mr_dtype_t to = e->out[0]->aval.dtype;
  if (mr_is_float(to)) dout[0] = mr_lax_convert(f, din[0], to);
  return mr_rule_done(f);
}

static bool convert_element_type_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  if (k > 1) return false;
  mr_var_t *x = mr_sample_f32(s, 1.1, 1.9, 2, 3);
  return mr_sample_done(s, mr_lax_convert(s->f, x, k ? MR_I32 : MR_F64));
}

const mr_op_def_t mr_op_convert_element_type = {
    MR_RULES_PRIMITIVE,
    .batch = mr_batch_pointwise,
    .sample = convert_element_type_sample,
    .name = "convert_element_type",
    .n_in = 1,
    .n_out = 1,
    .shape = convert_shape,
    .ad = {.jvp = convert_jvp, .vjp = convert_vjp},
    .fuse = {.unit = mr_unit_each, .view = mr_view_each},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.moves = true},
    .shard = {mr_shard_each},
};
