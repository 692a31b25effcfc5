/* One pass over the file, byte by byte, with a small state: within quotes or not.  The first
   bytes of each cell are kept; they show whether its column holds whole numbers, numbers or words.
 */
#include "loaders/formats/table_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "loaders/shards/shard_reads.h"

enum { CHUNK = 1 << 18, CELL_MAX = MR_TABLE_CELL_MAX, HEADER_MAX = 1 << 16 };

typedef struct table_column {
  char name[MR_SHARD_NAME_MAX];
  int kind; /* MR_TABLE_INT, FLOAT or TEXT so far */
  int64_t least, most;
  char *word[MR_TABLE_WORDS_MAX]; /* [n_words] sorted, heap */
  int n_words;
  bool full; /* it has more words, or others, than are counted */
} table_column_t;

typedef struct table_scan {
  mr_shard_file_t *file;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  char separator;
  table_column_t *column; /* [n_columns] */
  int n_columns;
  uint32_t row_column;
  /* the row being read */
  int64_t row_at, rows;
  bool quoted, was_quoted,
      doubled; /* within quotes; the cell has been; the last byte was a quote */
  bool any;    /* the row has a byte */
  int cell;
  char text[CELL_MAX];
  int64_t n_text; /* bytes of the cell; text has the first */
} table_scan_t;

#define TABLE_FAULT(t, ...) (mr_fail((t)->fault, MR_ERR_DATA, __VA_ARGS__), MR_END)

/* ---- cells ---- */

bool mr_table_cell(char **at, char *end, char separator, char **cell, size_t *n) {
  char *p = *at, *to = p;
  *cell = p;
  if (p < end && *p == '"') {
    for (p++;; p++) {
      if (p == end) return false;
      if (*p == '"' && !(p + 1 < end && p[1] == '"')) break;
      if (*p == '"') p++;
      *to++ = *p;
    }
    p++;
  }
  while (p < end && *p != separator) *to++ = *p++;
  *n = (size_t)(to - *cell);
  *at = p < end ? p + 1 : NULL;
  return true;
}

/* Whether the text is a whole number of 64 bits. */
static bool is_whole_text(const char *s, int64_t n) {
  int64_t i = n > 1 && (*s == '-' || *s == '+'), value = 0;
  bool negative = *s == '-';
  if (n - i < 1 || n >= CELL_MAX) return false;
  for (; i < n; i++) {
    int64_t digit = s[i] - '0';
    if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value))
      return false;
  }
  return true;
}

static bool is_number_text(char *s, int64_t n) {
  char *end;
  if (n == 0) return true; /* a missing number */
  if (n >= CELL_MAX) return false;
  s[n] = 0;
  mr_strtod(s, &end);
  return end == s + n;
}

/* Adds a word of a column.  Numbers are words too, until there are too many, since a column may
   turn out to be text. */
static mr_err_t add_word(table_scan_t *t, table_column_t *c) {
  int low = 0, high = c->n_words;
  if (t->n_text >= CELL_MAX || memchr(t->text, 0, (size_t)t->n_text)) {
    c->full = true;
    return MR_OK;
  }
  t->text[t->n_text] = 0;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(c->word[middle], t->text);
    if (!order) return MR_OK;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (c->n_words == MR_TABLE_WORDS_MAX) {
    c->full = true;
    return MR_OK;
  }
  memmove(c->word + low + 1, c->word + low, (size_t)(c->n_words - low) * sizeof *c->word);
  c->n_words++;
  c->word[low] = strdup(t->text);
  return c->word[low] ? MR_OK : mr_no_memory(t->diag, "the words of %s", t->file->path);
}

static mr_err_t end_cell(table_scan_t *t) {
  table_column_t *c = t->cell < t->n_columns ? &t->column[t->cell] : NULL;
  bool first = t->rows == 0;
  t->cell++;
  if (!c) return MR_OK;
  if (first || t->n_text < c->least) c->least = t->n_text;
  if (first || t->n_text > c->most) c->most = t->n_text;
  if (c->kind == MR_TABLE_INT && !is_whole_text(t->text, t->n_text)) c->kind = MR_TABLE_FLOAT;
  if (c->kind == MR_TABLE_FLOAT && !is_number_text(t->text, t->n_text)) c->kind = MR_TABLE_TEXT;
  return c->full ? MR_OK : add_word(t, c);
}

static void begin_cell(table_scan_t *t) {
  t->n_text = 0;
  t->quoted = t->was_quoted = t->doubled = false;
}

/* ---- rows ---- */

