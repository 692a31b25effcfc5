/* What stages with several record streams as inputs share. */
#ifndef MR_LOADERS_INPUTS_H
#define MR_LOADERS_INPUTS_H

#include "pipeline/stage.h"

/* .in of such a stage: the first two must be linked, the rest may be. */
#define MR_RECORD_INPUTS                                                                          \
  {                                                                                               \
    {"a", MR_FLOW_RECORDS, false}, {"b", MR_FLOW_RECORDS, false}, {"c", MR_FLOW_RECORDS, true},   \
        {"d", MR_FLOW_RECORDS, true}, {"e", MR_FLOW_RECORDS, true}, {"f", MR_FLOW_RECORDS, true}, \
        {"g", MR_FLOW_RECORDS, true}, {                                                           \
      "h", MR_FLOW_RECORDS, true                                                                  \
    }                                                                                             \
  }

/* Number of inputs, linked from the first one on without a gap.  Copies the first one's spec to the
   output; n_epochs there is that of the input with the fewest, its labels have the classes of
   the input with the most. */
mr_err_t mr_inputs_plan(mr_stage_t *s, int *n);

/* Fails unless records of all inputs [0,n) look alike. */
mr_err_t mr_inputs_alike(mr_stage_t *s, int n);

#endif
