/* What a compiled graph moves and how it multiplies. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#include "model/backends/cpu/explain.h"
#include "tests/model/grid.h"

enum { STEPS = 5 };

static mr_explained_t explained(mr_fn_t *f, mr_exec_t **x) {
  mr_explained_t r;
  mr_diag_t diag = {0};
  if (mr_jit(f, NULL, x, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_explained_init(&r, *x, &diag) < 0) fail_msg("%s", diag.text);
  return r;
}

static void done(mr_fn_t *f, mr_exec_t *x, mr_explained_t *r) {
  mr_explained_fini(r);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static const mr_move_row_t *find(const mr_explained_t *r, mr_move_kind_t kind) {
  for (int i = 0; i < r->n_move; i++)
    if (r->move[i].kind == kind) return &r->move[i];
  return NULL;
}

/* x' of bf16 as an output, and the same value given out twice. */
static void moves_are_told_with_their_readers(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_exec_t *x;
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8, 4));
  mr_var_t *b = mr_lax_convert(f, a, MR_BF16);
  mr_var_t *t = mr_lax_transpose(f, b, (int[]){1, 0});
  assert_int_equal(mr_fn_return(f, 2, (mr_var_t *[]){t, t}), MR_OK);
  mr_explained_t r = explained(f, &x);
  const mr_move_row_t *cast = find(&r, MR_MOVE_CAST), *turn = find(&r, MR_MOVE_TRANSPOSE);
  const mr_move_row_t *copy = find(&r, MR_MOVE_COPY);
  assert_true(cast && turn && copy);
  assert_int_equal(cast->bytes, 32 * 6);
  assert_true(cast->user && cast->user->op == &mr_op_transpose && cast->n_user == 1);
  assert_int_equal(turn->bytes, 32 * 4);
  assert_null(turn->user);
  assert_true(copy->eqn == NULL && copy->bytes == 32 * 4);
  assert_true(r.bytes == 32 * 14);
  done(f, x, &r);
}

/* c <- c w, five times, w of f32 by HIGH. */
static void what_stands_in_a_loop_counts_once_a_step(void **state) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create();
  mr_exec_t *x;
  mr_aval_t a = mr_aval_of(MR_F32, 16, 16);
  mr_var_t *w = mr_fn_input(body, a), *c = mr_fn_input(body, a);
  mr_precision_enter(body, MR_PRECISION_HIGH);
  c = mr_lax_dot(body, c, w);
  assert_int_equal(mr_fn_return(body, 1, &c), MR_OK);
  mr_var_t *in[] = {mr_fn_input(f, a), mr_fn_input(f, a)}, *out;
  mr_scan_t s = {.length = STEPS, .n_consts = 1, .n_carry = 1};
  assert_int_equal(mr_lax_scan(f, body, &s, in, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_explained_t r = explained(f, &x);
  assert_int_equal(r.n_product, 1);
  assert_int_equal(r.product[0].times, STEPS);
  assert_int_equal(r.product[0].asked, MR_PRECISION_HIGH);
  assert_non_null(strstr(r.product[0].how, "3 bf16 products"));
  assert_true(r.product[0].flop == STEPS * 2.0 * 16 * 16 * 16);
  const mr_move_row_t *m = find(&r, MR_MOVE_OPERAND);
  assert_true(m && m->times == STEPS && m->bytes % STEPS == 0 && strstr(m->note, "converted"));
  mr_fn_destroy(body);
  done(f, x, &r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_are_told_with_their_readers),
      cmocka_unit_test(what_stands_in_a_loop_counts_once_a_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
