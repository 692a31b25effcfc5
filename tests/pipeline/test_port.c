/* The calls of step functions.  First one thread makes the calls of all workers in a random order,
   and an oracle of plain queues says what each must return: which buffers, how much room, which
   losses, which end.  Then each worker has a thread of its own, and blocking calls, ends and a
   cancellation meet at random moments. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "pipeline/stage_step.h"
#include "tests/pipeline/wired.h"
#include "tests/random.h"

static mr_err_t bytes_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}
static mr_err_t no_step(mr_stage_t *s) { return MR_END; } /* nothing runs it */
static const mr_step_def_t idle = {.run = no_step, .parallel = true};

static const mr_stage_def_t make = {
    .name = "make",
    .out = {{.name = "out", .flow = MR_FLOW_BYTES, .optional = true}},
    .plan = bytes_plan,
    .step = &idle};
static const mr_stage_def_t pass = {.name = "pass",
                                    .in = {{.name = "in", .flow = MR_FLOW_BYTES}},
                                    .out = {{.name = "out", .flow = MR_FLOW_BYTES}},
                                    .plan = bytes_plan,
                                    .step = &idle};
static const mr_stage_def_t take = {
    .name = "take", .in = {{.name = "in", .flow = MR_FLOW_BYTES}}, .step = &idle};
static const mr_stage_def_t watch = {
    .name = "watch", .in = {{.name = "in", .flow = MR_FLOW_BYTES, .lossy = true}}, .step = &idle};
enum { CALLER_HAS = 3 };
static mr_err_t call_plan(mr_stage_t *s) {
  s->holds = CALLER_HAS;
  return MR_OK;
}
static const mr_stage_def_t call = {.name = "call",
                                    .in = {{.name = "in", .flow = MR_FLOW_BYTES}},
                                    .plan = call_plan,
                                    .step = &(const mr_step_def_t){.pulled = true}};
static const mr_stage_def_t *const table[] = {&make, &pass, &take, &watch, &call, NULL};
static mr_registry_t reg;

static int64_t *number_in(mr_buf_t *b) { return b->data; }

/* ---- without a graph to run: what fails ---- */

static void a_cancelled_worker_gets_nothing_more(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass ! take", 2);
  mr_stage_t *p = worker_of(g, "pass", 0);
  mr_buf_t *b = mr_pool_get(p->rt->out[0].pool), *out;
  mr_graph_cancel(g);
  assert_int_equal(mr_idle(p), MR_ERR_CANCEL);
  assert_int_equal(mr_pull(p, 0, &out), MR_ERR_CANCEL);
  assert_int_equal(mr_fresh(p, 0, &out), MR_ERR_CANCEL);
  assert_int_equal(mr_push(p, 0, b), MR_ERR_CANCEL); /* which owns b all the same */
  assert_int_equal(mr_all_back(p, 0), MR_ERR_CANCEL);
  mr_atomic_i64_t turn = 0;
  assert_int_equal(mr_turn_wait(p, &turn, 1), MR_ERR_CANCEL);
  assert_true(pools_whole(g));
  mr_graph_destroy(g);
}

static void a_turn_ends_with_a_stop_and_with_the_last_consumer(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass ! take", 2);
  mr_stage_t *p = worker_of(g, "pass", 0);
  mr_atomic_i64_t turn = 4;
  assert_int_equal(mr_turn_wait(p, &turn, 4), MR_OK);
  mr_turn_pass(p, &turn);
  assert_int_equal(mr_turn_wait(p, &turn, 5), MR_OK);
  mr__leave(worker_of(g, "take", 0)->rt);
  assert_int_equal(mr_turn_wait(p, &turn, 7), MR_END);
  assert_int_equal(mr_turn_wait(worker_of(g, "make", 0), &turn, 5), MR_OK);
  mr_graph_stop(g);
  assert_int_equal(mr_turn_wait(worker_of(g, "make", 0), &turn, 7), MR_END);
  mr_graph_destroy(g);
}

