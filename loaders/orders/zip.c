/* Joins the records of several streams side by side: grain's zip.  An output record has the fields
   of all inputs; their names must differ, or prefix= makes them differ.  Without prefix=, inputs
   with equal fields are stacked in a new first dimension, and the label is the first input's.  Key
   and generator are the first input's; the ledger also covers the others' keys. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loaders/orders/inputs.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"

typedef struct zip {
  const char *prefix;
  int n;
  bool stacks;
  size_t bytes[MR_FIELDS_MAX]; /* stacks: bytes of one value of each field */
} zip_t;

static mr_err_t check_lengths(mr_stage_t *s) {
  const zip_t *t = s->state;
  for (int i = 1; i < t->n; i++) {
    const mr_spec_t *a = &s->in_spec[0], *b = &s->in_spec[i];
    if (a->sequential || b->sequential || a->n_records == b->n_records) continue;
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "input a has %" PRId64 " records and input %s %" PRId64
                         ", want equally many; slice the longer one",
                         a->n_records, s->in_name[i], b->n_records);
  }
  return MR_OK;
}

/* ---- the same fields: stacked ---- */

static bool all_alike(const mr_stage_t *s, int n) {
  for (int i = 1; i < n; i++)
    if (!mr_spec_alike(&s->in_spec[0], &s->in_spec[i])) return false;
  return true;
}

static mr_err_t plan_stack(mr_stage_t *s) {
  zip_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  for (int f = 0; f < out->n_fields; f++) {
    const mr_field_t *in = &s->in_spec[0].field[f];
    mr_field_t *field = &out->field[f];
    *field = *in;
    for (int i = 1; i < t->n; i++)
      MR_TRY(mr_inputs_same_classes(
          s, i, f, "the label is input a's: want the same classes, or prefix=A,B,.. to keep both"));
    if (in->label) continue;
    if (in->ragged || in->ndim + 1 >= MR_MAX_NDIM)
      return mr_stage_fail(s, MR_ERR_SHAPE,
                           "values of field %s of all inputs cannot be stacked in one array: it is "
                           "ragged or has %d dimensions; set prefix=A,B,.. to keep them apart",
                           in->name, in->ndim);
    field->layout = MR_LAYOUT_NONE;
    field->ndim = in->ndim + 1, field->dim[0] = t->n;
    for (int i = 0; i < in->ndim; i++) field->dim[i + 1] = in->dim[i];
    t->bytes[f] = mr_field_bytes(in);
    s->writes |= (uint16_t)(1u << f);
  }
  return MR_OK;
}

static void zip_stack(const zip_t *t, uint16_t fields, const mr_rec_t *in, int n, mr_rec_t *out) {
  for (int f = 0; fields >> f; f++)
    for (int i = 0; i < n && fields >> f & 1; i++)
      memcpy((char *)out->field[f].data + (size_t)i * t->bytes[f], in[i].field[f].data,
             t->bytes[f]);
}

/* ---- different fields: side by side ---- */

/* The prefix of input i, *n bytes long; it is not NUL-terminated. */
static const char *prefix_of(const zip_t *t, int i, int *n) {
  const char *at = t->prefix ? t->prefix : "";
  for (; i > 0 && at; i--) {
    at = strchr(at, ',');
    if (at) at++;
  }
  *n = at ? (int)strcspn(at, ",") : 0;
  return at;
}

static mr_err_t check_prefixes(mr_stage_t *s) {
  const zip_t *t = s->state;
  int n = 1;
  for (const char *at = t->prefix; at && *at; at++) n += *at == ',';
  if (!t->prefix || n == t->n) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG, "setting prefix = \"%.200s\": %d words for %d inputs",
                       t->prefix, n, t->n);
}

/* The name of the input that output field f comes from. */
static const char *input_of(const mr_stage_t *s, int f) {
  int i = 0;
  while (f >= s->in_spec[i].n_fields) f -= s->in_spec[i++].n_fields;
  return s->in_name[i];
}

static mr_err_t add_field(mr_stage_t *s, int input, int f) {
  mr_spec_t *out = &s->out_spec[0];
  mr_field_t field = s->in_spec[input].field[f];
  char name[2 * MR_FIELD_NAME] = "";
  const char *port = s->in_name[input];
  int n;
  const char *prefix = prefix_of(s->state, input, &n);
  if (out->n_fields == MR_FIELDS_MAX)
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "the inputs have more than %d fields together; put \"select\" before one",
                         MR_FIELDS_MAX);
  snprintf(name, sizeof name, "%.*s%s", n < MR_FIELD_NAME ? n : MR_FIELD_NAME, prefix, field.name);
  if (!mr_field_name_ok(name))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting prefix: field %s of input %s would be \"%s\", want at most %d "
                         "letters, digits, \"_\", \"-\" and \".\", a letter first",
                         field.name, port, name, MR_FIELD_NAME - 1);
  int same = mr_spec_find(out, name);
  if (same >= 0)
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "inputs %s and %s both have a field %s: set prefix=A,B,.., or put "
                         "\"rename\" or \"drop\" before one",
                         input_of(s, same), port, name);
  memcpy(field.name, name, sizeof field.name);
  out->field[out->n_fields] = field;
  mr_field_from(s, out->n_fields++, input, f);
  return MR_OK;
}

static mr_err_t plan_join(mr_stage_t *s) {
  const zip_t *t = s->state;
  s->out_spec[0].n_fields = 0;
  for (int i = 0; i < t->n; i++)
    for (int f = 0; f < s->in_spec[i].n_fields; f++) MR_TRY(add_field(s, i, f));
  return MR_OK;
}

static mr_err_t zip_plan(mr_stage_t *s) {
  zip_t *t = s->state;
  MR_TRY(mr_inputs_plan(s, &t->n));
  MR_TRY(check_lengths(s));
  MR_TRY(check_prefixes(s));
  s->out_spec[0].seeded = s->in_spec[0].seeded;
  t->stacks = !t->prefix && all_alike(s, t->n);
  return t->stacks ? plan_stack(s) : plan_join(s);
}

static mr_err_t zip_join(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out) {
  const zip_t *t = s->state;
  if (t->stacks) zip_stack(t, s->writes, in, n, out);
  for (int i = 1; i < n; i++) {
    mr_draw_note(out, in[i].key);
    mr_draw_note(out, in[i].draw);
  }
  return MR_OK;
}

static const mr_opt_t zip_opts[] = {
    {.name = "prefix",
     .type = MR_OPT_STR,
     .offset = offsetof(zip_t, prefix),
     .unit = "A,B,..",
     .help = "Prefixes of the field names of inputs a, b, ..: left.,right.; without it, inputs "
             "with equal fields are stacked."},
    {0}};

const mr_stage_def_t mr_stage_zip = {
    .name = "zip",
    .help = "Joins the records of several streams side by side (grain's zip).",
    .in = MR_RECORD_INPUTS,
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = zip_opts,
    .state_sz = sizeof(zip_t),
    .plan = zip_plan,
    .join = &(const mr_join_def_t){.run = zip_join},
};
