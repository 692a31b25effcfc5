/* The loader: a reader (reader.c) that can be replaced by one that begins elsewhere, and what has
   been given so far.

   A call that waits holds no lock, so that the others answer meanwhile.  One thread at a time, the
   leader, waits for the reader's next batch; the others wait for its turn to end.  All look again
   after a stop, which is what a close begins with, and the leader after a seek. */
#include "pull/loader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/ledger.h"
#include "pull/reader.h"
#include "pull/state.h"

struct mr_loader {
  uint32_t forks;
  int wake, turn; /* eventfds: written to by mr_loader_stop; and where the leader has left others */
  mr_atomic_int_t stopped;
  char *graph, **set; /* how it was opened, for readers that begin elsewhere */
  mr_loader_settings_t settings;
  mr_spec_t spec; /* the same whenever it is built */
  int64_t steps;
  pthread_mutex_t lock; /* of the rest */
  pthread_cond_t left;
  int inside, following;      /* threads that wait; those of them that do not lead */
  mr__reader_t *reader, *led; /* led: the one that the leader waits for; NULL: none leads */
  const mr_batch_t *newest;   /* NULL: none, or given back */
  mr_stream_at_t at;
  bool by_number; /* at has no more than the number yet: it follows a seek */
  uint64_t ledger;
  mr_err_t verdict; /* MR_OK: it runs */
  mr_diag_t why;
};

/* ---- opening ---- */

static mr_err_t loader_remember(mr_loader_t *l, const char *graph, const mr_loader_settings_t *from,
                                mr_diag_t *diag) {
  int n = from->n_set;
  if (n < 0 || (n && !from->set))
    return mr_fail(diag, MR_ERR_USAGE, "%d settings, but no texts", n);
  l->settings = *from;
  l->settings.state = NULL;
  l->graph = strdup(graph);
  l->set = calloc((size_t)n + 1, sizeof *l->set);
  bool whole = l->graph && l->set;
  for (int i = 0; i < n && whole; i++) {
    if (!from->set[i]) return mr_fail(diag, MR_ERR_USAGE, "setting %d of %d is NULL", i + 1, n);
    whole = (l->set[i] = strdup(from->set[i])) != NULL;
  }
  l->settings.set = (const char *const *)l->set;
  if (from->stage) whole &= (l->settings.stage = strdup(from->stage)) != NULL;
  return whole ? MR_OK : mr_no_memory(diag, "the settings of a stream");
}

static void loader_forget(mr_loader_t *l) {
  for (char **at = l->set; at && *at; at++) free(*at);
  free(l->set), free(l->graph);
  free((char *)(uintptr_t)l->settings.stage);
}

/* Makes the reader begin where a text says. */
static mr_err_t begin_at_state(mr_loader_t *l, mr__reader_t *r, const char *text, mr_diag_t *diag) {
  mr_stream_state_t st;
  mr_diag_t why = {0};
  mr_err_t e = mr_stream_state_read(text, strlen(text), &st, &why);
  if (e < 0) e = mr_diag_prefix(diag, e, &why, "state");
  if (e >= 0) e = mr_stream_state_fits(mr__reader_graph(r), mr__reader_spec(r), &st, diag);
  if (e >= 0)
    e = st.by_number ? mr__reader_seek(r, st.at.number, diag) : mr__reader_resume(r, &st.at, diag);
  l->at = st.at, l->by_number = st.by_number;
  l->ledger = strtoull(st.ledger, NULL, 16);
  mr_stream_state_free(&st);
  return e;
}

static mr_err_t open_reader(mr_loader_t *l, const char *state, mr_diag_t *diag) {
  mr__reader_t *r;
  MR_TRY(mr__reader_build(l->graph, &l->settings, &r, diag));
  mr_err_t e = state ? begin_at_state(l, r, state, diag) : MR_OK;
  if (e >= 0) e = mr__reader_start(r, diag);
  if (e < 0) {
    mr__reader_leave(r);
    return e;
  }
  l->reader = r;
  l->spec = *mr__reader_spec(r), l->steps = mr__reader_steps(r);
  /* What these point to is the reader's, which a seek replaces. */
  l->spec.dataset = NULL, l->spec.device = NULL;
  for (int f = 0; f < l->spec.n_fields; f++) l->spec.field[f].classes = NULL;
  return MR_OK;
}

