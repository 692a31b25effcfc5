/* flax's table of a model, drawn with lines as rich draws it: a cell has lines of its own, a column
   is as wide as its widest cell. */
#include "apps/look/summary_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { PATH, TYPE, INPUTS, OUTPUTS, PARAM, RNG, CELLS };

/* Of each module that draws, flax keeps a key of 8 bytes and a counter of 4. */
enum { DRAW_ELEMENTS = 2, DRAW_BYTES = 12 };

typedef struct table {
  const mr_params_t *p;
  mr_dtype_t held;
  int cells, columns;
  size_t width[CELLS];
} table_t;

/* Writes 10695562 as "10,695,562". */
static void put_grouped(FILE *to, int64_t v) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRId64, v);
  for (int i = 0; i < n; i++) fprintf(to, "%s%c", i && (n - i) % 3 == 0 ? "," : "", digits[i]);
}

static void put_size(FILE *to, int64_t count, int64_t bytes) {
  static const struct {
    double of;
    const char *name;
  } unit[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}};
  int k = 0;
  put_grouped(to, count);
  while (k < 3 && (double)bytes <= unit[k].of) k++;
  if (k == 3)
    fprintf(to, " (%" PRId64 " B)", bytes);
  else
    fprintf(to, " (%.1f %s)", (double)bytes / unit[k].of, unit[k].name);
}

/* Writes an array as JAX names it: "bfloat16[1,65,384]". */
static void put_array(FILE *to, const mr_aval_t *a, mr_dtype_t t) {
  const char *name = mr_dtype_name(t);
  size_t letters = strcspn(name, "0123456789");
  static const char *const names[][2] = {
      {"f", "float"}, {"bf", "bfloat"}, {"i", "int"}, {"u", "uint"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i][0]) == letters && !strncmp(name, names[i][0], letters) && name[letters])
      fputs(names[i][1], to), name += letters, letters = 0;
  fprintf(to, "%s[", name);
  for (int d = 0; d < a->ndim; d++) fprintf(to, "%s%" PRId64, d ? "," : "", a->dim[d]);
  putc(']', to);
}

/* The depth of the row of totals, which has no parameters of its own. */
enum { TOTAL = -1 };

/* The last part of parameter i's name if it belongs to the module itself; else NULL. */
static const char *own_param(const table_t *t, const mr_summary_row_t *r, int i) {
  const char *name = t->p->param[i].name;
  size_t len = r->depth ? strlen(r->name) : 0;
  if (r->depth == TOTAL || (len && (strncmp(name, r->name, len) || name[len] != '.'))) return NULL;
  name += len ? len + 1 : 0;
  return strchr(name, '.') ? NULL : name;
}

/* Of the module's own parameters behind `after` by name, the first; -1: none. */
static int next_own(const table_t *t, const mr_summary_row_t *r, const char *after) {
  int best = -1;
  for (int i = 0; i < t->p->n; i++) {
    const char *name = own_param(t, r, i);
    if (!name || (after && strcmp(name, after) <= 0)) continue;
    if (best < 0 || strcmp(name, own_param(t, r, best)) < 0) best = i;
  }
  return best;
}

static void put_params(const table_t *t, FILE *to, const mr_summary_row_t *r) {
  bool own = false;
  for (int i = next_own(t, r, NULL); i >= 0; i = next_own(t, r, own_param(t, r, i))) {
    fprintf(to, "%s: ", own_param(t, r, i));
    put_array(to, &t->p->param[i].aval, t->held);
    putc('\n', to);
    own = true;
  }
  if (own) putc('\n', to);
  if (r->count) put_size(to, r->count, r->count * (int64_t)mr_dtype_size(t->held));
}

static void put_draws(FILE *to, const mr_summary_row_t *r) {
  if (r->draws) put_size(to, DRAW_ELEMENTS * r->draws, DRAW_BYTES * r->draws);
}

static void put_path(FILE *to, const mr_summary_row_t *r) {
  for (const char *c = r->depth > 0 ? r->name : ""; *c; c++) putc(*c == '.' ? '/' : *c, to);
}

