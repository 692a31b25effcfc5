/* An OpenCL device: its queues, memory and compiled kernels.

   Each device of a process has a context, queues and memory of its own; all devices of all
   platforms are numbered in one list, in the order in which the platforms list them, and the usual
   one is that of the environment's MILLRACE_OPENCL, else 0.  The process shares libOpenCL, its
   drivers, CLBlast and the kernel cache.  Commands run in the order in which they were given (one
   queue), and copies beside them in theirs (two); all calls may come from any thread.

   Implemented in device.c, memory.c (memory and copies), mark.c and probe.c. */
#ifndef MR_MODEL_BACKENDS_OPENCL_DEVICE_H
#define MR_MODEL_BACKENDS_OPENCL_DEVICE_H

#include <pthread.h>

#include "model/backends/kernels/texts.h"
#include "model/backends/opencl/api.h"
#include "model/exec/backend.h"
#include "model/transforms/passes.h"

/* A block (memory.c). */
typedef struct mr_opencl_region {
  char *base;
  size_t bytes; /* of the address range: whole pages, at least one */
  cl_mem buffer;
} mr_opencl_region_t;

/* The blocks of a device, in the order of their addresses. */
typedef struct mr_opencl_heap {
  pthread_mutex_t lock;
  mr_opencl_region_t *region;
  size_t n, cap;
  size_t taken; /* bytes of all regions */
} mr_opencl_heap_t;

typedef struct mr_opencl_device {
  const mr_opencl_api_t *cl;
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  cl_command_queue copies[2]; /* of copies beside the commands, by their way: in, out */
  unsigned number;            /* in the order of all platforms' devices */
  size_t memory;              /* bytes */
  size_t largest;             /* bytes of one block at most */
  size_t shared;              /* bytes that the items of a group may share */
  bool f64, rounds; /* computes in f64; divides and takes roots of f32 correctly rounded */
  char name[128];
  mr_target_t target;
  mr_opencl_heap_t heap;
  struct {
    pthread_mutex_t lock;
    mr_kernel_texts_t texts; /* built: a cl_program, which several texts may share */
  } programs;                /* program.c */
  /* 1 after the first failed command, 2 once `why` names it: release, acquire (device.c) */
  _Atomic int failed;
  char why[400]; /* the first failure; written by the thread that has set failed to 1 */
} mr_opencl_device_t;

enum { MR_OPENCL_DEVICES = 32 }; /* more are not seen */

/* Writes the devices of all platforms to id[0,n) and returns how many there are, at most n. */
cl_uint mr__opencl_devices(const mr_opencl_api_t *cl, cl_device_id *id, cl_uint n);

/* As in mr_device_ops_t.  open copies *target for the device. */
mr_err_t mr__opencl_open(mr_device_t *device, const char *number, const mr_target_t *target,
                         mr_diag_t *diag);
void mr__opencl_close(mr_device_t *device);
/* The OpenCL device of an open one. */
static inline mr_opencl_device_t *mr__opencl_device(const mr_device_t *of) { return of->context; }

/* ---- memory (memory.c) ----
   A block is a buffer of the device.  Its address is a range of the process's address space that
   nothing can read or write: pointers into it can be computed, and an access by the host is a
   fault.  The calls that take an mr_device_t are those of mr_memory_ops_t and mr_queue_ops_t: take
   returns a block that give frees, or NULL without memory. */
void *mr__opencl_take(const mr_device_t *device, size_t bytes);
void mr__opencl_give(const mr_device_t *device, void *data, size_t bytes);
/* The buffer of d that `at` lies in, and its offset there.  NULL, which no block has: buffer NULL.
 */
cl_mem mr__opencl_find(mr_opencl_device_t *d, const void *at, size_t *offset);
void mr__opencl_copy(const mr_device_t *device, void *to, const void *from, size_t bytes,
                     mr_copy_way_t way);
void mr__opencl_copy_later(const mr_device_t *device, void *to, const void *from, size_t bytes,
                           mr_copy_way_t way);
void mr__opencl_copy_beside(const mr_device_t *device, void *to, const void *from, size_t bytes,
                            mr_copy_way_t way);
size_t mr__opencl_taken(mr_opencl_device_t *d); /* bytes of all blocks not given back yet */

/* ---- marks (mark.c), as in mr_queue_ops_t ----
   NULL if a mark cannot be made; reached frees it, unless it returns MR_AGAIN. */
void *mr__opencl_mark(const mr_device_t *device);
void *mr__opencl_mark_beside(const mr_device_t *device, mr_copy_way_t way);
void mr__opencl_follow_beside(const mr_device_t *device, mr_copy_way_t way);
void mr__opencl_wait_beside(const mr_device_t *device, mr_copy_way_t way);
mr_err_t mr__opencl_reached(const mr_device_t *device, void *mark, bool wait, mr_diag_t *diag);

/* ---- what the machine has (probe.c) ---- */
/* Asks all drivers for their devices in a child process, since a driver may end the process that
   asks.  Writes a line for each device to text[0,n).  MR_OK, also without a device;
   MR_ERR_UNAVAILABLE if there is no library or if the child died or hung: the sentence holds its
   last words. */
mr_err_t mr__opencl_probe(char *text, size_t n, mr_diag_t *diag);

/* ---- failures ----
   A run cannot return an error.  The first command of a device that fails sends a notice; from then
   on that device, and no other one, refuses to compile and copies give bytes 0xFF, which are NaN in
   every float. */
void mr__opencl_failed(mr_opencl_device_t *d, cl_int code, const char *what);
/* Ends a call whose kernels were given, or refused with `code`: a failure names op and scope.  With
   MILLRACE_SYNC=1 it waits for them; else the first wait for a mark finds a later failure. */
void mr__opencl_ran(mr_opencl_device_t *d, const mr_call_t *c, cl_int code);
/* As mr_device_ops_t.usable: MR_OK, or MR_ERR_UNAVAILABLE after a failure. */
mr_err_t mr__opencl_usable(const mr_device_t *device, mr_diag_t *diag);

#endif
