/* Names of classes, from a file beside the data or from a table in the code.  The text of the file
   is kept and cut into lines in place, and the names point into it.  They end up on terminals and
   pages, so control characters and long names are refused. */
#include "loaders/local/class_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/xio.h"

/* One line of the file: a name with "\r\n". */
enum {
  LINE = MR_CLASS_NAME_MAX + 2,
  DIGITS = 7 /* of a number below MR_CLASSES_MAX, with a NUL */
};

void mr__class_names_free(mr_class_names_t *names) {
  free(names->text), free(names->name), mr_classes_index_destroy(names->index);
  *names = (mr_class_names_t){0};
}

static mr_err_t class_names_take(mr_class_names_t *names, char *text, const char **name, int n) {
  mr__class_names_free(names);
  *names = (mr_class_names_t){.text = text, .name = name, .n = n};
  return MR_OK;
}

/* Room for n names, one at least. */
static const char **class_names_room(int n, mr_diag_t *diag) {
  const char **name = calloc((size_t)n + 1, sizeof *name);
  if (!name) mr_no_memory(diag, "names of %d classes", n);
  return name;
}

mr_err_t mr__class_names_usual(mr_class_names_t *names, const char *const *usual, int n,
                               mr_diag_t *diag) {
  const char **name = class_names_room(n, diag);
  if (!name) return mr__class_names_free(names), MR_ERR_NOMEM;
  if (n) memcpy(name, usual, (size_t)n * sizeof *usual);
  return class_names_take(names, NULL, name, n);
}

mr_err_t mr__class_names_first(mr_class_names_t *names, const char *const *first, int n,
                               mr_diag_t *diag) {
  int all = n > names->n ? n : names->n;
  const char **name = realloc(names->name, ((size_t)all + 1) * sizeof *name);
  if (!name) return mr_no_memory(diag, "names of %d classes", all);
  if (n) memcpy(name, first, (size_t)n * sizeof *first);
  mr_classes_index_destroy(names->index);
  names->name = name, names->n = all, names->index = NULL;
  return MR_OK;
}

mr_err_t mr__class_names_numbers(mr_class_names_t *names, int n, mr_diag_t *diag) {
  const char **name = class_names_room(n, diag);
  char *text = name ? malloc((size_t)n * DIGITS + 1) : NULL;
  if (!text) {
    free(name), mr__class_names_free(names);
    return mr_no_memory(diag, "names of %d classes", n);
  }
  for (int i = 0; i < n; i++) {
    char *at = text + (size_t)i * DIGITS;
    snprintf(at, DIGITS, "%u", (unsigned)i % MR_CLASSES_MAX);
    name[i] = at;
  }
  return class_names_take(names, text, name, n);
}

bool mr__class_name_ok(const char *s) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] < 0x20 || s[i] == 0x7F) return false;
  return n >= 1 && n <= MR_CLASS_NAME_MAX;
}

static void say_two_forms(const mr_classes_index_t *x, const mr_classes_t *c, const char *where) {
  int32_t at[2];
  if (mr_classes_forms(x, at))
    mr_notice(
        "%s: classes %d and %d are one name, \"%.100s\", in two of Unicode's forms (NFC, NFD): "
        "want one form, or they cannot be matched by name with those of other records",
        where, (int)at[0], (int)at[1], c->name[at[1]]);
}

void mr__class_names_say_forms(const mr_classes_t *c, const char *where) {
  mr_diag_t why = {0}; /* without memory nothing is said here */
  mr_classes_index_t *x = mr_classes_index_create(c, &why);
  if (x) say_two_forms(x, c, where);
  mr_classes_index_destroy(x);
}

/* Splits text into lines, which are names: puts them into name[0,most) and their number into *n.
   Returns false for a line that is no name, or for one too many. */
static bool split_names(char *text, const char **name, int most, int *n) {
  char *rest = text, *line;
  *n = 0;
  while ((line = strsep(&rest, "\n"))) {
    line[strcspn(line, "\r")] = 0;
    if (!*line) continue;
    if (*n == most || !mr__class_name_ok(line)) return false;
    name[(*n)++] = line;
  }
  return *n > 0;
}

static int count_lines(const char *text) {
  int n = 1;
  for (; (text = strchr(text, '\n')) && n < MR_CLASSES_MAX; text++) n++;
  return n;
}

/* The whole file, which ends with a NUL; NULL if it holds more than names can, a NUL, or cannot be
   read.  *e is MR_ERR_NOMEM where memory is missing. */
static char *read_names(FILE *f, mr_err_t *e) {
  struct stat st;
  size_t most = (size_t)LINE * MR_CLASSES_MAX;
  if (fstat(fileno(f), &st) < 0 || st.st_size < 0 || (size_t)st.st_size > most) return NULL;
  size_t size = (size_t)st.st_size;
  char *text = malloc(size + 1);
  if (!text) return *e = MR_ERR_NOMEM, NULL;
  size_t n = fread(text, 1, size + 1, f);
  if (n > size || ferror(f) || memchr(text, 0, n)) return free(text), NULL;
  text[n] = 0;
  return text;
}

static mr_err_t class_names_refuse(const char *path, int want, mr_diag_t *diag) {
  if (!want)
    return mr_fail(diag, MR_ERR_DATA, "%s: want the names of 1 to %d classes, one a line", path,
                   MR_CLASSES_MAX);
  return mr_fail(diag, MR_ERR_DATA, "%s: want the names of %d classes, one a line", path, want);
}

mr_err_t mr__class_names_read(mr_class_names_t *names, const char *folder, const char *file,
                              int want, mr_diag_t *diag) {
  char path[4200];
  int len = snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
  if (len >= (int)sizeof path)
    return mr_fail(diag, MR_ERR_CONFIG, "%s: the path is too long", file);
  FILE *f = mr_open_regular(path);
  if (!f && (errno == ENOENT || errno == ENOTDIR) && folder) return MR_OK;
  if (!f) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, mr_open_reason(errno));
  mr_err_t e = MR_OK;
  char *text = read_names(f, &e);
  fclose(f);
  if (e < 0) return mr_no_memory(diag, "%s", path);
  int most = text ? count_lines(text) : 0, n = 0;
  const char **name = text ? class_names_room(most, diag) : NULL;
  if (text && !name) return free(text), MR_ERR_NOMEM;
  bool good = text && split_names(text, name, most, &n) && (!want || n == want);
  mr_classes_t all = {n, name};
  mr_classes_index_t *index = good ? mr_classes_index_create(&all, diag) : NULL;
  if (index) {
    say_two_forms(index, &all, path);
    class_names_take(names, text, name, n);
    return names->index = index, MR_OK;
  }
  free(text), free(name);
  return good ? MR_ERR_NOMEM : class_names_refuse(path, want, diag);
}
