/* dynamic_scale_value_and_grad, dynamic_scale_grad and apply_if_finite: the trajectories of jaxamp
   and optax (golden/amp) to the printed digits, random calls against an oracle in _Float16, and how
   they compose with amp, vmap, jit and derivatives. */
#include "tests/vectors.h"

#include <math.h>

#include "model/model.h"
#include "model/transforms/amp.h"
#include "tests/random.h"

enum { STATE = MR_DYNAMIC_SCALER_VARS, COUNTS = MR_APPLY_IF_FINITE_VARS };

static mr_exec_t *compiled(mr_fn_t *f) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (f->diag.code < 0 || mr_compile(f, NULL, &x, &diag) < 0)
    fail_msg("%s%s", f->diag.text, diag.text);
  mr_fn_destroy(f);
  return x;
}

/* in[n_in] before the state, out[n_out] after it. */
static void run(mr_exec_t *x, mr_dynamic_scaler_state_t *s, int n_in, const void *const *in,
                int n_out, void *const *out) {
  const void *from[16];
  void *to[16];
  mr_dynamic_scaler_state_t now = *s;
  const void *state_in[] = {&now.patience, &now.adjust_factor, &now.scaler, &now.count,
                            &now.total_resets};
  void *state_out[] = {&s->patience, &s->adjust_factor, &s->scaler, &s->count, &s->total_resets};
  for (int i = 0; i < n_in; i++) from[i] = in[i];
  for (int i = 0; i < n_out; i++) to[STATE + i] = out[i];
  memcpy(from + n_in, state_in, sizeof state_in);
  memcpy(to, state_out, sizeof state_out);
  mr_exec_run(x, from, to);
}

static mr_exec_t *scaled(const mr_fn_t *f, bool value, const mr_dynamic_scale_t *o) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  mr_err_t e = value ? mr_dynamic_scale_value_and_grad(f, 1, (int[]){0}, o, &g, &diag)
                     : mr_dynamic_scale_grad(f, 1, (int[]){0}, o, &g, &diag);
  if (e < 0) fail_msg("%s", diag.text);
  return compiled(g);
}

/* (w f32[2], s f32[]) -> sum(w s) */
static mr_fn_t *product_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *s = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *y = mr_lax_reduce_sum(f, mr_lax_mul(f, w, s), 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

/* (w f32[2], c f16[]) -> sum(w in f16 times c) */
static mr_fn_t *narrow_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_var_t *c = mr_fn_input(f, mr_aval_scalar(MR_F16));
  mr_var_t *y = mr_lax_mul(f, mr_lax_convert(f, w, MR_F16), c);
  y = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

/* ---- jaxamp ---- */

static void the_state_moves_as_jaxamps_does(void **state) {
  mr_fn_t *f = product_fn();
  mr_dynamic_scale_t once = {.filter = true};
  mr_exec_t *x = scaled(f, true, &once);
  FILE *rows = vectors_open("amp/scaler.txt");
  char line[256], bad[8] = "", got[256];
  mr_dynamic_scaler_state_t s = {0};
  float w[2] = {1, 2}, grad[2], y;
  int n = 0;
  while (fgets(line, sizeof line, rows) && strncmp(line, "## D", 4)) {
    int step, finite;
    line[strcspn(line, "\n")] = 0;
    mr_dynamic_scaler_state_t first = mr_dynamic_scaler_state();
    if (sscanf(line, "## %*c: patience %d adjust_factor %f scaler %f bad=%7[a-z]", &first.patience,
               &first.adjust_factor, &first.scaler, bad) == 4) {
      s = first;
      continue;
    }
    if (sscanf(line, "%d %d", &step, &finite) != 2) continue;
    float by = finite ? 1 : strtof(bad, NULL);
    run(x, &s, 2, (const void *[]){w, &by}, 2, (void *[]){&y, grad});
    snprintf(got, sizeof got, "%d %d %.9g %d %d %.9g", step, finite, (double)s.scaler, s.count,
             s.total_resets, isnan(grad[0]) ? (double)NAN : (double)grad[0]);
    assert_string_equal(got, line);
    n++;
  }
  fclose(rows);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
  vectors_met(n, 70);
}

static void results_are_computed_again_as_often_as_jaxamp_does(void **state) {
  mr_fn_t *f = narrow_fn();
  FILE *rows = vectors_open("amp/scaler.txt");
  char line[256], got[256], redo[16], fn[32];
  int n = 0;
  while (fgets(line, sizeof line, rows)) {
    double c, first;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "%lf %lf %15s %31s ->", &c, &first, redo, fn) != 4) continue;
    if (!strstr(line, " -> ")) continue;
    bool value = !strcmp(fn, "value_and_grad");
    mr_dynamic_scale_t o =
        value ? mr_dynamic_scale_value_and_grad_usual() : mr_dynamic_scale_grad_usual();
    o.redo_on_nan = atoi(redo);
    mr_exec_t *x = scaled(f, value, strcmp(redo, "default") ? &o : NULL);
    mr_dynamic_scaler_state_t s = mr_dynamic_scaler_state();
    s.patience = 4, s.scaler = (float)first;
    float w[2] = {1, 2}, y = 0, grad[2];
    _Float16 c16 = (_Float16)c;
    void *out[] = {&y, grad};
    run(x, &s, 2, (const void *[]){w, &c16}, 1 + value, out + !value);
    char reported[32] = "-";
    if (value) snprintf(reported, sizeof reported, "%.9g", (double)y);
    snprintf(got, sizeof got, "%.1f %.1f %s %s -> %.9g %d %d %s %.9g", c, first, redo, fn,
             (double)s.scaler, s.count, s.total_resets, reported, (double)grad[0]);
    assert_string_equal(got, line);
    mr_exec_destroy(x);
    n++;
  }
  fclose(rows);
  mr_fn_destroy(f);
  vectors_met(n, 60);
}

