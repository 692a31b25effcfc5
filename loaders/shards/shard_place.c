/* Beside a shard its index is called NAME.mrindex.  In a folder for all data sets the name begins
   with a hash of the shard's absolute path, so that equal names do not collide. */
#include "loaders/shards/shard_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/halt.h"
#include "loaders/remote/remote.h"

#define ENDING ".mrindex"

static bool is_auto(const char *where) { return !where || !strcmp(where, "auto"); }
static bool is_beside(const char *where) { return where && !strcmp(where, "beside"); }

const char *mr_shard_where(const char *where, bool remote, const char *cache) {
  return remote && cache && is_auto(where) ? cache : where;
}

/* The folder of a cache: as the XDG base directory specification says.  False without a home. */
static bool cache_folder(char out[MR_PATH_MAX]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = cache && *cache == '/' ? snprintf(out, MR_PATH_MAX, "%s/millrace", cache)
          : home && *home == '/' ? snprintf(out, MR_PATH_MAX, "%s/.cache/millrace", home)
                                 : -1;
  return n > 0 && n < MR_PATH_MAX;
}

static bool place_beside(const char *path, char *out) {
  return snprintf(out, MR_SHARD_PLACE_MAX, "%s" ENDING, path) < MR_SHARD_PLACE_MAX;
}

static bool place_in_folder(const char *folder, const char *path, char *out) {
  char *whole = mr_remote_is(path) ? strdup(path) : realpath(path, NULL);
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  uint64_t hash = whole ? XXH3_64bits(whole, strlen(whole)) : 0;
  int n = snprintf(out, MR_SHARD_PLACE_MAX, "%s/%016" PRIx64 "-%.100s" ENDING, folder, hash, name);
  free(whole);
  return whole && n < MR_SHARD_PLACE_MAX;
}

bool mr_shard_place(const char *path, const char *where, int i, char out[MR_SHARD_PLACE_MAX]) {
  char folder[MR_PATH_MAX];
  if (mr_remote_is(path)) { /* nothing lies beside an object */
    if (i > 0 || is_beside(where)) return false;
    i = 1;
    if (!is_auto(where)) return place_in_folder(where, path, out);
  }
  if (is_auto(where) && i == 1) return cache_folder(folder) && place_in_folder(folder, path, out);
  if (i > 0) return false;
  return is_auto(where) || is_beside(where) ? place_beside(path, out)
                                            : place_in_folder(where, path, out);
}

mr_err_t mr_shard_place_new(const char *path, const char *where, char out[MR_SHARD_PLACE_MAX],
                            mr_diag_t *diag) {
  char folder[MR_PATH_MAX];
  if (is_beside(where) && mr_remote_is(path))
    return mr_fail(diag, MR_ERR_CONFIG, "%s: an index cannot be kept beside a URL", path);
  if (is_beside(where)) {
    if (place_beside(path, out)) return MR_OK;
    return mr_fail(diag, MR_ERR_CONFIG, "%s: the name is too long", path);
  }
  if (is_auto(where) ? !cache_folder(folder)
                     : snprintf(folder, sizeof folder, "%s", where) >= (int)sizeof folder)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "there is no folder for a cache: XDG_CACHE_HOME and HOME "
                   "name none");
  MR_TRY(mr_make_own_folder(folder, diag));
  if (place_in_folder(folder, path, out)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: its path cannot be found", path);
}

static void say_waiting(const char *name) {
  mr_notice(
      "%s: held by another process that makes the index of this file or decompresses it: waiting "
      "for it",
      name);
}

/* The holder removes the lock file once what it protects exists, so that a process that has waited
   on the removed file finds that.  Any user who may read may wait.  In a folder of many users
   anything can have the name: O_NONBLOCK, as the open of a pipe would wait for its other end. */
int mr_shard_lock(const char *path, int from, bool wait, char name[MR_SHARD_LOCK_MAX], bool *busy) {
  enum { PAUSE_NS = 20000000, QUIET = 250 /* pauses before a notice */ };
  *name = 0, *busy = false;
  if (from < 0) snprintf(name, MR_SHARD_LOCK_MAX, "%s.lock", path);
  struct stat st;
  int fd = *name ? open(name, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644)
                 : fcntl(from, F_DUPFD_CLOEXEC, 0);
  if (*name && fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) close(fd), fd = -1;
  for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;) {
    if (errno == EINTR) continue;
    *busy = errno == EWOULDBLOCK;
    if (*busy && wait) {
      if (tries++ == QUIET) say_waiting(path);
      if (mr_halt_pause(PAUSE_NS)) continue;
      *busy = false; /* the run is to end: what is read next says so */
      close(fd);
      return -1;
    }
    if (!*busy && *name) unlink(name); /* no locks here */
    close(fd);
    return -1;
  }
  *busy = false;
  return fd;
}

void mr_shard_unlock(int fd, const char *name) {
  if (fd < 0) return;
  if (*name) unlink(name);
  flock(fd, LOCK_UN); /* a child of this process may hold it open, and `from` does */
  close(fd);
}
