/* Fields of typed columns.  A value that lies in the file as it is in memory is not copied: the
   field points at the part. */
#include "loaders/shards/shard_typed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/local/npy_column.h"

enum { AS_TYPED, AS_LABEL, NUMBER_MAX = 63 /* bytes of a number written as text */ };

/* ---- names of columns ---- */

mr_err_t mr_typed_column(mr_shard_draft_t *d, const char *name, size_t n, mr_typed_t kind,
                         const mr_field_t *type, const char *why, uint32_t *column,
                         mr_diag_t *diag) {
  char text[MR_SHARD_NAME_MAX + 256];
  if (n >= MR_SHARD_NAME_MAX || memchr(name, 0, n) || memchr(name, '\t', n))
    return mr_fail(diag, MR_ERR_DATA,
                   "a column has a name of %zu bytes, want at most %d, without NUL and tab", n,
                   MR_SHARD_NAME_MAX - 1);
  int at = snprintf(text, sizeof text, "%.*s\t%s", (int)n, name,
                    type  ? mr_dtype_name(type->dtype)
                    : why ? why
                          : "");
  for (int i = 0; type && i < type->ndim; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%c%" PRId64, i ? 'x' : '[', type->dim[i]);
  if (type) at += snprintf(text + at, sizeof text - (size_t)at, type->ndim ? "]" : "[]");
  return mr_shard_draft_column(d, text, (size_t)at, kind, column, diag);
}

mr_err_t mr_typed_refuse(mr_shard_draft_t *d, const char *name, size_t n, const char *why,
                         uint32_t *column, mr_diag_t *diag) {
  enum { WHY_MAX = 120 };
  char fit[MR_SHARD_NAME_MAX], text[WHY_MAX];
  mr_diag_t failed = {0};
  snprintf(text, sizeof text, "%s", why);
  if (strlen(why) >= sizeof text && strrchr(text, ';')) *strrchr(text, ';') = 0; /* a whole part */
  size_t most = sizeof fit - 2 - strlen(text);
  if (n > most) n = most;
  for (size_t i = 0; i < n; i++) fit[i] = name[i] && name[i] != '\t' ? name[i] : '?';
  mr_err_t e = mr_typed_column(d, fit, n, MR_TYPED_REFUSED, NULL, text, column, &failed);
  return e == MR_ERR_NOMEM ? mr_diag_relay(diag, e, &failed) : MR_OK;
}

mr_err_t mr_typed_sizes(mr_shard_draft_t *d, int64_t at, const void *bytes, size_t n,
                        mr_diag_t *diag) {
  uint32_t column;
  MR_TRY(mr_shard_draft_column(d, "\t", 1, MR_TYPED_SIZES, &column, diag));
  return mr_shard_draft_item(d, column, at, (int64_t)n, mr_shard_sum(bytes, n), diag);
}

/* Words, and lists of sizes. */
static bool is_no_column(const mr_shards_column_t *c) {
  return c->kind == MR_TYPED_WORD || c->kind == MR_TYPED_SIZES;
}

size_t mr_typed_stored(mr_typed_t kind, mr_dtype_t dtype) {
  bool as_is = kind == MR_TYPED_PLAIN || kind == MR_TYPED_SWAPPED;
  return as_is ? mr_dtype_size(dtype) : kind == MR_TYPED_I8 ? 1 : 2;
}

/* Whether a column is called name. */
static bool is_called(const mr_shards_column_t *c, const char *name) {
  size_t n = strlen(name);
  return !strncmp(c->name, name, n) && c->name[n] == '\t' && !is_no_column(c);
}

/* "" without a tab, which no index of ours lacks. */
static const char *typed_text(const mr_shards_column_t *c) {
  const char *tab = strchr(c->name, '\t');
  return tab ? tab + 1 : "";
}

static void copy_name(const mr_shards_column_t *c, char out[MR_SHARD_NAME_MAX]) {
  snprintf(out, MR_SHARD_NAME_MAX, "%.*s", (int)strcspn(c->name, "\t"), c->name);
}

bool mr_typed_numpy(const char *name, size_t n, mr_typed_t *kind, mr_dtype_t *dtype) {
  static const struct {
    const char *name;
    mr_typed_t kind;
    mr_dtype_t dtype;
  } type[] = {{"uint8", MR_TYPED_PLAIN, MR_U8},      {"uint16", MR_TYPED_U16, MR_I32},
              {"uint32", MR_TYPED_PLAIN, MR_U32},    {"uint64", MR_TYPED_PLAIN, MR_U64},
              {"int8", MR_TYPED_I8, MR_I32},         {"int16", MR_TYPED_I16, MR_I32},
              {"int32", MR_TYPED_PLAIN, MR_I32},     {"int64", MR_TYPED_PLAIN, MR_I64},
              {"int", MR_TYPED_PLAIN, MR_I64},       {"float16", MR_TYPED_PLAIN, MR_F16},
              {"float32", MR_TYPED_PLAIN, MR_F32},   {"float64", MR_TYPED_PLAIN, MR_F64},
              {"bfloat16", MR_TYPED_PLAIN, MR_BF16}, {"bool", MR_TYPED_PLAIN, MR_BOOL}};
  for (size_t i = 0; i < sizeof type / sizeof *type; i++)
    if (strlen(type[i].name) == n && !memcmp(type[i].name, name, n)) {
      *kind = type[i].kind, *dtype = type[i].dtype;
      return true;
    }
  return false;
}

bool mr_typed_parse(const char *text, mr_field_t *f, int64_t *count) {
  const char *open = strchr(text, '[');
  size_t n = open ? (size_t)(open - text) : strlen(text);
  int dtype = 0;
  while (dtype < MR_DTYPE_COUNT &&
         (strncmp(mr_dtype_name(dtype), text, n) || mr_dtype_name(dtype)[n]))
    dtype++;
  if (dtype == MR_DTYPE_COUNT) return false;
  f->dtype = (mr_dtype_t)dtype, f->ndim = open ? 0 : -1, *count = 1;
  if (open && !strcmp(open, "[]")) return true;
  while (open && *open != ']') {
    char *end;
    long long d = open[1] >= '1' && open[1] <= '9' ? strtoll(open + 1, &end, 10) : 0;
    if (d < 1 || d > MR_SHARD_PART_MAX || f->ndim == MR_MAX_NDIM - 1 ||
        (*end != 'x' && *end != ']') || (*count *= d) > MR_SHARD_PART_MAX)
      return false;
    f->dim[f->ndim++] = d;
    open = end;
  }
  return !open || !open[1];
}

/* ---- settling ---- */

static const char *typed_usual_name(const char *column) {
  static const char *const picture[] = {"jpg", "jpeg", "png", "img"};
  for (size_t i = 0; i < sizeof picture / sizeof *picture; i++)
    if (!strcmp(column, picture[i])) return "image";
  return !strcmp(column, "class") || !strcmp(column, "cls") ? "label" : column;
}

static bool is_whole(mr_dtype_t t) {
  return t == MR_U8 || t == MR_I32 || t == MR_U32 || t == MR_I64 || t == MR_U64;
}

/* Fills dtype and dimensions of *f by the column's kind; false for a kind that is no field. */
static bool typed_field_of(const mr_shards_column_t *c, mr_field_t *f) {
  char name[MR_FIELD_NAME];
  int64_t count;
  memcpy(name, f->name, sizeof name);
  switch (c->kind) {
    case MR_TYPED_PLAIN:
    case MR_TYPED_I8:
    case MR_TYPED_I16:
    case MR_TYPED_U16:
    case MR_TYPED_SWAPPED:
    case MR_TYPED_SWAPPED_I16:
    case MR_TYPED_SWAPPED_U16:
      if (!mr_typed_parse(typed_text(c), f, &count) || f->ndim < 0) return false;
      if (f->ndim == 3 && (f->dtype == MR_U8 || f->dtype == MR_F32))
        f->layout = mr_npy_layout(f->dim);
      return true;
    case MR_TYPED_TEXT_INT: return f->dtype = MR_I64, true;
    case MR_TYPED_TEXT_FLOAT: return f->dtype = MR_F64, true;
    case MR_TYPED_TEXT_CLASS:
    case MR_TYPED_BYTES: *f = mr__shard_bytes_field(name, c->most); return true;
    default: return false;
  }
}

/* Whether a field of this column can be a label. */
static bool has_classes(const mr_shards_column_t *c, const mr_field_t *f) {
  return c->kind == MR_TYPED_TEXT_CLASS || (!f->ragged && f->ndim == 0 && is_whole(f->dtype));
}

/* Whether the files themselves call the classes of this column by names. */
static bool has_own_names(const mr_shard_source_t *t, const char *column) {
  for (int i = 0; i < t->n_own; i++)
    if (!strcmp(t->own[i].of, column)) return true;
  return false;
}

/* Whether this column holds the names of another one's classes. */
static bool is_list_of_names(const mr_shard_source_t *t, const char *column) {
  for (int i = 0; i < t->n_own; i++) {
    size_t n = strlen(t->own[i].of);
    if (!strncmp(column, t->own[i].of, n) && !strcmp(column + n, ".classes")) return true;
  }
  return false;
}

static mr_err_t typed_settle_field(mr_stage_t *s, mr_shard_source_t *t, int column,
                                   const char *name, const char *as, mr_spec_t *out) {
  const mr_shards_column_t *c = &t->shards->column[column];
  mr_field_t f = {0};
  char called[MR_SHARD_NAME_MAX];
  int at = t->n_fields, made = AS_TYPED;
  copy_name(c, called);
  snprintf(f.name, sizeof f.name, "%s", name);
  if (!typed_field_of(c, &f))
    return mr_stage_fail(s, MR_ERR_DATA, "column %.100s cannot be a field: %.120s", called,
                         typed_text(c));
  bool label = has_classes(c, &f),
       made_anew = (c->kind >= MR_TYPED_I8 && c->kind <= MR_TYPED_U16) ||
                   (c->kind >= MR_TYPED_SWAPPED && c->kind <= MR_TYPED_SWAPPED_U16);
  bool text = c->kind == MR_TYPED_TEXT_INT || c->kind == MR_TYPED_TEXT_FLOAT;
  if (as && !strcmp(as, "bytes") && (text || c->kind == MR_TYPED_TEXT_CLASS || f.ragged)) {
    f = mr__shard_bytes_field(name, c->most), text = false;
  } else if (as ? !strcmp(as, "label") && label
                : label && (!strcmp(name, "label") || has_own_names(t, called))) {
    made = AS_LABEL;
    f = mr_field_of_label((int)t->classes);
    snprintf(f.name, sizeof f.name, "%s", name);
  } else if (as && !strcmp(as, "label")) {
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fields: %.100s as label: the column holds %s, want one whole "
                         "number in each record",
                         called, f.ragged ? "bytes" : typed_text(c));
  } else if (as) {
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fields: %.100s as %.60s: the column holds %s, want %s or no word "
                         "behind the second colon",
                         called, as, f.ragged ? "bytes" : typed_text(c), label ? "label" : "bytes");
  }
  if (mr_field_bytes(&f) > MR_SHARD_PART_MAX)
    return mr_stage_fail(s, MR_ERR_DATA, "column %.100s: %zu bytes in a record, want at most %d",
                         called, mr_field_bytes(&f), MR_SHARD_PART_MAX);
  if (!as) mr__shard_say_no_label(t, called, &f);
  if (made == AS_LABEL || made_anew || text) s->writes |= (uint16_t)(1u << at);
  t->field[at] =
      (mr_shard_field_t){.want = mr__shard_source_want(t, column), .as = made, .member = c->name};
  out->field[at] = f;
  t->n_fields++;
  return MR_OK;
}

