/* A lossy input behind several workers: what comes is in order, and what does not come is counted.
 */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"

enum { TOTAL = 20000, READERS = 3 };

static int64_t made[16];                                           /* by worker: buffers so far */
static int64_t got[READERS], lost[READERS], out_of_order[READERS]; /* by worker */

static mr_err_t numbers_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, sizeof(int64_t));
  return MR_OK;
}

/* Worker w of n makes the numbers w, w + n, ... */
static mr_err_t numbers_step(mr_stage_t *s) {
  mr_buf_t *b;
  int64_t number = s->worker + made[s->worker] * s->n_workers;
  if (number >= TOTAL) return MR_END;
  MR_TRY(mr_fresh(s, 0, &b));
  *(int64_t *)b->data = number;
  made[s->worker]++;
  return mr_push(s, 0, b);
}

static mr_err_t watcher_step(mr_stage_t *s) {
  static int64_t last[READERS];
  mr_buf_t *b;
  int me = s->worker;
  lost[me] = mr_lost(s, 0);
  mr_err_t e = mr_pull(s, 0, &b);
  lost[me] = mr_lost(s, 0);
  if (e != MR_OK) return e;
  int64_t number = *(int64_t *)b->data;
  out_of_order[me] += number % s->n_workers != me || (got[me] && number <= last[me]);
  last[me] = number;
  if (++got[me] % 64 == 0) usleep(1000); /* slower than who makes them */
  mr_buf_unref(b);
  return MR_OK;
}

static const mr_stage_def_t numbers = {
    .name = "numbers",
    .out = {{"out", MR_FLOW_BYTES, false}},
    .plan = numbers_plan,
    .step = &(const mr_step_def_t){.run = numbers_step, .parallel = true}};
static const mr_stage_def_t watcher = {
    .name = "watcher",
    .in = {{.name = "in", .flow = MR_FLOW_BYTES, .lossy = true}},
    .step = &(const mr_step_def_t){.run = watcher_step, .parallel = true}};

static mr_err_t endless_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_fresh(s, 0, &b);
  return e == MR_OK ? mr_push(s, 0, b) : e;
}

static mr_err_t worker_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (got[0] == 5) return MR_END;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_OK) mr_buf_unref(b), got[0]++;
  return e;
}

static mr_err_t look_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_OK) mr_buf_unref(b);
  return e;
}

static const mr_stage_def_t endless = {.name = "endless",
                                       .out = {{"out", MR_FLOW_BYTES, false}},
                                       .plan = numbers_plan,
                                       .step = &(const mr_step_def_t){.run = endless_step}};
static const mr_stage_def_t work = {.name = "work",
                                    .in = {{"in", MR_FLOW_BYTES, false}},
                                    .step = &(const mr_step_def_t){.run = worker_step}};
static const mr_stage_def_t look = {.name = "look",
                                    .in = {{.name = "in", .flow = MR_FLOW_BYTES, .lossy = true}},
                                    .step = &(const mr_step_def_t){.run = look_step}};
static const mr_stage_def_t *const table[] = {&numbers, &watcher, &endless, &work, &look, NULL};

static void taken_and_lost_buffers_are_all_buffers(void **state) {
  mr_registry_t reg = {0};
  mr_registry_add(&reg, table);
  for (int workers = 1; workers <= 5; workers++) {
    for (int readers = 1; readers <= READERS; readers++) {
      char text[100];
      mr_diag_t diag = {0};
      memset(made, 0, sizeof made), memset(got, 0, sizeof got), memset(lost, 0, sizeof lost);
      memset(out_of_order, 0, sizeof out_of_order);
      snprintf(text, sizeof text, "numbers workers=%d ! watcher workers=%d", workers, readers);
      mr_graph_t *g = mr_graph_create(&reg);
      if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
      if (mr_graph_run(g, &diag) < 0) fail_msg("%s: %s", text, diag.text);
      mr_graph_destroy(g);
      int64_t taken = got[0] + got[1] + got[2], gone = lost[0] + lost[1] + lost[2];
      for (int w = 0; w < READERS; w++)
        if (out_of_order[w]) fail_msg("%s: %d out of order", text, (int)out_of_order[w]);
      if (taken + gone != TOTAL)
        fail_msg("%s: %d taken and %d lost of %d", text, (int)taken, (int)gone, TOTAL);
    }
  }
}

static void one_that_only_watches_does_not_keep_an_endless_stream_going(void **state) {
  mr_registry_t reg = {0};
  mr_diag_t diag = {0};
  mr_registry_add(&reg, table);
  memset(got, 0, sizeof got);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, "endless name=e ! work  e. ! look", NULL, 0, &diag) < 0)
    fail_msg("%s", diag.text);
  if (mr_graph_run(g, &diag) < 0) fail_msg("%s", diag.text);
  mr_graph_destroy(g);
  assert_int_equal(got[0], 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(taken_and_lost_buffers_are_all_buffers),
      cmocka_unit_test(one_that_only_watches_does_not_keep_an_endless_stream_going)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
