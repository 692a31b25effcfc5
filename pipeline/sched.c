/* Running a settled graph: rings, pools and chains are made, stages opened, one thread a worker. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/care_private.h"
#include "pipeline/others_time.h"
#include "pipeline/runtime_private.h"
#include "pipeline/stage_step.h"
#include "pipeline/standstill_private.h"
#include "pipeline/thread_time.h"
#include "pipeline/trace_private.h"

/* ---- memory ---- */

static mr__timeline_t *make_timeline(int events) {
  mr__timeline_t *t = malloc(sizeof *t + (size_t)events * sizeof *t->event);
  if (t) t->n = 0, t->cap = (uint64_t)events;
  return t;
}

static mr_err_t make_runtimes(mr_graph_t *g, mr__node_t *node) {
  if (!node->n_workers) return MR_OK;
  node->rt = aligned_alloc(64, (size_t)node->n_workers * sizeof *node->rt);
  if (!node->rt) return MR_ERR_NOMEM;
  memset(node->rt, 0, (size_t)node->n_workers * sizeof *node->rt);
  for (int w = 0; w < node->n_workers; w++) {
    mr_runtime_t *rt = &node->rt[w];
    mr_stage_t *s = &node->worker[w];
    rt->g = g, rt->node = node, rt->s = s;
    if (g->timeline_events && !(rt->timeline = make_timeline(g->timeline_events)))
      return MR_ERR_NOMEM;
    s->rt = rt, s->diag = &rt->diag, s->start_position = node->start_position;
    s->start_number = node->start_number, s->start_record = node->start_record;
    s->start_word = node->start_word, s->n_start_words = node->n_start_words;
    for (int p = 0; p < MR_MAX_PORTS; p++) rt->out[p].next = rt->in[p].next = (uint64_t)w;
  }
  return MR_OK;
}

/* Ring (i,j) carries what worker i of the producer has for worker j of the consumer. */
static mr_err_t make_rings(mr_graph_t *g, mr__edge_t *e) {
  mr__node_t *a = g->node[e->from], *b = g->node[e->to];
  if (!a->n_workers) return MR_OK; /* records: a chain */
  size_t depth = mr__edge_depth(g, e);
  e->ring = calloc((size_t)(a->n_workers * b->n_workers), sizeof *e->ring);
  if (!e->ring) return MR_ERR_NOMEM;
  for (int i = 0; i < a->n_workers; i++) {
    for (int j = 0; j < b->n_workers; j++) {
      void *mem = aligned_alloc(64, mr_ring_footprint(depth));
      if (!mem) return MR_ERR_NOMEM;
      mr_ring_t *r = mr_ring_init(mem, depth, &a->rt[i].wait, &b->rt[j].wait);
      if (b->def->in[e->in].lossy) {
        mr_ring_set_lossy(r);
        b->rt[j].wait.patient = true;
      }
      e->ring[i * b->n_workers + j] = r;
    }
  }
  for (int j = 0; j < b->n_workers; j++) {
    mr__in_t *in = &b->rt[j].in[e->in];
    in->ring = e->ring, in->n = a->n_workers, in->stride = b->n_workers;
    b->rt[j].n_in++;
  }
  for (int i = 0; i < a->n_workers; i++) {
    mr__out_t *out = &a->rt[i].out[e->out];
    mr__fan_t *more = realloc(out->edge, (size_t)(out->n_edges + 1) * sizeof *more);
    if (!more) return MR_ERR_NOMEM;
    out->edge = more;
    out->edge[out->n_edges++] = (mr__fan_t){e->ring + i * b->n_workers, b->n_workers};
    a->rt[i].n_out++;
  }
  return MR_OK;
}

static void set_pool(mr_graph_t *g, int i, int port, mr_pool_t *pool) {
  mr__node_t *node = g->node[i];
  mr_wait_t **own = &g->wait[0];
  while (*own != &node->rt->wait) own++;
  mr_pool_destroy(g->pool[i * MR_MAX_PORTS + port]);
  g->pool[i * MR_MAX_PORTS + port] = pool;
  mr__pool_waiters(pool, own, node->n_workers);
  for (int w = 0; w < node->n_workers; w++) node->rt[w].out[port].pool = pool;
}

