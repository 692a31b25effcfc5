/* Backends and devices: by what functions the executor uses a device.

   A backend is one constant, listed in model/exec/backends.def; the first one listed is the
   default.  Its functions form tables, one for each thing that a caller needs: opening, memory,
   queues, recording, compiling, the host's threads, limits, collectives.  A device is an object:
   one set of processors, one GPU.  A process may use several devices of one backend at a time;
   every function takes the device that it is for.  What all devices of a backend share, because the
   process has it once (a driver, libraries, the folder of compiled kernels, the threads of the
   host), is the backend's and says so where it is declared.

   The executor plans memory, binds calls and runs them in order; it contains no code for a
   device. */
#ifndef MR_MODEL_EXEC_BACKEND_H
#define MR_MODEL_EXEC_BACKEND_H

#include <stdio.h>

#include "base/decls.h"
#include "base/err.h"
#include "model/exec/call.h"

MR_BEGIN_DECLS

typedef struct mr_backend mr_backend_t;

/* An open device, as mr_device_open (device.h) gives it.  Its members do not change while it is
   open, and any thread may read them. */
typedef struct mr_device {
  const mr_backend_t *backend; /* static, never NULL */
  void *context;               /* the backend's own; owned by the device */
  int index;        /* its number among the backend's devices, from 0; -1: it has none, as all
                       processors together and a described device */
  const char *name; /* as users write it: "cpu", "cpu:1/4", "opencl:1"; owned by the device */
} mr_device_t;

enum { MR_DEVICE_KEY = 300 }; /* room for what is behind a name's colon */

/* ---- opening, and what there is ---- */
typedef struct mr_device_ops {
  /* Writes which device of this backend `number` means, "1", or the usual one with NULL, to key, so
     that two words for one device give one key; "" for a device without a number.  Touches no
     device.  MR_OK, or MR_ERR_CONFIG for a word that names none. */
  mr_err_t (*key)(const char *number, char key[MR_DEVICE_KEY], mr_diag_t *diag);
  /* Opens the device that `number` means, as key has it: d->backend, d->index and d->name are set,
     and this sets d->context.  MR_OK; MR_ERR_CONFIG for a device that this machine does not have;
     MR_ERR_UNAVAILABLE without driver or device; MR_ERR_NOMEM.  After a failure close is not
     called.  One call of this, of open_described and of close at a time in a backend; blocks while
     a driver starts. */
  mr_err_t (*open)(mr_device_t *d, const char *number, mr_diag_t *diag);
  /* Opens the described device `what` in place of one, for graphs that are planned and never run:
     it has no memory to take, and build refuses.  fma and bandwidth are its description's, room its
     memory.  MR_OK; MR_ERR_NOMEM; failures of reading the description.  NULL: this backend has
     none. */
  mr_err_t (*open_described)(mr_device_t *d, const char *what, mr_diag_t *diag);
  /* Frees d->context.  Waits for commands that are under way; no block is taken, no mark unread and
     no other call in progress.  Cannot fail. */
  void (*close)(mr_device_t *d);
  /* Writes a description of d, whose limits are measured.  MR_OK or MR_ERR_UNAVAILABLE; NULL as
     open_described. */
  mr_err_t (*write_described)(const mr_device_t *d, FILE *to, mr_diag_t *diag);
  /* Asked before each compilation.  MR_OK; MR_ERR_UNAVAILABLE once a command of d has failed;
     MR_ERR_CONFIG if the environment asks for something that this machine cannot do. */
  mr_err_t (*usable)(const mr_device_t *d, mr_diag_t *diag);
  /* Of the backend: tells what drivers and devices this machine has, in lines for people: say(arg,
     line), each valid during the call.  A line of a device begins with its name and a colon. */
  void (*describe)(void (*say)(void *arg, const char *line), void *arg);
} mr_device_ops_t;

/* ---- memory ---- */
typedef enum mr_copy_way {
  MR_COPY_IN,    /* from the host's memory */
  MR_COPY_OUT,   /* to the host's memory */
  MR_COPY_WITHIN /* both are the device's */
} mr_copy_way_t;

