/* lanes_body.inc compiled for AVX-512. */
#if defined(__x86_64__)
#define LANES mr__lanes_avx512
#include "model/backends/cpu/lanes_body.inc"
#else
typedef int mr__no_lanes_avx512; /* this machine has no such instructions */
#endif
