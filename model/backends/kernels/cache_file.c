/* Bytes from a disk: every length is checked before it is used, and the sum before the image is
   given to a driver, whose checks are not known. */
#include "model/backends/kernels/cache_file.h"

#include <string.h>
#include <xxhash.h>

typedef struct kernel_header {
  char magic[8];
  uint32_t version, zero;
  uint64_t key[2], bytes, sum[2];
} kernel_header_t;
_Static_assert(sizeof(kernel_header_t) == MR_KERNEL_HEADER, "no padding");

static const char magic[8] = "mrkernel";

static XXH128_hash_t file_sum(const kernel_header_t *h, const void *image, size_t bytes) {
  return XXH3_128bits_withSeed(image, bytes, XXH3_64bits(h, offsetof(kernel_header_t, sum)));
}

mr_kernel_file_t mr_kernel_file_read(const void *data, size_t n, const uint64_t key[2],
                                     const void **image, size_t *bytes, const char **why) {
  kernel_header_t h;
  if (n >= sizeof h.magic && memcmp(data, magic, sizeof magic) != 0)
    return *why = "no compiled kernel of millrace", MR_KERNEL_FOREIGN;
  if (n < sizeof h) return *why = "it is cut off", MR_KERNEL_DAMAGED;
  memcpy(&h, data, sizeof h);
  if (h.version != MR_KERNEL_VERSION)
    return *why = "a compiled kernel in another version's format", MR_KERNEL_FOREIGN;
  if (h.bytes != n - sizeof h) return *why = "its length is wrong", MR_KERNEL_DAMAGED;
  if (h.zero || h.key[0] != key[0] || h.key[1] != key[1])
    return *why = "it holds another kernel than its name says", MR_KERNEL_DAMAGED;
  *image = (const char *)data + sizeof h;
  *bytes = (size_t)h.bytes;
  XXH128_hash_t sum = file_sum(&h, *image, *bytes);
  if (h.sum[0] != sum.low64 || h.sum[1] != sum.high64)
    return *why = "its checksum is wrong", MR_KERNEL_DAMAGED;
  return MR_KERNEL_WHOLE;
}

void mr_kernel_file_header(const uint64_t key[2], const void *image, size_t bytes,
                           unsigned char out[MR_KERNEL_HEADER]) {
  kernel_header_t h = {
      .version = MR_KERNEL_VERSION, .key = {key[0], key[1]}, .bytes = (uint64_t)bytes};
  memcpy(h.magic, magic, sizeof magic);
  XXH128_hash_t sum = file_sum(&h, image, bytes);
  h.sum[0] = sum.low64, h.sum[1] = sum.high64;
  memcpy(out, &h, sizeof h);
}
