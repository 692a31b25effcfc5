/* Activations and RMS normalization: values and slopes are PyTorch's, not-a-numbers stay, and mixed
   precision sums squares in f32. */
#include "tests/vectors.h"

#include <math.h>

#include "model/exec/exec.h"
#include "model/nn/activation.h"
#include "model/nn/nn.h"
#include "model/ops/lax.h"
#include "model/transforms/amp.h"
#include "model/transforms/transforms.h"

enum { N = 9, ROWS = 3, COLS = 4, ALL = ROWS * COLS };

/* Compiles the gradient of f's output 0 by inputs [0,n), which then follow its outputs. */
static mr_exec_t *compiled(mr_fn_t *f, int n) {
  mr_fn_t *g = NULL;
  mr_exec_t *exec = NULL;
  mr_diag_t diag = {0};
  if (mr_value_and_grad(f, n, (int[]){0, 1}, &g, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_compile(g, &(mr_compile_options_t){0}, &exec, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f), mr_fn_destroy(g);
  return exec;
}

static mr_exec_t *traced(mr_activation_t a, mr_gelu_t gelu, mr_dtype_t dtype) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = mr_nn_activate(f, a, gelu, mr_fn_input(f, mr_aval_of(dtype, N)));
  mr_var_t *out[] = {mr_lax_reduce_sum(f, y, 1, (int[]){0}), y};
  if (mr_fn_return(f, 2, out) < 0) fail_msg("%s", f->diag.text);
  return compiled(f, 1);
}

static void near(const char *what, int i, double have, double want, double within) {
  if (!(fabs(have - want) <= within * (1 + fabs(want))))
    fail_msg("%s: value %d is %.17g, want %.17g", what, i, have, want);
}

static void check_wide(const char *name, mr_activation_t a, mr_gelu_t gelu, const double *x,
                       const double *want) {
  static _Alignas(64) double in[N], sum[1], y[N], slope[N];
  mr_exec_t *exec = traced(a, gelu, MR_F64);
  memcpy(in, x, sizeof in);
  mr_exec_run(exec, (const void *[]){in}, (void *[]){sum, y, slope});
  mr_exec_destroy(exec);
  for (int i = 0; i < N; i++) {
    near(name, i, y[i], want[i], 1e-13);
    near(name, N + i, slope[i], want[N + i], 1e-13);
  }
}

static void check_narrow(const char *name, mr_activation_t a, mr_gelu_t gelu, const double *x,
                         const double *want) {
  static _Alignas(64) float in[N], sum[1], y[N], slope[N];
  mr_exec_t *exec = traced(a, gelu, MR_F32);
  for (int i = 0; i < N; i++) in[i] = (float)x[i];
  mr_exec_run(exec, (const void *[]){in}, (void *[]){sum, y, slope});
  mr_exec_destroy(exec);
  for (int i = 0; i < N; i++) {
    near(name, i, (double)y[i], want[i], 1e-6);
    near(name, N + i, (double)slope[i], want[N + i], 1e-6);
  }
}

static void numbers(const char *at, double *to, int n) {
  char *next;
  for (int i = 0; i < n; i++, at = next) {
    to[i] = strtod(at, &next);
    assert_true(next != at);
  }
}

/* The activation of that name; of GELU also which. */
static bool named(const char *name, mr_activation_t *a, mr_gelu_t *gelu) {
  *gelu = strcmp(name, "gelu-erf") ? MR_GELU_TANH : MR_GELU_ERF;
  if (!strncmp(name, "gelu-", 5)) return *a = MR_ACTIVATION_GELU, true;
  for (int i = 0; i < MR_ACTIVATIONS; i++)
    if (!strcmp(name, mr_activation_name((mr_activation_t)i))) return *a = (mr_activation_t)i, true;
  return false;
}

static void values_and_slopes_are_those_of_torch(void **state) {
  static char line[4096];
  double x[N], want[2 * N];
  mr_activation_t a;
  mr_gelu_t gelu;
  FILE *file = vectors_open("activation.txt");
  int64_t cases = 0;
  while (vectors_line(file, line, sizeof line)) {
    char *space = strchr(line, ' ');
    assert_non_null(space);
    *space = 0;
    if (!strcmp(line, "x")) numbers(space + 1, x, N);
    if (!named(line, &a, &gelu)) continue;
    numbers(space + 1, want, 2 * N);
    check_wide(line, a, gelu, x, want);
    check_narrow(line, a, gelu, x, want);
    cases++;
  }
  fclose(file);
  vectors_met(cases, MR_ACTIVATIONS + 1);
}

static void a_nan_stays_a_nan(void **state) {
  static _Alignas(64) float in[N], sum[1], y[N], slope[N];
  for (int i = 0; i < N; i++) in[i] = NAN;
  for (int a = 0; a < MR_ACTIVATIONS; a++) {
    mr_exec_t *exec = traced((mr_activation_t)a, MR_GELU_ERF, MR_F32);
    mr_exec_run(exec, (const void *[]){in}, (void *[]){sum, y, slope});
    for (int i = 0; i < N; i++)
      if (!isnan(y[i])) fail_msg("%s: %g", mr_activation_name((mr_activation_t)a), (double)y[i]);
    mr_exec_destroy(exec);
  }
}

/* f(x, scale, weight): the sum of weight times the norm, and the norm. */
static mr_fn_t *rms(float eps, bool timm) {
  mr_fn_t *f = mr_fn_create();
  mr_params_t params = {0};
  mr_nn_t s = {.f = f, .params = &params};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, ROWS, COLS));
  mr_var_t *y = (timm ? mr_nn_rms_norm_timm : mr_nn_rms_norm)(&s, "norm", x, eps);
  mr_var_t *weight = mr_fn_input(f, mr_aval_of(MR_F32, ROWS, COLS));
  mr_var_t *out[] = {mr_lax_reduce_sum(f, mr_lax_mul(f, weight, y), 2, (int[]){0, 1}), y};
  if (mr_fn_return(f, 2, out) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(params.n, 1);
  assert_string_equal(params.param[0].name, timm ? "norm.weight" : "norm.scale");
  assert_int_equal(params.param[0].init.kind, MR_INIT_ONES);
  mr_params_fini(&params);
  return f;
}

