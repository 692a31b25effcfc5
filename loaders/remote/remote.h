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

   Implemented in remote.c, remote_url.c for names and remote_list.c for listings. */
#ifndef MR_LOADERS_REMOTE_REMOTE_H
#define MR_LOADERS_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pipeline/stage_source.h"

/* The settings; texts live as long as the state that holds them. */
typedef struct mr_remote_conf {
  const char *endpoint, *region; /* s3; NULL: from the environment and the profile */
  bool anonymous;                /* s3: requests are not signed */
  int64_t connections, retries;
  double backoff, timeout;               /* s */
  double hedge;                          /* times the usual time of a request; 0: never */
  int64_t ahead;                         /* bytes in memory that are fetched before they are due */
  const char *cache, *cache_size;        /* folder, NULL: none; its limit */
  int64_t cache_block;                   /* bytes */
  const char *peers, *peer, *peer_token; /* NULL: the cache is not shared with other processes */
  bool elsewhere; /* mr_stage_t.elsewhere: another process answers peers and keeps the cache; no
                     setting */
} mr_remote_conf_t;

typedef struct mr_remote mr_remote_t;

/* One object; immutable, owned by its mr_remote_t. */
typedef struct mr_object {
  char *name; /* the URL without user, password and query, for sentences and as the object's name */
  char *url;  /* as it is requested */
  bool s3;
  bool listed;            /* its state was found by an earlier listing, which may be out of date */
  const char *bearer;     /* NULL: none; a peer's object: the token that it wants */
  int64_t size, mtime_ns; /* mtime_ns: 0 if the server gives no Last-Modified */
  const char *etag;       /* "" if the server gives none */
  uint64_t state[2];      /* a hash of all that; 0: not computed yet */
} mr_object_t;

/* Adds the sizes of objects, which servers may claim to be anything; at most INT64_MAX. */
static inline int64_t mr_remote_sum(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? INT64_MAX : a + b;
}

/* Returns whether name begins with http://, https:// or s3://.  Any thread. */
bool mr_remote_is(const char *name);

/* Returns a new string (heap, the caller frees it), NULL without memory: a local name as it is, the
   path of a file:// URL, a URL without user, password and query.  Any thread. */
char *mr_remote_shown(const char *name);

/* Returns a hash of the parameters in a URL's query, without those of signatures, which differ each
   time; 0 without any.  With the shown name it identifies an object.  Any thread. */
uint64_t mr_remote_query(const char *url);

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

/* One object of a listing.  Belongs to the listing, until the call returns. */
typedef struct mr_listed {
  const char *path; /* below the folder, not empty; any bytes but NUL */
  int64_t size, mtime_ns;
  const char *etag; /* "" if the server gives none */
} mr_listed_t;
typedef mr_err_t mr_remote_listed_fn(void *ctx, const mr_listed_t *file, mr_diag_t *diag);

/* Lists the objects below folder, s3://BUCKET or s3://BUCKET/PREFIX, page by page, in the server's
   order, and calls fn for each.  Blocks, with a notice every few seconds.  Fails as
   mr_remote_object does, by MR_ERR_DATA for a page that is no listing, is cut off or is not
   followed by the page it announces, and as fn does.  Implemented in remote_list.c. */
mr_err_t mr_remote_list(mr_remote_t *r, const char *folder, mr_remote_listed_fn *fn, void *ctx,
                        mr_diag_t *diag);

/* One range to read, inside the object. */
typedef struct mr_remote_want {
  const mr_object_t *object;
  int64_t at, size;
  void *to; /* [size]; NULL: the caller has the bytes already, and what was announced is over */
} mr_remote_want_t;

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
typedef struct mr_remote_counts {
  int64_t requests, retries, hedges, bytes; /* bytes: received, used or not */
  int64_t uses, hits, lost; /* of blocks, with a cache; lost: hits whose file was gone or damaged */
  int64_t unkept;           /* blocks that the cache's disk was too slow for */
  int64_t peer_bytes;       /* received from peers */
} mr_remote_counts_t;
void mr_remote_count(mr_remote_t *r, mr_remote_counts_t *out);

/* Adds the counts to what a source reports while it runs; false if r is NULL.  Any thread. */
bool mr_remote_asked(mr_remote_t *r, mr_asked_t *out);

