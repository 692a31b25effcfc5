/* The device that this process computes on, its queue and its memory.

   A process uses one device: the number that mr__opencl_open is given first, else that of the
   environment's MILLRACE_OPENCL, else 0, in the order in which the platforms list their devices.
   It is opened at the first use and stays open.  Commands run in the order in which they were given
   (one queue), and copies beside them in theirs (two); all calls may come from any thread.

   Implemented in device.c, memory.c (memory and copies), mark.c and probe.c. */
#ifndef MR_MODEL_BACKENDS_OPENCL_DEVICE_H
#define MR_MODEL_BACKENDS_OPENCL_DEVICE_H

#include "model/backends/opencl/api.h"
#include "model/exec/backend.h"

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
} mr_opencl_device_t;

enum { MR_OPENCL_DEVICES = 32 }; /* more are not seen */

/* Writes the devices of all platforms to id[0,n) and returns how many there are, at most n. */
cl_uint mr__opencl_devices(const mr_opencl_api_t *cl, cl_device_id *id, cl_uint n);

/* Opens the device of that number ("0"), or the usual one with NULL.  Errors as mr_backend_t.open.
 */
mr_err_t mr__opencl_open(const char *number, mr_diag_t *diag);

/* Points *d at the device, which is static, and opens the usual one if none is open.  MR_OK;
   MR_ERR_UNAVAILABLE without a library or device or if it cannot be opened, MR_ERR_CONFIG for a
   MILLRACE_OPENCL that is no number or too large: always the same answer in one process. */
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
/* Copies, after all commands given before, and returns when it is done, or within the device before
   any later command. */
void mr__opencl_copy(void *to, const void *from, size_t bytes, mr_copy_way_t way);
/* The same without waiting: the host's bytes must stay until a later mark is reached. */
void mr__opencl_copy_later(void *to, const void *from, size_t bytes, mr_copy_way_t way);
/* Copies beside the commands, as in mr_backend_t. */
void mr__opencl_copy_beside(void *to, const void *from, size_t bytes, mr_copy_way_t way);
size_t mr__opencl_taken(void); /* bytes of all blocks that have not been given back */

/* ---- marks (mark.c), as in mr_backend_t ---- */
void *mr__opencl_mark(void);
void *mr__opencl_mark_beside(mr_copy_way_t way);
void mr__opencl_follow_beside(mr_copy_way_t way);
void mr__opencl_wait_beside(mr_copy_way_t way);
mr_err_t mr__opencl_reached(void *mark, bool wait, mr_diag_t *diag);

/* ---- what the machine has (probe.c) ---- */
/* Asks all drivers for their devices in a child process, since a driver may end the process that
   asks.  Writes a line for each device to text[0,n).  MR_OK, also without a device;
   MR_ERR_UNAVAILABLE if there is no library or if the child died or hung: the sentence holds its
   last words. */
mr_err_t mr__opencl_probe(char *text, size_t n, mr_diag_t *diag);

/* ---- failures ----
   A run cannot return an error.  The first command that fails sends a notice; from then on
   the device refuses to compile and copies give bytes 0xFF, which are NaN in every float. */
void mr__opencl_failed(cl_int code, const char *what);
/* Ends a call whose kernels were given, or refused with `code`: a failure names op and scope.  With
   MILLRACE_SYNC=1 it waits for them; else the first wait for a mark finds a later failure. */
void mr__opencl_ran(const mr_opencl_device_t *d, const mr_call_t *c, cl_int code);
mr_err_t mr__opencl_usable(mr_diag_t *diag); /* MR_OK, or MR_ERR_UNAVAILABLE after a failure */

#endif
