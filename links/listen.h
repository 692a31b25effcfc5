/* The subscriber's end of a cast (links/cast.h): buffers as they are published.  It continues with
   what is available; buffers that it missed because it was late, slow or away are counted, and the
   numbers of the buffers (mr_buf_t.seq) show where.

   It belongs to one thread, which calls pump whenever its descriptor is readable or its timeout is
   over; no call blocks.  Any thread may release the buffers, also after the end was closed. */
#ifndef MR_LINKS_LISTEN_H
#define MR_LINKS_LISTEN_H

#include "links/link.h"

typedef struct mr_listen mr_listen_t;

typedef struct mr_listen_stats {
  int64_t received;
  int64_t missed;    /* buffers missed between the first one received and the newest one or the
                        end */
  int64_t gaps;      /* times that some were missed */
  int64_t malformed; /* messages that were invalid */
} mr_listen_stats_t;

/* Connects to cfg->address for the cast called cfg->name.  cfg->window: most buffers in use here,
   0: 8.  first: the number to start with.  want: the spec of the buffers to take; NULL: only asks
   for the spec.  The caller closes it with mr_listen_close.  NULL with a sentence in diag:
   MR_ERR_SHAPE, MR_ERR_CONFIG, MR_ERR_IO (the address), MR_ERR_NOMEM. */
mr_listen_t *mr_listen_open(const mr_link_cfg_t *cfg, const mr_spec_t *want, int64_t first,
                            mr_diag_t *diag);
void mr_listen_close(mr_listen_t *l); /* NULL is fine */

/* Does all that can be done now.  MR_OK, or a final failure with a sentence: MR_ERR_SHAPE (the
   publisher's spec differs), MR_ERR_DATA (it refuses), MR_ERR_NOMEM, MR_ERR_USAGE in a child of the
   process that opened l, where close does nothing. */
mr_err_t mr_listen_pump(mr_listen_t *l, mr_diag_t *diag);
/* As mr_link_fds; returns 1. */
int mr_listen_fds(mr_listen_t *l, struct pollfd *fd, int *timeout_ms);
bool mr_listen_pending(mr_listen_t *l); /* as mr_link_pending */

const mr_spec_t *mr_listen_spec(const mr_listen_t *l); /* owned by l; NULL: unknown so far */
/* Takes up to n buffers in order and returns how many, [0,n]; the caller owns them. */
size_t mr_listen_take(mr_listen_t *l, mr_buf_t **out, size_t n);
bool mr_listen_credit(const mr_listen_t *l); /* true if it has room for another buffer */
/* True if the stream has ended and all of it has been taken. */
bool mr_listen_over(const mr_listen_t *l);
void mr_listen_stats(const mr_listen_t *l, mr_listen_stats_t *out);
/* As mr_link_give_pool: the caller becomes its owner; NULL while the spec is unknown. */
mr_pool_t *mr_listen_give_pool(mr_listen_t *l);

#endif
