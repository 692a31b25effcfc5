/* Buffers of the receiving end.  Short values are copied into the pool's own memory; long ones stay
   in the message that brought them, and on one host a buffer is a place in the peer's memory.  The
   last reference to a buffer frees what it uses, in any thread.

   Values that direct reads elsewhere, labels and the offsets of ragged fields, are copied into
   memory of this process first and checked there, so that no peer can change them after the
   check. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "links/link_private.h"

enum { POOLS_MAX = 16, SPARE = 16 };

/* A pool of the peer; the table and every buffer in use hold a reference. */
typedef struct map {
  atomic_int refs;
  char *base;
  size_t bytes;
} map_t;

/* What the buffer in slot i of the pool uses. */
typedef struct use {
  int64_t number;
  char *home; /* the slot's own memory */
  map_t *map; /* NULL: not by reference */
  int n_frames;
  zmq_msg_t frame[MR_FIELDS_MAX];
} use_t;

struct mr__rx {
  mr_spec_t spec;
  mr__slot_t slot;
  int window;
  use_t *use;            /* [window + SPARE] */
  atomic_uchar *done;    /* [window], by number % window: released */
  map_t *map[POOLS_MAX]; /* of this session */
  int share;             /* socket that brings the pools' descriptors; -1 */
};

static void map_unref(map_t *m) {
  /* acq_rel: every reader is done before the memory is unmapped. */
  if (!m) return;
  int before = atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before != 1) return;
  munmap(m->base, m->bytes);
  free(m);
}

