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

MR_END_DECLS

#endif
