/* Files and folders over plain system calls: every call retries EINTR, files are opened with
   O_CLOEXEC, and a new file becomes visible by rename alone. */
#include "base/xio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/trusted.h"

enum { NAME_TRIES = 100, KEPT = 8 };

/* Fails with the file's offset in the sentence if fd can seek. */
static mr_err_t write_failed(int fd, const char *path, mr_diag_t *diag) {
  int reason = errno;
  off_t at = lseek(fd, 0, SEEK_CUR);
  if (at < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot write: %s", path, strerror(reason));
  return mr_fail(diag, MR_ERR_IO, "%s: cannot write at byte %lld: %s", path, (long long)at,
                 strerror(reason));
}

mr_err_t mr_write_all(int fd, const void *data, size_t n, const char *path, mr_diag_t *diag) {
  const char *at = data;
  while (n > 0) {
    ssize_t k = write(fd, at, n < ((size_t)1 << 30) ? n : (size_t)1 << 30);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return write_failed(fd, path, diag);
    at += k;
    n -= (size_t)k;
  }
  return MR_OK;
}

static int open_again(const char *path, int flags, mode_t mode) {
  int fd;
  do {
    fd = open(path, flags, mode);
  } while (fd < 0 && (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && mr_fd_release())));
  return fd;
}

static int sync_again(int fd) {
  int e;
  do {
    e = fsync(fd);
  } while (e < 0 && errno == EINTR);
  return e;
}

static mr_err_t read_all(int fd, const char *path, char *out, size_t max, size_t *n,
                         mr_diag_t *diag) {
  *n = 0;
  while (*n < max) {
    ssize_t k = read(fd, out + *n, max - *n);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0)
      return mr_fail(diag, MR_ERR_IO, "%s: cannot read at byte %zu: %s", path, *n, strerror(errno));
    if (k == 0) break;
    *n += (size_t)k;
  }
  return MR_OK;
}

/* Reads what is open, and closes it. */
static mr_err_t read_open(int fd, const char *path, size_t max, void **data, size_t *n,
                          mr_diag_t *diag) {
  struct stat st;
  mr_err_t e = MR_OK;
  char *bytes = NULL;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
    e = mr_fail(diag, MR_ERR_IO, "%s: not a regular file", path);
  } else if ((size_t)st.st_size > max) {
    e = mr_fail(diag, MR_ERR_DATA, "%s: %lld bytes, expected at most %zu", path,
                (long long)st.st_size, max);
  } else if (!(bytes = malloc((size_t)st.st_size + 1))) {
    e = mr_no_memory(diag, "%s, %lld bytes", path, (long long)st.st_size);
  } else {
    e = read_all(fd, path, bytes, (size_t)st.st_size, n, diag);
  }
  close(fd);
  if (e < 0) {
    free(bytes);
    return e;
  }
  bytes[*n] = 0;
  *data = bytes;
  return MR_OK;
}

