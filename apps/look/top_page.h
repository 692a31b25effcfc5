/* A live page as a source of records for millrace top; a thread reads the page's events.  One
   thread at a time calls.  Implemented in top_page.c, or without.c in a build without libcurl. */
#ifndef MR_APPS_LOOK_TOP_PAGE_H
#define MR_APPS_LOOK_TOP_PAGE_H

#include <stdbool.h>

#include "base/err.h"

typedef struct mr_top_page mr_top_page_t;

/* Opens a page, which the caller closes.  where: "http://host:port/", with ?token=X or with the
   token in MILLRACE_TOKEN; it is copied.  Returns before anything is read.  MR_ERR_NOMEM, MR_ERR_IO
   if no thread can start, MR_ERR_UNAVAILABLE in a build without libcurl; *out is NULL then. */
mr_err_t mr_top_page_open(const char *where, mr_top_page_t **out, mr_diag_t *diag);
void mr_top_page_close(mr_top_page_t *p); /* joins the thread; NULL is fine */

/* Returns the address without its token.  Belongs to p and lives as long as it. */
const char *mr_top_page_name(const mr_top_page_t *p);

/* Returns the next record's JSON, which the caller frees; NULL if none is available now.  Never
   blocks. */
char *mr_top_page_next(mr_top_page_t *p);

/* Returns whether all records that existed at the start have been taken. */
bool mr_top_page_caught_up(const mr_top_page_t *p);

/* Returns why no more records can come, or NULL while they can.  Belongs to p and lives as long as
   it. */
const char *mr_top_page_over(mr_top_page_t *p);

#endif
