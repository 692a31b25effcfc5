/* What vit-step shows of itself now and then: histograms of weights and gradients, pictures. */
#ifndef MR_STAGES_VIT_WATCH_H
#define MR_STAGES_VIT_WATCH_H

#include "model/nn/params.h"
#include "pipeline/buffer.h"
#include "pipeline/metrics.h"

enum { MR_VIT_SAMPLES = 16, MR_VIT_WRONG = 2 }; /* pictures of a batch, and of a kind of mistake */

/* The first moments from before a step.  Gradients are no output of the compiled step, but the
   moments after it hold them: m' = b1 m + (1-b1) g. */
typedef struct mr_vit_watch {
  float *m; /* [arena_size], heap; NULL: none yet */
} mr_vit_watch_t;

/* Notes the moments; without memory for them there are no gradients to tell. */
void mr_vit_watch_before(mr_vit_watch_t *w, const mr_params_t *params);

/* Histograms [first, first + MR_METRICS_HISTOGRAMS_MAX) of 2 n: tensor i's weights, then n + i its
   gradients as AdamW saw them (clipped). */
void mr_vit_watch_histograms(const mr_vit_watch_t *w, const mr_params_t *params, float b1,
                             int first, mr_metrics_t *out);
void mr_vit_watch_fini(mr_vit_watch_t *w);

/* Euclidean norm of x[0,n). */
double mr_vit_norm(const float *x, size_t n);

void mr_histogram_of(const char *kind, const char *name, const float *x, int64_t n,
                     mr_histogram_t *out);

/* Record i of a batch of spec as bytes, at most MR_PICTURE_SIDE wide and high. */
void mr_vit_picture(const mr_spec_t *spec, const mr_buf_t *batch, int i, int guess,
                    mr_metrics_t *out);

#endif
