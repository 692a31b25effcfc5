/* Arrays as futures.  A task of a queue settles a pending array once, as ready or failed; the store
   of its state with release order publishes the bytes or the sentence.  Bytes have a reference
   count of their own, so that a donated array may end while a run still uses its bytes. */
#include <assert.h>
#include <stdlib.h>

#include "model/call/array_private.h"
#include "model/exec/device.h"

mr__bytes_t *mr__bytes_create(const mr_device_t *device, size_t n) {
  mr__bytes_t *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  atomic_init(&b->refs, 1);
  b->device = mr_device_keep(device);
  b->size = n;
  b->data = mr_device_take(device, n);
  if (b->data) return b->note = mr__note_take(n), b;
  mr_device_close(device);
  free(b);
  return NULL;
}

mr__bytes_t *mr__bytes_keep(mr__bytes_t *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); /* the caller holds one */
  return b;
}

void mr__bytes_drop(mr__bytes_t *b) {
  if (!b) return;
  /* acq_rel: every owner's accesses to the bytes happen before the last owner frees them. */
  int before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before > 1) return;
  if (b->release)
    b->release(b->arg);
  else
    mr_device_give(b->device, b->data, b->size);
  mr_device_close(b->device);
  mr__note_drop(b->note);
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
  a->device = mr_device_keep(bytes->device);
  a->bytes = bytes;
  mr__note_say(bytes->note, &aval, NULL);
  a->queue = queue;
  a->diag = NULL;
  return a;
}

static mr_array_t *array_no_memory(const mr_aval_t *aval, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  mr_no_memory(diag, "an array of %s", mr_aval_text(aval, text));
  return NULL;
}

static const mr_device_t *or_default(const mr_device_t *device) {
  return device ? device : mr_device_default();
}

mr_array_t *mr_array_on(const mr_device_t *device, mr_aval_t aval, const void *data,
                        mr_diag_t *diag) {
  size_t n = mr_aval_bytes(&aval);
  mr__bytes_t *bytes = mr__bytes_create(or_default(device), n);
  mr_array_t *a = bytes ? mr__array_create(aval, bytes, NULL) : NULL;
  if (!a) return array_no_memory(&aval, diag);
  mr_device_copy(a->device, bytes->data, data, n, MR_COPY_IN);
  return a;
}

mr_array_t *mr_array_of(mr_aval_t aval, const void *data, mr_diag_t *diag) {
  return mr_array_on(NULL, aval, data, diag);
}

mr_array_t *mr_array_over(const mr_device_t *device, mr_aval_t aval, void *data,
                          void (*release)(void *arg), void *arg, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  device = or_default(device);
  if ((uintptr_t)data % device->backend->align) {
    mr_fail(diag, MR_ERR_CONFIG,
            "an array of %s over other memory: device %s wants it aligned to %zu",
            mr_aval_text(&aval, text), device->name, device->backend->align);
    return NULL;
  }
  mr__bytes_t *bytes = calloc(1, sizeof *bytes);
  mr_array_t *a = malloc(sizeof *a);
  if (!bytes || !a) {
    free(bytes);
    free(a);
    return array_no_memory(&aval, diag);
  }
  *bytes = (mr__bytes_t){.refs = 1,
                         .device = mr_device_keep(device),
                         .data = data,
                         .size = mr_aval_bytes(&aval),
                         .release = release,
                         .arg = arg,
                         .note = mr__note_take(mr_aval_bytes(&aval))};
  mr__note_say(bytes->note, &aval, NULL);
  *a = (mr_array_t){.refs = 1,
                    .state = MR__READY,
                    .aval = aval,
                    .device = mr_device_keep(device),
                    .bytes = bytes};
  return a;
}

mr_array_t *mr_array_keep(mr_array_t *a) {
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed); /* the caller holds one */
  return a;
}

void mr_array_drop(mr_array_t *a) {
  if (!a) return;
  int before = atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel); /* as for bytes */
  assert(before > 0);
  if (before > 1) return;
  mr__bytes_drop(a->bytes);
  mr_device_close(a->device);
  free(a->diag);
  free(a);
}

