/* Finds the records of a TFRecord file and the features of their Examples.

   Source of the format: TensorFlow, "TFRecords format details": u64 length, its masked CRC-32C,
   data, their masked CRC-32C. */
#ifndef MR_LOADERS_TFRECORD_SCAN_H
#define MR_LOADERS_TFRECORD_SCAN_H

#include "loaders/shards.h"

/* Kinds of columns in the index of a file. */
enum {
  MR_TFRECORD_RECORD, /* name "__record__": the record and the 4 bytes of its checksum */
  MR_TFRECORD_BYTES,  /* a feature of one byte string: its length */
  MR_TFRECORD_FLOAT,  /* numbers: how many */
  MR_TFRECORD_INT64,
  MR_TFRECORD_LIST,    /* a feature of no or several byte strings: how many */
  MR_TFRECORD_EXAMPLE, /* name "", no feature: the records that have features */
};

enum { MR_TFRECORD_SUM = 4 /* bytes of a checksum behind the data */ };

/* An mr_shard_scan_fn.  A record whose checksum is wrong, or that is no Example, is a record
   without features here, and a bad record when it is read. */
mr_err_t mr_tfrecord_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                          mr_diag_t *diag);

#endif
