/* Backends: a backend is a table of the functions by which the executor uses a device.

   The executor plans memory, binds calls and runs them in order; it contains no code for a device.
   A backend is one constant, listed in model/exec/backends.def; the first one listed is the
   default. */
#ifndef MR_MODEL_EXEC_BACKEND_H
#define MR_MODEL_EXEC_BACKEND_H

#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/exec/call.h"

MR_BEGIN_DECLS

typedef enum mr_copy_way {
  MR_COPY_IN,    /* from the host's memory */
  MR_COPY_OUT,   /* to the host's memory */
  MR_COPY_WITHIN /* both are the device's */
} mr_copy_way_t;

/* Times by the device's own clock. */
typedef struct mr_backend_clock {
  void *(*create)(void);        /* a stamp; NULL without memory */
  void (*destroy)(void *stamp); /* no command under way may stamp it; NULL is fine */
  /* The device stamps it when the commands given so far are done; an earlier time is forgotten. */
  void (*record)(void *stamp);
  /* Nanoseconds from one stamp to a later one, both recorded, with their commands done; -1: the
     device has failed. */
  int64_t (*between)(void *from, void *to);
} mr_backend_clock_t;

/* A compiled kernel. */
typedef struct mr_backend_kernel {
  int registers; /* of a work-item; -1: unknown */
  int stack; /* bytes of memory of a work-item that hold what registers could not; -1: unknown */
} mr_backend_kernel_t;

typedef struct mr_backend mr_backend_t;
struct mr_backend {
  const char *name; /* "cpu" */
  size_t align;     /* of arrays, and of blocks in an arena: a power of two, at least 64 */
  bool host;        /* the host can read and write its memory in place */

  /* Opens device `number` of this backend, "0" or "1", for this process, or the usual one with
     NULL; opening it again is fine.  MR_OK; MR_ERR_CONFIG for a number that it does not have, or if
     the process already uses another one; MR_ERR_UNAVAILABLE without driver or device.  Any thread;
     blocks while a driver starts. */
  mr_err_t (*open)(const char *number, mr_diag_t *diag);
  /* Opens the described device `what` in place of one, for graphs that are planned and never run:
     it has no memory to take, and build refuses.  fma and bandwidth are its description's, room its
     memory.  MR_OK; MR_ERR_CONFIG if this process has opened a device of this backend already;
     failures of reading the description.  NULL: this backend has none. */
  mr_err_t (*open_described)(const char *what, mr_diag_t *diag);
  /* Writes a description of the open device, whose limits are measured.  MR_OK; the errors of open;
     NULL as open_described. */
  mr_err_t (*write_described)(FILE *to, mr_diag_t *diag);
  /* Asked before each compilation.  MR_OK, or MR_ERR_CONFIG if the environment asks for something
     that this machine cannot do. */
  mr_err_t (*check)(mr_diag_t *diag);
  /* Tells what drivers and devices this machine has, in lines for people: say(arg, line), each
     valid during the call. */
  void (*describe)(void (*say)(void *arg, const char *line), void *arg);

  /* ---- memory ---- */
  /* At least bytes, aligned, contents undefined; NULL without memory.  Any thread. */
  void *(*take)(size_t bytes);
  void (*give)(void *data, size_t bytes); /* frees what take returned for bytes; NULL is fine */
  size_t (*room)(void);                   /* the most bytes that this process may have in all */
  /* For people: bytes of the open device that are not in blocks of take.  Sets *at_open to what all
     programs used when it was opened, this one's driver included, and returns what was taken since
     then by libraries and loaded kernels; other programs' changes are in it.  0 if it cannot be
     asked.  NULL: there are none, or no driver tells. */
  size_t (*beside)(size_t *at_open);
  /* Copies before it returns, MR_COPY_WITHIN before any later command. from and to do not overlap.
   */
  void (*copy)(void *to, const void *from, size_t bytes, mr_copy_way_t way);

  /* ---- commands that are done later; all NULL if a run has ended when mr_exec_start returns ----
     Commands run in the order in which they were given, copies included. */
  /* Gives a copy to or from the host, whose bytes must stay as they are until it is done. */
  void (*copy_later)(void *to, const void *from, size_t bytes, mr_copy_way_t way);
  /* Marks the end of the commands given so far; NULL without memory. */
  void *(*mark)(void);
  /* Whether the commands before mark are done, for which wait blocks: MR_OK, or the failure of one
     of them, and mark is freed; MR_AGAIN, only without wait: not yet.  NULL: all commands. */
  mr_err_t (*reached)(void *mark, bool wait, mr_diag_t *diag);

  /* ---- runs that are given again; both NULL: each run gives its commands one by one ---- */
  /* Gives the commands of a run, which give(arg) gives too, to this device alone and without
     waiting.  They are the same for the same at[0,n), the addresses that change from run to run:
     so the backend may record them once, by calling give, and then start them as one.  *kept is
     the backend's, NULL before the first run; one run with it at a time. */
  void (*repeat)(void **kept, const void *const *at, int n, void (*give)(void *arg), void *arg);
  void (*forget)(void *kept); /* frees it; its commands may be under way.  NULL is fine */

