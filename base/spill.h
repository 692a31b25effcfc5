/* Arrays that may be larger than the machine's memory.  They lie on the heap until those of the
   process exceed a limit together; larger ones then lie in unlinked files of their own, mapped
   shared: the kernel writes their pages out and evicts them when memory is short.  No other process
   can change them.

   The files are made in $TMPDIR, /var/tmp or /tmp, and their space is reserved, so that writing to
   them cannot fail later.  Where that is impossible, the heap takes the array.  Any thread; one
   thread at a time on an array. */
#ifndef MR_BASE_SPILL_H
#define MR_BASE_SPILL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct mr_spill {
  void *at;     /* aligned for any type; moves when the array grows */
  size_t bytes; /* that may be used at `at` */
  int fd;       /* of a mapped array that may grow, else -1 */
  bool mapped;
} mr_spill_t;

/* An array without bytes. */
#define MR_SPILL_NONE ((mr_spill_t){.fd = -1})

/* Makes the array at least `bytes` long and keeps its contents; new bytes are undefined.  MR_OK, or
   MR_ERR_NOMEM with a sentence on `what`, such as "an index"; the array is as it was then. */
mr_err_t mr_spill_grow(mr_spill_t *s, size_t bytes, const char *what, mr_diag_t *diag);

/* Says that the array will not grow any more, which saves a descriptor. */
void mr_spill_settle(mr_spill_t *s);

/* Leaves an array without bytes. */
void mr_spill_free(mr_spill_t *s);

/* Bytes of all arrays that may lie on the heap; tests lower it before they make the first. */
extern size_t mr__spill_heap_max;

#endif
