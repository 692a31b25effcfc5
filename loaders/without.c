/* What this room's calls are in a build without an optional library: refused with the reason, so
   that a graph which does not need the library works.  MR_WITHOUT_X is defined where mr_needs
   (cmake/features.cmake) finds X missing. */
#include <assert.h>

#include "base/feature.h"
#include "loaders/local/reader_private.h"
#include "loaders/remote/remote_private.h"
#include "loaders/shards/codec.h"
#include "loaders/shards/decompress.h"

/* reader_choose.c learns from mr_uring_refused that the two io_uring ways are missing, and chooses
   between the other two. */
#if defined(MR_WITHOUT_URING)
int mr_uring_refused(void) { return MR_URING_NOT_BUILT_IN; }

static mr_err_t refuse_uring(mr_reader_t *r, mr_diag_t *diag) {
  char text[MR_URING_REFUSED_MAX];
  return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s",
                 mr_uring_refused_text(MR_URING_NOT_BUILT_IN, text, sizeof text));
}

static void close_none(mr_reader_t *r) {}

const mr_reader_way_t mr__reader_uring = {.open = refuse_uring, .close = close_none};
const mr_reader_way_t mr__reader_direct = {.open = refuse_uring, .close = close_none};
#endif

/* Opening the engine refuses, so its other calls, which the linker needs, are never made. */
#if defined(MR_WITHOUT_CURL)
mr_err_t mr__engine_open(mr__engine_t **out, const mr_remote_conf_t *conf, const char *region,
                         mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, "URLs", "CURL");
}

void mr__engine_close(mr__engine_t *e) { assert(!e); }
void mr__engine_submit(mr__engine_t *e, mr__request_t *q) { assert(!"no engine is open"); }
void mr__engine_drop(mr__engine_t *e, mr__request_t *q, int n) { assert(!"no engine is open"); }
void mr__engine_count(mr__engine_t *e, mr_remote_counts_t *out) { *out = (mr_remote_counts_t){0}; }

mr_err_t mr__engine_plain(const char *method, const char *url, const char *headers, char *text,
                          size_t n, mr_diag_t *diag) {
  return mr_without(diag, "URLs", "CURL");
}
#endif

#if defined(MR_WITHOUT_ZSTD)
mr_err_t mr_decompress(mr_shard_file_t *file, const mr_shard_id_t *id, const char *where,
                       const mr_compressed_t *c, char **out, mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, file->path, "ZSTD");
}

void mr_codec_free(void *codec) { assert(!codec); }

mr_err_t mr_codec_zstd(void **codec, const uint8_t *from, size_t n, uint8_t *to, size_t size,
                       mr_diag_t *diag) {
  return mr_without(diag, "records compressed by zstd", "ZSTD");
}
#endif

#if defined(MR_WITHOUT_BROTLI)
mr_err_t mr_codec_brotli(const uint8_t *from, size_t n, uint8_t *to, size_t size, mr_diag_t *diag) {
  return mr_without(diag, "records compressed by brotli", "BROTLI");
}
#endif
