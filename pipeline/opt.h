/* Parses a setting's text into its place. */
#ifndef MR_PIPELINE_OPT_H
#define MR_PIPELINE_OPT_H

#include <stdint.h>

#include "base/decls.h"
#include "base/err.h"
#include "base/opt.h"

MR_BEGIN_DECLS

/* Parses text into the row's place in state; a string setting keeps the pointer, so text must live
   as long as state.  MR_OK; MR_ERR_CONFIG if the text is no value of the row's type or out of its
   range, with a sentence that names `who` (the stage), the setting, the value and what is expected;
   state is then unchanged. */
mr_err_t mr_opt_set(const mr_opt_t *opt, void *state, const char *who, const char *text,
                    mr_diag_t *diag);

/* True if word is one of the choices "a|b|c"; false otherwise, also for "". */
bool mr_is_choice(const char *choices, const char *word);

/* A hint how to write a value that the setting refused, into the caller's text[0,n): "; write
   10000" for 10k where a whole number is wanted, "; write f16" for float16; "" without a guess.
   What it says to write is accepted.  Returns text.  Implemented in opt_hint.c. */
const char *mr_value_hint(const mr_opt_t *opt, const char *value, char *text, size_t n);

MR_END_DECLS

#endif
