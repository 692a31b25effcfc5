/* tar: samples of WebDataset's archives as records, members by their extension, in any order.  An
   index of each archive (tar_scan.c) makes a member an offset and a length, so that records are
   read at random, which WebDataset itself cannot; how members become fields is decided here. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/npy.h"
#include "base/text.h"
#include "loaders/formats/tar_scan.h"
#include "loaders/shards/shard_source.h"

/* How a member becomes a field. */
enum { AS_BYTES, AS_LABEL, AS_INT, AS_FLOAT, AS_NPY, AS_COUNT };
static const char *const as_name[AS_COUNT] = {"bytes", "label", "int", "float", "npy"};

enum {
  NUMBER_MAX = 63,                     /* bytes of a number written as text */
  FORM_MAX = 4 * MR_CLASS_NAME_MAX + 1 /* of a name in any of Unicode's forms, with a NUL: none has
                                          four times the bytes of another */
};

static int tar_find_as(const char *word) {
  for (int as = 0; as < AS_COUNT; as++)
    if (!strcmp(word, as_name[as])) return as;
  return -1;
}

/* What an extension means unless fields= says otherwise. */
static int usual_as(const char *ext) {
  static const char *const whole[] = {"index", "inx", "id", "count"};
  if (!strcmp(ext, "cls") || !strcmp(ext, "cls2")) return AS_LABEL;
  if (!strcmp(ext, "npy")) return AS_NPY;
  for (int i = 0; i < 4; i++)
    if (!strcmp(ext, whole[i])) return AS_INT;
  return AS_BYTES;
}

static const char *usual_name(const char *ext) {
  static const char *const picture[] = {"jpg", "jpeg", "png", "webp"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(ext, picture[i])) return "image";
  return !strcmp(ext, "cls") ? "label" : !strcmp(ext, "__key__") ? "key" : ext;
}

/* ---- fields ---- */

static mr_err_t no_member(mr_stage_t *s, const mr_shard_source_t *t, const char *member) {
  char list[300] = "";
  size_t at = 0;
  for (int c = 0; c < t->shards->n_columns && at + 40 < sizeof list; c++)
    if (t->shards->column[c].kind == MR_TAR_MEMBER || t->shards->column[c].kind == MR_TAR_KEY)
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%.30s", at ? ", " : "",
                             t->shards->column[c].name);
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: no member is called .%.100s; the members of %s are %s",
                       member, t->shards->shard->path, list);
}

/* Sets the dtype and shape of a member that is an array to those of the first record that has it.
   If it fails, *unfit is the shard in which an array was read that becomes no field, or NULL. */
static mr_err_t settle_npy(const mr_shard_source_t *t, int column, mr_field_t *f,
                           const mr_shard_t **unfit, mr_diag_t *diag) {
  mr_shard_reads_t *reads = NULL;
  mr_npy_t head;
  size_t offset;
  const mr_shard_t *shard = t->shards->shard;
  mr_shard_part_t p;
  bool found = false;
  *unfit = NULL;
  for (int64_t i = 0; i < t->shards->n_records && !found; i++) {
    shard = mr_shards_find(t->shards, i);
    found = mr_shards_part(shard, i, column, &p);
  }
  if (!found)
    return mr_fail(diag, MR_ERR_DATA,
                   "no sample of %s has its member .%.100s: an index of these files is wrong, "
                   "remove it",
                   t->shards->shard->path, t->shards->column[column].name);
  mr_shard_want_t want = {.shard = shard, .at = p.at, .size = p.size};
  mr_err_t e = mr_shard_reads_open(&reads, t->shards, diag);
  if (e >= 0) e = mr_shard_reads_fetch(reads, 0, &want, 1, diag);
  bool read = e >= 0;
  if (read) e = mr_npy_header("array", want.data, (size_t)want.size, &head, &offset, diag);
  mr_shard_reads_close(reads);
  if (read && (e >= 0 || e == MR_ERR_DATA)) *unfit = shard;
  MR_TRY(e);
  if (head.ndim >= MR_MAX_NDIM || !head.count ||
      head.count * mr_dtype_size(head.dtype) > MR_SHARD_PART_MAX)
    return mr_fail(diag, MR_ERR_DATA,
                   "array: it has %d dimensions and %zu elements, want at most %d dimensions and 1 "
                   "to 256 MiB",
                   head.ndim, head.count, MR_MAX_NDIM - 1);
  f->dtype = head.dtype, f->ndim = head.ndim;
  memcpy(f->dim, head.dim, sizeof f->dim);
  return MR_OK;
}

