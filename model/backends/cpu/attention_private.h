/* Shared by the implementations of attention (attention*.c): one (image, head) at a time.
   attention.c divides the work, attention_scalar.c is the plain kernel. */
#ifndef MR_MODEL_CPU_ATTENTION_PRIVATE_H
#define MR_MODEL_CPU_ATTENTION_PRIVATE_H

#include "base/isa.h"
#include "model/backends/cpu/kernels.h"

/* The first elements of one head; the next token is a stride of the spec further.  Pointers that
   a pass does not use are NULL. */
typedef struct mr_attention_head {
  const void *q, *k, *v, *dout;
  void *out;  /* the backward pass only reads it */
  float *lse; /* [T] */
  void *dq, *dk, *dv;
} mr_attention_head_t;

/* Scalar C: needs no memory, as it computes scores again at each use.  It is the oracle, and runs
   if there is no memory. */
void mr__attention_fwd_scalar(const mr_attention_spec_t *s, const mr_attention_head_t *h);
void mr__attention_bwd_scalar(const mr_attention_spec_t *s, const mr_attention_head_t *h);

/* By tiles.  work: 64-aligned, of the bytes that fwd_work or bwd_work returns, contents
   undefined. */
typedef void mr__attend_t(const mr_attention_spec_t *s, const mr_attention_head_t *h, void *work);
typedef struct mr__attention {
  size_t (*fwd_work)(const mr_attention_spec_t *s);
  size_t (*bwd_work)(const mr_attention_spec_t *s);
  mr__attend_t *fwd, *bwd;
  bool (*by_pairs)(const mr_attention_spec_t *s); /* dot products of bf16 pairs; NULL: never */
} mr__attention_t;

extern const mr__attention_t mr__attention_plain, mr__attention_avx2, mr__attention_avx512,
    mr__attention_bf16;
const mr__attention_t *mr__attention_of(mr_isa_t isa); /* NULL: not in this build */

#endif
