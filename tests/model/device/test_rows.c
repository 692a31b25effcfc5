/* Loops that continue past sums of their rows, as one kernel of a device: what models have
   of them, and random ones, against double precision on the CPU; for rows that one item computes,
   rows of groups with elements kept and computed again, rows that do not fill their group. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/exec/explain.h"
#include "tests/model/device_run.h"

static const int64_t sizes[][2] = {
    {1, 2},     {5, 7},    {70, 10},  {33, 32},   {3, 33},  {64, 65},  {40, 128},  {9, 384},
    {130, 500}, {2, 1000}, {3, 1025}, {17, 4099}, {64, 64}, {3000, 9}, {1500, 40}, {300, 300}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static double kernels_of(const mr_fn_t *f) {
  mr_compile_options_t o = {.device = device};
  mr_explained_t r;
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_explained_init(&r, x, &diag) < 0) fail_msg("%s", diag.text);
  double n = r.kernels;
  mr_explained_fini(&r);
  mr_exec_destroy(x);
  return n;
}

/* Returns whether a loop of f, once compiled, continues past a sum. */
static bool continues(const mr_fn_t *f) {
  mr_compile_options_t o = {.device = device};
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  bool is = false;
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < mr_exec_fn(x)->n_eqn; i++) {
    const mr_eqn_t *e = mr_exec_fn(x)->eqn[i];
    const mr_fn_t *b = strcmp(e->op->name, "fused") ? NULL : mr_attr_called(e, "jaxpr");
    for (int k = 0; b && k < b->n_eqn; k++)
      for (int j = 0; j < b->eqn[k]->n_in; j++) {
        const mr_eqn_t *def = b->eqn[k]->in[j]->def;
        is |= def && !strncmp(def->op->name, "reduce_", 7);
      }
  }
  mr_exec_destroy(x);
  return is;
}

static void fill(const mr_fn_t *f, double **in, double lo, double hi) {
  for (int i = 0; i < f->n_in; i++) {
    mr_dtype_t t = f->in[i]->aval.dtype;
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      in[i][k] = mr_is_float(t) ? random_in(lo, hi) : (double)(grid_random() % 7);
  }
}

/* ---- what models have ---- */

static mr_var_t *as_f32(mr_fn_t *f, mr_var_t *v) { return mr_lax_convert(f, v, MR_F32); }

/* Residual, dropout and layer normalization. */
static mr_fn_t *normalized(mr_dtype_t t, int64_t rows, int64_t c, int kind) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *scale = mr_fn_input(f, mr_aval_of(MR_F32, c)), *bias = mr_fn_input(f, scale->aval);
  mr_var_t *seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  mr_var_t *step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, c)), *y = mr_fn_input(f, x->aval);
  mr_var_t *sum = mr_lax_add(f, x, mr_lax_dropout(f, y, 0.1f, 3, seed, step));
  mr_var_t *out[] = {sum, mr_lax_layer_norm(f, sum, scale, bias, 1e-3f, kind, t)};
  mr_fn_return(f, 2, out);
  return f;
}

static mr_fn_t *softmaxed(mr_dtype_t t, int64_t rows, int64_t c, int kind) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, c));
  mr_var_t *y = mr_lax_softmax(f, mr_lax_scale(f, 2, x));
  if (kind) y = mr_lax_reduce_sum(f, mr_lax_mul(f, y, y), 1, (int[]){1});
  mr_fn_return(f, 1, &y);
  return f;
}

static mr_fn_t *judged(mr_dtype_t t, int64_t rows, int64_t c, int kind) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, c));
  mr_var_t *labels = mr_fn_input(f, mr_aval_of(MR_I32, rows));
  mr_var_t *y = mr_lax_softmax_cross_entropy(f, as_f32(f, x), labels, kind ? 0.1f : 0);
  mr_fn_return(f, 1, &y);
  return f;
}

