/* Open files by the hash of their object's state.  A file that no thread uses makes room for
   another one by the clock rule: the hand passes over those that were used since it came by. */
#include "loaders/remote/remote_opened.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NONE = -1, LEAST = 16, MOST = 1024 };

typedef struct slot {
  mr__object_file_t file; /* fd -1: free */
  int pins;
  int next; /* in its bucket */
  bool used;
} slot_t;

struct mr__opened {
  pthread_mutex_t lock; /* guards all below */
  int n, hand;
  slot_t *slot; /* [n] */
  int *bucket;  /* [n] the first slot */
};

/* An eighth of what the process may open: it may have several caches. */
static int files_to_spare(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return LEAST;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur / 8 > MOST) return MOST;
  return limit.rlim_cur / 8 > LEAST ? (int)(limit.rlim_cur / 8) : LEAST;
}

mr__opened_t *mr__opened_new(void) {
  mr__opened_t *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  pthread_mutex_init(&o->lock, NULL);
  o->n = files_to_spare();
  o->slot = calloc((size_t)o->n, sizeof *o->slot);
  o->bucket = calloc((size_t)o->n, sizeof *o->bucket);
  if (!o->slot || !o->bucket) return mr__opened_close(o), NULL;
  for (int i = 0; i < o->n; i++) o->slot[i].file.fd = o->bucket[i] = NONE;
  return o;
}

void mr__opened_close(mr__opened_t *o) {
  if (!o) return;
  for (int i = 0; o->slot && i < o->n; i++)
    if (o->slot[i].file.fd >= 0) close(o->slot[i].file.fd);
  pthread_mutex_destroy(&o->lock);
  free(o->slot), free(o->bucket), free(o);
}

/* ---- with the lock held ---- */

static int *bucket_of(mr__opened_t *o, const mr__object_file_t *f) {
  return &o->bucket[f->state[1] % (uint64_t)o->n];
}

static int find_slot(mr__opened_t *o, const mr__object_file_t *f) {
  int i = *bucket_of(o, f);
  while (i != NONE) {
    const mr__object_file_t *is = &o->slot[i].file;
    if (is->state[0] == f->state[0] && is->state[1] == f->state[1] && is->block == f->block) break;
    i = o->slot[i].next;
  }
  return i;
}

static void pin_slot(mr__opened_t *o, int i, mr__taken_t *t) {
  o->slot[i].pins++, o->slot[i].used = true;
  t->file = o->slot[i].file, t->slot = i;
}

static void empty_slot(mr__opened_t *o, int i) {
  int *at = bucket_of(o, &o->slot[i].file);
  while (*at != i) at = &o->slot[*at].next;
  *at = o->slot[i].next;
  close(o->slot[i].file.fd);
  o->slot[i].file.fd = NONE;
}

/* A free slot, or NONE if threads use all files. */
static int free_slot(mr__opened_t *o) {
  for (int k = 0; k < 2 * o->n; k++) {
    int i = o->hand;
    slot_t *s = &o->slot[i];
    o->hand = (i + 1) % o->n;
    if (s->file.fd < 0) return i;
    if (!s->pins && !s->used) return empty_slot(o, i), i;
    s->used = false;
  }
  return NONE;
}

/* ---- taking ---- */

bool mr__opened_take(mr__opened_t *o, mr__taken_t *t) {
  pthread_mutex_lock(&o->lock);
  int i = find_slot(o, &t->file);
  if (i != NONE) pin_slot(o, i, t);
  pthread_mutex_unlock(&o->lock);
  return i != NONE;
}

void mr__opened_put(mr__opened_t *o, mr__taken_t *t) {
  int fd = t->file.fd;
  pthread_mutex_lock(&o->lock);
  int i = find_slot(o, &t->file);
  t->slot = NONE;
  if (i != NONE) {
    pin_slot(o, i, t);
  } else if ((i = free_slot(o)) != NONE) {
    int *first = bucket_of(o, &t->file);
    o->slot[i] = (slot_t){.file = t->file, .next = *first};
    *first = i;
    pin_slot(o, i, t);
    fd = NONE;
  }
  pthread_mutex_unlock(&o->lock);
  if (fd >= 0 && t->slot != NONE) close(fd);
}

void mr__opened_leave(mr__opened_t *o, mr__taken_t *t) {
  if (t->slot == NONE) {
    close(t->file.fd);
    return;
  }
  pthread_mutex_lock(&o->lock);
  o->slot[t->slot].pins--;
  pthread_mutex_unlock(&o->lock);
}

void mr__opened_drop(mr__opened_t *o, mr__taken_t *t, void (*fn)(void *ctx), void *ctx) {
  if (t->slot == NONE) {
    close(t->file.fd);
    return;
  }
  pthread_mutex_lock(&o->lock);
  if (!--o->slot[t->slot].pins) {
    if (fn) fn(ctx);
    empty_slot(o, t->slot);
  }
  pthread_mutex_unlock(&o->lock);
}