mr_err_t mr_loader_open(const char *graph, const mr_loader_settings_t *settings,
                        mr_loader_t **loader, mr_diag_t *diag) {
  static const mr_loader_settings_t usual;
  mr_loader_t *l = calloc(1, sizeof *l);
  *loader = NULL;
  if (!l) return mr_no_memory(diag, "a stream");
  if (!settings) settings = &usual;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->left, NULL);
  atomic_init(&l->stopped, 0);
  l->forks = mr_forks();
  l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  l->turn = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  mr_err_t e = l->wake >= 0 && l->turn >= 0
                   ? loader_remember(l, graph, settings, diag)
                   : mr_fail(diag, MR_ERR_IO, "cannot make an eventfd: %s", strerror(errno));
  if (e >= 0) e = open_reader(l, settings->state, diag);
  if (e < 0)
    mr_loader_close(l);
  else
    *loader = l;
  return e;
}

/* ---- the calls ---- */

static bool is_of_parent(const mr_loader_t *l) { return l->forks != mr_forks(); }

static mr_err_t refuse_in_child(mr_diag_t *diag) {
  return mr_fail(
      diag, MR_ERR_USAGE,
      "the stream was opened by the process that this one was forked from, which has its "
      "threads: open it anew here, from its state or with a share of its own (host)");
}

/* Gives the newest batch back, unless the caller keeps it. */
static void drop_newest(mr_loader_t *l) {
  mr_batch_drop(l->newest);
  l->newest = NULL;
}

static mr_err_t give_batch(mr_loader_t *l, mr_buf_t *buf, const mr_batch_t **batch,
                           mr_diag_t *diag) {
  mr_stream_at_pass(&l->at, &l->spec, buf);
  l->by_number = false;
  l->ledger = mr_ledger_step(l->ledger, l->at.number, buf->key, buf->draw, buf->n, 0);
  *batch = mr__reader_batch(l->reader, buf, l->at.number);
  if (*batch) return MR_OK;
  l->verdict = mr_no_memory(&l->why, "a batch"); /* it is passed: none may follow it */
  return mr_diag_relay(diag, l->verdict, &l->why);
}

static void event_write(int fd) {
  uint64_t one = 1;
  ssize_t n = write(fd, &one, sizeof one); /* fails only when it is readable 2^64 times */
  (void)n;
}

static void event_clear(int fd) {
  uint64_t count;
  ssize_t n = read(fd, &count, sizeof count);
  (void)n;
}

/* Waits, without the lock, until the leader has gone. */
static mr_err_t follow_leader(mr_loader_t *l, int ms) {
  struct pollfd p[] = {{.fd = l->wake, .events = POLLIN}, {.fd = l->turn, .events = POLLIN}};
  l->following++;
  pthread_mutex_unlock(&l->lock);
  bool signalled = poll(p, 2, ms) < 0 && errno == EINTR;
  pthread_mutex_lock(&l->lock);
  l->following--;
  event_clear(l->turn);
  return signalled ? MR_AGAIN : MR_OK;
}

/* Waits, without the lock, for a batch of the reader. */
static mr_err_t lead_wait(mr_loader_t *l, int ms, mr_diag_t *diag) {
  mr__reader_t *r = l->led = l->reader;
  pthread_mutex_unlock(&l->lock);
  mr_err_t e = mr__reader_wait(r, l->wake, ms, diag);
  pthread_mutex_lock(&l->lock);
  l->led = NULL;
  return e;
}

/* MR_OK: there may be news.  MR_AGAIN: nothing yet, but the time is over, or a signal came that the
   caller wants to know of. */
