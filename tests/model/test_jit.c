/* jit with a cache, futures, donation, and failures that come out at the wait. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "model/model.h"

static mr_queue_t *queue;
static int traces;

static int open_queue(void **state) { return mr_queue_create(&queue, NULL) < 0; }

static int close_queue(void **state) {
  mr_queue_destroy(queue);
  return 0;
}

static mr_jitted_t *jitted(const char *name, mr_emit_fn *trace, mr_jitted_options_t o) {
  mr_jitted_t *j = NULL;
  assert_int_equal(mr_jitted_create(queue, name, trace, NULL, &o, &j, NULL), MR_OK);
  traces = 0;
  return j;
}

static mr_array_t *filled(int64_t n, float value) {
  float *x = test_malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = value;
  mr_array_t *a = mr_array_of(mr_aval_of(MR_F32, n), x, NULL);
  test_free(x);
  assert_non_null(a);
  return a;
}

static mr_array_t *call1(mr_jitted_t *j, mr_array_t *a) {
  mr_array_t *out = NULL;
  mr_diag_t diag = {0};
  if (mr_jitted_call(j, 1, &a, 1, &out, &diag) < 0) fail_msg("%s", diag.text);
  return out;
}

static void expect_all(mr_array_t *a, float want) {
  const void *data = NULL;
  mr_diag_t diag = {0};
  if (mr_array_data(a, &data, &diag) < 0) fail_msg("%s", diag.text);
  for (int64_t i = 0; i < mr_aval_elems(mr_array_aval(a)); i++)
    assert_true(((const float *)data)[i] == want);
}

static mr_err_t twice(mr_fn_t *f, void *arg) {
  traces++;
  mr_var_t *y = mr_lax_add(f, f->in[0], f->in[0]);
  return mr_fn_return(f, 1, &y);
}

static void one_list_of_shapes_is_traced_once(void **state) {
  mr_jitted_t *j = jitted("twice", twice, (mr_jitted_options_t){0});
  mr_array_t *a = filled(8, 3), *b = filled(9, 3), *out[5];
  for (int i = 0; i < 5; i++) out[i] = call1(j, i == 3 ? b : a);
  for (int i = 0; i < 5; i++) {
    expect_all(out[i], 6);
    mr_array_drop(out[i]);
  }
  assert_int_equal(traces, 2);
  assert_int_equal(mr_jitted_stats(j).misses, 2);
  assert_int_equal(mr_jitted_stats(j).hits, 3);
  mr_array_drop(a), mr_array_drop(b);
  mr_jitted_destroy(j);
}

static void another_dtype_is_another_graph(void **state) {
  mr_jitted_t *j = jitted("twice", twice, (mr_jitted_options_t){0});
  mr_array_t *a = filled(2, 1), *b = mr_array_of(mr_aval_of(MR_I32, 2), (int[]){4, -4}, NULL);
  mr_array_t *x = call1(j, a), *y = call1(j, b);
  const void *data = NULL;
  expect_all(x, 2);
  assert_int_equal(mr_array_data(y, &data, NULL), MR_OK);
  assert_memory_equal(data, ((int[]){8, -8}), 8);
  assert_int_equal(traces, 2);
  mr_array_drop(a), mr_array_drop(b), mr_array_drop(x), mr_array_drop(y);
  mr_jitted_destroy(j);
}

/* A task that waits in the queue until the test lets it go. */
typedef struct barrier {
  mr__task_t task;
  pthread_mutex_t lock;
} barrier_t;

static void pass(mr__task_t *t) {
  barrier_t *b = (barrier_t *)t;
  pthread_mutex_lock(&b->lock);
  pthread_mutex_unlock(&b->lock);
}