static mr_err_t settle_field(mr_stage_t *s, mr_shard_source_t *t, int column, const char *name,
                             int as, mr_spec_t *out) {
  int at = t->n_fields;
  const mr_shards_column_t *c = &t->shards->column[column];
  mr_field_t f = {0};
  snprintf(f.name, sizeof f.name, "%s", name);
  switch (as) {
    case AS_LABEL:
      f = mr_field_of_label((int)t->classes);
      snprintf(f.name, sizeof f.name, "%s", name);
      break;
    case AS_INT: f.dtype = MR_I64; break;
    case AS_FLOAT: f.dtype = MR_F32; break;
    case AS_NPY: {
      const mr_shard_t *unfit;
      mr_diag_t why = {0};
      mr_err_t e = settle_npy(t, column, &f, &unfit, &why);
      if (e < 0 && unfit) {
        mr_diag_t whole = {0};
        mr_diag_prefix(&whole, e, &why, "%s: member .%.60s", unfit->path, c->name);
        return mr_stage_relay(s, e, &whole);
      }
      if (e < 0) return mr_stage_relay(s, e, &why);
      break;
    }
    default: f = mr__shard_bytes_field(name, c->most);
  }
  if (as != AS_BYTES) s->writes |= (uint16_t)(1u << at);
  int want = c->kind == MR_TAR_KEY ? -1 : mr__shard_source_want(t, column);
  t->field[at] = (mr_shard_field_t){.want = want, .as = as, .member = c->name};
  out->field[at] = f;
  t->n_fields++;
  return MR_OK;
}

static mr_err_t settle_word(mr_stage_t *s, mr_shard_source_t *t, const mr_shard_field_word_t *w,
                            mr_spec_t *out) {
  bool twice;
  int column = mr_shards_column(t->shards, w->member, &twice);
  if (column < 0) return no_member(s, t, w->member);
  const char *name = w->field ? w->field : usual_name(w->member);
  int as = w->as ? tar_find_as(w->as) : usual_as(w->member);
  bool key = t->shards->column[column].kind == MR_TAR_KEY;
  if (as < 0 || (key && as != AS_BYTES))
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: %.100s as %.40s: want %s", w->member,
                         w->as, key ? "bytes" : "bytes, label, int, float or npy");
  if (!mr_field_name_ok(name))
    return mr_stage_fail(
        s, MR_ERR_CONFIG,
        "setting fields: \"%.100s\" is not a valid name of a field, want %.100s:FIELD", name,
        w->member);
  return settle_field(s, t, column, name, as, out);
}

/* Samples of one key, by their numbers. */
typedef struct keyed {
  uint64_t hash;
  int64_t number;
} keyed_t;

static int order_keyed(const void *a, const void *b) {
  const keyed_t *x = a, *y = b;
  if (x->hash != y->hash) return (x->hash > y->hash) - (x->hash < y->hash);
  return (x->number > y->number) - (x->number < y->number);
}

/* Sets two[] to the first samples of the archive that have the same key.  Returns false if no two
   have, or without memory. */
static bool find_same(const mr_shard_t *shard, int64_t two[2]) {
  int64_t n = shard->index.n_records;
  keyed_t *k = n > 1 ? malloc((size_t)n * sizeof *k) : NULL;
  bool found = false;
  for (int64_t i = 0; k && i < n; i++) {
    const char *key = mr_shards_key(shard, shard->first + i);
    k[i] = (keyed_t){XXH3_64bits(key, strlen(key)), shard->first + i};
  }
  if (k) qsort(k, (size_t)n, sizeof *k, order_keyed);
  for (int64_t i = 1; k && i < n; i++)
    if (k[i].hash == k[i - 1].hash && (!found || k[i - 1].number < two[0]))
      found = true, two[0] = k[i - 1].number, two[1] = k[i].number;
  free(k);
  return found;
}

