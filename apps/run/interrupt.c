/* What Ctrl-C and the supervisor's signals do to a running graph.  The handlers only post a
   semaphore, since almost nothing is allowed in one; a listener thread stops the graph in order,
   and a second signal some seconds later ends the process at once.  So does the first one while the
   graph is planned: no record has been made then, and indexes and downloads are written whole or
   not at all. */
#include "apps/run/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/xio.h"
#include "loaders/local/reader.h"
#include "model/exec/process_ranks.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/train/train_stage.h"

void mr_notice_reader(void) {
  static atomic_bool said; /* relaxed: it only decides which caller prints */
  const char *why = mr_reader_fallback_seen();
  if (why && !atomic_exchange_explicit(&said, true, memory_order_relaxed))
    fprintf(stderr, "millrace: %s\n", why);
}

enum { TIMELINE_EVENTS = 1 << 16 /* 2 MB per worker */ };
enum { ORDERLY = 1, AT_ONCE = 2 };
enum { STARTING_MS = 1500 }; /* for stages that are being opened when the run is to end */
enum { ORDER = SIGUSR2 };    /* sent by the supervisor with one of these two as its value */

/* The signals received.  The handler only records them.  A thread that ends before the graph does
   stops the graph, so that no handler ever refers to a destroyed graph.

   All accesses are seq_cst: a handler stores end_by and then loads listening; the other side stores
   listening and then loads end_by, so at least one of them sees the other's store.  Signals are
   rare, so the cost does not matter. */
static struct {
  sem_t news;
  _Atomic int64_t first_ns; /* when the first signal came; 0: none did */
  atomic_int end_by;        /* the signal that ends the process at once; 0: none */
  atomic_int first;         /* the first signal's number; 0: none came */
  atomic_bool save;         /* SIGUSR1 came, and no state has been asked for since */
  atomic_bool asked_above;  /* the request came from the supervisor, not from a user */
  atomic_bool listening;    /* a graph runs, and a thread waits for news */
  atomic_bool planning;     /* a later graph is planned, which looks at no request */
  atomic_bool starting;     /* the stages are opened: nothing has been made yet */
  bool ready;               /* news is initialised and the handlers are set */
} heard;

/* Ends the process by the signal's default action. */
static void end_by(int signo) {
  sigset_t it;
  sigemptyset(&it), sigaddset(&it, signo);
  signal(signo, SIG_DFL);
  raise(signo);
  pthread_sigmask(SIG_UNBLOCK, &it, NULL);
}

static void interrupt_on_signal(int signo, siginfo_t *info, void *context) {
  int kept = errno;
  int64_t now = mr_now_ns(), first = 0;
  if (signo == SIGUSR1) {
    atomic_store_explicit(&heard.save, true, memory_order_seq_cst);
    sem_post(&heard.news);
    errno = kept;
    return;
  }
  int order = signo == ORDER && info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
  bool is_first = atomic_compare_exchange_strong_explicit(
      &heard.first_ns, &first, now, memory_order_seq_cst, memory_order_seq_cst);
  bool second = !is_first && now - first >= MR_INTERRUPT_GRACE_MS * INT64_C(1000000);
  if (is_first) atomic_store_explicit(&heard.first, signo, memory_order_seq_cst);
  if (order == ORDERLY && is_first)
    atomic_store_explicit(&heard.asked_above, true, memory_order_seq_cst);
  if (order == AT_ONCE || (!order && second))
    atomic_store_explicit(&heard.end_by, signo, memory_order_seq_cst);
  if (atomic_load_explicit(&heard.planning, memory_order_seq_cst)) {
    if (order) _exit(MR_EXIT_STOPPED);
    end_by(signo);
  }
  if (atomic_load_explicit(&heard.end_by, memory_order_seq_cst) &&
      !atomic_load_explicit(&heard.listening, memory_order_seq_cst))
    end_by(signo);
  sem_post(&heard.news);
  errno = kept;
}

static void say_stopping(const mr_graph_t *g) {
  fprintf(stderr,
          mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, 0)
              ? "millrace: stopping after this step, with a checkpoint; Ctrl-C again, from %d "
                "seconds on, ends at once without one\n"
              : "millrace: stopping in order; Ctrl-C again, from %d seconds on, ends at once\n",
          MR_INTERRUPT_GRACE_MS / 1000);
}

/* SIGUSR1: a checkpoint, and on.  Of ranks that are processes the first one writes it; any of them
   may be asked, as engines signal some or all. */
static void ask_for_checkpoint(const mr_graph_t *g) {
  const mr_process_ranks_t *ranks = mr_process_ranks();
  bool keeps = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, 0), other = ranks && ranks->rank;
  bool asks = mr_train_stage(g) && (keeps || other);
  if (asks) mr_train_ask_states();
  if (!asks)
    fputs("millrace: SIGUSR1: nothing here writes a checkpoint\n", stderr);
  else if (!other)
    fputs("millrace: writing a checkpoint after this step\n", stderr);
}

/* Waits for news; false after STARTING_MS without any while stages are still being opened. */
static bool await_news(bool stopped) {
  struct timespec until;
  if (!stopped || !atomic_load_explicit(&heard.starting, memory_order_seq_cst)) {
    while (sem_wait(&heard.news) < 0) continue;
    return true;
  }
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += STARTING_MS % 1000 * 1000000L;
  until.tv_sec += STARTING_MS / 1000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  while (sem_clockwait(&heard.news, CLOCK_MONOTONIC, &until) < 0)
    if (errno == ETIMEDOUT) return !atomic_load_explicit(&heard.starting, memory_order_seq_cst);
  return true;
}

