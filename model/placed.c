/* Sets of parameters on a device, and their copies.  The host's sets are a mirror, which is brought
   up to date only when someone reads it: for a checkpoint, histograms, the end. */
#include "model/placed.h"

static bool placed_wants(const mr__placed_t *p, const mr_param_set_t *set) {
  if (set->kind == MR_SET_AVERAGE) return p->average;
  if (set->kind == MR_SET_VALUES) return p->moments || !p->average;
  return p->moments && set->number < p->n_slots;
}

static mr_err_t placed_take(mr__placed_t *p, const mr_params_t *params, mr_diag_t *diag) {
  const mr_backend_t *b = p->backend;
  for (int i = 0; i < params->n_sets; i++) {
    const mr_param_set_t *from = &params->set[i];
    if (!placed_wants(p, from)) continue;
    size_t bytes = params->arena_size * mr_dtype_size(from->dtype), room = b->room();
    mr_param_set_t set = *from;
    set.data = bytes < room ? b->take(bytes) : NULL;
    if (!set.data)
      return mr_fail(diag, MR_ERR_NOMEM,
                     "out of memory: device %s: a set of parameters is %zu bytes, beside the "
                     "planned peak %zu are free; take a smaller model or batch, or a smaller fit=",
                     b->name, bytes, room);
    p->bytes[p->n_sets] = bytes;
    p->set[p->n_sets++] = set;
  }
  return MR_OK;
}

mr_err_t mr__placed_put(mr__placed_t *p, const mr_params_t *params, mr_diag_t *diag) {
  if (!p->backend) return MR_OK;
  if (!p->n_sets) MR_TRY(placed_take(p, params, diag));
  for (int i = 0; i < p->n_sets; i++) {
    const mr_param_set_t *from = mr_params_set(params, p->set[i].kind, p->set[i].number);
    if (!from || params->arena_size * mr_dtype_size(from->dtype) != p->bytes[i])
      return mr_fail(diag, MR_ERR_SHAPE, "parameters of another size than the device holds");
    p->backend->copy(p->set[i].data, from->data, p->bytes[i], MR_COPY_IN);
  }
  p->of = params;
  p->newer = false;
  return p->backend->check(diag);
}

mr_err_t mr__placed_fetch(mr__placed_t *p, mr_params_t *params, mr_diag_t *diag) {
  if (!p->backend || !p->newer) return MR_OK;
  MR_TRY(p->backend->reached(NULL, true, diag)); /* a failure must not reach the host's copy */
  for (int i = 0; i < p->n_sets; i++) {
    const mr_param_set_t *to = mr_params_set(params, p->set[i].kind, p->set[i].number);
    p->backend->copy(to->data, p->set[i].data, p->bytes[i], MR_COPY_OUT);
  }
  p->newer = false;
  return p->backend->check(diag);
}

const mr_param_set_t *mr__placed_set(const mr__placed_t *p, const mr_params_t *params,
                                     mr_set_kind_t kind, int number) {
  if (!p->backend) return mr_params_set(params, kind, number);
  for (int i = 0; i < p->n_sets; i++)
    if (p->set[i].kind == kind && p->set[i].number == number) return &p->set[i];
  return NULL;
}

void mr__placed_fini(mr__placed_t *p) {
  for (int i = 0; i < p->n_sets; i++) p->backend->give(p->set[i].data, p->bytes[i]);
  p->n_sets = 0;
  p->of = NULL;
}
