/* The offsets always stay in memory; the values do if they fit, else each fetch reads its rows into
   memory of its worker. */
#include "loaders/local/npy_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xio.h"
#include "loaders/local/reader_choose.h"

enum { CHUNK = 1 << 17 /* offsets read together, 1 MiB */, RECORD_MAX = 1 << 28 /* bytes */ };

/* Reader and memory of one worker; used by that worker alone. */
typedef struct npy_worker {
  mr_reader_t *reader;
  char *room; /* [cap] rows of the last fetch */
  size_t cap;
} npy_worker_t;

struct mr_npy_rows {
  mr_npy_rows_conf_t conf;
  int64_t *offset; /* [n + 1] checked */
  char *kept;      /* all values; NULL: they are read when fetched */
  npy_worker_t of_worker[MR_MAX_READERS];
};

mr_err_t mr_npy_check_bools(const char *path, const void *bools, size_t n, mr_diag_t *diag) {
  const uint8_t *v = bools;
  for (size_t i = 0; i < n; i++)
    if (v[i] > 1)
      return mr_fail(diag, MR_ERR_DATA, "%s: holds a bool of value %d, want 0 or 1", path, v[i]);
  return MR_OK;
}

/* ---- offsets ---- */

/* A check of the offsets, chunk by chunk. */
typedef struct pass {
  const mr_npy_rows_files_t *files;
  int64_t at, last, longest; /* offsets checked so far, the last one, rows of the longest record */
} pass_t;

static mr_err_t bad_offset(const pass_t *p, int64_t value, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: offset %" PRId64 " is %" PRId64
                 "%s, want offsets that begin at 0, never fall "
                 "and end at %" PRId64
                 ", the rows of %s: numpy.concatenate([[0], "
                 "numpy.cumsum(lengths)])",
                 p->files->offsets.path, p->at, value, p->at == p->files->n ? ", the last one" : "",
                 p->files->head.dim[0], p->files->values.path);
}

static mr_err_t pass_over(pass_t *p, const int64_t *offset, int64_t n, mr_diag_t *diag) {
  int64_t rows = p->files->head.dim[0];
  for (int64_t i = 0; i < n; i++, p->at++) {
    int64_t v = offset[i];
    bool last = p->at == p->files->n;
    if ((p->at == 0 && v != 0) || v < p->last || v > rows || (last && v != rows))
      return bad_offset(p, v, diag);
    if (v - p->last > p->longest) p->longest = v - p->last;
    p->last = v;
  }
  return MR_OK;
}

static mr_err_t pass_over_file(pass_t *p, mr_reader_t *in, mr_diag_t *diag) {
  int64_t left = p->files->n + 1, at = (int64_t)p->files->offsets_at;
  int64_t *offset = malloc(CHUNK * sizeof *offset);
  mr_err_t e = offset ? MR_OK : mr_no_memory(diag, "offsets");
  while (left && e >= 0) {
    int64_t want = left < CHUNK ? left : CHUNK;
    size_t bytes = (size_t)want * sizeof *offset;
    e = mr_reader_read_big(in, 0, at, bytes, offset, diag);
    if (e >= 0) e = pass_over(p, offset, want, diag);
    left -= want, at += (int64_t)bytes;
  }
  free(offset);
  return e;
}

static mr_err_t peek_longest(mr_npy_rows_files_t *f, mr_diag_t *diag) {
  pass_t p = {.files = f, .longest = 1};
  mr_reader_t *in;
  MR_TRY(mr_npy_file_reader(&f->offsets, MR_READ_PREAD, true, &in, diag));
  mr_err_t e = pass_over_file(&p, in, diag);
  mr_reader_close(in);
  f->longest = p.longest;
  return e;
}

static mr_err_t peek_offsets(mr_npy_rows_files_t *f, mr_diag_t *diag) {
  mr_npy_t a;
  MR_TRY(mr_npy_file_peek(&f->offsets, &a, &f->offsets_at, diag));
  if (!mr_npy_as_is(&a) || a.dtype != MR_I64 || a.ndim != 1 || a.count < 2)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: holds %s of %d dimensions and %zu numbers, want offsets, i8 (N+1,) with N "
                   "at least 1: a.astype(\"<i8\") in NumPy makes them of others",
                   f->offsets.path, mr_dtype_name(a.dtype), a.ndim, a.count);
  f->n = a.dim[0] - 1;
  return peek_longest(f, diag);
}

