/* A store's life: decides how to keep the records, opens and checks the files, and fetches from
   memory or through the reader of the calling worker. */
#include "loaders/local/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"
#include "loaders/local/reader_choose.h"
#include "loaders/local/store_private.h"
#include "pipeline/care.h"
#include "pipeline/stage.h"

static mr_err_t copy_paths(mr_store_t *st, const mr_store_conf_t *conf, mr_diag_t *diag) {
  for (int i = 0; i < conf->n_files; i++) {
    st->path[i] = strdup(conf->path[i]);
    if (!st->path[i]) return mr_no_memory(diag, "a path");
  }
  st->conf.path = (const char *const *)st->path;
  return MR_OK;
}

static mr_err_t check_sizes(const mr_store_t *st, const mr_reader_t *r, mr_diag_t *diag) {
  const mr_store_conf_t *c = &st->conf;
  int64_t want = c->head + c->per_file * (int64_t)c->record;
  if (c->lenient) return MR_OK;
  for (int i = 0; i < c->n_files; i++)
    if (mr_reader_size(r, i) != want)
      return mr_fail(diag, MR_ERR_DATA,
                     "%s: %" PRId64 " bytes, want %" PRId64 " (%" PRId64 " records of %zu%s)",
                     mr_reader_path(r, i), mr_reader_size(r, i), want, c->per_file, c->record,
                     c->head ? " after the header" : "");
  return MR_OK;
}

mr_err_t mr__store_reader(const mr_store_t *st, bool once, void *buffer, size_t len,
                          mr_reader_t **out, mr_diag_t *diag) {
  mr_reader_conf_t conf = {.path = st->conf.path,
                           .n_files = st->conf.n_files,
                           .remote = st->conf.remote,
                           .object = st->conf.object,
                           .backend = st->conf.backend,
                           .once = once,
                           .chosen = once ? MR_READ_AUTO : st->chosen,
                           .buffer = buffer,
                           .buffer_len = len};
  MR_TRY(mr_reader_open(out, &conf, diag));
  mr_err_t e = check_sizes(st, *out, diag);
  if (e < 0) mr_reader_close(*out), *out = NULL;
  return e;
}

mr_err_t mr__store_check(const mr_store_t *st, int64_t number, const uint8_t *record,
                         mr_diag_t *diag) {
  const mr_store_conf_t *c = &st->conf;
  mr_diag_t why = {0};
  if (!c->check) return MR_OK;
  mr_err_t e = c->check(c->ctx, st->path[number / c->per_file], number % c->per_file, record, &why);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e, "%s%s", why.text, c->lenient ? "" : MR_ON_BAD_ADVICE);
}

/* How the records will be kept, and how much memory that takes. */
typedef struct decision {
  bool whole, kept;
  int64_t bytes, budget;
} decision_t;

/* The bytes from file to file, when files are kept whole. */
static int64_t stride_of(const mr_store_conf_t *c) {
  int64_t file = c->head + c->per_file * (int64_t)c->record;
  return (file + MR_STORE_PAGE - 1) / MR_STORE_PAGE * MR_STORE_PAGE;
}

/* Files are kept whole if the source uses at least half of their records, and objects always, since
   requests for single records take longer. */
static decision_t decide_by(const mr_store_conf_t *c) {
  decision_t d = {.whole = c->object || c->n >= c->per_file * c->n_files / 2};
  d.bytes = d.whole ? stride_of(c) * c->n_files : c->n * (int64_t)c->record;
  d.budget = c->memory >= 0 ? c->memory : mr_memory_available() / 2;
  d.kept = d.bytes <= d.budget;
  return d;
}

static decision_t decide_store(const mr_store_t *st) { return decide_by(&st->conf); }

bool mr_store_keeps(const mr_store_conf_t *conf) { return decide_by(conf).kept; }

mr_err_t mr__store_fill(mr_store_t *st, bool good_alone, mr_diag_t *diag) {
  int64_t bytes = decide_store(st).bytes;
  assert(!st->kept && bytes >= 0);
  size_t unit = bytes >= MR_STORE_HUGE ? MR_STORE_HUGE : MR_STORE_PAGE; /* of many small ones */
  size_t room = ((size_t)bytes + unit - 1) & ~(unit - 1);
  st->kept = aligned_alloc(unit, room);
  if (!st->kept) return mr_no_memory(diag, "%" PRId64 " bytes of records", bytes);
  if (unit == MR_STORE_HUGE) /* advice: 70 page faults instead of 35,000 */
    madvise(st->kept, room, MADV_HUGEPAGE);
  mr_diag_t why = {0};
  mr_err_t e = st->whole ? mr__store_keep_whole(st, &why) : mr__store_keep_few(st, &why);
  if (e >= 0) return e;
  free(st->kept);
  st->kept = NULL;
  return good_alone && e != MR_ERR_NOMEM ? MR_OK : mr_diag_relay(diag, e, &why);
}

static void close_store_worker(mr_store_worker_t **at) {
  mr_store_worker_t *l = *at;
  if (!l) return;
  mr_reader_close(l->reader);
  free(l->scratch), free(l);
  *at = NULL;
}

