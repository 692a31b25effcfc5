/* Lists of numbers and ranges, such as the records to exclude.  A list, or the file that "@FILE"
   names, becomes sorted, disjoint rows, so that a membership test is one binary search whatever the
   order and overlaps in the text. */
#include "base/ranges.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"

enum { FILE_MAX = 64 << 20 };

static int by_first(const void *a, const void *b) {
  const struct mr_range *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the rows and joins those that overlap or are adjacent. */
static void ranges_settle(mr_ranges_t *r) {
  size_t n = 0;
  if (!r->n) return;
  qsort(r->row, r->n, sizeof *r->row, by_first);
  for (size_t i = 1; i < r->n; i++) {
    struct mr_range *last = &r->row[n];
    if (last->last == UINT64_MAX || r->row[i].first <= last->last + 1) {
      if (r->row[i].last > last->last) last->last = r->row[i].last;
    } else {
      r->row[++n] = r->row[i];
    }
  }
  assert(n < r->n);
  r->n = n + 1;
}

static bool ranges_number(const char **at, uint64_t *out) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  errno = 0;
  *out = strtoull(*at, &end, 10);
  *at = end;
  return !errno;
}

static mr_err_t ranges_add(mr_ranges_t *r, const char *word, mr_diag_t *diag) {
  struct mr_range row;
  const char *at = word;
  bool good = ranges_number(&at, &row.first);
  row.last = row.first;
  if (good && *at == '-') {
    at++;
    good = ranges_number(&at, &row.last);
  }
  if (!good || *at || row.last < row.first)
    return mr_fail(diag, MR_ERR_CONFIG, "\"%.40s\": want numbers and ranges like 3,10-20", word);
  if (r->n == MR_RANGES_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "more than %d numbers and ranges", MR_RANGES_MAX);
  if (!(r->n & (r->n - 1))) {
    void *more = realloc(r->row, (r->n ? 2 * r->n : 1) * sizeof *r->row);
    if (!more) return mr_no_memory(diag, "a list of ranges");
    r->row = more;
  }
  r->row[r->n++] = row;
  return MR_OK;
}

/* Overwrites comments with spaces. */
static void blank_comments(char *text) {
  for (char *at = text; (at = strchr(at, '#'));)
    while (*at && *at != '\n') *at++ = ' ';
}

static mr_err_t ranges_parse_words(mr_ranges_t *r, char *text, mr_diag_t *diag) {
  char *save = NULL;
  for (char *word = strtok_r(text, ", \t\r\n", &save); word;
       word = strtok_r(NULL, ", \t\r\n", &save))
    MR_TRY(ranges_add(r, word, diag));
  return MR_OK;
}

mr_err_t mr_ranges_parse(mr_ranges_t *r, const char *text, mr_diag_t *diag) {
  *r = (mr_ranges_t){0};
  if (!text || !*text) return MR_OK;
  size_t n;
  void *copy = NULL;
  if (*text == '@')
    MR_TRY(mr_read_file(text + 1, FILE_MAX, &copy, &n, diag));
  else
    copy = strdup(text);
  if (!copy) return mr_no_memory(diag, "a list of ranges");
  blank_comments(copy);
  mr_err_t e = ranges_parse_words(r, copy, diag);
  free(copy);
  if (e < 0)
    mr_ranges_fini(r);
  else
    ranges_settle(r);
  return e;
}

void mr_ranges_fini(mr_ranges_t *r) {
  free(r->row);
  *r = (mr_ranges_t){0};
}

bool mr_ranges_has(const mr_ranges_t *r, uint64_t x) {
  size_t lo = 0, hi = r->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (x > r->row[mid].last)
      lo = mid + 1;
    else
      hi = mid;
  }
  assert(lo == r->n || x <= r->row[lo].last);
  return lo < r->n && x >= r->row[lo].first;
}
