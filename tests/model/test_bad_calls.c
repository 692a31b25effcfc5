/* Functions that are handed to scan, while, cond and the like and do not fit: reported while
   tracing, with scope, op, and both shapes. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "model/model.h"

#define F2 mr_aval_of(MR_F32, 2)
#define F3 mr_aval_of(MR_F32, 3)
#define INT mr_aval_scalar(MR_I32)
#define FLAG mr_aval_scalar(MR_BOOL)
#define AVALS(...) \
  (int)(sizeof((mr_aval_t[]){__VA_ARGS__}) / sizeof(mr_aval_t)), (mr_aval_t[]) { __VA_ARGS__ }

/* Gives values of out[n_out], whatever it takes. */
static mr_fn_t *gives(int n_in, const mr_aval_t *in, int n_out, const mr_aval_t *out) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *y[8];
  for (int i = 0; i < n_in; i++) mr_fn_input(b, in[i]);
  for (int k = 0; k < n_out; k++) y[k] = mr_lax_full(b, &out[k], 0);
  assert_int_equal(mr_fn_return(b, n_out, y), MR_OK);
  return b;
}

static mr_fn_t *failed(void) {
  mr_fn_t *b = mr_fn_create();
  mr_var_t *y = mr_lax_add(b, mr_fn_input(b, F2), mr_fn_input(b, F3));
  assert_true(mr_fn_return(b, 1, &y) < 0);
  return b;
}

/* Of one line below: the function it traces, its operands, and where results would go. */
static mr_fn_t *f;
static mr_var_t *x[8], *y[8];

static void take(int n, const mr_aval_t *in) {
  f = mr_fn_create();
  memset(x, 0, sizeof x);
  for (int i = 0; i < n; i++) x[i] = mr_fn_input(f, in[i]);
  mr_scope_enter(f, "net");
}

/* call, which reads x of these avals, fails with "net: want" and leaves f with that sentence. */
#define REFUSED(want, call, ...)                                             \
  do {                                                                       \
    take(AVALS(__VA_ARGS__));                                                \
    assert_int_equal(call, MR_ERR_SHAPE);                                    \
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);                            \
    if (strncmp(f->diag.text, "net: ", 5) || strcmp(f->diag.text + 5, want)) \
      fail_msg("told \"%s\", want \"net: %s\"", f->diag.text, want);         \
    mr_fn_destroy(f);                                                        \
  } while (0)

