/* The table of a model's parameters as flax.nnx.tabulate prints it (summary_table.c). */
#ifndef MR_APPS_LOOK_SUMMARY_TABLE_H
#define MR_APPS_LOOK_SUMMARY_TABLE_H

#include <stdio.h>

#include "model/nn/params.h"

/* Prints the rows of mr_summary whose path has at most `depth` parts: path, type, inputs, outputs,
   own parameters with their dtype (held), how many it has with all below it, and their bytes; and
   where modules draw, the elements and bytes that flax keeps for them.  columns: 0, or those of a
   terminal; where the table needs more, each row is a few lines.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr_summary_table_put(FILE *to, const mr_params_t *p, const mr_summary_row_t *row, int n,
                              int64_t depth, mr_dtype_t held, int columns, mr_diag_t *diag);

#endif
