/* A function on several devices: as vmap of the same function, with the same bits every time. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/exec/device.h"
#include "tests/model/grid.h"

enum { DEVICES = 4, ROWS = 6, WIDE = 5 };

static mr_diag_t diag;

#define OK(call)                               \
  do {                                         \
    diag = (mr_diag_t){0};                     \
    if ((call) < 0) fail_msg("%s", diag.text); \
  } while (0)

/* One device's step of data parallel training: (x (6,5), w (5)) -> the loss's mean over devices, w
   after a step by the mean gradient, what all lost, and which device this is. */
static mr_fn_t *step(void) {
  mr_fn_t *l = mr_fn_create(), *g = NULL, *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(l, mr_aval_of(MR_F32, ROWS, WIDE)), *y;
  mr_var_t *w = mr_fn_input(l, mr_aval_of(MR_F32, WIDE, 1));
  y = mr_lax_integer_pow(l, mr_lax_tanh(l, mr_lax_dot(l, x, w)), 2);
  y = mr_lax_reduce_sum(l, y, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(l, 1, &y), MR_OK);
  OK(mr_value_and_grad(l, 1, (int[]){1}, &g, &diag));
  mr_var_t *in[] = {mr_fn_input(f, x->aval), mr_fn_input(f, w->aval)}, *out[4], *v[2];
  assert_int_equal(mr_inline(f, g, in, v), MR_OK);
  out[0] = mr_lax_pmean(f, v[0], "data");
  out[1] = mr_lax_sub(f, in[1], mr_lax_scale(f, 0.1, mr_lax_pmean(f, v[1], "data")));
  out[2] = mr_lax_all_gather(f, v[0], "data", DEVICES);
  out[3] = mr_lax_axis_index(f, "data");
  if (mr_fn_return(f, 4, out) < 0) fail_msg("%s", f->diag.text);
  mr_fn_destroy(l);
  mr_fn_destroy(g);
  return f;
}

typedef struct results {
  _Alignas(64) float loss[DEVICES], w[DEVICES][WIDE], all[DEVICES][DEVICES];
  _Alignas(64) int32_t rank[DEVICES];
} results_t;

static _Alignas(64) float x[DEVICES][ROWS][WIDE], w[WIDE];

static void draw(void) {
  for (int i = 0; i < DEVICES * ROWS * WIDE; i++) (&x[0][0][0])[i] = (float)random_in(-1, 1);
  for (int i = 0; i < WIDE; i++) w[i] = (float)random_in(-1, 1);
}

static void run_pmap(mr_pmapped_t *p, results_t *r) {
  *r = (results_t){0};
  mr_pmap_run(p, (const void *[]){x, w}, (void *[]){r->loss, r->w, r->all, r->rank});
}

static void a_step_on_four_devices_is_the_step_under_vmap(void **state) {
  mr_fn_t *f = step(), *m = NULL;
  mr_pmapped_t *p = NULL;
  mr_exec_t *e = NULL;
  results_t got, want = {0};
  draw();
  OK(mr_pmap(f, "data", DEVICES, &(mr_pmap_options_t){.shared = (bool[]){false, true}}, &p, &diag));
  OK(mr_vmap_axis(f, "data", DEVICES, (int[]){0, MR_UNMAPPED}, NULL, &m, &diag));
  OK(mr_compile(m, NULL, &e, &diag));
  mr_exec_run(e, (const void *[]){x, w}, (void *[]){want.loss, want.w, want.all, want.rank});
  run_pmap(p, &got);
  for (int d = 0; d < DEVICES; d++) {
    assert_int_equal(got.rank[d], d);
    assert_true(fabsf(got.loss[d] - want.loss[d]) < 1e-5f && got.loss[d] == got.loss[0]);
    for (int i = 0; i < WIDE; i++) assert_true(fabsf(got.w[d][i] - want.w[d][i]) < 1e-6f);
    for (int k = 0; k < DEVICES; k++) assert_true(fabsf(got.all[d][k] - want.all[d][k]) < 1e-5f);
    assert_memory_equal(got.w[d], got.w[0], sizeof got.w[0]); /* all devices hold the same bits */
  }
  mr_pmap_destroy(p);
  mr_exec_destroy(e);
  mr_fn_destroy(m);
  mr_fn_destroy(f);
}

