/* Blocks compressed by brotli.  The stream interface is used, because the call that decompresses a
   whole block does not say whether bytes were left over. */
#include <brotli/decode.h>

#include "loaders/shards/codec.h"

mr_err_t mr_codec_brotli(const uint8_t *from, size_t n, uint8_t *to, size_t size, mr_diag_t *diag) {
  BrotliDecoderState *s = BrotliDecoderCreateInstance(NULL, NULL, NULL);
  uint8_t none, *next = size ? to : &none;
  size_t left = size;
  if (!s) return mr_no_memory(diag, "decompressing brotli");
  BrotliDecoderResult r = BrotliDecoderDecompressStream(s, &n, &from, &left, &next, NULL);
  BrotliDecoderDestroyInstance(s);
  if (r == BROTLI_DECODER_RESULT_SUCCESS && !left && !n) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "is damaged, or holds another number of bytes than it says");
}
