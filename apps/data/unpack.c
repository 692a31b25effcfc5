/* Unpacks the CIFAR-10 archive: expected entries alone, into a temporary folder that is renamed
   when complete. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/data/fetch.h"
#include "base/xio.h"

static const char top[] = "cifar-10-batches-bin";
enum { BATCH_BYTES = 10000 * 3073, TEXT_BYTES = 1 << 16 };

static const struct {
  const char *name;
  int64_t size; /* exact; 0: text, optional, up to TEXT_BYTES */
} wanted[] = {{"data_batch_1.bin", BATCH_BYTES}, {"data_batch_2.bin", BATCH_BYTES},
              {"data_batch_3.bin", BATCH_BYTES}, {"data_batch_4.bin", BATCH_BYTES},
              {"data_batch_5.bin", BATCH_BYTES}, {"test_batch.bin", BATCH_BYTES},
              {"batches.meta.txt", 0},           {"readme.html", 0}};
enum { N_WANTED = sizeof wanted / sizeof wanted[0] };

typedef struct unpack {
  struct archive *in;
  const char *path;      /* of the archive */
  char tmp[MR_PATH_MAX]; /* the folder under its temporary name */
  unsigned seen;         /* bit i: wanted[i] was unpacked */
  mr_diag_t *diag;
} unpack_t;

/* Index in wanted of an entry's name below the top folder; -1 if it is none of them. */
static int wanted_index(const char *name) {
  if (!strncmp(name, "./", 2)) name += 2;
  size_t n = strlen(top);
  if (strncmp(name, top, n) || name[n] != '/') return -1;
  for (int i = 0; i < N_WANTED; i++)
    if (!strcmp(name + n + 1, wanted[i].name)) return i;
  return -1;
}

static bool is_top(const char *name) {
  if (!strncmp(name, "./", 2)) name += 2;
  size_t n = strlen(top);
  return !*name || (!strncmp(name, top, n) && (!name[n] || !strcmp(name + n, "/")));
}

static mr_err_t copy_data(unpack_t *u, int fd, int64_t size, const char *name) {
  char bytes[1 << 16];
  int64_t got = 0;
  for (;;) {
    la_ssize_t k = archive_read_data(u->in, bytes, sizeof bytes);
    if (k < 0) return mr_fail(u->diag, MR_ERR_DATA, "%s: %s", u->path, archive_error_string(u->in));
    if (k == 0) break;
    got += k;
    if (got > size) break;
    MR_TRY(mr_write_all(fd, bytes, (size_t)k, name, u->diag));
  }
  if (got != size)
    return mr_fail(u->diag, MR_ERR_DATA,
                   "%s: %s is not the %" PRId64 " bytes that the archive announces", u->path, name,
                   size);
  if (fsync(fd) < 0)
    return mr_fail(u->diag, MR_ERR_IO, "%s: cannot write: %s", name, strerror(errno));
  return MR_OK;
}

static mr_err_t unpack_take_file(unpack_t *u, struct archive_entry *entry, int i) {
  int64_t size = archive_entry_size(entry);
  if (u->seen & 1u << i)
    return mr_fail(u->diag, MR_ERR_DATA, "%s: %s occurs twice", u->path, wanted[i].name);
  if (wanted[i].size ? size != wanted[i].size : size < 0 || size > TEXT_BYTES)
    return mr_fail(u->diag, MR_ERR_DATA, "%s: %s has %" PRId64 " bytes, expected %" PRId64, u->path,
                   wanted[i].name, size, wanted[i].size ? wanted[i].size : (int64_t)TEXT_BYTES);
  u->seen |= 1u << i;
  char name[MR_PATH_MAX + 32];
  snprintf(name, sizeof name, "%s/%s", u->tmp, wanted[i].name);
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return mr_fail(u->diag, MR_ERR_IO, "%s: cannot write: %s", name, strerror(errno));
  mr_err_t e = copy_data(u, fd, size, name);
  close(fd);
  return e;
}

static mr_err_t take_entry(unpack_t *u, struct archive_entry *entry) {
  const char *name = archive_entry_pathname(entry);
  if (!name) return mr_fail(u->diag, MR_ERR_DATA, "%s: an entry without a name", u->path);
  bool folder = archive_entry_filetype(entry) == AE_IFDIR;
  if (folder && is_top(name)) return MR_OK;
  int i = wanted_index(name);
  bool file = archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry);
  if (i < 0 || !file)
    return mr_fail(u->diag, MR_ERR_DATA, "%s: unexpected entry \"%.200s\"; not CIFAR-10", u->path,
                   name);
  return unpack_take_file(u, entry, i);
}

static mr_err_t take_all(unpack_t *u) {
  struct archive_entry *entry;
  int r;
  while ((r = archive_read_next_header(u->in, &entry)) == ARCHIVE_OK) MR_TRY(take_entry(u, entry));
  if (r != ARCHIVE_EOF)
    return mr_fail(u->diag, MR_ERR_DATA, "%s: %s", u->path, archive_error_string(u->in));
  for (int i = 0; i < N_WANTED; i++)
    if (wanted[i].size && !(u->seen & 1u << i))
      return mr_fail(u->diag, MR_ERR_DATA, "%s: %s is missing", u->path, wanted[i].name);
  return MR_OK;
}

static mr_err_t unpack_to_tmp(unpack_t *u) {
  u->in = archive_read_new();
  if (!u->in) return mr_no_memory(u->diag, "reading the archive");
  archive_read_support_filter_gzip(u->in);
  archive_read_support_format_tar(u->in);
  mr_err_t e = MR_OK;
  if (archive_read_open_filename(u->in, u->path, 1 << 16) != ARCHIVE_OK)
    e = mr_fail(u->diag, MR_ERR_DATA, "%s: %s", u->path, archive_error_string(u->in));
  if (e >= 0) e = take_all(u);
  archive_read_free(u->in);
  return e;
}

/* Removes the temporary folder, which holds no other names than wanted ones. */
static void remove_tmp(const unpack_t *u) {
  for (int i = 0; i < N_WANTED; i++) {
    char name[MR_PATH_MAX + 32];
    snprintf(name, sizeof name, "%s/%s", u->tmp, wanted[i].name);
    unlink(name);
  }
  rmdir(u->tmp);
}

mr_err_t mr_unpack_cifar10(const char *archive, const char *folder, mr_diag_t *diag) {
  unpack_t u = {.path = archive, .diag = diag};
  if (strlen(folder) > sizeof u.tmp - 32)
    return mr_fail(diag, MR_ERR_IO, "%s: the path is too long", folder);
  snprintf(u.tmp, sizeof u.tmp, "%s.part-XXXXXX", folder);
  if (!mkdtemp(u.tmp))
    return mr_fail(diag, MR_ERR_IO, "%s: cannot make: %s", u.tmp, strerror(errno));
  chmod(u.tmp, 0755);
  mr_err_t e = unpack_to_tmp(&u);
  if (e >= 0 && rename(u.tmp, folder) < 0)
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot rename to this name: %s", folder, strerror(errno));
  if (e < 0) {
    remove_tmp(&u);
    return e;
  }
  return mr_sync_parent(folder, diag);
}
