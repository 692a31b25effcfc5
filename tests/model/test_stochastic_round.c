/* Rounding at random: each number goes to one of its two neighbours, as often as its distance from
   them says; the draws follow from seed, step, site and element alone. */
#include "tests/vectors.h"

#include <math.h>

#include "base/dtype.h"
#include "base/isa.h"
#include "model/backends/cpu/kernels.h"
#include "model/backends/cpu/rows.h"
#include "model/model.h"
#include "tests/random.h"

enum { N = 1 << 12 };

static float wide(mr_dtype_t t, uint16_t v) {
  if (t == MR_F16) {
    _Float16 h;
    memcpy(&h, &v, sizeof h);
    return (float)h;
  }
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static float any_float(round_t *r, mr_dtype_t t) {
  uint32_t bits = (uint32_t)round_bits(r);
  float f;
  memcpy(&f, &bits, sizeof f);
  if (one_in(r, 3)) return f; /* NaN and infinities among them */
  double largest = t == MR_F16 ? 65504 : 1e4;
  double x = ldexp((double)(round_bits(r) % 2000001) - 1000000, -20) * largest;
  return (float)ldexp(x, -draw(r, t == MR_F16 ? 40 : 60));
}

/* v is x, or the largest number of t below it, or the smallest above it; finite if x is. */
static bool is_neighbour(mr_dtype_t t, float x, uint16_t v) {
  uint16_t most = t == MR_F16 ? 0x7BFF : 0x7F7F;
  float y = wide(t, v);
  if (isnan(x)) return isnan(y);
  if (isinf(x)) return y == x;
  if (!isfinite(y)) return false;
  if (fabsf(x) >= wide(t, most)) return y == copysignf(wide(t, most), x);
  if (signbit(x) != signbit(y)) return false;
  if (y == x) return true;
  /* Magnitudes of one sign are in the order of their bits. */
  bool above = fabsf(y) > fabsf(x);
  float next = wide(t, (uint16_t)(above ? v - 1 : v + 1));
  return above ? fabsf(next) < fabsf(x) : fabsf(next) > fabsf(x);
}

static void each_number_goes_to_a_neighbour_of_it(void **state) {
  static float x[N];
  static uint16_t y[N];
  static const mr_dtype_t dtype[] = {MR_BF16, MR_F16};
  for (round_t r = round_first(40); round_next(&r);)
    for (int k = 0; k < 2; k++) {
      mr_dtype_t t = dtype[k];
      for (int i = 0; i < N; i++) x[i] = any_float(&r, t);
      for (int i = 0; i < N / 8; i++) x[8 * i] = wide(t, (uint16_t)round_bits(&r)); /* exact */
      mr_stochastic_round(t, x, y, N, round_bits(&r), 3, 7);
      for (int i = 0; i < N; i++) {
        round_check(&r, is_neighbour(t, x[i], y[i]), "%s: %a went to %a", mr_dtype_name(t),
                    (double)x[i], (double)wide(t, y[i]));
        bool exact = i % 8 == 0 && !isnan(x[i]);
        round_check(&r, !exact || wide(t, y[i]) == x[i], "%a moved", (double)x[i]);
      }
    }
}

/* The mean of n roundings of x lies within five standard deviations of x. */
static void the_mean_of_many_roundings_is_the_number(void **state) {
  static float x[N];
  static uint16_t y[N];
  static const mr_dtype_t dtype[] = {MR_BF16, MR_F16};
  for (round_t r = round_first(200); round_next(&r);)
    for (int k = 0; k < 2; k++) {
      mr_dtype_t t = dtype[k];
      double sum = 0, one = any_float(&r, t), quantum = 0;
      if (!isfinite(one) || fabs(one) > 65000 || (t == MR_BF16 && fabs(one) < 1e-30)) continue;
      for (int i = 0; i < N; i++) x[i] = (float)one;
      int n = 0;
      for (uint32_t step = 0; step < 16; step++) {
        mr_stochastic_round(t, x, y, N, r.seed, 5, step);
        for (int i = 0; i < N; i++, n++) {
          double d = (double)wide(t, y[i]) - one;
          sum += d;
          if (fabs(d) > quantum) quantum = fabs(d);
        }
      }
      /* The distance of the neighbours is at most 2^-7 or 2^-10 of one, or f16's least step; a
         standard deviation is at most half of it, and f16 below 2^-14 has 16 bits of chance. */
      double q = fmax(fabs(one) * (t == MR_F16 ? 0x1p-10 : 0x1p-7), t == MR_F16 ? 0x1p-24 : 0);
      double allowed = 2.5 * q / sqrt(n) + (t == MR_F16 ? q * 0x1p-17 : 0);
      round_check(&r, fabs(sum / n) <= allowed && quantum <= q, "%s: %a is off by %g of %g",
                  mr_dtype_name(t), one, sum / n, allowed);
    }
}

/* Any piece of a tensor draws as the whole does, on each instruction set; another seed, step or
   site draws otherwise. */
static void draws_follow_from_seed_step_site_and_element(void **state) {
  static float x[N];
  static uint16_t want[N], got[N];
  static const mr_isa_t isa[] = {MR_ISA_PLAIN, MR_ISA_AVX2, MR_ISA_AVX512, MR_ISA_AVX512_BF16};
  for (round_t r = round_first(20); round_next(&r);) {
    mr_dtype_t t = one_in(&r, 2) ? MR_BF16 : MR_F16;
    uint64_t seed = round_bits(&r);
    for (int i = 0; i < N; i++) x[i] = any_float(&r, t);
    mr__rows_of(MR_ISA_PLAIN)->stochastic_round(t, x, want, 0, N, seed, 1, 2);
    for (int k = 0; k < 4; k++) {
      const mr__rows_t *rows = isa[k] <= mr_isa() ? mr__rows_of(isa[k]) : NULL;
      if (!rows) continue;
      for (int at = 0, n; at < N; at += n) {
        n = 1 + draw(&r, 300);
        if (n > N - at) n = N - at;
        rows->stochastic_round(t, x + at, got + at, at, n, seed, 1, 2);
      }
      round_check(&r, !memcmp(got, want, sizeof got), "%s differs", mr_isa_name(isa[k]));
    }
    for (int k = 0; k < 3; k++) {
      mr_stochastic_round(t, x, got, N, seed + (k == 0), 1 + (k == 1), 2 + (k == 2));
      round_check(&r, memcmp(got, want, sizeof got), "%s", "the same draws");
    }
  }
}

/* ---- the op ---- */

static mr_exec_t *compiled(mr_fn_t *f) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (f->diag.code < 0 || mr_compile(f, NULL, &x, &diag) < 0)
    fail_msg("%s%s", f->diag.text, diag.text);
  mr_fn_destroy(f);
  return x;
}

