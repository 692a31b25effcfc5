/* rows_body.inc compiled for AVX-512. */
#if defined(__x86_64__)
#define ROWS mr__rows_avx512
#include "model/backends/cpu/rows_body.inc"
#else
typedef int mr__no_rows_avx512; /* this machine has no such instructions */
#endif
