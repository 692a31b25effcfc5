/* Specs of stages with several record streams (concatenate, mix, interleave): which inputs are
   connected, whether their fields agree, and what their classes are called.  The result has the
   least that all inputs promise: the fewest epochs, a seed only if each has one; and the classes of
   all of them. */
#include "loaders/orders/inputs.h"

#include <stdio.h>
#include <stdlib.h>
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
  char missing[MR_INPUT_LETTERS];
  while (*n < s->n_in && s->in_linked[*n]) ++*n;
  for (int i = *n; i < s->n_in; i++)
    if (s->in_linked[i])
      return mr_stage_fail(s, MR_ERR_USAGE, "input %s is connected, but %s is not", s->in_name[i],
                           mr_input_letters(*n, missing));
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
    const char *name = s->in_name[i];
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
  return mr_stage_fail(s, MR_ERR_DATA,
                       "field %s has the %d classes %s in input %s and the %d classes %s in input "
                       "%s: %s",
                       a->name, a->classes->n, mr_classes_text(a->classes, one, sizeof one),
                       s->in_name[0], b->classes->n,
                       mr_classes_text(b->classes, other, sizeof other), s->in_name[i], advice);
}

/* Says which inputs do not say what their numbers mean. */
static void say_nameless(const mr_stage_t *s, int n, int f) {
  enum { NAMED_MOST = 32 };
  char names[8 * NAMED_MOST] = "", list[300];
  const mr_classes_t *named = NULL;
  int nameless = 0;
  for (int i = 0; i < n; i++) {
    const mr_classes_t *c = s->in_spec[i].field[f].classes;
    size_t at = strlen(names);
    if (c && !named) named = c;
    if (!c && ++nameless <= NAMED_MOST)
      snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "",
               nameless < NAMED_MOST ? s->in_name[i] : "...");
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

/* The inputs whose field has names: what the names are, whose, and of which input. */
typedef struct named {
  const mr_classes_t **list;
  const char **of;
  char (*text)[24];
  int *port;
  int n;
} named_t;

static void named_fini(named_t *k) { free(k->list), free(k->of), free(k->text), free(k->port); }

static mr_err_t find_named(mr_stage_t *s, int n, int f, named_t *k) {
  size_t rows = (size_t)n;
  *k = (named_t){calloc(rows, sizeof *k->list), calloc(rows, sizeof *k->of),
                 calloc(rows, sizeof *k->text), calloc(rows, sizeof *k->port), 0};
  if (!k->list || !k->of || !k->text || !k->port)
    return mr_stage_no_memory(s, "the classes of %d inputs", n);
  for (int i = 0; i < n; i++) {
    if (!s->in_spec[i].field[f].classes) continue;
    snprintf(k->text[k->n], sizeof *k->text, "input %.16s", s->in_name[i]);
    k->list[k->n] = s->in_spec[i].field[f].classes, k->of[k->n] = k->text[k->n];
    k->port[k->n++] = i;
  }
  return MR_OK;
}

/* Has the labels in field f renumbered that input k->port[l] numbers otherwise. */
static mr_err_t renumber_field(mr_stage_t *s, int n, int f, const named_t *k, mr_inputs_t *t) {
  mr_renumber_t *r = &t->renumber;
  for (int l = 0; l < k->n; l++) {
    if (!t->joined[f].number[l]) continue;
    if (!r->number) r->number = calloc((size_t)n, sizeof *r->number);
    if (!r->n) r->n = calloc((size_t)n, sizeof *r->n);
    if (!r->number || !r->n) return mr_stage_no_memory(s, "the classes of %d inputs", n);
    r->number[k->port[l]][f] = t->joined[f].number[l], r->n[k->port[l]][f] = k->list[l]->n;
    s->writes |= (uint16_t)(1u << f), s->renumber = r;
  }
  return MR_OK;
}

static mr_err_t join_named(mr_stage_t *s, int n, int f, const named_t *k, mr_inputs_t *t) {
  mr_field_t *out = &s->out_spec[0].field[f];
  mr_classes_joined_t *j = &t->joined[f];
  mr_diag_t why = {0};
  out->classes = NULL;
  if (!k->n) return MR_OK;
  mr_err_t e = mr_classes_join(k->list, k->of, k->n, j, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (k->n < n) say_nameless(s, n, f);
  MR_TRY(renumber_field(s, n, f, k, t));
  if (most_nameless(s, n, f) > j->all.n) return MR_OK; /* numbers beyond the names */
  out->classes = &j->all;
  if (out->n_classes) out->n_classes = j->all.n;
  return MR_OK;
}

static mr_err_t join_field(mr_stage_t *s, int n, int f, mr_inputs_t *t) {
  named_t k;
  mr_err_t e = find_named(s, n, f, &k);
  if (e >= 0) e = join_named(s, n, f, &k, t);
  named_fini(&k);
  return e;
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
  free(t->renumber.number), free(t->renumber.n);
  t->renumber = (mr_renumber_t){0};
}
