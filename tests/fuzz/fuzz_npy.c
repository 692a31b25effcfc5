/* .npy files: loaded whole, and as images or labels of a pair. */
#include "base/npy.h"

#include "tests/fuzz/fuzz.h"

/* Four labels, as NumPy writes them. */
static size_t plain_labels(uint8_t *file) {
  static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";
  memset(file, ' ', 128);
  memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
  memcpy(file + 10, dict, sizeof dict - 1);
  file[127] = '\n';
  memcpy(file + 128, "\x00\x09\x01\x03", 4);
  return 132;
}

static void pair(const char *images, const char *labels, int kept) {
  char a[160], b[160];
  snprintf(a, sizeof a, "images=%s", images);
  snprintf(b, sizeof b, "labels=%s", labels);
  fuzz_stage_t f;
  if (fuzz_open(&f, "npy",
                FUZZ_SETTINGS(a, b, kept ? "memory=99999" : "memory=0", "backend=pread")) >= 0)
    fuzz_fetch_all(&f);
  fuzz_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  uint8_t labels[132];
  mr_diag_t diag = {0};
  mr_npy_t a;
  const char *file = fuzz_file("file.npy", data, n);
  if (mr_npy_load(file, &a, &diag) >= 0) {
    size_t bytes = a.count * mr_dtype_size(a.dtype);
    const volatile uint8_t *at = a.data;
    for (size_t i = 0; i < bytes; i += 64) (void)at[i];
    mr_npy_free(&a);
  }
  const char *other = fuzz_file("labels.npy", labels, plain_labels(labels));
  pair(file, other, (int)(n & 1));
  pair(file, file, (int)(n & 1));
  return 0;
}