static void a_port_without_a_link_has_nothing_and_keeps_nothing(void **state) {
  mr_graph_t *g = wired(&reg, table, "make", 2);
  mr_stage_t *m = worker_of(g, "make", 0);
  mr_buf_t *b[MR_BURST];
  assert_int_equal(mr_take(m, 0, b, MR_BURST), 0);
  assert_int_equal(mr_pull(m, 0, b), MR_END);
  assert_int_equal(mr_room(m, 0), MR_BURST);
  assert_int_equal(mr_fresh(m, 0, b), MR_OK);
  mr_give(m, 0, b, 0);
  mr_give(m, 0, b, 1);
  assert_true(pools_whole(g));
  assert_int_equal(mr_idle(m), MR_AGAIN);
  mr_graph_destroy(g);
}

static void a_buffer_that_others_hold_keeps_its_number(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass ! take", 4);
  mr_stage_t *m = worker_of(g, "make", 0), *p = worker_of(g, "pass", 0),
             *t = worker_of(g, "take", 0);
  mr_buf_t *b[2], *shared, *out;
  for (int i = 0; i < 2; i++) assert_int_equal(mr_fresh(m, 0, &b[i]), MR_OK);
  mr_give(m, 0, b, 2);
  assert_int_equal(mr_take(p, 0, b, 2), 2);
  mr_buf_unref(b[0]);
  shared = mr_buf_ref(b[1]);
  mr_give(p, 0, &b[1], 1); /* number 0 of its edge, number 1 of the one before */
  assert_int_equal(mr_pull(t, 0, &out), MR_OK);
  assert_int_equal(out->seq, 1);
  mr_buf_unref(out);
  mr_give(p, 0, &shared, 1);
  assert_int_equal(mr_pull(t, 0, &out), MR_OK);
  assert_int_equal(out->seq, 1); /* as number 1, which it now is */
  mr_buf_unref(out);
  assert_true(pools_whole(g));
  mr_graph_destroy(g);
}

/* ---- a pulled stage ---- */

static bool makes_one(mr_stage_t *s) {
  mr_buf_t *b = mr_room(s, 0) ? mr_pool_get(s->rt->out[0].pool) : NULL;
  if (b) mr_give(s, 0, &b, 1);
  return b;
}

static bool passes_one(mr_stage_t *s) {
  mr_buf_t *b;
  if (!mr_room(s, 0) || !mr_take(s, 0, &b, 1)) return false;
  mr_give(s, 0, &b, 1);
  return true;
}

/* The program has CALLER_HAS - 1 buffers and waits for the next one, which the worker that is to
   make it makes last, when the others can do nothing more and each has one in hand. */
static void the_next_buffer_of_a_pulled_stage_finds_one_left(int makers, int passers, int depth) {
  char text[80];
  snprintf(text, sizeof text, "make workers=%d ! pass workers=%d ! call", makers, passers);
  if (!passers) snprintf(text, sizeof text, "make workers=%d ! call", makers);
  mr_graph_t *g = wired(&reg, table, text, depth);
  mr_stage_t *to = worker_of(g, "call", 0), *slow = NULL;
  mr_buf_t *held[CALLER_HAS], *hand[MR_MAX_WORKERS] = {NULL};
  int n = 0;
  for (uint64_t next = 0; n < CALLER_HAS; next++) {
    slow = worker_of(g, "make", (int)(next % (uint64_t)makers));
    if (n == CALLER_HAS - 1) break;
    assert_true(makes_one(slow));
    if (passers) assert_true(passes_one(worker_of(g, "pass", (int)(next % (uint64_t)passers))));
    assert_int_equal(mr_take(to, 0, &held[n++], 1), 1);
  }
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < makers; i++)
      if (worker_of(g, "make", i) != slow) more |= makes_one(worker_of(g, "make", i));
    for (int i = 0; i < passers; i++) more |= passes_one(worker_of(g, "pass", i));
  }
  for (int i = 0; i < makers; i++)
    if (worker_of(g, "make", i) != slow) hand[i] = mr_pool_get(slow->rt->out[0].pool);
  assert_int_equal(mr_take(to, 0, &held[n], 1), 0);
  assert_true(makes_one(slow));
  for (int i = 0; i < passers; i++) passes_one(worker_of(g, "pass", i));
  assert_int_equal(mr_take(to, 0, &held[n++], 1), 1);
  for (int i = 0; i < n; i++) mr_buf_unref(held[i]);
  for (int i = 0; i < makers; i++) mr_buf_unref(hand[i]);
  mr_graph_destroy(g);
}

