/* Four lanes of 64 bits, each with two sums and two products.  Packets of 32 bytes are
   little-endian, as every machine that millrace supports is. */
#include "base/highway.h"

#include <string.h>

typedef struct highway {
  uint64_t v0[4], v1[4], mul0[4], mul1[4];
} highway_t;

static uint64_t swap_halves(uint64_t x) { return x >> 32 | x << 32; }

/* The bytes that the masks name, moved so that each output byte depends on a strong one. */
static uint64_t zipper_low(uint64_t v1, uint64_t v0) {
  return ((v0 & 0xFF000000) | (v1 & 0xFF00000000)) >> 24 |
         ((v0 & 0xFF0000000000) | (v1 & 0xFF000000000000)) >> 16 | (v0 & 0xFF0000) |
         (v0 & 0xFF00) << 32 | (v1 & 0xFF00000000000000) >> 8 | v0 << 56;
}

static uint64_t zipper_high(uint64_t v1, uint64_t v0) {
  return ((v1 & 0xFF000000) | (v0 & 0xFF00000000)) >> 24 | (v1 & 0xFF0000) |
         (v1 & 0xFF0000000000) >> 16 | (v1 & 0xFF00) << 24 | (v0 & 0xFF000000000000) >> 8 |
         (v1 & 0xFF) << 48 | (v0 & 0xFF00000000000000);
}

static void zipper_add(const uint64_t from[4], uint64_t to[4]) {
  for (int i = 0; i < 4; i += 2) {
    to[i] += zipper_low(from[i + 1], from[i]);
    to[i + 1] += zipper_high(from[i + 1], from[i]);
  }
}

static void highway_update(highway_t *h, const uint64_t lane[4]) {
  for (int i = 0; i < 4; i++) {
    h->v1[i] += h->mul0[i] + lane[i];
    h->mul0[i] ^= (h->v1[i] & 0xFFFFFFFF) * (h->v0[i] >> 32);
    h->v0[i] += h->mul1[i];
    h->mul1[i] ^= (h->v0[i] & 0xFFFFFFFF) * (h->v1[i] >> 32);
  }
  zipper_add(h->v1, h->v0);
  zipper_add(h->v0, h->v1);
}

/* The last bytes, fewer than 32. */
static void highway_rest(highway_t *h, const uint8_t *data, size_t n) {
  uint8_t packet[32] = {0};
  uint64_t lane[4];
  size_t whole = n & ~(size_t)3, odd = n & 3;
  const uint8_t *rest = data + whole;
  for (int i = 0; i < 4; i++) {
    uint32_t low = (uint32_t)h->v1[i],
             high = (uint32_t)(h->v1[i] >> 32); /* n > 0: no shift by 32 */
    h->v0[i] += ((uint64_t)n << 32) + n;
    h->v1[i] = (uint64_t)(high << n | high >> (32 - n)) << 32 | (low << n | low >> (32 - n));
  }
  memcpy(packet, data, whole);
  if (n & 16) {
    memcpy(packet + 28, data + n - 4, 4);
  } else if (odd) {
    packet[16] = rest[0], packet[17] = rest[odd >> 1], packet[18] = rest[odd - 1];
  }
  memcpy(lane, packet, sizeof lane);
  highway_update(h, lane);
}

uint64_t mr_highway64(const uint64_t key[4], const void *data, size_t n) {
  highway_t h = {
      .mul0 = {0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3},
      .mul1 = {0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377}};
  const uint8_t *at = data;
  uint64_t lane[4];
  for (int i = 0; i < 4; i++) {
    h.v0[i] = h.mul0[i] ^ key[i];
    h.v1[i] = h.mul1[i] ^ swap_halves(key[i]);
  }
  for (; n >= 32; n -= 32, at += 32) {
    memcpy(lane, at, sizeof lane);
    highway_update(&h, lane);
  }
  if (n) highway_rest(&h, at, n);
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 4; k++) lane[k] = swap_halves(h.v0[(k + 2) % 4]);
    highway_update(&h, lane);
  }
  return h.v0[0] + h.v1[0] + h.mul0[0] + h.mul1[0];
}
