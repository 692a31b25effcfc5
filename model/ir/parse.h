/* Reading back what mr_fn_print writes: jaxpr's notation.  text is outside input and checked. */
#ifndef MR_MODEL_IR_PARSE_H
#define MR_MODEL_IR_PARSE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* *out: the function that text describes, of the ops in the table; constants before the ';' become
   its first inputs, so does a printed function again.  Each equation's shapes are settled by its op
   and must be those that the text says.  The caller destroys *out.  MR_ERR_DATA with the line and
   what was expected there: for anything that is not such a text, an unknown op, an attribute an op
   has not or lacks, values beyond MR_MAX_NDIM dimensions. */
mr_err_t mr_fn_parse(const char *text, mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
