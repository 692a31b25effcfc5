/* Records of one size in a few files of equal size, for the sources that read such files.

   Records that fit the memory budget are read once, in large requests on several threads, and
   fetched from memory; otherwise each fetch reads its records.  Both give the same bytes.  Where
   the page cache holds the files, the first fetches read their records while a thread loads
   everything in the background, so that the first batch comes at once.  A source that uses at least
   half of its files' records keeps the files whole; one that uses fewer keeps its records alone.
   Implemented in store.c and store_keep.c (loading, also by a background thread). */
#ifndef MR_LOADERS_LOCAL_STORE_H
#define MR_LOADERS_LOCAL_STORE_H

#include <stdbool.h>

#include "loaders/local/reader.h"

enum { MR_STORE_WORKERS = 64, MR_STORE_CHECK_MAX = 8, MR_STORE_CHECKED = 1 << 20 };

typedef struct mr_store mr_store_t;

typedef struct mr_store_conf {
  const char *const *path; /* [n_files] copied */
  int n_files;
  mr_remote_t *remote;              /* of object; lives until close */
  const mr_object_t *const *object; /* [n_files] as in mr_reader_conf_t; lives until close */
  int64_t head;                     /* bytes of a file before its first record */
  size_t record;                    /* bytes of one, at least 1 */
  int64_t per_file; /* records of each file; its size must be exactly these and the head */
  int64_t n;        /* records of the source, in [1, n_files * per_file] */
  int64_t memory;   /* most bytes to keep; -1: half of the memory available */
  mr_read_way_t backend;
  bool in_turn; /* never read ahead: a burst's reads begin when it is fetched */

  /* Returns the number in [0, n_files * per_file) of record index of the source.  A pure function;
     any thread. */
  int64_t (*locate)(const void *ctx, int64_t index);

  /* Returns MR_ERR_DATA with a sentence for an invalid record, number `at` of the file at path,
     else MR_OK.  Any thread.  NULL: every content is valid. */
  mr_err_t (*check)(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                    mr_diag_t *diag);
  size_t check_bytes; /* if check reads only the first bytes of a record, how many, up to
                         MR_STORE_CHECK_MAX: then open checks every record of the source if it has
                         at most MR_STORE_CHECKED.  0: check is called when a record is read */
  const void *ctx;    /* of both; lives until close */

  /* Files of a wrong size, read failures and invalid records fail the fetch of their records
     instead of open, which then checks nothing. */
  bool lenient;
} mr_store_conf_t;

/* Opens the files, checks their sizes, and loads the records to keep or starts to.  The caller
   ends *out with mr_store_close.  Fails as mr_reader_open and mr_reader_read; MR_ERR_DATA also for
   a file of the wrong size and for an invalid record that open has found (others fail their fetch);
   MR_ERR_CONFIG for n_files out of range; MR_ERR_NOMEM.  *out is NULL on failure. */
mr_err_t mr_store_open(mr_store_t **out, const mr_store_conf_t *conf, mr_diag_t *diag);
void mr_store_close(mr_store_t *st); /* NULL is fine */

/* Fetches records index[0,n), n <= MR_BURST: number[i] in the files, and record[i], which belongs
   to st and lives until the next fetch of this worker, in [0,MR_STORE_WORKERS).  Several workers
   may call at once.  Records in memory do not block; others are read and checked here, and fail as
   mr_reader_read and conf.check do.  MR_ERR_CONFIG for a worker out of range. */
mr_err_t mr_store_fetch(mr_store_t *st, int worker, const int64_t *index, int n, int64_t *number,
                        uint8_t **record, mr_diag_t *diag);

/* Announces that this worker's next fetch will be of index[0,n), so that their reads can begin and
   be in flight until then; the records of the last fetch stay valid.  Returns false if nothing has
   begun: the records are in memory or cannot be read ahead.  With n == 0 it starts nothing and
   returns whether reading ahead is possible.  Does not block. */
bool mr_store_ahead(mr_store_t *st, int worker, const int64_t *index, int n);

/* Returns true once the records are in memory, and then always.  Any thread. */
bool mr_store_kept(mr_store_t *st);

/* Returns whether such a store would keep its records in memory if it were opened now. */
bool mr_store_keeps(const mr_store_conf_t *conf);

/* Writes one line into text[0,n): how such a store would read its files now, and why.  Opens and
   closes the files; fails as mr_store_open, but reads and checks no record. */
mr_err_t mr_store_explain(const mr_store_conf_t *conf, char *text, size_t n, mr_diag_t *diag);

#endif
