/* Which of two is faster for an attention: cuDNN's plan or the kernel of one group a head, as a row
   of the tuning files (tuned.h) says, or as MILLRACE_TUNE=1 measures. */
#ifndef MR_MODEL_BACKENDS_CUDA_ATTENTION_TUNED_H
#define MR_MODEL_BACKENDS_CUDA_ATTENTION_TUNED_H

#include <stdbool.h>

#include "model/exec/call.h"

/* Whether the kernel is the faster one.  c is an attention that mr__cuda_attention_lower has
   lowered and mr_kernels_attend takes; it is not changed.  A row of the user's file decides, then
   with MILLRACE_TUNE=1 a measurement, which becomes a row, and without it a shipped row; false
   without any, or if nothing could be measured.  Any thread; a measurement takes the device's time.
 */
bool mr__cuda_attention_own_is_faster(const mr_call_t *c);

#endif
