/* The calls of step functions: taking, giving, waiting, taking turns, and why nothing came.

   Buffer s comes from worker s mod N and goes to worker s mod M, so the ring of the next buffer
   follows from its number, and order needs no sorting.  Only a lossy input, whose numbers have
   gaps, compares what its rings hold. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"

enum { DEPTH_EVERY = 16 }; /* takes per sample of the queue depth */

bool mr_stopping(const mr_stage_t *s) {
  /* relaxed: a request to end soon, which hands nothing over. */
  return s->rt && atomic_load_explicit(&s->rt->g->stop, memory_order_relaxed);
}

void mr_link_end_await(const mr_stage_t *s, int change) {
  assert(s->rt); /* relaxed, as n_awaiting says. */
  atomic_fetch_add_explicit(&s->rt->g->n_awaiting, change, memory_order_relaxed);
}

bool mr_link_end_any_awaits(const mr_stage_t *s) {
  return atomic_load_explicit(&s->rt->g->n_awaiting, memory_order_relaxed) > 0;
}

bool mr__stage_cancelled(const mr_stage_t *s) { return s->rt && mr__cancelled(s->rt); }

mr_chain_t *mr_in_chain(mr_stage_t *s, int port) { return s->rt->chain[port]; }

static mr_ring_t *ring_of(const mr__in_t *in, int from, int worker) {
  assert(from >= 0 && from < in->n && worker >= 0 && worker < in->stride);
  return in->ring[from * in->stride + worker];
}

/* ---- a lossy input behind several workers ----

   Dropped buffers leave gaps, so whose turn it is does not follow from a count of what was taken.
   But each ring carries the buffers of its producer for this consumer in order, and counts those
   that left it: the k-th one of producer i for consumer j is number t0 + k * lcm, where t0 is the
   first number that is i modulo the producers and j modulo the consumers. */

enum { NEVER = -1 };

static uint64_t lcm_of(uint64_t a, uint64_t b) {
  uint64_t x = a, y = b;
  while (y) {
    uint64_t rest = x % y;
    x = y, y = rest;
  }
  return a / x * b;
}

/* Number of the oldest buffer that producer `from` may still hold for this worker. */
static uint64_t number_due(const mr__in_t *in, int from, int worker, uint64_t front) {
  uint64_t n = (uint64_t)in->n, m = (uint64_t)in->stride, every = lcm_of(n, m);
  for (uint64_t t = (uint64_t)from; t < every; t += n)
    if (t % m == (uint64_t)worker) return t + front * every;
  return UINT64_MAX; /* it serves other workers only */
}

/* The producer whose next buffer has the smallest number, among those that have not ended; *front
   is its ring's front.  NEVER: all have ended. */
static int producer_due(const mr__in_t *in, int worker, uint64_t *front) {
  int due = NEVER;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < in->n; i++) {
    mr_ring_t *r = ring_of(in, i, worker);
    uint64_t at = mr_ring_front(r), number = number_due(in, i, worker, at);
    if (number < least && !mr_ring_over(r)) due = i, least = number, *front = at;
  }
  return due;
}

static bool is_gappy(const mr__in_t *in) { return in->n > 1 && mr_ring_is_lossy(in->ring[0]); }

static size_t take_gappy(mr__in_t *in, int worker, mr_buf_t **out, size_t n) {
  size_t k = 0;
  uint64_t front;
  for (int from; k < n && (from = producer_due(in, worker, &front)) != NEVER;) {
    mr_ring_t *r = ring_of(in, from, worker);
    if (mr_ring_pop_front(r, front, &out[k])) {
      in->next = number_due(in, from, worker, front) + (uint64_t)in->stride, k++;
    } else if (mr_ring_front(r) == front) {
      break; /* its turn, but its ring is empty */
    }
  }
  return k;
}

/* ---- taking ---- */

/* The ring of the next buffer. */
static mr_ring_t *in_ring(const mr__in_t *in, int worker) {
  uint64_t front;
  int from = in->n == 1 ? 0 : (int)(in->next % (uint64_t)in->n);
  if (is_gappy(in)) from = producer_due(in, worker, &front);
  return ring_of(in, from == NEVER ? 0 : from, worker);
}

bool mr__in_over(mr__in_t *in, int worker) {
  uint64_t front;
  if (in->n && is_gappy(in)) return producer_due(in, worker, &front) == NEVER;
  return !in->n || mr_ring_over(in_ring(in, worker));
}

