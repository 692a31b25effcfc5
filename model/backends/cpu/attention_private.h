/* What the ways to attend share: one (image, head) at a time. */
#ifndef MR_MODEL_CPU_ATTENTION_PRIVATE_H
#define MR_MODEL_CPU_ATTENTION_PRIVATE_H

#include "model/backends/cpu/kernels.h"

/* One head's first elements; a token further by the spec's strides.  What a pass has no use for
   is NULL. */
typedef struct mr_attention_head {
  const void *q, *k, *v, *dout;
  void *out;  /* backward only reads it */
  float *lse; /* [T] */
  void *dq, *dk, *dv;
} mr_attention_head_t;

/* Plain C: needs no memory, computes scores anew where it needs them; the oracle. */
void mr__attention_fwd_plain(const mr_attention_spec_t *s, const mr_attention_head_t *h);
void mr__attention_bwd_plain(const mr_attention_spec_t *s, const mr_attention_head_t *h);

/* AVX-512 (f, bw, dq, vl).  Where
   mr__avx512_wanted().  work: 64-aligned bytes as told, contents undefined. */
size_t mr__attention_fwd_work(const mr_attention_spec_t *s);
size_t mr__attention_bwd_work(const mr_attention_spec_t *s);
void mr__attention_fwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                              void *work);
void mr__attention_bwd_avx512(const mr_attention_spec_t *s, const mr_attention_head_t *h,
                              void *work);

#endif
