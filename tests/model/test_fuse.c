/* Fused loops: the bits of the ops one by one. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/transforms/passes.h"
#include "tests/model/grid.h"

static mr_exec_t *compiled(const mr_fn_t *f, const char *skip, const bool *donate, int threads) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_compile_options_t o = {.skip = skip, .donate = donate, .threads = threads};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  return x;
}

/* Runs on copies of in: a donated one may be written over. */
static void run_on(mr_exec_t *x, const mr_fn_t *f, void *const *in, void **out) {
  void *copy[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) {
    size_t n = mr_aval_bytes(&f->in[i]->aval);
    copy[i] = memcpy(grid_bytes(n), in[i], n);
  }
  for (int i = 0; i < f->n_out; i++) out[i] = grid_bytes(mr_aval_bytes(&f->out[i]->aval));
  mr_exec_run(x, (const void *const *)copy, out);
  for (int i = 0; i < f->n_in; i++) free(copy[i]);
}

static void same_bits(const mr_fn_t *f, mr_exec_t *a, mr_exec_t *b, void *const *in) {
  void *x[GRID_MAX], *y[GRID_MAX];
  run_on(a, f, in, x);
  run_on(b, f, in, y);
  for (int i = 0; i < f->n_out; i++) {
    if (memcmp(x[i], y[i], mr_aval_bytes(&f->out[i]->aval)))
      fail_msg("output %d differs\n%s\n%s", i, mr_fn_text(mr_exec_fn(a)),
               mr_fn_text(mr_exec_fn(b)));
    free(x[i]), free(y[i]);
  }
}

static void **filled(const mr_fn_t *f) {
  void **in = calloc((size_t)f->n_in, sizeof *in);
  for (int i = 0; i < f->n_in; i++) {
    mr_dtype_t t = f->in[i]->aval.dtype;
    in[i] = grid_bytes(mr_aval_bytes(&f->in[i]->aval));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      mr_set_f64(t, in[i], k, t == MR_I32 ? round(random_in(-9, 9)) : random_in(-2, 2));
  }
  return in;
}

static void forget(const mr_fn_t *f, void **in) {
  for (int i = 0; i < f->n_in; i++) free(in[i]);
  free(in);
}

static mr_var_t *as(mr_fn_t *f, mr_var_t *v, mr_dtype_t t) { return mr_lax_convert(f, v, t); }

/* A random op on two of the values that stand there, of any dtype. */
static mr_var_t *random_op(mr_fn_t *f, mr_var_t *a, mr_var_t *b) {
  mr_dtype_t t = grid_random() % 4 ? MR_F32 : MR_BF16;
  switch (grid_random() % 12) {
    case 0: return mr_lax_add(f, as(f, a, t), as(f, b, t));
    case 1: return mr_lax_mul(f, as(f, a, t), as(f, b, t));
    case 2: return mr_lax_sub(f, mr_literal(f, t, 1.5), as(f, b, t));
    case 3: return mr_lax_sin(f, as(f, a, t));
    case 4: return mr_lax_tanh(f, as(f, a, t));
    case 5: return mr_lax_max(f, as(f, a, t), as(f, b, t));
    case 6: return mr_lax_integer_pow(f, mr_lax_tanh(f, as(f, a, t)), 1 + (int)(grid_random() % 5));
    case 7: return as(f, mr_lax_scale(f, 3, as(f, a, t)), MR_I32);
    case 8:
      return mr_lax_select_n(f, mr_lax_lt(f, as(f, a, t), as(f, b, t)), as(f, a, MR_F32),
                             as(f, b, MR_F32));
    case 9: return mr_lax_scale(f, 0.5, as(f, a, MR_F64));
    case 10: return mr_lax_reshape(f, mr_lax_neg(f, a), a->aval.ndim, a->aval.dim);
    default: return mr_lax_erf(f, as(f, a, t));
  }
}

enum { VALUES = 40 };

/* Chains that branch and meet, over tensors, rows, columns and scalars, with sums of rows and of
   columns at the end. */
