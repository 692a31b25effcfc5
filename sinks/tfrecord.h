/* TFRecord framing: length, check sum, data, check sum. */
#ifndef MR_SINKS_TFRECORD_H
#define MR_SINKS_TFRECORD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum { MR_TFRECORD_HEAD = 12, MR_TFRECORD_TAIL = 4 };

/* CRC-32C (Castagnoli) of data[0,n), not masked. */
uint32_t mr_crc32c(const void *data, size_t n);

/* record: MR_TFRECORD_HEAD bytes, n of data that stand already, MR_TFRECORD_TAIL bytes. */
void mr_tfrecord_frame(uint8_t *record, size_t n);

/* The records of a file, one after the other. */
typedef struct mr_tfrecords {
  FILE *file;
  uint64_t left; /* bytes of the file that are still to come: no length is believed beyond it */
  uint8_t *data;
  size_t room; /* bytes of data */
} mr_tfrecords_t;

/* Close it also after a failure: MR_ERR_IO, path is no regular file that can be read. */
mr_err_t mr_tfrecords_open(mr_tfrecords_t *r, const char *path, mr_diag_t *diag);

/* Sets data[0,n) to the next record, which stays until the next call.  MR_END where the file ends,
   or what follows is no whole record with right check sums; MR_ERR_NOMEM. */
mr_err_t mr_tfrecords_next(mr_tfrecords_t *r, const uint8_t **data, size_t *n);

void mr_tfrecords_close(mr_tfrecords_t *r); /* frees the record too */

#endif
