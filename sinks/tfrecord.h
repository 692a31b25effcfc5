/* TFRecord framing: length, checksum, data, checksum. */
#ifndef MR_SINKS_TFRECORD_H
#define MR_SINKS_TFRECORD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum { MR_TFRECORD_HEAD = 12, MR_TFRECORD_TAIL = 4 };

/* Fills in head and tail of a record of MR_TFRECORD_HEAD + n + MR_TFRECORD_TAIL bytes; the caller
   has written the n bytes of data between them. */
void mr_tfrecord_frame(uint8_t *record, size_t n);

/* Reads the records of a file, one after the other. */
typedef struct mr_tfrecords {
  FILE *file;
  uint64_t left; /* bytes of the file still to read; a longer record is not believed */
  uint8_t *data;
  size_t room; /* bytes of data */
} mr_tfrecords_t;

/* Opens a file.  MR_ERR_IO if path is no regular file that can be read.  The caller calls close
   after a failure too. */
mr_err_t mr_tfrecords_open(mr_tfrecords_t *r, const char *path, mr_diag_t *diag);

/* Sets data[0,n) to the next record, which belongs to r and lives until the next call.  MR_END at
   the end of the file, or if no complete record with right checksums follows; MR_ERR_NOMEM, without
   a sentence. */
mr_err_t mr_tfrecords_next(mr_tfrecords_t *r, const uint8_t **data, size_t *n);

void mr_tfrecords_close(mr_tfrecords_t *r); /* frees the record too; twice is fine */

#endif
