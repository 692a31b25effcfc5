/* The hooks of a sharded source: plan opens the indexes, which stay until forget, because where a
   record lies is asked of sources that are never opened. */
#include "loaders/shards/shard_source.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/same_name.h"
#include "base/text.h"

/* ---- fields= ---- */

static mr_err_t cut_field_word(mr_stage_t *s, char *word, mr_shard_field_word_t *out) {
  char *field = strchr(word, ':'), *as = field ? strchr(field + 1, ':') : NULL;
  if (field) *field++ = 0;
  if (as) *as++ = 0;
  *out = (mr_shard_field_word_t){word, field, as};
  if (*word && (!field || mr_field_name_ok(field)) && (!as || *as)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: \"%.200s\": want MEMBER, MEMBER:FIELD or MEMBER:FIELD:AS, "
                       "and more behind commas, where FIELD has at most %d letters, digits, "
                       "\"_\", \"-\" and \".\", a letter first",
                       word, MR_FIELD_NAME - 1);
}

static mr_err_t cut_field_words(mr_stage_t *s, mr_shard_field_word_t *word, int *n) {
  mr_shard_source_t *t = s->state;
  *n = 0;
  if (!t->fields) return MR_OK;
  if (snprintf(t->list, sizeof t->list, "%s", t->fields) >= (int)sizeof t->list)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: %zu bytes, want at most %zu",
                         strlen(t->fields), sizeof t->list - 1);
  for (char *at = t->list, *next; at; at = next) {
    next = strchr(at, ',');
    if (next) *next++ = 0;
    if (*n == MR_FIELDS_MAX)
      return mr_stage_fail(s, MR_ERR_CONFIG, "setting fields: want at most %d fields",
                           MR_FIELDS_MAX);
    MR_TRY(cut_field_word(s, at, &word[(*n)++]));
  }
  return MR_OK;
}

int mr__shard_source_want(mr_shard_source_t *t, int column) {
  for (int i = 0; i < t->n_wants; i++)
    if (t->want[i] == column) return i;
  assert(t->n_wants < MR_SHARD_PARTS_READ);
  t->want[t->n_wants] = column;
  return t->n_wants++;
}

void mr__shard_source_sums(mr_shard_source_t *t, int column) {
  t->sums = mr__shard_source_want(t, column);
}

uint32_t mr_shard_sum(const void *bytes, size_t n) { return XXH32(bytes, n, 0); }

mr_field_t mr__shard_bytes_field(const char *name, int64_t most) {
  mr_field_t f = {.dtype = MR_U8, .ndim = 1, .dim = {most > 0 ? most : 1}, .ragged = true};
  snprintf(f.name, sizeof f.name, "%s", name);
  return f;
}

mr_err_t mr__shard_check_label(int64_t classes, int64_t label, mr_diag_t *diag) {
  int64_t end = classes ? classes : INT32_MAX;
  if (label >= 0 && label < end) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "label %" PRId64 " is not in [0,%" PRId64
                 "], want classes=N with N above every "
                 "label",
                 label, end - 1);
}

void mr__shard_say_no_label(const mr_shard_source_t *t, const char *column, const mr_field_t *f) {
  char text[128];
  if (f->label || strcmp(f->name, "label") != 0) return;
  mr_field_text(f, 0, text, sizeof text);
  mr_notice("%s: column %.100s: %s is no label, which is one whole number in each record",
            t->shards->shard->path, column, text);
}

void mr__shard_left_note(mr_shard_left_t *l, const char *column, const char *why) {
  int i = 0;
  while (i < l->n_whys && strncmp(l->of[i].why, why, sizeof l->of[i].why - 1) != 0) i++;
  if (i == MR_SHARD_LEFT_WHYS) i--;
  if (i == l->n_whys) snprintf(l->of[l->n_whys++].why, sizeof l->of[i].why, "%s", why);
  struct mr_shard_left_why *w = &l->of[i];
  char quoted[260];
  snprintf(quoted, sizeof quoted, "\"%.250s\"", column);
  if (strstr(w->names, quoted)) return;
  w->n++;
  size_t at = strlen(w->names), room = sizeof w->names - at;
  if (strlen(quoted) + 3 > room || w->shown + 1 < w->n) return;
  snprintf(w->names + at, room, "%s%s", at ? ", " : "", quoted);
  w->shown++;
}

