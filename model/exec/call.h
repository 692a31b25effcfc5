/* A bound call: what one equation becomes when it is lowered for a backend.

   The backend's rule fills run, and what it needs of state and scratch, from c->eqn's avals and
   attributes: a run looks up no attribute.  in, out and scratch point at the backend's memory when
   run is called. */
#ifndef MR_MODEL_EXEC_CALL_H
#define MR_MODEL_EXEC_CALL_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

struct mr_backend;
struct mr_exec;
typedef struct mr_call mr_call_t;

/* Something a call moves on each run before it computes. */
typedef struct mr_call_note {
  const char *what; /* "operand 0 copied into order"; lives as long as the program */
  size_t bytes;     /* read and written */
} mr_call_note_t;
enum { MR_CALL_NOTES = 4 };

/* A graph that a run of the call runs. */
typedef struct mr_call_inner {
  struct mr_exec *exec; /* of state */
  size_t at;        /* its arena in the call's scratch; graphs that never run at once may share */
  int64_t runs;     /* of it in a run of the call; 1 where values decide */
  const char *when; /* then: what it runs once for, "each step of while"; else NULL */
  int branch;       /* of several, of which one runs: its number; else -1 */
} mr_call_inner_t;

struct mr_call {
  const mr_eqn_t *eqn;
  const struct mr_backend *backend;
  void (*run)(const mr_call_t *c); /* NULL: nothing is to be done */
  void **in, **out;                /* [eqn->n_in], [eqn->n_out]; literals are scalars in memory */
  void (*fn)(void);                /* a function for run, or NULL */
  void *state;                     /* owned by the call, or NULL */
  void (*fini)(void *state);
  void *scratch; /* aligned as the backend's memory, scratch_bytes, alive during run only */
  size_t scratch_bytes;
  const char *how;                    /* of products: as executed, in a few words; else NULL */
  mr_call_note_t note[MR_CALL_NOTES]; /* up to the first without a text */
  const mr_call_inner_t *inner;       /* [n_inner], of state */
  int n_inner;
  bool serial; /* set before the rule is asked: too small to spread over the host's threads */
  const struct mr_compile_options *options; /* what the graph is compiled with; while lowering */
};

MR_END_DECLS

#endif