mr_err_t mr_read_file(const char *path, size_t max, void **data, size_t *n, mr_diag_t *diag) {
  *data = NULL;
  /* O_NONBLOCK: the open of a pipe without a writer would never return. */
  int fd = open_again(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  return read_open(fd, path, max, data, n, diag);
}

mr_err_t mr_read_trusted(const char *path, size_t max, mr_kept_t kind, const mr_trust_t *more,
                         void **data, size_t *n, mr_diag_t *diag) {
  *data = NULL;
  int fd = open_again(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
  if (fd < 0 && errno == ELOOP)
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: it is a link, want a regular file", path);
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  mr_err_t e = mr_trusted(fd, path, kind, more, diag);
  if (e >= 0) return read_open(fd, path, max, data, n, diag);
  close(fd);
  return e;
}

/* Reads are to wait for the disk: io_uring would otherwise return EAGAIN. */
static bool let_reads_wait(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

int mr_open_regular_fd(const char *path) {
  struct stat st;
  int fd = open_again(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0), error = EINVAL;
  if (fd < 0) return -1;
  if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && !let_reads_wait(fd)))
    error = errno;
  else if (S_ISREG(st.st_mode))
    return fd;
  close(fd);
  errno = error;
  return -1;
}

static bool line_grow(char **line, size_t *room, size_t n) {
  if (n < *room) return true;
  size_t more = *room ? 2 * *room : 256;
  char *p = realloc(*line, more);
  if (p) *line = p, *room = more;
  return p != NULL;
}

/* fgets puts a NUL into the last byte of a piece only if it has filled the piece. */
void mr_skip_line(FILE *f) {
  char piece[4096];
  char *last = piece + sizeof piece - 1;
  do {
    *last = 1;
  } while (fgets_unlocked(piece, sizeof piece, f) && !*last && last[-1] != '\n');
}

ssize_t mr_read_line(FILE *f, size_t most, char **line, size_t *room) {
  size_t n = 0;
  int c = 0;
  if (!line_grow(line, room, 1)) return -1;
  for (; n < most && c != '\n' && (c = getc_unlocked(f)) != EOF; n++) {
    if (!line_grow(line, room, n + 1)) return -1;
    (*line)[n] = (char)c;
  }
  bool more = n == most && c != '\n' && (c = getc_unlocked(f)) != EOF;
  if (more && c != '\n') mr_skip_line(f);
  bool whole = !more && !ferror(f);
  (*line)[whole ? n : 0] = 0;
  return ferror(f) || (!n && !more) ? -1 : whole ? (ssize_t)n : 0;
}

FILE *mr_open_regular(const char *path) {
  int fd = mr_open_regular_fd(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
  if (fd >= 0 && !f) close(fd);
  return f;
}

const char *mr_open_reason(int error) {
  return error == EINVAL ? "not a regular file" : strerror(error);
}

bool mr_is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

mr_err_t mr_open_short(const char *path, int error, mr_diag_t *diag) {
  const char *advice =
      error == ENOMEM ? "" : ": want fewer open files or a higher limit (ulimit -n)";
  return mr_fail(diag, MR_ERR_NOMEM, "%s: cannot be opened: %s%s", path, strerror(error), advice);
}

static mr_err_t make_folder(const char *path, mode_t mode, mr_diag_t *diag) {
  char part[MR_PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part)
    return mr_fail(diag, MR_ERR_IO, "%s: a folder's name has 1 to %d bytes", path, MR_PATH_MAX - 1);
  memcpy(part, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (part[i] != '/' && part[i] != 0) continue;
    char kept = part[i];
    part[i] = 0;
    int made = mkdir(part, kept ? 0777 : mode);
    if (made < 0 && errno != EEXIST)
      return mr_fail(diag, MR_ERR_IO, "%s: cannot make the folder: %s", part, strerror(errno));
    if (made == 0) MR_TRY(mr_sync_parent(part, diag));
    part[i] = kept;
  }
  struct stat st;
  if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
    return mr_fail(diag, MR_ERR_IO, "%s: not a folder", path);
  return MR_OK;
}

mr_err_t mr_make_folder(const char *path, mr_diag_t *diag) { return make_folder(path, 0777, diag); }

mr_err_t mr_make_own_folder(const char *path, mr_diag_t *diag) {
  char plain[MR_PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof plain) return make_folder(path, 0755, diag);
  memcpy(plain, path, n + 1);
  while (n > 1 && plain[n - 1] == '/') plain[--n] = 0; /* else the last part would be none */
  return make_folder(plain, 0755, diag);
}

/* Opens a new file `stem` + random digits + process id and leaves its name in name[0,n).  With
   O_EXCL a file or link that another user has put in a shared folder is never followed or
   overwritten. The process id lets a later run remove files that a killed process left behind. */
static int open_unique(const char *stem, mode_t mode, char *name, size_t n) {
  int fd = -1;
  for (uint32_t i = 0, digits = 0; i < NAME_TRIES; i++) {
    (void)!getrandom(&digits, sizeof digits, GRND_NONBLOCK);
    snprintf(name, n, "%s-%08" PRIx32 "-%ld", stem, digits + i, (long)getpid());
    fd = open_again(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) break;
  }
  return fd;
}

mr_err_t mr_folder_writable(const char *path, mr_diag_t *diag) {
  char stem[MR_PATH_MAX + 16], probe[MR_PATH_MAX + 64];
  snprintf(stem, sizeof stem, "%s/.writable", path);
  int fd = open_unique(stem, 0600, probe, sizeof probe);
  if (fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot write in this folder: %s", path, strerror(errno));
  close(fd);
  unlink(probe);
  return MR_OK;
}

mr_err_t mr_sync_parent(const char *path, mr_diag_t *diag) {
  char folder[MR_PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder) return mr_fail(diag, MR_ERR_IO, "%s: the path is too long", path);
  memcpy(folder, path, n);
  folder[n] = 0;
  int fd = open_again(n ? folder : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0 && errno == EACCES) return MR_OK; /* write permission alone: cannot be synced */
  if (fd < 0) return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s", folder, strerror(errno));
  int failed = sync_again(fd) < 0 && errno != EINVAL; /* some file systems cannot sync a folder */
  int reason = errno;
  close(fd);
  return failed ? mr_fail(diag, MR_ERR_IO, "%s: cannot sync: %s", folder, strerror(reason)) : MR_OK;
}

/* A rename would put the file in the place of /dev/stdout or /dev/null itself. */
static mr_err_t refuse_replacing(const char *path, bool own, mr_diag_t *diag) {
  struct stat st;
  if (lstat(path, &st) < 0 || S_ISREG(st.st_mode) || (own && S_ISLNK(st.st_mode))) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: is %s, want the name of a file to write", path,
                 S_ISDIR(st.st_mode)   ? "a folder"
                 : S_ISLNK(st.st_mode) ? "a link"
                                       : "a pipe, socket or device");
}

mr_err_t mr_newfile_check(const char *path, mr_diag_t *diag) {
  return refuse_replacing(path, false, diag);
}

static mr_err_t newfile_open(mr_newfile_t *f, const char *path, bool own, mr_diag_t *diag) {
  f->fd = -1, f->synced = false;
  f->path[0] = f->tmp[0] = 0;
  if (strlen(path) >= sizeof f->path)
    return mr_fail(diag, MR_ERR_IO, "%.64s...: the path is too long", path);
  MR_TRY(refuse_replacing(path, own, diag));
  char stem[MR_PATH_MAX + 8];
  strcpy(f->path, path);
  snprintf(stem, sizeof stem, "%s.part", path);
  f->fd = open_unique(stem, 0666, f->tmp, sizeof f->tmp);
  if (f->fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot make the file: %s", path, strerror(errno));
  return MR_OK;
}

mr_err_t mr_newfile_open(mr_newfile_t *f, const char *path, mr_diag_t *diag) {
  return newfile_open(f, path, false, diag);
}

mr_err_t mr_newfile_open_own(mr_newfile_t *f, const char *path, mr_diag_t *diag) {
  return newfile_open(f, path, true, diag);
}

void mr_newfile_drop(mr_newfile_t *f) {
  if (f->fd >= 0) {
    close(f->fd);
    unlink(f->tmp);
  }
  f->fd = -1;
}

mr_err_t mr_newfile_sync(mr_newfile_t *f, mr_diag_t *diag) {
  if (f->synced || sync_again(f->fd) == 0) {
    f->synced = true;
    return MR_OK;
  }
  mr_fail(diag, MR_ERR_IO, "%s: cannot sync: %s", f->path, strerror(errno));
  mr_newfile_drop(f);
  return MR_ERR_IO;
}

static mr_err_t cannot_rename(const mr_newfile_t *f, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_IO, "%s: cannot rename to this name: %s", f->path, strerror(errno));
}

mr_err_t mr_newfile_commit(mr_newfile_t *f, mr_diag_t *diag) {
  MR_TRY(mr_newfile_sync(f, diag));
  if (rename(f->tmp, f->path) < 0) {
    cannot_rename(f, diag);
    mr_newfile_drop(f);
    return MR_ERR_IO;
  }
  close(f->fd);
  f->fd = -1;
  mr_err_t e = mr_sync_parent(f->path, diag);
  mr_fd_reserve(); /* this file may have used a descriptor of it */
  return e;
}

mr_err_t mr_newfile_commit_unsynced(mr_newfile_t *f, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  if (close(f->fd) < 0) /* NFS and quotas say late that there is no room */
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot be closed: %s", f->path, strerror(errno));
  f->fd = -1;
  mr_fd_reserve(); /* this file may have used a descriptor of it */
  if (e >= 0 && rename(f->tmp, f->path) < 0) e = cannot_rename(f, diag);
  if (e < 0) unlink(f->tmp);
  return e;
}

mr_err_t mr_file_writable(const char *path, mr_diag_t *diag) {
  struct stat st;
  mr_newfile_t f;
  size_t n = strlen(path);
  if (n == 0) return mr_fail(diag, MR_ERR_IO, "a file's name is empty");
  if (path[n - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
    return mr_fail(diag, MR_ERR_IO, "%s: is a folder, want the name of a file", path);
  MR_TRY(mr_newfile_open(&f, path, diag));
  mr_newfile_drop(&f);
  return MR_OK;
}

static mr_err_t write_data(const char *path, const void *data, size_t n, bool own,
                           const mr_trust_t *more, mr_diag_t *diag) {
  mr_newfile_t f;
  MR_TRY(newfile_open(&f, path, own, diag));
  if (own) mr_trust_own(f.fd, more); /* else each process makes the file anew */
  mr_err_t e = mr_write_all(f.fd, data, n, path, diag);
  if (e < 0) {
    mr_newfile_drop(&f);
    return e;
  }
  return mr_newfile_commit(&f, diag);
}

mr_err_t mr_write_file(const char *path, const void *data, size_t n, mr_diag_t *diag) {
  return write_data(path, data, n, false, NULL, diag);
}

mr_err_t mr_write_own(const char *path, const void *data, size_t n, const mr_trust_t *more,
                      mr_diag_t *diag) {
  return write_data(path, data, n, true, more, diag);
}

mr_err_t mr_write_printed(const char *path, mr_print_fn *print, const void *what, mr_diag_t *diag) {
  mr_text_out_t out;
  size_t n;
  FILE *to = mr_text_out_open(&out);
  if (to) print(what, to);
  char *text = mr_text_out_close(&out, to, &n);
  mr_err_t e =
      text ? mr_write_file(path, text, n, diag) : mr_no_memory(diag, "the contents of %s", path);
  free(text);
  return e;
}

/* ---- the reserve: descriptors on /dev/null; threads claim slots by atomic exchange ---- */

static atomic_int kept[KEPT]; /* a descriptor plus 1; 0: none */

/* relaxed for the check alone; acq_rel for the exchanges: one thread takes and closes each. */
void mr_fd_reserve(void) {
  for (int i = 0; i < KEPT; i++) {
    int none = 0;
    if (atomic_load_explicit(&kept[i], memory_order_relaxed)) continue;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!atomic_compare_exchange_strong_explicit(&kept[i], &none, fd + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
      close(fd);
  }
}

bool mr_fd_release(void) {
  for (int i = 0; i < KEPT; i++) {
    int fd = atomic_exchange_explicit(&kept[i], 0, memory_order_acq_rel) - 1;
    if (fd >= 0) return close(fd), true;
  }
  return false;
}
