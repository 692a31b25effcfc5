/* Uses are issued in order: each is counted against the cache by Belady's rule, and what must be
   fetched waits for a request (remote_chunks.c).

   A unit's bytes stay in memory while uses of it are issued and not taken, a thread copies them, or
   they wait to be written.  Uses that are never taken (records that are replaced or left out) are
   given up when much later ones are taken. */
#include "loaders/remote/remote_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/halt.h"
#include "loaders/remote/remote_window_private.h"

enum {
  KNOWN_MAX = 1 << 22,   /* uses known with a cache */
  KNOWN_LEAST = 1 << 15, /* uses known without one */
  SLACK = 1 << 15,       /* uses by which threads may be apart */
};

/* ---- issuing ---- */

static void lose_unit(mr__window_t *w, uint32_t lost) {
  if (lost == MR_BELADY_NONE) return;
  mr__unit_place(w, &w->unit[lost], true, w->unit[lost].on_disk);
  mr__unit_settle(w, (int32_t)lost);
}

static bool note_issued(mr__window_t *w, int32_t i) {
  if ((size_t)(w->head - w->tail) == w->issued_cap) {
    size_t cap = 2 * w->issued_cap;
    int32_t *more = malloc(cap * sizeof *more);
    if (!more) return false;
    for (int64_t k = w->tail; k < w->head; k++)
      more[(size_t)k & (cap - 1)] = w->issued[(size_t)k & (w->issued_cap - 1)];
    free(w->issued);
    w->issued = more, w->issued_cap = cap;
  }
  w->unit[i].number = w->head;
  w->issued[(size_t)w->head++ & (w->issued_cap - 1)] = i;
  return true;
}

/* Whether another run has a unit in the folder, or a peer, or this run has forgotten it there while
   others used the folder. */
static bool find_on_disk(const mr__window_t *w, const mr__unit_t *u) {
  return w->conf.cache && !u->chunk && !u->on_disk && mr__cache_takes(u->object) &&
         mr__cache_has(w->conf.cache, u->object, u->at);
}

/* Issues the next use; without `fetch`, its bytes are not needed. */
static bool issue_use(mr__window_t *w, bool fetch) {
  mr_belady_use_t use;
  if (!mr_belady_take(w->order, &use)) return false;
  int32_t i = (int32_t)use.unit;
  mr__unit_t *u = &w->unit[i];
  bool found = !use.hit && find_on_disk(w, u);
  w->counts.uses++, w->counts.hits += use.hit || found;
  if (use.kept) mr__unit_place(w, u, false, u->on_disk);
  if (found) mr__unit_place(w, u, !use.kept && u->owner < 0, true); /* a peer's stays */
  u->waiting += note_issued(w, i);
  if (!u->chunk && !mr__unit_is_pending(u) && !u->on_disk && fetch) mr__unit_fetch(w, i, false);
  if (!u->chunk && !mr__unit_is_pending(u) && !u->on_disk && use.kept)
    mr_belady_drop(w->order, use.unit);
  /* A block in memory, fetched for a use before this one, that is to be kept from now on. */
  if (u->chunk && u->chunk->done && use.kept && !u->on_disk && !u->writes &&
      mr__chunk_code(u->chunk) >= 0)
    mr__unit_keep(w, i);
  lose_unit(w, use.lost);
  mr__unit_settle(w, i);
  return true;
}

static bool issue_next(mr__window_t *w) { return issue_use(w, true); }

/* Bytes in memory and on the way there. */
static int64_t count_held_bytes(const mr__window_t *w) {
  return w->held + mr__pending_bytes(w->pending[0]) + mr__pending_bytes(w->pending[1]);
}

/* Begins what is due soon.  Memory is filled in large steps, so that neighbours can join. */
static void issue_ahead(mr__window_t *w) {
  if (count_held_bytes(w) <= w->conf.ahead - w->conf.ahead / 8)
    while (count_held_bytes(w) < w->conf.ahead && w->head - w->newest < SLACK && issue_next(w))
      continue;
  mr__window_send_due(w);
}

/* Uses at the end of the list that were taken, or never will be. */
static void give_up_old(mr__window_t *w) {
  while (w->tail < w->head) {
    int32_t i = w->issued[(size_t)w->tail & (w->issued_cap - 1)];
    mr__unit_t *u = &w->unit[i];
    if (u->taken)
      u->taken--;
    else if (w->tail < w->newest - SLACK)
      u->waiting--;
    else
      return;
    w->tail++;
    mr__unit_settle(w, i);
  }
}