/* (x f32[300], seed, step) -> x rounded to bf16 */
static mr_fn_t *rounding_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 300)),
           *seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  mr_var_t *y =
      mr_lax_stochastic_round(f, x, MR_BF16, 9, seed, mr_fn_input(f, mr_aval_scalar(MR_U32)));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  return f;
}

static void a_mapped_example_draws_as_it_does_alone(void **state) {
  enum { B = 3, LEN = 300 };
  mr_fn_t *f = rounding_fn(), *own = NULL, *shared = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_vmap(f, B, NULL, NULL, &own, &diag), MR_OK);
  assert_int_equal(mr_vmap(f, B, (int[]){0, MR_UNMAPPED, MR_UNMAPPED}, NULL, &shared, &diag),
                   MR_OK);
  mr_exec_t *one = compiled(f), *a = compiled(own), *b = compiled(shared);
  for (round_t r = round_first(10); round_next(&r);) {
    static float x[B][LEN];
    uint16_t got[2][B][LEN], want[LEN];
    uint64_t seed[B];
    uint32_t step[B];
    for (int e = 0; e < B; e++) {
      seed[e] = round_bits(&r), step[e] = (uint32_t)round_bits(&r);
      for (int i = 0; i < LEN; i++) x[e][i] = any_float(&r, MR_BF16);
    }
    mr_exec_run(a, (const void *[]){x, seed, step}, (void *[]){got[0]});
    mr_exec_run(b, (const void *[]){x, seed, step}, (void *[]){got[1]});
    for (int e = 0; e < B; e++)
      for (int k = 0; k < 2; k++) {
        int from = k ? 0 : e;
        mr_exec_run(one, (const void *[]){x[e], &seed[from], &step[from]}, (void *[]){want});
        round_check(&r, !memcmp(got[k][e], want, sizeof want), "example %d", e);
      }
  }
  mr_exec_destroy(one), mr_exec_destroy(a), mr_exec_destroy(b);
}

static void other_dtypes_are_refused(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_BF16, 4)),
           *seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  mr_var_t *step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  assert_null(mr_lax_stochastic_round(f, x, MR_F16, 0, seed, step));
  assert_int_equal(f->diag.code, MR_ERR_SHAPE);
  assert_non_null(strstr(f->diag.text, "want f32 or f64"));
  mr_fn_destroy(f);
  f = mr_fn_create();
  x = mr_fn_input(f, mr_aval_of(MR_F32, 4)), seed = mr_fn_input(f, mr_aval_scalar(MR_U64));
  step = mr_fn_input(f, mr_aval_scalar(MR_U32));
  assert_null(mr_lax_stochastic_round(f, x, MR_F32, 0, seed, step));
  assert_non_null(strstr(f->diag.text, "want bf16 or f16"));
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_number_goes_to_a_neighbour_of_it),
      cmocka_unit_test(the_mean_of_many_roundings_is_the_number),
      cmocka_unit_test(draws_follow_from_seed_step_site_and_element),
      cmocka_unit_test(a_mapped_example_draws_as_it_does_alone),
      cmocka_unit_test(other_dtypes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
