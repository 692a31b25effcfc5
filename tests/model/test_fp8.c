/* Products in f8 with delayed scaling: scales against TransformerEngine's rule written out in C,
   products and their derivatives against a sum over codes, and small models that train so. */
#include "tests/vectors.h"

#include <float.h>
#include <math.h>

#include "base/dtype.h"
#include "model/control/fp8.h"
#include "model/model.h"
#include "model/transforms/amp.h"
#include "tests/model/vit_step.h"
#include "tests/random.h"

static mr_exec_t *compiled(mr_fn_t *f) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (f->diag.code < 0 || mr_compile(f, NULL, &x, &diag) < 0)
    fail_msg("%s%s", f->diag.text, diag.text);
  mr_fn_destroy(f);
  return x;
}

static float bf16(float v) { return mr_bf16_to_f32(mr_bf16_from_f32(v)); }

/* ---- scales ---- */

/* (amax, scale, history) -> (scale, history) */
static mr_exec_t *next_of(const mr_fp8_t *c, int n) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t *amax = mr_fn_input(g, mr_aval_of(MR_F32, n, 3)),
           *scale = mr_fn_input(g, mr_aval_of(MR_F32, n, 3));
  mr_var_t *y[2], *history = mr_fn_input(g, mr_aval_of(MR_F32, c->history, n, 3));
  assert_int_equal(mr_fp8_next(g, c, amax, scale, history, &y[0], &y[1]), MR_OK);
  mr_fn_return(g, 2, y);
  return compiled(g);
}

/* TransformerEngine: history[0] = amax; the amax that counts is history's largest or history[0];
   roll by -1; history[0] = 0; (fp8_max / amax) / 2^margin where amax > 0 and finite. */
static void oracle_next(const mr_fp8_t *c, int n, const float *amax, float *scale, float *history) {
  static const float most[] = {448, 448, 57344};
  int row = 3 * n;
  for (int i = 0; i < row; i++) {
    float counts = amax[i];
    history[i] = amax[i];
    for (int k = 1; !c->most_recent && k < c->history; k++)
      if (history[k * row + i] > counts || isnan(history[k * row + i]))
        counts = history[k * row + i];
    for (int k = 0; k + 1 < c->history; k++) history[k * row + i] = history[(k + 1) * row + i];
    history[(c->history - 1) * row + i] = amax[i];
    history[i] = 0;
    float next = ldexpf(most[i % 3] / counts, -c->margin);
    if (isinf(next)) next = FLT_MAX;
    if (next < FLT_MIN) next = FLT_MIN; /* there it divides by 0 */
    if (counts > 0 && isfinite(counts)) scale[i] = next;
  }
}

static void scales_move_as_transformer_engines_do(void **state) {
  for (round_t r = round_first(60); round_next(&r);) {
    enum { MOST = 8 };
    mr_fp8_t c = {
        .history = 1 + draw(&r, MOST), .margin = draw(&r, 5) - 2, .most_recent = one_in(&r, 2)};
    if (one_in(&r, 4)) c.margin = one_in(&r, 2) ? 64 : -64;
    int n = 1 + draw(&r, 3), row = 3 * n;
    float scale[9], history[MOST * 9] = {0}, want[9], past[MOST * 9] = {0}, amax[9];
    for (int i = 0; i < row; i++) scale[i] = want[i] = 1;
    mr_exec_t *x = next_of(&c, n);
    for (int call = 0; call < 30; call++) {
      float s[9], h[MOST * 9];
      for (int i = 0; i < row; i++) {
        amax[i] = ldexpf((float)(1 + draw(&r, 1000)), draw(&r, 60) - 40);
        if (one_in(&r, 10)) amax[i] = 0;
        if (one_in(&r, 20)) amax[i] = 1e-38f;
        if (one_in(&r, 20)) amax[i] = 3e38f;
        if (one_in(&r, 20)) amax[i] = INFINITY;
      }
      mr_exec_run(x, (const void *[]){amax, scale, history}, (void *[]){s, h});
      memcpy(scale, s, sizeof s), memcpy(history, h, sizeof h);
      oracle_next(&c, n, amax, want, past);
      for (int i = 0; i < row; i++)
        round_check(&r, scale[i] == want[i], "call %d, tensor %d: %g, want %g", call, i,
                    (double)scale[i], (double)want[i]);
      round_check(&r, !memcmp(history, past, sizeof(float) * (size_t)(row * c.history)),
                  "history of call %d", call);
    }
    mr_exec_destroy(x);
  }
}

