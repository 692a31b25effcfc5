/* Every op of the table: no rule forgotten, and vjp against finite differences. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/ops/rules.h"

/* A case builds a value from inputs in[]; the test derives it with respect to the f32 ones. */
typedef mr_var_t *build_fn(mr_fn_t *f, mr_var_t **in);
typedef struct op_case {
  const char *op;
  build_fn *build;
  int n_in;
  mr_aval_t in[4];
  float lo, hi; /* range of the inputs' values */
} op_case_t;

#define F(...)                                                                 \
  {                                                                            \
    MR_F32, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), { __VA_ARGS__ } \
  }
#define BUILD(name, expr) \
  static mr_var_t *b_##name(mr_fn_t *f, mr_var_t **in) { return expr; }

BUILD(add, mr_lax_add(f, in[0], in[1]))
BUILD(add_any, mr_lax_add_any(f, in[0], in[1]))
BUILD(sub, mr_lax_sub(f, in[0], in[1]))
BUILD(mul, mr_lax_mul(f, in[0], in[1]))
BUILD(div, mr_lax_div(f, in[0], in[1]))
BUILD(max, mr_lax_max(f, in[0], in[1]))
BUILD(min, mr_lax_min(f, in[0], in[1]))
BUILD(eq, mr_lax_mul(f, mr_lax_convert(f, mr_lax_eq(f, in[0], in[0]), MR_F32), in[0]))
BUILD(neg, mr_lax_neg(f, in[0]))
BUILD(sign, mr_lax_mul(f, mr_lax_sign(f, in[0]), in[0]))
BUILD(exp, mr_lax_exp(f, in[0]))
BUILD(log, mr_lax_log(f, in[0]))
BUILD(tanh, mr_lax_tanh(f, in[0]))
BUILD(erf, mr_lax_erf(f, in[0]))
BUILD(sqrt, mr_lax_sqrt(f, in[0]))
BUILD(rsqrt, mr_lax_rsqrt(f, in[0]))
BUILD(integer_pow, mr_lax_integer_pow(f, in[0], 3))
BUILD(inverse, mr_lax_integer_pow(f, in[0], -2))
BUILD(reshape, mr_lax_reshape_to(f, in[0], 4, 3))
BUILD(transpose, mr_lax_transpose(f, in[0], (int[]){2, 0, 1}))
BUILD(broadcast, mr_lax_broadcast_in_dim(f, in[0], 3, (int64_t[]){2, 3, 4}, (int[]){0, 2}))
BUILD(slice, mr_lax_slice(f, in[0], (int64_t[]){1, 0}, (int64_t[]){3, 2}))
BUILD(pad, mr_lax_pad(f, in[0], (int64_t[]){1, 0}, (int64_t[]){0, 2}))
BUILD(concatenate, mr_lax_concatenate(f, 3, in, 1))
BUILD(sum_last, mr_lax_reduce_sum(f, in[0], 1, (int[]){1}))
BUILD(sum_first, mr_lax_reduce_sum(f, in[0], 1, (int[]){0}))
BUILD(sum_ends, mr_lax_reduce_sum(f, in[0], 2, (int[]){0, 2}))
BUILD(reduce_max, mr_lax_reduce_max(f, in[0], 1, (int[]){1}))
BUILD(dot, mr_lax_dot(f, in[0], in[1]))
BUILD(linear, mr_lax_linear(f, in[0], in[1], in[2], false))
BUILD(linear_t, mr_lax_linear(f, in[0], in[1], in[2], true))
BUILD(linear_plain, mr_lax_linear(f, in[0], in[1], NULL, false))
BUILD(norm, mr_lax_layer_norm(f, in[0], in[1], in[2], 1e-5f, false, MR_F32))
BUILD(norm2, mr_lax_layer_norm(f, in[0], in[1], in[2], 1e-5f, true, MR_F32))
BUILD(gelu_tanh, mr_lax_gelu(f, in[0], MR_GELU_TANH))
BUILD(gelu_erf, mr_lax_gelu(f, in[0], MR_GELU_ERF))
BUILD(softmax, mr_lax_softmax(f, in[0]))
BUILD(attention, mr_lax_attention(f, in[0], in[1], in[2], 0.5f))
BUILD(packed, mr_lax_attention_packed(f, in[0], 0.5f))
BUILD(sum_squares, mr_lax_sum_squares(f, 2, in))

