/* What is committed, passed back through random trees of stages whose buffers begin with buffers
   before them in every way: the number a stage sees is what one sweep from the sinks back says. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <string.h>

#include "pipeline/run/commit.h"
#include "pipeline/stage_step.h"
#include "tests/pipeline/wired.h"
#include "tests/random.h"

enum { NODES = 10, CALLS = 200, THREADS = 3 };

/* ---- stages that only stand there ---- */

static mr_err_t bytes_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}
static mr_err_t no_step(mr_stage_t *s) { return MR_END; }

/* Two buffers make one; its first one is unknown. */
static int64_t pairs_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record) {
  return number ? number * 2 : -1;
}
/* A buffer makes three. */
static int64_t thirds_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record) {
  own[0] = number % 3;
  return number / 3;
}
static int64_t blind_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record) {
  return -1;
}
static int64_t record_seek(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record) {
  return *record = number, 0;
}

/* clang-format off */
#define IN .in = {{.name = "in", .flow = MR_FLOW_BYTES}}
#define OUT .out = {{.name = "out", .flow = MR_FLOW_BYTES, .optional = true}}, .plan = bytes_plan
/* clang-format on */
static const mr_stage_def_t make = {
    .name = "make", OUT, .step = &(const mr_step_def_t){.run = no_step, .parallel = true}};
static const mr_stage_def_t pass = {
    .name = "pass", IN, OUT, .step = &(const mr_step_def_t){.run = no_step, .parallel = true}};
static const mr_stage_def_t pairs = {
    .name = "pairs", IN, OUT, .step = &(const mr_step_def_t){.run = no_step, .seek = pairs_seek}};
static const mr_stage_def_t thirds = {
    .name = "thirds",
    IN,
    OUT,
    .step = &(const mr_step_def_t){.run = no_step, .seek = thirds_seek, .n_words = 1}};
static const mr_stage_def_t blind = {
    .name = "blind", IN, OUT, .step = &(const mr_step_def_t){.run = no_step, .seek = blind_seek}};
static const mr_stage_def_t record = {
    .name = "record", IN, OUT, .step = &(const mr_step_def_t){.run = no_step, .seek = record_seek}};
static const mr_stage_def_t *const table[] = {&make, &pass, &pairs, &thirds, &blind, &record, NULL};
static mr_registry_t reg;

/* ---- failure cases ---- */

static void nothing_is_committed_where_no_stage_keeps_anything(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass name=a ! pass name=b", 2);
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), -1);
  assert_int_equal(mr_committed(worker_of(g, "a", 0)), -1);
  mr_graph_destroy(g);
}

static void commits_of_unknown_ports_and_stages_change_nothing(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass name=a ! pass name=b", 2);
  mr_stage_t *b = worker_of(g, "b", 0);
  mr_commits(b);
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), 0);
  mr_commit(b, "b", 0, -1);   /* no number */
  mr_commit(b, "b", 1, 5);    /* no such port */
  mr_commit(b, "make", 0, 5); /* nothing leads there */
  mr_commit(b, "no such stage", 0, 5);
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), 0);
  mr_commit(b, "b", 0, 5);
  assert_int_equal(mr_committed(worker_of(g, "a", 0)), 5);
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), 5);
  mr_graph_destroy(g);
}

static void a_stage_may_say_it_of_one_before_it(void **state) {
  mr_graph_t *g = wired(&reg, table, "make ! pass name=a ! pass name=b", 2);
  mr_stage_t *b = worker_of(g, "b", 0);
  mr_commits(b);
  mr_commit(b, "a", 0, 7); /* of the stream between make and a */
  assert_int_equal(mr_committed(worker_of(g, "a", 0)), 0);
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), 7);
  mr_graph_destroy(g);
}

static void a_stream_begins_where_it_was_resumed(void **state) {
  mr_diag_t diag = {0};
  memset(&reg, 0, sizeof reg);
  mr_registry_add(&reg, table);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, "make ! pass name=a ! pass name=b", NULL, 0, &diag) < 0 ||
      mr_graph_start_number(g, "make", 12, &diag) < 0 || mr_graph_settle(g, &diag) < 0)
    fail_msg("%s", diag.text);
  assert_int_equal(mr__wire(g), MR_OK);
  mr_commits(worker_of(g, "b", 0));
  assert_int_equal(mr_committed(worker_of(g, "make", 0)), 12);
  mr_graph_destroy(g);
}

/* ---- rounds ---- */

typedef struct node {
  const mr_stage_def_t *def;
  int before;       /* -1: none */
  bool will, keeps; /* says what it has, and has said that it will */
  int64_t said;     /* of its input, the last time */
  int64_t back;     /* what lies before its first uncommitted buffer, of its input; -1: not known */
} node_t;

typedef struct world {
  round_t *r;
  mr_graph_t *g;
  node_t node[NODES];
  mr_stage_t *s[NODES];
  int n;
} world_t;

static bool some_keeper_behind(const world_t *w, int i) {
  for (int k = i + 1; k < w->n; k++)
    if (w->node[k].before == i && (w->node[k].keeps || some_keeper_behind(w, k))) return true;
  return false;
}