void mr_use_pool(mr_stage_t *s, int port, mr_pool_t *p) {
  set_pool(s->rt->g, mr__graph_find(s->rt->g, s->name), port, p);
}

/* Whether buffers of this stage may reach an input from which they leave the process. */
static bool may_leave(const mr_graph_t *g, int node, bool *seen) {
  bool leaves = false;
  seen[node] = true;
  for (int i = 0; i < g->n_edges && !leaves; i++) {
    const mr__edge_t *e = &g->edge[i];
    if (e->from != node) continue;
    leaves = g->node[e->to]->def->in[e->in].leaves || (!seen[e->to] && may_leave(g, e->to, seen));
  }
  return leaves;
}

static mr_pool_t *make_pool(const mr_spec_t *spec, size_t n, bool leaves) {
  mr_pool_t *p = leaves ? mr_pool_create_shared(spec, n) : NULL;
  return p ? p : mr_pool_create(spec, n); /* without shared memory buffers travel as messages */
}

static mr_err_t make_pools(mr_graph_t *g, int i) {
  mr__node_t *node = g->node[i];
  if (!node->n_workers) return MR_OK;
  size_t n;
  MR_TRY(mr__pool_size(g, i, &n));
  bool *seen = calloc((size_t)g->n_nodes, sizeof *seen);
  if (!seen) return MR_ERR_NOMEM;
  bool leaves = may_leave(g, i, seen);
  free(seen);
  for (int p = 0; p < mr_stage_def_n_out(node->def); p++) {
    mr_pool_t *pool = make_pool(&node->worker->out_spec[p], n, leaves);
    if (!pool) return MR_ERR_NOMEM;
    set_pool(g, i, p, pool);
  }
  return MR_OK;
}

static mr_err_t make_chains(mr_graph_t *g, int i) {
  mr__node_t *node = g->node[i];
  for (int p = 0; p < MR_MAX_PORTS; p++) {
    const mr__edge_t *e = mr__edge_into(g, i, p);
    if (!e || g->node[e->from]->n_workers) continue;
    for (int w = 0; w < node->n_workers; w++)
      if (!(node->rt[w].chain[p] = mr__chain_create(g, i, p, &node->rt[w].diag)))
        return MR_ERR_NOMEM;
  }
  return MR_OK;
}

static mr_err_t make_all(mr_graph_t *g) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_runtimes(g, g->node[i]));
  for (int i = 0; i < g->n_nodes; i++) n += g->node[i]->n_workers;
  if (!mr__commit_init(g)) return MR_ERR_NOMEM;
  g->wait = calloc((size_t)n + 1, sizeof *g->wait);
  g->pool = calloc((size_t)g->n_nodes * MR_MAX_PORTS, sizeof *g->pool);
  if (!g->wait || !g->pool) return MR_ERR_NOMEM;
  for (int i = 0, k = 0; i < g->n_nodes; i++)
    for (int w = 0; w < g->node[i]->n_workers; w++) g->wait[k++] = &g->node[i]->rt[w].wait;
  for (int i = 0; i < g->n_edges; i++) MR_TRY(make_rings(g, &g->edge[i]));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_pools(g, i));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(make_chains(g, i));
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->n_chains) g->node[i]->worker->n_workers = g->node[i]->n_chains;
  /* release: whoever sees the number sees the wait objects (wake_all). */
  atomic_store_explicit(&g->n_waits, n, memory_order_release);
  return MR_OK;
}

/* ---- the end of it ---- */

static void wake_all(mr_graph_t *g) {
  int n = atomic_load_explicit(&g->n_waits, memory_order_acquire);
  for (int i = 0; i < n; i++) mr_wait_wake(g->wait[i]);
}

void mr_graph_stop(mr_graph_t *g) {
  /* seq_cst: before the loads of parked flags, as wait.h asks; cancel likewise. */
  atomic_exchange_explicit(&g->stop, 1, memory_order_seq_cst);
  wake_all(g);
}

void mr_graph_cancel(mr_graph_t *g) {
  atomic_exchange_explicit(&g->cancel, 1, memory_order_seq_cst);
  wake_all(g);
}

