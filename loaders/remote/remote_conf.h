/* The settings of a source that may be given URLs, and what it counts. */
#ifndef MR_LOADERS_REMOTE_REMOTE_CONF_H
#define MR_LOADERS_REMOTE_REMOTE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/opt.h"

/* The settings; texts live as long as the state that holds them. */
typedef struct mr_remote_conf {
  const char *endpoint, *region; /* s3; NULL: from the environment and the profile */
  bool anonymous;                /* s3: requests are not signed */
  int64_t connections, retries;
  double backoff, timeout;               /* s */
  bool local_redirects;                  /* a server elsewhere may lead to this machine */
  double hedge;                          /* times the usual time of a request; 0: never */
  int64_t ahead;                         /* bytes in memory that are fetched before they are due */
  const char *cache, *cache_size;        /* folder, NULL: none; its limit */
  int64_t cache_block;                   /* bytes */
  bool shared;                           /* members of this process's groups may write the cache */
  const char *peers, *peer, *peer_token; /* NULL: the cache is not shared with other processes */
  bool elsewhere; /* mr_stage_t.elsewhere: another process answers peers and keeps the cache; no
                     setting */
} mr_remote_conf_t;

/* Counts since a remote source was opened. */
typedef struct mr_remote_counts {
  int64_t requests, retries, hedges, bytes; /* bytes: received, used or not */
  int64_t uses, hits, lost; /* of blocks, with a cache; lost: hits whose file was gone or damaged */
  int64_t unkept;           /* blocks that the cache's disk was too slow for */
  int64_t peer_bytes;       /* received from peers */
} mr_remote_counts_t;

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
   .help = "URLs: time without a byte, or with less than 64 bytes a second, after which a request "       \
           "has failed."},                        \
  {.name = "local-redirects", .type = MR_OPT_BOOL, .offset = offsetof(state, member.local_redirects), \
   .def = "false", .help = "URLs: a server elsewhere may redirect to an address of this machine or "\
           "of its link (127.0.0.1, 169.254.169.254), where it could read what is not its own."}, \
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
  {.name = "shared", .type = MR_OPT_BOOL, .offset = offsetof(state, member.shared),               \
   .def = "false", .help = "URLs: the cache is a group's: what its members wrote there is "       \
           "believed.  By default only this user and root may have written it."},                 \
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
