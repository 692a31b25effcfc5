/* A stage that lends its own memory: consumers read it until they release the buffer, and
   mr_all_back keeps the stage from changing it before. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <unistd.h>

#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"

enum { ROUNDS = 300, WORDS = 512 };

static int lent[WORDS]; /* what the lender changes each round */
static int rounds_lent, reads, torn, fail_at;

static mr_err_t lender_plan(mr_stage_t *s) {
  s->out_spec[0] = mr_spec_of_bytes(MR_FLOW_BYTES, sizeof(int *));
  return MR_OK;
}

static mr_err_t lender_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (rounds_lent == ROUNDS) return MR_END;
  mr_err_t e = mr_all_back(s, 0);
  if (e != MR_OK) return e;
  for (int i = 0; i < WORDS; i++) lent[i] = rounds_lent;
  MR_TRY(mr_fresh(s, 0, &b));
  *(int **)b->data = lent;
  rounds_lent++;
  return mr_push(s, 0, b);
}

static mr_err_t reader_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  const int *seen = *(int **)b->data;
  int first = seen[0];
  if (reads++ % 16 == 0) usleep(300);
  for (int i = 0; i < WORDS; i++) torn += seen[i] != first;
  mr_buf_unref(b);
  if (fail_at && reads == fail_at) return mr_stage_fail(s, MR_ERR_IO, "the disk is gone");
  return MR_OK;
}

static const mr_stage_def_t lender = {.name = "lender",
                                      .out = {{"out", MR_FLOW_BYTES, false}},
                                      .plan = lender_plan,
                                      .step = &(const mr_step_def_t){.run = lender_step}};
static const mr_stage_def_t reader = {.name = "reader",
                                      .in = {{"in", MR_FLOW_BYTES, false}},
                                      .step = &(const mr_step_def_t){.run = reader_step}};
static const mr_stage_def_t *const table[] = {&lender, &reader, NULL};

static mr_err_t run(mr_diag_t *diag) {
  mr_registry_t reg = {0};
  mr_registry_add(&reg, table);
  rounds_lent = reads = torn = 0;
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, "lender ! reader", NULL, 0, diag) < 0) fail_msg("%s", diag->text);
  mr_err_t e = mr_graph_run(g, diag);
  mr_graph_destroy(g);
  return e;
}

static void lent_memory_stands_still_until_it_is_back(void **state) {
  mr_diag_t d = {0};
  fail_at = 0;
  assert_int_equal(run(&d), MR_OK);
  assert_int_equal(reads, ROUNDS);
  assert_int_equal(torn, 0);
}

static void a_failed_reader_ends_the_wait(void **state) {
  mr_diag_t d = {0};
  fail_at = 5;
  assert_int_equal(run(&d), MR_ERR_IO);
  assert_string_equal(d.text, "reader: the disk is gone");
  assert_int_equal(torn, 0);
  assert_true(rounds_lent < ROUNDS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lent_memory_stands_still_until_it_is_back),
      cmocka_unit_test(a_failed_reader_ends_the_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
