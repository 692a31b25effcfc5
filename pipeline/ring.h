/* mr_ring: a bounded FIFO of buffers between one producer thread and one consumer thread.  No call
   blocks or allocates; push and pop enter the kernel only to wake a sleeping neighbour.

   A lossy ring never says that it is full: a push into a full one lets go of the oldest buffers and
   counts them, so that a slow consumer cannot hold its producer up.

   The producer may end the stream (close), the consumer may leave (abandon); both are seen by the
   other side and wake it. */
#ifndef MR_PIPELINE_RING_H
#define MR_PIPELINE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/buffer.h"
#include "pipeline/wait.h"

typedef struct mr_ring mr_ring_t;

/* Bytes for a ring of depth buffers, a multiple of 64.  0 if depth is not a power of two in
   [2,65536]: use it to check a configured depth. */
size_t mr_ring_footprint(size_t depth);

/* Formats mem (64-aligned, footprint bytes) as an empty ring.  producer and consumer, the wait
   objects of both threads, outlive it; either may be NULL when that side polls.  The caller keeps
   mem and may free it after mr_ring_fini.  NULL on bad depth. */
mr_ring_t *mr_ring_init(void *mem, size_t depth, mr_wait_t *producer, mr_wait_t *consumer);

/* Makes r lossy, before either thread uses it.  room is then always the depth. */
void mr_ring_set_lossy(mr_ring_t *r);
bool mr_ring_is_lossy(const mr_ring_t *r);
int64_t mr_ring_lost(const mr_ring_t *r); /* any thread: buffers that the consumer missed so far */

/* Lets go of the buffers that nobody popped; both threads are done. */
void mr_ring_fini(mr_ring_t *r);

/* Producer: passes on the first buffers of in[0,n) and returns how many, in [0,n]; less than n
   means full.  The rest still belong to the caller.  Where the consumer has left they are
   released at once. */
size_t mr_ring_push(mr_ring_t *r, mr_buf_t *const *in, size_t n);
size_t mr_ring_room(mr_ring_t *r); /* producer: buffers that push takes now, [0,depth] */
void mr_ring_close(mr_ring_t *r);  /* producer: nothing follows */
bool mr_ring_gone(mr_ring_t *r);   /* producer: the consumer has left; pushing is of no use */

/* Consumer: takes up to n buffers in order, returns how many, in [0,n]; 0 means empty.  A producer
   that sleeps is woken only when half of the ring is free, since waking it for every slot costs a
   switch of threads each; so a consumer that stops popping earlier, to wait for something else,
   calls mr_ring_nudge first. */
size_t mr_ring_pop(mr_ring_t *r, mr_buf_t **out, size_t n);
void mr_ring_nudge(mr_ring_t *r);   /* consumer: wakes the producer if it sleeps */
size_t mr_ring_ready(mr_ring_t *r); /* consumer: buffers that pop gives now, [0,depth] */
bool mr_ring_over(mr_ring_t *r);    /* consumer: closed, and every buffer has been popped */
/* Consumer: takes nothing any more.  What is in the ring, and what is pushed later, is released;
   the consumer calls none of its functions after this. */
void mr_ring_abandon(mr_ring_t *r);

/* Consumer of a lossy ring: how many buffers were popped or let go of before its oldest one; and
   the oldest one, if that many still were.  false: none is there, or it has been let go of. */
uint64_t mr_ring_front(const mr_ring_t *r);
bool mr_ring_pop_front(mr_ring_t *r, uint64_t front, mr_buf_t **out);

/* Counters that only grow, for "has anything changed": each moves with every push or close, and
   with every pop or abandon. */
uint64_t mr_ring_pushed(const mr_ring_t *r); /* consumer's news */
uint64_t mr_ring_popped(const mr_ring_t *r); /* producer's news */
size_t mr_ring_depth(const mr_ring_t *r);

#endif
