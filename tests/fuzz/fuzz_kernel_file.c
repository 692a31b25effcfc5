/* A file of the kernel cache: an image is taken only from the file that would be written for it,
   and anything else is refused with a reason.  The first byte chooses whether the rest is the file
   or an image to be written. */
#include "model/backends/kernels/cache_file.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const uint64_t key[2] = {0x0123456789ABCDEF, 0xFEDCBA9876543210};
  unsigned char header[MR_KERNEL_HEADER];
  const void *image = NULL;
  const char *why = NULL;
  size_t bytes = 0;
  if (!n) return 0;
  bool writes = *data & 1;
  data++, n--;
  uint8_t *file = malloc(n + MR_KERNEL_HEADER), *at = file;
  fuzz_need(file != NULL, "memory");
  if (writes) {
    mr_kernel_file_header(key, data, n, header);
    memcpy(file, header, sizeof header), at += sizeof header;
  }
  if (n) memcpy(at, data, n);
  size_t all = (size_t)(at - file) + n;
  mr_kernel_file_t is = mr_kernel_file_read(file, all, key, &image, &bytes, &why);
  fuzz_need(!writes || is == MR_KERNEL_WHOLE, "what is written is read");
  if (is == MR_KERNEL_WHOLE) {
    fuzz_need(image == file + MR_KERNEL_HEADER && bytes == all - MR_KERNEL_HEADER, "the image");
    mr_kernel_file_header(key, image, bytes, header);
    fuzz_need(!memcmp(header, file, sizeof header), "the header that would be written");
  } else {
    fuzz_need(why && *why, "a reason");
  }
  free(file);
  return 0;
}
