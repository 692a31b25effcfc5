/* Which instruction set the kernels use: the machine's best, or the one MILLRACE_ISA names
   (plain, avx2, avx512) if the machine has it.  Decided at the first call; any thread. */
#ifndef MR_MODEL_CPU_ISA_H
#define MR_MODEL_CPU_ISA_H

#include <stdbool.h>

typedef enum mr_isa { MR_ISA_PLAIN, MR_ISA_AVX2, MR_ISA_AVX512, MR_ISA_COUNT } mr_isa_t;

mr_isa_t mr_isa(void);
bool mr_isa_available(mr_isa_t isa); /* AVX512 means F, BW, DQ and VL */
const char *mr_isa_name(mr_isa_t isa);

#endif
