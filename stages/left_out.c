/* Arithmetic on batches of which some steps are skipped. */
#include "stages/left_out.h"

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
