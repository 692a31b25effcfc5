#include "model/backends/cpu/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/backends/cpu/kernels.h"

static const char *const names[MR_ISA_COUNT] = {"plain", "avx2", "avx512"};
static mr_isa_t chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool mr_isa_available(mr_isa_t isa) {
  if (isa == MR_ISA_AVX512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == MR_ISA_AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

static void choose(void) {
  const char *want = getenv("MILLRACE_ISA");
  for (mr_isa_t i = MR_ISA_PLAIN; i < MR_ISA_COUNT; i++)
    if (mr_isa_available(i)) chosen = i;
  for (mr_isa_t i = MR_ISA_PLAIN; want && i < MR_ISA_COUNT; i++)
    if (!strcmp(want, names[i]) && mr_isa_available(i)) chosen = i;
}

mr_isa_t mr_isa(void) {
  pthread_once(&once, choose);
  return chosen;
}

const char *mr_isa_name(mr_isa_t isa) { return names[isa]; }
const char *mr_cpu_isa(void) { return names[mr_isa()]; }
