/* Classes of an input in the model's numbers.  The stream's own numbers stay what they are up to
   the batch; only what a step is given is renumbered, so that ids, ledgers and other readers of the
   batch do not change. */
#include "stages/train/align.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/dataset.h"

/* Rows have one number for each class, in the order of the list. */
static mr_err_t align_rows(mr_stage_t *s, const mr_field_t *f, const mr_field_t *want,
                           const char *of, const char *want_of) {
  char one[300], other[300];
  if (mr_classes_same(f->classes, want->classes)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "field %s of %s has rows for the %d classes %s, and %s for the %d classes "
                       "%s: rows are not renumbered, want the same lists",
                       f->name, of, f->classes->n, mr_classes_text(f->classes, one, sizeof one),
                       want_of, want->classes->n,
                       mr_classes_text(want->classes, other, sizeof other));
}

static mr_err_t align_label(mr_stage_t *s, int port, int f, const mr_field_t *want, const char *of,
                            const char *want_of, mr_train_aligned_t *a) {
  mr_spec_t *spec = &s->in_spec[port];
  mr_field_t *field = &spec->field[f];
  mr_diag_t why = {0};
  char list[300];
  mr_err_t e = mr_classes_align(field->classes, of, want->classes, want_of, &a->number[f], &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (a->number[f] && spec->device)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "%s numbers the classes of field %s otherwise than %s, %s, and its labels "
                         "lie on device %s, where they are not renumbered: want no to-device "
                         "before it",
                         of, field->name, want_of,
                         mr_classes_text(want->classes, list, sizeof list), spec->device);
  a->n[f] = field->classes->n;
  field->classes = want->classes;
  if (field->n_classes) field->n_classes = want->classes->n;
  return MR_OK;
}

static void align_say_nameless(const mr_stage_t *s, const mr_field_t *f, const mr_field_t *want,
                               const char *of, const char *want_of) {
  char list[300];
  const mr_classes_t *c = f->classes ? f->classes : want->classes;
  mr_notice(
      "%s: the classes of field %s have names in %s alone, %s: those of %s are taken by number",
      s->name, f->name, f->classes ? of : want_of, mr_classes_text(c, list, sizeof list),
      f->classes ? want_of : of);
}

mr_err_t mr_train_align(mr_stage_t *s, int port, const mr_spec_t *want, const char *want_of,
                        mr_train_aligned_t *a) {
  char of[MR_IN_NAME_MAX + 16];
  snprintf(of, sizeof of, "input %s", s->in_name[port]);
  for (int f = 0; f < s->in_spec[port].n_fields; f++) {
    const mr_field_t *field = &s->in_spec[port].field[f];
    int w = mr_spec_find(want, field->name);
    const mr_field_t *there = w < 0 ? NULL : &want->field[w];
    if (!there || field->label != there->label || (!field->classes && !there->classes)) continue;
    if (!field->classes || !there->classes)
      align_say_nameless(s, field, there, of, want_of);
    else if (field->label)
      MR_TRY(align_label(s, port, f, there, of, want_of, a));
    else
      MR_TRY(align_rows(s, field, there, of, want_of));
  }
  return MR_OK;
}

void mr_train_name_dataset(mr_spec_t *spec, int f, mr_dataset_t *own) {
  const mr_dataset_t *d = spec->dataset;
  const mr_classes_t *c = f < 0 ? NULL : spec->field[f].classes;
  if (!d || f < 0 || (!c && mr_spec_label(spec) == f)) return;
  *own = (mr_dataset_t){d->origin, c ? c->n : 0, c ? c->name : NULL};
  spec->dataset = own;
}

void mr_train_aligned_fini(mr_train_aligned_t *a) {
  for (int f = 0; f < MR_FIELDS_MAX; f++) free(a->number[f]);
  *a = (mr_train_aligned_t){0};
}

void mr_train_aligned_apply(const mr_train_aligned_t *a, int f, int32_t *label, int64_t n) {
  for (int64_t i = 0; i < n && a->number[f]; i++)
    if (label[i] != MR_LABEL_NONE)
      label[i] = label[i] < 0 || label[i] >= a->n[f] ? INT32_MAX : a->number[f][label[i]];
}
