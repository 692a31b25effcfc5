/* Records of one size in a few files of one shape, for the sources that are made of such files.

   What fits the memory budget is read once, in large requests on several threads, and gathered from
   memory; what does not is read record by record when it is due.  Which of both it is changes no
   byte.  Where the page cache holds the files, the first records are read as they are due while a
   thread fetches the rest, so that the first batch comes at once.  A source that takes most records
   of its files keeps the files as they are; one that takes few keeps these alone. */
#ifndef MR_LOADERS_STORE_H
#define MR_LOADERS_STORE_H

#include <stdbool.h>

#include "loaders/reader.h"

enum { MR_STORE_WORKERS = 64, MR_STORE_CHECK_MAX = 8, MR_STORE_CHECKED = 1 << 20 };

typedef struct mr_store mr_store_t;

typedef struct mr_store_conf {
  const char *const *path; /* [n_files] copied */
  int n_files;
  int64_t head;     /* bytes of a file before its first record */
  size_t record;    /* bytes of one, at least 1 */
  int64_t per_file; /* records of each file; its size must be exactly these and the head */
  int64_t n;        /* records of the source, in [1, n_files * per_file] */
  int64_t memory;   /* bytes kept at most; -1: half of what the machine has free */
  mr_read_way_t backend;
  bool in_turn; /* reads of a burst begin when it is due, never ahead */

  /* Where record index of the source stands: a number in [0, n_files * per_file).  A pure function;
     any thread. */
  int64_t (*locate)(const void *ctx, int64_t index);

  /* MR_ERR_DATA with a sentence if a record is none: number `at` of the file at path.  Any thread.
     NULL: every content is good. */
  mr_err_t (*check)(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                    mr_diag_t *diag);
  size_t check_bytes; /* of a record's beginning, all that check looks at, up to
                         MR_STORE_CHECK_MAX: then open checks every record of the source, where it
                         has MR_STORE_CHECKED or fewer.  0: check is called once a record is read */
  const void *ctx;    /* of both; lives until close */

  /* A file that is too short or cannot be read, and records that are none, fail the fetch of what
     they hold instead of open, which then checks none. */
  bool lenient;
} mr_store_conf_t;

/* Opens the files, checks their sizes and reads what is kept or begins to.  A bad record fails open
   if it was found by then, else the fetch that wants it. */
mr_err_t mr_store_open(mr_store_t **out, const mr_store_conf_t *conf, mr_diag_t *diag);
void mr_store_close(mr_store_t *st); /* NULL is fine */

/* Finds records index[0,n), n <= MR_BURST: number[i] in the files, and record[i], which stays valid
   until the next fetch of this worker, in [0,MR_STORE_WORKERS).  Several workers may call at once.
   A record that is not kept is checked here. */
mr_err_t mr_store_fetch(mr_store_t *st, int worker, const int64_t *index, int n, int64_t *number,
                        uint8_t **record, mr_diag_t *diag);

/* This worker's next fetch will be of index[0,n): their reads may begin, and fly until then.  What
   was fetched last stays.  False: nothing has begun, they are kept or cannot be read ahead.  n == 0
   asks whether it is worth while. */
bool mr_store_ahead(mr_store_t *st, int worker, const int64_t *index, int n);

/* True once the records are kept in memory. */
bool mr_store_kept(mr_store_t *st);

/* How such a store would read its files here and now, and why: one line into text[0,n). */
mr_err_t mr_store_explain(const mr_store_conf_t *conf, char *text, size_t n, mr_diag_t *diag);

#endif
