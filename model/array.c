#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "model/array_private.h"

mr__bytes_t *mr__bytes_create(size_t n) {
  mr__bytes_t *b = malloc(sizeof *b);
  if (!b) return NULL;
  atomic_init(&b->refs, 1);
  b->data = mr_pages_alloc(n);
  if (b->data) return b;
  free(b);
  return NULL;
}

mr__bytes_t *mr__bytes_keep(mr__bytes_t *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); /* the caller holds one */
  return b;
}

void mr__bytes_drop(mr__bytes_t *b) {
  if (!b) return;
  /* acq_rel: what every owner did with the bytes comes before they go. */
  int before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before > 1) return;
  free(b->data);
  free(b);
}

mr_array_t *mr__array_create(mr_aval_t aval, mr__bytes_t *bytes, mr_queue_t *queue) {
  mr_array_t *a = malloc(sizeof *a);
  if (!a) {
    mr__bytes_drop(bytes);
    return NULL;
  }
  atomic_init(&a->refs, 1);
  atomic_init(&a->state, queue ? MR__PENDING : MR__READY);
  a->aval = aval;
  a->bytes = bytes;
  a->queue = queue;
  a->diag = NULL;
  return a;
}

mr_array_t *mr_array_of(mr_aval_t aval, const void *data, mr_diag_t *diag) {
  size_t n = mr_aval_bytes(&aval);
  char text[MR_AVAL_TEXT];
  mr__bytes_t *bytes = mr__bytes_create(n);
  mr_array_t *a = bytes ? mr__array_create(aval, bytes, NULL) : NULL;
  if (a)
    memcpy(bytes->data, data, n);
  else
    mr_fail(diag, MR_ERR_NOMEM, "no memory for an array of %s", mr_aval_text(&aval, text));
  return a;
}

mr_array_t *mr_array_keep(mr_array_t *a) {
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed); /* the caller holds one */
  return a;
}

void mr_array_drop(mr_array_t *a) {
  if (!a) return;
  int before = atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel); /* as of bytes */
  assert(before > 0);
  if (before > 1) return;
  mr__bytes_drop(a->bytes);
  free(a->diag);
  free(a);
}

/* release pairs with the acquire in state_of: the bytes or the sentence are there.  A thread that
   waits does so under the lock of the queue, which the thread that settles a takes afterwards. */
static void settle(mr_array_t *a, mr__state_t state) {
  assert(atomic_load_explicit(&a->state, memory_order_relaxed) == MR__PENDING); /* once */
  atomic_store_explicit(&a->state, state, memory_order_release);
}

void mr__array_done(mr_array_t *a) { settle(a, MR__READY); }

/* Without memory for the sentence the failure still stands, with the code's own. */
void mr__array_fail(mr_array_t *a, const mr_diag_t *why) {
  a->diag = malloc(sizeof *a->diag);
  if (a->diag) *a->diag = *why;
  settle(a, MR__FAILED);
}

const mr_aval_t *mr_array_aval(const mr_array_t *a) { return &a->aval; }

/* acquire pairs with the release in settle. */
static int state_of(const mr_array_t *a) {
  return atomic_load_explicit(&a->state, memory_order_acquire);
}

bool mr_array_is_ready(const mr_array_t *a) { return state_of(a) != MR__PENDING; }

mr_err_t mr_block_until_ready(mr_array_t *a, mr_diag_t *diag) {
  if (!mr_array_is_ready(a)) mr__queue_wait(a->queue, a);
  if (state_of(a) == MR__READY) return MR_OK;
  if (!a->diag) return mr_fail(diag, MR_ERR_NOMEM, "a run failed, with no memory to say why");
  return mr_fail(diag, a->diag->code, "%s", a->diag->text);
}

mr_err_t mr_array_data(mr_array_t *a, const void **data, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  MR_TRY(mr_block_until_ready(a, diag));
  if (!a->bytes)
    return mr_fail(diag, MR_ERR_CONFIG, "an array of %s was donated and is gone; keep a copy",
                   mr_aval_text(&a->aval, text));
  *data = a->bytes->data;
  return MR_OK;
}
