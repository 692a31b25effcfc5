/* A bound kernel call: what one equation becomes when it is lowered for CPU.

   An op's cpu rule fills run, and what it needs of state and scratch, from c->eqn's avals and
   attributes; in, out and scratch point at memory when run is called. */
#ifndef MR_MODEL_CPU_CALL_H
#define MR_MODEL_CPU_CALL_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_cpu_call mr_cpu_call_t;

/* Something a kernel moves on each run before it computes. */
typedef struct mr_cpu_note {
  const char *what; /* "operand 0 copied into order"; lives as long as the program */
  size_t bytes;     /* read and written */
} mr_cpu_note_t;
enum { MR_CPU_NOTES = 4 };

/* A graph that a run of the call runs. */
typedef struct mr_cpu_inner {
  const struct mr_exec *exec;
  int64_t runs;     /* of it in a run of the call; 1 where values decide */
  const char *when; /* then: what it runs once for, "each step of while"; else NULL */
  int branch;       /* of several, of which one runs: its number; else -1 */
} mr_cpu_inner_t;

struct mr_cpu_call {
  const mr_eqn_t *eqn;
  void (*run)(const mr_cpu_call_t *c);
  void **in, **out; /* [eqn->n_in], [eqn->n_out]; literals are scalars in memory */
  void (*fn)(void); /* a function for run, or NULL */
  void *state;      /* owned by the call, or NULL */
  void (*fini)(void *state);
  void *scratch; /* 64-aligned, scratch_bytes, alive during run only */
  size_t scratch_bytes;
  const char *how;                  /* of products: as executed, in a few words; NULL for others */
  mr_cpu_note_t note[MR_CPU_NOTES]; /* up to the first without a text */
  const mr_cpu_inner_t *inner;      /* [n_inner], of state */
  int n_inner;
  bool serial; /* set by the lowering: too small to wake other threads for */
  const struct mr_jit_options *options; /* what the graph is compiled with; while it is lowered */
};

/* MR_OK, or why the CPU cannot run it. */
typedef mr_err_t mr_cpu_lower_fn(mr_cpu_call_t *c, mr_diag_t *diag);

/* The rule of ops whose output has the bytes of input 0 (reshape): the planner gives both the
   same memory and no call is made. */
mr_err_t mr_cpu_alias(mr_cpu_call_t *c, mr_diag_t *diag);
/* The rule of ops without a kernel that have an open rule (calls of functions): mr_jit writes them
   as what they stand for before it plans. */
mr_err_t mr_cpu_opened(mr_cpu_call_t *c, mr_diag_t *diag);

MR_END_DECLS

#endif
