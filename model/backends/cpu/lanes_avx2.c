/* lanes_body.inc compiled for AVX2, in a file of its own because the compiler's options for an
   instruction set hold for a whole file. lanes.c chooses it at run time, only where the processor
   has the instructions. */
#if defined(__x86_64__)
#define LANES mr__lanes_avx2
#include "model/backends/cpu/lanes_body.inc"
#else
typedef int mr__no_lanes_avx2; /* this machine has no such instructions */
#endif