static mr_var_t *b_batched_dot(mr_fn_t *f, mr_var_t **in) { /* bhqd,bkhd->bhqk */
  mr_dot_dims_t d = {.n_batch = 2,
                     .lhs_batch = {0, 1},
                     .rhs_batch = {0, 2},
                     .n_contract = 1,
                     .lhs_contract = {3},
                     .rhs_contract = {3}};
  return mr_lax_dot_general(f, in[0], in[1], &d, MR_F32);
}

static mr_var_t *b_two_contracted(mr_fn_t *f, mr_var_t **in) { /* abc,cxb->ax */
  mr_dot_dims_t d = {.n_contract = 2, .lhs_contract = {1, 2}, .rhs_contract = {2, 0}};
  return mr_lax_dot_general(f, in[0], in[1], &d, MR_F32);
}

static mr_var_t *b_convert(mr_fn_t *f, mr_var_t **in) {
  mr_var_t *x = mr_lax_convert(f, mr_lax_convert(f, in[1], MR_I32), MR_F32);
  return mr_lax_mul(f, in[0], x); /* the integer way carries no cotangent */
}

static mr_var_t *b_xent(mr_fn_t *f, mr_var_t **in) {
  mr_var_t *label = mr_lax_convert(f, mr_literal(f, MR_F32, 2), MR_I32);
  label = mr_lax_broadcast_in_dim(f, label, 1, (int64_t[]){3}, NULL);
  return mr_lax_softmax_cross_entropy(f, in[0], label, 0.1f);
}

static mr_var_t *b_dropout(mr_fn_t *f, mr_var_t **in) {
  return mr_lax_dropout(f, in[0], 0.4f, 3, mr_literal(f, MR_U64, 9), mr_literal(f, MR_U32, 5));
}