static void the_usual_state_is_jaxamps(void **state) {
  FILE *rows = vectors_open("amp/scaler.txt");
  char line[400], got[400];
  bool seen = false;
  mr_dynamic_scaler_state_t s = mr_dynamic_scaler_state();
  snprintf(got, sizeof got,
           "## defaults DynamicScalerState(patience=Array(%d, dtype=int32), "
           "adjust_factor=Array(%g., dtype=float32), scaler=Array(%g., dtype=float32), "
           "count=Array(%d, dtype=int32), total_resets=Array(%d, dtype=int32))\n",
           s.patience, (double)s.adjust_factor, (double)s.scaler, s.count, s.total_resets);
  while (fgets(line, sizeof line, rows)) seen |= !strcmp(line, got);
  fclose(rows);
  assert_true(seen);
}

/* One attempt of jaxamp's wrapper around narrow_fn, in the processor's own f16. */
static bool attempt(mr_dynamic_scaler_state_t *s, const float w[2], _Float16 c, float *y,
                    float grad[2]) {
  _Float16 by = (_Float16)s->scaler, part[2], sum, all;
  for (int i = 0; i < 2; i++) part[i] = (_Float16)w[i] * c;
  sum = (_Float16)((float)part[0] + (float)part[1]);
  all = sum * by;
  *y = (float)all / s->scaler;
  for (int i = 0; i < 2; i++) grad[i] = (float)(_Float16)(by * c) / s->scaler;
  bool finite = isfinite(*y) && isfinite(grad[0]) && isfinite(grad[1]);
  bool full = finite && s->count >= s->patience;
  if (full) s->scaler *= s->adjust_factor;
  if (!finite) s->scaler /= s->adjust_factor;
  s->count = !finite || full ? 0 : s->count + 1;
  s->total_resets += !finite;
  return finite;
}

static bool same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