/* Wakes the producers whose wake-up mr_ring_pop postponed; otherwise two stages could wait for each
   other, and a producer for a program that takes no more for a while. */
static void nudge_producers(mr_runtime_t *rt) {
  for (int p = 0; p < rt->s->n_in; p++)
    for (int i = 0; i < rt->in[p].n; i++)
      mr_ring_nudge(rt->in[p].ring[i * rt->in[p].stride + rt->s->worker]);
}

static void sample_depth(mr_runtime_t *rt, mr__in_t *in) {
  mr__count(&rt->count.depth_sum, (int64_t)mr_ring_ready(in_ring(in, rt->s->worker)));
  mr__count(&rt->count.depth_n, 1);
}

static void port_note(mr_runtime_t *rt, mr__event_kind_t kind, int port, uint64_t first, int stride,
                      const mr_buf_t *b, size_t n) {
  mr__timeline_note(rt->timeline, (mr__event_t){.at_ns = mr_now_ns(),
                                                .what = (int64_t)first,
                                                .position = b->position,
                                                .n = (uint16_t)n,
                                                .stride = (uint16_t)stride,
                                                .port = (uint16_t)port,
                                                .kind = (uint16_t)kind});
}

size_t mr_take(mr_stage_t *s, int port, mr_buf_t **out, size_t n) {
  mr_runtime_t *rt = s->rt;
  mr__in_t *in = &rt->in[port];
  size_t k = 0;
  uint64_t first = in->next;
  if (!in->n || !n) return 0;
  assert(n <= INT32_MAX && in->next % (uint64_t)in->stride == (uint64_t)s->worker);
  if (rt->n_takes++ % DEPTH_EVERY == 0) sample_depth(rt, in);
  if (in->n == 1) {
    k = mr_ring_pop(in->ring[s->worker], out, n);
    in->next += k * (uint64_t)in->stride;
  } else if (is_gappy(in)) {
    k = take_gappy(in, s->worker, out, n);
  } else {
    for (; k < n && mr_ring_pop(in_ring(in, s->worker), &out[k], 1); k++)
      in->next += (uint64_t)in->stride;
  }
  assert(k <= n);
  if (k) mr__count(&rt->count.taken, (int64_t)k);
  if (k && s->def->step->pulled) nudge_producers(rt);
  if (k && rt->timeline) port_note(rt, MR__TOOK, port, first, in->stride, out[0], k);
  return k;
}

int64_t mr_lost(const mr_stage_t *s, int port) {
  if (!s->rt->in) return 0; /* it was opened, but never linked */
  const mr__in_t *in = &s->rt->in[port];
  int64_t n = 0;
  for (int i = 0; i < in->n; i++) n += mr_ring_lost(in->ring[i * in->stride + s->worker]);
  return n;
}

/* independent of other counters */
void mr_set_dropped(mr_stage_t *s, int64_t n) {
  atomic_store_explicit(&s->rt->count.dropped, n, memory_order_relaxed);
}

void mr_set_link(mr_stage_t *s, int64_t released, int64_t committed) {
  mr__counters_t *c = &s->rt->count;
  atomic_store_explicit(&c->released, released, memory_order_relaxed);
  /* release pairs with the acquire in stats_add_link. */
  atomic_store_explicit(&c->committed_1, committed + 1, memory_order_release);
}

static bool fan_has_gone(const mr__fan_t *f) {
  for (int i = 0; i < f->m; i++)
    if (!mr_ring_gone(f->ring[i])) return false;
  return true;
}

/* Observers (lossy inputs) do not keep a stage running after its other consumers have left: an
   endless stream would never end. */
bool mr__out_gone(const mr__out_t *out) {
  int watching = 0, there = 0;
  for (int i = 0; i < out->n_edges; i++) {
    bool watches = mr_ring_is_lossy(out->edge[i].ring[0]);
    watching += watches;
    if (fan_has_gone(&out->edge[i])) continue;
    if (!watches) return false;
    there++;
  }
  return out->n_edges > 0 && (!there || watching < out->n_edges);
}

