/* CPU kernels as plain functions, independent of graphs.  They allocate no results and cannot
   fail unless they return mr_err_t.

   Arrays are dense, row-major and 64-aligned unless a stride says otherwise.  A dtype argument is
   MR_F32, MR_BF16 or MR_F16; arithmetic and statistics are f32.  Sums over many rows add fixed
   chunks in a fixed order, so that results do not depend on the number of threads.  Kernels run on
   the OpenMP team of the calling thread and block until done.  Outputs must not overlap inputs
   unless stated.

   The instruction set is chosen once (base/isa.h).  MILLRACE_ISA=plain|avx2|avx512 forces one, in
   oneDNN too (plain: its lowest, SSE4.1); mr_compile refuses a value that this machine lacks.
   The plain C kernel is the oracle of the others.  Implemented in matmul*.c, rows*.c,
   attention*.c, xent.c, move.c, workspace.c and limits.c. */
#ifndef MR_MODEL_CPU_KERNELS_H
#define MR_MODEL_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"
#include "model/ir/aval.h"
#include "model/ir/defaults.h"
#include "model/ops/operands.h"

MR_BEGIN_DECLS

/* ---- matrix products (oneDNN) ---- */
typedef struct mr_matmul_spec {
  int64_t batch;                 /* >= 1 */
  int64_t m, n, k;               /* out[m,n] = a[m,k] b[k,n] (+ bias[n]) */
  int64_t a_batch, a_row, a_col; /* strides in elements; of row and column one is 1 */
  int64_t b_batch, b_row, b_col;
  int64_t out_batch, out_row; /* columns of out are dense */
  mr_dtype_t a, b,
      out;   /* f32 x f32 -> f32; bf16 x bf16 -> bf16 or f32 (accumulated in f32); f16 alike */
  bool bias; /* in out's dtype or f32: bias_dtype */
  mr_dtype_t bias_dtype;
  mr_precision_t precision; /* of f32 operands (defaults.h); NONE is HIGHEST */
} mr_matmul_spec_t;

typedef struct mr_matmul mr_matmul_t;
/* Prepares a product.  Of f16, and of bf16 without AVX-512, a run widens the operands
   to f32 and rounds the result once.  The caller destroys *out.  MR_OK; MR_ERR_SHAPE for dtypes
   or sizes that do not fit; MR_ERR_UNAVAILABLE if oneDNN has no such product; MR_ERR_NOMEM. */
mr_err_t mr_matmul_create(const mr_matmul_spec_t *spec, mr_matmul_t **out, mr_diag_t *diag);
/* Multiplies.  One thread at a time for one p.  A run that gets no work memory computes in plain
   C, slowly. */
void mr_matmul_run(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out);
/* What a run makes of b alone: products of equal form make the same of the same b. */
typedef struct mr_matmul_kept {
  size_t bytes;     /* 0: nothing that outlives a run */
  const void *form; /* [form_bytes], of p */
  size_t form_bytes;
} mr_matmul_kept_t;
mr_matmul_kept_t mr_matmul_kept(const mr_matmul_t *p);
/* mr_matmul_run, which reads what it would make of b from kept[bytes], 64-aligned, or with `make`
   writes it there first.  The result has the same bits. */
void mr_matmul_run_kept(mr_matmul_t *p, const void *a, const void *b, const void *bias, void *out,
                        void *kept, bool make);
void mr_matmul_destroy(mr_matmul_t *p); /* NULL is fine */
/* Bytes that a run reads and writes to rearrange operands: to pack b, to transpose a (turned),
   and to round, split or widen both (converted). */
typedef struct mr_matmul_moves {
  size_t packed, turned, converted;
} mr_matmul_moves_t;
/* Returns those bytes for p. */
mr_matmul_moves_t mr_matmul_moves(const mr_matmul_t *p);
/* Returns how p multiplies, in a few words; static. */
const char *mr_matmul_how(const mr_matmul_t *p);
/* Returns the bytes that a run borrows for scratch and rearranged operands (mr__workspace_take);
   products that run one after the other share them. */
size_t mr_matmul_workspace(const mr_matmul_t *p);

/* ---- rows: x is (rows, c) ---- */
/* y = (x - mean) * (rsqrt(var + eps) * scale) + bias.  two_pass: var = mean((x-mean)^2), else
   max(0, mean(x^2) - mean^2).  mean, rstd: [rows] f32 outputs, or both NULL. */
void mr_layer_norm_fwd(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                       float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t c);
/* dx has dtype xt; dscale and dbias are [c] f32.  scratch: the caller's, with the number of bytes
   that mr_layer_norm_scratch(rows, c) returns. */
size_t mr_layer_norm_scratch(int64_t rows, int64_t c);
void mr_layer_norm_bwd(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                       const float *rstd, mr_dtype_t dyt, const void *dy, void *dx, float *dscale,
                       float *dbias, void *scratch, int64_t rows, int64_t c);

/* ---- elements ---- */
/* y = gelu(x), with the tanh approximation (Hendrycks and Gimpel, 2016) or exact; dx = gelu'(x)
   dy.  All arrays have n elements of t. */
void mr_gelu_fwd(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t n);
void mr_gelu_bwd(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx, int64_t n);