/* ---- products ---- */

enum { ROWS = 5, K = 7, COLS = 6 };

/* (x bf16[5,7], w bf16, b bf16[6], dout bf16[5,6], scale) -> (y, dx, dw, db, amax) */
static mr_exec_t *linear_of(bool transposed, bool bias) {
  mr_fn_t *f = mr_fn_create(), *g = NULL, *v = NULL;
  mr_diag_t diag = {0};
  int n;
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_BF16, ROWS, K));
  mr_var_t *w =
      mr_fn_input(f, transposed ? mr_aval_of(MR_BF16, COLS, K) : mr_aval_of(MR_BF16, K, COLS));
  mr_var_t *b = mr_fn_input(f, mr_aval_of(MR_BF16, COLS));
  mr_var_t *dout = mr_fn_input(f, mr_aval_of(MR_F32, ROWS, COLS));
  mr_var_t *y = mr_lax_linear(f, x, w, bias ? b : NULL, transposed);
  mr_var_t *all[] = {
      mr_lax_reduce_sum(f, mr_lax_mul(f, mr_lax_convert(f, y, MR_F32), dout), 2, (int[]){0, 1}), y};
  assert_int_equal(mr_fn_return(f, 2, all), MR_OK);
  if (mr_fp8_products(f, MR_FP8_HYBRID, &g, &n, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(n, 1);
  if (mr_value_and_grad(g, 4, (int[]){0, 1, 2, 4}, &v, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f), mr_fn_destroy(g);
  return compiled(v);
}

static float code(float v, int which) {
  static const float most[] = {448, 448, 57344};
  mr_dtype_t t = which == 2 ? MR_F8_E5M2 : MR_F8_E4M3FN;
  v = fminf(fmaxf(v, -most[which]), most[which]);
  return mr_f8_to_f32(t, mr_f8_from_f32(t, v));
}

/* got is the f32 sum of codes by the scales, rounded to bf16, or its neighbour where the order of
   the sum decides. */
static void expect(round_t *r, const char *what, uint16_t got, double sum, double terms) {
  double v = (double)mr_bf16_to_f32(got);
  round_check(r, fabs(v - sum) <= fabs(sum) * 0x1p-8 + terms * 0x1p-21, "%s: %g, want %g", what, v,
              sum);
}

static void products_are_those_of_the_codes(void **state) {
  for (int kind = 0; kind < 4; kind++) {
    bool transposed = kind & 1, bias = kind & 2;
    mr_exec_t *e = linear_of(transposed, bias);
    for (round_t r = round_first(40); round_next(&r);) {
      uint16_t x[ROWS * K], w[K * COLS], b[COLS], y[ROWS * COLS], dx[ROWS * K], dw[K * COLS],
          db[COLS];
      float dout[ROWS * COLS], scale[3], amax[3], loss, met[3] = {0};
      float qx[ROWS * K], qw[K * COLS], qd[ROWS * COLS];
      for (int i = 0; i < 3; i++) scale[i] = ldexpf((float)(1 + draw(&r, 100)), draw(&r, 10) - 6);
      for (int i = 0; i < ROWS * K; i++)
        x[i] = mr_bf16_from_f32((float)(draw(&r, 2001) - 1000) / 64);
      for (int i = 0; i < K * COLS; i++)
        w[i] = mr_bf16_from_f32((float)(draw(&r, 2001) - 1000) / 512);
      for (int i = 0; i < COLS; i++) b[i] = mr_bf16_from_f32((float)draw(&r, 9));
      for (int i = 0; i < ROWS * COLS; i++) dout[i] = bf16((float)(draw(&r, 2001) - 1000) / 1024);
      mr_exec_run(e, (const void *[]){x, w, b, dout, scale},
                  (void *[]){&loss, y, dx, dw, db, amax});
      for (int i = 0; i < ROWS * K; i++) {
        float v = mr_bf16_to_f32(x[i]);
        qx[i] = code(v * scale[0], 0), met[0] = fmaxf(met[0], fabsf(v));
      }
      for (int k = 0; k < K; k++)
        for (int c = 0; c < COLS; c++) {
          float v = mr_bf16_to_f32(w[transposed ? c * K + k : k * COLS + c]);
          qw[k * COLS + c] = code(v * scale[1], 1), met[1] = fmaxf(met[1], fabsf(v));
        }
      for (int i = 0; i < ROWS * COLS; i++)
        qd[i] = code(dout[i] * scale[2], 2), met[2] = fmaxf(met[2], fabsf(dout[i]));
      for (int i = 0; i < 3; i++)
        round_check(&r, amax[i] == met[i], "amax %d: %g, want %g", i, (double)amax[i],
                    (double)met[i]);
      for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < COLS; c++) {
          double sum = 0, terms = 0, by = (double)scale[0] * (double)scale[1];
          for (int k = 0; k < K; k++) sum += (double)qx[i * K + k] * (double)qw[k * COLS + c] / by;
          for (int k = 0; k < K; k++)
            terms += fabs((double)qx[i * K + k] * (double)qw[k * COLS + c] / by);
          if (bias) sum += (double)mr_bf16_to_f32(b[c]), terms += 9;
          expect(&r, "y", y[i * COLS + c], sum, terms);
        }
      for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < K; k++) {
          double sum = 0, terms = 0, by = (double)scale[1] * (double)scale[2];
          for (int c = 0; c < COLS; c++)
            sum += (double)qd[i * COLS + c] * (double)qw[k * COLS + c] / by;
          for (int c = 0; c < COLS; c++)
            terms += fabs((double)qd[i * COLS + c] * (double)qw[k * COLS + c] / by);
          expect(&r, "dx", dx[i * K + k], sum, terms);
        }
      for (int k = 0; k < K; k++)
        for (int c = 0; c < COLS; c++) {
          double sum = 0, terms = 0, by = (double)scale[0] * (double)scale[2];
          for (int i = 0; i < ROWS; i++)
            sum += (double)qx[i * K + k] * (double)qd[i * COLS + c] / by;
          for (int i = 0; i < ROWS; i++)
            terms += fabs((double)qx[i * K + k] * (double)qd[i * COLS + c] / by);
          expect(&r, "dw", dw[transposed ? c * K + k : k * COLS + c], sum, terms);
        }
    }
    mr_exec_destroy(e);
  }
}

