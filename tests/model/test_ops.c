/* The table of ops: no rule is forgotten, and a rule that an op has not fails by its name.  What
   the rules compute is tested in test_grid.c. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/rules.h"
#include "model/model.h"
#include "model/ops/rules.h"

static void no_rule_is_forgotten(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    if (!op->name || !op->shape || !op->ad.jvp || !op->ad.vjp || !op->batch || !op->open ||
        !op->sample || !op->shard.rule)
      fail_msg("op %d (%s) has a rule that is NULL", i, op->name ? op->name : "?");
    assert_ptr_equal(mr_op_find(op->name), op);
    assert_int_not_equal(op->n_out, 0);
  }
  assert_null(mr_op_find("no such op"));
}

/* Elementwise ops run by what `at` says, aliases run nothing, calls are opened before. */
static void the_cpu_has_a_rule_for_each_op_that_needs_one(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_cpu_rule_t *r = mr__cpu_rule(mr_ops[i]);
    bool lowers = r && r->lower, needs = mr_ops[i]->kind == MR_OP_KERNEL;
    if (lowers != needs)
      fail_msg("%s: %s", mr_ops[i]->name, needs ? "no rule of the CPU's" : "a rule too many");
    if (mr_ops[i]->kind == MR_OP_CALL) assert_ptr_not_equal(mr_ops[i]->open, mr_no_open);
    if (mr_ops[i]->kind == MR_OP_ELEMENTWISE)
      assert_true(mr_ops[i]->cpu.f1 != NULL || mr_ops[i]->cpu.f2 != NULL);
  }
}

/* An op as someone outside the table may write it, before its derivatives. */
static const mr_op_def_t bare = {
    MR_RULES_PRIMITIVE,
    .name = "bare",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .batch = mr_no_batch,
    .kind = MR_OP_ELEMENTWISE,
    .ad = {.jvp = mr_no_jvp, .vjp = mr_no_vjp},
};

static void a_missing_rule_fails_by_the_ops_name_and_scope(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_exec_t *x = NULL;
  mr_var_t *v = mr_fn_input(f, mr_aval_scalar(MR_F32));
  const char *outer = mr_scope_enter(f, "head");
  v = mr_emit1(f, &bare, 1, &v, 0, NULL);
  mr_scope_leave(f, outer);
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  mr_diag_t d[4] = {{0}};
  assert_int_equal(mr_grad(f, 1, (int[]){0}, &g, &d[0]), MR_ERR_NORULE);
  assert_string_equal(d[0].text, "head: bare has no vjp rule");
  assert_int_equal(mr_jvp(f, 1, (int[]){0}, &g, &d[1]), MR_ERR_NORULE);
  assert_string_equal(d[1].text, "head: bare has no jvp rule");
  assert_int_equal(mr_vmap(f, 2, NULL, NULL, &g, &d[2]), MR_ERR_NORULE);
  assert_string_equal(d[2].text, "head: bare has no batch rule");
  assert_int_equal(mr_compile(f, NULL, &x, &d[3]), MR_ERR_NORULE);
  assert_string_equal(d[3].text, "head: bare: the CPU has no kernel for f32");
  mr_fn_destroy(f);
}

static void next_run(const mr_call_t *c) { *(float *)c->out[0] = *(const float *)c->in[0] + 1; }

static mr_err_t next_lower(mr_call_t *c, mr_diag_t *diag) {
  if (c->eqn->in[0]->aval.dtype != MR_F32) return mr_fail(diag, MR_ERR_NORULE, "next: want f32");
  c->run = next_run;
  return MR_OK;
}

/* An op with a kernel, from outside: the rule for the backend of that name is found, no other. */
static void an_op_from_outside_brings_its_rule_for_a_backend(void **state) {
  const char *const names[] = {"another", "cpu"};
  for (int i = 0; i < 2; i++) {
    const mr_op_lower_t rules[] = {{names[i], next_lower}, {0}};
    const mr_op_def_t next = {
        MR_RULES_PRIMITIVE,
        .name = "next",
        .n_in = 1,
        .n_out = 1,
        .shape = mr_shape_same,
        .batch = mr_no_batch,
        .lower = rules,
        .ad = {.jvp = mr_jvp_zero, .vjp = mr_vjp_zero},
    };
    mr_fn_t *f = mr_fn_create();
    mr_exec_t *x = NULL;
    mr_diag_t diag = {0};
    mr_var_t *v = mr_fn_input(f, mr_aval_scalar(MR_F32));
    v = mr_emit1(f, &next, 1, &v, 0, NULL);
    assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
    mr_err_t err = mr_compile(f, NULL, &x, &diag);
    if (i == 0) {
      assert_int_equal(err, MR_ERR_NORULE);
      assert_string_equal(diag.text, "next: the CPU has no kernel for it");
    } else {
      _Alignas(64) float in = 2, out = 0;
      if (err < 0) fail_msg("%s", diag.text);
      mr_exec_run(x, (const void *[]){&in}, (void *[]){&out});
      assert_true(out == 3);
    }
    mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
}

static void shapes_that_do_not_fit_name_the_op_the_scope_and_the_shapes(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3)),
           *b = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  mr_scope_enter(f, "block");
  assert_null(mr_lax_mul(f, a, b));
  assert_string_equal(f->diag.text, "block: mul f32[2,3] f32[4]: want one shape, or one scalar");
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_rule_is_forgotten),
      cmocka_unit_test(the_cpu_has_a_rule_for_each_op_that_needs_one),
      cmocka_unit_test(a_missing_rule_fails_by_the_ops_name_and_scope),
      cmocka_unit_test(an_op_from_outside_brings_its_rule_for_a_backend),
      cmocka_unit_test(shapes_that_do_not_fit_name_the_op_the_scope_and_the_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
