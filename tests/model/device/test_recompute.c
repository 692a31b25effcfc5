/* The pass that computes values again on a device instead of reading them: a residual block with
   normalization, GELU and dropout, and its gradients, have the same bits with it, and need less
   memory; random chains between products too. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/device_run.h"

static mr_var_t *as_f32(mr_fn_t *f, mr_var_t *v) { return mr_lax_convert(f, v, MR_F32); }

static mr_var_t *product(mr_fn_t *f, mr_var_t *x, mr_var_t *w) {
  const mr_dot_dims_t dims = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}};
  return mr_lax_dot_general(f, x, w, &dims, x->aval.dtype);
}

static mr_fn_t *gradient_of(mr_fn_t *f, mr_var_t *y) {
  int wrt[GRID_MAX], n = 0;
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  y = mr_lax_scale(f, 1.0 / (double)elems(y), mr_lax_reduce_sum(f, as_f32(f, y), 2, (int[]){0, 1}));
  mr_fn_return(f, 1, &y);
  for (int i = 0; i < f->n_in; i++)
    if (mr_is_float(f->in[i]->aval.dtype)) wrt[n++] = i;
  if (mr_value_and_grad(f, n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return g;
}

static mr_fn_t *block(mr_dtype_t t, int64_t rows, int64_t c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  mr_var_t *step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  mr_var_t *scale = mr_fn_input(f, mr_aval_of(MR_F32, c)), *bias = mr_fn_input(f, scale->aval);
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, rows, c));
  mr_var_t *w[] = {mr_fn_input(f, mr_aval_of(t, c, 2 * c)), mr_fn_input(f, mr_aval_of(t, 2 * c, c)),
                   mr_fn_input(f, mr_aval_of(t, c, c))};
  for (int turn = 0; turn < 2; turn++) {
    mr_var_t *h = mr_lax_layer_norm(f, x, scale, bias, 1e-3f, 0, t);
    h = mr_lax_gelu(f, product(f, h, w[0]), MR_GELU_TANH);
    h = product(f, mr_lax_dropout(f, h, 0.1f, 2 * turn, seed, step), w[1]);
    x = mr_lax_add(f, x, as_f32(f, mr_lax_dropout(f, h, 0.1f, 2 * turn + 1, seed, step)));
  }
  return gradient_of(f, product(f, mr_lax_convert(f, x, t), w[2]));
}

/* Chains of plain and other ops between products, whose values are read far behind. */
static mr_fn_t *chains(mr_dtype_t t, int64_t rows, int64_t c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(t, rows, c)), *w = mr_fn_input(f, mr_aval_of(t, c, c));
  mr_var_t *row = mr_fn_input(f, mr_aval_of(t, c)), *v[16];
  int n = 0;
  v[n++] = x;
  while (n < 16) {
    mr_var_t *a = v[grid_random() % (uint32_t)n], *b = v[n - 1];
    switch (grid_random() % 6) {
      case 0: a = product(f, mr_lax_scale(f, 0.2, mr_lax_tanh(f, b)), w); break;
      case 1: a = mr_lax_mul(f, mr_lax_tanh(f, a), mr_lax_scale(f, 0.5, b)); break;
      case 2:
        a = mr_lax_add(f, a, mr_lax_broadcast_in_dim(f, row, 2, x->aval.dim, (int[]){1}));
        break;
      case 3: a = mr_lax_select_n(f, mr_lax_lt(f, a, b), mr_lax_neg(f, b), a); break;
      case 4: a = mr_lax_convert(f, mr_lax_add(f, as_f32(f, a), as_f32(f, b)), t); break;
      default: a = mr_lax_max(f, mr_lax_sub(f, a, b), mr_lax_integer_pow(f, mr_lax_tanh(f, b), 2));
    }
    v[n++] = a;
  }
  return gradient_of(f, mr_lax_tanh(f, v[n - 1]));
}

static size_t peak_of(const mr_fn_t *f, const char *skip) {
  mr_compile_options_t o = {.device = device, .skip = skip};
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  size_t peak = mr_exec_peak_bytes(x);
  mr_exec_destroy(x);
  return peak;
}

static void same_with_and_without(const char *what, const mr_fn_t *f) {
  const mr_compile_options_t without = {.skip = "recompute"};
  same_either_way(what, f, 0.5, (mr_compile_options_t){0}, without);
}

static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};

static void a_block_has_the_same_bits_and_needs_less(void **state) {
  for (int i = 0; i < 3; i++) {
    mr_fn_t *f = block(some[i], 640, 64);
    if (f->diag.code < 0) fail_msg("%s", f->diag.text);
    size_t less = peak_of(f, NULL), more = peak_of(f, "recompute");
    if (!(less < more - more / 20)) fail_msg("%zu bytes against %zu", less, more);
    same_with_and_without(mr_dtype_name(some[i]), f);
    mr_fn_destroy(f);
  }
}

static void random_chains_have_the_same_bits(void **state) {
  const char *n = getenv("MILLRACE_PROGRAMS");
  unsigned rounds = n ? (unsigned)strtoul(n, NULL, 10) : 5;
  for (unsigned seed = 0; seed < rounds; seed++) {
    char what[48];
    grid_state = (seed + 1) * 2654435761u;
    snprintf(what, sizeof what, "random chains of seed %u", seed);
    mr_fn_t *f = chains(some[seed % 3], 1024, 32);
    if (f->diag.code < 0) fail_msg("%s: %s", what, f->diag.text);
    same_with_and_without(what, f);
    mr_fn_destroy(f);
  }
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_has_the_same_bits_and_needs_less),
      cmocka_unit_test(random_chains_have_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
