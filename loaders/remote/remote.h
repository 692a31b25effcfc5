/* Remote objects, http(s):// and s3://BUCKET/KEY, read by ranges.

   One mr_remote_t serves a source: it opens connections only when the first object is opened, keeps
   them alive, and has up to `connections` requests in flight.  An object has an identity (size,
   ETag, time); every later request asks for that identity, so that bytes of two versions of an
   object are never mixed.  Requests that fail for a transient reason (lost connection, timeout,
   408, 429, 5xx, a wrong checksum) are sent again after a random pause; requests that take much
   longer than others are sent a second time, and the first complete answer is used.

   A source that may be given URLs has an mr_remote_conf_t in its state, the rows MR_REMOTE_OPTS
   among its settings, and asks mr_remote_is about each name.  Sources of shards need no more than
   mr_shards_conf_t.remote.

   Implemented in remote.c, and remote_list.c for listings.  Objects are in object.h, names in
   remote_url.h, settings in remote_conf.h. */
#ifndef MR_LOADERS_REMOTE_REMOTE_H
#define MR_LOADERS_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loaders/remote/object.h"
#include "loaders/remote/remote_conf.h"
#include "loaders/remote/remote_page.h"
#include "loaders/remote/remote_url.h"
#include "pipeline/stage_source.h"

typedef struct mr_remote mr_remote_t;

/* Prepares requests, and sends none.  conf is copied; its texts must live until close.  The caller
   ends *out with mr_remote_close.  MR_ERR_CONFIG for a cache-size= that is wrong or less than a
   block; MR_ERR_NOMEM; MR_ERR_UNAVAILABLE in a build without libcurl;
   *out is NULL then. */
mr_err_t mr_remote_open(mr_remote_t **out, const mr_remote_conf_t *conf, mr_diag_t *diag);
void mr_remote_close(mr_remote_t *r); /* NULL is fine; ends all requests */

/* Finds an object's size and identity by one request, which also proves that the server
   supports ranges.  *out belongs to r and lives until close.  Any thread; blocks.  MR_ERR_CONFIG
   for a malformed URL or missing credentials; MR_ERR_IO with the server's answer, or with the last
   of several failures; MR_ERR_DATA if the server ignores ranges or sends a wrong answer;
   MR_ERR_NOMEM. */
mr_err_t mr_remote_object(mr_remote_t *r, const char *url, const mr_object_t **out,
                          mr_diag_t *diag);

/* The same for an object that need not exist: *out is NULL if the server answers 404 or, for a
   bucket, 403, which S3 answers to a client that may not list the bucket. */
mr_err_t mr_remote_find(mr_remote_t *r, const char *url, const mr_object_t **out, mr_diag_t *diag);

/* Opens an object whose state is known from a listing, without a request.  MR_ERR_CONFIG for a
   malformed URL; MR_ERR_DATA for an ETag with a control character; MR_ERR_NOMEM. */
mr_err_t mr_remote_known(mr_remote_t *r, const char *url, int64_t size, int64_t mtime_ns,
                         const char *etag, const mr_object_t **out, mr_diag_t *diag);

/* Lists the objects below folder, s3://BUCKET or s3://BUCKET/PREFIX, page by page, in the server's
   order, and calls fn for each.  Blocks, with a notice every few seconds.  Fails as
   mr_remote_object does, by MR_ERR_DATA for a page that is no listing, is cut off or is not
   followed by the page it announces, and as fn does.  Implemented in remote_list.c. */
mr_err_t mr_remote_list(mr_remote_t *r, const char *folder, mr_remote_listed_fn *fn, void *ctx,
                        mr_diag_t *diag);

/* Reads want[0,n), all at once.  Any thread, several at once; blocks until no request for them is
   in flight.  Fails as mr_remote_object does, and by MR_ERR_DATA if the object has changed; what
   `to` holds is unspecified then. */
mr_err_t mr_remote_read(mr_remote_t *r, const mr_remote_want_t *want, int n, mr_diag_t *diag);

/* Before records are read, after the last object has been opened: opens the cache, and from then on
   mr_remote_read serves what mr_remote_tell has announced from what was fetched ahead.  With peers=
   it waits up to timeout= for them, and as long for its own address if another process had that
   when this one was planned. MR_ERR_CONFIG for a wrong cache-size=, MR_ERR_IO for a folder that
   cannot be used, MR_ERR_NOMEM. */
mr_err_t mr_remote_start(mr_remote_t *r, mr_diag_t *diag);

/* Reads one part that is not announced and may be large: a whole object, or what a scan reads of
   it. Unlike mr_remote_read it goes through the cache, and to the peers, from the start, which it
   does itself as mr_remote_start, but does not answer peers while another process does so at its
   address; `again` says that the bytes are likely to be read again.  All
   objects should have been opened before.  Any thread, several at once; blocks.  Fails as
   mr_remote_read and mr_remote_start. */
mr_err_t mr_remote_load(mr_remote_t *r, const mr_remote_want_t *want, bool again, mr_diag_t *diag);

/* Called before a wait for another process, which may be a peer and wait for this one: begins to
   answer peers, if there are any.  r: NULL is fine.  Fails as mr_remote_start.  Any thread;
   blocks. */
mr_err_t mr_remote_answer(mr_remote_t *r, mr_diag_t *diag);

/* After the plan of a source that another process runs: ends requests, and gives back the cache and
   the connections.  Objects stay; nothing is read or opened any more.  r: NULL is fine. */
void mr_remote_rest(mr_remote_t *r);

/* Announces that want[0,n) will be read in this order, after what was announced before; `to` is not
   used.  What is announced and never read is dropped later.  Returns how many more parts are worth
   announcing now; 0 before mr_remote_start.  Any thread; does not block. */
int64_t mr_remote_tell(mr_remote_t *r, const mr_remote_want_t *want, int n);

/* Measures the servers of all objects that are open, which must not be empty, as a source would use
   them that reads record_bytes for each record: sets all of *out but records and bytes.  Blocks for
   `seconds` for each number of connections.  MR_END without objects; fails as mr_remote_read. */
mr_err_t mr_remote_measure(mr_remote_t *r, int64_t record_bytes, double seconds, mr_served_t *out,
                           mr_diag_t *diag);

/* Returns a hash of the names, sizes, ETags and times of all objects that are open, in whatever
   order they were opened; 0 without objects, or if r is NULL. */
uint64_t mr_remote_states(mr_remote_t *r);

/* Counts since open.  Any thread. */
void mr_remote_count(mr_remote_t *r, mr_remote_counts_t *out);

/* Adds the counts to what a source reports while it runs; false if r is NULL.  Any thread. */
bool mr_remote_asked(mr_remote_t *r, mr_asked_t *out);

/* Describes counts in one line, into text[0,n); "" if nothing was requested, not
   even of the cache. */
void mr_remote_report(const mr_remote_counts_t *c, char *text, size_t n);

#endif
