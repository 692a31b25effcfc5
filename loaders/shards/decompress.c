/* Reads a compressed file in chunks and writes what comes out into a new file, which gets its name
   when its size and digests are right.  No more than the announced size is ever written. */
#include "loaders/shards/decompress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/xio.h"
#include "loaders/shards/decompress_keep.h"
#include "loaders/shards/file_digest.h"
#include "loaders/shards/shard_place.h"

enum { CHUNK = 1 << 18, ZSTD_LOG_MAX = 27 /* a window of 128 MiB, what zstd itself accepts */ };

typedef struct decompress {
  const mr_compressed_t *want;
  const char *path;
  mr_shard_file_t *in;
  mr_newfile_t out;
  int64_t written, taken, most;
  mr_file_hash_t packed, unpacked;
  XXH3_state_t *contents; /* of what comes out */
  uint8_t *from, *to;     /* [CHUNK] */
  mr_diag_t *diag;
} decompress_t;

static mr_err_t decompress_fault(decompress_t *d, const char *what) {
  return mr_fail(d->diag, MR_ERR_DATA, "%s: %s", d->path, what);
}

static mr_err_t take_chunk(decompress_t *d, size_t *n) {
  int64_t left = d->in->size - d->taken;
  *n = left < CHUNK ? (size_t)left : CHUNK;
  mr_err_t e = *n ? mr_shard_file_read(d->in, d->taken, d->from, *n, d->diag) : MR_OK;
  if (e == MR_END) return decompress_fault(d, "has become shorter");
  MR_TRY(e);
  d->taken += (int64_t)*n;
  mr_file_hash_add(&d->packed, d->from, *n);
  return MR_OK;
}

static mr_err_t give_chunk(decompress_t *d, size_t n) {
  if ((int64_t)n > d->most - d->written)
    return mr_fail(d->diag, MR_ERR_DATA, "%s: holds more than the %" PRId64 " bytes %s", d->path,
                   d->most, d->want->unpacked < 0 ? "that are possible" : "announced");
  d->written += (int64_t)n;
  mr_file_hash_add(&d->unpacked, d->to, n);
  XXH3_64bits_update(d->contents, d->to, n);
  return mr_write_all(d->out.fd, d->to, n, d->out.path, d->diag);
}

static mr_err_t decompress_zstd(decompress_t *d) {
  ZSTD_DCtx *z = ZSTD_createDCtx();
  mr_err_t e = z ? MR_OK : mr_no_memory(d->diag, "uncompressing %s", d->path);
  size_t left = 0; /* 0: a frame has ended */
  if (z) ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, ZSTD_LOG_MAX);
  while (e >= 0) {
    size_t n = 0;
    e = take_chunk(d, &n);
    if (e < 0 || !n) break;
    ZSTD_inBuffer in = {d->from, n, 0};
    bool full = true; /* more may come out of what has been taken, unless the frame has ended */
    while (e >= 0 && (in.pos < in.size || (full && left))) {
      ZSTD_outBuffer out = {d->to, CHUNK, 0};
      left = ZSTD_decompressStream(z, &out, &in);
      if (ZSTD_isError(left)) e = decompress_fault(d, "is not a complete zstd stream");
      if (e >= 0) e = give_chunk(d, out.pos);
      full = out.pos == out.size;
    }
  }
  ZSTD_freeDCtx(z);
  return e >= 0 && left ? decompress_fault(d, "ends within a zstd stream") : e;
}

static mr_err_t decompress_gz(decompress_t *d) {
  z_stream z = {0};
  if (inflateInit2(&z, 15 + 16) != Z_OK) return mr_no_memory(d->diag, "uncompressing %s", d->path);
  mr_err_t e = MR_OK;
  int state = Z_OK;
  while (e >= 0) {
    size_t n = 0;
    e = take_chunk(d, &n);
    if (e < 0 || !n) break;
    z.next_in = d->from, z.avail_in = (uInt)n;
    bool full = true;
    while (e >= 0 && (z.avail_in || full)) {
      if (state == Z_STREAM_END && !z.avail_in) break;
      if (state == Z_STREAM_END) inflateReset(&z); /* several members */
      z.next_out = d->to, z.avail_out = CHUNK;
      state = inflate(&z, Z_NO_FLUSH);
      if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
        e = decompress_fault(d, "is not a complete gzip stream");
      full = z.avail_out == 0;
      if (e >= 0) e = give_chunk(d, CHUNK - z.avail_out);
    }
  }
  inflateEnd(&z);
  return e >= 0 && state != Z_STREAM_END ? decompress_fault(d, "ends within a gzip stream") : e;
}

static mr_err_t decompress_all(decompress_t *d) {
  const mr_compressed_t *c = d->want;
  d->from = malloc(CHUNK), d->to = malloc(CHUNK);
  mr_err_t e = d->from && d->to ? MR_OK : mr_no_memory(d->diag, "uncompressing %s", d->path);
  if (e >= 0) e = mr_file_hash_begin(&d->packed, &c->packed_digest, d->diag);
  mr_err_t also = mr_file_hash_begin(&d->unpacked, &c->unpacked_digest, d->diag);
  if (e >= 0) e = also;
  if (e >= 0) e = !strcmp(c->codec, "gz") ? decompress_gz(d) : decompress_zstd(d);
  bool packed = mr_file_hash_end(&d->packed, &c->packed_digest);
  bool unpacked = mr_file_hash_end(&d->unpacked, &c->unpacked_digest);
  if (e >= 0 && c->packed >= 0 && d->taken != c->packed)
    e = mr_fail(d->diag, MR_ERR_DATA, "%s: has %" PRId64 " bytes, want %" PRId64, d->path, d->taken,
                c->packed);
  if (e >= 0 && (!packed || !unpacked)) e = decompress_fault(d, "is damaged: its digest is wrong");
  if (e >= 0 && c->unpacked >= 0 && d->written != c->unpacked)
    e = mr_fail(d->diag, MR_ERR_DATA, "%s: holds %" PRId64 " bytes, want %" PRId64, d->path,
                d->written, c->unpacked);
  free(d->from), free(d->to);
  return e;
}