static mr_fn_t *random_graph(int64_t rows, int64_t c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v[VALUES], *out[GRID_MAX];
  int64_t dim[] = {rows, c};
  int n = 0, n_out = 0;
  v[n++] = mr_fn_input(f, mr_aval(MR_F32, 2, dim));
  v[n++] = mr_fn_input(f, mr_aval(grid_random() % 2 ? MR_I32 : MR_BF16, 2, dim));
  v[n++] = mr_lax_broadcast_in_dim(f, mr_fn_input(f, mr_aval(MR_F32, 1, &c)), 2, dim, (int[]){1});
  v[n++] =
      mr_lax_broadcast_in_dim(f, mr_fn_input(f, mr_aval(MR_F32, 1, &rows)), 2, dim, (int[]){0});
  v[n++] = mr_lax_broadcast_in_dim(f, mr_fn_input(f, mr_aval_scalar(MR_BF16)), 2, dim, NULL);
  while (n < VALUES) {
    v[n] = random_op(f, v[grid_random() % (uint32_t)n], v[grid_random() % (uint32_t)n]);
    n++;
  }
  for (int i = 0; i < 4; i++) out[n_out++] = v[n - 1 - i * 3];
  out[n_out++] = mr_lax_reduce_sum(f, as(f, v[n - 1], MR_BF16), 1, (int[]){0});
  out[n_out++] = mr_lax_reduce_max(f, as(f, v[n - 3], MR_F32), 1, (int[]){0});
  out[n_out++] = mr_lax_reduce_sum(f, as(f, v[n - 6], MR_F32), 1, (int[]){0});
  out[n_out++] = mr_lax_reduce_sum(f, as(f, v[n - 1], MR_F32), 1, (int[]){1});
  out[n_out++] = mr_lax_reduce_max(f, as(f, v[n - 2], MR_F32), 1, (int[]){1});
  out[n_out++] = mr_lax_reduce_sum(f, as(f, v[n - 4], MR_F32), 2, (int[]){0, 1});
  if (mr_fn_return(f, n_out, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void random_graphs_give_the_same_bits_fused_and_one_by_one(void **state) {
  const int64_t sizes[][2] = {{1, 1}, {1, 7}, {5, 3}, {33, 65}, {3, 5000}, {700, 64}, {2, 70001}};
  int fused = 0;
  for (int round = 0; round < 60; round++) {
    const int64_t *size = sizes[round % 7];
    mr_fn_t *f = random_graph(size[0], size[1]);
    mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", NULL, 1 + round % 3);
    void **in = filled(f);
    same_bits(f, one, two, in);
    fused += count(mr_exec_fn(two), "fused");
    assert_int_equal(count(mr_exec_fn(one), "fused"), 0);
    forget(f, in);
    mr_exec_destroy(one), mr_exec_destroy(two);
    mr_fn_destroy(f);
  }
  assert_true(fused > 100);
}

static void donated_operands_are_written_over_only_after_their_last_read(void **state) {
  const bool donate[] = {true, true, true, true, true};
  for (int round = 0; round < 40; round++) {
    mr_fn_t *f = random_graph(40, 40); /* a row has as many elements as a column */
    mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", donate, 2);
    void **in = filled(f);
    same_bits(f, one, two, in);
    forget(f, in);
    mr_exec_destroy(one), mr_exec_destroy(two);
    mr_fn_destroy(f);
  }
}

/* dy = tanh'(x) g and the sum of its rows: a layer's cotangent and its bias's. */
static mr_fn_t *bias_gradient(int64_t rows, int64_t c, mr_dtype_t t) {
  mr_fn_t *f = mr_fn_create();
  mr_aval_t a = mr_aval(t, 2, (int64_t[]){rows, c});
  mr_var_t *x = mr_fn_input(f, a), *g = mr_fn_input(f, a);
  mr_var_t *y = mr_lax_tanh(f, x), *slope = mr_lax_sub(f, mr_literal(f, t, 1), mr_lax_mul(f, y, y));
  mr_var_t *d = mr_lax_mul(f, slope, g);
  mr_var_t *out[] = {d, mr_lax_reduce_sum(f, d, 1, (int[]){0}),
                     mr_lax_reduce_sum(f, mr_lax_mul(f, d, y), 1, (int[]){0})};
  if (mr_fn_return(f, 3, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void sums_of_columns_join_the_loop_that_makes_what_they_sum(void **state) {
  const int64_t sizes[][2] = {{1, 9}, {8, 1}, {128, 10}, {700, 384}, {65, 5000}, {3, 200000}};
  for (int k = 0; k < 12; k++) {
    mr_fn_t *f = bias_gradient(sizes[k / 2][0], sizes[k / 2][1], k % 2 ? MR_BF16 : MR_F32);
    mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", NULL, 1 + k % 3);
    assert_int_equal(mr_exec_fn(one)->n_eqn, 7);
    if (sizes[k / 2][0] > 1) assert_int_equal(mr_exec_fn(two)->n_eqn, 1);
    void **in = filled(f);
    same_bits(f, one, two, in);
    forget(f, in);
    mr_exec_destroy(one), mr_exec_destroy(two);
    mr_fn_destroy(f);
  }
}

/* A program folds rows or columns: the second kind is apart, and reads what the first left. */
static void sums_of_rows_and_of_columns_make_two_loops(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 60, 60)), *y = mr_lax_exp(f, mr_lax_sin(f, x));
  mr_var_t *out[] = {mr_lax_reduce_sum(f, y, 1, (int[]){0}),
                     mr_lax_reduce_sum(f, y, 1, (int[]){1})};
  assert_int_equal(mr_fn_return(f, 2, out), MR_OK);
  mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", NULL, 2);
  assert_int_equal(mr_exec_fn(two)->n_eqn, 2);
  void **in = filled(f);
  same_bits(f, one, two, in);
  forget(f, in);
  mr_exec_destroy(one), mr_exec_destroy(two);
  mr_fn_destroy(f);
}

/* x -> exp(x) over its sum, or x less the maximum of its squares: the sum is a value of the loop
   that its reader would join. */
static mr_fn_t *reader_of_a_sum(int64_t n, mr_dtype_t t, bool softmax) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval(t, 1, &n)), *y = softmax ? mr_lax_exp(f, x) : NULL;
  y = softmax ? mr_lax_div(f, y, mr_lax_reduce_sum(f, y, 1, (int[]){0}))
              : mr_lax_sub(f, x, mr_lax_reduce_max(f, mr_lax_mul(f, x, x), 1, (int[]){0}));
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void readers_of_the_sum_of_a_loop_come_after_it(void **state) {
  const int64_t sizes[] = {1, 2, 3, 64, 5000, 100003};
  for (int k = 0; k < 24; k++) {
    mr_fn_t *f = reader_of_a_sum(sizes[k / 4], k % 2 ? MR_BF16 : MR_F32, k / 2 % 2);
    mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", NULL, 1 + k % 3);
    void **in = filled(f);
    same_bits(f, one, two, in);
    forget(f, in);
    mr_exec_destroy(one), mr_exec_destroy(two);
    mr_fn_destroy(f);
  }
}

/* A layer's way back: a mask drawn by where an element stands, GELU's slope, and the bias's sum;
   beside it the way forward, and both of one number for all. */
static mr_fn_t *masked(int64_t rows, int64_t c, mr_dtype_t t, mr_gelu_t kind) {
  mr_fn_t *f = mr_fn_create();
  mr_aval_t a = mr_aval(t, 2, (int64_t[]){rows, c});
  mr_var_t *x = mr_fn_input(f, a), *g = mr_fn_input(f, a);
  mr_var_t *seed = mr_fn_input(f, mr_aval_scalar(MR_U64)),
           *step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_attr_t attr = mr_attr_text("kind", kind == MR_GELU_ERF ? "erf" : "tanh");
  mr_var_t *d = mr_lax_dropout(f, g, 0.3f, 1, seed, step);
  d = mr_emit1(f, &mr_op_gelu_vjp, 2, (mr_var_t *[]){x, d}, 1, &attr);
  mr_var_t *y = mr_lax_dropout(f, mr_lax_gelu(f, x, kind), 0.3f, 2, seed, step);
  mr_var_t *all =
      mr_lax_dropout(f, mr_lax_gelu(f, mr_lax_full(f, &a, 1.5), kind), 0.5f, 3, seed, step);
  all = mr_emit1(f, &mr_op_gelu_vjp, 2, (mr_var_t *[]){all, mr_lax_full(f, &a, 2)}, 1, &attr);
  mr_var_t *out[] = {d, mr_lax_reduce_sum(f, d, 1, (int[]){0}), mr_lax_add(f, y, x), all,
                     mr_lax_reduce_max(f, y, 1, (int[]){1})};
  if (mr_fn_return(f, 5, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void gelu_and_dropout_keep_their_kernels_and_bits_within_a_loop(void **state) {
  const int64_t sizes[][2] = {{1, 1}, {3, 5}, {65, 384}, {40, 1003}, {9, 7001}, {700, 48}};
  for (int k = 0; k < 24; k++) {
    mr_dtype_t t = k % 2 ? MR_BF16 : MR_F32;
    mr_fn_t *f = masked(sizes[k / 4][0], sizes[k / 4][1], t, (mr_gelu_t)(k / 2 % 2));
    mr_exec_t *one = compiled(f, "fuse", NULL, 1), *two = compiled(f, "", NULL, 1 + k % 3);
    if (k >= 4) assert_true(count(mr_exec_fn(two), "fused") >= 2);
    assert_int_equal(count(mr_exec_fn(two), "dropout"), 0);
    void **in = filled(f);
    *(uint64_t *)in[2] = 77, *(uint32_t *)in[3] = 5;
    same_bits(f, one, two, in);
    forget(f, in);
    mr_exec_destroy(one), mr_exec_destroy(two);
    mr_fn_destroy(f);
  }
}

static mr_fn_t *waves(int n) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 100, 100));
  for (int i = 0; i < n; i++)
    x = mr_lax_add(f, mr_lax_scale(f, 0.5, x), mr_lax_scale(f, 0.1, mr_lax_sin(f, x)));
  assert_int_equal(mr_fn_return(f, 1, &x), MR_OK);
  return f;
}

static void a_chain_becomes_one_loop_without_memory_of_its_own(void **state) {
  mr_fn_t *f = waves(10);
  mr_exec_t *x = compiled(f, "", NULL, 1), *y = compiled(f, "fuse", NULL, 1);
  assert_int_equal(mr_exec_fn(x)->n_eqn, 1);
  assert_int_equal(count(mr_exec_fn(x), "fused"), 1);
  assert_true(mr_exec_peak_bytes(x) == 0);
  assert_true(mr_exec_peak_bytes(y) >= 40000);
  void **in = filled(f);
  same_bits(f, x, y, in);
  forget(f, in);
  mr_exec_destroy(x), mr_exec_destroy(y);
  mr_fn_destroy(f);
}

static void a_long_chain_becomes_several_loops(void **state) {
  mr_fn_t *f = waves(40);
  mr_exec_t *x = compiled(f, "", NULL, 1), *y = compiled(f, "fuse", NULL, 1);
  assert_in_range(mr_exec_fn(x)->n_eqn, 2, 8);
  void **in = filled(f);
  same_bits(f, x, y, in);
  forget(f, in);
  mr_exec_destroy(x), mr_exec_destroy(y);
  mr_fn_destroy(f);
}

/* x -> a = 2 x -> product with a reads a: what follows may not move before it, nor a behind it. */
static void a_value_that_another_op_reads_in_between_ends_its_loop(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
  mr_var_t *a = mr_lax_exp(f, mr_lax_scale(f, 2, x)), *p = mr_lax_transpose(f, a, (int[]){1, 0});
  mr_var_t *y = mr_lax_add(f, mr_lax_tanh(f, a), p);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_exec_t *one = compiled(f, "", NULL, 1), *two = compiled(f, "fuse", NULL, 1);
  assert_int_equal(count(mr_exec_fn(one), "fused"), 2);
  assert_int_equal(mr_exec_fn(one)->n_eqn, 3);
  void **in = filled(f);
  same_bits(f, one, two, in);
  forget(f, in);
  mr_exec_destroy(one), mr_exec_destroy(two);
  mr_fn_destroy(f);
}

/* What it costs does not change. */
static void a_fused_loop_costs_what_its_ops_cost(void **state) {
  mr_fn_t *f = waves(3);
  mr_exec_t *x = compiled(f, "", NULL, 1);
  assert_true(flop_of(mr_exec_fn(x)) == flop_of(f));
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

/* ---- arrays that need not exist ---- */

enum { WIDE = 600, WIDE_BYTES = WIDE * WIDE * 4 };
static const int64_t wide[2] = {WIDE, WIDE};

/* The bits are those without the passes, and nothing as large as WIDE x WIDE is kept. */
static void needs_no_array(const mr_fn_t *f) {
  mr_exec_t *x = compiled(f, "", NULL, 2), *y = compiled(f, "fuse,unshare", NULL, 2);
  if (mr_exec_peak_bytes(x) > WIDE_BYTES / 4)
    fail_msg("%zu bytes\n%s", mr_exec_peak_bytes(x), mr_fn_text(mr_exec_fn(x)));
  assert_true(mr_exec_peak_bytes(y) >= WIDE_BYTES);
  void **in = filled(f);
  same_bits(f, x, y, in);
  forget(f, in);
  mr_exec_destroy(x), mr_exec_destroy(y);
}

static void sums_of_a_broadcast_or_a_counter_are_loops(void **state) {
  for (int axes = 0; axes < 3; axes++)
    for (int counter = 0; counter < 2; counter++) {
      mr_fn_t *f = mr_fn_create();
      mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, WIDE));
      mr_var_t *x = counter ? mr_lax_iota(f, MR_F32, 2, wide, 1)
                            : mr_lax_broadcast_in_dim(f, a, 2, wide, (int[]){1});
      mr_var_t *y = axes == 2 ? mr_lax_reduce_sum(f, x, 2, (int[]){0, 1})
                              : mr_lax_reduce_sum(f, x, 1, (int[]){axes});
      assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
      needs_no_array(f);
      mr_fn_destroy(f);
    }
}

/* A number of the graph, or one that is an input. */
static void sums_of_one_repeated_number_are_loops(void **state) {
  for (int axes = 0; axes < 3; axes++)
    for (int most = 0; most < 2; most++)
      for (int literal = 0; literal < 2; literal++) {
        mr_fn_t *f = mr_fn_create();
        mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 1));
        mr_var_t *one = literal ? mr_literal(f, MR_F32, 0.1) : mr_lax_reshape(f, a, 0, NULL);
        mr_var_t *x = mr_lax_broadcast_in_dim(f, one, 2, wide, NULL);
        int n = axes == 2 ? 2 : 1, *axis = axes == 2 ? (int[]){0, 1} : &axes;
        mr_var_t *y[] = {most ? mr_lax_reduce_max(f, x, n, axis) : mr_lax_reduce_sum(f, x, n, axis),
                         a};
        assert_int_equal(mr_fn_return(f, 2, y), MR_OK);
        needs_no_array(f);
        mr_fn_destroy(f);
      }
}