static void a_call_returns_before_its_run_and_dependent_runs_queue_up(void **state) {
  mr_jitted_t *j = jitted("twice", twice, (mr_jitted_options_t){0});
  barrier_t b = {.task.run = pass, .lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_mutex_lock(&b.lock);
  mr__queue_put(queue, &b.task, false);
  mr_array_t *a = filled(100, 1);
  for (int i = 0; i < 10; i++) {
    mr_array_t *next = call1(j, a);
    mr_array_drop(a); /* the queued run keeps it */
    a = next;
  }
  assert_false(mr_array_is_ready(a));
  pthread_mutex_unlock(&b.lock);
  assert_int_equal(mr_block_until_ready(a, NULL), MR_OK);
  expect_all(a, 1024);
  mr_array_drop(a);
  mr_jitted_destroy(j);
}

static mr_err_t plus_one(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_add(f, f->in[0], mr_literal(f, MR_F32, 1));
  return mr_fn_return(f, 1, &y);
}

static void a_donated_argument_becomes_the_output_and_is_gone(void **state) {
  mr_jitted_t *j = jitted("plus_one", plus_one, (mr_jitted_options_t){.donate = 1});
  mr_array_t *a = filled(50000, 0), *first = mr_array_keep(a);
  const void *before = NULL, *after = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_array_data(a, &before, NULL), MR_OK);
  for (int i = 0; i < 20; i++) {
    mr_array_t *next = call1(j, a);
    mr_array_drop(a);
    a = next;
  }
  expect_all(a, 20);
  assert_int_equal(mr_array_data(a, &after, NULL), MR_OK);
  assert_ptr_equal(before, after);
  assert_int_equal(mr_array_data(first, &after, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "f32[50000] was donated"));
  mr_array_t *out = NULL;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_jitted_call(j, 1, &first, 1, &out, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "argument 0, f32[50000], was donated"));
  mr_array_drop(first), mr_array_drop(a);
  mr_jitted_destroy(j);
}

static mr_err_t sum_of_two(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_add(f, f->in[0], f->in[1]);
  return mr_fn_return(f, 1, &y);
}

static mr_err_t times_itself(mr_fn_t *f, void *arg) {
  mr_dot_dims_t d = {.n_contract = 1};
  mr_var_t *y = mr_lax_dot_general(f, f->in[0], f->in[0], &d, MR_F32);
  return mr_fn_return(f, 1, &y);
}

/* 3.01 is no bf16: what is computed tells which graph ran. */
static void another_default_precision_is_another_graph(void **state) {
  mr_jitted_t *j = jitted("square", times_itself, (mr_jitted_options_t){0});
  mr_array_t *a = filled(1, 3.01f), *out[4];
  const mr_precision_t asked[4] = {MR_PRECISION_NONE, MR_PRECISION_DEFAULT, MR_PRECISION_NONE,
                                   MR_PRECISION_DEFAULT};
  float rounded = mr_bf16_to_f32(mr_bf16_from_f32(3.01f));
  for (int i = 0; i < 4; i++) {
    mr_matmul_precision_set(asked[i]);
    out[i] = call1(j, a);
  }
  mr_matmul_precision_set(MR_PRECISION_NONE);
  for (int i = 0; i < 4; i++) {
    expect_all(out[i], i % 2 ? rounded * rounded : 3.01f * 3.01f);
    mr_array_drop(out[i]);
  }
  assert_int_equal(mr_jitted_stats(j).misses, 2);
  assert_int_equal(mr_jitted_stats(j).hits, 2);
  mr_array_drop(a);
  mr_jitted_destroy(j);
}

typedef struct power {
  int exponent;
  const char *scope; /* the second field: only what static_bytes covers is compared */
} power_t;

/* Leaves another exponent behind: the key is what the trace was given. */
static mr_err_t emit_power(mr_fn_t *f, void *arg) {
  power_t *p = arg;
  traces++;
  mr_var_t *y = mr_lax_integer_pow(f, f->in[0], p->exponent);
  p->exponent = -1;
  return mr_fn_return(f, 1, &y);
}

