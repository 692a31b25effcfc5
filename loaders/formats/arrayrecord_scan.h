/* Finds the records of an ArrayRecord file and the features of their Examples.

   An ArrayRecord file is a Riegeli file (loaders/formats/riegeli.h) whose records lie in chunks of
   type 'r'. Behind them a footer, a chunk too, lists them: {1: {1: version, 2: chunks, 3:
   records}}, then {1: offset, 2: decoded bytes, 3: records} for each.  A postscript, a chunk in the
   last 64 KiB, says three times where the footer is: {1: offset, 2: magic}.

   Source of the format: array_record, cpp/layout.proto and array_record_writer.cc. */
#ifndef MR_LOADERS_FORMATS_ARRAYRECORD_SCAN_H
#define MR_LOADERS_FORMATS_ARRAYRECORD_SCAN_H

#include "loaders/shards/shards.h"

/* An mr_shard_scan_fn; columns are of the kinds of loaders/formats/shard_example.h, and each record
   has the chunk that it is in as a part, by its item.  Records of a damaged chunk are without
   features here, and bad records when they are read. */
mr_err_t mr_arrayrecord_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                             mr_diag_t *diag);

#endif