/* The mean of output 0, and its gradient by every input of floats: the ways back of the above. */
static mr_fn_t *with_gradient(mr_fn_t *f) {
  int wrt[8], n = 0;
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *y = mr_lax_sin(f, mr_lax_convert(f, f->out[f->n_out - 1], MR_F32));
  int axes[] = {0, 1};
  y = mr_lax_scale(f, 1.0 / (double)elems(y), mr_lax_reduce_sum(f, y, y->aval.ndim, axes));
  mr_fn_return(f, 1, &y);
  for (int i = 0; i < f->n_in; i++)
    if (mr_is_float(f->in[i]->aval.dtype)) wrt[n++] = i;
  if (mr_value_and_grad(f, n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return g;
}

typedef mr_fn_t *model_fn(mr_dtype_t t, int64_t rows, int64_t c, int kind);

static void model_rows_are_those_of_f64(void **state) {
  static model_fn *const model[] = {normalized, softmaxed, judged};
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  int rounds = 0, whole = 0;
  for (int i = 0; i < SIZES; i++)
    for (int k = i % 3; k < 12; k += 3) {
      mr_dtype_t t = some[(k + i) % 3];
      char what[96];
      double *in[GRID_MAX];
      mr_fn_t *f = model[k / 4](t, sizes[i][0], sizes[i][1], i / 2 % 2);
      if (k / 2 % 2) f = with_gradient(f);
      snprintf(what, sizeof what, "%s %d of %s over %lld x %lld", k / 2 % 2 ? "gradient" : "model",
               k, mr_dtype_name(t), (long long)sizes[i][0], (long long)sizes[i][1]);
      if (f->diag.code < 0) fail_msg("%s: %s", what, f->diag.text);
      fill(f, in, -2, 2);
      same_as_in_f64(what, f, in, 2e-4, t != MR_F32);
      whole += continues(f), rounds++;
      free_all(f->n_in, in);
      mr_fn_destroy(f);
    }
  assert_true(whole == rounds);
}

static void each_is_one_kernel(void **state) {
  static model_fn *const model[] = {normalized, softmaxed, judged};
  for (int i = 1; i < SIZES; i++) /* with one row, operands of a row need no broadcast */
    for (int k = 0; k < 3; k++) {
      mr_fn_t *f = model[k](MR_F32, sizes[i][0], sizes[i][1], 0);
      /* The largest of each row of an input begins no loop: one kernel, or two for long rows. */
      double n = kernels_of(f), most = k < 2 ? 1 : sizes[i][1] < 2048 ? 2 : 3;
      if (n > most) fail_msg("%g kernels\n%s", n, mr_fn_text(f));
      mr_fn_destroy(f);
    }
}

/* ---- random loops ---- */

enum { VALUES = 26, RESULTS = 5, COLUMNS = 3 };

typedef struct maker {
  mr_fn_t *f;
  mr_var_t *whole[VALUES + 16], *row[VALUES + 16];
  int n_whole, n_row;
  mr_dtype_t narrow; /* f32: none */
} maker_t;

static mr_var_t *some_of(mr_var_t *const *v, int n) {
  int near = n > 4 && grid_random() % 3 ? 4 : n; /* mostly what is new */
  return v[n - 1 - (int)(grid_random() % (uint32_t)near)];
}

/* An op on values of one size, of at most 2. */
static mr_var_t *mixed(maker_t *m, mr_var_t *a, mr_var_t *b) {
  mr_fn_t *f = m->f;
  a = as_f32(f, a), b = as_f32(f, b);
  switch (grid_random() % 9) {
    case 0: return mr_lax_tanh(f, mr_lax_add(f, a, b));
    case 1: return mr_lax_sin(f, mr_lax_sub(f, a, b));
    case 2: return mr_lax_tanh(f, mr_lax_mul(f, a, b));
    case 3: return mr_lax_max(f, a, mr_lax_neg(f, b));
    case 4: return mr_lax_div(f, a, mr_lax_add(f, mr_lax_abs(f, b), mr_literal(f, MR_F32, 1)));
    case 5: return mr_lax_select_n(f, mr_lax_lt(f, a, b), mr_lax_scale(f, 0.5, b), a);
    case 6: return mr_lax_reshape(f, mr_lax_tanh(f, b), b->aval.ndim, b->aval.dim);
    case 7: return mr_lax_convert(f, mr_lax_scale(f, 0.5, a), m->narrow);
    default: return mr_lax_exp(f, mr_lax_neg(f, mr_lax_abs(f, mr_lax_sub(f, a, b))));
  }
}

static void fold_one(maker_t *m, int64_t c) {
  mr_var_t *x = as_f32(m->f, some_of(m->whole, m->n_whole)), *y;
  if (grid_random() % 3)
    y = mr_lax_scale(m->f, 1.0 / (double)c, mr_lax_reduce_sum(m->f, x, 1, (int[]){1}));
  else
    y = mr_lax_reduce_max(m->f, x, 1, (int[]){1});
  m->row[m->n_row++] = y;
}

/* The mean or the largest of each column of a value, which may be an operand. */
static mr_var_t *column_of(maker_t *m, int64_t rows) {
  mr_var_t *x = as_f32(m->f, some_of(m->whole, m->n_whole));
  if (grid_random() % 4 == 0) return mr_lax_reduce_max(m->f, x, 1, (int[]){0});
  return mr_lax_scale(m->f, 1.0 / (double)rows, mr_lax_reduce_sum(m->f, x, 1, (int[]){0}));
}

/* Chains over elements and over rows, with sums of rows anywhere, and broadcasts back; sums of
   columns, which a loop makes beside, but not for itself; now and then a sum of what stands once a
   row, which ends a loop. */
static mr_fn_t *random_rows(int64_t rows, int64_t c, mr_dtype_t narrow) {
  maker_t m = {.f = mr_fn_create(), .narrow = narrow};
  mr_aval_t a = mr_aval_of(MR_F32, rows, c);
  mr_var_t *out[RESULTS + COLUMNS + 2];
  m.whole[m.n_whole++] = mr_fn_input(m.f, a);
  m.whole[m.n_whole++] = mr_fn_input(m.f, mr_aval_of(narrow, rows, c));
  m.row[m.n_row++] = mr_fn_input(m.f, mr_aval_of(MR_F32, rows));
  mr_var_t *column = mr_fn_input(m.f, mr_aval_of(MR_F32, c));
  m.whole[m.n_whole++] = mr_lax_broadcast_in_dim(m.f, column, 2, a.dim, (int[]){1});
  while (m.n_whole < VALUES) {
    uint32_t what = grid_random() % 8;
    if (grid_random() % 16 == 0) {
      mr_var_t *x = mr_lax_broadcast_in_dim(m.f, column_of(&m, rows), 2, a.dim, (int[]){1});
      m.whole[m.n_whole] = mixed(&m, some_of(m.whole, m.n_whole), x);
      m.n_whole++;
    } else if (what < 2) {
      fold_one(&m, c);
    } else if (what == 2 && m.n_row < VALUES) {
      m.row[m.n_row] = mixed(&m, some_of(m.row, m.n_row), some_of(m.row, m.n_row));
      m.n_row++;
    } else if (what < 5) {
      mr_var_t *r = as_f32(m.f, some_of(m.row, m.n_row));
      r = mr_lax_broadcast_in_dim(m.f, r, 2, a.dim, (int[]){0});
      m.whole[m.n_whole] = mixed(&m, some_of(m.whole, m.n_whole), r);
      m.n_whole++;
    } else {
      m.whole[m.n_whole] = mixed(&m, some_of(m.whole, m.n_whole), some_of(m.whole, m.n_whole));
      m.n_whole++;
    }
    if (m.n_row > VALUES) break;
  }
  int n = 0;
  for (int i = 0; i < 3; i++) out[n++] = some_of(m.whole, m.n_whole);
  for (int i = 0; i < 2; i++) out[n++] = some_of(m.row, m.n_row);
  for (uint32_t i = grid_random() % (COLUMNS + 1); i > 0; i--) out[n++] = column_of(&m, rows);
  mr_var_t *last = as_f32(m.f, m.whole[m.n_whole - 1]);
  if (grid_random() % 2)
    out[n++] = mr_lax_scale(m.f, 1.0 / (double)rows, mr_lax_reduce_sum(m.f, last, 1, (int[]){0}));
  if (grid_random() % 2)
    out[n++] = mr_lax_reduce_max(m.f, as_f32(m.f, m.row[m.n_row - 1]), 1, (int[]){0});
  mr_fn_return(m.f, n, out);
  return m.f;
}

static void random_rows_are_those_of_f64(void **state) {
  const char *first = getenv("MILLRACE_SEED"), *n = getenv("MILLRACE_PROGRAMS");
  unsigned from = first ? (unsigned)strtoul(first, NULL, 10) : 0;
  unsigned rounds = n ? (unsigned)strtoul(n, NULL, 10) : 20, whole = 0;
  for (unsigned seed = from; seed < from + rounds; seed++) {
    grid_state = (seed + 1) * 2654435761u;
    const int64_t *size = sizes[seed % SIZES];
    mr_dtype_t narrow = seed % 3 == 0 ? MR_BF16 : seed % 3 == 1 ? MR_F16 : MR_F32;
    mr_fn_t *f = random_rows(size[0], size[1], narrow);
    double *in[GRID_MAX];
    char what[64];
    snprintf(what, sizeof what, "random rows of seed %u", seed);
    if (f->diag.code < 0) fail_msg("%s: %s", what, f->diag.text);
    fill(f, in, -2, 2);
    same_as_in_f64(what, f, in, 2e-3, narrow != MR_F32);
    whole += continues(f);
    free_all(f->n_in, in);
    mr_fn_destroy(f);
  }
  assert_true(whole * 4 > rounds * 3);
}

/* ---- order ---- */

/* The rows of a batch the other way round, on the device: each row has the bits that it had. */
static void a_row_has_the_same_bits_anywhere_in_a_batch(void **state) {
  for (int i = 0; i < SIZES; i++) {
    int64_t rows = sizes[i][0], c = sizes[i][1];
    mr_fn_t *f = softmaxed(MR_F32, rows, c, 0);
    double *in[1], *turned = doubles(rows * c);
    void *bytes[2], *got[2];
    fill(f, in, -2, 2);
    for (int64_t r = 0; r < rows; r++)
      memcpy(turned + r * c, in[0] + (rows - 1 - r) * c, (size_t)c * sizeof *turned);
    bytes[0] = bytes_of(&f->in[0]->aval, in[0]), bytes[1] = bytes_of(&f->in[0]->aval, turned);
    for (int k = 0; k < 2; k++) run_there("rows", f, NULL, &bytes[k], &got[k]);
    for (int64_t r = 0; r < rows; r++)
      assert_memory_equal((float *)got[0] + r * c, (float *)got[1] + (rows - 1 - r) * c,
                          (size_t)c * sizeof(float));
    for (int k = 0; k < 2; k++) free(bytes[k]), free(got[k]);
    free(in[0]), free(turned);
    mr_fn_destroy(f);
  }
}

/* A result may be written over an operand: each element is read before. */
static void donated_operands_are_written_over_after_their_last_read(void **state) {
  for (int i = 0; i < SIZES; i++) {
    mr_fn_t *f = normalized(MR_F32, sizes[i][0], sizes[i][1], 0);
    mr_compile_options_t o = {.device = device, .in_place = 2};
    double *in[GRID_MAX];
    void *bytes[GRID_MAX], *want[GRID_MAX], *a[GRID_MAX], *y[GRID_MAX];
    mr_exec_t *x = NULL;
    mr_diag_t diag = {0};
    fill(f, in, -2, 2);
    for (int k = 0; k < f->n_in; k++) bytes[k] = bytes_of(&f->in[k]->aval, in[k]);
    run_there("donated", f, NULL, bytes, want);
    if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
    for (int k = 0; k < f->n_in; k++) a[k] = there(bytes[k], mr_aval_bytes(&f->in[k]->aval));
    for (int k = 0; k < 2; k++) y[k] = a[k + 4]; /* over x and over y */
    mr_exec_run(x, (const void *const *)a, y);
    for (int k = 0; k < 2; k++) {
      size_t n = mr_aval_bytes(&f->out[k]->aval);
      void *got = grid_bytes(n);
      mr_device_copy(device, got, y[k], n, MR_COPY_OUT);
      assert_memory_equal(got, want[k], n);
      free(got), free(want[k]);
    }
    for (int k = 0; k < f->n_in; k++) {
      mr_device_give(device, a[k], mr_aval_bytes(&f->in[k]->aval));
      free(bytes[k]);
    }
    free_all(f->n_in, in);
    mr_exec_destroy(x);
    mr_fn_destroy(f);
  }
}

/* ---- squares ---- */

/* The second of a pair is as large as the first where the elements are 2^MR_SQUARES_SHIFT times as
   large: those overflow the first. */
static void squares_are_few_kernels(bool pair, double largest, bool second) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x[70], *y;
  double *in[70];
  for (int i = 0; i < 70; i++)
    x[i] = mr_fn_input(f, mr_aval_of(MR_F32, i % 7 ? 1 + i * i * 13 : i == 35 ? 0 : 300000));
  y = pair ? mr_lax_sum_squares_pair(f, 70, x) : mr_lax_sum_squares(f, 70, x);
  if (second) y = mr_lax_reshape(f, mr_lax_slice(f, y, (int64_t[]){1}, (int64_t[]){2}), 0, NULL);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  fill(f, in, -largest, largest);
  same_as_in_f64("squares", f, in, 1e-6, false);
  assert_in_range((int)kernels_of(f), 6, 9); /* two for each 32 tensors, and their sum */
  free_all(f->n_in, in);
  mr_fn_destroy(f);
}

static void squares_of_many_tensors_are_few_kernels(void **state) {
  squares_are_few_kernels(false, 1, false);
  squares_are_few_kernels(true, 1, false);
  squares_are_few_kernels(true, 1e24, true);
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(model_rows_are_those_of_f64),
      cmocka_unit_test(each_is_one_kernel),
      cmocka_unit_test(random_rows_are_those_of_f64),
      cmocka_unit_test(a_row_has_the_same_bits_anywhere_in_a_batch),
      cmocka_unit_test(donated_operands_are_written_over_after_their_last_read),
      cmocka_unit_test(squares_of_many_tensors_are_few_kernels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
