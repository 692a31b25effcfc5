/* What ops that draw by key share.  A key is u32[2], as jax.random's.  Leading dimensions make many
   keys, which draw independently, so that vmap over keys is the op itself.  The layout, which maps
   counters to elements, is the attribute partitionable; it is absent for jax's default. */
#ifndef MR_MODEL_OPS_KEY_H
#define MR_MODEL_OPS_KEY_H

#include "base/random.h"
#include "model/ir/op.h"

/* Sets *out to (keys' leading dimensions..., attribute shape..., tail...) of dtype and returns
   MR_OK; MR_ERR_SHAPE for an operand that is no key, a negative size or too many dimensions. */
mr_err_t mr__key_shape(const mr_eqn_t *e, mr_dtype_t dtype, int n_tail, const int64_t *tail,
                       mr_aval_t *out, mr_diag_t *diag);
/* The same without tail and with the dtype of attribute dtype: f32, or f64 for the same values;
   MR_ERR_SHAPE for others. */
mr_err_t mr__key_shape_float(const mr_eqn_t *e, mr_aval_t *out, mr_diag_t *diag);
int64_t mr__key_count(const mr_eqn_t *e); /* returns the number of keys in operand 0 */
/* Appends op on key with attr[n_attr], at most 7, in f's layout.  Returns its result, owned by f,
   or NULL on failure. */
mr_var_t *mr__key_emit(mr_fn_t *f, const mr_op_def_t *op, mr_var_t *key, int n_attr,
                       const mr_attr_t *attr);
/* Returns the key operand of sample k, an input owned by s->f, and sets dim to 2, 3: one key, three
   keys, three keys in the original layout; NULL if k is past those. */
mr_var_t *mr__key_sample(mr_sample_t *s, int k, int64_t dim[2]);
/* Rows of the constant of an op that draws: derivatives are zero, keys are mapped as they are. */
#define MR_RULES_KEY                                                                   \
  MR_RULES_PRIMITIVE, .jvp = mr_jvp_zero, .vjp = mr_vjp_zero, .batch = mr_batch_alike, \
                      .draws = true, .amp = MR_AMP_FOLLOW

#endif
