/* Merges neighbours in a file into one read: records of a sequential pass, or two of a random batch
   that happen to lie in the same page.  A merged read goes straight into place where the records
   lie in memory as in the file, else through the reader's scratch. */
#include <stdlib.h>
#include <string.h>

#include "loaders/local/reader_private.h"

enum {
  GROUP = MR_READER_AHEAD /* reads considered together */,
  GAP = 4096 /* most unwanted bytes between two merged reads */
};

typedef struct mr_reader_group {
  const mr_read_t *read;
  size_t n;
  uint16_t order[GROUP]; /* indices into read, by file and offset */
  mr_read_t span[GROUP];
  uint16_t first[GROUP + 1]; /* span k covers order[first[k], first[k+1]) */
  bool apart[GROUP];         /* span k lands in scratch */
  size_t n_spans;
} group_t;

static bool read_comes_before(const mr_read_t *a, const mr_read_t *b) {
  return a->file != b->file ? a->file < b->file : a->offset < b->offset;
}

/* Insertion sort: a group is small, and a sequential one is in order already. */
static void sort_reads(group_t *g) {
  for (size_t i = 0; i < g->n; i++) {
    size_t k = i;
    for (; k && read_comes_before(&g->read[i], &g->read[g->order[k - 1]]); k--)
      g->order[k] = g->order[k - 1];
    g->order[k] = (uint16_t)i;
  }
}

/* Whether the read continues the span both in the file and in memory. */
static bool in_line(const mr_read_t *span, const mr_read_t *next) {
  return next->offset == span->offset + (int64_t)span->len &&
         (char *)next->dst == (char *)span->dst + span->len;
}

/* Extends the last span by the next read; false if it lies too far away or scratch is full. */
static bool extend_span(group_t *g, const mr_reader_t *r, const mr_read_t *next, size_t *used) {
  mr_read_t *span = &g->span[g->n_spans - 1];
  bool *apart = &g->apart[g->n_spans - 1];
  int64_t end = span->offset + (int64_t)span->len;
  int64_t more = next->offset + (int64_t)next->len - end;
  if (next->file != span->file || next->offset - end > GAP || more < 0) return false;
  if (span->len + (size_t)more > r->window) return false;
  if (!*apart && in_line(span, next)) {
    span->len += next->len;
    return true;
  }
  size_t want = (*apart ? 0 : span->len) + (size_t)more;
  if (*used + want > MR_READER_JOIN_BYTES) return false;
  *apart = true, *used += want, span->len += (size_t)more;
  return true;
}

/* Makes room for `used` bytes, and for what later calls may need as far as the files are large
   enough: a graph may have thousands of readers, most of them of small files, and those of large
   ones take no memory in the middle of a run. */
static mr_err_t grow_scratch(mr_reader_t *r, size_t used, mr_diag_t *diag) {
  size_t cap = used;
  for (int i = 0; i < r->n_files && cap < MR_READER_JOIN_BYTES; i++)
    cap = r->size[i] < MR_READER_JOIN_BYTES ? cap + (size_t)r->size[i] : MR_READER_JOIN_BYTES;
  if (cap > MR_READER_JOIN_BYTES) cap = MR_READER_JOIN_BYTES;
  free(r->scratch);
  r->scratch = malloc(cap);
  r->scratch_cap = r->scratch ? cap : 0;
  return r->scratch ? MR_OK : mr_no_memory(diag, "%zu bytes of merged reads", cap);
}

/* Gives the spans that land apart their places in a scratch of `used` bytes. */
static mr_err_t place_apart(group_t *g, mr_reader_t *r, size_t used, mr_diag_t *diag) {
  if (used > r->scratch_cap) MR_TRY(grow_scratch(r, used, diag));
  char *at = r->scratch;
  for (size_t k = 0; k < g->n_spans; k++)
    if (g->apart[k]) g->span[k].dst = at, at += g->span[k].len;
  return MR_OK;
}

/* Sorts the reads and merges them into spans. */
static mr_err_t reader_join_join(group_t *g, mr_reader_t *r, const mr_read_t *read, size_t n,
                                 mr_diag_t *diag) {
  size_t used = 0;
  g->read = read, g->n = n, g->n_spans = 0;
  sort_reads(g);
  for (size_t i = 0; i < g->n; i++) {
    const mr_read_t *next = &g->read[g->order[i]];
    if (i && extend_span(g, r, next, &used)) continue;
    g->first[g->n_spans] = (uint16_t)i;
    g->apart[g->n_spans] = false;
    g->span[g->n_spans++] = *next;
  }
  g->first[g->n_spans] = (uint16_t)g->n;
  return place_apart(g, r, used, diag);
}

static void copy_apart(const group_t *g) {
  for (size_t k = 0; k < g->n_spans; k++)
    for (size_t i = g->first[k]; g->apart[k] && i < g->first[k + 1]; i++) {
      const mr_read_t *one = &g->read[g->order[i]];
      memcpy(one->dst, (char *)g->span[k].dst + (one->offset - g->span[k].offset), one->len);
    }
}

mr_err_t mr__reader_joined(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  for (size_t at = 0; at < n; at += GROUP) {
    group_t g;
    MR_TRY(reader_join_join(&g, r, read + at, n - at < GROUP ? n - at : GROUP, diag));
    MR_TRY(r->way->read(r, g.span, g.n_spans, diag));
    copy_apart(&g);
  }
  return MR_OK;
}

mr_err_t mr__reader_joined_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  if (!r->ahead) r->ahead = malloc(sizeof *r->ahead);
  if (!r->ahead) return mr_no_memory(diag, "%zu reads", n);
  MR_TRY(reader_join_join(r->ahead, r, read, n, diag));
  r->way->begin(r, r->ahead->span, r->ahead->n_spans);
  return MR_OK;
}

mr_err_t mr__reader_joined_finish(mr_reader_t *r, mr_diag_t *diag) {
  MR_TRY(r->way->finish(r, diag));
  copy_apart(r->ahead);
  return MR_OK;
}
