/* Specs of stages with several record streams (concatenate, mix, interleave): which inputs are
   connected, whether their fields agree, and what their classes are called.  The result has the
   least that all inputs promise: the fewest epochs, a seed only if each has one; and the classes of
   all of them. */
#include "loaders/orders/inputs.h"

#include <stdio.h>
#include <string.h>

/* Sets the label classes of out to the larger number of both streams; unknown if one is unknown. */
static void widen_labels(mr_spec_t *out, const mr_spec_t *in) {
  for (int f = 0; f < out->n_fields && f < in->n_fields; f++) {
    int here = out->field[f].n_classes, there = in->field[f].n_classes;
    out->field[f].n_classes = !here || !there ? 0 : there > here ? there : here;
  }
}

mr_err_t mr_inputs_plan(mr_stage_t *s, int *n) {
  mr_spec_t *out = &s->out_spec[0];
  *n = 0;
  while (*n < MR_MAX_PORTS && s->in_linked[*n]) ++*n;
  for (int i = *n; i < MR_MAX_PORTS; i++)
    if (s->in_linked[i])
      return mr_stage_fail(s, MR_ERR_USAGE, "input %s is connected, but %s is not",
                           s->def->in[i].name, s->def->in[*n].name);
  *out = s->in_spec[0];
  for (int i = 1; i < *n; i++) {
    int64_t epochs = s->in_spec[i].n_epochs;
    out->seeded &= s->in_spec[i].seeded;
    widen_labels(out, &s->in_spec[i]);
    if (!out->n_epochs || (epochs && epochs < out->n_epochs)) out->n_epochs = epochs;
  }
  return MR_OK;
}

mr_err_t mr_inputs_alike(mr_stage_t *s, int n) {
  const mr_spec_t *a = &s->in_spec[0];
  for (int i = 1; i < n; i++) {
    const mr_spec_t *b = &s->in_spec[i];
    const char *name = s->def->in[i].name;
    char one[128], other[128];
    if (a->n_fields != b->n_fields)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "records of input a have %d fields and those of input %s %d, want the "
                           "same number; select= keeps some of them",
                           a->n_fields, name, b->n_fields);
    for (int f = 0; f < a->n_fields; f++) {
      const mr_field_t *x = &a->field[f], *y = &b->field[f];
      if (!strcmp(x->name, y->name) && mr_field_alike(x, y)) continue;
      mr_field_text(x, 0, one, sizeof one), mr_field_text(y, 0, other, sizeof other);
      return mr_stage_fail(
          s, MR_ERR_SHAPE,
          "records of inputs a and %s have different fields: field %d is %s in a and %s in %s",
          name, f, one, other, name);
    }
  }
  return MR_OK;
}

/* ---- classes ---- */

mr_err_t mr_inputs_same_classes(mr_stage_t *s, int i, int f, const char *advice) {
  const mr_field_t *a = &s->in_spec[0].field[f], *b = &s->in_spec[i].field[f];
  char one[300], other[300];
  if (!a->classes || !b->classes || mr_classes_same(a->classes, b->classes)) return MR_OK;
  return mr_stage_fail(
      s, MR_ERR_DATA,
      "field %s has the %d classes %s in input %s and the %d classes %s in input "
      "%s: %s",
      a->name, a->classes->n, mr_classes_text(a->classes, one, sizeof one), s->def->in[0].name,
      b->classes->n, mr_classes_text(b->classes, other, sizeof other), s->def->in[i].name, advice);
}

/* Says which inputs do not say what their numbers mean. */
static void say_nameless(const mr_stage_t *s, int n, int f) {
  char names[3 * MR_MAX_PORTS + 1] = "", list[300];
  const mr_classes_t *named = NULL;
  for (int i = 0; i < n; i++) {
    const mr_classes_t *c = s->in_spec[i].field[f].classes;
    size_t at = strlen(names);
    if (c && !named) named = c;
    if (!c) snprintf(names + at, sizeof names - at, "%s%.1s", at ? ", " : "", s->def->in[i].name);
  }
  mr_notice(
      "%s: input %s has no names for the classes of field %s: its numbers are taken for those of "
      "%s (names= of a source gives it names)",
      s->name, names, s->in_spec[0].field[f].name, mr_classes_text(named, list, sizeof list));
}

/* The largest number of classes of inputs without names. */
static int most_nameless(const mr_stage_t *s, int n, int f) {
  int most = 0;
  for (int i = 0; i < n; i++) {
    const mr_field_t *field = &s->in_spec[i].field[f];
    if (!field->classes && field->n_classes > most) most = field->n_classes;
  }
  return most;
}

static mr_err_t join_field(mr_stage_t *s, int n, int f, mr_inputs_t *t) {
  const mr_classes_t *list[MR_MAX_PORTS];
  const char *of[MR_MAX_PORTS];
  char text[MR_MAX_PORTS][24];
  int k = 0, port[MR_MAX_PORTS];
  mr_diag_t why = {0};
  mr_field_t *out = &s->out_spec[0].field[f];
  for (int i = 0; i < n; i++) {
    if (!s->in_spec[i].field[f].classes) continue;
    snprintf(text[k], sizeof text[k], "input %.16s", s->def->in[i].name);
    list[k] = s->in_spec[i].field[f].classes, of[k] = text[k], port[k++] = i;
  }
  out->classes = NULL;
  if (!k) return MR_OK;
  mr_classes_joined_t *j = &t->joined[f];
  mr_err_t e = mr_classes_join(list, of, k, j, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (k < n) say_nameless(s, n, f);
  for (int l = 0; l < k; l++) {
    if (!j->number[l]) continue;
    t->renumber.number[port[l]][f] = j->number[l], t->renumber.n[port[l]][f] = list[l]->n;
    s->writes |= (uint16_t)(1u << f), s->renumber = &t->renumber;
  }
  if (most_nameless(s, n, f) > j->all.n) return MR_OK; /* numbers beyond the names */
  out->classes = &j->all;
  if (out->n_classes) out->n_classes = j->all.n;
  return MR_OK;
}

mr_err_t mr_inputs_join_classes(mr_stage_t *s, int n, mr_inputs_t *t) {
  mr_spec_t *out = &s->out_spec[0];
  for (int f = 0; f < out->n_fields; f++) {
    if (out->field[f].label) MR_TRY(join_field(s, n, f, t));
    for (int i = 1; i < n && !out->field[f].label; i++)
      MR_TRY(mr_inputs_same_classes(
          s, i, f, "rows are not renumbered: want one-hot behind this stage, not before it"));
  }
  int label = mr_spec_label(out);
  const mr_classes_t *all = label >= 0 ? out->field[label].classes : NULL;
  if (!all || !out->dataset || all->n == out->dataset->n_classes) return MR_OK;
  t->dataset = (mr_dataset_t){out->dataset->origin, all->n, all->name};
  out->dataset = &t->dataset;
  return MR_OK;
}

void mr_inputs_forget(mr_inputs_t *t) {
  for (int f = 0; f < MR_FIELDS_MAX; f++) mr_classes_unjoin(&t->joined[f]);
  t->renumber = (mr_renumber_t){0};
}
