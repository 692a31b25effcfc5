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
  MR_TAR_NOTE,   /* name: what is odd about the archive, as a sentence without its path */
  MR_TAR_SAME,   /* samples that lie apart have one key; no parts */
};

enum { MR_TAR_HEAD = 512 /* bytes of a header, which stands before its member */ };

/* Whether the header before a part, head[0,MR_TAR_HEAD), is still that of the member that the scan
   found there; mr_shard_kind_t.check_head.  MR_ERR_DATA. */
mr_err_t mr_tar_check_head(const uint8_t *head, const char *key, const char *member,
                           const mr_shard_part_t *p, mr_diag_t *diag);

/* An mr_shard_scan_fn for ustar, pax and GNU archives without compression. */
mr_err_t mr_tar_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                     mr_diag_t *diag);

#endif