static mr_err_t fill_store_worker(const mr_store_t *st, mr_store_worker_t *l, mr_diag_t *diag) {
  size_t bytes = (size_t)MR_BURST * st->conf.record;
  l->scratch = malloc(2 * bytes);
  if (!l->scratch) return mr_no_memory(diag, "two bursts of records");
  l->burst[0].scratch = l->scratch, l->burst[1].scratch = l->scratch + bytes;
  return mr__store_reader(st, false, l->scratch, 2 * bytes, &l->reader, diag);
}

static mr_err_t open_store_worker(mr_store_t *st, int worker, mr_diag_t *diag) {
  mr_store_worker_t **at = &st->of_worker[worker];
  *at = calloc(1, sizeof **at);
  if (!*at) return mr_no_memory(diag, "a reader");
  mr_err_t e = fill_store_worker(st, *at, diag);
  if (e < 0) close_store_worker(at);
  return e;
}

static mr_err_t store_make(mr_store_t **out, const mr_store_conf_t *conf, mr_diag_t *diag) {
  *out = NULL;
  if (conf->n_files < 1 || conf->n_files > MR_READER_FILES_MAX || conf->record < 1)
    return mr_fail(diag, MR_ERR_CONFIG, "%d files, want [1,%d]", conf->n_files,
                   MR_READER_FILES_MAX);
  mr_store_t *st = *out = calloc(1, sizeof *st);
  if (!st) return mr_no_memory(diag, "a store");
  st->conf = *conf;
  assert(conf->head >= 0 && conf->per_file >= 0);
  st->stride = stride_of(conf);
  return copy_paths(st, conf, diag);
}

/* Checks the first bytes of every record of the source, so that a bad label fails open and not a
   later fetch.  For a file in the page cache this takes 0.1 us per record. */
static mr_err_t check_all(const mr_store_t *st, mr_reader_t *r, mr_diag_t *diag) {
  enum { SOME = MR_READER_AHEAD };
  const mr_store_conf_t *c = &st->conf;
  uint8_t first[SOME][MR_STORE_CHECK_MAX];
  mr_read_t read[SOME];
  int64_t number[SOME];
  if (!c->check_bytes || !c->check || c->lenient || c->n > MR_STORE_CHECKED) return MR_OK;
  for (int64_t from = 0; from < c->n; from += SOME) {
    int n = c->n - from < SOME ? (int)(c->n - from) : SOME;
    for (int i = 0; i < n; i++) {
      int64_t k = number[i] = c->locate(c->ctx, from + i);
      read[i] = (mr_read_t){(int)(k / c->per_file), c->head + k % c->per_file * (int64_t)c->record,
                            c->check_bytes, first[i]};
    }
    MR_TRY(mr_reader_read(r, read, (size_t)n, diag));
    for (int i = 0; i < n; i++) MR_TRY(mr__store_check(st, number[i], first[i], diag));
  }
  return MR_OK;
}

/* Opens the reader of the first worker, whose way the others use.  Files in the page cache are
   loaded in the background, so that the first batches need not wait; from a cold device that would
   slow both. */
static mr_err_t open_reading(mr_store_t *st, bool keep, mr_diag_t *diag) {
  MR_TRY(open_store_worker(st, 0, diag));
  st->chosen = mr_reader_backend(st->of_worker[0]->reader);
  bool cached = st->conf.backend == MR_READ_AUTO && st->chosen == MR_READ_MMAP;
  if (!keep || cached) MR_TRY(check_all(st, st->of_worker[0]->reader, diag));
  if (!keep || (cached && mr__store_behind(st))) return MR_OK;
  close_store_worker(&st->of_worker[0]);
  MR_TRY(mr__store_fill(st, st->conf.lenient, diag));
  if (!st->kept) return open_store_worker(st, 0, diag);
  atomic_store_explicit(&st->ready, true, memory_order_release);
  return MR_OK;
}

static mr_err_t open_records(mr_store_t *st, mr_diag_t *diag) {
  decision_t d = decide_store(st);
  st->whole = d.whole;
  if (!d.kept || d.bytes >= MR_STORE_BEHIND) return open_reading(st, d.kept, diag);
  MR_TRY(mr__store_fill(st, st->conf.lenient, diag));
  if (!st->kept) return open_reading(st, false, diag);
  atomic_store_explicit(&st->ready, true, memory_order_release);
  return MR_OK;
}

mr_err_t mr_store_open(mr_store_t **out, const mr_store_conf_t *conf, mr_diag_t *diag) {
  mr_err_t e = store_make(out, conf, diag);
  if (e >= 0) e = open_records(*out, diag);
  if (e >= 0) return MR_OK;
  mr_store_close(*out);
  *out = NULL;
  return e;
}

