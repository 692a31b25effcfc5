/* A spec as bytes: writing it, reading it back with every number checked, and comparing two
   specs. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "links/wire.h"

typedef struct spec_wire {
  uint8_t flow, n_fields, sequential, holes, has_dataset, part, zero[2];
  int32_t n_words, n_classes; /* n_classes: of the dataset */
  int64_t batch, n_records, n_batches, n_epochs;
} spec_wire_t; /* then the fields, then the names of the dataset, then those of fields' classes */
_Static_assert(sizeof(spec_wire_t) == 48, "a spec begins with 48 bytes on the wire");

typedef struct field_wire {
  char name[MR_FIELD_NAME];
  uint8_t dtype, layout, ndim, ragged, label, named /* named_t */, zero[2];
  int32_t n_classes, n_names; /* n_names: OWN_NAMES */
  int64_t dim[MR_MAX_NDIM];
  float mean[3], std[3];
} field_wire_t;
_Static_assert(sizeof(field_wire_t) == 136, "a field is 136 bytes on the wire");

/* Where the names of a field's classes are.  Ends that do not know of them take the byte for 0. */
typedef enum named { NO_NAMES, DATASET_NAMES, OWN_NAMES, NAMED_N } named_t;

enum { CLASSES_MAX = 100000 };
#define BYTES_MAX (INT64_C(8) << 30) /* of a buffer */

/* ---- writing ---- */

static bool wire_spec_put_text(char *out, size_t cap, size_t *at, const char *text) {
  size_t n = strlen(text) + 1;
  if (n > cap - *at) return false;
  memcpy(out + *at, text, n);
  *at += n;
  return true;
}

static bool wire_spec_put_names(char *out, size_t cap, size_t *at, const mr_classes_t *c) {
  for (int i = 0; i < c->n; i++)
    if (!wire_spec_put_text(out, cap, at, c->name[i])) return false;
  return true;
}

static mr_classes_t dataset_classes(const mr_dataset_t *d) {
  return d ? (mr_classes_t){d->n_classes, d->class_name} : (mr_classes_t){0};
}

static field_wire_t wire_spec_field_of(const mr_field_t *f, const mr_dataset_t *d) {
  const mr_classes_t of_dataset = dataset_classes(d);
  named_t named = !f->classes                                     ? NO_NAMES
                  : d && mr_classes_same(f->classes, &of_dataset) ? DATASET_NAMES
                                                                  : OWN_NAMES;
  field_wire_t w = {.dtype = (uint8_t)f->dtype,
                    .layout = (uint8_t)f->layout,
                    .ndim = (uint8_t)f->ndim,
                    .ragged = f->ragged,
                    .label = f->label,
                    .named = (uint8_t)named,
                    .n_classes = f->n_classes,
                    .n_names = named == OWN_NAMES ? f->classes->n : 0};
  memcpy(w.name, f->name, strlen(f->name)); /* padded with zeros */
  memcpy(w.dim, f->dim, (size_t)f->ndim * sizeof *w.dim);
  memcpy(w.mean, f->mean, sizeof w.mean);
  memcpy(w.std, f->std, sizeof w.std);
  return w;
}

static size_t names_bytes(const mr_classes_t *c) {
  size_t n = 0;
  for (int i = 0; i < c->n; i++) n += strlen(c->name[i]) + 1;
  return n;
}

size_t mr__link_spec_bytes(const mr_spec_t *spec) {
  const mr_classes_t of_dataset = dataset_classes(spec->dataset);
  size_t n = 4096 + (size_t)spec->n_fields * sizeof(field_wire_t) + names_bytes(&of_dataset);
  if (spec->dataset && spec->dataset->origin) n += strlen(spec->dataset->origin);
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].classes) n += names_bytes(spec->field[f].classes);
  return n;
}

