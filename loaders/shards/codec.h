/* Decompresses a block in memory whose decompressed size is known.  A build without the library
   of a codec refuses it (without.c). */
#ifndef MR_LOADERS_SHARDS_CODEC_H
#define MR_LOADERS_SHARDS_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decompresses from[0,n) to exactly to[0,size); never writes more.  *codec, NULL at first, keeps
   what the next call of the same thread uses again; mr_codec_free ends it.  MR_ERR_DATA if the
   block is damaged or holds another number of bytes, MR_ERR_NOMEM, MR_ERR_UNAVAILABLE. */
mr_err_t mr_codec_zstd(void **codec, const uint8_t *from, size_t n, uint8_t *to, size_t size,
                       mr_diag_t *diag);
mr_err_t mr_codec_brotli(const uint8_t *from, size_t n, uint8_t *to, size_t size, mr_diag_t *diag);
mr_err_t mr_codec_snappy(const uint8_t *from, size_t n, uint8_t *to, size_t size, mr_diag_t *diag);

void mr_codec_free(void *codec); /* NULL is fine */

#endif
