/* A function inside an equation, compiled once with the graph around it and run as often as the
   equation's kernel likes.  It works in scratch memory of the call, so that the plan of the graph
   counts its peak. */
#ifndef MR_MODEL_CPU_SUB_H
#define MR_MODEL_CPU_SUB_H

#include "model/backends/cpu/call.h"
#include "model/backends/cpu/exec.h"

/* c: the call being lowered, for its options.  mr_exec_destroy frees. */
mr_err_t mr__sub_create(const mr_cpu_call_t *c, const mr_fn_t *f, mr_exec_t **out, mr_diag_t *diag);
size_t mr__sub_bytes(const mr_exec_t *x); /* of the arena that a run needs, 64-aligned */
/* The runs that follow work in arena, which nobody else writes to until the last of them. */
void mr__sub_begin(mr_exec_t *x, void *arena);
/* in and out as in mr_exec_run, but rows of larger arrays too: aligned to their elements. */
void mr__sub_run(mr_exec_t *x, const void *const *in, void *const *out);

#endif