/* Whether both samples have a member of one name: they are no parts of one sample. */
static bool share_member(const mr_shard_source_t *t, const mr_shard_t *shard,
                         const int64_t two[2]) {
  mr_shard_part_t p;
  for (int c = 0; c < t->shards->n_columns; c++)
    if (t->shards->column[c].kind == MR_TAR_MEMBER && mr_shards_part(shard, two[0], c, &p) &&
        mr_shards_part(shard, two[1], c, &p))
      return true;
  return false;
}

/* Says of the first archive in which samples of one key lie apart what they are. */
static void say_same(const mr_shard_source_t *t) {
  for (int i = 0; i < t->shards->n; i++) {
    const mr_shard_t *shard = &t->shards->shard[i];
    int64_t two[2];
    bool same = false;
    for (uint32_t c = 0; c < shard->index.n_columns; c++)
      same |= shard->index.column[c].kind == MR_TAR_SAME;
    if (!same || !find_same(shard, two)) continue;
    const char *key = mr_shards_key(shard, two[0]);
    if (share_member(t, shard, two))
      mr_notice("%s: records %" PRId64 " and %" PRId64
                " are two samples of one key, %.200s, and both are read: give each a name of its "
                "own, or leave one out (skip-records=)",
                shard->path, two[0], two[1], key);
    else
      mr_notice(
          "%s: the members of sample %.200s do not follow each other, so that it counts as "
          "several: pack the files in the order of their names (tar --sort=name)",
          shard->path, key);
    return;
  }
}

/* Links, which have no contents here. */
static void note_links(mr_shard_left_t *left, const mr_shard_source_t *t) {
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    const char *tab = k->kind == MR_TAR_LEFT ? strchr(k->name, '\t') : NULL;
    char ext[64];
    if (!tab) continue;
    snprintf(ext, sizeof ext, "%.*s", (int)(tab - k->name), k->name);
    mr__shard_left_note(left, ext, tab + 1);
  }
}

/* Whether samples lack a member for a reason of its own. */
static bool is_noted(const mr_shard_source_t *t, const char *ext) {
  size_t n = strlen(ext);
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    if (k->kind == MR_TAR_LEFT && !strncmp(k->name, ext, n) && k->name[n] == '\t') return true;
  }
  return false;
}

/* Says what is odd about the archives, of the first that are. */
static void say_notes(const mr_shard_source_t *t) {
  enum { SAID = 8 };
  int said = 0, more = 0;
  for (int i = 0; i < t->shards->n; i++) {
    const mr_shard_index_t *x = &t->shards->shard[i].index;
    for (uint32_t c = 0; c < x->n_columns; c++) {
      if (x->column[c].kind != MR_TAR_NOTE) continue;
      if (said < SAID) mr_notice("%s: %s", t->shards->shard[i].path, x->text + x->column[c].name);
      more += said++ >= SAID;
    }
  }
  if (more) mr_notice("%s: %d more archives end oddly", t->shards->shard->path, more);
}

/* Whether every sample lacks none of the members that a field is made of. */
static bool all_have(const mr_shard_source_t *t) {
  for (int i = 0; i < t->n_wants; i++)
    if (t->shards->column[t->want[i]].have < t->shards->n_records) return false;
  return true;
}

/* Says that files of one kind are fields of one sample, where a dot in their names may have been
   meant to tell samples apart. */
static void say_dots(const mr_shard_source_t *t) {
  for (int a = 0; a < t->n_fields; a++)
    for (int b = 0; b < a; b++) {
      const char *one = t->field[b].member, *other = t->field[a].member;
      const char *dot = strrchr(one, '.'), *other_dot = strrchr(other, '.');
      if ((!dot && !other_dot) || strcmp(dot ? dot + 1 : one, other_dot ? other_dot + 1 : other))
        continue;
      mr_notice(
          "%s: members .%.60s and .%.60s are fields of one sample, as a name is cut at its "
          "first dot: if they are samples of their own, give the files names without that dot",
          t->shards->shard->path, one, other);
      return;
    }
}

