/* CIFAR's files.  The first byte says which set, kept in memory or not, and which length is off;
   the rest are labels and the names of classes. */
#include "tests/fuzz/fuzz.h"

enum { RECORDS = 5, TEN = 3073, HUNDRED = 3074 };

static uint8_t file[RECORDS * HUNDRED];

/* Labels from data; pixels do not matter. */
static size_t fill(const uint8_t *data, size_t n, int n_labels, int records) {
  size_t record = (size_t)(n_labels == 1 ? TEN : HUNDRED);
  memset(file, 0, sizeof file);
  for (size_t i = 0; i < n && i < (size_t)(n_labels * records); i++)
    file[i / (size_t)n_labels * record + i % (size_t)n_labels] = data[i];
  return (size_t)records * record;
}

static void ten(int mode, const uint8_t *data, size_t n) {
  char path[96], name[32];
  size_t size = fill(data, n, 1, 1) - (mode & 2 ? 1 : 0) + (mode & 4 ? 1 : 0);
  for (int i = 1; i <= 5; i++) {
    snprintf(name, sizeof name, "data_batch_%d.bin", i);
    fuzz_file(name, file, size);
  }
  if (n > 5) fuzz_file("batches.meta.txt", data + 5, n - 5);
  snprintf(path, sizeof path, "path=%s", fuzz_folder());
  fuzz_stage_t f;
  if (fuzz_open(&f, "cifar10",
                FUZZ_SETTINGS(path, "records=1", "holdout=1",
                              mode & 1 ? "memory=0" : "memory=99999", "backend=pread")) >= 0)
    fuzz_fetch_all(&f);
  fuzz_close(&f);
}

static void hundred(int mode, const uint8_t *data, size_t n) {
  char path[96];
  size_t size = fill(data, n, 2, RECORDS) - (mode & 2 ? 1 : 0);
  fuzz_file("train.bin", file, size);
  if (n > 10)
    fuzz_file(mode & 16 ? "fine_label_names.txt" : "coarse_label_names.txt", data + 10, n - 10);
  snprintf(path, sizeof path, "path=%s", fuzz_folder());
  fuzz_stage_t f;
  if (fuzz_open(&f, "cifar100",
                FUZZ_SETTINGS(path, "records=5", "split=all", "holdout=0",
                              mode & 16 ? "labels=fine" : "labels=coarse",
                              mode & 1 ? "memory=0" : "memory=99999", "backend=pread")) >= 0)
    fuzz_fetch_all(&f);
  fuzz_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n < 1) return 0;
  (data[0] & 8 ? hundred : ten)(data[0], data + 1, n - 1);
  return 0;
}
