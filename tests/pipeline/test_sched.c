/* Running graphs whose stages fail, end, stop or cancel at random calls.  Every run ends; what it
   says is the failure of a stage that failed; what was opened is closed, in reverse; every buffer
   is back; and where nothing interferes each sink gets all that was made for it.

   A round is a random forest of stages (rings of queues are refused when a graph settles), each
   with a random number of workers, and a fate for some of them. */
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

#include "pipeline/stage_step.h"
#include "tests/pipeline/wired.h"
#include "tests/random.h"

enum { NODES = 9, WORKERS = 3, FATES = 3 };

typedef enum what {
  CONTINUES,
  FAILS,       /* with a sentence */
  FAILS_MUTE,  /* without one */
  ENDS,        /* all of its workers, each at a call of its own */
  STOPS,       /* the graph */
  CANCELS,     /* the graph */
  FAILS_OPEN,  /* after it has taken something, as close will see */
  FAILS_LATER, /* its verdict */
} what_t;

typedef struct plan {
  const mr_stage_def_t *def;
  int in[2], workers; /* nodes before it, -1: none */
  what_t what;
  int at;        /* call at which it happens */
  int64_t total; /* make: buffers it makes; else how many reach it if nothing interferes */
} plan_t;

/* Of the round that runs; what several threads write is written under the lock. */
static struct {
  pthread_mutex_t lock;
  plan_t plan[NODES];
  int n;
  round_t *r;
  mr_graph_t *g;
  int calls[NODES][WORKERS];    /* each by its worker */
  int64_t came[NODES][WORKERS]; /* buffers */
  bool fired[NODES], cancelled, interfered;
  bool outside; /* another thread cancels, perhaps too late */
  int opened[NODES], n_opened, n_closed;
} now = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int node_of(const mr_stage_t *s) { return atoi(s->name + 1); }

static mr_err_t fire(mr_stage_t *s, int i) {
  const plan_t *p = &now.plan[i];
  pthread_mutex_lock(&now.lock);
  now.fired[i] = now.interfered = true;
  now.cancelled |= p->what == CANCELS;
  pthread_mutex_unlock(&now.lock);
  switch (p->what) {
    case FAILS: return mr_stage_fail(s, MR_ERR_DATA, "broke at %d", p->at);
    case FAILS_MUTE: return MR_ERR_SHAPE;
    case ENDS: return MR_END;
    case STOPS: mr_graph_stop(now.g); return MR_OK;
    case CANCELS: mr_graph_cancel(now.g); return MR_OK;
    default: return MR_OK;
  }
}

/* Before each step: what its fate says.  MR_AGAIN: nothing. */
static mr_err_t meet_fate(mr_stage_t *s) {
  int i = node_of(s), call = now.calls[i][s->worker]++;
  const plan_t *p = &now.plan[i];
  bool mine = p->what >= FAILS && p->what <= CANCELS && (p->what == ENDS || s->worker == 0);
  if (!mine || call < p->at || (call > p->at && p->what != ENDS)) return MR_AGAIN;
  return fire(s, i);
}

static mr_err_t bytes_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}

static mr_err_t any_open(mr_stage_t *s) {
  int i = node_of(s);
  now.opened[now.n_opened++] = i;
  if (now.plan[i].what != FAILS_OPEN) return MR_OK;
  return mr_stage_fail(s, MR_ERR_IO, "did not open");
}

static void any_close(mr_stage_t *s) {
  int last = now.n_opened - 1 - now.n_closed++;
  round_check(now.r, last >= 0 && now.opened[last] == node_of(s), "%s closes out of order",
              s->name);
}

static mr_err_t any_verdict(mr_stage_t *s) {
  if (now.plan[node_of(s)].what != FAILS_LATER) return MR_OK;
  return mr_stage_fail(s, MR_ERR_NORULE, "was no good");
}

