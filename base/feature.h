/* Optional libraries: which of them this build has, and the sentence for a part that lacks one.

   cmake/features.cmake generates the table.  A stage or a command lists in `needs` the libraries
   that it requires, by their names in the table, separated by spaces: "CURL ARCHIVE".  NULL: none.
   Any thread. */
#ifndef MR_BASE_FEATURE_H
#define MR_BASE_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef struct mr_feature {
  const char *name;    /* "CURL" */
  const char *option;  /* of the build, set to AUTO, ON or OFF: "MILLRACE_WITH_CURL" */
  const char *library; /* "libcurl" */
  const char
      *packages;       /* Debian's packages to build with it, "libcurl4-openssl-dev", or NVIDIA's */
  const char *gives;   /* what the program can do only with it */
  const char *version; /* the version built in; NULL: not built in */
} mr_feature_t;

extern const mr_feature_t mr_features[]; /* static; ends at a NULL name */

/* Returns whether the table has every name in needs. */
bool mr_are_features(const char *needs);

/* Returns whether this build has every library in needs.  Asserts that the table has the names. */
bool mr_built_in(const char *needs);

enum { MR_LACKING_MAX = 200 };

/* Writes the note that a list of stages or commands adds to a help text, " Not built in (no libcurl
   and libarchive).", into the caller's text[0,n), n >= 1; "" if the build has all.  Returns
   text. */
const char *mr_lacking_note(const char *needs, char *text, size_t n);

/* Always returns MR_ERR_UNAVAILABLE, for a stage or command that is not built in.  The sentence
   begins with `what` ("data", "run: --web") and names the missing libraries, their packages and the
   build options. */
mr_err_t mr_without(mr_diag_t *diag, const char *what, const char *needs);

MR_END_DECLS

#endif
