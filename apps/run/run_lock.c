/* Takes the kernel's lock on RUN/lock, and falls back to the owner named in its text where locks do
   not reach: on file systems without them, or shared by hosts.  An owner is a host, a process id
   and that process's start, because process ids come round again. */
#include "apps/run/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/xio.h"

enum { HOST = 256, NOTE = HOST + 64 };

struct mr_run_lock {
  int fd;
  char path[MR_PATH_MAX];
};

/* The process that wrote the file; pid 0: none, or the text cannot be read. */
typedef struct owner {
  char host[HOST];
  int pid;
  int64_t start; /* in ticks after boot; distinguishes it from a later process with the same id */
} owner_t;

/* Field 22 of /proc/PID/stat; 0 if there is no such process. */
static int64_t start_of(int pid) {
  char path[64], text[1024];
  int64_t start = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  const char *at = strrchr(text, ')'); /* the end of the name, which may contain anything */
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  if (at) sscanf(at, " %" SCNd64, &start);
  return start;
}

static owner_t this_process(void) {
  owner_t me = {.pid = (int)getpid(), .start = start_of((int)getpid())};
  if (gethostname(me.host, sizeof me.host - 1) < 0 || !me.host[0]) strcpy(me.host, "unknown");
  return me;
}

static owner_t read_owner(int fd) {
  owner_t o = {0};
  char text[NOTE];
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  if (sscanf(text, "pid %d start %" SCNd64 " host %255s", &o.pid, &o.start, o.host) != 3 ||
      o.pid <= 0)
    return (owner_t){0};
  return o;
}

static bool run_lock_is_here(const owner_t *o) {
  owner_t me = this_process();
  return !strcmp(o->host, me.host);
}

static bool is_alive(const owner_t *o) {
  if (kill(o->pid, 0) < 0 && errno == ESRCH) return false;
  int64_t start = start_of(o->pid);
  return !start || !o->start || start == o->start;
}

static int set_lock(int fd, int how) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int e;
  do e = fcntl(fd, how, &whole);
  while (e < 0 && errno == EINTR);
  return e < 0 ? -1 : how == F_OFD_GETLK ? whole.l_type != F_UNLCK : 0;
}

/* ---- whether other hosts see a lock ---- */

/* Whether the options of the mount that holds st keep locks within this host. */
static bool mount_keeps_locks_here(const struct stat *st) {
  static const char *const option[] = {"local_lock=all", "local_lock=posix", "nolock", "localflock",
                                       "nobrl"};
  char *line = NULL;
  size_t cap = 0;
  bool here = false;
  FILE *f = fopen("/proc/self/mountinfo", "re");
  while (f && getline(&line, &cap, f) > 0) {
    unsigned major, minor;
    if (sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2 || major != major(st->st_dev) ||
        minor != minor(st->st_dev))
      continue;
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) here |= !!strstr(line, option[i]);
  }
  if (f) fclose(f);
  free(line);
  return here;
}

static bool other_hosts_see_it(int fd) {
  struct statfs fs;
  struct stat st;
  if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0) return true;
  if (fs.f_type == FUSE_SUPER_MAGIC || fs.f_type == V9FS_MAGIC) return false; /* unknown */
  return !mount_keeps_locks_here(&st);
}

/* ---- taking it ---- */

static mr_err_t fail_held(const char *folder, const owner_t *o, mr_diag_t *diag) {
  if (!o->pid)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: another process trains in this run folder; wait for its end, or name "
                   "another folder with --run-dir",
                   folder);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s: process %d on host %s trains in this run folder; wait for its end, or name "
                 "another folder with --run-dir",
                 folder, o->pid, o->host);
}

static mr_err_t held_elsewhere(const char *folder, const owner_t *o, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s: process %d on host %s has locked this run folder, and whether it still runs "
                 "cannot be determined from this host; when it has ended, remove %s/lock",
                 folder, o->pid, o->host, folder);
}

/* Decides by the file's text, where the kernel has no locks. */
static mr_err_t judge_text(const char *folder, int fd, bool made, mr_diag_t *diag) {
  owner_t o = read_owner(fd);
  if (made) return MR_OK;
  if (!o.pid)
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "%s: another process is about to train in this run folder; if none is, remove %s/lock",
        folder, folder);
  if (!run_lock_is_here(&o)) return held_elsewhere(folder, &o, diag);
  return is_alive(&o) ? fail_held(folder, &o, diag) : MR_OK;
}

