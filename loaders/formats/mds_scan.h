/* Finds the samples of a shard of MosaicML Streaming (MDS, version 2), and their columns.

   A shard: u32 n, u32 offset[n+1] from the file's start, a JSON text of the columns, samples.  A
   sample: u32 size for each column without a fixed size, then all columns one after the other.
   Source of the format: streaming/base/format/mds, writer.py and encodings.py. */
#ifndef MR_LOADERS_FORMATS_MDS_SCAN_H
#define MR_LOADERS_FORMATS_MDS_SCAN_H

#include "loaders/shards/shards.h"

/* An mr_shard_scan_fn whose columns are typed (loaders/shards/shard_typed.h).  A sample whose sizes
   do not add up is a record without parts here, and a bad record when it is read. */
mr_err_t mr_mds_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                     mr_diag_t *diag);

#endif
