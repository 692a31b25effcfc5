/* Attention forward and backward, each way of computing it, against f64. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/attention_private.h"

static uint64_t rng = 88172645463325252u;
static int64_t below(int64_t n) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return (int64_t)(rng % (uint64_t)n);
}

static double at(mr_dtype_t t, const void *x, int64_t i) {
  return t == MR_F32 ? ((const float *)x)[i] : mr_bf16_to_f32(((const mr_bf16_t *)x)[i]);
}

static void put(mr_dtype_t t, void *x, int64_t i, float v) {
  if (t == MR_F32)
    ((float *)x)[i] = v;
  else
    ((mr_bf16_t *)x)[i] = mr_bf16_from_f32(v);
}

static void *zeros(mr_dtype_t t, int64_t n) {
  void *x = calloc((size_t)n, mr_dtype_size(t));
  assert_non_null(x);
  return x;
}

static void *filled(mr_dtype_t t, int64_t n, float size) {
  void *x = zeros(t, n);
  for (int64_t i = 0; i < n; i++) put(t, x, i, size * ((float)below(2001) / 1000 - 1));
  return x;
}

/* Arrays of a case; q, k, v lie packed token by token, as do their gradients. */
typedef struct arrays {
  int64_t n_qkv, n_out;
  void *qkv, *dqkv, *out, *dout;
  float *lse;
} arrays_t;

static const char *part(const mr_attention_spec_t *s, const void *qkv, int i) {
  return (const char *)qkv + (size_t)(i * s->H * s->D) * mr_dtype_size(s->t);
}

static arrays_t arrays_of(const mr_attention_spec_t *s, float size) {
  arrays_t x = {.n_qkv = s->B * s->T * s->q_tok, .n_out = s->B * s->T * s->o_tok};
  x.qkv = filled(s->t, x.n_qkv, size);
  x.dqkv = filled(s->t, x.n_qkv, size);
  x.out = filled(s->t, x.n_out, size);
  x.dout = filled(s->t, x.n_out, 1);
  x.lse = zeros(MR_F32, s->B * s->H * s->T);
  return x;
}

static void release(arrays_t *x) {
  free(x->qkv), free(x->dqkv), free(x->out), free(x->dout), free(x->lse);
}

/* f64 results of one head: out, dq, dk, dv as [T][D]. */
typedef struct expected {
  double *out, *dq, *dk, *dv, *p, *dp, lse;
  double reach; /* largest |score dp|: a score's rounding is an error of the exponent */
} expected_t;

static double dot(const mr_attention_spec_t *s, const void *x, int64_t i, const void *y,
                  int64_t j) {
  double sum = 0;
  for (int64_t d = 0; d < s->D; d++) sum += at(s->t, x, i + d) * at(s->t, y, j + d);
  return sum;
}

static double rounded(mr_dtype_t t, double v) {
  return t == MR_F32 ? v : mr_bf16_to_f32(mr_bf16_from_f32((float)v));
}

static void expect_row(const mr_attention_spec_t *s, const arrays_t *x, int64_t qkv, int64_t o,
                       int64_t i, expected_t *e) {
  const char *q = part(s, x->qkv, 0), *k = part(s, x->qkv, 1), *v = part(s, x->qkv, 2);
  int64_t T = s->T, D = s->D, tok = s->q_tok;
  double top = -INFINITY, sum = 0, mean = 0;
  for (int64_t j = 0; j < T; j++) {
    e->p[j] = s->scale * dot(s, q, qkv + i * tok, k, qkv + j * tok);
    e->dp[j] = dot(s, x->dout, o + i * s->o_tok, v, qkv + j * tok);
    top = fmax(top, e->p[j]);
    e->reach = fmax(e->reach, fabs(e->p[j]) * fmax(1, fabs(e->dp[j])));
  }
  for (int64_t j = 0; j < T; j++) sum += e->p[j] = exp(e->p[j] - top);
  for (int64_t j = 0; j < T; j++) mean += (e->p[j] /= sum) * e->dp[j];
  e->lse = top + log(sum);
  for (int64_t j = 0; j < T; j++) {
    double w = rounded(s->t, e->p[j]), ds = e->p[j] * (e->dp[j] - mean) * s->scale;
    for (int64_t d = 0; d < D; d++) {
      e->out[i * D + d] += w * at(s->t, v, qkv + j * tok + d);
      e->dv[j * D + d] += w * at(s->t, x->dout, o + i * s->o_tok + d);
      e->dq[i * D + d] += ds * at(s->t, k, qkv + j * tok + d);
      e->dk[j * D + d] += ds * at(s->t, q, qkv + i * tok + d);
    }
  }
}

/* Within a share of the largest expected value: sums cancel.  Where large scores make weights of
   0 and 1, gradients vanish and their error does not. */