/* How many of this worker's next buffers fit the edge, dealt over its consumers in turn. */
static size_t fan_room(const mr__fan_t *f, uint64_t next, int step, size_t most) {
  if (f->m == 1) {
    if (mr_ring_gone(f->ring[0])) return most;
    size_t room = mr_ring_room(f->ring[0]);
    return room < most ? room : most;
  }
  size_t room[MR_MAX_WORKERS], k = 0;
  assert(f->m > 0 && f->m <= MR_MAX_WORKERS);
  for (int i = 0; i < f->m; i++)
    room[i] = mr_ring_gone(f->ring[i]) ? most : mr_ring_room(f->ring[i]);
  while (k < most && room[next % (uint64_t)f->m]) {
    room[next % (uint64_t)f->m]--;
    next += (uint64_t)step, k++;
  }
  return k;
}

size_t mr_room(mr_stage_t *s, int port) {
  const mr__out_t *out = &s->rt->out[port];
  size_t k = MR_BURST;
  for (int i = 0; i < out->n_edges && k; i++)
    k = fan_room(&out->edge[i], out->next, s->n_workers, k);
  return k;
}

/* A consumer that has left may leave a full ring behind: this releases what does not fit, the ring
   releases the rest. */
static void give_some(mr_ring_t *r, mr_buf_t *const *in, size_t n) {
  size_t k = mr_ring_push(r, in, n);
  assert(k == n || mr_ring_gone(r)); /* the stage has called mr_room */
  for (; k < n; k++) mr_buf_unref(in[k]);
}

static void give_edge(mr_stage_t *s, mr__fan_t *f, uint64_t next, mr_buf_t *const *in, size_t n) {
  if (f->m == 1) return give_some(f->ring[0], in, n);
  for (size_t i = 0; i < n; i++)
    give_some(f->ring[(next + i * (uint64_t)s->n_workers) % (uint64_t)f->m], &in[i], 1);
}

void mr_give(mr_stage_t *s, int port, mr_buf_t *const *in, size_t n) {
  mr__out_t *out = &s->rt->out[port];
  if (!n) return;
  assert(out->next % (uint64_t)s->n_workers == (uint64_t)s->worker);
  if (s->rt->timeline) port_note(s->rt, MR__GAVE, port, out->next, s->n_workers, in[0], n);
  for (size_t i = 0; i < n; i++) {
    uint64_t number = out->next + i * (uint64_t)s->n_workers;
    /* A buffer with other owners keeps its number: writing it would race with their reads.  acquire
       pairs with their unref. */
    int refs = atomic_load_explicit(&in[i]->refs, memory_order_acquire);
    assert(refs > 0);
    if (refs == 1) in[i]->seq = (int64_t)number;
    for (int e = 1; e < out->n_edges; e++) mr_buf_ref(in[i]);
    if (!out->n_edges) mr_buf_unref(in[i]);
  }
  for (int e = 0; e < out->n_edges; e++) give_edge(s, &out->edge[e], out->next, in, n);
  out->next += n * (uint64_t)s->n_workers;
  mr__count(&s->rt->count.given, (int64_t)n);
}

/* Whether the consumers of all outputs have left; false for a stage without outputs. */
static bool outputs_have_gone(const mr_runtime_t *rt) {
  bool gone = rt->n_out > 0;
  for (int i = 0; i < rt->s->n_out; i++)
    if (rt->out[i].n_edges && !mr__out_gone(&rt->out[i])) gone = false;
  return gone;
}

bool mr_unwanted(const mr_stage_t *s) { return outputs_have_gone(s->rt); }

mr_err_t mr_idle(mr_stage_t *s) {
  mr_runtime_t *rt = s->rt;
  if (mr__cancelled(rt)) return MR_ERR_CANCEL;
  bool over = rt->n_in > 0;
  for (int i = 0; i < s->n_in; i++)
    if (rt->in[i].n && !mr__in_over(&rt->in[i], s->worker)) over = false;
  return over || outputs_have_gone(rt) ? MR_END : MR_AGAIN;
}

/* ---- waiting ---- */

typedef struct {
  mr_runtime_t *rt;
  int port;
  uint64_t mark;
} wait_for_t;

/* For memory orders and their partners see runtime_private.h. */
static void begin_wait(mr__counters_t *c, int kind, int64_t since) {
  assert(!atomic_load_explicit(&c->waits_since, memory_order_relaxed)); /* one wait at a time */
  atomic_store_explicit(&c->wait_kind, kind, memory_order_relaxed);
  atomic_store_explicit(&c->waits_since, since, memory_order_relaxed);
}