/* Keeps the first failure, then ends everything. */
static void fail_graph(mr_graph_t *g, mr_stage_t *s, mr_err_t code) {
  mr_err_t told = s->diag->code;
  if (code == MR_ERR_CANCEL && told >= 0 && atomic_load_explicit(&g->cancel, memory_order_seq_cst))
    return; /* it ends because another failed */
  if (told >= 0) mr_stage_fail(s, code, "%s", mr_err_text(code));
  pthread_mutex_lock(&g->lock);
  if (g->failure.code >= 0) g->failure = *s->diag;
  pthread_mutex_unlock(&g->lock);
  mr_graph_cancel(g);
}

/* ---- threads ---- */

/* AGAIN twice with no news in between means that nothing was overlooked: only then it waits. */
static mr_err_t run_steps(mr_runtime_t *rt) {
  uint64_t mark = 0;
  bool marked = false;
  for (;;) {
    if (mr__cancelled(rt)) return MR_ERR_CANCEL;
    mr_err_t e = rt->node->def->step->run(rt->s);
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
  snprintf(name, sizeof name, "%.11s/%d", rt->node->name, rt->s->worker % 100);
  pthread_setname_np(pthread_self(), name);
  int tid = (int)gettid();
  atomic_store_explicit(&rt->count.tid, tid, memory_order_relaxed);
  atomic_store_explicit(&rt->count.start_ns, mr_now_ns(), memory_order_relaxed);
  mr_err_t e = run_steps(rt);
  if (e < 0) fail_graph(rt->g, rt->s, e);
  mr__durable_leave(rt);
  mr__leave(rt);
  mr_thread_time_t t = mr_thread_time(tid);
  atomic_store_explicit(&rt->count.delay_ns, t.delay_ns, memory_order_relaxed);
  atomic_store_explicit(&rt->count.cpu_ns, t.cpu_ns, memory_order_relaxed);
  atomic_store_explicit(&rt->count.end_ns, mr_now_ns(), memory_order_relaxed);
  return NULL;
}

/* Signals from outside are the program's, not a worker's.  Those that an instruction of the worker
   itself raises must reach it: reader_mmap.c recovers from SIGBUS, and where such a signal is
   blocked the kernel ends the process. */
static void block_signals(sigset_t *before) {
  static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t outside;
  sigfillset(&outside);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&outside, own[i]);
  pthread_sigmask(SIG_BLOCK, &outside, before);
}

static mr_err_t start_threads(mr_graph_t *g, mr_diag_t *diag) {
  sigset_t before;
  mr_err_t e = MR_OK;
  block_signals(&before);
  for (int i = 0; i < g->n_nodes && e == MR_OK; i++) {
    for (int w = 0; w < g->node[i]->n_workers && e == MR_OK; w++) {
      mr_runtime_t *rt = &g->node[i]->rt[w];
      int err = pthread_create(&rt->thread, NULL, worker_main, rt);
      rt->running = !err;
      if (err) e = mr_fail(diag, MR_ERR_IO, "%s: no thread: %s", g->node[i]->name, strerror(err));
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return e;
}

/* Stages are opened and closed in the caller's thread, and what they write then may go to a pipe
   whose reader is gone: a failed write, and not the end of the caller's process. */
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
    if (!mr__trace_opens(g, node->def)) continue;
    node->opened = true;
    node->worker->diag = &why;
    mr_err_t e = mr__care_open(node->worker);
    if (e >= 0 && node->def->open) e = node->def->open(node->worker);
    node->worker->diag = kept;
    if (e < 0 && why.code >= 0) return mr_fail(diag, e, "%s: %s", node->name, mr_err_text(e));
    if (e < 0) return mr_fail(diag, e, "%s", why.text);
  }
  return MR_OK;
}

static void close_stages(mr_graph_t *g) {
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    mr__node_t *node = g->node[g->order[i]];
    if (node->opened && node->def->close) node->def->close(node->worker);
    if (node->opened) mr__care_close(node->worker);
    node->opened = false;
  }
}

/* The first verdict that is a failure, told as any failure is. */
static mr_err_t hear_verdicts(mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++) {
    mr_stage_t *s = g->node[i]->worker;
    mr_err_t e = g->node[i]->def->verdict ? g->node[i]->def->verdict(s) : MR_OK;
    if (e < 0) return mr_fail(diag, e, "%s", s->diag->text);
  }
  return MR_OK;
}

