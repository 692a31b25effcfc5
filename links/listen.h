/* The subscriber's end of a cast (links/cast.h): buffers as they are published.  It goes on
   with what is there; what it has missed meanwhile, because it was late or slow or gone, is
   counted, and the numbers of the buffers (mr_buf_t.seq) say where.

   It belongs to one thread, which calls pump whenever its descriptor is readable or its time is up;
   no call blocks.  Buffers may be released by any thread, also after the end was closed. */
#ifndef MR_LINKS_LISTEN_H
#define MR_LINKS_LISTEN_H

#include "links/link.h"

typedef struct mr_listen mr_listen_t;

typedef struct mr_listen_stats {
  int64_t received;
  int64_t missed;    /* buffers between the first one received and the end or the newest one */
  int64_t gaps;      /* times that some were missed */
  int64_t malformed; /* messages that were not believed */
} mr_listen_stats_t;

/* Comes to cfg->address for the cast of cfg->name.  cfg->window: buffers in use here, 0: 8.  first:
   the number to go on with.  want: the spec of what it takes; NULL: it only asks for that.  NULL
   with the reason in diag. */
mr_listen_t *mr_listen_open(const mr_link_cfg_t *cfg, const mr_spec_t *want, int64_t first,
                            mr_diag_t *diag);
void mr_listen_close(mr_listen_t *l); /* NULL is fine */

/* Does all that can be done now.  A failure is for good: MR_ERR_SHAPE, MR_ERR_DATA. */
mr_err_t mr_listen_pump(mr_listen_t *l, mr_diag_t *diag);
int mr_listen_fds(mr_listen_t *l, struct pollfd *fd, int *timeout_ms); /* as mr_link_fds, of one */
bool mr_listen_pending(mr_listen_t *l);

const mr_spec_t *mr_listen_spec(const mr_listen_t *l); /* the link's; NULL: unknown so far */
/* The next buffers, up to n; the caller owns them. */
size_t mr_listen_take(mr_listen_t *l, mr_buf_t **out, size_t n);
bool mr_listen_credit(const mr_listen_t *l); /* it has room for another one */
bool mr_listen_over(const mr_listen_t *l);   /* the stream has ended and all of it has been taken */
void mr_listen_stats(const mr_listen_t *l, mr_listen_stats_t *out);
mr_pool_t *mr_listen_give_pool(mr_listen_t *l); /* as mr_link_give_pool */

#endif
