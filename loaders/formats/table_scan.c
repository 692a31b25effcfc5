/* One pass over the file, byte by byte, with a small state: within quotes or not.  The first
   bytes of each cell are kept; they show whether its column holds whole numbers, numbers or words.
 */
#include "loaders/formats/table_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/file_kind.h"
#include "base/text.h"
#include "loaders/shards/shard_reads.h"

enum { SLOTS = 2 * MR_TABLE_COLUMNS_MAX /* a power of two */ };
enum { WIDE = 400, WIDE_ROOM = 512 /* columns, and the words of those that are text */ };
enum { WORDS_KEPT = 100000 /* of all columns, while the file is read */, FIRST_WORDS = 64 };
enum {
  CHUNK = 1 << 18,
  CELL_MAX = MR_TABLE_CELL_MAX,
  HEADER_MAX = 1 << 20,
  HEADER_PIECE = 1 << 16
};

typedef struct table_column {
  char name[MR_SHARD_NAME_MAX];
  int again;                /* the last number given to a column of the same name */
  int kind;                 /* MR_TABLE_INT, FLOAT or TEXT so far */
  bool unnamed, fractions;  /* a number is not written as a whole one */
  int64_t numbers, missing; /* cells that hold one; words that stand for a missing one */
  int64_t gaps;             /* cells without a number */
  int64_t zeros;            /* whole numbers with zeros in front, as in 007 */
  int64_t not_f32, not_f64;
  int64_t least, most;
  char **word; /* [n_words] sorted, heap; there is room for word_room */
  int n_words, word_room;
  bool full; /* it has more words, or others, than are counted */
} table_column_t;

typedef struct table_scan {
  mr_shard_file_t *file;
  mr_shard_draft_t *draft;
  mr_diag_t *fault, *diag;
  char separator, eol;
  table_column_t *column; /* [n_columns] */
  int n_columns;
  uint16_t *slot; /* [SLOTS] by the digests of names: 1 + the column that has it; 0: none */
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

void mr_table_trim(const char **text, size_t *n) {
  while (*n && **text == ' ') ++*text, --*n;
  while (*n && (*text)[*n - 1] == ' ') --*n;
}

bool mr_table_missing(const char *text, size_t n) {
  static const char *const word[] = {"NA",   "N/A",  "n/a", "#N/A", "<NA>", "NULL",
                                     "null", "None", "NaN", "nan",  "-nan", "-NaN"};
  for (size_t i = 0; n && n <= 4 && i < sizeof word / sizeof *word; i++)
    if (strlen(word[i]) == n && !memcmp(word[i], text, n)) return true;
  return !n;
}

/* Whether the whole text, which ends with a NUL, is a number, and sets *v to it.  0x10 is none
   here. */
static bool reads_as_number(const char *s, size_t n, double *v) {
  char *end;
  *v = mr_strtod(s, &end);
  return n && end == s + n && !strpbrk(s, "xX(");
}

bool mr_table_number(const char *text, size_t n) {
  char s[CELL_MAX];
  double v;
  if (n >= sizeof s) return false;
  memcpy(s, text, n), s[n] = 0;
  return reads_as_number(s, n, &v);
}

/* Whether the text is digits behind a sign. */
static bool is_digits(const char *s, size_t n) {
  size_t i = n > 1 && (*s == '-' || *s == '+');
  for (size_t k = i; k < n; k++)
    if (s[k] < '0' || s[k] > '9') return false;
  return n > i;
}

/* Whether digits begin with zeros, as codes do; of two digits, months, days and hours do. */
static bool has_zeros(const char *s, size_t n) {
  if (n > 1 && (*s == '-' || *s == '+')) s++, n--;
  return n > 2 && *s == '0';
}

/* Whether it is a whole number of 64 bits. */
static bool is_whole_text(const char *s, size_t n) {
  int64_t value = 0;
  bool negative = *s == '-';
  if (!is_digits(s, n)) return false;
  for (size_t i = *s == '-' || *s == '+'; i < n; i++) {
    int64_t digit = s[i] - '0';
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value))
      return false;
  }
  return true;
}

