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

/* What a batch holds of one field. */
typedef struct mr_buf_field {
  void *data;      /* the records' values one after the other, number i of an even field at
                      i * mr_field_bytes; 64-aligned, of a link's buffer 8-aligned */
  int64_t *offset; /* ragged: [B+1], record i has the rows [offset[i],offset[i+1]), offset[0] is 0;
                      NULL: even */
} mr_buf_field_t;

typedef struct mr_buf {
  void *data;  /* 64-aligned, of a link's buffer 8-aligned; BATCHES: field[0].data */
  size_t cap;  /* bytes from data on; BATCHES: in all fields */
  size_t size; /* bytes in use; BATCHES: of all fields' values */
  mr_buf_field_t field[MR_FIELDS_MAX]; /* BATCHES: [n_fields of the spec]; NULLs behind them */
  int64_t seq;       /* number on its edge, from 0 (from the resumed batch after a resume) */
  int64_t epoch;     /* from 0 */
  int64_t position;  /* position in the sampler's order after this buffer: resume here */
  int32_t first;     /* slot of the whole batch that slot 0 is: not 0 where hosts share batches */
  int32_t n;         /* records in use, [0,B] */
  uint32_t flags;    /* MR_BUF_* */
  int32_t *label;    /* [B] values of the only field that is a label (mr_spec_label); else NULL */
  uint64_t *key;     /* [B] record ids within the source; NULL but for BATCHES, as draw, excluded */
  uint64_t *draw;    /* [B] hash of the record's augmentation draws, 0 without any */
  uint8_t *excluded; /* [B] not 0: the record keeps its slot but weighs nothing: skip-records= names
                       it, or it is a hole.  Its values are zeros, no rows and MR_LABEL_NONE */
  int64_t *word;     /* [n_words of the spec] state of the walk after this buffer; where there are
                        any, resume with them */
  mr_atomic_int_t refs; /* owners; the last unref (acq_rel) comes after the accesses of all */
  mr_pool_t *pool;
} mr_buf_t;

/* Bytes of the first n records' values of batch b. */
size_t mr_buf_bytes(const mr_spec_t *spec, const mr_buf_t *b, int n);

/* Copies n records of batch `from`, from slot `at` on, behind the to->n records that `to` holds:
   values, keys, draws and marks; counts them in to->n and to->size.  Both are of fields that look
   alike, and there is room. */
void mr_buf_append(const mr_spec_t *spec, const mr_buf_t *from, int at, int n, mr_buf_t *to);

/* A pool of n buffers for one edge's spec.
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
