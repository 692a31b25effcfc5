/* rows_body.inc compiled for AVX-512, in a file of its own because the compiler's options for an
   instruction set hold for a whole file. rows.c chooses it at run time, only where the processor
   has the instructions. */
#if defined(__x86_64__)
#define ROWS mr__rows_avx512
#include "model/backends/cpu/rows_body.inc"
#else
typedef int mr__no_rows_avx512; /* this machine has no such instructions */
#endif
