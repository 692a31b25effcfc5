/* A cast: one publisher of buffers, many subscribers that come and go.  None can hold it back: it
   keeps copies of the last few buffers, a subscriber asks for the next one it wants
   (links/plain.h), and who asks too late gets a later one.  What each has missed is
   counted.

   A cast belongs to one thread, which calls mr_cast_pump whenever its descriptor is readable; no
   call blocks. */
#ifndef MR_LINKS_CAST_H
#define MR_LINKS_CAST_H

#include "links/link.h"

typedef struct mr_cast mr_cast_t;

typedef struct mr_cast_stats {
  int64_t published;   /* buffers */
  int64_t sent;        /* to all subscribers together */
  int64_t dropped;     /* buffers that a subscriber has missed, summed over them */
  int64_t subscribers; /* that came so far */
  int64_t malformed;   /* messages that were no requests */
  int present;         /* subscribers heard within the last seconds */
} mr_cast_stats_t;

/* Binds to cfg->address, under the rules of a link that binds (loopback, or keys).  cfg->window:
   buffers that are kept; 0: 8.  spec: BATCHES or BYTES, else MR_ERR_SHAPE.  NULL with the reason in
   diag. */
mr_cast_t *mr_cast_open(const mr_link_cfg_t *cfg, const mr_spec_t *spec, mr_diag_t *diag);
void mr_cast_close(mr_cast_t *c); /* what is on its way goes out for cfg->linger_ms; NULL is fine */

/* Copies b for who asks, if anybody is there; b stays the caller's.  Its number is b->seq, which
   grows.  false: no memory, nobody gets it. */
bool mr_cast_give(mr_cast_t *c, mr_buf_t *b);
void mr_cast_end(mr_cast_t *c, int64_t number); /* number buffers were all: told to who asks */
bool mr_cast_done(const mr_cast_t *c);          /* every subscriber that is there knows the end */

void mr_cast_pump(mr_cast_t *c); /* hears requests and answers those that can be */

/* As mr_link_fds and mr_link_pending; *timeout_ms is -1 where only the descriptors matter. */
enum { MR_CAST_FDS = 2 };
int mr_cast_fds(mr_cast_t *c, struct pollfd fd[MR_CAST_FDS], int *timeout_ms);
bool mr_cast_pending(mr_cast_t *c);

void mr_cast_stats(const mr_cast_t *c, mr_cast_stats_t *out);
const char *mr_cast_address(const mr_cast_t *c); /* with the port that * took */

#endif
