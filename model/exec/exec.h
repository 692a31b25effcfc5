/* A graph compiled to a list of bound calls over one planned arena, for a backend (backend.h). */
#ifndef MR_MODEL_EXEC_EXEC_H
#define MR_MODEL_EXEC_EXEC_H

#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_exec mr_exec_t;
struct mr_backend;

enum { MR_THREADS_MAX = 1024 }; /* that may be asked for */

typedef struct mr_compile_options mr_compile_options_t;
struct mr_compile_options {
  const struct mr_backend *backend; /* what for; NULL: the default */
  const bool *donate;               /* [f->n_in]: a run may write over that input; NULL: none */
  /* The last in_place inputs are donated and become the last in_place outputs, one by one: a run
     may be given the same arrays for both.  MR_ERR_SHAPE where avals differ. */
  int in_place;
  /* An executable that never runs at the same time: its arena is used where it is large enough.
     It must be destroyed later.  NULL: none. */
  const mr_exec_t *lender;
  int threads;      /* of a run, [1,1024]; 0: as many as the caller's team has */
  bool pin;         /* each of them to a processor of its own, the caller of mr_exec_run included */
  bool plan_only;   /* takes no memory for the arena: for its graph, plan and peak; it cannot run */
  const char *skip; /* passes to leave out (transforms/passes.h), "cse,remat"; NULL: as the
                       environment's MILLRACE_SKIP_PASSES says */
  /* The device this is compiled for, whose collectives speak to others (comm.h; while mr_compile
     runs). NULL: none. */
  const struct mr_comm_rank *rank;
};

/* Compiles a copy of f (which the caller keeps).  options may be NULL.  MR_ERR_NORULE names an op
   that the backend cannot compute, MR_ERR_NOMEM the planned peak. */
mr_err_t mr_compile(const mr_fn_t *f, const mr_compile_options_t *options, mr_exec_t **out,
                    mr_diag_t *diag);
void mr_exec_destroy(mr_exec_t *x); /* NULL is fine */

/* Runs and blocks until the outputs hold their values.  in[n_in], out[n_out]: dense arrays in the
   backend's memory, aligned as it wants, of the caller; out may repeat an input that becomes it
   (in_place, or mr_exec_output_in says so), else no output overlaps an input or another output. One
   run at a time. */
void mr_exec_run(mr_exec_t *x, const void *const *in, void *const *out);

/* may_write is asked once a run, before the first kernel that writes over a donated input; until
   then others may read those arrays.  false ends the run there: donated inputs are as they were,
   outputs undefined.  NULL (at first): always allowed. */
void mr_exec_gate(mr_exec_t *x, bool (*may_write)(void *arg), void *arg);

const struct mr_backend *mr_exec_backend(const mr_exec_t *x);
const mr_fn_t *mr_exec_fn(const mr_exec_t *x); /* the graph as compiled; prints as a jaxpr */
size_t mr_exec_peak_bytes(const mr_exec_t *x); /* of the arena, lent or its own */

/* The input in whose memory output i is after a run, -1: in none. */
int mr_exec_output_in(const mr_exec_t *x, int i);

/* A run ends at the first op that gives a NaN; its outputs are then undefined.  Off at first. */
void mr_exec_check_nans(mr_exec_t *x, bool on);
const mr_eqn_t *mr_exec_nan(const mr_exec_t *x); /* that op in the last run, or NULL */

/* Where the time goes (profile.h reads it).  Off at first; on: starts at zero. */
void mr_exec_profile(mr_exec_t *x, bool on);

MR_END_DECLS

#endif
