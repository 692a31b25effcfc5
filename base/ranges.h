/* Lists of numbers and ranges as people write them, "3,10-20,7": which numbers are in one. */
#ifndef MR_BASE_RANGES_H
#define MR_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { MR_RANGES_MAX = 1 << 20 }; /* rows of one list */

/* Immutable once parsed; zeroed: empty. */
typedef struct mr_ranges {
  struct mr_range {
    uint64_t first, last; /* both inside */
  } * row;                /* [n] ascending, apart */
  size_t n;
} mr_ranges_t;

/* Parses text; "@FILE" takes the file's text, in which newlines stand for commas too and # begins a
   comment.  NULL or "" is the empty list.  MR_ERR_CONFIG names the word that is none; MR_ERR_IO. */
mr_err_t mr_ranges_parse(mr_ranges_t *r, const char *text, mr_diag_t *diag);
void mr_ranges_fini(mr_ranges_t *r); /* zeroed is fine */

bool mr_ranges_has(const mr_ranges_t *r, uint64_t x); /* O(log n) */

#endif
