/* Snapshots of what the stages have done, and the model that names the stage limiting the time
   between two of them. */
#include "pipeline/watch/diagnose.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "pipeline/records/chain_private.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"

enum { TICKS_TELL_NS = 200000000 /* what others got is counted in 10 ms */ };

/* A record stage's work in the threads of a step stage. */
typedef struct part {
  int host, node;
  double ns;
} part_t;

struct mr_snapshot {
  int64_t wall_ns, cpu_ns, all_ns; /* all: of the processors, for any program; 0: unknown */
  mr_stats_t *node;                /* [n_nodes] */
  mr_thread_time_t *time;          /* [n_nodes] sums over the workers */
  part_t *part;                    /* [n_parts] those of a host follow one another */
  int n_parts;
};

/* ---- snapshots ---- */

void mr_snapshot_free(mr_snapshot_t *s) {
  if (!s) return;
  free(s->node), free(s->time), free(s->part);
  free(s);
}

/* Adds ns to the work of record stage `node` in the threads of step stage `host`.  at[node]: its
   part of this host, if it lies at or behind `first`.  False without memory. */
static bool add_part(mr_snapshot_t *s, int *at, int first, int host, int node, double ns) {
  int n = s->n_parts;
  bool known = at[node] >= first && at[node] < n && s->part[at[node]].node == node;
  if (!known && (n & (n - 1)) == 0) { /* full: there is room up to the next power of two */
    part_t *wider = realloc(s->part, (size_t)(n ? 2 * n : 1) * sizeof *wider);
    if (!wider) return false;
    s->part = wider;
  }
  if (!known) s->part[at[node] = s->n_parts++] = (part_t){host, node, 0};
  s->part[at[node]].ns += ns;
  return true;
}

static bool add_chains(const mr_graph_t *g, int host, mr_snapshot_t *s, int *at) {
  const mr__node_t *node = g->node[host];
  int first = s->n_parts;
  for (int w = 0; w < node->n_workers; w++)
    for (int p = 0; p < node->worker->n_in; p++) {
      const mr_chain_t *c = node->rt[w].chain[p];
      for (int i = 0; c && i < c->n_branches; i++)
        if (!add_part(s, at, first, host, c->branch[i].node, mr__tally_ns(&c->branch[i].tally)))
          return false;
    }
  return true;
}

static void add_times(const mr_graph_t *g, int host, mr_thread_time_t *sum) {
  const mr__node_t *node = g->node[host];
  for (int w = 0; w < node->n_workers; w++) {
    const mr__counters_t *c = &node->rt[w].count;
    int tid = atomic_load_explicit(&c->tid, memory_order_relaxed);
    mr_thread_time_t t = {atomic_load_explicit(&c->cpu_ns, memory_order_relaxed),
                          atomic_load_explicit(&c->delay_ns, memory_order_relaxed)};
    if (tid && !t.cpu_ns) t = mr_thread_time(tid);
    sum->cpu_ns += t.cpu_ns, sum->delay_ns += t.delay_ns;
  }
}

mr_snapshot_t *mr_snapshot_take(const mr_graph_t *g) {
  /* acquire pairs with the releases of mr__wire and mr_graph_join */
  if (!atomic_load_explicit(&g->n_waits, memory_order_acquire)) return NULL;
  int64_t end = atomic_load_explicit(&g->end_ns, memory_order_acquire);
  mr_snapshot_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->node = calloc((size_t)g->n_nodes + 1, sizeof *s->node);
  s->time = calloc((size_t)g->n_nodes + 1, sizeof *s->time);
  int *at = calloc((size_t)g->n_nodes + 1, sizeof *at);
  bool good = s->node && s->time && at;
  s->wall_ns = (end ? end : mr_now_ns()) - g->start_ns;
  s->cpu_ns = (end ? g->end_cpu_ns : mr_cpu_ns()) - g->start_cpu_ns;
  s->all_ns = (end ? g->end_all_ns : mr_processors_ns()) - g->start_all_ns;
  for (int i = 0; i < g->n_nodes && good; i++) {
    mr_graph_stats(g, i, &s->node[i]);
    add_times(g, i, &s->time[i]);
    good = add_chains(g, i, s, at);
  }
  free(at);
  if (good) return s;
  mr_snapshot_free(s);
  return NULL;
}

