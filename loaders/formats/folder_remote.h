/* Picture files of a folder on a server: the keys of a bucket below a prefix, or what a list names.

   What each file is (size, ETag, time) is found once and kept in an index file
   (loaders/shards/shard_index.h), as the places of records are for shard files.  Every request asks
   for that state of the file, so a resumed run reads the same bytes or names the file that has
   changed. Implemented in folder_remote.c (files and reading) and folder_index.c (the index file).
 */
#ifndef MR_LOADERS_FORMATS_FOLDER_REMOTE_H
#define MR_LOADERS_FORMATS_FOLDER_REMOTE_H

#include "loaders/formats/folder_list.h"
#include "loaders/remote/remote.h"

typedef struct mr_folder_remote mr_folder_remote_t;

/* The texts live until close. */
typedef struct mr_folder_remote_conf {
  const char *folder; /* a URL */
  const char *list;   /* file or URL; NULL: the bucket is listed */
  const char *index;  /* as in mr_shards_conf_t */
  bool relist;        /* what the index file says is found anew */
  bool allow_empty;   /* as in mr_folder_list_scan */
  bool lenient;       /* a file of the list that is not there fails its fetch instead of open */
  int64_t max_files, max_bytes;
  const mr_remote_conf_t *remote; /* copied */
} mr_folder_remote_conf_t;

/* Lists the files into *list, which is the caller's and must outlive *out, and finds out what they
   are.  Blocks, with a notice every few seconds.  The caller ends *out with mr_folder_remote_close.
   MR_ERR_CONFIG for a web server without a list; fails as mr_remote_list, mr_remote_object,
   mr_folder_list_parse and mr_folder_keys_end; *out is NULL and *list empty then. */
mr_err_t mr_folder_remote_open(mr_folder_remote_t **out, const mr_folder_remote_conf_t *conf,
                               mr_folder_list_t *list, mr_diag_t *diag);
void mr_folder_remote_close(mr_folder_remote_t *f); /* NULL is fine */

/* Returns what reads the files; it belongs to f. */
mr_remote_t *mr_folder_remote_of(const mr_folder_remote_t *f);

int64_t mr_folder_remote_bytes(const mr_folder_remote_t *f); /* returns the bytes of all files */

/* Reads files number[0,n), n <= MR_BURST, all at once: data[i] with size[i] bytes, which belong to
   f and live until the next fetch of this worker, in [0,MR_MAX_READERS).  Several workers may call
   at once.  Blocks.  Fails as mr_remote_read; MR_ERR_DATA for a file that is too large or not
   there. */
mr_err_t mr_folder_remote_fetch(mr_folder_remote_t *f, int worker, const int64_t *number, int n,
                                uint8_t **data, size_t *size, mr_diag_t *diag);

/* Announces files number[0,n), n <= MR_BURST, as mr_remote_tell does. */
int64_t mr_folder_remote_tell(mr_folder_remote_t *f, const int64_t *number, int n);

/* ---- folder_index.c ---- */

/* What is known of one file. */
typedef struct mr_folder_state {
  int64_t size, mtime_ns; /* size: -1 for a file that is not there */
  const char *etag;       /* "" without one */
} mr_folder_state_t;

/* Takes the files that an index file has, one after the other: path with a final "/" is a folder,
   whose state is NULL. */
typedef mr_err_t mr_folder_take_fn(void *ctx, const char *path, const mr_folder_state_t *state,
                                   mr_diag_t *diag);

/* Reads the index file of `name` made from a list with this digest, 0 without a list, and calls
   take for each of its entries.  where: as in mr_shards_conf_t.index; trust: who may have written
   it beside this user, NULL is fine.  MR_END without a usable one, with a notice if there is one
   that is not believed; *written_s is when it was written.  Fails as take. */
mr_err_t mr_folder_index_read(const char *name, const char *where, uint64_t digest,
                              const mr_trust_t *trust, mr_folder_take_fn *take, void *ctx,
                              int64_t *written_s, mr_diag_t *diag);

/* Writes the index file of files [0,n), each by path and state, and of n_folders folders.  One that
   cannot be written is a notice. */
typedef struct mr_folder_facts {
  const mr_folder_list_t *list;
  const char *const *folder; /* [n_folders] classes without a file */
  int n_folders;
  void (*state)(const void *ctx, int64_t i, mr_folder_state_t *out);
  const void *ctx;
} mr_folder_facts_t;
void mr_folder_index_write(const char *name, const char *where, uint64_t digest,
                           const mr_trust_t *trust, const mr_folder_facts_t *facts);

#endif
