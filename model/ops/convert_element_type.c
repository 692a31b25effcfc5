#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_var_t *mr_lax_convert(mr_fn_t *f, mr_var_t *x, mr_dtype_t to) {
  if (!x || x->aval.dtype == to) return x;
  if (x->literal) return mr_literal(f, to, x->value);
  return mr_emit1(f, &mr_op_convert_element_type, 1, &x, 2,
                  (mr_attr_t[]){mr_attr_dtype("new_dtype", to), mr_attr_bool("weak_type", false)});
}

static mr_err_t convert_shape(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  out[0] = e->in[0]->aval;
  out[0].dtype = (mr_dtype_t)mr_attr_get(e, "new_dtype")->i[0];
  return MR_OK;
}

static void fused_run(const mr_cpu_call_t *c) {
  const mr_aval_t *x = &c->eqn->in[0]->aval, *y = &c->eqn->out[0]->aval;
  mr_convert(x->dtype, c->in[0], y->dtype, c->out[0], mr_aval_elems(y));
}

static bool is_integer(mr_dtype_t t) { return !mr_is_float(t); }

static void integer_run(const mr_cpu_call_t *c) {
  mr_dtype_t from = c->eqn->in[0]->aval.dtype, to = c->eqn->out[0]->aval.dtype;
  int64_t n = mr_aval_elems(&c->eqn->out[0]->aval);
  for (int64_t i = 0; i < n; i++)
    mr_cpu_set_i64(to, c->out[0], i, mr_cpu_get_i64(from, c->in[0], i));
}

static void general_run(const mr_cpu_call_t *c) {
  mr_dtype_t from = c->eqn->in[0]->aval.dtype, to = c->eqn->out[0]->aval.dtype;
  int64_t n = mr_aval_elems(&c->eqn->out[0]->aval);
  for (int64_t i = 0; i < n; i++)
    mr_cpu_set_f64(to, c->out[0], i, mr_cpu_get_f64(from, c->in[0], i));
}

static bool narrow(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16; }

static mr_err_t convert_cpu(mr_cpu_call_t *c, mr_diag_t *diag) {
  mr_dtype_t from = c->eqn->in[0]->aval.dtype, to = c->eqn->out[0]->aval.dtype;
  if (from == MR_F16 || to == MR_F16)
    return mr_fail(diag, MR_ERR_NORULE, "convert_element_type: the CPU has no f16");
  c->run = narrow(from) && narrow(to)           ? fused_run
           : is_integer(from) && is_integer(to) ? integer_run
                                                : general_run;
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
    .jvp = convert_jvp,
    .batch = mr_batch_pointwise,
    .sample = convert_element_type_sample,
    .name = "convert_element_type",
    .n_in = 1,
    .n_out = 1,
    .shape = convert_shape,
    .vjp = convert_vjp,
    .amp = MR_AMP_FOLLOW,
    .cpu = convert_cpu,
    .moves = true,
};
