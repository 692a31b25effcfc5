/* jit as in JAX: a function is traced and compiled once for each list of argument shapes and dtypes
   (and each value of its static arguments, default precision of products and layout of keys).  A
   call queues a run and returns.

   mr_compile (exec/exec.h) compiles one graph; a jitted function caches the compiled graphs of one
   function.  Implemented in jit.c (calls and runs) and jit_trace.c (tracing and compiling). */
#ifndef MR_MODEL_CALL_JIT_H
#define MR_MODEL_CALL_JIT_H

#include "base/decls.h"
#include "model/call/array.h"
#include "model/call/queue.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_jitted mr_jitted_t;

/* Emits the function into f, which holds the inputs f->in[f->n_in] and nothing else, and ends with
   mr_fn_return.  Called once for each new list of avals or static arguments, within mr_jitted_call.
   It must not call the jitted function itself.  arg is that of mr_jitted_create: what the graph
   depends on in it must not change between calls, unless static_bytes covers it.  Returns MR_OK or
   a failure; f->diag may hold the sentence. */
typedef mr_err_t mr_emit_fn(mr_fn_t *f, void *arg);

struct mr_device;

typedef struct mr_jitted_options {
  const struct mr_device *device; /* where it runs and its arrays lie; NULL: the default */
  uint64_t donate; /* bit k: argument k is donated, and an output may take its memory */
  int threads;     /* of a run; 0: as many as the caller's team has */
  bool check_nans; /* a run fails at the first op that gives a NaN, with op and scope; slower */
  /* The first bytes of what arg points at that are static arguments (jax.jit's static_argnums):
     each call compares them, and with others than before traces anew; 0: none.  They are compared
     as bytes: a pointer among them counts by itself, not by what it points at, and padding counts,
     so zero a struct before its fields are set. */
  size_t static_bytes;
} mr_jitted_options_t;

/* Creates the cache; nothing is traced yet. name appears in errors and is copied. q and what arg
   points at must outlive *out, which the caller destroys. options: copied; NULL for none.  Only the
   first 64 arguments can be donated.  MR_OK; MR_ERR_CONFIG for static_bytes of an arg that is NULL;
   MR_ERR_NOMEM. */
mr_err_t mr_jitted_create(mr_queue_t *q, const char *name, mr_emit_fn *trace, void *arg,
                          const mr_jitted_options_t *options, mr_jitted_t **out, mr_diag_t *diag);
/* Waits until all runs of the queue have ended, then frees j.  NULL is fine. */
void mr_jitted_destroy(mr_jitted_t *j);

/* Queues a run and returns; out[0,n_out) are futures that the caller drops.  A small run with
   nothing queued before it runs at once, on this thread.  The first call with new avals or static
   arguments traces and compiles, and so takes long.  One thread at a time for one function, which
   may change arg between its calls.

   Before anything runs, with out and arguments unchanged: MR_ERR_SHAPE (with op, scope and both
   avals, or for another number of outputs), MR_ERR_NORULE, MR_ERR_CONFIG for an argument that was
   donated before, is donated and passed twice, or lies on another device, MR_ERR_USAGE for a call
   from the function's own trace, MR_ERR_NOMEM (with the planned peak), or the failure of the trace.
   A failure during the run fails the futures instead.  Source: jax.jit. */
mr_err_t mr_jitted_call(mr_jitted_t *j, int n_in, mr_array_t *const *in, int n_out,
                        mr_array_t **out, mr_diag_t *diag);

typedef struct mr_jitted_stats {
  int64_t hits, misses; /* calls whose graph was in the cache, and calls that compiled theirs */
} mr_jitted_stats_t;
/* Returns the counts since j was created; cannot fail.  Not while another thread calls j. */
mr_jitted_stats_t mr_jitted_stats(const mr_jitted_t *j);

MR_END_DECLS

#endif
