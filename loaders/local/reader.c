/* Opens a reader's files, chooses one of the four ways, and passes reads to it.  Where the machine
   refuses the way that was chosen for it, pread takes its place, since it always works; a way that
   a setting demands is not replaced. */
#include "loaders/local/reader.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xio.h"
#include "loaders/local/reader_private.h"

static const struct {
  const char *name;
  const mr_reader_way_t *way;
} backend[] = {
    [MR_READ_AUTO] = {"auto", NULL},
    [MR_READ_URING] = {"uring", &mr__reader_uring},
    [MR_READ_DIRECT] = {"direct", &mr__reader_direct},
    [MR_READ_PREAD] = {"pread", &mr__reader_pread},
    [MR_READ_MMAP] = {"mmap", &mr__reader_mmap},
    [MR_READ_REMOTE] = {"remote", &mr__reader_remote},
};
enum { N_BACKENDS = MR_READ_REMOTE /* of files */ };

const char *mr_read_way_name(mr_read_way_t b) { return backend[b].name; }

mr_err_t mr__reader_fail(const mr_reader_t *r, const mr_read_t *left, int64_t got,
                         mr_diag_t *diag) {
  const char *path = r->path[left->file];
  if (got == 0)
    return mr_fail(diag, MR_ERR_DATA, "%s: ends at byte %" PRId64 ", want %zu bytes more", path,
                   left->offset, left->len);
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be read at byte %" PRId64 ": %s", path, left->offset,
                 strerror((int)-got));
}

static mr_err_t reader_open_file(mr_reader_t *r, int i, const char *path, mr_diag_t *diag) {
  struct stat st;
  r->path[i] = strdup(path);
  if (!r->path[i]) return mr_no_memory(diag, "a path");
  r->fd[i] = mr_open_regular_fd(path);
  if (r->fd[i] < 0 || fstat(r->fd[i], &st) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", path, mr_open_reason(errno));
  r->size[i] = st.st_size;
  return MR_OK;
}

/* 0: no reader fell back; 1: the thread that changed 0 to 1 is writing the text (relaxed: nothing
   is published yet); 2: the text can be read (release pairs with the acquire in
   mr_reader_fallback_seen). */
static atomic_int seen;
static char seen_text[MR_READER_WHY];

static void note_fallback(const mr_reader_t *r) {
  int none = 0;
  if (!*r->fallback) return;
  if (!atomic_compare_exchange_strong_explicit(&seen, &none, 1, memory_order_relaxed,
                                               memory_order_relaxed))
    return;
  memcpy(seen_text, r->fallback, sizeof seen_text);
  atomic_store_explicit(&seen, 2, memory_order_release);
}

const char *mr_reader_fallback_seen(void) {
  return atomic_load_explicit(&seen, memory_order_acquire) == 2 ? seen_text : NULL;
}

/* The way that MILLRACE_IO names; AUTO if it is unset or names none. */
static mr_read_way_t read_way_of_environment(mr_reader_t *r) {
  const char *way = getenv("MILLRACE_IO");
  for (int i = 1; way && i < N_BACKENDS; i++)
    if (!strcmp(way, backend[i].name)) {
      snprintf(r->fallback, sizeof r->fallback, "MILLRACE_IO=%s, reading with %s", way, way);
      snprintf(r->why, sizeof r->why, "MILLRACE_IO=%s", way);
      return (mr_read_way_t)i;
    }
  return MR_READ_AUTO;
}

static mr_err_t open_way(mr_reader_t *r, mr_read_way_t b, mr_diag_t *diag) {
  r->backend = b;
  r->way = backend[b].way;
  return r->way->open(r, diag);
}

/* Opens the way that AUTO or MILLRACE_IO gives; if the machine refuses it, pread, which always
   works. */
static mr_err_t open_wished(mr_reader_t *r, const mr_reader_conf_t *conf, mr_diag_t *diag) {
  mr_reader_facts_t facts;
  char refused_text[MR_URING_REFUSED_MAX];
  mr_read_way_t b = read_way_of_environment(r);
  if (b == MR_READ_AUTO) b = conf->chosen;
  if (b == MR_READ_AUTO) {
    mr_reader_facts(r->fd, r->n_files, &facts);
    b = mr_reader_choose(&facts, conf->once, r->why);
    if (facts.uring_errno)
      snprintf(r->fallback, sizeof r->fallback, "%s, reading with pread in 32 threads",
               mr_uring_refused_text(facts.uring_errno, refused_text, sizeof refused_text));
  }
  mr_diag_t refused = {0};
  mr_err_t e = open_way(r, b, &refused);
  if (e != MR_ERR_UNAVAILABLE) return mr_diag_relay(diag, e, &refused);
  r->way->close(r);
  snprintf(r->why, sizeof r->why, "%.150s", refused.text);
  snprintf(r->fallback, sizeof r->fallback, "%.100s, reading with pread in 32 threads",
           refused.text);
  return open_way(r, MR_READ_PREAD, diag);
}

static mr_err_t open_objects(mr_reader_t *r, const mr_reader_conf_t *conf, mr_diag_t *diag) {
  r->remote = conf->remote, r->once = conf->once;
  for (int i = 0; i < r->n_files; i++) {
    r->path[i] = strdup(conf->path[i]);
    if (!r->path[i]) return mr_no_memory(diag, "a name");
    r->object[i] = conf->object[i], r->size[i] = conf->object[i]->size;
  }
  snprintf(r->why, sizeof r->why, "it is a URL");
  return open_way(r, MR_READ_REMOTE, diag);
}

static mr_err_t reader_open_all(mr_reader_t *r, const mr_reader_conf_t *conf, mr_diag_t *diag) {
  if (conf->object) return open_objects(r, conf, diag);
  for (int i = 0; i < r->n_files; i++) MR_TRY(reader_open_file(r, i, conf->path[i], diag));
  if (conf->backend == MR_READ_AUTO) return open_wished(r, conf, diag);
  mr_diag_t refused = {0};
  snprintf(r->why, sizeof r->why, "it was asked for by name");
  mr_err_t e = open_way(r, conf->backend, &refused);
  return mr_diag_prefix(diag, e, &refused, "backend=%s", mr_read_way_name(conf->backend));
}

mr_err_t mr_reader_open(mr_reader_t **out, const mr_reader_conf_t *conf, mr_diag_t *diag) {
  *out = NULL;
  unsigned depth = conf->depth ? conf->depth : MR_READER_DEPTH;
  if (conf->n_files < 1 || conf->n_files > MR_READER_FILES_MAX || depth > 4096)
    return mr_fail(diag, MR_ERR_CONFIG, "reader: %d files at depth %u, want [1,%d] at [1,4096]",
                   conf->n_files, depth, MR_READER_FILES_MAX);
  mr_reader_t *r = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "a reader");
  r->n_files = conf->n_files, r->depth = depth;
  r->window = conf->window ? conf->window : MR_READER_WINDOW;
  r->buffer = conf->buffer, r->buffer_len = conf->buffer_len;
  for (int i = 0; i < MR_READER_FILES_MAX; i++) r->fd[i] = -1;
  mr_err_t e = reader_open_all(r, conf, diag);
  if (e < 0) {
    mr_reader_close(r);
    return e;
  }
  note_fallback(r);
  *out = r;
  return MR_OK;
}

