#include "loaders/cifar10_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mr__cifar10_usual_names(mr_cifar10_names_t *names) {
  static const char *const usual[MR_IMAGE_CLASSES] = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  memcpy(names->name, usual, sizeof usual);
}

static bool is_name(const char *s) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F) return false;
  return n >= 1 && n <= 31;
}

/* Cuts text into its lines; false unless they are ten names and nothing else. */
static bool split_names(mr_cifar10_names_t *names) {
  const char *found[MR_IMAGE_CLASSES];
  int n = 0;
  char *rest = names->text, *line;
  while ((line = strsep(&rest, "\n"))) {
    line[strcspn(line, "\r")] = 0;
    if (!*line) continue;
    if (n == MR_IMAGE_CLASSES || !is_name(line)) return false;
    found[n++] = line;
  }
  if (n < MR_IMAGE_CLASSES) return false;
  memcpy(names->name, found, sizeof found);
  return true;
}

mr_err_t mr__cifar10_read_names(const char *folder, mr_cifar10_names_t *names, mr_diag_t *diag) {
  char path[MR_CIFAR10_PATH + 32];
  snprintf(path, sizeof path, "%s/batches.meta.txt", folder);
  FILE *f = fopen(path, "rb");
  if (!f && errno == ENOENT) return MR_OK;
  if (!f) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  size_t n = fread(names->text, 1, sizeof names->text, f);
  bool whole = n < sizeof names->text && !ferror(f) && !memchr(names->text, 0, n);
  fclose(f);
  names->text[whole ? n : 0] = 0;
  if (whole && split_names(names)) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: want the names of ten classes, one a line", path);
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
    if (test)
      snprintf(out->text[i], sizeof out->text[i], "%s/test_batch.bin", folder);
    else
      snprintf(out->text[i], sizeof out->text[i], "%s/data_batch_%d.bin", folder, i + 1);
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
