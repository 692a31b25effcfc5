/* Shared by the stages that take several record streams as inputs. */
#ifndef MR_LOADERS_ORDERS_INPUTS_H
#define MR_LOADERS_ORDERS_INPUTS_H

#include "pipeline/stage.h"

/* .in of such a stage: the first two must be connected, the rest may be, and more behind them. */
#define MR_RECORD_INPUT(letter, may_lack) \
  { .name = letter, .flow = MR_FLOW_RECORDS, .optional = may_lack, .alike = true }
#define MR_LAST_RECORD_INPUT(letter) \
  { .name = letter, .flow = MR_FLOW_RECORDS, .optional = true, .alike = true, .more = true }
#define MR_RECORD_INPUTS                                                                    \
  {                                                                                         \
    MR_RECORD_INPUT("a", false), MR_RECORD_INPUT("b", false), MR_RECORD_INPUT("c", true),   \
        MR_RECORD_INPUT("d", true), MR_RECORD_INPUT("e", true), MR_RECORD_INPUT("f", true), \
        MR_RECORD_INPUT("g", true), MR_LAST_RECORD_INPUT("h")                               \
  }

/* Counts the connected inputs into *n and copies the first one's spec to the output, with n_epochs
   of the input that has the fewest and label classes of the input that has the most.  MR_ERR_USAGE
   if an input is connected but one before it is not. */
mr_err_t mr_inputs_plan(mr_stage_t *s, int *n);

/* Checks that the inputs [0,n) have the same fields: MR_ERR_SHAPE names the first that differs. */
mr_err_t mr_inputs_alike(mr_stage_t *s, int n);

/* What joining the classes of the inputs has made: from plan to forget, in the stage's state. */
typedef struct mr_inputs {
  mr_classes_joined_t joined[MR_FIELDS_MAX]; /* by field; empty: no names */
  mr_renumber_t renumber;
  mr_dataset_t dataset;
} mr_inputs_t;

/* Gives each label of the output the classes of all inputs, and has those of inputs that number
   them otherwise renumbered (mr_stage_t.renumber); an input without names keeps its numbers, which
   is said.  After mr_inputs_alike.  MR_ERR_DATA names both lists: of one-hot rows, which are not
   renumbered, or with a name twice; MR_ERR_NOMEM.  mr_inputs_forget frees what is in *t. */
mr_err_t mr_inputs_join_classes(mr_stage_t *s, int n, mr_inputs_t *t);
void mr_inputs_forget(mr_inputs_t *t);

/* Checks that the classes of field f of inputs a and i have the same names, if both have names:
   MR_ERR_DATA names both lists, and ends with `advice`. */
mr_err_t mr_inputs_same_classes(mr_stage_t *s, int i, int f, const char *advice);

#endif