static mr_err_t wait_for_news(mr_loader_t *l, int64_t until_ns, bool bounded, mr_diag_t *diag) {
  int ms = -1;
  if (bounded && until_ns != INT64_MAX) {
    int64_t left = until_ns - mr_now_ns();
    if (left <= 0) return MR_AGAIN;
    ms = left > INT64_C(1000000) * INT32_MAX ? INT32_MAX : (int)((left + 999999) / 1000000);
  }
  l->inside++;
  mr_err_t e = l->led ? follow_leader(l, ms) : lead_wait(l, ms, diag);
  l->inside--;
  pthread_cond_broadcast(&l->left);
  return e == MR_AGAIN && !bounded ? MR_OK : e;
}

/* acquire pairs with the release in mr_loader_stop. */
static bool loader_is_stopped(const mr_loader_t *l) {
  return atomic_load_explicit(&l->stopped, memory_order_acquire);
}

static mr_err_t refuse_more(const mr_loader_t *l, int kept, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_USAGE,
                 "%d batches of the stream are kept, and keep=%d allows no more: drop one before "
                 "the next, or open the stream with a larger keep",
                 kept, l->settings.keep);
}

static mr_err_t take_or_wait(mr_loader_t *l, int64_t until_ns, bool bounded,
                             const mr_batch_t **batch, mr_diag_t *diag) {
  for (bool waited = false;;) {
    mr_buf_t *buf = NULL;
    if (loader_is_stopped(l)) return mr_fail(diag, MR_ERR_CANCEL, "the stream was stopped");
    if (l->verdict != MR_OK) return mr_diag_relay(diag, l->verdict, &l->why);
    if (mr__reader_out(l->reader) > l->settings.keep)
      return refuse_more(l, mr__reader_out(l->reader), diag);
    mr_err_t e = l->led ? MR_AGAIN : mr__reader_take(l->reader, &buf);
    if (buf) return give_batch(l, buf, batch, diag);
    if (e == MR_END) l->verdict = mr__reader_verdict(l->reader, &l->why);
    if (e != MR_AGAIN) continue;
    if (waited) event_clear(l->wake); /* of a stop that a seek has undone */
    /* A stop since the look above has lost its event to that, and other threads may wait for it. */
    if (loader_is_stopped(l)) {
      mr_loader_stop(l);
      continue;
    }
    e = wait_for_news(l, until_ns, bounded, diag);
    if (e != MR_OK) return e;
    waited = true;
  }
}

static mr_err_t take_locked(mr_loader_t *l, int64_t until_ns, bool bounded,
                            const mr_batch_t **batch, mr_diag_t *diag) {
  mr_err_t e = take_or_wait(l, until_ns, bounded, batch, diag);
  if (l->following && !l->led) event_write(l->turn); /* one of them leads from here on */
  return e;
}

mr_err_t mr_loader_next(mr_loader_t *l, const mr_batch_t **batch, mr_diag_t *diag) {
  *batch = NULL;
  if (is_of_parent(l)) return refuse_in_child(diag);
  pthread_mutex_lock(&l->lock);
  drop_newest(l);
  mr_err_t e = take_locked(l, INT64_MAX, false, batch, diag);
  if (e == MR_OK) {
    drop_newest(l); /* of a call of another thread meanwhile */
    l->newest = *batch;
  }
  pthread_mutex_unlock(&l->lock);
  return e;
}

mr_err_t mr_loader_take(mr_loader_t *l, int ms, const mr_batch_t **batch, mr_diag_t *diag) {
  int64_t until = ms < 0 ? INT64_MAX : mr_now_ns() + (int64_t)ms * 1000000;
  *batch = NULL;
  if (is_of_parent(l)) return refuse_in_child(diag);
  pthread_mutex_lock(&l->lock);
  mr_err_t e = take_locked(l, until, true, batch, diag);
  pthread_mutex_unlock(&l->lock);
  return e;
}

int mr_loader_kept(mr_loader_t *l) {
  if (is_of_parent(l)) return 0;
  pthread_mutex_lock(&l->lock);
  int n = mr__reader_out(l->reader) - (l->newest != NULL);
  pthread_mutex_unlock(&l->lock);
  return n;
}