static mr_err_t make_step(mr_stage_t *s) {
  int i = node_of(s);
  mr_err_t e = meet_fate(s);
  if (e != MR_AGAIN) return e;
  int64_t *made = &now.came[i][s->worker], number = s->worker + *made * s->n_workers;
  mr_buf_t *b;
  if (number >= now.plan[i].total || mr_stopping(s)) return MR_END;
  if ((e = mr_fresh(s, 0, &b)) != MR_OK) return e;
  *(int64_t *)b->data = number, ++*made;
  return mr_push(s, 0, b);
}

static mr_err_t pass_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  mr_err_t e = meet_fate(s);
  if (e != MR_AGAIN) return e;
  if (node_of(s) % 2) { /* one kind of calls or the other */
    e = mr_pull(s, 0, b);
    return e == MR_OK ? mr_push(s, 0, b[0]) : e;
  }
  size_t k = mr_take(s, 0, b, mr_room(s, 0));
  mr_give(s, 0, b, k);
  return k ? MR_OK : mr_idle(s);
}

/* One buffer of both inputs makes one; the second input's goes. */
static mr_err_t meet_step(mr_stage_t *s) {
  mr_buf_t *a, *b;
  mr_err_t e = meet_fate(s);
  if (e != MR_AGAIN) return e;
  if ((e = mr_pull(s, 0, &a)) != MR_OK) return e;
  if ((e = mr_pull(s, 1, &b)) != MR_OK) return mr_buf_unref(a), e;
  mr_buf_unref(b);
  return mr_push(s, 0, a);
}

static mr_err_t take_step(mr_stage_t *s) {
  int i = node_of(s);
  mr_buf_t *b;
  mr_err_t e = meet_fate(s);
  if (e != MR_AGAIN) return e;
  if ((e = mr_pull(s, 0, &b)) != MR_OK) return e;
  int64_t want = s->worker + now.came[i][s->worker]++ * s->n_workers;
  bool lossy = s->def->in[0].lossy;
  round_check(now.r, lossy ? *(int64_t *)b->data >= want : *(int64_t *)b->data == want,
              "%s got %lld, want %lld", s->name, (long long)*(int64_t *)b->data, (long long)want);
  mr_buf_unref(b);
  return MR_OK;
}

/* clang-format off */
#define BYTES(port) {.name = port, .flow = MR_FLOW_BYTES}
#define MAYBE(port) {.name = port, .flow = MR_FLOW_BYTES, .optional = true}
/* clang-format on */
#define ALL .open = any_open, .close = any_close, .verdict = any_verdict
static const mr_stage_def_t make = {
    .name = "make",
    .out = {MAYBE("out")},
    .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = make_step, .parallel = true},
    ALL};
static const mr_stage_def_t pass = {
    .name = "pass",
    .in = {BYTES("in")},
    .out = {MAYBE("out")},
    .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = pass_step, .parallel = true},
    ALL};
static const mr_stage_def_t meet = {
    .name = "meet",
    .in = {BYTES("a"), BYTES("b")},
    .out = {MAYBE("out")},
    .plan = bytes_plan,
    .step = &(const mr_step_def_t){.run = meet_step, .parallel = true},
    ALL};
static const mr_stage_def_t take = {
    .name = "take",
    .in = {BYTES("in")},
    .step = &(const mr_step_def_t){.run = take_step, .parallel = true},
    ALL};
static const mr_stage_def_t watch = {
    .name = "watch",
    .in = {{.name = "in", .flow = MR_FLOW_BYTES, .lossy = true}},
    .step = &(const mr_step_def_t){.run = take_step, .parallel = true},
    ALL};
static const mr_stage_def_t *const table[] = {&make, &pass, &meet, &take, &watch, NULL};

/* ---- a round's graph ---- */

static int tree_of(int i) {
  while (now.plan[i].in[0] >= 0) i = now.plan[i].in[0];
  return i;
}

static bool gives(int i) { return now.plan[i].def != &take && now.plan[i].def != &watch; }

/* A node before i that has an output; -1: none. */
static int some_giver(round_t *r, int i) {
  int at[NODES], n = 0;
  for (int k = 0; k < i; k++)
    if (gives(k)) at[n++] = k;
  return n ? at[draw(r, n)] : -1;
}

