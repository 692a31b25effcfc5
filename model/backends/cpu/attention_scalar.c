/* Attention in scalar C, without memory for scores: each is computed again at each use.  A run
   cannot fail, so a thread that gets no memory for its tiles computes its heads here.  It is slow,
   and for that case alone. */
#include <math.h>

#include "model/backends/cpu/attention_private.h"
#include "model/backends/cpu/half.h"

enum { CHUNK = 64 }; /* keys and columns summed at a time */

static float attention_scalar_round(mr_dtype_t t, float v) {
  return t == MR_F32   ? v
         : t == MR_F16 ? mr_f16_to_f32(mr_f16_from_f32(v))
                       : mr_bf16_to_f32(mr_bf16_from_f32(v));
}

static float attention_scalar_dot(const mr_attention_spec_t *s, const void *x, int64_t at_x,
                                  const void *y, int64_t at_y) {
  float sum = 0;
  for (int64_t d = 0; d < s->D; d++)
    sum += element_get(s->t, x, at_x + d) * element_get(s->t, y, at_y + d);
  return sum;
}

static float score_of(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i,
                      int64_t j) {
  return s->scale * attention_scalar_dot(s, h->q, i * s->q_tok, h->k, j * s->k_tok);
}

static float log_sum(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i) {
  float top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < s->T; j++) top = fmaxf(top, score_of(s, h, i, j));
  for (int64_t j = 0; j < s->T; j++) sum += expf(score_of(s, h, i, j) - top);
  return top + logf(sum);
}

static int64_t chunk_length(int64_t n, int64_t from) { return n - from < CHUNK ? n - from : CHUNK; }

void mr__attention_fwd_scalar(const mr_attention_spec_t *s, const mr_attention_head_t *h) {
  for (int64_t i = 0; i < s->T; i++) {
    float lse = log_sum(s, h, i);
    if (h->lse) h->lse[i] = lse;
    for (int64_t d = 0; d < s->D; d += CHUNK) {
      float sum[CHUNK] = {0};
      for (int64_t j = 0; j < s->T; j++) {
        float p = attention_scalar_round(s->t, expf(score_of(s, h, i, j) - lse));
        for (int64_t c = 0; c < chunk_length(s->D, d); c++)
          sum[c] += p * element_get(s->t, h->v, j * s->v_tok + d + c);
      }
      for (int64_t c = 0; c < chunk_length(s->D, d); c++)
        element_put(s->t, h->out, i * s->o_tok + d + c, sum[c]);
    }
  }
}

static float weight_of(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i,
                       int64_t j) {
  return expf(score_of(s, h, i, j) - h->lse[i]);
}

/* The gradient of weight (i,j). */
static float weight_gradient(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i,
                             int64_t j) {
  return attention_scalar_dot(s, h->dout, i * s->o_tok, h->v, j * s->v_tok);
}

/* The weighted mean of the gradients of row i, which softmax's backward pass subtracts. */
static float mean_gradient(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i) {
  float sum = 0;
  for (int64_t j = 0; j < s->T; j++) sum += weight_of(s, h, i, j) * weight_gradient(s, h, i, j);
  return sum;
}

static void bwd_q(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i,
                  int64_t d) {
  float sum[CHUNK] = {0}, less = mean_gradient(s, h, i);
  for (int64_t j = 0; j < s->T; j++) {
    float ds = weight_of(s, h, i, j) * (weight_gradient(s, h, i, j) - less) * s->scale;
    for (int64_t c = 0; c < chunk_length(s->D, d); c++)
      sum[c] += ds * element_get(s->t, h->k, j * s->k_tok + d + c);
  }
  for (int64_t c = 0; c < chunk_length(s->D, d); c++)
    element_put(s->t, h->dq, i * s->q_tok + d + c, sum[c]);
}

typedef struct sums {
  float dk[CHUNK][CHUNK], dv[CHUNK][CHUNK]; /* [key][column] of a chunk of each */
} sums_t;

/* Adds the contribution of query i to keys from j on and columns from d on. */
static void add_query(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t i,
                      int64_t j, int64_t d, sums_t *sums) {
  float less = mean_gradient(s, h, i);
  for (int64_t n = 0; n < chunk_length(s->T, j); n++) {
    float p = weight_of(s, h, i, j + n),
          ds = p * (weight_gradient(s, h, i, j + n) - less) * s->scale;
    p = attention_scalar_round(s->t, p);
    for (int64_t c = 0; c < chunk_length(s->D, d); c++) {
      sums->dk[n][c] += ds * element_get(s->t, h->q, i * s->q_tok + d + c);
      sums->dv[n][c] += p * element_get(s->t, h->dout, i * s->o_tok + d + c);
    }
  }
}

static void bwd_kv(const mr_attention_spec_t *s, const mr_attention_head_t *h, int64_t j,
                   int64_t d) {
  sums_t sums = {0};
  for (int64_t i = 0; i < s->T; i++) add_query(s, h, i, j, d, &sums);
  for (int64_t n = 0; n < chunk_length(s->T, j); n++)
    for (int64_t c = 0; c < chunk_length(s->D, d); c++) {
      element_put(s->t, h->dk, (j + n) * s->k_tok + d + c, sums.dk[n][c]);
      element_put(s->t, h->dv, (j + n) * s->v_tok + d + c, sums.dv[n][c]);
    }
}

void mr__attention_bwd_scalar(const mr_attention_spec_t *s, const mr_attention_head_t *h) {
  for (int64_t d = 0; d < s->D; d += CHUNK) {
    for (int64_t i = 0; i < s->T; i++) bwd_q(s, h, i, d);
    for (int64_t j = 0; j < s->T; j += CHUNK) bwd_kv(s, h, j, d);
  }
}
