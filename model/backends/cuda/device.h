/* A CUDA device: its streams, memory, compiled kernels and handles of libraries.

   Each device of a process has streams, blocks, kernels and handles of its own; the usual device is
   that of the environment's MILLRACE_CUDA, else 0.  The process shares the driver with its context
   and pool of memory of each GPU, the files of NVIDIA's libraries, the tuning files and the kernel
   cache.  Commands run in the order in which they were given (one stream), and copies beside them
   in theirs (two); all calls may come from any thread, whose current device they set.

   Implemented in device.c, describe.c, memory.c, pinned.c (copies that are done later), beside.c
   (copies beside the commands), mark.c and clock.c.
 */
#ifndef MR_MODEL_BACKENDS_CUDA_DEVICE_H
#define MR_MODEL_BACKENDS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdint.h>

#include "model/backends/cuda/api.h"
#include "model/backends/cuda/cublaslt.h"
#include "model/backends/cuda/described.h"
#include "model/backends/kernels/texts.h"
#include "model/exec/backend.h"
#include "model/transforms/passes.h"

/* The streams, by number: those of copies to and from the host have that of their way. */
enum {
  MR_CUDA_COPIES_IN = MR_COPY_IN,
  MR_CUDA_COPIES_OUT = MR_COPY_OUT,
  MR_CUDA_COMMANDS,
  MR_CUDA_QUEUES
};

/* A stream of copies beside the commands. */
typedef struct mr_cuda_beside {
  cudaStream_t stream;
  cudaEvent_t given;  /* in the stream of commands: what the next copies wait for */
  cudaEvent_t copied; /* behind the last copy */
} mr_cuda_beside_t;

enum { MR_CUDA_DEPTH = 8 }; /* branches and loops inside each other, at most */

typedef struct mr_cuda_device {
  const mr_cuda_api_t *cu;
  const mr_device_t *device; /* whose context this is */
  unsigned number;
  int major, minor; /* compute capability */
  int processors;   /* streaming multiprocessors */
  size_t memory;    /* bytes */
  size_t used;      /* bytes, by all programs when it was opened: CUDA's context is in it */
  const mr_cuda_described_t *described; /* a description in its place; NULL: it is there */
  mr_cuda_described_t description;      /* that one */
  cudaStream_t stream;                  /* of commands */
  mr_cuda_beside_t beside[MR_CUDA_COMMANDS];
  cudaMemPool_t pool;      /* what its blocks are taken from, the process's for this GPU; NULL:
                              cudaMalloc gives them */
  _Atomic size_t unpooled; /* bytes of blocks that cudaMalloc gave; relaxed: for people */
  char name[256];
  mr_target_t target;
  struct mr_cuda_pins *pins; /* [MR_CUDA_QUEUES] (pinned.c) */
  struct {
    pthread_mutex_t lock;
    mr_kernel_texts_t texts; /* built: a cudaKernel_t */
    cudaLibrary_t *library;  /* [n]: what the kernels were loaded from */
    size_t n, cap;
  } programs; /* program.c */
  struct {
    pthread_mutex_t lock; /* held while a thread captures */
    cudaStream_t stream;  /* NULL before the first capture */
  } capturing;            /* captured.c */
  /* One thread at a time captures, so that the streams serve all captures. */
  struct {
    pthread_mutex_t lock;
    bool tried;
    cudaKernel_t branch, round;
    cudaStream_t stream[MR_CUDA_DEPTH]; /* of the bodies at each depth */
    char why[240];                      /* what refused; empty: nothing did */
  } conditions;                         /* condition.c */
  struct {
    pthread_mutex_t lock;
    const mr_cublaslt_t *of;      /* the table that made it; NULL: none yet */
    const mr_cublaslt_t *refused; /* the table whose library did not start here; NULL: none */
    const mr_cublaslt_t *said;    /* the table of whose failure a notice was sent (blas.c) */
    cublasStatus_t why;
    cublasLtHandle_t handle;
  } lt;                        /* algorithm.c */
  struct mr_cuda_plans *plans; /* of attention (attention.c); NULL: without cuDNN */
  /* 1 after the first failed command, 2 once `why` names it: release, acquire (device.c) */
  _Atomic int failed;
  char why[400]; /* the first failure; written by the thread that has set failed to 1 */
} mr_cuda_device_t;

/* As in mr_device_ops_t; open copies *target for the device.  A described device has the fields up
   to `used`, and no calls of CUDA. */
mr_err_t mr__cuda_open(mr_device_t *device, const char *number, const mr_target_t *target,
                       mr_diag_t *diag);
mr_err_t mr__cuda_open_described(mr_device_t *device, const char *what, const mr_target_t *target,
                                 mr_diag_t *diag);
void mr__cuda_close(mr_device_t *device);
mr_err_t mr__cuda_write_described(const mr_device_t *device, FILE *to, mr_diag_t *diag);

/* As mr_device_ops_t.describe: each device with its compute capability and memory, the driver, and
   which libraries were found where (describe.c). */
void mr__cuda_describe(void (*say)(void *arg, const char *line), void *arg);

/* The CUDA device of an open one, which becomes the calling thread's current one.  It lives until
   mr__cuda_close.  Cannot fail. */
mr_cuda_device_t *mr__cuda_use(const mr_device_t *device);

