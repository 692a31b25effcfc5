/* Runs a function on several devices at once, each with its part of the data, after jax.pmap.

   vmap makes one graph for all examples. pmap runs the graph once on each device, all at the same
   time, and psum, pmean, all_gather and axis_index (control/control.h) over its axis communicate
   between them.  Sums add the devices' values in rank order, so results are the same to the bit
   whichever device is faster.  A collective inside cond or while must be reached by all devices or
   by none: else the others wait, up to a limit if there is one.  A device here is a thread of this
   process. */
#ifndef MR_MODEL_CALL_PMAP_H
#define MR_MODEL_CALL_PMAP_H

#include "base/decls.h"
#include "base/err.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_pmapped mr_pmapped_t;

struct mr_device;

typedef struct mr_pmap_options {
  const bool *shared; /* [f->n_in]: inputs that every device reads whole; NULL: none */
  int threads;        /* of each device, for its kernels; 0: 1, or as many as `device` has */
  /* [devices]: where each rank computes, shares of the processors ("cpu:0/4"), which must stay
     open; NULL: on threads of all processors. */
  const struct mr_device *const *device;
  double limit_s; /* how long a collective waits for a device, > 0; 0: forever */
} mr_pmap_options_t;

/* Compiles f for each of devices, in [1,1024], and starts a thread for each. f is copied; axis_name
   and what options point at are not needed afterwards. axis_name may be NULL if f has no
   collectives; options: NULL for none.  The caller destroys *out.  MR_OK; MR_ERR_CONFIG for another
   number of devices, or one whose memory is not the host's; MR_ERR_SHAPE for an all_gather of
   another size; MR_ERR_NOMEM, also if the system gives no thread; or an error of mr_compile. */
mr_err_t mr_pmap(const mr_fn_t *f, const char *axis_name, int devices,
                 const mr_pmap_options_t *options, mr_pmapped_t **out, mr_diag_t *diag);
/* Runs f on all devices and blocks until all have ended. in[i] holds one value of input i for each
   device, in rank order and without gaps, or a single value if the input is shared; out[k] receives
   one value of output k for each device.  Arrays are the caller's, 64-aligned.  One run at a time.
   Cannot fail, but mr_pmap_failed says whether a device has not come to a collective. */
void mr_pmap_run(mr_pmapped_t *p, const void *const *in, void *const *out);
/* MR_OK; or MR_ERR_UNAVAILABLE with the sentence, and *rank, if a device did not come to a
   collective within the limit, in this run or one before: collectives since then give bytes 0xFF.
   After a run.  The same of a child that gets no threads: all results are bytes 0xFF there. */
mr_err_t mr_pmap_failed(const mr_pmapped_t *p, int *rank, mr_diag_t *diag);
/* Joins the threads and frees p.  Not during a run.  NULL is fine. */
void mr_pmap_destroy(mr_pmapped_t *p);

MR_END_DECLS

#endif
