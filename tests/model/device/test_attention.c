/* The kernel of attention that computes one head in a group, which MILLRACE_ATTENTION=own asks for,
   forward and backward against double precision on the CPU; what it does not take is opened. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/transforms/passes.h"
#include "tests/model/device_run.h"

enum { OUT, STATISTICS, GRADIENTS };

typedef struct shape {
  int64_t B, T, H, D;
  mr_dtype_t t;
  bool packed;
} shape_t;

/* qkv (or q, k, v) and dout -> out, statistics, the gradients of what qkv is. */
static mr_fn_t *both_passes(const shape_t *s) {
  mr_fn_t *f = mr_fn_create();
  mr_attr_t scale = mr_attr_float("scale", 1 / sqrt((double)s->D));
  mr_var_t *in[6], *y[5];
  int n = s->packed ? 1 : 3;
  for (int i = 0; i < n; i++)
    in[i] = mr_fn_input(f, s->packed ? mr_aval_of(s->t, s->B, s->T, 3, s->H, s->D)
                                     : mr_aval_of(s->t, s->B, s->T, s->H, s->D));
  mr_eqn_t *a = mr_emit(f, &mr_op_attention, n, in, 1, &scale, 2);
  assert_non_null(a);
  y[0] = in[n] = a->out[0], y[1] = in[n + 1] = a->out[1];
  in[n + 2] = mr_fn_input(f, mr_aval_of(s->t, s->B, s->T, s->H, s->D));
  mr_eqn_t *b = mr_emit(f, &mr_op_attention_vjp, n + 3, in, 1, &scale, n);
  assert_non_null(b);
  for (int i = 0; i < n; i++) y[2 + i] = b->out[i];
  if (mr_fn_return(f, 2 + n, y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* ||got - want|| / ||want|| */
static double distance(const mr_aval_t *a, const void *got, const double *want) {
  double d = 0, all = 0;
  for (int64_t k = 0; k < mr_aval_elems(a); k++) {
    double x = mr_get_f64(a->dtype, got, k) - want[k];
    d += x * x, all += want[k] * want[k];
  }
  return sqrt(d / (all > 0 ? all : 1));
}

static void passes_are_near_f64(const shape_t *s) {
  void *bytes[GRID_MAX], *got[GRID_MAX], *again[GRID_MAX];
  double *in[GRID_MAX], *want[GRID_MAX];
  mr_fn_t *f = both_passes(s);
  for (int i = 0; i < f->n_in; i++) {
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = random_in(-2, 2);
    bytes[i] = bytes_of(&f->in[i]->aval, in[i]);
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      in[i][k] = mr_get_f64(f->in[i]->aval.dtype, bytes[i], k);
  }
  run_there("attention", f, NULL, bytes, got);
  run_there("attention", f, NULL, bytes, again);
  run_f64(f, in, want);
  for (int i = 0; i < f->n_out; i++) {
    const mr_aval_t *a = &f->out[i]->aval;
    double far = distance(a, got[i], want[i]);
    if (!(far <= (i == OUT ? 5e-3 : i == STATISTICS ? 1e-3 : 1e-2)))
      fail_msg("%s, %lld rows, heads of %lld, packed %d: result %d is %g away", mr_dtype_name(s->t),
               (long long)s->T, (long long)s->D, s->packed, i, far);
    assert_memory_equal(got[i], again[i], mr_aval_bytes(a));
    for (int64_t k = 0; i == STATISTICS && k < mr_aval_elems(a); k++)
      assert_true(fabs(mr_get_f64(a->dtype, got[i], k) - want[i][k]) <= 1e-3);
    free(got[i]), free(again[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
  free_all(f->n_in, in), free_all(f->n_out, want);
  mr_fn_destroy(f);
}

/* Each number of tiles along T, full and with one row more, and along D; each with two of the
   others. */
static void attention_of_every_size_is_near_f64(void **state) {
  static const int64_t T[] = {1, 16, 17, 33, 64, 65, 80}, D[] = {8, 16, 24, 48, 64};
  setenv("MILLRACE_ATTENTION", "own", 1);
  int at = 0;
  for (int i = 0; i < 7; i++)
    for (int k = 0; k < 2; k++, at++)
      passes_are_near_f64(&(shape_t){1 + at % 2, T[i], 1 + at % 3, D[(i + 2 * k) % 5],
                                     at % 4 == 3 ? MR_F16 : MR_BF16, at % 3});
  unsetenv("MILLRACE_ATTENTION");
}

/* Of the recipe: by cuDNN, where there is one, and by the kernel. */
static void attention_of_the_recipe_is_near_f64_in_each_way(void **state) {
  static const char *const way[] = {"cudnn", "own"};
  for (int i = 0; i < 2; i++) {
    setenv("MILLRACE_ATTENTION", way[i], 1);
    passes_are_near_f64(&(shape_t){2, 65, 8, 48, MR_BF16, true});
  }
  unsetenv("MILLRACE_ATTENTION");
}

/* Whether the device keeps attention of f, or opens it. */
static bool is_kept(const shape_t *s) {
  mr_fn_t *f = both_passes(s);
  const mr_target_t *t = device->backend->compile->target(device);
  bool kept = !t->opens(t, f->eqn[0]), back = !t->opens(t, f->eqn[1]);
  assert_int_equal(kept, back);
  mr_fn_destroy(f);
  return kept;
}

static void attention_that_the_kernel_does_not_take_is_opened(void **state) {
  setenv("MILLRACE_ATTENTION", "own", 1);
  const shape_t taken = {1, 65, 2, 48, MR_BF16, true};
  assert_true(is_kept(&taken));
  if (!strcmp(device->backend->name, "opencl")) {
    const shape_t other[] = {{1, 81, 2, 48, MR_BF16, true},
                             {1, 65, 2, 72, MR_BF16, true},
                             {1, 65, 2, 44, MR_BF16, false},
                             {1, 65, 2, 48, MR_F32, true}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) assert_false(is_kept(&other[i]));
  }
  setenv("MILLRACE_ATTENTION", "opened", 1);
  assert_false(is_kept(&taken));
  unsetenv("MILLRACE_ATTENTION");
  if (!strcmp(device->backend->name, "opencl")) assert_false(is_kept(&taken));
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attention_that_the_kernel_does_not_take_is_opened),
      cmocka_unit_test(attention_of_the_recipe_is_near_f64_in_each_way),
      cmocka_unit_test(attention_of_every_size_is_near_f64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