/* The commonest column of this name: records that have it with another type are bad ones. */
static int typed_find(const mr_shards_t *shards, const char *name) {
  int best = -1;
  for (int c = 0; c < shards->n_columns; c++)
    if (is_called(&shards->column[c], name) &&
        (best < 0 || shards->column[c].have > shards->column[best].have))
      best = c;
  return best;
}

static mr_err_t typed_no_column(mr_stage_t *s, const mr_shard_source_t *t, const char *name) {
  char list[400] = "", one[MR_SHARD_NAME_MAX];
  size_t at = 0;
  for (int c = 0; c < t->shards->n_columns && at + 50 < sizeof list; c++) {
    if (is_no_column(&t->shards->column[c])) continue;
    copy_name(&t->shards->column[c], one);
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.40s", at ? ", " : "", one);
  }
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: there is no column %.100s; the records of %s have %s", name,
                       t->shards->shard->path, list);
}

/* Whether a column is there again, with another type or shape. */
static bool has_another(const mr_shards_t *shards, int column, const char *name) {
  for (int c = 0; c < shards->n_columns; c++)
    if (c != column && shards->column[c].kind != MR_TYPED_REFUSED &&
        is_called(&shards->column[c], name))
      return true;
  return false;
}

/* Whether records lack a column because theirs cannot be a field, which is said apart. */
static bool is_refused_too(const mr_shards_t *shards, const char *name) {
  for (int c = 0; c < shards->n_columns; c++)
    if (shards->column[c].kind == MR_TYPED_REFUSED && is_called(&shards->column[c], name))
      return true;
  return false;
}

