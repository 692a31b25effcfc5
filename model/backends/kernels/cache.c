/* The folder is opened and checked at each call, which costs microseconds where a compiler takes
   seconds; files are opened in it by name (openat), so that it cannot be exchanged after its check.
   A file is not synced to the disk: its sum tells one that a power cut has damaged. */
#include "model/backends/kernels/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/err.h"
#include "base/trusted.h"
#include "base/xio.h"
#include "model/backends/kernels/cache_file.h"

#define ENDING ".kernel"

enum { DIGITS = 32, NAME = 96 };

/* What a notice has been sent about, each once a process; relaxed. */
static struct { atomic_bool folder, foreign, damaged, refused, unwritten; } reported;

static bool first_time(atomic_bool *about) {
  return !atomic_exchange_explicit(about, true, memory_order_relaxed);
}

/* ---- names ---- */

mr_kernel_entry_t mr_kernel_entry(const char *const *part, size_t n) {
  mr_kernel_entry_t e = {.key = {n, MR_KERNEL_VERSION}};
  for (size_t i = 0; i < n; i++) { /* each hash covers the one before and its own length */
    uint64_t before[3] = {e.key[0], e.key[1], strlen(part[i])};
    XXH128_hash_t h =
        XXH3_128bits_withSeed(part[i], (size_t)before[2], XXH3_64bits(before, sizeof before));
    e.key[0] = h.low64, e.key[1] = h.high64;
  }
  return e;
}

static void entry_name(const mr_kernel_entry_t *e, char name[NAME]) {
  snprintf(name, NAME, "%016" PRIx64 "%016" PRIx64 ENDING, e->key[1], e->key[0]);
}

bool mr_kernel_cache_folder(char *path, size_t n, bool *named) {
  const char *own = getenv("MILLRACE_KERNELS"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  *named = own && *own;
  if (*named && !strcmp(own, "off")) return false;
  int length = *named            ? snprintf(path, n, "%s", own)
               : cache && *cache ? snprintf(path, n, "%s/millrace/kernels", cache)
               : home && *home   ? snprintf(path, n, "%s/.cache/millrace/kernels", home)
                                 : -1;
  return length > 0 && (size_t)length < n;
}

/* ---- the folder ---- */

static void say_folder(const char *path, const char *why) {
  if (first_time(&reported.folder))
    mr_notice(
        "kernels: the folder %s is not used: %s; compiled kernels are not kept, want a folder of "
        "this user's own (MILLRACE_KERNELS=FOLDER, or off)",
        path, why);
}

static bool cache_make(const char *path) {
  mr_diag_t diag = {0};
  char above[MR_PATH_MAX];
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  while (n > 1 && path[n - 1] != '/') n--;
  snprintf(above, sizeof above, "%.*s", (int)n, path);
  if (strchr(above, '/') && mr_make_folder(above, &diag) < 0)
    return say_folder(path, diag.text), false;
  if (mkdir(path, 0700) == 0 || errno == EEXIST) return true;
  return say_folder(path, strerror(errno)), false;
}

/* A descriptor of the folder; -1: it is missing, or it cannot be used, which has been said. */
static int cache_open(char path[MR_PATH_MAX], bool make) {
  bool named;
  if (!mr_kernel_cache_folder(path, MR_PATH_MAX, &named)) return -1;
  if (make && !cache_make(path)) return -1;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT) say_folder(path, strerror(errno));
    return -1;
  }
  const char *why = mr_distrust(fd, MR_KEPT_KERNEL, NULL);
  if (!why) return fd;
  say_folder(path, why);
  close(fd);
  return -1;
}

/* ---- reading ---- */

