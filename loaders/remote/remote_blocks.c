/* Reads of blocks whose use was not announced: what a peer asks for, and what is loaded as a whole
   or scanned for an index before records are read.  They go through the cache and the peers as
   announced uses do, so that no byte crosses the server's wire twice; blocks are kept as long as
   there is room, and make room for those whose use is known. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/halt.h"
#include "loaders/remote/remote_window_private.h"

enum { FOR_EVER = 1 << 30 /* seconds */ };

/* Begins to fetch a block that is not here.  False without memory. */
static bool begin_block(mr__window_t *w, int32_t i, bool direct) {
  mr__unit_t *u = &w->unit[i];
  if (u->chunk || u->on_disk) return true;
  if (!mr_belady_holds(w->order, (uint32_t)i)) mr_belady_hold(w->order, (uint32_t)i);
  bool held = mr_belady_holds(w->order, (uint32_t)i);
  bool found = mr__cache_has(w->conf.cache, u->object, u->at); /* perhaps by another run, a peer */
  mr__unit_place(w, u, found && !held && u->owner < 0, found);
  return found || mr__unit_fetch(w, i, direct);
}

/* The part of [at,at+n) that lies in the block of byte `from`. */
static mr_err_t copy_from_block(mr__window_t *w, const mr_remote_want_t *want, int64_t from,
                                int64_t n, int32_t i, bool direct, mr_diag_t *diag) {
  mr_err_t e = MR_END;
  for (int tries = 0; tries < 2 && e == MR_END; tries++) { /* the file of a block may be lost */
    if (w->closing) return MR_ERR_CANCEL;
    if (!begin_block(w, i, direct)) return mr_no_memory(diag, "a block");
    if (mr__unit_is_pending(&w->unit[i])) mr__unit_send(w, i);
    e = mr__unit_copy(w, i, want, from, n, diag);
  }
  return e;
}

/* Begins all blocks of a read, which lists them in unit[0,*k) and pins them. */
static mr_err_t begin_blocks(mr__window_t *w, const mr_remote_want_t *want, bool direct,
                             int32_t *unit, int32_t *k, mr_diag_t *diag) {
  const mr_object_t *o = want->object;
  int64_t block = w->conf.block, end = want->at + want->size;
  for (int64_t from = want->at / block * block; from < end; from += block) {
    int64_t size = o->size - from < block ? o->size - from : block;
    int32_t i = mr__unit_find(w, o, from, size);
    if (i == MR_NO_UNIT) i = mr__unit_add(w, o, from, size);
    if (i == MR_NO_UNIT || !begin_block(w, i, direct)) return mr_no_memory(diag, "blocks");
    w->unit[i].pins++, unit[(*k)++] = i;
  }
  for (int32_t p = 0; p < *k; p++)
    if (mr__unit_is_pending(&w->unit[unit[p]])) mr__unit_send(w, unit[p]);
  return MR_OK;
}

/* With the lock held.  direct: blocks that a peer keeps are asked of the server too. */
static mr_err_t read_blocks(mr__window_t *w, const mr_remote_want_t *want, bool direct,
                            mr_diag_t *diag) {
  int64_t block = w->conf.block, first = want->at / block * block, end = want->at + want->size;
  int32_t *unit = malloc((size_t)((end - first) / block + 1) * sizeof *unit), k = 0;
  if (!unit) return mr_no_memory(diag, "blocks");
  mr_err_t e = begin_blocks(w, want, direct, unit, &k, diag);
  for (int32_t p = 0; p < k; p++) {
    int64_t from = first + p * block, stop = from + block < end ? from + block : end;
    if (from < want->at) from = want->at;
    if (e == MR_OK) e = copy_from_block(w, want, from, stop - from, unit[p], direct, diag);
    w->unit[unit[p]].pins--;
    mr__unit_settle(w, unit[p]);
  }
  free(unit);
  return e;
}

/* Waits, at most `seconds`, until n bytes more may come to the disk, of those that `share` counts
   and that have a part of what may wait to be written.  A disk that writes nothing for as long as a
   server may be silent is waited for no more until it writes again. */
static void await_disk(mr__window_t *w, const int64_t *share, int64_t most, int64_t n,
                       double seconds) {
  int64_t end = mr_now_ns() + (int64_t)(seconds * 1e9);
  while (*share + w->writing > most - n && (*share || w->writing) && !w->stands_still) {
    int64_t writes = w->writes, until = mr_now_ns() + (int64_t)(w->conf.patience * 1e9);
    while (mr_now_ns() < until && writes == w->writes && *share + w->writing > most - n &&
           !w->stands_still) {
      if (mr_now_ns() >= end || !mr_halt_wait(&w->written, &w->lock)) return;
    }
    if (mr_now_ns() >= until && writes == w->writes && w->writing) w->stands_still = true;
  }
}

/* The disk may be slower than the network: then it sets the pace, since a block that is not kept
   would be fetched again.  Loads and answers to peers have a share each: if answers waited for
   loads, two processes that load from each other would wait for ever. */
static mr_err_t read_paced(mr__window_t *w, int64_t *share, int64_t most,
                           const mr_remote_want_t *want, bool direct, mr_diag_t *diag) {
  /* A peer waits for its answer no longer than for a server's. */
  await_disk(w, share, most, want->size, direct ? w->conf.patience / 4 : FOR_EVER);
  if (w->closing || mr_halted()) return MR_ERR_CANCEL; /* the engine may be closed by now */
  *share += want->size;
  mr_err_t e = read_blocks(w, want, direct, diag);
  *share -= want->size;
  pthread_cond_broadcast(&w->written);
  return e;
}

mr_err_t mr__window_serve(void *arg, const mr_object_t *o, int64_t at, int64_t n, uint8_t *to) {
  mr__window_t *w = arg;
  mr_remote_want_t want = {o, at, n, to};
  int64_t most = mr__window_writes_most(w) / 4;
  if (!mr__cache_takes(o)) return MR_ERR_CONFIG;
  pthread_mutex_lock(&w->lock);
  mr_err_t e = w->closing ? MR_ERR_CANCEL : read_paced(w, &w->serving, most, &want, true, NULL);
  pthread_mutex_unlock(&w->lock);
  return e;
}

mr_err_t mr__window_load(mr__window_t *w, const mr_remote_want_t *want, mr_diag_t *diag) {
  int64_t most = mr__window_writes_most(w) / 4 * 3, end = want->at + want->size;
  int64_t blocks = most / 2 / w->conf.block, piece = (blocks ? blocks : 1) * w->conf.block;
  mr_err_t e = MR_OK;
  assert(w->conf.cache && mr__cache_takes(want->object));
  pthread_mutex_lock(&w->lock);
  for (int64_t at = want->at, stop; at < end && e == MR_OK; at = stop) { /* they share no block */
    stop = at / w->conf.block * w->conf.block + piece;
    if (stop > end) stop = end;
    mr_remote_want_t some = {want->object, at, stop - at, (uint8_t *)want->to + (at - want->at)};
    e = read_paced(w, &w->loading, most, &some, false, diag);
  }
  pthread_mutex_unlock(&w->lock);
  return e;
}

void mr__window_end_serving(mr__window_t *w) {
  pthread_mutex_lock(&w->lock);
  w->closing = w->stands_still = true; /* the disk is waited for no more */
  pthread_cond_broadcast(&w->written);
  pthread_mutex_unlock(&w->lock);
}
