/* Code from a file runs with all rights of this user.  So the file, is loaded only if no other user
   can change it, or put another one in its place by a folder above it.  Links are followed first,
   and what was checked is what is loaded, since both use one descriptor. */
#include "plugins/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trusted.h"

static bool is_ours(const struct stat *st) { return st->st_uid == 0 || st->st_uid == geteuid(); }

static bool others_write(const struct stat *st) { return st->st_mode & (S_IWGRP | S_IWOTH); }

/* who can write path, as a chmod that takes it away. */
static const char *take_away(const struct stat *st) {
  return st->st_mode & S_IWOTH ? st->st_mode & S_IWGRP ? "go-w" : "o-w" : "g-w";
}

static mr_err_t fail_distrusted(const char *file, const char *path, const struct stat *st,
                                mr_diag_t *diag) {
  if (!is_ours(st))
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%s: not loaded: %s belongs to user %u, expected root or user %u", file, path,
                   (unsigned)st->st_uid, (unsigned)geteuid());
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "%s: not loaded: others can write %s (mode %04o); chmod %s %s", file, path,
                 (unsigned)st->st_mode & 07777u, take_away(st), path);
}

/* In a sticky folder no other user can rename or replace what is ours. */
static mr_err_t check_folder(const char *file, const char *folder, mr_diag_t *diag) {
  struct stat st;
  if (lstat(folder, &st) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot inspect %s: %s", file, folder, strerror(errno));
  bool safe = S_ISDIR(st.st_mode) && is_ours(&st) && (!others_write(&st) || st.st_mode & S_ISVTX);
  return safe ? MR_OK : fail_distrusted(file, folder, &st, diag);
}

/* Every folder above real, an absolute path without links. */
static mr_err_t check_folders(const char *file, const char *real, mr_diag_t *diag) {
  char folder[PATH_MAX];
  MR_TRY(check_folder(file, "/", diag));
  for (const char *slash = real; (slash = strchr(slash + 1, '/'));) {
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - real), real);
    MR_TRY(check_folder(file, folder, diag));
  }
  return MR_OK;
}

static mr_err_t check_file(const char *file, const char *real, const struct stat *st,
                           mr_diag_t *diag) {
  if (!S_ISREG(st->st_mode))
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: not loaded: it is %s, expected a regular file",
                   file, S_ISDIR(st->st_mode) ? "a folder" : "a pipe, socket or device");
  return mr_distrust_state(st, MR_KEPT_PLUGIN, NULL) ? fail_distrusted(file, real, st, diag)
                                                     : MR_OK;
}

int mr__plugin_open(const char *file, char *real, struct stat *st, mr_diag_t *diag) {
  if (!realpath(file, real))
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", file, strerror(errno));
  if (lstat(real, st) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", file, strerror(errno));
  MR_TRY(check_file(file, real, st, diag)); /* before a device is opened */
  MR_TRY(check_folders(file, real, diag));
  int fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 || fstat(fd, st) < 0) {
    int why = errno;
    if (fd >= 0) close(fd);
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", file, strerror(why));
  }
  mr_err_t e = check_file(file, real, st, diag); /* of what is open, whatever has its name by now */
  if (e >= 0) return fd;
  close(fd);
  return e;
}
