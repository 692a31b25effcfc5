/* The store's state, shared by store.c and store_keep.c. */
#ifndef MR_LOADERS_LOCAL_STORE_PRIVATE_H
#define MR_LOADERS_LOCAL_STORE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/halt.h"
#include "loaders/local/store.h"
#include "pipeline/stage.h"

enum {
  MR_STORE_PAGE = 4096,
  MR_STORE_HUGE = 2 << 20,
  MR_STORE_BEHIND = 8 << 20 /* bytes from which loading in the background is worth a thread */
};

/* The records of one fetch, read or being read. */
typedef struct mr_store_burst {
  int n;
  int64_t index[MR_BURST], number[MR_BURST]; /* [n] */
  mr_read_t read[MR_BURST];                  /* [n] into scratch */
  uint8_t *scratch;                          /* [MR_BURST][record] */
} mr_store_burst_t;

/* Reader and bursts of one worker; used by that worker alone. */
typedef struct mr_store_worker {
  mr_reader_t *reader;
  mr_store_burst_t burst[2]; /* of the last fetch and of the next one */
  int last;                  /* the index of the last fetch's */
  bool begun;                /* the reads of the other one have begun */
  uint8_t *scratch;          /* memory of both */
} mr_store_worker_t;

struct mr_store {
  mr_store_conf_t conf;
  char *path[MR_READER_FILES_MAX];
  uint8_t *kept;     /* the records in memory; NULL: none.  fetch reads it only when ready */
  atomic_bool ready; /* set with release after the last byte of kept, read with acquire */
  atomic_bool stop;  /* asks the background thread to end: relaxed, the join follows it */
  bool behind;       /* a background thread fills kept while fetches read their records */
  mr_halt_t halt;    /* for it */
  pthread_t keeper;
  bool whole;     /* kept holds the files, byte b of file f at f * stride + b; else the records of
                     the source in index order */
  int64_t stride; /* bytes from file to file, a multiple of a page: O_DIRECT reads into place */
  mr_read_way_t chosen;                           /* by the first worker, for the others */
  mr_store_worker_t *of_worker[MR_STORE_WORKERS]; /* from a worker's first read; NULL before */
};

/* Opens a reader of the files and checks their sizes unless lenient.  The caller closes *out.
   Fails as mr_reader_open; MR_ERR_DATA for a wrong size.  *out is NULL on failure. */
mr_err_t mr__store_reader(const mr_store_t *st, bool once, void *buffer, size_t len,
                          mr_reader_t **out, mr_diag_t *diag);

/* Calls conf.check for a record, by its number in the files; MR_OK or its failure. */
mr_err_t mr__store_check(const mr_store_t *st, int64_t number, const uint8_t *record,
                         mr_diag_t *diag);

/* Allocates st->kept and fills it.  If good_alone, bad files or records give MR_OK with st->kept
   NULL, and fetch reports them one by one.  Otherwise they fail, with st->kept NULL; MR_ERR_NOMEM
   always does. */
mr_err_t mr__store_fill(mr_store_t *st, bool good_alone, mr_diag_t *diag);

/* Starts a thread that fills st->kept and then sets ready; returns false if it cannot start.
   mr__store_join stops and joins it, before anything is freed. */
bool mr__store_behind(mr_store_t *st);
void mr__store_join(mr_store_t *st);

/* Fill st->kept with whole files or with the source's records alone.  Fail as
   mr_reader_read and conf.check; MR_ERR_CANCEL once st->stop is set. */
mr_err_t mr__store_keep_whole(mr_store_t *st, mr_diag_t *diag);
mr_err_t mr__store_keep_few(mr_store_t *st, mr_diag_t *diag);

/* Returns the record of that number if the files are kept whole; it belongs to st. */
static inline uint8_t *mr__store_place(const mr_store_t *st, int64_t number) {
  int64_t file = number / st->conf.per_file, at = number % st->conf.per_file;
  return st->kept + file * st->stride + st->conf.head + at * (int64_t)st->conf.record;
}

#endif