static void end_wait(mr__counters_t *c, _Atomic int64_t *sum, int64_t since) {
  unsigned turn = atomic_load_explicit(&c->wait_turn, memory_order_relaxed);
  assert(!(turn & 1));
  int64_t waited = atomic_load_explicit(sum, memory_order_relaxed) + mr_now_ns() - since;
  atomic_store_explicit(&c->wait_turn, turn + 1, memory_order_relaxed);
  atomic_store_explicit(&c->waits_since, 0, memory_order_release);
  atomic_store_explicit(sum, waited, memory_order_release);
  atomic_store_explicit(&c->wait_turn, turn + 2, memory_order_release);
}

void mr__wait_counted(mr_runtime_t *rt, int kind, bool (*ready)(void *arg), void *arg) {
  if (ready(arg)) return;
  nudge_producers(rt);
  mr__counters_t *c = &rt->count;
  int64_t since = mr_now_ns();
  begin_wait(c, kind, since);
  mr_wait_until(&rt->wait, ready, arg);
  end_wait(c, kind == MR__STARVED ? &c->starved_ns : &c->blocked_ns, since);
  if (rt->timeline)
    mr__timeline_note(rt->timeline,
                      (mr__event_t){.at_ns = since,
                                    .what = mr_now_ns() - since,
                                    .kind = kind == MR__STARVED ? MR__STARVES : MR__BLOCKS});
}

/* All seq_cst, because waiters decide by them whether to sleep (wait.h); stop, n_lost and committed
   pair with the exchanges of mr_graph_stop, stuck.c and commit.c. */
uint64_t mr__news(const mr_runtime_t *rt) {
  uint64_t sum = (uint64_t)atomic_load_explicit(&rt->g->stop, memory_order_seq_cst) +
                 (uint64_t)atomic_load_explicit(&rt->g->n_lost, memory_order_seq_cst);
  if (!rt->n_in) sum += (uint64_t)atomic_load_explicit(&rt->node->committed, memory_order_seq_cst);
  for (int p = 0; p < rt->s->n_in; p++) {
    const mr__in_t *in = &rt->in[p];
    for (int i = 0; i < in->n; i++) sum += mr_ring_pushed(in->ring[i * in->stride + rt->s->worker]);
  }
  for (int p = 0; p < rt->s->n_out; p++) {
    const mr__out_t *out = &rt->out[p];
    for (int e = 0; e < out->n_edges; e++)
      for (int i = 0; i < out->edge[e].m; i++) sum += mr_ring_popped(out->edge[e].ring[i]);
    if (out->pool) sum += mr__pool_news(out->pool);
  }
  return sum;
}

static bool port_has_news(void *arg) {
  wait_for_t *w = arg;
  return mr__cancelled(w->rt) || mr__news(w->rt) != w->mark;
}

/* A stage with a buffer at an input waits for room, one without waits for input. */
static int why_idle(mr_runtime_t *rt) {
  if (rt->s->waits) return rt->s->waits == MR_WAITS_INPUT ? MR__STARVED : MR__BLOCKED;
  for (int p = 0; p < rt->s->n_in; p++)
    if (rt->in[p].n && mr_ring_ready(in_ring(&rt->in[p], rt->s->worker))) return MR__BLOCKED;
  return rt->n_in ? MR__STARVED : MR__BLOCKED;
}

void mr__wait_news(mr_runtime_t *rt, uint64_t mark) {
  wait_for_t w = {rt, 0, mark};
  mr__wait_counted(rt, why_idle(rt), port_has_news, &w);
}

uint64_t mr_news(const mr_stage_t *s) { return mr__news(s->rt); }

/* MR_AGAIN: nothing yet, but a signal handler has run, which no thread of a graph lets happen. */
static mr_err_t wait_fds(wait_for_t *w, int kind, bool (*ready)(void *arg), const struct pollfd *fd,
                         int n, int ms) {
  mr_runtime_t *rt = w->rt;
  int64_t since = mr_now_ns();
  begin_wait(&rt->count, kind, since);
  bool could = mr_wait_poll(&rt->wait, ready, w, fd, n, ms), signalled = could && errno == EINTR;
  end_wait(&rt->count, kind == MR__STARVED ? &rt->count.starved_ns : &rt->count.blocked_ns, since);
  if (!could) return mr_stage_fail(rt->s, MR_ERR_IO, "no file descriptor is left to wait with");
  return signalled ? MR_AGAIN : MR_OK;
}

