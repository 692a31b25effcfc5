/* Shared by the stages that take several record streams as inputs. */
#ifndef MR_LOADERS_ORDERS_INPUTS_H
#define MR_LOADERS_ORDERS_INPUTS_H

#include "pipeline/stage.h"

/* .in of such a stage: the first two must be connected, the rest may be. */
#define MR_RECORD_INPUTS                                                                          \
  {                                                                                               \
    {"a", MR_FLOW_RECORDS, false}, {"b", MR_FLOW_RECORDS, false}, {"c", MR_FLOW_RECORDS, true},   \
        {"d", MR_FLOW_RECORDS, true}, {"e", MR_FLOW_RECORDS, true}, {"f", MR_FLOW_RECORDS, true}, \
        {"g", MR_FLOW_RECORDS, true}, {                                                           \
      "h", MR_FLOW_RECORDS, true                                                                  \
    }                                                                                             \
  }

/* Counts the connected inputs into *n and copies the first one's spec to the output, with n_epochs
   of the input that has the fewest and label classes of the input that has the most.  MR_ERR_USAGE
   if an input is connected but one before it is not. */
mr_err_t mr_inputs_plan(mr_stage_t *s, int *n);

/* Checks that the inputs [0,n) have the same fields: MR_ERR_SHAPE names the first that differs. */
mr_err_t mr_inputs_alike(mr_stage_t *s, int n);

#endif
