#include "sinks/tfrecord.h"

#include <string.h>

/* CRC-32C (Castagnoli), a nibble at a time: an event is short and one comes a step. */
uint32_t mr_crc32c(const void *data, size_t n) {
  static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                     0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                     0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                     0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  const uint8_t *p = data;
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

/* The format masks its sums, since data may hold sums itself. */
static void put_sum(uint8_t *at, const void *data, size_t n) {
  uint32_t crc = mr_crc32c(data, n), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(masked >> 8 * i);
}

void mr_tfrecord_frame(uint8_t *record, size_t n) {
  for (int i = 0; i < 8; i++) record[i] = (uint8_t)((uint64_t)n >> 8 * i);
  put_sum(record + 8, record, 8);
  put_sum(record + MR_TFRECORD_HEAD + n, record + MR_TFRECORD_HEAD, n);
}