size_t mr__link_spec_write(const mr_spec_t *spec, void *out, size_t cap) {
  const mr_dataset_t *d = spec->dataset;
  size_t at = sizeof(spec_wire_t) + (size_t)spec->n_fields * sizeof(field_wire_t);
  if (spec->flow != MR_FLOW_BATCHES && spec->flow != MR_FLOW_BYTES) return 0;
  if (cap < at) return 0;
  spec_wire_t w = {.flow = (uint8_t)spec->flow,
                   .n_fields = (uint8_t)spec->n_fields,
                   .sequential = spec->sequential,
                   .holes = spec->holes,
                   .has_dataset = d != NULL,
                   .part = spec->part,
                   .n_words = spec->n_words,
                   .n_classes = d ? d->n_classes : 0,
                   .batch = spec->batch,
                   .n_records = spec->n_records,
                   .n_batches = spec->n_batches,
                   .n_epochs = spec->n_epochs};
  const mr_classes_t of_dataset = dataset_classes(d);
  memcpy(out, &w, sizeof w);
  if (d && !wire_spec_put_text(out, cap, &at, d->origin ? d->origin : "")) return 0;
  if (!wire_spec_put_names(out, cap, &at, &of_dataset)) return 0;
  for (int f = 0; f < spec->n_fields; f++) {
    field_wire_t field = wire_spec_field_of(&spec->field[f], d);
    memcpy((char *)out + sizeof w + (size_t)f * sizeof field, &field, sizeof field);
    if (field.named == OWN_NAMES && !wire_spec_put_names(out, cap, &at, spec->field[f].classes))
      return 0;
  }
  return at;
}

/* ---- reading ---- */

/* The names of a spec that was read, in one block: this, the pointers to the names, the names. */
typedef struct names {
  mr_dataset_t dataset;
  mr_classes_t classes[MR_FIELDS_MAX];
  const char *name[]; /* of the dataset's classes, then of the fields' own */
} names_t;

static int64_t count_names(const spec_wire_t *w, const field_wire_t *field) {
  int64_t n = w->has_dataset ? w->n_classes : 0;
  for (int f = 0; f < w->n_fields; f++) n += field[f].named == OWN_NAMES ? field[f].n_names : 0;
  return n;
}

/* Reads the names in text[0,n), as many as w and its fields say; false if there are others. */
static bool wire_spec_read_names(const char *text, size_t n, const spec_wire_t *w,
                                 const field_wire_t *field, mr_spec_t *spec, names_t **out) {
  int64_t want = count_names(w, field), strings = 0;
  for (size_t i = 0; i < n; i++) strings += !text[i];
  if (strings != want + w->has_dataset || (n && text[n - 1])) return false;
  if (!n) return true;
  names_t *t = calloc(1, sizeof *t + (size_t)want * sizeof *t->name + n);
  if (!t) return false;
  char *at = memcpy((char *)(t->name + want), text, n);
  const char *origin = at, **name = t->name;
  if (w->has_dataset) at += strlen(at) + 1;
  for (int64_t i = 0; i < want; i++, at += strlen(at) + 1) t->name[i] = at;
  if (w->has_dataset) t->dataset = (mr_dataset_t){origin, w->n_classes, name};
  if (w->has_dataset) name += w->n_classes, spec->dataset = &t->dataset;
  for (int f = 0; f < w->n_fields; f++) {
    if (field[f].named == NO_NAMES) continue;
    bool own = field[f].named == OWN_NAMES;
    t->classes[f] = own ? (mr_classes_t){field[f].n_names, name} : dataset_classes(&t->dataset);
    name += own ? field[f].n_names : 0;
    spec->field[f].classes = &t->classes[f];
  }
  *out = t;
  return true;
}

static bool spec_is_sane(const spec_wire_t *w) {
  bool batches = w->flow == MR_FLOW_BATCHES;
  if (!batches && w->flow != MR_FLOW_BYTES) return false;
  if (w->n_fields < 1 || w->n_fields > (batches ? MR_FIELDS_MAX : 1)) return false;
  if (batches ? w->batch < 1 || w->batch > INT32_MAX : w->batch != 0) return false;
  if (w->n_words < 0 || w->n_words > MR_LINK_WORDS) return false;
  if (w->has_dataset > 1 || w->n_classes < 0 || w->n_classes > CLASSES_MAX) return false;
  return w->n_records >= 0 && w->n_batches >= 0 && w->n_epochs >= 0;
}

