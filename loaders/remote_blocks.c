/* Reads of blocks that were not announced: those that peers ask for. */
#include <stdlib.h>

#include "loaders/remote_window_private.h"

/* Begins to fetch what a peer asks for and is not here.  False without memory. */
static bool begin_serving(mr__window_t *w, int32_t i) {
  mr__unit_t *u = &w->unit[i];
  if (u->chunk || u->on_disk) return true;
  if (!mr_belady_holds(w->order, (uint32_t)i)) mr_belady_hold(w->order, (uint32_t)i);
  if (mr_belady_holds(w->order, (uint32_t)i))
    mr__unit_place(w, u, false, mr__cache_has(w->conf.cache, u->object, u->at));
  return u->on_disk || mr__unit_fetch(w, i, true);
}

/* The part of [at,at+n) that lies in the block of byte `from`. */
static mr_err_t serve_unit(mr__window_t *w, const mr_remote_want_t *want, int64_t from, int64_t n,
                           int32_t i) {
  mr_err_t e = MR_END;
  for (int tries = 0; tries < 2 && e == MR_END; tries++) { /* the file of a block may be lost */
    if (w->closing) return MR_ERR_CANCEL;
    if (!begin_serving(w, i)) return MR_ERR_NOMEM;
    if (mr__unit_is_pending(&w->unit[i])) mr__unit_send(w, i);
    e = mr__unit_copy(w, i, want, from, n, NULL);
  }
  return e;
}

mr_err_t mr__window_serve(void *arg, const mr_object_t *o, int64_t at, int64_t n, uint8_t *to) {
  mr__window_t *w = arg;
  mr_remote_want_t want = {o, at, n, to};
  int64_t block = w->conf.block, first = at / block * block, end = at + n;
  int32_t *unit = malloc((size_t)((end - first) / block + 1) * sizeof *unit), k = 0;
  mr_err_t e = unit && mr__cache_takes(o) ? MR_OK : MR_ERR_NOMEM;
  pthread_mutex_lock(&w->lock);
  if (w->closing) e = MR_ERR_CANCEL;
  for (int64_t from = first; from < end && e >= 0; from += block) { /* all are asked for at once */
    int64_t size = o->size - from < block ? o->size - from : block;
    int32_t i = mr__unit_find(w, o, from, size);
    if (i == MR_NO_UNIT) i = mr__unit_add(w, o, from, size);
    if (i == MR_NO_UNIT || !begin_serving(w, i)) {
      e = MR_ERR_NOMEM;
      break;
    }
    w->unit[i].pins++, unit[k++] = i;
  }
  for (int32_t p = 0; p < k; p++)
    if (mr__unit_is_pending(&w->unit[unit[p]])) mr__unit_send(w, unit[p]);
  for (int32_t p = 0; p < k; p++) {
    int64_t from = first + p * block, stop = from + block < end ? from + block : end;
    if (from < at) from = at;
    if (e >= 0) e = serve_unit(w, &want, from, stop - from, unit[p]);
    w->unit[unit[p]].pins--;
    mr__unit_settle(w, unit[p]);
  }
  pthread_mutex_unlock(&w->lock);
  free(unit);
  return e;
}

void mr__window_end_serving(mr__window_t *w) {
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  pthread_mutex_unlock(&w->lock);
}
