/* What train-step displays now and then: histograms of weights and gradients, pictures. */
#ifndef MR_STAGES_TRAIN_WATCH_H
#define MR_STAGES_TRAIN_WATCH_H

#include "metrics/report.h"
#include "model/nn/params.h"
#include "model/optim/optim.h"
#include "pipeline/buffer.h"
#include "stages/train/fields.h"

enum {
  MR_TRAIN_SAMPLES = 16,
  MR_TRAIN_WRONG = 2
}; /* pictures of a batch, and of a kind of mistake */

/* The compiled step does not return gradients, but they follow from what it changes: an optimizer
   with momentum computes m' = decay m + gain g, one without p' = p - lr g, of the same form. */
typedef struct mr_train_watch {
  /* [arena_size] m or p before the step, then as much for weights that are not f32; heap; NULL:
     none */
  float *before;
  bool of_p;
  float decay, gain;
  mr_optim_each_t *each; /* [n] of each parameter, heap; NULL: all are updated alike */
} mr_train_watch_t;

/* Saves what the gradients of the next step are computed from; with an lr of 0 and no momentum,
   or without momentum and with narrow parameters, there are none to report.  True; false without
   memory. */
bool mr_train_watch_before(mr_train_watch_t *w, const mr_optim_t *o, float lr,
                           const mr_params_t *params);

/* Adds the histograms of each tensor: its weights, then its gradients as the optimizer saw them
   (clipped); no gradients of parameters that are frozen.  Uses up the saved values. */
void mr_train_watch_histograms(const mr_train_watch_t *w, const mr_params_t *params,
                               mr_report_t *out);
/* Frees what w holds; zeros are fine. */
void mr_train_watch_fini(mr_train_watch_t *w);

/* Converts a picture, a value of the field `image` (mr_train_sight), to bytes, at most
   MR_PICTURE_SIDE wide and high. */
void mr_train_picture(const mr_field_t *image, const void *value, mr_picture_t *p);

#endif
