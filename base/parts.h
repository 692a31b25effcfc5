/* Cutting a row of things into parts of nearly the same size: the records of a batch into the parts
   of a step, and those parts among ranks.  All that cut the same numbers cut at the same
   places.
 */
#ifndef MR_BASE_PARTS_H
#define MR_BASE_PARTS_H

#include <stdint.h>

/* Returns where part k of n things begins, k in [0,parts], parts > 0, n >= 0; part `parts` begins
   at n.  The first parts have one more if they are uneven.  Cannot fail. */
static inline int64_t mr_part_begins(int64_t n, int64_t parts, int64_t k) {
  int64_t more = n % parts;
  return k * (n / parts) + (k < more ? k : more);
}

#endif
