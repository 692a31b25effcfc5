/* Buffers and their pool: one mapping divided into equal slots, and a lock-free stack of the free
   ones. */
#include "pipeline/buffer.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/pool.h"

/* The free list is a stack of indices.  Its head carries a tag that grows with every change, so an
   unchanged head means an unchanged stack (no ABA within 2^32 changes between two instructions).
   Last in, first out, and a buffer is formatted when it is first taken: of those that are never
   needed nothing is ever touched, and a pool costs what it is used for. */
#define NONE UINT32_MAX

struct mr_pool {
  _Alignas(64) _Atomic uint64_t head; /* tag << 32 | index, NONE when empty */
  _Alignas(64) mr_buf_t *buf;         /* [n], with next a mapping of rows_bytes */
  _Atomic uint32_t *next; /* [n] below in the stack (pool_below); relaxed, ordered by head */
  size_t rows_bytes;
  uint32_t n;
  mr__slot_t slot;
  void *map;
  size_t map_bytes;
  int fd;                    /* of shared memory; -1: private */
  void (*fini)(void *value); /* mr_spec_t.fini */
  mr__pool_hooks_t hooks;
  mr_wait_t *const *waiter;
  int n_waiters;
};

static size_t buffer_align64(size_t n) { return (n + 63) / 64 * 64; }

/* Places a batch's fields in the slot; returns their end. */
static size_t place_fields(const mr_spec_t *spec, mr__slot_t *t) {
  size_t at = 0;
  t->n_fields = spec->n_fields, t->label = mr_spec_label(spec);
  t->device = spec->device != NULL;
  for (int f = 0; f < t->n_fields; f++) {
    t->field[f].data = at, t->field[f].label = spec->field[f].label;
    if (t->device && !t->field[f].label) continue;
    at += buffer_align64(t->records * mr_field_bytes(&spec->field[f]));
  }
  for (int f = 0; f < t->n_fields; f++) {
    if (!spec->field[f].ragged) continue;
    at += at ? 0 : 64; /* an offset of 0 means an even field */
    t->field[f].offset = at;
    at += buffer_align64((t->records + 1) * sizeof(int64_t));
  }
  return at;
}

mr__slot_t mr__slot_of(const mr_spec_t *spec) {
  size_t records = spec->flow == MR_FLOW_BATCHES ? (size_t)spec->batch : 0;
  size_t words = records ? (size_t)spec->n_words : 0;
  size_t cap = spec->device ? 0 : mr_spec_bytes(spec);
  mr__slot_t t = {.cap = cap, .records = records, .words = words};
  t.key = records ? place_fields(spec, &t) : buffer_align64(t.cap);
  t.draw = t.key + buffer_align64(records * 8);
  t.excluded = t.draw + buffer_align64(records * 8);
  t.word = t.excluded + buffer_align64(records);
  t.bytes = t.word + buffer_align64(words * 8);
  assert(t.bytes % 64 == 0 && t.bytes >= t.cap);
  return t;
}

void mr__slot_set(mr_buf_t *b, const mr__slot_t *t, char *at) {
  b->data = t->device ? NULL : at, b->cap = t->cap;
  for (int f = 0; f < t->n_fields; f++) {
    b->field[f].data = t->device ? NULL : at + t->field[f].data;
    b->field[f].label = t->device && t->field[f].label ? (int32_t *)(at + t->field[f].data) : NULL;
    b->field[f].offset = t->field[f].offset ? (int64_t *)(at + t->field[f].offset) : NULL;
  }
  b->label = t->records && t->label >= 0 ? (int32_t *)(at + t->field[t->label].data) : NULL;
  b->key = t->records ? (uint64_t *)(at + t->key) : NULL;
  b->draw = t->records ? (uint64_t *)(at + t->draw) : NULL;
  b->excluded = t->records ? (uint8_t *)(at + t->excluded) : NULL;
  b->word = t->words ? (int64_t *)(at + t->word) : NULL;
}

/* ---- records of a batch ---- */

size_t mr_buf_bytes(const mr_spec_t *spec, const mr_buf_t *b, int n) {
  size_t bytes = 0;
  for (int f = 0; f < spec->n_fields; f++)
    bytes += b->field[f].offset ? (size_t)b->field[f].offset[n] * mr_field_row(&spec->field[f])
                                : (size_t)n * mr_field_bytes(&spec->field[f]);
  return bytes;
}

static void append_even(const mr_field_t *f, const mr_buf_field_t *from, int at, int n,
                        mr_buf_field_t *to, int to_n) {
  size_t bytes = mr_field_bytes(f);
  memcpy((char *)to->data + (size_t)to_n * bytes, (const char *)from->data + (size_t)at * bytes,
         (size_t)n * bytes);
}

