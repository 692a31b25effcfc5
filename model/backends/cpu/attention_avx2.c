/* attention_body.inc compiled for AVX2. */
#if defined(__x86_64__)
#define ATTENTION mr__attention_avx2
#include "model/backends/cpu/attention_body.inc"
#else
typedef int mr__no_attention_avx2; /* this machine has no such instructions */
#endif
