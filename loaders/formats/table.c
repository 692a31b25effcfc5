/* table: rows of CSV files as records.  Columns are chosen by the names in the first row, and cells
   become numbers, classes or bytes when a record is due.  Where rows begin and what kind of value a
   column holds is known from the index of each file (table_scan.c), so rows are read in any order.
   */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/formats/table_scan.h"
#include "loaders/shards/shard_source.h"

/* How a cell becomes a value. */
enum { AS_BYTES, AS_LABEL, AS_CLASS, AS_I32, AS_I64, AS_F32, AS_F64, AS_COUNT };
static const char *const as_word[AS_COUNT] = {"bytes", "label", "class", "i32",
                                              "i64",   "f32",   "f64"};

enum { NUMBER_MAX = MR_TABLE_CELL_MAX - 1 };
_Static_assert(MR_TABLE_WORDS_MAX == 10000, "sentences below name it");

typedef struct table {
  mr_shard_source_t source;
  char separator;
  int n_columns;                          /* cells of a row */
  const char *name[MR_TABLE_COLUMNS_MAX]; /* [n_columns], in the indexes */
  int cell[MR_FIELDS_MAX];                /* of each field */
  int order[MR_FIELDS_MAX];               /* the fields in the order of their cells */
  int words_of;                           /* the field whose words are classes; -1: none */
  const char **word; /* [n_words] its words, sorted, in the indexes; from plan to forget, heap */
  int n_words, word_room;
  int32_t *number; /* [n_words] with names=: which class each is; likewise */
} table_t;

/* ---- columns over all files ---- */

/* The next word of a column in a file's index, from its column *i on, which moves behind it;
   NULL without one. */
static const char *next_word(const mr_shard_index_t *x, const char *name, uint32_t *i) {
  size_t n = strlen(name);
  while (*i < x->n_columns) {
    const mr_shard_column_t *c = &x->column[(*i)++];
    const char *text = x->text + c->name;
    if (c->kind == MR_TABLE_WORD && !strncmp(text, name, n) && text[n] == '\t') return text + n + 1;
  }
  return NULL;
}

/* Whether each file with rows has noted the words of a column: the cells that are text may all lie
   in other files. */
static bool words_are_known(const mr_shards_t *s, const char *name) {
  for (int k = 0; k < s->n; k++) {
    const mr_shard_index_t *x = &s->shard[k].index;
    uint32_t i = 0;
    if (x->n_records && !next_word(x, name, &i)) return false;
  }
  return true;
}

/* What all cells of a column are: the widest kind that a file has noted.  -1 without such a
   column.  most: bytes of the longest cell. */
static int table_kind(const mr_shards_t *s, const char *name, int64_t *most) {
  int kind = -1;
  *most = 0;
  for (int c = 0; c < s->n_columns; c++) {
    const mr_shards_column_t *k = &s->column[c];
    if (k->kind < MR_TABLE_INT || k->kind > MR_TABLE_MANY || strcmp(k->name, name)) continue;
    if ((int)k->kind > kind) kind = (int)k->kind;
    if (k->most > *most) *most = k->most;
  }
  return kind == MR_TABLE_TEXT && !words_are_known(s, name) ? MR_TABLE_MANY : kind;
}

/* The cell of a row in which a column lies; -1 without such a column. */
static int table_find(const table_t *t, const char *name) {
  for (int c = 0; c < t->n_columns; c++)
    if (!strcmp(t->name[c], name)) return c;
  return -1;
}

/* The columns that a file's index notes first: the row, the separator and the names, in the order
   of its first row. */
static uint32_t count_heads(const mr_shard_t *shard) {
  uint32_t n = 0;
  while (n < shard->index.n_columns && shard->index.column[n].kind <= MR_TABLE_NAME) n++;
  return n;
}

/* Rows of all files are cut in the same way, so that their first rows must agree.  A file without
   rows may have another first row; *first is one with rows. */
static mr_err_t check_first_rows(mr_stage_t *s, const mr_shards_t *shards,
                                 const mr_shard_t **first) {
  *first = NULL;
  for (int k = 0; k < shards->n; k++) {
    const mr_shard_t *shard = &shards->shard[k];
    if (!shard->index.n_records) continue;
    if (!*first) *first = shard;
    uint32_t heads = count_heads(shard);
    bool same = heads == count_heads(*first);
    for (uint32_t i = 0; same && i < heads; i++) same = shard->column[i] == (*first)->column[i];
    if (!same)
      return mr_stage_fail(
          s, MR_ERR_DATA,
          "%s: its first row names other columns than that of %s, want the same in "
          "all files",
          shard->path, (*first)->path);
  }
  return MR_OK;
}

