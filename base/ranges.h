/* Sets of numbers written as lists of numbers and ranges, "3,10-20,7". */
#ifndef MR_BASE_RANGES_H
#define MR_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MR_RANGES_MAX = 1 << 20 }; /* rows of one list */

/* Immutable once parsed, so threads may share it; zeroed, it is empty. */
typedef struct mr_ranges {
  struct mr_range {
    uint64_t first, last; /* both included */
  } * row;                /* [n] ascending, neither overlapping nor adjacent; heap */
  size_t n;
} mr_ranges_t;

/* Parses text into *r; the caller ends it with mr_ranges_fini.  "@FILE" reads the list from a file
   of at most 64 MiB.  Commas and white space separate; # begins a comment up to the end of its
   line. NULL or "" is the empty list.  On failure *r is empty: MR_ERR_CONFIG names the word that is
   no number or range, or reports more than MR_RANGES_MAX; failures of mr_read_file;
   MR_ERR_NOMEM. */
mr_err_t mr_ranges_parse(mr_ranges_t *r, const char *text, mr_diag_t *diag);
void mr_ranges_fini(mr_ranges_t *r); /* frees the rows; zeroed is fine */

/* Returns whether the set contains x, in O(log n). */
bool mr_ranges_has(const mr_ranges_t *r, uint64_t x);

#endif
