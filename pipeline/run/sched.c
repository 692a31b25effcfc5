/* Runs a settled graph: wires it, opens its stages, runs one thread for each worker, and closes
   everything in reverse. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/forks.h"
#include "base/halt.h"
#include "base/text.h"
#include "pipeline/records/care_private.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"

/* Once a run is to end, its stages may wait for what is outside until ENDS_MS later; for CLOSE_MS,
   all together, if that time went by before they are closed. */
enum { ENDS_MS = 1500, CLOSE_MS = 500 };

/* ---- ending ---- */

/* acquire pairs with mr__wire's release: the wait objects exist. */
static void wake_all(mr_graph_t *g) {
  int n = atomic_load_explicit(&g->n_waits, memory_order_acquire);
  for (int i = 0; i < n; i++) mr_wait_wake(g->wait[i]);
}

void mr_graph_stop(mr_graph_t *g) {
  /* seq_cst: before the loads of parked flags, as wait.h requires; cancel likewise. */
  atomic_exchange_explicit(&g->stop, 1, memory_order_seq_cst);
  wake_all(g);
}

void mr_graph_cancel(mr_graph_t *g) {
  atomic_exchange_explicit(&g->cancel, 1, memory_order_seq_cst);
  wake_all(g);
}

/* Keeps the first failure, then cancels the graph. */
static void fail_graph(mr_graph_t *g, mr_stage_t *s, mr_err_t code) {
  mr_err_t reported = s->diag->code;
  assert(code < 0);
  if (code == MR_ERR_CANCEL && reported >= 0 &&
      atomic_load_explicit(&g->cancel, memory_order_seq_cst))
    return; /* another stage's failure ended it */
  if (reported >= 0) mr_stage_fail(s, code, "%s", mr_err_text(code));
  pthread_mutex_lock(&g->lock);
  if (g->failure.code >= 0) g->failure = *s->diag;
  pthread_mutex_unlock(&g->lock);
  mr_graph_cancel(g);
}

/* ---- threads ---- */

/* Whether a wait ended early because an orderly end was asked for: no failure, and nothing of what
   was waited for has been given. */
static bool is_given_up(const mr_runtime_t *rt, mr_err_t e) {
  return e == MR_ERR_CANCEL && mr_stopping(rt->s) && !mr__cancelled(rt);
}

/* relaxed: a thread that others no longer wait for only ends (stuck.c). */
static bool is_given_up_on(const mr_runtime_t *rt) {
  return atomic_load_explicit(&rt->lost, memory_order_relaxed);
}

/* Waits only after MR_AGAIN twice without news in between, so that no news is overlooked. */
static mr_err_t run_steps(mr_runtime_t *rt) {
  uint64_t mark = 0;
  bool marked = false;
  for (;;) {
    if (mr__cancelled(rt)) return MR_ERR_CANCEL;
    if (is_given_up_on(rt)) return MR_END;
    mr_err_t e = rt->node->def->step->run(rt->s);
    assert(e <= MR_END);
    if (is_given_up(rt, e)) return *rt->s->diag = (mr_diag_t){0}, MR_END;
    if (e < 0 || e == MR_END) return e;
    if (e == MR_OK) {
      marked = false;
    } else if (!marked) {
      mark = mr__news(rt), marked = true;
    } else {
      mr__wait_news(rt, mark);
      marked = false;
    }
  }
}