/* Without fields=: the columns that every record has with one type. */
static mr_err_t typed_settle_usual(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out) {
  char called[MR_SHARD_NAME_MAX];
  mr_shard_left_t left = {0};
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    copy_name(k, called);
    const char *name = k->have == t->shards->n_records ? typed_usual_name(called) : NULL;
    if (is_no_column(k) || is_list_of_names(t, called)) continue;
    if (k->kind == MR_TYPED_REFUSED)
      mr__shard_left_note(&left, called, typed_text(k));
    else if (!name && is_refused_too(t->shards, called))
      continue;
    else if (!name && has_another(t->shards, c, called))
      mr__shard_left_note(&left, called, "its type or shape differs from record to record");
    else if (!mr__shard_left_add(&left, t, called, name))
      MR_TRY(typed_settle_field(s, t, c, name, NULL, out));
  }
  mr__shard_left_say(&left, t, "column");
  if (t->n_fields) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "no column of %s is in every record with one type and a name that can be a "
                       "field's: want fields=COLUMN:FIELD,..",
                       t->shards->shard->path);
}

mr_err_t mr__typed_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                          int n, mr_spec_t *out) {
  for (int i = 0; i < n; i++) {
    const mr_shard_field_word_t *w = &word[i];
    int column = typed_find(t->shards, w->member);
    const char *name = w->field ? w->field : typed_usual_name(w->member);
    if (column < 0) return typed_no_column(s, t, w->member);
    if (!mr_field_name_ok(name))
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting fields: \"%.100s\" is not a valid name of a field, want %.100s:FIELD", name,
          w->member);
    MR_TRY(typed_settle_field(s, t, column, name, w->as, out));
  }
  if (!n) MR_TRY(typed_settle_usual(s, t, out));
  for (int c = 0; c < t->shards->n_columns; c++)
    if (t->shards->column[c].kind == MR_TYPED_SIZES) {
      mr__shard_source_sums(t, c); /* more than one is in no file, but can be in an index */
      break;
    }
  return MR_OK;
}