static mr_fn_t *sum_of_outer(bool deep) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, WIDE));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, WIDE));
  mr_var_t *x = mr_lax_mul(f, mr_lax_broadcast_in_dim(f, a, 2, wide, (int[]){0}),
                           mr_lax_broadcast_in_dim(f, b, 2, wide, (int[]){1}));
  if (deep) x = mr_lax_tanh(f, mr_lax_add(f, mr_lax_sin(f, x), x));
  mr_var_t *y = mr_lax_reduce_sum(f, x, 2, (int[]){0, 1});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

static void sums_of_both_directions_of_an_outer_product_keep_no_array(void **state) {
  for (int deep = 0; deep < 2; deep++) {
    mr_fn_t *f = sum_of_outer(deep), *g = NULL;
    mr_diag_t diag = {0};
    if (mr_value_and_grad(f, 2, (int[]){0, 1}, &g, &diag) < 0) fail_msg("%s", diag.text);
    needs_no_array(g);
    mr_fn_destroy(f), mr_fn_destroy(g);
  }
}

/* The second sum reads what the first one reads, and the first one's result. */
static void a_sum_behind_another_one_of_the_same_values_keeps_no_array(void **state) {
  for (int axis = 0; axis < 2; axis++)
    for (int most = 0; most < 2; most++) {
      mr_fn_t *f = mr_fn_create();
      mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, WIDE));
      mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, WIDE));
      mr_var_t *x = mr_lax_mul(f, mr_lax_broadcast_in_dim(f, a, 2, wide, (int[]){0}),
                               mr_lax_broadcast_in_dim(f, b, 2, wide, (int[]){1}));
      mr_var_t *first =
          most ? mr_lax_reduce_max(f, x, 1, (int[]){axis})
               : mr_lax_scale(f, 1.0 / WIDE, mr_lax_reduce_sum(f, x, 1, (int[]){axis}));
      mr_var_t *d = mr_lax_sub(f, x, mr_lax_broadcast_in_dim(f, first, 2, wide, (int[]){!axis}));
      d = most ? mr_lax_exp(f, d) : mr_lax_mul(f, d, d);
      mr_var_t *y = mr_lax_reduce_sum(f, d, 1, (int[]){axis});
      assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
      needs_no_array(f);
      mr_fn_destroy(f);
    }
}

