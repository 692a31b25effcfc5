/* The inside of remote objects.

   remote.c opens objects and reads ranges; remote_url.c turns names into URLs; remote_answer.c
   parses what servers say; remote_sign.c finds credentials; remote_engine.c sends requests on a
   thread of its own, each by a transfer of libcurl (remote_attempt.h) or two. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PRIVATE_H
#define MR_LOADERS_REMOTE_REMOTE_PRIVATE_H

#include <time.h>

#include "base/xio.h"
#include "loaders/remote/remote.h"

/* A time that a server states, in nanoseconds since 1970; 0, not said, for one outside 1970 to
   2262, which an int64_t cannot hold. */
static inline int64_t mr__time_ns(time_t seconds) {
  bool fits = seconds > 0 && seconds <= INT64_MAX / 1000000000;
  return fits ? (int64_t)seconds * 1000000000 : 0;
}

/* ---- remote_url.c ---- */

/* Writes the URL at which the object s3://BUCKET/KEY is requested: below the endpoint if there is
   one (path style), else https://BUCKET.s3.REGION.amazonaws.com/KEY, or in path style for a bucket
   whose name has a dot.  Every byte of the key but letters, digits and "-._~/" is encoded.
   MR_ERR_CONFIG for a name without bucket or key, a wrong bucket, or a URL that is too long. */
mr_err_t mr__remote_s3_url(const char *name, const char *endpoint, const char *region,
                           char out[MR_PATH_MAX], mr_diag_t *diag);

/* Writes the URL of the bucket of s3://BUCKET/PREFIX in the same way, with a final slash, and sets
 *prefix to what follows the bucket in name, "" without anything.  Fails as mr__remote_s3_url. */
mr_err_t mr__remote_s3_bucket(const char *name, const char *endpoint, const char *region,
                              char out[MR_PATH_MAX], const char **prefix, mr_diag_t *diag);

/* Appends text to out[0,room) at *at, with every byte but letters, digits, "-._~" and, with
   slashes, "/" encoded, and a final NUL.  False if it does not fit. */
bool mr__remote_encode(char *out, size_t room, size_t *at, const char *text, bool slashes);

/* ---- remote_page.c ---- */

typedef struct mr__paged {
  bool more;         /* another page follows */
  const char *token; /* for which this asks; in the page, NULL without one */
  const char *wrong; /* NULL, or why the page is refused, as in "ends early" */
} mr__paged_t;

/* Parses one answer of ListObjectsV2, text[0,n) with a NUL behind it, which it changes, and calls
   fn for each object in it with its whole key as path.  MR_ERR_DATA with out->wrong, and nothing in
   diag, for anything else than a whole answer; fails as fn. */
mr_err_t mr__page_parse(char *text, size_t n, mr_remote_listed_fn *fn, void *ctx, mr__paged_t *out,
                        mr_diag_t *diag);

/* ---- remote_answer.c ---- */

/* Which bytes an answer holds: "bytes FIRST-LAST/TOTAL", or "bytes * /TOTAL" with first -1. */
typedef struct mr_remote_span {
  int64_t first, last, total; /* total: -1 if the server does not say */
} mr_remote_span_t;

/* Parses the value of Content-Range, n bytes without its line's end.  False if it is malformed. */
bool mr__remote_span(const char *text, size_t n, mr_remote_span_t *out);

typedef enum mr_sum_kind {
  MR_SUM_NONE,
  MR_SUM_MD5,
  MR_SUM_SHA1,
  MR_SUM_SHA256,
  MR_SUM_SHA512,
  MR_SUM_CRC32C,
} mr_sum_kind_t;
enum { MR_SUM_MAX = 64 };

typedef struct mr_remote_sum {
  mr_sum_kind_t kind;
  bool whole; /* of the object, not of the answer's bytes */
  uint8_t value[MR_SUM_MAX];
} mr_remote_sum_t;

int mr__remote_sum_bytes(mr_sum_kind_t kind); /* returns the bytes of a sum's value */

/* Takes a checksum out of a header line (Content-MD5, Content-Digest, x-amz-checksum-*), if it
   holds one; *out keeps a stronger one it has.  Lines that hold none, or a malformed one, change
   nothing. */
void mr__remote_sum_line(const char *line, size_t n, mr_remote_sum_t *out);

