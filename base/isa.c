/* Chooses the instruction set once for all kernels: the one that MILLRACE_ISA names, else the
   fastest that the processor reports.  A bad MILLRACE_ISA does not fail here, in the middle of a
   kernel's choice; mr_isa_check reports it when a program starts. */
#include "base/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[MR_ISA_COUNT] = {"plain", "avx2", "avx512", "avx512-bf16"};

static struct {
  pthread_once_t once;
  mr_isa_t isa;
  mr_diag_t reported; /* what is wrong with MILLRACE_ISA */
} chosen = {.once = PTHREAD_ONCE_INIT};

#if defined(__x86_64__)
/* Older compilers have no name for it.  A system that saves AVX's registers is asked for above. */
static bool isa_has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

/* Whether dot products of bf16 pairs work at half the rate of multiply-adds and nothing in the
   processor is faster than both: on Intel's processors since Sapphire Rapids, the first with
   AVX-512 for f16, where tiles (AMX) are missing or the system does not save them, as in many
   virtual machines.  Measured on Emerald Rapids: 88.8 and 178.8 GFLOP/s a thread; AMD's Zen 4 has
   twice as many by pairs.  By the processor's name and not by a clock, so that each run has the
   same bits. */
#if defined(__x86_64__)
static bool isa_pairs_are_slow(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_INTEL_ebx) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 23 & 1)) return false; /* AVX512-FP16 */
  bool tiles = (d >> 22 & 1) && (d >> 24 & 1);                                  /* AMX */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return !tiles || (low >> 17 & 3) != 3;
}
#else
static bool isa_pairs_are_slow(void) { return false; }
#endif

bool mr_isa_available(mr_isa_t isa) {
#if defined(__x86_64__)
  if (isa == MR_ISA_AVX512_BF16)
    return mr_isa_available(MR_ISA_AVX512) && __builtin_cpu_supports("avx512bf16");
  if (isa == MR_ISA_AVX512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == MR_ISA_AVX2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && isa_has_f16c();
#endif
  return isa == MR_ISA_PLAIN;
}

mr_isa_t mr_isa_best(void) {
  mr_isa_t best = MR_ISA_PLAIN;
  for (mr_isa_t i = MR_ISA_PLAIN; i < MR_ISA_COUNT; i++)
    if (mr_isa_available(i) && (i < MR_ISA_AVX512_BF16 || !isa_pairs_are_slow())) best = i;
  return best;
}

static void isa_choose(void) {
  const char *want = getenv("MILLRACE_ISA");
  mr_isa_t i = MR_ISA_PLAIN;
  chosen.isa = mr_isa_best();
  if (!want || !*want) return;
  while (i < MR_ISA_COUNT && strcmp(want, names[i])) i++;
  if (i == MR_ISA_COUNT)
    mr_fail(&chosen.reported, MR_ERR_CONFIG,
            "MILLRACE_ISA is \"%.40s\"; expected plain, avx2, avx512 or avx512-bf16", want);
  else if (!mr_isa_available(i))
    mr_fail(&chosen.reported, MR_ERR_UNAVAILABLE,
            "MILLRACE_ISA is %s, which this machine lacks; its best is %s", names[i],
            names[chosen.isa]);
  else
    chosen.isa = i;
}

mr_isa_t mr_isa(void) {
  pthread_once(&chosen.once, isa_choose);
  return chosen.isa;
}

mr_err_t mr_isa_check(mr_diag_t *diag) {
  pthread_once(&chosen.once, isa_choose);
  return mr_diag_relay(diag, chosen.reported.code, &chosen.reported);
}

const char *mr_isa_name(mr_isa_t isa) { return names[isa]; }