/* Takes the separator and the names from the first row of a file.  False if its index is not one of
   a table: a foreign one may hold anything. */
static bool take_first_row(table_t *t, const mr_shard_t *first) {
  mr_shard_source_t *base = &t->source;
  uint32_t heads = count_heads(first);
  bool row = false;
  t->n_columns = 0;
  for (uint32_t i = 0; i < heads; i++) {
    int c = (int)first->column[i];
    const mr_shards_column_t *k = &base->shards->column[c];
    if (k->kind == MR_TABLE_ROW && !row) row = true, mr__shard_source_want(base, c);
    if (k->kind == MR_TABLE_SEPARATOR) t->separator = *k->name;
    if (k->kind != MR_TABLE_NAME) continue;
    if (t->n_columns == MR_TABLE_COLUMNS_MAX) return false;
    t->name[t->n_columns++] = k->name;
  }
  return row && t->n_columns;
}

/* Adds a word to the sorted ones, unless it is there.  MR_END if it is one too many. */
static mr_err_t collect_word(table_t *t, const char *word, mr_diag_t *diag) {
  int low = 0, high = t->n_words;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(t->word[middle], word);
    if (!order) return MR_OK;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (t->n_words == MR_TABLE_WORDS_MAX) return MR_END;
  if (t->n_words == t->word_room) {
    int room = t->word_room ? 2 * t->word_room : 64;
    const char **more = realloc(t->word, (size_t)room * sizeof *more);
    if (!more) return mr_no_memory(diag, "the words of a column");
    t->word = more, t->word_room = room;
  }
  memmove(t->word + low + 1, t->word + low, (size_t)(t->n_words - low) * sizeof *t->word);
  t->word[low] = word, t->n_words++;
  return MR_OK;
}

/* Collects the words of a column, from all files. */
static mr_err_t collect_words(mr_stage_t *s, table_t *t, const char *name) {
  const mr_shards_t *shards = t->source.shards;
  mr_diag_t why = {0};
  t->n_words = 0;
  for (int k = 0; k < shards->n; k++) {
    const char *word;
    for (uint32_t i = 0; (word = next_word(&shards->shard[k].index, name, &i));) {
      mr_err_t e = collect_word(t, word, &why);
      if (e < 0) return mr_stage_relay(s, e, &why);
      if (e == MR_END)
        return mr_stage_fail(
            s, MR_ERR_DATA,
            "setting fields: column %.100s has more than 10,000 different words in all files, want "
            "it as bytes, or a column of the classes' numbers, whose names are in names=FILE",
            name);
    }
  }
  return MR_OK;
}

/* ---- fields ---- */

static int table_find_as(const char *word) {
  for (int as = 0; as < AS_COUNT; as++)
    if (!strcmp(word, as_word[as])) return as;
  return -1;
}

static const char *table_usual_name(const char *column) {
  return !strcmp(column, "class") || !strcmp(column, "cls") ? "label" : column;
}

/* How many numbers of a column a type changes. */
static int64_t count_changed(const mr_shards_t *s, const char *name, uint32_t kind) {
  for (int c = 0; c < s->n_columns; c++)
    if (s->column[c].kind == kind && !strcmp(s->column[c].name, name)) return s->column[c].have;
  return 0;
}

static int table_usual_as(const mr_shards_t *s, int kind, const char *column, const char *name) {
  if (!strcmp(name, "label") && kind == MR_TABLE_INT) return AS_LABEL;
  if (!strcmp(name, "label") && kind == MR_TABLE_TEXT) return AS_CLASS;
  if (kind == MR_TABLE_FLOAT) return count_changed(s, column, MR_TABLE_NOT_F32) ? AS_F64 : AS_F32;
  return kind == MR_TABLE_INT ? AS_I64 : AS_BYTES;
}

/* Whether cells of a kind can become such values. */
static bool table_fits(int kind, int as) {
  switch (as) {
    case AS_BYTES: return true;
    case AS_CLASS: return kind == MR_TABLE_TEXT;
    case AS_F32:
    case AS_F64: return kind <= MR_TABLE_FLOAT;
    default: return kind == MR_TABLE_INT;
  }
}

