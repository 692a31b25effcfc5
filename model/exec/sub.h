/* Inner executables: a function inside an equation, compiled with the graph around it, which the
   equation's call runs any number of times.  It works in scratch memory of the call, so that the
   memory plan of the outer graph covers it, and is bound together with the outer graph. */
#ifndef MR_MODEL_EXEC_SUB_H
#define MR_MODEL_EXEC_SUB_H

#include "model/exec/backend.h"
#include "model/exec/call.h"
#include "model/exec/exec.h"

/* Compiles f for the backend and options of c, the call that is being lowered, without an arena.
   The call lists *out in c->inner, with its offset in c->scratch, and frees it in c->fini with
   mr_exec_destroy.  MR_OK, MR_ERR_NOMEM, MR_ERR_NORULE or another error of mr_compile. */
mr_err_t mr__sub_create(const mr_call_t *c, const mr_fn_t *f, mr_exec_t **out, mr_diag_t *diag);
size_t mr__sub_bytes(const mr_exec_t *x); /* returns the bytes of its arena, rounded up to align */
/* Runs x as mr_exec_run does. in and out may also be rows of larger arrays, aligned to their
   elements alone. */
void mr__sub_run(mr_exec_t *x, const void *const *in, void *const *out);
/* Returns n rounded up to the alignment of the call's backend. */
size_t mr__call_aligned(const mr_call_t *c, size_t n);

#endif