static void random_calls_agree_with_an_oracle(void **state) {
  mr_fn_t *f = narrow_fn();
  for (round_t r = round_first(60); round_next(&r);) {
    mr_dynamic_scale_t o = {.redo_on_nan = (int)(round_bits(&r) % 8), .filter = true};
    mr_exec_t *x = scaled(f, true, &o);
    mr_dynamic_scaler_state_t a = mr_dynamic_scaler_state();
    a.patience = (int32_t)(round_bits(&r) % 4);
    a.adjust_factor = (float)(1 + round_bits(&r) % 4);
    a.scaler = ldexpf(1, (int)(round_bits(&r) % 24));
    mr_dynamic_scaler_state_t b = a;
    for (int call = 0; call < 30; call++) {
      static const _Float16 odd[] = {(_Float16)INFINITY, (_Float16)NAN, 0, (_Float16)-65504};
      float w[2], y, grad[2], want = 0, by[2];
      _Float16 c =
          (_Float16)ldexp((double)(round_bits(&r) % 2001) - 1000, (int)(round_bits(&r) % 16) - 10);
      if (round_bits(&r) % 10 == 0) c = odd[round_bits(&r) % 4];
      for (int i = 0; i < 2; i++) w[i] = ((float)(round_bits(&r) % 2001) - 1000) / 256;
      run(x, &a, 2, (const void *[]){w, &c}, 2, (void *[]){&y, grad});
      for (int k = 0; k <= o.redo_on_nan; k++)
        if (attempt(&b, w, c, &want, by)) break;
      if (memcmp(&a, &b, sizeof a) || !same(y, want) || !same(grad[0], by[0]) ||
          !same(grad[1], by[1]))
        fail_msg("seed %llu, call %d: %g %d %d, %g, %g; want %g %d %d, %g, %g",
                 (unsigned long long)r.seed, call, (double)a.scaler, a.count, a.total_resets,
                 (double)y, (double)grad[0], (double)b.scaler, b.count, b.total_resets,
                 (double)want, (double)by[0]);
    }
    mr_exec_destroy(x);
  }
  mr_fn_destroy(f);
}

/* ---- aux and filter ---- */

/* (w f32[2], n i32[], s f32[]) -> (sum(w s), s w, n + 1) */
static mr_fn_t *aux_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *n = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_var_t *s = mr_fn_input(f, mr_aval_scalar(MR_F32)), *p = mr_lax_mul(f, w, s);
  mr_var_t *y[] = {mr_lax_reduce_sum(f, p, 1, (int[]){0}), p,
                   mr_lax_add(f, n, mr_literal(f, MR_I32, 1))};
  assert_int_equal(mr_fn_return(f, 3, y), MR_OK);
  return f;
}

static void aux_passes_unscaled_and_counts(void **state) {
  mr_fn_t *f = aux_fn(), *g = NULL;
  mr_diag_t diag = {0};
  mr_dynamic_scale_t o = {.has_aux = true, .filter = true, .redo_on_nan = 2};
  /* the i32 input has no gradient */
  assert_int_equal(mr_dynamic_scale_grad(f, 3, (int[]){0, 1, 2}, &o, &g, &diag), MR_OK);
  assert_int_equal(g->n_out, STATE + 4);
  mr_exec_t *x = compiled(g);
  mr_dynamic_scaler_state_t s = mr_dynamic_scaler_state();
  float w[2] = {1, 2}, by = 3, dw[2], ds, aux[2];
  int32_t n = 4, more;
  run(x, &s, 3, (const void *[]){w, &n, &by}, 4, (void *[]){dw, &ds, aux, &more});
  assert_true(dw[0] == 3 && dw[1] == 3 && ds == 3 && aux[0] == 3 && aux[1] == 6 && more == 5);
  assert_true(s.count == 1 && s.total_resets == 0);
  w[1] = 2e38f; /* the aux is infinite, the gradient by w is not; all three attempts are alike */
  run(x, &s, 3, (const void *[]){w, &n, &by}, 4, (void *[]){dw, &ds, aux, &more});
  assert_true(dw[0] == 3 && isinf(aux[1]) && s.total_resets == 3 && s.scaler == 4096);
  mr_exec_destroy(x);

  assert_int_equal(mr_dynamic_scale_value_and_grad(f, 1, (int[]){0}, &o, &g, &diag), MR_OK);
  assert_int_equal(g->n_out, STATE + 4); /* value, two aux, one gradient */
  assert_true(g->out[STATE]->aval.ndim == 0 && g->out[STATE + 2]->aval.dtype == MR_I32);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
}

static void arguments_of_wrong_shapes_are_named(void **state) {
  mr_fn_t *f = aux_fn(), *g = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_dynamic_scale_grad(f, 1, (int[]){0}, NULL, &g, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text,
                      "dynamic_scale_grad: the function gives 3 values, want one, or "
                      "has_aux for those after it");
  diag = (mr_diag_t){0};
  mr_dynamic_scale_t o = {.has_aux = true};
  assert_int_equal(mr_dynamic_scale_grad(f, 1, (int[]){1}, &o, &g, &diag), MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "input 1 is i32[], want floats"));
  diag = (mr_diag_t){0};
  o.redo_on_nan = -1;
  assert_int_equal(mr_dynamic_scale_value_and_grad(f, 1, (int[]){0}, &o, &g, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "dynamic_scale_value_and_grad: redo_on_nan is -1, want [0,2^31-2]");
  diag = (mr_diag_t){0};
  assert_int_equal(mr_apply_if_finite(f, 1, -1, &g, &diag), MR_ERR_CONFIG);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_apply_if_finite(f, 1, 1, &g, &diag), MR_ERR_SHAPE);
  assert_string_equal(diag.text,
                      "apply_if_finite: the update takes f32[2] as value 0 and gives "
                      "f32[], want the same");
  mr_fn_destroy(f);
}