/* release pairs with the acquire in state_of and publishes the bytes or the sentence.  A waiting
   thread checks the state under the queue's lock; the settling thread takes that lock afterwards,
   to signal the end of its task, so no wake-up is lost. */
static void array_settle(mr_array_t *a, mr__state_t state) {
  assert(atomic_load_explicit(&a->state, memory_order_relaxed) == MR__PENDING); /* once */
  atomic_store_explicit(&a->state, state, memory_order_release);
}

void mr__array_done(mr_array_t *a) { array_settle(a, MR__READY); }

/* Without memory for the sentence the array still fails, as MR_ERR_NOMEM. */
void mr__array_fail(mr_array_t *a, const mr_diag_t *why) {
  a->diag = malloc(sizeof *a->diag);
  if (a->diag) *a->diag = *why;
  array_settle(a, MR__FAILED);
}

const mr_aval_t *mr_array_aval(const mr_array_t *a) { return &a->aval; }

const mr_device_t *mr_array_device(const mr_array_t *a) { return a->device; }

/* acquire pairs with the release in array_settle. */
static int state_of(const mr_array_t *a) {
  return atomic_load_explicit(&a->state, memory_order_acquire);
}

bool mr_array_is_ready(const mr_array_t *a) { return state_of(a) != MR__PENDING; }

mr_err_t mr_block_until_ready(mr_array_t *a, mr_diag_t *diag) {
  if (!mr_array_is_ready(a)) mr__queue_wait(a->queue, a);
  if (state_of(a) == MR__READY) return MR_OK;
  if (!a->diag) return mr_no_memory(diag, "the reason why a run failed");
  return mr_diag_relay(diag, a->diag->code, a->diag);
}

/* Waits until a's bytes hold its values.  Fails for a failed or a donated array. */
static mr_err_t await_bytes(mr_array_t *a, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  MR_TRY(mr_block_until_ready(a, diag));
  if (a->bytes) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "an array of %s was donated and is gone; keep a copy",
                 mr_aval_text(&a->aval, text));
}

mr_err_t mr_array_data(mr_array_t *a, const void **data, mr_diag_t *diag) {
  char text[MR_AVAL_TEXT];
  MR_TRY(await_bytes(a, diag));
  if (!a->device->backend->host)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "an array of %s lies on device %s, which the host cannot read in place; "
                   "mr_array_read copies it",
                   mr_aval_text(&a->aval, text), a->device->name);
  *data = a->bytes->data;
  return MR_OK;
}

mr_err_t mr_array_read(mr_array_t *a, void *host, mr_diag_t *diag) {
  MR_TRY(await_bytes(a, diag));
  mr_device_copy(a->device, host, a->bytes->data, a->bytes->size, MR_COPY_OUT);
  return MR_OK;
}

/* Copies between devices, through a buffer on the host unless the host can access one of them.
   false without memory for that buffer. */
static bool copy_across(const mr__bytes_t *from, const mr__bytes_t *to) {
  if (from->device->backend->host || to->device->backend->host) {
    const mr_device_t *d = from->device->backend->host ? to->device : from->device;
    mr_device_copy(d, to->data, from->data, from->size, d == to->device ? MR_COPY_IN : MR_COPY_OUT);
    return true;
  }
  void *host = malloc(from->size + 1);
  if (!host) return false;
  mr_device_copy(from->device, host, from->data, from->size, MR_COPY_OUT);
  mr_device_copy(to->device, to->data, host, from->size, MR_COPY_IN);
  free(host);
  return true;
}

mr_array_t *mr_array_to(mr_array_t *a, const mr_device_t *device, mr_diag_t *diag) {
  if (await_bytes(a, diag) < 0) return NULL;
  if (or_default(device) == a->device) return mr_array_keep(a);
  mr__bytes_t *bytes = mr__bytes_create(or_default(device), a->bytes->size);
  mr_array_t *b = bytes ? mr__array_create(a->aval, bytes, NULL) : NULL;
  if (b && copy_across(a->bytes, bytes)) return b;
  mr_array_drop(b);
  return array_no_memory(&a->aval, diag);
}