/* The index of a word among the sorted ones; -1 if it is not there. */
static int64_t class_of_word(const table_t *t, const char *cell, size_t n) {
  int low = 0, high = t->n_words;
  while (low < high) {
    int middle = (low + high) / 2;
    size_t length = strlen(t->word[middle]);
    int order = memcmp(t->word[middle], cell, length < n ? length : n);
    if (!order) order = (length > n) - (length < n);
    if (!order) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

/* Numbers the words by the names of names=.  A file that has none of the words, but as many names,
   calls them otherwise, in their sorted order. */
static mr_err_t number_words(mr_stage_t *s, table_t *t, const char *column) {
  const mr_classes_t *names = &t->source.named, words = {t->n_words, t->word};
  char one[300], other[300];
  int found = 0;
  int32_t *number = realloc(t->number, ((size_t)t->n_words + 1) * sizeof *number);
  mr_diag_t why = {0};
  if (!number) return mr_stage_relay(s, mr_no_memory(&why, "numbers of words"), &why);
  t->number = number;
  mr_err_t e = mr_classes_places(&words, names, number, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  for (int w = 0; w < t->n_words; w++) found += number[w] >= 0;
  if (found == t->n_words) return MR_OK;
  for (int w = 0; w < t->n_words; w++) t->number[w] = w;
  if (!found && t->n_words == names->n) return MR_OK;
  return mr_stage_fail(s, MR_ERR_DATA,
                       "setting names = %.200s: has %d names, %s, and column %.100s the %d words "
                       "%s: want a name for each word, or as many others in their sorted order",
                       t->source.names_file, names->n, mr_classes_text(names, one, sizeof one),
                       column, t->n_words, mr_classes_text(&words, other, sizeof other));
}

/* Says which words may be classes by mistake: those that stand for a missing one, two that differ
   in the blanks around them alone, and one that makes words of numbers. */
static void say_doubtful_words(const table_t *t, const char *column) {
  const char *path = t->source.shards->shard->path, *same = NULL, *no_number = NULL;
  char missing[100] = "";
  size_t at = 0;
  bool numbers = false;
  for (int w = 0; w < t->n_words; w++) {
    const char *text = t->word[w];
    size_t all = strlen(text), n = all;
    mr_table_trim(&text, &n);
    bool lacks = mr_table_missing(text, n), number = !lacks && mr_table_number(text, n);
    if (lacks && at < sizeof missing)
      at += (size_t)mr_snprintf(missing + at, sizeof missing - at, "%s\"%s\"", at ? ", " : "",
                                t->word[w]);
    if (n < all && class_of_word(t, text, n) >= 0) same = t->word[w];
    numbers |= number;
    if (!lacks && !number) no_number = t->word[w];
  }
  if (at)
    mr_notice(
        "%s: column %.100s: the classes %s may stand for missing ones: remove their rows then "
        "(pandas: dropna)",
        path, column, missing);
  if (numbers && no_number)
    mr_notice(
        "%s: column %.100s: \"%s\" is no number, so that numbers of the column are "
        "classes by their digits (10 lies before 2)",
        path, column, no_number);
  if (same)
    mr_notice("%s: column %.100s: the class \"%s\" differs from another one in blanks alone", path,
              column, same);
  char where[200];
  mr_snprintf(where, sizeof where, "%.90s: column %.90s", path, column);
  mr__class_names_say_forms(&(mr_classes_t){t->n_words, t->word}, where);
}

static mr_err_t settle_words(mr_stage_t *s, table_t *t, const char *column, int field) {
  mr_shard_source_t *base = &t->source;
  if (t->words_of >= 0)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fields: %.100s is a second field as class, want at most one",
                         column);
  MR_TRY(collect_words(s, t, column));
  t->words_of = field;
  if (base->names_file) return number_words(s, t, column);
  say_doubtful_words(t, column);
  if (!base->classes) base->classes = t->n_words;
  mr_diag_t why = {0};
  mr_err_t e = mr__class_names_first(&base->names, t->word, t->n_words, &why); /* as classes= */
  if (e < 0) return mr_stage_relay(s, e, &why);
  base->dataset = (mr_dataset_t){"table", (int)base->classes, base->names.name};
  base->named = (mr_classes_t){(int)base->classes, base->names.name};
  return MR_OK;
}

/* Says why whole numbers become floats, and why a label is none. */
static void say_floats(const mr_shards_t *s, const char *column, const char *name, int as) {
  int64_t gaps = count_changed(s, column, MR_TABLE_GAPS);
  const char *label = strcmp(name, "label") ? "" : " and are no labels";
  if (gaps)
    mr_notice("%s: column %.100s: %" PRId64
              " cell%s no number, so that whole numbers become %s%s (nan where one is missing): "
              "fields=%.60s:%s:bytes keeps the text",
              s->shard->path, column, gaps, gaps == 1 ? " holds" : "s hold", as_word[as], label,
              column, name);
  else if (*label)
    mr_notice(
        "%s: column %.100s: not all of its numbers are written as whole ones of 64 bits, so that "
        "they become %s and are no labels",
        s->shard->path, column, as_word[as]);
}

/* Says that numbers lose the zeros in front of them, as codes have them. */
static void say_zeros(const mr_shards_t *s, const char *column, const char *name, int as) {
  int64_t zeros = count_changed(s, column, MR_TABLE_ZEROS);
  if (zeros)
    mr_notice("%s: column %.100s: %" PRId64
              " whole number%s written with zeros in front, which %s "
              "drops (007 becomes 7): fields=%.60s:%s:bytes keeps the text",
              s->shard->path, column, zeros, zeros == 1 ? " is" : "s are",
              as == AS_LABEL ? "a label" : as_word[as], column, name);
}

static mr_err_t table_settle_field(mr_stage_t *s, const char *column, const char *name,
                                   const char *word, mr_spec_t *out) {
  static const char *const holds[] = {"whole numbers", "numbers", "text",
                                      "text, of more different words than can be classes"};
  static const mr_dtype_t dtype[AS_COUNT] = {
      [AS_I32] = MR_I32, [AS_I64] = MR_I64, [AS_F32] = MR_F32, [AS_F64] = MR_F64};
  table_t *t = s->state;
  mr_shard_source_t *base = &t->source;
  int64_t most;
  int kind = table_kind(base->shards, column, &most), at = base->n_fields;
  if (kind < 0)
    return mr_stage_fail(
        s, MR_ERR_DATA,
        "column %.100s: the index files do not say what it holds: remove them (.mrindex)", column);
  int as = word ? table_find_as(word) : table_usual_as(base->shards, kind, column, name);
  mr_field_t f = {0};
  if (as < 0 || !table_fits(kind, as))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fields: %.100s as %.40s: the column holds %s, want %s", column,
                         word, holds[kind - MR_TABLE_INT],
                         kind == MR_TABLE_INT     ? "bytes, label, i32, i64, f32 or f64"
                         : kind == MR_TABLE_FLOAT ? "bytes, f32 or f64"
                         : kind == MR_TABLE_TEXT  ? "bytes or class"
                                                  : "bytes, or a column of the classes' numbers, "
                                                    "whose names are in names=FILE: text makes "
                                                    "classes of at most 10,000 different words, "
                                                    "fewer in a file of many columns, at most "
                                                    "1,024 in one where nearly all cells differ, "
                                                    "and none in one that begins with 256 "
                                                    "different numbers");
  int64_t changed = as == AS_F32   ? count_changed(base->shards, column, MR_TABLE_NOT_F32)
                    : as == AS_F64 ? count_changed(base->shards, column, MR_TABLE_NOT_F64)
                                   : 0;
  if (!word && kind == MR_TABLE_FLOAT) say_floats(base->shards, column, name, as);
  if (changed)
    mr_notice(
        "%s: column %.100s: %" PRId64
        " number%s not what %s can hold, and change%s: fields=%.60s:%s:%s keeps %s",
        base->shards->shard->path, column, changed, changed == 1 ? " is" : "s are", as_word[as],
        changed == 1 ? "s" : "", column, name,
        as == AS_F32 && !count_changed(base->shards, column, MR_TABLE_NOT_F64) ? "f64" : "bytes",
        changed == 1 ? "it" : "them");
  if (!word && kind <= MR_TABLE_FLOAT) say_zeros(base->shards, column, name, as);
  if (as == AS_CLASS) MR_TRY(settle_words(s, t, column, at));
  if (as == AS_BYTES)
    f = mr__shard_bytes_field(name, most);
  else if (as == AS_LABEL || as == AS_CLASS)
    f = mr_field_of_label((int)base->classes);
  else
    f.dtype = dtype[as];
  snprintf(f.name, sizeof f.name, "%s", name);
  if (as == AS_CLASS) f.classes = &base->named;
  if (as != AS_BYTES) s->writes |= (uint16_t)(1u << at);
  base->field[at] = (mr_shard_field_t){.want = 0, .as = as, .member = column};
  t->cell[at] = table_find(t, column);
  out->field[at] = f;
  base->n_fields++;
  return MR_OK;
}

static mr_err_t table_no_column(mr_stage_t *s, const table_t *t, const mr_shard_t *first,
                                const char *name) {
  char list[400] = "";
  size_t at = 0;
  for (int c = 0; c < t->n_columns && at + 50 < sizeof list; c++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.40s", at ? ", " : "", t->name[c]);
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting fields: there is no column %.100s; the first row of %s names %s",
                       name, first->path, list);
}

static mr_err_t table_settle_usual(mr_stage_t *s, table_t *t, const mr_shard_t *first,
                                   mr_spec_t *out) {
  mr_shard_left_t left = {0};
  for (int c = 0; c < t->n_columns; c++) {
    const char *name = table_usual_name(t->name[c]);
    int64_t most;
    if (t->n_columns <= MR_SHARD_COLUMNS_MAX &&
        count_changed(t->source.shards, t->name[c], MR_TABLE_UNNAMED) &&
        table_kind(t->source.shards, t->name[c], &most) >= 0 && !most)
      mr__shard_left_note(&left, t->name[c], "it has neither a name nor a value");
    else if (!mr__shard_left_add(&left, &t->source, t->name[c], name))
      MR_TRY(table_settle_field(s, t->name[c], name, NULL, out));
  }
  if (t->source.n_fields) return mr__shard_left_say(&left, &t->source, "column"), MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "no column of %s has a name that can be a field's: want "
                       "fields=COLUMN:FIELD,..",
                       first->path);
}

