/* A live page as a source of records for millrace top: a thread of its own reads the page's events.
 */
#ifndef MR_APPS_TOP_PAGE_H
#define MR_APPS_TOP_PAGE_H

#include <stdbool.h>

#include "base/err.h"

typedef struct mr_top_page mr_top_page_t;

/* where: "http://host:port/", with ?token=X or with the token in MILLRACE_TOKEN.  Returns before
   anything is read.  MR_ERR_NOMEM, MR_ERR_IO (no thread), MR_ERR_UNAVAILABLE in a build without
   libcurl; *out is NULL then.  It does not keep where. */
mr_err_t mr_top_page_open(const char *where, mr_top_page_t **out, mr_diag_t *diag);
void mr_top_page_close(mr_top_page_t *p); /* NULL is fine */

/* The address without its token; lives as long as p. */
const char *mr_top_page_name(const mr_top_page_t *p);

/* The next record's JSON, the caller frees it; NULL if there is none now. */
char *mr_top_page_next(mr_top_page_t *p);

/* Whether everything that was there at the start has been taken. */
bool mr_top_page_caught_up(const mr_top_page_t *p);

/* Why no more can come, or NULL while it may; lives as long as p. */
const char *mr_top_page_over(mr_top_page_t *p);

#endif