static const op_case_t cases[] = {
    {"add", b_add, 2, {F(3, 4), F(3, 4)}, -1, 1},
    {"add", b_add, 2, {F(3, 4), {MR_F32, 0, {0}}}, -1, 1},
    {"add_any", b_add_any, 2, {F(3, 4), F(3, 4)}, -1, 1},
    {"sub", b_sub, 2, {{MR_F32, 0, {0}}, F(3, 4)}, -1, 1},
    {"mul", b_mul, 2, {F(3, 4), F(3, 4)}, -1, 1},
    {"div", b_div, 2, {F(3, 4), F(3, 4)}, 1, 2},
    {"div", b_div, 2, {F(3, 4), {MR_F32, 0, {0}}}, 1, 2},
    {"max", b_max, 2, {F(3, 4), F(3, 4)}, -1, 1},
    {"min", b_min, 2, {F(3, 4), F(3, 4)}, -1, 1},
    {"eq", b_eq, 1, {F(5)}, -1, 1},
    {"neg", b_neg, 1, {F(5)}, -1, 1},
    {"sign", b_sign, 1, {F(5)}, 0.1f, 1},
    {"exp", b_exp, 1, {F(5)}, -1, 1},
    {"log", b_log, 1, {F(5)}, 1, 2},
    {"tanh", b_tanh, 1, {F(5)}, -1, 1},
    {"erf", b_erf, 1, {F(5)}, -1, 1},
    {"sqrt", b_sqrt, 1, {F(5)}, 1, 2},
    {"rsqrt", b_rsqrt, 1, {F(5)}, 1, 2},
    {"integer_pow", b_integer_pow, 1, {F(5)}, -1, 1},
    {"integer_pow", b_inverse, 1, {F(5)}, 1, 2},
    {"convert_element_type", b_convert, 1 + 1, {F(5), F(5)}, 1.2f, 1.8f},
    {"reshape", b_reshape, 1, {F(2, 6)}, -1, 1},
    {"transpose", b_transpose, 1, {F(2, 3, 4)}, -1, 1},
    {"broadcast_in_dim", b_broadcast, 1, {F(2, 4)}, -1, 1},
    {"broadcast_in_dim", b_broadcast, 1, {F(2, 1)}, -1, 1},
    {"slice", b_slice, 1, {F(4, 3)}, -1, 1},
    {"pad", b_pad, 1, {F(2, 3)}, -1, 1},
    {"concatenate", b_concatenate, 3, {F(2, 1), F(2, 3), F(2, 2)}, -1, 1},
    {"reduce_sum", b_sum_last, 1, {F(3, 4)}, -1, 1},
    {"reduce_sum", b_sum_first, 1, {F(3, 4)}, -1, 1},
    {"reduce_sum", b_sum_ends, 1, {F(3, 4, 2)}, -1, 1},
    {"reduce_max", b_reduce_max, 1, {F(3, 4)}, -1, 1},
    {"dot_general", b_dot, 2, {F(2, 3, 4), F(4, 5)}, -1, 1},
    {"dot_general", b_batched_dot, 2, {F(2, 3, 4, 5), F(2, 6, 3, 5)}, -1, 1},
    {"dot_general", b_two_contracted, 2, {F(2, 3, 4), F(4, 5, 3)}, -1, 1},
    {"linear", b_linear, 3, {F(2, 3, 4), F(4, 5), F(5)}, -1, 1},
    {"linear", b_linear_t, 3, {F(3, 4), F(5, 4), F(5)}, -1, 1},
    {"linear", b_linear_plain, 2, {F(3, 4), F(4, 5)}, -1, 1},
    {"layer_norm", b_norm, 3, {F(3, 8), F(8), F(8)}, -1, 1},
    {"layer_norm", b_norm2, 3, {F(3, 8), F(8), F(8)}, -1, 1},
    {"gelu", b_gelu_tanh, 1, {F(7)}, -2, 2},
    {"gelu", b_gelu_erf, 1, {F(7)}, -2, 2},
    {"softmax", b_softmax, 1, {F(3, 5)}, -1, 1},
    {"attention", b_attention, 3, {F(2, 3, 2, 4), F(2, 3, 2, 4), F(2, 3, 2, 4)}, -1, 1},
    {"attention", b_packed, 1, {F(2, 3, 3, 2, 4)}, -1, 1},
    {"softmax_cross_entropy", b_xent, 1, {F(3, 5)}, -1, 1},
    {"dropout", b_dropout, 1, {F(40)}, -1, 1},
    {"sum_squares", b_sum_squares, 2, {F(3, 4), F(5)}, -1, 1},
};
#define N_CASES (int)(sizeof cases / sizeof *cases)

/* Ops that say they have no vjp: backward rules themselves, and the optimizer. */
static bool has_vjp(const mr_op_def_t *op) { return op->vjp != mr_no_vjp; }

static uint32_t random_state = 1;

static float random_in(float lo, float hi) {
  random_state = random_state * 1664525u + 1013904223u;
  return lo + (hi - lo) * (float)(random_state >> 8) / 16777216.0f;
}

/* (inputs..., weights) -> sum(value * weights), a generic scalar. */
static mr_fn_t *scalar_fn(const op_case_t *c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *in[4];
  for (int i = 0; i < c->n_in; i++) in[i] = mr_fn_input(f, c->in[i]);
  mr_var_t *y = c->build(f, in);
  if (!y) fail_msg("%s: %s", c->op, f->diag.text);
  mr_var_t *w = mr_fn_input(f, y->aval), *s = mr_lax_mul(f, y, w);
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  if (s->aval.ndim) s = mr_lax_reduce_sum(f, s, s->aval.ndim, axes);
  if (mr_fn_return(f, 1, &s) < 0) fail_msg("%s: %s", c->op, f->diag.text);
  return f;
}

static bool uses(const mr_fn_t *f, const char *op) {
  for (int i = 0; i < f->n_eqn; i++)
    if (!strcmp(f->eqn[i]->op->name, op)) return true;
  return false;
}

static float *floats(int64_t n) {
  float *p = aligned_alloc(64, (size_t)(n * 4 + 63) & ~(size_t)63);
  assert_non_null(p);
  return p;
}

