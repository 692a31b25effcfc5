/* Graphs whose scheduler, ports, rings, pools and waiting run under every order of threads and
   every value that weak memory may show: each buffer arrives once, in order, with what was written
   into it; no thread sleeps for ever; every buffer comes back.

   MR_ROUNDS and MR_SEED take other numbers of rounds and another first seed. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>

#include "pipeline/graph/graph.h"
#include "pipeline/pool.h"
#include "pipeline/run/commit.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_step.h"
#include "tests/weak/weak.h"

enum { N = 6, DEPTH = 2 };

typedef struct {
  int n_workers, leaves_after; /* of the sink: 0 stays to the end */
  bool lossy, two_sinks, waits_for_all, stops, cancels;
  bool commits; /* the sinks keep what they take, and the source gives one buffer beyond that */
} shape_t;

static shape_t shape;
static mr_graph_t *graph;
static int n_given, n_taken[2];
static int64_t last_taken[2];

/* ---- a source that writes its number into each buffer ---- */

static mr_err_t give_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 8);
  return MR_OK;
}

static mr_err_t give_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (n_given == N || mr_stopping(s)) return MR_END;
  if (shape.commits && mr_committed(s) < n_given) return MR_AGAIN;
  if (shape.waits_for_all && mr_all_back(s, 0) == MR_ERR_CANCEL) return MR_ERR_CANCEL;
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  weak_write(b->data);
  *(int64_t *)b->data = ++n_given;
  return mr_push(s, 0, b);
}

/* ---- a stage between, by bursts that do not block ---- */

static mr_err_t pass_plan(mr_stage_t *s) { return s->out_spec[0] = s->in_spec[0], MR_OK; }

static mr_err_t pass_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, mr_room(s, 0));
  for (size_t i = 0; i < k; i++) weak_read(b[i]->data);
  mr_give(s, 0, b, k);
  return k ? MR_OK : mr_idle(s);
}

/* ---- a sink that looks at what it gets ---- */

static mr_err_t take_open(mr_stage_t *s) {
  if (shape.commits) mr_commits(s);
  return MR_OK;
}

static mr_err_t take_step(mr_stage_t *s) {
  int me = s->name[0] == 'b'; /* of two sinks the second; it never leaves early */
  mr_buf_t *b;
  if (!me && shape.leaves_after && n_taken[0] == shape.leaves_after) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  weak_read(b->data);
  int64_t number = *(int64_t *)b->data;
  WEAK_CHECK(shape.lossy ? number > last_taken[me] : number == last_taken[me] + 1);
  last_taken[me] = number;
  n_taken[me]++;
  mr_buf_unref(b);
  if (shape.commits) mr_commit(s, s->name, 0, number);
  return MR_OK;
}

static const mr_stage_def_t give = {.name = "give",
                                    .out = {{.name = "out", .flow = MR_FLOW_BYTES}},
                                    .plan = give_plan,
                                    .step = &(const mr_step_def_t){.run = give_step}};
static const mr_stage_def_t pass = {
    .name = "pass",
    .in = {{.name = "in", .flow = MR_FLOW_BYTES}},
    .out = {{.name = "out", .flow = MR_FLOW_BYTES}},
    .step = &(const mr_step_def_t){.run = pass_step, .parallel = true},
    .plan = pass_plan};
static const mr_stage_def_t take = {.name = "take",
                                    .in = {{.name = "in", .flow = MR_FLOW_BYTES}},
                                    .open = take_open,
                                    .step = &(const mr_step_def_t){.run = take_step}};
static const mr_stage_def_t watch = {.name = "take",
                                     .in = {{.name = "in", .flow = MR_FLOW_BYTES, .lossy = true}},
                                     .step = &(const mr_step_def_t){.run = take_step}};

/* ---- rounds ---- */

static void *stop_some_time(void *arg) {
  for (int i = weak_draw(200); i > 0; i--) weak_yield();
  if (shape.cancels)
    mr_graph_cancel(graph);
  else
    mr_graph_stop(graph);
  return NULL;
}

static const char *text(void) {
  if (shape.two_sinks) return "give ! take name=a give. ! take name=b";
  if (shape.n_workers)
    return shape.n_workers == 2 ? "give ! pass workers=2 ! take" : "give ! pass ! take";
  return "give ! take";
}

static void before(void) {
  static mr_registry_t reg;
  const mr_stage_def_t *all[] = {&give, &pass, shape.lossy ? &watch : &take, NULL};
  mr_diag_t diag = {0};
  n_given = n_taken[0] = n_taken[1] = 0;
  last_taken[0] = last_taken[1] = 0;
  reg.n = 0;
  mr_registry_add(&reg, all);
  graph = mr_graph_create(&reg);
  if (mr_graph_parse(graph, text(), NULL, 0, &diag) < 0 ||
      mr_graph_set_depth(graph, DEPTH, &diag) < 0 || mr_graph_start(graph, &diag) < 0)
    fail_msg("%s", diag.text);
  if (shape.stops || shape.cancels) weak_start(stop_some_time, NULL);
}

