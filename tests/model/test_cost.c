/* What equations cost by their shapes, against sums done by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "model/exec/exec.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "model/train/train.h"
#include "tests/model/vit_step.h"

static void a_product_costs_two_operations_a_term(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 5)),
           *w = mr_fn_input(f, mr_aval_of(MR_F32, 5, 7));
  mr_cost_t c = mr_cost_of(mr_lax_dot(f, x, w)->def);
  assert_true(c.product);
  assert_int_equal(c.flop, 2 * 3 * 5 * 7);
  assert_int_equal(c.bytes, 4 * (15 + 35 + 21));
  mr_fn_destroy(f);
}

static void a_sum_reads_an_operand_given_twice_once(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 10));
  mr_cost_t c = mr_cost_of(mr_emit1(f, &mr_op_add, 2, (mr_var_t *[]){x, x}, 0, NULL)->def);
  assert_false(c.product);
  assert_int_equal(c.flop, 10);
  assert_int_equal(c.bytes, 4 * 20);
  mr_fn_destroy(f);
}

static void ops_that_move_compute_nothing_and_read_no_more_than_they_give(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 100, 4));
  mr_cost_t c = mr_cost_of(mr_lax_slice(f, x, (int64_t[]){0, 0}, (int64_t[]){1, 4})->def);
  assert_int_equal(c.flop, 0);
  assert_int_equal(c.bytes, 2 * 4 * 4);
  mr_fn_destroy(f);
}

/* By hand, batch 128, 65 tokens of 384, 6 blocks: products forward are
   2 * 8320 * (384 * 1152 + 384 * 384 + 2 * 384 * 1536) a block plus attention's
   2 * 2 * 128 * 8 * 65 * 65 * 48, three times that with the backward pass: 546 GFLOP.  The last
   block's projection and MLP compute one token of 65; attention's backward pass draws its scores
   again. */
static void a_training_step_of_the_recipe_costs_what_paper_says(void **state) {
  const double rows = 128 * 65, tail = 384 * 384 + 2 * 384 * 1536, qkv = 384 * 1152;
  const double heads = 2 * 128 * 8 * 65 * 65 * 48.0;
  double full = 3 * 6 * (2 * rows * (qkv + tail) + 2 * heads);
  double sliced = full - 3 * 2 * (rows - 128) * tail + 6 * heads;
  vit_t vit = vit_default();
  mr_train_config_t train = mr_train_default(128);
  mr_train_step_t *step = NULL;
  mr_diag_t diag = {0};
  double products = 0;
  assert_int_equal(vit_step(&vit, train, &step, &diag), MR_OK);
  const mr_exec_t *x = mr_train_step_exec(step);
  mr_profile_call_t *call = calloc((size_t)mr_exec_fn(x)->n_eqn, sizeof *call);
  int n = mr_exec_profile_calls(x, call);
  for (int i = 0; i < n; i++)
    if (call[i].cost.product) products += call[i].cost.flop;
  assert_true(full > 543e9 && full < 549e9);
  if (products < 0.99 * sliced || products > 1.01 * sliced)
    fail_msg("%.1f GFLOP, by hand %.1f", products / 1e9, sliced / 1e9);
  free(call);
  mr_train_step_destroy(step);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_costs_two_operations_a_term),
      cmocka_unit_test(a_sum_reads_an_operand_given_twice_once),
      cmocka_unit_test(ops_that_move_compute_nothing_and_read_no_more_than_they_give),
      cmocka_unit_test(a_training_step_of_the_recipe_costs_what_paper_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