static void differences(const op_case_t *c, mr_exec_t *x, int n_in, float **in, float **grad) {
  const float h = 4e-3f;
  float value;
  void *out[8] = {&value};
  for (int i = 0; i < c->n_in; i++) out[1 + i] = floats(mr_aval_elems(&c->in[i]));
  for (int i = 0; i < c->n_in; i++)
    for (int64_t k = 0; k < mr_aval_elems(&c->in[i]); k++) {
      float was = in[i][k], got = grad[i][k];
      in[i][k] = was + h;
      mr_exec_run(x, (const void *const *)in, out);
      double up = value;
      in[i][k] = was - h;
      mr_exec_run(x, (const void *const *)in, out);
      double want = (up - value) / (2.0 * h);
      in[i][k] = was;
      if (fabs(got - want) > 2e-3 + 5e-3 * fabs(want))
        fail_msg("%s: input %d element %lld: vjp %g, difference %g", c->op, i, (long long)k,
                 (double)got, want);
    }
  for (int i = 0; i < c->n_in; i++) free(out[1 + i]);
}

static void check_case(const op_case_t *c) {
  mr_diag_t diag = {0};
  mr_fn_t *f = scalar_fn(c), *g = NULL;
  mr_exec_t *x = NULL;
  int wrt[4] = {0, 1, 2, 3};
  float *in[5], *grad[4], value;
  void *out[8] = {&value};
  assert_true(uses(f, c->op));
  if (mr_value_and_grad(f, c->n_in, wrt, &g, &diag) < 0) fail_msg("%s: %s", c->op, diag.text);
  if (mr_jit(g, NULL, &x, &diag) < 0) fail_msg("%s: %s", c->op, diag.text);
  for (int i = 0; i < f->n_in; i++) {
    int64_t n = mr_aval_elems(&f->in[i]->aval);
    in[i] = floats(n);
    for (int64_t k = 0; k < n; k++)
      in[i][k] = i < c->n_in ? random_in(c->lo, c->hi) : random_in(0.5f, 1.5f);
  }
  for (int i = 0; i < c->n_in; i++) out[1 + i] = grad[i] = floats(mr_aval_elems(&c->in[i]));
  mr_exec_run(x, (const void *const *)in, out);
  differences(c, x, f->n_in, in, grad);
  for (int i = 0; i < f->n_in; i++) free(in[i]);
  for (int i = 0; i < c->n_in; i++) free(grad[i]);
  mr_exec_destroy(x);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
}

static void every_vjp_agrees_with_finite_differences(void **state) {
  for (int i = 0; i < N_CASES; i++) check_case(&cases[i]);
}

static void every_op_with_a_vjp_has_a_case(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    bool found = !has_vjp(mr_ops[i]);
    for (int k = 0; k < N_CASES; k++) found |= !strcmp(cases[k].op, mr_ops[i]->name);
    if (!found) fail_msg("no case for %s", mr_ops[i]->name);
  }
}

static void no_rule_is_forgotten(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    if (!op->name || !op->shape || !op->jvp || !op->vjp || !op->batch || !op->split || !op->open ||
        !op->cpu || !op->cuda)
      fail_msg("op %d (%s) has a rule that is NULL", i, op->name ? op->name : "?");
    assert_ptr_equal(mr_op_find(op->name), op);
    assert_true(op->n_in != 0 && op->n_out != 0 && op->n_out <= MR_MAX_OUT);
  }
  assert_null(mr_op_find("no such op"));
}

static void a_missing_rule_fails_by_the_ops_name(void **state) {
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    if (has_vjp(op)) continue;
    mr_fn_t *f = mr_fn_create();
    mr_eqn_t e = {.op = op, .scope = "", .n_in = 0, .n_out = 0};
    assert_int_equal(op->vjp(f, &e, NULL, NULL), MR_ERR_NORULE);
    assert_non_null(strstr(f->diag.text, op->name));
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_rule_is_forgotten),
      cmocka_unit_test(a_missing_rule_fails_by_the_ops_name),
      cmocka_unit_test(every_op_with_a_vjp_has_a_case),
      cmocka_unit_test(every_vjp_agrees_with_finite_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