static void shares_of_the_processors_give_the_bits_of_threads(void **state) {
  mr_fn_t *f = step();
  mr_pmapped_t *p = NULL, *q = NULL;
  const mr_device_t *device[DEVICES], *share;
  static results_t want, got;
  const bool shared[] = {false, true};
  char name[40];
  draw();
  for (int d = 0; d < DEVICES; d++) {
    snprintf(name, sizeof name, "cpu:%d/%d", d, DEVICES);
    OK(mr_device_open(name, &device[d], &diag));
  }
  OK(mr_pmap(f, "data", DEVICES, &(mr_pmap_options_t){.shared = shared}, &p, &diag));
  OK(mr_pmap(f, "data", DEVICES, &(mr_pmap_options_t){.shared = shared, .device = device}, &q,
             &diag));
  run_pmap(p, &want);
  run_pmap(q, &got);
  assert_memory_equal(&got, &want, sizeof got);
  mr_pmap_destroy(p), mr_pmap_destroy(q);
  mr_device_t other = *device[1]; /* whose memory the host cannot read */
  mr_backend_t far = *other.backend;
  far.host = false, other.backend = &far, other.name = "far:1";
  share = device[1], device[1] = &other;
  assert_int_equal(mr_pmap(f, "data", DEVICES,
                           &(mr_pmap_options_t){.shared = shared, .device = device}, &p, &diag),
                   MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "device far:1 of rank 1"));
  diag = (mr_diag_t){0};
  device[1] = share;
  for (int d = 0; d < DEVICES; d++) mr_device_close(device[d]);
  mr_fn_destroy(f);
}

static void a_hundred_runs_give_the_same_bits(void **state) {
  mr_fn_t *f = step();
  mr_pmapped_t *p = NULL;
  static results_t first, again;
  draw();
  OK(mr_pmap(f, "data", DEVICES, &(mr_pmap_options_t){.shared = (bool[]){false, true}}, &p, &diag));
  run_pmap(p, &first);
  for (int i = 0; i < 100; i++) {
    run_pmap(p, &again);
    assert_memory_equal(&again, &first, sizeof first);
  }
  mr_pmap_destroy(p);
  mr_fn_destroy(f);
}

/* A loop whose every step speaks to the others. */
static void collectives_work_inside_a_scan_and_in_every_dtype(void **state) {
  mr_fn_t *b = mr_fn_create(), *f = mr_fn_create();
  mr_pmapped_t *p = NULL;
  mr_var_t *c[2] = {mr_fn_input(b, mr_aval_of(MR_I32, 2)), mr_fn_input(b, mr_aval_of(MR_BF16, 2))};
  for (int i = 0; i < 2; i++) c[i] = mr_lax_psum(b, c[i], "i");
  assert_int_equal(mr_fn_return(b, 2, c), MR_OK);
  for (int i = 0; i < 2; i++) c[i] = mr_fn_input(f, b->in[i]->aval);
  if (mr_lax_scan(f, b, &(mr_scan_t){.length = 3, .n_carry = 2}, c, c) < 0)
    fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 2, c), MR_OK);
  OK(mr_pmap(f, "i", 3, NULL, &p, &diag));
  _Alignas(64) int32_t whole[6] = {1, 10, 2, 20, 3, 30}, sums[6];
  _Alignas(64) mr_bf16_t real[6], real_sums[6];
  for (int i = 0; i < 6; i++) real[i] = mr_bf16_from_f32((float)(i % 2) + 1);
  mr_pmap_run(p, (const void *[]){whole, real}, (void *[]){sums, real_sums});
  for (int i = 0; i < 6; i++) {
    assert_int_equal(sums[i], i % 2 ? 540 : 54);
    assert_true(mr_bf16_to_f32(real_sums[i]) == (float)(i % 2 + 1) * 27);
  }
  mr_pmap_destroy(p);
  mr_fn_destroy(f);
  mr_fn_destroy(b);
}

static void operands_that_do_not_fit_the_devices_are_refused_before_a_run(void **state) {
  mr_fn_t *f = step();
  mr_pmapped_t *p = NULL;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_pmap(f, "data", 3, NULL, &p, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "all_gather: axis \"data\" has 3 devices, not 4");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_pmap(f, "model", DEVICES, NULL, &p, &diag), MR_ERR_NORULE);
  assert_non_null(strstr(diag.text, "\"data\""));
  diag = (mr_diag_t){0};
  assert_int_equal(mr_pmap(f, "data", 0, NULL, &p, &diag), MR_ERR_CONFIG);
  mr_fn_destroy(f);
}

/* (x (4,3)) -> its gradient of a loss in which devices meet by rows. */
static mr_fn_t *gradient_of_rows(void) {
  mr_fn_t *l = mr_fn_create(), *g = NULL;
  mr_var_t *in = mr_fn_input(l, mr_aval_of(MR_F32, DEVICES, 3));
  mr_var_t *own = mr_lax_convert(l, mr_lax_axis_index(l, "i"), MR_F32);
  mr_var_t *y = mr_lax_psum_scatter(l, mr_lax_sin(l, in), "i");
  mr_var_t *z = mr_lax_tanh(l, mr_lax_all_to_all(l, mr_lax_mul(l, in, in), "i"));
  mr_var_t *place = mr_lax_iota(l, MR_F32, 2, (int64_t[]){DEVICES, 3}, 0);
  y = mr_lax_mul(l, mr_lax_integer_pow(l, y, 2), own);
  y = mr_lax_add(l, mr_lax_reduce_sum(l, y, 1, (int[]){0}),
                 mr_lax_reduce_sum(l, mr_lax_mul(l, z, place), 2, (int[]){0, 1}));
  y = mr_lax_mul(l, y, own);
  if (mr_fn_return(l, 1, &y) < 0) fail_msg("%s", l->diag.text);
  OK(mr_value_and_grad(l, 1, (int[]){0}, &g, &diag));
  mr_fn_destroy(l);
  return g;
}

