/* One tile of a matrix product: oneDNN on one thread, so that its result depends on the operands
   alone and not on the team.  matmul.c distributes tiles to threads.  Functions return
   dnnl_success or oneDNN's error. */
#ifndef MR_MODEL_CPU_MATMUL_TILE_H
#define MR_MODEL_CPU_MATMUL_TILE_H

#include <oneapi/dnnl/dnnl.h>

#include "model/backends/cpu/kernels.h"

#define MR_DNN(call)                             \
  do {                                           \
    dnnl_status_t status_ = (call);              \
    if (status_ != dnnl_success) return status_; \
  } while (0)

/* The engine of the process, created at the first call; NULL: oneDNN does not start here.  Any
   thread. */
dnnl_engine_t mr__dnn_engine(void);

/* The packing of b[k,n] into the blocks that oneDNN prefers, by the whole team. */
typedef struct mr__pack {
  dnnl_primitive_t run; /* NULL: b is used without packing */
  dnnl_memory_desc_t from, to;
  mr_matmul_spec_t spec;
  bool pairs;   /* the blocks are those of mr__pairs_pack, which packs instead of run */
  size_t bytes; /* of the packed b, a multiple of 64 */
} mr__pack_t;

/* Prepares the packing for tiles of s.  run stays NULL if oneDNN prefers b as it is, as it does
   when other operands have gaps between their rows.  mr__pack_fini accepts a zeroed p, and frees
   p also after a failure. */
dnnl_status_t mr__pack_init(mr__pack_t *p, const mr_matmul_spec_t *s);
void mr__pack_fini(mr__pack_t *p);
dnnl_status_t mr__pack_run(const mr__pack_t *p, const void *b, void *packed);

/* A prepared tile.  m, n and k of its spec are the tile's own; strides, dtypes and bias are those
   of the product. */
typedef struct mr__tile {
  dnnl_primitive_t run;
  dnnl_memory_desc_t a, b, bias, out, scratch;
  bool with_bias;
  size_t scratch_bytes; /* a multiple of 64 */
} mr__tile_t;

/* add: out += a b.  b: the layout of a packed b; NULL: as in the spec.  mr__tile_fini accepts a
   zeroed t, and frees t also after a failure. */
dnnl_status_t mr__tile_init(mr__tile_t *t, const mr_matmul_spec_t *s, bool add,
                            const dnnl_memory_desc_t *b);
void mr__tile_fini(mr__tile_t *t);

/* The oneDNN objects with which one thread executes tiles of one kind. */
typedef struct mr__tile_frame {
  dnnl_stream_t stream;
  dnnl_memory_t a, b, bias, out, scratch;
} mr__tile_frame_t;

/* Executes a tile on the calling thread and returns when it is done: dnnl_success, or the error.
   Opens the frame, zeroed before, at its first use.  work: scratch_bytes of the caller,
   64-aligned, the same in each call with that frame. */
dnnl_status_t mr__tile_run(const mr__tile_t *t, mr__tile_frame_t *frame, const void *a,
                           const void *b, const void *bias, void *out, void *work);
void mr__tile_close(mr__tile_frame_t *frame); /* zeroed or open */

#endif
