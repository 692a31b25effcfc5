/* Buffers of the receiving end.  The pool's own memory takes short payloads; a long one stays in
   the message it came in, and on one host a buffer is a place in the peer's memory.  What a buffer
   stands on is let go of with its last reference, in whatever thread that is. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/label.h"
#include "links/link_private.h"
#include "links/share.h"

enum { POOLS_MAX = 16, SPARE = 16 };

/* One of the peer's pools; the table and every buffer in use hold a reference. */
typedef struct map {
  atomic_int refs;
  char *base;
  size_t bytes;
} map_t;

/* What slot i of the pool stands on. */
typedef struct use {
  int64_t number;
  char *home; /* its own memory */
  map_t *map; /* NULL: not by reference */
  bool has_message;
  zmq_msg_t message;
} use_t;

struct mr__rx {
  mr_spec_t spec;
  mr__slot_t slot;
  int window;
  use_t *use;            /* [window + SPARE] */
  atomic_uchar *done;    /* [window], by number % window: released */
  map_t *map[POOLS_MAX]; /* of this session */
  int share;             /* socket that brings their descriptors; -1 */
};

static void map_unref(map_t *m) {
  /* acq_rel: every reader is done before the memory goes. */
  if (!m) return;
  int before = atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before != 1) return;
  munmap(m->base, m->bytes);
  free(m);
}

static void released(void *arg, mr_buf_t *b) {
  mr__rx_t *rx = arg;
  use_t *u = &rx->use[mr__pool_index(b)];
  assert(mr__pool_index(b) < (size_t)rx->window + SPARE);
  if (u->has_message) zmq_msg_close(&u->message);
  map_unref(u->map);
  u->has_message = false, u->map = NULL;
  /* release pairs with the acquire in is_released: the slot of the window may be used again. */
  atomic_store_explicit(&rx->done[u->number % rx->window], 1, memory_order_release);
}

static void forget_maps(mr__rx_t *rx) {
  for (int i = 0; i < POOLS_MAX; i++) {
    map_unref(rx->map[i]);
    rx->map[i] = NULL;
  }
  if (rx->share >= 0) close(rx->share);
  rx->share = -1;
}

static void destroyed(void *arg) {
  mr__rx_t *rx = arg;
  forget_maps(rx);
  free(rx->use), free((void *)rx->done), free(rx);
}

mr_pool_t *mr__rx_pool(const mr_spec_t *spec, int window, mr__rx_t **out) {
  size_t n = (size_t)window + SPARE; /* one is done a moment before it is free again */
  mr__rx_t *rx = calloc(1, sizeof *rx);
  mr_pool_t *pool = rx ? mr_pool_create(spec, n) : NULL;
  if (!pool) return free(rx), NULL;
  rx->spec = *spec, rx->slot = mr__slot_of(spec), rx->window = window, rx->share = -1;
  mr__pool_hook(pool, &(mr__pool_hooks_t){released, destroyed, rx});
  rx->use = calloc(n, sizeof *rx->use);
  rx->done = calloc((size_t)window, sizeof *rx->done);
  if (!rx->use || !rx->done) return mr_pool_destroy(pool), NULL;
  const char *base;
  size_t bytes;
  mr__pool_memory(pool, &base, &bytes);
  for (size_t i = 0; i < n; i++) rx->use[i].home = (char *)base + i * rx->slot.bytes;
  *out = rx;
  return pool;
}

bool mr__rx_is_released(const mr__rx_t *rx, int64_t number) {
  return atomic_load_explicit(&rx->done[number % rx->window], memory_order_acquire);
}

/* ---- by reference ---- */

void mr__rx_new_session(mr__rx_t *rx, const char *token) {
  forget_maps(rx);
  rx->share = mr__share_connect(token);
}

/* Descriptors come before the buffers that need them. */
static void take_descriptors(mr__rx_t *rx) {
  uint32_t pool;
  int fd;
  while (rx->share >= 0 && mr__share_take(rx->share, &pool, &fd)) {
    size_t bytes;
    map_t *m = pool < POOLS_MAX ? calloc(1, sizeof *m) : NULL;
    if (m && (m->base = mr__share_map(fd, &bytes))) {
      m->bytes = bytes;
      atomic_init(&m->refs, 1);
      map_unref(rx->map[pool]);
      rx->map[pool] = m;
    } else {
      free(m);
    }
    close(fd);
  }
}

static bool set_by_reference(mr__rx_t *rx, mr_buf_t *b, use_t *u, const mr__link_data_t *d) {
  if (d->pool >= POOLS_MAX) return false;
  if (!rx->map[d->pool]) take_descriptors(rx);
  map_t *m = rx->map[d->pool];
  if (!m || d->offset % 64 || rx->slot.bytes > m->bytes || d->offset > m->bytes - rx->slot.bytes)
    return false;
  mr__slot_set(b, &rx->slot, m->base + d->offset);
  if (b->label && !mr__link_labels_fit(b->label, d->n, &rx->spec)) return false;
  /* relaxed: this thread holds the table's reference. */
  atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
  u->map = m;
  return true;
}

/* ---- by message ---- */

static void set_by_message(mr__rx_t *rx, mr_buf_t *b, use_t *u, const mr__link_data_t *d,
                           const mr__link_parts_t *p, zmq_msg_t *frame) {
  mr__slot_set(b, &rx->slot, u->home);
  size_t n = b->key ? (size_t)d->n : 0;
  if (n) memcpy(b->key, p->key, n * 8);
  if (n) memcpy(b->draw, p->draw, n * 8);
  if (n) memcpy(b->label, p->label, n * 4);
  for (size_t i = 0; i < n; i++) b->excluded[i] = b->label[i] == MR_LABEL_NONE;
  if (b->word) memcpy(b->word, p->word, rx->slot.words * 8);
  if (frame) {
    zmq_msg_init(&u->message);
    zmq_msg_move(&u->message, frame);
    u->has_message = true;
    b->data = zmq_msg_data(&u->message);
    b->cap = d->size;
    if (b->key) b->field[0].data = b->data;
    if ((uintptr_t)b->data % 8 == 0) return; /* stays there */
    mr__slot_set(b, &rx->slot, u->home);
    memcpy(b->data, zmq_msg_data(&u->message), d->size);
  } else if (d->size) {
    memcpy(b->data, p->payload, d->size);
  }
}

mr_buf_t *mr__rx_buf(mr__rx_t *rx, mr_pool_t *pool, int64_t number, const mr__link_data_t *d,
                     const mr__link_parts_t *parts, zmq_msg_t *frame) {
  mr_buf_t *b = mr_pool_get(pool);
  if (!b) return NULL;
  use_t *u = &rx->use[mr__pool_index(b)];
  assert(number >= 0 && !u->has_message && !u->map); /* what it stood on has been let go of */
  u->number = number;
  if (d->where == MR__LINK_WHERE_POOL) {
    if (!set_by_reference(rx, b, u, d)) return mr_buf_unref(b), NULL;
  } else {
    set_by_message(rx, b, u, d, parts, frame);
  }
  /* relaxed: released() of this number comes later, through the references. */
  atomic_store_explicit(&rx->done[number % rx->window], 0, memory_order_relaxed);
  b->seq = number, b->epoch = d->epoch, b->position = d->position;
  b->first = d->first, b->n = d->n, b->flags = d->flags;
  b->size = b->key ? mr_buf_bytes(&rx->spec, b, b->n) : d->size;
  return b;
}