typedef struct mr_memory_ops {
  /* At least bytes, aligned, contents undefined; NULL without memory.  Any thread.  Only this
     device may be given the block's addresses, unless the backend's memory is the host's. */
  void *(*take)(const mr_device_t *d, size_t bytes);
  /* Frees what take returned for d and bytes; NULL is fine. */
  void (*give)(const mr_device_t *d, void *data, size_t bytes);
  /* The most bytes that one take may have now, but for what the system does not tell. */
  size_t (*room)(const mr_device_t *d);
  /* For people: bytes of the device that are not in blocks of take.  Sets *at_open to what all
     programs used when it was opened, this one's driver included, and returns what was taken since
     then by libraries and loaded kernels; other programs' changes are in it.  0 if it cannot be
     asked.  NULL: there are none, or no driver tells. */
  size_t (*beside)(const mr_device_t *d, size_t *at_open);
  /* Copies before it returns, MR_COPY_WITHIN before any later command. from and to do not overlap.
   */
  void (*copy)(const mr_device_t *d, void *to, const void *from, size_t bytes, mr_copy_way_t way);
  /* Memory of the host that the device copies from and to directly; both NULL: as all is.  Makes
     host[0,bytes) such memory until unpin, which comes before the memory is freed.  false: it
     stays as it is, and copies take longer. */
  bool (*pin)(const mr_device_t *d, void *host, size_t bytes);
  /* For which pin has returned true; no copy of it may be under way. */
  void (*unpin)(const mr_device_t *d, void *host);
} mr_memory_ops_t;

/* ---- queues, marks and copies that are done later ---- */

/* Times by the device's own clock. */
typedef struct mr_clock_ops {
  void *(*create)(const mr_device_t *d); /* a stamp; NULL without memory */
  /* No command under way may stamp it; NULL is fine. */
  void (*destroy)(const mr_device_t *d, void *stamp);
  /* The device stamps it when the commands given so far are done; an earlier time is forgotten. */
  void (*record)(const mr_device_t *d, void *stamp);
  /* Nanoseconds from one stamp to a later one, both recorded, with their commands done; -1: the
     device has failed. */
  int64_t (*between)(const mr_device_t *d, void *from, void *to);
} mr_clock_ops_t;

/* The commands of a device run in the order in which they were given, copies included; those of
   two devices in any order. */
typedef struct mr_queue_ops {
  /* Gives a copy to or from the host, whose bytes must stay as they are until it is done. */
  void (*copy_later)(const mr_device_t *d, void *to, const void *from, size_t bytes,
                     mr_copy_way_t way);
  /* Marks the end of the commands given so far; NULL without memory. */
  void *(*mark)(const mr_device_t *d);
  /* Whether the commands before mark, which is d's, are done, for which wait blocks: MR_OK, or the
     failure of one of them, and mark is freed; MR_AGAIN, only without wait: not yet.  NULL: all
     commands. */
  mr_err_t (*reached)(const mr_device_t *d, void *mark, bool wait, mr_diag_t *diag);

  /* Copies beside the commands; all NULL: copies run among them alone.  Two more queues: one of
     copies from the host (MR_COPY_IN) and one of copies to it (MR_COPY_OUT).  Each runs in order,
     while the commands and the other one run.

     Gives a copy to the queue of its way.  Commands that took the device's memory or used it last
     are done, or a follow_beside is behind them.  Commands that use `to` or write `from` come after
     a mark behind the copy is reached, or behind a wait_beside.  The host's bytes stay until that
     mark is reached.  Any thread. */
  void (*copy_beside)(const mr_device_t *d, void *to, const void *from, size_t bytes,
                      mr_copy_way_t way);
  /* Marks the end of these copies, as mark does of the commands; NULL without memory, when they are
     done. */
  void *(*mark_beside)(const mr_device_t *d, mr_copy_way_t way);
  /* Copies that are given to the queue from here on begin when the commands given so far are done.
     The host does not wait. */
  void (*follow_beside)(const mr_device_t *d, mr_copy_way_t way);
  /* Commands that are given from here on, memory given back included, begin when the copies given
     to the queue so far are done.  The host does not wait.  While repeat records on the calling
     thread, every start of the recording waits for the copies given before that start; it is then
     no command of a branch or loop. */
  void (*wait_beside)(const mr_device_t *d, mr_copy_way_t way);

  /* The driver's own handle of the queue to which the calling thread's commands for d are given,
     for a library that gives commands itself; d is then the thread's current device.  *recorded:
     the thread records them (mr_record_ops_t) and they run later.  NULL: libraries have no such
     handle. */
  void *(*stream)(const mr_device_t *d, bool *recorded);

  /* How a profile times calls; NULL: by the host's clock, from a call's start until the device is
     done. */
  const mr_clock_ops_t *clock;
} mr_queue_ops_t;