  /* ---- commands that values in the device's memory decide; both NULL: the host reads these values
     during a run, and a graph that has any is not given to repeat ----
     While repeat records on the calling thread no value is known, and the runs of a recording may
     find different ones: these calls then record all commands, for the device to choose from in
     each run, and return true.  At other times they give nothing and return false: the caller
     reads the value and gives what follows from it. */
  /* The device runs one of n >= 1 branches: number *index, clamped to [0,n).  give(arg, j) gives
     branch j; it is called for each j. */
  bool (*choose)(const int32_t *index, int n, void (*give)(void *arg, int j), void *arg);
  /* The device runs a loop, whose rounds end when *verdict is 0 before one.  give(arg, 0) gives
     what comes before the first round and give(arg, 1) one round, each once, in this order; both
     end with the commands that write *verdict. */
  bool (*loop)(const uint8_t *verdict, void (*give)(void *arg, int part), void *arg);

  /* ---- copies beside the commands; all NULL: copies run among them alone ----
     Two more queues: one of copies from the host (MR_COPY_IN) and one of copies to it
     (MR_COPY_OUT).  Each runs in order, while the commands and the other one run. */
  /* Gives a copy to the queue of its way.  Commands that took the device's memory or used it last
     are done, or a follow_beside is behind them.  Commands that use `to` or write `from` come after
     a mark behind the copy is reached, or behind a wait_beside.  The host's bytes stay until that
     mark is reached.  Any thread. */
  void (*copy_beside)(void *to, const void *from, size_t bytes, mr_copy_way_t way);
  /* Marks the end of these copies, as mark does of the commands; NULL without memory, when they are
     done. */
  void *(*mark_beside)(mr_copy_way_t way);
  /* Copies that are given to the queue from here on begin when the commands given so far are done.
     The host does not wait. */
  void (*follow_beside)(mr_copy_way_t way);
  /* Commands that are given from here on, memory given back included, begin when the copies given
     to the queue so far are done.  The host does not wait.  While repeat records on the calling
     thread, every start of the recording waits for the copies given before that start; it is then
     no command of a branch or loop. */
  void (*wait_beside)(mr_copy_way_t way);

  /* ---- memory of the host that the device copies from and to directly; both NULL: as all is ----
   */
  /* Makes host[0,bytes) such memory until unpin, which comes before the memory is freed.  false: it
     stays as it is, and copies take longer. */
  bool (*pin)(void *host, size_t bytes);
  void (*unpin)(void *host); /* for which pin has returned true; no copy of it may be under way */

  /* How a profile times calls; NULL: by the host's clock, from a call's start until the device is
     done, or has returned if it computes at once. */
  const mr_backend_clock_t *clock;

  /* ---- compiling ---- */
  /* Fills c->run and what it needs for c->eqn, of any kind but ALIAS and CALL.  MR_OK,
     MR_ERR_NORULE if the backend cannot compute it, or MR_ERR_NOMEM.  The executor calls c->fini on
     c->state, also after a failure. */
  mr_err_t (*lower)(mr_call_t *c, mr_diag_t *diag);
  /* Compiles what lower has written for call[0,n), all calls of a graph that will run.  MR_OK,
     MR_ERR_UNAVAILABLE if the device's compiler refuses it, or MR_ERR_NOMEM.  NULL: lower has done
     everything. */
  mr_err_t (*build)(const mr_call_t *call, int n, mr_diag_t *diag);
  /* Compiles the generated kernels of call[0,n) without loading them, and reports each one:
     say(arg, c, k).  Kernels of libraries are not among them.  Needs no memory of the device. Fails
     as build; NULL: the backend does not report its kernels. */
  mr_err_t (*inspect)(const mr_call_t *call, int n,
                      void (*say)(void *arg, const mr_call_t *c, const mr_backend_kernel_t *k),
                      void *arg, mr_diag_t *diag);
  /* What the passes need to know (transforms/passes.h). */
  const struct mr_target *target;

  /* ---- running ---- */
  int (*threads)(void); /* the default number of the host's threads for a run, >= 1 */
  /* The number of processors that a run's threads can be pinned to, counted before any thread was
     pinned; 0: unknown. */
  int (*processors)(void);
  /* The executor calls begin and end around a run, on its thread.  In between, calls may use
     `threads` of the host's threads, each pinned to a processor of its own if pin. end takes what
     begin returned. */
  int (*begin)(int threads, bool pin);
  void (*end)(int before);
  /* Between begin and end: changes the number of threads, to 1 before serial calls and back after
     them. */
  void (*spread)(int threads);
  /* Ends the threads that wait for work of the calling thread, which runs nothing for a while. */
  void (*leave)(void);

  /* ---- limits of this machine, measured ---- */
  double (*fma)(mr_dtype_t dtype, int threads); /* GFLOP/s of fused multiply-adds */
  double (*bandwidth)(int threads); /* GB/s of large copies, reads and writes; 0: no memory */
};

extern const mr_backend_t *const mr_backends[]; /* ends at NULL; at least one */
/* The first of mr_backends; static, never NULL. */
const mr_backend_t *mr_backend_default(void);
/* The backend of that name, static; NULL if this build has none. */
const mr_backend_t *mr_backend_find(const char *name);
/* Calls leave of every backend: ends the threads that wait for work of the calling thread.  A
   thread calls it when it will run no graph for a while, before another thread begins to run
   graphs. */
void mr_backends_leave(void);

MR_END_DECLS

#endif
