/* TFRecords as event files use them: a length, its checksum, the bytes, their checksum.  Reading
   ends at the first record that is damaged or cut off, as TensorBoard's reader does, and trusts no
   length that exceeds the rest of the file.  Data sets are read by loaders/formats/tfrecord.c. */
#include "sinks/tfrecord.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/xio.h"

static void put_sum(uint8_t *at, const void *data, size_t n) {
  uint32_t masked = mr_crc32c_mask(mr_crc32c(data, n));
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(masked >> 8 * i);
}

void mr_tfrecord_frame(uint8_t *record, size_t n) {
  for (int i = 0; i < 8; i++) record[i] = (uint8_t)((uint64_t)n >> 8 * i);
  put_sum(record + 8, record, 8);
  put_sum(record + MR_TFRECORD_HEAD + n, record + MR_TFRECORD_HEAD, n);
}

static bool sum_is_right(const uint8_t *sum, const void *data, size_t n) {
  uint32_t said = 0;
  for (int i = 0; i < 4; i++) said |= (uint32_t)sum[i] << 8 * i;
  return said == mr_crc32c_mask(mr_crc32c(data, n));
}

mr_err_t mr_tfrecords_open(mr_tfrecords_t *r, const char *path, mr_diag_t *diag) {
  struct stat st;
  *r = (mr_tfrecords_t){.file = mr_open_regular(path)};
  if (!r->file || fstat(fileno(r->file), &st) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
  r->left = (uint64_t)st.st_size;
  return MR_OK;
}

/* Reads n bytes into to[0,n); false if the file has fewer. */
static bool tfrecord_take(mr_tfrecords_t *r, void *to, size_t n) {
  if (n > r->left || fread(to, 1, n, r->file) != n) return false;
  r->left -= n;
  return true;
}

mr_err_t mr_tfrecords_next(mr_tfrecords_t *r, const uint8_t **data, size_t *n) {
  uint8_t head[MR_TFRECORD_HEAD];
  uint64_t len = 0;
  if (!tfrecord_take(r, head, sizeof head) || !sum_is_right(head + 8, head, 8)) return MR_END;
  for (int i = 0; i < 8; i++) len |= (uint64_t)head[i] << 8 * i;
  if (r->left < MR_TFRECORD_TAIL || len > r->left - MR_TFRECORD_TAIL) return MR_END;
  size_t need = (size_t)len + MR_TFRECORD_TAIL;
  if (need > r->room) {
    uint8_t *more = realloc(r->data, need);
    if (!more) return MR_ERR_NOMEM;
    r->data = more, r->room = need;
  }
  if (!tfrecord_take(r, r->data, need) || !sum_is_right(r->data + len, r->data, (size_t)len))
    return MR_END;
  *data = r->data, *n = (size_t)len;
  return MR_OK;
}

void mr_tfrecords_close(mr_tfrecords_t *r) {
  if (r->file) fclose(r->file);
  free(r->data);
  *r = (mr_tfrecords_t){0};
}
