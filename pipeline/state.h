/* The payload of a STATE buffer: named tensors and text that make up a checkpoint.

   The stage that trains fills it, the checkpoint sink writes it; on resume the stage reads the file
   itself (base/safetensors.h).  Names and text lie in the buffer; tensor data belongs to the stage,
   which changes none of it until every consumer has released the buffer. */
#ifndef MR_PIPELINE_STATE_H
#define MR_PIPELINE_STATE_H

#include <stdbool.h>

#include "base/safetensors.h"

enum { MR_STATE_STREAMS = 4 };
/* The metadata with the numbers that the parameters of a state were judged by (metrics/judged.h).
 */
#define MR_STATE_JUDGED "millrace.judged"
/* The name of a state's file, before ".safetensors" and what slices of ranks have there, as a
   format for its step, an int64_t (inttypes.h). */
#define MR_STATE_STEM "step-%06" PRId64

typedef struct mr_state {
  int64_t step; /* steps done */
  bool last;    /* the last state of the run (finished or stopped) */
  bool resumed; /* the run continues a checkpoint */
  int n_tensors, n_meta;
  mr_st_tensor_t *tensor;          /* [n_tensors] */
  mr_st_meta_t *meta;              /* [n_meta] */
  int64_t mark;                    /* number of the MR_REPORT_MARK record before it; 0: none */
  const char *of;                  /* the stage whose state it is; NULL: taken is unknown */
  int64_t taken[MR_STATE_STREAMS]; /* its input i continues with the buffer of this number; -1:
                                      unknown */
} mr_state_t;

#endif
