/* A function inside an equation, compiled once with the graph around it and run as often as the
   equation's call likes.  It works in scratch memory of the call, so that the plan of the graph
   counts its peak, and is bound to it when the graph is. */
#ifndef MR_MODEL_EXEC_SUB_H
#define MR_MODEL_EXEC_SUB_H

#include "model/exec/backend.h"
#include "model/exec/call.h"
#include "model/exec/exec.h"

/* c: the call being lowered, for its backend and options.  The call names it in c->inner, with its
   place in c->scratch; mr_exec_destroy frees. */
mr_err_t mr__sub_create(const mr_call_t *c, const mr_fn_t *f, mr_exec_t **out, mr_diag_t *diag);
size_t mr__sub_bytes(const mr_exec_t *x); /* of scratch that it needs, aligned */
/* in and out as in mr_exec_run, but rows of larger arrays too: aligned to their elements. */
void mr__sub_run(mr_exec_t *x, const void *const *in, void *const *out);
/* n, rounded up to what the call's backend aligns to. */
size_t mr__call_aligned(const mr_call_t *c, size_t n);

#endif
