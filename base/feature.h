/* Optional libraries: which of them this build has, and what to say of a part that lacks one.

   cmake/features.cmake writes the table.  A stage or a command names in `needs` the
   libraries that it cannot work without, by their names in the table with blanks between them:
   "CURL ARCHIVE".  NULL: none. */
#ifndef MR_BASE_FEATURE_H
#define MR_BASE_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_feature {
  const char *name;     /* "CURL": MILLRACE_WITH_CURL is the build's option */
  const char *library;  /* "libcurl" */
  const char *packages; /* Debian's packages to build with it: "libcurl4-openssl-dev" */
  const char *gives;    /* what the program cannot do without it */
  const char *version;  /* that it was built with; NULL: not built in */
} mr_feature_t;

extern const mr_feature_t mr_features[]; /* ends at a NULL name */

/* Whether every name in needs is one of the table. */
bool mr_are_features(const char *needs);

/* Whether this build has all of them.  A name that the table does not have is asserted against. */
bool mr_built_in(const char *needs);

/* What a list of parts adds to the help of one, into text[0,n): " Not built in (no libcurl and
   libarchive)."; "" if the build has all.  Returns text. */
enum { MR_LACKING_MAX = 200 };
const char *mr_lacking_note(const char *needs, char *text, size_t n);

/* Fails with MR_ERR_UNAVAILABLE and the sentence for a part that is not built in, what ("data",
   "run:
   --web"): the libraries that it lacks, their packages, and the options of the build. */
mr_err_t mr_without(mr_diag_t *diag, const char *what, const char *needs);

MR_END_DECLS

#endif
