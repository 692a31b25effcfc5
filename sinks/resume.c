#include "sinks/resume.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"

bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step) {
  if (step > (double)r->step || !strcmp(kind, "final") || !strcmp(kind, "test")) return false;
  return r->valid || step != (double)r->step || strcmp(kind, "valid") != 0;
}

bool mr_resume_was_told(int64_t told, const char *kind, int64_t step) {
  return strcmp(kind, "step") ? step < told && !strcmp(kind, "valid") : step <= told;
}

mr_err_t mr_resume_cut(const char *path, bool (*holds)(const void *arg, const char *line, size_t n),
                       const void *arg, mr_diag_t *diag) {
  void *bytes;
  size_t n, kept = 0;
  if (access(path, F_OK) < 0) return MR_OK;
  MR_TRY(mr_read_file(path, (size_t)1 << 32, &bytes, &n, diag));
  char *text = bytes;
  for (size_t at = 0; at < n;) {
    char *end = memchr(text + at, '\n', n - at);
    if (!end) break; /* cut short when that run was killed */
    size_t len = (size_t)(end - text) + 1 - at;
    if (holds(arg, text + at, len)) {
      memmove(text + kept, text + at, len);
      kept += len;
    }
    at += len;
  }
  mr_err_t e = kept < n ? mr_write_file(path, text, kept, diag) : MR_OK;
  free(bytes);
  return e;
}
