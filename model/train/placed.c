/* Sets of parameters on a device, and their copies.  The host's sets are a mirror, which is brought
   up to date only when someone reads it: for a checkpoint, histograms, the end. */
#include "model/train/placed.h"

static bool placed_wants(const mr__placed_t *p, const mr_param_set_t *set) {
  if (set->kind == MR_SET_AVERAGE) return p->average;
  if (set->kind == MR_SET_VALUES) return p->moments || !p->average;
  return p->moments && set->number < p->n_slots;
}

static mr_err_t placed_take(mr__placed_t *p, const mr_params_t *params, mr_diag_t *diag) {
  const mr_device_t *d = p->device;
  for (int i = 0; i < params->n_sets; i++) {
    const mr_param_set_t *from = &params->set[i];
    if (!placed_wants(p, from)) continue;
    size_t bytes = params->arena_size * mr_dtype_size(from->dtype), room = mr_device_room(d);
    mr_param_set_t set = *from;
    set.data = bytes < room ? mr_device_take(d, bytes) : NULL;
    if (!set.data)
      return mr_fail(diag, MR_ERR_NOMEM,
                     "out of memory: device %s: a set of parameters is %zu bytes, beside the "
                     "planned peak %zu are free; take a smaller model or batch, or a smaller fit=",
                     d->name, bytes, room);
    p->bytes[p->n_sets] = bytes;
    p->set[p->n_sets++] = set;
  }
  return MR_OK;
}

/* Pins the arrays of params, from and to which the device then copies directly, instead of those
   before. */
static void placed_pin(mr__placed_t *p, const mr_params_t *params) {
  const mr_device_t *d = p->device;
  for (int i = 0; d->backend->memory->pin && i < p->n_sets; i++) {
    const mr_param_set_t *from =
        params ? mr_params_set(params, p->set[i].kind, p->set[i].number) : NULL;
    if (from && p->pinned[i] == from->data) continue;
    if (p->pinned[i]) d->backend->memory->unpin(d, p->pinned[i]);
    p->pinned[i] = from && d->backend->memory->pin(d, from->data, p->bytes[i]) ? from->data : NULL;
  }
}

mr_err_t mr__placed_put(mr__placed_t *p, const mr_params_t *params, mr_diag_t *diag) {
  if (!p->device) return MR_OK;
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->n_sets) MR_TRY(placed_take(p, params, diag));
  for (int i = 0; i < p->n_sets; i++) {
    const mr_param_set_t *from = mr_params_set(params, p->set[i].kind, p->set[i].number);
    if (!from || params->arena_size * mr_dtype_size(from->dtype) != p->bytes[i])
      return mr_fail(diag, MR_ERR_SHAPE, "parameters of another size than the device holds");
    mr_device_copy(p->device, p->set[i].data, from->data, p->bytes[i], MR_COPY_IN);
  }
  placed_pin(p, params);
  p->of = params;
  p->newer = false;
  return mr_device_usable(p->device, diag);
}

mr_err_t mr__placed_fetch(mr__placed_t *p, mr_params_t *params, mr_diag_t *diag) {
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!p->device || !p->newer) return MR_OK;
  MR_TRY(mr_device_reached(p->device, NULL, true,
                           diag)); /* a failure must not reach the host's copy */
  for (int i = 0; i < p->n_sets; i++) {
    const mr_param_set_t *to = mr_params_set(params, p->set[i].kind, p->set[i].number);
    mr_device_copy(p->device, to->data, p->set[i].data, p->bytes[i], MR_COPY_OUT);
  }
  p->newer = false;
  return mr_device_usable(p->device, diag);
}

mr_err_t mr__placed_fetch_begin(mr__placed_t *p, mr_params_t *params, mr_diag_t *diag) {
  const mr_device_t *d = p->device;
  MR_TRY(mr__placed_fetch_end(p, diag));
  if (!d || !p->newer) return MR_OK;
  if (!d->backend->queue->copy_beside) return mr__placed_fetch(p, params, diag);
  MR_TRY(mr_device_usable(d, diag));
  d->backend->queue->follow_beside(d, MR_COPY_OUT);
  for (int i = 0; i < p->n_sets; i++) {
    const mr_param_set_t *to = mr_params_set(params, p->set[i].kind, p->set[i].number);
    d->backend->queue->copy_beside(d, to->data, p->set[i].data, p->bytes[i], MR_COPY_OUT);
  }
  p->mark = d->backend->queue->mark_beside(d, MR_COPY_OUT);
  p->newer = false, p->fetching = true;
  return MR_AGAIN;
}

mr_err_t mr__placed_fetch_end(mr__placed_t *p, mr_diag_t *diag) {
  if (!p->fetching) return MR_OK;
  p->fetching = false;
  if (!p->mark) return mr_device_usable(p->device, diag); /* the copies are done */
  void *mark = p->mark;
  p->mark = NULL;
  return mr_device_reached(p->device, mark, true, diag);
}

const mr_param_set_t *mr__placed_set(const mr__placed_t *p, const mr_params_t *params,
                                     mr_set_kind_t kind, int number) {
  if (!p->device) return mr_params_set(params, kind, number);
  for (int i = 0; i < p->n_sets; i++)
    if (p->set[i].kind == kind && p->set[i].number == number) return &p->set[i];
  return NULL;
}

void mr__placed_fini(mr__placed_t *p) {
  (void)mr__placed_fetch_end(p, NULL); /* the device's failure is that of the next command */
  if (p->n_sets) placed_pin(p, NULL);
  for (int i = 0; i < p->n_sets; i++) mr_device_give(p->device, p->set[i].data, p->bytes[i]);
  p->n_sets = 0;
  p->of = NULL;
}
