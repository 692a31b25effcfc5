/* The form of an executable, shared by exec.c (compile, bind, run), lower.c, nans.c and
   finite.c. */
#ifndef MR_MODEL_EXEC_EXEC_PRIVATE_H
#define MR_MODEL_EXEC_EXEC_PRIVATE_H

#include "model/exec/backend.h"
#include "model/exec/exec.h"
#include "model/exec/memory.h"

/* A pointer that changes with each run: a run sets *slot to the caller's array number index. */
typedef struct mr_exec_patch {
  void **slot;
  mr_block_place_t place;
  int index;
} mr_exec_patch_t;

struct mr_exec {
  const mr_device_t *device; /* kept open */
  mr_fn_t *fn;
  mr_call_t *call; /* [fn->n_eqn]; run is NULL if there is nothing to run */
  void **slots;    /* the pointers that call.in and call.out select from */
  mr_memory_plan_t plan;
  char *arena;
  bool lent;       /* the arena is another executable's, or in the scratch of a call */
  char *constants; /* [plan.constants] */
  mr_exec_patch_t *patch;
  int n_patch;
  void **result; /* [fn->n_out]: where the values are computed; copied if not the caller's array */
  int threads;   /* of a run */
  bool pin;
  const void **key; /* [n_in + n_out] room for a run's arrays; NULL: runs are never repeated */
  void *kept;       /* the backend's, for runs that it repeats */
  bool (*may_write)(void *arg);
  void *gate_arg;
  bool waits_beside; /* before first_write, for copies beside the commands */
  int first_write; /* where the gate is: the first equation that writes over a donated input, or the
                    last collective before it; n_eqn: none does */
  bool check_nans;
  const mr_eqn_t *nan;      /* the first equation of the last run that gave a NaN, or NULL */
  struct mr_finite *finite; /* looks at the values of a run (finite.h); NULL: none does */
  bool profile;
  int64_t runs, wall_ns;
  int64_t *ns, *at; /* [fn->n_eqn]: time of all runs together; when the last run began the call */
  int64_t *last;    /* [fn->n_eqn]: time in the last run */
  void **stamp;     /* [2 fn->n_eqn] before and after each call, by the device's clock; NULL: by the
                       host's */
};

/* Lowers each equation of x->fn into x->call. */
mr_err_t mr__lower(mr_exec_t *x, const mr_compile_options_t *o, mr_diag_t *diag);
/* Passes, lowering and the memory plan of f, for x->device: all but an arena.  apart: as in
   mr_memory_plan_init. */
mr_err_t mr__exec_plan(mr_exec_t *x, const mr_fn_t *f, const mr_compile_options_t *o, bool apart,
                       mr_diag_t *diag);
/* Whether every run of x gives the same commands, so that a device may record them (repeat.c): the
   host need not read a value during a run, and there are not too many. */
bool mr__exec_repeats(const mr_exec_t *x);
/* Points all calls into x->arena, the graphs inside calls into theirs, and writes the literals. */
void mr__exec_bind(mr_exec_t *x);

/* profile.c, for a profiled run with stamps: adds the times of the first n equations, which it
   waits for; from: the host's time before the first call. */
void mr__profile_read(mr_exec_t *x, int n, int64_t from);
void mr__profile_fini(mr_exec_t *x);

/* Whether an output of the call, which has run, holds a NaN. */
bool mr__gives_nan(const mr_call_t *c);

/* finite.c, for a run: before it, after equation i, and after it. */
struct mr_finite;
void mr__finite_begin(struct mr_finite *w, const void *const *in, void *const *out);
void mr__finite_call(struct mr_finite *w, int i);
void mr__finite_end(struct mr_finite *w);

#endif