void mr__window_take_cached(mr__window_t *w, const mr__cached_t *block, size_t n) {
  pthread_mutex_lock(&w->lock);
  for (size_t k = 0; k < n; k++) {
    const mr_object_t *o = block[k].object;
    int64_t at = block[k].at, left = o->size - at;
    int32_t i = mr__unit_add(w, o, at, left < w->conf.block ? left : w->conf.block);
    if (i == MR_NO_UNIT) break;
    if (mr_belady_hold(w->order, (uint32_t)i))
      w->unit[i].on_disk = true;
    else
      mr__cache_evict(w->conf.cache, o, at);
  }
  pthread_mutex_unlock(&w->lock);
}

/* ---- life ---- */

mr__window_t *mr__window_create(const mr__window_conf_t *conf) {
  mr__window_t *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->conf = *conf;
  w->cap = 1024, w->issued_cap = 4096, w->write_cap = 1 << 16, w->free_units = MR_NO_UNIT;
  w->order = mr_belady_new(conf->cache ? conf->capacity : 0);
  w->unit = malloc((size_t)w->cap * sizeof *w->unit);
  w->issued = malloc(w->issued_cap * sizeof *w->issued);
  w->to_write = malloc(w->write_cap * sizeof *w->to_write);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->arrived, NULL), pthread_cond_init(&w->work, NULL);
  pthread_cond_init(&w->written, NULL);
  for (int i = 0; i < 2; i++) w->pending[i] = mr__pending_create();
  bool good = w->order && w->unit && w->issued && w->to_write && w->pending[0] && w->pending[1] &&
              mr__units_rehash(w, 2048);
  w->keeps = good && conf->cache && pthread_create(&w->keeper, NULL, mr__window_keep, w) == 0;
  if (good) return w;
  mr__window_destroy(w);
  return NULL;
}

/* Evicts what is to go, though uses of it were announced that have not been taken. */
static void evict_rest(mr__window_t *w) {
  for (int32_t i = 0; i < w->n_units && w->going; i++)
    if (w->unit[i].goes && w->unit[i].on_disk) mr__unit_evict(w, &w->unit[i]);
}

void mr__window_destroy(mr__window_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  evict_rest(w); /* what is still to be written has their room */
  w->ends = true;
  pthread_cond_signal(&w->work);
  pthread_mutex_unlock(&w->lock);
  if (w->keeps) pthread_join(w->keeper, NULL);
  evict_rest(w);
  for (int32_t i = 0; i < w->n_units; i++)
    if (w->unit[i].object) mr__chunk_drop(w, w->unit[i].chunk);
  for (int i = 0; i < 2; i++) mr__pending_destroy(w->pending[i]);
  mr_belady_free(w->order);
  pthread_cond_destroy(&w->arrived), pthread_cond_destroy(&w->work);
  pthread_cond_destroy(&w->written);
  pthread_mutex_destroy(&w->lock);
  free(w->unit), free(w->bucket), free(w->issued), free(w->to_write), free(w);
}

void mr__window_count(mr__window_t *w, mr__window_counts_t *out) {
  pthread_mutex_lock(&w->lock);
  *out = w->counts;
  pthread_mutex_unlock(&w->lock);
}

/* ---- the future ---- */

/* The unit that holds byte `from` of a part, and where it lies. */
static int64_t unit_at(const mr__window_t *w, const mr_remote_want_t *want, int64_t from,
                       int64_t *size) {
  if (!w->conf.cache || !mr__cache_takes(want->object)) return *size = want->size, want->at;
  int64_t at = from / w->conf.block * w->conf.block, left = want->object->size - at;
  *size = left < w->conf.block ? left : w->conf.block;
  return at;
}

static bool tell_part(mr__window_t *w, const mr_remote_want_t *want) {
  for (int64_t from = want->at, end = want->at + want->size; from < end;) {
    int64_t size, at = unit_at(w, want, from, &size);
    int32_t i = mr__unit_find(w, want->object, at, size);
    if (i == MR_NO_UNIT) i = mr__unit_add(w, want->object, at, size);
    if (i == MR_NO_UNIT || !mr_belady_tell(w->order, (uint32_t)i)) return false;
    from = at + size;
  }
  return true;
}

