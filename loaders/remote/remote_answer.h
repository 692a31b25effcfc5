/* What servers say of the bytes they send: range, checksum, time.  Implemented in remote_answer.c,
   and in remote_sum.c what needs libcrypto. */
#ifndef MR_LOADERS_REMOTE_REMOTE_ANSWER_H
#define MR_LOADERS_REMOTE_REMOTE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A time that a server states, in nanoseconds since 1970; 0, not said, for one outside 1970 to
   2262, which an int64_t cannot hold. */
static inline int64_t mr__time_ns(time_t seconds) {
  bool fits = seconds > 0 && seconds <= INT64_MAX / 1000000000;
  return fits ? (int64_t)seconds * 1000000000 : 0;
}

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
   white space around it in *len; NULL if the line is another one.  It lies in the line and is
   valid as long as that. */
const char *mr__remote_value(const char *line, size_t n, const char *name, size_t *len);

enum { MR_SERVE_MOST = 8 << 20 /* bytes of one answer to a peer */ };

/* Parses the value of a Range header, "bytes=FIRST-LAST" with both numbers, for an object of `size`
   bytes.  False if it is anything else, lies outside, or is longer than a peer may ask for. */
bool mr__serve_range(const char *text, int64_t size, int64_t *first, int64_t *n);

/* Returns whether data[0,n) has this checksum; true for MR_SUM_NONE and for a kind that this
   libcrypto refuses (MD5 under FIPS).  Any thread. */
bool mr__remote_sum_ok(const mr_remote_sum_t *sum, const void *data, size_t n);

#endif
