/* An object of a server, and ranges of it. */
#ifndef MR_LOADERS_REMOTE_OBJECT_H
#define MR_LOADERS_REMOTE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* One object; immutable, owned by its mr_remote_t. */
typedef struct mr_object {
  char *name; /* the URL without user, password and query, for sentences and as the object's name */
  char *url;  /* as it is requested */
  bool s3;
  bool listed;            /* its state was found by an earlier listing, which may be out of date */
  const char *token;      /* NULL: none; of a peer's object: what both ends prove that they know */
  const char *peer;       /* with a token: HOST:PORT of the peer, which the path follows in url */
  int64_t size, mtime_ns; /* mtime_ns: 0 if the server gives no Last-Modified */
  const char *etag;       /* "" if the server gives none */
  uint64_t state[2];      /* a hash of all that; 0: not computed yet */
} mr_object_t;

/* Adds the sizes of objects, which servers may claim to be anything; at most INT64_MAX. */
static inline int64_t mr_remote_sum(int64_t a, int64_t b) {
  return b > INT64_MAX - a ? INT64_MAX : a + b;
}

/* One range to read, inside the object. */
typedef struct mr_remote_want {
  const mr_object_t *object;
  int64_t at, size;
  void *to; /* [size]; NULL: the caller has the bytes already, and what was announced is over */
} mr_remote_want_t;

#endif