/* The name says which state of which file it holds, or, of a file without versions, which contents,
   so that it never needs to be replaced. */
static mr_err_t decompressed_path(const char *path, uint64_t state, const char *where,
                                  char out[MR_SHARD_PLACE_MAX + 32], mr_diag_t *diag) {
  char place[MR_SHARD_PLACE_MAX];
  MR_TRY(mr_shard_place_new(path, where, place, diag));
  place[strlen(place) - strlen(".mrindex")] = 0;
  snprintf(out, MR_SHARD_PLACE_MAX + 32, "%s.%016" PRIx64 ".raw", place, state);
  return MR_OK;
}

/* Whether a file's state tells its versions apart: a server may give an object neither ETag nor
   time. */
static bool has_versions(const mr_shard_file_t *f) {
  return !f->object || *f->object->etag || f->object->mtime_ns;
}

/* Gives the new file its name, unless another process was first: its file holds the same, and the
   graphs that are planned already know that file's time.  A damaged one is replaced. */
static mr_err_t decompress_end(decompress_t *d, const char *to, uint64_t state, uint64_t contents) {
  bool sound = false;
  mr_err_t e = mr_newfile_sync(&d->out, d->diag);
  if (e >= 0) e = mr__raw_note(d->out.tmp, to, state, contents, &d->in->trust, d->diag);
  if (e >= 0 && link(d->out.tmp, to) < 0) {
    if (errno == EEXIST) e = mr__raw_find(to, state, d->written, &d->in->trust, &sound, d->diag);
    if (e >= 0 && !sound) return mr_newfile_commit(&d->out, d->diag); /* or no links here */
  }
  mr_newfile_drop(&d->out);
  return e < 0 ? e : mr_sync_parent(to, d->diag);
}

/* Decompresses into the file `to`; one without versions is named by its contents instead. */
static mr_err_t decompress_to(decompress_t *d, uint64_t state, const char *where,
                              char to[MR_SHARD_PLACE_MAX + 32]) {
  d->contents = XXH3_createState();
  if (!d->contents) return mr_no_memory(d->diag, "a digest");
  XXH3_64bits_reset_withSeed(d->contents, state);
  mr_err_t e = mr_newfile_open_own(&d->out, to, d->diag);
  if (e >= 0) e = decompress_all(d);
  uint64_t contents = XXH3_64bits_digest(d->contents);
  XXH3_freeState(d->contents);
  if (e >= 0 && !has_versions(d->in)) e = decompressed_path(d->path, contents, where, to, d->diag);
  if (e < 0) return mr_newfile_drop(&d->out), e;
  strcpy(d->out.path, to); /* as long as the name before */
  e = decompress_end(d, to, state, contents);
  if (e >= 0) mr__raw_prune(to, where, &d->in->trust);
  return e;
}

mr_err_t mr_decompress(mr_shard_file_t *file, const mr_shard_id_t *id, const char *where,
                       const mr_compressed_t *c, char **out, mr_diag_t *diag) {
  char to[MR_SHARD_PLACE_MAX + 32];
  decompress_t d = {.want = c,
                    .path = file->path,
                    .in = file,
                    .most = c->unpacked < 0 ? c->most : c->unpacked,
                    .diag = diag};
  *out = NULL;
  file->once = true;
  if (strcmp(c->codec, "zstd") && strcmp(c->codec, "gz"))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: is compressed by %.40s, want zstd or gz, or uncompressed shards",
                   file->path, c->codec);
  uint64_t state = XXH3_64bits(id, sizeof *id);
  MR_TRY(decompressed_path(file->path, state, where, to, diag));
  bool sound = false;
  if (has_versions(file)) MR_TRY(mr__raw_find(to, state, c->unpacked, &file->trust, &sound, diag));
  if (!sound) {
    char lock[MR_SHARD_LOCK_MAX];
    bool busy;
    int held = mr_shard_lock(to, -1, false, lock, &busy);
    if (busy) MR_TRY(mr_remote_answer(file->remote, diag));
    if (busy) held = mr_shard_lock(to, -1, true, lock, &busy);
    mr_err_t e = has_versions(file)
                     ? mr__raw_find(to, state, c->unpacked, &file->trust, &sound, diag)
                     : MR_OK;
    if (e >= 0 && !sound && access(to, F_OK) == 0)
      mr_notice("%s: is damaged, or its check is: it is decompressed again", to);
    if (e >= 0 && !sound) e = decompress_to(&d, state, where, to);
    mr_shard_unlock(held, lock);
    MR_TRY(e);
  }
  *out = strdup(to);
  return *out ? MR_OK : mr_no_memory(diag, "a name");
}
