/* Parses jaxprs: the text that mr_fn_print writes, and the text that jax 0.10 prints for functions
   whose ops this tree has, or in the notation of jax 0.3, whose constants have no dtype.  The text
   is outside input and fully checked. */
#ifndef MR_MODEL_PARSE_H
#define MR_MODEL_PARSE_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* *out: the function that text describes.  Constants before the ';' become its first inputs.  A
   text of mr_fn_print gives the same graph again.  For jax's notation: a function named by `let`
   is read at each of its calls.  An op that this tree lacks is written with ops it has if that
   gives the same values (square, split, stack, argmax, ...).  A custom_jvp or custom_vjp call,
   whose rule jax does not print, runs but has no derivatives, except relu, which is recognised by
   its name and body.  Each equation's op computes its shapes, which must equal those in the text.

   MR_OK: the caller destroys *out.  On failure *out is NULL.  MR_ERR_DATA with the line and what
   was expected there: for a text that is not a jaxpr, an unknown op, an attribute that an op does
   not have or that is missing, values of more than MR_MAX_NDIM dimensions, a constant that its
   dtype cannot hold, functions nested deeper than 200, or calls of functions named by `let` that
   would grow without bound.  MR_ERR_NOMEM.  Any thread. */
mr_err_t mr_fn_parse(const char *text, mr_fn_t **out, mr_diag_t *diag);

MR_END_DECLS

#endif
