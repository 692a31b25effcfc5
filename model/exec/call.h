/* A bound call: one equation, lowered for a device.

   The backend's rule fills run, state and scratch_bytes from the avals and attributes of c->eqn, so
   that a run looks up no attribute. in, out and scratch point at the device's memory when run is
   called. */
#ifndef MR_MODEL_EXEC_CALL_H
#define MR_MODEL_EXEC_CALL_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

struct mr_device;
struct mr_exec;
typedef struct mr_call mr_call_t;

/* Bytes that a call moves on each run beside what it computes. */
typedef struct mr_call_note {
  const char *what; /* "operand 0 copied into order"; lives as long as the program */
  size_t bytes;     /* read and written */
} mr_call_note_t;
enum { MR_CALL_NOTES = 4 };

/* What the call makes of one operand before it uses it, and what other calls with the same operand
   and an equal form use as it is: the operand packed for a product, say.  The memory plan gives
   such calls one place, which stays as long as one of them has not run. */
typedef struct mr_call_kept {
  size_t bytes;     /* 0: nothing */
  int operand;      /* number among the equation's */
  const void *form; /* [form_bytes], of the call's state: equal bytes, equal content */
  size_t form_bytes;
  const char *what; /* the text of its note: bytes that only the call that makes it moves */
  void *at;         /* NULL: no other call uses it, and the call has it in memory of its own */
  bool make;        /* the call is the first of those that use it */
} mr_call_kept_t;

/* A graph that the call runs: a body, a condition or a branch. */
typedef struct mr_call_inner {
  struct mr_exec *exec; /* belongs to the call's state */
  size_t at;        /* its arena in the call's scratch; graphs that never run at once may share */
  int64_t runs;     /* its runs in one run of the call; 1 if values decide */
  const char *when; /* if values decide: what one run is for, "each step of while"; else NULL */
  int branch;       /* its number among branches, of which one runs; else -1 */
} mr_call_inner_t;

struct mr_call {
  const mr_eqn_t *eqn;
  const struct mr_device *device;  /* of the graph; open as long as the call */
  void (*run)(const mr_call_t *c); /* NULL: there is nothing to run */
  void **in, **out;                /* [eqn->n_in], [eqn->n_out]; literals are scalars in memory */
  void (*fn)(void);                /* a function for run, or NULL */
  void *state;                     /* owned by the call, or NULL */
  void (*fini)(void *state);       /* frees state; NULL without one */
  void *scratch; /* aligned as the backend's memory, scratch_bytes, alive during run only */
  size_t scratch_bytes;
  /* What run takes from the pool that the backend's runs share, beside the arena: each of its
     `borrowers` threads this much.  0: nothing. */
  size_t borrowed;
  int borrowers;
  mr_call_kept_t kept;
  const char *how;                    /* for products: how it is executed, in short; else NULL */
  mr_call_note_t note[MR_CALL_NOTES]; /* up to the first without a text */
  const mr_call_inner_t *inner;       /* [n_inner], of state */
  int n_inner;
  int kernels; /* how many a run starts, on a device; the CPU leaves 0 */
  /* A library chooses how much scratch it takes once the device is there: scratch_bytes has none of
     it (mr_device_ops_t.open_described). */
  bool scratch_unknown;
  bool by_host; /* the host takes part in each run, which cannot be recorded */
  bool serial;  /* too small for several threads; set before lowering, and a rule may change it */
  const struct mr_compile_options *options; /* of the compilation; NULL after lowering */
};

/* While c is lowered: bytes, a power of two in [1,64], that the addresses of its operands and
   results are multiples of in every run.  Those of the scratch are aligned as the backend's memory.
   Rules that declare an alignment to a library declare no more than this (lower.c). */
size_t mr__call_align(const mr_call_t *c);

/* The rules of scan, while and cond on any backend (control.c), which a backend's lower calls:
   within one call, the host loops over compiled graphs or chooses one of them, and reads the index
   or condition through the backend's copy, unless the run is recorded and the device decides
   (mr_record_ops_t.choose and loop).  Each fills c for its equation and returns MR_OK,
   MR_ERR_NOMEM, or the error of compiling a graph inside. c->fini frees c->state, also after a
   failure. */
mr_err_t mr__scan_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__while_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__cond_lower(mr_call_t *c, mr_diag_t *diag);
/* The rules of collectives on any backend (collectives.c), in the same way: MR_ERR_NORULE if no
   rank of mr_compile_options_t is bound to the axis, MR_ERR_SHAPE if it has another size. */
mr_err_t mr__psum_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__pmax_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__pmin_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__axis_index_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__all_gather_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__reduce_scatter_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__all_to_all_lower(mr_call_t *c, mr_diag_t *diag);
mr_err_t mr__ppermute_lower(mr_call_t *c, mr_diag_t *diag);
/* Returns the rule above that lowers op; NULL: op is no loop, no branch and no collective. */
typedef mr_err_t mr_call_lower_fn(mr_call_t *c, mr_diag_t *diag);
mr_call_lower_fn *mr__control_rule(const mr_op_def_t *op);

MR_END_DECLS

#endif