/* Whether a whole number is written with these digits. */
static bool has_digits(double v, const char *s, size_t n) {
  char text[400];
  bool negative = *s == '-';
  if (*s == '-' || *s == '+') s++, n--;
  while (n > 1 && *s == '0') s++, n--;
  mr_snprintf(text, sizeof text, "%.0f", negative ? -v : v);
  return strlen(text) == n && !memcmp(text, s, n);
}

/* The length of a whole number's digits, behind which a point and zeros may stand ("7.0"); 0 for
   another text. */
static size_t whole_length(const char *s, size_t n) {
  const char *point = memchr(s, '.', n);
  size_t length = point ? (size_t)(point - s) : n, zeros = length + 1;
  while (zeros < n && s[zeros] == '0') zeros++;
  return is_digits(s, length) && (!point || zeros == n) ? length : 0;
}

/* Whether v lost all of a number that is not 0: it is too small for the type. */
static bool has_vanished(double v, const char *s, size_t n) {
  if (v != 0) return false;
  for (size_t i = 0; i < n && s[i] != 'e' && s[i] != 'E'; i++)
    if (s[i] >= '1' && s[i] <= '9') return true;
  return false;
}

/* Counts what f32 and f64 would change of a number, which is v: whole ones, and those that are too
   large or too small. */
static void count_changes(table_column_t *c, double v, const char *s, size_t n) {
  size_t whole = whole_length(s, n);
  bool named = !whole && strpbrk(s, "nNyY") != NULL; /* inf, infinity */
  double narrow = (double)(float)v;
  if (named || (whole && whole < 8)) return;
  bool narrowed = whole ? !has_digits(narrow, s, whole) : v == floor(v) && narrow != v;
  if (isinf(narrow) || narrowed || has_vanished(narrow, s, n)) c->not_f32++;
  if (isinf(v) || (whole > 15 && !has_digits(v, s, whole)) || has_vanished(v, s, n)) c->not_f64++;
}

/* Takes a cell, of which text has the first bytes, into the kind of its column. */
static void take_kind(table_column_t *c, char *text, int64_t size) {
  const char *s = text;
  size_t n = size < CELL_MAX ? (size_t)size : CELL_MAX - 1;
  if (c->kind == MR_TABLE_TEXT) return;
  mr_table_trim(&s, &n);
  text[s - text + (ptrdiff_t)n] = 0;
  bool whole = size < CELL_MAX && is_whole_text(s, n);
  c->zeros += whole && has_zeros(s, n);
  if (size >= CELL_MAX) {
    c->kind = MR_TABLE_TEXT;
  } else if (whole && n < 8) { /* the usual case: no type changes it */
    c->numbers++;
  } else if (mr_table_missing(s, n)) {
    c->kind = MR_TABLE_FLOAT, c->missing += n > 0, c->gaps++;
  } else {
    double v;
    if (!reads_as_number(s, n, &v)) c->kind = MR_TABLE_TEXT;
    if (c->kind == MR_TABLE_INT && !whole) c->kind = MR_TABLE_FLOAT;
    c->fractions |= !whole;
    c->numbers++;
    if (c->kind != MR_TABLE_TEXT) count_changes(c, v, s, n);
  }
}

static void forget_words(table_column_t *c) {
  for (int k = 0; k < c->n_words; k++) free(c->word[k]);
  free(c->word);
  c->word = NULL, c->n_words = c->word_room = 0;
}

/* Makes room for one more word of a column, unless it has as many as are counted: then it drops
   them.  Few of a column of numbers are, since each cell is looked for among them. */
static mr_err_t widen_words(table_scan_t *t, table_column_t *c) {
  int most = WORDS_KEPT / t->n_columns;
  if (most > MR_TABLE_WORDS_MAX) most = MR_TABLE_WORDS_MAX;
  if (most < MR_TABLE_WORDS_LEAST || c->kind != MR_TABLE_TEXT) most = MR_TABLE_WORDS_LEAST;
  if (c->n_words == most) return c->full = true, forget_words(c), MR_OK;
  if (c->n_words < c->word_room) return MR_OK;
  int room = c->word_room ? 2 * c->word_room : FIRST_WORDS;
  char **more = realloc(c->word, (size_t)room * sizeof *more);
  if (!more) return mr_no_memory(t->diag, "the words of %s", t->file->path);
  c->word = more, c->word_room = room;
  return MR_OK;
}