/* Takes the lock of an open file.  MR_OK; *gone says whether its last owner removed the file
   meanwhile: then the lock is of no use. */
static mr_err_t run_lock_take_file(mr_run_lock_t *l, const char *folder, bool made, bool *gone,
                                   mr_diag_t *diag) {
  if (set_lock(l->fd, F_OFD_SETLK) < 0) {
    if (errno == EAGAIN || errno == EACCES) {
      owner_t o = read_owner(l->fd);
      return fail_held(folder, &o, diag);
    }
    return judge_text(folder, l->fd, made, diag); /* no locks on this file system */
  }
  struct stat mine, now;
  if (fstat(l->fd, &mine) < 0 || stat(l->path, &now) < 0 || mine.st_ino != now.st_ino ||
      mine.st_dev != now.st_dev)
    return *gone = true, MR_OK;
  owner_t o = read_owner(l->fd);
  bool unseen = o.pid && !run_lock_is_here(&o) && !other_hosts_see_it(l->fd);
  return unseen ? held_elsewhere(folder, &o, diag) : MR_OK;
}

static mr_err_t write_owner(const mr_run_lock_t *l, mr_diag_t *diag) {
  char text[NOTE];
  owner_t me = this_process();
  int n =
      snprintf(text, sizeof text, "pid %d start %" PRId64 " host %s\n", me.pid, me.start, me.host);
  if (ftruncate(l->fd, 0) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot write: %s", l->path, strerror(errno));
  return mr_write_all(l->fd, text, (size_t)n, l->path, diag);
}

/* *gone as above: nothing is left open. */
static mr_err_t open_and_take(mr_run_lock_t *l, const char *folder, bool *gone, mr_diag_t *diag) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  l->fd = open(l->path, flags | O_EXCL, 0644);
  bool made = l->fd >= 0;
  if (!made && errno == EEXIST) l->fd = open(l->path, flags, 0644);
  if (l->fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened to lock the run folder: %s", l->path,
                   strerror(errno));
  *gone = false;
  mr_err_t e = run_lock_take_file(l, folder, made, gone, diag);
  bool ours = e == MR_OK && !*gone;
  if (ours) e = write_owner(l, diag);
  if (ours && e < 0) unlink(l->path); /* an empty file would block where there are no locks */
  if (e < 0 || *gone) close(l->fd);
  return e;
}

mr_err_t mr_run_lock_take(const char *folder, mr_run_lock_t **out, mr_diag_t *diag) {
  *out = NULL;
  mr_run_lock_t *l = calloc(1, sizeof *l);
  if (!l) return mr_no_memory(diag, "the lock of %s", folder);
  mr_err_t e = MR_OK;
  bool gone = true;
  if (snprintf(l->path, sizeof l->path, "%s/lock", folder) >= (int)sizeof l->path)
    e = mr_fail(diag, MR_ERR_CONFIG, "%.60s...: the path is too long", folder);
  while (e == MR_OK && gone) e = open_and_take(l, folder, &gone, diag);
  if (e == MR_OK)
    *out = l;
  else
    free(l);
  return e;
}

void mr_run_lock_release(mr_run_lock_t *l) {
  if (l) unlink(l->path); /* before the lock ends: a process that has opened it sees it is gone */
  mr_run_lock_leave(l);
}

void mr_run_lock_leave(mr_run_lock_t *l) {
  if (l) close(l->fd);
  free(l);
}

mr_run_lock_state_t mr_run_lock_look(const char *folder) {
  char path[MR_PATH_MAX];
  if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path)
    return MR_RUN_LOCK_UNKNOWN;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe */
  if (fd < 0) return MR_RUN_LOCK_UNKNOWN;
  int locked = set_lock(fd, F_OFD_GETLK);
  owner_t o = read_owner(fd);
  bool sure = o.pid && (run_lock_is_here(&o) || other_hosts_see_it(fd));
  close(fd);
  if (locked > 0) return MR_RUN_LOCK_HELD;
  if (!sure || (locked < 0 && !run_lock_is_here(&o))) return MR_RUN_LOCK_UNKNOWN;
  return locked < 0 && is_alive(&o) ? MR_RUN_LOCK_HELD : MR_RUN_LOCK_LEFT;
}