/* The fields that fields= names or, without it, the usual ones; and how rows are cut. */
static mr_err_t table_settle(mr_shard_source_t *base, mr_stage_t *s,
                             const mr_shard_field_word_t *word, int n, mr_spec_t *out) {
  table_t *t = s->state;
  const mr_shard_t *first;
  MR_TRY(check_first_rows(s, base->shards, &first));
  t->words_of = -1;
  if (!take_first_row(t, first))
    return mr_stage_fail(s, MR_ERR_DATA,
                         "%s: its index is damaged: remove it, or set index=FOLDER for a new one",
                         first->path);
  for (int i = 0; i < n; i++) {
    const mr_shard_field_word_t *w = &word[i];
    const char *name = w->field ? w->field : table_usual_name(w->member);
    if (table_find(t, w->member) < 0) return table_no_column(s, t, first, w->member);
    if (!mr_field_name_ok(name))
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting fields: \"%.100s\" is not a valid name of a field, want %.100s:FIELD", name,
          w->member);
    MR_TRY(table_settle_field(s, w->member, name, w->as, out));
  }
  if (!n) MR_TRY(table_settle_usual(s, t, first, out));
  for (int f = 0; f < base->n_fields; f++) { /* sorted by insertion */
    int k = f;
    for (; k && t->cell[t->order[k - 1]] > t->cell[f]; k--) t->order[k] = t->order[k - 1];
    t->order[k] = f;
  }
  return MR_OK;
}

