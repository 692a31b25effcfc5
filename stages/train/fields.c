/* Batches as a model takes them: planning a model for an input, padding short batches, and finding
   the fields to display. */
#include "stages/train/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dataset.h"

/* The number of classes of a label: the dataset's, if the stream has one, else the field's. */
static int64_t fields_classes_of(const mr_spec_t *spec, const mr_field_t *f) {
  if (!f->label) return 0;
  return spec->dataset && spec->dataset->n_classes ? spec->dataset->n_classes : f->n_classes;
}

int mr_train_fields(const mr_spec_t *spec, mr_model_field_t *field) {
  static const char *const layout[] = {
      [MR_LAYOUT_NONE] = "", [MR_LAYOUT_CHW] = "CHW", [MR_LAYOUT_HWC] = "HWC"};
  int n = 0;
  for (int i = 0; i < spec->n_fields; i++) {
    const mr_field_t *f = &spec->field[i];
    if (f->ragged) continue;
    field[n++] = (mr_model_field_t){.name = f->name,
                                    .aval = mr_aval(f->dtype, f->ndim, f->dim),
                                    .layout = layout[f->layout],
                                    .classes = fields_classes_of(spec, f)};
  }
  return n;
}

mr_err_t mr_train_model_for(mr_stage_t *s, int port, const mr_model_def_t *def, void *state,
                            mr_model_t *out) {
  mr_model_field_t field[MR_FIELDS_MAX];
  mr_diag_t why = {0};
  char text[256];
  int n = mr_train_fields(&s->in_spec[port], field);
  mr_err_t e = mr_model_plan(out, def, state, n, field, &why);
  if (e >= 0) return MR_OK;
  mr_spec_text(&s->in_spec[port], text, sizeof text);
  if (e != MR_ERR_SHAPE) return mr_stage_relay(s, e, &why);
  return mr_diag_prefix(s->diag, e, &why, "%s: input %s is %s", s->name, s->def->in[port].name,
                        text);
}

static void *fields_copy(size_t record, size_t n, size_t B, const void *from) {
  char *to = aligned_alloc(64, (B * record + 63) / 64 * 64);
  if (!to) return NULL;
  memcpy(to, from, n * record);
  for (size_t i = n; i < B; i++) memcpy(to + i * record, to + (n - 1) * record, record);
  return to;
}

/* Takes b's fields, or copies of B records if b is short. */
static bool fields_take(mr_train_batch_t *t, const mr_spec_t *spec, const mr_loss_t *l,
                        const mr_buf_t *b) {
  size_t n = (size_t)b->n, B = (size_t)spec->batch;
  for (int i = 0; i < l->n_fields; i++) {
    size_t record = mr_aval_bytes(&l->field[i].aval);
    t->field[i] = b->field[mr_spec_find(spec, l->field[i].name)].data;
    if (n == B) continue;
    t->field[i] = t->own[i] = fields_copy(record, n, B, t->field[i]);
    if (!t->own[i]) return false;
    int32_t *label = t->own[i];
    for (size_t k = n; l->field[i].classes && k < B; k++) label[k] = MR_LABEL_NONE;
  }
  if (!l->masked) return true;
  float *mask = aligned_alloc(64, (B * sizeof *mask + 63) / 64 * 64);
  t->field[l->n_fields] = t->own[l->n_fields] = mask;
  for (size_t i = 0; mask && i < B; i++) mask[i] = i < n && !b->excluded[i];
  return mask != NULL;
}

mr_err_t mr_train_batch_init(mr_train_batch_t *t, mr_stage_t *s, const mr_spec_t *spec,
                             const mr_loss_t *l, const mr_buf_t *b) {
  *t = (mr_train_batch_t){.own = {NULL}};
  if (fields_take(t, spec, l, b)) return MR_OK;
  return mr_stage_no_memory(s, "padding a batch of %d records to %lld", b->n,
                            (long long)spec->batch);
}

void mr_train_batch_fini(mr_train_batch_t *t) {
  for (int i = 0; i < MR_LOSS_FIELDS + 1; i++) free(t->own[i]);
  *t = (mr_train_batch_t){.own = {NULL}};
}

/* True for pictures that `normalize` has made. */
static bool fields_is_picture(const mr_field_t *f) {
  return f->dtype == MR_F32 && f->ndim == 3 && f->layout == MR_LAYOUT_HWC && !f->ragged &&
         f->dim[2] >= 1;
}

bool mr_train_sight(const mr_spec_t *spec, const mr_loss_t *l, mr_train_sight_t *out) {
  *out = (mr_train_sight_t){-1, -1};
  for (int i = l->n_fields - 1; i >= 0; i--) {
    int f = mr_spec_find(spec, l->field[i].name);
    if (f < 0) continue;
    if (fields_is_picture(&spec->field[f])) out->picture = f;
    if (l->classes && l->field[i].classes == l->classes) out->truth = f;
  }
  return out->picture >= 0 && out->truth >= 0;
}
