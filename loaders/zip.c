/* Records of several streams side by side as one: grain's zip.  Records that look alike stand one
   after the other in a new first dimension, others as bytes in a row.  Label, key and generator are
   the first one's; the ledger also sees the others' keys. */
#include <inttypes.h>
#include <string.h>

#include "loaders/inputs.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"

typedef struct zip {
  int n;
  size_t bytes[MR_MAX_PORTS];
} zip_t;

static bool alike(const mr_stage_t *s, int n) {
  mr_stage_t quiet = *s;
  quiet.diag = NULL;
  return s->in_spec[0].field->ndim < MR_MAX_NDIM - 1 && mr_inputs_alike(&quiet, n) >= 0;
}

static mr_err_t zip_plan(mr_stage_t *s) {
  zip_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  MR_TRY(mr_inputs_plan(s, &t->n));
  size_t sum = 0;
  for (int i = 0; i < t->n; i++) {
    const mr_spec_t *in = &s->in_spec[i];
    sum += t->bytes[i] = mr_field_bytes(in->field);
    if (!in->sequential && !s->in_spec[0].sequential && in->n_records != out->n_records)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "input a has %" PRId64 " records and input %s %" PRId64
                           ", want as many; slice the longer one",
                           out->n_records, s->def->in[i].name, in->n_records);
  }
  mr_field_t *field = out->field;
  out->seeded = s->in_spec[0].seeded;
  memcpy(out->field, s->in_spec[0].field, sizeof out->field);
  field->layout = MR_LAYOUT_NONE;
  if (!alike(s, t->n)) {
    field->dtype = MR_U8, field->ndim = 1, field->dim[0] = (int64_t)sum;
    return MR_OK;
  }
  field->ndim = s->in_spec[0].field->ndim + 1;
  field->dim[0] = t->n;
  for (int i = 1; i < field->ndim; i++) field->dim[i] = s->in_spec[0].field->dim[i - 1];
  return MR_OK;
}

static mr_err_t zip_join(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out) {
  const zip_t *t = s->state;
  char *to = out->data;
  for (int i = 0; i < n; i++, to += t->bytes[i - 1]) {
    memcpy(to, in[i].data, t->bytes[i]);
    if (!i) continue;
    mr_draw_note(out, in[i].key);
    mr_draw_note(out, in[i].draw);
  }
  return MR_OK;
}

const mr_stage_def_t mr_stage_zip = {
    .name = "zip",
    .help = "Puts the records of several streams side by side (grain's zip).",
    .in = MR_RECORD_INPUTS,
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .state_sz = sizeof(zip_t),
    .plan = zip_plan,
    .join = &(const mr_join_def_t){.run = zip_join},
};
