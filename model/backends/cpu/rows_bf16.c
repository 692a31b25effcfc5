/* rows_body.inc compiled for AVX-512 with conversions of bf16, in a file of its own because the
   compiler's options for an instruction set hold for a whole file. rows.c chooses it at run time,
   only where the processor has the instructions. */
#if defined(__x86_64__)
#define ROWS mr__rows_bf16
#include "model/backends/cpu/rows_body.inc"
#else
typedef int mr__no_rows_bf16; /* this machine has no such instructions */
#endif