/* Adds a word of a column.  Numbers are words too, until there are too many, since a column may
   turn out to be text. */
static mr_err_t add_word(table_scan_t *t, table_column_t *c) {
  int low = 0, high = c->n_words;
  if (t->n_text >= CELL_MAX || memchr(t->text, 0, (size_t)t->n_text)) {
    c->full = true, forget_words(c);
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
  MR_TRY(widen_words(t, c));
  if (c->full) return MR_OK;
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
  mr_err_t e = c->full ? MR_OK : add_word(t, c);
  take_kind(c, t->text, t->n_text);
  return e;
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
  } else if (c == t->eol) {
    return end_row(t, at, after_cr && c == '\n');
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
  return t->row_at < at ? end_row(t, at, cr && t->eol == '\n') : MR_OK;
}

/* ---- the first row ---- */

/* The slot of a name: of the column that has it, else a free one. */
static uint16_t *slot_of_name(const table_scan_t *t, const char *name) {
  size_t at = (size_t)XXH3_64bits(name, strlen(name)) % SLOTS;
  while (t->slot[at] && strcmp(t->column[t->slot[at] - 1].name, name) != 0) at = (at + 1) % SLOTS;
  return &t->slot[at];
}

static mr_err_t name_column(table_scan_t *t, const char *cell, size_t n) {
  table_column_t *c = &t->column[t->n_columns];
  char number[24];
  if (!n) { /* as pandas and R write a column of row names, and a comma at the end of all rows */
    cell = number, c->unnamed = true;
    n = (size_t)snprintf(number, sizeof number, "column-%d", t->n_columns + 1);
  }
  if (n >= MR_SHARD_NAME_MAX - CELL_MAX || memchr(cell, 0, n) || memchr(cell, '\t', n))
    return TABLE_FAULT(t,
                       "%s: column %d has a name of %zu bytes, want at most %d without tabs: the "
                       "first row must name the columns",
                       t->file->path, t->n_columns + 1, n, MR_SHARD_NAME_MAX - CELL_MAX - 1);
  memcpy(c->name, cell, n), c->name[n] = 0;
  c->kind = MR_TABLE_INT;
  t->n_columns++;
  return MR_OK;
}

/* Gives a column the name of the first column that has it and the next number with which no other
   column is called: a, a.1, a.2. */
static mr_err_t rename_column(table_scan_t *t, table_column_t *c, table_column_t *first) {
  size_t n = strlen(first->name);
  uint16_t *slot;
  do {
    snprintf(c->name + n, sizeof c->name - n, ".%d", ++first->again);
    slot = slot_of_name(t, c->name);
  } while (*slot);
  if (strlen(c->name) >= MR_SHARD_NAME_MAX - CELL_MAX)
    return TABLE_FAULT(t, "%s: two columns are called %s, want shorter names", t->file->path,
                       first->name);
  *slot = (uint16_t)(c - t->column + 1);
  return MR_OK;
}

/* Tells columns of one name apart, as pandas does: the first keeps it, where one with a name goes
   before one without, and no other takes a name that stands anywhere in the first row. */
static mr_err_t tell_columns_apart(table_scan_t *t) {
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < t->n_columns; i++) {
      uint16_t *slot = slot_of_name(t, t->column[i].name);
      if (t->column[i].unnamed == pass && !*slot) *slot = (uint16_t)(i + 1);
    }
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < t->n_columns; i++) {
      table_column_t *c = &t->column[i], *first = &t->column[*slot_of_name(t, c->name) - 1];
      mr_err_t e = c->unnamed == pass && first != c ? rename_column(t, c, first) : MR_OK;
      if (e != MR_OK) return e;
    }
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

/* What no name of a column holds. */
static bool table_is_control(char c) {
  return ((unsigned char)c < ' ' && (c < '\t' || c > '\r')) || c == 0x7F;
}