/* Bytes of B records' values; above BYTES_MAX for too many.  A dimension of 0 counts as 1, so that
   no product overflows. */
static int64_t wire_spec_bytes_of(const field_wire_t *w, int64_t batch) {
  int64_t bytes = (int64_t)mr_dtype_size(w->dtype) * (batch ? batch : 1);
  for (int i = 0; i < w->ndim && bytes <= BYTES_MAX; i++) {
    if (w->dim[i] > BYTES_MAX / bytes) return BYTES_MAX + 1;
    bytes *= w->dim[i] ? w->dim[i] : 1;
  }
  return bytes;
}

static bool field_is_sane(const spec_wire_t *of, const field_wire_t *w) {
  if (!memchr(w->name, 0, sizeof w->name) || !mr_field_name_ok(w->name)) return false;
  if (w->dtype >= MR_DTYPE_COUNT || w->layout > MR_LAYOUT_HWC || w->ndim >= MR_MAX_NDIM)
    return false;
  if (w->ragged > 1 || w->label > 1 || w->n_classes < 0) return false;
  for (int i = 0; i < w->ndim; i++)
    if (w->dim[i] < 0) return false;
  if (w->ragged && !w->ndim) return false;
  if (w->named >= NAMED_N || (w->named == DATASET_NAMES && (!of->has_dataset || !of->n_classes)))
    return false;
  if (w->named == OWN_NAMES ? w->n_names < 1 || w->n_names > CLASSES_MAX : w->n_names != 0)
    return false;
  return !w->label || (w->dtype == MR_I32 && !w->ndim);
}

static bool read_field(const spec_wire_t *of, const field_wire_t *w, mr_spec_t *spec) {
  mr_field_t f = {.dtype = w->dtype,
                  .layout = w->layout,
                  .ndim = w->ndim,
                  .ragged = w->ragged,
                  .label = w->label,
                  .n_classes = w->n_classes};
  if (!field_is_sane(of, w) || mr_spec_find(spec, w->name) >= 0) return false;
  if (spec->flow == MR_FLOW_BYTES && (f.dtype != MR_U8 || f.ndim != 1 || f.ragged)) return false;
  memcpy(f.name, w->name, sizeof f.name);
  memcpy(f.dim, w->dim, (size_t)f.ndim * sizeof *f.dim);
  memcpy(f.mean, w->mean, sizeof f.mean);
  memcpy(f.std, w->std, sizeof f.std);
  spec->field[spec->n_fields++] = f;
  return true;
}

bool mr__link_spec_read(const void *in, size_t n, mr_spec_t *spec, void **names) {
  spec_wire_t w;
  field_wire_t field[MR_FIELDS_MAX];
  names_t *read = NULL;
  int64_t bytes = 0;
  *names = NULL;
  if (n < sizeof w) return false;
  memcpy(&w, in, sizeof w);
  if (!spec_is_sane(&w)) return false;
  *spec = (mr_spec_t){.flow = w.flow,
                      .batch = w.batch,
                      .n_records = w.n_records,
                      .n_batches = w.n_batches,
                      .n_epochs = w.n_epochs,
                      .sequential = w.sequential,
                      .holes = w.holes,
                      .part = w.part,
                      .n_words = w.n_words};
  size_t at = sizeof w;
  for (int f = 0; f < w.n_fields; f++, at += sizeof *field) {
    if (n - at < sizeof *field) return false;
    memcpy(&field[f], (const char *)in + at, sizeof *field);
    if (!read_field(&w, &field[f], spec) ||
        (bytes += wire_spec_bytes_of(&field[f], w.batch)) > BYTES_MAX)
      return false;
  }
  if (!wire_spec_read_names((const char *)in + at, n - at, &w, field, spec, &read)) return false;
  *names = read;
  return true;
}

/* ---- both ---- */

