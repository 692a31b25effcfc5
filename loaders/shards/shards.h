/* The shard files of a data set with their indexes: finds a record by its index over all files.

   An index is made the first time a file is used and kept in a file of its own, so that later runs,
   other processes and other lists of the same files find it.  Several threads make the indexes of
   different files.  Of several processes one makes an index, and the others wait for it; where
   files cannot be locked, each makes it, and the files are equal.  A process that is killed
   meanwhile leaves whole indexes or none. */
#ifndef MR_LOADERS_SHARDS_SHARDS_H
#define MR_LOADERS_SHARDS_SHARDS_H

#include "loaders/shards/shard_file.h"
#include "loaders/shards/shard_index.h"

/* Reads the file by mr_shard_file_read and writes its records into the draft.  A fault of the
   file's contents goes to `fault` (MR_ERR_DATA): what the draft has got by then stays usable.  Any
   thread.  Failures of reading, and MR_ERR_NOMEM, go to diag. */
typedef mr_err_t mr_shard_scan_fn(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                                  mr_diag_t *diag);

typedef struct mr_shards_conf {
  const char *files;        /* names as mr_shard_names_expand takes them */
  const char *const *names; /* [n_names] instead of files, if n_names > 0 */
  int n_names;
  const char *kind;       /* of the index files, "tar/1"; NULL: indexes are cheap and not kept */
  mr_shard_scan_fn *scan; /* NULL: files without an index, of which no records are known */
  const char *index;      /* where index files are kept: "auto" (beside a file if one lies there,
                             else in $XDG_CACHE_HOME/millrace), "beside", or a folder */
  bool lenient;           /* a file with a fault gives the records before it */
  uint32_t apart;         /* columns of this kind and above stay each file's own and have no number
                             in mr_shards_t.column; 0: all are joined */
  const char
      *own; /* what mr_file_described calls files of the kind, its beginning; NULL: nothing */
  const mr_remote_conf_t *remote; /* for names that are URLs; copied.  NULL: URLs are refused */

  /* Checks file i, which is open, before its index is looked for, and may set *other (heap; the
     shard's path from then on) to a local file that holds the same bytes uncompressed.  Several
     threads call it.  NULL: files are read as they are.  Fails with a sentence that names the
     file. */
  mr_err_t (*prepare)(const void *ctx, int i, mr_shard_file_t *file, const mr_shard_id_t *id,
                      char **other, mr_diag_t *diag);

  /* Checks the contents of file i before its index is made, thus once.  MR_ERR_DATA is a fault of
     the file.  NULL: nothing is checked. */
  mr_err_t (*verify)(const void *ctx, int i, int fd, const char *path, mr_diag_t *diag);
  const void *ctx;
} mr_shards_conf_t;

typedef struct mr_shard {
  char *path;                /* a URL without user, password and query */
  char *url;                 /* a URL as it was given; NULL: a local file */
  const mr_object_t *object; /* NULL: a local file */
  bool remote;               /* an object, or a local file that was decompressed from one */
  int64_t first;             /* number of its first record */
  mr_shard_id_t id, kept;    /* kept: under which its index is kept */
  bool unpacked;             /* a decompressed file: doubted whenever it is opened */
  mr_trust_t trust;          /* its owner may have made its index too; the group of a cache may
                                have kept what is known of an object */
  mr_shard_index_t index;
  uint32_t *column; /* [index.n_columns] numbers in mr_shards_t.column; MR_SHARD_APART */
} mr_shard_t;

#define MR_SHARD_APART UINT32_MAX /* the number of a column that is not joined */

/* A column of all files. */
typedef struct mr_shards_column {
  const char *name; /* in the first index that has it */
  uint32_t kind;
  int64_t have, least, most;
} mr_shards_column_t;

/* Immutable once open, so threads may share it. */
typedef struct mr_shards {
  int n;
  mr_shard_t *shard; /* [n] */
  int64_t n_records, bytes;
  int n_columns;
  mr_shards_column_t *column; /* [n_columns] */
  mr_remote_t *remote;        /* NULL: all files are local */
} mr_shards_t;

/* Finds or makes the index of every file; keeps no file open, and each index in memory.  Blocks
   while it makes some, with a notice every few seconds.  The caller ends *out with mr_shards_close.
   Names may be URLs (loaders/remote/remote.h), whose failures are passed on.
   MR_ERR_CONFIG for wrong names; MR_ERR_IO for a file that cannot be read; MR_ERR_DATA with the
   file and the place for a fault in it, unless lenient, and for files without any record;
   MR_ERR_NOMEM.  An index file that cannot be written is a notice, not a failure.  *out is NULL on
   failure. */
mr_err_t mr_shards_open(mr_shards_t **out, const mr_shards_conf_t *conf, mr_diag_t *diag);
void mr_shards_close(mr_shards_t *s); /* NULL is fine */

/* Returns the shard that holds record number, in [0,n_records); it belongs to s. */
const mr_shard_t *mr_shards_find(const mr_shards_t *s, int64_t number);

/* Sets *part to the part of record number, in this shard, that belongs to a column of
   mr_shards_t.column.  False, with *part unchanged, if it has none. */
bool mr_shards_part(const mr_shard_t *shard, int64_t number, int column, mr_shard_part_t *part);

/* Returns the key of a record, "" without one; it lives until close. */
const char *mr_shards_key(const mr_shard_t *shard, int64_t number);

/* Returns the column of this name, -1 without one.  Sets *twice, which may be NULL, if another kind
   has the same name. */
int mr_shards_column(const mr_shards_t *s, const char *name, bool *twice);

#endif
