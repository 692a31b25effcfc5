/* Makes the index of a TFRecord file by reading it once from front to back: where each record
   begins, and which features its Example has.  Where the checksum of a length is wrong the next
   record cannot be found: the index then ends at the records before it, and the reason is kept for
   a notice. */
#include "loaders/formats/tfrecord_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "loaders/formats/shard_example.h"
#include "loaders/shards/shard_reads.h"

enum { HEAD = 12 };

typedef struct tfrecord_scan {
  mr_shard_file_t *file;
  int64_t size, at; /* of the file; of the next record's head */
  const char *path;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  uint8_t *data; /* [cap] of a record */
  size_t cap;
  uint32_t record_column;
  mr_example_count_t *count;
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

static mr_err_t count_features(tfrecord_scan_t *t, size_t n) {
  uint32_t sum;
  memcpy(&sum, t->data + n, sizeof sum);
  if (sum != mr_crc32c_mask(mr_crc32c(t->data, n))) return MR_OK;
  return mr_example_count(t->count, t->data, n, t->diag);
}

/* TensorFlow's other compression: a head of deflate that is a multiple of 31. */
static bool is_zlib(const uint8_t *p) { return p[0] == 0x78 && ((p[0] << 8) + p[1]) % 31 == 0; }

static mr_err_t scan_step(tfrecord_scan_t *t) {
  uint8_t head[HEAD];
  uint64_t n;
  uint32_t sum;
  if (t->at == t->size) return MR_END;
  mr_err_t e = scan_read(t, t->at, head, HEAD);
  if (e != MR_OK) return e;
  memcpy(&n, head, 8), memcpy(&sum, head + 8, 4);
  if (sum != mr_crc32c_mask(mr_crc32c(head, 8)))
    return scan_fault(t, t->at == 0 && head[0] == 0x1F && head[1] == 0x8B
                             ? "is compressed by gzip, which cannot be read at random: gunzip it "
                               "first; no record"
                         : t->at == 0 && is_zlib(head)
                             ? "is compressed by zlib, which cannot be read at random: write it "
                               "without compression; no record"
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
      mr_shard_draft_column(draft, "__record__", 10, MR_COLUMN_RECORD, &t.record_column, diag);
  t.count = mr_example_count_new(draft);
  if (e >= 0 && !t.count) e = mr_no_memory(diag, "an index of %s", file->path);
  while (e == MR_OK) e = scan_step(&t);
  mr_example_count_free(t.count);
  free(t.data);
  return e < 0 ? e : MR_OK;
}