static void *worker_main(void *arg) {
  mr_runtime_t *rt = arg;
  char name[16];
  mr_halt_set(mr__graph_halt(rt->g));
  assert(rt->s->rt == rt && rt->s->worker < rt->node->n_workers);
  snprintf(name, sizeof name, "%.11s/%d", rt->node->name, rt->s->worker % 100);
  pthread_setname_np(pthread_self(), name);
  int tid = (int)gettid();
  /* relaxed, here and at the end: the numbers are independent (runtime_private.h). */
  atomic_store_explicit(&rt->count.tid, tid, memory_order_relaxed);
  atomic_store_explicit(&rt->count.start_ns, mr_now_ns(), memory_order_relaxed);
  mr_err_t e = run_steps(rt);
  if (e < 0 && !is_given_up_on(rt)) fail_graph(rt->g, rt->s, e);
  if (rt->node->def->step->left && !is_given_up_on(rt)) rt->node->def->step->left(rt->s);
  mr__durable_leave(rt);
  mr__leave(rt);
  mr_thread_time_t t = mr_thread_time(tid);
  atomic_store_explicit(&rt->count.delay_ns, t.delay_ns, memory_order_relaxed);
  atomic_store_explicit(&rt->count.cpu_ns, t.cpu_ns, memory_order_relaxed);
  atomic_store_explicit(&rt->count.end_ns, mr_now_ns(), memory_order_relaxed);
  pthread_mutex_lock(&rt->g->lock);
  rt->over = true;
  pthread_cond_signal(&rt->g->ended);
  pthread_mutex_unlock(&rt->g->lock);
  return NULL;
}

/* Signals from outside go to the program's threads, not to a worker.  Those that a worker's own
   instruction raises must reach it: reader_mmap.c recovers from SIGBUS, and where such a signal is
   blocked the kernel ends the process. */
static void block_signals(sigset_t *before) {
  static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t outside;
  sigfillset(&outside);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&outside, own[i]);
  pthread_sigmask(SIG_BLOCK, &outside, before);
}

static int n_threads_of(const mr__node_t *node) {
  return node->def->step && node->def->step->pulled ? 0 : node->n_workers;
}

/* The program that joins a graph takes nothing more from it. */
static void leave_pulled(mr_graph_t *g) {
  for (int i = 0; i < g->n_nodes; i++) {
    mr_runtime_t *rt = g->node[i]->rt; /* without its ports where memory was short */
    if (n_threads_of(g->node[i]) < g->node[i]->n_workers && rt && rt->in) mr__leave(rt);
  }
}