/* ---- records ---- */

static mr_err_t parse_cell(const char *cell, size_t n, bool whole, int64_t *i, double *d,
                           mr_diag_t *diag) {
  char text[NUMBER_MAX + 1], *end = text;
  mr_table_trim(&cell, &n);
  bool missing = !whole && mr_table_missing(cell, n);
  size_t k = n < NUMBER_MAX ? n : NUMBER_MAX;
  memcpy(text, cell, k), text[k] = 0;
  errno = 0;
  if (whole)
    *i = strtoll(text, &end, 10);
  else
    *d = missing ? __builtin_nan("") : mr_strtod(text, &end);
  if (missing) return MR_OK;
  if (n <= NUMBER_MAX && n && end == text + n && !(whole && errno)) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "holds \"%.40s\", want a%s number", text,
                 whole ? " whole" : "");
}

static mr_err_t unpack_cell(const table_t *t, int field, char *cell, size_t n, mr_value_t *v,
                            mr_diag_t *diag) {
  const mr_shard_source_t *base = &t->source;
  int as = base->field[field].as;
  int64_t whole = 0;
  double number = 0;
  if (as == AS_BYTES) {
    if ((int64_t)n > base->spec[field].dim[0]) /* the file was another when its index was made */
      return mr_fail(diag, MR_ERR_DATA, "has %zu bytes, want at most %" PRId64, n,
                     base->spec[field].dim[0]);
    *v = (mr_value_t){cell, (int64_t)n};
    return MR_OK;
  }
  if (as == AS_CLASS) {
    whole = class_of_word(t, cell, n);
    if (whole >= 0 && base->names_file) whole = t->number[whole];
    if (whole < 0)
      return mr_fail(diag, MR_ERR_DATA,
                     "holds \"%.*s\", which is not among the words that were indexed as classes",
                     (int)(n < 40 ? n : 40), cell);
  } else {
    MR_TRY(parse_cell(cell, n, as != AS_F32 && as != AS_F64, &whole, &number, diag));
  }
  if (as == AS_LABEL || as == AS_CLASS) MR_TRY(mr__shard_check_label(base->classes, whole, diag));
  if (as == AS_I32 && (whole < INT32_MIN || whole > INT32_MAX))
    return mr_fail(diag, MR_ERR_DATA, "holds %" PRId64 ", which does not fit i32, want it as i64",
                   whole);
  switch (as) {
    case AS_I64: *(int64_t *)v->data = whole; break;
    case AS_F32: *(float *)v->data = (float)number; break;
    case AS_F64: *(double *)v->data = number; break;
    default: *(int32_t *)v->data = (int32_t)whole;
  }
  return MR_OK;
}

