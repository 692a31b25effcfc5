/* The device that this process computes on, its stream and its memory.

   A process uses one device: the number that mr__cuda_open is given first, else that of the
   environment's MILLRACE_CUDA, else 0.  It is opened at the first use and stays open.  Commands run
   in the order in which they were given (one stream), and copies beside them in theirs (two); all
   calls may come from any thread.

   Implemented in device.c, describe.c, memory.c, pinned.c (copies that are done later), beside.c
   (copies beside the commands), mark.c and clock.c.
 */
#ifndef MR_MODEL_BACKENDS_CUDA_DEVICE_H
#define MR_MODEL_BACKENDS_CUDA_DEVICE_H

#include <stdint.h>

#include "model/backends/cuda/api.h"
#include "model/backends/cuda/described.h"
#include "model/exec/backend.h"

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

typedef struct mr_cuda_device {
  const mr_cuda_api_t *cu;
  unsigned number;
  int major, minor; /* compute capability */
  int processors;   /* streaming multiprocessors */
  size_t memory;    /* bytes */
  size_t used;      /* bytes, by all programs when it was opened: CUDA's context is in it */
  const mr_cuda_described_t *described; /* a description in its place; NULL: it is there */
  cudaStream_t stream;                  /* of commands */
  mr_cuda_beside_t beside[MR_CUDA_COMMANDS];
  cudaMemPool_t pool; /* what its blocks are taken from; NULL: cudaMalloc gives them */
  char name[256];
} mr_cuda_device_t;

/* Opens the device of that number ("0"), or the usual one with NULL.  Errors as mr_backend_t.open.
 */
mr_err_t mr__cuda_open(const char *number, mr_diag_t *diag);

/* As mr_backend_t.  A described device has the fields from number to used, and no calls of CUDA. */
mr_err_t mr__cuda_open_described(const char *what, mr_diag_t *diag);
mr_err_t mr__cuda_write_described(FILE *to, mr_diag_t *diag);

/* As mr_backend_t.describe: each device with its compute capability and memory, the driver, and
   which libraries were found where (describe.c). */
void mr__cuda_describe(void (*say)(void *arg, const char *line), void *arg);

/* Points *d at the device, which is static, makes it the calling thread's current one, and opens
   the usual one if none is open.  MR_OK; MR_ERR_UNAVAILABLE without a driver or device or if it
   cannot be opened, MR_ERR_CONFIG for a MILLRACE_CUDA that is no number or too large: always the
   same answer in one process. */
mr_err_t mr__cuda_device(const mr_cuda_device_t **d, mr_diag_t *diag);

/* The stream that the calling thread's commands are given to, which is the recording's if it
   records; the device is open. */
cudaStream_t mr__cuda_stream(const mr_cuda_device_t *d);
/* The stream of that number. */
cudaStream_t mr__cuda_queue(const mr_cuda_device_t *d, int queue);

/* What a thread records instead of starting it (captured.c).  It may give kernels and copies within
   the device; a command that fails is kept here, and ends the recording and not the device. */
typedef struct mr_cuda_recording {
  cudaStream_t stream; /* that commands are given to now */
  int conditions;      /* branches and loops so far */
  int depth;           /* of those around the next command */
  char why[240];       /* the first failure; empty: none */
} mr_cuda_recording_t;

/* Begins a recording of the calling thread's commands; NULL: ends it. */
void mr__cuda_record(mr_cuda_recording_t *r);
mr_cuda_recording_t *mr__cuda_recording(void); /* the calling thread's; NULL: none */

/* ---- memory (memory.c) ----
   Blocks are taken and given back in the order of the stream's commands: giving one back does not
   wait for the kernels that still use it, but without a pool, where it waits for all commands. */
void *mr__cuda_take(size_t bytes);            /* NULL without memory */
void mr__cuda_give(void *data, size_t bytes); /* what take returned for bytes; NULL is fine */
size_t mr__cuda_room(void);                   /* bytes that can still be taken */
size_t mr__cuda_beside(size_t *at_open);      /* as in mr_backend_t */
/* Copies, after all commands given before, and returns when it is done, or within the device before
   any later command. */
void mr__cuda_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way);

/* ---- copies that are done later (pinned.c) ----
   The device copies from and to pinned memory alone.  Bytes of the host that are not pinned go
   through a pinned buffer: on their way in they are copied there at once, on their way out they are
   copied from there by the call that finds the copy done. */
void mr__cuda_copy_later(void *to, const void *from, size_t bytes, mr_copy_way_t way);
/* The same in the stream of that number, to (in) or from the host, through pinned memory if there
   is any: without, the call returns when the copy is done. */
cudaError_t mr__cuda_pinned_copy(const mr_cuda_device_t *d, int queue, void *to, const void *from,
                                 size_t bytes, bool in);
/* Records event behind all commands given to a stream so far, if it is not NULL, and returns the
   number of copies until then. */
uint64_t mr__cuda_pinned_mark(const mr_cuda_device_t *d, int queue, cudaEvent_t event,
                              cudaError_t *code);
/* Ends the first `until` copies of a stream, whose commands are done. */
void mr__cuda_pinned_settle(int queue, uint64_t until);
/* As in mr_backend_t. */
bool mr__cuda_pin(void *host, size_t bytes);
void mr__cuda_unpin(void *host);

/* ---- copies beside the commands (beside.c), as in mr_backend_t ---- */
void mr__cuda_copy_beside(void *to, const void *from, size_t bytes, mr_copy_way_t way);
void mr__cuda_follow_beside(mr_copy_way_t way);
void mr__cuda_wait_beside(mr_copy_way_t way);

/* ---- marks (mark.c), as in mr_backend_t ---- */
void *mr__cuda_mark(void);
void *mr__cuda_mark_beside(mr_copy_way_t way);
mr_err_t mr__cuda_reached(void *mark, bool wait, mr_diag_t *diag);

/* ---- times (clock.c) ---- */
extern const mr_backend_clock_t mr__cuda_clock;

/* ---- failures ----
   A run cannot return an error.  The first command that fails sends a notice; from then on
   the device refuses to compile and copies give bytes 0xFF, which are NaN in every float. */
void mr__cuda_failed(cudaError_t code, const char *what);
void mr__cuda_failed_by(const char *why, const char *what); /* of a library: its own words */
void mr__cuda_refused(const mr_call_t *c, const char *why); /* of a call: names op and scope */
/* Ends a call whose commands were given, or refused with `code`.  With MILLRACE_SYNC=1 it waits for
   them, so that the notice of a failure names the op and its scope; else the first wait for a mark
   finds it. */
void mr__cuda_ran(const mr_cuda_device_t *d, const mr_call_t *c, cudaError_t code);
mr_err_t mr__cuda_usable(mr_diag_t *diag); /* MR_OK, or MR_ERR_UNAVAILABLE after a failure */

#endif
