/* Every number of a chunk is compared with what the chunk can hold before it is used, because a
   hash with a known key protects against accidents only. */
#include "loaders/formats/riegeli.h"

#include <inttypes.h>
#include <string.h>

#include "base/highway.h"
#include "loaders/shards/codec.h"

enum { BLOCK_HEAD = 24, USABLE = MR_RIEGELI_BLOCK - BLOCK_HEAD, VARINT_MOST = 10 };
static const int64_t FILE_MOST = (int64_t)1 << 60;

static uint64_t riegeli_hash(const void *data, size_t n) {
  static const char key[] = "Riegeli/records\nRiegeli/records\n";
  uint64_t words[4];
  memcpy(words, key, sizeof words);
  return mr_highway64(words, data, n);
}

/* ---- places ---- */

int64_t mr_riegeli_place(int64_t at, int64_t n) {
  if (at < 0 || n < 0 || at > FILE_MOST || n > FILE_MOST) return -1;
  int64_t heads = (n + (at + USABLE - 1) % MR_RIEGELI_BLOCK) / USABLE;
  return at + n + heads * BLOCK_HEAD;
}

int64_t mr_riegeli_end(int64_t at, const mr_riegeli_head_t *head) {
  int64_t end = mr_riegeli_place(at, MR_RIEGELI_HEAD + head->data_size);
  if (end < 0 || head->n_records > FILE_MOST) return -1;
  /* A chunk has at least one byte for each record, and none begins within a block header. */
  int64_t least = at + head->n_records;
  int64_t left = (MR_RIEGELI_BLOCK - least % MR_RIEGELI_BLOCK) % MR_RIEGELI_BLOCK;
  if (left >= USABLE) least += left - (USABLE - 1);
  return end > least ? end : least;
}

size_t mr_riegeli_join(uint8_t *data, int64_t at, size_t n) {
  size_t from = 0, to = 0;
  while (from < n) {
    size_t in = (size_t)((at + (int64_t)from) % MR_RIEGELI_BLOCK);
    if (in < BLOCK_HEAD) {
      from += BLOCK_HEAD - in;
      continue;
    }
    size_t run = MR_RIEGELI_BLOCK - in;
    if (run > n - from) run = n - from;
    memmove(data + to, data + from, run);
    from += run, to += run;
  }
  return to;
}

/* ---- chunks ---- */

static uint64_t u64_at(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

bool mr_riegeli_head(const uint8_t *data, mr_riegeli_head_t *out) {
  if (u64_at(data) != riegeli_hash(data + 8, MR_RIEGELI_HEAD - 8)) return false;
  uint64_t size = u64_at(data + 8), decoded = u64_at(data + 32);
  if (size > (uint64_t)FILE_MOST || decoded > (uint64_t)FILE_MOST) return false;
  *out = (mr_riegeli_head_t){.data_size = (int64_t)size,
                             .decoded_size = (int64_t)decoded,
                             .n_records = (int64_t)(u64_at(data + 24) >> 8),
                             .data_hash = u64_at(data + 16),
                             .type = data[24]};
  return true;
}

/* Bytes that are still to be read. */
typedef struct rest {
  const uint8_t *at, *end;
} rest_t;

static bool riegeli_varint(rest_t *r, uint64_t *out) {
  *out = 0;
  for (int i = 0; i < VARINT_MOST && r->at < r->end; i++) {
    uint8_t byte = *r->at++;
    if (i == VARINT_MOST - 1 && byte > 1) return false;
    *out |= (uint64_t)(byte & 0x7F) << (7 * i);
    if (byte < 0x80) return true;
  }
  return false;
}

/* The decompressed bytes of a buffer that begins at r; r moves behind them. */
static bool take_size(rest_t *r, uint8_t compression, uint64_t *size) {
  if (compression) return riegeli_varint(r, size);
  *size = (uint64_t)(r->end - r->at);
  return true;
}

static mr_err_t take_values(rest_t r, uint8_t compression, uint8_t *to, size_t size,
                            mr_shard_group_t *g, mr_diag_t *diag) {
  size_t n = (size_t)(r.end - r.at);
  if (compression == 'z') return mr_codec_zstd(&g->codec, r.at, n, to, size, diag);
  if (compression == 'b') return mr_codec_brotli(r.at, n, to, size, diag);
  if (compression == 's') return mr_codec_snappy(r.at, n, to, size, diag);
  if (n) memcpy(to, r.at, n);
  return MR_OK;
}

/* Cuts the values by the varints in sizes, one for each record. */
static bool riegeli_cut(rest_t sizes, int64_t n, size_t bytes, size_t *end) {
  size_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t size;
    if (!riegeli_varint(&sizes, &size) || size > bytes - at) return false;
    end[i] = at += (size_t)size;
  }
  return sizes.at == sizes.end && at == bytes;
}

