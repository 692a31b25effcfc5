/* Whether two names are the same to a reader: a letter with a mark may be one character (NFC, as
   most programs write it) or two (NFD, as macOS writes names of files), and marks at different
   places of a letter may come in any order.  Any thread may call all of it. */
#ifndef MR_BASE_SAME_NAME_H
#define MR_BASE_SAME_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether two texts in UTF-8 are canonically equivalent: their NFD by Unicode 14 is equal.
   Bytes that are no UTF-8 are equal to the same bytes alone.  Of more than 63 marks on one letter
   the order counts. */
bool mr_same_name(const char *a, const char *b);

/* Returns a hash that is equal for such texts. */
uint64_t mr_same_name_hash(const char *name);

#endif