static void join_threads(mr_graph_t *g) {
  for (int i = 0; i < g->n_nodes; i++)
    for (int w = 0; g->node[i]->rt && w < g->node[i]->n_workers; w++) {
      mr_runtime_t *rt = &g->node[i]->rt[w];
      if (rt->running) pthread_join(rt->thread, NULL);
      rt->running = false;
    }
}

mr_err_t mr_graph_start(mr_graph_t *g, mr_diag_t *diag) {
  MR_TRY(mr_graph_settle(g, diag));
  if (g->started) return mr_fail(diag, MR_ERR_USAGE, "the graph has run already");
  MR_TRY(mr__go_on_check(g, diag));
  g->started = true;
  mr_err_t e = make_all(g);
  if (e < 0) return mr_fail(diag, e, "out of memory for the buffers of the graph");
  sigset_t before;
  hold_sigpipe(&before);
  e = open_stages(g, diag);
  drop_sigpipe(&before);
  g->start_ns = mr_now_ns(), g->start_cpu_ns = mr_cpu_ns();
  g->start_all_ns = mr_processors_ns();
  if (e >= 0) e = start_threads(g, diag);
  if (e >= 0) return MR_OK;
  mr_graph_cancel(g);
  join_threads(g);
  hold_sigpipe(&before);
  close_stages(g);
  drop_sigpipe(&before);
  g->joined = true;
  return e;
}

mr_err_t mr_graph_join(mr_graph_t *g, mr_diag_t *diag) {
  if (!g->started || g->joined) return MR_OK;
  join_threads(g);
  g->end_cpu_ns = mr_cpu_ns(), g->end_all_ns = mr_processors_ns();
  atomic_store_explicit(&g->end_ns, mr_now_ns(), memory_order_release);
  sigset_t before;
  hold_sigpipe(&before);
  close_stages(g);
  drop_sigpipe(&before);
  g->joined = true;
  if (g->failure.code < 0) return mr_fail(diag, g->failure.code, "%s", g->failure.text);
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

static void destroy_rings(mr_graph_t *g) {
  for (int i = 0; i < g->n_edges; i++) {
    mr__edge_t *e = &g->edge[i];
    int n = e->ring ? g->node[e->from]->n_workers * g->node[e->to]->n_workers : 0;
    for (int k = 0; k < n; k++) {
      if (e->ring[k]) mr_ring_fini(e->ring[k]);
      free(e->ring[k]);
    }
    free(e->ring);
  }
}

static void destroy_node(mr__node_t *node) {
  for (int w = 0; node->rt && w < node->n_workers; w++)
    for (int p = 0; p < MR_MAX_PORTS; p++) {
      mr__chain_destroy(node->rt[w].chain[p]);
      free(node->rt[w].out[p].edge);
    }
  for (int w = 0; node->rt && w < node->n_workers; w++) {
    free(node->rt[w].timeline);
    mr_wait_fini(&node->rt[w].wait);
  }
  free(node->rt), free(node->set), free(node->state), free(node->worker), free(node->start_word);
  free(node);
}

void mr_graph_destroy(mr_graph_t *g) {
  if (!g) return;
  if (g->started && !g->joined) {
    mr_graph_cancel(g);
    mr_graph_join(g, NULL);
  }
  destroy_rings(g);
  for (int i = 0; g->pool && i < g->n_nodes * MR_MAX_PORTS; i++) mr_pool_destroy(g->pool[i]);
  for (int i = 0; i < g->n_nodes; i++) destroy_node(g->node[i]);
  for (int i = 0; i < g->n_processes; i++) destroy_node(g->process[i]);
  free(g->process);
  for (mr__node_t *next; g->dropped; g->dropped = next) {
    next = g->dropped->next_dropped;
    destroy_node(g->dropped);
  }
  while (g->texts) {
    mr__text_t *next = g->texts->next;
    free(g->texts);
    g->texts = next;
  }
  free(g->node), free(g->edge), free(g->var), free(g->order), free(g->pool), free(g->wait);
  mr_snapshot_free(g->sample);
  pthread_mutex_destroy(&g->lock);
  pthread_mutex_destroy(&g->commit_lock);
  pthread_cond_destroy(&g->answered);
  free(g->commit);
  free(g);
}
