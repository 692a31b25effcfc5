/* Reading jaxprs: what mr_fn_print writes, and what jax 0.10 prints of functions whose ops are
   here. text is outside input and checked. */
#ifndef MR_MODEL_PARSE_H
#define MR_MODEL_PARSE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* *out: the function that text describes; constants before the ';' become its first inputs.  What
   mr_fn_print wrote comes back as the same graph.  Of jax's notation, functions named by `let` are
   read where they are called, and ops that this tree lacks are written with those it has where that
   gives the same values (square, split, stack, argmax, ...); a custom_jvp or custom_vjp call, whose
   rule jax does not print, runs but has no derivatives (relu's are known by its name and body).
   Each equation's shapes are settled by its op and must be those that the text says.

   The caller destroys *out, which is NULL on failure.  MR_ERR_DATA with the line and what was
   expected there: for anything that is not such a text, an unknown op, an attribute an op has not
   or lacks, values beyond MR_MAX_NDIM dimensions, a constant that its dtype cannot hold, functions
   nested deeper than 200 or, through `let`, called so often that they would grow without bound.
   MR_ERR_NOMEM. */
mr_err_t mr_fn_parse(const char *text, mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