static mr_err_t sched_start_threads(mr_graph_t *g, mr_diag_t *diag) {
  sigset_t before;
  mr_err_t e = MR_OK;
  block_signals(&before);
  for (int i = 0; i < g->n_nodes && e == MR_OK; i++) {
    for (int w = 0; w < n_threads_of(g->node[i]) && e == MR_OK; w++) {
      mr_runtime_t *rt = &g->node[i]->rt[w];
      int err = pthread_create(&rt->thread, NULL, worker_main, rt);
      rt->running = !err;
      if (err)
        e = mr_fail(diag, MR_ERR_IO, "%s: cannot start a thread: %s", g->node[i]->name,
                    strerror(err));
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return e;
}

/* Stages are opened and closed in the caller's thread.  If they write to a pipe without a reader,
   the write must fail without ending the caller's process. */
static void hold_sigpipe(sigset_t *before) {
  sigset_t pipe;
  sigemptyset(&pipe), sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, before);
}

static void drop_sigpipe(const sigset_t *before) {
  sigset_t pipe;
  if (!sigismember(before, SIGPIPE)) {
    sigemptyset(&pipe), sigaddset(&pipe, SIGPIPE);
    while (sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

static mr_err_t open_stages(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++) {
    mr__node_t *node = g->node[g->order[i]];
    mr_diag_t *kept = node->worker->diag;
    mr_diag_t why = {0};
    if (!mr__lineage_opens(g, node->def)) continue;
    assert(!node->opened);
    node->opened = true;
    node->worker->diag = &why;
    mr_err_t e = mr__care_open(node->worker);
    if (e >= 0 && node->def->open) e = node->def->open(node->worker);
    node->worker->diag = kept;
    if (e < 0 && why.code >= 0) return mr_diag_prefix(diag, e, &why, "%s", node->name);
    if (e < 0) return mr_diag_relay(diag, e, &why);
  }
  return MR_OK;
}

/* A thread that is stuck uses its stage, and the records' stages that lead to it. */
static bool is_in_use(const mr_graph_t *g, const mr__node_t *node) {
  if (!g->n_stuck) return false;
  for (int w = 0; w < node->n_workers; w++)
    if (node->rt[w].running) return true;
  return !node->n_workers;
}

static void close_stages(mr_graph_t *g) {
  int64_t least = mr_now_ns() + CLOSE_MS * INT64_C(1000000),
          until = g->asked_ns + ENDS_MS * INT64_C(1000000);
  mr_halt_t halt = mr__graph_halt(g);
  halt.until_ns = until > least ? until : least;
  mr_halt_t outer = mr_halt_set(halt);
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    mr__node_t *node = g->node[g->order[i]];
    if (is_in_use(g, node)) continue;
    if (node->opened && node->def->close) node->def->close(node->worker);
    if (node->opened) mr__care_close(node->worker);
    node->opened = false;
  }
  mr_halt_set(outer);
}

/* Fails with the first verdict that is a failure. */
static mr_err_t hear_verdicts(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++) {
    mr_stage_t *s = g->node[i]->worker;
    mr_err_t e = g->node[i]->def->verdict ? g->node[i]->def->verdict(s) : MR_OK;
    if (e < 0) return mr_diag_relay(diag, e, s->diag);
  }
  return MR_OK;
}

/* The stage whose setting max-bytes= makes a record of the batches so large; NULL without one. */
static const char *setter_of_size(const mr_graph_t *g, const mr_spec_t *batches) {
  for (int i = 0; i < g->n_nodes; i++) {
    const mr__node_t *node = g->node[i];
    if (mr_spec_bytes(&node->worker->out_spec[0]) < mr_spec_bytes(batches) / (size_t)batches->batch)
      continue;
    for (const mr_opt_t *o = node->def->opts; o && o->name; o++)
      if (!strcmp(o->name, "max-bytes")) return node->name;
  }
  return NULL;
}

/* Names the largest batches, and what makes them smaller. */
static mr_err_t fail_without_buffers(const mr_graph_t *g, mr_diag_t *diag) {
  const mr__node_t *most = NULL;
  char bytes[24];
  size_t n = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const mr_spec_t *spec = &g->node[i]->worker->out_spec[0];
    if (spec->flow != MR_FLOW_BATCHES || mr_spec_bytes(spec) <= n) continue;
    most = g->node[i], n = mr_spec_bytes(spec);
  }
  if (!most) return mr_no_memory(diag, "the buffers of the graph");
  const char *setter = setter_of_size(g, &most->worker->out_spec[0]);
  return mr_no_memory(
      diag, "the buffers of the graph; one of %s has %s: a smaller batch%s%s%s needs less",
      most->name, mr_bytes_text(n, bytes), setter ? ", or max-bytes= of " : "",
      setter ? setter : "", setter ? "," : "");
}

mr_err_t mr_graph_start(mr_graph_t *g, mr_diag_t *diag) {
  MR_TRY(mr_graph_settle(g, diag));
  if (g->started) return mr_fail(diag, MR_ERR_USAGE, "the graph has run already");
  MR_TRY(mr__resume_check(g, diag));
  MR_TRY(mr__memory_check(g, diag));
  g->started = true;
  g->forks = mr_forks();
  assert(g->order);
  mr_err_t e = mr__wire(g);
  if (e < 0) return fail_without_buffers(g, diag);
  sigset_t before;
  hold_sigpipe(&before);
  mr_halt_t outer = mr_halt_set(mr__graph_halt(g));
  e = open_stages(g, diag);
  mr_halt_set(outer);
  drop_sigpipe(&before);
  g->start_ns = mr_now_ns(), g->start_cpu_ns = mr_cpu_ns();
  g->start_all_ns = mr_processors_ns();
  if (e >= 0) e = sched_start_threads(g, diag);
  if (e >= 0) return MR_OK;
  mr_graph_cancel(g);
  mr__join_threads(g);
  hold_sigpipe(&before);
  close_stages(g);
  drop_sigpipe(&before);
  g->joined = true;
  return e;
}

