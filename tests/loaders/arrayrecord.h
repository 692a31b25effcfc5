/* Writes ArrayRecord files, as array_record's writer does: chunks of records, a footer that lists
   them, a postscript in the last 64 KiB. */
#ifndef MR_TESTS_LOADERS_ARRAYRECORD_H
#define MR_TESTS_LOADERS_ARRAYRECORD_H

#include "base/highway.h"
#include "tests/loaders/image.h"

enum { AR_BLOCK = 1 << 16 };

/* A file being written, and what its footer will say. */
typedef struct ar_out {
  image_t file, footer; /* footer: {at, decoded bytes, records} of each chunk, as u64 */
} ar_out_t;

static inline uint64_t ar_hash(const void *data, size_t n) {
  uint64_t key[4];
  memcpy(key, "Riegeli/records\nRiegeli/records\n", sizeof key);
  return mr_highway64(key, data, n);
}

/* Block headers lie at multiples of 64 KiB; what they say is for readers that search. */
static inline void ar_put(image_t *o, const void *data, size_t n) {
  for (size_t i = 0; i < n;) {
    if (o->n % AR_BLOCK == 0) image_add(o, NULL, 24);
    size_t run = AR_BLOCK - o->n % AR_BLOCK;
    if (run > n - i) run = n - i;
    image_add(o, data ? (const uint8_t *)data + i : NULL, run);
    i += run;
  }
}

static inline void ar_varint(image_t *o, uint64_t v) {
  do image_add(o, &(uint8_t){(uint8_t)((v & 0x7F) | (v > 0x7F ? 0x80 : 0))}, 1);
  while (v >>= 7);
}

/* Returns where the chunk begins. */
static inline size_t ar_chunk(image_t *o, uint8_t type, uint64_t records, uint64_t decoded,
                              const void *data, size_t n) {
  uint64_t head[5] = {0, n, ar_hash(data, n), type | records << 8, decoded};
  size_t at = o->n;
  head[0] = ar_hash(head + 1, 32);
  ar_put(o, head, 40), ar_put(o, data, n);
  while (o->n < at + records) ar_put(o, NULL, 1); /* a byte for each record at least */
  return at;
}

/* The data of a chunk of records that are not compressed. */
static inline image_t ar_plain(const void *values, const size_t *size, int n) {
  image_t data = {0}, sizes = {0};
  size_t bytes = 0;
  for (int i = 0; i < n; i++) ar_varint(&sizes, size[i]), bytes += size[i];
  image_add(&data, "", 1), ar_varint(&data, sizes.n);
  image_add(&data, sizes.at, sizes.n), image_add(&data, values, bytes);
  free(sizes.at);
  return data;
}

/* Adds a chunk of records, and a row to the footer. */
static inline void ar_records(ar_out_t *o, uint64_t records, uint64_t decoded,
                              const image_t *data) {
  if (!o->file.n) ar_chunk(&o->file, 's', 0, 0, "", 0);
  uint64_t row[3] = {ar_chunk(&o->file, 'r', records, decoded, data->at, data->n), decoded,
                     records};
  image_add(&o->footer, row, sizeof row);
}

static inline void ar_pad_block(image_t *o) {
  if (o->n % AR_BLOCK == 0) return;
  size_t left = AR_BLOCK - o->n % AR_BLOCK;
  static const uint8_t zeros[AR_BLOCK];
  if (left >= 40)
    ar_chunk(o, 'p', 0, 0, zeros, left - 40);
  else
    ar_chunk(o, 'p', 0, 0, zeros, left + AR_BLOCK - 24 - 40);
}

/* Ends the file with this footer, and the postscript that says where it is. */
static inline void ar_end_with(ar_out_t *o, uint64_t records, uint64_t decoded, const void *footer,
                               size_t n) {
  image_t values = {0};
  size_t size[3], at = ar_chunk(&o->file, 'r', records, decoded, footer, n);
  ar_pad_block(&o->file);
  for (int i = 0; i < 3; i++) {
    size_t before = values.n;
    ar_varint(&values, 1 << 3), ar_varint(&values, at);
    ar_varint(&values, 2 << 3), ar_varint(&values, 0x71930e704fdae05e);
    size[i] = values.n - before;
  }
  image_t data = ar_plain(values.at, size, 3);
  ar_chunk(&o->file, 'r', 3, values.n, data.at, data.n);
  ar_pad_block(&o->file);
  free(data.at), free(values.at);
}

/* Ends the file with the footer that is true. */
static inline void ar_end(ar_out_t *o) {
  image_t values = {0}, whole = {0};
  const uint64_t *row = (uint64_t *)o->footer.at;
  uint64_t n = o->footer.n / 24, about[3] = {1, n, 0};
  size_t *size = calloc(n + 1, sizeof *size);
  if (!size) abort();
  if (!o->file.n) ar_chunk(&o->file, 's', 0, 0, "", 0);
  for (uint64_t i = 0; i < n; i++) about[2] += row[3 * i + 2];
  for (unsigned k = 0; k < 3; k++) ar_varint(&whole, (k + 1) << 3), ar_varint(&whole, about[k]);
  ar_varint(&values, 1 << 3 | 2), ar_varint(&values, whole.n);
  image_add(&values, whole.at, whole.n);
  size[0] = values.n;
  for (uint64_t i = 0; i < n; i++) {
    size_t before = values.n;
    for (unsigned k = 0; k < 3; k++)
      ar_varint(&values, (k + 1) << 3), ar_varint(&values, row[3 * i + k]);
    size[i + 1] = values.n - before;
  }
  image_t data = ar_plain(values.at, size, (int)n + 1);
  ar_end_with(o, n + 1, values.n, data.at, data.n);
  free(data.at), free(values.at), free(whole.at), free(size);
}

static inline void ar_free(ar_out_t *o) { free(o->file.at), free(o->footer.at); }

#endif
