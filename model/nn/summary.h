/* The parameter table of a model, with the counts of flax's tabulate. */
#ifndef MR_MODEL_NN_SUMMARY_H
#define MR_MODEL_NN_SUMMARY_H

#include "base/decls.h"
#include "model/nn/params.h"

MR_BEGIN_DECLS

typedef struct mr_summary_row {
  char name[200];            /* "(all)", "encoder_blocks.0.attn" */
  int depth;                 /* modules above it; 0 for (all) and top modules */
  int64_t count;             /* parameters in it and in modules below it */
  const mr_module_t *module; /* belongs to s; NULL: the module was not applied */
} mr_summary_row_t;

/* Makes one row for each module, in the order of the parameters, "(all)" first.  A list of
   modules (a name followed by a number) has no row of its own.  MR_OK: *rows holds *n rows, which
   point into s; the caller frees it with free.  MR_ERR_NOMEM: there is nothing to free.  Source:
   flax.nnx.tabulate. */
mr_err_t mr_summary(const mr_params_t *s, mr_summary_row_t **rows, int *n, mr_diag_t *diag);

MR_END_DECLS

#endif