/* ---- runs that are given again ---- */
typedef struct mr_record_ops {
  /* Gives the commands of a run, which give(arg) gives too, to d alone and without waiting.  They
     are the same for the same at[0,n), the addresses that change from run to run: so the backend
     may record them once, by calling give, and then start them as one.  *kept is the backend's,
     NULL before the first run, and always given with the same d; one run with it at a time. */
  void (*repeat)(const mr_device_t *d, void **kept, const void *const *at, int n,
                 void (*give)(void *arg), void *arg);
  /* Frees it; its commands may be under way.  NULL is fine. */
  void (*forget)(const mr_device_t *d, void *kept);

  /* Commands that values in the device's memory decide; both NULL: the host reads these values
     during a run, and a graph that has any is not given to repeat.

     While repeat records on the calling thread no value is known, and the runs of a recording may
     find different ones: these calls then record all commands, for the device to choose from in
     each run, and return true.  At other times they give nothing and return false: the caller
     reads the value and gives what follows from it.

     The device runs one of n >= 1 branches: number *index, clamped to [0,n).  give(arg, j) gives
     branch j; it is called for each j. */
  bool (*choose)(const mr_device_t *d, const int32_t *index, int n, void (*give)(void *arg, int j),
                 void *arg);
  /* The device runs a loop, whose rounds end when *verdict is 0 before one.  give(arg, 0) gives
     what comes before the first round and give(arg, 1) one round, each once, in this order; both
     end with the commands that write *verdict. */
  bool (*loop)(const mr_device_t *d, const uint8_t *verdict, void (*give)(void *arg, int part),
               void *arg);
} mr_record_ops_t;

/* ---- compiling ---- */

/* A compiled kernel. */
typedef struct mr_backend_kernel {
  int registers; /* of a work-item; -1: unknown */
  int stack; /* bytes of memory of a work-item that hold what registers could not; -1: unknown */
} mr_backend_kernel_t;

typedef struct mr_compile_ops {
  /* What the passes need to know of d (transforms/passes.h); valid while d is open.  NULL: of any
     device, as if it had no libraries; static. */
  const struct mr_target *(*target)(const mr_device_t *d);
  /* Fills c->run and what it needs for c->eqn, of any kind but ALIAS and CALL, on c->device. MR_OK,
     MR_ERR_NORULE if the backend cannot compute it, or MR_ERR_NOMEM.  The executor calls c->fini on
     c->state, also after a failure. */
  mr_err_t (*lower)(mr_call_t *c, mr_diag_t *diag);
  /* Compiles what lower has written for call[0,n), all calls of a graph that will run on d.  MR_OK,
     MR_ERR_UNAVAILABLE if the device's compiler refuses it, or MR_ERR_NOMEM.  NULL: lower has done
     everything. */
  mr_err_t (*build)(const mr_device_t *d, const mr_call_t *call, int n, mr_diag_t *diag);
  /* Compiles the generated kernels of call[0,n) without loading them, and reports each one:
     say(arg, c, k).  Kernels of libraries are not among them.  Needs no memory of the device. Fails
     as build; NULL: the backend does not report its kernels. */
  mr_err_t (*inspect)(const mr_device_t *d, const mr_call_t *call, int n,
                      void (*say)(void *arg, const mr_call_t *c, const mr_backend_kernel_t *k),
                      void *arg, mr_diag_t *diag);
} mr_compile_ops_t;

