#include "loaders/cifar10_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const mr__cifar10_class[MR_IMAGE_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

void mr__cifar10_path(const char *folder, bool test, int i, char *text, size_t n) {
  if (test)
    snprintf(text, n, "%s/test_batch.bin", folder);
  else
    snprintf(text, n, "%s/data_batch_%d.bin", folder, i + 1);
}

mr_err_t mr__cifar10_paths(const char *folder, bool test, mr_cifar10_paths_t *out,
                           mr_diag_t *diag) {
  if (strlen(folder) >= MR_CIFAR10_PATH)
    return mr_fail(diag, MR_ERR_CONFIG, "path has %zu bytes, want less than %d", strlen(folder),
                   MR_CIFAR10_PATH);
  if (access(folder, R_OK | X_OK) < 0)
    return mr_fail(diag, MR_ERR_IO, "path=%s: the folder cannot be read: %s", folder,
                   strerror(errno));
  out->n = test ? 1 : MR_CIFAR10_FILES;
  for (int i = 0; i < out->n; i++) {
    mr__cifar10_path(folder, test, i, out->text[i], sizeof out->text[i]);
    out->path[i] = out->text[i];
  }
  return MR_OK;
}

mr_err_t mr__cifar10_check(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                           mr_diag_t *diag) {
  if (record[0] < MR_IMAGE_CLASSES) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: label %d of record %" PRId64 ", want [0,9]", path,
                 record[0], at);
}
