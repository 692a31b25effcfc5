/* Turns arrays: the file is read once from its start to its end, and each element goes to its place
   in the row it belongs to. */
#include "loaders/formats/turned_rows.h"

#include <stdlib.h>
#include <string.h>

#include "loaders/shards/shard_reads.h"

enum {
  PIECE = 16 << 20, /* bytes that are read together */
  ZEROS = 64        /* behind the last row, as behind every part */
};

/* An array (rows, dim...) that is being turned. */
typedef struct turning {
  int64_t rows, each; /* each: elements of a row */
  size_t size;        /* of an element */
  const mr_field_t *row;
  uint8_t *to;
} turning_t;

/* The place of element k of a row, counted in Fortran's order, in C's. */
static int64_t turned_place(const mr_field_t *row, int64_t k) {
  int64_t place = 0, index[MR_MAX_NDIM];
  for (int d = 0; d < row->ndim; d++) index[d] = k % row->dim[d], k /= row->dim[d];
  for (int d = 0; d < row->ndim; d++) place = place * row->dim[d] + index[d];
  return place;
}

/* Puts elements [first, first + n) of the file to their places: those of all rows that have the
   same place follow each other. */
static void turn_piece(const turning_t *t, int64_t first, int64_t n, const uint8_t *from) {
  for (int64_t e = first; e < first + n;) {
    int64_t i = e % t->rows, end = e + t->rows - i < first + n ? e + t->rows - i : first + n;
    uint8_t *to = t->to + (size_t)(i * t->each + turned_place(t->row, e / t->rows)) * t->size;
    for (; e < end; e++, from += t->size, to += (size_t)t->each * t->size)
      memcpy(to, from, t->size);
  }
}

static mr_err_t turn_array(mr_shard_reads_t *reads, const mr_shard_t *shard, int64_t at,
                           const turning_t *t, mr_diag_t *diag) {
  int64_t all = t->rows * t->each, most = PIECE / (int64_t)t->size;
  for (int64_t first = 0; first < all; first += most) {
    int64_t n = all - first < most ? all - first : most;
    mr_shard_want_t want = {
        .shard = shard, .at = at + first * (int64_t)t->size, .size = n * (int64_t)t->size};
    MR_TRY(mr_shard_reads_fetch(reads, 0, &want, 1, diag));
    turn_piece(t, first, n, want.data);
  }
  return MR_OK;
}

/* Whether a file has a column in Fortran order; *p is its first record's part then. */
static bool is_scattered(const mr_shard_t *shard, int column, mr_shard_part_t *p) {
  return shard->index.n_records && mr_shards_part(shard, shard->first, column, p) && p->item;
}

static mr_err_t turn_column(const mr_shard_source_t *t, mr_shard_reads_t *reads,
                            const mr_shard_t *shard, int column, mr_spill_t *rows,
                            mr_diag_t *diag) {
  const mr_shards_column_t *c = &t->shards->column[column];
  const char *type = strchr(c->name, '\t');
  mr_field_t row = {0};
  mr_shard_part_t p;
  int64_t each, n = shard->index.n_records;
  if (!is_scattered(shard, column, &p)) return MR_OK;
  if (!type || !mr_typed_parse(type + 1, &row, &each) || row.ndim < 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: its index is damaged", shard->path);
  size_t size = mr_typed_stored((mr_typed_t)c->kind, row.dtype), bytes = (size_t)(n * each) * size;
  MR_TRY(mr_spill_grow(rows, bytes + ZEROS, "an array in Fortran order", diag));
  memset((uint8_t *)rows->at + bytes, 0, ZEROS);
  mr_spill_settle(rows);
  return turn_array(reads, shard, p.at, &(turning_t){n, each, size, &row, rows->at}, diag);
}

static bool turns_any(const mr_shard_source_t *t) {
  mr_shard_part_t p;
  for (int i = 0; i < t->shards->n * t->n_wants; i++)
    if (is_scattered(&t->shards->shard[i / t->n_wants], t->want[i % t->n_wants], &p)) return true;
  return false;
}

mr_err_t mr_turned_rows_open(mr_turned_rows_t *out, const mr_shard_source_t *t, mr_diag_t *diag) {
  mr_shard_reads_t *reads = NULL;
  if (!turns_any(t)) return MR_OK;
  int n = t->shards->n * t->n_wants;
  if (!(out->rows = malloc((size_t)n * sizeof *out->rows)))
    return mr_no_memory(diag, "the arrays of %d files", t->shards->n);
  for (out->n = 0; out->n < n; out->n++) out->rows[out->n] = MR_SPILL_NONE;
  mr_err_t e = mr_shard_reads_open(&reads, t->shards, diag);
  for (int i = 0; i < n && e >= 0; i++)
    e = turn_column(t, reads, &t->shards->shard[i / t->n_wants], t->want[i % t->n_wants],
                    &out->rows[i], diag);
  mr_shard_reads_close(reads);
  return e;
}

void mr_turned_rows_close(mr_turned_rows_t *t) {
  for (int i = 0; i < t->n; i++) mr_spill_free(&t->rows[i]);
  free(t->rows);
  *t = (mr_turned_rows_t){0};
}

void mr_turned_rows_apply(const mr_turned_rows_t *turned, const mr_shard_source_t *t,
                          int64_t number, mr_shard_bytes_t *part) {
  const mr_shard_t *shard = mr_shards_find(t->shards, number);
  const mr_spill_t *rows = &turned->rows[(int)(shard - t->shards->shard) * t->n_wants];
  for (int w = 0; w < t->n_wants; w++)
    if (part[w].data && rows[w].bytes)
      part[w].data = (uint8_t *)rows[w].at + (size_t)((number - shard->first) * part[w].size);
}
