/* Branches and loops of captured runs, as conditional nodes of a CUDA graph: a kernel of one thread
   reads a value and sets the condition, so that the device decides in each run, and the host reads
   nothing. */
#ifndef MR_MODEL_BACKENDS_CUDA_CONDITION_H
#define MR_MODEL_BACKENDS_CUDA_CONDITION_H

#include "model/backends/cuda/device.h"

/* The kernels that set a condition, as texts for mr__cuda_kernels; static.  That of a branch takes
   the index, the condition's handle and the last branch's number; that of a loop the verdict and
   the handle. */
extern const char mr_cuda_set_branch[], mr_cuda_set_round[];

/* Makes ready, once a device, what a capture with branches and loops needs and a thread that
   captures cannot make: these kernels and some streams.  If the compiler or the driver refuses,
   mr__cuda_choose and mr__cuda_loop do too, for the same reason.  Any thread. */
void mr__cuda_conditions(mr_cuda_device_t *d);

/* As in mr_record_ops_t.  What CUDA refuses is a failure of the recording. */
bool mr__cuda_choose(const mr_device_t *device, const int32_t *index, int n,
                     void (*give)(void *arg, int j), void *arg);
bool mr__cuda_loop(const mr_device_t *device, const uint8_t *verdict,
                   void (*give)(void *arg, int part), void *arg);

#endif
