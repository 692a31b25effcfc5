/* The probes: each thread runs a short loop of multiply-adds, or copies its part of a large
   array, and the threads' rates are added. */
#include "model/backends/cpu/kernels.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/isa.h"

/* Twelve sums hide the latency of two units; an empty asm keeps the compiler from removing
   them. */
enum { SUMS = 12, TURNS = 100000, TRIES = 60 };

typedef void probe_fn(void);

/* The compiler may use the vectors that every machine of the architecture has, as in the plain
   kernels. */
enum { PLAIN_LANES = 4 };

static void plain_f32(void) {
  static volatile float one = 1, tiny = 1e-9f;
  volatile float sink;
  float s[SUMS * PLAIN_LANES] = {0}, x = one, y = tiny;
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < SUMS * PLAIN_LANES; i++) s[i] = s[i] * x + y;
  float sum = 0;
  for (int i = 0; i < SUMS * PLAIN_LANES; i++) sum += s[i];
  sink = sum;
  (void)sink;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Named variables: the compiler would keep an array that asm uses in memory. */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PROBE(name, isa, type, next, ...)               \
  __attribute__((target(isa))) static void name(void) { \
    __VA_ARGS__;                                        \
    EACH(DECLARE_##type)                                \
    for (int t = 0; t < TURNS; t++) {                   \
      EACH(next)                                        \
    }                                                   \
  }
#define DECLARE___m256(i) __m256 s##i = _mm256_setzero_ps();
#define DECLARE___m512(i) __m512 s##i = _mm512_setzero_ps();
#define KEEP(i) __asm__ volatile("" : "+v"(s##i));
#define NEXT_256(i)                   \
  s##i = _mm256_fmadd_ps(s##i, x, y); \
  __asm__ volatile("" : "+x"(s##i));
#define NEXT_512(i)                   \
  s##i = _mm512_fmadd_ps(s##i, x, y); \
  KEEP(i)
#define NEXT_BF16(i)                   \
  s##i = _mm512_dpbf16_ps(s##i, x, x); \
  KEEP(i)

PROBE(avx2_f32, "avx2,fma", __m256, NEXT_256, __m256 x = _mm256_set1_ps(1),
      y = _mm256_set1_ps(1e-9f))
PROBE(avx512_f32, "avx512f", __m512, NEXT_512, __m512 x = _mm512_set1_ps(1),
      y = _mm512_set1_ps(1e-9f))
PROBE(avx512_bf16, "avx512f,avx512bf16", __m512, NEXT_BF16,
      __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f80))

static probe_fn *limits_choose(mr_dtype_t dtype, double *lanes) {
  mr_isa_t isa = mr_isa();
  *lanes = isa >= MR_ISA_AVX512 ? 16 : isa == MR_ISA_AVX2 ? 8 : PLAIN_LANES;
  if (isa == MR_ISA_PLAIN) return plain_f32;
  if (isa == MR_ISA_AVX2) return avx2_f32;
  if (dtype != MR_BF16 || isa < MR_ISA_AVX512_BF16) return avx512_f32;
  *lanes = 32;
  return avx512_bf16;
}
#else
static probe_fn *limits_choose(mr_dtype_t dtype, double *lanes) {
  *lanes = PLAIN_LANES;
  return plain_f32;
}
#endif

/* The best rate of many tries, as any disturbance only makes a try slower. */
static double best_rate(probe_fn *probe, double work) {
  double best = 0;
  for (int i = 0; i < TRIES; i++) {
    int64_t from = mr_now_ns();
    probe();
    double rate = work / (double)(mr_now_ns() - from);
    if (rate > best) best = rate;
  }
  return best;
}

double mr_limit_fma(mr_dtype_t dtype, int threads) {
  double lanes, sum = 0;
  probe_fn *probe = limits_choose(dtype, &lanes);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += best_rate(probe, 2 * lanes * SUMS * TURNS);
  return sum;
}

enum { COPY_BYTES = 128 << 20, PIECES = 32 };

static int limits_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The rate of the median piece: threads share the memory, so the best piece of one coincides with
   the worst of another. */
static double copy_rate(char *to, const char *from, size_t n) {
  double rate[PIECES];
  size_t piece = n / PIECES;
  for (size_t i = 0; i < PIECES; i++) {
    int64_t start = mr_now_ns();
    memcpy(to + i * piece, from + i * piece, piece);
    rate[i] = 2 * (double)piece / (double)(mr_now_ns() - start + 1);
  }
  qsort(rate, PIECES, sizeof *rate, limits_by_value);
  return rate[PIECES / 2];
}

double mr_limit_copy(int threads) {
  char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
  size_t part = COPY_BYTES / (size_t)threads;
  double sum = 0;
  if (from && to) {
    memset(from, 1, COPY_BYTES), memset(to, 2, COPY_BYTES);
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
      size_t at = part * (size_t)omp_get_thread_num();
      sum += copy_rate(to + at, from + at, part);
    }
  }
  free(from), free(to);
  return sum;
}
