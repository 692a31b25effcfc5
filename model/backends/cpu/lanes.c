/* Chooses the table of elementwise kernels for an instruction set, and is lanes_body.inc compiled
   for plain C.  Every table has the same lanes in the same order, so a fused program runs with any
   of them. */
#include "model/backends/cpu/lanes.h"

#include <stddef.h>

const mr__lanes_t *mr__lanes_of(mr_isa_t isa) {
#if defined(__x86_64__)
  if (isa >= MR_ISA_AVX512) return &mr__lanes_avx512;
  if (isa == MR_ISA_AVX2) return &mr__lanes_avx2;
#endif
  return isa == MR_ISA_PLAIN ? &mr__lanes_plain : NULL;
}

const mr__lanes_t *mr__lanes(void) { return mr__lanes_of(mr_isa()); }

/* The table for plain C. */
#define LANES mr__lanes_plain
#include "model/backends/cpu/lanes_body.inc"
