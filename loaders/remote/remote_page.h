/* One answer of a listing. */
#ifndef MR_LOADERS_REMOTE_REMOTE_PAGE_H
#define MR_LOADERS_REMOTE_REMOTE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One object of a listing.  Belongs to the listing, until the call returns. */
typedef struct mr_listed {
  const char *path; /* below the folder, not empty; any bytes but NUL */
  int64_t size, mtime_ns;
  const char *etag; /* "" if the server gives none */
} mr_listed_t;
typedef mr_err_t mr_remote_listed_fn(void *ctx, const mr_listed_t *file, mr_diag_t *diag);

typedef struct mr__paged {
  bool more;         /* another page follows */
  const char *token; /* for which this asks; in the page, NULL without one */
  const char *wrong; /* NULL, or why the page is refused, as in "ends early" */
} mr__paged_t;

/* Parses one answer of ListObjectsV2, text[0,n) with a NUL behind it, which it changes, and calls
   fn for each object in it with its whole key as path.  MR_ERR_DATA with out->wrong, and nothing in
   diag, for anything else than a whole answer; fails as fn. */
mr_err_t mr__page_parse(char *text, size_t n, mr_remote_listed_fn *fn, void *ctx, mr__paged_t *out,
                        mr_diag_t *diag);

#endif
