/* Slots of a device and the copies into them, beside its commands where the backend has a queue for
   that, else among them. */
#include "model/train/slots.h"

#include <assert.h>
#include <stdlib.h>

#include "model/exec/device.h"

struct mr_slots {
  const mr_device_t *device; /* kept open */
  int n, n_fields;
  size_t *at;   /* [n_fields] offsets in a slot */
  size_t bytes; /* of a slot */
  char **block; /* [n] */
};

static size_t slots_align(const mr_device_t *d, size_t bytes) {
  return (bytes + d->backend->align - 1) / d->backend->align * d->backend->align;
}

size_t mr_slots_bytes(const mr_device_t *d, int n, int n_fields, const size_t *field_bytes) {
  size_t bytes = 0;
  for (int i = 0; i < n_fields; i++) bytes += slots_align(d, field_bytes[i]);
  return bytes * (size_t)n;
}

static mr_err_t slots_take(mr_slots_t *s, mr_diag_t *diag) {
  const mr_device_t *d = s->device;
  for (int k = 0; k < s->n; k++) {
    size_t room = mr_device_room(d);
    s->block[k] = s->bytes <= room ? mr_device_take(d, s->bytes) : NULL;
    if (!s->block[k])
      return mr_fail(diag, MR_ERR_NOMEM,
                     "out of memory: device %s: %d slots for batches of %zu bytes; %zu bytes are "
                     "free for slot %d; take fewer slots or a smaller batch",
                     d->name, s->n, s->bytes, room, k + 1);
  }
  return MR_OK;
}

mr_err_t mr_slots_create(const mr_device_t *d, int n, int n_fields, const size_t *field_bytes,
                         mr_slots_t **out, mr_diag_t *diag) {
  assert(!d->backend->host && n > 0 && n_fields > 0);
  mr_slots_t *s = calloc(1, sizeof *s);
  if (!s) return mr_no_memory(diag, "the slots of a device");
  *s = (mr_slots_t){.device = mr_device_keep(d),
                    .n = n,
                    .n_fields = n_fields,
                    .at = calloc((size_t)n_fields, sizeof *s->at),
                    .block = calloc((size_t)n, sizeof *s->block)};
  mr_err_t e = s->at && s->block ? MR_OK : mr_no_memory(diag, "the slots of a device");
  for (int i = 0; i < n_fields && e >= 0; i++) {
    s->at[i] = s->bytes;
    s->bytes += slots_align(d, field_bytes[i]);
  }
  if (e >= 0) e = slots_take(s, diag);
  /* Memory is taken by commands. */
  if (e >= 0 && d->backend->queue->follow_beside) d->backend->queue->follow_beside(d, MR_COPY_IN);
  if (e < 0) return mr_slots_destroy(s), e;
  *out = s;
  return MR_OK;
}

void mr_slots_destroy(mr_slots_t *s) {
  if (!s) return;
  const mr_queue_ops_t *queue = s->device->backend->queue;
  if (queue->wait_beside) queue->wait_beside(s->device, MR_COPY_IN); /* and given back by them */
  for (int k = 0; s->block && k < s->n; k++) mr_device_give(s->device, s->block[k], s->bytes);
  mr_device_close(s->device);
  free(s->block);
  free(s->at);
  free(s);
}

void *mr_slots_at(const mr_slots_t *s, int k, int i) {
  assert(k >= 0 && k < s->n && i >= 0 && i < s->n_fields);
  return s->block[k] + s->at[i];
}

void *mr_slots_fill(mr_slots_t *s, int k, const void *const *field, const size_t *bytes) {
  const mr_device_t *d = s->device;
  bool beside = d->backend->queue->copy_beside != NULL;
  for (int i = 0; i < s->n_fields; i++) {
    void *to = mr_slots_at(s, k, i);
    if (beside)
      d->backend->queue->copy_beside(d, to, field[i], bytes[i], MR_COPY_IN);
    else
      mr_device_copy_later(d, to, field[i], bytes[i], MR_COPY_IN);
  }
  return beside ? d->backend->queue->mark_beside(d, MR_COPY_IN) : mr_device_mark(d);
}

mr_err_t mr_slots_filled(const mr_slots_t *s, void *mark, bool wait, mr_diag_t *diag) {
  return mr_device_reached(s->device, mark, wait, diag);
}