/* ---- the host's threads that calls of a run use ---- */
typedef struct mr_team_ops {
  int (*threads)(const mr_device_t *d); /* the default number for a run, >= 1 */
  /* The number of processors of d that a run's threads can be pinned to, counted before any thread
     was pinned; 0: unknown. */
  int (*processors)(const mr_device_t *d);
  /* The executor calls begin and end around a run, on its thread.  In between, calls may use
     `threads` of the host's threads, each pinned to a processor of d if pin. end takes what begin
     returned. */
  int (*begin)(const mr_device_t *d, int threads, bool pin);
  void (*end)(const mr_device_t *d, int before);
  /* Between begin and end: changes the number of threads, to 1 before serial calls and back after
     them. */
  void (*spread)(const mr_device_t *d, int threads);
  /* Of the backend: ends the threads that wait for work of the calling thread, which runs nothing
     for a while. */
  void (*leave)(void);
} mr_team_ops_t;

/* ---- limits, measured ---- */
typedef struct mr_limit_ops {
  /* GFLOP/s of fused multiply-adds. */
  double (*fma)(const mr_device_t *d, mr_dtype_t dtype, int threads);
  /* GB/s of large copies, reads and writes; 0: no memory. */
  double (*bandwidth)(const mr_device_t *d, int threads);
} mr_limit_ops_t;

struct mr_backend {
  const char *name; /* "cpu" */
  size_t align;     /* of arrays, and of blocks in an arena: a power of two, at least 64 */
  bool host;        /* the host can read and write its memory in place */
  const mr_device_ops_t *device;
  const mr_memory_ops_t *memory;
  const mr_queue_ops_t *queue;   /* NULL: a run has ended when mr_exec_start returns */
  const mr_record_ops_t *record; /* NULL: each run gives its commands one by one */
  const mr_compile_ops_t *compile;
  const mr_team_ops_t *team; /* NULL: calls of a run use the thread that gives them alone */
  const mr_limit_ops_t *limits;
  const struct mr_collect_ops *collect; /* collect.h; NULL: values go through the host */
};

/* Ends at NULL; at least one.  The device of the first one that has no number, key "", is the
   default one: always open, with context NULL. */
extern const mr_backend_t *const mr_backends[];
/* The backend of that name, static; NULL if this build has none. */
const mr_backend_t *mr_backend_find(const char *name);
/* Calls leave of every backend: ends the threads that wait for work of the calling thread.  A
   thread calls it when it will run no graph for a while, before another thread begins to run
   graphs. */
void mr_backends_leave(void);

/* ---- calls of d's tables, by one name ---- */
static inline void *mr_device_take(const mr_device_t *d, size_t bytes) {
  return d->backend->memory->take(d, bytes);
}
static inline void mr_device_give(const mr_device_t *d, void *data, size_t bytes) {
  d->backend->memory->give(d, data, bytes);
}
static inline size_t mr_device_room(const mr_device_t *d) { return d->backend->memory->room(d); }
static inline void mr_device_copy(const mr_device_t *d, void *to, const void *from, size_t bytes,
                                  mr_copy_way_t way) {
  d->backend->memory->copy(d, to, from, bytes, way);
}
static inline mr_err_t mr_device_usable(const mr_device_t *d, mr_diag_t *diag) {
  return d->backend->device->usable(d, diag);
}
static inline mr_err_t mr_device_reached(const mr_device_t *d, void *mark, bool wait,
                                         mr_diag_t *diag) {
  return d->backend->queue->reached(d, mark, wait, diag);
}
static inline void mr_device_copy_later(const mr_device_t *d, void *to, const void *from,
                                        size_t bytes, mr_copy_way_t way) {
  d->backend->queue->copy_later(d, to, from, bytes, way);
}
static inline void *mr_device_mark(const mr_device_t *d) { return d->backend->queue->mark(d); }
/* With one thread and no known processors on a backend without a team. */
static inline int mr_device_threads(const mr_device_t *d) {
  return d->backend->team ? d->backend->team->threads(d) : 1;
}
static inline int mr_device_processors(const mr_device_t *d) {
  return d->backend->team ? d->backend->team->processors(d) : 0;
}

MR_END_DECLS

#endif
