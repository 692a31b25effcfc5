/* Attention by cuDNN: the equations that it takes, and their lowering.  attention_without.c takes
   its place in a build without cuDNN's headers. */
#ifndef MR_MODEL_BACKENDS_CUDA_ATTENTION_H
#define MR_MODEL_BACKENDS_CUDA_ATTENTION_H

#include "model/exec/call.h"

/* Whether mr__cuda_attention_lower takes e on this machine's device: cuDNN has a plan for it, which
   is kept.  Without the library, or if it refuses a shape that the backend expected it to take, a
   notice is sent, once.  Any thread; the first call for a shape takes the library's time. */
bool mr__cuda_attention_takes(const mr_eqn_t *e);

/* The version of cuDNN that takes attention on this machine; 0: none does. */
size_t mr__cuda_attention_version(void);

/* As mr_backend_t.lower: MR_OK, or MR_ERR_NORULE without a sentence if cuDNN does not take c->eqn,
   or MR_ERR_NOMEM. */
mr_err_t mr__cuda_attention_lower(mr_call_t *c, mr_diag_t *diag);

#endif