/* ---- with other transforms ---- */

/* (W f32[3,4], x f32[2,3]) -> mean(tanh(x W)^2) */
static mr_fn_t *layer_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *W = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4)),
           *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3));
  mr_var_t *y = mr_lax_integer_pow(f, mr_lax_tanh(f, mr_lax_dot(f, x, W)), 2);
  y = mr_lax_scale(f, 0.125, mr_lax_reduce_sum(f, y, 2, (int[]){0, 1}));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

static mr_fn_t *dynamic_of(const mr_fn_t *f, const mr_dynamic_scale_t *o) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  if (mr_dynamic_scale_value_and_grad(f, 1, (int[]){0}, o, &g, &diag) < 0)
    fail_msg("%s", diag.text);
  return g;
}

static void draw_floats(round_t *r, int n, float *x, float largest) {
  for (int i = 0; i < n; i++) x[i] = largest * ((float)(round_bits(r) % 2001) - 1000) / 1000;
}

/* A power of two changes no bit of f32 gradients that neither overflow nor vanish. */
static void in_f32_the_results_are_those_without_a_scale(void **state) {
  mr_fn_t *f = layer_fn(), *plain = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &plain, &diag), MR_OK);
  mr_exec_t *a = compiled(plain), *b = compiled(dynamic_of(f, NULL));
  for (round_t r = round_first(50); round_next(&r);) {
    float W[12], x[6], ya, yb, ga[12], gb[12];
    draw_floats(&r, 12, W, 1), draw_floats(&r, 6, x, 1);
    mr_dynamic_scaler_state_t s = mr_dynamic_scaler_state();
    mr_exec_run(a, (const void *[]){W, x}, (void *[]){&ya, ga});
    run(b, &s, 2, (const void *[]){W, x}, 2, (void *[]){&yb, gb});
    if (ya != yb || memcmp(ga, gb, sizeof ga) || s.count != 1)
      fail_msg("seed %llu: %g and %g", (unsigned long long)r.seed, (double)ya, (double)yb);
  }
  mr_exec_destroy(a), mr_exec_destroy(b);
  mr_fn_destroy(f);
}

/* amp of the function, of its scaled gradient, and of both: the scaler stays f32 and moves alike.
 */
static void mixed_precision_comes_before_or_after(void **state) {
  mr_fn_t *f = layer_fn(), *inner = NULL, *outer = NULL;
  mr_diag_t diag = {0};
  mr_amp_policy_t policy = mr_amp_usual(MR_F16);
  assert_int_equal(mr_amp(f, &policy, &inner, &diag), MR_OK);
  mr_fn_t *plain = dynamic_of(f, NULL);
  assert_int_equal(mr_amp(plain, &policy, &outer, &diag), MR_OK);
  for (int i = 0; i < plain->n_out; i++)
    assert_true(mr_aval_equal(&plain->out[i]->aval, &outer->out[i]->aval));
  mr_fn_destroy(plain);
  mr_exec_t *x[] = {compiled(dynamic_of(f, NULL)), compiled(dynamic_of(inner, NULL)),
                    compiled(outer)};
  for (round_t r = round_first(50); round_next(&r);) {
    float W[12], in[6], y[3], g[3][12];
    draw_floats(&r, 12, W, 1), draw_floats(&r, 6, in, 1);
    for (int i = 0; i < 3; i++) {
      mr_dynamic_scaler_state_t s = mr_dynamic_scaler_state();
      run(x[i], &s, 2, (const void *[]){W, in}, 2, (void *[]){&y[i], g[i]});
      bool good = s.count == 1 && s.scaler == (float)(32768 >> s.total_resets);
      if (!good || fabsf(y[i] - y[0]) > 4e-3f * (1 + y[0]))
        fail_msg("seed %llu, %d: scaler %g, %g", (unsigned long long)r.seed, i, (double)s.scaler,
                 (double)y[i]);
      for (int k = 0; k < 12; k++)
        if (fabsf(g[i][k] - g[0][k]) > 4e-3f)
          fail_msg("seed %llu, %d: gradient %d is %g, want %g", (unsigned long long)r.seed, i, k,
                   (double)g[i][k], (double)g[0][k]);
    }
  }
  for (int i = 0; i < 3; i++) mr_exec_destroy(x[i]);
  mr_fn_destroy(f), mr_fn_destroy(inner);
}

