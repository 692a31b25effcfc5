/* The background thread that loads all records while the first fetches read theirs.  It reports no
   failure: on a bad file or record nothing is kept, and the fetch of that record fails instead. */
#include "loaders/store_private.h"

static void *keeper_main(void *arg) {
  mr_store_t *st = arg;
  mr_diag_t why = {0};
  if (mr__store_fill(st, true, &why) >= 0 && st->kept)
    atomic_store_explicit(&st->ready, true, memory_order_release);
  return NULL;
}

bool mr__store_behind(mr_store_t *st) {
  st->behind = true; /* set before the thread starts, which reads it */
  if (pthread_create(&st->keeper, NULL, keeper_main, st) != 0) st->behind = false;
  return st->behind;
}

void mr__store_join(mr_store_t *st) {
  if (!st->behind) return;
  atomic_store_explicit(&st->stop, true, memory_order_relaxed);
  pthread_join(st->keeper, NULL);
}
