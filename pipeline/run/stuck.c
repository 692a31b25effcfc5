/* Threads that the kernel does not give back once a run is to end: a read of a disk, a server of
   files or a pipe that never answers, which no signal and no flag interrupts.  Whether one is stuck
   is seen from outside: it waits neither for a neighbour nor in a wait that asks base/halt.h, which
   wakes it several times a second, and it uses no processor.  The rings then tell its neighbours
   that it is lost, so that what others have finished is still saved. */
#include <stdatomic.h>

#include "base/clock.h"
#include "pipeline/run/durable.h"
#include "pipeline/run/runtime_private.h"

enum { LOOK_MS = 100, STUCK_MS = 1000, WRITES_MS = 1500 };
#define MS INT64_C(1000000)

/* Graphs that such a thread still uses, which are never freed.  The release of keep_for_good pairs
   with its own acquire in another thread. */
static _Atomic(mr_graph_t *) kept;

bool mr_graph_is_stuck(void) { return atomic_load_explicit(&kept, memory_order_relaxed) != NULL; }

static void keep_for_good(mr_graph_t *g) {
  g->next_kept = atomic_load_explicit(&kept, memory_order_acquire);
  while (!atomic_compare_exchange_weak_explicit(&kept, &g->next_kept, g, memory_order_release,
                                                memory_order_acquire))
    continue;
}

/* relaxed: pairs with none; mr_graph_stop's exchange is seen soon, and nothing else is read. */
static bool run_ends(const mr_graph_t *g) {
  return atomic_load_explicit(&g->stop, memory_order_relaxed) ||
         atomic_load_explicit(&g->cancel, memory_order_relaxed);
}

/* Those that hold what is to be saved, and those that have limits of their own for their peers. */
static bool is_waited_for(const mr__node_t *node) {
  mr_role_t role = node->def->role;
  return role == MR_ROLE_STEP || role == MR_ROLE_CHECKPOINT || role == MR_ROLE_LINK_OUT ||
         role == MR_ROLE_LINK_IN;
}

/* relaxed: a number of its own, and one that changes meanwhile is seen at the next look. */
static bool waits_for_neighbour(const mr_runtime_t *rt, int kind) {
  return atomic_load_explicit(&rt->count.waits_since, memory_order_relaxed) &&
         (kind < 0 || atomic_load_explicit(&rt->count.wait_kind, memory_order_relaxed) == kind);
}

/* Whether a stage that leads to this one waits for room or for a buffer. */
static bool delays_others(const mr_graph_t *g, const mr__node_t *node) {
  for (int i = 0; i < g->n_edges; i++) {
    const mr__node_t *from = g->node[g->edge[i].from];
    if (g->node[g->edge[i].to] != node) continue;
    for (int w = 0; w < from->n_workers; w++)
      if (waits_for_neighbour(&from->rt[w], MR__BLOCKED)) return true;
  }
  return false;
}

/* For how long, in ns, this thread has used no processor outside of the waits for neighbours. */
static int64_t still_for(mr_runtime_t *rt, int64_t now) {
  int tid = atomic_load_explicit(&rt->count.tid, memory_order_relaxed); /* as in worker_main */
  int64_t used = tid ? mr_thread_time(tid).cpu_ns : 0;
  if (!used || waits_for_neighbour(rt, -1) || used != rt->still_cpu) rt->still_since = now;
  rt->still_cpu = used;
  return now - rt->still_since;
}

/* seq_cst: waiters look at n_lost before they sleep (wait.h). */
static void lose_thread(mr_graph_t *g, mr_runtime_t *rt) {
  atomic_store_explicit(&rt->lost, true, memory_order_relaxed);
  mr__durable_leave(rt);
  for (int p = 0; p < rt->s->n_out; p++) {
    const mr__out_t *out = &rt->out[p];
    for (int e = 0; e < out->n_edges; e++)
      for (int i = 0; i < out->edge[e].m; i++) mr_ring_lose_producer(out->edge[e].ring[i]);
  }
  for (int p = 0; p < rt->s->n_in; p++) {
    const mr__in_t *in = &rt->in[p];
    for (int i = 0; i < in->n; i++) mr_ring_lose_consumer(in->ring[i * in->stride + rt->s->worker]);
  }
  atomic_fetch_add_explicit(&g->n_lost, 1, memory_order_seq_cst);
  int n = atomic_load_explicit(&g->n_waits, memory_order_acquire); /* pairs with mr__wire */
  for (int i = 0; i < n; i++) mr_wait_wake(g->wait[i]);
}

/* Gives up the threads that are stuck. */
static void look_for_stuck(mr_graph_t *g) {
  int64_t now = mr_now_ns();
  for (int i = 0; i < g->n_nodes; i++) {
    const mr__node_t *node = g->node[i];
    if (is_waited_for(node)) continue;
    for (int w = 0; node->rt && w < node->n_workers; w++) {
      mr_runtime_t *rt = &node->rt[w];
      /* relaxed: only this thread stores it */
      if (!rt->running || atomic_load_explicit(&rt->lost, memory_order_relaxed)) continue;
      bool patient = !rt->n_out && !delays_others(g, node);
      if (still_for(rt, now) >= (patient ? WRITES_MS : STUCK_MS) * MS) lose_thread(g, rt);
    }
  }
}

/* Joins the threads that are over; *left: those that are not, *lost: those among them that no one
   waits for.  Under the graph's lock, which the threads have given back for good. */
static void join_ended(mr_graph_t *g, int *left, int *lost) {
  *left = *lost = 0;
  for (int i = 0; i < g->n_nodes; i++)
    for (int w = 0; g->node[i]->rt && w < g->node[i]->n_workers; w++) {
      mr_runtime_t *rt = &g->node[i]->rt[w];
      if (rt->running && rt->over) {
        pthread_join(rt->thread, NULL);
        rt->running = false;
      }
      *left += rt->running;
      *lost += rt->running && atomic_load_explicit(&rt->lost, memory_order_relaxed);
    }
}

/* Says which threads are left to themselves. */
static void leave_stuck(const mr_graph_t *g) {
  for (int i = 0; i < g->n_nodes; i++)
    for (int w = 0; g->node[i]->rt && w < g->node[i]->n_workers; w++)
      if (g->node[i]->rt[w].running) {
        pthread_detach(g->node[i]->rt[w].thread);
        mr_notice(
            "%s: its thread has not come back from a read or write since the run was to end, which "
            "does not wait for it; look at the disk, server or pipe that the stage uses",
            g->node[i]->name);
      }
}

int mr__join_threads(mr_graph_t *g) {
  int left, lost;
  bool asked = false;
  pthread_mutex_lock(&g->lock);
  for (join_ended(g, &left, &lost); left > lost; join_ended(g, &left, &lost)) {
    mr_cond_wait_until(&g->ended, &g->lock, mr_now_ns() + LOOK_MS * MS);
    if (!asked && run_ends(g)) g->asked_ns = mr_now_ns(), asked = true;
    pthread_mutex_unlock(&g->lock);
    if (asked) look_for_stuck(g);
    pthread_mutex_lock(&g->lock);
  }
  pthread_mutex_unlock(&g->lock);
  g->n_stuck = left;
  if (!left) return 0;
  keep_for_good(g);
  leave_stuck(g);
  return left;
}
