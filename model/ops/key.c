#include "model/ops/key.h"

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

int64_t mr__key_count(const mr_eqn_t *e) { return mr_aval_elems(&e->in[0]->aval) / 2; }

mr_key_t mr__key_at(const mr_cpu_call_t *c, int64_t k) {
  const uint32_t *key = c->in[0];
  return (mr_key_t){key[2 * k], key[2 * k + 1]};
}

enum { CHUNK = 1024 };

/* Elements [from,from + n) of key k's draw. */
static void draw_chunk(const mr_cpu_call_t *c, mr_key_fill *fill, int64_t k, int64_t each,
                       int64_t from, int64_t n) {
  float drawn[CHUNK], *out = (float *)c->out[0] + k * each + from;
  bool wide = c->eqn->out[0]->aval.dtype == MR_F64;
  fill(mr__key_at(c, k), c->eqn, from, n, wide ? drawn : out);
  for (int64_t i = 0; wide && i < n; i++)
    ((double *)c->out[0])[k * each + from + i] = (double)drawn[i];
}

void mr__key_draw(const mr_cpu_call_t *c, mr_key_fill *fill) {
  int64_t keys = mr__key_count(c->eqn), n = mr_aval_elems(&c->eqn->out[0]->aval);
  int64_t each = keys ? n / keys : 0, chunks = (each + CHUNK - 1) / CHUNK;
#pragma omp parallel for schedule(static)
  for (int64_t j = 0; j < keys * chunks; j++) {
    int64_t from = j % chunks * CHUNK;
    draw_chunk(c, fill, j / chunks, each, from, each - from < CHUNK ? each - from : CHUNK);
  }
}
