/* Blocks compressed by zstd.  The whole block is decompressed in one call, so that no window is
   allocated, whatever size a frame asks for. */
#include <zstd.h>

#include "loaders/shards/codec.h"

void mr_codec_free(void *codec) { ZSTD_freeDCtx(codec); }

mr_err_t mr_codec_zstd(void **codec, const uint8_t *from, size_t n, uint8_t *to, size_t size,
                       mr_diag_t *diag) {
  if (!*codec) *codec = ZSTD_createDCtx();
  if (!*codec) return mr_no_memory(diag, "decompressing zstd");
  size_t got = ZSTD_decompressDCtx(*codec, to, size, from, n);
  if (ZSTD_isError(got) || got != size)
    return mr_fail(diag, MR_ERR_DATA, "is damaged, or holds more than it says: %s",
                   ZSTD_isError(got) ? ZSTD_getErrorName(got) : "its size is wrong");
  return MR_OK;
}
