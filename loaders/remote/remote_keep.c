/* Writes blocks that are to be kept to the cache, on a thread of its own: a read that is due does
   not wait for the disk.  When the disk is slower than the network, blocks are not kept. */
#include "loaders/remote/remote_window_private.h"

enum { WRITES_LEAST = 32 << 20 /* bytes that may wait to be written, whatever `ahead` is */ };

int64_t mr__window_writes_most(const mr__window_t *w) {
  int64_t most = w->conf.ahead / 2 > WRITES_LEAST ? w->conf.ahead / 2 : WRITES_LEAST;
  int64_t listed = (int64_t)w->write_cap / 2 * w->conf.block;
  return most < listed ? most : listed;
}

/* Whether the disk is so slow that what waits to be written would take the memory of what is to be
   fetched. */
static bool is_behind(const mr__window_t *w) {
  return w->writing > mr__window_writes_most(w) ||
         (size_t)(w->write_head - w->write_tail) == w->write_cap;
}

void mr__unit_keep(mr__window_t *w, int32_t i) {
  bool behind = is_behind(w);
  if (!w->keeps || !mr__cache_takes(w->unit[i].object) || behind) {
    w->counts.unkept += behind;
    mr_belady_drop(w->order, (uint32_t)i);
    if (behind && !w->said_slow)
      mr_notice(
          "setting cache: its disk is slower than the network: blocks that it has no time for "
          "are not kept");
    w->said_slow |= behind;
    return;
  }
  w->unit[i].writes = true, w->writing += w->unit[i].size;
  w->to_write[(size_t)w->write_head++ & (w->write_cap - 1)] = i;
  pthread_cond_signal(&w->work);
}

static void write_unit(mr__window_t *w, int32_t i) {
  mr__unit_t *u = &w->unit[i];
  const mr_object_t *o = u->object;
  mr__chunk_t *c = u->chunk;
  int64_t at = u->at, size = u->size;
  mr_diag_t why = {0};
  mr_err_t e = MR_END;
  mr__stamp_t stamp = 0;
  if (!u->goes) {
    int64_t going = w->going;
    pthread_mutex_unlock(&w->lock);
    e = mr__cache_write(w->conf.cache, o, at, c->data + (at - c->at), size, going, &stamp, &why);
    pthread_mutex_lock(&w->lock);
    u = &w->unit[i];
  }
  u->writes = false, w->writing -= size;
  w->writes++, w->stands_still = w->closing;
  pthread_cond_broadcast(&w->written);
  mr__unit_place(w, u, u->goes, e == MR_OK), u->stamp = stamp;
  if (e != MR_OK) mr_belady_drop(w->order, (uint32_t)i);
  if (e < 0 && !w->said_full) {
    w->said_full = true;
    mr_notice("%s: blocks fetched from now on are not kept in the cache", why.text);
  }
  mr__unit_settle(w, i);
}

void *mr__window_keep(void *arg) {
  mr__window_t *w = arg;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (w->write_tail == w->write_head && !w->ends) pthread_cond_wait(&w->work, &w->lock);
    if (w->write_tail == w->write_head) break; /* what is to be kept is written first */
    write_unit(w, w->to_write[(size_t)w->write_tail++ & (w->write_cap - 1)]);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}
