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

#endif