bool mr__shard_left_add(mr_shard_left_t *l, const mr_shard_source_t *t, const char *column,
                        const char *used) {
  static_assert(MR_FIELDS_MAX == 16, "as the sentence says");
  const char *why = !used                          ? "not every record has it"
                    : !mr_field_name_ok(used)      ? "no field can have that name"
                    : t->n_fields == MR_FIELDS_MAX ? "a record has at most 16 fields"
                                                   : NULL;
  if (why) mr__shard_left_note(l, column, why);
  return why != NULL;
}

/* A notice holds some 1,000 bytes: reasons that do not fit into one go into the next. */
void mr__shard_left_say(const mr_shard_left_t *l, const mr_shard_source_t *t, const char *what) {
  enum { MOST = 800 };
  char text[MOST + 900] = "";
  size_t at = 0;
  for (int i = 0; i < l->n_whys; i++) {
    const struct mr_shard_left_why *w = &l->of[i];
    char more[40] = "";
    if (w->n > w->shown) snprintf(more, sizeof more, " and %d more", w->n - w->shown);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%d %s%s, %s%s (%s)", at ? "; " : "",
                           w->n, what, w->n == 1 ? "" : "s", w->names, more, w->why);
    bool last = i + 1 == l->n_whys;
    if (last || at + strlen(l->of[i + 1].names) + strlen(l->of[i + 1].why) > MOST) {
      mr_notice("%s: left out: %s: fields= chooses", t->shards->shard[0].path, text);
      at = 0;
    }
  }
}

/* ---- plan ---- */

static mr_err_t shard_source_check_fields(mr_stage_t *s, const mr_spec_t *out) {
  for (int i = 0; i < out->n_fields; i++)
    for (int k = 0; k < i; k++)
      if (!strcmp(out->field[i].name, out->field[k].name))
        return mr_stage_fail(s, MR_ERR_CONFIG,
                             "two fields would be called %s: name them by fields=MEMBER:FIELD,..",
                             out->field[i].name);
  return MR_OK;
}

/* The names that `millrace pack` has written beside shard i, into path[MR_PATH_MAX]; NULL: none. */
static const char *packed_names(const mr_shard_source_t *t, int i, char *path) {
  const mr_shard_t *shard = &t->shards->shard[i];
  const char *slash = strrchr(shard->path, '/');
  int folder = slash ? (int)(slash - shard->path) : 1;
  if (shard->object) return NULL;
  snprintf(path, MR_PATH_MAX, "%.*s/" MR_PACK_CLASSES, folder, slash ? shard->path : ".");
  return access(path, F_OK) == 0 ? path : NULL;
}

/* Whether shard i lies in the folder of the one before it, whose names are known. */
static bool lies_beside(const mr_shard_source_t *t, int i) {
  const char *a = t->shards->shard[i].path, *b = i ? t->shards->shard[i - 1].path : NULL;
  const char *slash = strrchr(a, '/');
  size_t n = slash ? (size_t)(slash - a) + 1 : 0;
  return b && !strncmp(a, b, n) && !strchr(b + n, '/');
}