/* Each example has a scaler of its own, and tries as often as it needs to. */
static void mapped_calls_are_those_of_a_loop(void **state) {
  enum { B = 5 };
  mr_fn_t *f = narrow_fn(), *g = dynamic_of(f, NULL), *v = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_vmap(g, B, NULL, NULL, &v, &diag), MR_OK);
  mr_exec_t *one = compiled(g), *all = compiled(v);
  for (round_t r = round_first(50); round_next(&r);) {
    int32_t patience[B], count[B], resets[B], p[B], n[B], t[B];
    float factor[B], scaler[B], fac[B], sc[B], w[B][2], y[B], grad[B][2];
    _Float16 c[B];
    for (int i = 0; i < B; i++) {
      patience[i] = (int32_t)(round_bits(&r) % 3), count[i] = (int32_t)(round_bits(&r) % 4);
      resets[i] = (int32_t)(round_bits(&r) % 4), factor[i] = (float)(2 + round_bits(&r) % 3);
      scaler[i] = ldexpf(1, (int)(round_bits(&r) % 24));
      c[i] = (_Float16)ldexp(1 + (double)(round_bits(&r) % 100), (int)(round_bits(&r) % 10) - 5);
      draw_floats(&r, 2, w[i], 2);
    }
    mr_exec_run(all, (const void *[]){w, c, patience, factor, scaler, count, resets},
                (void *[]){p, fac, sc, n, t, y, grad});
    for (int i = 0; i < B; i++) {
      mr_dynamic_scaler_state_t s = {patience[i], factor[i], scaler[i], count[i], resets[i]};
      float want, by[2];
      run(one, &s, 2, (const void *[]){w[i], &c[i]}, 2, (void *[]){&want, by});
      if (s.scaler != sc[i] || s.count != n[i] || s.total_resets != t[i] || !same(y[i], want) ||
          !same(by[0], grad[i][0]) || !same(by[1], grad[i][1]) || p[i] != patience[i])
        fail_msg("seed %llu, example %d: %g %d %d, want %g %d %d", (unsigned long long)r.seed, i,
                 (double)sc[i], n[i], t[i], (double)s.scaler, s.count, s.total_resets);
    }
  }
  mr_exec_destroy(one), mr_exec_destroy(all);
  mr_fn_destroy(f);
}

static mr_err_t trace_dynamic(mr_fn_t *f, void *arg) {
  mr_var_t *y[STATE + 2];
  mr_fn_t *g = arg;
  if (mr_inline(f, g, f->in, y) < 0) return f->diag.code;
  return mr_fn_return(f, STATE + 2, y);
}

