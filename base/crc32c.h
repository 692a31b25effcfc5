/* CRC-32C (Castagnoli), the checksum of TFRecord files, iSCSI and ext4: polynomial 0x1EDC6F41,
   reflected, with the processor's instruction where it has one.

   Source: RFC 3720, appendix B.4 (test vectors); TensorFlow, "TFRecords format details". */
#ifndef MR_BASE_CRC32C_H
#define MR_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of data[0,n).  Any thread; cannot fail. */
uint32_t mr_crc32c(const void *data, size_t n);

/* Returns the same without the processor's instruction, for tests and other processors. */
uint32_t mr_crc32c_plain(const void *data, size_t n);

/* Returns the form in which TFRecord files store a checksum, because data may contain checksums
   itself. */
static inline uint32_t mr_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

#endif
