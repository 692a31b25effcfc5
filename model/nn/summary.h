/* The parameter table of a model, as flax's tabulate counts it. */
#ifndef MR_MODEL_NN_SUMMARY_H
#define MR_MODEL_NN_SUMMARY_H

#include "base/decls.h"
#include "model/nn/params.h"

MR_BEGIN_DECLS

typedef struct mr_summary_row {
  char name[200];            /* "(all)", "encoder_blocks.0.attn" */
  int depth;                 /* dots of the name; 0 for (all) and top modules */
  int64_t count;             /* parameters in it and below */
  const mr_module_t *module; /* of s; NULL: it was not applied */
} mr_summary_row_t;

/* One row a module, in the order of the parameters, "(all)" first; a list of modules (a name
   followed by a number) has no row of its own.  *rows is heap memory the caller frees, *n how many
   there are.  MR_ERR_NOMEM.  Source: flax.nnx.tabulate. */
mr_err_t mr_summary(const mr_params_t *s, mr_summary_row_t **rows, int *n, mr_diag_t *diag);

MR_END_DECLS

#endif