/* Describes counts in one line, into text[0,n); "" if nothing was requested, not
   even of the cache. */
void mr_remote_report(const mr_remote_counts_t *c, char *text, size_t n);

/* Rows of a table: clang-format would put each value on its own line. */
/* clang-format off */
#define MR_REMOTE_OPTS(state, member)                                                             \
  {.name = "connections", .type = MR_OPT_INT, .offset = offsetof(state, member.connections),      \
   .unit = "requests", .def = "64", .lo = 1, .hi = 1024,                                          \
   .help = "URLs: highest number of requests in flight."},                                        \
  {.name = "retries", .type = MR_OPT_INT, .offset = offsetof(state, member.retries),              \
   .unit = "times", .def = "8", .hi = 100,                                                        \
   .help = "URLs: retries of a request after a lost connection, a timeout, 408, 429 or 5xx."},    \
  {.name = "backoff", .type = MR_OPT_F64, .offset = offsetof(state, member.backoff),              \
   .unit = "s", .def = "0.1", .lo = 0, .hi = 60,                                                  \
   .help = "URLs: longest pause before the first retry; it doubles each time, up to 20 s, and "   \
           "the pause is drawn from 0 to that."},                                                 \
  {.name = "timeout", .type = MR_OPT_F64, .offset = offsetof(state, member.timeout),              \
   .unit = "s", .def = "30", .lo = 0.05, .hi = 3600,                                              \
   .help = "URLs: time without a byte after which a request has failed."},                        \
  {.name = "hedge", .type = MR_OPT_F64, .offset = offsetof(state, member.hedge),                  \
   .unit = "times", .def = "4", .lo = 0, .hi = 1000,                                              \
   .help = "URLs: a request that takes this many times as long as usual is sent a second time; "  \
           "0: never."},                                                                          \
  {.name = "ahead", .type = MR_OPT_INT, .offset = offsetof(state, member.ahead),                  \
   .unit = "bytes", .def = "134217728", .lo = 1048576, .hi = 1e12,                                \
   .help = "URLs: bytes in memory that are fetched before they are due."},                        \
  {.name = "cache", .type = MR_OPT_STR, .offset = offsetof(state, member.cache),                  \
   .unit = "folder", .help = "URLs: folder in which blocks of objects are kept; several runs may "\
           "share it.  By default none."},                                                        \
  {.name = "cache-size", .type = MR_OPT_STR, .offset = offsetof(state, member.cache_size),        \
   .def = "10GiB", .help = "URLs: limit of the cache, as in 500GB; the block whose next use is "  \
           "furthest in the future is dropped."},                                                 \
  {.name = "cache-block", .type = MR_OPT_INT, .offset = offsetof(state, member.cache_block),      \
   .unit = "bytes", .def = "65536", .lo = 4096, .hi = 67108864,                                 \
   .help = "URLs: size of a block of the cache."},                                                \
  {.name = "peers", .type = MR_OPT_STR, .offset = offsetof(state, member.peers),                  \
   .unit = "HOST:PORT,...", .help = "URLs: processes that share their caches, this one included: "\
           "each block is fetched from the server by one of them."},                              \
  {.name = "peer", .type = MR_OPT_STR, .offset = offsetof(state, member.peer),                    \
   .unit = "HOST:PORT", .help = "URLs: which of peers= this process is; it answers there."},      \
  {.name = "peer-token", .type = MR_OPT_SECRET, .offset = offsetof(state, member.peer_token),     \
   .help = "URLs: what peers must send, the same for all; by default MILLRACE_PEER_TOKEN."},      \
  {.name = "endpoint", .type = MR_OPT_STR, .offset = offsetof(state, member.endpoint),            \
   .unit = "URL", .help = "s3://: server of the buckets, https://HOST:PORT; by default "          \
           "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's."},                                \
  {.name = "region", .type = MR_OPT_STR, .offset = offsetof(state, member.region),                \
   .help = "s3://: region of the buckets; by default that of AWS_REGION or the profile, else "    \
           "us-east-1."},                                                                         \
  {.name = "anonymous", .type = MR_OPT_BOOL, .offset = offsetof(state, member.anonymous),         \
   .def = "false", .help = "s3://: reads public buckets without credentials."}
/* clang-format on */

#endif
