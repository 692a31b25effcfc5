/* A name is a column "NAME.classes\tNUMBER NAME" of the index, so that the lists of all files come
   together as columns do, and one that differs shows. */
#include "loaders/formats/npz_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/same_name.h"
#include "base/text.h"

static const char ENDING[] = ".classes";

_Static_assert(MR_SHARD_COLUMNS_WIDE > 50000, "all names of a list, and the arrays");

enum {
  LABEL = 7, /* bytes of a tab, a number and a blank before a name */
  HEADER_MAX = 512,
  LISTED_MAX = 50000, /* names of one list: each is a column of the index, of at most
                         MR_SHARD_COLUMNS_WIDE */
  CHARS_MAX = 256,    /* of a name, in the file */
  N_ENDING = sizeof ENDING - 1
};

bool mr_npz_names_classes(const char *name, size_t n) {
  return n > N_ENDING && !memcmp(name + n - N_ENDING, ENDING, N_ENDING);
}

/* ---- scanning ---- */

/* An array of texts. */
typedef struct texts {
  char order; /* of the bytes of UTF-32: '<' or '>'; '|': single bytes */
  long n, chars;
  int64_t at; /* in the file */
} texts_t;

/* Parses the header in text, which ends with a NUL; false for anything but a list of texts. */
static bool parse_texts(const char *text, size_t n, texts_t *t) {
  const char *type = strstr(text, "'descr': '"), *shape = strstr(text, "'shape': (");
  if (!type || !shape) return false;
  type += 10, shape += 10;
  char *end;
  t->order = *type;
  bool wide = (*type == '<' || *type == '>') && type[1] == 'U',
       bytes = *type == '|' && type[1] == 'S';
  if (!wide && !bytes) return false; /* what is 2 behind may lie beyond the text */
  t->chars = strtol(type + 2, &end, 10);
  if (*end != '\'' || t->chars < 1 || t->chars > CHARS_MAX) return false;
  t->n = strtol(shape, &end, 10);
  return end[0] == ',' && end[1] == ')' && t->n >= 1 && t->n <= LISTED_MAX;
}

static size_t put_utf8(uint32_t c, char *to) {
  if (c < 0x80) return *to = (char)c, 1;
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  to[0] = (char)((0xFF00 >> (more + 1) & 0xFF) | c >> (6 * more));
  for (int i = 1; i <= more; i++) to[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3F));
  return (size_t)more + 1;
}

/* The text at p as UTF-8; NUL characters end it.  False if it cannot be a name of a class. */
static bool copy_text(const texts_t *t, const uint8_t *p, char to[4 * CHARS_MAX + 1]) {
  size_t n = 0;
  for (long i = 0; i < t->chars; i++) {
    uint32_t c = p[i];
    if (t->order != '|') {
      memcpy(&c, p + 4 * i, 4);
      if (t->order == '>') c = __builtin_bswap32(c);
    }
    if (!c) break;
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
    if (t->order == '|')
      to[n++] = (char)c;
    else
      n += put_utf8(c, to + n);
  }
  to[n] = 0;
  return mr__class_name_ok(to);
}

static mr_err_t note_texts(mr_shard_file_t *file, const texts_t *t, const char *name, size_t n,
                           mr_shard_draft_t *draft, const char **why, mr_diag_t *diag) {
  size_t each = (size_t)t->chars * (t->order == '|' ? 1 : 4), size = (size_t)t->n * each;
  uint8_t *data = malloc(size);
  char column[MR_SHARD_NAME_MAX + 4 * CHARS_MAX + 20], text[4 * CHARS_MAX + 1];
  uint32_t number;
  if (!data) return mr_no_memory(diag, "names of classes in %s", file->path);
  mr_err_t e = mr_shard_file_read(file, t->at, data, size, diag);
  for (long i = 0; i < t->n && e == MR_OK && !*why; i++)
    if (!copy_text(t, data + (size_t)i * each, text))
      *why = "its texts are no names of classes: 1 to 127 bytes without control characters";
    else if (n + LABEL + strlen(text) >= MR_SHARD_NAME_MAX) /* before any of them is noted */
      *why = "its name is too long for names of classes";
  mr_shard_draft_widen(draft);
  for (long i = 0; i < t->n && e == MR_OK && !*why; i++) {
    copy_text(t, data + (size_t)i * each, text);
    int k = snprintf(column, sizeof column, "%.*s\t%ld %s", (int)n, name, i, text);
    mr_err_t added = mr_shard_draft_column(draft, column, (size_t)k, MR_TYPED_WORD, &number, diag);
    if (added == MR_ERR_NOMEM) e = added;
    if (added == MR_ERR_DATA) *why = "its name is too long for names of classes";
  }
  free(data);
  return e;
}

