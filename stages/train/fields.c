/* Batches as a model takes them: planning a model for an input, padding short batches, and finding
   the fields to display. */
#include "stages/train/fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"
#include "model/train/train.h"
#include "stages/norm.h"

/* True for pictures that `normalize` has left as bytes or rounded to bf16. */
static bool is_held_field(const mr_field_t *f) {
  if (f->ndim != 3 || f->layout == MR_LAYOUT_NONE) return false;
  if (f->dtype != MR_U8) return f->dtype == MR_BF16;
  int64_t C = f->dim[f->layout == MR_LAYOUT_HWC ? 2 : 0];
  for (int64_t c = 0; c < C && C <= 3; c++)
    if (!(f->std[c] > 0)) return false;
  return C >= 1 && C <= 3;
}

int mr_train_fields(const mr_spec_t *spec, mr_model_field_t *field) {
  static const char *const layout[] = {
      [MR_LAYOUT_NONE] = "", [MR_LAYOUT_CHW] = "CHW", [MR_LAYOUT_HWC] = "HWC"};
  int n = 0;
  for (int i = 0; i < spec->n_fields; i++) {
    const mr_field_t *f = &spec->field[i];
    if (f->ragged) continue;
    bool held = is_held_field(f);
    field[n] = (mr_model_field_t){.name = f->name,
                                  .aval = mr_aval(held ? MR_F32 : f->dtype, f->ndim, f->dim),
                                  .layout = layout[f->layout],
                                  .classes = f->label ? mr_spec_classes(spec, i) : 0,
                                  .held = held ? f->dtype : (mr_dtype_t)0,
                                  .channel = f->layout == MR_LAYOUT_HWC ? 2 : 0};
    memcpy(field[n].mean, f->mean, sizeof f->mean);
    memcpy(field[n++].std, f->std, sizeof f->std);
  }
  return n;
}

/* The first field of pictures in bytes with more channels than a step normalises; -1: none. */
static int fields_wide(const mr_spec_t *spec) {
  for (int i = 0; i < spec->n_fields; i++) {
    const mr_field_t *f = &spec->field[i];
    bool bytes = f->dtype == MR_U8 && f->ndim == 3 && f->layout != MR_LAYOUT_NONE && !f->ragged;
    if (bytes && f->dim[f->layout == MR_LAYOUT_HWC ? 2 : 0] > 3) return i;
  }
  return -1;
}

mr_err_t mr_train_model_for(mr_stage_t *s, int port, const mr_model_def_t *def, void *state,
                            mr_model_t *out) {
  mr_model_field_t field[MR_FIELDS_MAX];
  mr_diag_t why = {0};
  char text[256];
  int n = mr_train_fields(&s->in_spec[port], field);
  mr_err_t e = mr_model_plan(out, def, state, n, field, &why);
  if (e >= 0) return MR_OK;
  int wide = fields_wide(&s->in_spec[port]);
  mr_spec_text(&s->in_spec[port], text, sizeof text);
  if (e != MR_ERR_SHAPE) return mr_stage_relay(s, e, &why);
  if (wide >= 0)
    return mr_stage_fail(s, e,
                         "input %s is %s: %s are bytes of more than 3 channels, which a step does "
                         "not normalise; want `normalize dtype=f32` or dtype=bf16 before batch",
                         s->in_name[port], text, s->in_spec[port].field[wide].name);
  return mr_diag_prefix(s->diag, e, &why, "%s: input %s is %s", s->name, s->in_name[port], text);
}

static void *fields_copy(size_t record, size_t n, size_t B, const void *from) {
  char *to = aligned_alloc(64, (B * record + 63) / 64 * 64);
  if (!to) return NULL;
  memcpy(to, from, n * record);
  for (size_t i = n; i < B; i++) memcpy(to + i * record, to + (n - 1) * record, record);
  return to;
}

/* Takes b's fields, or copies of B records if b is short or has labels in other numbers. */
static bool fields_take(mr_train_batch_t *t, const mr_spec_t *spec, const mr_loss_t *l,
                        const mr_train_aligned_t *aligned, const mr_buf_t *b) {
  size_t n = (size_t)b->n, B = (size_t)spec->batch;
  assert(n == B || !spec->device); /* train-step refuses a short batch */
  for (int i = 0; i < l->n_fields; i++) {
    const mr_aval_t held = mr_loss_held(&l->field[i]);
    size_t record = mr_aval_bytes(&held);
    int f = mr_spec_find(spec, l->field[i].name);
    bool renumbered = aligned && aligned->number[f];
    t->field[i] = b->field[f].data;
    if (n == B && !renumbered) continue;
    t->field[i] = t->own[i] = fields_copy(record, n, B, t->field[i]);
    if (!t->own[i]) return false;
    int32_t *label = t->own[i];
    if (renumbered) mr_train_aligned_apply(aligned, f, label, (int64_t)n);
    for (size_t k = n; l->field[i].classes && k < B; k++) label[k] = MR_LABEL_NONE;
  }
  if (!l->masked) return true;
  float *mask = aligned_alloc(64, (B * sizeof *mask + 63) / 64 * 64);
  t->field[l->n_fields] = t->own[l->n_fields] = mask;
  for (size_t i = 0; mask && i < B; i++) mask[i] = i < n && !b->excluded[i];
  return mask != NULL;
}