/* ---- the model ---- */

typedef struct window {
  const mr_graph_t *g;
  const mr_snapshot_t *from, *to; /* from: NULL: since the start */
  double wall, cpu;               /* ns */
  double others;                  /* threads of other programs that compete for processors at a
                                     time */
  double worked, known_cpu;       /* ns of all threads together */
  int cores;
  int *thread,
      n_threads; /* [n_threads] the stages that have threads, a few of thousands at times */
} window_t;

/* A stage that might be made faster. */
typedef struct candidate {
  int host, node;
  double work; /* its work in one of the host's threads, ns */
} candidate_t;

static double counted_since(const window_t *w, int node, size_t field) {
  const int64_t *b = (const int64_t *)((const char *)&w->to->node[node] + field);
  const int64_t *a = w->from ? (const int64_t *)((const char *)&w->from->node[node] + field) : NULL;
  return (double)(*b - (a ? *a : 0));
}

#define SINCE(w, node, field) counted_since(w, node, offsetof(mr_stats_t, field))

/* ns that one thread of a stage has worked in the window. */
static double diagnose_work_of(const window_t *w, int node) {
  int workers = w->to->node[node].workers;
  return workers ? SINCE(w, node, busy_ns) / workers : 0;
}

static double part_ns(const window_t *w, const part_t *p) {
  double ns = p->ns;
  int i = (int)(p - w->to->part); /* both snapshots have found the parts in one order */
  if (w->from && i < w->from->n_parts && w->from->part[i].host == p->host &&
      w->from->part[i].node == p->node)
    ns -= w->from->part[i].ns;
  int workers = w->to->node[p->host].workers;
  return workers && ns > 0 ? ns / workers : 0;
}

static mr_thread_time_t time_of(const window_t *w, int node) {
  mr_thread_time_t t = w->to->time[node];
  if (w->from) t.cpu_ns -= w->from->time[node].cpu_ns, t.delay_ns -= w->from->time[node].delay_ns;
  return t;
}

/* The same if no other program had competed for the processors. */
static double need_of(const window_t *w, int node) {
  int workers = w->to->node[node].workers;
  mr_thread_time_t t = time_of(w, node);
  double work = diagnose_work_of(w, node),
         alone = workers ? work - (double)t.delay_ns / workers : 0;
  double cpu = workers ? (double)t.cpu_ns / workers : 0;
  return alone > cpu ? alone : cpu < work ? cpu : work; /* part of the delay followed waits */
}

/* Processor time of a stage: that of its own threads, plus its share, by work, of the time that no
   stage's thread accounts for (teams of threads that a stage calls). */
static double cpu_of(const window_t *w, int node) {
  double rest = w->cpu > w->known_cpu ? w->cpu - w->known_cpu : 0;
  double share = w->worked > 0 ? SINCE(w, node, busy_ns) / w->worked : 0;
  return (double)time_of(w, node).cpu_ns + rest * share;
}

/* The shortest duration, with the candidate (NULL: none) twice as fast.  *next: the thread that
   then limits, -2: the processor.

   Processors are shared evenly among all threads that compete.  If B of these belong to other
   programs, each of them gets as much as the limiting thread while that one wants a processor (not
   while it sleeps).  By the time the limiting thread has had its processor time, the others have
   had B times as much, and what is left goes to the rest of the run. */
static double bound_duration(const window_t *w, const candidate_t *c, int *next) {
  double work = c ? diagnose_work_of(w, c->host) : 0, saved = work > 0 ? c->work / work / 2 : 0;
  double cpu = w->cpu - (c ? saved * cpu_of(w, c->host) : 0), most = 0, theirs = 0;
  *next = -2;
  for (int k = 0; k < w->n_threads; k++) {
    int i = w->thread[k];
    double left = c && i == c->host ? 1 - saved : 1, need = need_of(w, i) * left;
    if (need <= most) continue;
    most = need, *next = i;
    theirs = w->others * left * (double)time_of(w, i).cpu_ns / w->to->node[i].workers;
  }
  double shared = (cpu + theirs) / w->cores;
  if (shared > most && theirs < cpu) *next = -2; /* the run's own threads fill the processors */
  return shared > most ? shared : most;
}