static void same(const mr_attention_spec_t *s, const char *way, const char *what,
                 const double *want, const void *got, int64_t from, int64_t tok, double reach) {
  double top = 1e-3;
  for (int64_t i = 0; i < s->T * s->D; i++) top = fmax(top, fabs(want[i]));
  for (int64_t i = 0; i < s->T; i++)
    for (int64_t d = 0; d < s->D; d++) {
      double w = want[i * s->D + d], g = at(s->t, got, from + i * tok + d);
      if (!(fabs(g - w) <= (s->t == MR_F32 ? 2e-5 : 1e-2) * top + 1e-6 * reach * fmax(top, 1)))
        fail_msg("%s: %s of %s, T %d D %d: (%d,%d) is %g instead of %g", way, what,
                 mr_dtype_name(s->t), (int)s->T, (int)s->D, (int)i, (int)d, g, w);
    }
}

static void check_head(const mr_attention_spec_t *s, const arrays_t *x, int64_t b, int64_t h,
                       const char *way) {
  size_t n = (size_t)(s->T * s->D), row = (size_t)s->T;
  double *all = calloc(4 * n + 2 * row, sizeof *all);
  expected_t e = {all, all + n, all + 2 * n, all + 3 * n, all + 4 * n, all + 4 * n + row, 0, 0};
  int64_t qkv = b * s->T * s->q_tok + h * s->D, o = b * s->T * s->o_tok + h * s->D;
  for (int64_t i = 0; i < s->T; i++) {
    expect_row(s, x, qkv, o, i, &e);
    assert_true(fabs(x->lse[(b * s->H + h) * s->T + i] - e.lse) < 1e-5 * (10 + fabs(e.lse)));
  }
  same(s, way, "out", e.out, x->out, o, s->o_tok, e.reach);
  same(s, way, "dq", e.dq, part(s, x->dqkv, 0), qkv, s->q_tok, e.reach);
  same(s, way, "dk", e.dk, part(s, x->dqkv, 1), qkv, s->k_tok, e.reach);
  same(s, way, "dv", e.dv, part(s, x->dqkv, 2), qkv, s->v_tok, e.reach);
  free(all);
}

/* Elements between tokens belong to others. */
static void check_gaps(const mr_attention_spec_t *s, const arrays_t *x, const void *before) {
  for (int64_t i = 0; i < x->n_qkv; i++)
    if (i % s->q_tok >= 3 * s->H * s->D) assert_true(at(s->t, x->dqkv, i) == at(s->t, before, i));
}

/* SCALAR or a mr_isa_t: how run() computes. */
enum { SCALAR = MR_ISA_COUNT, WAYS };
static const char *way_name(int way) { return way == SCALAR ? "scalar" : mr_isa_name(way); }

static void run_head(int way, const mr_attention_spec_t *s, const mr_attention_head_t *h) {
  if (way == SCALAR) {
    mr__attention_fwd_scalar(s, h);
    mr__attention_bwd_scalar(s, h);
    return;
  }
  const mr__attention_t *a = mr__attention_of(way);
  size_t bytes = a->fwd_work(s) > a->bwd_work(s) ? a->fwd_work(s) : a->bwd_work(s);
  char *work = aligned_alloc(64, bytes + 64);
  for (size_t i = 0; i < bytes; i++)
    work[i] = (char)0xFF; /* NaN for a kernel that reads it unset */
  a->fwd(s, h, work);
  for (size_t i = 0; i < bytes; i++) work[i] = (char)0xFF;
  a->bwd(s, h, work);
  free(work);
}

static void run(int way, const mr_attention_spec_t *s, arrays_t *x) {
  const char *q = part(s, x->qkv, 0), *k = part(s, x->qkv, 1), *v = part(s, x->qkv, 2);
  char *dq = (char *)part(s, x->dqkv, 0), *dk = (char *)part(s, x->dqkv, 1);
  char *dv = (char *)part(s, x->dqkv, 2), *out = x->out, *dout = x->dout;
  for (int64_t z = 0; z < s->B * s->H; z++) {
    int64_t size = (int64_t)mr_dtype_size(s->t), b = z / s->H, h = z % s->H;
    int64_t i = (b * s->T * s->q_tok + h * s->D) * size,
            o = (b * s->T * s->o_tok + h * s->D) * size;
    mr_attention_head_t head = {.q = q + i,
                                .k = k + i,
                                .v = v + i,
                                .dout = dout + o,
                                .out = out + o,
                                .lse = x->lse + z * s->T,
                                .dq = dq + i,
                                .dk = dk + i,
                                .dv = dv + i};
    run_head(way, s, &head);
  }
}