/* Cuts the row in place: its bytes are the worker's own. */
static mr_err_t table_unpack(const mr_shard_source_t *base, const mr_shard_bytes_t *part,
                             mr_rec_t *rec, mr_diag_t *diag) {
  const table_t *t = (const table_t *)base;
  char *at = (char *)part->data, *end = at + part->size, *cell[MR_FIELDS_MAX] = {0};
  size_t n[MR_FIELDS_MAX] = {0}, bytes = 0;
  int cells = 0, next = 0;
  mr_diag_t why = {0};
  for (; at && cells <= t->n_columns; cells++) {
    char *one;
    if (!mr_table_cell(&at, end, t->separator, &one, &bytes))
      return mr_fail(diag, MR_ERR_DATA, "cell %d has a quote that is not closed", cells + 1);
    for (; next < base->n_fields && t->cell[t->order[next]] == cells; next++)
      cell[t->order[next]] = one, n[t->order[next]] = bytes;
  }
  bool comma = cells == t->n_columns + 1 && !at && !bytes; /* at the end of the row */
  if (cells != t->n_columns && !comma)
    return mr_fail(diag, MR_ERR_DATA, "has %s than the %d cells of the first row",
                   cells < t->n_columns ? "fewer" : "more", t->n_columns);
  for (int f = 0; f < base->n_fields; f++) {
    mr_err_t e = unpack_cell(t, f, cell[f], n[f], &rec->field[f], &why);
    if (e < 0) return mr_fail(diag, e, "column %.200s %s", base->field[f].member, why.text);
  }
  return MR_OK;
}

static const mr_shard_kind_t table_kind_def = {.name = "table",
                                               .index = "table/9",
                                               .scan = mr_table_scan,
                                               .apart = MR_TABLE_WORD,
                                               .own = "text",
                                               .settle = table_settle,
                                               .unpack = table_unpack};

static void table_forget(mr_stage_t *s) {
  table_t *t = s->state;
  free(t->word), free(t->number);
  t->word = NULL, t->number = NULL, t->n_words = t->word_room = 0;
  mr__shard_source_forget(s);
}

static mr_err_t table_plan(mr_stage_t *s) { return mr__shard_source_plan(s, &table_kind_def); }

static const mr_opt_t table_opts[] = {
    MR_SHARD_OPTS(
        "Files, as in part-{0..7}.csv; several names are joined by \"::\".",
        "Columns, and the fields they become: price:x:f32,kind:label:class; AS is bytes, "
        "i32, i64, f32, f64, label (a whole number) or class (a word, as its index in the "
        "sorted words of the column).  By default the first 16."),
    {0}};

static const mr_hint_t table_words[] = {{"csvdataset readcsv pandas", "table FILE.csv", NULL}, {0}};

const mr_stage_def_t mr_stage_table = {
    .name = "table",
    .hint = table_words,
    .help = "Reads the rows of CSV files whose first row names the columns, in any order.",
    .opts = table_opts,
    .state_sz = sizeof(table_t),
    .plan = table_plan,
    .forget = table_forget,
    .open = mr__shard_source_open,
    .close = mr__shard_source_close,
    .report = mr__shard_source_report,
    .source = &mr__shard_source,
    .out = {{"out", MR_FLOW_RECORDS, false}},
};
