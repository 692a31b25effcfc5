/* mr_ring: a bounded FIFO of buffers between one producer thread and one consumer thread.  No call
   blocks or allocates; push and pop enter the kernel only to wake a sleeping neighbour.

   A lossy ring is never full: a push into one without room drops the oldest buffers and counts
   them, so that a slow consumer cannot delay its producer.

   The producer may end the stream (close), the consumer may leave (abandon); the other side sees
   either, and is woken by it.

   A ring takes over the references of what is pushed and hands them to the consumer that pops. */
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

/* Formats mem (64-aligned, footprint bytes) as an empty ring and returns it, at mem's address.
   producer and consumer, the wait objects of both threads, must outlive it; either may be NULL if
   that side polls.  The caller keeps mem and may free it after mr_ring_fini.  NULL on a bad
   depth. */
mr_ring_t *mr_ring_init(void *mem, size_t depth, mr_wait_t *producer, mr_wait_t *consumer);

/* Makes r lossy, before either thread uses it: room is then always depth, and push always takes
   all. */
void mr_ring_set_lossy(mr_ring_t *r);
bool mr_ring_is_lossy(const mr_ring_t *r); /* true after set_lossy; any thread */
int64_t mr_ring_lost(const mr_ring_t *r);  /* any thread: buffers dropped so far, [0,...) */

/* Releases the buffers left in the ring; both threads have ended.  mem is the caller's again. */
void mr_ring_fini(mr_ring_t *r);

/* Producer: pushes the first buffers of in[0,n) and returns how many, in [0,n]; less than n means
   full.  The rest still belong to the caller.  If the consumer has left, what is pushed is released
   at once. */
size_t mr_ring_push(mr_ring_t *r, mr_buf_t *const *in, size_t n);
size_t mr_ring_room(mr_ring_t *r); /* producer: buffers that push takes now, [0,depth] */
void mr_ring_close(mr_ring_t *r);  /* producer: ends the stream */
bool mr_ring_gone(mr_ring_t *r);   /* producer: true once the consumer has left or is lost */

/* Consumer: takes up to n buffers in order and returns how many, in [0,n]; 0 means empty.  The
   caller owns them.  A sleeping producer is woken only when half of the ring is free, because a
   wake-up for every slot costs a thread switch each; a consumer that stops popping earlier, to wait
   for something else, must call mr_ring_nudge first. */
size_t mr_ring_pop(mr_ring_t *r, mr_buf_t **out, size_t n);
void mr_ring_nudge(mr_ring_t *r);   /* consumer: wakes the producer if it sleeps */
size_t mr_ring_ready(mr_ring_t *r); /* consumer: buffers that pop gives now, [0,depth] */
/* Consumer: true once the ring is closed, or its producer is lost, and every buffer has been
   popped. */
bool mr_ring_over(mr_ring_t *r);
/* Consumer: leaves.  What is in the ring, and what is pushed later, is released; the consumer calls
   none of its functions after this. */
void mr_ring_abandon(mr_ring_t *r);

/* Any thread: the other side shall not wait for this one any longer, whose thread does not come
   back.  Should it do so, its calls work as before: what it pushes may be popped although the ring
   was over, and what it has not popped stays in the ring until mr_ring_fini. */
void mr_ring_lose_producer(mr_ring_t *r);
void mr_ring_lose_consumer(mr_ring_t *r);

/* Consumer of a lossy ring.  front: how many buffers have been popped or dropped before the oldest
   one.  pop_front: takes the oldest buffer into *out, which the caller owns, if that many have
   still been; false if the ring is empty or the buffer has been dropped. */
uint64_t mr_ring_front(const mr_ring_t *r);
bool mr_ring_pop_front(mr_ring_t *r, uint64_t front, mr_buf_t **out);

/* Counters that only grow, to find out whether anything has changed.  Each value holds an index
   above its lowest bit: pushed moves with every push and close, popped with every pop, drop and
   abandon.  Any thread. */
uint64_t mr_ring_pushed(const mr_ring_t *r); /* news for the consumer */
uint64_t mr_ring_popped(const mr_ring_t *r); /* news for the producer */
size_t mr_ring_depth(const mr_ring_t *r);    /* any thread; the depth given to init */

#endif
