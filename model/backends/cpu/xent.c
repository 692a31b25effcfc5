/* Softmax cross-entropy in scalar C, as there are few rows and few classes.  The largest logit is
   subtracted first, so that a small loss of large logits loses no digits. */
#include <math.h>
#include <string.h>

#include "base/dataset.h"
#include "model/backends/cpu/kernels.h"

static float xent_largest(const float *x, int64_t n) {
  float top = x[0];
  for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
  return top;
}

void mr_xent_fwd(const float *logits, const int32_t *label, float smoothing, float *loss, int64_t B,
                 int64_t C) {
  for (int64_t b = 0; b < B; b++) {
    const float *x = logits + b * C;
    float top = xent_largest(x, C), sum = 0, all = 0;
    if (label[b] == MR_LABEL_NONE) {
      loss[b] = 0;
      continue;
    }
    for (int64_t c = 0; c < C; c++) sum += expf(x[c] - top), all += x[c] - top;
    float own = label[b] >= 0 && label[b] < C ? x[label[b]] - top : -top; /* else: no class */
    loss[b] = logf(sum) - (1 - smoothing) * own - smoothing / (float)C * all;
  }
}

void mr_xent_bwd(const float *logits, const int32_t *label, float smoothing, const float *dloss,
                 float *dlogits, int64_t B, int64_t C) {
  for (int64_t b = 0; b < B; b++) {
    const float *x = logits + b * C;
    float *d = dlogits + b * C, top = xent_largest(x, C), sum = 0;
    if (label[b] == MR_LABEL_NONE) {
      memset(d, 0, (size_t)C * sizeof *d);
      continue;
    }
    for (int64_t c = 0; c < C; c++) sum += d[c] = expf(x[c] - top);
    for (int64_t c = 0; c < C; c++) {
      float target = (c == label[b] ? 1 - smoothing : 0) + smoothing / (float)C;
      d[c] = (d[c] / sum - target) * dloss[b];
    }
  }
}
