/* Finds the records of a TFRecord file and the features of their Examples.

   Source of the format: TensorFlow, "TFRecords format details": u64 length, its masked CRC-32C,
   data, their masked CRC-32C. */
#ifndef MR_LOADERS_FORMATS_TFRECORD_SCAN_H
#define MR_LOADERS_FORMATS_TFRECORD_SCAN_H

#include "loaders/shards/shards.h"

enum { MR_TFRECORD_SUM = 4 /* bytes of a checksum behind the data */ };

/* An mr_shard_scan_fn; columns are of the kinds of loaders/formats/shard_example.h, and that of
   records counts the checksum.  A record whose checksum is wrong, or that is no Example, is a
   record without features here, and a bad record when it is read. */
mr_err_t mr_tfrecord_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                          mr_diag_t *diag);

#endif