/* Without fields=: the members that every sample has. */
static mr_err_t settle_usual(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out) {
  mr_shard_left_t left = {0};
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    const char *name = k->have == t->shards->n_records ? usual_name(k->name) : NULL;
    if (k->kind != MR_TAR_MEMBER || (!name && is_noted(t, k->name))) continue;
    if (!name && strchr(k->name, '.') && 2 * k->have <= t->shards->n_records) {
      mr__shard_left_note(&left, k->name,
                          "not every record has it: a name is cut at its first dot");
      continue;
    }
    if (mr__shard_left_add(&left, t, k->name, name)) continue;
    mr_field_t array;
    const mr_shard_t *unfit;
    mr_diag_t why = {0};
    if (usual_as(k->name) == AS_NPY && settle_npy(t, c, &array, &unfit, &why) < 0 && unfit) {
      mr__shard_left_note(&left, k->name, why.text);
      continue;
    }
    MR_TRY(settle_field(s, t, c, name, usual_as(k->name), out));
  }
  note_links(&left, t);
  mr__shard_left_say(&left, t, "member");
  say_dots(t);
  if (t->n_fields) return MR_OK;
  const char *name = "";
  for (int c = t->shards->n_columns - 1; c >= 0; c--)
    if (t->shards->column[c].kind == MR_TAR_MEMBER) name = t->shards->column[c].name;
  return mr_stage_fail(
      s, MR_ERR_CONFIG, "no member is in every sample of %s: want fields=EXT:FIELD,..%s%.60s",
      t->shards->shard->path, strchr(name, '.') ? "; a name is cut at its first dot: .." : "",
      strchr(name, '.') ? name : "");
}

static mr_err_t tar_settle(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word,
                           int n, mr_spec_t *out) {
  say_notes(t);
  say_same(t);
  if (!n) return settle_usual(s, t, out);
  for (int i = 0; i < n; i++) MR_TRY(settle_word(s, t, &word[i], out));
  if (all_have(t)) return MR_OK;
  mr_shard_left_t left = {0};
  note_links(&left, t);
  mr__shard_left_say(&left, t, "member");
  return MR_OK;
}

/* ---- records ---- */

/* The number in a member of text, with white space around it. */
static mr_err_t tar_parse_number(const mr_shard_bytes_t *p, bool whole, int64_t *i, double *d,
                                 mr_diag_t *diag) {
  const char *text = (const char *)p->data; /* zeros follow it */
  char *end = (char *)text;
  errno = 0;
  if (p->size <= NUMBER_MAX) {
    if (whole)
      *i = strtoll(text, &end, 10);
    else
      *d = mr_strtod(text, &end);
  }
  bool some = end > text && !(whole && errno);
  while (*end == ' ' || *end == '\n' || *end == '\r' || *end == '\t') end++;
  if (some && end == text + p->size) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "holds \"%.40s\", want a%s number", text,
                 whole ? " whole" : "");
}

/* The class that a member of text names: a number or, with names=, a name. */
static mr_err_t tar_parse_class(const mr_shard_source_t *t, const mr_shard_bytes_t *p,
                                int64_t *label, mr_diag_t *diag) {
  const char *text = (const char *)p->data;
  int64_t n = p->size;
  if (tar_parse_number(p, true, label, NULL, NULL) >= 0) return MR_OK;
  while (n && strchr(" \n\r\t", *text)) text++, n--;
  while (n && strchr(" \n\r\t", text[n - 1])) n--;
  if (t->names.index && n && n < FORM_MAX && !memchr(text, 0, (size_t)n)) {
    char name[FORM_MAX];
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if ((*label = mr_classes_find(t->names.index, name)) >= 0) return MR_OK;
  }
  return mr_fail(diag, MR_ERR_DATA, "holds \"%.*s\", want a whole number%s", (int)(n < 40 ? n : 40),
                 text,
                 t->named.n ? " or one of the names in names="
                            : "; names=FILE, with a name a line, gives names their numbers");
}

