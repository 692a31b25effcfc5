/* Rings of arrays on the host, and the copies between them and the device's.  A copy is given with
   the run that needs it, and the device makes all of them in order, so one mark a run tells that
   its batch may be released and its numbers read. */
#include "model/train/staged.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void strip_add(mr__strip_t *s, const mr_device_t *d, size_t bytes) {
  s->at[s->n++] = s->bytes;
  s->bytes += (bytes + d->backend->align - 1) / d->backend->align * d->backend->align;
}

static mr_err_t strip_take(mr__strip_t *s, const mr_device_t *d, bool host, mr_diag_t *diag) {
  size_t ring = s->bytes * MR_TRAIN_RING;
  if (!s->bytes) return MR_OK;
  if (host && !(s->here = aligned_alloc(64, (ring + 127) / 64 * 64)))
    return mr_no_memory(diag, "the scalars of a step");
  if (host) memset(s->here, 0, ring);
  if ((s->there = mr_device_take(d, s->bytes))) return MR_OK;
  return mr_fail(diag, MR_ERR_NOMEM,
                 "out of memory: device %s: %zu bytes for a batch, %zu are free; take a smaller "
                 "batch",
                 d->name, s->bytes, mr_device_room(d));
}

static void strip_fini(mr__strip_t *s, const mr_device_t *d) {
  mr_device_give(d, s->there, s->bytes);
  free(s->here);
  *s = (mr__strip_t){0};
}

static char *strip_here(const mr__strip_t *s, int64_t run, int i) {
  assert(i < s->n);
  return s->here + (size_t)(run % MR_TRAIN_RING) * s->bytes + s->at[i];
}

static char *strip_there(const mr__strip_t *s, int i) {
  assert(i < s->n);
  return s->there + s->at[i];
}

mr_err_t mr__staged_init(mr__staged_t *s, const mr_device_t *d, int n, const size_t *field_bytes,
                         size_t report, mr_diag_t *diag) {
  assert(n <= MR__STAGED_FIELDS);
  s->device = d;
  for (int i = 0; i < n; i++) {
    s->field_bytes[i] = field_bytes[i];
    strip_add(&s->field, d, field_bytes[i]);
  }
  for (int i = 0; i < MR__STAGED_IN; i++) strip_add(&s->in, d, sizeof(uint64_t));
  for (int i = 0; i < MR__STAGED_OUT; i++) strip_add(&s->out, d, i ? sizeof(uint64_t) : report);
  MR_TRY(strip_take(&s->field, d, false, diag));
  MR_TRY(strip_take(&s->in, d, true, diag));
  return strip_take(&s->out, d, true, diag);
}

void mr__staged_fini(mr__staged_t *s) {
  if (!s->device) return;
  (void)mr_device_reached(s->device, NULL, true,
                          NULL); /* copies into the host's arrays may be under way */
  for (int i = 0; i < MR_TRAIN_RING; i++)
    if (s->mark[i]) (void)mr_device_reached(s->device, s->mark[i], true, NULL);
  strip_fini(&s->field, s->device);
  strip_fini(&s->in, s->device);
  strip_fini(&s->out, s->device);
  *s = (mr__staged_t){0};
}

void mr__staged_fields(const mr__staged_t *s, const void *const *field, const void **in) {
  for (int i = 0; i < s->field.n; i++) {
    char *to = strip_there(&s->field, i);
    mr_device_copy_later(s->device, to, field[i], s->field_bytes[i], MR_COPY_IN);
    in[i] = to;
  }
}

void *mr__staged_scalar(const mr__staged_t *s, int64_t run, int i) {
  return strip_here(&s->in, run, i);
}

void mr__staged_scalars(const mr__staged_t *s, int64_t run) {
  mr_device_copy_later(s->device, s->in.there, strip_here(&s->in, run, 0), s->in.bytes, MR_COPY_IN);
}

/* Both sides lie one behind the other at the same distances. */
void mr__staged_pass_on(const mr__staged_t *s) {
  const char *from = strip_there(&s->out, 1);
  mr_device_copy_later(s->device, strip_there(&s->in, MR__STAGED_SCALARS), from,
                       (size_t)(s->out.there + s->out.bytes - from), MR_COPY_WITHIN);
}

void *mr__staged_in(const mr__staged_t *s, int i) { return strip_there(&s->in, i); }

void *mr__staged_out(const mr__staged_t *s, int i) { return strip_there(&s->out, i); }

void mr__staged_end(mr__staged_t *s, int64_t run) {
  void **mark = &s->mark[run % MR_TRAIN_RING];
  if (*mark)
    (void)mr_device_reached(s->device, *mark, true, NULL); /* a run that was undone, never read */
  mr_device_copy_later(s->device, strip_here(&s->out, run, 0), s->out.there, s->out.bytes,
                       MR_COPY_OUT);
  *mark = mr_device_mark(s->device);
}

mr_err_t mr__staged_read(mr__staged_t *s, int64_t run, bool wait, mr_diag_t *diag) {
  void **mark = &s->mark[run % MR_TRAIN_RING];
  mr_err_t e = mr_device_reached(s->device, *mark, wait, diag);
  if (e != MR_AGAIN) *mark = NULL;
  return e;
}

const void *mr__staged_result(const mr__staged_t *s, int64_t run, int i) {
  return strip_here(&s->out, run, i);
}