/* The text of a cell, in lines (heap); NULL without memory. */
static char *cell_text(const table_t *t, const mr_summary_row_t *r, int cell) {
  mr_text_out_t text;
  const mr_module_t *m = r->module;
  FILE *to = mr_text_out_open(&text);
  if (!to) return NULL;
  if (cell == PATH) put_path(to, r);
  if (cell == TYPE && m) fputs(m->type, to);
  if (cell == INPUTS && m) put_array(to, &m->in, m->in.dtype);
  if (cell == OUTPUTS && m) put_array(to, &m->out, m->out.dtype);
  if (cell == PARAM) put_params(t, to, r);
  if (cell == RNG) put_draws(to, r);
  return mr_text_out_close(&text, to, NULL);
}

/* ---- drawing ---- */

static void put_times(FILE *to, const char *what, size_t n) {
  while (n--) fputs(what, to);
}

/* A line between rows: its left end, what it is made of, its crossings, its right end. */
static void put_line(const table_t *t, FILE *to, const char *const part[4]) {
  fputs(part[0], to);
  for (int c = 0; c < t->cells; c++) {
    put_times(to, part[1], t->width[c] + 2);
    fputs(c + 1 < t->cells ? part[2] : part[3], to);
  }
  putc('\n', to);
}

static size_t count_cell_lines(const char *text) {
  size_t n = 1;
  for (; *text; text++) n += *text == '\n';
  return n;
}

static void put_cells(const table_t *t, FILE *to, char *const cell[CELLS], const char *bar,
                      int right) {
  size_t lines = 1;
  const char *at[CELLS];
  for (int c = 0; c < t->cells; c++) {
    size_t n = count_cell_lines(cell[c]);
    if (n > lines) lines = n;
    at[c] = cell[c];
  }
  for (size_t i = 0; i < lines; i++) {
    for (int c = 0; c < t->cells; c++) {
      size_t n = strcspn(at[c], "\n"), blank = t->width[c] - n;
      fprintf(to, "%s %*s%.*s%*s ", bar, c == right ? (int)blank : 0, "", (int)n, at[c],
              c == right ? 0 : (int)blank, "");
      at[c] += n + (at[c][n] == '\n');
    }
    fprintf(to, "%s\n", bar);
  }
}

static void put_centred(const table_t *t, FILE *to, const char *text) {
  size_t width = 1, n = strlen(text);
  for (int c = 0; c < t->cells; c++) width += t->width[c] + 3;
  fprintf(to, "%*s%s\n", width > n ? (int)((width - n) / 2) : 0, "", text);
}

/* ---- the table ---- */

static const char *const heads[CELLS] = {"path", "type", "inputs", "outputs", "Param", "RngState"};

static mr_err_t make_cells(table_t *t, const mr_summary_row_t *r, char *cell[CELLS],
                           mr_diag_t *diag) {
  for (int c = 0; c < t->cells; c++)
    if (!(cell[c] = cell_text(t, r, c))) return mr_no_memory(diag, "the parameter table");
  return MR_OK;
}

static void drop_cells(char *cell[CELLS]) {
  for (int c = 0; c < CELLS; c++) free(cell[c]), cell[c] = NULL;
}

static void widen_for(table_t *t, char *const cell[CELLS]) {
  for (int c = 0; c < t->cells; c++)
    for (const char *at = cell[c];; at++) {
      size_t n = strcspn(at, "\n");
      if (n > t->width[c]) t->width[c] = n;
      at += n;
      if (!*at) break;
    }
}

/* A row as a few lines of a narrow terminal. */
static void put_narrow(const table_t *t, FILE *to, char *const cell[CELLS]) {
  char line[512];
  const char *size = strrchr(cell[PARAM], '\n');
  size = size ? size + 1 : cell[PARAM];
  int room = t->columns - (int)strlen(size) - 1, n = (int)strlen(cell[PATH]);
  if (n > room) fprintf(to, "%.*s\n", t->columns, cell[PATH]), n = 0;
  fprintf(to, "%s%*s\n", n ? cell[PATH] : "", *size ? t->columns - n : 0, size);
  snprintf(line, sizeof line, "  %s: %s to %s", cell[TYPE], cell[INPUTS], cell[OUTPUTS]);
  if (*cell[TYPE]) mr_put_wrapped(to, line, t->columns, 4);
  for (const char *at = cell[PARAM]; at < size && *at != '\n'; at += strcspn(at, "\n") + 1) {
    snprintf(line, sizeof line, "  %.*s", (int)strcspn(at, "\n"), at);
    mr_put_wrapped(to, line, t->columns, 4);
  }
  snprintf(line, sizeof line, "  RngState: %s", t->cells > RNG ? cell[RNG] : "");
  if (t->cells > RNG && *cell[RNG]) mr_put_wrapped(to, line, t->columns, 4);
}