/* Refuses by name what is no CSV file. */
static mr_err_t check_is_table(table_scan_t *t, const char *p, int64_t n) {
  static const struct {
    const char *mark, *what;
    int64_t n;
  } other[] = {{"\xFF\xFE\0\0", "UTF-32 text: iconv -f UTF-32 -t UTF-8 makes UTF-8 of it", 4},
               {"\0\0\xFE\xFF", "UTF-32 text: iconv -f UTF-32 -t UTF-8 makes UTF-8 of it", 4},
               {"\xFF\xFE", "UTF-16 text: iconv -f UTF-16 -t UTF-8 makes UTF-8 of it", 2},
               {"\xFE\xFF", "UTF-16 text: iconv -f UTF-16 -t UTF-8 makes UTF-8 of it", 2}};
  const mr_file_kind_t *kind = mr_file_kind_sure(p, (size_t)n);
  if (kind)
    return TABLE_FAULT(t, "%s: is no CSV file but %s: %s", t->file->path, kind->what,
                       kind->instead ? kind->instead : "write it as CSV (pandas: to_csv)");
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (n >= other[i].n && !memcmp(p, other[i].mark, (size_t)other[i].n))
      return TABLE_FAULT(t, "%s: is no CSV file but %s", t->file->path, other[i].what);
  const char *what = mr_file_described(p, n < MR_FILE_LOOK ? (size_t)n : MR_FILE_LOOK);
  if (n >= 2 && (!memcmp(p, "{\"", 2) || !memcmp(p, "[{", 2))) {
    if (!what || strncmp(what, "JSON", 4) != 0) /* too short to tell */
      what = *p == '{' ? "JSON lines" : "JSON";
    return TABLE_FAULT(t, "%s: is no CSV file but %s: write it as CSV (pandas: to_csv)",
                       t->file->path, what);
  }
  if (n >= 4 && (!p[0] != !p[1]) && !p[0] == !p[2] && !p[1] == !p[3])
    return TABLE_FAULT(t,
                       "%s: is no CSV file but UTF-16 text: iconv -f UTF-16 -t UTF-8 makes "
                       "UTF-8 of it",
                       t->file->path);
  for (int64_t i = 0; i < n && i < MR_FILE_LOOK && p[i] != '\n' && p[i] != '\r'; i++)
    if (table_is_control(p[i]))
      return TABLE_FAULT(t,
                         "%s: is no CSV file: byte %" PRId64
                         " is 0x%02x, which no text holds: "
                         "write it as CSV (pandas: to_csv)",
                         t->file->path, i, (unsigned)(unsigned char)p[i]);
  return MR_OK;
}

/* Refuses the line that some programs write for Excel. */
static mr_err_t check_is_no_setting(table_scan_t *t, const char *p, int64_t n) {
  if (n < 6 || strncasecmp(p, "sep=", 4) || (p[5] != '\n' && p[5] != '\r')) return MR_OK;
  bool ends = p[5] == '\n' || (n > 6 && p[6] == '\n'); /* sed sees its end */
  return TABLE_FAULT(t,
                     "%s: its first line is a setting of Excel, %.5s, want one that names the "
                     "columns: remove it%s",
                     t->file->path, p, ends ? " (sed -i 1d)" : "");
}

static mr_err_t name_columns(table_scan_t *t, char *at, char *end) {
  for (char *cell; at;) {
    size_t n;
    if (t->n_columns == MR_TABLE_COLUMNS_MAX)
      return TABLE_FAULT(t, "%s: more than %d columns", t->file->path, MR_TABLE_COLUMNS_MAX);
    if (!mr_table_cell(&at, end, t->separator, &cell, &n))
      return TABLE_FAULT(t, "%s: a quote in the first row is not closed", t->file->path);
    mr_err_t e = name_column(t, cell, n);
    if (e != MR_OK) return e;
  }
  return tell_columns_apart(t);
}

/* The first row of a table: the bytes [first,end) of its row, of the n that have been read. */
typedef struct table_head {
  char *row; /* heap */
  int64_t n, first, end;
  bool quoted;
} table_head_t;

/* Reads on until the first row has ended, the file has, or HEADER_MAX bytes are read.  In pieces of
   64 KiB, as more than the names take would be requested again by the scan. */
