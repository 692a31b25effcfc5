/* Each format writes a row as it comes, so that a killed command leaves whole rows to resume from;
   an .npz is kept in memory and written at the end. */
#include "apps/run/predict_rows.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/npz.h"
#include "base/text.h"
#include "base/xio.h"

typedef enum rows_format { ROWS_TABLE, ROWS_JSONL, ROWS_CSV, ROWS_NPZ } rows_format_t;

struct mr_predict_rows {
  rows_format_t format;
  char *file; /* heap */
  FILE *f;
  int64_t top, rows; /* rows: in the file at the open */
  bool begun;        /* the header of CSV is there */
  int64_t n, room, width;
  int64_t *id;
  float *value;
  int32_t *class;
  bool label;
};

/* ---- opening ---- */

static bool rows_end_in(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n > k && !strcmp(name + n - k, end);
}

mr_err_t mr_predict_rows_open(const char *file, int64_t top, bool resume, mr_predict_rows_t **out,
                              mr_diag_t *diag) {
  rows_format_t format = !file                         ? ROWS_TABLE
                         : rows_end_in(file, ".jsonl") ? ROWS_JSONL
                         : rows_end_in(file, ".csv")   ? ROWS_CSV
                                                       : ROWS_NPZ;
  if (format == ROWS_NPZ && !rows_end_in(file, ".npz"))
    return mr_fail(diag, MR_ERR_USAGE, "--out: %s: want a name that ends in .jsonl, .csv or .npz",
                   file);
  if (resume && format != ROWS_JSONL && format != ROWS_CSV)
    return mr_fail(diag, MR_ERR_USAGE, "--resume: wants --out FILE.jsonl or FILE.csv");
  mr_predict_rows_t *r = calloc(1, sizeof *r);
  if (!r || (file && !(r->file = strdup(file)))) return free(r), mr_no_memory(diag, "rows");
  r->format = format, r->top = top;
  if (format == ROWS_TABLE) r->f = stdout;
  if (format == ROWS_NPZ) {
    mr_err_t e = mr_file_writable(file, diag);
    return e < 0 ? mr_predict_rows_close(r, e, diag) : (*out = r, MR_OK);
  }
  if (!r->f) r->f = fopen(file, resume && access(file, F_OK) == 0 ? "r+" : "w+");
  if (r->f) return *out = r, MR_OK;
  mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", file, strerror(errno));
  return mr_predict_rows_close(r, MR_ERR_IO, diag);
}

mr_err_t mr_predict_rows_keep(mr_predict_rows_t *r, int64_t batch, int64_t *rows, mr_diag_t *diag) {
  int64_t lines = 0, head = r->format == ROWS_CSV;
  long end = 0;
  *rows = 0;
  if (r->format != ROWS_JSONL && r->format != ROWS_CSV) return MR_OK;
  rewind(r->f);
  for (int c; (c = getc(r->f)) != EOF;)
    if (c == '\n') {
      lines++;
      if (lines >= head && (lines - head) % batch == 0) end = ftell(r->f);
    }
  if (fseek(r->f, end, SEEK_SET) < 0 || fflush(r->f) || ftruncate(fileno(r->f), end) < 0)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot be cut: %s", r->file, strerror(errno));
  *rows = lines > head ? (lines - head) / batch * batch : 0;
  r->begun = end > 0;
  return MR_OK;
}

/* ---- rows ---- */

/* The k classes with the largest shares, the largest first; of equal ones the first. */
static void find_top(const mr_predict_row_t *row, int64_t k, int64_t *at) {
  for (int64_t i = 0; i < k; i++) {
    at[i] = -1;
    for (int64_t c = 0; c < row->n; c++) {
      bool taken = false;
      for (int64_t j = 0; j < i; j++) taken |= at[j] == c;
      if (!taken && (at[i] < 0 || row->value[c] > row->value[at[i]])) at[i] = c;
    }
  }
}

static const char *name_class(const mr_field_t *field, int64_t c, char number[24]) {
  if (field->classes && c < field->classes->n) return field->classes->name[c];
  snprintf(number, 24, "%" PRId64, c);
  return number;
}