static int64_t number_before(const mr_stage_def_t *def, int64_t number) {
  if (def == &pairs) return number ? 2 * number : -1;
  if (def == &thirds) return number / 3;
  return def == &blind || def == &record ? -1 : number;
}

/* What stage i sees, once what those behind it see is known: nodes come after those before them.
 */
static int64_t want_committed(world_t *w, int i) {
  int64_t least = INT64_MAX;
  for (int k = i + 1; k < w->n; k++) {
    node_t *b = &w->node[k];
    if (b->before != i) continue;
    if (some_keeper_behind(w, k)) {
      int64_t before = number_before(b->def, want_committed(w, k));
      if (before >= 0) b->back = before; /* else it is what was known last */
      if (b->back < least) least = b->back;
    }
    if (b->keeps && b->said < least) least = b->said;
  }
  return least == INT64_MAX ? -1 : least;
}

static void check(world_t *w) {
  for (int i = 0; i < w->n; i++) {
    int64_t want = want_committed(w, i), got = mr_committed(w->s[i]);
    round_check(w->r, got == want, "n%d (%s) sees %lld, want %lld", i, w->node[i].def->name,
                (long long)got, (long long)want);
  }
}

static world_t random_world(round_t *r) {
  static const mr_stage_def_t *const kind[] = {&pass, &pass, &pairs, &thirds, &blind, &record};
  world_t w = {.r = r, .n = 2 + draw(r, NODES - 1)};
  char text[600], name[16];
  int at = snprintf(text, sizeof text, "make name=n0 workers=%d", 1 + draw(r, 2));
  w.node[0] = (node_t){.def = &make, .before = -1};
  for (int i = 1; i < w.n; i++) {
    node_t *b = &w.node[i];
    *b = (node_t){.def = kind[draw(r, 6)], .before = draw(r, i), .will = one_in(r, 3)};
    at += snprintf(text + at, sizeof text - (size_t)at, "\nn%d. ! %s name=n%d", b->before,
                   b->def->name, i);
  }
  w.g = wired(&reg, table, text, 2);
  for (int i = 0; i < w.n; i++)
    snprintf(name, sizeof name, "n%d", i), w.s[i] = worker_of(w.g, name, 0);
  return w;
}

static void begin(world_t *w, int i) {
  mr_commits(w->s[i]);
  w->node[i].keeps = true;
}

/* Each keeper's numbers grow, as what is durable does. */
static void commit_some(world_t *w, round_t *r, int i) {
  node_t *b = &w->node[i];
  char name[16];
  if (!b->keeps) return;
  snprintf(name, sizeof name, "n%d", i);
  b->said += draw(r, 5);
  mr_commit(w->s[i], name, 0, b->said);
}

static void random_orders_pass_back_the_least(void **state) {
  round_t r = round_first(500);
  while (round_next(&r)) {
    world_t w = random_world(&r);
    int order[NODES];
    for (int i = 0; i < w.n; i++) order[i] = i;
    for (int i = w.n - 1; i > 0; i--) {
      int k = draw(&r, i + 1), o = order[i];
      order[i] = order[k], order[k] = o;
    }
    check(&w); /* nothing keeps anything yet */
    for (int i = 0; i < w.n; i++)
      if (w.node[order[i]].will) begin(&w, order[i]);
    check(&w);
    for (int i = draw(&r, CALLS); i; i--) commit_some(&w, &r, draw(&r, w.n)), check(&w);
    mr_graph_destroy(w.g);
  }
}

/* ---- the same from several threads: in the end the last word of each counts ---- */

typedef struct teller {
  world_t *w;
  round_t r;
  int which;
} teller_t;

static void *tell(void *arg) {
  teller_t *t = arg;
  int64_t before = 0;
  for (int k = 0; k < CALLS; k++) {
    int i = draw(&t->r, t->w->n);
    if (i % THREADS == t->which) commit_some(t->w, &t->r, i);
    int64_t now = mr_committed(t->w->s[0]);
    round_check(&t->r, now >= before, "n0 saw %lld, then %lld", (long long)before, (long long)now);
    before = now;
  }
  return NULL;
}

static void several_threads_commit_at_once(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    world_t w = random_world(&r);
    teller_t t[THREADS];
    pthread_t thread[THREADS];
    for (int i = 1; i < w.n; i++)
      if (w.node[i].will) begin(&w, i);
    if (mr_committed(w.s[0]) < 0) { /* no keeper at all */
      mr_graph_destroy(w.g);
      continue;
    }
    for (int i = 0; i < THREADS; i++) {
      t[i] = (teller_t){&w, round_split(&r), i};
      pthread_create(&thread[i], NULL, tell, &t[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    check(&w);
    mr_graph_destroy(w.g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_committed_where_no_stage_keeps_anything),
      cmocka_unit_test(commits_of_unknown_ports_and_stages_change_nothing),
      cmocka_unit_test(a_stage_may_say_it_of_one_before_it),
      cmocka_unit_test(a_stream_begins_where_it_was_resumed),
      cmocka_unit_test(random_orders_pass_back_the_least),
      cmocka_unit_test(several_threads_commit_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