/* ---- values ---- */

/* The class of a word: how many of the column's words come before it.  -1 if it is not among them.
 */
static int64_t typed_class(const mr_shards_t *shards, const char *column,
                           const mr_shard_bytes_t *p) {
  size_t n = strcspn(column, "\t") + 1;
  int64_t before = 0;
  bool found = false;
  for (int c = 0; c < shards->n_columns; c++) {
    const mr_shards_column_t *k = &shards->column[c];
    if (k->kind != MR_TYPED_WORD || strncmp(k->name, column, n)) continue;
    size_t length = strlen(k->name + n),
           least = length < (size_t)p->size ? length : (size_t)p->size;
    int order = memcmp(k->name + n, p->data, least);
    if (!order) order = length < (size_t)p->size ? -1 : length > (size_t)p->size;
    if (!order) found = true;
    before += order < 0;
  }
  return found ? before : -1;
}

static int64_t whole_at(mr_dtype_t type, const void *p) {
  switch (type) {
    case MR_U8: return *(const uint8_t *)p;
    case MR_I32: return *(const int32_t *)p;
    case MR_U32: return *(const uint32_t *)p;
    case MR_I64: return *(const int64_t *)p;
    default: return *(const uint64_t *)p > INT64_MAX ? INT64_MAX : (int64_t) * (const uint64_t *)p;
  }
}

static mr_err_t typed_number(const mr_shard_bytes_t *p, bool whole, int64_t *i, double *d,
                             mr_diag_t *diag) {
  const char *text = (const char *)p->data; /* zeros follow it */
  char *end = (char *)text;
  errno = 0;
  if (p->size <= NUMBER_MAX && whole) *i = strtoll(text, &end, 10);
  if (p->size <= NUMBER_MAX && !whole) *d = mr_strtod(text, &end);
  bool some = end > text, beyond = some && whole && errno;
  while (*end == ' ' || *end == '\t' || *end == '\r') end++;
  if (some && end == text + p->size && !beyond) return MR_OK;
  if (beyond && end == text + p->size)
    return mr_fail(diag, MR_ERR_DATA,
                   "holds %.40s, which no i64 is: fields=COLUMN:FIELD:bytes keeps the text", text);
  return mr_fail(diag, MR_ERR_DATA, "holds \"%.40s\", want a%s number", text,
                 whole ? " whole" : "");
}

/* Elements of `size` bytes in the other order. */
static void swap_bytes(const uint8_t *from, size_t count, size_t size, uint8_t *to) {
  for (size_t i = 0; i < count; i++, from += size, to += size)
    for (size_t k = 0; k < size; k++) to[k] = from[size - 1 - k];
}

