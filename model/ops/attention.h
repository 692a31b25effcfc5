/* What backends need to know of attention and its backward pass.  Implemented in attention.c. */
#ifndef MR_MODEL_OPS_ATTENTION_H
#define MR_MODEL_OPS_ATTENTION_H

#include "model/ir/fn.h"

/* q, k, v are (B,T,H,D) each, or side by side in one (B,T,3,H,D). */
typedef struct mr_attention_sizes {
  int64_t B, T, H, D;
  bool packed;
} mr_attention_sizes_t;

/* Returns the sizes of e's operands; e is an attention or attention_vjp.  Cannot fail. */
mr_attention_sizes_t mr__attention_sizes(const mr_eqn_t *e);

#endif
