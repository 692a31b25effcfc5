/* Finds the samples of a WebDataset archive: members that follow each other and have the same name
   up to the first dot.

   Sources of the format: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar's manual, "Basic
   Tar Format". */
#ifndef MR_LOADERS_FORMATS_TAR_SCAN_H
#define MR_LOADERS_FORMATS_TAR_SCAN_H

#include "loaders/shards/shards.h"

/* Kinds of columns in the index of an archive. */
enum {
  MR_TAR_MEMBER, /* name: the extension, in lower case, without its dot */
  MR_TAR_KEY,    /* name "__key__": sizes of keys, and no parts */
  MR_TAR_LEFT,   /* name "EXT\tREASON": members that have no contents of their own; no parts */
};

/* An mr_shard_scan_fn for ustar, pax and GNU archives without compression. */
mr_err_t mr_tar_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                     mr_diag_t *diag);

#endif
