/* Parses what servers say of the bytes they send: the range, and checksums in base64.  Nothing is
   trusted: an answer with another range than the requested one fails, and one whose checksum does
   not match is requested again. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "loaders/remote/remote_answer.h"

const char *mr__remote_value(const char *line, size_t n, const char *name, size_t *len) {
  size_t k = strlen(name);
  if (n <= k || line[k] != ':' || strncasecmp(line, name, k) != 0) return NULL;
  const char *from = line + k + 1, *end = line + n;
  while (from < end && isspace((unsigned char)*from)) from++;
  while (end > from && isspace((unsigned char)end[-1])) end--;
  *len = (size_t)(end - from);
  return from;
}

bool mr__remote_is_etag(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) return false;
  return true;
}

/* A whole number of at most 18 digits before `stop`; moves *at behind it. */
static bool take_number(const char **at, const char *end, int64_t *out) {
  const char *from = *at;
  for (*out = 0; *at < end && isdigit((unsigned char)**at) && *at - from < 18; (*at)++)
    *out = *out * 10 + (**at - '0');
  return *at > from && (*at == end || !isdigit((unsigned char)**at));
}

bool mr__remote_span(const char *text, size_t n, mr_remote_span_t *out) {
  const char *at = text + 6, *end = text + n;
  *out = (mr_remote_span_t){-1, -1, -1};
  if (n < 8 || strncasecmp(text, "bytes ", 6) != 0) return false;
  if (*at == '*') {
    at++;
  } else {
    if (!take_number(&at, end, &out->first) || at == end || *at++ != '-') return false;
    if (!take_number(&at, end, &out->last) || out->last < out->first) return false;
  }
  if (at == end || *at++ != '/') return false;
  if (end - at == 1 && *at == '*') return out->first >= 0;
  return take_number(&at, end, &out->total) && at == end && out->last < out->total;
}

bool mr__serve_range(const char *text, int64_t size, int64_t *first, int64_t *n) {
  const char *at = text + 6, *end = text + strlen(text);
  int64_t last;
  if (strncmp(text, "bytes=", 6) || !take_number(&at, end, first) || at == end || *at++ != '-' ||
      !take_number(&at, end, &last) || at != end || last < *first || last >= size)
    return false;
  *n = last - *first + 1;
  return *n <= MR_SERVE_MOST;
}

int mr__remote_sum_bytes(mr_sum_kind_t kind) {
  static const uint8_t bytes[] = {[MR_SUM_NONE] = 0,    [MR_SUM_MD5] = 16,    [MR_SUM_SHA1] = 20,
                                  [MR_SUM_SHA256] = 32, [MR_SUM_SHA512] = 64, [MR_SUM_CRC32C] = 4};
  return bytes[kind];
}

static int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes exactly `want` bytes of base64.  False for any other text. */
static bool decode_base64(const char *text, size_t n, uint8_t *out, int want) {
  uint32_t bits = 0;
  int have = 0, made = 0;
  size_t i = 0;
  if (n != (size_t)(want + 2) / 3 * 4) return false;
  for (; i < n && text[i] != '='; i++) {
    int d = base64_digit(text[i]);
    if (d < 0) return false;
    bits = bits << 6 | (uint32_t)d, have += 6;
    if (have < 8) continue;
    have -= 8;
    if (made == want) return false;
    out[made++] = (uint8_t)(bits >> have);
  }
  for (; i < n; i++)
    if (text[i] != '=') return false;
  return made == want;
}

static void take_sum(mr_remote_sum_t *out, mr_sum_kind_t kind, bool whole, const char *text,
                     size_t n) {
  mr_remote_sum_t sum = {.kind = kind, .whole = whole};
  if (out->kind && out->whole <= whole) return; /* one of the answer itself is always of use */
  if (decode_base64(text, n, sum.value, mr__remote_sum_bytes(kind))) *out = sum;
}

/* RFC 9530: "sha-256=:BASE64:, sha-512=:BASE64:". */
static void take_digests(const char *text, size_t n, mr_remote_sum_t *out) {
  static const struct {
    const char *name;
    mr_sum_kind_t kind;
  } row[] = {{"sha-256=:", MR_SUM_SHA256}, {"sha-512=:", MR_SUM_SHA512}};
  for (const char *end = text + n; text < end;) {
    const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;
    while (text < stop && isspace((unsigned char)*text)) text++;
    for (int i = 0; i < 2; i++) {
      size_t k = strlen(row[i].name);
      if ((size_t)(stop - text) <= k || strncasecmp(text, row[i].name, k) != 0) continue;
      const char *colon = memchr(text + k, ':', (size_t)(stop - text) - k);
      if (colon) take_sum(out, row[i].kind, false, text + k, (size_t)(colon - text) - k);
    }
    text = stop + 1;
  }
}

void mr__remote_sum_line(const char *line, size_t n, mr_remote_sum_t *out) {
  size_t k;
  const char *v;
  if ((v = mr__remote_value(line, n, "content-digest", &k))) take_digests(v, k, out);
  if ((v = mr__remote_value(line, n, "content-md5", &k))) take_sum(out, MR_SUM_MD5, false, v, k);
  if ((v = mr__remote_value(line, n, "x-amz-checksum-sha256", &k)))
    take_sum(out, MR_SUM_SHA256, true, v, k);
  if ((v = mr__remote_value(line, n, "x-amz-checksum-sha1", &k)))
    take_sum(out, MR_SUM_SHA1, true, v, k);
  if ((v = mr__remote_value(line, n, "x-amz-checksum-crc32c", &k)))
    take_sum(out, MR_SUM_CRC32C, true, v, k);
}
