/* Where `millrace top` gets its records: a run's folder that is followed, or a live page. */
#ifndef MR_APPS_TOP_FEED_H
#define MR_APPS_TOP_FEED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct mr_top_feed mr_top_feed_t;

/* where: a folder with metrics.jsonl, the http address that `train --web` prints, or the file in
   which the run keeps it (RUN/web.url).  An address without a token takes MILLRACE_TOKEN.  Returns
   before anything is read; MR_ERR_IO if there is no such file, MR_ERR_USAGE for a name that is too
   long, MR_ERR_NOMEM.  *out is NULL on failure; it does not keep where. */
mr_err_t mr_top_feed_open(const char *where, mr_top_feed_t **out, mr_diag_t *diag);
void mr_top_feed_close(mr_top_feed_t *f); /* NULL is fine */

/* The folder, or the address without its token; lives as long as f. */
const char *mr_top_feed_name(const mr_top_feed_t *f);

/* The next record's JSON, the caller frees it; NULL if there is none now.  *again: what came before
   is to be forgotten (the run was resumed and its file written anew). */
char *mr_top_feed_next(mr_top_feed_t *f, bool *again);

/* Whether everything that was there at the start has been taken: a page sends its records first,
   and then how the stages are at the moment. */
bool mr_top_feed_caught_up(const mr_top_feed_t *f);

/* Why no more can come, or NULL while it may. */
const char *mr_top_feed_over(mr_top_feed_t *f);

#endif
