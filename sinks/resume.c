/* A file of lines is read whole, filtered in place, and replaced by rename only if a line goes. */
#include "sinks/resume.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"
#include "sinks/told_steps.h"

bool mr_resume_keeps(const mr_resume_t *r, const char *kind, double step) {
  if (step > (double)r->step || !strcmp(kind, "final") || !strcmp(kind, "test")) return false;
  return r->valid || step != (double)r->step || strcmp(kind, "valid") != 0;
}

bool mr_resume_was_told(int64_t told, const char *kind, int64_t step) {
  return strcmp(kind, "step") ? step < told && !strcmp(kind, "valid") : step <= told;
}

bool mr_resume_is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Moves the lines to keep to the front of text[0,*n), sets *n to their bytes and adds their steps
   to steps.  False without memory. */
static bool keep_lines(char *text, size_t *n, const mr_resume_t *r, mr_resume_read_fn *read,
                       const void *arg, mr_told_steps_t *steps) {
  size_t kept = 0;
  for (size_t at = 0, len; at < *n; at += len) {
    char *end = memchr(text + at, '\n', *n - at);
    mr_resume_line_t line = {0};
    if (!end) break; /* cut short when the earlier run was killed */
    len = (size_t)(end - text) + 1 - at;
    if (!read(arg, text + at, len, &line)) continue;
    if (!line.head && !mr_resume_keeps(r, line.kind, (double)line.step)) continue;
    if (!line.head && !strcmp(line.kind, "step") && !mr_told_steps_add(steps, line.step))
      return false;
    memmove(text + kept, text + at, len);
    kept += len;
  }
  *n = kept;
  return true;
}

mr_err_t mr_resume_cut(const mr_stage_t *s, const char *path, const mr_resume_t *r,
                       mr_resume_read_fn *read, const void *arg, mr_diag_t *diag) {
  void *text = NULL;
  size_t n = 0;
  mr_told_steps_t steps = {0};
  mr_err_t e = MR_OK;
  if (access(path, F_OK) == 0 && !mr_resume_is_file(path)) return MR_OK;
  if (access(path, F_OK) == 0) MR_TRY(mr_read_file(path, (size_t)1 << 32, &text, &n, diag));
  size_t kept = n;
  if (text && !keep_lines(text, &kept, r, read, arg, &steps))
    e = mr_fail(diag, MR_ERR_NOMEM, "%s: no memory for the steps that it has records of", path);
  if (e >= 0 && kept < n) e = mr_write_file(path, text, kept, diag);
  free(text);
  if (e >= 0) mr_told_steps_say_missing(&steps, s, path, r->step);
  mr_told_steps_fini(&steps);
  return e;
}