static void a_jitted_call_runs_it(void **state) {
  mr_fn_t *f = narrow_fn(), *g = dynamic_of(f, NULL);
  mr_queue_t *q = NULL;
  mr_jitted_t *j = NULL;
  mr_diag_t diag = {0};
  mr_array_t *in[2 + STATE] = {NULL}, *out[STATE + 2];
  float w[2] = {1, 2}, factor = 2, scaler = 0x1p20f;
  _Float16 c = 10;
  int32_t patience = 4, zero = 0;
  const void *data[] = {w, &c, &patience, &factor, &scaler, &zero, &zero};
  if (mr_queue_create(&q, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < 2 + STATE; i++)
    if (!(in[i] = mr_array_of(g->in[i]->aval, data[i], &diag))) fail_msg("%s", diag.text);
  if (mr_jitted_create(q, "scaled", trace_dynamic, g, NULL, &j, &diag) < 0)
    fail_msg("%s", diag.text);
  if (mr_jitted_call(j, 2 + STATE, in, STATE + 2, out, &diag) < 0) fail_msg("%s", diag.text);
  float got[STATE + 2][2];
  for (int i = 0; i < STATE + 2; i++)
    if (mr_array_read(out[i], got[i], &diag) < 0) fail_msg("%s", diag.text);
  int32_t count, resets;
  memcpy(&count, got[3], 4), memcpy(&resets, got[4], 4);
  assert_true(got[2][0] == 2048 && count == 1 && resets == 9 && got[5][0] == 30 && got[6][0] == 10);
  for (int i = 0; i < 2 + STATE; i++) mr_array_drop(in[i]);
  for (int i = 0; i < STATE + 2; i++) mr_array_drop(out[i]);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
  mr_fn_destroy(g), mr_fn_destroy(f);
}

/* Without a loop it has derivatives of its own; through the loop forward mode passes alone. */
static void derivatives_pass_through_one_attempt(void **state) {
  mr_fn_t *f = product_fn(), *g, *sum = mr_fn_create(), *d = NULL;
  mr_diag_t diag = {0};
  mr_dynamic_scale_t once = {.filter = true};
  g = dynamic_of(f, &once);
  mr_var_t *y[STATE + 2];
  for (int i = 0; i < g->n_in; i++) mr_fn_input(sum, g->in[i]->aval);
  assert_int_equal(mr_inline(sum, g, sum->in, y), MR_OK);
  mr_var_t *all = mr_lax_reduce_sum(sum, y[STATE + 1], 1, (int[]){0}); /* 2 s */
  mr_fn_return(sum, 1, &all);
  assert_int_equal(mr_grad(sum, 1, (int[]){1}, &d, &diag), MR_OK);
  mr_exec_t *x = compiled(d);
  float w[2] = {1, 2}, s = 3, factor = 2, scaler = 1024, got;
  int32_t patience = 1, zero = 0;
  mr_exec_run(x, (const void *[]){w, &s, &patience, &factor, &scaler, &zero, &zero},
              (void *[]){&got});
  assert_true(got == 2);
  mr_exec_destroy(x);
  mr_fn_destroy(g), mr_fn_destroy(sum);

  g = dynamic_of(f, NULL);
  assert_int_equal(mr_jvp(g, 1, (int[]){1}, &d, &diag), MR_OK);
  mr_fn_destroy(d);
  assert_int_equal(mr_vjp(g, 1, (int[]){1}, &d, &diag), MR_ERR_NORULE);
  assert_non_null(strstr(diag.text, "while"));
  mr_fn_destroy(g), mr_fn_destroy(f);
}

/* ---- apply_if_finite ---- */

/* optax.sgd(0.5): (g f32[]) -> (-0.5 g) */
static mr_fn_t *sgd_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *u = mr_lax_scale(f, -0.5, mr_fn_input(f, mr_aval_scalar(MR_F32)));
  assert_int_equal(mr_fn_return(f, 1, &u), MR_OK);
  return f;
}

static mr_exec_t *guarded(const mr_fn_t *inner, int n, int most) {
  mr_fn_t *g = NULL;
  mr_diag_t diag = {0};
  if (mr_apply_if_finite(inner, n, most, &g, &diag) < 0) fail_msg("%s", diag.text);
  return compiled(g);
}

static void updates_are_applied_as_optax_does(void **state) {
  mr_fn_t *sgd = sgd_fn();
  FILE *rows = vectors_open("amp/apply_if_finite.txt");
  char line[256], got[256], grad[16];
  mr_exec_t *x = NULL;
  mr_apply_if_finite_state_t s = {0};
  float p = 1;
  int step, most, n = 0;
  while (fgets(line, sizeof line, rows)) {
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "## N=%d", &most) == 1) {
      mr_exec_destroy(x);
      x = guarded(sgd, 1, most);
      s = mr_apply_if_finite_state();
      p = 1;
    } else if (sscanf(line, "%d %15s", &step, grad) == 2) {
      float g = strtof(grad, NULL), u;
      mr_apply_if_finite_state_t now = s;
      mr_exec_run(
          x, (const void *[]){&g, &now.notfinite_count, &now.last_finite, &now.total_notfinite},
          (void *[]){&u, &s.notfinite_count, &s.last_finite, &s.total_notfinite});
      p += u;
      snprintf(got, sizeof got, "%d %s %.9g %d %d %d", step, grad,
               isnan(p) ? (double)NAN : (double)p, s.notfinite_count, s.last_finite,
               s.total_notfinite);
      assert_string_equal(got, line);
      n++;
    }
  }
  fclose(rows);
  mr_exec_destroy(x);
  mr_fn_destroy(sgd);
  vectors_met(n, 22);
}