static void append_ragged(const mr_field_t *f, const mr_buf_field_t *from, int at, int n,
                          mr_buf_field_t *to, int to_n) {
  size_t row = mr_field_row(f);
  const int64_t *offset = from->offset + at;
  int64_t *end = to->offset + to_n;
  if (!to_n) *end = 0;
  memcpy((char *)to->data + (size_t)*end * row, (const char *)from->data + (size_t)*offset * row,
         (size_t)(offset[n] - offset[0]) * row);
  for (int i = 1; i <= n; i++) end[i] = end[0] + offset[i] - offset[0];
}

void mr_buf_append(const mr_spec_t *spec, const mr_buf_t *from, int at, int n, mr_buf_t *to) {
  for (int f = 0; f < spec->n_fields; f++) {
    const mr_field_t *field = &spec->field[f];
    if (field->ragged)
      append_ragged(field, &from->field[f], at, n, &to->field[f], to->n);
    else
      append_even(field, &from->field[f], at, n, &to->field[f], to->n);
  }
  memcpy(to->key + to->n, from->key + at, (size_t)n * sizeof *to->key);
  memcpy(to->draw + to->n, from->draw + at, (size_t)n * sizeof *to->draw);
  memcpy(to->excluded + to->n, from->excluded + at, (size_t)n * sizeof *to->excluded);
  to->n += n;
  to->size = mr_buf_bytes(spec, to, to->n);
}

/* ---- the pool ---- */

/* The buffer under buffer i in the stack.  next is relative to i + 1, so that zeros are a stack of
   all buffers in their order. */
static uint32_t pool_below(const mr_pool_t *p, uint32_t i) {
  uint32_t below = atomic_load_explicit(&p->next[i], memory_order_relaxed) + i + 1;
  return below < p->n ? below : NONE;
}

static void format_buf(mr_pool_t *p, mr_buf_t *b) {
  *b = (mr_buf_t){.pool = p};
  mr__slot_set(b, &p->slot, (char *)p->map + p->slot.bytes * (size_t)(b - p->buf));
}