static bool cache_read(int fd, char *to, size_t n) {
  for (size_t have = 0; have < n;) {
    ssize_t got = read(fd, to + have, n - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += (size_t)got;
  }
  return true;
}

/* Reads the open file and takes its image out of it. */
static mr_kernel_file_t file_get(int fd, const mr_kernel_entry_t *e, void **image, size_t *bytes,
                                 const char **why) {
  struct stat st;
  const void *at;
  if (fstat(fd, &st) < 0) return *why = strerror(errno), MR_KERNEL_FOREIGN;
  if (!S_ISREG(st.st_mode) || st.st_size > MR_KERNEL_HEADER + MR_KERNEL_IMAGE_MOST)
    return *why = "no compiled kernel of millrace", MR_KERNEL_FOREIGN;
  if ((*why = mr_distrust(fd, MR_KEPT_KERNEL, NULL))) return MR_KERNEL_FOREIGN;
  char *data = malloc((size_t)st.st_size + 1);
  if (!data) return *why = "out of memory", MR_KERNEL_FOREIGN;
  mr_kernel_file_t is = MR_KERNEL_DAMAGED;
  *why = "it cannot be read";
  if (cache_read(fd, data, (size_t)st.st_size))
    is = mr_kernel_file_read(data, (size_t)st.st_size, e->key, &at, bytes, why);
  if (is != MR_KERNEL_WHOLE) return free(data), is;
  *image = memmove(data, at, *bytes);
  return MR_KERNEL_WHOLE;
}

bool mr_kernel_cache_get(mr_kernel_entry_t *e, void **image, size_t *bytes) {
  char folder[MR_PATH_MAX], name[NAME];
  const char *why = NULL;
  mr_kernel_file_t is = MR_KERNEL_FOREIGN;
  int in = cache_open(folder, false);
  if (in < 0) return false;
  entry_name(e, name);
  int fd = openat(in, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  bool absent = fd < 0 && errno == ENOENT;
  if (fd < 0) why = strerror(errno);
  if (fd >= 0) {
    is = file_get(fd, e, image, bytes, &why);
    if (is == MR_KERNEL_WHOLE) futimens(fd, NULL); /* the oldest are removed first */
    close(fd);
  }
  close(in);
  if (absent || is == MR_KERNEL_WHOLE) return !absent;
  e->left = is == MR_KERNEL_FOREIGN;
  if (first_time(e->left ? &reported.foreign : &reported.damaged))
    mr_notice("kernels: %s/%s: %s; %s, and the kernels are compiled", folder, name, why,
              e->left ? "it is left as it is" : "it is replaced");
  return false;
}

void mr_kernel_cache_refused(const mr_kernel_entry_t *e, const char *why) {
  char folder[MR_PATH_MAX], name[NAME];
  bool named;
  entry_name(e, name);
  if (mr_kernel_cache_folder(folder, sizeof folder, &named) && first_time(&reported.refused))
    mr_notice(
        "kernels: %s/%s: the driver refuses it (%s); it is replaced, and the kernels are compiled",
        folder, name, why);
}

/* ---- removing what was read longest ago ---- */

typedef struct old_file {
  char name[NAME];
  struct timespec read;
  int64_t bytes;
} old_file_t;

/* A file of this cache, or a temporary one; a folder of the user's may hold others. */
static bool own_name(const char *name, char own[NAME]) {
  size_t n = strlen(name);
  if (strspn(name, "0123456789abcdef") != DIGITS || n >= NAME ||
      strncmp(name + DIGITS, ENDING, strlen(ENDING)) != 0)
    return false;
  memcpy(own, name, n + 1);
  return true;
}

static int compare_read(const void *a, const void *b) {
  const struct timespec *p = &((const old_file_t *)a)->read, *q = &((const old_file_t *)b)->read;
  if (p->tv_sec != q->tv_sec) return p->tv_sec < q->tv_sec ? -1 : 1;
  return (p->tv_nsec > q->tv_nsec) - (p->tv_nsec < q->tv_nsec);
}

/* Lists the files; *n of them, which the caller frees.  Without memory those so far. */
static old_file_t *list_files(int in, DIR *d, size_t *n, int64_t *bytes) {
  old_file_t *all = NULL;
  size_t cap = 0;
  struct stat st;
  char name[NAME];
  for (const struct dirent *f; (f = readdir(d));) {
    if (!own_name(f->d_name, name) || fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (*n == cap) {
      old_file_t *more = realloc(all, (cap = cap ? 2 * cap : 64) * sizeof *more);
      if (!more) break;
      all = more;
    }
    old_file_t *o = &all[(*n)++];
    memcpy(o->name, name, sizeof name);
    o->read = st.st_mtim, o->bytes = st.st_size;
    *bytes += st.st_size;
  }
  return all;
}

static void remove_oldest(int in) {
  size_t n = 0;
  int64_t bytes = 0;
  int fd = openat(in, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) {
    if (fd >= 0) close(fd);
    return;
  }
  old_file_t *all = list_files(in, d, &n, &bytes);
  if (bytes > MR_KERNEL_CACHE_BYTES) qsort(all, n, sizeof *all, compare_read);
  for (size_t i = 0; i < n && bytes > MR_KERNEL_CACHE_BYTES; i++) {
    unlinkat(in, all[i].name, 0);
    bytes -= all[i].bytes;
  }
  free(all);
  closedir(d);
}

/* ---- writing ---- */

static mr_err_t file_put(int in, const mr_kernel_entry_t *e, const void *image, size_t bytes,
                         mr_diag_t *diag) {
  char name[NAME], temporary[NAME];
  unsigned char header[MR_KERNEL_HEADER];
  uint64_t drawn = 0; /* containers have equal process ids */
  entry_name(e, name);
  (void)!getrandom(&drawn, sizeof drawn, GRND_NONBLOCK);
  snprintf(temporary, sizeof temporary, "%.*s-%016" PRIx64, DIGITS + (int)strlen(ENDING), name,
           drawn);
  int fd = openat(in, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: %s", temporary, strerror(errno));
  mr_kernel_file_header(e->key, image, bytes, header);
  mr_err_t err = mr_write_all(fd, header, sizeof header, temporary, diag);
  if (err >= 0) err = mr_write_all(fd, image, bytes, temporary, diag);
  if (close(fd) < 0 && err >= 0)
    err = mr_fail(diag, MR_ERR_IO, "%s: %s", temporary, strerror(errno));
  if (err >= 0 && renameat(in, temporary, in, name) < 0)
    err = mr_fail(diag, MR_ERR_IO, "%s: %s", name, strerror(errno));
  if (err < 0) unlinkat(in, temporary, 0);
  return err;
}

void mr_kernel_cache_put(const mr_kernel_entry_t *e, const void *image, size_t bytes) {
  char folder[MR_PATH_MAX];
  mr_diag_t diag = {0};
  if (e->left || bytes > MR_KERNEL_IMAGE_MOST) return;
  int in = cache_open(folder, true);
  if (in < 0) return;
  mr_err_t err = file_put(in, e, image, bytes, &diag);
  if (err >= 0) remove_oldest(in);
  close(in);
  if (err < 0 && first_time(&reported.unwritten))
    mr_notice("kernels: the folder %s: compiled kernels are not kept: %s", folder, diag.text);
}
