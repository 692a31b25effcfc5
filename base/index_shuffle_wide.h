/* Simon's rounds on 64 bytes at once, for functions that WIDE compiles for AVX-512.  One
   multiplication by a matrix of bits rotates all bytes, and one ternary operation combines three
   inputs. */
#ifndef MR_BASE_INDEX_SHUFFLE_WIDE_H
#define MR_BASE_INDEX_SHUFFLE_WIDE_H

#if defined(__x86_64__)
#include <stdint.h>

#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi2,gfni,popcnt,bmi2")))

/* Bit i of a product is the parity of the argument and byte 7-i of the matrix. */
static const uint64_t ROTL1 = 0x8001020408102040, ROTL2 = 0x4080010204081020;
enum { AND_XOR = 0x6A, XOR3 = 0x96 }; /* truth tables: (a & b) ^ c; a ^ b ^ c */

/* One round on half a block: y ^ f(x) ^ key. */
WIDE static inline __m512i half_round(__m512i y, __m512i x, __m512i key) {
  __m512i once = _mm512_gf2p8affine_epi64_epi8(x, _mm512_set1_epi64((int64_t)ROTL1), 0);
  __m512i twice = _mm512_gf2p8affine_epi64_epi8(x, _mm512_set1_epi64((int64_t)ROTL2), 0);
  return _mm512_ternarylogic_epi64(y, _mm512_ternarylogic_epi64(once, x, twice, AND_XOR), key,
                                   XOR3);
}
#endif

#endif