/* Returns whether text[0,n) may be an ETag: one with a control character would end the line of the
   request that asks for it, or of the index that keeps it. */
bool mr__remote_is_etag(const char *text, size_t n);

/* Returns the value of a header line (n bytes) called name, in any case, and its length without
   white space around it in *len; NULL if the line is another one. */
const char *mr__remote_value(const char *line, size_t n, const char *name, size_t *len);

/* ---- remote_sign.c ---- */

enum { MR_SECRET_MAX = 256, MR_TOKEN_MAX = 4096 };

typedef struct mr_credentials {
  char key[MR_SECRET_MAX], secret[MR_SECRET_MAX], token[MR_TOKEN_MAX]; /* token: "" without one */
  int64_t until_s; /* seconds since 1970 at which they end; 0: they do not */
} mr_credentials_t;

/* Sends one small request, for instance metadata.  headers: lines joined by \n, or NULL.  Fills
   text[0,n) with the body, NUL-terminated.  MR_ERR_IO with a sentence. */
typedef mr_err_t mr_plain_request_fn(const char *method, const char *url, const char *headers,
                                     char *text, size_t n, mr_diag_t *diag);

/* Finds credentials as Amazon's tools do: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile
   AWS_PROFILE in AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, instance metadata (IMDSv2).
   MR_ERR_CONFIG with a sentence that names these places if none has them; no sentence holds a
   secret. */
mr_err_t mr__remote_credentials(mr_credentials_t *out, mr_plain_request_fn *plain, mr_diag_t *diag);

/* Writes the region of the environment or the profile into out[0,n), else "us-east-1". */
void mr__remote_region(char *out, size_t n);

/* Finds `key` in section [section] of a file of settings in memory, text[0,size); copies its value
   to out[0,n).  False without it, or if it does not fit. */
bool mr__remote_ini(const char *text, size_t size, const char *section, const char *key, char *out,
                    size_t n);

/* Parses the answer of instance metadata into *out.  False if it is malformed. */
bool mr__remote_parse_metadata(const char *text, mr_credentials_t *out);

/* ---- remote_engine.c, or without.c ---- */

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
} mr__request_t;

/* Starts the thread.  MR_ERR_NOMEM, MR_ERR_UNAVAILABLE. */
mr_err_t mr__engine_open(mr__engine_t **out, const mr_remote_conf_t *conf, const char *region,
                         mr_diag_t *diag);
void mr__engine_close(mr__engine_t *e); /* NULL is fine; requests in flight end by MR_ERR_CANCEL */
void mr__engine_submit(mr__engine_t *e, mr__request_t *q); /* any thread; does not block */
void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out);

/* ---- remote.c ---- */

/* Requests url (heap or not, the caller's), called name in sentences, whole, into *page, whose
   `most` is set; the caller frees page->data, also after a failure.  Blocks; fails as
   mr_remote_object, without MR_ERR_DATA for ranges. */
mr_err_t mr__remote_page(mr_remote_t *r, const char *url, const char *name, bool s3,
                         mr__page_t *page, mr_diag_t *diag);

/* Writes the URL of the bucket as mr__remote_s3_bucket does, with r's endpoint and region. */
mr_err_t mr__remote_bucket(const mr_remote_t *r, const char *name, char out[MR_PATH_MAX],
                           const char **prefix, mr_diag_t *diag);

/* ---- remote_plain.c, or without.c ---- */

mr_plain_request_fn mr__engine_plain;

/* ---- remote_measure.c ---- */

/* Measures the latency, and the rate of requests of `size` bytes with 1, 4, 16, ... connections up
   to conf's, `seconds` each; sets latency_s, n and at of *out.  Fails as the first request that
   does. Blocks. */
mr_err_t mr__remote_measure(const mr_remote_conf_t *conf, const char *region,
                            const mr_object_t *const *object, int n, int64_t size, double seconds,
                            mr_served_t *out, mr_diag_t *diag);

/* ---- remote_sum.c ---- */

/* Returns whether data[0,n) has this checksum; true for MR_SUM_NONE and for a kind that this
   libcrypto refuses (MD5 under FIPS).  Any thread. */
bool mr__remote_sum_ok(const mr_remote_sum_t *sum, const void *data, size_t n);

#endif
