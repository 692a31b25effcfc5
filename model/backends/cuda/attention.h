/* Attention by cuDNN: the equations that it takes, and their lowering.  attention_without.c takes
   its place in a build without cuDNN's headers. */
#ifndef MR_MODEL_BACKENDS_CUDA_ATTENTION_H
#define MR_MODEL_BACKENDS_CUDA_ATTENTION_H

#include "model/exec/call.h"

typedef struct mr_cuda_device mr_cuda_device_t; /* of device.h, which needs CUDA's headers */

/* Whether mr__cuda_attention_lower takes e on d: cuDNN has a plan for it, which
   is kept.  Without the library, or if it refuses a shape that the backend expected it to take, a
   notice is sent, once.  Any thread; the first call for a shape takes the library's time. */
bool mr__cuda_attention_takes(mr_cuda_device_t *d, const mr_eqn_t *e);

/* Takes and frees d->plans.  MR_OK or MR_ERR_NOMEM.  Nothing without cuDNN's headers. */
mr_err_t mr__cuda_plans_create(mr_cuda_device_t *d, mr_diag_t *diag);
void mr__cuda_plans_destroy(mr_cuda_device_t *d);

/* Returns the version of cuDNN that takes attention on this machine; 0: none does. */
size_t mr__cuda_attention_version(void);

/* As mr_compile_ops_t.lower: MR_OK, or MR_ERR_NORULE without a sentence if cuDNN does not take
   c->eqn, or MR_ERR_NOMEM. */
mr_err_t mr__cuda_attention_lower(mr_call_t *c, mr_diag_t *diag);

#endif