/* How many threads of other programs compete for a processor at a time: the time they got, divided
   by the share that this run's busiest thread gets of what it wants, which applies to them too. */
static double others_of(const window_t *w, double all) {
  double work = 0, need = 0;
  for (int k = 0; k < w->n_threads; k++) {
    int i = w->thread[k];
    if (diagnose_work_of(w, i) > work) work = diagnose_work_of(w, i), need = need_of(w, i);
  }
  double got = (all - w->cpu) / w->wall;
  return got > 0 && need > 0 ? got * work / need : 0;
}

/* The duration with one candidate twice as fast.  *next: the thread that then limits, -1: still its
   own, -2: the processor.  The run gets shorter by what the bound loses, and by the same proportion
   of its waiting for processors that other programs held. */
static double duration_if_faster(const window_t *w, const candidate_t *c, int *next) {
  int now;
  double before = bound_duration(w, NULL, &now), after = bound_duration(w, c, next), busiest = 0;
  for (int k = 0; k < w->n_threads; k++)
    if (diagnose_work_of(w, w->thread[k]) > busiest) busiest = diagnose_work_of(w, w->thread[k]);
  double stretch = before > 0 && busiest > before ? busiest / before : 1;
  double ns = w->wall - (before - after) * stretch;
  if (*next == c->host) *next = -1;
  return ns < w->wall ? ns : w->wall;
}

/* The candidates of a thread: the record stages in it, and the rest of its work. */
static int find_candidates(const window_t *w, int host, candidate_t *out) {
  double all = diagnose_work_of(w, host), parts = 0;
  int n = 0;
  for (int i = 0; i < w->to->n_parts; i++) {
    const part_t *p = &w->to->part[i];
    if (p->host != host) continue;
    out[n] = (candidate_t){host, p->node, part_ns(w, p)};
    parts += out[n++].work;
  }
  for (int i = 0; i < n && parts > all; i++) out[i].work *= all / parts; /* they are estimates */
  out[n++] = (candidate_t){host, host, parts < all ? all - parts : 0};
  return n;
}

/* The candidate whose doubled speed helps most; among equals the one that works most. */
static bool diagnose_choose(const window_t *w, candidate_t *best, double *best_ns, int *best_next) {
  candidate_t *all = calloc((size_t)w->to->n_parts + 1, sizeof *all);
  bool any = false;
  if (!all) return false;
  for (int k = 0; k < w->n_threads; k++) {
    int host = w->thread[k];
    int n = find_candidates(w, host, all), next;
    for (int i = 0; i < n; i++) {
      double ns = duration_if_faster(w, &all[i], &next);
      if (all[i].work <= 0 || (any && ns > *best_ns) ||
          (any && ns == *best_ns && all[i].work <= best->work))
        continue;
      any = true, *best = all[i], *best_ns = ns, *best_next = next;
    }
  }
  free(all);
  return any;
}

/* Finds the link that waits most for its other end, if it waits longer than the limiting stage here
   works (a stage may end early, and have been busy all its life). */
static void look_outside(const window_t *w, double work, mr_diagnosis_t *out) {
  for (int i = 0; i < w->g->n_nodes; i++) {
    const mr__node_t *node = w->g->node[i];
    bool sends = node->def->in[0].name && !node->def->in[0].optional;
    if (!node->def->step || !node->def->step->outside || !w->to->node[i].workers) continue;
    double waits = (sends ? SINCE(w, i, blocked_ns) : SINCE(w, i, starved_ns)) / w->wall;
    if (waits <= out->waits) continue;
    out->link = node->name, out->sends = sends, out->waits = waits;
    out->other = mr_graph_setting(w->g, node->name, "peer");
  }
  if (out->waits <= work / w->wall) out->link = out->other = NULL, out->waits = 0;
}