static void rows_scattered_and_exchanged_have_the_derivatives_of_vmap(void **state) {
  mr_fn_t *g = gradient_of_rows(), *m = NULL;
  mr_pmapped_t *p = NULL;
  mr_exec_t *e = NULL;
  _Alignas(64) float given[DEVICES][DEVICES][3], got[DEVICES][DEVICES][3],
      want[DEVICES][DEVICES][3];
  _Alignas(64) float got_loss[DEVICES], want_loss[DEVICES];
  for (int i = 0; i < DEVICES * DEVICES * 3; i++) (&given[0][0][0])[i] = (float)random_in(-1, 1);
  OK(mr_vmap_axis(g, "i", DEVICES, NULL, NULL, &m, &diag));
  OK(mr_compile(m, NULL, &e, &diag));
  mr_exec_run(e, (const void *[]){given}, (void *[]){want_loss, want});
  OK(mr_pmap(g, "i", DEVICES, NULL, &p, &diag));
  mr_pmap_run(p, (const void *[]){given}, (void *[]){got_loss, got});
  for (int d = 0; d < DEVICES; d++) {
    assert_true(fabsf(got_loss[d] - want_loss[d]) < 1e-5f);
    for (int i = 0; i < DEVICES * 3; i++)
      assert_true(fabsf((&got[d][0][0])[i] - (&want[d][0][0])[i]) < 1e-5f);
  }
  mr_pmap_destroy(p);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_pmap(g, "i", 3, NULL, &p, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "axis \"i\" has 3 devices, not 4"));
  mr_exec_destroy(e);
  mr_fn_destroy(m), mr_fn_destroy(g);
}

static void a_device_that_does_not_come_to_a_collective_is_named_after_the_limit(void **state) {
  mr_fn_t *sums = mr_fn_create(), *same = mr_fn_create(), *f = mr_fn_create();
  mr_pmapped_t *p = NULL;
  mr_var_t *v = mr_lax_psum(sums, mr_fn_input(sums, mr_aval_of(MR_F32, 2)), "i");
  assert_int_equal(mr_fn_return(sums, 1, &v), MR_OK);
  v = mr_fn_input(same, mr_aval_of(MR_F32, 2));
  assert_int_equal(mr_fn_return(same, 1, &v), MR_OK);
  mr_var_t *comes = mr_fn_input(f, mr_aval_scalar(MR_BOOL));
  v = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  if (mr_lax_cond(f, comes, sums, same, &v, &v) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  OK(mr_pmap(f, "i", 3, &(mr_pmap_options_t){.limit_s = 0.01}, &p, &diag));
  _Alignas(64) bool all[3] = {true, true, false};
  _Alignas(64) float given[6] = {1, 2, 3, 4, 5, 6}, got[6];
  int missing = -2;
  mr_pmap_run(p, (const void *[]){all, given}, (void *[]){got});
  assert_int_equal(mr_pmap_failed(p, &missing, &diag), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, 2);
  assert_non_null(strstr(diag.text, "rank 2 did not come to all_reduce within 0.01 s"));
  for (int i = 0; i < 4; i++) assert_true(isnan(got[i]));
  for (int i = 4; i < 6; i++) assert_true(got[i] == given[i]);
  mr_pmap_destroy(p);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_pmap(f, "i", 3, &(mr_pmap_options_t){.limit_s = -1}, &p, &diag),
                   MR_ERR_CONFIG);
  mr_fn_destroy(f), mr_fn_destroy(sums), mr_fn_destroy(same);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_on_four_devices_is_the_step_under_vmap),
      cmocka_unit_test(shares_of_the_processors_give_the_bits_of_threads),
      cmocka_unit_test(a_hundred_runs_give_the_same_bits),
      cmocka_unit_test(collectives_work_inside_a_scan_and_in_every_dtype),
      cmocka_unit_test(rows_scattered_and_exchanged_have_the_derivatives_of_vmap),
      cmocka_unit_test(a_device_that_does_not_come_to_a_collective_is_named_after_the_limit),
      cmocka_unit_test(operands_that_do_not_fit_the_devices_are_refused_before_a_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
