/* Spreading values over the rows of a tensor (..., C), for open rules. */
#ifndef MR_MODEL_OPS_ROWS_H
#define MR_MODEL_OPS_ROWS_H

#include "model/ir/fn.h"

/* v (...): a value of each row, repeated along like's last dimension. */
mr_var_t *mr_rows_spread(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);
/* v (C): the same for each row of like. */
mr_var_t *mr_row_repeat(mr_fn_t *f, mr_var_t *v, const mr_aval_t *like);

#endif