static void rms_norms_and_their_slopes_are_those_of_torch(void **state) {
  enum { IN = 2 * ALL + COLS };
  static char line[4096];
  static _Alignas(64) float x[ALL], scale[COLS], weight[ALL], sum[1], y[ALL], dx[ALL], dscale[COLS];
  double v[1 + 2 * IN];
  FILE *file = vectors_open("activation.txt");
  int64_t cases = 0;
  while (vectors_line(file, line, sizeof line)) {
    if (strncmp(line, "rms ", 4) != 0) continue;
    numbers(line + 4, v, 1 + 2 * IN);
    const double *in = v + 1, *want = in + IN;
    for (int i = 0; i < ALL; i++) x[i] = (float)in[i], weight[i] = (float)in[ALL + COLS + i];
    for (int i = 0; i < COLS; i++) scale[i] = (float)in[ALL + i];
    for (int timm = 0; timm < 2; timm++) {
      mr_exec_t *exec = compiled(rms((float)v[0], timm), 2);
      mr_exec_run(exec, (const void *[]){x, scale, weight}, (void *[]){sum, y, dx, dscale});
      mr_exec_destroy(exec);
      for (int i = 0; i < ALL; i++) {
        near("rms", i, (double)y[i], want[i], 2e-6);
        near("rms by x", i, (double)dx[i], want[ALL + i], 2e-6);
      }
      for (int i = 0; i < COLS; i++)
        near("rms by scale", i, (double)dscale[i], want[2 * ALL + i], 2e-6);
    }
    cases++;
  }
  fclose(file);
  vectors_met(cases, 2);
}

static bool is_narrow(const mr_var_t *v) { return v->aval.dtype == MR_BF16; }

static void mixed_precision_sums_the_squares_in_f32(void **state) {
  const mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  mr_diag_t diag = {0};
  mr_params_t params = {0};
  mr_fn_t *f = mr_fn_create(), *narrow = NULL;
  mr_nn_t s = {.f = f, .params = &params};
  int products = 0, sums = 0;
  mr_var_t *x = mr_nn_linear(&s, "to", mr_fn_input(f, mr_aval_of(MR_F32, ROWS, COLS)), 16);
  mr_var_t *y = mr_nn_linear(&s, "from", mr_nn_rms_norm(&s, "norm", x, 1e-6f), 2);
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  if (mr_amp(f, &p, &narrow, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < narrow->n_eqn; i++) {
    const mr_eqn_t *e = narrow->eqn[i];
    products += e->op == &mr_op_linear && is_narrow(e->in[0]);
    sums += e->op == &mr_op_reduce_sum && e->in[0]->aval.dtype == MR_F32;
    if (e->op == &mr_op_rsqrt) assert_false(is_narrow(e->in[0]));
  }
  assert_int_equal(products, 2);
  assert_int_equal(sums, 1);
  mr_fn_destroy(f), mr_fn_destroy(narrow);
  mr_params_fini(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_and_slopes_are_those_of_torch),
      cmocka_unit_test(a_nan_stays_a_nan),
      cmocka_unit_test(rms_norms_and_their_slopes_are_those_of_torch),
      cmocka_unit_test(mixed_precision_sums_the_squares_in_f32),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
