/* A function on several devices at once, each with its part of the data, after jax.pmap.

   Where vmap makes one graph of all examples, this runs the graph once a device, at the same time;
   psum, pmean, all_gather and axis_index (lax.h) over its axis go between them.  Sums add the
   devices' values in the order of their ranks, whichever comes first: the same bits every time.
   A collective inside cond or while must be reached by all devices or by none. */
#ifndef MR_MODEL_PMAP_H
#define MR_MODEL_PMAP_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

typedef struct mr_pmapped mr_pmapped_t;

typedef struct mr_pmap_options {
  const bool *shared; /* [f->n_in]: inputs that every device gets whole; NULL: none */
  int threads;        /* of each device, for its kernels; 0: 1 */
} mr_pmap_options_t;

/* Compiles f for devices >= 1, each of which gets a thread.  axis_name may be NULL where f speaks
   over none.  options: NULL for none.  MR_ERR_SHAPE for an all_gather of another size, else as
   mr_compile. */
mr_err_t mr_pmap(const mr_fn_t *f, const char *axis_name, int devices,
                 const mr_pmap_options_t *options, mr_pmapped_t **out, mr_diag_t *diag);
/* in[n_in]: for each device one after the other a value of f's input, or one value if it is shared;
   out[n_out] for each device one after the other.  Arrays are 64-aligned.  Blocks; one run at a
   time. */
void mr_pmap_run(mr_pmapped_t *p, const void *const *in, void *const *out);
void mr_pmap_destroy(mr_pmapped_t *p); /* NULL is fine */

MR_END_DECLS

#endif