/* Ends the row behind byte `at`; cr: the byte before is a return that belongs to the end of line.
 */
static mr_err_t end_row(table_scan_t *t, int64_t at, bool cr) {
  if (cr && t->n_text > 0 && !t->quoted) t->n_text--;
  int64_t size = at - t->row_at - cr;
  if (size > 0) {
    MR_TRY(end_cell(t));
    MR_TRY(mr_shard_draft_record(t->draft, NULL, 0, t->diag));
    MR_TRY(mr_shard_draft_part(t->draft, t->row_column, t->row_at, size, t->diag));
    t->rows++;
  }
  t->row_at = at + 1, t->cell = 0, t->any = false;
  begin_cell(t);
  return MR_OK;
}

static mr_err_t take_byte(table_scan_t *t, char c, int64_t at, bool after_cr) {
  if (t->quoted) {
    if (c == '"') {
      t->quoted = false, t->doubled = true;
      return MR_OK;
    }
  } else if (c == '"' && (t->doubled || (!t->n_text && !t->was_quoted))) {
    bool again = t->doubled;
    t->quoted = t->was_quoted = true, t->doubled = false;
    if (!again) return MR_OK; /* the first quote of the cell */
  } else if (c == '\n') {
    return end_row(t, at, after_cr);
  } else if (c == t->separator) {
    MR_TRY(end_cell(t));
    begin_cell(t);
    return MR_OK;
  } else {
    t->doubled = false;
  }
  if (t->n_text < CELL_MAX - 1) t->text[t->n_text] = c;
  t->n_text++;
  return MR_OK;
}

static mr_err_t scan_rows(table_scan_t *t, int64_t at) {
  char *chunk = malloc(CHUNK);
  bool cr = false;
  if (!chunk) return mr_no_memory(t->diag, "an index of %s", t->file->path);
  mr_err_t e = MR_OK;
  t->row_at = at;
  while (at < t->file->size && e == MR_OK) {
    int64_t left = t->file->size - at;
    size_t n = left < CHUNK ? (size_t)left : CHUNK;
    e = mr_shard_file_read(t->file, at, chunk, n, t->diag);
    if (e == MR_END) e = TABLE_FAULT(t, "%s: has become shorter", t->file->path);
    for (size_t i = 0; i < n && e == MR_OK; i++, at++) {
      e = take_byte(t, chunk[i], at, cr);
      cr = chunk[i] == '\r';
    }
  }
  free(chunk);
  if (e != MR_OK) return e;
  if (t->quoted)
    return TABLE_FAULT(t, "%s: ends within quotes, in the row at byte %" PRId64, t->file->path,
                       t->row_at);
  return t->row_at < at ? end_row(t, at, cr) : MR_OK;
}

/* ---- the first row ---- */

static mr_err_t name_column(table_scan_t *t, const char *cell, size_t n) {
  if (!n || n >= MR_SHARD_NAME_MAX - CELL_MAX || memchr(cell, 0, n) || memchr(cell, '\t', n))
    return TABLE_FAULT(t,
                       "%s: column %d has a name of %zu bytes, want 1 to %d without tabs: the "
                       "first row must name the columns",
                       t->file->path, t->n_columns + 1, n, MR_SHARD_NAME_MAX - CELL_MAX - 1);
  table_column_t *c = &t->column[t->n_columns];
  memcpy(c->name, cell, n), c->name[n] = 0;
  c->kind = MR_TABLE_INT;
  for (int i = 0; i < t->n_columns; i++)
    if (!strcmp(t->column[i].name, c->name))
      return TABLE_FAULT(t, "%s: two columns are called %s", t->file->path, c->name);
  t->n_columns++;
  return MR_OK;
}

static char choose_separator(const char *row, size_t n) {
  static const char choice[] = {',', '\t', ';'};
  int best = 0, most = -1;
  for (int k = 0; k < 3; k++) {
    int count = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
      if (row[i] == '"') quoted = !quoted;
      count += !quoted && row[i] == choice[k];
    }
    if (count > most) best = k, most = count;
  }
  return choice[best];
}

