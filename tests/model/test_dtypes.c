/* Every op of the table on its own samples with another float written in place of f32: what is
   taken is computed in that precision, what is not is refused with the op's name. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/parse/parse.h"
#include "tests/model/cell.h"

/* f's text with each "f32" replaced. */
static char *text_in(const mr_fn_t *f, const char *dtype, const char *long_name) {
  char *text = mr_fn_text(f), *out = calloc(4, strlen(text) + 1), *to = out;
  for (const char *at = text; *at;) {
    bool is_short = !strncmp(at, "f32", 3), is_long = !strncmp(at, "float32", 7);
    if (is_short || is_long) {
      to += sprintf(to, "%s", is_long ? long_name : dtype);
      at += is_long ? 7 : 3;
    } else {
      *to++ = *at++;
    }
  }
  free(text);
  return out;
}

/* NULL: the op refuses to be made of that dtype, or gives another. */
static mr_fn_t *sample_in(const mr_op_def_t *op, const mr_sample_t *s, const char *dtype,
                          const char *long_name) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  char *text = text_in(s->f, dtype, long_name);
  bool reported =
      mr_fn_parse(text, &g, &diag) >= 0 || strstr(diag.text, "the text says") ||
      (strstr(diag.text, op->name) && (strstr(diag.text, "want") || strstr(diag.text, "must be")));
  if (!reported) fail_msg("%s: %s\n%s", op->name, diag.text, text);
  free(text);
  return g;
}

static void fill(const mr_sample_t *s, double **in) {
  for (int i = 0; i < s->f->n_in; i++) {
    bool real = mr_is_float(s->f->in[i]->aval.dtype);
    in[i] = doubles(elems(s->f->in[i]));
    for (int64_t k = 0; k < elems(s->f->in[i]); k++) {
      double v = random_in(s->lo[i], s->hi[i]);
      in[i][k] = real ? v : round(v);
    }
  }
}

/* Against the same opened before it is compiled, and the one that mr_in_f64 makes, whose constants
   are those of f32. */
static void computes_alike(const char *name, const mr_sample_t *s, const mr_fn_t *g) {
  double *in[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX], *wide[GRID_MAX];
  mr_fn_t *open = NULL;
  mr_diag_t diag = {0};
  fill(s, in);
  run_as_it_is(g, in, got);
  if (mr_open(g, &open, &diag) < 0) fail_msg("%s: %s", name, diag.text);
  run_as_it_is(open, in, want);
  run_f64(s->f, in, wide);
  assert_near(name, g, got, want, 1e-14);
  assert_near(name, g, got, wide, 5e-8);
  free_all(g->n_in, in);
  free_all(g->n_out, got);
  free_all(g->n_out, want);
  free_all(g->n_out, wide);
  mr_fn_destroy(open);
}

typedef void check_fn(const mr_op_def_t *op, const mr_sample_t *s, int *taken);

static int each_sample(check_fn *check) {
  int taken = 0;
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      bool there = mr_ops[i]->sample(mr_ops[i], &s, k);
      if (there) check(mr_ops[i], &s, &taken);
      mr_fn_destroy(s.f);
      if (!there) break;
    }
  return taken;
}

static void check_f64(const mr_op_def_t *op, const mr_sample_t *s, int *taken) {
  mr_fn_t *g = sample_in(op, s, "f64", "float64");
  bool f32_alone = op == &mr_op_adamw || op == &mr_op_sum_squares; /* as lax.h says */
  if (!g && !f32_alone) fail_msg("%s has no f64", op->name);
  if (g) computes_alike(op->name, s, g), ++*taken;
  mr_fn_destroy(g);
}

static void ops_that_take_f64_compute_in_f64(void **state) {
  assert_true(each_sample(check_f64) > 90);
}

static bool holds(const mr_fn_t *f, mr_dtype_t t) {
  bool there = false;
  for (int i = 0; i < f->n_in; i++) there |= f->in[i]->aval.dtype == t;
  for (int i = 0; i < f->n_out; i++) there |= f->out[i]->aval.dtype == t;
  return there;
}

/* g's values, of a narrow float, near those of the sample's in f64 on the same inputs. */
static void computes_nearby(const char *name, const mr_sample_t *s, const mr_fn_t *g,
                            double tolerance) {
  double *in[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  fill(s, in);
  for (int i = 0; i < g->n_in; i++)
    for (int64_t k = 0; k < elems(g->in[i]); k++) {
      double v;
      mr_set_f64(g->in[i]->aval.dtype, &v, 0, in[i][k]);
      in[i][k] = mr_get_f64(g->in[i]->aval.dtype, &v, 0);
    }
  run_as_it_is(g, in, got);
  run_f64(s->f, in, want);
  assert_near(name, g, got, want, tolerance);
  free_all(g->n_in, in);
  free_all(g->n_out, got);
  free_all(g->n_out, want);
}

static mr_fn_t *floats_gradient(const mr_fn_t *f) {
  int wrt[MR_SAMPLE_IN], n = 0;
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  for (int i = 0; i < f->n_in; i++)
    if (mr_is_float(f->in[i]->aval.dtype)) wrt[n++] = i;
  if (mr_value_and_grad(f, n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

/* The gradient of a sum of f's results likewise, if it has one. */
static void differentiates_nearby(const mr_op_def_t *op, const mr_sample_t *s, mr_fn_t *f,
                                  double tolerance) {
  char name[80];
  mr_fn_t *narrow = op->ad.vjp == mr_no_vjp ? NULL : scalar_of(f), *wide = scalar_of(s->f);
  if (narrow && narrow->n_in <= MR_SAMPLE_IN) {
    mr_fn_t *g = floats_gradient(narrow);
    mr_sample_t all = {.f = floats_gradient(wide)};
    for (int i = 0; i < wide->n_in; i++) {
      all.lo[i] = i < s->f->n_in ? s->lo[i] : 0.5;
      all.hi[i] = i < s->f->n_in ? s->hi[i] : 1.5;
    }
    snprintf(name, sizeof name, "%s, its gradient", op->name);
    computes_nearby(name, &all, g, tolerance);
    mr_fn_destroy(g);
    mr_fn_destroy(all.f);
  }
  mr_fn_destroy(narrow);
  mr_fn_destroy(wide);
}

static bool compiles(const mr_fn_t *g) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  bool done = g && mr_compile(g, NULL, &x, &diag) >= 0;
  mr_exec_destroy(x);
  return done;
}

/* Of samples whose results are no draws. */
static void check_f16(const mr_op_def_t *op, const mr_sample_t *s, int *taken) {
  mr_fn_t *g = sample_in(op, s, "f16", "float16"), *b = sample_in(op, s, "bf16", "bfloat16");
  if (compiles(b) != compiles(g))
    fail_msg("%s: of f16 and bf16 it takes one alone\n%s", op->name, mr_fn_text(g ? g : b));
  if (compiles(g) && holds(g, MR_F16)) {
    computes_nearby(op->name, s, g, 0x1p-8);
    computes_nearby(op->name, s, b, 0x1p-5);
    differentiates_nearby(op, s, g, 0x1p-7);
    ++*taken;
  }
  mr_fn_destroy(g);
  mr_fn_destroy(b);
}

static void ops_that_take_bf16_take_f16_and_give_nearby_values(void **state) {
  assert_true(each_sample(check_f16) > 90);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_that_take_f64_compute_in_f64),
      cmocka_unit_test(ops_that_take_bf16_take_f16_and_give_nearby_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
