/* Loads the records to keep: whole files in large pieces, or single records.  It uses one thread
   per core, at most four, because memory is the limit then, and half as many in the background. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "loaders/local/store_private.h"

enum { THREADS = 4, PIECE = 8 << 20, FEW = 2048 /* records read together */ };

/* Shared by the threads, which take pieces by number. */
typedef struct work {
  mr_store_t *st;
  mr_err_t (*piece)(struct work *w, mr_reader_t *r, int64_t number, mr_diag_t *diag);
  bool reads; /* a piece needs a reader */
  int64_t n;  /* pieces */
  const struct few *few;
  /* Both relaxed: each number is taken once, in any order, and failed asks the other threads to end
     soon.  The pieces' bytes and diag are read after the threads are joined. */
  atomic_llong next;
  atomic_int failed;
  pthread_mutex_t lock;
  mr_diag_t diag; /* the first failure */
  mr_halt_t halt; /* of the thread that waits for it */
} work_t;

static void *work_main(void *arg) {
  work_t *w = arg;
  mr_reader_t *r = NULL;
  mr_diag_t diag = {0};
  mr_halt_set(w->halt);
  mr_err_t e = w->reads ? mr__store_reader(w->st, !w->few, NULL, 0, &r, &diag) : MR_OK;
  while (e >= 0 && !atomic_load_explicit(&w->failed, memory_order_relaxed)) {
    if (atomic_load_explicit(&w->st->stop, memory_order_relaxed))
      e = mr_fail(&diag, MR_ERR_CANCEL, "no longer needed");
    if (e < 0) break;
    int64_t k = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
    if (k >= w->n) break;
    e = w->piece(w, r, k, &diag);
  }
  mr_reader_close(r);
  if (e >= 0) return NULL;
  pthread_mutex_lock(&w->lock);
  if (!atomic_exchange_explicit(&w->failed, 1, memory_order_relaxed)) w->diag = diag;
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static mr_err_t work_together(work_t *w, mr_diag_t *diag) {
  pthread_t thread[THREADS];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (w->st->behind) cores = (cores + 1) / 2;
  int n = 0, most = cores < THREADS ? (int)cores : THREADS;
  pthread_mutex_init(&w->lock, NULL);
  w->halt = mr_halt_get();
  for (; n + 1 < most && n + 1 < w->n; n++)
    if (pthread_create(&thread[n], NULL, work_main, w) != 0) break;
  work_main(w);
  for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&w->lock);
  return atomic_load_explicit(&w->failed, memory_order_relaxed)
             ? mr_diag_relay(diag, w->diag.code, &w->diag)
             : MR_OK;
}

static int64_t pieces_a_file(const mr_store_t *st) { return (st->stride + PIECE - 1) / PIECE; }

static mr_err_t read_piece(work_t *w, mr_reader_t *r, int64_t number, mr_diag_t *diag) {
  mr_store_t *st = w->st;
  int file = (int)(number / pieces_a_file(st));
  int64_t at = number % pieces_a_file(st) * PIECE, left = mr_reader_size(r, file) - at;
  int64_t whole = w->st->conf.head + w->st->conf.per_file * (int64_t)w->st->conf.record;
  if (w->st->conf.lenient && mr_reader_size(r, file) != whole)
    return mr_fail(diag, MR_ERR_DATA, "%s: %lld bytes, want %lld", mr_reader_path(r, file),
                   (long long)mr_reader_size(r, file), (long long)whole);
  if (left <= 0) return MR_OK;
  assert(file < st->conf.n_files && at < st->stride);
  return mr_reader_read_big(r, file, at, (size_t)(left < PIECE ? left : PIECE),
                            st->kept + file * st->stride + at, diag);
}

