/* Elementwise ops at infinities, NaN, both zeros and kinks, and their slopes there, against jax
   (tests/golden/edges.txt). */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/model/grid.h"
#include "tests/vectors.h"

/* One function of the file: operands, then values and a slope by each operand. */
typedef struct edge {
  char name[32];
  mr_dtype_t t;
  int n_in, n;
  double *at[2], *want[3];
} edge_t;

static double *read_numbers(FILE *f, int n) {
  double *v = doubles(n);
  for (int i = 0; i < n; i++) assert_int_equal(fscanf(f, "%lf", &v[i]), 1);
  return v;
}

static bool read_edge(FILE *f, edge_t *e) {
  char dtype[8];
  if (fscanf(f, "%31s %7s %d %d", e->name, dtype, &e->n_in, &e->n) != 4) return false;
  e->t = strcmp(dtype, "bf16") ? MR_F32 : MR_BF16;
  for (int i = 0; i < e->n_in; i++) e->at[i] = read_numbers(f, e->n);
  for (int i = 0; i <= e->n_in; i++) e->want[i] = read_numbers(f, e->n);
  return true;
}

static mr_var_t *apply(mr_fn_t *f, const edge_t *e, mr_var_t **x) {
  int power;
  if (!strncmp(e->name, "gelu", 4))
    return mr_lax_gelu(f, x[0], strcmp(e->name, "gelu_erf") ? MR_GELU_TANH : MR_GELU_ERF);
  if (sscanf(e->name, "integer_pow_%d", &power) == 1) return mr_lax_integer_pow(f, x[0], power);
  return mr_emit1(f, mr_op_find(e->name), e->n_in, x, 0, NULL);
}

/* A value of zero has jax's sign; that of a slope depends on how its terms are grouped.  Jax takes
   denormals as zeros. */
static bool fits(double got, double want, bool sign, double near) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (sign && want == 0 && got == 0) return signbit(got) == signbit(want);
  return got == want || fabs(got - want) <= 1e-34 + near * fabs(want);
}

/* The value and the vjp of ones, n points at once. */
static void check(const edge_t *e) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  mr_var_t *x[2], *y;
  double *in[3], *got[3], ones[512];
  for (int i = 0; i < e->n; i++) ones[i] = 1;
  for (int i = 0; i < e->n_in; i++) x[i] = mr_fn_input(f, mr_aval_of(e->t, e->n)), in[i] = e->at[i];
  in[e->n_in] = ones;
  y = apply(f, e, x);
  if (mr_fn_return(f, 1, &y) < 0 || mr_vjp(f, e->n_in, (int[]){0, 1}, &g, &diag) < 0)
    fail_msg("%s: %s %s", e->name, f->diag.text, diag.text);
  run_as_it_is(f, in, got);
  run_as_it_is(g, in, got + 1);
  for (int k = 0; k <= e->n_in; k++)
    for (int i = 0; i < e->n; i++)
      if (!fits(got[k][i], e->want[k][i], !k && e->n_in == 1, e->t == MR_F32 ? 1e-5 : 0.02))
        fail_msg("%s %s at %g, %g: %s %d is %.9g, in jax %.9g", mr_dtype_name(e->t), e->name,
                 e->at[0][i], e->n_in > 1 ? e->at[1][i] : 0, k ? "slope" : "value", k, got[k][i],
                 e->want[k][i]);
  free_all(e->n_in + 1, got);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
}

static void counting_in_u8_begins_again_after_255(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = mr_lax_iota(f, MR_U8, 1, (int64_t[]){600}, 0);
  double *got[1];
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  run_as_it_is(f, NULL, got);
  for (int i = 0; i < 600; i++) assert_true(got[0][i] == i % 256);
  free(got[0]);
  mr_fn_destroy(f);
}

static void values_and_slopes_at_edges_are_those_of_jax(void **state) {
  FILE *f = vectors_open("edges.txt");
  edge_t e;
  int n = 0;
  assert_non_null(f);
  assert_int_equal(fscanf(f, "#%*[^\n]"), 0);
  for (; read_edge(f, &e); n++) {
    check(&e);
    free_all(e.n_in, e.at);
    free_all(e.n_in + 1, e.want);
  }
  assert_true(feof(f)); /* no row that cannot be read ended the walk */
  vectors_met(n, 62);
  fclose(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counting_in_u8_begins_again_after_255),
      cmocka_unit_test(values_and_slopes_at_edges_are_those_of_jax),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
