/* What ops that draw by key share.  A key is u32[2] as jax.random's; leading dimensions are as many
   keys, each of which draws for itself, so that vmap over keys is the op itself. */
#ifndef MR_MODEL_OPS_KEY_H
#define MR_MODEL_OPS_KEY_H

#include "base/threefry.h"
#include "model/ops/op.h"

/* out = (keys' leading dimensions..., attribute shape..., tail...) of dtype. */
mr_err_t mr__key_shape(const mr_eqn_t *e, mr_dtype_t dtype, int n_tail, const int64_t *tail,
                       mr_aval_t *out, mr_diag_t *diag);
int64_t mr__key_count(const mr_eqn_t *e); /* keys */
mr_key_t mr__key_at(const mr_cpu_call_t *c, int64_t k);
/* jvp, vjp, batch. */
#define MR_RULES_KEY                                                                   \
  MR_RULES_PRIMITIVE, .jvp = mr_jvp_zero, .vjp = mr_vjp_zero, .batch = mr_batch_alike, \
                      .amp = MR_AMP_FOLLOW
/* Draws of f32 (or of f64 with the same values): *at fills out[n] for key from element i on. */
typedef void mr_key_fill(mr_key_t key, const mr_eqn_t *e, int64_t i, int64_t n, float *out);
void mr__key_draw(const mr_cpu_call_t *c, mr_key_fill *fill);

#endif