static void write_table(mr_predict_rows_t *r, const mr_field_t *field, bool label,
                        const mr_predict_row_t *row, const int64_t *top, int64_t k) {
  char cell[256], number[24], id[24];
  snprintf(id, sizeof id, "%" PRIu64, row->id);
  const char *name = row->file && row->offset <= 0 ? row->file : id;
  fprintf(r->f, "%-40s", mr_printable_cell(name, sizeof cell, cell, sizeof cell));
  if (row->bad) fputs("  (cannot be read)", r->f);
  for (int64_t i = 0; i < k && !row->bad && label; i++)
    fprintf(r->f, "  %s %.4f",
            mr_printable_cell(name_class(field, top[i], number), sizeof cell, cell, sizeof cell),
            (double)row->value[top[i]]);
  for (int64_t i = 0; i < row->n && !row->bad && !label; i++)
    fprintf(r->f, "  %.6g", (double)row->value[i]);
  putc('\n', r->f);
}

/* A number as JSON has it, as short as gives the same f32 back. */
static void add_number_to(cJSON *list, float v) {
  char text[32];
  mr_snprintf(text, sizeof text, "%.9g", (double)v);
  cJSON_AddItemToArray(list, cJSON_CreateRaw(text));
}

static bool write_jsonl(mr_predict_rows_t *r, const mr_field_t *field, bool label,
                        const mr_predict_row_t *row, const int64_t *top, int64_t k) {
  cJSON *o = cJSON_CreateObject(), *list = NULL;
  char number[24];
  snprintf(number, sizeof number, "%" PRIu64, row->id);
  cJSON_AddRawToObject(o, "id", number);
  if (row->file) cJSON_AddStringToObject(o, "file", row->file);
  if (row->file && row->offset > 0) cJSON_AddNumberToObject(o, "offset", (double)row->offset);
  if (row->bad) cJSON_AddTrueToObject(o, "bad");
  if (!row->bad && label) {
    cJSON_AddStringToObject(o, "class", name_class(field, top[0], number));
    cJSON *classes = cJSON_AddArrayToObject(o, "classes");
    list = cJSON_AddArrayToObject(o, "scores");
    for (int64_t i = 0; i < k; i++) {
      cJSON_AddItemToArray(classes, cJSON_CreateString(name_class(field, top[i], number)));
      add_number_to(list, row->value[top[i]]);
    }
  }
  if (!row->bad && !label) {
    list = cJSON_AddArrayToObject(o, field->name);
    for (int64_t i = 0; i < row->n; i++) add_number_to(list, row->value[i]);
  }
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  if (text) fprintf(r->f, "%s\n", text);
  cJSON_free(text);
  return text != NULL;
}

static void write_quoted(FILE *f, const char *text) {
  putc('"', f);
  for (; *text; text++) {
    if (*text == '"') putc('"', f);
    putc(*text == '\n' || *text == '\r' ? ' ' : *text, f);
  }
  putc('"', f);
}

static void write_csv(mr_predict_rows_t *r, const mr_field_t *field, bool label,
                      const mr_predict_row_t *row, const int64_t *top, int64_t k) {
  int64_t columns = label ? k : row->n;
  char number[24];
  if (!r->begun) {
    fputs("id,file,offset", r->f);
    for (int64_t i = 0; i < columns; i++)
      if (label)
        fprintf(r->f, ",class%" PRId64 ",score%" PRId64, i + 1, i + 1);
      else
        fprintf(r->f, ",%s%" PRId64, field->name, i);
    putc('\n', r->f);
    r->begun = true;
  }
  fprintf(r->f, "%" PRIu64 ",", row->id);
  if (row->file) write_quoted(r->f, row->file);
  putc(',', r->f);
  if (row->offset > 0) fprintf(r->f, "%" PRId64, row->offset);
  for (int64_t i = 0; i < columns; i++) {
    putc(',', r->f);
    if (row->bad) {
      if (label) putc(',', r->f);
      continue;
    }
    if (label) write_quoted(r->f, name_class(field, top[i], number)), putc(',', r->f);
    fprintf(r->f, "%.9g", (double)row->value[label ? top[i] : i]);
  }
  putc('\n', r->f);
}

