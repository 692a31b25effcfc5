/* A cast: one publisher of buffers, and subscribers that come and go.  No subscriber can delay it:
   it keeps copies of the last few buffers, a subscriber requests the next one it wants
   (links/plain.h), and a late request gets a later buffer.  It counts what each subscriber has
   missed.

   A cast belongs to one thread, which calls mr_cast_pump whenever its descriptor is readable; no
   call but mr_cast_close blocks. */
#ifndef MR_LINKS_CAST_H
#define MR_LINKS_CAST_H

#include "links/link.h"

typedef struct mr_cast mr_cast_t;

typedef struct mr_cast_stats {
  int64_t published;   /* buffers */
  int64_t sent;        /* to all subscribers together */
  int64_t dropped;     /* buffers missed by a subscriber, summed over all */
  int64_t subscribers; /* so far */
  int64_t malformed;   /* messages that were not requests */
  int present;         /* subscribers heard from in the last 5 seconds */
} mr_cast_stats_t;

/* Binds to cfg->address, under the rules of a link that binds (loopback, or keys).  cfg->window:
   buffers that are kept; 0: 8.  cfg and spec are copied.  The caller closes it with mr_cast_close.
   NULL with a sentence in diag: MR_ERR_SHAPE for another flow than BATCHES or BYTES, MR_ERR_CONFIG,
   MR_ERR_IO (the address), MR_ERR_NOMEM. */
mr_cast_t *mr_cast_open(const mr_link_cfg_t *cfg, const mr_spec_t *spec, mr_diag_t *diag);
/* Blocks up to cfg->linger_ms for messages in flight; NULL is fine. */
void mr_cast_close(mr_cast_t *c);

/* Copies b for subscribers, if there are any, and answers those that wait for it; b stays the
   caller's.  Its number is b->seq, which must grow.  False without memory: the buffer is dropped
   for all of them. */
bool mr_cast_give(mr_cast_t *c, mr_buf_t *b);
/* Ends the stream after `number` buffers; further requests are answered with its end. */
void mr_cast_end(mr_cast_t *c, int64_t number);
/* True if the stream has ended and every present subscriber knows it. */
bool mr_cast_done(const mr_cast_t *c);

/* Reads requests and answers those it can.  In a child of the process that opened c, this and close
   do nothing. */
void mr_cast_pump(mr_cast_t *c);

enum { MR_CAST_FDS = 2 };
/* As mr_link_fds and mr_link_pending: mr_cast_fds fills fd[0,MR_CAST_FDS) and returns MR_CAST_FDS,
   with *timeout_ms -1 if only the descriptors matter; mr_cast_pending is true if pump has something
   to read now. */
int mr_cast_fds(mr_cast_t *c, struct pollfd fd[MR_CAST_FDS], int *timeout_ms);
bool mr_cast_pending(mr_cast_t *c);

void mr_cast_stats(const mr_cast_t *c, mr_cast_stats_t *out);
/* The bound address, never NULL, with the port chosen for *; lives as long as the cast. */
const char *mr_cast_address(const mr_cast_t *c);

#endif