static void store_explain(const mr_store_t *st, const mr_reader_t *r, decision_t d, char *text,
                          size_t n) {
  const char *budget = st->conf.memory >= 0 ? "memory=" : "half of the free memory";
  const char *how = !d.kept   ? "read record by record as they are due"
                    : d.whole ? "read once in large requests and kept in memory"
                              : "read once by themselves and kept in memory";
  mr_snprintf(text, n, "%s (%.1f MB, budget %.1f MB: %s), backend %s: %s", how,
              (double)d.bytes / 1e6, (double)d.budget / 1e6, budget,
              mr_read_way_name(mr_reader_backend(r)), mr_reader_why(r));
}

mr_err_t mr_store_explain(const mr_store_conf_t *conf, char *text, size_t n, mr_diag_t *diag) {
  mr_store_t *st;
  mr_reader_t *r = NULL;
  mr_err_t e = store_make(&st, conf, diag);
  if (e >= 0) {
    decision_t d = decide_store(st);
    e = mr__store_reader(st, d.kept && d.whole, NULL, 0, &r, diag);
    if (e >= 0) store_explain(st, r, d, text, n);
  }
  mr_reader_close(r);
  mr_store_close(st);
  return e;
}

void mr_store_close(mr_store_t *st) {
  if (!st) return;
  mr__store_join(st);
  for (int w = 0; w < MR_STORE_WORKERS; w++) close_store_worker(&st->of_worker[w]);
  for (int i = 0; i < MR_READER_FILES_MAX; i++) free(st->path[i]);
  free(st->kept);
  free(st);
}

bool mr_store_kept(mr_store_t *st) {
  return atomic_load_explicit(&st->ready, memory_order_acquire);
}

/* Fills a burst with the reads of records index[0,n). */
static void store_aim(const mr_store_t *st, mr_store_burst_t *b, const int64_t *index, int n) {
  const mr_store_conf_t *c = &st->conf;
  assert(n > 0 && n <= MR_BURST);
  b->n = n;
  for (int i = 0; i < n; i++) {
    b->index[i] = index[i];
    int64_t k = b->number[i] = c->locate(c->ctx, index[i]);
    assert(k >= 0 && k / c->per_file < c->n_files);
    b->read[i] = (mr_read_t){(int)(k / c->per_file), c->head + k % c->per_file * (int64_t)c->record,
                             c->record, b->scratch + (size_t)i * c->record};
  }
}

static bool is_burst(const mr_store_burst_t *b, const int64_t *index, int n) {
  return b->n == n && !memcmp(b->index, index, (size_t)n * sizeof *index);
}

/* Reads the records of a fetch, or waits for them if their reads have begun. */
static mr_err_t store_read_due(mr_store_t *st, int worker, const int64_t *index, int n,
                               int64_t *number, uint8_t **record, mr_diag_t *diag) {
  if (!st->of_worker[worker]) MR_TRY(open_store_worker(st, worker, diag));
  mr_store_worker_t *l = st->of_worker[worker];
  mr_store_burst_t *b = &l->burst[l->last ^= 1];
  bool begun = l->begun, ahead = begun && is_burst(b, index, n);
  l->begun = false;
  mr_err_t e = begun ? mr_reader_finish(l->reader, ahead ? diag : NULL) : MR_OK;
  if (!ahead) {
    store_aim(st, b, index, n);
    e = mr_reader_read(l->reader, b->read, (size_t)n, diag);
  }
  for (int i = 0; i < n && e >= 0; i++) {
    number[i] = b->number[i], record[i] = b->read[i].dst;
    e = mr__store_check(st, number[i], record[i], diag);
  }
  return e < 0 ? e : MR_OK;
}

bool mr_store_ahead(mr_store_t *st, int worker, const int64_t *index, int n) {
  if (worker >= MR_STORE_WORKERS || st->conf.in_turn || mr_store_kept(st)) return false;
  mr_store_worker_t *l = st->of_worker[worker];
  if (!l || l->begun || !mr_reader_begins(l->reader)) return false;
  if (!n) return true;
  mr_store_burst_t *b = &l->burst[l->last ^ 1]; /* the last fetch's records stay */
  store_aim(st, b, index, n);
  l->begun = mr_reader_begin(l->reader, b->read, (size_t)n, NULL) >= 0;
  return l->begun;
}

mr_err_t mr_store_fetch(mr_store_t *st, int worker, const int64_t *index, int n, int64_t *number,
                        uint8_t **record, mr_diag_t *diag) {
  const mr_store_conf_t *c = &st->conf;
  if (worker >= MR_STORE_WORKERS)
    return mr_fail(diag, MR_ERR_CONFIG, "%d workers, want at most %d", worker + 1,
                   MR_STORE_WORKERS);
  if (!mr_store_kept(st)) return store_read_due(st, worker, index, n, number, record, diag);
  close_store_worker(&st->of_worker[worker]); /* the records are in memory now */
  for (int i = 0; i < n; i++) {
    number[i] = c->locate(c->ctx, index[i]);
    assert(number[i] >= 0 && number[i] / c->per_file < c->n_files);
    record[i] =
        st->whole ? mr__store_place(st, number[i]) : st->kept + (size_t)index[i] * c->record;
  }
  return MR_OK;
}
