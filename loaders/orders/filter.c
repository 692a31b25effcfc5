/* Drops records by cheap criteria: an integer field, the key, chance.  Dropped records become
   holes: the others keep their positions, and batches skip the holes. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "pipeline/stage_filter.h"

enum { VALUES_MAX = 8192 };

typedef struct filter {
  const char *text, *field_name;
  int64_t value[VALUES_MAX]; /* [n_values] in ascending order */
  int n_values, field;
  mr_dtype_t dtype; /* of field */
  double key[2], remainder[2], p;
  int64_t modulo, seed;
  bool invert;
} filter_t;

static mr_err_t parse_values(mr_stage_t *s) {
  filter_t *t = s->state;
  const char *at = t->text;
  t->n_values = 0;
  while (at && *at) {
    char *end;
    errno = 0;
    long long v = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || errno || t->n_values == VALUES_MAX)
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting label = \"%.200s\": want up to %d whole numbers A,B,C", t->text,
                           VALUES_MAX);
    t->value[t->n_values++] = v;
    at = *end ? end + 1 : end;
  }
  return MR_OK;
}

static bool filter_is_number(const mr_field_t *f) {
  bool whole = f->dtype == MR_BOOL || f->dtype == MR_U8 || f->dtype == MR_I32 ||
               f->dtype == MR_U32 || f->dtype == MR_I64 || f->dtype == MR_U64;
  return whole && !f->ndim && !f->ragged;
}

static int filter_by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The numbers of a dtype that a setting can name, both ends included. */
static void range_of(mr_dtype_t dtype, int64_t *lo, int64_t *hi) {
  *lo = dtype == MR_I64 ? INT64_MIN : dtype == MR_I32 ? INT32_MIN : 0;
  *hi = dtype == MR_BOOL  ? 1
        : dtype == MR_U8  ? UINT8_MAX
        : dtype == MR_I32 ? INT32_MAX
        : dtype == MR_U32 ? UINT32_MAX
                          : INT64_MAX;
}

/* Rejects a value that no record can have. */
static mr_err_t check_value(mr_stage_t *s, int64_t v) {
  const filter_t *t = s->state;
  const mr_spec_t *in = &s->in_spec[0];
  const mr_field_t *f = &in->field[t->field];
  int64_t lo, hi;
  range_of(f->dtype, &lo, &hi);
  if (f->n_classes && (v < 0 || v >= f->n_classes))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting label = \"%.200s\": no record has the label %" PRId64
                         ", since the data set%s%s has the classes 0 to %d",
                         t->text, v, in->dataset ? " " : "", in->dataset ? in->dataset->origin : "",
                         f->n_classes - 1);
  if (v >= lo && v <= hi) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting label = \"%.200s\": no record has the value %" PRId64
                       ", since field %s is %s",
                       t->text, v, f->name, mr_dtype_name(f->dtype));
}

static mr_err_t filter_plan(mr_stage_t *s) {
  filter_t *t = s->state;
  MR_TRY(parse_values(s));
  if (t->field_name && !*t->field_name) t->field_name = NULL;
  s->out_spec[0] = s->in_spec[0];
  if (!t->n_values && t->field_name)
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting field = %s: want the values to keep as well, as in filter 1,2 field=%s",
        t->field_name, t->field_name);
  if (!t->n_values) return MR_OK;
  /* Without field= a label is preferred to other numbers. */
  int f = t->field_name ? -1 : mr_spec_label(&s->in_spec[0]);
  if (f < 0) f = mr_field_choose(s, t->field_name, filter_is_number, "whole numbers, one a record");
  if (f < 0) return (mr_err_t)f;
  t->field = f, t->dtype = s->in_spec[0].field[f].dtype;
  s->reads = (uint16_t)(1u << f);
  for (int i = 0; i < t->n_values; i++) MR_TRY(check_value(s, t->value[i]));
  qsort(t->value, (size_t)t->n_values, sizeof *t->value, filter_by_value);
  return MR_OK;
}

