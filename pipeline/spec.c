/* Fields and specs: their sizes, their texts, and whether two of them are alike.  Alike means that
   one batch could hold records of both; counts of records and names of data sets may differ. */
#include "pipeline/spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/picture.h"

/* ---- fields ---- */

int64_t mr_field_count(const mr_field_t *f) {
  int64_t n = 1;
  for (int i = 0; i < f->ndim; i++) n *= f->dim[i];
  return n;
}

size_t mr_field_bytes(const mr_field_t *f) {
  return f->varies ? sizeof(mr_picture_t) : (size_t)mr_field_count(f) * mr_dtype_size(f->dtype);
}

size_t mr_field_row(const mr_field_t *f) {
  size_t n = mr_dtype_size(f->dtype);
  for (int i = 1; i < f->ndim; i++) n *= (size_t)f->dim[i];
  return n;
}

bool mr_field_name_ok(const char *name) {
  size_t n = strlen(name);
  if (n < 1 || n >= MR_FIELD_NAME || !isalpha((unsigned char)*name)) return false;
  for (const char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_-.", *c)) return false;
  return true;
}

bool mr_field_alike(const mr_field_t *a, const mr_field_t *b) {
  if (a->dtype != b->dtype || a->layout != b->layout || a->ndim != b->ndim ||
      a->ragged != b->ragged || a->varies != b->varies || a->label != b->label)
    return false;
  return !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim);
}

/* ---- texts ---- */

typedef struct {
  char *text;
  size_t at, n;
} out_t;

__attribute__((format(printf, 2, 3))) static void spec_put(out_t *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int k = vsnprintf(o->text + o->at, o->n - o->at, fmt, ap);
  va_end(ap);
  o->at += k > 0 ? (size_t)k : 0;
  if (o->at >= o->n) o->at = o->n - 1;
}

static void spec_put_field(out_t *o, const mr_field_t *f, int64_t batch) {
  static const char *const layout[] = {"", " CHW", " HWC"};
  spec_put(o, "%s %s[", f->name, mr_dtype_name(f->dtype));
  if (batch) spec_put(o, "%lld%s", (long long)batch, f->ndim ? "," : "");
  for (int i = 0; i < f->ndim; i++) {
    bool most = (f->ragged && i == 0) || (f->varies && i < 2);
    spec_put(o, "%s%s%lld", i ? "," : "", most ? "<=" : "", (long long)f->dim[i]);
  }
  spec_put(o, "]%s", layout[f->layout]);
}

void mr_field_text(const mr_field_t *f, int64_t batch, char *text, size_t n) {
  out_t o = {text, 0, n};
  text[0] = 0;
  spec_put_field(&o, f, batch);
}

void mr_spec_text(const mr_spec_t *spec, char *text, size_t n) {
  static const char *const flow[] = {"any", "records", "batches", "metrics", "state", "bytes"};
  if (!n) return;
  out_t o = {text, 0, n};
  text[0] = 0;
  spec_put(&o, "%s", flow[spec->flow]);
  if (spec->flow == MR_FLOW_NONE || spec->flow == MR_FLOW_METRICS) return;
  bool fields = spec->flow == MR_FLOW_RECORDS || spec->flow == MR_FLOW_BATCHES;
  for (int f = 0; f < spec->n_fields && fields; f++) {
    spec_put(&o, " ");
    spec_put_field(&o, &spec->field[f], spec->batch);
    spec_put(&o, ",");
  }
  if (!fields && spec->n_fields) spec_put(&o, " u8[%lld]", (long long)spec->field->dim[0]);
  spec_put(&o, " %s", spec->device ? spec->device : "host");
}

const char *mr_spec_names(const mr_spec_t *spec, char *text, size_t n) {
  out_t o = {text, 0, n};
  text[0] = 0;
  for (int f = 0; f < spec->n_fields; f++) spec_put(&o, "%s%s", f ? ", " : "", spec->field[f].name);
  return text;
}

/* ---- specs ---- */

int mr_spec_find(const mr_spec_t *spec, const char *name) {
  for (int f = 0; f < spec->n_fields; f++)
    if (!strcmp(spec->field[f].name, name)) return f;
  return -1;
}

int mr_spec_label(const mr_spec_t *spec) {
  int found = -1;
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].label) found = found == -1 ? f : -2;
  return found;
}

int mr_spec_classes(const mr_spec_t *spec, int f) {
  const mr_field_t *field = &spec->field[f];
  if (field->classes) return field->classes->n;
  return field->n_classes || !spec->dataset ? field->n_classes : spec->dataset->n_classes;
}

bool mr_spec_alike(const mr_spec_t *a, const mr_spec_t *b) {
  bool alike = a->n_fields == b->n_fields;
  for (int f = 0; f < a->n_fields && alike; f++)
    alike =
        !strcmp(a->field[f].name, b->field[f].name) && mr_field_alike(&a->field[f], &b->field[f]);
  return alike;
}

mr_field_t mr_field_of_label(int n_classes) {
  return (mr_field_t){.name = "label", .dtype = MR_I32, .label = true, .n_classes = n_classes};
}

mr_spec_t mr_spec_of_bytes(mr_flow_t flow, int64_t bytes) {
  return (mr_spec_t){.flow = flow,
                     .n_fields = 1,
                     .field = {{.name = "bytes", .dtype = MR_U8, .ndim = 1, .dim = {bytes}}}};
}

size_t mr_spec_bytes(const mr_spec_t *spec) {
  size_t n = 0;
  for (int f = 0; f < spec->n_fields; f++) n += mr_field_bytes(&spec->field[f]);
  return spec->flow == MR_FLOW_BATCHES ? n * (size_t)spec->batch : n;
}
