/* Large blocks are aligned to huge pages and advised with madvise; small ones come from malloc. */
#include "base/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LINE ((size_t)64)
#define HUGE ((size_t)2 << 20)

/* Asks for huge pages for the whole ones alone; the rest keeps small pages, so no memory is
   wasted. */
static void ask_for_huge(char *at, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  (void)madvise(at, bytes / HUGE * HUGE, MADV_HUGEPAGE); /* advice: its refusal is no failure */
#else
  (void)at, (void)bytes;
#endif
}

void *mr_pages_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - 2 * HUGE) return NULL;
  size_t lines = (bytes + 2 * LINE - 1) / LINE * LINE; /* one line to spare, never 0 bytes */
  if (bytes < 2 * HUGE) return aligned_alloc(LINE, lines);
  void *at = NULL;
  if (posix_memalign(&at, HUGE, lines)) return NULL; /* aligned_alloc wants whole huge pages */
  ask_for_huge(at, lines);
  return at;
}