/* Keeps a row for the .npz: that of a bad record is NaN and class -1. */
static mr_err_t keep_row(mr_predict_rows_t *r, bool label, const mr_predict_row_t *row,
                         const int64_t *top, mr_diag_t *diag) {
  if (r->n == r->room) {
    size_t room = r->room ? 2 * (size_t)r->room : 1024;
    int64_t *id = realloc(r->id, room * sizeof *id);
    if (id) r->id = id;
    float *value = realloc(r->value, room * (size_t)row->n * sizeof *value);
    if (value) r->value = value;
    int32_t *class = realloc(r->class, room * sizeof *class);
    if (class) r->class = class;
    if (!id || !value || !class) return mr_no_memory(diag, "%zu rows of predictions", room);
    r->room = (int64_t)room;
  }
  r->width = row->n, r->label = label;
  r->id[r->n] = (int64_t)row->id;
  r->class[r->n] = row->bad || !label ? -1 : (int32_t)top[0];
  for (int64_t i = 0; i < row->n; i++) r->value[r->n * row->n + i] = row->bad ? NAN : row->value[i];
  r->n++;
  return MR_OK;
}

mr_err_t mr_predict_rows_add(mr_predict_rows_t *r, const mr_field_t *field, bool label,
                             const mr_predict_row_t *row, mr_diag_t *diag) {
  int64_t top[64], k = r->top < row->n ? r->top : row->n;
  for (int64_t i = 0; i < row->n && !row->bad; i++)
    if (!isfinite(row->value[i]))
      return mr_fail(diag, MR_ERR_DATA,
                     "record %" PRIu64
                     "%s%s: %s %g is not finite: the checkpoint's weights, or the "
                     "record's values, are not numbers that the model can compute with",
                     row->id, row->file ? " of " : "", row->file ? row->file : "", field->name,
                     (double)row->value[i]);
  if (k > 64) k = 64;
  if (label && !row->bad) find_top(row, k, top);
  switch (r->format) {
    case ROWS_TABLE: write_table(r, field, label, row, top, k); break;
    case ROWS_JSONL:
      if (!write_jsonl(r, field, label, row, top, k)) return mr_no_memory(diag, "a row");
      break;
    case ROWS_CSV: write_csv(r, field, label, row, top, k); break;
    case ROWS_NPZ: return keep_row(r, label, row, top, diag);
  }
  return MR_OK;
}

mr_err_t mr_predict_rows_flush(mr_predict_rows_t *r, mr_diag_t *diag) {
  if (!r->f || (!fflush(r->f) && !ferror(r->f))) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s",
                 r->file ? r->file : "standard output", strerror(errno));
}

static mr_err_t save_rows(const mr_predict_rows_t *r, mr_diag_t *diag) {
  mr_npz_array_t array[3] = {
      {.name = "id", .dtype = MR_I64, .ndim = 1, .dim = {r->n}, .data = r->id},
      {.dtype = MR_F32, .ndim = 2, .dim = {r->n, r->width}, .data = r->value},
      {.name = "class", .dtype = MR_I32, .ndim = 1, .dim = {r->n}, .data = r->class}};
  snprintf(array[1].name, sizeof array[1].name, "%s", r->label ? "scores" : "values");
  return mr_npz_save(r->file, array, r->label ? 3 : 2, diag);
}

mr_err_t mr_predict_rows_close(mr_predict_rows_t *r, mr_err_t e, mr_diag_t *diag) {
  if (!r) return e;
  if (e >= 0) e = r->format == ROWS_NPZ ? save_rows(r, diag) : mr_predict_rows_flush(r, diag);
  if (r->f && r->f != stdout && fclose(r->f) && e >= 0)
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot be written: %s", r->file, strerror(errno));
  free(r->file), free(r->id), free(r->value), free(r->class);
  free(r);
  return e;
}
