/* Fields of Examples: which features become fields, and with which dtypes and shapes, is decided
   when the graph settles, from what the scans have counted. */
#include "loaders/formats/shard_example.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loaders/shards/shard_typed.h"

/* How a field is made. */
enum { AS_RECORD, AS_BYTES, AS_RAW /* the bytes of an array */, AS_NUMBERS, AS_LABEL };

static const char UNNAMED_WHY[] =
    "a name of more than 255 bytes or with a NUL, or one of more than 1,024 features";

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

/* The records that have features; the others are bad ones. */
static int64_t count_examples(const mr_shards_t *shards) {
  for (int c = 0; c < shards->n_columns; c++)
    if (shards->column[c].kind == MR_COLUMN_EXAMPLE) return shards->column[c].have;
  return 0;
}

/* A feature of numbers: a single one, or the shape given, or as many as each record has. */
static mr_err_t settle_numbers(mr_stage_t *s, const char *member, const char *as,
                               const mr_shards_column_t *c, int64_t examples, mr_field_t *f,
                               int *made, int64_t *n, bool *absent) {
  bool whole = c->kind == MR_COLUMN_INT64, even = c->least == c->most;
  char has[80];
  int64_t count = 1;
  snprintf(has, sizeof has, "%" PRId64 " to %" PRId64 " %s", c->least, c->most,
           whole ? "whole numbers" : "floats");
  *made = AS_NUMBERS, *n = even ? c->most : -1;
  *absent = false;
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
  /* A type without a shape, as tf.io.VarLenFeature: records without the feature have no values. */
  if (as && g.ndim < 0 && c->have < examples) *absent = true, even = false, *n = -1;
  if (g.ndim < 0 && even && c->most == 1) g.ndim = 0;
  if (g.ndim < 0) g.ndim = 1, g.dim[0] = c->most > 0 ? c->most : 1, g.ragged = !even || !c->most;
  *f = g;
  return MR_OK;
}

static bool is_feature(const mr_shards_column_t *c) {
  return c->kind < MR_COLUMN_EXAMPLE || c->kind >= MR_COLUMN_SEQUENCE;
}

/* The commonest kind of a feature: records in which it is of another kind are bad, but for those
   that lack values. */
static int commonest_column(const mr_shards_t *shards, const char *name) {
  int best = -1;
  for (int c = 0; c < shards->n_columns; c++)
    if (is_feature(&shards->column[c]) && !strcmp(shards->column[c].name, name) &&
        (best < 0 || shards->column[best].kind == MR_COLUMN_EMPTY ||
         (shards->column[c].kind != MR_COLUMN_EMPTY &&
          shards->column[c].have > shards->column[best].have)))
      best = c;
  return best;
}

static mr_err_t no_such_feature(mr_stage_t *s, const mr_shard_source_t *t, const char *name) {
  char list[400] = "";
  size_t at = 0;
  for (int c = 0; c < t->shards->n_columns && at + 50 < sizeof list; c++) {
    if (!is_feature(&t->shards->column[c])) continue;
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.40s", at ? ", " : "",
                           t->shards->column[c].name);
  }
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: no record has a feature %.100s; the records of %s have %s",
                       name, t->shards->shard->path, list);
}

/* The part behind the last slash, and the names that others give to pictures and classes. */
static const char *usual_feature_name(const char *feature) {
  static const char *const alias[][2] = {{"image/encoded", "image"},
                                         {"image_raw", "image"},
                                         {"image/class/label", "label"},
                                         {"__record__", "record"}};
  for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
    if (!strcmp(feature, alias[i][0])) return alias[i][1];
  const char *slash = strrchr(feature, '/');
  return slash ? slash + 1 : feature;
}

static mr_err_t settle_feature(mr_stage_t *s, int column, const char *name, const char *as,
                               mr_spec_t *out) {
  mr_shard_example_t *t = s->state;
  mr_shard_source_t *base = &t->source;
  const mr_shards_column_t *c = &base->shards->column[column];
  int at = base->n_fields, made = AS_RECORD;
  mr_example_field_t more = {.name_n = strlen(c->name)};
  mr_field_t f = {0};
  snprintf(f.name, sizeof f.name, "%s", name);
  switch (c->kind) {
    case MR_COLUMN_RECORD:
      if (as && strcmp(as, "bytes")) return wrong_as(s, c->name, as, "the whole record", "bytes");
      f = mr__shard_bytes_field(name, c->most - t->tail);
      break;
    case MR_COLUMN_BYTES:
      more.kind = MR_FEATURE_BYTES;
      MR_TRY(settle_bytes(s, c->name, as, c->most, &f, &made));
      break;
    case MR_COLUMN_SEQUENCE:
      return wrong_as(s, c->name, as, "the feature list of a SequenceExample",
                      "__record__:FIELD for the whole record");
    case MR_COLUMN_EMPTY:
      return wrong_as(s, c->name, as, "no list of values in any record", "one that has");
    case MR_COLUMN_UNNAMED:
      return mr_stage_fail(s, MR_ERR_DATA, "feature %.100s cannot be a field: %s", c->name,
                           UNNAMED_WHY);
    case MR_COLUMN_LIST:
      return wrong_as(s, c->name, as, "lists of byte strings", "one of a record");
    default:
      more.kind = c->kind == MR_COLUMN_INT64 ? MR_FEATURE_INT64 : MR_FEATURE_FLOAT;
      MR_TRY(settle_numbers(s, c->name, as, c, count_examples(base->shards), &f, &made, &more.n,
                            &more.absent));
  }
  if (made == AS_LABEL) {
    f = mr_field_of_label((int)base->classes);
    snprintf(f.name, sizeof f.name, "%s", name);
  }
  if (mr_field_bytes(&f) > MR_SHARD_PART_MAX)
    return mr_stage_fail(s, MR_ERR_DATA, "feature %.100s: %zu bytes in a record, want at most %d",
                         c->name, mr_field_bytes(&f), MR_SHARD_PART_MAX);
  if (!as) mr__shard_say_no_label(base, c->name, &f);
  if (made > AS_BYTES) s->writes |= (uint16_t)(1u << at);
  base->field[at] = (mr_shard_field_t){.want = 0, .as = made, .member = c->name};
  t->more[at] = more;
  out->field[at] = f;
  base->n_fields++;
  return MR_OK;
}

