/* Devices by name, as users write them: "cpu", "cpu:1", "opencl", "cuda:1". */
#ifndef MR_MODEL_EXEC_DEVICE_H
#define MR_MODEL_EXEC_DEVICE_H

#include "model/exec/backend.h"

MR_BEGIN_DECLS

/* Checks the form of a name, NAME or NAME:NUMBER, and that this build knows NAME.  Opens nothing.
   MR_OK, or MR_ERR_CONFIG with a sentence that begins "device = ". */
mr_err_t mr_device_check(const char *name, mr_diag_t *diag);
/* Whether the host reads that device's memory in place, as that of the processors; false for a name
   of no backend.  Pure. */
bool mr_device_on_host(const char *name);
/* Whether two names that mr_device_check accepts mean one device: "opencl" and "opencl:0".  Pure
   but for the environment. */
bool mr_device_same(const char *a, const char *b);

/* Opens the device of that name and points *out at it: arrays are created there by mr_array_on and
   mr_array_to, functions compiled by mr_jitted_options_t.device, mr_compile_options_t.device and
   mr_compute_t.device.  A device that is open already gives the same pointer again, and each
   successful call wants a mr_device_close of its own.  Devices differ in everything but what their
   backend shares: several of one backend run at the same time from several threads.  MR_OK; the
   errors of mr_device_check and of mr_device_ops_t.open: a missing driver, a device that is not
   there; MR_ERR_NOMEM.  *out is unchanged on failure, and a later call tries again.  Any thread;
   blocks while a driver starts. */
mr_err_t mr_device_open(const char *name, const mr_device_t **out, mr_diag_t *diag);
/* A name without a number means device `number` of its backend from now on, where the environment
   does not say which, and the first one if there are not that many: of several processes of a host
   each prefers another one.  0 at first.  While no device is opened. */
void mr_device_prefer(int number);
/* Ends one mr_device_open or mr_device_keep.  The last one closes the device, waiting for its
   commands, and *d is then gone; arrays, executables and slots keep the device that they lie on, so
   they may outlive the caller's last close.  Blocks of mr_device_take do not: they are given back
   before.  NULL and mr_device_default() are fine.  Any thread. */
void mr_device_close(const mr_device_t *d);
/* One more owner of an open device; returns d.  A device that mr_device_open has not made, as tests
   have, is left as it is, here and in mr_device_close.  Any thread. */
const mr_device_t *mr_device_keep(const mr_device_t *d);
/* All processors as one device, "cpu": static, always open, never NULL. */
const mr_device_t *mr_device_default(void);

/* As mr_device_open, for graphs that are planned and never run: NAME:described=WHAT too, a device
   that is described in a file (docs/devices.md).  mr_device_check and mr_device_open refuse that
   form, with MR_ERR_CONFIG.  MR_ERR_CONFIG too for a backend without descriptions. */
mr_err_t mr_device_open_to_plan(const char *name, const mr_device_t **out, mr_diag_t *diag);
/* Whether name has that form; NULL has not.  Pure. */
bool mr_device_is_described(const char *name);

/* For backends whose devices have plain numbers: mr_device_ops_t.key.  Reads `number`, or with NULL
   what the environment's `variable` says, else 0.  MR_OK, or MR_ERR_CONFIG, which names where it
   comes from. */
mr_err_t mr__device_number(const char *backend, const char *variable, const char *number,
                           char key[MR_DEVICE_KEY], mr_diag_t *diag);
/* For backends: writes "device = opencl:7", or without a number "MILLRACE_OPENCL = 7", to the
   caller's text and returns it. */
const char *mr__device_wish(const char *backend, const char *variable, const char *number,
                            char text[120]);
/* For backends: whether MILLRACE_SYNC=1 asks for a wait after each call, so that the one that fails
   is known by op and scope.  Pure but for the environment. */
bool mr__device_waits(void);

MR_END_DECLS

#endif