static void on_released(void *arg, mr_buf_t *b) {
  mr__rx_t *rx = arg;
  use_t *u = &rx->use[mr__pool_index(b)];
  assert(mr__pool_index(b) < (size_t)rx->window + SPARE);
  while (u->n_frames) zmq_msg_close(&u->frame[--u->n_frames]);
  map_unref(u->map);
  u->map = NULL;
  /* release pairs with the acquire in mr__rx_is_released: the slot of the window may be used
     again. */
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

static void on_destroyed(void *arg) {
  mr__rx_t *rx = arg;
  forget_maps(rx);
  free(rx->use), free((void *)rx->done), free(rx);
}

mr_pool_t *mr__rx_pool(const mr_spec_t *spec, int window, mr__rx_t **out) {
  size_t n = (size_t)window + SPARE; /* a buffer is marked released shortly before it is free
                                        again */
  mr__rx_t *rx = calloc(1, sizeof *rx);
  mr_pool_t *pool = rx ? mr_pool_create(spec, n) : NULL;
  if (!pool) return free(rx), NULL;
  rx->spec = *spec, rx->slot = mr__slot_of(spec), rx->window = window, rx->share = -1;
  mr__pool_hook(pool, &(mr__pool_hooks_t){on_released, on_destroyed, rx});
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

/* Takes the descriptors, which come before the buffers that need them. */
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

/* Copies b's labels and offsets of field f into memory of this process, and checks the copies. */
static bool keep_field(mr__rx_t *rx, mr_buf_t *b, const use_t *u, int f) {
  const mr_field_t *field = &rx->spec.field[f];
  mr_buf_field_t *v = &b->field[f];
  size_t n = (size_t)b->n;
  int64_t rows;
  if (field->label) {
    v->data = memcpy(u->home + rx->slot.field[f].data, v->data, n * sizeof(int32_t));
    if (!mr__link_labels_fit(v->data, b->n, &rx->spec, f)) return false;
  }
  if (!field->ragged) return true;
  v->offset = memcpy(u->home + rx->slot.field[f].offset, v->offset, (n + 1) * sizeof *v->offset);
  return mr__link_offsets_fit(v->offset, b->n, field, &rows);
}

/* MR_OK; *mapped says whether the place in the peer's pool could be mapped. */
static mr_err_t set_by_reference(mr__rx_t *rx, mr_buf_t *b, use_t *u, const mr__link_data_t *d,
                                 bool *mapped) {
  *mapped = false;
  if (d->pool >= POOLS_MAX) return MR_OK;
  if (!rx->map[d->pool]) take_descriptors(rx);
  map_t *m = rx->map[d->pool];
  if (!m || d->offset % 64 || rx->slot.bytes > m->bytes || d->offset > m->bytes - rx->slot.bytes)
    return MR_OK;
  *mapped = true;
  mr__slot_set(b, &rx->slot, m->base + d->offset);
  for (int f = 0; b->key && f < rx->spec.n_fields; f++)
    if (!keep_field(rx, b, u, f)) return MR_ERR_DATA;
  if (b->key && mr_buf_bytes(&rx->spec, b, b->n) != d->size) return MR_ERR_DATA;
  /* relaxed: the table holds a reference already. */
  atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
  u->map = m;
  return MR_OK;
}

/* ---- by message ---- */

/* Takes the values of a field in its own frame: they stay there unless they are misaligned. */
static bool take_frame(use_t *u, zmq_msg_t *frame, size_t bytes, void **data) {
  if (zmq_msg_size(frame) != bytes) return false;
  void *at = zmq_msg_data(frame);
  if ((uintptr_t)at % 8) {
    memcpy(*data, at, bytes);
    return true;
  }
  zmq_msg_t *mine = &u->frame[u->n_frames++];
  zmq_msg_init(mine);
  zmq_msg_move(mine, frame); /* a short one is inside the zmq_msg_t */
  *data = zmq_msg_data(mine);
  return true;
}

static mr_err_t set_by_message(mr__rx_t *rx, mr_buf_t *b, use_t *u, const mr__link_data_t *d,
                               const mr__link_parts_t *p, mr__message_t *m) {
  size_t n = b->key ? (size_t)d->n : 0;
  if (n) memcpy(b->key, p->key, n * sizeof *b->key);
  if (n) memcpy(b->draw, p->draw, n * sizeof *b->draw);
  for (size_t i = 0; i < n; i++) b->excluded[i] = p->excluded[i] != 0;
  if (b->word) memcpy(b->word, p->word, rx->slot.words * sizeof *b->word);
  for (int f = 0, frame = 1; f < rx->spec.n_fields; f++) {
    mr_buf_field_t *v = &b->field[f];
    void **data = b->key ? &v->data : &b->data;
    if (p->offset[f]) memcpy(v->offset, p->offset[f], (n + 1) * sizeof *v->offset);
    if (p->value[f])
      memcpy(*data, p->value[f], p->bytes[f]);
    else if (!take_frame(u, &m->frame[frame++], p->bytes[f], data))
      return MR_ERR_DATA;
    if (rx->spec.field[f].label && !mr__link_labels_fit(v->data, d->n, &rx->spec, f))
      return MR_ERR_DATA;
  }
  return MR_OK;
}

mr_err_t mr__rx_buf(mr__rx_t *rx, mr_pool_t *pool, int64_t number, const mr__link_data_t *d,
                    const mr__link_parts_t *parts, mr__message_t *m, mr_buf_t **out) {
  mr_buf_t *b = mr_pool_get(pool);
  bool mapped = true;
  *out = NULL;
  if (!b) return MR_OK;
  use_t *u = &rx->use[mr__pool_index(b)];
  assert(number >= 0 && !u->n_frames && !u->map); /* its last use is over */
  u->number = number;
  b->seq = number, b->epoch = d->epoch, b->position = d->position;
  b->first = d->first, b->n = d->n, b->flags = d->flags, b->size = d->size;
  mr__slot_set(b, &rx->slot, u->home);
  mr_err_t e = d->where == MR__LINK_WHERE_POOL ? set_by_reference(rx, b, u, d, &mapped)
                                               : set_by_message(rx, b, u, d, parts, m);
  if (e < 0 || !mapped) return mr_buf_unref(b), e;
  if (b->key) b->data = b->field[0].data;
  if (b->label) b->label = b->field[rx->slot.label].data;
  /* relaxed: released() of this number comes later, ordered by the references. */
  atomic_store_explicit(&rx->done[number % rx->window], 0, memory_order_relaxed);
  *out = b;
  return MR_OK;
}