static void widen_to_i32(uint32_t kind, const uint8_t *from, size_t count, int32_t *to) {
  int16_t v;
  for (size_t i = 0; i < count; i++) {
    if (kind == MR_TYPED_I8) to[i] = (int8_t)from[i];
    if (kind == MR_TYPED_I8) continue;
    if (kind >= MR_TYPED_SWAPPED)
      swap_bytes(from + 2 * i, 1, 2, (uint8_t *)&v);
    else
      memcpy(&v, from + 2 * i, 2);
    to[i] = kind == MR_TYPED_I16 || kind == MR_TYPED_SWAPPED_I16 ? v : (uint16_t)v;
  }
}

/* Copies or points; *whole gets the value of a single whole number. */
static mr_err_t unpack_typed(const mr_shards_t *shards, const mr_shards_column_t *c,
                             const mr_shard_bytes_t *p, mr_value_t *v, int64_t *whole,
                             mr_diag_t *diag) {
  mr_field_t f = {0};
  double number;
  if (c->kind == MR_TYPED_BYTES || (c->kind == MR_TYPED_TEXT_CLASS && !whole))
    return *v = (mr_value_t){(void *)p->data, p->size}, MR_OK;
  if (c->kind == MR_TYPED_TEXT_CLASS) {
    *whole = typed_class(shards, c->name, p);
    if (*whole >= 0) return MR_OK;
    return mr_fail(diag, MR_ERR_DATA, "holds \"%.40s\", which no record held before",
                   (const char *)p->data);
  }
  if (c->kind == MR_TYPED_TEXT_INT) {
    int64_t i = 0;
    MR_TRY(typed_number(p, true, &i, NULL, diag));
    return whole ? (*whole = i, MR_OK) : (*(int64_t *)v->data = i, MR_OK);
  }
  if (c->kind == MR_TYPED_TEXT_FLOAT) {
    MR_TRY(typed_number(p, false, NULL, &number, diag));
    return *(double *)v->data = number, MR_OK;
  }
  typed_field_of(c, &f);
  size_t bytes = mr_field_bytes(&f);
  size_t want = bytes / mr_dtype_size(f.dtype) * mr_typed_stored((mr_typed_t)c->kind, f.dtype);
  if ((size_t)p->size != want)
    return mr_fail(diag, MR_ERR_DATA, "has %" PRId64 " bytes, want %zu", p->size, want);
  for (size_t i = 0; f.dtype == MR_BOOL && i < bytes; i++)
    if (p->data[i] > 1) return mr_fail(diag, MR_ERR_DATA, "holds a bool that is not 0 or 1");
  int32_t one;
  if (c->kind == MR_TYPED_PLAIN) {
    if (whole)
      *whole = whole_at(f.dtype, p->data);
    else
      v->data = (void *)p->data;
  } else if (c->kind == MR_TYPED_SWAPPED) {
    uint64_t single;
    size_t size = mr_dtype_size(f.dtype);
    swap_bytes(p->data, bytes / size, size, whole ? (uint8_t *)&single : v->data);
    if (whole) *whole = whole_at(f.dtype, &single);
  } else {
    widen_to_i32(c->kind, p->data, bytes / 4, whole ? &one : v->data);
    if (whole) *whole = one;
  }
  return MR_OK;
}

static mr_err_t typed_unpack_field(const mr_shard_source_t *t, int f, const mr_shard_bytes_t *p,
                                   mr_value_t *v, mr_diag_t *diag) {
  const mr_shard_field_t *field = &t->field[f];
  const mr_shards_column_t *c = &t->shards->column[t->want[field->want]];
  const mr_field_t *spec = &t->spec[f];
  int64_t label;
  if (!p->data) return mr_fail(diag, MR_ERR_DATA, "is missing");
  if (field->as == AS_LABEL) {
    MR_TRY(unpack_typed(t->shards, c, p, NULL, &label, diag));
    MR_TRY(mr__shard_check_label(spec->n_classes, label, diag));
    *(int32_t *)v->data = (int32_t)label;
    return MR_OK;
  }
  if (!spec->ragged) return unpack_typed(t->shards, c, p, v, NULL, diag);
  *v = (mr_value_t){(void *)p->data, p->size};
  return MR_OK;
}

mr_err_t mr__typed_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part, mr_rec_t *rec,
                          mr_diag_t *diag) {
  mr_diag_t why = {0};
  for (int f = 0; f < t->n_fields; f++) {
    const mr_shard_field_t *field = &t->field[f];
    mr_err_t e = typed_unpack_field(t, f, &part[field->want], &rec->field[f], &why);
    if (e < 0)
      return mr_fail(diag, e, "column %.*s %s", (int)strcspn(field->member, "\t"), field->member,
                     why.text);
  }
  return MR_OK;
}