/* Trees are distinguished by their first root alone, so only makes that nothing reads yet are met.
 */
static int some_lone_make(round_t *r, int i) {
  int at[NODES], n = 0;
  for (int k = 0; k < i; k++) {
    bool lone = now.plan[k].def == &make;
    for (int j = 0; j < i; j++) lone &= now.plan[j].in[0] != k && now.plan[j].in[1] != k;
    if (lone) at[n++] = k;
  }
  return n ? at[draw(r, n)] : -1;
}

static plan_t random_plan(round_t *r, int i) {
  static const mr_stage_def_t *const kind[] = {&make, &pass, &pass, &meet, &take, &take, &watch};
  plan_t p = {.def = i ? kind[draw(r, 7)] : &make, .in = {-1, -1}, .workers = 1 + draw(r, WORKERS)};
  p.total = draw(r, 120);
  if (p.def == &make) return p;
  p.in[0] = some_giver(r, i);
  p.total = now.plan[p.in[0]].total;
  if (p.def != &meet) return p;
  p.in[1] = some_lone_make(r, i);
  if (p.in[1] < 0 || p.in[1] == tree_of(p.in[0])) return p.def = &pass, p.in[1] = -1, p;
  if (now.plan[p.in[1]].total < p.total) p.total = now.plan[p.in[1]].total;
  return p;
}

static void choose_fates(round_t *r) {
  for (int k = draw(r, FATES + 1); k; k--) {
    plan_t *p = &now.plan[draw(r, now.n)];
    p->what = (what_t)draw(r, FAILS_LATER + 1), p->at = draw(r, 60);
  }
}

static void add_all(mr_registry_t *reg, round_t *r) {
  char name[NODES][16], workers[16];
  mr_diag_t diag = {0};
  memset(reg, 0, sizeof *reg);
  mr_registry_add(reg, table);
  now.g = mr_graph_create(reg);
  for (int i = 0; i < now.n; i++) {
    plan_t *p = &now.plan[i];
    snprintf(name[i], sizeof *name, "n%d", i), snprintf(workers, sizeof workers, "%d", p->workers);
    assert_int_equal(mr_graph_add(now.g, p->def->name, name[i], NULL, &diag), MR_OK);
    assert_int_equal(mr_graph_set(now.g, name[i], "workers", workers, &diag), MR_OK);
    for (int k = 0; k < 2; k++)
      if (p->in[k] >= 0)
        assert_int_equal(
            mr_graph_link(now.g, name[p->in[k]], NULL, name[i], p->def->in[k].name, &diag), MR_OK);
  }
  assert_int_equal(mr_graph_set_depth(now.g, 2 << draw(r, 3), &diag), MR_OK);
}

/* ---- what must have come of it ---- */

static int first_of(what_t what) { /* in the order in which stages are opened and asked */
  for (int k = 0; k < now.n; k++) {
    int i = what == FAILS_OPEN ? now.g->order[k] : k;
    if (now.plan[i].what == what) return i;
  }
  return -1;
}

static void check_reported(const mr_diag_t *diag, mr_err_t e, int i) {
  const plan_t *p = &now.plan[i];
  char want[100];
  mr_err_t code = p->what == FAILS         ? MR_ERR_DATA
                  : p->what == FAILS_MUTE  ? MR_ERR_SHAPE
                  : p->what == FAILS_LATER ? MR_ERR_NORULE
                                           : MR_ERR_IO;
  if (p->what == FAILS)
    snprintf(want, sizeof want, "n%d: broke at %d", i, p->at);
  else
    snprintf(want, sizeof want, "n%d: %s", i,
             p->what == FAILS_MUTE    ? mr_err_text(MR_ERR_SHAPE)
             : p->what == FAILS_LATER ? "was no good"
                                      : "did not open");
  round_check(now.r, e == code && !strcmp(diag->text, want), "said %d \"%s\", want \"%s\"", (int)e,
              diag->text, want);
}

