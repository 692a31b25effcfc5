/* What attention and its backward op share: q, k, v as three inputs (B,T,H,D) or packed in one
   (B,T,3,H,D). */
#ifndef MR_MODEL_OPS_ATTENTION_H
#define MR_MODEL_OPS_ATTENTION_H

#include "model/backends/cpu/kernels.h"
#include "model/ops/op.h"

bool mr__attention_packed(const mr_eqn_t *e);
mr_attention_spec_t mr__attention_spec(const mr_eqn_t *e);
/* Pointers to q, k, v in one packed array or three arrays. */
void mr__attention_split(const mr_eqn_t *e, const mr_attention_spec_t *s, void *const *in,
                         void **qkv);
/* How its kernels multiply, in a few words. */
const char *mr__attention_how(const mr_eqn_t *e);
/* Arithmetic of one product of all heads, (T,D) by (D,T). */
double mr__attention_product(const mr_eqn_t *e);

/* q, k, v as three values (B,T,H,D). */
void mr__attention_operands(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *qkv[3]);
/* q k' scale: (B,H,T,T) of f32, of f64 where q is. */
mr_var_t *mr__attention_scores(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const qkv[3]);
/* w (B,H,T,T), v (B,T,H,D) -> w v (B,T,H,D). */
mr_var_t *mr__attention_mix(mr_fn_t *f, mr_var_t *w, mr_var_t *v);

#endif