/* Reads a number into *v; false if it exceeds every value that a setting can name. */
static bool number_at(const void *data, mr_dtype_t dtype, int64_t *v) {
  switch (dtype) {
    case MR_BOOL:
    case MR_U8: *v = *(const uint8_t *)data; return true;
    case MR_I32: *v = *(const int32_t *)data; return true;
    case MR_U32: *v = *(const uint32_t *)data; return true;
    default: *v = *(const int64_t *)data; return dtype == MR_I64 || *v >= 0;
  }
}

static bool has_value(const filter_t *t, const mr_rec_t *rec) {
  int64_t v;
  if (!t->n_values) return true;
  if (!number_at(rec->field[t->field].data, t->dtype, &v)) return false;
  int lo = 0, hi = t->n_values; /* v is in [lo,hi) if it is there */
  while (hi - lo > 1) {
    int middle = lo + (hi - lo) / 2;
    *(t->value[middle] <= v ? &lo : &hi) = middle;
  }
  return t->value[lo] == v;
}

/* A function of the record alone, so that each epoch keeps the same records. */
static bool is_lucky(const filter_t *t, uint64_t key) {
  mr_philox_t g;
  if (t->p >= 1) return true;
  mr_philox_init(&g, key, (uint64_t)t->seed);
  return mr_philox_random(&g) < t->p;
}

static mr_err_t filter_keep(mr_stage_t *s, const mr_rec_t *rec, bool *keep) {
  const filter_t *t = s->state;
  double key = (double)rec->key;
  double rest = t->modulo ? (double)(rec->key % (uint64_t)t->modulo) : t->remainder[0];
  bool fits = has_value(t, rec) && key >= t->key[0] && key <= t->key[1] &&
              rest >= t->remainder[0] && rest <= t->remainder[1] && is_lucky(t, rec->key);
  *keep = fits != t->invert;
  return MR_OK;
}

static const mr_opt_t filter_opts[] = {
    {.name = "label",
     .type = MR_OPT_STR,
     .offset = offsetof(filter_t, text),
     .unit = "A,B,C",
     .help = "Keeps records whose label, or whose field=, is one of these; all without it.",
     .positional = 1},
    {.name = "field",
     .type = MR_OPT_STR,
     .offset = offsetof(filter_t, field_name),
     .help = "Field that label= is compared with, one whole number a record; needed if records "
             "have no label and several such fields."},
    {.name = "key",
     .type = MR_OPT_RANGE,
     .offset = offsetof(filter_t, key),
     .def = "0:1.9e19",
     .hi = 1.9e19,
     .help = "Keeps records whose key lies in this range, both ends included."},
    {.name = "modulo",
     .type = MR_OPT_INT,
     .offset = offsetof(filter_t, modulo),
     .def = "0",
     .hi = 1e15,
     .help = "Keeps records by the remainder of key / modulo; 0 asks for none."},
    {.name = "remainder",
     .type = MR_OPT_RANGE,
     .offset = offsetof(filter_t, remainder),
     .def = "0:0",
     .hi = 1e15,
     .help = "Remainders that stay, both ends included."},
    {.name = "p",
     .type = MR_OPT_F64,
     .offset = offsetof(filter_t, p),
     .def = "1",
     .hi = 1,
     .help = "Keeps this share of the records, drawn by key and seed."},
    {.name = "seed",
     .type = MR_OPT_INT,
     .offset = offsetof(filter_t, seed),
     .def = "0",
     .hi = 4294967295.0,
     .help = "Decides which share p keeps."},
    {.name = "invert",
     .type = MR_OPT_BOOL,
     .offset = offsetof(filter_t, invert),
     .def = "false",
     .help = "Inverts the choice."},
    {0}};

static const mr_hint_t filter_words[] = {{"where", "filter 0,1,2", NULL}, {0}};

const mr_stage_def_t mr_stage_filter = {
    .name = "filter",
    .hint = filter_words,
    .help =
        "Keeps the records of some labels, values or keys, or a share of them (grain's filter).",
    .in = {{"in", MR_FLOW_RECORDS, false}},
    .out = {{"out", MR_FLOW_RECORDS, false}},
    .opts = filter_opts,
    .state_sz = sizeof(filter_t),
    .plan = filter_plan,
    .filter = &(const mr_filter_def_t){.keep = filter_keep, .of_record = true},
};
