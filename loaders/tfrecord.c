/* tfrecord: Examples of TFRecord files as records, features by their name, in any order.  The
   framing has no index, so one is made by reading each file once (tfrecord_scan.c); which features
   become fields, and with which dtypes and shapes, is decided here when the graph settles. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "loaders/example.h"
#include "loaders/shard_source.h"
#include "loaders/shard_typed.h"
#include "loaders/tfrecord_scan.h"

/* How a field is made. */
enum { AS_RECORD, AS_BYTES, AS_RAW /* the bytes of an array */, AS_NUMBERS, AS_LABEL };

typedef struct tfrecord_field {
  mr_feature_kind_t kind;
  size_t name_n;
  int64_t n; /* values of every record; -1: ragged */
} tfrecord_field_t;

typedef struct tfrecord {
  mr_shard_source_t source;
  tfrecord_field_t more[MR_FIELDS_MAX];
} tfrecord_t;

/* ---- fields ---- */

static mr_err_t wrong_as(mr_stage_t *s, const char *member, const char *as, const char *has,
                         const char *want) {
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: %.100s as %.60s: the feature holds %s, want %s", member,
                       as ? as : "a field", has, want);
}

/* A feature of one byte string. */
static mr_err_t settle_bytes(mr_stage_t *s, const char *member, const char *as, int64_t most,
                             mr_field_t *f, int *made) {
  int64_t count;
  mr_field_t raw = {0};
  *made = AS_BYTES;
  if (!as || !strcmp(as, "bytes")) {
    *f = mr__shard_bytes_field(f->name, most);
    return MR_OK;
  }
  if (!mr_typed_parse(as, &raw, &count) || raw.ndim < 0)
    return wrong_as(s, member, as, "bytes",
                    "bytes, or the type and shape of an array in them, as in u8[32x32x3]");
  memcpy(raw.name, f->name, sizeof raw.name);
  *f = raw, *made = AS_RAW;
  return MR_OK;
}

/* A feature of numbers: a single one, or the shape given, or as many as each record has. */
static mr_err_t settle_numbers(mr_stage_t *s, const char *member, const char *as,
                               const mr_shards_column_t *c, mr_field_t *f, int *made, int64_t *n) {
  bool whole = c->kind == MR_TFRECORD_INT64, even = c->least == c->most;
  char has[80];
  int64_t count = 1;
  snprintf(has, sizeof has, "%" PRId64 " to %" PRId64 " %s", c->least, c->most,
           whole ? "whole numbers" : "floats");
  *made = AS_NUMBERS, *n = even ? c->most : -1;
  if (!as && whole && even && c->most == 1 && !strcmp(f->name, "label")) as = "label";
  if (as && !strcmp(as, "label")) {
    if (!whole || !even || c->most != 1) return wrong_as(s, member, as, has, "one whole number");
    *made = AS_LABEL;
    return MR_OK;
  }
  mr_field_t g = {.dtype = whole ? MR_I64 : MR_F32, .ndim = -1};
  bool good = !as || mr_typed_parse(as, &g, &count);
  good = good && (whole ? g.dtype == MR_I64 || g.dtype == MR_I32 : g.dtype == MR_F32);
  if (!good || (g.ndim >= 0 && (!even || count != c->most)))
    return wrong_as(s, member, as, has,
                    whole ? "i64, i32 or label, or i64[2x3], i32[2x3] of as many numbers"
                          : "f32, or f32[2x3] of as many numbers");
  memcpy(g.name, f->name, sizeof g.name);
  if (g.ndim < 0 && even && c->most == 1) g.ndim = 0;
  if (g.ndim < 0) g.ndim = 1, g.dim[0] = c->most > 0 ? c->most : 1, g.ragged = !even;
  *f = g;
  return MR_OK;
}

/* The commonest kind of a feature: records in which it is of another kind are bad. */
static int commonest_column(const mr_shards_t *shards, const char *name) {
  int best = -1;
  for (int c = 0; c < shards->n_columns; c++)
    if (!strcmp(shards->column[c].name, name) &&
        (best < 0 || shards->column[c].have > shards->column[best].have))
      best = c;
  return best;
}

static mr_err_t tfrecord_no_feature(mr_stage_t *s, const mr_shard_source_t *t, const char *name) {
  char list[400] = "";
  size_t at = 0;
  for (int c = 0; c < t->shards->n_columns && at + 50 < sizeof list; c++) {
    if (t->shards->column[c].kind == MR_TFRECORD_EXAMPLE) continue;
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.40s", at ? ", " : "",
                           t->shards->column[c].name);
  }
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: no record has a feature %.100s; the records of %s have %s",
                       name, t->shards->shard->path, list);
}

/* The part behind the last slash, and the names that others give to pictures and classes. */
static const char *tfrecord_usual_name(const char *feature) {
  static const char *const alias[][2] = {{"image/encoded", "image"},
                                         {"image_raw", "image"},
                                         {"image/class/label", "label"},
                                         {"__record__", "record"}};
  for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
    if (!strcmp(feature, alias[i][0])) return alias[i][1];
  const char *slash = strrchr(feature, '/');
  return slash ? slash + 1 : feature;
}

