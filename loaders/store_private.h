#ifndef MR_LOADERS_STORE_PRIVATE_H
#define MR_LOADERS_STORE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "loaders/store.h"
#include "pipeline/stage.h"

enum {
  MR_STORE_PAGE = 4096,
  MR_STORE_HUGE = 2 << 20,
  MR_STORE_BEHIND = 8 << 20 /* bytes from which on reading them all is worth a thread */
};

/* Records of one fetch, read or being read. */
typedef struct mr_store_burst {
  int n;
  int64_t index[MR_BURST], number[MR_BURST]; /* [n] */
  mr_read_t read[MR_BURST];                  /* [n] into scratch */
  uint8_t *scratch;                          /* [MR_BURST][record] */
} mr_store_burst_t;

/* What one worker reads with; touched by that worker alone. */
typedef struct mr_store_lane {
  mr_reader_t *reader;
  mr_store_burst_t burst[2]; /* the last fetch's, and the next one's */
  int last;                  /* which is the last fetch's */
  bool begun;                /* the other one's reads have begun */
  uint8_t *scratch;          /* of both */
} mr_store_lane_t;

struct mr_store {
  mr_store_conf_t conf;
  char *path[MR_READER_FILES_MAX];
  uint8_t *kept;     /* NULL: nothing is kept; read by fetch only once ready */
  atomic_bool ready; /* set with release after the last byte of kept, read with acquire */
  atomic_bool stop;  /* nobody wants what is not ready yet: relaxed, the join comes after it */
  bool behind;       /* a thread fills kept while records are read as they are due */
  pthread_t keeper;
  bool whole;     /* kept holds the files, byte b of file f at f * stride + b; else the records of
                     the source in its order */
  int64_t stride; /* bytes from file to file, a multiple of a page: O_DIRECT reads into place */
  mr_read_way_t chosen; /* by the first lane, for the others */
  mr_store_lane_t lane[MR_STORE_WORKERS];
};

/* A reader of the files, whose sizes are checked. */
mr_err_t mr__store_reader(const mr_store_t *st, bool once, void *buffer, size_t len,
                          mr_reader_t **out, mr_diag_t *diag);

/* What the source says of a record by its number in the files. */
mr_err_t mr__store_check(const mr_store_t *st, int64_t number, const uint8_t *record,
                         mr_diag_t *diag);

/* Takes memory for st->kept and fills it.  With good alone, files or records that are bad leave
   nothing kept: fetch finds them one by one. */
mr_err_t mr__store_fill(mr_store_t *st, bool good_alone, mr_diag_t *diag);

/* The same in a thread of its own, which sets ready at last; false if there is none.  Stopped by
   mr__store_join, which comes before anything is freed (store_behind.c). */
bool mr__store_behind(mr_store_t *st);
void mr__store_join(mr_store_t *st);

/* Fill st->kept (store_keep.c). */
mr_err_t mr__store_keep_whole(mr_store_t *st, mr_diag_t *diag);
mr_err_t mr__store_keep_few(mr_store_t *st, mr_diag_t *diag);

/* Where the record of that number lies if the files are kept whole. */
static inline uint8_t *mr__store_place(const mr_store_t *st, int64_t number) {
  int64_t file = number / st->conf.per_file, at = number % st->conf.per_file;
  return st->kept + file * st->stride + st->conf.head + at * (int64_t)st->conf.record;
}

#endif