static void a_pulled_stage_always_gets_its_next_buffer(void **state) {
  for (int makers = 1; makers <= 5; makers++)
    for (int passers = 0; passers <= 5; passers++)
      for (int depth = 2; depth <= 16; depth *= 2)
        the_next_buffer_of_a_pulled_stage_finds_one_left(makers, passers, depth);
}

/* ---- one thread for all workers, and an oracle ---- */

enum { PRODUCERS = 4, CONSUMERS = 4, EDGES = 3, QUEUE = 8, HELD = 4 };

typedef struct queue { /* from one producer to one consumer */
  int64_t number[QUEUE];
  int n;
  int64_t lost;
} queue_t;

typedef struct consumer {
  mr_stage_t *s;
  bool gone;
  int64_t next; /* lossless: the number it waits for */
  mr_buf_t *held[HELD];
  int n_held;
} consumer_t;

typedef struct edge {
  bool lossy;
  int m;
  consumer_t consumer[CONSUMERS];
  queue_t queue[PRODUCERS][CONSUMERS];
} edge_t;

typedef struct world {
  round_t *r;
  mr_graph_t *g;
  int n, n_edges, depth;
  struct {
    mr_stage_t *s;
    bool closed;
    int64_t next; /* number of its next buffer */
  } producer[PRODUCERS];
  edge_t edge[EDGES];
} world_t;

static int least(int a, int b) { return a < b ? a : b; }

/* How many of producer i's next buffers fit edge e. */
static int want_fan_room(const world_t *w, int i, const edge_t *e) {
  int added[CONSUMERS] = {0}, k = 0;
  for (int64_t t = w->producer[i].next; k < MR_BURST; t += w->n, k++) {
    int j = (int)(t % e->m), used = e->lossy ? 0 : e->queue[i][j].n;
    if (!e->consumer[j].gone && used + added[j] >= w->depth) break;
    added[j]++;
  }
  return k;
}

static int want_room(const world_t *w, int i) {
  int k = MR_BURST;
  for (int e = 0; e < w->n_edges; e++) k = least(k, want_fan_room(w, i, &w->edge[e]));
  return k;
}

static bool want_gone(const world_t *w) {
  bool any = false, only_watchers_stay = true, all = true, works = false;
  for (int e = 0; e < w->n_edges; e++) {
    bool gone = true;
    for (int j = 0; j < w->edge[e].m; j++) gone &= w->edge[e].consumer[j].gone;
    any = true, all &= gone;
    works |= !w->edge[e].lossy;
    if (!w->edge[e].lossy) only_watchers_stay &= gone;
  }
  return any && (all || (works && only_watchers_stay));
}

/* The queue that consumer j's next buffer comes from; -1: none will come. */
static int want_from(const world_t *w, const edge_t *e, int j) {
  int due = -1;
  int64_t number = INT64_MAX;
  if (!e->lossy || w->n == 1) {
    int i = (int)(e->consumer[j].next % w->n);
    return w->producer[i].closed && !e->queue[i][j].n ? -1 : i;
  }
  for (int i = 0; i < w->n; i++) { /* the smallest number that any still has or may make */
    const queue_t *q = &e->queue[i][j];
    int64_t t = w->producer[i].next, tries = 0;
    if (w->producer[i].closed && !q->n) continue;
    while (t % e->m != j && tries++ < e->m) t += w->n;
    if (t % e->m != j) continue; /* it never has one for j */
    if (q->n) t = q->number[0];
    if (t < number) number = t, due = i;
  }
  return due;
}