/* Momentum on two tensors with a further input: (g f32[2], h bf16[3], m f32[2], rate f32[]) ->
   (-rate m', 2 h, m' = m / 2 + g). */
static mr_fn_t *momentum_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *g = mr_fn_input(f, mr_aval_of(MR_F32, 2)), *h = mr_fn_input(f, mr_aval_of(MR_BF16, 3));
  mr_var_t *m = mr_fn_input(f, mr_aval_of(MR_F32, 2)),
           *rate = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *next = mr_lax_add(f, mr_lax_scale(f, 0.5, m), g);
  mr_var_t *y[] = {mr_lax_neg(f, mr_lax_mul(f, next, rate)), mr_lax_scale(f, 2, h), next};
  assert_int_equal(mr_fn_return(f, 3, y), MR_OK);
  return f;
}

static uint16_t bf16_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return (uint16_t)(bits >> 16);
}

static void the_inner_state_stays_where_an_update_is_rejected(void **state) {
  mr_fn_t *f = momentum_fn();
  for (round_t r = round_first(60); round_next(&r);) {
    int most = (int)(round_bits(&r) % 4);
    mr_exec_t *x = guarded(f, 2, most);
    mr_apply_if_finite_state_t s = mr_apply_if_finite_state();
    float m[2] = {0, 0}, want[2] = {0, 0}, rate = 0.25f;
    int row = 0, total = round_bits(&r) % 8 ? 0 : INT32_MAX - 3;
    s.total_notfinite = total;
    for (int call = 0; call < 25; call++) {
      float g[2], u[2], next[2];
      uint16_t h[3], v[3];
      draw_floats(&r, 2, g, 4);
      for (int i = 0; i < 3; i++) h[i] = bf16_of((float)(round_bits(&r) % 8));
      bool bad = round_bits(&r) % 2;
      if (bad && round_bits(&r) % 2)
        g[round_bits(&r) % 2] = round_bits(&r) % 2 ? NAN : -INFINITY;
      else if (bad)
        h[round_bits(&r) % 3] = bf16_of(INFINITY);
      mr_apply_if_finite_state_t now = s;
      mr_exec_run(x,
                  (const void *[]){g, h, &now.notfinite_count, &now.last_finite,
                                   &now.total_notfinite, m, &rate},
                  (void *[]){u, v, &s.notfinite_count, &s.last_finite, &s.total_notfinite, next});
      row = bad ? row + 1 : 0;
      if (bad && total < INT32_MAX) total++;
      bool apply = !bad || row > most;
      for (int i = 0; i < 2; i++) {
        float moved = want[i] / 2 + g[i];
        if (apply) want[i] = moved;
        if (!same(u[i], apply ? -(moved * rate) : 0) || !same(next[i], want[i]))
          fail_msg("seed %llu, call %d: update %g, state %g", (unsigned long long)r.seed, call,
                   (double)u[i], (double)next[i]);
        m[i] = next[i];
      }
      for (int i = 0; i < 3 && !apply; i++) assert_int_equal(v[i], 0);
      if (s.notfinite_count != row || s.last_finite != !bad || s.total_notfinite != total)
        fail_msg("seed %llu, call %d: %d %d %d, want %d %d %d", (unsigned long long)r.seed, call,
                 s.notfinite_count, s.last_finite, s.total_notfinite, row, !bad, total);
    }
    mr_exec_destroy(x);
  }
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_state_moves_as_jaxamps_does),
      cmocka_unit_test(results_are_computed_again_as_often_as_jaxamp_does),
      cmocka_unit_test(the_usual_state_is_jaxamps),
      cmocka_unit_test(random_calls_agree_with_an_oracle),
      cmocka_unit_test(aux_passes_unscaled_and_counts),
      cmocka_unit_test(arguments_of_wrong_shapes_are_named),
      cmocka_unit_test(in_f32_the_results_are_those_without_a_scale),
      cmocka_unit_test(mixed_precision_comes_before_or_after),
      cmocka_unit_test(mapped_calls_are_those_of_a_loop),
      cmocka_unit_test(a_jitted_call_runs_it),
      cmocka_unit_test(derivatives_pass_through_one_attempt),
      cmocka_unit_test(updates_are_applied_as_optax_does),
      cmocka_unit_test(the_inner_state_stays_where_an_update_is_rejected),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