mr_err_t mr_wait_fds(mr_stage_t *s, uint64_t seen, const struct pollfd *fd, int n, int ms) {
  wait_for_t w = {s->rt, 0, seen};
  int kind = why_idle(s->rt);
  if (port_has_news(&w) || ms == 0) return MR_OK;
  nudge_producers(s->rt);
  mr_err_t e = wait_fds(&w, kind, port_has_news, fd, n, ms);
  return e == MR_AGAIN ? MR_OK : e;
}

static bool can_pull(void *arg) {
  wait_for_t *w = arg;
  mr__in_t *in = &w->rt->in[w->port];
  int me = w->rt->s->worker;
  return mr__cancelled(w->rt) || mr__in_over(in, me) || mr_ring_ready(in_ring(in, me)) ||
         outputs_have_gone(w->rt);
}

mr_err_t mr_wait_input(mr_stage_t *s, int port, const struct pollfd *fd, int n, int ms) {
  wait_for_t w = {s->rt, port, 0};
  if (can_pull(&w) || ms == 0) return MR_OK;
  nudge_producers(s->rt);
  return mr__wait_spin(can_pull, &w) ? MR_OK : wait_fds(&w, MR__STARVED, can_pull, fd, n, ms);
}

/* seq_cst: pairs with mr_graph_stop's exchange. */
static bool graph_is_stopped(const mr_runtime_t *rt) {
  return atomic_load_explicit(&rt->g->stop, memory_order_seq_cst);
}

static bool can_pull_or_stop(void *arg) {
  const wait_for_t *w = arg;
  return graph_is_stopped(w->rt) || can_pull(arg);
}

static mr_err_t pull_when(mr_stage_t *s, int port, mr_buf_t **out, bool stops) {
  wait_for_t w = {s->rt, port, 0};
  for (;;) {
    if (mr__cancelled(s->rt)) return MR_ERR_CANCEL;
    if (stops && graph_is_stopped(s->rt)) return MR_END;
    if (mr_take(s, port, out, 1)) return MR_OK;
    if (mr__in_over(&s->rt->in[port], s->worker) || outputs_have_gone(s->rt)) return MR_END;
    mr__wait_counted(s->rt, MR__STARVED, stops ? can_pull_or_stop : can_pull, &w);
  }
}

mr_err_t mr_pull(mr_stage_t *s, int port, mr_buf_t **out) { return pull_when(s, port, out, false); }

mr_err_t mr_pull_until_stop(mr_stage_t *s, int port, mr_buf_t **out) {
  return pull_when(s, port, out, true);
}

static bool can_push(void *arg) {
  wait_for_t *w = arg;
  return mr__cancelled(w->rt) || mr__out_gone(&w->rt->out[w->port]) || mr_room(w->rt->s, w->port);
}

mr_err_t mr_push(mr_stage_t *s, int port, mr_buf_t *b) {
  wait_for_t w = {s->rt, port, 0};
  assert(b);
  mr__wait_counted(s->rt, MR__BLOCKED, can_push, &w);
  mr_err_t e = mr__cancelled(s->rt) ? MR_ERR_CANCEL : MR_OK;
  if (e == MR_OK && mr__out_gone(&s->rt->out[port])) e = MR_END;
  if (e != MR_OK) return mr_buf_unref(b), e;
  mr_give(s, port, &b, 1);
  return MR_OK;
}

/* Whether some consumer is gone or lost: one that is lost may keep every buffer of the pool. */
static bool misses_consumer(const mr__out_t *out) {
  for (int i = 0; i < out->n_edges; i++)
    for (int k = 0; k < out->edge[i].m; k++)
      if (mr_ring_gone(out->edge[i].ring[k])) return true;
  return false;
}

/* seq_cst: pairs with stuck.c. */
static bool keeps_all(const mr_runtime_t *rt, const mr__out_t *out) {
  return atomic_load_explicit(&rt->g->n_lost, memory_order_seq_cst) && misses_consumer(out);
}

static bool can_get(void *arg) {
  wait_for_t *w = arg;
  const mr__out_t *out = &w->rt->out[w->port];
  return mr__cancelled(w->rt) || mr__out_gone(out) || mr__pool_free(out->pool) ||
         keeps_all(w->rt, out);
}