static int64_t want_pop(queue_t *q) {
  int64_t t = q->number[0];
  memmove(q->number, q->number + 1, (size_t)--q->n * sizeof *q->number);
  return t;
}

/* What consumer j takes next, -1: nothing now. */
static int64_t want_take(world_t *w, edge_t *e, int j) {
  int i = want_from(w, e, j);
  if (i < 0 || !e->queue[i][j].n) return -1;
  e->consumer[j].next += e->m;
  return want_pop(&e->queue[i][j]);
}

static void want_give(world_t *w, int i, edge_t *e, int64_t t) {
  int j = (int)(t % e->m);
  queue_t *q = &e->queue[i][j];
  if (e->consumer[j].gone) return;
  if (q->n == w->depth) want_pop(q), q->lost++;
  q->number[q->n++] = t;
}

static world_t world(round_t *r) {
  char text[400];
  world_t w = {.r = r, .n = 1 + draw(r, PRODUCERS), .n_edges = draw(r, EDGES + 1)};
  w.depth = 2 << draw(r, 3);
  int at = snprintf(text, sizeof text, "make name=p workers=%d", w.n);
  for (int e = 0; e < w.n_edges; e++) {
    w.edge[e].lossy = one_in(r, 2);
    w.edge[e].m = 1 + draw(r, CONSUMERS);
    at += snprintf(text + at, sizeof text - (size_t)at, "%s ! %s name=c%d workers=%d",
                   e ? "\np." : "", w.edge[e].lossy ? "watch" : "take", e, w.edge[e].m);
  }
  w.g = wired(&reg, table, text, w.depth);
  for (int i = 0; i < w.n; i++) w.producer[i].s = worker_of(w.g, "p", i), w.producer[i].next = i;
  for (int e = 0; e < w.n_edges; e++)
    for (int j = 0; j < w.edge[e].m; j++) {
      snprintf(text, sizeof text, "c%d", e);
      w.edge[e].consumer[j].s = worker_of(w.g, text, j), w.edge[e].consumer[j].next = j;
    }
  return w;
}

static void give(world_t *w, int i) {
  mr_buf_t *b[MR_BURST];
  mr_stage_t *s = w->producer[i].s;
  int room = (int)mr_room(s, 0), k = 0, most = least(room, draw(w->r, 8));
  uint64_t news[EDGES][CONSUMERS];
  bool got[EDGES][CONSUMERS] = {{false}};
  round_check(w->r, room == want_room(w, i), "producer %d has room %d, want %d", i, room,
              want_room(w, i));
  for (int e = 0; e < w->n_edges; e++)
    for (int j = 0; j < w->edge[e].m; j++) news[e][j] = mr_news(w->edge[e].consumer[j].s);
  while (k < most && (b[k] = mr_pool_get(s->rt->out[0].pool))) {
    int64_t t = w->producer[i].next;
    *number_in(b[k++]) = t;
    w->producer[i].next += w->n;
    for (int e = 0; e < w->n_edges; e++) {
      want_give(w, i, &w->edge[e], t);
      got[e][t % w->edge[e].m] = true;
    }
  }
  if (k && k == most && k == 1 && one_in(w->r, 2) && !want_gone(w))
    round_check(w->r, mr_push(s, 0, b[0]) == MR_OK, "push");
  else
    mr_give(s, 0, b, (size_t)k);
  for (int e = 0; e < w->n_edges; e++)
    for (int j = 0; j < w->edge[e].m; j++)
      round_check(w->r, !got[e][j] || mr_news(w->edge[e].consumer[j].s) != news[e][j],
                  "no news for %d.%d", e, j);
}