/* Reads the names of the columns; *next is where the second row begins. */
static mr_err_t table_read_header(table_scan_t *t, int64_t *next) {
  char row[HEADER_MAX];
  int64_t most = t->file->size < HEADER_MAX ? t->file->size : HEADER_MAX;
  mr_err_t e = mr_shard_file_read(t->file, 0, row, (size_t)most, t->diag);
  if (e < 0) return e;
  int64_t first = e == MR_OK && most >= 3 && !memcmp(row, "\xEF\xBB\xBF", 3) ? 3 : 0, end = first;
  bool quoted = false;
  for (; end < most && (quoted || row[end] != '\n'); end++) quoted ^= row[end] == '"';
  if (e == MR_END || end == first || (end == HEADER_MAX && most == HEADER_MAX))
    return TABLE_FAULT(t, "%s: has no first row of at most %d bytes that names its columns",
                       t->file->path, HEADER_MAX);
  *next = end < most ? end + 1 : end;
  if (row[end - 1] == '\r') end--;
  t->separator = choose_separator(row + first, (size_t)(end - first));
  for (char *at = row + first, *cell; at;) {
    size_t n;
    if (t->n_columns == MR_TABLE_COLUMNS_MAX)
      return TABLE_FAULT(t, "%s: more than %d columns", t->file->path, MR_TABLE_COLUMNS_MAX);
    if (!mr_table_cell(&at, row + end, t->separator, &cell, &n))
      return TABLE_FAULT(t, "%s: a quote in the first row is not closed", t->file->path);
    e = name_column(t, cell, n);
    if (e != MR_OK) return e;
  }
  return MR_OK;
}

/* ---- the index ---- */

static mr_err_t table_note_heads(table_scan_t *t) {
  uint32_t column;
  char separator[2] = {t->separator, 0};
  MR_TRY(mr_shard_draft_column(t->draft, "", 0, MR_TABLE_ROW, &t->row_column, t->diag));
  MR_TRY(mr_shard_draft_column(t->draft, separator, 1, MR_TABLE_SEPARATOR, &column, t->diag));
  for (int i = 0; i < t->n_columns; i++) {
    const char *name = t->column[i].name;
    MR_TRY(mr_shard_draft_column(t->draft, name, strlen(name), MR_TABLE_NAME, &column, t->diag));
  }
  return MR_OK;
}

static mr_err_t note_words(table_scan_t *t, const table_column_t *c) {
  uint32_t column;
  char text[MR_SHARD_NAME_MAX];
  for (int k = 0; k < c->n_words; k++) {
    int n = snprintf(text, sizeof text, "%s\t%s", c->name, c->word[k]);
    MR_TRY(mr_shard_draft_column(t->draft, text, (size_t)n, MR_TABLE_WORD, &column, t->diag));
  }
  return MR_OK;
}

/* What the columns hold; words as long as there is room for all of a column, first those of text:
   numbers are words if the column is text in another file. */
static mr_err_t table_note_kinds(table_scan_t *t) {
  int room = MR_SHARD_COLUMNS_MAX - 2 - 2 * t->n_columns;
  uint32_t column;
  for (int i = 0; i < t->n_columns; i++) {
    table_column_t *c = &t->column[i];
    if (c->kind == MR_TABLE_TEXT && (c->full || c->n_words > room)) c->kind = MR_TABLE_MANY;
    if (c->kind == MR_TABLE_TEXT) room -= c->n_words;
    MR_TRY(mr_shard_draft_column(t->draft, c->name, strlen(c->name), (uint32_t)c->kind, &column,
                                 t->diag));
    mr_shard_draft_total(t->draft, column, t->rows, c->least, c->most);
  }
  for (int i = 0; i < t->n_columns; i++)
    if (t->column[i].kind == MR_TABLE_TEXT) MR_TRY(note_words(t, &t->column[i]));
  for (int i = 0; i < t->n_columns; i++) {
    table_column_t *c = &t->column[i];
    if (c->kind >= MR_TABLE_TEXT || c->full || c->n_words > room) continue;
    room -= c->n_words;
    MR_TRY(note_words(t, c));
  }
  return MR_OK;
}

mr_err_t mr_table_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                       mr_diag_t *diag) {
  table_scan_t t = {.file = file, .draft = draft, .fault = fault, .diag = diag};
  int64_t next = 0;
  t.column = calloc(MR_TABLE_COLUMNS_MAX, sizeof *t.column);
  if (!t.column) return mr_no_memory(diag, "an index of %s", file->path);
  mr_err_t e = table_read_header(&t, &next);
  if (e == MR_OK) {
    e = table_note_heads(&t);
    if (e == MR_OK) e = scan_rows(&t, next);
    if (e >= 0 && t.rows) {
      mr_err_t also = table_note_kinds(&t);
      if (also < 0) e = also;
    }
  }
  for (int i = 0; i < MR_TABLE_COLUMNS_MAX; i++)
    for (int k = 0; k < t.column[i].n_words; k++) free(t.column[i].word[k]);
  free(t.column);
  return e < 0 ? e : MR_OK;
}