static mr_err_t unpack_npy(const mr_field_t *f, const mr_shard_bytes_t *p, void *to,
                           mr_diag_t *diag) {
  mr_npy_t head;
  size_t offset;
  MR_TRY(mr_npy_header("array", p->data, (size_t)p->size, &head, &offset, diag));
  size_t bytes = mr_field_bytes(f);
  bool same = head.dtype == f->dtype && head.ndim == f->ndim &&
              !memcmp(head.dim, f->dim, (size_t)f->ndim * sizeof *f->dim);
  if (!same) {
    char is[160], want[160];
    mr_field_t array = {.name = "array", .dtype = head.dtype, .ndim = head.ndim}, first = *f;
    memcpy(array.dim, head.dim, sizeof array.dim);
    snprintf(first.name, sizeof first.name, "array");
    mr_field_text(&array, 0, is, sizeof is), mr_field_text(&first, 0, want, sizeof want);
    return mr_fail(diag, MR_ERR_DATA,
                   "holds an %s, the first record's is an %s: fields= leaves the member out, or "
                   "takes its bytes as they are (npy:array:bytes)",
                   is, want);
  }
  if (offset + head.count * head.size != (size_t)p->size)
    return mr_fail(diag, MR_ERR_DATA, "has %" PRId64 " bytes, its header and shape want %zu",
                   p->size, offset + head.count * head.size);
  mr_npy_convert(&head, p->data + offset, to);
  for (size_t i = 0; f->dtype == MR_BOOL && i < bytes; i++)
    if (((uint8_t *)to)[i] > 1)
      return mr_fail(diag, MR_ERR_DATA, "holds a bool that is not 0 or 1");
  return MR_OK;
}

static mr_err_t unpack_field(const mr_shard_source_t *t, int f, const mr_shard_bytes_t *p,
                             mr_value_t *v, mr_diag_t *diag) {
  int64_t whole = 0;
  double number = 0;
  if (!p->data) return mr_fail(diag, MR_ERR_DATA, "is missing");
  switch (t->field[f].as) {
    case AS_LABEL:
      MR_TRY(tar_parse_class(t, p, &whole, diag));
      MR_TRY(mr__shard_check_label(t->classes, whole, diag));
      *(int32_t *)v->data = (int32_t)whole;
      return MR_OK;
    case AS_INT:
      MR_TRY(tar_parse_number(p, true, &whole, NULL, diag));
      *(int64_t *)v->data = whole;
      return MR_OK;
    case AS_FLOAT:
      MR_TRY(tar_parse_number(p, false, NULL, &number, diag));
      *(float *)v->data = (float)number;
      return MR_OK;
    case AS_NPY: return unpack_npy(&t->spec[f], p, v->data, diag);
    default: *v = (mr_value_t){(void *)p->data, p->size}; return MR_OK;
  }
}

static mr_err_t tar_unpack(const mr_shard_source_t *t, const mr_shard_bytes_t *part, mr_rec_t *rec,
                           mr_diag_t *diag) {
  mr_diag_t why = {0};
  for (int f = 0; f < t->n_fields; f++) {
    const mr_shard_field_t *field = &t->field[f];
    if (field->want < 0) continue;
    mr_err_t e = unpack_field(t, f, &part[field->want], &rec->field[f], &why);
    if (e < 0) return mr_fail(diag, e, "member .%s %s", field->member, why.text);
  }
  return MR_OK;
}

static const mr_shard_kind_t kind = {.name = "tar",
                                     .own = "a tar archive",
                                     .index = "tar/5",
                                     .scan = mr_tar_scan,
                                     .head = MR_TAR_HEAD,
                                     .check_head = mr_tar_check_head,
                                     .settle = tar_settle,
                                     .unpack = tar_unpack};

static mr_err_t tar_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &kind); }

static const mr_opt_t tar_opts[] = {
    MR_SHARD_OPTS("Archives, as in shard-{000..012}.tar; several names are joined by \"::\".",
                  "Members by extension, and the fields they become: jpg:image,cls:label; AS is "
                  "bytes, label, int, float or npy; __key__:key is the sample's name.  By default "
                  "every member that all samples have."),
    {0}};

static const mr_hint_t tar_words[] = {{"webdataset wds", "tar shard-{000..012}.tar", NULL}, {0}};

const mr_stage_def_t mr_stage_tar = {
    .name = "tar",
    .hint = tar_words,
    .help = "Reads the samples of WebDataset's tar archives, in any order.",
    .opts = tar_opts,
    .state_sz = sizeof(mr_shard_source_t),
    .plan = tar_plan,
    MR_SHARD_HOOKS,
};
