/* The losses of classifiers: values and gradients are PyTorch's, in f64 and f32, gradients are
   differences of values on random logits, and mixed precision leaves both in f32. */
#include "tests/vectors.h"

#include <math.h>

#include "base/dataset.h"
#include "model/exec/exec.h"
#include "model/nn/class_loss.h"
#include "model/ops/lax.h"
#include "model/transforms/amp.h"
#include "model/transforms/transforms.h"
#include "tests/random.h"

enum { B = 6, C = 5, NONE = 4, N = B * C };

/* The sum of the losses, the losses, and the gradient by logits[N]; of shares or of classes. */
typedef struct traced {
  mr_exec_t *exec;
  mr_dtype_t dtype;
  bool shares;
} traced_t;

static traced_t trace(const mr_class_loss_t *l, mr_dtype_t dtype, bool shares) {
  traced_t t = {.dtype = dtype, .shares = shares};
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_var_t *z = mr_fn_input(f, mr_aval_of(dtype, B, C));
  mr_var_t *labels = mr_fn_input(f, shares ? mr_aval_of(dtype, B, C) : mr_aval_of(MR_I32, B));
  mr_var_t *mask = shares ? mr_fn_input(f, mr_aval_of(dtype, B)) : NULL;
  mr_var_t *losses = mr_class_losses(f, l, z, labels, mask);
  mr_var_t *out[] = {mr_lax_reduce_sum(f, losses, 1, (int[]){0}), losses};
  if (mr_fn_return(f, 2, out) < 0) fail_msg("%s", f->diag.text);
  if (mr_value_and_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_compile(g, &(mr_compile_options_t){0}, &t.exec, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f), mr_fn_destroy(g);
  return t;
}

static void put(const traced_t *t, void *to, int i, double v) {
  if (t->dtype == MR_F64)
    ((double *)to)[i] = v;
  else
    ((float *)to)[i] = (float)v;
}

static double got(const traced_t *t, const void *from, int i) {
  return t->dtype == MR_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* Returns the sum of the losses; value[B] and slope[N] may be NULL. */
static double run(const traced_t *t, const double *z, const int *label, const double *share,
                  double *value, double *slope) {
  static _Alignas(64) double in[N], row[N], mask[B], out[3][N];
  static _Alignas(64) int32_t classes[B];
  for (int i = 0; i < N; i++) put(t, in, i, z[i]), put(t, row, i, share[i]);
  for (int b = 0; b < B; b++) {
    put(t, mask, b, b != NONE);
    classes[b] = b == NONE ? MR_LABEL_NONE : label[b];
  }
  mr_exec_run(t->exec, (const void *[]){in, t->shares ? (void *)row : classes, mask},
              (void *[]){out[0], out[1], out[2]});
  for (int b = 0; value && b < B; b++) value[b] = got(t, out[1], b);
  for (int i = 0; slope && i < N; i++) slope[i] = got(t, out[2], i);
  return got(t, out[0], 0);
}

/* As class_loss.py has them. */
static const int label[B] = {0, 3, 1, 4, 0, 0};

static void fill_golden(double *z, double *share) {
  static const double certain[C] = {60, -20, 0, 1, 2};
  for (int i = 0; i < N; i++) z[i] = 3 * sin(1.7 * i) + cos(0.3 * i);
  for (int c = 0; c < C; c++) z[5 * C + c] = certain[c];
  for (int b = 0; b < B; b++) {
    double sum = 0;
    for (int c = 0; c < C; c++) sum += share[b * C + c] = 1 + (b * C + c) % 7;
    for (int c = 0; c < C; c++) share[b * C + c] /= sum;
  }
}

static mr_class_loss_kind_t kind_of(const char *name) {
  return !strcmp(name, "focal") ? MR_CLASS_LOSS_FOCAL
         : !strcmp(name, "mse") ? MR_CLASS_LOSS_MSE
                                : MR_CLASS_LOSS_CROSS_ENTROPY;
}

static void losses_and_gradients_are_those_of_torch(void **state) {
  static char line[4096];
  double z[N], share[N], value[B], slope[N];
  FILE *file = vectors_open("class_loss.txt");
  int64_t cases = 0;
  fill_golden(z, share);
  for (; vectors_line(file, line, sizeof line); cases++) {
    char kind[32], labels[16];
    mr_class_loss_t l = {0};
    int at = 0;
    assert_int_equal(sscanf(line, "%31s %lf %lf %15s%n", kind, &l.gamma, &l.smoothing, labels, &at),
                     4);
    l.kind = kind_of(kind);
    for (int wide = 0; wide < 2; wide++) {
      traced_t t = trace(&l, wide ? MR_F64 : MR_F32, !strcmp(labels, "shares"));
      char *next = line + at;
      run(&t, z, label, share, value, slope);
      for (int i = 0; i < B + N; i++) {
        double want = strtod(next, &next), have = i < B ? value[i] : slope[i - B];
        if (!(fabs(have - want) <= (wide ? 1e-12 : 4e-6) * (1 + fabs(want))))
          fail_msg("%s, f%d: value %d is %.17g, want %.17g", line, wide ? 64 : 32, i, have, want);
      }
      mr_exec_destroy(t.exec);
    }
  }
  fclose(file);
  vectors_met(cases, 20);
}

static void gradients_are_differences_of_values(void **state) {
  round_t r = round_first(12);
  while (round_next(&r)) {
    const double h = 1e-5;
    mr_class_loss_t l = {.kind = (mr_class_loss_kind_t)draw(&r, 3),
                         .gamma = 1 + draw(&r, 300) / 100.0,
                         .smoothing = draw(&r, 2) * 0.1};
    traced_t t = trace(&l, MR_F64, draw(&r, 2));
    double z[N], share[N], slope[N];
    fill_golden(z, share);
    for (int i = 0; i < N; i++) z[i] = (draw(&r, 8001) - 4000) / 1000.0;
    run(&t, z, label, share, NULL, slope);
    for (int i = 0; i < N; i++) {
      double was = z[i];
      z[i] = was + h;
      double above = run(&t, z, label, share, NULL, NULL);
      z[i] = was - h;
      double below = run(&t, z, label, share, NULL, NULL);
      z[i] = was;
      double want = (above - below) / (2 * h);
      round_check(&r, fabs(slope[i] - want) < 1e-7 * (1 + fabs(want)), "kind %d: %g, not %g",
                  l.kind, slope[i], want);
    }
    mr_exec_destroy(t.exec);
  }
}

static bool is_narrow(const mr_var_t *v) {
  return v->aval.dtype == MR_BF16 || v->aval.dtype == MR_F16;
}

/* What computes of f is the product of the logits, which is narrow, and the loss, which is not. */
static void assert_loss_is_wide(const mr_fn_t *f, const char *loss, const char *of) {
  int products = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (e->op == &mr_op_dot_general && is_narrow(e->in[0])) products++;
    if (e->op == &mr_op_dot_general || e->op == &mr_op_convert_element_type || e->op->cost.moves)
      continue;
    for (int k = 0; k < e->n_in + e->n_out; k++)
      if (is_narrow(k < e->n_in ? e->in[k] : e->out[k - e->n_in]))
        fail_msg("%s of %s: %s computes in %s", loss, of, e->op->name,
                 mr_dtype_name((k < e->n_in ? e->in[k] : e->out[k - e->n_in])->aval.dtype));
  }
  assert_true(products > 0);
}

static void mixed_precision_leaves_losses_in_f32(void **state) {
  static const char *const name[] = {"cross-entropy", "focal", "mse"};
  for (int i = 0; i < 24; i++) {
    const mr_class_loss_t l = {
        .kind = (mr_class_loss_kind_t)(i % 3), .gamma = 2, .smoothing = i / 3 % 2 * 0.1};
    bool shares = i / 6 % 2;
    const mr_amp_policy_t p = mr_amp_usual(i / 12 ? MR_F16 : MR_BF16);
    mr_diag_t diag = {0};
    mr_fn_t *f = mr_fn_create(), *narrow = NULL, *g = NULL;
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, B, 3));
    mr_var_t *W = mr_fn_input(f, mr_aval_of(MR_F32, 3, C));
    mr_var_t *labels = mr_fn_input(f, shares ? mr_aval_of(MR_F32, B, C) : mr_aval_of(MR_I32, B));
    mr_var_t *mask = shares ? mr_fn_input(f, mr_aval_of(MR_F32, B)) : NULL;
    mr_var_t *losses = mr_class_losses(f, &l, mr_lax_dot(f, x, W), labels, mask);
    mr_var_t *sum = mr_lax_reduce_sum(f, losses, 1, (int[]){0});
    if (mr_fn_return(f, 1, &sum) < 0) fail_msg("%s", f->diag.text);
    if (mr_amp(f, &p, &narrow, &diag) < 0) fail_msg("%s", diag.text);
    if (mr_value_and_grad(narrow, 1, (int[]){1}, &g, &diag) < 0) fail_msg("%s", diag.text);
    assert_loss_is_wide(g, name[i % 3], shares ? "shares" : "classes");
    mr_fn_destroy(f), mr_fn_destroy(narrow), mr_fn_destroy(g);
  }
}