/* y = keep ? x / (1-rate) : 0.  Whether element i is kept depends on (seed, site, step, first + i)
   alone (Philox4x32-10, key = seed, counter = ((first+i)/8, site, step), 16 bits for each element),
   so the backward pass calls the same function on dy.  rate in [0,1), first in [0,2^62].  y may be
   x. */
void mr_dropout(mr_dtype_t t, const void *x, void *y, int64_t n, float rate, uint64_t seed,
                uint32_t site, uint32_t step, int64_t first);
/* The same of rows [rows][n], row r of which is elements [first + r pitch, first + r pitch + n). */
void mr_dropout_rows(mr_dtype_t t, const void *x, void *y, int64_t rows, int64_t n, int64_t pitch,
                     float rate, uint64_t seed, uint32_t site, uint32_t step, int64_t first);

/* y = x, each number rounded to the next of t (MR_BF16 or MR_F16) below or above, with
   probabilities (f16 below 2^-14: to 16 bits) that make the mean x; what t holds stays, and so does
   what is finite.  The draws are those of mr_dropout with another key, ~seed. */
void mr_stochastic_round(mr_dtype_t t, const float *x, void *y, int64_t n, uint64_t seed,
                         uint32_t site, uint32_t step);

/* y = x, rounded to nearest, ties to even, if `to` is narrower.  n elements. */
void mr_convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t n);

/* ---- attention without mask: q,k,v,out are [B][T][H][D] with token strides (elements) ---- out
   = softmax(q k^T * scale) v for each (image, head); scores and softmax in f32, weights rounded
   to t before the second product.  lse: [B][H][T] f32, the log of the sum of exponentials, or
   NULL. */
typedef struct mr_attention_spec {
  int64_t B, T, H, D;
  int64_t q_tok, k_tok, v_tok,
      o_tok; /* token strides; an image is T tokens further, a head D elements */
  float scale;
  mr_dtype_t t;
} mr_attention_spec_t;
/* Returns how its products are computed on this machine, in a few words; static. */
const char *mr_attention_how(const mr_attention_spec_t *s);
/* Returns the bytes that each of its threads borrows (mr__workspace_take). */
size_t mr_attention_workspace(const mr_attention_spec_t *s, bool backward);
void mr_attention_fwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      void *out, float *lse);
/* dq, dk and dv have the strides of q, k and v; out and dout that of out. */
void mr_attention_bwd(const mr_attention_spec_t *s, const void *q, const void *k, const void *v,
                      const void *out, const float *lse, const void *dout, void *dq, void *dk,
                      void *dv);

/* ---- loss: logits (B,C) f32, C >= 1; labels in [0,C), or MR_LABEL_NONE: no loss, no gradient
   ---- */
/* loss[b] = logsumexp - sum_c target_c logit_c; target = (1-smoothing) one-hot + smoothing/C.
   For any other label the one-hot row is zero, as that of jax.nn.one_hot. */
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
double mr_sum_squares(const float *x, int64_t n); /* returns the sum in f64, in a fixed order */

/* ---- strided copies, for ops that only move elements and for operands that must be packed ---- */

/* A copy of a block of dim[0,ndim) elements of 1, 2, 4 or 8 bytes each, in row-major order.
   Strides of source and destination count elements; a source stride of 0 repeats an element. */
typedef struct mr_move {
  int ndim;
  size_t size;
  int64_t dim[MR_MAX_NDIM], from[MR_MAX_NDIM], to[MR_MAX_NDIM];
} mr_move_t;

/* Copies the block; src and dst must not overlap.  Large blocks are copied by all OpenMP
   threads. */
void mr__move(const mr_move_t *m, const void *src, void *dst);
/* Sets stride[a->ndim] to the row-major strides of a, in elements. */
void mr__strides(const mr_aval_t *a, int64_t *stride);

/* ---- blocks of memory that kernels borrow for one run ---- */

/* Runs one after the other get the same block, still in cache; runs at the same time get different
   ones.  Join and leave the users, from any thread; each join needs one leave.  Idle blocks are
   kept while there are users, and freed when the last one leaves. */
void mr__workspace_join(void);
void mr__workspace_leave(void);
/* Around a fork: hold keeps other threads out, so that a child finds the list whole. */
void mr__workspace_hold(void);
void mr__workspace_let_go(void);

/* Lends a block of at least `bytes`, 64-aligned, contents undefined; NULL without memory.  The
   caller returns it with mr__workspace_give.  Any thread. */
void *mr__workspace_take(size_t bytes);
void mr__workspace_give(void *block);

/* ---- the limits of this machine for a roofline, measured by short probes ---- */

/* Returns GFLOP/s of fused multiply-adds in registers, of `threads` threads together.  MR_F32, or
   MR_BF16: dot products of pairs into f32, or the limit of f32 if the machine or MILLRACE_ISA has
   none, as bf16 is then computed in f32.  Blocks for about 30 ms. */
double mr_limit_fma(mr_dtype_t dtype, int threads);

/* Returns GB/s of copying far more than the caches hold, counting reads and writes; 0 without
   memory.  Blocks for about 100 ms and takes 256 MB. */
double mr_limit_copy(int threads);

MR_END_DECLS

#endif
