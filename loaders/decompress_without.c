/* Compressed files in a build without libzstd or zlib: they are refused with the libraries to build
   with, and all others work. */
#include "base/feature.h"
#include "loaders/decompress.h"

mr_err_t mr_decompress(const char *path, const char *where, const mr_compressed_t *c, char **out,
                       mr_diag_t *diag) {
  *out = NULL;
  return mr_without(diag, path, "ZSTD");
}