int64_t mr__window_tell(mr__window_t *w, const mr_remote_want_t *want, int n) {
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < n && !w->starved; i++) w->starved = !tell_part(w, &want[i]);
  int64_t most = w->conf.cache ? KNOWN_MAX : KNOWN_LEAST;
  int64_t more = w->starved ? 0 : most - mr_belady_known(w->order);
  pthread_mutex_unlock(&w->lock);
  return more > 0 ? more : 0;
}

void mr__window_begin(mr__window_t *w) {
  pthread_mutex_lock(&w->lock);
  issue_ahead(w);
  pthread_mutex_unlock(&w->lock);
}

/* ---- taking ---- */

/* Issues until a use of the unit is due; false if none is known, or too far away.  Without `fetch`,
   the unit's bytes are not needed. */
static bool make_due(mr__window_t *w, int32_t i, bool fetch) {
  if (w->unit[i].waiting > 0) return true;
  int64_t far = mr_belady_distance(w->order, (uint32_t)i);
  if (far < 0 || far > SLACK) return false;
  while (far-- > 0 && issue_next(w)) continue;
  issue_use(w, fetch);
  mr__window_send_due(w);
  return w->unit[i].waiting > 0;
}

/* Copies from a unit's chunk or its file; the unit is pinned.  MR_END: lost. */
mr_err_t mr__unit_copy(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                       int64_t n, mr_diag_t *diag) {
  mr__unit_t *u = &w->unit[i];
  uint8_t *to = (uint8_t *)want->to + (from - want->at);
  mr__chunk_t *c;
  while ((c = w->unit[i].chunk) && !c->done)
    if (!mr_halt_wait(&w->arrived, &w->lock))
      return mr_fail(diag, MR_ERR_CANCEL, "%s: the reading was ended", want->object->name);
  u = &w->unit[i];
  if (c && mr__chunk_code(c) < 0) return mr_diag_relay(diag, mr__chunk_code(c), &c->request->diag);
  if (c) {
    pthread_mutex_unlock(&w->lock);
    memcpy(to, c->data + (from - c->at), (size_t)n);
    pthread_mutex_lock(&w->lock);
    return MR_OK;
  }
  if (!u->on_disk) return MR_END;
  const mr_object_t *o = u->object;
  int64_t at = u->at;
  mr__stamp_t stamp = u->stamp;
  pthread_mutex_unlock(&w->lock);
  bool good = mr__cache_read(w->conf.cache, o, at, from - at, n, to, &stamp);
  pthread_mutex_lock(&w->lock);
  u = &w->unit[i];
  u->stamp = stamp;
  if (good) return MR_OK;
  mr__unit_place(w, u, u->goes, false); /* it will be fetched when it is due again */
  u->stamp = 0;
  mr_belady_drop(w->order, (uint32_t)i);
  w->counts.lost++;
  return MR_END;
}

/* Ends a use of the unit; false if none is due. */
static bool end_use(mr__window_t *w, int32_t i, bool fetch) {
  if (!make_due(w, i, fetch)) return false;
  mr__unit_t *u = &w->unit[i];
  if (u->waiting == 1 && u->number > w->newest) w->newest = u->number;
  u->waiting--, u->taken++;
  return true;
}

static mr_err_t take_unit(mr__window_t *w, int32_t i, const mr_remote_want_t *want, int64_t from,
                          int64_t n, mr_diag_t *diag) {
  bool due = end_use(w, i, want->to != NULL);
  mr__unit_t *u = &w->unit[i];
  if (!want->to) return mr__unit_settle(w, i), MR_OK;
  if (!due && !u->on_disk && !u->chunk && !mr__unit_is_pending(u)) return MR_END;
  u->pins++;
  if (mr__unit_is_pending(u)) mr__unit_send(w, i);
  mr_err_t e = mr__unit_copy(w, i, want, from, n, diag);
  w->unit[i].pins--;
  mr__unit_settle(w, i);
  return e;
}

mr_err_t mr__window_take(mr__window_t *w, const mr_remote_want_t *want, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  pthread_mutex_lock(&w->lock);
  for (int64_t from = want->at, end = want->at + want->size; from < end && e == MR_OK;) {
    int64_t size, at = unit_at(w, want, from, &size), stop = at + size < end ? at + size : end;
    int32_t i = mr__unit_find(w, want->object, at, size);
    e = i != MR_NO_UNIT ? take_unit(w, i, want, from, stop - from, diag)
        : want->to      ? MR_END
                        : MR_OK;
    from = stop;
  }
  give_up_old(w);
  issue_ahead(w);
  pthread_mutex_unlock(&w->lock);
  return e;
}