mr_err_t mr__shard_agree(mr_stage_t *s, const mr_classes_t *with_data, const char *where) {
  const mr_shard_source_t *t = s->state;
  const mr_classes_t *used = &t->named;
  char one[160], other[160], path[MR_PATH_MAX];
  mr_diag_t why = {0};
  const char *of = t->names_file    ? t->names_file
                   : t->packed <= 0 ? "the folder of the first file"
                                    : packed_names(t, t->packed, path);
  int both = used->n < with_data->n ? used->n : with_data->n, differ = 0;
  for (int i = 0; i < both; i++) differ += !mr_same_name(used->name[i], with_data->name[i]);
  if (!differ) return MR_OK;
  int32_t *place = calloc((size_t)with_data->n + 1, sizeof *place);
  if (!place) return mr_stage_no_memory(s, "the names of classes");
  mr_err_t e = mr_classes_places(with_data, used, place, &why);
  bool moved = !t->names_file;
  for (int i = 0; i < with_data->n && e >= 0; i++) moved |= place[i] >= 0 && place[i] != i;
  free(place);
  if (e < 0) return mr_stage_relay(s, e, &why);
  mr_classes_text(with_data, other, sizeof other), mr_classes_text(used, one, sizeof one);
  if (moved)
    return mr_stage_fail(s, MR_ERR_DATA,
                         "%s calls the %d classes %s, and %s the %d classes %s: one number would "
                         "mean two classes; %s",
                         where, with_data->n, other, of ? of : path, used->n, one,
                         t->names_file ? "want names= in the order of the data's, or without it"
                                       : "stage concatenate joins such sets by name");
  mr_notice("%s: the classes %s of %s are called %s, as names= says", t->shards->shard->path, other,
            where, one);
  return MR_OK;
}

/* Takes the longest list of names that lies beside the files, of which the others are to be
   beginnings: t->packed is -1 without one. */
static mr_err_t choose_packed(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  char path[MR_PATH_MAX];
  for (int i = 0; i < t->shards->n; i++) {
    mr_class_names_t names = {0};
    mr_diag_t why = {0};
    if (lies_beside(t, i) || !packed_names(t, i, path)) continue;
    mr_err_t e = mr__class_names_read(&names, NULL, path, 0, &why);
    if (e < 0) return mr_stage_relay(s, e, &why);
    if (t->packed < 0 || names.n > t->names.n) {
      mr_class_names_t shorter = t->names;
      t->names = names, names = shorter, t->packed = i;
    }
    mr__class_names_free(&names);
  }
  return MR_OK;
}

/* Compares the names beside the files with those that are used, once the fields are known: without
   a label that has these names nothing is said of them. */
static mr_err_t compare_packed(mr_stage_t *s, const mr_spec_t *out) {
  mr_shard_source_t *t = s->state;
  char path[MR_PATH_MAX];
  bool read = false;
  for (int f = 0; f < out->n_fields; f++) read |= out->field[f].classes == &t->named;
  if (!read || !t->names.index) return MR_OK; /* without an index they are words of the data */
  if (t->packed >= 0 && t->classes != t->named.n)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting classes = %" PRId64 ": %s has %d names, want as many", t->classes,
                         packed_names(t, t->packed, path) ? path : MR_PACK_CLASSES, t->named.n);
  mr_err_t e = MR_OK;
  for (int i = 0; i < t->shards->n && e >= 0; i++) {
    mr_class_names_t names = {0};
    mr_diag_t why = {0};
    if (i == t->packed || lies_beside(t, i) || !packed_names(t, i, path)) continue;
    e = mr_stage_relay(s, mr__class_names_read(&names, NULL, path, 0, &why), &why);
    if (e >= 0) e = mr__shard_agree(s, &(mr_classes_t){names.n, names.name}, path);
    mr__class_names_free(&names);
  }
  return e;
}

/* Without a file of names, classes are called by their numbers, which say nothing more. */
static mr_err_t name_classes(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  mr_diag_t why = {0};
  if (!mr_setting_given(s, offsetof(mr_shard_source_t, classes))) t->classes = 0;
  mr__class_names_free(&t->names);
  t->named = (mr_classes_t){0}, t->packed = -1;
  if (!t->names_file) MR_TRY(choose_packed(s));
  mr_err_t e = t->names_file
                   ? mr__class_names_read(&t->names, NULL, t->names_file, (int)t->classes, &why)
               : t->packed < 0 ? mr__class_names_numbers(&t->names, (int)t->classes, &why)
                               : MR_OK;
  if (e < 0) return mr_stage_relay(s, e, &why);
  if (t->names_file || t->packed >= 0) t->named = (mr_classes_t){t->names.n, t->names.name};
  if (!t->classes) t->classes = t->named.n;
  return MR_OK;
}

