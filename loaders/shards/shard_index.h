/* The index of one shard file: where each record's parts are.  It makes a record of any container
   a function of its index in the file.

   One format serves all containers, as one block of bytes that is read whole and never parsed: a
   head (which file, of which size, time and digest), records, parts, columns, text.  A scan of the
   shard writes a draft; the draft becomes the block, which is written to a file whole or not at
   all. A column is what parts have in common: the extension of a tar member, a feature of an
   Example. Drafts and blocks that are large lie in unlinked files (base/spill.h), so that the
   number of records is not limited by memory.  Any thread; one thread at a time on a draft. */
#ifndef MR_LOADERS_SHARDS_SHARD_INDEX_H
#define MR_LOADERS_SHARDS_SHARD_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spill.h"
#include "base/trusted.h"
#include "loaders/remote/remote.h"

enum {
  MR_SHARD_COLUMNS_MAX = 1024,       /* of a draft */
  MR_SHARD_COLUMNS_WIDE = 60 * 1024, /* of one that mr_shard_draft_widen was called for */
  MR_SHARD_NAME_MAX = 256,           /* bytes of a column's name with its final NUL */
};

/* Which state of a file the index describes. */
typedef struct mr_shard_id {
  int64_t size, mtime_ns;
  uint64_t digest; /* XXH3-64 of the first and the last 4 KiB; of an object: of its ETag */
} mr_shard_id_t;

/* The rows of the block. */
typedef struct mr_shard_record {
  uint64_t part; /* its first part; the next record's is behind its last */
  uint64_t key;  /* where its key begins in the text, NUL-terminated; 0: it has none */
} mr_shard_record_t;

typedef struct mr_shard_part {
  int64_t at, size; /* bytes of the file */
  uint32_t column;
  uint32_t item; /* of a part that holds the values of several records: which of them */
} mr_shard_part_t;

typedef struct mr_shard_column {
  uint64_t name; /* in the text */
  uint32_t kind; /* of the scan's own choice */
  uint32_t unused;
  int64_t have, least, most; /* records that have it; smallest and largest size */
} mr_shard_column_t;

/* An index in memory. */
typedef struct mr_shard_index {
  int64_t n_records;
  uint32_t n_columns;
  bool even; /* record has the row of record 0 alone: a part of record i is i times its size further
                on.  Such an index is made anew each time and not kept */
  const mr_shard_record_t *record; /* [n_records + 1]; even: [2] */
  const mr_shard_part_t *part;
  const mr_shard_column_t *column; /* [n_columns] */
  const char *text;
  const char *fault; /* why the file could not be read to its end; NULL: it could */
  void *block;       /* all of it, `bytes` of `memory` */
  size_t bytes;
  mr_spill_t memory;
} mr_shard_index_t;

/* ---- making one ---- */

typedef struct mr_shard_draft mr_shard_draft_t;

/* Returns an empty draft, which the caller ends with mr_shard_draft_free; NULL without memory. */
mr_shard_draft_t *mr_shard_draft_new(void);
void mr_shard_draft_free(mr_shard_draft_t *d); /* NULL is fine */

/* Lets a draft have as many columns as a table has. */
void mr_shard_draft_widen(mr_shard_draft_t *d);

/* Begins the next record; key (n bytes without NUL, copied) may be NULL.  MR_ERR_NOMEM. */
mr_err_t mr_shard_draft_record(mr_shard_draft_t *d, const char *key, size_t n, mr_diag_t *diag);

/* Notes in *column the column of this name and kind, which it adds if it is new.  MR_ERR_DATA for a
   name that is too long or one column too many; MR_ERR_NOMEM. */
mr_err_t mr_shard_draft_column(mr_shard_draft_t *d, const char *name, size_t n, uint32_t kind,
                               uint32_t *column, mr_diag_t *diag);

/* Counts a value of this size for the last record's column. */
void mr_shard_draft_count(mr_shard_draft_t *d, uint32_t column, int64_t size);

/* Sets the counts of a column: records that have it, their smallest and largest size. */
void mr_shard_draft_total(mr_shard_draft_t *d, uint32_t column, int64_t have, int64_t least,
                          int64_t most);

/* Adds a part to the last record.  MR_ERR_NOMEM. */
mr_err_t mr_shard_draft_part(mr_shard_draft_t *d, uint32_t column, int64_t at, int64_t size,
                             mr_diag_t *diag);

/* The same for item number `item` of a part that holds several; the column counts the size of the
   part.  MR_ERR_NOMEM. */
mr_err_t mr_shard_draft_item(mr_shard_draft_t *d, uint32_t column, int64_t at, int64_t size,
                             uint32_t item, mr_diag_t *diag);

/* Says that the file holds n >= 1 records whose parts follow each other, column by column; the
   draft's only record is the first of them. */
void mr_shard_draft_even(mr_shard_draft_t *d, int64_t n);

/* Returns the last record's parts so far, and the column of part i of them. */
int64_t mr_shard_draft_parts(const mr_shard_draft_t *d);
uint32_t mr_shard_draft_column_of(const mr_shard_draft_t *d, int64_t i);

/* Makes the index of a finished draft in memory; fault as in mr_shard_index_t, copied.  kind names
   container and version of its scan, "tar/1", at most 15 bytes.  The caller ends *out with
   mr_shard_index_close.  MR_ERR_NOMEM; *out is zeroed then. */
mr_err_t mr_shard_index_make(const mr_shard_draft_t *d, const char *kind, const mr_shard_id_t *id,
                             const char *fault, mr_shard_index_t *out, mr_diag_t *diag);

/* ---- files ---- */

/* Fills *id from an open regular file.  MR_ERR_IO with the path in the sentence. */
mr_err_t mr_shard_id_of(int fd, const char *path, mr_shard_id_t *id, mr_diag_t *diag);

/* Adds to the *id of an open file what tells apart files made anew with equal size, time and ends:
   the inode and the time of its last change, which no program sets.  An index is kept under that;
   renaming or linking a file changes it, so it says nothing of a file that stays open.  MR_ERR_IO
   as before. */
mr_err_t mr_shard_id_for_index(int fd, const char *path, mr_shard_id_t *id, mr_diag_t *diag);

/* The same of a remote object. */
void mr_shard_id_of_object(const mr_object_t *object, mr_shard_id_t *id);

/* Returns the row of record i of an index; the row behind it says where its parts end. */
static inline const mr_shard_record_t *mr_shard_index_row(const mr_shard_index_t *x, int64_t i) {
  return &x->record[x->even ? 0 : i];
}

/* Reads the index file at path into memory and checks every row there.  The caller ends *out with
   mr_shard_index_close.  MR_ERR_IO, MR_ERR_DATA if it is not an index, damaged, or that of another
   kind or state of the shard, MR_ERR_NOMEM, or MR_ERR_UNAVAILABLE if it is not to be believed
   (mr_trusted with `kept` and `trust`) or a link; *out is zeroed then. */
mr_err_t mr_shard_index_load(const char *path, const char *kind, const mr_shard_id_t *id,
                             mr_kept_t kept, const mr_trust_t *trust, mr_shard_index_t *out,
                             mr_diag_t *diag);

/* Writes the index to path, whole or not at all, for whom `trust` (NULL: this user) names.  It is
   not waited for until it is on the disk: one that a loss of power has damaged is replaced.
   MR_ERR_IO. */
mr_err_t mr_shard_index_save(const mr_shard_index_t *x, const char *path, const mr_trust_t *trust,
                             mr_diag_t *diag);

void mr_shard_index_close(mr_shard_index_t *x); /* zeroed is fine */

#endif
