/* What ops that draw by key share.  A key is u32[2] as jax.random's; leading dimensions are as many
   keys, each of which draws for itself, so that vmap over keys is the op itself.  How counters map
   to elements is the attribute partitionable, which is not there where it is jax's default. */
#ifndef MR_MODEL_OPS_KEY_H
#define MR_MODEL_OPS_KEY_H

#include "base/random.h"
#include "model/ir/op.h"

/* out = (keys' leading dimensions..., attribute shape..., tail...) of dtype. */
mr_err_t mr__key_shape(const mr_eqn_t *e, mr_dtype_t dtype, int n_tail, const int64_t *tail,
                       mr_aval_t *out, mr_diag_t *diag);
/* The same with the dtype of attribute dtype: f32, or f64 with the same values. */
mr_err_t mr__key_shape_float(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
int64_t mr__key_count(const mr_eqn_t *e); /* keys */
/* Appends op on key, in the layout that f asks. */
mr_var_t *mr__key_emit(mr_fn_t *f, const mr_op_def_t *op, mr_var_t *key, int n_attr,
                       const mr_attr_t *attr);
/* The usual samples: 6 elements of 3 keys, then one of one; false: no more. */
mr_var_t *mr__key_sample(mr_sample_t *s, int k, int64_t dim[2]);
/* jvp, vjp, batch. */
#define MR_RULES_KEY                                                                   \
  MR_RULES_PRIMITIVE, .jvp = mr_jvp_zero, .vjp = mr_vjp_zero, .batch = mr_batch_alike, \
                      .draws = true, .amp = MR_AMP_FOLLOW

#endif