/* x is there, and reading it again moves as much as to write and read what is made of it. */
static void a_value_that_is_dear_or_kept_anyway_is_computed_once(void **state) {
  for (int kept = 0; kept < 2; kept++) {
    mr_fn_t *f = mr_fn_create();
    mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, WIDE, WIDE));
    mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_F32, WIDE, WIDE));
    mr_var_t *x = kept ? mr_lax_sin(f, a) : mr_lax_mul(f, mr_lax_sin(f, a), b);
    mr_var_t *y[] = {mr_lax_reduce_sum(f, x, 1, (int[]){0}), mr_lax_reduce_sum(f, x, 1, (int[]){1}),
                     x};
    assert_int_equal(mr_fn_return(f, kept ? 3 : 2, y), MR_OK);
    mr_exec_t *e = compiled(f, "", NULL, 1), *plain = compiled(f, "fuse,unshare", NULL, 1);
    char *text = mr_fn_text(mr_exec_fn(e));
    const char *first = strstr(text, " sin ");
    assert_non_null(first);
    assert_null(strstr(first + 1, " sin "));
    void **in = filled(f);
    same_bits(f, e, plain, in);
    forget(f, in), free(text);
    mr_exec_destroy(e), mr_exec_destroy(plain), mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_of_a_broadcast_or_a_counter_are_loops),
      cmocka_unit_test(sums_of_one_repeated_number_are_loops),
      cmocka_unit_test(sums_of_both_directions_of_an_outer_product_keep_no_array),
      cmocka_unit_test(a_sum_behind_another_one_of_the_same_values_keeps_no_array),
      cmocka_unit_test(a_value_that_is_dear_or_kept_anyway_is_computed_once),
      cmocka_unit_test(random_graphs_give_the_same_bits_fused_and_one_by_one),
      cmocka_unit_test(donated_operands_are_written_over_only_after_their_last_read),
      cmocka_unit_test(sums_of_columns_join_the_loop_that_makes_what_they_sum),
      cmocka_unit_test(sums_of_rows_and_of_columns_make_two_loops),
      cmocka_unit_test(readers_of_the_sum_of_a_loop_come_after_it),
      cmocka_unit_test(gelu_and_dropout_keep_their_kernels_and_bits_within_a_loop),
      cmocka_unit_test(a_chain_becomes_one_loop_without_memory_of_its_own),
      cmocka_unit_test(a_long_chain_becomes_several_loops),
      cmocka_unit_test(a_value_that_another_op_reads_in_between_ends_its_loop),
      cmocka_unit_test(a_fused_loop_costs_what_its_ops_cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
