/* The compiled executable: aliases, reuse in place, donation, outputs that repeat. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"
#include "model/exec/memory.h"
#include "model/ir/element.h"
#include "model/model.h"

static mr_exec_t *compile(const mr_fn_t *f, const bool *donate) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  mr_compile_options_t o = {.donate = donate};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  return x;
}

static void a_chain_of_elementwise_ops_lives_in_one_buffer(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 1024)), *y = mr_lax_neg(f, x);
  for (int i = 0; i < 8; i++) y = mr_lax_tanh(f, y);
  y = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  assert_true(mr_exec_peak_bytes(e) <= 4096 + 256);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void a_reshape_costs_no_bytes_and_no_call(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 256));
  mr_var_t *y = mr_lax_exp(f, mr_lax_reshape_to(f, x, 1024));
  y = mr_lax_reshape_to(f, y, 256, 4);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  assert_true(mr_exec_peak_bytes(e) <= 64);
  _Alignas(64) float in[1024] = {0}, out[1024] = {0};
  mr_exec_run(e, (const void *[]){in}, (void *[]){out});
  for (int i = 0; i < 1024; i++) assert_true(out[i] == 1.0f);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void a_number_can_be_reshaped_and_passed_on(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *one = mr_literal(f, MR_F32, 1.5), *half = mr_literal(f, MR_BF16, -0.5), *y[5];
  y[0] = mr_lax_reshape_to(f, one, 1, 1);
  y[1] = mr_lax_mul(f, mr_lax_reshape_to(f, mr_literal(f, MR_F32, 3), 1), one);
  y[2] = mr_lax_stop_gradient(f, mr_literal(f, MR_I32, 7));
  y[3] = mr_lax_optimization_barrier(f, mr_literal(f, MR_F64, 0.1));
  y[4] = mr_lax_reshape_to(f, half, 1);
  assert_int_equal(mr_fn_return(f, 5, y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  float a, b;
  int32_t i;
  double d;
  uint16_t h;
  mr_exec_run(e, NULL, (void *[]){&a, &b, &i, &d, &h});
  assert_true(a == 1.5f && b == 4.5f && i == 7 && d == 0.1 && h == 0xbf00);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void an_input_is_never_written_unless_donated(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 16)), *y = mr_lax_neg(f, x);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  _Alignas(64) float in[16], out[16];
  for (int i = 0; i < 16; i++) in[i] = (float)i;
  mr_exec_t *e = compile(f, NULL);
  mr_exec_run(e, (const void *[]){in}, (void *[]){out});
  for (int i = 0; i < 16; i++) assert_true(in[i] == (float)i && out[i] == -(float)i);
  mr_exec_destroy(e);
  e = compile(f, (bool[]){true});
  mr_exec_run(e, (const void *[]){in}, (void *[]){in});
  for (int i = 0; i < 16; i++) assert_true(in[i] == -(float)i);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

/* An input read again later must not be overwritten early, donated or not. */
static void a_donated_input_lives_until_its_last_use(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 16)), *y = mr_lax_neg(f, x);
  mr_var_t *z = mr_lax_mul(f, y, x);
  assert_int_equal(mr_fn_return(f, 2, (mr_var_t *[]){y, z}), MR_OK);
  _Alignas(64) float in[16], a[16], b[16];
  for (int i = 0; i < 16; i++) in[i] = (float)i;
  mr_exec_t *e = compile(f, (bool[]){true});
  mr_exec_run(e, (const void *[]){in}, (void *[]){a, b});
  for (int i = 0; i < 16; i++) assert_true(a[i] == -(float)i && b[i] == -(float)(i * i));
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

typedef struct gate {
  const float *watched;
  int asked;
  float seen;
  bool open;
} gate_t;

static bool ask_gate(void *arg) {
  gate_t *g = arg;
  g->asked++;
  g->seen = g->watched[0];
  return g->open;
}

/* y = (x + 1) * sin(x + 1), x donated: x + 1 takes x's memory.  A plan in which sin takes it too is
   found out, as is one whose output is overwritten. */