mr_err_t mr_fresh(mr_stage_t *s, int port, mr_buf_t **out) {
  wait_for_t w = {s->rt, port, 0};
  assert(s->rt->out[port].pool);
  for (;;) {
    if (mr__cancelled(s->rt)) return MR_ERR_CANCEL;
    if (mr__out_gone(&s->rt->out[port])) return MR_END;
    if ((*out = mr_pool_get(s->rt->out[port].pool))) return MR_OK;
    if (keeps_all(s->rt, &s->rt->out[port])) return MR_END;
    mr__wait_counted(s->rt, MR__BLOCKED, can_get, &w);
  }
}

static bool all_back(void *arg) {
  wait_for_t *w = arg;
  return mr__cancelled(w->rt) || mr__pool_whole(w->rt->out[w->port].pool);
}

mr_err_t mr_all_back(mr_stage_t *s, int port) {
  assert(s->n_workers == 1 && s->rt->out[port].pool);
  wait_for_t w = {s->rt, port, 0};
  mr__wait_counted(s->rt, MR__BLOCKED, all_back, &w);
  return mr__cancelled(s->rt) ? MR_ERR_CANCEL : MR_OK;
}

/* ---- turns ---- */

typedef struct turn {
  mr_runtime_t *rt;
  _Atomic int64_t *at;
  int64_t number;
} turn_t;

/* seq_cst, as wait.h requires for what a waiter waits for; pairs with mr_turn_pass. */
static bool turn_mine(const turn_t *t) {
  int64_t at = atomic_load_explicit(t->at, memory_order_seq_cst);
  assert(at <= t->number); /* no worker passes a turn it has not had */
  return at == t->number;
}

/* seq_cst: pairs with mr_graph_stop's exchange. */
static bool turn_over(const mr_runtime_t *rt) {
  return atomic_load_explicit(&rt->g->stop, memory_order_seq_cst) || mr__out_gone(&rt->out[0]);
}

static bool turn_ready(void *arg) {
  const turn_t *t = arg;
  return turn_mine(t) || mr__cancelled(t->rt) || turn_over(t->rt);
}

mr_err_t mr_turn_wait(mr_stage_t *s, _Atomic int64_t *turn, int64_t number) {
  turn_t t = {s->rt, turn, number};
  mr__wait_counted(s->rt, MR__BLOCKED, turn_ready, &t);
  if (mr__cancelled(s->rt)) return MR_ERR_CANCEL;
  return turn_over(s->rt) ? MR_END : MR_OK;
}

void mr_turn_pass(mr_stage_t *s, _Atomic int64_t *turn) {
  mr__node_t *node = s->rt->node;
  /* seq_cst: also hands over the work of this turn. */
  atomic_fetch_add_explicit(turn, 1, memory_order_seq_cst);
  for (int w = 0; w < node->n_workers; w++) mr_wait_wake(&node->rt[w].wait);
}

/* ---- nothing came ---- */

void mr_gave_nothing(mr_stage_t *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(s->rt->node->nothing, MR__NOTHING_MAX, fmt, ap);
  va_end(ap);
}

/* What was written before the ring to s was closed is visible after it.  Stages with several inputs
   report nothing, so the first input leads to the stage that did. */
void mr_nothing_came(const mr_stage_t *s, int port, char *text, size_t n) {
  const mr_graph_t *g = s->rt->g;
  const mr__edge_t *e = mr__edge_into(g, mr__graph_find(g, s->name), port);
  *text = 0;
  for (int depth = 0; e && depth < g->n_nodes; depth++) {
    const mr__node_t *from = g->node[e->from];
    if (*from->nothing) {
      snprintf(text, n, "%s gave nothing: %s", from->name, from->nothing);
      return;
    }
    e = mr__edge_into(g, e->from, 0);
  }
}

/* ---- leaving ---- */

void mr__leave(mr_runtime_t *rt) {
  for (int p = 0; p < rt->s->n_out; p++) {
    const mr__out_t *out = &rt->out[p];
    for (int e = 0; e < out->n_edges; e++)
      for (int i = 0; i < out->edge[e].m; i++) mr_ring_close(out->edge[e].ring[i]);
  }
  for (int p = 0; p < rt->s->n_in; p++) {
    const mr__in_t *in = &rt->in[p];
    for (int i = 0; i < in->n; i++) mr_ring_abandon(ring_of(in, i, rt->s->worker));
  }
}
