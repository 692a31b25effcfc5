/* The kernels, plainly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"

const char *mr_cpu_isa(void) { return "plain"; }

static float get(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32 ? ((const float *)x)[i] : mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
}
static void put(mr_dtype_t t, void *x, int64_t i, float v) {
  if (t == MR_F32)
    ((float *)x)[i] = v;
  else
    ((mr_bf16_t *)x)[i] = mr_bf16_from_f32(v);
}

void mr_layer_norm_fwd(mr_dtype_t xt, const void *x, const float *scale, const float *bias,
                       float eps, bool two_pass, mr_dtype_t yt, void *y, float *mean, float *rstd,
                       int64_t rows, int64_t c) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0, sq = 0;
    for (int64_t j = 0; j < c; j++) {
      float v = get(xt, x, r * c + j);
      sum += v, sq += v * v;
    }
    float mu = sum / (float)c, var = sq / (float)c - mu * mu;
    if (two_pass) {
      var = 0;
      for (int64_t j = 0; j < c; j++) {
        float d = get(xt, x, r * c + j) - mu;
        var += d * d;
      }
      var /= (float)c;
    }
    float rs = 1 / sqrtf((var > 0 ? var : 0) + eps);
    for (int64_t j = 0; j < c; j++)
      put(yt, y, r * c + j, (get(xt, x, r * c + j) - mu) * (rs * scale[j]) + bias[j]);
    if (mean) mean[r] = mu, rstd[r] = rs;
  }
}
size_t mr_layer_norm_scratch(int64_t c) { return (size_t)c * 8; }
void mr_layer_norm_bwd(mr_dtype_t xt, const void *x, const float *scale, const float *mean,
                       const float *rstd, mr_dtype_t dyt, const void *dy, void *dx, float *dscale,
                       float *dbias, void *scratch, int64_t rows, int64_t c) {
  memset(dscale, 0, (size_t)c * 4);
  memset(dbias, 0, (size_t)c * 4);
  for (int64_t r = 0; r < rows; r++) {
    float s1 = 0, s2 = 0;
    for (int64_t j = 0; j < c; j++) {
      float h = (get(xt, x, r * c + j) - mean[r]) * rstd[r], d = get(dyt, dy, r * c + j);
      dscale[j] += d * h, dbias[j] += d;
      s1 += d * scale[j], s2 += d * scale[j] * h;
    }
    s1 /= (float)c, s2 /= (float)c;
    for (int64_t j = 0; j < c; j++) {
      float h = (get(xt, x, r * c + j) - mean[r]) * rstd[r], d = get(dyt, dy, r * c + j);
      put(xt, dx, r * c + j, rstd[r] * (d * scale[j] - s1 - h * s2));
    }
  }
}
void mr_col_sum(mr_dtype_t xt, const void *x, mr_dtype_t ot, void *out, void *scratch, int64_t rows,
                int64_t c) {
  for (int64_t j = 0; j < c; j++) {
    float sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += get(xt, x, r * c + j);
    put(ot, out, j, sum);
  }
}
#define K0 0.7978845608028654f
#define K1 0.044715f
void mr_gelu_fwd(mr_gelu_t kind, mr_dtype_t t, const void *x, void *y, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    float v = get(t, x, i);
    float phi = kind == MR_GELU_ERF ? erff(v * (float)M_SQRT1_2) : tanhf(K0 * (v + K1 * v * v * v));
    put(t, y, i, 0.5f * v * (1 + phi));
  }
}
void mr_gelu_bwd(mr_gelu_t kind, mr_dtype_t t, const void *x, const void *dy, void *dx, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    float v = get(t, x, i), d;
    if (kind == MR_GELU_ERF) {
      d = 0.5f * (1 + erff(v * (float)M_SQRT1_2)) + v * 0.3989422804014327f * expf(-0.5f * v * v);
    } else {
      float th = tanhf(K0 * (v + K1 * v * v * v));
      d = 0.5f * (1 + th) + 0.5f * v * (1 - th * th) * K0 * (1 + 3 * K1 * v * v);
    }
    put(t, dx, i, get(t, dy, i) * d);
  }
}
static void philox4x32(uint32_t c[4], uint32_t k0, uint32_t k1) {
  for (int r = 0; r < 10; r++) {
    if (r) k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t n0 = (uint32_t)(q >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)q, c[3] = (uint32_t)p, c[0] = n0, c[2] = n2;
  }
}
void mr_dropout(mr_dtype_t t, const void *x, void *y, int64_t n, float rate, uint64_t seed,
                uint32_t site, uint32_t step) {
  uint32_t limit = (uint32_t)lrintf(rate * 65536);
  float scale = 1 / (1 - rate);
#pragma omp parallel for
  for (int64_t b = 0; b < (n + 7) / 8; b++) {
    uint32_t c[4] = {(uint32_t)b, (uint32_t)(b >> 32), site, step};
    philox4x32(c, (uint32_t)seed, (uint32_t)(seed >> 32));
    for (int64_t i = b * 8; i < n && i < b * 8 + 8; i++) {
      uint32_t r = c[(i & 7) / 2] >> 16 * (i & 1) & 0xFFFF;
      put(t, y, i, r >= limit ? get(t, x, i) * scale : 0);
    }
  }
}
void mr_convert(mr_dtype_t from, const void *x, mr_dtype_t to, void *y, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) put(to, y, i, get(from, x, i));
}
void mr_add(mr_dtype_t at, const void *a, mr_dtype_t bt, const void *b, mr_dtype_t ot, void *out,
            int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) put(ot, out, i, get(at, a, i) + get(bt, b, i));
}
void mr_xent_fwd(const float *logits, const int32_t *label, float smoothing, float *loss, int64_t B,
                 int64_t C) {
  for (int64_t b = 0; b < B; b++) {
    const float *x = logits + b * C;
    float top = x[0], sum = 0, all = 0;
    for (int64_t c = 1; c < C; c++) top = fmaxf(top, x[c]);
    for (int64_t c = 0; c < C; c++) sum += expf(x[c] - top), all += x[c];
    loss[b] = top + logf(sum) - (1 - smoothing) * x[label[b]] - smoothing / (float)C * all;
  }
}
void mr_xent_bwd(const float *logits, const int32_t *label, float smoothing, const float *dloss,
                 float *dlogits, int64_t B, int64_t C) {
  for (int64_t b = 0; b < B; b++) {
    const float *x = logits + b * C;
    float top = x[0], sum = 0;
    for (int64_t c = 1; c < C; c++) top = fmaxf(top, x[c]);
    for (int64_t c = 0; c < C; c++) sum += expf(x[c] - top);
    for (int64_t c = 0; c < C; c++)
      dlogits[b * C + c] =
          (expf(x[c] - top) / sum - (c == label[b] ? 1 - smoothing : 0) - smoothing / (float)C) *
          dloss[b];
  }
}
void mr_adamw(const mr_adamw_step_t *s, const float *p, const float *g, const float *m,
              const float *v, float *p_out, float *m_out, float *v_out, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) {
    float gi = g[i] * s->grad_scale, pi = p[i];
    float mi = s->b1 * m[i] + (1 - s->b1) * gi, vi = s->b2 * v[i] + (1 - s->b2) * gi * gi;
    m_out[i] = mi, v_out[i] = vi;
    p_out[i] =
        pi - s->lr * (mi / s->bias1 / (sqrtf(vi / s->bias2) + s->eps) + s->weight_decay * pi);
  }
}
double mr_sum_squares(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}
