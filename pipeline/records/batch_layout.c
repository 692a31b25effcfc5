/* Arithmetic on batches: which part of each batch a host makes, and which records remain when steps
   are skipped.  Both are pure functions of numbers, so hosts agree without talking to each other
   and a resumed run finds the same records. */
#include "pipeline/records/batch_layout.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/parts.h"

/* ---- slices ---- */

/* Takes a whole number off the front of a text. */
static bool host_number(const char **at, int64_t *out) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  *out = strtoll(*at, &end, 10);
  *at = end;
  return true;
}

mr_err_t mr_host_parse(mr_stage_t *s, const char *text, int64_t size, mr_host_t *h) {
  *h = (mr_host_t){.n = 1};
  if (!text || !*text) return MR_OK;
  const char *at = text;
  bool good = host_number(&at, &h->i) && *at++ == '/' && host_number(&at, &h->n) && !*at;
  if (good && h->i < h->n && h->n <= size) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting host = %s: want I/N with 0 <= I < N <= %" PRId64 ", the batch",
                       text, size);
}

/* Where the slice of host i begins among n slots. */
static int64_t host_slice_begins(const mr_host_t *h, int64_t i, int64_t n) {
  if (!h->parts) return n * i / h->n;
  return mr_part_begins(n, h->parts, mr_part_begins(h->parts, h->n, i));
}

void mr_host_slice(const mr_host_t *h, int *from, int *n) {
  int64_t lo = host_slice_begins(h, h->i, *n), hi = host_slice_begins(h, h->i + 1, *n);
  *from += (int)lo;
  *n = (int)(hi - lo);
}

/* ---- a resume that changed the stream ---- */

static bool take_resumed(const char **at, int64_t *out) {
  return host_number(at, out) && *out < INT64_C(1) << 62;
}

mr_err_t mr_batch_resume_parse(mr_stage_t *s, const char *text, mr_batch_resume_t *r) {
  r->given = text && *text, r->n_words = 0, r->position = r->number = 0;
  if (!r->given) return MR_OK;
  const char *at = text;
  bool good = take_resumed(&at, &r->position) && *at++ == ':' && take_resumed(&at, &r->number);
  for (char before = ':'; good && *at == before && r->n_words < MR_STREAM_WORDS_MAX; before = ',')
    at++, good = take_resumed(&at, &r->word[r->n_words++]);
  if (good && !*at) return MR_OK;
  return mr_stage_fail(
      s, MR_ERR_CONFIG,
      "setting resume = %.60s: want POSITION:STEPS, as a resume writes it, or none", text);
}

/* ---- skipped steps ---- */

/* Records in batches [0,n), including skipped steps. */
static int64_t left_out_records_of(const mr_left_out_t *t, int64_t n) {
  if (!t->batches) return n * t->size;
  return n / t->batches * t->records + n % t->batches * t->size;
}

static int64_t left_out_least(uint64_t step, int64_t n) {
  return step < (uint64_t)n ? (int64_t)step : n;
}

int64_t mr_left_out_before(const mr_left_out_t *t, int64_t n) {
  int64_t records = left_out_records_of(t, n);
  for (size_t i = 0; i < t->steps->n; i++) {
    uint64_t first = t->steps->row[i].first, last = t->steps->row[i].last;
    if (first > (uint64_t)n) break;
    records -= left_out_records_of(t, left_out_least(last, n)) -
               left_out_records_of(t, first ? (int64_t)first - 1 : 0);
  }
  return records;
}

int64_t mr_left_out_batch(const mr_left_out_t *t, int64_t record, int64_t most) {
  int64_t lo = 0, hi = most; /* the result is in [lo,hi] */
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (mr_left_out_before(t, mid + 1) > record)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}
