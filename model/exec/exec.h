/* Executables: a graph compiled for a device (backend.h) to a list of bound calls over one planned
   arena.

   Different executables may be compiled and run by different threads at the same time; calls on one
   executable must not overlap.  Implemented in exec.c (compile, bind, run), lower.c, nans.c and
   profile.c. */
#ifndef MR_MODEL_EXEC_EXEC_H
#define MR_MODEL_EXEC_EXEC_H

#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"
#include "model/ops/operands.h"

MR_BEGIN_DECLS

typedef struct mr_exec mr_exec_t;
struct mr_device;

enum { MR_THREADS_MAX = 1024 }; /* the most threads a run can be compiled for */

typedef struct mr_compile_options mr_compile_options_t;
struct mr_compile_options {
  const struct mr_device *device; /* where it runs; NULL: the processors (mr_device_default) */
  const bool *donate;             /* [f->n_in]: a run may write over that input; NULL: none */
  /* The last in_place inputs are donated and become the last in_place outputs, one by one: a run
     may be given the same arrays for both.  MR_ERR_SHAPE where avals differ. */
  int in_place;
  /* An executable that never runs at the same time: its arena is used if it is large enough.  It
     must be destroyed after this one.  NULL: none. */
  const mr_exec_t *lender;
  /* Addresses of inputs and outputs are multiples of that many bytes, a power of two; 0: of 64, as
     the device's arrays and parameters are.  For graphs that run on rows of larger arrays. */
  size_t align;
  int threads;      /* of a run, [1,1024]; 0: as many as the caller's team has */
  bool pin;         /* pins each thread, the caller of mr_exec_run included, to its own processor */
  bool plan_only;   /* takes no arena and cannot run: for graph, plan and peak alone */
  const char *skip; /* passes to leave out (transforms/passes.h), "cse,remat"; NULL: as the
                       environment's MILLRACE_SKIP_PASSES says */
  /* The gate (mr_exec_gate) is called before the last collective too, if the first write comes
     later: ranks whose gates close together then leave none waiting in it. */
  bool gate_before_collective;
  /* What the sentence of MR_ERR_NOMEM advises to take instead; NULL: "a smaller batch". */
  const char *smaller;
  /* [n_ranks]: the device of a communicator (comm.h) that this is compiled for, one for each named
     axis of its collectives; read by mr_compile alone.  NULL: none. */
  const struct mr_comm_rank *rank;
  int n_ranks; /* 0: one, unless rank is NULL */
};

/* Compiles a copy of f, which stays the caller's. options may be NULL.  The caller destroys *out.
   MR_OK; the failure that f holds (f->diag); MR_ERR_NORULE names an op that the backend cannot
   compute; MR_ERR_NOMEM names the planned peak; MR_ERR_SHAPE for inputs and outputs in place that
   differ; MR_ERR_CONFIG for an unknown pass or a wrong environment variable. */
mr_err_t mr_compile(const mr_fn_t *f, const mr_compile_options_t *options, mr_exec_t **out,
                    mr_diag_t *diag);
void mr_exec_destroy(mr_exec_t *x); /* NULL is fine */

/* Runs x and blocks until the outputs hold their values. in[n_in] and out[n_out] are the caller's:
   dense arrays in the device's memory, with its backend's alignment.  An output may be the array
   of the input that becomes it (in_place, or as mr_exec_output_in returns); else no output overlaps
   an input or another output.  One run at a time.  Cannot fail, but a gate or a NaN may end it
   early. */
void mr_exec_run(mr_exec_t *x, const void *const *in, void *const *out);
/* As mr_exec_run, but may return before the outputs hold their values: on a backend with a queue, a
   copy that is given later finds them, and mr_queue_ops_t.reached waits. */
void mr_exec_start(mr_exec_t *x, const void *const *in, void *const *out);

/* Sets a gate: each run calls may_write(arg) once, on its own thread, before the first kernel that
   writes over a donated input; until then other threads may read those arrays.  If it returns false
   the run ends there: donated inputs are unchanged, outputs undefined.  NULL, as at first: no gate.
   Not during a run. */
void mr_exec_gate(mr_exec_t *x, bool (*may_write)(void *arg), void *arg);

/* Lets a run begin while copies to the host that were given beside the commands before it
   (mr_queue_ops_t.copy_beside) read its donated inputs: its first kernel that writes over one waits
   for them on the device, those before it do not.  Nothing on a backend without such copies.
   Before the first run. */
void mr_exec_wait_beside(mr_exec_t *x);

/* These cannot fail.  The device is x's, which keeps it open; the graph, as compiled, belongs to x
   and lives as long as it.  The peak is the planned size of the arena, borrowed or owned. */
const struct mr_device *mr_exec_device(const mr_exec_t *x);
const mr_fn_t *mr_exec_fn(const mr_exec_t *x);
size_t mr_exec_peak_bytes(const mr_exec_t *x);

/* Returns the most that a run of x borrows from the pool that runs of the host share, which keeps
   it until the last executable is destroyed.  Calls that run one after the other share it; those of
   several threads do not share with those of one. */
size_t mr_exec_borrowed_bytes(const mr_exec_t *x);

/* Returns how many calls, those of loops and branches included, take scratch on the device that is
   not known without it, and so is not in the peak.  0 but for a described device. */
int mr_exec_unplanned(const mr_exec_t *x);

struct mr_backend_kernel;
struct mr_call;
/* Compiles the generated kernels of x, those of loops and branches included, and tells each one of
   them (mr_compile_ops_t.inspect), also if x is only planned.  MR_OK, without a call of say on a
   backend that does not tell them; the errors of mr_compile_ops_t.build. */
mr_err_t mr_exec_inspect(const mr_exec_t *x,
                         void (*say)(void *arg, const struct mr_call *c,
                                     const struct mr_backend_kernel *k),
                         void *arg, mr_diag_t *diag);

/* The number of the input in whose memory output i is computed, or -1. */
int mr_exec_output_in(const mr_exec_t *x, int i);

/* Switches the check for NaNs: a run ends at the first op that gives one, and its outputs are then
   undefined.  Off at first. */
void mr_exec_check_nans(mr_exec_t *x, bool on);
/* The equation that gave a NaN in the last run, or NULL.  It belongs to x and lives as long as
   it. */
const mr_eqn_t *mr_exec_nan(const mr_exec_t *x);

/* Switches the timing of each call (read by mr_exec_profile_calls) and sets all times to zero.  A
   device with a clock times them itself, without a pause between them; on another one a run waits
   for each call.  Off at first. */
void mr_exec_profile(mr_exec_t *x, bool on);

/* The time that an executable spends in one kernel call, beside the cost of its equation.  Read it
   while no run is in progress. */
typedef struct mr_profile_call {
  const mr_eqn_t *eqn; /* owned by the executable */
  const char *op;      /* its op's name */
  mr_cost_t cost;
  int64_t ns;               /* of all profiled runs together */
  int64_t last_at, last_ns; /* the last run: when it began (mr_now_ns) and how long it took */
  bool serial;              /* runs on one thread */
} mr_profile_call_t;

/* Fills call[0,n) in running order and returns n.  Equations without a kernel have no row, so n is
   at most mr_exec_fn(x)->n_eqn, which is the size that call must have.  Cannot fail. */
int mr_exec_profile_calls(const mr_exec_t *x, mr_profile_call_t *call);
/* Returns the number of complete runs since the profile was switched on, and writes their duration,
   from call to return, to *wall_ns. */
int64_t mr_exec_profile_runs(const mr_exec_t *x, int64_t *wall_ns);

MR_END_DECLS

#endif