/* ---- losses of one's own ---- */

static mr_var_t *own_squares(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) {
  mr_var_t *d = mr_lax_sub(f, z, targets);
  d = mr_lax_reduce_sum(f, mr_lax_mul(f, d, d), 1, (int[]){1});
  return mr_lax_scale(f, 1 / (double)C, d);
}

static mr_var_t *own_whole(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) { return targets; }
static mr_var_t *own_none(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) { return NULL; }

/* Infinite for a row of zeros. */
static mr_var_t *own_mean(mr_fn_t *f, mr_var_t *z, mr_var_t *targets) {
  mr_var_t *d = mr_lax_sub(f, z, targets), *t = mr_lax_mul(f, targets, mr_lax_mul(f, d, d));
  return mr_lax_div(f, mr_lax_reduce_sum(f, t, 1, (int[]){1}),
                    mr_lax_reduce_sum(f, targets, 1, (int[]){1}));
}

#define OWN(word, sentence, function) \
  (&(const mr_class_loss_def_t){.name = word, .help = sentence, .losses = function})
#define TABLE(...) ((const mr_class_loss_def_t *const[]){__VA_ARGS__, NULL})

static void losses_that_are_not_whole_are_refused_by_name(void **state) {
  const struct {
    const mr_class_loss_def_t *const *table;
    const char *said;
  } bad[] = {
      {TABLE(OWN("", "One.", own_none)), "plug-in x: loss 0: its name is \"\", expected small"},
      {TABLE(OWN(NULL, "One.", own_none)), "its name is \"\""},
      {TABLE(OWN("a|b", "One.", own_none)), "its name is \"a|b\""},
      {TABLE(OWN("auto", "One.", own_none)), "loss \"auto\": there is one of that name"},
      {TABLE(OWN("mse", "One.", own_none)), "loss \"mse\": there is one of that name"},
      {TABLE(OWN("one", "One.", own_none), OWN("one", "Two.", own_none)), "loss \"one\": there is"},
      {TABLE(OWN("one", NULL, own_none)), "loss \"one\": it has no help"},
      {TABLE(OWN("one", "One.", NULL)), "loss \"one\": it has no losses"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    assert_int_equal(mr_class_losses_check(bad[i].table, "plug-in x", &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, bad[i].said)) fail_msg("%s, want %s", diag.text, bad[i].said);
  }
  assert_string_equal(mr_class_loss_auto_choices, "auto|cross-entropy|focal|mse");
}

static void losses_of_ones_own_get_targets_and_count_as_those_that_are_here(void **state) {
  static const mr_class_loss_def_t squares = {"own-squares", "As mse.", own_squares},
                                   whole = {"own-whole", "Has a wrong shape.", own_whole},
                                   none = {"own-none", "Traces nothing.", own_none},
                                   mean = {"own-mean", "Divides by its targets.", own_mean};
  static const mr_class_loss_def_t *const table[] = {&squares, &whole, &none, &mean, NULL};
  double z[N], share[N], have[2][B + N];
  mr_diag_t diag = {0};
  if (mr_class_losses_check(table, "plug-in x", &diag) < 0) fail_msg("%s", diag.text);
  mr_class_losses_add(table);
  assert_string_equal(MR_CLASS_LOSS_CHOICES,
                      "cross-entropy|focal|mse|own-squares|own-whole|own-none|own-mean");
  assert_int_equal(mr_class_losses_check(table, "plug-in y", &diag), MR_ERR_CONFIG);
  fill_golden(z, share);
  for (int i = 0; i < 4; i++) {
    for (int own = 0; own < 2; own++) {
      const mr_class_loss_t l = {.kind = own ? MR_CLASS_LOSS_ADDED : MR_CLASS_LOSS_MSE,
                                 .smoothing = i / 2 * 0.1};
      traced_t t = trace(&l, MR_F64, i % 2);
      run(&t, z, label, share, have[own], have[own] + B);
      mr_exec_destroy(t.exec);
    }
    for (int k = 0; k < B + N; k++)
      if (!(fabs(have[0][k] - have[1][k]) < 1e-14 * (1 + fabs(have[0][k]))))
        fail_msg("value %d: %.17g, want %.17g", k, have[1][k], have[0][k]);
  }
  const mr_class_loss_t divides = {.kind = (mr_class_loss_kind_t)(MR_CLASS_LOSS_ADDED + 3)};
  for (int shares = 0; shares < 2; shares++) {
    traced_t t = trace(&divides, MR_F64, shares);
    for (int c = 0; c < C && shares; c++) share[NONE * C + c] = 0;
    run(&t, z, label, share, have[0], have[0] + B);
    mr_exec_destroy(t.exec);
    for (int k = 0; k < B + N; k++) assert_true(isfinite(have[0][k]));
    assert_true(have[0][NONE] == 0 && have[0][1] > 0);
  }
  for (int i = 1; i < 3; i++) {
    const mr_class_loss_t l = {.kind = (mr_class_loss_kind_t)(MR_CLASS_LOSS_ADDED + i)};
    mr_fn_t *f = mr_fn_create();
    mr_var_t *logits = mr_fn_input(f, mr_aval_of(MR_F32, B, C));
    assert_null(mr_class_losses(f, &l, logits, mr_fn_input(f, mr_aval_of(MR_I32, B)), NULL));
    const char *want = i == 1 ? "loss own-whole: traced f32[6,5], want one loss for each record"
                              : "loss own-none: traced no losses";
    if (!strstr(f->diag.text, want)) fail_msg("%s", f->diag.text);
    mr_fn_destroy(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_and_gradients_are_those_of_torch),
      cmocka_unit_test(gradients_are_differences_of_values),
      cmocka_unit_test(mixed_precision_leaves_losses_in_f32),
      cmocka_unit_test(losses_that_are_not_whole_are_refused_by_name),
      cmocka_unit_test(losses_of_ones_own_get_targets_and_count_as_those_that_are_here),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