static void a_plan_that_overwrites_what_is_read_later_is_found_out(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8));
  mr_var_t *a = mr_lax_add(f, x, mr_literal(f, MR_F32, 1)), *b = mr_lax_sin(f, a);
  mr_var_t *out[] = {mr_lax_mul(f, a, b), b};
  assert_int_equal(mr_fn_return(f, 2, out), MR_OK);
  mr_call_t calls[3] = {0};
  mr_memory_plan_t p;
  mr_diag_t diag = {0};
  assert_int_equal(mr_memory_plan_init(&p, f, (bool[]){true}, 0, calls, 64, false, &diag), MR_OK);
  assert_int_equal(p.of_var[a->id], p.of_var[x->id]);
  assert_int_equal(mr_memory_plan_check(&p, f, &diag), MR_OK);
  int right = p.of_var[b->id];
  p.of_var[b->id] = p.of_var[a->id];
  assert_int_equal(mr_memory_plan_check(&p, f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "mul reads f32[8], which sin has written over"));
  p.of_var[b->id] = right;
  p.of_var[out[0]->id] = right;
  diag = (mr_diag_t){0};
  assert_int_equal(mr_memory_plan_check(&p, f, &diag), MR_ERR_DATA);
  assert_non_null(strstr(diag.text, "the caller reads f32[8], which mul has written over"));
  mr_memory_plan_fini(&p);
  mr_fn_destroy(f);
}

