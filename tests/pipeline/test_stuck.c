/* Threads that the kernel does not give back: a stage reads a pipe that nothing is written to, and
   never asks whether it should stop.  A stop ends the run around it, and what others have made is
   kept; the thread may come back later. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"

enum { FEW = 5, MANY = 1 << 30 };

/* What the threads of a round share; seq_cst throughout, as only the counts matter. */
static struct {
  int ends[2];        /* of the pipe */
  atomic_int n_stuck; /* threads that have begun to read */
  atomic_int n_back;  /* threads that have come back */
  atomic_int kept, n_saved;
  atomic_bool fails;
  char said[1024];
} now;

static mr_err_t read_pipe(void) {
  char byte;
  atomic_fetch_add_explicit(&now.n_stuck, 1, memory_order_seq_cst);
  ssize_t n = read(now.ends[0], &byte, 1);
  atomic_fetch_add_explicit(&now.n_back, 1, memory_order_seq_cst);
  return n < 0 ? MR_ERR_IO : MR_OK;
}

typedef struct maker {
  int64_t n, stuck_at; /* -1: never */
} maker_t;

static const mr_opt_t maker_opts[] = {{.name = "stuck",
                                       .type = MR_OPT_INT,
                                       .offset = offsetof(maker_t, stuck_at),
                                       .unit = "buffers",
                                       .def = "-1",
                                       .lo = -1,
                                       .hi = MANY,
                                       .help = "Reads the pipe before this buffer."},
                                      {0}};

static mr_err_t made_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, 64);
  return MR_OK;
}

static mr_err_t maker_step(mr_stage_t *s) {
  maker_t *m = s->state;
  mr_buf_t *b;
  if (mr_stopping(s)) return MR_END;
  if (m->n == m->stuck_at) MR_TRY(read_pipe());
  mr_err_t e = mr_fresh(s, 0, &b);
  if (e != MR_OK) return e;
  m->n++;
  return mr_push(s, 0, b);
}

/* Stands for the training step and its checkpoint: keeps what comes, and saves at the end. */
static mr_err_t saver_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e == MR_END) atomic_fetch_add_explicit(&now.n_saved, 1, memory_order_seq_cst);
  if (e != MR_OK) return e;
  mr_buf_unref(b);
  int n = atomic_fetch_add_explicit(&now.kept, 1, memory_order_seq_cst);
  if (n == 2 && atomic_load_explicit(&now.fails, memory_order_seq_cst))
    return mr_stage_fail(s, MR_ERR_DATA, "a bad buffer");
  return MR_OK;
}

static mr_err_t writer_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  e = read_pipe();
  mr_buf_unref(b);
  return e;
}

static const mr_stage_def_t maker = {.name = "maker",
                                     .out = {{"out", MR_FLOW_BYTES, false}},
                                     .opts = maker_opts,
                                     .state_sz = sizeof(maker_t),
                                     .plan = made_plan,
                                     .step = &(const mr_step_def_t){.run = maker_step}};
static const mr_stage_def_t saver = {.name = "saver",
                                     .in = {{"in", MR_FLOW_BYTES, false}},
                                     .step = &(const mr_step_def_t){.run = saver_step}};
static const mr_stage_def_t writer = {.name = "writer",
                                      .in = {{"in", MR_FLOW_BYTES, false}},
                                      .step = &(const mr_step_def_t){.run = writer_step}};
static const mr_stage_def_t *const table[] = {&maker, &saver, &writer, NULL};

static void hear(void *arg, const char *text) {
  snprintf(now.said, sizeof now.said, "%s", text); /* by the thread that joins alone */
}

static mr_graph_t *started(const char *text) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  reg = (mr_registry_t){0};
  mr_registry_add(&reg, table);
  atomic_store_explicit(&now.n_stuck, 0, memory_order_seq_cst);
  atomic_store_explicit(&now.n_back, 0, memory_order_seq_cst);
  atomic_store_explicit(&now.kept, 0, memory_order_seq_cst);
  atomic_store_explicit(&now.n_saved, 0, memory_order_seq_cst);
  *now.said = 0;
  assert_int_equal(pipe(now.ends), 0);
  mr_notice_to(hear, NULL);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_graph_start(g, &diag) < 0) fail_msg("%s", diag.text);
  while (!atomic_load_explicit(&now.n_stuck, memory_order_seq_cst)) usleep(1000);
  return g;
}