mr_err_t mr_train_batch_init(mr_train_batch_t *t, mr_stage_t *s, const mr_spec_t *spec,
                             const mr_loss_t *l, const mr_train_aligned_t *aligned,
                             const mr_buf_t *b) {
  *t = (mr_train_batch_t){.own = {NULL}};
  if (fields_take(t, spec, l, aligned, b)) return MR_OK;
  return mr_stage_no_memory(s, "padding a batch of %d records to %lld", b->n,
                            (long long)spec->batch);
}

void mr_train_batch_fini(mr_train_batch_t *t) {
  for (int i = 0; i < MR_LOSS_FIELDS + 1; i++) free(t->own[i]);
  *t = (mr_train_batch_t){.own = {NULL}};
}

mr_err_t mr_train_check_labels(mr_stage_t *s, const mr_spec_t *spec, const mr_loss_t *l,
                               const mr_buf_t *b) {
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  for (int i = 0; i < l->n_fields && e >= 0; i++) {
    const int32_t *label = b->field[mr_spec_find(spec, l->field[i].name)].label;
    if (label && l->field[i].classes) e = mr_train_check_classes(&l->field[i], label, b->n, &why);
  }
  return mr_stage_relay(s, e, &why);
}

/* The values of n elements of a field, from how a batch holds them. */
static void fields_values(const mr_model_field_t *f, const void *from, size_t n, float *to) {
  const uint8_t *byte = from;
  const mr_bf16_t *half = from;
  size_t inner = f->channel ? 1 : (size_t)(f->aval.dim[1] * f->aval.dim[2]);
  size_t C = (size_t)f->aval.dim[f->channel];
  for (size_t i = 0; i < n; i++) {
    size_t c = i / inner % C;
    to[i] =
        f->held == MR_U8 ? mr_norm_value(byte[i], f->mean[c], f->std[c]) : mr_bf16_to_f32(half[i]);
  }
}

/* Copies field i as it is held to the host, unless it lies there; *own is then the copy. */
static mr_err_t fields_fetch(const mr_train_batch_t *from, const mr_spec_t *spec,
                             const mr_model_field_t *f, int i, const mr_device_t *d, void **own,
                             mr_diag_t *diag) {
  const mr_aval_t held = mr_loss_held(f);
  size_t bytes = (size_t)spec->batch * mr_aval_bytes(&held);
  *own = NULL;
  if (!spec->device) return MR_OK;
  if (!(*own = aligned_alloc(64, (bytes + 63) / 64 * 64)))
    return mr_no_memory(diag, "a copy of a batch");
  mr_device_copy(d, *own, from->field[i], bytes, MR_COPY_OUT);
  return MR_OK;
}

mr_err_t mr_train_batch_fetch(mr_train_batch_t *to, const mr_train_batch_t *from,
                              const mr_spec_t *spec, const mr_loss_t *l, const mr_device_t *d,
                              mr_diag_t *diag) {
  *to = (mr_train_batch_t){.own = {NULL}};
  memcpy(to->field, from->field, sizeof to->field);
  for (int i = 0; i < l->n_fields; i++) {
    const mr_model_field_t *f = &l->field[i];
    size_t n = (size_t)(spec->batch * mr_aval_elems(&f->aval));
    void *own;
    MR_TRY(fields_fetch(from, spec, f, i, d, &own, diag));
    to->own[i] = own;
    if (f->held) {
      to->own[i] = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
      if (to->own[i]) fields_values(f, own ? own : from->field[i], n, to->own[i]);
      free(own);
      if (!to->own[i]) return mr_no_memory(diag, "a copy of a batch");
    }
    if (to->own[i]) to->field[i] = to->own[i];
  }
  return MR_OK;
}

const void *mr_train_value(const mr_spec_t *spec, const mr_buf_t *b, int f, int i,
                           const mr_device_t *d, void *room) {
  size_t bytes = mr_field_bytes(&spec->field[f]);
  const char *at = (const char *)b->field[f].data + bytes * (size_t)i;
  if (!spec->device) return at;
  mr_device_copy(d, room, at, bytes, MR_COPY_OUT);
  return room;
}

/* True for pictures that `normalize` has made. */
static bool fields_is_picture(const mr_field_t *f) {
  return (f->dtype == MR_F32 || is_held_field(f)) && f->ndim == 3 && f->layout == MR_LAYOUT_HWC &&
         !f->ragged && f->dim[2] >= 1;
}

int mr_train_truth(const mr_spec_t *spec, const mr_loss_t *l) {
  int truth = -1;
  for (int i = l->n_fields - 1; i >= 0 && l->classes; i--)
    if (l->field[i].classes == l->classes) truth = mr_spec_find(spec, l->field[i].name);
  return truth;
}

bool mr_train_sight(const mr_spec_t *spec, const mr_loss_t *l, mr_train_sight_t *out) {
  *out = (mr_train_sight_t){-1, mr_train_truth(spec, l)};
  for (int i = l->n_fields - 1; i >= 0; i--) {
    int f = mr_spec_find(spec, l->field[i].name);
    if (f < 0) continue;
    if (fields_is_picture(&spec->field[f])) out->picture = f;
  }
  return out->picture >= 0 && out->truth >= 0;
}