static void check_buffer(world_t *w, mr_buf_t *b, int64_t want) {
  round_check(w->r, want >= 0 && *number_in(b) == want && b->seq == want,
              "number %lld (seq %lld), want %lld", (long long)*number_in(b), (long long)b->seq,
              (long long)want);
}

static void keep_or_release(world_t *w, consumer_t *c, mr_buf_t *b) {
  if (c->n_held < HELD && one_in(w->r, 3))
    c->held[c->n_held++] = b;
  else
    mr_buf_unref(b);
}

static void take_some(world_t *w, int e, int j) {
  edge_t *edge = &w->edge[e];
  consumer_t *c = &edge->consumer[j];
  mr_buf_t *b[QUEUE];
  size_t most = (size_t)draw(w->r, QUEUE + 1);
  int from = want_from(w, edge, j);
  if (one_in(w->r, 4) && (from < 0 || edge->queue[from][j].n)) { /* pull would not block */
    mr_err_t got = mr_pull(c->s, 0, b);
    round_check(w->r, got == (from < 0 ? MR_END : MR_OK), "pull of %d.%d: %d", e, j, (int)got);
    if (got == MR_OK) check_buffer(w, b[0], want_take(w, edge, j)), keep_or_release(w, c, b[0]);
    return;
  }
  size_t k = mr_take(c->s, 0, b, most);
  for (size_t i = 0; i < k; i++)
    check_buffer(w, b[i], want_take(w, edge, j)), keep_or_release(w, c, b[i]);
  from = want_from(w, edge, j);
  round_check(w->r, k == most || from < 0 || !edge->queue[from][j].n, "%d.%d took %d only", e, j,
              (int)k);
}

static void leave(world_t *w, int e, int j) {
  consumer_t *c = &w->edge[e].consumer[j];
  mr__leave(c->s->rt);
  c->gone = true;
  for (int i = 0; i < w->n; i++) w->edge[e].queue[i][j].n = 0;
}

static void check_idle(world_t *w) {
  mr_err_t end = want_gone(w) ? MR_END : MR_AGAIN;
  for (int i = 0; i < w->n; i++)
    round_check(w->r, w->producer[i].closed || mr_idle(w->producer[i].s) == end, "producer %d", i);
  for (int e = 0; e < w->n_edges; e++)
    for (int j = 0; j < w->edge[e].m; j++) {
      consumer_t *c = &w->edge[e].consumer[j];
      int64_t lost = 0;
      for (int i = 0; i < w->n; i++) lost += w->edge[e].queue[i][j].lost;
      round_check(w->r, mr_lost(c->s, 0) == lost, "%d.%d lost %lld, want %lld", e, j,
                  (long long)mr_lost(c->s, 0), (long long)lost);
      if (c->gone) continue;
      end = want_from(w, &w->edge[e], j) < 0 ? MR_END : MR_AGAIN;
      round_check(w->r, mr_idle(c->s) == end, "consumer %d.%d: want %d", e, j, (int)end);
    }
}

static void act(world_t *w) {
  int what = draw(w->r, 100);
  if (what < 45 || !w->n_edges) {
    int i = draw(w->r, w->n);
    if (!w->producer[i].closed) give(w, i);
    if (what == 0 && !w->producer[i].closed) /* it may end while others continue */
      mr__leave(w->producer[i].s->rt), w->producer[i].closed = true;
    return;
  }
  int e = draw(w->r, w->n_edges), j = draw(w->r, w->edge[e].m);
  consumer_t *c = &w->edge[e].consumer[j];
  if (!c->gone && what < 95) take_some(w, e, j);
  if (what == 95 && !c->gone && one_in(w->r, 4)) leave(w, e, j);
  while (what > 95 && c->n_held) mr_buf_unref(c->held[--c->n_held]);
}