static mr_err_t check_piece(work_t *w, mr_reader_t *r, int64_t number, mr_diag_t *diag) {
  int64_t all = w->st->conf.per_file * w->st->conf.n_files;
  for (int64_t i = number * FEW; i < all && i < (number + 1) * FEW; i++)
    MR_TRY(mr__store_check(w->st, i, mr__store_place(w->st, i), diag));
  return MR_OK;
}

mr_err_t mr__store_keep_whole(mr_store_t *st, mr_diag_t *diag) {
  int64_t all = st->conf.per_file * st->conf.n_files;
  work_t read = {
      .st = st, .piece = read_piece, .reads = true, .n = pieces_a_file(st) * st->conf.n_files};
  work_t check = {.st = st, .piece = check_piece, .n = (all + FEW - 1) / FEW};
  MR_TRY(work_together(&read, diag));
  return st->conf.check ? work_together(&check, diag) : MR_OK;
}

/* A record of the source and its number in the files. */
typedef struct few {
  int64_t number, index;
} few_t;

static int by_number(const void *a, const void *b) {
  int64_t x = ((const few_t *)a)->number, y = ((const few_t *)b)->number;
  return (x > y) - (x < y);
}

/* Piece `number` of the records that are kept singly: FEW of them, in the order of the files, each
   read into the place of its index. */
static mr_err_t read_few(work_t *w, mr_reader_t *r, int64_t number, mr_diag_t *diag) {
  const mr_store_conf_t *c = &w->st->conf;
  const few_t *few = w->few + number * FEW;
  int64_t n = c->n - number * FEW < FEW ? c->n - number * FEW : FEW;
  mr_read_t *read = calloc(FEW, sizeof *read);
  if (!read) return mr_no_memory(diag, "%d reads", FEW);
  for (int64_t i = 0; i < n; i++)
    read[i] = (mr_read_t){(int)(few[i].number / c->per_file),
                          c->head + few[i].number % c->per_file * (int64_t)c->record, c->record,
                          w->st->kept + few[i].index * (int64_t)c->record};
  mr_err_t e = mr_reader_read(r, read, (size_t)n, diag);
  for (int64_t i = 0; i < n && e >= 0; i++)
    e = mr__store_check(w->st, few[i].number, read[i].dst, diag);
  free(read);
  return e;
}

/* Reads in file order, so that neighbours are merged. */
mr_err_t mr__store_keep_few(mr_store_t *st, mr_diag_t *diag) {
  const mr_store_conf_t *c = &st->conf;
  few_t *few = malloc((size_t)c->n * sizeof *few);
  if (!few) return mr_no_memory(diag, "the places of %lld records", (long long)c->n);
  for (int64_t i = 0; i < c->n; i++) few[i] = (few_t){c->locate(c->ctx, i), i};
  qsort(few, (size_t)c->n, sizeof *few, by_number);
  work_t w = {.st = st, .piece = read_few, .reads = true, .n = (c->n + FEW - 1) / FEW, .few = few};
  mr_err_t e = work_together(&w, diag);
  free(few);
  return e;
}

/* ---- the background thread: loads all records while the first fetches read theirs ---- */

/* It reports no failure: on a bad file or record nothing is kept, and the fetch of that record
   fails instead. */
static void *keeper_main(void *arg) {
  mr_store_t *st = arg;
  mr_diag_t why = {0};
  mr_halt_set(st->halt);
  if (mr__store_fill(st, true, &why) >= 0 && st->kept)
    atomic_store_explicit(&st->ready, true, memory_order_release);
  return NULL;
}

bool mr__store_behind(mr_store_t *st) {
  st->halt = mr_halt_get();
  st->behind = true; /* set before the thread starts, which reads it */
  if (pthread_create(&st->keeper, NULL, keeper_main, st) != 0) st->behind = false;
  return st->behind;
}

void mr__store_join(mr_store_t *st) {
  if (!st->behind) return;
  atomic_store_explicit(&st->stop, true, memory_order_relaxed);
  pthread_join(st->keeper, NULL);
}
