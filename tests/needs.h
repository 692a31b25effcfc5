/* What a test does in a build without one of the optional libraries: the whole program is left out
   by test_X.needs (tests/CMakeLists.txt), one case by NEEDS, a part of a graph by with. */
#ifndef MR_TESTS_NEEDS_H
#define MR_TESTS_NEEDS_H

#include "base/feature.h"

/* First in a test case: says what is lacking and counts as skipped. */
#define NEEDS(libraries)                                                                       \
  do {                                                                                         \
    if (mr_built_in(libraries)) break;                                                         \
    char lacking_[MR_LACKING_MAX];                                                             \
    print_message("%s:%s\n", __func__, mr_lacking_note(libraries, lacking_, sizeof lacking_)); \
    skip();                                                                                    \
  } while (0)

/* The text, or nothing where its stages are not built in. */
static inline const char *with(const char *libraries, const char *text) {
  return mr_built_in(libraries) ? text : "";
}

#endif