static void forget_own_names(mr_shard_source_t *t) {
  for (int i = 0; i < t->n_own; i++) free(t->own[i].name);
  free(t->own);
  t->own = NULL, t->n_own = 0;
}

/* What labels are called, unless the kind has said it. */
static void name_fields(mr_shard_source_t *t, mr_spec_t *out) {
  for (int f = 0; f < t->n_fields && t->named.n; f++)
    if (out->field[f].label && !out->field[f].classes && !t->field[f].unnamed)
      out->field[f].classes = &t->named;
}

static mr_err_t open_shards(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  mr_diag_t why = {0};
  mr_shards_conf_t conf = {.files = t->files,
                           .kind = t->kind->index,
                           .scan = t->kind->scan,
                           .apart = t->kind->apart,
                           .own = t->kind->own,
                           .index = t->index,
                           .lenient = t->care.lenient,
                           .remote = &t->remote,
                           .prepare = t->kind->prepare,
                           .verify = t->kind->verify,
                           .ctx = t};
  if (!t->files)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting files must be given: the names of the files, "
                         "as in shard-{000..012}");
  mr_shard_names_t list = {0};
  mr_err_t e = t->kind->list ? t->kind->list(t, &list, &why) : MR_OK;
  conf.names = (const char *const *)list.at, conf.n_names = list.n;
  if (e >= 0) e = mr_shards_open(&t->shards, &conf, &why);
  mr_shard_names_fini(&list);
  return mr_stage_relay(s, e, &why);
}

mr_err_t mr__shard_source_plan(mr_stage_t *s, const mr_shard_kind_t *kind) {
  mr_shard_source_t *t = s->state;
  mr_spec_t *out = &s->out_spec[0];
  mr_shard_field_word_t word[MR_FIELDS_MAX];
  int n;
  t->kind = kind, t->remote.elsewhere = s->elsewhere;
  MR_TRY(cut_field_words(s, word, &n));
  MR_TRY(open_shards(s));
  MR_TRY(mr__split_plan_files(s, &t->split, t->shards->n_records));
  MR_TRY(name_classes(s));
  t->dataset = (mr_dataset_t){kind->name, t->names.n, t->names.name};
  *out = (mr_spec_t){.flow = MR_FLOW_RECORDS,
                     .n_records = mr__split_size(&t->split),
                     .n_epochs = 1,
                     .dataset = &t->dataset};
  t->n_fields = t->n_wants = 0, t->sums = -1;
  forget_own_names(t);
  MR_TRY(kind->settle(t, s, word, n, out));
  out->n_fields = t->n_fields;
  name_fields(t, out);
  MR_TRY(compare_packed(s, out));
  memcpy(t->spec, out->field, sizeof t->spec);
  if (s->elsewhere) mr_remote_rest(t->shards->remote);
  return shard_source_check_fields(s, out);
}

void mr__shard_source_forget(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  mr_shards_close(t->shards);
  t->shards = NULL;
  mr__class_names_free(&t->names), forget_own_names(t);
}

/* ---- reading ---- */

/* What the parts of a mean record have together, of some that are spread evenly over all. */
static int64_t mean_record(const mr_shard_source_t *t) {
  enum { LOOKED_AT = 4096 };
  int64_t n = t->shards->n_records < LOOKED_AT ? t->shards->n_records : LOOKED_AT, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t number = (int64_t)((double)i / (double)n * (double)t->shards->n_records);
    const mr_shard_t *shard = mr_shards_find(t->shards, number);
    mr_shard_part_t p;
    for (int w = 0; w < t->n_wants; w++)
      if (mr_shards_part(shard, number, t->want[w], &p)) sum += p.size;
  }
  return n ? sum / n : 0;
}

/* The first shard that is read from a server; NULL: none is. */
static const mr_shard_t *first_object(const mr_shard_source_t *t) {
  for (int i = 0; i < t->shards->n; i++)
    if (t->shards->shard[i].object) return &t->shards->shard[i];
  return NULL;
}