/* The seal against shrinking keeps a peer that maps the memory from faulting on it. */
static int make_memfd(size_t bytes) {
  int fd = memfd_create("millrace-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    return fd;
  close(fd);
  return -1;
}

/* Large buffers, one of which lies on hundreds of small pages, ask for huge ones: more of them go
   round than a processor's table of pages covers.  Small ones do not, as the first would touch the
   memory of all. */
#define HUGE_FROM ((size_t)1 << 20)

static void pool_ask_for_huge(void *at, size_t bytes, size_t each) {
#if defined(MADV_HUGEPAGE)
  if (each >= HUGE_FROM) (void)madvise(at, bytes, MADV_HUGEPAGE); /* advice */
#else
  (void)at, (void)bytes, (void)each;
#endif
}

static void *map_memory(mr_pool_t *p, bool shared) {
  p->fd = shared ? make_memfd(p->map_bytes) : -1;
  if (shared && p->fd < 0) return NULL;
  int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void *m = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, p->fd, 0);
  /* from here on no other process can map it writable; older kernels lack this seal */
  if (shared) (void)fcntl(p->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  if (m == MAP_FAILED) return NULL;
  if (!shared) pool_ask_for_huge(m, p->map_bytes, p->slot.bytes);
  return m;
}

/* The rows of a long chain's pools are many, and hardly any is used: malloc would write zeros to
   them. */
static bool map_rows(mr_pool_t *p, size_t n) {
  size_t bufs = buffer_align64(n * sizeof *p->buf);
  p->rows_bytes = bufs + n * sizeof *p->next + 64;
  char *at = mmap(NULL, p->rows_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  p->buf = (mr_buf_t *)(void *)at;
  p->next = (_Atomic uint32_t *)(void *)(at + bufs);
  return true;
}

static mr_pool_t *buffer_create(const mr_spec_t *spec, size_t n, bool shared) {
  mr__slot_t t = mr__slot_of(spec);
  if (n >= NONE || (n && t.bytes > SIZE_MAX / 2 / n)) return NULL;
  mr_pool_t *p = aligned_alloc(64, buffer_align64(sizeof *p));
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  p->n = (uint32_t)n, p->slot = t;
  p->map_bytes = t.bytes && n ? t.bytes * n : 64;
  p->map = map_memory(p, shared);
  if (!p->map || !map_rows(p, n)) return mr_pool_destroy(p), NULL;
  p->fini = spec->fini;
  atomic_init(&p->head, n ? 0 : (uint64_t)NONE);
  return p;
}

mr_pool_t *mr_pool_create(const mr_spec_t *spec, size_t n) { return buffer_create(spec, n, false); }
mr_pool_t *mr_pool_create_shared(const mr_spec_t *spec, size_t n) {
  return buffer_create(spec, n, true);
}

void mr_pool_destroy(mr_pool_t *p) {
  if (!p) return;
  for (uint32_t i = 0; p->fini && p->buf && i < p->n; i++)
    if (p->buf[i].pool) p->fini(p->buf[i].data);
  if (p->map) munmap(p->map, p->map_bytes);
  if (p->fd >= 0) close(p->fd);
  if (p->hooks.destroyed) p->hooks.destroyed(p->hooks.arg);
  if (p->buf) munmap(p->buf, p->rows_bytes);
  free(p);
}

/* acquire pairs with the release in pool_put: it sees the last owner's writes. */
static uint32_t pool_pop(mr_pool_t *p) {
  uint64_t head = atomic_load_explicit(&p->head, memory_order_acquire), want;
  do {
    uint32_t i = (uint32_t)head;
    if (i == NONE) return NONE;
    want = ((head >> 32) + 1) << 32 | pool_below(p, i);
  } while (!atomic_compare_exchange_weak_explicit(&p->head, &head, want, memory_order_acq_rel,
                                                  memory_order_acquire));
  return (uint32_t)head;
}

/* relaxed: the caller alone holds the buffer, or asserts. */
static int refs_of(const mr_buf_t *b) {
  return atomic_load_explicit(&b->refs, memory_order_relaxed);
}

mr_buf_t *mr_pool_get(mr_pool_t *p) {
  uint32_t i = pool_pop(p);
  if (i == NONE) return NULL;
  mr_buf_t *b = &p->buf[i];
  assert(i < p->n && !refs_of(b)); /* a free buffer has no owner */
  if (!b->pool) format_buf(p, b);
  b->size = 0, b->seq = 0, b->epoch = 0, b->position = 0, b->n = 0, b->flags = 0;
  b->first = 0;
  atomic_store_explicit(&b->refs, 1, memory_order_relaxed); /* the ring publishes it */
  return b;
}

/* seq_cst: news for waiters, ordered before the loads of their parked flags. */
static void pool_put(mr_pool_t *p, uint32_t i) {
  assert(i < p->n);
  /* relaxed: only the index is used, and the swap fails if it is outdated. */
  uint64_t head = atomic_load_explicit(&p->head, memory_order_relaxed), want;
  do {
    atomic_store_explicit(&p->next[i], (uint32_t)head - i - 1, memory_order_relaxed);
    want = ((head >> 32) + 1) << 32 | i;
  } while (!atomic_compare_exchange_weak_explicit(&p->head, &head, want, memory_order_seq_cst,
                                                  memory_order_relaxed));
  for (int w = 0; w < p->n_waiters; w++) mr_wait_wake(p->waiter[w]);
}

mr_buf_t *mr_buf_ref(mr_buf_t *b) {
  /* relaxed: the caller holds a reference already, so nothing is handed over. */
  int before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  assert(before > 0);
  return b;
}

void mr_buf_unref(mr_buf_t *b) {
  if (!b) return;
  /* acq_rel: every owner's accesses precede the buffer's return. */
  int before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before != 1) return;
  if (b->pool->hooks.released) b->pool->hooks.released(b->pool->hooks.arg, b);
  pool_put(b->pool, (uint32_t)(b - b->pool->buf));
}

void mr__pool_hook(mr_pool_t *p, const mr__pool_hooks_t *hooks) { p->hooks = *hooks; }
size_t mr__pool_index(const mr_buf_t *b) { return (size_t)(b - b->pool->buf); }

int mr__pool_memory(const mr_pool_t *p, const char **base, size_t *bytes) {
  *base = p->map, *bytes = p->map_bytes;
  return p->fd;
}

void mr__pool_waiters(mr_pool_t *p, mr_wait_t *const *waiter, int n) {
  p->waiter = waiter, p->n_waiters = n;
}

/* seq_cst: waiters decide by it whether to sleep; pairs with the swap in pool_put. */
uint64_t mr__pool_news(const mr_pool_t *p) {
  return atomic_load_explicit(&p->head, memory_order_seq_cst);
}

/* Other threads only add to the stack meanwhile, so the entries below a head that was read stay;
   next is relaxed because the head's load orders it. */
bool mr__pool_whole(const mr_pool_t *p) {
  uint32_t n = 0;
  for (uint32_t i = (uint32_t)mr__pool_news(p); i != NONE && n < p->n; n++) i = pool_below(p, i);
  return n == p->n;
}

size_t mr__pool_free(const mr_pool_t *p) { return (uint32_t)mr__pool_news(p) == NONE ? 0 : 1; }