/* In any order: who has not left yet leaves, who holds buffers lets go of them. */
static void end_world(world_t *w) {
  mr_buf_t *b;
  if (one_in(w->r, 2) && want_gone(w))
    round_check(w->r, mr_fresh(w->producer[0].s, 0, &b) == MR_END, "fresh, without a consumer");
  if (one_in(w->r, 2)) {
    for (int i = 0; i < w->n; i++)
      if (!w->producer[i].closed) mr__leave(w->producer[i].s->rt), w->producer[i].closed = true;
    for (int e = 0; e < w->n_edges; e++) /* what is still there is had, and then it is over */
      for (int j = 0; j < w->edge[e].m; j++)
        for (int k = 0; !w->edge[e].consumer[j].gone && k < 20; k++) take_some(w, e, j);
    check_idle(w);
  }
  for (int e = 0; e < w->n_edges; e++)
    for (int j = 0; j < w->edge[e].m; j++) {
      consumer_t *c = &w->edge[e].consumer[j];
      if (!c->gone) leave(w, e, j);
      while (c->n_held) mr_buf_unref(c->held[--c->n_held]);
    }
  round_check(w->r, pools_whole(w->g), "a buffer is missing");
  if (w->n == 1) round_check(w->r, mr_all_back(w->producer[0].s, 0) == MR_OK, "all are back");
  mr_graph_destroy(w->g);
}

static void every_call_returns_what_plain_queues_say(void **state) {
  round_t r = round_first(400);
  while (round_next(&r)) {
    world_t w = world(&r);
    for (int i = draw(&r, 400); i; i--) {
      act(&w);
      if (one_in(&r, 8)) check_idle(&w);
    }
    end_world(&w);
  }
}

/* ---- a thread for each worker ---- */

enum { THREADS = 24, WATCHERS = 3 };

typedef struct worker {
  mr_stage_t *s;
  round_t r;
  int64_t limit; /* calls after which it leaves by itself */
  int64_t last;  /* number it saw last, -1 */
  mr_err_t end;
  int fd;       /* never ready */
  bool watched; /* a lossy input hangs behind the stages */
} worker_t;

/* What a stage between does: by blocking calls or by bursts. */
static mr_err_t pass_on(worker_t *w) {
  mr_buf_t *b[MR_BURST];
  if (one_in(&w->r, 2)) {
    mr_err_t e = mr_pull(w->s, 0, b);
    return e == MR_OK ? mr_push(w->s, 0, b[0]) : e;
  }
  uint64_t seen = mr_news(w->s);
  size_t k = mr_take(w->s, 0, b, mr_room(w->s, 0));
  mr_give(w->s, 0, b, k);
  if (k) return MR_OK;
  mr_err_t e = mr_idle(w->s);
  if (e != MR_AGAIN) return e;
  struct pollfd fd = {.fd = w->fd, .events = POLLIN};
  if (one_in(&w->r, 2)) return mr_wait_fds(w->s, seen, &fd, 1, one_in(&w->r, 2) ? -1 : 1);
  return mr__wait_news(w->s->rt, seen), MR_OK;
}

static mr_err_t make_one(worker_t *w) {
  mr_buf_t *b;
  if (w->s->n_workers == 1 && one_in(&w->r, w->watched ? 200 : 30)) { /* watchers doze */
    MR_TRY(mr_all_back(w->s, 0));
    round_check(&w->r, mr__pool_whole(w->s->rt->out[0].pool), "all back, and one is missing");
  }
  mr_err_t e = mr_fresh(w->s, 0, &b);
  if (e != MR_OK) return e;
  *number_in(b) = (int64_t)w->s->rt->out[0].next;
  return mr_push(w->s, 0, b);
}

