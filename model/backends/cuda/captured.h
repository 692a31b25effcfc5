/* Runs as CUDA graphs: the commands of a run are captured once and then started by one call, which
   costs the host a hundredth of giving them one by one. */
#ifndef MR_MODEL_BACKENDS_CUDA_CAPTURED_H
#define MR_MODEL_BACKENDS_CUDA_CAPTURED_H

#include "model/exec/backend.h"

enum {
  MR_CUDA_CAPTURED = 16
}; /* graphs that one executable keeps: one for each set of addresses */

/* As mr_record_ops_t.repeat.  The first run with *kept gives its commands itself, so that libraries
   load what they need.  Later ones start the graph of their addresses, which is captured if there
   is none; the one not used for longest makes room.  Commands are given one by one instead if
   MILLRACE_GRAPH=off or MILLRACE_SYNC=1, if CUDA refuses to capture them, which one notice says, or
   if many captured graphs were started once only, because the addresses never come back.  Branches
   and loops become conditional nodes (condition.h); what only a branch needs that the first run did
   not take, a library may load while it is captured, if CUDA lets it. */
void mr__cuda_repeat(const mr_device_t *device, void **kept, const void *const *at, int n,
                     void (*give)(void *arg), void *arg);
void mr__cuda_forget(const mr_device_t *device, void *kept);

#endif
