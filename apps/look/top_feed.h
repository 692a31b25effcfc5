/* The source of `millrace top`'s records: a run's folder that is followed, or a live page.  One
   thread. */
#ifndef MR_APPS_LOOK_TOP_FEED_H
#define MR_APPS_LOOK_TOP_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct mr_top_feed mr_top_feed_t;

/* Opens a feed, which the caller closes.  where: a folder with metrics.jsonl, the http address that
   `train --web` prints, or the file in which the run keeps it (RUN/web.url); it is copied.  An
   address without a token uses MILLRACE_TOKEN.  bytes: of a longer file only as many of its newest
   records are read, and one validation before these.  Returns before any record is read.  MR_ERR_IO
   if there is no such file, MR_ERR_USAGE for a name that is too long, MR_ERR_UNAVAILABLE for an
   address in a build without libcurl, MR_ERR_NOMEM; *out is NULL on failure. */
mr_err_t mr_top_feed_open(const char *where, int64_t bytes, mr_top_feed_t **out, mr_diag_t *diag);
void mr_top_feed_close(mr_top_feed_t *f); /* NULL is fine */

/* Returns the folder, or the address without its token.  Belongs to f and lives as long as it. */
const char *mr_top_feed_name(const mr_top_feed_t *f);

/* Returns the next record's JSON, which the caller frees; NULL if none is available now.
   Sets *again if earlier records must be forgotten, because the run was resumed and its file
   replaced.  Never blocks. */
char *mr_top_feed_next(mr_top_feed_t *f, bool *again);

/* Returns whether all records that existed at the start have been taken.  A page sends those first,
   and then the current state of the stages. */
bool mr_top_feed_caught_up(const mr_top_feed_t *f);

/* Returns why no more records can come, or NULL while they can.  Belongs to f. */
const char *mr_top_feed_over(mr_top_feed_t *f);

#endif