static bool cache_holds_all(const mr_shard_source_t *t) {
  size_t limit;
  int64_t all = 0;
  for (int i = 0; i < t->shards->n; i++)
    if (t->shards->shard[i].object) all = mr_remote_sum(all, t->shards->shard[i].object->size);
  return mr_bytes_parse("", t->remote.cache_size, &limit, NULL) >= 0 && all <= (int64_t)limit;
}

/* Blocks that are much larger than records are fetched whole for one record at a time, unless
   records that are read one after the other share them or the cache holds all blocks. */
static void weigh_blocks(const mr_shard_source_t *t) {
  const mr_remote_conf_t *c = &t->remote;
  const mr_shard_t *first = first_object(t);
  int64_t fits = 4096;
  if (!first || !c->cache || c->cache_block <= fits || cache_holds_all(t)) return;
  int64_t mean = mean_record(t);
  if (mean <= 0 || 2 * mean >= c->cache_block) return;
  while (2 * fits <= mean) fits *= 2;
  mr_notice("%s: records have %" PRId64 " bytes, blocks of the cache %" PRId64
            ", and the cache holds a part of them: in a shuffled order cache-block=%" PRId64
            " fetches less",
            first->path, mean, c->cache_block, fits);
}

/* Weighs the blocks once the order is known: most records that are announced do not follow the one
   before. */
static void weigh_order(mr_shard_source_t *t, const int64_t *index, int n) {
  enum { LOOKED_AT = 64 };
  for (int i = 0; i < n && t->order_seen < LOOKED_AT; i++, t->order_seen++) {
    t->order_jumps += index[i] != t->order_next;
    t->order_next = index[i] + 1;
    if (t->order_seen + 1 == LOOKED_AT && 2 * t->order_jumps > LOOKED_AT) weigh_blocks(t);
  }
}

mr_err_t mr__shard_source_open(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  mr_diag_t why = {0};
  mr_err_t e = mr_shard_reads_open(&t->reads, t->shards, &why);
  if (e >= 0 && t->kind->group) e = mr_shard_groups_open(&t->groups, t->kind->group, &why);
  if (e >= 0 && t->shards->remote) e = mr_remote_start(t->shards->remote, &why);
  t->order_seen = t->order_jumps = 0;
  return mr_stage_relay(s, e, &why);
}

void mr__shard_source_close(mr_stage_t *s) {
  mr_shard_source_t *t = s->state;
  if (t->shards && t->shards->remote) mr_remote_count(t->shards->remote, &t->counts);
  mr_shard_reads_close(t->reads);
  mr_shard_groups_close(t->groups);
  t->reads = NULL, t->groups = NULL;
}

/* Where the first part of a record lies that is read, or any part of one whose fields are keys
   alone. */
static int64_t first_byte(const mr_shard_source_t *t, const mr_shard_t *shard, int64_t number) {
  mr_shard_part_t p;
  for (int i = 0; i < t->n_wants; i++)
    if (mr_shards_part(shard, number, t->want[i], &p)) return p.at;
  const mr_shard_record_t *r = mr_shard_index_row(&shard->index, number - shard->first);
  return r[1].part > r[0].part ? shard->index.part[r[0].part].at : 0;
}

static void shard_source_where(mr_stage_t *s, int64_t index, mr_where_t *out) {
  const mr_shard_source_t *t = s->state;
  int64_t number = mr__split_at(&t->split, index);
  const mr_shard_t *shard = mr_shards_find(t->shards, number);
  snprintf(out->file, MR_WHERE_MAX, "%s", shard->path);
  out->offset = first_byte(t, shard, number);
  out->key = (uint64_t)(number + t->id_base);
}

static int64_t shard_source_index_of(const mr_stage_t *s, uint64_t key) {
  const mr_shard_source_t *t = s->state;
  return mr__split_from(&t->split, (int64_t)(key - (uint64_t)t->id_base));
}

/* How many bytes before a part are read with it; an index that leaves it no room is wrong, which
   unpack_record says. */
static int bytes_before(const mr_shard_source_t *t, const mr_shard_part_t *p) {
  return p->at >= t->kind->head ? t->kind->head : 0;
}

/* Fills want with the parts of records index[0,n), record by record; a part that a record lacks has
   size -1 there and is not counted.  Returns how many are to be read. */