static mr_err_t group_records(rest_t r, const mr_riegeli_head_t *head, mr_shard_group_t *g,
                              mr_diag_t *diag) {
  uint64_t packed, n_sizes, n_values;
  uint8_t compression = r.at < r.end ? *r.at++ : 0;
  if (compression && compression != 'z' && compression != 'b' && compression != 's')
    return mr_fail(diag, MR_ERR_DATA,
                   "is compressed by method 0x%02X, want zstd, brotli, snappy or none",
                   compression);
  if (!riegeli_varint(&r, &packed) || packed > (uint64_t)(r.end - r.at))
    return mr_fail(diag, MR_ERR_DATA, "has a damaged list of sizes");
  rest_t sizes = {r.at, r.at + packed}, values = {r.at + packed, r.end};
  if (!take_size(&sizes, compression, &n_sizes) || !take_size(&values, compression, &n_values) ||
      n_sizes > (uint64_t)head->n_records * VARINT_MOST || n_values != (uint64_t)head->decoded_size)
    return mr_fail(diag, MR_ERR_DATA, "has a damaged list of sizes");
  MR_TRY(mr_shard_group_room(g, n_values + n_sizes + 1, (size_t)head->n_records + 1, diag));
  uint8_t *list = g->data + n_values;
  MR_TRY(take_values(sizes, compression, list, n_sizes, g, diag));
  MR_TRY(take_values(values, compression, g->data, n_values, g, diag));
  if (!riegeli_cut((rest_t){list, list + n_sizes}, head->n_records, n_values, g->end))
    return mr_fail(diag, MR_ERR_DATA, "has sizes of records that do not add up");
  g->n = head->n_records;
  return MR_OK;
}

mr_err_t mr_riegeli_group(uint8_t *data, int64_t at, int64_t size, mr_shard_group_t *out,
                          mr_diag_t *diag) {
  mr_riegeli_head_t head;
  out->n = 0;
  size_t n = mr_riegeli_join(data, at, (size_t)size);
  if (n < MR_RIEGELI_HEAD || !mr_riegeli_head(data, &head))
    return mr_fail(diag, MR_ERR_DATA, "has a wrong checksum in its header");
  if (head.data_size > (int64_t)n - MR_RIEGELI_HEAD || head.n_records > size)
    return mr_fail(diag, MR_ERR_DATA,
                   "has %" PRId64 " bytes and %" PRId64 " records in %" PRId64 " bytes",
                   head.data_size, head.n_records, size);
  if (head.type != 'r')
    return mr_fail(diag, MR_ERR_DATA, "is of type 0x%02X, want 0x72, records", head.type);
  if (head.decoded_size > MR_SHARD_PART_MAX)
    return mr_fail(diag, MR_ERR_DATA, "holds %" PRId64 " bytes of records, want at most %d",
                   head.decoded_size, MR_SHARD_PART_MAX);
  if (head.data_hash != riegeli_hash(data + MR_RIEGELI_HEAD, (size_t)head.data_size))
    return mr_fail(diag, MR_ERR_DATA, "has a wrong checksum");
  rest_t r = {data + MR_RIEGELI_HEAD, data + MR_RIEGELI_HEAD + head.data_size};
  return group_records(r, &head, out, diag);
}
