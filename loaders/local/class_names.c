/* Names of classes, from a file beside the data or from a table in the code.  The text of the file
   is kept and cut into lines in place, and the names point into it.  They end up on terminals and
   pages, so control characters and long names are refused. */
#include "loaders/local/class_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/xio.h"

void mr__class_names_usual(mr_class_names_t *names, const char *const *usual, int n) {
  memcpy(names->name, usual, (size_t)n * sizeof *usual);
  names->n = n;
}

bool mr__class_name_ok(const char *s) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F) return false;
  return n >= 1 && n <= MR_CLASS_NAME_MAX;
}

/* Splits text into lines; false unless they are exactly names->n valid names, or some if that is
   0. */
static bool split_names(mr_class_names_t *names) {
  int n = 0, most = names->n ? names->n : MR_CLASSES_MAX;
  char *rest = names->text, *line;
  while ((line = strsep(&rest, "\n"))) {
    line[strcspn(line, "\r")] = 0;
    if (!*line) continue;
    if (n == most || !mr__class_name_ok(line)) return false;
    names->name[n++] = line;
  }
  if (!names->n) names->n = n;
  return n && n == names->n;
}

mr_err_t mr__class_names_read(mr_class_names_t *names, const char *folder, const char *file,
                              mr_diag_t *diag) {
  char path[4200];
  int len = snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
  if (len >= (int)sizeof path)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: the path is too long", file);
  FILE *f = mr_open_regular(path);
  if (!f && (errno == ENOENT || errno == ENOTDIR) && folder) return MR_OK;
  if (!f) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, mr_open_reason(errno));
  size_t n = fread(names->text, 1, sizeof names->text, f);
  bool whole = n < sizeof names->text && !ferror(f) && !memchr(names->text, 0, n);
  fclose(f);
  names->text[whole ? n : 0] = 0;
  if (whole && split_names(names)) return MR_OK;
  if (!names->n)
    return mr_fail(diag, MR_ERR_DATA, "%s: want the names of 1 to %d classes, one a line", path,
                   MR_CLASSES_MAX);
  return mr_fail(diag, MR_ERR_DATA, "%s: want the names of %d classes, one a line", path, names->n);
}