static void a_gate_stands_before_the_first_write_to_a_donated_input(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 16)), *y = mr_lax_neg(f, x);
  y = mr_lax_sub(f, x, mr_lax_exp(f, y));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  _Alignas(64) float in[16];
  for (int i = 0; i < 16; i++) in[i] = 3;
  mr_exec_t *e = compile(f, (bool[]){true});
  gate_t gate = {.watched = in};
  mr_exec_gate(e, ask_gate, &gate);
  mr_exec_run(e, (const void *[]){in}, (void *[]){in});
  assert_true(gate.asked == 1 && gate.seen == 3 && in[0] == 3 && in[15] == 3);
  gate.open = true;
  mr_exec_run(e, (const void *[]){in}, (void *[]){in});
  assert_true(gate.asked == 2 && gate.seen == 3 && in[0] < 3 && in[0] > 2 && in[15] == in[0]);
  mr_exec_gate(e, NULL, NULL);
  mr_exec_run(e, (const void *[]){in}, (void *[]){in});
  assert_int_equal(gate.asked, 2);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void an_output_may_repeat_or_be_an_input_or_a_literal(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *y = mr_lax_exp(f, x);
  mr_var_t *out[] = {y, x, y, mr_literal(f, MR_F32, 2.5)};
  assert_int_equal(mr_fn_return(f, 4, out), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  _Alignas(64) float in[3] = {0}, a[3], b[3] = {7, 7, 7}, c[3], d;
  mr_exec_run(e, (const void *[]){in}, (void *[]){a, b, c, &d});
  assert_memory_equal(a, c, sizeof a);
  assert_true(a[0] == 1 && b[0] == 0 && d == 2.5f);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

/* Random graphs of elementwise ops: planned memory gives what separate memory gives. */
static void random_graphs_give_what_a_loop_gives(void **state) {
  enum { N = 64, STEPS = 40 };
  static float value[STEPS + 2][N];
  uint32_t r = 12345;
  for (int round = 0; round < 200; round++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *v[STEPS + 2], *out[3];
    _Alignas(64) float in[2][N], got[3][N];
    for (int i = 0; i < 2; i++) {
      v[i] = mr_fn_input(f, mr_aval_of(MR_F32, N));
      for (int k = 0; k < N; k++)
        in[i][k] = value[i][k] = (float)((k * 7 + i * 3 + round) % 11) - 5;
    }
    for (int i = 2; i < STEPS + 2; i++) {
      r = r * 1664525u + 1013904223u;
      int a = (int)(r >> 8) % i, b = (int)(r >> 16) % i;
      v[i] = r >> 31 ? mr_lax_sub(f, v[a], v[b]) : mr_lax_max(f, v[a], v[b]);
      for (int k = 0; k < N; k++) {
        float p = value[a][k], q = value[b][k];
        value[i][k] = r >> 31 ? p - q : p > q ? p : q;
      }
    }
    int pick[3] = {STEPS + 1, STEPS - 7, (int)(r >> 9) % STEPS};
    for (int i = 0; i < 3; i++) out[i] = v[pick[i]];
    assert_int_equal(mr_fn_return(f, 3, out), MR_OK);
    mr_exec_t *e = compile(f, NULL);
    mr_exec_run(e, (const void *[]){in[0], in[1]}, (void *[]){got[0], got[1], got[2]});
    for (int i = 0; i < 3; i++)
      if (memcmp(got[i], value[pick[i]], sizeof got[i])) fail_msg("round %d, output %d", round, i);
    mr_exec_destroy(e);
    mr_fn_destroy(f);
  }
}

/* Random chains of products and sums of matrices[ROWS][SIDE] with few weights[SIDE][SIDE], some of
   them computed, which many of the products have in common, as they are or transposed.  The oracle
   computes each equation alone. */
enum { ROWS = 1056, SIDE = 64, WEIGHTS = 4, CHAIN = 24 };

static mr_var_t *product_of(mr_fn_t *f, mr_var_t *x, mr_var_t *w, bool transposed) {
  return mr_lax_linear(f, x, w, NULL, transposed);
}

/* out = x w, or x + w of matrices. */
static void compute_alone(const void *x, const void *w, mr_aval_t of_w, int kind, void *out) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, kind == 2 ? of_w : mr_aval_of(of_w.dtype, ROWS, SIDE));
  mr_var_t *b = mr_fn_input(f, of_w);
  mr_var_t *y = kind == 2 ? mr_lax_add(f, a, b) : product_of(f, a, b, kind == 1);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  mr_exec_run(e, (const void *[]){x, w}, (void *[]){out});
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

static void fill_alike(mr_dtype_t t, char *x, int64_t n, uint32_t r) {
  for (int64_t i = 0; i < n; i++) {
    r = r * 1664525u + 1013904223u;
    mr_set_f64(t, x, i, ((double)(r >> 16) - 32768) / 262144);
  }
}

static void products_that_share_an_operand_give_what_each_gives_alone(void **state) {
  enum { ALL = CHAIN + 1 };
  size_t most = (size_t)ROWS * SIDE * 4;
  char *value = aligned_alloc(64, ALL * most), *weight = aligned_alloc(64, WEIGHTS * most);
  char *got = aligned_alloc(64, ALL * most);
  uint32_t r = 77;
  for (int round = 0; round < 12; round++) {
    mr_dtype_t t = round & 1 ? MR_BF16 : MR_F32;
    mr_aval_t matrix = mr_aval_of(t, ROWS, SIDE), square = mr_aval_of(t, SIDE, SIDE);
    mr_fn_t *f = mr_fn_create();
    mr_var_t *v[ALL], *w[WEIGHTS];
    v[0] = mr_fn_input(f, matrix);
    fill_alike(t, value, (int64_t)ROWS * SIDE, r);
    for (int i = 0; i < WEIGHTS; i++) { /* the last two are computed */
      if (i < 2)
        w[i] = mr_fn_input(f, square), fill_alike(t, weight + i * most, SIDE * SIDE, r + i);
      if (i >= 2) w[i] = mr_lax_add(f, w[i - 2], w[i - 1]);
      if (i >= 2)
        compute_alone(weight + (i - 2) * most, weight + (i - 1) * most, square, 2,
                      weight + i * most);
    }
    for (int i = 1; i < ALL; i++) {
      r = r * 1664525u + 1013904223u;
      int a = i - 1 - (int)(r >> 8) % (i < 4 ? i : 4), b = (int)(r >> 16) % WEIGHTS;
      int kind = (int)(r >> 24) % 3;
      v[i] = kind == 2 ? mr_lax_add(f, v[a], v[0]) : product_of(f, v[a], w[b], kind == 1);
      compute_alone(value + a * most, kind == 2 ? value : weight + b * most,
                    kind == 2 ? matrix : square, kind, value + i * most);
    }
    assert_int_equal(mr_fn_return(f, ALL, v), MR_OK);
    mr_exec_t *e = compile(f, NULL);
    void *out[ALL];
    for (int i = 0; i < ALL; i++) out[i] = got + i * most;
    for (int twice = 0; twice < 2; twice++) {
      mr_exec_run(e, (const void *[]){value, weight, weight + most}, out);
      for (int i = 0; i < ALL; i++)
        if (memcmp(out[i], value + i * most, mr_aval_bytes(&matrix)))
          fail_msg("round %d, value %d", round, i);
      if (twice) break;
      for (int i = 1; i < ALL; i++) memset(out[i], 0xFF, most);
    }
    mr_exec_destroy(e);
    mr_fn_destroy(f);
  }
  free(value), free(weight), free(got);
}

/* One operand of two forms, used six times: two of the products pack it. */
static void an_operand_is_packed_once_for_all_products_of_its_form(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, SIDE, SIDE)), *y[6];
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, ROWS, SIDE));
  for (int i = 0; i < 6; i++) {
    x = mr_lax_neg(f, x);
    y[i] = product_of(f, x, w, i & 1);
  }
  assert_int_equal(mr_fn_return(f, 6, y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  int packed = 0, before = 0;
  for (int i = 0; i < e->fn->n_eqn; i++)
    for (int k = 0; k < MR_CALL_NOTES && e->call[i].note[k].what; k++) {
      packed += !strcmp(e->call[i].note[k].what, "operand 1 packed");
      before += !strcmp(e->call[i].note[k].what, "operand packed before");
    }
  mr_exec_destroy(e);
  mr_fn_destroy(f);
  if (packed + before == 0) skip(); /* an instruction set for which nothing is packed */
  assert_int_equal(packed, 2);
  assert_int_equal(before, 4);
}

static void a_widened_product_is_rounded_once(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_BF16, 2, 3));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_BF16, 3, 2));
  mr_var_t *y = mr_lax_convert(f, mr_lax_dot(f, x, w), MR_F32);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_exec_t *e = compile(f, NULL);
  assert_int_equal(mr_exec_fn(e)->n_eqn, 1);
  assert_int_equal(mr_exec_fn(e)->eqn[0]->out[0]->aval.dtype, MR_F32);
  _Alignas(64) mr_bf16_t a[6], b[6];
  _Alignas(64) float got[4];
  for (int i = 0; i < 6; i++) a[i] = b[i] = mr_bf16_from_f32(1.0f + 0.0078125f * (float)i);
  mr_exec_run(e, (const void *[]){a, b}, (void *[]){got});
  double want = 0;
  for (int k = 0; k < 3; k++) want += (double)mr_bf16_to_f32(a[k]) * mr_bf16_to_f32(b[2 * k]);
  assert_true(got[0] > want - 1e-6 && got[0] < want + 1e-6);
  mr_exec_destroy(e);
  mr_fn_destroy(f);
}