static mr_err_t tfrecord_settle_field(mr_stage_t *s, int column, const char *name, const char *as,
                                      mr_spec_t *out) {
  tfrecord_t *t = s->state;
  mr_shard_source_t *base = &t->source;
  const mr_shards_column_t *c = &base->shards->column[column];
  int at = base->n_fields, made = AS_RECORD;
  tfrecord_field_t more = {.name_n = strlen(c->name)};
  mr_field_t f = {0};
  snprintf(f.name, sizeof f.name, "%s", name);
  switch (c->kind) {
    case MR_TFRECORD_RECORD:
      if (as && strcmp(as, "bytes")) return wrong_as(s, c->name, as, "the whole record", "bytes");
      f = mr__shard_bytes_field(name, c->most - MR_TFRECORD_SUM);
      break;
    case MR_TFRECORD_BYTES:
      more.kind = MR_FEATURE_BYTES;
      MR_TRY(settle_bytes(s, c->name, as, c->most, &f, &made));
      break;
    case MR_TFRECORD_LIST:
      return wrong_as(s, c->name, as, "lists of byte strings", "one of a record");
    default:
      more.kind = c->kind == MR_TFRECORD_INT64 ? MR_FEATURE_INT64 : MR_FEATURE_FLOAT;
      MR_TRY(settle_numbers(s, c->name, as, c, &f, &made, &more.n));
  }
  if (made == AS_LABEL) {
    f = mr_field_of_label((int)base->classes);
    snprintf(f.name, sizeof f.name, "%s", name);
  }
  if (mr_field_bytes(&f) > MR_SHARD_PART_MAX)
    return mr_stage_fail(s, MR_ERR_DATA, "feature %.100s: %zu bytes in a record, want at most %d",
                         c->name, mr_field_bytes(&f), MR_SHARD_PART_MAX);
  if (made > AS_BYTES) s->writes |= (uint16_t)(1u << at);
  base->field[at] = (mr_shard_field_t){.want = 0, .as = made, .member = c->name};
  t->more[at] = more;
  out->field[at] = f;
  base->n_fields++;
  return MR_OK;
}

/* The records that have features; the others are bad ones. */
static int64_t count_examples(const mr_shards_t *shards) {
  for (int c = 0; c < shards->n_columns; c++)
    if (shards->column[c].kind == MR_TFRECORD_EXAMPLE) return shards->column[c].have;
  return 0;
}

/* Without fields=: the features that every Example has, with values of one kind. */
static mr_err_t tfrecord_settle_usual(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out) {
  int64_t examples = count_examples(t->shards);
  for (int c = 0; c < t->shards->n_columns && t->n_fields < MR_FIELDS_MAX; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    const char *name = tfrecord_usual_name(k->name);
    if (k->kind == MR_TFRECORD_RECORD || k->kind == MR_TFRECORD_LIST ||
        k->kind == MR_TFRECORD_EXAMPLE || k->have != examples || !mr_field_name_ok(name))
      continue;
    MR_TRY(tfrecord_settle_field(s, c, name, NULL, out));
  }
  if (t->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "no feature is in every record of %s: want fields=FEATURE:FIELD,.., or "
                       "fields=__record__:record for records that are not a tf.train.Example",
                       t->shards->shard->path);
}

static mr_err_t tfrecord_settle(mr_shard_source_t *t, mr_stage_t *s,
                                const mr_shard_field_word_t *word, int n, mr_spec_t *out) {
  mr__shard_source_want(t, mr_shards_column(t->shards, "__record__", NULL));
  for (int i = 0; i < n; i++) {
    const mr_shard_field_word_t *w = &word[i];
    int column = commonest_column(t->shards, w->member);
    const char *name = w->field ? w->field : tfrecord_usual_name(w->member);
    if (column < 0) return tfrecord_no_feature(s, t, w->member);
    if (!mr_field_name_ok(name))
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting fields: \"%.100s\" is not a valid name of a field, want %.100s:FIELD", name,
          w->member);
    MR_TRY(tfrecord_settle_field(s, column, name, w->as, out));
  }
  return n ? MR_OK : tfrecord_settle_usual(s, t, out);
}

/* ---- records ---- */

