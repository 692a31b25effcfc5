/* The stages of a pipeline from what a user writes: the names of layers, or their number alone.  A
   layer is what a summary shows: the first part of parameters' names, with the number of an element
   of a list, "patch_embed", "encoder_blocks.3".  Implemented in pipeline_plan.c (evenly by cost,
   and what a plan shows) and pipeline_names.c. */
#ifndef MR_MODEL_TRAIN_PIPELINE_PLAN_H
#define MR_MODEL_TRAIN_PIPELINE_PLAN_H

#include "base/decls.h"
#include "model/nn/loss.h"
#include "model/optim/pipeline.h"

MR_BEGIN_DECLS

typedef struct mr_pipeline_want {
  int stages; /* >= 2 */
  mr_pipeline_kind_t kind;
  /* Stages behind each other, between "|": layers or parts of them, "head", "blocks[0:3]",
     "blocks[4]"; a name may lack what is before its last "_", and is then that of all layers that
     end so.  Layers between two of one stage need no name.  NULL: evenly by cost. */
  const char *names;
} mr_pipeline_want_t;

enum { MR_PIPELINE_LAYER = 96 };

typedef struct mr_pipeline_plan {
  mr_pipeline_t cut;
  int64_t records; /* of a microbatch, which the numbers below are of */
  struct {
    char from[MR_PIPELINE_LAYER], to[MR_PIPELINE_LAYER]; /* its first and its last layer */
    int64_t count;                                       /* elements of its parameters */
    double flop;                                         /* operations of its forward pass */
    size_t sent; /* bytes to the next stage, and of their cotangent back; 0 of the last one */
  } stage[MR_PIPELINE_STAGES];
} mr_pipeline_plan_t;

/* Cuts the loss l, computed as c says for microbatches of that many records.  Of all cuts between
   layers, those of the least cost of the dearest stage are taken, or those that are named.  MR_OK;
   MR_ERR_CONFIG with the sentence: an unknown layer (with the nearest), one in no stage, in two or
   out of order, another number of stages than wanted, more of them than layers, a cut inside of a
   residual; or as mr_loss_fn. */
mr_err_t mr_pipeline_plan(const mr_loss_t *l, const mr_compute_t *c, int64_t records,
                          const mr_pipeline_want_t *want, mr_pipeline_plan_t *out, mr_diag_t *diag);
/* Sets first[stages+1] to the first parameters of the stages of that text.  MR_OK or MR_ERR_CONFIG
   as above; `of` has the parameters' names. */
mr_err_t mr_pipeline_names(const char *text, int stages, const mr_params_t *of, int *first,
                           mr_diag_t *diag);
/* Writes the layer of a parameter into the caller's layer[MR_PIPELINE_LAYER], cut short if it is
   longer.  Returns layer. */
const char *mr_pipeline_layer(const char *param, char *layer);

MR_END_DECLS

#endif
