/* Prints the readers' fallback once per process. */
#include "apps/notice.h"

#include <stdatomic.h>
#include <stdio.h>

#include "loaders/reader.h"

void mr_notice_reader(void) {
  static atomic_bool said; /* relaxed: it only decides which caller prints */
  const char *why = mr_reader_fallback_seen();
  if (why && !atomic_exchange_explicit(&said, true, memory_order_relaxed))
    fprintf(stderr, "millrace: %s\n", why);
}
