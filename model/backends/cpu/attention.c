/* Attention: the OpenMP team shares the heads, and each thread computes whole heads with the
   kernel of the instruction set. */
#include "model/backends/cpu/attention_private.h"
#include "model/backends/cpu/kernels.h"

typedef struct tensors {
  const void *q, *k, *v, *dout;
  void *out, *dq, *dk, *dv;
  float *lse;
} tensors_t;

static void *attention_head_of(const mr_attention_spec_t *s, const void *x, int64_t token,
                               int64_t z) {
  int64_t at = z / s->H * s->T * token + z % s->H * s->D;
  return x ? (char *)x + at * (int64_t)mr_dtype_size(s->t) : NULL;
}

static mr_attention_head_t attention_head(const mr_attention_spec_t *s, const tensors_t *x,
                                          int64_t z) {
  return (mr_attention_head_t){.q = attention_head_of(s, x->q, s->q_tok, z),
                               .k = attention_head_of(s, x->k, s->k_tok, z),
                               .v = attention_head_of(s, x->v, s->v_tok, z),
                               .dout = attention_head_of(s, x->dout, s->o_tok, z),
                               .out = attention_head_of(s, x->out, s->o_tok, z),
                               .lse = x->lse ? x->lse + z * s->T : NULL,
                               .dq = attention_head_of(s, x->dq, s->q_tok, z),
                               .dk = attention_head_of(s, x->dk, s->k_tok, z),
                               .dv = attention_head_of(s, x->dv, s->v_tok, z)};
}

const mr__attention_t *mr__attention_of(mr_isa_t isa) {
#if defined(__x86_64__)
  if (isa == MR_ISA_AVX512_BF16) return &mr__attention_bf16;
  if (isa == MR_ISA_AVX512) return &mr__attention_avx512;
  if (isa == MR_ISA_AVX2) return &mr__attention_avx2;
#endif
  return isa == MR_ISA_PLAIN ? &mr__attention_plain : NULL;
}

const char *mr_attention_how(const mr_attention_spec_t *s) {
  const mr__attention_t *a = mr__attention_of(mr_isa());
  if (s->t == MR_F32) return "f32, fused";
  if (s->t == MR_F16) return "f16 read as f32, fused";
  return a->by_pairs && a->by_pairs(s) ? "bf16 pairs, fused" : "bf16 read as f32, fused";
}

typedef void scalar_t(const mr_attention_spec_t *s, const mr_attention_head_t *h);

/* Runs a kernel over all heads.  Each thread borrows memory for its tiles; a thread that gets
   none uses the scalar kernel. */
static void over_heads(const mr_attention_spec_t *s, const tensors_t *x, mr__attend_t *tiled,
                       scalar_t *scalar, size_t bytes) {
  mr__workspace_join();
#pragma omp parallel
  {
    void *work = mr__workspace_take(bytes);
#pragma omp for schedule(static)
    for (int64_t z = 0; z < s->B * s->H; z++) {
      mr_attention_head_t h = attention_head(s, x, z);
      if (work)
        tiled(s, &h, work);
      else
        scalar(s, &h);
    }
    if (work) mr__workspace_give(work);
  }
  mr__workspace_leave();
}

size_t mr_attention_workspace(const mr_attention_spec_t *s, bool backward) {
  const mr__attention_t *a = mr__attention_of(mr_isa());
  return backward ? a->bwd_work(s) : a->fwd_work(s);
}

void mr_attention_fwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      void *out, float *lse) {
  tensors_t x = {.q = q, .k = k, .v = v, .out = out, .lse = lse};
  const mr__attention_t *a = mr__attention_of(mr_isa());
  over_heads(s, &x, a->fwd, mr__attention_fwd_scalar, a->fwd_work(s));
}

void mr_attention_bwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      const void *out, const float *lse, const void *dout, void *dq, void *dk,
                      void *dv) {
  tensors_t x = {.q = q,
                 .k = k,
                 .v = v,
                 .dout = dout,
                 .out = (void *)out,
                 .lse = (float *)lse,
                 .dq = dq,
                 .dk = dk,
                 .dv = dv};
  const mr__attention_t *a = mr__attention_of(mr_isa());
  over_heads(s, &x, a->bwd, mr__attention_bwd_scalar, a->bwd_work(s));
}

/* The table for plain C. */
#define ATTENTION mr__attention_plain
#include "model/backends/cpu/attention_body.inc"