static void another_static_argument_is_another_graph(void **state) {
  static const int exponent[] = {2, 3, 2, 3, 0, 3};
  static const float want[] = {9, 27, 9, 27, 1, 27};
  power_t p = {0};
  mr_jitted_options_t o = {.static_bytes = sizeof p.exponent};
  mr_jitted_t *j = NULL;
  assert_int_equal(mr_jitted_create(queue, "power", emit_power, &p, &o, &j, NULL), MR_OK);
  traces = 0;
  mr_array_t *a = filled(1, 3), *b = filled(2, 3), *out[6];
  for (int i = 0; i < 6; i++) {
    p.exponent = exponent[i], p.scope = i % 2 ? "a" : "b";
    out[i] = call1(j, a);
  }
  for (int i = 0; i < 6; i++) expect_all(out[i], want[i]), mr_array_drop(out[i]);
  assert_int_equal(traces, 3);
  p.exponent = 3;
  out[0] = call1(j, b);
  expect_all(out[0], 27), mr_array_drop(out[0]);
  assert_int_equal(mr_jitted_stats(j).misses, 4);
  assert_int_equal(mr_jitted_stats(j).hits, 3);
  mr_array_drop(a), mr_array_drop(b);
  mr_jitted_destroy(j);
}

static void static_arguments_of_no_argument_are_refused(void **state) {
  mr_jitted_t *j = NULL;
  mr_diag_t diag = {0};
  mr_jitted_options_t o = {.static_bytes = 4};
  assert_int_equal(mr_jitted_create(queue, "power", emit_power, NULL, &o, &j, &diag),
                   MR_ERR_CONFIG);
  assert_string_equal(diag.text, "jit of power: static_bytes is 4 and arg is NULL, want 0");
}

static void an_array_cannot_be_donated_and_read(void **state) {
  mr_jitted_t *j = jitted("sum", sum_of_two, (mr_jitted_options_t){.donate = 1});
  mr_array_t *a = filled(4, 1), *out = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_jitted_call(j, 2, (mr_array_t *[]){a, a}, 1, &out, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "argument 0, f32[4], is donated and given a second time"));
  expect_all(a, 1);
  mr_array_drop(a);
  mr_jitted_destroy(j);
}

static void shapes_that_do_not_fit_fail_the_call_with_op_and_shapes(void **state) {
  mr_jitted_t *j = jitted("sum", sum_of_two, (mr_jitted_options_t){0});
  mr_array_t *a = filled(4, 1), *b = filled(5, 1), *out = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_jitted_call(j, 2, (mr_array_t *[]){a, b}, 1, &out, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "jit of sum: "));
  assert_non_null(strstr(diag.text, "add"));
  assert_non_null(strstr(diag.text, "[4]"));
  assert_non_null(strstr(diag.text, "[5]"));
  assert_int_equal(mr_jitted_stats(j).misses, 0);
  mr_array_drop(a), mr_array_drop(b);
  mr_jitted_destroy(j);
}

static mr_err_t log_of(mr_fn_t *f, void *arg) {
  const char *outer = mr_scope_enter(f, "net"), *inner = mr_scope_enter(f, "loss");
  mr_var_t *y = mr_lax_log(f, f->in[0]);
  mr_scope_leave(f, inner);
  mr_scope_leave(f, outer);
  return mr_fn_return(f, 1, &y);
}

static void a_nan_comes_out_at_the_wait_with_op_and_scope_and_the_queue_continues(void **state) {
  mr_jitted_t *l = jitted("log_of", log_of, (mr_jitted_options_t){.check_nans = true});
  mr_jitted_t *t = jitted("twice", twice, (mr_jitted_options_t){0});
  mr_array_t *minus = filled(4, -1), *plus = filled(4, 1);
  mr_array_t *bad = call1(l, minus), *good = call1(l, plus), *next = call1(t, bad);
  mr_diag_t diag = {0};
  assert_int_equal(mr_block_until_ready(next, &diag), MR_ERR_DATA);
  assert_string_equal(diag.text, "run of log_of: log in net/loss gives NaN");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_block_until_ready(bad, &diag), MR_ERR_DATA);
  expect_all(good, 0);
  mr_array_drop(minus), mr_array_drop(plus);
  mr_array_drop(bad), mr_array_drop(good), mr_array_drop(next);
  mr_jitted_destroy(l), mr_jitted_destroy(t);
}