/* Why a feature is no field whatever it is called; NULL: it may be one. */
static const char *why_no_field(const mr_shards_t *shards, const mr_shards_column_t *k,
                                int64_t examples) {
  if (k->kind == MR_COLUMN_SEQUENCE) return "the feature list of a SequenceExample";
  if (k->kind == MR_COLUMN_LIST) return "several byte strings, or none, in a record";
  if (k->kind == MR_COLUMN_UNNAMED || !k->have) return UNNAMED_WHY;
  if (k->kind == MR_COLUMN_EMPTY && k->have == examples) return "no values in any record";
  if (k->have == examples) return NULL;
  for (int c = 0; c < shards->n_columns; c++) {
    const mr_shards_column_t *other = &shards->column[c];
    if (other == k || !is_feature(other) || strcmp(other->name, k->name) != 0) continue;
    return other->kind == MR_COLUMN_LIST ? "several byte strings, or none, in a record"
           : other->kind == MR_COLUMN_EMPTY || k->kind == MR_COLUMN_EMPTY
               ? "a record holds no values of it"
               : "its values differ in kind from record to record";
  }
  return NULL;
}

/* Without fields=: the features that every Example has, with values of one kind. */
static mr_err_t settle_usual_features(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out) {
  int64_t examples = count_examples(t->shards);
  mr_shard_left_t left = {0};
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    const char *name = k->have == examples ? usual_feature_name(k->name) : NULL;
    if (k->kind == MR_COLUMN_RECORD || !is_feature(k)) continue;
    const char *why = why_no_field(t->shards, k, examples);
    if (why)
      mr__shard_left_note(&left, k->name, why);
    else if (!mr__shard_left_add(&left, t, k->name, name))
      MR_TRY(settle_feature(s, c, name, NULL, out));
  }
  mr__shard_left_say(&left, t, "feature");
  if (t->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "no feature is in every record of %s: want fields=FEATURE:FIELD,.., or "
                       "fields=__record__:record for records that are not a tf.train.Example",
                       t->shards->shard->path);
}

mr_err_t mr__example_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                            int n, mr_spec_t *out) {
  for (int i = 0; i < n; i++) {
    const mr_shard_field_word_t *w = &word[i];
    int column = commonest_column(t->shards, w->member);
    const char *name = w->field ? w->field : usual_feature_name(w->member);
    if (column < 0) return no_such_feature(s, t, w->member);
    if (!mr_field_name_ok(name))
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting fields: \"%.100s\" is not a valid name of a field, want %.100s:FIELD", name,
          w->member);
    MR_TRY(settle_feature(s, column, name, w->as, out));
  }
  return n ? MR_OK : settle_usual_features(s, t, out);
}

/* ---- records ---- */

static mr_err_t unpack_feature(const mr_shard_source_t *base, int at, const mr_example_feature_t *f,
                               mr_value_t *v, mr_diag_t *diag) {
  const mr_example_field_t *more = &((const mr_shard_example_t *)base)->more[at];
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
      return mr__shard_check_label(base->classes, one, diag);
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
static mr_err_t unpack_features(const mr_shard_source_t *t, const uint8_t *data, size_t n,
                                mr_rec_t *rec, mr_diag_t *diag) {
  mr_example_feature_t found[MR_FIELDS_MAX] = {0}, f;
  mr_example_walk_t w = {.at = data, .end = data + n};
  mr_err_t e;
  while ((e = mr_example_next(&w, &f, diag)) == MR_OK)
    for (int i = 0; i < t->n_fields; i++)
      if (f.name_n == ((const mr_shard_example_t *)t)->more[i].name_n &&
          !memcmp(f.name, t->field[i].member, f.name_n))
        found[i] = f;
  if (e < 0) return e;
  for (int i = 0; i < t->n_fields; i++) {
    mr_diag_t why = {0};
    if (t->field[i].as == AS_RECORD) continue;
    if (!found[i].kind && ((const mr_shard_example_t *)t)->more[i].absent)
      e = MR_OK, rec->field[i].rows = 0;
    else
      e = found[i].kind ? unpack_feature(t, i, &found[i], &rec->field[i], &why)
                        : mr_fail(&why, MR_ERR_DATA, "is missing");
    if (e < 0) return mr_fail(diag, e, "feature %.200s %s", t->field[i].member, why.text);
  }
  return MR_OK;
}

mr_err_t mr__example_unpack(const mr_shard_source_t *t, const uint8_t *data, size_t n,
                            mr_rec_t *rec, mr_diag_t *diag) {
  bool examples = false;
  for (int i = 0; i < t->n_fields; i++) {
    examples |= t->field[i].as != AS_RECORD;
    if (t->field[i].as != AS_RECORD) continue;
    if ((int64_t)n > t->spec[i].dim[0]) /* the file was another when its index was made */
      return mr_fail(diag, MR_ERR_DATA, "has %zu bytes, want at most %" PRId64, n,
                     t->spec[i].dim[0]);
    rec->field[i] = (mr_value_t){(void *)data, (int64_t)n};
  }
  return examples ? unpack_features(t, data, n, rec, diag) : MR_OK;
}
