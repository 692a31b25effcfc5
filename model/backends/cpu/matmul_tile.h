/* One tile of a matrix product: oneDNN on one thread, so that its result is a function of the
   operands alone and not of the team; tiles are shared among threads by matmul.c. */
#ifndef MR_MODEL_CPU_MATMUL_TILE_H
#define MR_MODEL_CPU_MATMUL_TILE_H

#include <oneapi/dnnl/dnnl.h>

#include "model/backends/cpu/kernels.h"

#define MR_DNN(call)                             \
  do {                                           \
    dnnl_status_t status_ = (call);              \
    if (status_ != dnnl_success) return status_; \
  } while (0)

dnnl_engine_t mr__dnn_engine(void); /* NULL: oneDNN does not start here */

/* The packing of b[k,n] into the blocks that oneDNN likes, by the whole team. */
typedef struct mr__pack {
  dnnl_primitive_t run; /* NULL: b is used as it lies */
  dnnl_memory_desc_t from, to;
  mr_matmul_spec_t spec;
  bool pairs;   /* the blocks are those of mr__pairs_pack, which does it */
  size_t bytes; /* of the packed b, a multiple of 64 */
} mr__pack_t;

/* For tiles of s; run stays NULL where oneDNN likes b as it lies, as it does when other operands
   have gaps between their rows. */
dnnl_status_t mr__pack_init(mr__pack_t *p, const mr_matmul_spec_t *s);
void mr__pack_fini(mr__pack_t *p);
dnnl_status_t mr__pack_run(const mr__pack_t *p, const void *b, void *packed);

/* m, n and k of the spec are the tile's own; strides, dtypes and bias as in the product. */
typedef struct mr__tile {
  dnnl_primitive_t run;
  dnnl_memory_desc_t a, b, bias, out, scratch;
  bool with_bias;
  size_t scratch_bytes; /* a multiple of 64 */
} mr__tile_t;

/* add: out += a b.  b: its layout, NULL as the spec says. */
dnnl_status_t mr__tile_init(mr__tile_t *t, const mr_matmul_spec_t *s, bool add,
                            const dnnl_memory_desc_t *b);
void mr__tile_fini(mr__tile_t *t);

/* What one thread executes tiles of one kind with; of that thread. */
typedef struct mr__lane {
  dnnl_stream_t stream;
  dnnl_memory_t a, b, bias, out, scratch;
} mr__lane_t;

/* Opens the lane at its first use; work: scratch_bytes, 64-aligned. */
dnnl_status_t mr__tile_run(const mr__tile_t *t, mr__lane_t *lane, const void *a, const void *b,
                           const void *bias, void *out, void *work);
void mr__lane_close(mr__lane_t *lane); /* zeroed or open */

#endif