/* The failure that was reported is one that happened. */
static bool check_failures(const mr_diag_t *diag, mr_err_t e) {
  bool any = false;
  for (int i = 0; i < now.n; i++) {
    char start[16];
    what_t what = now.plan[i].what;
    if (!now.fired[i] || (what != FAILS && what != FAILS_MUTE)) continue;
    any = true;
    snprintf(start, sizeof start, "n%d:", i);
    if (strncmp(diag->text, start, strlen(start))) continue;
    return check_reported(diag, e, i), true;
  }
  round_check(now.r, !any, "said %d \"%s\", and another stage failed", (int)e, diag->text);
  return false;
}

static void check_result(const mr_diag_t *diag, mr_err_t e) {
  if (check_failures(diag, e)) return; /* before all else */
  if (now.outside && e == MR_ERR_CANCEL) return;
  if (now.cancelled) {
    round_check(now.r, e == MR_ERR_CANCEL, "cancelled, and it said %d", (int)e);
    return;
  }
  int later = first_of(FAILS_LATER);
  if (later >= 0) return check_reported(diag, e, later);
  round_check(now.r, e == MR_OK, "said %d \"%s\"", (int)e, diag->text);
}

static void check_came(void) {
  for (int i = 0; i < now.n; i++) {
    int64_t came = 0;
    for (int w = 0; w < WORKERS; w++) came += now.came[i][w];
    if (now.plan[i].def == &take)
      round_check(now.r, came == now.plan[i].total, "n%d got %lld of %lld", i, (long long)came,
                  (long long)now.plan[i].total);
  }
}

static void *cancel(void *arg) {
  for (int i = *(int *)arg; i; i--) sched_yield();
  mr_graph_cancel(now.g);
  return NULL;
}

static void run(round_t *r) {
  mr_diag_t diag = {0}, again = {0};
  pthread_t thread;
  int later = draw(r, 300);
  now.outside = now.interfered = one_in(r, 8);
  mr_err_t e = mr_graph_start(now.g, &diag);
  int unopened = first_of(FAILS_OPEN);
  if (e < 0) {
    round_check(r, unopened >= 0, "did not start: %s", diag.text);
    check_reported(&diag, e, unopened);
    round_check(r, now.opened[now.n_opened - 1] == unopened, "n%d was opened after it",
                now.opened[now.n_opened - 1]);
  }
  round_check(r, e < 0 || unopened < 0, "it started");
  if (e >= 0 && one_in(r, 6)) return mr_graph_destroy(now.g); /* which cancels and joins it */
  bool joins = e >= 0 && now.outside;
  if (joins) pthread_create(&thread, NULL, cancel, &later);
  if (e >= 0) check_result(&diag, e = mr_graph_join(now.g, &diag));
  if (e >= 0 && !now.interfered) check_came();
  if (joins) pthread_join(thread, NULL);
  round_check(r, mr_graph_join(now.g, &again) == MR_OK, "joined twice");
  round_check(r, mr_graph_start(now.g, &again) == MR_ERR_USAGE, "started twice");
  round_check(r, pools_whole(now.g), "a buffer is missing");
  mr_graph_destroy(now.g);
}

static void every_run_ends_and_tells_what_happened(void **state) {
  static mr_registry_t reg;
  round_t r = round_first(150);
  now.r = &r;
  while (round_next(&r)) {
    memset(now.calls, 0, sizeof now.calls), memset(now.came, 0, sizeof now.came);
    memset(now.fired, 0, sizeof now.fired);
    now.cancelled = now.interfered = false, now.n_opened = now.n_closed = 0;
    now.n = 1 + draw(&r, NODES);
    for (int i = 0; i < now.n; i++) now.plan[i] = random_plan(&r, i);
    choose_fates(&r);
    add_all(&reg, &r);
    run(&r);
    round_check(&r, now.n_closed == now.n_opened, "%d opened, %d closed", now.n_opened,
                now.n_closed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_run_ends_and_tells_what_happened)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