/* The same by the public functions, on the team. */
static void run_all(const mr_attention_spec_t *s, arrays_t *x) {
  const char *q = part(s, x->qkv, 0), *k = part(s, x->qkv, 1), *v = part(s, x->qkv, 2);
  mr_attention_fwd(s, q, k, v, x->out, x->lse);
  mr_attention_bwd(s, q, k, v, x->out, x->lse, x->dout, (char *)part(s, x->dqkv, 0),
                   (char *)part(s, x->dqkv, 1), (char *)part(s, x->dqkv, 2));
}

static mr_attention_spec_t spec_of(int64_t B, int64_t T, int64_t H, int64_t D, mr_dtype_t t) {
  mr_attention_spec_t s = {.B = B, .T = T, .H = H, .D = D, .t = t, .scale = 1 / sqrtf((float)D)};
  s.q_tok = s.k_tok = s.v_tok = 3 * H * D + below(2) * 5;
  s.o_tok = H * D + below(2) * 3;
  return s;
}

static void check(int way, int64_t B, int64_t T, int64_t H, int64_t D, mr_dtype_t t, float size) {
  mr_attention_spec_t s = spec_of(B, T, H, D, t);
  arrays_t x = arrays_of(&s, size);
  void *before = zeros(t, x.n_qkv);
  memcpy(before, x.dqkv, (size_t)x.n_qkv * mr_dtype_size(t));
  run(way, &s, &x);
  for (int64_t b = 0; b < B; b++)
    for (int64_t h = 0; h < H; h++) check_head(&s, &x, b, h, way_name(way));
  check_gaps(&s, &x, before);
  free(before);
  release(&x);
}

#define EACH_WAY(way)                  \
  for (int way = 0; way < WAYS; way++) \
    if (way == SCALAR || mr_isa_available(way))

static void every_way_agrees_with_f64(void **state) {
  EACH_WAY(way) {
    for (int i = 0; i < 30; i++)
      check(way, 1 + below(3), 1 + below(i % 4 ? 70 : 230), 1 + below(3),
            below(2) ? 16 * (1 + below(4)) : 1 + below(75), i & 1 ? MR_F32 : MR_BF16,
            (float)(1 + below(3)));
    check(way, 2, 65, 8, 48, MR_BF16, 2);
    check(way, 1, 65, 2, 48, MR_F32, 2);
    if (way != SCALAR) check(way, 1, 600, 1, 32, MR_F32, 2);
  }
}

static void large_scores_do_not_overflow(void **state) {
  EACH_WAY(way) check(way, 1, 40, 2, 16, MR_F32, 30);
}

static void a_nan_in_a_query_reaches_its_row_alone(void **state) {
  static const uint32_t nans[] = {0x7fc00000u, 0x7fc12345u, 0xffc00001u};
  EACH_WAY(way) {
    for (int n = 0; n < 3; n++) {
      mr_attention_spec_t s = {.B = 1, .T = 20, .H = 1, .D = 16, .t = MR_F32, .scale = 0.25f};
      s.q_tok = s.k_tok = s.v_tok = 48, s.o_tok = 16;
      arrays_t x = arrays_of(&s, 1);
      memcpy((float *)x.qkv + 7 * 48 + 3, &nans[n], sizeof nans[n]);
      run(way, &s, &x);
      for (int64_t i = 0; i < 20 * 16; i++)
        assert_int_equal(isnan(((float *)x.out)[i]) != 0, i / 16 == 7);
      release(&x);
    }
  }
}

/* What the team computes, with 1, 2 and 3 threads, is what one thread computes head by head. */
static void threads_change_no_bit(void **state) {
  for (int n = 1; n <= 3; n++) {
    mr_attention_spec_t s = spec_of(3, 37, 2, 24, n & 1 ? MR_BF16 : MR_F32);
    arrays_t x = arrays_of(&s, 2), y = arrays_of(&s, 2);
    size_t size = mr_dtype_size(s.t);
    memcpy(y.qkv, x.qkv, (size_t)x.n_qkv * size);
    memcpy(y.dqkv, x.dqkv, (size_t)x.n_qkv * size);
    memcpy(y.out, x.out, (size_t)x.n_out * size);
    memcpy(y.dout, x.dout, (size_t)x.n_out * size);
    run(mr_isa(), &s, &x);
    omp_set_num_threads(n);
    run_all(&s, &y);
    assert_memory_equal(x.out, y.out, (size_t)x.n_out * size);
    assert_memory_equal(x.dqkv, y.dqkv, (size_t)x.n_qkv * size);
    assert_memory_equal(x.lse, y.lse, (size_t)(s.B * s.H * s.T) * sizeof(float));
    release(&x), release(&y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_agrees_with_f64),
      cmocka_unit_test(large_scores_do_not_overflow),
      cmocka_unit_test(a_nan_in_a_query_reaches_its_row_alone),
      cmocka_unit_test(threads_change_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