void mr_loader_stop(mr_loader_t *l) {
  int before = errno;
  if (is_of_parent(l)) return;
  /* release pairs with the acquire in loader_is_stopped; a call that clears the eventfd looks
     whether the stream was stopped before it waits. */
  atomic_store_explicit(&l->stopped, 1, memory_order_release);
  event_write(l->wake);
  errno = before;
}

mr_err_t mr_loader_seek(mr_loader_t *l, int64_t step, mr_diag_t *diag) {
  mr__reader_t *r;
  if (is_of_parent(l)) return refuse_in_child(diag);
  MR_TRY(mr__reader_build(l->graph, &l->settings, &r, diag));
  mr_err_t e = mr__reader_seek(r, step, diag);
  if (e >= 0) e = mr__reader_start(r, diag);
  if (e < 0) {
    mr__reader_leave(r);
    return e;
  }
  pthread_mutex_lock(&l->lock);
  mr__reader_t *old = l->reader;
  drop_newest(l);
  l->reader = r;
  l->at = (mr_stream_at_t){.number = step};
  l->by_number = step > 0;
  l->ledger = 0, l->verdict = MR_OK, l->why = (mr_diag_t){0};
  atomic_store_explicit(&l->stopped, 0, memory_order_release); /* as in mr_loader_stop */
  mr__reader_cancel(old);
  while (l->led == old) pthread_cond_wait(&l->left, &l->lock);
  pthread_mutex_unlock(&l->lock);
  mr__reader_leave(old);
  return MR_OK;
}

mr_err_t mr_loader_state(mr_loader_t *l, char **text, mr_diag_t *diag) {
  *text = NULL;
  if (is_of_parent(l)) return refuse_in_child(diag);
  pthread_mutex_lock(&l->lock);
  mr_err_t e = mr_stream_state_write(mr__reader_graph(l->reader), &l->spec, &l->at, l->by_number,
                                     l->ledger, text, diag);
  pthread_mutex_unlock(&l->lock);
  return e;
}

mr_err_t mr_loader_describe(mr_loader_t *l, const char *what, char **text, mr_diag_t *diag) {
  *text = NULL;
  if (is_of_parent(l)) return refuse_in_child(diag);
  pthread_mutex_lock(&l->lock);
  mr_err_t e = mr__reader_describe(l->reader, what, text, diag);
  pthread_mutex_unlock(&l->lock);
  return e;
}

int64_t mr_loader_step(mr_loader_t *l) {
  if (is_of_parent(l)) return l->at.number;
  pthread_mutex_lock(&l->lock);
  int64_t step = l->at.number;
  pthread_mutex_unlock(&l->lock);
  return step;
}

uint64_t mr_loader_ledger(mr_loader_t *l) {
  if (is_of_parent(l)) return l->ledger;
  pthread_mutex_lock(&l->lock);
  uint64_t ledger = l->ledger;
  pthread_mutex_unlock(&l->lock);
  return ledger;
}

int64_t mr_loader_steps(mr_loader_t *l) { return l->steps; }
int64_t mr_loader_epoch_steps(mr_loader_t *l) { return l->spec.n_batches; }
int64_t mr_loader_epoch_records(mr_loader_t *l) { return l->spec.n_records; }
const mr_spec_t *mr_loader_spec(mr_loader_t *l) { return &l->spec; }

void mr_loader_close(mr_loader_t *l) {
  if (!l) return;
  bool mine = !is_of_parent(l);
  if (mine) {
    mr_loader_stop(l);
    pthread_mutex_lock(&l->lock);
    while (l->inside) pthread_cond_wait(&l->left, &l->lock);
    drop_newest(l);
    pthread_mutex_unlock(&l->lock);
    mr__reader_leave(l->reader);
    pthread_cond_destroy(&l->left);
    pthread_mutex_destroy(&l->lock);
  }
  if (l->wake >= 0) close(l->wake);
  if (l->turn >= 0) close(l->turn);
  loader_forget(l);
  free(l);
}
