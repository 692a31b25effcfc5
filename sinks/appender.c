/* Records wait in a list until the file takes them; a first one that is half written is never
   dropped, so that lines stay whole. */
#include "sinks/appender.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/halt.h"
#include "base/xio.h"
#include "pipeline/stage_step.h"

/* How long close waits for a pipe's slow reader; at most, since it may read a byte now and then,
   and less once the run was asked to end. */
enum { LAST_TRY_MS = 2000 };

struct mr_held {
  mr_held_t *next;
  size_t n;
  char data[];
};

/* Makes the folder that path lies in. */
static mr_err_t make_parent(const char *path, mr_diag_t *diag) {
  char folder[MR_PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return MR_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  return mr_make_folder(folder, diag);
}

/* O_NONBLOCK: a pipe must not block the sink; it has no effect on a file. */
mr_err_t mr_appender_open(mr_appender_t *f, mr_stage_t *s, const char *path, bool keep,
                          mr_diag_t *diag) {
  *f = (mr_appender_t){.fd = -1, .path = path};
  f->last = &f->first;
  MR_TRY(make_parent(path, diag));
  int how = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | (keep ? 0 : O_TRUNC);
  f->fd = open(path, how, 0666);
  if (f->fd < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot open for writing: %s", path, strerror(errno));
  struct stat st;
  if (fstat(f->fd, &st) == 0)
    f->regular = S_ISREG(st.st_mode), f->is_pipe = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
  mr_durable_begin(s);
  return f->regular ? mr_sync_parent(path, diag) : MR_OK;
}

int64_t mr_appender_size(const mr_appender_t *f) {
  struct stat st;
  return fstat(f->fd, &st) == 0 ? st.st_size : 0;
}

static void drop_first(mr_appender_t *f) {
  mr_held_t *h = f->first;
  f->first = h->next;
  if (!f->first) f->last = &f->first;
  f->n_held--, f->at = 0;
  free(h);
}

/* Writes the records held; false, with errno, if a write fails. */
static bool flush_held(mr_appender_t *f) {
  while (f->first) {
    ssize_t k = write(f->fd, f->first->data + f->at, f->first->n - f->at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return false;
    f->at += (size_t)k;
    if (f->at < f->first->n) continue;
    f->written++;
    drop_first(f);
  }
  return true;
}

/* Drops the oldest record that is not half written. */
static void let_one_go(mr_appender_t *f) {
  mr_held_t *h = f->first;
  f->lost++;
  if (!f->at) {
    drop_first(f);
  } else if (h->next) {
    mr_held_t *old = h->next;
    h->next = old->next;
    if (!h->next) f->last = &h->next;
    f->n_held--;
    free(old);
  }
}

static void say_once(mr_appender_t *f, const mr_stage_t *s, bool failed) {
  if (failed == f->failing) return;
  if (failed)
    mr_notice(
        "%s: %s: cannot write: %s; training continues, the newest %d records are "
        "held until there is room",
        s->name, f->path, strerror(errno), MR_APPENDER_HELD);
  else
    mr_notice("%s: %s: can be written again", s->name, f->path);
  f->failing = failed;
}

void mr_appender_add(mr_appender_t *f, const mr_stage_t *s, const void *record, size_t n) {
  mr_held_t *h = record ? malloc(sizeof *h + n) : NULL;
  if (!h) {
    f->lost++;
    return;
  }
  h->next = NULL, h->n = n;
  memcpy(h->data, record, n);
  *f->last = h, f->last = &h->next;
  if (f->n_held++ == MR_APPENDER_HELD) let_one_go(f);
  say_once(f, s, !flush_held(f));
}

/* Syncs the file; true if all records added and not lost are on the disk. */
static bool sync_all(mr_appender_t *f) {
  if (!flush_held(f)) return false;
  f->unsynced = 0;
  while (f->regular && fdatasync(f->fd) < 0) {
    if (errno == EINTR) continue;
    f->unsynced = errno;
    break;
  }
  return !f->unsynced;
}

void mr_appender_mark(mr_appender_t *f, mr_stage_t *s, const mr_report_t *mark) {
  mr_durable_answer(s, mark->mark, sync_all(f));
}

void mr_appender_close(mr_appender_t *f, const mr_stage_t *s) {
  if (!f->path || f->fd < 0) return;
  struct pollfd p = {.fd = f->fd, .events = POLLOUT};
  int64_t until = mr_now_ns() + LAST_TRY_MS * INT64_C(1000000);
  while (!flush_held(f) && errno == EAGAIN && mr_now_ns() < until && !mr_halted())
    poll(&p, 1, MR_HALT_SLICE_MS);
  f->lost += f->n_held;
  f->missed = s->rt ? mr_lost(s, 0) : 0;
  while (f->first) drop_first(f);
  sync_all(f);
  if (close(f->fd) < 0 && !f->unsynced && errno != EINTR) f->unsynced = errno;
  f->fd = -1;
}

mr_err_t mr_appender_verdict(const mr_appender_t *f, mr_stage_t *s) {
  if (f->lost && !f->is_pipe)
    return mr_stage_fail(s, MR_ERR_IO, "%s: %" PRId64 " records could not be written", f->path,
                         f->lost);
  if (f->unsynced)
    return mr_stage_fail(s, MR_ERR_IO, "%s: cannot sync: %s", f->path, strerror(f->unsynced));
  return MR_OK;
}

void mr_appender_lost_text(const mr_appender_t *f, char *text, size_t n) {
  text[0] = 0;
  if (f->lost + f->missed) snprintf(text, n, ", %" PRId64 " lost", f->lost + f->missed);
}
