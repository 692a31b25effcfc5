/* Shared by jit.c and jit_trace.c. */
#ifndef MR_MODEL_CALL_JIT_PRIVATE_H
#define MR_MODEL_CALL_JIT_PRIVATE_H

#include "model/call/array_private.h"
#include "model/call/jit.h"
#include "model/exec/exec.h"

/* A row of the cache: a list of avals, static arguments, and the graph compiled for both. */
typedef struct mr__jit_entry {
  struct mr__jit_entry *next;
  mr_exec_t *exec;
  int n_in, n_out;
  mr_aval_t *in, *out;
  void *fixed; /* [options.static_bytes]: the static arguments, as they were before the trace */
  int *from;   /* [n_out]: the donated input whose memory output i takes, -1 for none */
  mr_precision_t precision; /* the process's default when it was traced */
  mr_key_layout_t keys;     /* the same */
  bool small;               /* cheaper to run than to hand to another thread */
} mr__jit_entry_t;

struct mr_jitted {
  mr_queue_t *queue;
  char *name;
  mr_emit_fn *trace;
  void *arg;
  mr_jitted_options_t options;
  mr__jit_entry_t *first;
  mr_jitted_stats_t stats;
  bool tracing;
};

/* Traces and compiles for the avals of in[n_in] (jit_trace.c).  On success *out is the caller's,
   not yet in j's list; errors are those of mr_jitted_call. */
mr_err_t mr__jit_compile(mr_jitted_t *j, int n_in, mr_array_t *const *in, mr__jit_entry_t **out,
                         mr_diag_t *diag);
void mr__jit_entry_destroy(mr__jit_entry_t *e);

#endif
