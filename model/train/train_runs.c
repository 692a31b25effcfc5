/* Runs of a step: inputs, outputs and the ring of what they report, in the host's memory or by
   staged copies. */
#include "model/train/train_runs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static mr_err_t runs_stage(mr__runs_t *r, const mr_fn_t *f, const mr_device_t *device,
                           mr_diag_t *diag) {
  size_t bytes[MR__STAGED_FIELDS];
  int n = r->n_fields - r->there;
  if (!device) return MR_OK;
  for (int i = 0; i < n; i++) bytes[i] = mr_aval_bytes(&f->in[r->there + i]->aval);
  return mr__staged_init(&r->staged, device, n, bytes, r->stride * sizeof(float), diag);
}

mr_err_t mr__runs_init(mr__runs_t *r, const mr_fn_t *f, const mr_device_t *device, int n_fields,
                       int there, int n_reported, mr_diag_t *diag) {
  r->n_fields = n_fields, r->there = there;
  r->stride = ((size_t)n_reported + 15) / 16 * 16;
  r->in = calloc((size_t)f->n_in, sizeof *r->in);
  r->out = calloc((size_t)f->n_out, sizeof *r->out);
  r->reported = aligned_alloc(64, (MR_TRAIN_RING * r->stride + 16) * sizeof *r->reported);
  if (!r->in || !r->out || !r->reported) return mr_no_memory(diag, "the outputs of a step");
  return runs_stage(r, f, device, diag);
}

void mr__runs_fini(mr__runs_t *r) {
  mr__staged_fini(&r->staged);
  free(r->in);
  free(r->out);
  free(r->reported);
}

/* ---- what a run reads and writes ---- */

/* The host's numbers of a run; on a device those of a run that has ended. */
static float *runs_here(const mr__runs_t *r, int64_t run) {
  return r->reported + (size_t)(run % MR_TRAIN_RING) * r->stride;
}

static mr__scalars_t *runs_scalars(mr__runs_t *r) { return &r->scalars[r->begun % MR_TRAIN_RING]; }

/* Fields and scalars on a device. */
static void runs_begin_there(mr__runs_t *r, const void *const *field) {
  const mr__scalars_t *now = runs_scalars(r);
  mr__staged_fields(&r->staged, field + r->there, r->in + r->there);
  memcpy(mr__staged_scalar(&r->staged, r->begun, 0), &now->seed, sizeof now->seed);
  memcpy(mr__staged_scalar(&r->staged, r->begun, 1), &now->step, sizeof now->step);
  memcpy(mr__staged_scalar(&r->staged, r->begun, 2), &now->lr, sizeof now->lr);
  memcpy(mr__staged_scalar(&r->staged, r->begun, 3), &now->t, sizeof now->t);
  for (int i = 0; i < 2; i++) r->in[r->n_fields + i] = mr__staged_in(&r->staged, i);
  r->out[0] = mr__staged_out(&r->staged, 0);
}

mr_err_t mr__runs_begin(mr__runs_t *r, const void *const *field, const mr__scalars_t *given,
                        mr_diag_t *diag) {
  mr__scalars_t *now = runs_scalars(r);
  if (r->begun - r->read == MR_TRAIN_RING)
    return mr_fail(diag, MR_ERR_CONFIG, "%d runs are not read yet, want fewer", MR_TRAIN_RING);
  if (r->staged.device) MR_TRY(mr_device_usable(r->staged.device, diag));
  *now = *given;
  for (int i = 0; i < r->n_fields; i++) r->in[i] = field[i];
  r->in[r->n_fields] = &now->seed;
  r->in[r->n_fields + 1] = &now->step;
  r->out[0] = runs_here(r, r->begun);
  r->passes_on = false;
  if (r->staged.device) runs_begin_there(r, field);
  return MR_OK;
}

void mr__runs_rate(mr__runs_t *r, int in) {
  const mr__scalars_t *now = runs_scalars(r);
  bool device = r->staged.device != NULL;
  r->in[in] = device ? mr__staged_in(&r->staged, 2) : (const void *)&now->lr;
  r->in[in + 1] = device ? mr__staged_in(&r->staged, 3) : (const void *)&now->t;
}

mr_scale_state_t *mr__runs_scale_of(mr__runs_t *r, int64_t run) {
  return &r->scale[run % (MR_TRAIN_RING + 1)];
}

/* The loss scale's state on a device: while runs are unread, the newest is there alone, and
   mr__runs_send passes it on. */
static void runs_scale_there(mr__runs_t *r, int in, int out) {
  const mr_scale_state_t *now = mr__runs_scale_of(r, r->begun);
  const void *from[MR_SCALE_VARS] = {&now->scale, &now->good, &now->bad, &now->resets,
                                     &now->skipped};
  bool here = r->begun == r->read;
  r->passes_on = !here;
  for (int i = 0; i < MR_SCALE_VARS; i++) {
    int k = MR__STAGED_SCALARS + i;
    if (here) memcpy(mr__staged_scalar(&r->staged, r->begun, k), from[i], sizeof(int32_t));
    r->in[in + i] = mr__staged_in(&r->staged, k);
    r->out[out + i] = mr__staged_out(&r->staged, 1 + i);
  }
}

void mr__runs_scale(mr__runs_t *r, int in, int out) {
  if (r->staged.device) {
    runs_scale_there(r, in, out);
    return;
  }
  mr_scale_state_t *now = mr__runs_scale_of(r, r->begun);
  mr_scale_state_t *next = mr__runs_scale_of(r, r->begun + 1);
  const void *from[MR_SCALE_VARS] = {&now->scale, &now->good, &now->bad, &now->resets,
                                     &now->skipped};
  void *to[MR_SCALE_VARS] = {&next->scale, &next->good, &next->bad, &next->resets, &next->skipped};
  memcpy(r->in + in, from, sizeof from);
  memcpy(r->out + out, to, sizeof to);
}

void mr__runs_send(mr__runs_t *r) {
  if (!r->staged.device) return;
  mr__staged_scalars(&r->staged, r->begun);
  if (r->passes_on) mr__staged_pass_on(&r->staged);
}

void mr__runs_end(mr__runs_t *r) {
  if (r->staged.device) mr__staged_end(&r->staged, r->begun);
}

/* ---- what a run has reported ---- */

mr_err_t mr__runs_await(mr__runs_t *r, bool wait, mr_diag_t *diag) {
  if (r->read == r->begun) return MR_END;
  return r->staged.device ? mr__staged_read(&r->staged, r->read, wait, diag) : MR_OK;
}

const float *mr__runs_reported(const mr__runs_t *r) {
  if (r->staged.device) return mr__staged_result(&r->staged, r->read, 0);
  return runs_here(r, r->read);
}

void mr__runs_read_scale(mr__runs_t *r) {
  if (!r->staged.device) return;
  mr_scale_state_t *next = mr__runs_scale_of(r, r->read + 1);
  void *to[MR_SCALE_VARS] = {&next->scale, &next->good, &next->bad, &next->resets, &next->skipped};
  for (int i = 0; i < MR_SCALE_VARS; i++)
    memcpy(to[i], mr__staged_result(&r->staged, r->read, 1 + i), sizeof(int32_t));
}

void mr__runs_retake(mr__runs_t *r) {
  const mr_device_t *device = r->staged.device;
  assert(r->read);
  if (device)
    (void)mr_device_reached(device, NULL, true, NULL); /* a failure is that of the next run */
  r->begun = --r->read;
}
