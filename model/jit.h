/* jit as in JAX: a function that is traced and compiled once for each list of shapes and dtypes it
   is called with (and each default precision of products), and runs without its caller waiting.

   mr_compile (exec/exec.h) compiles one graph; this keeps the graphs of one function. */
#ifndef MR_MODEL_JIT_H
#define MR_MODEL_JIT_H

#include "base/decls.h"
#include "model/array.h"
#include "model/ir/fn.h"
#include "model/queue.h"

MR_BEGIN_DECLS

typedef struct mr_jitted mr_jitted_t;

/* Emits the function into f, which has the inputs f->in[f->n_in] and nothing else, and ends with
   mr_fn_return.  Called once for each new list of avals; must not call the jitted function. */
typedef mr_err_t mr_emit_fn(mr_fn_t *f, void *arg);

struct mr_backend;

typedef struct mr_jitted_options {
  const struct mr_backend *device; /* where it runs and its arrays lie; NULL: the default */
  uint64_t donate; /* bit k: argument k is given away, and its memory may become an output */
  int threads;     /* of a run; 0: as many as the caller's team has */
  bool check_nans; /* a NaN that an op gives fails the run, with op and scope; slower */
} mr_jitted_options_t;

/* name is for errors and copied; q, and what arg points at, must outlive it.  options: NULL for
   none.  At most 64 arguments may be donated, the first ones. */
mr_err_t mr_jitted_create(mr_queue_t *q, const char *name, mr_emit_fn *trace, void *arg,
                          const mr_jitted_options_t *options, mr_jitted_t **out, mr_diag_t *diag);
/* Waits for the queue's runs first.  NULL is fine. */
void mr_jitted_destroy(mr_jitted_t *j);

/* Queues a run and returns; out[n_out] are futures the caller drops.  Fails at once, before
   anything runs: shapes (with op, scope and both avals), a missing rule, an argument that was
   donated before, memory (with the planned peak).  What fails later fails out.  One thread at a
   time for one function.  Source: jax.jit. */
mr_err_t mr_jitted_call(mr_jitted_t *j, int n_in, mr_array_t *const *in, int n_out,
                        mr_array_t **out, mr_diag_t *diag);

typedef struct mr_jitted_stats {
  int64_t hits, misses; /* calls that found their graph compiled, and that had it compiled */
} mr_jitted_stats_t;
/* Since it was created.  Not while another thread calls j. */
mr_jitted_stats_t mr_jitted_stats(const mr_jitted_t *j);

MR_END_DECLS

#endif