static mr_err_t read_first_row(table_scan_t *t, table_head_t *h) {
  int64_t most = t->file->size < HEADER_MAX ? t->file->size : HEADER_MAX;
  h->row = malloc((size_t)most + 1);
  if (!h->row) return mr_no_memory(t->diag, "the first row of %s", t->file->path);
  while (h->n < most) {
    int64_t piece = most - h->n < HEADER_PIECE ? most - h->n : HEADER_PIECE;
    mr_err_t e = mr_shard_file_read(t->file, h->n, h->row + h->n, (size_t)piece, t->diag);
    if (e != MR_OK) return e;
    if (!h->n) {
      if ((e = check_is_table(t, h->row, piece)) != MR_OK) return e;
      h->first = piece >= 3 && !memcmp(h->row, "\xEF\xBB\xBF", 3) ? 3 : 0;
      if ((e = check_is_no_setting(t, h->row + h->first, piece - h->first)) != MR_OK) return e;
      while (h->first < piece && (h->row[h->first] == '\n' || h->row[h->first] == '\r')) h->first++;
      h->end = h->first; /* behind empty lines */
    }
    h->n += piece;
    for (; h->end < h->n && (h->quoted || (h->row[h->end] != '\n' && h->row[h->end] != '\r'));
         h->end++)
      h->quoted ^= h->row[h->end] == '"';
    /* Behind a '\r' a '\n' may follow. */
    if (h->end + 1 < h->n) break;
  }
  return MR_OK;
}

/* Reads the names of the columns; *next is where the second row begins. */
static mr_err_t table_read_header(table_scan_t *t, int64_t *next) {
  table_head_t h = {0};
  mr_err_t e = read_first_row(t, &h);
  bool ended = e == MR_END;
  if (ended && t->fault->code) { /* another file */
  } else if (e >= 0 && (ended || h.end == h.first || h.end == HEADER_MAX)) {
    e = TABLE_FAULT(t, "%s: has no first row of at most %d bytes that names its columns",
                    t->file->path, HEADER_MAX);
  } else if (e == MR_OK) {
    bool cr = h.end < h.n && h.row[h.end] == '\r';
    bool both = cr && h.end + 1 < h.n && h.row[h.end + 1] == '\n';
    t->eol = cr && !both ? '\r' : '\n';
    *next = h.end + (h.end < h.n) + both;
    t->separator = choose_separator(h.row + h.first, (size_t)(h.end - h.first));
    e = name_columns(t, h.row + h.first, h.row + h.end);
  }
  free(h.row);
  return e;
}

/* ---- the index ---- */

enum { HEADS = 2, NOTES = 5, EACH = 2 + NOTES /* a column's name and kind, and what changes */ };
_Static_assert(MR_TABLE_WORDS_MAX <= MR_TABLE_WORDS_ROOM &&
                   HEADS + EACH * (int)MR_TABLE_COLUMNS_MAX + (int)WIDE_ROOM <=
                       (int)MR_SHARD_COLUMNS_WIDE &&
                   HEADS + EACH * (int)WIDE + (int)MR_TABLE_WORDS_ROOM +
                           (int)MR_SHARD_COLUMNS_MAX <=
                       (int)MR_SHARD_COLUMNS_WIDE,
               "an index has room for all that is noted of the columns of a table");

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

/* Notes how many numbers of a column f32 and f64 change, that it has no name, how many cells make
   floats of whole numbers, and how many zeros in front are lost. */
static mr_err_t note_changes(table_scan_t *t, const table_column_t *c) {
  const int64_t have[] = {c->not_f32, c->not_f64, c->unnamed, c->fractions ? 0 : c->gaps, c->zeros};
  uint32_t column;
  _Static_assert(sizeof have / sizeof *have == NOTES, "each of them has room");
  for (uint32_t i = 0; i < NOTES && c->kind <= MR_TABLE_FLOAT; i++) {
    if (!have[i]) continue;
    MR_TRY(mr_shard_draft_column(t->draft, c->name, strlen(c->name), MR_TABLE_NOT_F32 + i, &column,
                                 t->diag));
    mr_shard_draft_total(t->draft, column, have[i], 0, 0);
  }
  return MR_OK;
}

/* Fewest words first, then in their order. */
static int by_words(const void *a, const void *b) {
  const table_column_t *x = *(table_column_t *const *)a, *y = *(table_column_t *const *)b;
  return x->n_words != y->n_words ? (x->n_words > y->n_words) - (x->n_words < y->n_words)
                                  : (x > y) - (x < y);
}

