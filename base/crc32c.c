/* Eight bytes at a time: by SSE 4.2's instruction, or by eight tables, each of which says what a
   byte that many places before the end does to the sum. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "base/isa.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

enum { POLYNOMIAL_BYTES = 8 };
static const uint32_t REFLECTED = 0x82F63B78;

static uint32_t table[POLYNOMIAL_BYTES][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t v = byte;
    for (int bit = 0; bit < 8; bit++) v = v >> 1 ^ (v & 1 ? REFLECTED : 0);
    table[0][byte] = v;
  }
  for (int k = 1; k < POLYNOMIAL_BYTES; k++)
    for (int byte = 0; byte < 256; byte++)
      table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xFF];
}

uint32_t mr_crc32c_plain(const void *data, size_t n) {
  const uint8_t *at = data;
  uint32_t crc = ~0u;
  pthread_once(&tables_made, make_tables);
  for (; n >= 8; n -= 8, at += 8) {
    uint32_t low, high;
    memcpy(&low, at, 4), memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
          table[4][low >> 24] ^ table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^
          table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
  }
  while (n--) crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xFF];
  return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(const void *data, size_t n) {
  const uint8_t *at = data;
  uint64_t crc = ~0u;
  for (; n >= 8; n -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  while (n--) crc = _mm_crc32_u8((uint32_t)crc, *at++);
  return ~(uint32_t)crc;
}
#endif

uint32_t mr_crc32c(const void *data, size_t n) {
#if defined(__x86_64__)
  if (mr_isa() >= MR_ISA_AVX2) return crc32c_sse42(data, n); /* AVX2 includes SSE 4.2 */
#endif
  return mr_crc32c_plain(data, n);
}
