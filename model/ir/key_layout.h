/* The process's default layout of draws by key (mr_key_layout_t, base/random.h). */
#ifndef MR_MODEL_IR_KEY_LAYOUT_H
#define MR_MODEL_IR_KEY_LAYOUT_H

#include "base/decls.h"
#include "base/err.h"
#include "base/random.h"

MR_BEGIN_DECLS

/* Returns the layout with which graphs are created from now on; mr_key_layout_enter (fn.h)
   overrides it for one graph.  Until mr_key_layout_set, MILLRACE_THREEFRY_PARTITIONABLE in the
   environment sets it: 0 is MR_KEY_ORIGINAL, anything else MR_KEY_PARTITIONABLE.  Any thread;
   neither fails. */
mr_key_layout_t mr_key_layout(void);
void mr_key_layout_set(mr_key_layout_t layout);
/* MR_ERR_CONFIG, with a sentence, if that environment variable is set to neither 0 nor 1; MR_OK if
   not.  mr_compile calls it. */
mr_err_t mr_key_layout_check(mr_diag_t *diag);

MR_END_DECLS

#endif