static void a_scan_whose_function_does_not_fit(void **state) {
  mr_fn_t *b = gives(AVALS(F2, F2, F3), AVALS(F2, F3)); /* w, c, x -> c, y */
  mr_fn_t *other = gives(AVALS(F2, F2, F3), AVALS(F3, F3)), *bad = failed();
  const mr_aval_t rows = mr_aval_of(MR_F32, 4, 3), fewer = mr_aval_of(MR_F32, 5, 3);
  mr_scan_t s = {.length = 4, .n_consts = 1, .n_carry = 1}, minus = s, many = s, none = s;
  REFUSED("scan: carry 0 enters a step as f32[2] and leaves it as f32[3]",
          mr_lax_scan(f, other, &s, x, y), F2, F2, rows);
  REFUSED("scan: operand 1 is f32[3], the function wants f32[2]", mr_lax_scan(f, b, &s, x, y), F2,
          F3, rows);
  REFUSED("scan: operand 1 is bf16[2], the function wants f32[2]", mr_lax_scan(f, b, &s, x, y), F2,
          mr_aval_of(MR_BF16, 2), rows);
  REFUSED("scan: operand 2 is f32[5,3], the function wants f32[4,3]", mr_lax_scan(f, b, &s, x, y),
          F2, F2, fewer);
  REFUSED("scan: operand 2 is f32[3], the function wants f32[4,3]", mr_lax_scan(f, b, &s, x, y), F2,
          F2, F3);
  REFUSED("scan: operand 2 has no value", mr_lax_scan(f, b, &s, x, y), F2, F2);
  minus.length = -1;
  REFUSED(
      "scan f32[2] f32[2] f32[4,3]: length is negative (length=-1 num_carry=1 num_consts=1 "
      "unroll=1)",
      mr_lax_scan(f, b, &minus, x, y), F2, F2, rows);
  many.n_consts = 3;
  REFUSED(
      "scan: the function takes 3 values and gives 2; there are 3 operands, 2 results, 3 of them "
      "constants and 1 carries",
      mr_lax_scan(f, b, &many, x, y), F2, F2, rows);
  none.n_carry = -1;
  REFUSED(
      "scan: the function takes 3 values and gives 2; there are 3 operands, 2 results, 1 of them "
      "constants and -1 carries",
      mr_lax_scan(f, b, &none, x, y), F2, F2, rows);
  REFUSED("scan: the function failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_scan(f, bad, &s, x, y), F2, F2, rows);
  REFUSED("scan: the function is not there", mr_lax_scan(f, NULL, &s, x, y), F2, F2, rows);
  mr_fn_destroy(b);
  mr_fn_destroy(other);
  mr_fn_destroy(bad);
}

static void a_scan_of_rows_that_cannot_be_stacked(void **state) {
  const mr_aval_t deep = mr_aval_of(MR_F32, 1, 1, 1, 1, 1, 1, 1, 1);
  mr_fn_t *b = gives(AVALS(F2), AVALS(F2, deep));
  mr_scan_t s = {.length = 4, .n_carry = 1};
  REFUSED("scan: rows of f32[1,1,1,1,1,1,1,1] have too many dimensions to be stacked",
          mr_lax_scan(f, b, &s, x, y), F2);
  mr_fn_destroy(b);
  b = gives(AVALS(F2), AVALS(F2, F2));
  s.length = INT64_MAX;
  REFUSED(
      "scan f32[2]: a value has more bytes than can be counted (length=9223372036854775807 "
      "num_carry=1 num_consts=0 unroll=1)",
      mr_lax_scan(f, b, &s, x, y), F2);
  mr_fn_destroy(b);
}

static void a_while_whose_functions_do_not_fit(void **state) {
  mr_fn_t *b = gives(AVALS(F3, INT, F2), AVALS(INT, F2)), *c = gives(AVALS(INT, F2), AVALS(FLAG));
  mr_fn_t *number = gives(AVALS(INT, F2), AVALS(INT)),
          *two = gives(AVALS(INT, F2), AVALS(FLAG, FLAG));
  mr_fn_t *flags = gives(AVALS(INT, F2), AVALS(mr_aval_of(MR_BOOL, 2)));
  mr_fn_t *grows = gives(AVALS(F3, INT, F2), AVALS(INT, F3)), *bad = failed();
  REFUSED("while: what the condition gives as 0 is i32[], want bool[]",
          mr_lax_while(f, number, 0, b, 1, x, y), F3, INT, F2);
  REFUSED("while: what the condition gives as 0 is bool[2], want bool[]",
          mr_lax_while(f, flags, 0, b, 1, x, y), F3, INT, F2);
  REFUSED("while: the condition gives 2 values, want one bool[]",
          mr_lax_while(f, two, 0, b, 1, x, y), F3, INT, F2);
  REFUSED("while: what the body gives for carry 1 is f32[3], want f32[2]",
          mr_lax_while(f, c, 0, grows, 1, x, y), F3, INT, F2);
  REFUSED("while: the condition's operand 1 is f32[3], want f32[2]",
          mr_lax_while(f, c, 0, b, 1, x, y), F3, INT, F3);
  REFUSED("while: the body's operand 0 is f32[2], want f32[3]", mr_lax_while(f, c, 0, b, 1, x, y),
          F2, INT, F2);
  REFUSED("while: operand 2 has no value", mr_lax_while(f, c, 0, b, 1, x, y), F3, INT);
  REFUSED(
      "while: the body gives 2 carries, but takes 3 values of which 1 are constants; the condition "
      "takes 2 of which 1000000 are constants",
      mr_lax_while(f, c, 1000000, b, 1, x, y), F3, INT, F2);
  REFUSED(
      "while: the body gives 2 carries, but takes 3 values of which 0 are constants; the condition "
      "takes 2 of which 0 are constants",
      mr_lax_while(f, c, 0, b, 0, x, y), F3, INT, F2);
  REFUSED("while: -1 and 1 constants, want at least 0", mr_lax_while(f, c, -1, b, 1, x, y), F3, INT,
          F2);
  REFUSED("while: the condition failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_while(f, bad, 0, b, 1, x, y), F3, INT, F2);
  REFUSED("while: the body is not there", mr_lax_while(f, c, 0, NULL, 1, x, y), F3, INT, F2);
  mr_fn_t *all[] = {b, c, number, two, flags, grows, bad};
  for (int i = 0; i < 7; i++) mr_fn_destroy(all[i]);
}

static void branches_that_do_not_agree(void **state) {
  mr_fn_t *a = gives(AVALS(F2), AVALS(F2)), *b = gives(AVALS(F2), AVALS(F3)), *bad = failed();
  mr_fn_t *more = gives(AVALS(F2), AVALS(F2, F2)), *two = gives(AVALS(F2, F2), AVALS(F2));
  mr_fn_t *half = gives(AVALS(F2), AVALS(mr_aval_of(MR_BF16, 2)));
  const mr_fn_t *none[] = {a, NULL};
  REFUSED("cond: the predicate is i32[], want bool[]", mr_lax_cond(f, x[0], a, a, x + 1, y), INT,
          F2);
  REFUSED("cond: the predicate is bool[1], want bool[]", mr_lax_cond(f, x[0], a, a, x + 1, y),
          mr_aval_of(MR_BOOL, 1), F2);
  REFUSED("cond: result 0 is f32[3] in branch 0, f32[2] in branch 1",
          mr_lax_cond(f, x[0], a, b, x + 1, y), FLAG, F2);
  REFUSED("cond: result 0 is f32[2] in branch 0, bf16[2] in branch 1",
          mr_lax_cond(f, x[0], half, a, x + 1, y), FLAG, F2);
  REFUSED("cond: branch 1 takes 1 values and gives 2, want 1 and 1 as branch 0",
          mr_lax_cond(f, x[0], more, a, x + 1, y), FLAG, F2);
  REFUSED("cond: branch 1 takes 2 values and gives 1, want 1 and 1 as branch 0",
          mr_lax_cond(f, x[0], two, a, x + 1, y), FLAG, F2);
  REFUSED("cond: operand 0 is f32[3], want f32[2]", mr_lax_cond(f, x[0], a, a, x + 1, y), FLAG, F3);
  REFUSED("switch: branch 0 failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_cond(f, x[0], a, bad, x + 1, y), FLAG, F2);
  REFUSED("cond: operand 0 has no value", mr_lax_cond(f, x[7], a, a, x + 1, y), FLAG, F2);
  REFUSED("switch: branch 1 is not there", mr_lax_switch(f, x[0], 2, none, x + 1, y), INT, F2);
  REFUSED("switch: 0 branches, want at least one", mr_lax_switch(f, x[0], 0, none, x + 1, y), INT,
          F2);
  REFUSED("switch: -7 branches, want at least one", mr_lax_switch(f, x[0], -7, none, x + 1, y), INT,
          F2);
  REFUSED("cond: the index, operand 0 is f32[2], want i32[]",
          mr_lax_switch(f, x[0], 1, none, x + 1, y), F2, F2);
  mr_fn_t *all[] = {a, b, bad, more, two, half};
  for (int i = 0; i < 6; i++) mr_fn_destroy(all[i]);
}

static void a_fori_loop_without_its_counter(void **state) {
  mr_fn_t *b = gives(AVALS(F3, INT, F2), AVALS(F2)), *c = gives(AVALS(F3, F2, F2), AVALS(F2));
  mr_fn_t *d = gives(AVALS(INT, F2), AVALS(F3)), *bad = failed();
  REFUSED(
      "fori_loop: the function must take 0 constants, a counter i32[] and its 1 carries; it takes "
      "3 values",
      mr_lax_fori_loop(f, 0, 4, b, 0, x, y), F3, F2);
  REFUSED(
      "fori_loop: the function must take 2147483647 constants, a counter i32[] and its 1 carries; "
      "it takes 3 values",
      mr_lax_fori_loop(f, 0, 4, b, INT32_MAX, x, y), F3, F2);
  REFUSED(
      "fori_loop: the function must take -1 constants, a counter i32[] and its 1 carries; it takes "
      "3 values",
      mr_lax_fori_loop(f, 0, 4, b, -1, x, y), F3, F2);
  REFUSED("fori_loop: the counter, which is input 1, is f32[2], want i32[]",
          mr_lax_fori_loop(f, 0, 4, c, 1, x, y), F3, F2);
  REFUSED("scan: carry 1 enters a step as f32[2] and leaves it as f32[3]",
          mr_lax_fori_loop(f, 0, 4, d, 0, x, y), F2);
  REFUSED("scan: operand 0 is f32[2], the function wants f32[3]",
          mr_lax_fori_loop(f, 0, 4, b, 1, x, y), F2, F2);
  REFUSED("fori_loop: the function failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_fori_loop(f, 0, 4, bad, 1, x, y), F3, F2);
  mr_fn_t *all[] = {b, c, d, bad};
  for (int i = 0; i < 4; i++) mr_fn_destroy(all[i]);
}

static void rules_of_ones_own_that_do_not_fit(void **state) {
  mr_fn_t *b = gives(AVALS(F2, F3), AVALS(F2)), *bad = failed();
  mr_fn_t *fwd = gives(AVALS(F2, F3), AVALS(F2, F3)), *bwd = gives(AVALS(F3, F2), AVALS(F2, F3));
  mr_fn_t *turned = gives(AVALS(F3, F2), AVALS(F3, F2)),
          *wide = gives(AVALS(F2, F2), AVALS(F2, F3));
  mr_fn_t *rule = gives(AVALS(F2, F3, F2, F3), AVALS(F2, F2));
  mr_fn_t *off = gives(AVALS(F2, F3, F2, F2), AVALS(F2, F2)),
          *one = gives(AVALS(F2, F3, F2, F3), AVALS(F2, F3));
  REFUSED("custom_vjp_call: what bwd gives as 0 is f32[3], want f32[2]",
          mr_lax_custom_vjp(f, b, fwd, turned, x, y), F2, F3);
  REFUSED("custom_vjp_call: what bwd takes as 0 is f32[2], want f32[3]",
          mr_lax_custom_vjp(f, b, fwd, wide, x, y), F2, F3);
  REFUSED("custom_vjp_call: what fwd takes as 0 is f32[3], want f32[2]",
          mr_lax_custom_vjp(f, b, turned, bwd, x, y), F2, F3);
  REFUSED(
      "custom_vjp_call: of 2 inputs and 1 outputs; fwd takes 2 and gives 1, want the inputs and "
      "the outputs, then residuals; bwd takes 2 and gives 1, want residuals, then a cotangent of "
      "each output, and one of each input",
      mr_lax_custom_vjp(f, b, b, b, x, y), F2, F3);
  REFUSED("custom_vjp_call: bwd failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_custom_vjp(f, b, fwd, bad, x, y), F2, F3);
  REFUSED("custom_vjp_call: bwd is not there", mr_lax_custom_vjp(f, b, fwd, NULL, x, y), F2, F3);
  REFUSED("custom_vjp_call: operand 1 is f32[2], want f32[3]",
          mr_lax_custom_vjp(f, b, fwd, bwd, x, y), F2, F2);
  REFUSED("custom_jvp_call: what the rule takes as 3 is f32[2], want f32[3]",
          mr_lax_custom_jvp(f, b, off, x, y), F2, F3);
  REFUSED("custom_jvp_call: what the rule gives as 1 is f32[3], want f32[2]",
          mr_lax_custom_jvp(f, b, one, x, y), F2, F3);
  REFUSED(
      "custom_jvp_call: the rule takes 2 values and gives 1, want 4 and 2: values and as many "
      "tangents",
      mr_lax_custom_jvp(f, b, b, x, y), F2, F3);
  REFUSED("custom_jvp_call: the function failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_custom_jvp(f, bad, rule, x, y), F2, F3);
  REFUSED("custom_jvp_call: operand 0 is f32[3], want f32[2]", mr_lax_custom_jvp(f, b, rule, x, y),
          F3, F3);
  REFUSED("checkpoint: the last 2 of 1 results are to be kept", mr_lax_checkpoint(f, b, 2, x, y),
          F2, F3);
  REFUSED("checkpoint: the last -1 of 1 results are to be kept", mr_lax_checkpoint(f, b, -1, x, y),
          F2, F3);
  REFUSED("checkpoint: the function is not there", mr_lax_checkpoint(f, NULL, 0, x, y), F2, F3);
  REFUSED("jit: the function failed: add f32[2] f32[3]: want one shape, or one scalar",
          mr_lax_jit(f, "g", bad, x, y), F2, F3);
  REFUSED("jit: operand 0 is f32[3], want f32[2]", mr_lax_jit(f, "g", b, x, y), F3, F3);
  mr_fn_t *all[] = {b, bad, fwd, bwd, turned, wide, rule, off, one};
  for (int i = 0; i < 9; i++) mr_fn_destroy(all[i]);
}

/* As jax's closures would: what stands outside must be handed in. */
static void a_function_that_reads_a_value_of_another_one(void **state) {
  take(AVALS(F2));
  mr_fn_t *b = mr_fn_create();
  mr_var_t *sum = mr_lax_add(b, mr_fn_input(b, F2), x[0]);
  assert_null(sum);
  assert_string_equal(b->diag.text,
                      "add: operand 1 is a value of another function; take it as an input");
  assert_int_equal(mr_lax_jit(f, "g", b, x, y), MR_ERR_SHAPE);
  assert_string_equal(
      f->diag.text,
      "net: jit: the function failed: add: operand 1 is a value of another function; "
      "take it as an input");
  mr_fn_destroy(b);
  b = mr_fn_create();
  assert_int_equal(mr_fn_return(b, 1, x), MR_ERR_SHAPE);
  assert_string_equal(b->diag.text, "output 0 is a value of another function; take it as an input");
  mr_fn_destroy(b);
  mr_fn_destroy(f);
}

/* The first failure of a trace is reported by every transform that gets the function, and when it
   is compiled. */
static void transforms_and_jit_report_a_failed_function(void **state) {
  static const char *const want = "add f32[2] f32[3]: want one shape, or one scalar";
  mr_fn_t *bad = failed(), *g = NULL, *h = NULL;
  mr_exec_t *e = NULL;
  const int first = 0;
  for (int k = 0; k < 10; k++) {
    mr_diag_t diag = {0};
    mr_err_t err = k == 0   ? mr_grad(bad, 1, &first, &g, &diag)
                   : k == 1 ? mr_vjp(bad, 1, &first, &g, &diag)
                   : k == 2 ? mr_jvp(bad, 1, &first, &g, &diag)
                   : k == 3 ? mr_linearize(bad, 1, &first, &g, &h, &diag)
                   : k == 4 ? mr_jacfwd(bad, 1, &first, &g, &diag)
                   : k == 5 ? mr_jacrev(bad, 1, &first, &g, &diag)
                   : k == 6 ? mr_hessian(bad, 1, &first, &g, &diag)
                   : k == 7 ? mr_hvp(bad, 1, &first, &g, &diag)
                   : k == 8 ? mr_vmap(bad, 3, NULL, NULL, &g, &diag)
                            : mr_compile(bad, NULL, &e, &diag);
    assert_int_equal(err, MR_ERR_SHAPE);
    assert_string_equal(diag.text, want);
    assert_true(!g && !h && !e);
  }
  mr_fn_destroy(bad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_scan_whose_function_does_not_fit),
      cmocka_unit_test(a_scan_of_rows_that_cannot_be_stacked),
      cmocka_unit_test(a_while_whose_functions_do_not_fit),
      cmocka_unit_test(branches_that_do_not_agree),
      cmocka_unit_test(a_fori_loop_without_its_counter),
      cmocka_unit_test(rules_of_ones_own_that_do_not_fit),
      cmocka_unit_test(transforms_and_jit_report_a_failed_function),
      cmocka_unit_test(a_function_that_reads_a_value_of_another_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