/* As a program does with a pulled stage. */
static mr_err_t pull_by_hand(worker_t *w, mr_buf_t **b) {
  while (!mr_take(w->s, 0, b, 1)) {
    struct pollfd fd = {.fd = w->fd, .events = POLLIN};
    mr_err_t e = mr_idle(w->s);
    if (e == MR_AGAIN) e = mr_wait_input(w->s, 0, &fd, 1, one_in(&w->r, 2) ? -1 : 1);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

static mr_err_t take_one(worker_t *w, bool lossy) {
  mr_buf_t *b;
  mr_err_t e = one_in(&w->r, 2) ? mr_pull(w->s, 0, &b) : pull_by_hand(w, &b);
  if (e != MR_OK) return e;
  int64_t t = *number_in(b), step = w->s->n_workers;
  round_check(&w->r, t % step == w->s->worker, "%lld came to worker %d", (long long)t,
              w->s->worker);
  round_check(&w->r, lossy ? t > w->last : t == (w->last < 0 ? w->s->worker : w->last + step),
              "%lld came after %lld", (long long)t, (long long)w->last);
  w->last = t;
  if (one_in(&w->r, 8)) sched_yield();
  mr_buf_unref(b);
  return MR_OK;
}

static void *work(void *arg) {
  worker_t *w = arg;
  const mr_stage_def_t *def = w->s->def;
  for (w->end = MR_OK; w->end == MR_OK && w->limit--;)
    w->end = def == &make ? make_one(w) : def == &pass ? pass_on(w) : take_one(w, def == &watch);
  mr__leave(w->s->rt);
  return NULL;
}

static void threads_end_whichever_ends_first(void **state) {
  round_t r = round_first(200);
  while (round_next(&r)) {
    char text[400];
    int width[] = {1 + draw(&r, 3), 1 + draw(&r, 3), 1 + draw(&r, 3), 1 + draw(&r, WATCHERS)};
    snprintf(text, sizeof text, "make workers=%d ! pass workers=%d ! take workers=%d%s", width[0],
             width[1], width[2], one_in(&r, 2) ? "\npass. ! watch workers=2" : "");
    mr_graph_t *g = wired(&reg, table, text, 2 << draw(&r, 3));
    worker_t w[THREADS];
    pthread_t thread[THREADS];
    int n = 0, ends_first = draw(&r, 4);
    bool cancels = one_in(&r, 3);
    for (int i = 0; i < g->n_nodes; i++)
      for (int k = 0; k < g->node[i]->n_workers; k++) {
        /* Of one stage all workers end early, so that the others see an end; watchers end nothing.
         */
        bool early = i == ends_first || (i == 0 && ends_first >= 3);
        w[n] = (worker_t){.s = g->node[i]->rt[k].s,
                          .r = round_split(&r),
                          .limit = early ? draw(&r, 300) : 1 << 30,
                          .last = -1,
                          .fd = eventfd(0, EFD_CLOEXEC),
                          .watched = g->n_nodes == 4};
        n++;
      }
    for (int i = 0; i < n; i++) pthread_create(&thread[i], NULL, work, &w[i]);
    for (int i = cancels ? draw(&r, 200) : 0; i; i--) sched_yield();
    if (cancels) mr_graph_cancel(g);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL), close(w[i].fd);
    for (int i = 0; i < n; i++)
      round_check(&r, w[i].end == MR_OK || w[i].end == MR_END || cancels, "worker %d ended with %d",
                  i, (int)w[i].end);
    round_check(&r, pools_whole(g), "a buffer is missing");
    mr_graph_destroy(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cancelled_worker_gets_nothing_more),
      cmocka_unit_test(a_turn_ends_with_a_stop_and_with_the_last_consumer),
      cmocka_unit_test(a_pulled_stage_always_gets_its_next_buffer),
      cmocka_unit_test(a_port_without_a_link_has_nothing_and_keeps_nothing),
      cmocka_unit_test(a_buffer_that_others_hold_keeps_its_number),
      cmocka_unit_test(every_call_returns_what_plain_queues_say),
      cmocka_unit_test(threads_end_whichever_ends_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