static int count_cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static bool find_threads(window_t *w) {
  w->thread = calloc((size_t)w->g->n_nodes + 1, sizeof *w->thread);
  for (int i = 0; w->thread && i < w->g->n_nodes; i++)
    if (w->to->node[i].workers) w->thread[w->n_threads++] = i;
  return w->thread;
}

static bool find_limit(window_t *w, mr_diagnosis_t *out) {
  const mr_graph_t *g = w->g;
  const mr_snapshot_t *from = w->from, *now = w->to;
  candidate_t c = {0};
  double ns = 0;
  int next = -1;
  w->wall = (double)(now->wall_ns - (from ? from->wall_ns : 0));
  w->cpu = (double)(now->cpu_ns - (from ? from->cpu_ns : 0));
  for (int i = 0; i < g->n_nodes; i++)
    w->worked += SINCE(w, i, busy_ns), w->known_cpu += (double)time_of(w, i).cpu_ns;
  if (w->wall > TICKS_TELL_NS)
    w->others = others_of(w, (double)(now->all_ns - (from ? from->all_ns : 0)));
  if (w->wall <= 0 || !diagnose_choose(w, &c, &ns, &next)) return false;
  double alive = SINCE(w, c.host, alive_ns), work = diagnose_work_of(w, c.host);
  *out = (mr_diagnosis_t){.stage = g->node[c.node]->name,
                          .thread = g->node[c.host]->name,
                          .next = next >= 0    ? g->node[next]->name
                                  : next == -2 ? "the processor"
                                               : NULL,
                          .share = c.work / work,
                          .work = c.work / w->wall,
                          .busy = SINCE(w, c.host, busy_ns) / alive,
                          .starved = SINCE(w, c.host, starved_ns) / alive,
                          .blocked = SINCE(w, c.host, blocked_ns) / alive,
                          .cores_used = w->cpu / w->wall,
                          .cores = w->cores,
                          .seconds = w->wall / 1e9,
                          .twice_s = ns / 1e9};
  look_outside(w, c.work, out);
  return true;
}

bool mr_diagnose(const mr_graph_t *g, const mr_snapshot_t *from, const mr_snapshot_t *now,
                 mr_diagnosis_t *out) {
  window_t w = {.g = g, .from = from, .to = now, .cores = count_cores()};
  bool found = find_threads(&w) && find_limit(&w, out);
  free(w.thread);
  return found;
}

static void outside_text(const mr_diagnosis_t *d, char *text, size_t n) {
  const char *which = d->other ? d->other : "at the other end";
  mr_snprintf(
      text, n,
      "limited by the process %s: %s waits %.0f %% of the time for %s; of the stages here %s "
      "works most, %.0f %% of the time (%.1f of %d cores used).",
      which, d->link, 100 * d->waits, d->sends ? "room there" : "buffers from there", d->stage,
      100 * d->work, d->cores_used, d->cores);
}

void mr_diagnosis_text(const mr_diagnosis_t *d, char *text, size_t n) {
  if (d->link) return outside_text(d, text, n);
  char where[128] = "", then[128] = "";
  if (d->thread != d->stage)
    mr_snprintf(where, sizeof where, ", %.0f %% of that in %s", 100 * d->share, d->stage);
  else if (d->share < 0.995)
    mr_snprintf(where, sizeof where, ", %.0f %% of that its own", 100 * d->share);
  if (d->next) snprintf(then, sizeof then, "; then %s limits", d->next);
  mr_snprintf(
      text, n,
      "%s limits: %s works %.0f %% of the time%s, waits for input %.0f %%, for room %.0f %% "
      "(%.1f of %d cores used). Twice as fast it would make the run %.2f times as fast: %.3g s "
      "instead of %.3g s%s.",
      d->stage, d->thread, 100 * d->busy, where, 100 * d->starved, 100 * d->blocked, d->cores_used,
      d->cores, d->seconds / d->twice_s, d->twice_s, d->seconds, then);
}