void mr_reader_close(mr_reader_t *r) {
  if (!r) return;
  if (r->begun) mr_reader_finish(r, NULL);
  if (r->way) r->way->close(r);
  for (int i = 0; i < r->n_files; i++) {
    if (r->fd[i] >= 0) close(r->fd[i]);
    free(r->path[i]);
  }
  free(r->scratch), free(r->ahead);
  free(r);
}

static mr_err_t reader_check(const mr_reader_t *r, const mr_read_t *read, size_t n,
                             mr_diag_t *diag) {
  for (size_t i = 0; i < n; i++)
    if (read[i].file < 0 || read[i].file >= r->n_files || read[i].offset < 0 ||
        read[i].len > (size_t)(INT64_MAX - read[i].offset))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "reader: a read of %zu bytes of file %d at byte %" PRId64
                     ": want a file in [0,%d) and bytes from 0",
                     read[i].len, read[i].file, read[i].offset, r->n_files);
  return MR_OK;
}

mr_err_t mr_reader_read(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  assert(!r->begun);
  MR_TRY(reader_check(r, read, n, diag));
  return n > 1 && r->way->merges ? mr__reader_joined(r, read, n, diag)
                                 : r->way->read(r, read, n, diag);
}

bool mr_reader_begins(const mr_reader_t *r) { return r->way->begin; }

mr_err_t mr_reader_begin(mr_reader_t *r, const mr_read_t *read, size_t n, mr_diag_t *diag) {
  assert(!r->begun && r->way->begin);
  if (n > MR_READER_AHEAD)
    return mr_fail(diag, MR_ERR_CONFIG, "reader: %zu reads ahead, want at most %d", n,
                   MR_READER_AHEAD);
  MR_TRY(reader_check(r, read, n, diag));
  MR_TRY(mr__reader_joined_begin(r, read, n, diag));
  r->begun = true;
  return MR_OK;
}

mr_err_t mr_reader_finish(mr_reader_t *r, mr_diag_t *diag) {
  assert(r->begun);
  r->begun = false;
  return mr__reader_joined_finish(r, diag);
}

mr_err_t mr_reader_read_big(mr_reader_t *r, int file, int64_t offset, size_t len, void *dst,
                            mr_diag_t *diag) {
  mr_read_t part[64];
  assert(file >= 0 && file < r->n_files && offset >= 0 && r->window > 0);
  while (len) {
    size_t n = 0;
    for (; n < 64 && len; n++) {
      size_t take = len < r->window ? len : r->window;
      part[n] = (mr_read_t){file, offset, take, dst};
      dst = (char *)dst + take, offset += (int64_t)take, len -= take;
    }
    MR_TRY(r->way->read(r, part, n, diag));
  }
  return MR_OK;
}

int64_t mr_reader_size(const mr_reader_t *r, int file) {
  assert(file >= 0 && file < r->n_files);
  return r->size[file];
}
const char *mr_reader_path(const mr_reader_t *r, int file) { return r->path[file]; }
mr_read_way_t mr_reader_backend(const mr_reader_t *r) { return r->backend; }
const char *mr_reader_why(const mr_reader_t *r) { return r->why; }
const char *mr_reader_fallback(const mr_reader_t *r) { return *r->fallback ? r->fallback : NULL; }