typedef void put_cells_fn(const table_t *t, FILE *to, char *const cell[CELLS]);

static void put_framed(const table_t *t, FILE *to, char *const cell[CELLS]) {
  static const char *const line[] = {"├", "─", "┼", "┤"};
  put_cells(t, to, cell, "│", -1);
  put_line(t, to, line);
}

/* Puts each row, or without a function only measures it. */
static mr_err_t each_row(table_t *t, FILE *to, const mr_summary_row_t *row, int n, int64_t depth,
                         put_cells_fn *put, mr_diag_t *diag) {
  char *cell[CELLS] = {0};
  mr_err_t e = MR_OK;
  for (int i = 0; i < n && e >= 0; i++) {
    if (row[i].depth > depth) continue;
    e = make_cells(t, &row[i], cell, diag);
    if (e >= 0 && put) put(t, to, cell);
    if (e >= 0 && !put) widen_for(t, cell);
    drop_cells(cell);
  }
  return e;
}

static mr_err_t put_all(table_t *t, FILE *to, const mr_summary_row_t *row, int n, int64_t depth,
                        mr_diag_t *diag) {
  static const char *const top[] = {"┏", "━", "┳", "┓"}, *const below[] = {"┡", "━", "╇", "┩"},
                           *const bottom[] = {"└", "─", "┴", "┘"};
  char *last[CELLS] = {0}, title[300];
  mr_summary_row_t all = {.count = row[0].count, .draws = row[0].draws, .depth = TOTAL};
  snprintf(title, sizeof title, "%s Summary", row[0].module ? row[0].module->type : "Model");
  put_centred(t, to, title);
  put_line(t, to, top);
  put_cells(t, to, (char *const *)(uintptr_t)heads, "┃", -1);
  put_line(t, to, below);
  MR_TRY(each_row(t, to, row, n, depth, put_framed, diag));
  mr_err_t e = make_cells(t, &all, last, diag);
  if (e >= 0) {
    char *empty = last[OUTPUTS], total[] = "Total";
    last[OUTPUTS] = total;
    put_cells(t, to, last, "│", OUTPUTS), put_line(t, to, bottom);
    last[OUTPUTS] = empty;
  }
  drop_cells(last);
  return e;
}

mr_err_t mr_summary_table_put(FILE *to, const mr_params_t *p, const mr_summary_row_t *row, int n,
                              int64_t depth, mr_dtype_t held, int columns, mr_diag_t *diag) {
  table_t t = {p, held, row[0].draws ? CELLS : RNG, columns, {0}};
  size_t width = 1;
  for (int c = 0; c < t.cells; c++) t.width[c] = strlen(heads[c]);
  if (t.width[OUTPUTS] < strlen("Total")) t.width[OUTPUTS] = strlen("Total");
  MR_TRY(each_row(&t, NULL, row, n, depth, NULL, diag));
  for (int c = 0; c < t.cells; c++) width += t.width[c] + 3;
  bool narrow = columns && width > (size_t)columns;
  if (narrow)
    MR_TRY(each_row(&t, to, row, n, depth, put_narrow, diag));
  else
    MR_TRY(put_all(&t, to, row, n, depth, diag));
  mr_text_out_t text;
  FILE *line = mr_text_out_open(&text);
  if (!line) return mr_no_memory(diag, "the parameter table");
  fputs("Total Parameters: ", line);
  put_size(line, row[0].count + DRAW_ELEMENTS * row[0].draws,
           row[0].count * (int64_t)mr_dtype_size(held) + DRAW_BYTES * row[0].draws);
  char *total = mr_text_out_close(&text, line, NULL);
  if (!total) return mr_no_memory(diag, "the parameter table");
  putc('\n', to);
  if (narrow)
    fprintf(to, "%s\n", total);
  else
    put_centred(&t, to, total);
  free(total);
  return MR_OK;
}
