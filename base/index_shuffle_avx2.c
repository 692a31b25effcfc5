/* index_shuffle_body.inc compiled for AVX2: three vectors of eight 32-bit indices are shuffled
   together, so that the rounds of one overlap with those of the others.  Elsewhere the symbol
   exists but is never called. */
#if defined(__x86_64__)
#define WIDTH 32
#define VECTORS 3
#define WALK mr__index_shuffle_avx2
#include "base/index_shuffle_body.inc"
#else
#include <assert.h>

#include "base/index_shuffle_private.h"

void mr__index_shuffle_avx2(const mr_index_shuffle_t *s, mr__goes_t goes) {
  assert(!"there is no such set on this machine");
}
#endif
