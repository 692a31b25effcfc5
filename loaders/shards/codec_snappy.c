/* Blocks compressed by snappy: its bytes' number, then runs of bytes and copies of earlier ones.  A
   library for these two pages would be one more for every user to install.

   Source of the format: google/snappy, format_description.txt. */
#include <stdbool.h>
#include <string.h>

#include "loaders/shards/codec.h"

typedef struct snappy {
  const uint8_t *at, *end;
  uint8_t *to;
  size_t n, size; /* bytes written, and to be written */
} snappy_t;

/* A little-endian number of 1 to 4 bytes. */
static bool snappy_number(snappy_t *s, int bytes, size_t *out) {
  uint32_t v = 0;
  if (s->end - s->at < bytes) return false;
  memcpy(&v, s->at, (size_t)bytes);
  s->at += bytes, *out = v;
  return true;
}

static bool put_run(snappy_t *s, size_t n) {
  if (n > (size_t)(s->end - s->at) || n > s->size - s->n) return false;
  memcpy(s->to + s->n, s->at, n);
  s->at += n, s->n += n;
  return true;
}

/* The copy may overlap what it writes, which repeats it. */
static bool put_copy(snappy_t *s, size_t back, size_t n) {
  if (!back || back > s->n || n > s->size - s->n) return false;
  for (size_t i = 0; i < n; i++) s->to[s->n + i] = s->to[s->n + i - back];
  s->n += n;
  return true;
}

static bool take_element(snappy_t *s) {
  size_t tag = *s->at++, n = tag >> 2, low;
  switch (tag & 3) {
    case 0:
      if (n >= 60 && !snappy_number(s, (int)n - 59, &n)) return false;
      return put_run(s, n + 1);
    case 1: return snappy_number(s, 1, &low) && put_copy(s, (tag >> 5) << 8 | low, (n & 7) + 4);
    case 2: return snappy_number(s, 2, &low) && put_copy(s, low, n + 1);
    default: return snappy_number(s, 4, &low) && put_copy(s, low, n + 1);
  }
}

mr_err_t mr_codec_snappy(const uint8_t *from, size_t n, uint8_t *to, size_t size, mr_diag_t *diag) {
  snappy_t s = {.at = from, .end = from + n, .to = to, .size = size};
  uint64_t says = 0;
  int shift = 0;
  bool more = true;
  for (; more && s.at < s.end && shift < 35; shift += 7) {
    says |= (uint64_t)(*s.at & 0x7F) << shift;
    more = *s.at++ & 0x80;
  }
  bool good = !more && says == size;
  while (good && s.at < s.end) good = take_element(&s);
  if (good && s.n == size) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "is damaged, or holds another number of bytes than it says");
}