mr_err_t mr_npy_rows_peek(mr_npy_rows_files_t *f, const mr_npy_file_t *values,
                          const mr_npy_file_t *offsets, mr_diag_t *diag) {
  *f = (mr_npy_rows_files_t){.values = *values, .offsets = *offsets, .row = 1};
  mr_npy_t *a = &f->head;
  MR_TRY(mr_npy_file_peek(values, a, &f->values_at, diag));
  size_t each = mr_dtype_size(a->dtype), bytes;
  if (!mr_npy_as_is(a))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its values are narrower than 32 bits, big-endian or in Fortran order, want "
                   "numpy.ascontiguousarray(a, \"<i4\") or the like for values with offsets",
                   values->path);
  for (int i = 1; i < a->ndim; i++)
    if (__builtin_mul_overflow(f->row, (size_t)a->dim[i], &f->row)) f->row = 0;
  if (a->ndim < 1 || a->ndim >= MR_MAX_NDIM || !f->row || f->row > RECORD_MAX ||
      f->values_at % each)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: want values (rows, ...) of 1 to %d dimensions, rows of 1 to %d elements, "
                   "and data that begin at a multiple of %zu bytes",
                   values->path, MR_MAX_NDIM - 1, RECORD_MAX, each);
  f->row *= each;
  MR_TRY(peek_offsets(f, diag));
  if (__builtin_mul_overflow((size_t)f->longest, f->row, &bytes) || bytes > RECORD_MAX)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: a record of %" PRId64
                   " rows of %zu bytes, want records of at most %d bytes",
                   values->path, f->longest, f->row, RECORD_MAX);
  return MR_OK;
}

/* ---- opening ---- */

static size_t values_bytes(const mr_npy_rows_files_t *f) { return (size_t)f->head.dim[0] * f->row; }

static int64_t budget_of(const mr_npy_rows_conf_t *c) {
  return c->memory >= 0 ? c->memory : mr_memory_available() / 2;
}

bool mr_npy_rows_keeps(const mr_npy_rows_conf_t *c) {
  return (int64_t)values_bytes(&c->files) <= budget_of(c);
}

static mr_err_t load_offsets(mr_npy_rows_t *r, mr_diag_t *diag) {
  const mr_npy_rows_files_t *f = &r->conf.files;
  pass_t p = {.files = f, .longest = 1};
  void *offset;
  MR_TRY(mr_npy_file_part(&f->offsets, r->conf.backend, f->offsets_at,
                          (size_t)(f->n + 1) * sizeof *r->offset, &offset, diag));
  r->offset = offset;
  MR_TRY(pass_over(&p, r->offset, f->n + 1, diag));
  if (p.longest > f->longest)
    return mr_fail(diag, MR_ERR_DATA, "%s: has changed since the graph was planned",
                   f->offsets.path);
  return MR_OK;
}

static mr_err_t load_values(mr_npy_rows_t *r, mr_diag_t *diag) {
  const mr_npy_rows_files_t *f = &r->conf.files;
  void *kept;
  MR_TRY(mr_npy_file_part(&f->values, r->conf.backend, f->values_at, values_bytes(f), &kept, diag));
  mr_err_t e = f->head.dtype == MR_BOOL
                   ? mr_npy_check_bools(f->values.path, kept, values_bytes(f), diag)
                   : MR_OK;
  if (e < 0) return free(kept), e;
  r->kept = kept;
  return MR_OK;
}

static mr_err_t npy_rows_open_files(mr_npy_rows_t *r, mr_diag_t *diag) {
  mr_diag_t why = {0};
  MR_TRY(load_offsets(r, diag));
  if (!mr_npy_rows_keeps(&r->conf)) return MR_OK;
  mr_err_t e = load_values(r, &why);
  if (e >= 0 || (r->conf.lenient && e != MR_ERR_NOMEM)) return MR_OK;
  return mr_diag_relay(diag, e, &why);
}

