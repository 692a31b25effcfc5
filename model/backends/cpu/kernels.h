/* CPU kernels as plain functions: no IR, no allocation of results.

   Arrays are dense, row-major, 64-aligned unless a stride says otherwise.  A dtype argument is
   MR_F32 or MR_BF16; arithmetic and statistics are f32 (sums over many rows: fixed chunks added
   in a fixed order, so that results do not depend on the number of threads).  Kernels run on the
   OpenMP team of the calling thread and block until done.  Outputs may not overlap inputs unless
   said.  The instruction set is chosen once (base/isa.h); MILLRACE_ISA=plain|avx2|avx512 forces
   one, in oneDNN too (plain: its lowest, SSE4.1), and mr_compile refuses a value that cannot be
   had.  The plain C kernel is the oracle of the others. */
#ifndef MR_MODEL_CPU_KERNELS_H
#define MR_MODEL_CPU_KERNELS_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"
#include "model/ir/precision.h"
#include "model/ops/gelu.h"

MR_BEGIN_DECLS

/* ---- matrix products (oneDNN) ---- */
typedef struct mr_matmul_spec {
  int64_t batch;                 /* >= 1 */
  int64_t m, n, k;               /* out[m,n] = a[m,k] b[k,n] (+ bias[n]) */
  int64_t a_batch, a_row, a_col; /* strides in elements; of row and column one is 1 */
  int64_t b_batch, b_row, b_col;
  int64_t out_batch, out_row; /* columns of out are dense */
  mr_dtype_t a, b, out; /* f32 x f32 -> f32; bf16 x bf16 -> bf16 or f32 (accumulated in f32) */
  bool bias;            /* in out's dtype or f32: bias_dtype */
  mr_dtype_t bias_dtype;
  mr_precision_t precision; /* of f32 operands (precision.h); NONE is HIGHEST */
} mr_matmul_spec_t;

/* Where oneDNN multiplies no bf16 (without AVX-512) the operands are widened to f32 for a run and
   the result is rounded once.  MR_ERR_SHAPE: dtypes or sizes that do not fit; MR_ERR_UNAVAILABLE:
   oneDNN has no such product. */
typedef struct mr_matmul mr_matmul_t;
mr_err_t mr_matmul_create(const mr_matmul_spec_t *spec, mr_matmul_t **out, mr_diag_t *diag);
/* One thread at a time for one p.  A run that gets no memory to work in computes in plain C. */
void mr_matmul_run(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out);
void mr_matmul_destroy(mr_matmul_t *p);
/* Bytes that a run reads and writes to bring the operands into p's own order: packed (b), turned
   (a), rounded, cut or widened (both). */
typedef struct mr_matmul_moves {
  size_t packed, turned, converted;
} mr_matmul_moves_t;
mr_matmul_moves_t mr_matmul_moves(const mr_matmul_t *p);
/* How p multiplies, in a few words that live as long as the program. */
const char *mr_matmul_how(const mr_matmul_t *p);
/* Bytes that a run borrows for packed operands; products that follow one another share them. */
size_t mr_matmul_workspace(const mr_matmul_t *p);

/* ---- rows: x is (rows, c) ---- */
/* y = (x - mean) * (rsqrt(var + eps) * scale) + bias.  two_pass: var = mean((x-mean)^2), else
   max(0, mean(x^2) - mean^2).  mean, rstd: [rows] f32, both NULL if not wanted. */
void mr_layer_norm_fwd(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                       float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t c);
/* dx in xt, dscale and dbias [c] f32.  scratch: mr_layer_norm_scratch(rows, c) bytes. */
size_t mr_layer_norm_scratch(int64_t rows, int64_t c);
void mr_layer_norm_bwd(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                       const float *rstd, mr_dtype_t dyt, const void *dy, void *dx, float *dscale,
                       float *dbias, void *scratch, int64_t rows, int64_t c);

/* ---- elements ---- */
/* y = gelu(x), by tanh's approximation (Hendrycks and Gimpel, 2016) or exactly; dx = gelu'(x) dy.
   All are n elements of t. */
void mr_gelu_fwd(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t n);
void mr_gelu_bwd(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx, int64_t n);

/* y = keep ? x / (1-rate) : 0.  Whether element i is kept depends on (seed, site, step, i) alone
   (Philox4x32-10, key = seed, counter = (i/8, site, step), 16 bits an element), so the backward
   pass calls it again on dy.  rate in [0,1).  y may be x. */
void mr_dropout(mr_dtype_t t, const void *x, void *y, int64_t n, float rate, uint64_t seed,
                uint32_t site, uint32_t step);

/* y = x, rounded to nearest, ties to even, where `to` is narrower.  n elements. */
void mr_convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t n);

/* ---- attention without mask: q,k,v,out are [B][T][H][D] with token strides (elements) ----
   out = softmax(q k^T * scale) v per (image, head); scores and softmax in f32, weights rounded to
   t before the second product.  lse: [B][H][T] f32, log of the sum of exponents, or NULL. */
typedef struct mr_attention_spec {
  int64_t B, T, H, D;
  int64_t q_tok, k_tok, v_tok,
      o_tok; /* token strides; an image is T tokens further, a head D elements */
  float scale;
  mr_dtype_t t;
} mr_attention_spec_t;
/* How its products are made here, in a few words that live as long as the program. */
const char *mr_attention_how(const mr_attention_spec_t *s);
void mr_attention_fwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      void *out, float *lse);
/* dq, dk, dv have the strides of q, k, v. */
void mr_attention_bwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      const void *out, const float *lse, const void *dout, void *dq, void *dk,
                      void *dv);

/* ---- loss: logits (B,C) f32, labels in [0,C), or MR_LABEL_NONE: no loss, no gradient ---- */
/* loss[b] = logsumexp - sum_c target_c logit_c; target = (1-smoothing) one-hot + smoothing/C.  Of
   another label than those the one-hot row is zero, as jax.nn.one_hot's.  C >= 1. */
void mr_xent_fwd(const float *logits, const int32_t *label, float smoothing, float *loss, int64_t B,
                 int64_t C);
/* dlogits[b] = (softmax - target) * dloss[b] */
void mr_xent_bwd(const float *logits, const int32_t *label, float smoothing, const float *dloss,
                 float *dlogits, int64_t B, int64_t C);

/* ---- optimizer ---- */
typedef struct mr_adamw_step {
  float lr, b1, b2, eps, weight_decay;
  float bias1, bias2; /* 1 - b1^t, 1 - b2^t */
  float grad_scale;   /* multiplies g first (clipping); 1 for none */
} mr_adamw_step_t;
/* m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= lr (m/bias1 / (sqrt(v/bias2) + eps) + wd p).
   Outputs may be the inputs. */
void mr_adamw(const mr_adamw_step_t *s, const float *p, const float *g, const float *m,
              const float *v, float *p_out, float *m_out, float *v_out, int64_t n);
double mr_sum_squares(const float *x, int64_t n); /* sums in f64, in a fixed order */

MR_END_DECLS

#endif
