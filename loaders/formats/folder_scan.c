/* Lists a folder as torchvision's ImageFolder does: sorted(os.scandir) for the classes, and for
   each sorted(os.walk(followlinks=True)).

   What is no folder counts as a file by its name alone, so that numbers do not change with a file's
   state: a broken link or a pipe among them is a bad record when it is read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/suggest.h"
#include "loaders/formats/folder_list.h"

enum { DEPTH_MAX = 100, PATH_ROOM = 4096 };

typedef struct walk_names {
  char **name; /* [n] heap, as each of them */
  int n, cap;
} walk_names_t;

/* A folder on the way down. */
typedef struct above {
  const struct above *up;
  dev_t dev;
  ino_t ino;
  int depth;
} above_t;

typedef struct scan {
  mr_folder_list_t *list;
  const char *folder;
  char path[PATH_ROOM]; /* below the folder */
  int32_t label;
  mr_diag_t *diag;
} scan_t;

static bool is_folder(int at, const struct dirent *e) {
  struct stat st;
  if (e->d_type == DT_DIR) return true;
  if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return false;
  return fstatat(at, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static mr_err_t fail_scan(const scan_t *s, const char *what) {
  int reason = errno;
  return mr_fail(s->diag, MR_ERR_IO, "%s/%s: %s: %s", s->folder, s->path, what, strerror(reason));
}

static void names_free(walk_names_t *names) {
  for (int i = 0; i < names->n; i++) free(names->name[i]);
  free(names->name);
}

static bool names_add(walk_names_t *names, const char *name) {
  if (names->n == names->cap) {
    int cap = names->cap ? 2 * names->cap : 64;
    char **more = realloc(names->name, (size_t)cap * sizeof *more);
    if (!more) return false;
    names->name = more, names->cap = cap;
  }
  names->name[names->n] = strdup(name);
  return names->name[names->n] && ++names->n;
}

/* Opens the folder at s->path below fd; reports one that is already open above. */
static mr_err_t scan_open(scan_t *s, int fd, const char *name, const above_t *up, above_t *here,
                          DIR **out) {
  struct stat st;
  int own = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return fail_scan(s, "the folder cannot be read");
  if (fstat(own, &st) < 0 || !(*out = fdopendir(own))) {
    mr_err_t e = fail_scan(s, "the folder cannot be read");
    return close(own), e;
  }
  *here = (above_t){up, st.st_dev, st.st_ino, up ? up->depth + 1 : 0};
  for (; up; up = up->up)
    if (up->dev == st.st_dev && up->ino == st.st_ino) break;
  if (!up && here->depth < DEPTH_MAX) return MR_OK;
  closedir(*out);
  if (!up)
    return mr_fail(s->diag, MR_ERR_IO, "%s/%s: more than %d folders deep", s->folder, s->path,
                   DEPTH_MAX);
  return mr_fail(s->diag, MR_ERR_IO, "%s/%s: is a link to a folder above it, so that it has no end",
                 s->folder, s->path);
}

/* Puts a name behind the path of n bytes; returns the new length, or 0 if it is too long. */
static size_t path_join(scan_t *s, size_t n, const char *name) {
  int more = snprintf(s->path + n, PATH_ROOM - n, "%s%s", n ? "/" : "", name);
  return more > 0 && (size_t)more < PATH_ROOM - n ? n + (size_t)more : 0;
}

/* Lists the files of the folder at s->path[0,n), which is `name` below fd, and of those below it.
 */
static mr_err_t scan_folder(scan_t *s, size_t n, int fd, const char *name, const above_t *up) {
  DIR *dir = NULL;
  above_t here;
  mr_err_t e = MR_OK;
  MR_TRY(scan_open(s, fd, name, up, &here, &dir));
  for (const struct dirent *at; e >= 0 && (errno = 0, at = readdir(dir)); s->path[n] = 0) {
    if (!strcmp(at->d_name, ".") || !strcmp(at->d_name, "..")) continue;
    bool folder = is_folder(dirfd(dir), at);
    if (!folder && !mr__folder_is_picture(at->d_name)) continue;
    size_t m = path_join(s, n, at->d_name);
    if (!m)
      e = mr_fail(s->diag, MR_ERR_IO, "%s/%s: a path of more than %d bytes", s->folder, s->path,
                  PATH_ROOM);
    else if (folder)
      e = scan_folder(s, m, dirfd(dir), at->d_name, &here);
    else
      e = mr__folder_add(s->list, s->path, m, s->label, s->diag);
  }
  if (e >= 0 && errno) e = fail_scan(s, "the folder cannot be read");
  closedir(dir);
  return e;
}

/* ---- classes ---- */

static int by_name(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  return mr__folder_compare(x, strlen(x), y, strlen(y));
}

static mr_err_t scan_classes(scan_t *s, DIR *dir, walk_names_t *classes) {
  for (const struct dirent *at; (errno = 0, at = readdir(dir));) {
    if (!strcmp(at->d_name, ".") || !strcmp(at->d_name, "..")) continue;
    if (!is_folder(dirfd(dir), at)) {
      if (mr__folder_is_picture(at->d_name))
        mr__folder_outside(s->list, at->d_name, strlen(at->d_name));
      continue;
    }
    if (!names_add(classes, at->d_name)) return mr_no_memory(s->diag, "the names of classes");
    if (classes->n > MR_FOLDER_CLASSES_MAX) break;
  }
  if (errno) return fail_scan(s, "the folder cannot be read");
  if (!classes->n)
    return mr_fail(s->diag, MR_ERR_DATA, "%s: holds no folders, want one for each class",
                   s->folder);
  qsort(classes->name, (size_t)classes->n, sizeof *classes->name, by_name);
  return MR_OK;
}

static mr_err_t scan_all(scan_t *s, DIR *dir, const walk_names_t *classes, bool allow_empty) {
  mr_folder_list_t *l = s->list;
  for (int c = 0; c < classes->n; c++) {
    int64_t from = l->n;
    size_t n = path_join(s, 0, classes->name[c]);
    s->label = c;
    MR_TRY(scan_folder(s, n, dirfd(dir), classes->name[c], NULL));
    if (l->n == from && !allow_empty)
      return mr_fail(
          s->diag, MR_ERR_DATA,
          "%s/%s: holds no picture (*.jpg, *.png, *.webp, ..), want one in each class, or "
          "allow-empty=true",
          s->folder, s->path);
    mr__folder_sort(l, from);
    s->path[0] = 0;
  }
  if (!l->n) return mr_fail(s->diag, MR_ERR_DATA, "%s: holds no picture", s->folder);
  return mr__folder_classes(l, classes->name, classes->n, s->diag);
}

mr_err_t mr_folder_list_scan(mr_folder_list_t *l, const char *folder, int64_t most,
                             bool allow_empty, mr_diag_t *diag) {
  scan_t s = {.list = l, .folder = folder, .diag = diag};
  walk_names_t classes = {0};
  char hint[1200];
  *l = (mr_folder_list_t){.most = most, .from = folder};
  DIR *dir = opendir(folder);
  if (!dir) {
    int reason = errno;
    return mr_fail(diag, MR_ERR_IO, "path=%s: the folder cannot be read: %s%s", folder,
                   strerror(reason), mr_path_hint(folder, hint, sizeof hint));
  }
  mr_err_t e = scan_classes(&s, dir, &classes);
  if (e >= 0) e = scan_all(&s, dir, &classes, allow_empty);
  closedir(dir);
  names_free(&classes);
  if (e < 0) mr_folder_list_free(l);
  return e;
}