static int list_parts(const mr_shard_source_t *t, const int64_t *index, int n, int64_t *number,
                      mr_shard_want_t *want) {
  int k = 0;
  for (int i = 0; i < n; i++) {
    number[i] = mr__split_at(&t->split, index[i]);
    const mr_shard_t *shard = mr_shards_find(t->shards, number[i]);
    for (int w = 0; w < t->n_wants; w++) {
      mr_shard_part_t p;
      if (!mr_shards_part(shard, number[i], t->want[w], &p)) continue;
      int head = bytes_before(t, &p);
      want[k++] = (mr_shard_want_t){
          .shard = shard, .at = p.at - head, .size = p.size + head, .item = p.item};
    }
  }
  return k;
}

/* A part of a record, behind its head, which is checked: an index may be of another state of the
   file although size and times are the same. */
static mr_err_t behind_head(const mr_shard_source_t *t, const mr_shard_want_t *want, int w,
                            const mr_shard_part_t *p, const char *key, mr_shard_bytes_t *out,
                            mr_diag_t *diag) {
  int head = t->kind->head;
  mr_diag_t why = {0};
  *out = (mr_shard_bytes_t){want->data + head, want->size - head};
  if (!head) return MR_OK;
  const char *member = t->shards->column[t->want[w]].name;
  mr_err_t e = bytes_before(t, p)
                   ? t->kind->check_head(want->data, key, member, p, &why)
                   : mr_fail(&why, MR_ERR_DATA, "nothing stands before byte %" PRId64, p->at);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e,
                 "member .%s: %s: the file has changed since its index was made, or is damaged; "
                 "remove the index (%s) to have it made anew",
                 member, why.text, t->index);
}

static mr_err_t check_sum(const mr_shard_source_t *t, const mr_shard_part_t *p,
                          const mr_shard_bytes_t *bytes, mr_diag_t *diag) {
  if (mr_shard_sum(bytes->data, (size_t)bytes->size) == p->item) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "the sizes of its values are others: the file has changed since its index was "
                 "made, or is damaged; remove the index (%s) to have it made anew",
                 t->index);
}

static mr_err_t unpack_record(const mr_shard_source_t *t, int64_t number,
                              const mr_shard_want_t **want, mr_rec_t *rec, mr_diag_t *diag) {
  const mr_shard_t *shard = mr_shards_find(t->shards, number);
  const char *key = mr_shards_key(shard, number);
  mr_shard_bytes_t part[MR_SHARD_PARTS_READ];
  mr_diag_t why = {0};
  mr_err_t e = MR_OK;
  for (int w = 0; w < t->n_wants; w++) {
    mr_shard_part_t p;
    bool has = mr_shards_part(shard, number, t->want[w], &p);
    part[w] = (mr_shard_bytes_t){0};
    if (has && e >= 0) e = behind_head(t, *want, w, &p, key, &part[w], &why);
    if (has && e >= 0 && w == t->sums) e = check_sum(t, &p, &part[w], &why);
    *want += has;
  }
  for (int f = 0; f < t->n_fields; f++)
    if (t->field[f].want < 0) rec->field[f] = (mr_value_t){(void *)key, (int64_t)strlen(key)};
  rec->key = (uint64_t)(number + t->id_base);
  if (e >= 0) e = t->kind->unpack(t, part, rec, &why);
  if (e >= 0) return MR_OK;
  return mr_fail(diag, e, "%s: record %" PRId64 "%s%.200s, at byte %" PRId64 ": %s", shard->path,
                 number - shard->first, *key ? ", " : "", key, first_byte(t, shard, number),
                 why.text);
}

