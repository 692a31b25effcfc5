/* Where a step's NaN is found to begin, for losses made to fail at a known place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/control/control.h"
#include "model/exec/finite.h"
#include "model/model.h"
#include "stages/train/trace_step.h"

enum { B = 4, N = 3 };

/* What a loss does with y = x + w, before it is summed up. */
typedef mr_var_t *made_fn(mr_fn_t *f, mr_var_t *y);

/* The model has a parameter of as many elements as the batch. */
static bool like_a_batch;

static mr_err_t made_trace(const void *of, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out) {
  made_fn *make = *(made_fn *const *)of;
  mr_fn_t *f = s->f;
  size_t mark = mr_nn_enter(s, "first");
  mr_var_t *w = mr_nn_param_of(s, "w", (mr_init_t){.kind = MR_INIT_ZEROS}, N);
  const int64_t shape[] = {field[0]->aval.dim[0], N};
  mr_var_t *y = mr_lax_add(f, field[0], mr_lax_broadcast_in_dim(f, w, 2, shape, (int[]){1}));
  if (like_a_batch) {
    mr_var_t *v = mr_nn_param_of(s, "v", (mr_init_t){.kind = MR_INIT_ZEROS}, B, N);
    y = mr_lax_add(f, y, mr_lax_reduce_sum(f, v, 2, (int[]){0, 1}));
  }
  mr_nn_leave(s, mark);
  mark = mr_nn_enter(s, "second");
  y = make(f, y);
  mr_nn_leave(s, mark);
  out->losses = mr_lax_reduce_sum(f, y, 1, (int[]){1});
  out->loss =
      mr_lax_scale(f, 1.0 / (double)shape[0], mr_lax_reduce_sum(f, out->losses, 1, (int[]){0}));
  out->out[0] = y;
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

static mr_err_t made_metrics(const void *of, mr_fn_t *f, mr_var_t *const *field,
                             mr_var_t *const *out, mr_loss_report_t *reported) {
  return MR_OK;
}

static _Alignas(64) float x[B * N];
static const uint64_t ids[B] = {40, 50, 60, 70};

static mr_traced_t traced(made_fn *make) {
  mr_loss_t l = {.of = &make,
                 .trace = made_trace,
                 .metrics = made_metrics,
                 .n_fields = 1,
                 .field = {{.name = "x", .aval = mr_aval_of(MR_F32, N), .layout = ""}}};
  mr_params_t params = {0};
  mr_diag_t diag = {0};
  mr_traced_t out;
  if (mr_loss_params(&l, 1, &params, &diag) < 0) fail_msg("%s", diag.text);
  mr__traced_step_t t = {.loss = &l,
                         .config = mr_train_default(B),
                         .params = &params,
                         .field = (const void *const[]){x},
                         .in = {.step = 1, .lr = 0.1f},
                         .scale = mr_scale_state_start(1),
                         .n_records = B,
                         .record = ids};
  t.config.compute.dtype = MR_F32;
  if (mr__trace_step(&t, NULL, &out, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < N; i++)
    assert_true(mr_params_f32(&params, MR_SET_VALUES, 0)[i] == 0); /* nothing is applied */
  mr_params_fini(&params);
  return out;
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
}

static void set_x(void) {
  for (int i = 0; i < B * N; i++) x[i] = (float)(i + 1);
}

static mr_var_t *made_log(mr_fn_t *f, mr_var_t *y) { return mr_lax_exp(f, mr_lax_log(f, y)); }

static void a_forward_op_is_named_with_scope_element_and_record(void **state) {
  set_x();
  x[2 * N + 1] = -1;
  mr_traced_t t = traced(made_log);
  assert_true(t.found && isnan(t.out.loss));
  expect_in(t.text, "forward, second: `");
  expect_in(t.text, "= log");
  expect_in(t.text, "gives nan at [2,1] (slot 2, record 60)");
}

/* Its rows may be a parameter's, whose gradient has no records. */
static void no_record_is_named_where_rows_may_be_a_parameters(void **state) {
  set_x();
  x[2 * N + 1] = -1;
  like_a_batch = true;
  mr_traced_t t = traced(made_log);
  like_a_batch = false;
  expect_in(t.text, "gives nan at [2,1]");
  assert_null(strstr(t.text, "record"));
}

/* 0 where y is 0, and its derivative is an infinity there. */
static mr_var_t *made_sqrt(mr_fn_t *f, mr_var_t *y) { return mr_lax_sqrt(f, mr_lax_mul(f, y, y)); }

static void a_backward_op_is_distinguished_from_a_forward_one(void **state) {
  set_x();
  x[3 * N + 2] = 0;
  mr_traced_t t = traced(made_sqrt);
  assert_true(t.found && isfinite(t.out.loss) && !isfinite(t.out.grad_norm));
  expect_in(t.text, "backward, second: `");
  expect_in(t.text, " gives inf at [3,2]");
}

/* A mask's infinities become zeros in a softmax; the fault is behind it. */
static mr_var_t *made_masked(mr_fn_t *f, mr_var_t *y) {
  mr_var_t *low = mr_lax_lt(f, y, mr_lax_full(f, &y->aval, 2));
  mr_var_t *masked = mr_lax_select_n(f, low, y, mr_lax_full(f, &y->aval, (double)-INFINITY));
  mr_var_t *p = mr_lax_exp(f, mr_lax_sub(f, masked, mr_lax_full(f, &y->aval, 20)));
  return mr_lax_div(f, p, mr_lax_sub(f, y, mr_lax_full(f, &y->aval, 5)));
}

static void infinities_of_a_mask_are_not_the_cause(void **state) {
  set_x(); /* x is 1 once, which is masked, and 5 once, where the division fails */
  mr_traced_t t = traced(made_masked);
  assert_true(t.found);
  expect_in(t.text, "forward, second: `");
  expect_in(t.text, "= div");
  expect_in(t.text, "gives inf at [1,1] (slot 1, record 50)");
}

/* Masked as a whole, a row has no finite operand that it goes back to. */
static mr_var_t *made_all_masked(mr_fn_t *f, mr_var_t *y) {
  mr_var_t *low = mr_lax_full(f, &y->aval, (double)-INFINITY);
  return mr_lax_add(f, y, mr_lax_sub(f, low, low));
}

static void a_nan_made_of_literal_infinities_is_named_where_it_arises(void **state) {
  set_x();
  mr_traced_t t = traced(made_all_masked);
  assert_true(t.found && isnan(t.out.loss));
  expect_in(t.text, "gives nan at [0");
}

static void an_input_that_is_not_finite_is_the_cause_itself(void **state) {
  set_x();
  x[1] = NAN;
  mr_traced_t t = traced(made_sqrt);
  assert_true(t.found);
  assert_string_equal(t.text, "field x of the batch holds nan at [0,1] (slot 0, record 40)");
}

static void a_step_that_is_finite_has_no_fault(void **state) {
  set_x();
  mr_traced_t t = traced(made_log);
  assert_false(t.found);
  assert_true(isfinite(t.out.loss) && isfinite(t.out.grad_norm));
}

/* Doubles c, n times: from 2^120 it overflows in the eighth run. */
static void in_a_loop_the_op_inside_and_its_run_are_named(void **state) {
  mr_fn_t *body = mr_fn_create(), *f = mr_fn_create();
  mr_var_t *c = mr_fn_input(body, mr_aval_of(MR_F32, 2));
  c = mr_lax_mul(body, c, mr_lax_full(body, &c->aval, 2));
  assert_int_equal(mr_fn_return(body, 1, &c), MR_OK);
  mr_var_t *in = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *out;
  mr_scan_t s = {.n_carry = 1, .length = 12};
  assert_int_equal(mr_lax_scan(f, body, &s, &in, &out), MR_OK);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  mr_exec_t *e = NULL;
  mr_finite_t *w = NULL;
  mr_diag_t diag = {0};
  mr_fault_t fault;
  if (mr_compile(f, NULL, &e, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_finite_create(e, &w, &diag), MR_OK);
  _Alignas(64) float from[2] = {1, 0x1p120f}, to[2];
  for (int k = 0; k < 2; k++) {
    mr_exec_run(e, (const void *[]){from}, (void *[]){to});
    assert_true(isinf(to[1]) && mr_finite_origin(w, 0, &fault));
    assert_non_null(fault.call);
    assert_string_equal(fault.call->op->name, "scan");
    assert_int_equal(fault.run, 7);
    assert_int_equal(fault.seen.first, 1);
    assert_int_equal(fault.seen.bad, 1);
  }
  mr_finite_destroy(w);
  mr_exec_destroy(e);
  mr_fn_destroy(f), mr_fn_destroy(body);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_forward_op_is_named_with_scope_element_and_record),
      cmocka_unit_test(no_record_is_named_where_rows_may_be_a_parameters),
      cmocka_unit_test(a_backward_op_is_distinguished_from_a_forward_one),
      cmocka_unit_test(infinities_of_a_mask_are_not_the_cause),
      cmocka_unit_test(a_nan_made_of_literal_infinities_is_named_where_it_arises),
      cmocka_unit_test(an_input_that_is_not_finite_is_the_cause_itself),
      cmocka_unit_test(a_step_that_is_finite_has_no_fault),
      cmocka_unit_test(in_a_loop_the_op_inside_and_its_run_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
