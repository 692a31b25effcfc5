/* What flows over an edge: a reference-counted buffer from a pool.

   A pool's buffers are made when the graph is wired; nothing is allocated on the hot path.  A
   buffer without a reference is free. */
#ifndef MR_PIPELINE_BUFFER_H
#define MR_PIPELINE_BUFFER_H

#include "base/decls.h"
#include "pipeline/spec.h"

MR_BEGIN_DECLS

enum { MR_BUF_EPOCH_END = 1 }; /* the last buffer of its epoch */

typedef struct mr_pool mr_pool_t;

/* What a batch holds of one field. */
typedef struct mr_buf_field {
  void *data;      /* the records' values in order, value i of an even field at i * mr_field_bytes;
                      64-aligned, 8-aligned in a buffer from a link.  On a device (mr_spec_t.device)
                      an address there, set by the stage that gives the buffer */
  int32_t *label;  /* on a device, of a label field: its values in the host's memory too, [B]; else
                      NULL */
  int64_t *offset; /* ragged: [B+1], record i has the rows [offset[i],offset[i+1]), offset[0] is 0;
                      NULL: even */
} mr_buf_field_t;

typedef struct mr_buf {
  void *data;  /* 64-aligned, 8-aligned in a buffer from a link; BATCHES: field[0].data */
  size_t cap;  /* bytes from data on; BATCHES: in all fields, 0 on a device */
  size_t size; /* bytes in use; BATCHES: of all fields' values */
  mr_buf_field_t field[MR_FIELDS_MAX]; /* BATCHES: [n_fields of the spec]; the rest is NULL */
  int64_t seq;       /* number on its edge, from 0 (from the resumed batch after a resume) */
  int64_t epoch;     /* from 0 */
  int64_t position;  /* position in the sampler's order after this buffer: resume here */
  int32_t first;     /* slot of the whole batch at which slot 0 lies: above 0 where hosts share
                        batches */
  int32_t n;         /* records in use, [0,B] */
  uint32_t flags;    /* MR_BUF_* */
  int32_t *label;    /* [B] values of the only label field (mr_spec_label); else NULL */
  uint64_t *key;     /* [B] record ids within the source; key, draw and excluded are NULL unless
                        BATCHES */
  uint64_t *draw;    /* [B] hash of the record's random draws, 0 without any */
  uint8_t *excluded; /* [B] not 0: the record keeps its slot with zero weight, because skip-records=
                        names it or it is a hole.  Its values are zeros, no rows and
                        MR_LABEL_NONE */
  int64_t *word;     /* [n_words of the spec] state of the walk after this buffer, to resume from;
                        NULL without words */
  mr_atomic_int_t refs; /* references; the last unref (acq_rel) follows all accesses */
  mr_pool_t *pool;
} mr_buf_t;

/* Bytes of the first n records' values in batch b of this spec, n in [0,b->n].  Cannot fail. */
size_t mr_buf_bytes(const mr_spec_t *spec, const mr_buf_t *b, int n);

/* Appends records [at,at+n) of batch `from` to the to->n records in `to`: values, keys, draws and
   exclusion marks; updates to->n and to->size.  Both batches have fields that are alike
   (mr_field_alike), and `to` has room: neither is checked. */
void mr_buf_append(const mr_spec_t *spec, const mr_buf_t *from, int at, int n, mr_buf_t *to);

/* A pool of n buffers for an edge with this spec; where values lie on a device, without memory for
   them.  The caller destroys it with mr_pool_destroy,
   unless it hands it to a graph (mr_use_pool).  Memory is mapped lazily: a buffer never used costs
   no resident memory.  NULL without memory, or for more bytes than an address space has. */
mr_pool_t *mr_pool_create(const mr_spec_t *spec, size_t n);
/* The same, with the same owner, in shared memory (a sealed memfd), which a link on this host
   passes on in place.  NULL also where the kernel gives no memfd. */
mr_pool_t *mr_pool_create_shared(const mr_spec_t *spec, size_t n);
void mr_pool_destroy(mr_pool_t *p); /* every buffer must be back; NULL is fine */

/* A free buffer with one reference, which the caller releases with mr_buf_unref or gives on.  size,
   seq, epoch, position, first, n and flags are 0; values, keys and marks are those of its last use.
   NULL if no buffer is free now.  Any thread; never blocks. */
mr_buf_t *mr_pool_get(mr_pool_t *p);

/* Adds a reference, which the caller drops with mr_buf_unref; returns b; any thread. */
mr_buf_t *mr_buf_ref(mr_buf_t *b);
/* Drops a reference, the last one returns b to its pool; any thread; NULL is fine. */
void mr_buf_unref(mr_buf_t *b);

MR_END_DECLS

#endif
