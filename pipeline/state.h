/* The payload of a STATE buffer: named tensors and text that make up a checkpoint.

   The stage that trains fills it, the checkpoint sink writes it; on resume the stage reads the file
   itself (base/safetensors.h).  Names and text lie in the buffer; tensor data is the stage's own,
   which changes nothing of it until every consumer has released the buffer. */
#ifndef MR_PIPELINE_STATE_H
#define MR_PIPELINE_STATE_H

#include <stdbool.h>

#include "base/safetensors.h"

enum { MR_STATE_STREAMS = 4 };

typedef struct mr_state {
  int64_t step; /* steps done */
  bool last;    /* the run ends with this one (finished or stopped) */
  int n_tensors, n_meta;
  mr_st_tensor_t *tensor; /* [n_tensors] */
  mr_st_meta_t *meta;     /* [n_meta] */
  int64_t mark; /* as in the metrics record of kind MR_METRICS_MARK before it; 0: there was none */
  const char *of;                  /* the stage whose state it is; NULL: taken is not known */
  int64_t taken[MR_STATE_STREAMS]; /* its input i goes on with the buffer of this number; -1: not
                                      known */
} mr_state_t;

#endif
