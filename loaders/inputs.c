#include "loaders/inputs.h"

#include <string.h>

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
    int labels = s->in_spec[i].n_labels;
    out->seeded &= s->in_spec[i].seeded;
    out->n_labels = !out->n_labels || !labels ? 0 : labels > out->n_labels ? labels : out->n_labels;
    if (!out->n_epochs || (epochs && epochs < out->n_epochs)) out->n_epochs = epochs;
  }
  return MR_OK;
}

mr_err_t mr_inputs_alike(mr_stage_t *s, int n) {
  const mr_spec_t *a = &s->in_spec[0];
  for (int i = 1; i < n; i++) {
    const mr_spec_t *b = &s->in_spec[i];
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->layout != b->layout ||
        memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) != 0)
      return mr_stage_fail(s, MR_ERR_SHAPE, "records of inputs a and %s do not look alike",
                           s->def->in[i].name);
  }
  return MR_OK;
}