mr_err_t mr_npy_rows_open(mr_npy_rows_t **out, const mr_npy_rows_conf_t *conf, mr_diag_t *diag) {
  mr_npy_rows_t *r = *out = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "the reader of %s", conf->files.values.path);
  r->conf = *conf;
  mr_err_t e = npy_rows_open_files(r, diag);
  if (e >= 0) return MR_OK;
  mr_npy_rows_close(r);
  *out = NULL;
  return e;
}

void mr_npy_rows_close(mr_npy_rows_t *r) {
  if (!r) return;
  for (int w = 0; w < MR_MAX_READERS; w++) {
    mr_reader_close(r->of_worker[w].reader);
    free(r->of_worker[w].room);
  }
  free(r->kept);
  free(r->offset);
  free(r);
}

/* ---- fetching ---- */

/* Makes room for n records one after the other, and opens the worker's reader; room only grows. */
static mr_err_t npy_rows_make_room(const mr_npy_rows_t *r, npy_worker_t *l, const int64_t *number,
                                   int n, mr_diag_t *diag) {
  const mr_npy_file_t *values = &r->conf.files.values;
  size_t rows = 0;
  for (int i = 0; i < n; i++) rows += (size_t)(r->offset[number[i] + 1] - r->offset[number[i]]);
  size_t bytes = rows * r->conf.files.row;
  if (bytes > l->cap || !l->room) {
    free(l->room);
    l->cap = (bytes + bytes / 2) / 64 * 64 + 64;
    l->room = aligned_alloc(64, l->cap);
    if (!l->room) l->cap = 0;
    if (!l->room) return mr_no_memory(diag, "%s, %zu bytes", values->path, bytes);
  }
  return l->reader ? MR_OK : mr_npy_file_reader(values, r->conf.backend, false, &l->reader, diag);
}

static mr_err_t npy_rows_read_due(mr_npy_rows_t *r, npy_worker_t *l, const int64_t *number, int n,
                                  int f, mr_rec_t *out, mr_diag_t *diag) {
  const mr_npy_rows_files_t *files = &r->conf.files;
  mr_read_t read[MR_BURST];
  size_t at = 0, n_reads = 0;
  MR_TRY(npy_rows_make_room(r, l, number, n, diag));
  for (int i = 0; i < n; i++) {
    size_t bytes = (size_t)out[i].field[f].rows * files->row;
    out[i].field[f].data = l->room + at;
    if (bytes)
      read[n_reads++] = (mr_read_t){
          .offset = (int64_t)(files->values_at + (size_t)r->offset[number[i]] * files->row),
          .len = bytes,
          .dst = l->room + at};
    at += bytes;
  }
  if (n_reads) MR_TRY(mr_reader_read(l->reader, read, n_reads, diag));
  return files->head.dtype == MR_BOOL ? mr_npy_check_bools(files->values.path, l->room, at, diag)
                                      : MR_OK;
}

mr_err_t mr_npy_rows_fetch(mr_npy_rows_t *r, int worker, const int64_t *number, int n, int f,
                           mr_rec_t *out, mr_diag_t *diag) {
  assert(worker >= 0 && worker < MR_MAX_READERS && n <= MR_BURST);
  for (int i = 0; i < n; i++) {
    const int64_t *offset = r->offset + number[i];
    out[i].field[f].rows = offset[1] - offset[0];
    if (r->kept) out[i].field[f].data = r->kept + (size_t)offset[0] * r->conf.files.row;
  }
  return r->kept ? MR_OK : npy_rows_read_due(r, &r->of_worker[worker], number, n, f, out, diag);
}

bool mr_npy_rows_kept(const mr_npy_rows_t *r) { return r->kept; }

void mr_npy_rows_place(const mr_npy_rows_t *r, int64_t number, int64_t *at, int64_t *size) {
  const mr_npy_rows_files_t *f = &r->conf.files;
  *at = (int64_t)(f->values_at + (size_t)r->offset[number] * f->row);
  *size = (r->offset[number + 1] - r->offset[number]) * (int64_t)f->row;
}

void mr_npy_rows_explain(const mr_npy_rows_conf_t *c, char *text, size_t n) {
  mr_snprintf(text, n, "%s (%.1f MB, budget %.1f MB), its offsets kept in memory",
              mr_npy_rows_keeps(c) ? "read once in large requests and kept in memory"
                                   : "read record by record as they are due",
              (double)values_bytes(&c->files) / 1e6, (double)budget_of(c) / 1e6);
}
