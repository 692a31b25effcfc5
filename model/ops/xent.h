/* What cross-entropy and its backward op share. */
#ifndef MR_MODEL_OPS_XENT_H
#define MR_MODEL_OPS_XENT_H

#include "model/ops/op.h"

/* The smoothed one-hot rows (B,C) of e's labels. */
mr_var_t *mr__xent_target(mr_fn_t *f, const mr_eqn_t *e);
/* v (B,...) with zeros in the rows whose label is MR_LABEL_NONE. */
mr_var_t *mr__xent_counted(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *v);

#endif