mr_err_t mr_npz_note_classes(mr_shard_file_t *file, int64_t at, int64_t bytes, const char *name,
                             size_t n, mr_shard_draft_t *draft, const char **why, mr_diag_t *diag) {
  char text[HEADER_MAX + 1] = {0};
  size_t head = bytes < HEADER_MAX ? (size_t)bytes : HEADER_MAX;
  texts_t t = {0};
  *why = "it is no list of 1 to 50,000 texts, as names of classes are";
  mr_err_t e = mr_shard_file_read(file, at, text, head, diag);
  if (e != MR_OK || head < 12 || memcmp(text, "\x93NUMPY\1\0", 8)) return e;
  size_t first = 10 + (size_t)((uint8_t)text[8] | (uint8_t)text[9] << 8);
  if (first > head || memchr(text + 10, 0, first - 10)) return MR_OK;
  if (!parse_texts(text + 10, first - 10, &t)) return MR_OK;
  t.at = at + (int64_t)first;
  if (bytes - (int64_t)first != t.n * t.chars * (t.order == '|' ? 1 : 4)) return MR_OK;
  *why = NULL;
  return note_texts(file, &t, name, n, draft, why, diag);
}

/* ---- settling ---- */

/* The length of NAME in a column "NAME.classes\t..."; 0 for another. */
static size_t length_of_owner(const mr_shards_column_t *c) {
  size_t n = strcspn(c->name, "\t");
  return c->kind == MR_TYPED_WORD && mr_npz_names_classes(c->name, n) ? n - N_ENDING : 0;
}

/* Whether array name[0,n) holds a whole number for each record. */
static bool has_numbers(const mr_shards_t *s, const char *name, size_t n) {
  static const char *const whole[] = {"u8[]", "i32[]", "u32[]", "i64[]", "u64[]"};
  for (int c = 0; c < s->n_columns; c++) {
    const mr_shards_column_t *k = &s->column[c];
    if (k->kind == MR_TYPED_WORD || strncmp(k->name, name, n) || k->name[n] != '\t') continue;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
      if (!strcmp(k->name + n + 1, whole[i])) return true;
  }
  return false;
}

/* Puts the names of an array, which the indexes hold, into own->name[LISTED_MAX], which is NULL;
   returns how many there are: 0 for an index that is not ours, and if a number has two, which is
   noted. */
static int collect_names(const mr_shards_t *shards, mr_shard_named_t *own) {
  size_t of = strlen(own->of);
  int n = 0;
  for (int c = 0; c < shards->n_columns; c++) {
    const mr_shards_column_t *k = &shards->column[c];
    if (length_of_owner(k) != of || memcmp(k->name, own->of, of)) continue;
    char *text;
    long i = strtol(k->name + of + N_ENDING + 1, &text, 10);
    if (i < 0 || i >= LISTED_MAX || *text++ != ' ') continue;
    if (own->name[i] && !mr_same_name(own->name[i], text)) {
      own->at = (int)i, own->differs[0] = own->name[i], own->differs[1] = text;
      return 0;
    }
    own->name[i] = text;
    if (i >= n) n = (int)i + 1;
  }
  for (int i = 0; i < n; i++)
    if (!own->name[i]) return 0;
  return n;
}

/* Adds the names of array of[0,n) to t->own. */
static mr_err_t take_names_of(mr_stage_t *s, mr_shard_source_t *t, const char *of, size_t n) {
  mr_shard_named_t *more = realloc(t->own, ((size_t)t->n_own + 1) * sizeof *more);
  if (!more) return mr_stage_no_memory(s, "the names of classes");
  mr_shard_named_t *own = &(t->own = more)[t->n_own];
  *own = (mr_shard_named_t){.name = calloc(LISTED_MAX, sizeof *own->name)};
  snprintf(own->of, sizeof own->of, "%.*s", (int)n, of);
  if (!own->name) return mr_stage_no_memory(s, "the names of classes");
  t->n_own++;
  int found = collect_names(t->shards, own);
  const char **fit = realloc(own->name, ((size_t)found + 1) * sizeof *fit);
  if (fit) own->name = fit;
  own->list = (mr_classes_t){found, own->name};
  return MR_OK;
}

