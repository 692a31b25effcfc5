/* The layout of draws by key (mr_key_layout_t, base/random.h) that graphs ask for. */
#ifndef MR_MODEL_IR_KEY_LAYOUT_H
#define MR_MODEL_IR_KEY_LAYOUT_H

#include "base/decls.h"
#include "base/err.h"
#include "base/random.h"

MR_BEGIN_DECLS

/* What graphs that are created from now on ask of their draws unless they say otherwise (fn.h
   mr_key_layout_enter).  At first what the environment's MILLRACE_THREEFRY_PARTITIONABLE says (0 or
   1), else MR_KEY_PARTITIONABLE.  Any thread. */
mr_key_layout_t mr_key_layout(void);
void mr_key_layout_set(mr_key_layout_t layout);
/* MR_ERR_CONFIG if the environment's word is neither. */
mr_err_t mr_key_layout_check(mr_diag_t *diag);

MR_END_DECLS

#endif