static mr_err_t end(mr_graph_t *g, mr_diag_t *diag) {
  mr_err_t e = mr_graph_join(g, diag);
  mr_graph_destroy(g);
  mr_notice_to(NULL, NULL);
  return e;
}

/* Ends the reads: the threads that are still there find that no one waits for them, and end. */
static void let_go(void) {
  int n = atomic_load_explicit(&now.n_stuck, memory_order_seq_cst);
  close(now.ends[1]);
  while (atomic_load_explicit(&now.n_back, memory_order_seq_cst) < n) usleep(1000);
}

static void a_read_that_does_not_come_back_costs_nothing_that_was_made(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = started("maker stuck=5 ! saver");
  mr_graph_stop(g);
  assert_int_equal(end(g, &diag), MR_OK);
  assert_int_equal(atomic_load_explicit(&now.kept, memory_order_seq_cst), FEW);
  assert_int_equal(atomic_load_explicit(&now.n_saved, memory_order_seq_cst), 1);
  assert_non_null(strstr(now.said, "maker: its thread has not come back"));
  assert_true(mr_graph_is_stuck());
  let_go();
}

static void a_write_that_does_not_come_back_delays_no_one(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = started("maker name=m ! writer  m.out ! saver");
  for (int before = 0, n = 0; !n || n != before; usleep(20000)) /* as good as full */
    before = n, n = atomic_load_explicit(&now.kept, memory_order_seq_cst);
  mr_graph_stop(g);
  assert_int_equal(end(g, &diag), MR_OK);
  assert_int_equal(atomic_load_explicit(&now.n_saved, memory_order_seq_cst), 1);
  assert_non_null(strstr(now.said, "writer: its thread has not come back"));
  let_go();
}

/* One that holds up no other stage is waited for a little longer. */
static void a_write_that_does_not_come_back_ends_too(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = started("maker stuck=1 ! writer");
  while (atomic_load_explicit(&now.n_stuck, memory_order_seq_cst) < 2) usleep(1000);
  mr_graph_stop(g);
  assert_int_equal(end(g, &diag), MR_OK);
  assert_non_null(strstr(now.said, "writer: its thread has not come back"));
  let_go();
}

static void a_failure_elsewhere_does_not_wait_for_it(void **state) {
  mr_diag_t diag = {0};
  atomic_store_explicit(&now.fails, true, memory_order_seq_cst);
  mr_graph_t *g = started("maker stuck=5 ! saver");
  assert_int_equal(end(g, &diag), MR_ERR_DATA);
  assert_string_equal(diag.text, "saver: a bad buffer");
  assert_non_null(strstr(now.said, "maker: its thread has not come back"));
  atomic_store_explicit(&now.fails, false, memory_order_seq_cst);
  let_go();
}

/* The read ends at the same moment as the stop comes, which loses nothing. */
static void a_read_that_comes_back_is_waited_for(void **state) {
  mr_diag_t diag = {0};
  mr_graph_t *g = started("maker stuck=5 ! saver");
  mr_graph_stop(g);
  assert_int_equal(write(now.ends[1], "x", 1), 1);
  assert_int_equal(end(g, &diag), MR_OK);
  assert_true(atomic_load_explicit(&now.kept, memory_order_seq_cst) >= FEW);
  assert_int_equal(atomic_load_explicit(&now.n_saved, memory_order_seq_cst), 1);
  assert_string_equal(now.said, "");
  close(now.ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_read_that_does_not_come_back_costs_nothing_that_was_made),
      cmocka_unit_test(a_write_that_does_not_come_back_delays_no_one),
      cmocka_unit_test(a_write_that_does_not_come_back_ends_too),
      cmocka_unit_test(a_failure_elsewhere_does_not_wait_for_it),
      cmocka_unit_test(a_read_that_comes_back_is_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