/* Returns the stream that the calling thread's commands for d are given to, which is the
   recording's if it records them. */
cudaStream_t mr__cuda_stream(mr_cuda_device_t *d);
/* Returns the stream of that number. */
cudaStream_t mr__cuda_queue(mr_cuda_device_t *d, int queue);

/* What a thread records instead of starting it (captured.c).  It may give kernels and copies within
   the device; a command that fails is kept here, and ends the recording and not the device. */
typedef struct mr_cuda_recording {
  const mr_cuda_device_t *d; /* whose commands are recorded */
  cudaStream_t stream;       /* that commands are given to now */
  int conditions;            /* branches and loops so far */
  int depth;                 /* of those around the next command */
  char why[240];             /* the first failure; empty: none */
} mr_cuda_recording_t;

/* Begins a recording of the calling thread's commands in *r, which stays the caller's; NULL: ends
   it. */
void mr__cuda_record(mr_cuda_recording_t *r);
mr_cuda_recording_t *mr__cuda_recording(void); /* the calling thread's, until it ends; NULL: none */

/* ---- memory (memory.c) ----
   Blocks are taken and given back in the order of the stream's commands: giving one back does not
   wait for the kernels that still use it, but without a pool, where it waits for all commands.  As
   in mr_memory_ops_t: take returns a block that give frees, or NULL without memory and on a
   described device. */
void *mr__cuda_take(const mr_device_t *device, size_t bytes);
void mr__cuda_give(const mr_device_t *device, void *data, size_t bytes);
size_t mr__cuda_room(const mr_device_t *device);
size_t mr__cuda_beside(const mr_device_t *device, size_t *at_open);
void mr__cuda_copy(const mr_device_t *device, void *to, const void *from, size_t bytes,
                   mr_copy_way_t way);

/* ---- copies that are done later (pinned.c) ----
   The device copies from and to pinned memory alone.  Bytes of the host that are not pinned go
   through a pinned buffer: on their way in they are copied there at once, on their way out they are
   copied from there by the call that finds the copy done. */
void mr__cuda_copy_later(const mr_device_t *device, void *to, const void *from, size_t bytes,
                         mr_copy_way_t way);
/* The same in the stream of that number, to (in) or from the host, through pinned memory if there
   is any: without, the call returns when the copy is done. */
cudaError_t mr__cuda_pinned_copy(mr_cuda_device_t *d, int queue, void *to, const void *from,
                                 size_t bytes, bool in);
/* Records event behind all commands given to a stream so far, if it is not NULL, and returns the
   number of copies until then. */
uint64_t mr__cuda_pinned_mark(mr_cuda_device_t *d, int queue, cudaEvent_t event, cudaError_t *code);
/* Ends the first `until` copies of a stream, whose commands are done. */
void mr__cuda_pinned_settle(mr_cuda_device_t *d, int queue, uint64_t until);
/* Takes and frees d->pins; nothing of d is under way.  MR_OK or MR_ERR_NOMEM. */
mr_err_t mr__cuda_pins_create(mr_cuda_device_t *d, mr_diag_t *diag);
void mr__cuda_pins_destroy(mr_cuda_device_t *d);
/* As in mr_memory_ops_t: false if the memory stays as it is. */
bool mr__cuda_pin(const mr_device_t *device, void *host, size_t bytes);
void mr__cuda_unpin(const mr_device_t *device, void *host);

/* ---- copies beside the commands (beside.c), as in mr_queue_ops_t ---- */
void mr__cuda_copy_beside(const mr_device_t *device, void *to, const void *from, size_t bytes,
                          mr_copy_way_t way);
void mr__cuda_follow_beside(const mr_device_t *device, mr_copy_way_t way);
void mr__cuda_wait_beside(const mr_device_t *device, mr_copy_way_t way);

/* ---- marks (mark.c), as in mr_queue_ops_t ----
   NULL if a mark cannot be made; reached frees it, unless it returns MR_AGAIN. */
void *mr__cuda_mark(const mr_device_t *device);
void *mr__cuda_mark_beside(const mr_device_t *device, mr_copy_way_t way);
mr_err_t mr__cuda_reached(const mr_device_t *device, void *mark, bool wait, mr_diag_t *diag);

/* ---- times (clock.c) ---- */
extern const mr_clock_ops_t mr__cuda_clock;

/* ---- failures ----
   A run cannot return an error.  The first command of a device that fails sends a notice; from then
   on that device, and no other one, refuses to compile and copies give bytes 0xFF, which are NaN in
   every float. */
void mr__cuda_failed(mr_cuda_device_t *d, cudaError_t code, const char *what);
void mr__cuda_failed_by(mr_cuda_device_t *d, const char *why,
                        const char *what);                  /* of a library: its own words */
void mr__cuda_refused(const mr_call_t *c, const char *why); /* of a call: names op and scope */
/* Ends a call whose commands were given, or refused with `code`.  With MILLRACE_SYNC=1 it waits for
   them, so that the notice of a failure names the op and its scope; else the first wait for a mark
   finds it. */
void mr__cuda_ran(mr_cuda_device_t *d, const mr_call_t *c, cudaError_t code);
/* As mr_device_ops_t.usable: MR_OK, or MR_ERR_UNAVAILABLE after a failure. */
mr_err_t mr__cuda_usable(const mr_device_t *device, mr_diag_t *diag);

#endif
