/* The list of a folder's files: one block of text for all names, so that a million files cost no
   million allocations and a hundred million fit beside a small memory (base/spill.h); their order;
   and the names of their classes.  Names are sorted by code points, not bytes or locale, as Python
   sorts them, so that labels agree with torchvision's. */
#include "loaders/formats/folder_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "loaders/local/class_names.h"

enum { FIRST = 4096 }; /* bytes at least */

void mr_folder_list_free(mr_folder_list_t *l) {
  if (l->text) mr_spill_free(&l->text_memory);
  if (l->file) mr_spill_free(&l->file_memory);
  free(l->name), free(l->empty);
  *l = (mr_folder_list_t){0};
}

/* Makes room for n bytes in a memory that is still empty, or not. */
static bool list_grow(mr_spill_t *memory, bool empty, size_t n) {
  if (empty) *memory = MR_SPILL_NONE;
  return mr_spill_grow(memory, n > FIRST ? n : FIRST, "a list of files", NULL) >= 0;
}

bool mr__folder_text(mr_folder_list_t *l, const char *bytes, size_t n, uint64_t *at) {
  if (!list_grow(&l->text_memory, !l->text, l->n_text + n + 1)) return false;
  l->text = l->text_memory.at;
  *at = l->n_text;
  memcpy(l->text + l->n_text, bytes, n);
  l->text[l->n_text + n] = 0;
  l->n_text += n + 1;
  return true;
}

void mr__folder_outside(mr_folder_list_t *l, const char *name, size_t n) {
  if (!l->n_outside++)
    snprintf(l->outside, sizeof l->outside, "%.*s", (int)(n < 255 ? n : 255), name);
}

mr_err_t mr__folder_add(mr_folder_list_t *l, const char *path, size_t n, int32_t label,
                        mr_diag_t *diag) {
  mr_folder_file_t f = {.label = label};
  const char *end = memrchr(path, '/', n);
  f.root = end ? (uint32_t)(end - path) : 0;
  if (l->n == l->most)
    return mr_fail(diag, MR_ERR_DATA, "%s: more than max-files=%" PRId64 " files; raise max-files",
                   l->from, l->most);
  if (!list_grow(&l->file_memory, !l->file, ((size_t)l->n + 1) * sizeof *l->file))
    return mr_no_memory(diag, "a list of %" PRId64 " files of %s", l->n + 1, l->from);
  l->file = l->file_memory.at;
  if (!mr__folder_text(l, path, n, &f.at))
    return mr_no_memory(diag, "the names of %" PRId64 " files of %s", l->n, l->from);
  l->file[l->n++] = f;
  return MR_OK;
}

/* ---- the order of names ---- */

/* The code point at *p, which moves behind it. */
static uint32_t folder_code(const unsigned char **p, const unsigned char *end) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *s = *p;
  uint32_t c = *s;
  int n = c < 0x80                ? 1
          : c >= 0xC2 && c < 0xE0 ? 2
          : c >= 0xE0 && c < 0xF0 ? 3
          : c >= 0xF0 && c < 0xF5 ? 4
                                  : 0;
  uint32_t code = n == 1 ? c : c & (0x7Fu >> n);
  for (int i = 1; i < n; i++) {
    if (s + i == end || (s[i] & 0xC0) != 0x80) n = 0;
    if (n) code = code << 6 | (s[i] & 0x3F);
  }
  bool good = n && code >= least[n] && code < 0x110000 && (code < 0xD800 || code > 0xDFFF);
  *p += good ? n : 1;
  return good ? code : 0xDC00 + c;
}

int mr__folder_compare(const char *a, size_t n, const char *b, size_t m) {
  const unsigned char *s = (const unsigned char *)a, *t = (const unsigned char *)b, *s_end = s + n,
                      *t_end = t + m;
  while (s < s_end && t < t_end) {
    uint32_t x = folder_code(&s, s_end), y = folder_code(&t, t_end);
    if (x != y) return x < y ? -1 : 1;
  }
  return (s < s_end) - (t < t_end);
}

/* Files are sorted by folder and then by name, as sorted(os.walk()) gives them. */
static int by_path(const void *a, const void *b, void *arg) {
  const mr_folder_file_t *x = a, *y = b;
  const char *text = arg, *p = text + x->at, *q = text + y->at;
  int order = mr__folder_compare(p, x->root, q, y->root);
  if (order) return order;
  p += x->root + 1, q += y->root + 1; /* each has a class's folder before it */
  return mr__folder_compare(p, strlen(p), q, strlen(q));
}

void mr__folder_sort(mr_folder_list_t *l, int64_t from) {
  if (l->n == from) return; /* an empty list has no memory to name */
  qsort_r(l->file + from, (size_t)(l->n - from), sizeof *l->file, by_path, l->text);
}

bool mr__folder_is_picture(const char *name) {
  static const char *const ends[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                     ".pgm", ".tif",  ".tiff", ".webp"};
  size_t n = strlen(name);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t m = strlen(ends[i]);
    if (n >= m && !strcasecmp(name + n - m, ends[i])) return true;
  }
  return false;
}

/* ---- classes ---- */

mr_err_t mr__folder_classes(mr_folder_list_t *l, char *const *name, int n, mr_diag_t *diag) {
  uint64_t at;
  size_t first = l->n_text;
  if (n > MR_FOLDER_CLASSES_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: %d classes, want at most %d", l->from, n,
                   MR_FOLDER_CLASSES_MAX);
  l->name = calloc((size_t)n + 1, sizeof *l->name);
  bool good = l->name;
  for (int i = 0; i < n && good; i++) good = mr__folder_text(l, name[i], strlen(name[i]), &at);
  if (!good) return mr_no_memory(diag, "the names of %d classes of %s", n, l->from);
  char *text = l->text + first; /* which no longer moves */
  for (int i = 0; i < n; i++, text += strlen(text) + 1) {
    l->name[i] = text;
    for (const unsigned char *c = (unsigned char *)text, *end = c + strlen(text), *from; c < end;) {
      uint32_t code = (from = c, folder_code(&c, end));
      if (code < 0x20 || code == 0x7F || (code >= 0xDC80 && code <= 0xDCFF))
        text[from - (unsigned char *)text] = '?';
    }
  }
  l->n_classes = n;
  mr__class_names_say_forms(&(mr_classes_t){n, l->name}, l->from);
  return MR_OK;
}