/* ---- training ---- */

enum { BATCH = 16, IN = 8, HIDDEN = 32 };

/* (W1, b1, W2, x f32[16,8], t f32[16,1]) -> mean((tanh(x W1 + b1) W2 - t)^2) */
static mr_fn_t *mlp_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *W1 = mr_fn_input(f, mr_aval_of(MR_F32, IN, HIDDEN)),
           *b1 = mr_fn_input(f, mr_aval_of(MR_F32, HIDDEN));
  mr_var_t *W2 = mr_fn_input(f, mr_aval_of(MR_F32, HIDDEN, 1)),
           *x = mr_fn_input(f, mr_aval_of(MR_F32, BATCH, IN));
  mr_var_t *t = mr_fn_input(f, mr_aval_of(MR_F32, BATCH, 1));
  mr_var_t *h = mr_lax_tanh(f, mr_lax_linear(f, x, W1, b1, false));
  mr_var_t *d = mr_lax_sub(f, mr_lax_dot(f, h, W2), t);
  mr_var_t *y =
      mr_lax_scale(f, 1.0 / BATCH, mr_lax_reduce_sum(f, mr_lax_mul(f, d, d), 2, (int[]){0, 1}));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

/* Descent with delayed scaling; with `plain` in bf16.  Returns the last loss over the first; the
   scales after each of the steps in trail. */
