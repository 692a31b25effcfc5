/* A list of files from the keys of a bucket.  Nothing is known of their order, so classes are
   collected, and every file finds its class when all are known. */
#include <stdlib.h>
#include <string.h>

#include "loaders/formats/folder_list.h"

enum { KEY_MAX = 4096 };

void mr_folder_keys_begin(mr_folder_keys_t *k, mr_folder_list_t *l, const char *from,
                          int64_t most) {
  *l = (mr_folder_list_t){.most = most, .from = from};
  *k = (mr_folder_keys_t){.list = l};
}

/* ---- classes ---- */

static int keys_by_name(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  return mr__folder_compare(x, strlen(x), y, strlen(y));
}

static void sort_names(mr_folder_keys_t *k) {
  int n = 0;
  qsort(k->name, (size_t)k->n, sizeof *k->name, keys_by_name);
  for (int i = 0; i < k->n; i++)
    if (n && !strcmp(k->name[n - 1], k->name[i]))
      free(k->name[i]);
    else
      k->name[n++] = k->name[i];
  k->n = k->sorted = n;
}

/* Makes room for a name where it is lacking: repeated names go first, and the room grows if more
   than half of it is left, so that keys that alternate between classes take no more room. */
static mr_err_t make_name_room(mr_folder_keys_t *k, mr_diag_t *diag) {
  if (k->n < k->cap) return MR_OK;
  if (k->n) sort_names(k);
  if (k->n > MR_FOLDER_CLASSES_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: more than %d classes, want at most %d", k->list->from,
                   MR_FOLDER_CLASSES_MAX, MR_FOLDER_CLASSES_MAX);
  if (2 * k->n < k->cap) return MR_OK;
  int cap = 2 * k->cap + 1024;
  char **more = realloc(k->name, (size_t)cap * sizeof *more);
  if (!more) return mr_no_memory(diag, "the names of classes");
  k->name = more, k->cap = cap;
  return MR_OK;
}

/* Neighbours are mostly of one class. */
static mr_err_t note_class(mr_folder_keys_t *k, const char *name, size_t n, mr_diag_t *diag) {
  const char *last = k->n > k->sorted ? k->name[k->n - 1] : NULL;
  if (last && !strncmp(last, name, n) && !last[n]) return MR_OK;
  MR_TRY(make_name_room(k, diag));
  k->name[k->n] = strndup(name, n);
  return k->name[k->n] ? (k->n++, MR_OK) : mr_no_memory(diag, "the names of classes");
}

/* The number of the class of a path that has one. */
static int class_of_path(const mr_folder_keys_t *k, const char *path) {
  size_t n = strcspn(path, "/");
  int low = 0, high = k->n;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    const char *name = k->name[middle];
    if (mr__folder_compare(name, strlen(name), path, n) <= 0)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- keys ---- */

/* Whether a tree of folders can have this path, with a final slash or without. */
static bool is_tree_path(const char *path) {
  for (const char *at = path; *at;) {
    size_t n = strcspn(at, "/");
    if (!n || (n == 1 && at[0] == '.') || (n == 2 && !memcmp(at, "..", 2))) return false;
    at += n + (at[n] == '/');
  }
  return *path && strlen(path) < KEY_MAX;
}

mr_err_t mr_folder_keys_add(mr_folder_keys_t *k, const char *path, const void *state, size_t n,
                            bool *is_file, mr_diag_t *diag) {
  uint64_t at;
  size_t len = strlen(path);
  const char *slash = strchr(path, '/');
  *is_file = false;
  if (!is_tree_path(path))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: lists \"%.300s\": want the path of a file below a folder, without \".\", "
                   "\"..\" and \"//\"",
                   k->list->from, path);
  if (!slash && mr__folder_is_picture(path)) mr__folder_outside(k->list, path, len);
  if (!slash) return MR_OK;
  MR_TRY(note_class(k, path, (size_t)(slash - path), diag));
  if (path[len - 1] == '/' || !mr__folder_is_picture(path)) return MR_OK;
  MR_TRY(mr__folder_add(k->list, path, len, 0, diag));
  if (!mr__folder_text(k->list, state, n, &at)) return mr_no_memory(diag, "a list of files");
  *is_file = true;
  return MR_OK;
}

/* ---- the whole ---- */

static int by_class(const void *a, const void *b) {
  const mr_folder_file_t *x = a, *y = b;
  return x->label != y->label ? (x->label > y->label) - (x->label < y->label)
                              : (x->at > y->at) - (x->at < y->at);
}

/* Sorts the files of class c, which begin at `from`; *end is behind them. */
static mr_err_t end_class(mr_folder_keys_t *k, int c, int64_t from, int64_t *end, bool allow_empty,
                          mr_diag_t *diag) {
  mr_folder_list_t *l = k->list;
  int64_t all = l->n;
  for (*end = from; *end < all && l->file[*end].label == c;) ++*end;
  if (*end == from && !allow_empty)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s/%s: holds no picture (*.jpg, *.png, *.webp, ..), want one in each class, or "
                   "allow-empty=true",
                   l->from, k->name[c]);
  if (*end == from) {
    if (!mr__folder_text(l, k->name[c], strlen(k->name[c]), &l->empty[l->n_empty]))
      return mr_no_memory(diag, "a list of files");
    l->n_empty++;
  }
  l->n = *end;
  mr__folder_sort(l, from);
  l->n = all;
  for (int64_t i = from + 1; i < *end; i++)
    if (!strcmp(mr_folder_path(l, i - 1), mr_folder_path(l, i)))
      return mr_fail(diag, MR_ERR_DATA, "%s: lists \"%.300s\" twice", l->from,
                     mr_folder_path(l, i));
  return MR_OK;
}

static mr_err_t end_keys(mr_folder_keys_t *k, bool allow_empty, mr_diag_t *diag) {
  mr_folder_list_t *l = k->list;
  if (!k->n)
    return mr_fail(diag, MR_ERR_DATA, "%s: holds no folders, want one for each class", l->from);
  if (!l->n && allow_empty) return mr_fail(diag, MR_ERR_DATA, "%s: holds no picture", l->from);
  sort_names(k);
  for (int64_t i = 0; i < l->n; i++) l->file[i].label = class_of_path(k, mr_folder_path(l, i));
  if (l->n) qsort(l->file, (size_t)l->n, sizeof *l->file, by_class);
  l->empty = calloc((size_t)k->n, sizeof *l->empty);
  if (!l->empty) return mr_no_memory(diag, "the names of classes");
  int64_t at = 0;
  for (int c = 0; c < k->n; c++) MR_TRY(end_class(k, c, at, &at, allow_empty, diag));
  return mr__folder_classes(l, k->name, k->n, diag);
}

mr_err_t mr_folder_keys_end(mr_folder_keys_t *k, bool allow_empty, mr_err_t e, mr_diag_t *diag) {
  if (e >= 0) e = end_keys(k, allow_empty, diag);
  for (int i = 0; i < k->n; i++) free(k->name[i]);
  free(k->name);
  if (e < 0) mr_folder_list_free(k->list);
  return e;
}
