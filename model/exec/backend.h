/* A backend: everything that the executor asks of a device, as a table of functions.

   The executor plans memory, binds calls and runs them in order; it knows no device.  A backend is
   one constant, listed in model/exec/backends.def; the first one listed is the default. */
#ifndef MR_MODEL_EXEC_BACKEND_H
#define MR_MODEL_EXEC_BACKEND_H

#include "base/decls.h"
#include "base/err.h"
#include "model/exec/call.h"

MR_BEGIN_DECLS

typedef enum mr_copy_way {
  MR_COPY_IN,    /* from the host's memory */
  MR_COPY_OUT,   /* to the host's memory */
  MR_COPY_WITHIN /* both are the device's */
} mr_copy_way_t;

typedef struct mr_backend mr_backend_t;
struct mr_backend {
  const char *name; /* "cpu" */
  size_t align;     /* of arrays, and of blocks in an arena: a power of two, at least 64 */
  bool host;        /* the host may read and write its memory in place, too */

  /* MR_ERR_CONFIG: the environment asks of it what this machine cannot do. */
  mr_err_t (*check)(mr_diag_t *diag);

  /* ---- memory ---- */
  /* At least bytes, aligned, contents undefined; NULL without memory.  Any thread. */
  void *(*take)(size_t bytes);
  void (*give)(void *data, size_t bytes); /* what take gave for this many bytes; NULL is accepted */
  size_t (*room)(void);                   /* bytes that this process may have in all */
  /* Done when it returns.  from and to do not overlap. */
  void (*copy)(void *to, const void *from, size_t bytes, mr_copy_way_t way);

  /* ---- compiling ---- */
  /* Fills c->run and what it needs for c->eqn, of any kind but ALIAS and CALL.  MR_ERR_NORULE: the
     backend cannot compute it; c->state is given back by c->fini after a failure, too. */
  mr_err_t (*lower)(mr_call_t *c, mr_diag_t *diag);
  /* What the passes ask (transforms/passes.h). */
  const struct mr_target *target;

  /* ---- running ---- */
  int (*threads)(void); /* of the host that a run uses unless it is told otherwise */
  /* Of the host, which a run's threads may be tied to, as found before any was; 0: unknown. */
  int (*processors)(void);
  /* Around a run, on its thread: calls may use `threads` of the host's threads, each tied to a
     processor of its own if pin.  end takes what begin gave. */
  int (*begin)(int threads, bool pin);
  void (*end)(int before);
  /* Between them, before calls that are serial (threads 1) and before others after such. */
  void (*spread)(int threads);
  /* The calling thread runs nothing for a while: what waits for it there ends. */
  void (*leave)(void);

  /* ---- limits of this machine, measured ---- */
  double (*fma)(mr_dtype_t dtype, int threads); /* GFLOP/s of fused multiply-adds */
  double (*bandwidth)(int threads); /* GB/s of large copies, reads and writes; 0: no memory */
};

extern const mr_backend_t *const mr_backends[]; /* ends at NULL; at least one */
const mr_backend_t *mr_backend_default(void);
/* NULL if this build has none of that name. */
const mr_backend_t *mr_backend_find(const char *name);
/* The calling thread runs no graph for a while (before another thread begins to): threads of every
   backend that wait for it end. */
void mr_backends_leave(void);

MR_END_DECLS

#endif