/* Leaves the columns of text those words for which there is room, all of a column or none: a column
   of many takes nothing from one of few. */
static mr_err_t share_room(table_scan_t *t, int room) {
  table_column_t **text = malloc((size_t)t->n_columns * sizeof(table_column_t *));
  int n = 0;
  if (!text) return mr_no_memory(t->diag, "an index of %s", t->file->path);
  for (int i = 0; i < t->n_columns; i++)
    if (t->column[i].kind == MR_TABLE_TEXT) text[n++] = &t->column[i];
  qsort(text, (size_t)n, sizeof *text, by_words);
  for (int i = 0; i < n; i++) {
    if (text[i]->full || text[i]->n_words > room)
      text[i]->kind = MR_TABLE_MANY;
    else
      room -= text[i]->n_words;
  }
  free(text);
  return MR_OK;
}

/* Whether a column holds captions or the like: many words, of which less than a tenth of the rows
   has one that came before. */
static bool words_differ(const table_scan_t *t, const table_column_t *c) {
  return c->n_words > MR_TABLE_WORDS_ONCE && c->n_words > t->rows - t->rows / 10;
}

/* What the columns hold; words first of those that are text: numbers are words if the column is
   text in another file. */
static mr_err_t table_note_kinds(table_scan_t *t) {
  int numbers = MR_SHARD_COLUMNS_MAX - HEADS - 2 * t->n_columns;
  bool wide = t->n_columns > WIDE; /* looking for a word would take long */
  uint32_t column;
  for (int i = 0; i < t->n_columns; i++) {
    table_column_t *c = &t->column[i];
    if (c->kind == MR_TABLE_FLOAT && c->missing && !c->numbers) c->kind = MR_TABLE_TEXT;
    if (words_differ(t, c)) c->full = true, forget_words(c);
  }
  MR_TRY(share_room(t, wide ? WIDE_ROOM : MR_TABLE_WORDS_ROOM));
  for (int i = 0; i < t->n_columns; i++) {
    table_column_t *c = &t->column[i];
    MR_TRY(mr_shard_draft_column(t->draft, c->name, strlen(c->name), (uint32_t)c->kind, &column,
                                 t->diag));
    mr_shard_draft_total(t->draft, column, t->rows, c->least, c->most);
  }
  /* Behind the kinds, so that these have the same places in files of the same columns. */
  for (int i = 0; i < t->n_columns; i++) MR_TRY(note_changes(t, &t->column[i]));
  for (int i = 0; i < t->n_columns; i++)
    if (t->column[i].kind == MR_TABLE_TEXT) MR_TRY(note_words(t, &t->column[i]));
  for (int i = 0; i < t->n_columns && !wide; i++) {
    table_column_t *c = &t->column[i];
    if (c->kind >= MR_TABLE_TEXT || c->full || c->n_words > MR_TABLE_WORDS_LEAST ||
        c->n_words > numbers)
      continue;
    numbers -= c->n_words;
    MR_TRY(note_words(t, c));
  }
  return MR_OK;
}

mr_err_t mr_table_scan(mr_shard_file_t *file, mr_shard_draft_t *draft, mr_diag_t *fault,
                       mr_diag_t *diag) {
  table_scan_t t = {.file = file, .draft = draft, .fault = fault, .diag = diag};
  int64_t next = 0;
  mr_shard_draft_widen(draft);
  t.column = calloc(MR_TABLE_COLUMNS_MAX, sizeof *t.column);
  t.slot = calloc(SLOTS, sizeof *t.slot);
  mr_err_t e = t.column && t.slot ? table_read_header(&t, &next)
                                  : mr_no_memory(diag, "an index of %s", file->path);
  if (e == MR_OK) {
    e = table_note_heads(&t);
    if (e == MR_OK) e = scan_rows(&t, next);
    if (e >= 0 && t.rows) {
      mr_err_t also = table_note_kinds(&t);
      if (also < 0) e = also;
    }
  }
  for (int i = 0; i < t.n_columns; i++) forget_words(&t.column[i]);
  free(t.column), free(t.slot);
  return e < 0 ? e : MR_OK;
}