static mr_err_t shard_source_fetch(mr_stage_t *s, int worker, const int64_t *index, int n,
                                   mr_rec_t *out) {
  mr_shard_source_t *t = s->state;
  mr_shard_want_t want[MR_BURST * MR_SHARD_PARTS_READ];
  const mr_shard_want_t *next = want;
  int64_t number[MR_BURST];
  mr_diag_t why, *diag = mr_stage_why(s, &why);
  int k = list_parts(t, index, n, number, want);
  mr_err_t e = t->groups ? mr_shard_groups_fetch(t->groups, t->reads, worker, want, k, diag)
                         : mr_shard_reads_fetch(t->reads, worker, want, k, diag);
  for (int i = 0; i < n && e >= 0; i++) e = unpack_record(t, number[i], &next, &out[i], diag);
  return mr_stage_relay(s, e, &why);
}

void mr__shard_source_report(mr_stage_t *s, char *text, size_t n) {
  const mr_shard_source_t *t = s->state;
  mr_remote_report(&t->counts, text, n);
}

static uint64_t shard_source_objects(mr_stage_t *s) {
  return mr_remote_states(((const mr_shard_source_t *)s->state)->shards->remote);
}

static bool shard_source_asked(mr_stage_t *s, mr_asked_t *out) {
  const mr_shard_source_t *t = s->state;
  return mr_remote_asked(t->shards->remote, out);
}

/* Announces the parts of records index[0,n) of objects. */
static int64_t tell_parts(mr_shard_source_t *t, const int64_t *index, int n) {
  mr_shard_want_t want[MR_BURST * MR_SHARD_PARTS_READ];
  mr_remote_want_t remote[MR_BURST * MR_SHARD_PARTS_READ];
  int64_t number[MR_BURST];
  int k = list_parts(t, index, n, number, want), found = 0;
  for (int i = 0; i < k; i++)
    if (want[i].shard->object)
      remote[found++] = (mr_remote_want_t){want[i].shard->object, want[i].at, want[i].size, NULL};
  int64_t more = mr_remote_tell(t->shards->remote, remote, found);
  return t->n_wants ? more / t->n_wants : 0;
}

static int64_t shard_source_foresee(mr_stage_t *s, const int64_t *index, int n) {
  mr_shard_source_t *t = s->state;
  if (!t->shards->remote) return -1;
  if (n) atomic_store_explicit(&t->foreseen, true, memory_order_relaxed); /* no bytes go with it */
  weigh_order(t, index, n);
  return tell_parts(t, index, n);
}

static bool shard_source_ahead(mr_stage_t *s, int worker, const int64_t *index, int n) {
  mr_shard_source_t *t = s->state;
  mr_shard_want_t want[MR_BURST * MR_SHARD_PARTS_READ];
  int64_t number[MR_BURST];
  if (!t->ahead || !n) return t->ahead;
  if (t->shards->remote && !atomic_load_explicit(&t->foreseen, memory_order_relaxed))
    tell_parts(t, index, n);
  mr_shard_reads_ahead(t->reads, want, list_parts(t, index, n, number, want));
  return true;
}

static mr_err_t shard_source_measure(mr_stage_t *s, double seconds, mr_served_t *out) {
  const mr_shard_source_t *t = s->state;
  mr_diag_t why = {0};
  out->records = t->shards->n_records, out->bytes = t->shards->bytes;
  if (!first_object(t)) return MR_END; /* also what was decompressed: it lies on the disk */
  mr_err_t e = mr_remote_measure(t->shards->remote, mean_record(t), seconds, out, &why);
  return mr_stage_relay(s, e, &why);
}

static mr_err_t shard_source_explain(mr_stage_t *s, char *text, size_t n) {
  const mr_shard_source_t *t = s->state;
  char bytes[24];
  snprintf(text, n, "read record by record as they are due, from %d file%s of %s (index=%s)",
           t->shards->n, t->shards->n == 1 ? "" : "s",
           mr_bytes_text((size_t)t->shards->bytes, bytes), t->index);
  return MR_OK;
}

const mr_source_def_t mr__shard_source = {
    .fetch = shard_source_fetch,
    .ahead = shard_source_ahead,
    .foresee = shard_source_foresee,
    .where = shard_source_where,
    .index_of = shard_source_index_of,
    .care = offsetof(mr_shard_source_t, care),
    .asked = shard_source_asked,
    .measure = shard_source_measure,
    .objects = shard_source_objects,
    .explain = shard_source_explain,
};
