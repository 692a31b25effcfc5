/* rows_body.inc compiled for AVX-512-bf16. */
#if defined(__x86_64__)
#define ROWS mr__rows_bf16
#include "model/backends/cpu/rows_body.inc"
#else
typedef int mr__no_rows_bf16; /* this machine has no such instructions */
#endif