static void without_the_check_a_nan_is_a_value(void **state) {
  mr_jitted_t *l = jitted("log_of", log_of, (mr_jitted_options_t){0});
  mr_array_t *minus = filled(1, -1), *y = call1(l, minus);
  const void *data = NULL;
  assert_int_equal(mr_array_data(y, &data, NULL), MR_OK);
  assert_true(isnan(*(const float *)data));
  mr_array_drop(minus), mr_array_drop(y);
  mr_jitted_destroy(l);
}

static mr_err_t huge(mr_fn_t *f, void *arg) {
  mr_var_t *x = mr_lax_broadcast_in_dim(f, f->in[0], 2, (int64_t[]){1 << 20, 1 << 22}, NULL);
  mr_var_t *y = mr_lax_rev(f, mr_lax_exp(f, x), 1, (int[]){1}); /* no loop fuses it */
  y = mr_lax_reduce_sum(f, y, 2, (int[]){0, 1});
  return mr_fn_return(f, 1, &y);
}

static void too_little_memory_is_reported_with_the_planned_peak_before_a_run(void **state) {
  mr_jitted_t *j = jitted("huge", huge, (mr_jitted_options_t){0});
  mr_array_t *a = mr_array_of(mr_aval_scalar(MR_F32), &(float){1}, NULL), *out = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_jitted_call(j, 1, &a, 1, &out, &diag), MR_ERR_NOMEM);
  assert_non_null(strstr(diag.text, "jit of huge: out of memory: the planned peak is 3518"));
  mr_array_drop(a);
  mr_jitted_destroy(j);
}

static mr_jitted_t *recursive;

static mr_err_t calls_itself(mr_fn_t *f, void *arg) {
  mr_array_t *a = filled(1, 1), *out = NULL;
  mr_err_t e = mr_jitted_call(recursive, 1, &a, 1, &out, &f->diag);
  mr_array_drop(a);
  return e;
}

static void recursion_is_refused(void **state) {
  recursive = jitted("calls_itself", calls_itself, (mr_jitted_options_t){0});
  mr_array_t *a = filled(1, 1), *out = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_jitted_call(recursive, 1, &a, 1, &out, &diag), MR_ERR_USAGE);
  assert_non_null(strstr(diag.text, "called from its own trace"));
  mr_array_drop(a);
  mr_jitted_destroy(recursive);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_list_of_shapes_is_traced_once),
      cmocka_unit_test(another_dtype_is_another_graph),
      cmocka_unit_test(a_call_returns_before_its_run_and_dependent_runs_queue_up),
      cmocka_unit_test(a_donated_argument_becomes_the_output_and_is_gone),
      cmocka_unit_test(another_default_precision_is_another_graph),
      cmocka_unit_test(another_static_argument_is_another_graph),
      cmocka_unit_test(static_arguments_of_no_argument_are_refused),
      cmocka_unit_test(an_array_cannot_be_donated_and_read),
      cmocka_unit_test(shapes_that_do_not_fit_fail_the_call_with_op_and_shapes),
      cmocka_unit_test(a_nan_comes_out_at_the_wait_with_op_and_scope_and_the_queue_continues),
      cmocka_unit_test(without_the_check_a_nan_is_a_value),
      cmocka_unit_test(too_little_memory_is_reported_with_the_planned_peak_before_a_run),
      cmocka_unit_test(recursion_is_refused),
  };
  return cmocka_run_group_tests(tests, open_queue, close_queue);
}