bool mr__graph_is_of_parent(const mr_graph_t *g) {
  return g->started && !g->joined && g->forks != mr_forks();
}

mr_err_t mr_graph_join(mr_graph_t *g, mr_diag_t *diag) {
  if (!g->started || g->joined) return MR_OK;
  if (mr__graph_is_of_parent(g))
    return mr_fail(
        diag, MR_ERR_USAGE,
        "the graph was started by the process that this one was forked from, which has "
        "its threads, files and links: join it there, and start a graph of your own here");
  leave_pulled(g);
  mr__join_threads(g);
  g->end_cpu_ns = mr_cpu_ns(), g->end_all_ns = mr_processors_ns();
  /* release pairs with the acquire in diagnose.c: the times before it are visible. */
  atomic_store_explicit(&g->end_ns, mr_now_ns(), memory_order_release);
  sigset_t before;
  hold_sigpipe(&before);
  close_stages(g);
  drop_sigpipe(&before);
  g->joined = true;
  if (g->failure.code < 0) return mr_diag_relay(diag, g->failure.code, &g->failure);
  /* Every thread is joined, so any order would do. */
  if (atomic_load_explicit(&g->cancel, memory_order_seq_cst))
    return mr_fail(diag, MR_ERR_CANCEL, "the graph was cancelled");
  return hear_verdicts(g, diag);
}

mr_err_t mr_graph_run(mr_graph_t *g, mr_diag_t *diag) {
  MR_TRY(mr_graph_start(g, diag));
  return mr_graph_join(g, diag);
}

void mr_graph_report(const mr_graph_t *g, FILE *out) {
  for (int i = 0; i < g->n_nodes; i++) {
    char text[512] = "";
    const mr__node_t *node = g->node[i];
    if (node->def->report) node->def->report(node->worker, text, sizeof text);
    if (*text) fprintf(out, "%s: %s\n", node->name, text);
    if (*node->nothing) fprintf(out, "%s: gave nothing: %s\n", node->name, node->nothing);
    mr__care_report(node->worker, text, sizeof text);
    if (*text) fprintf(out, "%s: %s\n", node->name, text);
  }
}

/* ---- destroy ---- */

static void destroy_node(mr__node_t *node) {
  mr__node_forget(node);
  free(node->set), free(node->state), mr__workers_free(node->worker), free(node->start_word);
  free(node->ports), free(node->edge_in);
  free(node->reported);
  free(node);
}

void mr_graph_destroy(mr_graph_t *g) {
  if (!g || mr__graph_is_of_parent(g)) return; /* threads of the parent use what it has */
  if (g->started && !g->joined) {
    mr_graph_cancel(g);
    mr_graph_join(g, NULL);
  }
  if (g->n_stuck) return; /* threads that may come back use what it has */
  mr__unwire(g);
  for (int i = 0; i < g->n_nodes; i++) destroy_node(g->node[i]);
  for (int i = 0; i < g->n_processes; i++) destroy_node(g->process[i]);
  free(g->process);
  free(g->plugin);
  for (mr__node_t *next; g->dropped; g->dropped = next) {
    next = g->dropped->next_dropped;
    destroy_node(g->dropped);
  }
  while (g->texts) {
    mr__text_t *next = g->texts->next;
    free(g->texts);
    g->texts = next;
  }
  free(g->node), free(g->edge), free(g->var), free(g->order);
  mr__names_forget(g);
  if (g->sample) g->free_sample(g->sample);
  pthread_mutex_destroy(&g->lock);
  pthread_mutex_destroy(&g->commit_lock);
  pthread_cond_destroy(&g->answered);
  pthread_cond_destroy(&g->ended);
  free(g);
}