/* (a, b) -> (b + 1, 3 a): each op would rather write over the operand that the other output
   becomes. */
static mr_fn_t *crossing(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8)), *b = mr_fn_input(f, a->aval);
  mr_var_t *out[] = {mr_lax_add(f, b, mr_literal(f, MR_F32, 1)),
                     mr_lax_mul(f, a, mr_literal(f, MR_F32, 3))};
  assert_int_equal(mr_fn_return(f, 2, out), MR_OK);
  return f;
}

static void results_kept_in_place_of_inputs_are_right_whatever_ops_overwrite(void **state) {
  static const char *const skip[] = {"", "fuse"};
  for (int k = 0; k < 2; k++) {
    mr_fn_t *f = crossing();
    mr_exec_t *x = NULL;
    mr_diag_t diag = {0};
    if (mr_compile(f, &(mr_compile_options_t){.in_place = 2, .skip = skip[k]}, &x, &diag) < 0)
      fail_msg("%s", diag.text);
    _Alignas(64) float a[16], b[16];
    for (int i = 0; i < 8; i++) a[i] = (float)i, b[i] = (float)(10 * i);
    mr_exec_run(x, (const void *[]){a, b}, (void *[]){a, b});
    for (int i = 0; i < 8; i++) {
      assert_true(a[i] == (float)(10 * i + 1));
      assert_true(b[i] == (float)(3 * i));
    }
    mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
}

static void an_output_that_cannot_replace_an_input_is_refused(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 8)), *b = mr_fn_input(f, a->aval);
  mr_fn_return(f, 2, (mr_var_t *[]){b, a});
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.in_place = 2}, &x, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "in_place: output 1 is input 0 as it came");
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.in_place = 3}, &x, &diag), MR_ERR_SHAPE);
  mr_var_t *row = mr_lax_reduce_sum(f, a, 1, (int[]){0});
  mr_fn_return(f, 1, &row);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_compile(f, &(mr_compile_options_t){.in_place = 1}, &x, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text, "in_place: input 1 is f32[8], output 0 is f32[]");
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_of_elementwise_ops_lives_in_one_buffer),
      cmocka_unit_test(a_reshape_costs_no_bytes_and_no_call),
      cmocka_unit_test(a_number_can_be_reshaped_and_passed_on),
      cmocka_unit_test(an_input_is_never_written_unless_donated),
      cmocka_unit_test(a_donated_input_lives_until_its_last_use),
      cmocka_unit_test(results_kept_in_place_of_inputs_are_right_whatever_ops_overwrite),
      cmocka_unit_test(an_output_that_cannot_replace_an_input_is_refused),
      cmocka_unit_test(a_plan_that_overwrites_what_is_read_later_is_found_out),
      cmocka_unit_test(a_gate_stands_before_the_first_write_to_a_donated_input),
      cmocka_unit_test(an_output_may_repeat_or_be_an_input_or_a_literal),
      cmocka_unit_test(random_graphs_give_what_a_loop_gives),
      cmocka_unit_test(products_that_share_an_operand_give_what_each_gives_alone),
      cmocka_unit_test(an_operand_is_packed_once_for_all_products_of_its_form),
      cmocka_unit_test(a_widened_product_is_rounded_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
