/* Makes the index of a TFRecord file by reading it once from front to back: where each record
   begins, and which features its Example has.  Where the checksum of a length is wrong the next
   record cannot be found: the index then ends at the records before it, and the reason is kept for
   a notice. */
#include "loaders/tfrecord_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "loaders/example.h"
#include "loaders/shard_reads.h"

enum { HEAD = 12 };

typedef struct tfrecord_scan {
  mr_shard_file_t *file;
  int64_t size, at; /* of the file; of the next record's head */
  const char *path;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint8_t *data; /* [cap] of a record */
  size_t cap;
  uint32_t record_column, example_column;
  /* The features of the record being counted: of two with one name the last counts, as it does when
     the record is read. */
  int64_t record; /* its number, from 1 */
  int64_t seen[MR_SHARD_COLUMNS_MAX],
      value[MR_SHARD_COLUMNS_MAX];       /* by column: last record, size */
  uint32_t column[MR_SHARD_COLUMNS_MAX]; /* [n_columns] of the record */
  int n_columns;
} tfrecord_scan_t;

static mr_err_t scan_fault(tfrecord_scan_t *t, const char *what) {
  mr_fail(t->fault, MR_ERR_DATA, "%s: %s at byte %" PRId64, t->path, what, t->at);
  return MR_END;
}

static mr_err_t scan_read(tfrecord_scan_t *t, int64_t at, void *to, size_t n) {
  mr_err_t e = mr_shard_file_read(t->file, at, to, n, t->diag);
  return e == MR_END ? scan_fault(t, "ends within a record") : e;
}

static mr_err_t scan_make_room(tfrecord_scan_t *t, size_t n) {
  if (n <= t->cap) return MR_OK;
  free(t->data);
  t->cap = n + n / 2;
  t->data = malloc(t->cap);
  if (t->data) return MR_OK;
  t->cap = 0;
  return mr_no_memory(t->diag, "a record of %zu bytes of %s", n, t->path);
}

/* Notes a feature; one whose name cannot be a column's is no field, and left out. */
static mr_err_t note_feature(tfrecord_scan_t *t, const mr_example_feature_t *f) {
  static const uint32_t kind[] = {[MR_FEATURE_BYTES] = MR_TFRECORD_BYTES,
                                  [MR_FEATURE_FLOAT] = MR_TFRECORD_FLOAT,
                                  [MR_FEATURE_INT64] = MR_TFRECORD_INT64};
  uint32_t column, as = kind[f->kind];
  size_t bytes = 0;
  if (f->kind == MR_FEATURE_NONE || !f->name_n) return MR_OK;
  if (f->kind == MR_FEATURE_BYTES && f->n == 1) mr_example_bytes(f, &bytes);
  if (f->kind == MR_FEATURE_BYTES && f->n != 1) as = MR_TFRECORD_LIST;
  mr_err_t e = mr_shard_draft_column(t->draft, f->name, f->name_n, as, &column, NULL);
  if (e == MR_ERR_DATA) return MR_OK;
  if (e < 0) return mr_no_memory(t->diag, "an index of %s", t->path);
  if (t->seen[column] != t->record) t->column[t->n_columns++] = column;
  t->seen[column] = t->record;
  t->value[column] = as == MR_TFRECORD_BYTES ? (int64_t)bytes : f->n;
  return MR_OK;
}

static mr_err_t count_features(tfrecord_scan_t *t, size_t n) {
  uint32_t sum;
  mr_example_walk_t whole = {.at = t->data, .end = t->data + n}, w = whole;
  mr_example_feature_t f;
  mr_err_t e;
  memcpy(&sum, t->data + n, sizeof sum);
  if (sum != mr_crc32c_masked(mr_crc32c(t->data, n))) return MR_OK;
  bool some = false;
  while ((e = mr_example_next(&w, &f, NULL)) == MR_OK) some = true;
  if (e < 0 || !some) return MR_OK;
  mr_shard_draft_count(t->draft, t->example_column, 0);
  t->record++, t->n_columns = 0;
  while (mr_example_next(&whole, &f, NULL) == MR_OK) MR_TRY(note_feature(t, &f));
  for (int i = 0; i < t->n_columns; i++)
    mr_shard_draft_count(t->draft, t->column[i], t->value[t->column[i]]);
  return MR_OK;
}

static mr_err_t scan_step(tfrecord_scan_t *t) {
  uint8_t head[HEAD];
  uint64_t n;
  uint32_t sum;
  if (t->at == t->size) return MR_END;
  mr_err_t e = scan_read(t, t->at, head, HEAD);
  if (e != MR_OK) return e;
  memcpy(&n, head, 8), memcpy(&sum, head + 8, 4);
  if (sum != mr_crc32c_masked(mr_crc32c(head, 8)))
    return scan_fault(t, t->at == 0 && head[0] == 0x1F && head[1] == 0x8B
                             ? "is compressed by gzip, which cannot be read at random: gunzip it "
                               "first; no record"
                             : "no record, or one whose length is damaged,");
  int64_t left = t->size - t->at - HEAD - MR_TFRECORD_SUM;
  if (left < 0 || n > (uint64_t)left) return scan_fault(t, "ends within the record");
  MR_TRY(mr_shard_draft_record(t->draft, NULL, 0, t->diag));
  MR_TRY(mr_shard_draft_part(t->draft, t->record_column, t->at + HEAD, (int64_t)n + MR_TFRECORD_SUM,
                             t->diag));
  if (n + MR_TFRECORD_SUM <= MR_SHARD_PART_MAX) {
    MR_TRY(scan_make_room(t, (size_t)n + MR_TFRECORD_SUM));
    e = scan_read(t, t->at + HEAD, t->data, (size_t)n + MR_TFRECORD_SUM);
    if (e == MR_OK) e = count_features(t, (size_t)n);
  }
  t->at += HEAD + (int64_t)n + MR_TFRECORD_SUM;
  return e;
}

mr_err_t mr_tfrecord_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                          mr_diag_t *diag) {
  tfrecord_scan_t t = {.file = file,
                       .size = file->size,
                       .path = file->path,
                       .draft = draft,
                       .fault = fault,
                       .diag = diag};
  mr_err_t e =
      mr_shard_draft_column(draft, "__record__", 10, MR_TFRECORD_RECORD, &t.record_column, diag);
  if (e >= 0) e = mr_shard_draft_column(draft, "", 0, MR_TFRECORD_EXAMPLE, &t.example_column, diag);
  while (e == MR_OK) e = scan_step(&t);
  free(t.data);
  return e < 0 ? e : MR_OK;
}