static void after(void) {
  mr_diag_t diag = {0};
  mr_err_t e = mr_graph_join(graph, &diag);
  bool whole = !shape.stops && !shape.cancels && !shape.leaves_after;
  WEAK_CHECK(e == MR_OK || (shape.cancels && e == MR_ERR_CANCEL));
  WEAK_CHECK(!whole || last_taken[0] == N);
  WEAK_CHECK(!whole || shape.lossy || n_taken[0] == N);
  WEAK_CHECK(!shape.two_sinks || shape.stops || shape.cancels || last_taken[1] == N);
  /* A ring may keep what was pushed as its consumer left; it goes with the graph. */
  for (int i = 0; whole && i < graph->n_nodes * MR_MAX_PORTS; i++)
    WEAK_CHECK(!graph->pool[i] || mr__pool_whole(graph->pool[i]));
  mr_graph_destroy(graph);
}

static int number_of(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static void try_shape(const char *name, shape_t s) {
  weak_test_t test = {name, before, after};
  uint64_t seed = (uint64_t)number_of("MR_SEED", 1);
  int rounds = number_of("MR_ROUNDS", 2000);
  shape = s;
#ifdef WEAK_SEQ_CST
  assert_true(weak_finds(&test, seed, rounds * 10));
#else
  weak_run(&test, seed, rounds);
#endif
}

static void buffers_arrive_in_order(void **state) { try_shape("source and sink", (shape_t){0}); }

static void buffers_arrive_in_order_through_a_stage_between(void **state) {
  try_shape("three stages", (shape_t){.n_workers = 1});
}

#ifndef WEAK_SEQ_CST
static void buffers_arrive_in_order_through_two_workers(void **state) {
  try_shape("two workers", (shape_t){.n_workers = 2});
}

static void a_lossy_sink_sees_the_last_buffer(void **state) {
  try_shape("a lossy sink", (shape_t){.lossy = true});
}

static void two_sinks_get_the_same_buffers(void **state) {
  try_shape("two sinks", (shape_t){.two_sinks = true});
  try_shape("two sinks, one leaves", (shape_t){.two_sinks = true, .leaves_after = 2});
  try_shape("two sinks, all back", (shape_t){.two_sinks = true, .waits_for_all = true});
}

static void a_sink_may_leave(void **state) {
  try_shape("a sink that leaves", (shape_t){.leaves_after = 2});
  try_shape("a sink that leaves behind a stage", (shape_t){.leaves_after = 2, .n_workers = 1});
  try_shape("a sink that leaves two workers", (shape_t){.leaves_after = 3, .n_workers = 2});
}

static void a_source_is_woken_by_what_is_committed(void **state) {
  try_shape("committed", (shape_t){.commits = true});
  try_shape("committed through a stage", (shape_t){.commits = true, .n_workers = 1});
  try_shape("committed by two sinks", (shape_t){.commits = true, .two_sinks = true});
  try_shape("committed, stopped", (shape_t){.commits = true, .two_sinks = true, .stops = true});
}

static void a_source_waits_until_all_its_buffers_are_back(void **state) {
  try_shape("all back", (shape_t){.waits_for_all = true});
  try_shape("all back through a stage", (shape_t){.waits_for_all = true, .n_workers = 1});
  try_shape("all back from a sink that leaves",
            (shape_t){.waits_for_all = true, .leaves_after = 1});
  try_shape("all back, cancelled", (shape_t){.waits_for_all = true, .cancels = true});
}

static void stop_and_cancel_end_it(void **state) {
  for (int n = 0; n < 3; n++) {
    try_shape("stopped", (shape_t){.stops = true, .n_workers = n});
    try_shape("cancelled", (shape_t){.cancels = true, .n_workers = n});
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buffers_arrive_in_order),
      cmocka_unit_test(buffers_arrive_in_order_through_a_stage_between),
#ifndef WEAK_SEQ_CST
      cmocka_unit_test(buffers_arrive_in_order_through_two_workers),
      cmocka_unit_test(a_lossy_sink_sees_the_last_buffer),
      cmocka_unit_test(two_sinks_get_the_same_buffers),
      cmocka_unit_test(a_sink_may_leave),
      cmocka_unit_test(a_source_is_woken_by_what_is_committed),
      cmocka_unit_test(a_source_waits_until_all_its_buffers_are_back),
      cmocka_unit_test(stop_and_cancel_end_it),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
