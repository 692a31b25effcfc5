/* What ops that draw by key share: their shapes, the attribute for the layout, and samples. */
#include "model/ops/key.h"

#include "model/ops/lax.h"
#include "model/ops/rules.h"

mr_err_t mr__key_shape(const mr_eqn_t *e, mr_dtype_t dtype, int n_tail, const int64_t *tail,
                       mr_aval_t *out, mr_diag_t *diag) {
  const mr_aval_t *key = &e->in[0]->aval;
  const mr_attr_t *shape = mr_attr_find(e, "shape");
  int n = shape ? shape->n : 0;
  if (key->dtype != MR_U32 || key->ndim < 1 || key->dim[key->ndim - 1] != 2)
    return mr_shape_fail(e, diag, "want a key u32[2], or several u32[...,2]");
  if (key->ndim - 1 + n + n_tail > MR_MAX_NDIM)
    return mr_shape_fail(e, diag, "the result would have too many dimensions");
  *out = mr_aval(dtype, key->ndim - 1, key->dim);
  for (int i = 0; i < n; i++) {
    if (shape->i[i] < 0) return mr_shape_fail(e, diag, "a size in shape is negative");
    out->dim[out->ndim++] = shape->i[i];
  }
  for (int i = 0; i < n_tail; i++) out->dim[out->ndim++] = tail[i];
  return MR_OK;
}

mr_err_t mr__key_shape_float(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag) {
  mr_dtype_t t = (mr_dtype_t)mr_attr_get(e, "dtype")->i[0];
  if (t != MR_F32 && t != MR_F64) return mr_shape_fail(e, diag, "want dtype float32");
  return mr__key_shape(e, t, 0, NULL, out, diag);
}

int64_t mr__key_count(const mr_eqn_t *e) { return mr_aval_elems(&e->in[0]->aval) / 2; }

enum { ATTRS = 8 };

mr_var_t *mr__key_emit(mr_fn_t *f, const mr_op_def_t *op, mr_var_t *key, int n_attr,
                       const mr_attr_t *attr) {
  mr_attr_t all[ATTRS];
  for (int i = 0; i < n_attr; i++) all[i] = attr[i];
  if (f->keys == MR_KEY_ORIGINAL) all[n_attr++] = mr_attr_bool("partitionable", false);
  return mr_emit1(f, op, 1, &key, n_attr, all);
}

mr_var_t *mr__key_sample(mr_sample_t *s, int k, int64_t dim[2]) {
  if (k > 2) return NULL;
  dim[0] = 2, dim[1] = 3;
  if (k == 2) mr_key_layout_enter(s->f, MR_KEY_ORIGINAL);
  return k ? mr_sample_dims(s, MR_U32, 0, 9e8, 3, 2) : mr_sample_dims(s, MR_U32, 0, 9, 2);
}