static int most_names(const mr_spec_t *spec) {
  int most = dataset_classes(spec->dataset).n;
  for (int f = 0; f < spec->n_fields; f++)
    if (spec->field[f].classes && spec->field[f].classes->n > most)
      most = spec->field[f].classes->n;
  return most;
}

mr_err_t mr__link_spec_carry(const mr_spec_t *spec, void *out, size_t *n, mr_spec_t *back,
                             void **names, mr_diag_t *diag) {
  char text[512];
  mr_spec_text(spec, text, sizeof text);
  if (spec->flow != MR_FLOW_BATCHES && spec->flow != MR_FLOW_BYTES)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "a link carries batches and bytes, not %s, which hold addresses that only one "
                   "process can use",
                   text);
  *n = mr__link_spec_write(spec, out, *n);
  if (*n && mr__link_spec_read(out, *n, back, names)) return MR_OK;
  return mr_fail(diag, MR_ERR_SHAPE,
                 "a link cannot carry %s: want at most 8 GiB, a state of at most %d numbers (here "
                 "%d) and at most %d names of classes (here %d) of 4 MiB together",
                 text, MR_LINK_WORDS, spec->n_words, CLASSES_MAX, most_names(spec));
}

/* ---- comparing ---- */

/* An end of a version without names has none, and says nothing of them. */
static bool classes_agree(const mr_field_t *there, const mr_field_t *here, char *why, size_t n) {
  char theirs[120], ours[120];
  if (!there->classes || !here->classes || mr_classes_same(there->classes, here->classes))
    return true;
  snprintf(why, n, "field %s: the %d classes %s there, the %d classes %s here", here->name,
           there->classes->n, mr_classes_text(there->classes, theirs, sizeof theirs),
           here->classes->n, mr_classes_text(here->classes, ours, sizeof ours));
  return false;
}

static bool fields_same(const mr_spec_t *a, const mr_spec_t *b, char *why, size_t n) {
  for (int f = 0; f < a->n_fields || f < b->n_fields; f++) {
    const mr_field_t *there = &a->field[f], *here = &b->field[f];
    char theirs[160], ours[160];
    if (f >= a->n_fields || f >= b->n_fields || strcmp(there->name, here->name)) {
      snprintf(why, n, "field %d is %s there, %s here", f + 1,
               f < a->n_fields ? there->name : "missing", f < b->n_fields ? here->name : "missing");
      return false;
    }
    if (mr_field_alike(there, here)) {
      if (!classes_agree(there, here, why, n)) return false;
      if (there->n_classes == here->n_classes) continue;
      snprintf(why, n, "field %s: %d classes there, %d here", here->name, there->n_classes,
               here->n_classes);
      return false;
    }
    mr_field_text(there, a->batch, theirs, sizeof theirs);
    mr_field_text(here, b->batch, ours, sizeof ours);
    size_t name = strlen(here->name) + 1;
    assert(strlen(theirs) > name && strlen(ours) > name);
    bool label = there->label != here->label;
    snprintf(why, n, "field %s: %s%s there, %s%s here", here->name, theirs + name,
             label && there->label ? ", a label," : "", ours + name,
             label && here->label ? ", a label," : "");
    return false;
  }
  return true;
}

bool mr__link_spec_same(const mr_spec_t *a, const mr_spec_t *b, char *why, size_t n) {
  const struct {
    const char *what;
    int64_t there, here;
  } number[] = {
      {"kind of buffers", a->flow, b->flow},
      {"records a batch", a->batch, b->batch},
      {"records an epoch", a->n_records, b->n_records},
      {"batches an epoch", a->n_batches, b->n_batches},
      {"epochs", a->n_epochs, b->n_epochs},
      {"numbers of a state", a->n_words, b->n_words},
      {"classes", a->dataset ? a->dataset->n_classes : 0, b->dataset ? b->dataset->n_classes : 0}};
  if (!fields_same(a, b, why, n)) return false;
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    if (number[i].there != number[i].here) {
      snprintf(why, n, "%s: %lld there, %lld here", number[i].what, (long long)number[i].there,
               (long long)number[i].here);
      return false;
    }
  return true;
}
