/* Names of remote objects: which names are URLs, what of them may be shown, and where an object of
   a bucket is requested. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/shown.h"
#include "loaders/remote/remote_url.h"

enum { BUCKET_LEAST = 3, BUCKET_MOST = 63 };

static bool begins_with(const char *name, const char *scheme) {
  return !strncasecmp(name, scheme, strlen(scheme));
}

bool mr_remote_is(const char *name) {
  return begins_with(name, "http://") || begins_with(name, "https://") ||
         begins_with(name, "s3://");
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = (char)tolower((unsigned char)c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* file:///a%20b and file://localhost/a%20b as /a b.  A path with %00 ends there, as any path. */
static char *decode_file_url(const char *url) {
  const char *from = strchr(url + strlen("file://"), '/');
  char *path = from ? malloc(strlen(from) + 1) : strdup(url), *to = path;
  if (!path || !from) return path;
  while (*from) {
    int high = *from == '%' ? hex_digit(from[1]) : -1, low = high < 0 ? -1 : hex_digit(from[2]);
    *to++ = low < 0 ? *from : (char)(high << 4 | low);
    from += low < 0 ? 1 : 3;
  }
  *to = 0;
  return path;
}

char *mr_remote_shown(const char *name) {
  if (begins_with(name, "file://")) return decode_file_url(name);
  return mr_remote_is(name) ? mr_shown_url(name) : strdup(name);
}

/* ---- queries ---- */

static bool is_parameter(const char *at, size_t n, const char *name) {
  size_t k = strlen(name);
  return n >= k && !strncasecmp(at, name, k) && (n == k || at[k] == '=');
}

/* Whether a parameter is part of a signature: Amazon's, Google's, CloudFront's or, beside "sig",
   one of Azure's. */
static bool signs_url(const char *at, size_t n, bool azure) {
  static const char *const usual[] = {"AWSAccessKeyId", "GoogleAccessId", "Signature",
                                      "Expires",        "Policy",         "Key-Pair-Id"};
  static const char *const of_azure[] = {"sig", "sv",    "se",    "st",  "sr",  "sp",  "spr",
                                         "sip", "skoid", "sktid", "skt", "ske", "sks", "skv"};
  if (n > 7 && (!strncasecmp(at, "X-Amz-", 6) || !strncasecmp(at, "X-Goog-", 7))) return true;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (is_parameter(at, n, usual[i])) return true;
  for (size_t i = 0; azure && i < sizeof of_azure / sizeof *of_azure; i++)
    if (is_parameter(at, n, of_azure[i])) return true;
  return false;
}

uint64_t mr_remote_query(const char *url) {
  const char *query = strchr(url, '?'), *end = query ? query + strcspn(query, "#") : NULL;
  bool azure = false;
  uint64_t hash = 0;
  for (int pass = 0; pass < 2 && query; pass++)
    for (const char *at = query + 1; at < end;) {
      size_t n = strcspn(at, "&#");
      if (!pass)
        azure |= is_parameter(at, n, "sig");
      else if (n && !signs_url(at, n, azure))
        hash = XXH3_64bits_withSeed(at, n, hash);
      at += n + 1;
    }
  return hash;
}

/* ---- s3 ---- */

static bool is_bucket(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && !strchr(".-_", s[i]))
      return false;
  return n >= BUCKET_LEAST && n <= BUCKET_MOST && isalnum((unsigned char)s[0]);
}

/* So the path that is sent is the path that is signed. */
bool mr__remote_encode(char *out, size_t room, size_t *at, const char *text, bool slashes) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    bool plain = (c < 128 && isalnum(c)) || strchr("-._~", c) || (slashes && c == '/');
    if (*at + 4 > room) return false;
    *at += (size_t)snprintf(out + *at, room - *at, plain ? "%c" : "%%%02X", c);
  }
  return true;
}

mr_err_t mr__remote_s3_bucket(const char *name, const char *endpoint, const char *region,
                              char out[MR_PATH_MAX], const char **prefix, mr_diag_t *diag) {
  const char *bucket = name + strlen("s3://");
  int b = (int)strcspn(bucket, "/"), n;
  if (!is_bucket(bucket, (size_t)b))
    return mr_fail(diag, MR_ERR_CONFIG, "%.300s: want s3://BUCKET/KEY", name);
  *prefix = bucket + b + (bucket[b] == '/');
  if (endpoint && *endpoint) {
    size_t end = strlen(endpoint);
    if (!mr_remote_is(endpoint) || begins_with(endpoint, "s3://") || strpbrk(endpoint, "?#@"))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "setting endpoint: want https://HOST:PORT, without user, query and fragment");
    while (end && endpoint[end - 1] == '/') end--;
    n = snprintf(out, MR_PATH_MAX, "%.*s/%.*s/", (int)end, endpoint, b, bucket);
  } else if (memchr(bucket, '.', (size_t)b)) { /* no certificate covers a name with more dots */
    n = snprintf(out, MR_PATH_MAX, "https://s3.%s.amazonaws.com/%.*s/", region, b, bucket);
  } else {
    n = snprintf(out, MR_PATH_MAX, "https://%.*s.s3.%s.amazonaws.com/", b, bucket, region);
  }
  if (n < MR_PATH_MAX) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%.300s: the name is too long", name);
}

mr_err_t mr__remote_s3_url(const char *name, const char *endpoint, const char *region,
                           char out[MR_PATH_MAX], mr_diag_t *diag) {
  const char *key;
  MR_TRY(mr__remote_s3_bucket(name, endpoint, region, out, &key, diag));
  size_t n = strlen(out);
  if (!*key) return mr_fail(diag, MR_ERR_CONFIG, "%.300s: want s3://BUCKET/KEY", name);
  if (mr__remote_encode(out, MR_PATH_MAX, &n, key, true)) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%.300s: the name is too long", name);
}
