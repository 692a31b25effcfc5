/* The device that this process computes on, its queue and its memory.

   The environment's MILLRACE_OPENCL chooses it: a number in the order in which the platforms list
   their devices, 0 without it.  It is opened at the first use and stays open.  Commands run in the
   order in which they were given (one queue); all calls may come from any thread.

   Implemented in device.c and memory.c (memory and copies). */
#ifndef MR_MODEL_BACKENDS_OPENCL_DEVICE_H
#define MR_MODEL_BACKENDS_OPENCL_DEVICE_H

#include "model/backends/opencl/api.h"
#include "model/exec/backend.h"

typedef struct mr_opencl_device {
  const mr_opencl_api_t *cl;
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  size_t memory;    /* bytes */
  bool f64, rounds; /* computes in f64; divides and takes roots of f32 correctly rounded */
  char name[128];
} mr_opencl_device_t;

/* Points *d at the device, which is static.  MR_OK; MR_ERR_UNAVAILABLE without a library or device
   or if it cannot be opened, MR_ERR_CONFIG for a MILLRACE_OPENCL that is no number or too large:
   always the same answer in one process. */
mr_err_t mr__opencl_device(const mr_opencl_device_t **d, mr_diag_t *diag);

/* ---- memory (memory.c) ----
   A block is a buffer of the device.  Its address is a range of the process's address space that
   nothing can read or write: pointers into it can be computed, and an access by the host is a
   fault. */

/* Bytes for a block; NULL without memory. */
void *mr__opencl_take(size_t bytes);
void mr__opencl_give(void *data, size_t bytes); /* what take returned for bytes; NULL is fine */
/* The buffer that `at` lies in, and its offset there.  NULL, which no block has: buffer NULL. */
cl_mem mr__opencl_find(const void *at, size_t *offset);
/* Copies, after all commands given before, and returns when it is done. */
void mr__opencl_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way);

/* ---- failures ----
   A run cannot return an error.  The first command that fails sends a notice; from then on
   the device refuses to compile and copies give bytes 0xFF, which are NaN in every float. */
void mr__opencl_failed(cl_int code, const char *what);
mr_err_t mr__opencl_usable(mr_diag_t *diag); /* MR_OK, or MR_ERR_UNAVAILABLE after a failure */

#endif
