/* The setting host=I/N, and the slice of a batch that it stands for. */
#include "stages/host.h"

#include <inttypes.h>
#include <stdlib.h>

static bool host_number(const char **at, int64_t *out) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  *out = strtoll(*at, &end, 10);
  *at = end;
  return true;
}

mr_err_t mr_host_parse(mr_stage_t *s, const char *text, int64_t size, mr_host_t *h) {
  *h = (mr_host_t){0, 1};
  if (!text || !*text) return MR_OK;
  const char *at = text;
  bool good = host_number(&at, &h->i) && *at++ == '/' && host_number(&at, &h->n) && !*at;
  if (good && h->i < h->n && h->n <= size) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting host = %s: want I/N with 0 <= I < N <= %" PRId64 ", the batch",
                       text, size);
}

void mr_host_slice(const mr_host_t *h, int *from, int *n) {
  int64_t lo = *n * h->i / h->n, hi = *n * (h->i + 1) / h->n;
  *from += (int)lo;
  *n = (int)(hi - lo);
}