static double descend(bool plain, int steps, float trail[][6]) {
  mr_fn_t *f = mlp_fn(), *narrow = NULL, *g = NULL, *v = NULL;
  mr_diag_t diag = {0};
  mr_amp_policy_t policy = mr_amp_usual(MR_BF16);
  mr_fp8_t c = {.history = 16};
  int n = 0;
  if (mr_amp(f, &policy, &narrow, &diag) < 0) fail_msg("%s", diag.text);
  if (!plain && mr_fp8_products(narrow, MR_FP8_HYBRID, &g, &n, &diag) < 0)
    fail_msg("%s", diag.text);
  if (mr_value_and_grad(plain ? narrow : g, plain ? 3 : 4, (int[]){0, 1, 2, 5}, &v, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_exec_t *x = compiled(v), *next = next_of(&c, 2);
  if (!plain) assert_int_equal(n, 2);
  static float W1[IN * HIDDEN], b1[HIDDEN], W2[HIDDEN], in[BATCH * IN], t[BATCH];
  float scale[6], history[16 * 6] = {0}, amax[6], dW1[IN * HIDDEN], db1[HIDDEN], dW2[HIDDEN];
  float loss = 0, first = 0;
  round_t r = {.x = 77};
  for (int i = 0; i < IN * HIDDEN; i++) W1[i] = (float)(draw(&r, 2001) - 1000) / 2000;
  for (int i = 0; i < HIDDEN; i++) b1[i] = 0, W2[i] = (float)(draw(&r, 2001) - 1000) / 4000;
  for (int i = 0; i < BATCH * IN; i++) in[i] = (float)(draw(&r, 2001) - 1000) / 500;
  for (int i = 0; i < BATCH; i++) t[i] = sinf(in[i * IN] + in[i * IN + 1]);
  for (int i = 0; i < 6; i++) scale[i] = 1;
  for (int step = 0; step < steps; step++) {
    mr_exec_run(x, (const void *[]){W1, b1, W2, in, t, scale},
                (void *[]){&loss, dW1, db1, dW2, amax});
    if (!step) first = loss;
    for (int i = 0; i < IN * HIDDEN; i++) W1[i] -= 0.05f * dW1[i];
    for (int i = 0; i < HIDDEN; i++) b1[i] -= 0.05f * db1[i], W2[i] -= 0.05f * dW2[i];
    if (plain) continue;
    float s[6], h[16 * 6];
    mr_exec_run(next, (const void *[]){amax, scale, history}, (void *[]){s, h});
    memcpy(scale, s, sizeof s), memcpy(history, h, sizeof h);
    if (trail) memcpy(trail[step], s, sizeof s);
  }
  mr_exec_destroy(x), mr_exec_destroy(next);
  mr_fn_destroy(f), mr_fn_destroy(narrow), mr_fn_destroy(g);
  return (double)(loss / first);
}

static void an_mlp_learns_as_it_does_in_bf16(void **state) {
  enum { STEPS = 300 };
  static float trail[STEPS][6], again[STEPS][6];
  double narrow = descend(true, STEPS, NULL), f8 = descend(false, STEPS, trail);
  if (!(narrow < 0.3 && f8 < 0.3 && fabs(narrow - f8) < 0.1))
    fail_msg("the loss falls to %g of the first, in bf16 to %g", f8, narrow);
  descend(false, STEPS, again);
  assert_memory_equal(trail, again, sizeof trail);
  for (int i = 0; i < 6; i++) assert_true(trail[0][i] != 1 && isfinite(trail[STEPS - 1][i]));
}

/* A small ViT on one batch by plain descent; returns the last loss over the first. */
static double descend_vit(bool plain, int steps) {
  enum { SIDE = 32 * 32 * 3, N = 8, MOST = 64 };
  vit_t c = vit_default();
  c.model.embed = 32, c.model.mlp = 64, c.model.heads = 2, c.model.layers = 2, c.model.dropout = 0;
  mr_params_t p = {0}, list = {0};
  mr_diag_t diag = {0};
  mr_fn_t *f = vit_loss(&c, N, true, &list, &diag), *g = NULL, *v = NULL;
  if (!f || vit_params(&c, 3, &p, &diag) < 0) fail_msg("%s", diag.text);
  int n = 0, wrt[MOST * 4], n_wrt = p.n + !plain, n_aux = f->n_out;
  if (!plain && mr_fp8_products(f, MR_FP8_HYBRID, &g, &n, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < n_wrt; i++) wrt[i] = VIT_DATA + i;
  if (mr_value_and_grad(plain ? f : g, n_wrt, wrt, &v, &diag) < 0) fail_msg("%s", diag.text);
  mr_fp8_t recipe = {.history = 4};
  mr_exec_t *x = compiled(v), *next = plain ? NULL : next_of(&recipe, n);
  static float image[N * SIDE], scale[MOST * 3], amax[MOST * 3], history[4 * MOST * 3], s[MOST * 3],
      h[4 * MOST * 3];
  int32_t label[N];
  uint64_t seed = 1;
  uint32_t step = 1;
  round_t r = {.x = 5};
  for (int i = 0; i < N * SIDE; i++) image[i] = (float)(draw(&r, 2001) - 1000) / 700;
  for (int i = 0; i < N; i++) label[i] = i;
  for (int i = 0; i < MOST * 3; i++) scale[i] = 1;
  memset(history, 0, sizeof history);
  const void *in[VIT_DATA + 4 * MOST] = {image, label, &seed, &step};
  void *out[4 * MOST];
  const mr_param_set_t *values = mr_params_set(&p, MR_SET_VALUES, 0);
  assert_true(p.n < 3 * MOST && n <= MOST && n_aux < MOST);
  float first = 0, loss = 0;
  for (int k = 0; k < n_aux; k++) out[k] = k ? calloc(4, N * 10) : &loss;
  for (int i = 0; i < p.n; i++) {
    in[VIT_DATA + i] = mr_params_at(&p, values, i);
    out[n_aux + i] = malloc(mr_aval_bytes(&p.param[i].aval) + 64);
  }
  in[VIT_DATA + p.n] = scale, out[n_aux + p.n] = amax;
  for (int k = 0; k < steps; k++) {
    mr_exec_run(x, in, out);
    if (!k) first = loss;
    for (int i = 0; i < p.n; i++) {
      float *to = mr_params_at(&p, values, i), *d = out[n_aux + i];
      for (int64_t e = 0; e < mr_aval_elems(&p.param[i].aval); e++) to[e] -= 0.05f * d[e];
    }
    if (plain) continue;
    mr_exec_run(next, (const void *[]){amax, scale, history}, (void *[]){s, h});
    memcpy(scale, s, sizeof s), memcpy(history, h, sizeof h);
  }
  for (int k = 1; k < n_aux + p.n; k++) free(out[k]);
  mr_exec_destroy(x), mr_exec_destroy(next);
  mr_fn_destroy(f), mr_fn_destroy(g);
  mr_params_fini(&p), mr_params_fini(&list);
  return (double)(loss / first);
}

static void a_vision_transformer_learns_as_it_does_in_bf16(void **state) {
  double narrow = descend_vit(true, 40), f8 = descend_vit(false, 40);
  if (!(narrow < 0.5 && f8 < 0.5 && fabs(narrow - f8) < 0.1))
    fail_msg("the loss falls to %g of the first, in bf16 to %g", f8, narrow);
}

static void arguments_of_wrong_shapes_are_named(void **state) {
  mr_fn_t *f = mlp_fn(), *g = NULL;
  mr_diag_t diag = {0};
  int n = -1;
  assert_int_equal(mr_fp8_products(f, MR_FP8_HYBRID, &g, &n, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "no product of bf16 operands"));
  assert_int_equal(n, -1);
  mr_fn_destroy(f);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_fp8_check(&(mr_fp8_t){.history = 0}, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "fp8: history is 0, want [1,65536]");
  f = mr_fn_create();
  mr_fp8_t c = mr_fp8_usual();
  assert_true(c.history == 1024 && !c.margin && !c.most_recent);
  mr_var_t *a = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3)),
           *h = mr_fn_input(f, mr_aval_of(MR_F32, 4, 2, 3));
  mr_var_t *y[2];
  assert_int_equal(mr_fp8_next(f, &c, a, a, h, &y[0], &y[1]), MR_ERR_SHAPE);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scales_move_as_transformer_engines_do),
      cmocka_unit_test(products_are_those_of_the_codes),
      cmocka_unit_test(an_mlp_learns_as_it_does_in_bf16),
      cmocka_unit_test(a_vision_transformer_learns_as_it_does_in_bf16),
      cmocka_unit_test(arguments_of_wrong_shapes_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
