#ifndef MR_MODEL_EXEC_EXEC_PRIVATE_H
#define MR_MODEL_EXEC_EXEC_PRIVATE_H

#include "model/exec/backend.h"
#include "model/exec/exec.h"
#include "model/exec/memory.h"

/* A pointer that changes with each run: *slot = the caller's array number index. */
typedef struct mr_exec_patch {
  void **slot;
  mr_block_place_t place;
  int index;
} mr_exec_patch_t;

struct mr_exec {
  const mr_backend_t *backend;
  mr_fn_t *fn;
  mr_call_t *call; /* [fn->n_eqn]; run is NULL where nothing is to do */
  void **slots;    /* what call.in and call.out point into */
  mr_memory_plan_t plan;
  char *arena;
  bool lent;       /* the arena is another executable's, or in the scratch of a call */
  char *constants; /* [plan.constants] */
  mr_exec_patch_t *patch;
  int n_patch;
  void **result; /* [fn->n_out]: where the values are, to be copied if not in place */
  int threads;   /* of the team it was compiled for */
  bool pin;
  bool (*may_write)(void *arg);
  void *gate_arg;
  int first_write; /* the first equation that writes over a donated input; n_eqn: none does */
  bool check_nans;
  const mr_eqn_t *nan; /* of the last run: what first gave one, or NULL */
  bool profile;
  int64_t runs, wall_ns;
  int64_t *ns, *at; /* [fn->n_eqn] of all runs together; where the last one began it */
  int64_t *last;    /* [fn->n_eqn] of the last run */
};

/* Lowers each equation of x->fn into x->call. */
mr_err_t mr__lower(mr_exec_t *x, const mr_compile_options_t *o, mr_diag_t *diag);
/* Passes, lowering and the memory plan of f, for x->backend: all but an arena.  apart: as in
   mr_memory_plan_init. */
mr_err_t mr__exec_plan(mr_exec_t *x, const mr_fn_t *f, const mr_compile_options_t *o, bool apart,
                       mr_diag_t *diag);
/* Points all calls into x->arena, the graphs inside calls into theirs, and writes the literals. */
void mr__exec_bind(mr_exec_t *x);

/* Whether an output of the call, which has run, holds one. */
bool mr__gives_nan(const mr_call_t *c);

#endif
