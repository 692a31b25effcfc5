/* Owner and mode of what is open decide, never its name, which may lead elsewhere a moment later.
   An entry of an access control list that lets another user write shows in the group's bit. */
#include "base/trusted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const mr_kept_def_t mr_kept_defs[MR_KEPTS] = {
    [MR_KEPT_BLOCKS] = {.name = "blocks of a cache", .group = true, .folders = true},
    [MR_KEPT_INDEX] = {.name = "indexes", .group = true, .owner = true},
    [MR_KEPT_LISTING] = {.name = "listings", .group = true},
    [MR_KEPT_SHARD] = {.name = "decompressed shards", .group = true},
    [MR_KEPT_KERNEL] = {.name = "compiled kernels", .folders = true},
    [MR_KEPT_TUNING] = {.name = "measured algorithms"},
    [MR_KEPT_ADDRESS] = {.name = "a page's address", .secret = true},
    [MR_KEPT_PLUGIN] = {.name = "plug-ins", .folders = true},
};

static bool is_in_group(gid_t group) {
  if (group == getegid()) return true;
  int n = getgroups(0, NULL);
  gid_t *all = n > 0 ? malloc((size_t)n * sizeof *all) : NULL;
  bool in = false;
  n = all ? getgroups(n, all) : 0;
  for (int i = 0; i < n; i++) in |= all[i] == group;
  free(all);
  return in;
}

const char *mr_distrust_state(const struct stat *st, mr_kept_t kind, const mr_trust_t *more) {
  const mr_kept_def_t *def = &mr_kept_defs[kind];
  if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) return "it is no regular file";
  bool group = def->group && more && more->group && is_in_group(st->st_gid);
  bool owned = st->st_uid == geteuid() || st->st_uid == 0 || group ||
               (def->owner && more && more->has_owner && st->st_uid == more->owner);
  if (!owned) return "it belongs to another user";
  if (st->st_mode & (group ? S_IWOTH : S_IWGRP | S_IWOTH))
    return S_ISDIR(st->st_mode) ? "other users may write there" : "other users may write it";
  return def->secret && st->st_mode & (S_IRWXG | S_IRWXO) ? "other users may read it" : NULL;
}

const char *mr_distrust(int fd, mr_kept_t kind, const mr_trust_t *more) {
  struct stat st;
  return fstat(fd, &st) < 0 ? strerror(errno) : mr_distrust_state(&st, kind, more);
}

mr_err_t mr_trusted(int fd, const char *path, mr_kept_t kind, const mr_trust_t *more,
                    mr_diag_t *diag) {
  struct stat st;
  const char *why = mr_distrust(fd, kind, more);
  if (!why) return MR_OK;
  if (fstat(fd, &st) < 0) return mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: %s", path, why);
  return mr_fail(
      diag, MR_ERR_UNAVAILABLE,
      "%s: %s (user %u, mode %04o), want one of user %u or root that only they may write "
      "(chmod go-w)",
      path, why, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777u, (unsigned)geteuid());
}

bool mr_trust_own(int fd, const mr_trust_t *more) {
  struct stat st;
  bool group = more && more->group;
  if (fstat(fd, &st) < 0) return false;
  mode_t mode =
      (st.st_mode & 07777 & ~(mode_t)(S_IWGRP | S_IWOTH)) | (group ? S_IWGRP | S_IRGRP : 0);
  return mode == (st.st_mode & 07777) || fchmod(fd, mode) == 0;
}
