/* What the files of ops over a named axis share. */
#ifndef MR_MODEL_CONTROL_COLLECTIVES_PRIVATE_H
#define MR_MODEL_CONTROL_COLLECTIVES_PRIVATE_H

#include "model/ops/sample.h"

MR_BEGIN_DECLS

/* Ends a sample: maps body, (x f32[2]) -> (y), over an axis "i" of 3 and inlines it, as such an
   op needs an axis.  Destroys body.  true. */
bool mr__axis_sample(mr_sample_t *s, mr_fn_t *body, mr_var_t *y);

MR_END_DECLS

#endif
