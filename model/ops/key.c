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

mr_prng_t mr__key_at(const mr_call_t *c, int64_t k) {
  const uint32_t *key = c->in[0];
  const mr_attr_t *p = mr_attr_find(c->eqn, "partitionable");
  return (mr_prng_t){{key[2 * k], key[2 * k + 1]},
                     p && !p->i[0] ? MR_KEY_ORIGINAL : MR_KEY_PARTITIONABLE};
}

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

enum { CHUNK = 1024 };

/* Elements [from,from + n) of key k's draw. */
static void draw_chunk(const mr_call_t *c, mr_key_fill *fill, int64_t k, int64_t each, int64_t from,
                       int64_t n) {
  float drawn[CHUNK];
  bool wide = c->eqn->out[0]->aval.dtype == MR_F64;
  void *out = wide ? drawn : (float *)c->out[0] + k * each + from;
  fill(mr__key_at(c, k), c->eqn, from, n, each, out);
  for (int64_t i = 0; wide && i < n; i++)
    ((double *)c->out[0])[k * each + from + i] = (double)drawn[i];
}

void mr__key_draw(const mr_call_t *c, mr_key_fill *fill) {
  int64_t keys = mr__key_count(c->eqn), n = mr_aval_elems(&c->eqn->out[0]->aval);
  int64_t each = keys ? n / keys : 0, chunks = (each + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
  for (int64_t j = 0; j < keys * chunks; j++) {
    int64_t from = j % chunks * CHUNK;
    draw_chunk(c, fill, j / chunks, each, from, each - from < CHUNK ? each - from : CHUNK);
  }
}