static void *await_signals(void *graph) {
  for (bool stopped = false;;) {
    if (!await_news(stopped)) { /* a stage waits in the kernel, which asks nothing */
      fputs("millrace: a stage is still being opened; the run ends before its first step\n",
            stderr);
      if (atomic_load_explicit(&heard.asked_above, memory_order_seq_cst)) _exit(MR_EXIT_STOPPED);
      end_by(atomic_load_explicit(&heard.first, memory_order_seq_cst));
    }
    if (!atomic_load_explicit(&heard.listening, memory_order_seq_cst)) return NULL;
    int signo = atomic_load_explicit(&heard.end_by, memory_order_seq_cst);
    if (signo) {
      mr_checkpoints_finish();
      end_by(signo);
    }
    if (atomic_exchange_explicit(&heard.save, false, memory_order_seq_cst))
      ask_for_checkpoint(graph);
    if (stopped || !atomic_load_explicit(&heard.first_ns, memory_order_seq_cst)) continue;
    mr_graph_stop(graph);
    if (!atomic_load_explicit(&heard.asked_above, memory_order_seq_cst)) say_stopping(graph);
    stopped = true;
  }
}

static void set_handlers(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, ORDER};
  struct sigaction act = {.sa_sigaction = interrupt_on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
  if (heard.ready) return;
  sigfillset(&act.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &act, NULL);
  heard.ready = true;
}

/* Starts the listener, with all signals blocked in it, and on the first call sets the handlers.
   Returns 0 or errno. */
static int start_listening(mr_graph_t *g, pthread_t *t) {
  sigset_t all, before;
  if (!heard.ready) sem_init(&heard.news, 0, 0);
  atomic_store_explicit(&heard.listening, true, memory_order_seq_cst);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int e = pthread_create(t, NULL, await_signals, g);
  if (e) atomic_store_explicit(&heard.listening, false, memory_order_seq_cst);
  if (!e) set_handlers();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!e) sem_post(&heard.news); /* for a signal that came before this graph */
  return e;
}

static void stop_listening(pthread_t t) {
  atomic_store_explicit(&heard.listening, false, memory_order_seq_cst);
  sem_post(&heard.news);
  pthread_join(t, NULL);
}

void mr_interrupt_process(pid_t pid, bool at_once) {
  sigqueue(pid, ORDER, (union sigval){.sival_int = at_once ? AT_ONCE : ORDERLY});
}

/* Runs the graph and what look requests.  mr_notice_reader is called twice because readers are
   opened with the graph or by a worker with its first record. */
static mr_err_t interrupt_run(mr_graph_t *g, const mr_look_t *look, mr_diag_t *diag) {
  if (look->trace) {
    MR_TRY(mr_file_writable(look->trace, diag)); /* fail now, not after hours */
    mr_timeline_keep(g, TIMELINE_EVENTS);
  }
  mr_err_t started = mr_graph_start(g, diag);
  atomic_store_explicit(&heard.starting, false, memory_order_seq_cst);
  if (started < 0) return started;
  mr_notice_reader();
  mr_observer_t *live = look->explain ? mr_observe_begin(g) : NULL;
  mr_err_t e = mr_graph_join(g, diag);
  mr_observe_end(live);
  mr_notice_reader();
  if (e >= 0 && look->says) mr_observe_run(g);
  if (e >= 0 && look->trace) e = mr_look_write_trace(g, look->trace, diag);
  return e;
}

int mr_interrupt_status(void) {
  int first = atomic_load_explicit(&heard.first, memory_order_seq_cst);
  return first == SIGTERM ? 128 + SIGTERM : MR_EXIT_STOPPED;
}

void mr_writes_fail(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

static mr_err_t interrupt_plan(mr_graph_t *g, mr_diag_t *diag) {
  atomic_store_explicit(&heard.planning, true, memory_order_seq_cst);
  mr_err_t e = mr_graph_settle(g, diag);
  atomic_store_explicit(&heard.planning, false, memory_order_seq_cst);
  return e;
}

mr_err_t mr_run_interruptible(mr_graph_t *g, const mr_look_t *look, bool *stopped,
                              mr_diag_t *diag) {
  static const mr_look_t nothing;
  pthread_t listener;
  *stopped = false;
  mr_writes_fail();
  MR_TRY(interrupt_plan(g, diag)); /* before the handlers: SIGINT ends it by default */
  atomic_store_explicit(&heard.starting, true, memory_order_seq_cst);
  int failed = start_listening(g, &listener);
  if (failed) atomic_store_explicit(&heard.starting, false, memory_order_seq_cst);
  if (failed)
    return mr_fail(diag, MR_ERR_IO, "cannot start the thread that waits for signals: %s",
                   strerror(failed));
  mr_err_t e = interrupt_run(g, look ? look : &nothing, diag);
  atomic_store_explicit(&heard.starting, false, memory_order_seq_cst);
  stop_listening(listener);
  *stopped = atomic_load_explicit(&heard.first_ns, memory_order_seq_cst) != 0;
  return e;
}
