/* Requests in flight, on a thread of their own, each by a transfer of libcurl (remote_attempt.h) or
   two.  In a build without libcurl opening an engine is refused (without.c). */
#ifndef MR_LOADERS_REMOTE_REMOTE_ENGINE_H
#define MR_LOADERS_REMOTE_REMOTE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "loaders/remote/object.h"
#include "loaders/remote/remote_conf.h"
#include "loaders/remote/remote_sign.h"

typedef struct mr__engine mr__engine_t;

/* The whole answer of a request without a range, for listings. */
typedef struct mr__page {
  char *data; /* [n] heap, the caller's; a NUL follows */
  size_t n, cap, most;
} mr__page_t;

/* One range request; the caller's, untouched by it from submit until done is called. */
typedef struct mr__request {
  const mr_object_t *object; /* its size is -1 while it is unknown */
  int64_t at, size;
  uint8_t *to;      /* [size]; NULL if the bytes do not matter */
  mr__page_t *page; /* NULL: a range; else the whole answer goes there, and at and size are 0 */
  void (*done)(struct mr__request *q, void *arg); /* on the engine's thread; must not block */
  /* NULL, or asked before it is sent, as done is: false ends it by MR_ERR_IO. */
  bool (*wanted)(const struct mr__request *q, void *arg);
  void *arg;

  /* The outcome. */
  mr_err_t code;
  mr_diag_t diag;
  long status; /* of the last answer; 0: none came */
  int64_t total, mtime_ns;
  char etag[256];

  /* The engine's. */
  struct mr__request *next;
  struct mr__attempt *attempt[2]; /* in flight; the second is a hedge */
  int tries;
  int64_t due_ns, begun_ns;
  bool unwanted; /* guarded by the engine's lock */
  bool goes;     /* unwanted, as its thread knows it */
} mr__request_t;

/* Starts the thread.  MR_ERR_NOMEM, MR_ERR_UNAVAILABLE. */
mr_err_t mr__engine_open(mr__engine_t **out, const mr_remote_conf_t *conf, const char *region,
                         mr_diag_t *diag);
void mr__engine_close(mr__engine_t *e); /* NULL is fine; requests in flight end by MR_ERR_CANCEL */
void mr__engine_submit(mr__engine_t *e, mr__request_t *q); /* any thread; does not block */
/* Ends requests of q[0,n), all of which were submitted, by MR_ERR_CANCEL, but for those that have
   ended already: done is called for each as ever, soon.  Any thread; does not block. */
void mr__engine_drop(mr__engine_t *e, mr__request_t *q, int n);
void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out);

/* Sends one small request with libcurl, in remote_plain.c. */
mr_plain_request_fn mr__engine_plain;

#endif
