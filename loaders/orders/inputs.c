/* Specs of stages with several record streams (concatenate, mix, interleave): which inputs are
   connected, and whether their fields agree.  The result has the least that all inputs promise: the
   fewest epochs, a seed only if each has one. */
#include "loaders/orders/inputs.h"

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
