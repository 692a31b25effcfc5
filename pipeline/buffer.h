/* What flows: a reference-counted buffer from a pool.

   A pool's buffers are made when the specs settle; nothing is allocated on
   the hot path.  A buffer that nobody refers to is free again. */
#ifndef MR_PIPELINE_BUFFER_H
#define MR_PIPELINE_BUFFER_H

#include "base/atomic.h"
#include "base/decls.h"
#include "pipeline/spec.h"

MR_BEGIN_DECLS

enum { MR_BUF_EPOCH_END = 1 }; /* the last buffer of its epoch */

typedef struct mr_pool mr_pool_t;

typedef struct mr_buf {
  void *data; /* 64-aligned, of a link's buffer 8-aligned; cap bytes */
  size_t cap;
  size_t size;      /* bytes in use */
  int64_t seq;      /* number on its edge, from 0 (from the resumed batch after a resume) */
  int64_t epoch;    /* from 0 */
  int64_t position; /* position in the sampler's order after this buffer: resume here */
  int32_t first;    /* slot of the whole batch that slot 0 is: not 0 where hosts share batches */
  int32_t n;        /* records in use, [0,B] */
  uint32_t flags;   /* MR_BUF_* */
  int32_t *label;   /* [B], BATCHES only; NULL else (as key and draw) */
  uint64_t *key;    /* [B] record ids within the source */
  uint64_t *draw;   /* [B] hash of the record's augmentation draws, 0 without any */
  int64_t *word;    /* [n_words of the spec] state of the walk after this buffer; where there are
                       any, resume with them */
  mr_atomic_int_t refs;
  mr_pool_t *pool;
} mr_buf_t;

/* A pool of n buffers for one edge's spec.  records: B for BATCHES, else 0.
   Memory is mapped lazily: a buffer never used costs no resident memory.
   NULL when memory is short. */
mr_pool_t *mr_pool_create(const mr_spec_t *spec, size_t n);
/* The same in memory that another process can map: what a link on one host gives on in place. */
mr_pool_t *mr_pool_create_shared(const mr_spec_t *spec, size_t n);
void mr_pool_destroy(mr_pool_t *p); /* all buffers must be back; NULL is fine */

/* A free buffer with one reference, all fields but data reset; NULL if none is
   free now.  Any thread. */
mr_buf_t *mr_pool_get(mr_pool_t *p);

mr_buf_t *mr_buf_ref(mr_buf_t *b); /* returns b */
void mr_buf_unref(mr_buf_t *b);    /* the last one gives it back; NULL is fine */

MR_END_DECLS

#endif