static mr_err_t unpack_feature(const mr_shard_source_t *base, int at, const mr_example_feature_t *f,
                               mr_value_t *v, mr_diag_t *diag) {
  const tfrecord_field_t *more = &((const tfrecord_t *)base)->more[at];
  const mr_field_t *field = &base->spec[at];
  int64_t one;
  size_t n;
  bool bytes = more->kind == MR_FEATURE_BYTES;
  if (f->kind != more->kind) return mr_fail(diag, MR_ERR_DATA, "has values of another kind");
  if (bytes ? f->n != 1 : more->n >= 0 && f->n != more->n)
    return mr_fail(diag, MR_ERR_DATA, "has %" PRId64 " values, want %" PRId64, f->n,
                   bytes ? 1 : more->n);
  const uint8_t *data = bytes ? mr_example_bytes(f, &n) : NULL;
  switch (base->field[at].as) {
    case AS_BYTES: *v = (mr_value_t){(void *)data, (int64_t)n}; return MR_OK;
    case AS_RAW:
      if (n != mr_field_bytes(field))
        return mr_fail(diag, MR_ERR_DATA, "has %zu bytes, want %zu", n, mr_field_bytes(field));
      memcpy(v->data, data, n);
      for (size_t i = 0; field->dtype == MR_BOOL && i < n; i++)
        if (data[i] > 1) return mr_fail(diag, MR_ERR_DATA, "holds a bool that is not 0 or 1");
      return MR_OK;
    case AS_LABEL:
      mr_example_ints(f, false, &one);
      *(int32_t *)v->data = (int32_t)one;
      return mr__shard_check_label(base, one, diag);
    default: break;
  }
  if (field->ragged && f->n > field->dim[0]) /* the file was another when its index was made */
    return mr_fail(diag, MR_ERR_DATA, "has %" PRId64 " values, want at most %" PRId64, f->n,
                   field->dim[0]);
  v->rows = f->n;
  if (f->kind == MR_FEATURE_FLOAT)
    mr_example_floats(f, v->data);
  else if (!mr_example_ints(f, field->dtype == MR_I32, v->data))
    return mr_fail(diag, MR_ERR_DATA, "has a value that does not fit i32, want it as i64");
  return MR_OK;
}

/* Walks over the features once; of two with one name the last counts, as in protobuf. */
static mr_err_t unpack_example(const mr_shard_source_t *t, const uint8_t *data, size_t n,
                               mr_rec_t *rec, mr_diag_t *diag) {
  mr_example_feature_t found[MR_FIELDS_MAX] = {0}, f;
  mr_example_walk_t w = {.at = data, .end = data + n};
  mr_err_t e;
  while ((e = mr_example_next(&w, &f, diag)) == MR_OK)
    for (int i = 0; i < t->n_fields; i++)
      if (f.name_n == ((const tfrecord_t *)t)->more[i].name_n &&
          !memcmp(f.name, t->field[i].member, f.name_n))
        found[i] = f;
  if (e < 0) return e;
  for (int i = 0; i < t->n_fields; i++) {
    mr_diag_t why = {0};
    if (t->field[i].as == AS_RECORD) continue;
    e = found[i].kind ? unpack_feature(t, i, &found[i], &rec->field[i], &why)
                      : mr_fail(&why, MR_ERR_DATA, "is missing");
    if (e < 0) return mr_fail(diag, e, "feature %.200s %s", t->field[i].member, why.text);
  }
  return MR_OK;
}

static mr_err_t tfrecord_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part,
                                mr_rec_t *rec, mr_diag_t *diag) {
  if (part->size < MR_TFRECORD_SUM) return mr_fail(diag, MR_ERR_DATA, "has no checksum");
  size_t n = (size_t)part->size - MR_TFRECORD_SUM;
  uint32_t sum;
  bool examples = false;
  memcpy(&sum, part->data + n, sizeof sum);
  if (sum != mr_crc32c_masked(mr_crc32c(part->data, n)))
    return mr_fail(diag, MR_ERR_DATA, "its checksum is wrong");
  for (int i = 0; i < t->n_fields; i++) {
    if (t->field[i].as == AS_RECORD)
      rec->field[i] = (mr_value_t){(void *)part->data, (int64_t)n};
    else
      examples = true;
  }
  return examples ? unpack_example(t, part->data, n, rec, diag) : MR_OK;
}

static const mr_shard_kind_t tfrecord_kind = {.name = "tfrecord",
                                              .index = "tfrecord/3",
                                              .scan = mr_tfrecord_scan,
                                              .settle = tfrecord_settle,
                                              .unpack = tfrecord_unpack};

static mr_err_t tfrecord_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &tfrecord_kind); }

static const mr_opt_t tfrecord_opts[] = {
    MR_SHARD_OPTS(
        "Files, as in train-{00000..00127}-of-00128; several names are joined by \"::\".",
        "Features, the fields they become and how: image/encoded:image,id:id:i32; AS is "
        "bytes, label, or a type, with a shape (f32[2x3]) or without; __record__:record "
        "is the whole record.  By default every feature that all undamaged records have."),
    {0}};

const mr_stage_def_t mr_stage_tfrecord = {
    .name = "tfrecord",
    .help = "Reads the tf.train.Examples of TFRecord files, in any order.",
    .opts = tfrecord_opts,
    .state_sz = sizeof(tfrecord_t),
    .plan = tfrecord_plan,
    MR_SHARD_HOOKS,
};