/* The lists of all arrays of whole numbers.  The names of one follow each other, so that each list
   is asked for once, also if no array has it. */
mr_err_t mr_npz_take_classes(mr_stage_t *s, mr_shard_source_t *t) {
  const char *before = "";
  size_t n_before = 0;
  for (int c = 0; c < t->shards->n_columns; c++) {
    const mr_shards_column_t *k = &t->shards->column[c];
    size_t n = length_of_owner(k);
    bool known = !n || (n == n_before && !memcmp(before, k->name, n));
    for (int i = 0; i < t->n_own && !known; i++)
      known = strlen(t->own[i].of) == n && !memcmp(t->own[i].of, k->name, n);
    before = k->name, n_before = n;
    if (known || !has_numbers(t->shards, k->name, n)) continue;
    MR_TRY(take_names_of(s, t, k->name, n));
  }
  return MR_OK;
}

/* What the files call the classes of field f; NULL: nothing. */
static const mr_shard_named_t *own_of(const mr_shard_source_t *t, int f) {
  const char *member = t->field[f].member;
  size_t n = strcspn(member, "\t");
  for (int i = 0; i < t->n_own; i++)
    if (strlen(t->own[i].of) == n && !memcmp(t->own[i].of, member, n)) return &t->own[i];
  return NULL;
}

/* The label that names= and classes= are about; -1: no label has a list. */
static int choose_label(const mr_shard_source_t *t, const mr_spec_t *out) {
  static const char *const usual[] = {"label", "class", "cls"};
  int first = -1;
  for (int f = t->n_fields - 1; f >= 0; f--) {
    if (out->field[f].label && !strcmp(out->field[f].name, "label")) return f;
    if (out->field[f].label && own_of(t, f)) first = f;
  }
  for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
    for (int f = 0; f < t->n_fields; f++)
      if (out->field[f].label && own_of(t, f) && !strcmp(own_of(t, f)->of, usual[k])) return f;
  return first;
}

/* A label whose files call a class by two names; names= says what the classes of one label are. */
static mr_err_t judge_differing(mr_stage_t *s, mr_shard_source_t *t, const mr_shard_named_t *own,
                                bool chosen, int f, mr_spec_t *out) {
  if (!t->names_file)
    return mr_stage_fail(
        s, MR_ERR_DATA,
        "%s%s calls class %d %.60s in one file and %.60s in another: want one list, or names=FILE",
        own->of, ENDING, own->at, own->differs[0], own->differs[1]);
  mr_notice("%s: %s%s calls class %d %.60s in one file and %.60s in another: %s",
            t->shards->shard->path, own->of, ENDING, own->at, own->differs[0], own->differs[1],
            chosen ? "they are called as names= says" : "its list is dropped");
  if (!chosen) t->field[f].unnamed = true, out->field[f].n_classes = 0;
  return MR_OK;
}

/* Calls the classes of field f as its own list does. */
static mr_err_t use_list(mr_stage_t *s, mr_shard_source_t *t, const mr_shard_named_t *own,
                         bool chosen, const char *where, mr_field_t *field) {
  int n = own->list.n;
  mr_diag_t why = {0};
  if (chosen && t->classes && t->classes != n)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting classes = %" PRId64 ": %s%s has %d names, want as many",
                         t->classes, own->of, ENDING, n);
  field->n_classes = n, field->classes = &own->list;
  mr__class_names_say_forms(&own->list, where);
  if (!chosen) return MR_OK;
  mr_err_t e = mr__class_names_usual(&t->names, own->name, n, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  t->dataset = (mr_dataset_t){t->kind->name, n, t->names.name};
  return MR_OK;
}

mr_err_t mr_npz_name_labels(mr_stage_t *s, mr_shard_source_t *t, mr_spec_t *out) {
  char where[MR_PATH_MAX + MR_SHARD_NAME_MAX + 20];
  int chosen = choose_label(t, out);
  for (int f = 0; f < t->n_fields; f++) {
    const mr_shard_named_t *own = out->field[f].label ? own_of(t, f) : NULL;
    if (own && own->differs[0]) MR_TRY(judge_differing(s, t, own, f == chosen, f, out));
    if (!own || !own->list.n) continue;
    mr_snprintf(where, sizeof where, "%s: %s%s", t->shards->shard->path, own->of, ENDING);
    if (f == chosen && t->named.n)
      MR_TRY(mr__shard_agree(s, &own->list, where));
    else
      MR_TRY(use_list(s, t, own, f == chosen, where, &out->field[f]));
  }
  return MR_OK;
}
