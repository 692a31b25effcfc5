/* Devices by name, as users write them: "cpu", "opencl", "cuda:1". */
#ifndef MR_MODEL_EXEC_DEVICE_H
#define MR_MODEL_EXEC_DEVICE_H

#include "model/exec/backend.h"

MR_BEGIN_DECLS

/* Checks the form of a name, NAME or NAME:NUMBER, and that this build knows NAME.  Opens nothing.
   MR_OK, or MR_ERR_CONFIG with a sentence that begins "device = ". */
mr_err_t mr_device_check(const char *name, mr_diag_t *diag);

/* Opens the device of that name for this process, and points *out at it: arrays are created there
   by mr_array_on and mr_array_to, functions compiled by mr_jitted_options_t.device,
   mr_compile_options_t.backend and mr_compute_t.device.  It is static and needs no closing; opening
   it again is fine.  MR_OK; the errors of mr_device_check and of mr_backend_t.open: a missing
   driver, a device that is not there, a process that already uses another device of that kind.
   *out is unchanged on failure.  Any thread; blocks while a driver starts. */
mr_err_t mr_device_open(const char *name, const mr_backend_t **out, mr_diag_t *diag);

/* As mr_device_open, for graphs that are planned and never run: NAME:described=WHAT too, a device
   that is described in a file (docs/devices.md).  mr_device_check and mr_device_open refuse that
   form, with MR_ERR_CONFIG.  MR_ERR_CONFIG too for a backend without descriptions. */
mr_err_t mr_device_open_to_plan(const char *name, const mr_backend_t **out, mr_diag_t *diag);
/* Whether name has that form; NULL has not.  Pure. */
bool mr_device_is_described(const char *name);

/* For backends: reads the number of the device that is asked for, `number`, or with NULL what the
   environment's `variable` says, else 0.  MR_OK, or MR_ERR_CONFIG, which names where it comes
   from. */
mr_err_t mr__device_number(const char *backend, const char *variable, const char *number,
                           unsigned *at, mr_diag_t *diag);
/* For backends: whether MILLRACE_SYNC=1 asks for a wait after each call, so that the one that fails
   is known by op and scope.  Pure but for the environment. */
bool mr__device_waits(void);
/* Writes "device = opencl:7" or "MILLRACE_OPENCL = 7" to text and returns it. */
const char *mr__device_wish(const char *backend, const char *variable, const char *number,
                            char text[120]);

MR_END_DECLS

#endif
