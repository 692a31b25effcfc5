/* TFRecord framing: length, check sum, data, check sum. */
#ifndef MR_SINKS_TFRECORD_H
#define MR_SINKS_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

enum { MR_TFRECORD_HEAD = 12, MR_TFRECORD_TAIL = 4 };

/* CRC-32C (Castagnoli) of data[0,n), not masked. */
uint32_t mr_crc32c(const void *data, size_t n);

/* record: MR_TFRECORD_HEAD bytes, n of data that stand already, MR_TFRECORD_TAIL bytes. */
void mr_tfrecord_frame(uint8_t *record, size_t n);

#endif
