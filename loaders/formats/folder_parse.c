/* A list of files with labels: CSV (RFC 4180) with a header, or one JSON object a line, as Hugging
   Face's imagefolder has them.  The list comes from outside: paths that leave the folder are
   refused, and lines and fields have limits. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_kind.h"
#include "loaders/formats/folder_list.h"

enum { COLUMNS_MAX = 64, FIELD_MAX = 4096, LINE_MAX_BYTES = 1 << 16 };

/* Labels as the list has them, until all are known. */
typedef struct label {
  char *text; /* heap */
  int64_t row;
} label_t;

typedef struct parse {
  mr_folder_list_t *list;
  const char *path;
  mr_diag_t *diag;
  int64_t line;
  label_t *label; /* [list->n] */
  int64_t cap;
} parse_t;

static mr_err_t fail_parse(const parse_t *p, const char *what) {
  return mr_fail(p->diag, MR_ERR_DATA, "%s: line %" PRId64 ": %s", p->path, p->line, what);
}

/* True if path stays inside the folder that it is relative to. */
static bool stays_inside(const char *path) {
  if (!*path || *path == '/') return false;
  for (const char *at = path; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (!strncmp(at, "..", 2) && (!at[2] || at[2] == '/')) return false;
  }
  return true;
}

static bool is_class_number(const char *text) {
  size_t n = strlen(text);
  return n < 10 && strspn(text, "0123456789") == n && (n == 1 || *text != '0');
}

/* True for -1 or 99999999999, which would else become the name of a class; 007 is one. */
static bool is_other_number(const char *text) {
  size_t sign = *text == '-' || *text == '+', n = strlen(text) - sign;
  return n && strspn(text + sign, "0123456789") == n && (sign || (n >= 10 && *text != '0'));
}

static mr_err_t add_row(parse_t *p, const char *file, const char *label) {
  if (!file || !label) return fail_parse(p, "want a file_name (or path) and a label");
  if (!*label) return fail_parse(p, "the label is empty");
  if (is_other_number(label))
    return fail_parse(p, "the label is a number that is no class: want numbers from 0, or names");
  if (!stays_inside(file))
    return fail_parse(p, "the file must be named by a path in the folder, without \"..\"");
  if (file[strlen(file) - 1] == '/')
    return fail_parse(p, "the name ends with \"/\", as that of a folder");
  if (p->list->n == p->cap) {
    int64_t cap = p->cap ? 2 * p->cap : 1024;
    label_t *more = realloc(p->label, (size_t)cap * sizeof *more);
    if (!more) return mr_no_memory(p->diag, "the labels of %s", p->path);
    p->label = more, p->cap = cap;
  }
  label_t *own = &p->label[p->list->n];
  *own = (label_t){strdup(label), p->list->n};
  if (!own->text) return mr_no_memory(p->diag, "the labels of %s", p->path);
  mr_err_t e = mr__folder_add(p->list, file, strlen(file), 0, p->diag);
  if (e < 0) free(own->text); /* no row of the list: nothing else frees it */
  return e;
}

/* ---- CSV ---- */

typedef struct csv {
  const char *at, *end;
  char field[FIELD_MAX];
} csv_t;

/* Reads one field; *last: it ends its row. */
static mr_err_t csv_field(parse_t *p, csv_t *c, bool *last) {
  size_t n = 0;
  bool quoted = c->at < c->end && *c->at == '"', open = quoted;
  for (c->at += quoted; c->at < c->end; c->at++) {
    if (open && *c->at == '"') {
      open = c->at + 1 < c->end && c->at[1] == '"';
      if (!open) continue;
      c->at++;
    } else if (!open && (*c->at == ',' || *c->at == '\n')) {
      break;
    } else if (!open && quoted && *c->at != '\r') {
      return fail_parse(p, "text follows a closing quote");
    } else if (!open && *c->at == '\r') {
      continue;
    }
    if (!*c->at || n + 1 == FIELD_MAX)
      return fail_parse(p, "a field with a zero byte, or longer than 4095 bytes");
    c->field[n++] = *c->at;
  }
  if (open) return fail_parse(p, "a quote is not closed");
  c->field[n] = 0;
  *last = c->at == c->end || *c->at == '\n';
  c->at += c->at < c->end;
  return MR_OK;
}

/* Reads a row; copies its fields number want[0] and want[1] to out. */
static mr_err_t csv_row(parse_t *p, csv_t *c, const int want[2], char out[2][FIELD_MAX], int *n) {
  bool last = false;
  p->line++;
  for (*n = 0; !last; ++*n) {
    MR_TRY(csv_field(p, c, &last));
    for (int k = 0; k < 2; k++)
      if (want[k] == *n) memcpy(out[k], c->field, FIELD_MAX);
  }
  return MR_OK;
}

static mr_err_t csv_header(parse_t *p, csv_t *c, int want[2]) {
  bool last = false;
  want[0] = want[1] = -1;
  p->line++;
  for (int k = 0; !last; k++) {
    MR_TRY(csv_field(p, c, &last));
    if (!strcmp(c->field, "file_name") || !strcmp(c->field, "path")) want[0] = k;
    if (!strcmp(c->field, "label")) want[1] = k;
  }
  if (want[0] >= 0 && want[1] >= 0) return MR_OK;
  return fail_parse(p, "want a header with the columns file_name (or path) and label");
}

static mr_err_t parse_csv(parse_t *p, const char *text, size_t n) {
  csv_t c = {.at = text, .end = text + n};
  char out[2][FIELD_MAX];
  int want[2], fields;
  MR_TRY(csv_header(p, &c, want));
  while (c.at < c.end) {
    if (*c.at == '\n' || *c.at == '\r') {
      p->line += *c.at++ == '\n';
      continue;
    }
    out[0][0] = out[1][0] = 0;
    MR_TRY(csv_row(p, &c, want, out, &fields));
    MR_TRY(add_row(p, fields > want[0] ? out[0] : NULL, fields > want[1] ? out[1] : NULL));
  }
  return MR_OK;
}

/* ---- JSON lines ---- */

static mr_err_t json_row(parse_t *p, const char *text, size_t n) {
  char number[32];
  if (memmem(text, n, "\\u0000", 6)) return fail_parse(p, "a string with a zero byte");
  cJSON *o = cJSON_ParseWithLength(text, n);
  const cJSON *file = cJSON_GetObjectItemCaseSensitive(o, "file_name"),
              *label = cJSON_GetObjectItemCaseSensitive(o, "label");
  if (!file) file = cJSON_GetObjectItemCaseSensitive(o, "path");
  const char *name = cJSON_GetStringValue(label);
  if (cJSON_IsNumber(label) && label->valuedouble >= 0 && label->valuedouble < 1e9 &&
      label->valuedouble == (double)(int64_t)label->valuedouble) {
    snprintf(number, sizeof number, "%" PRId64, (int64_t)label->valuedouble);
    name = number;
  }
  mr_err_t e = cJSON_IsObject(o) ? add_row(p, cJSON_GetStringValue(file), name)
                                 : fail_parse(p, "want a JSON object");
  cJSON_Delete(o);
  return e;
}

static mr_err_t parse_json_lines(parse_t *p, const char *text, size_t n) {
  for (const char *at = text, *end = text + n; at < end;) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t len = (size_t)((stop ? stop : end) - at);
    p->line++;
    if (len > LINE_MAX_BYTES) return fail_parse(p, "longer than 65536 bytes");
    if (strspn(at, " \t\r") < len) MR_TRY(json_row(p, at, len));
    at += len + (stop != NULL);
  }
  return MR_OK;
}

/* ---- labels ---- */

static int by_label(const void *a, const void *b) {
  const char *x = ((const label_t *)a)->text, *y = ((const label_t *)b)->text;
  return mr__folder_compare(x, strlen(x), y, strlen(y));
}

/* Labels that are all numbers are the classes' own. */
static mr_err_t number_labels(parse_t *p) {
  mr_folder_list_t *l = p->list;
  int most = 0;
  l->numbered = true;
  for (int64_t i = 0; i < l->n; i++) {
    l->file[i].label = atoi(p->label[i].text);
    if (l->file[i].label > most) most = l->file[i].label;
  }
  if (most >= MR_FOLDER_CLASSES_MAX)
    return mr_fail(p->diag, MR_ERR_DATA, "%s: label %d, want labels in [0,%d]", p->path, most,
                   MR_FOLDER_CLASSES_MAX - 1);
  char **name = calloc((size_t)most + 1, sizeof *name + 12), *text = (char *)(name + most + 1);
  if (!name) return mr_no_memory(p->diag, "the classes of %s", p->path);
  for (int i = 0; i <= most; i++, text += 12) snprintf(name[i] = text, 12, "%d", i);
  mr_err_t e = mr__folder_classes(l, name, most + 1, p->diag);
  free(name);
  return e;
}

static mr_err_t name_labels(parse_t *p) {
  mr_folder_list_t *l = p->list;
  char **name = calloc((size_t)l->n, sizeof *name);
  int n = 0;
  if (!name) return mr_no_memory(p->diag, "the classes of %s", p->path);
  qsort(p->label, (size_t)l->n, sizeof *p->label, by_label);
  for (int64_t i = 0; i < l->n; i++) {
    if (!n || strcmp(name[n - 1], p->label[i].text)) name[n++] = p->label[i].text;
    l->file[p->label[i].row].label = n - 1;
    if (n > MR_FOLDER_CLASSES_MAX) break;
  }
  mr_err_t e = mr__folder_classes(l, name, n, p->diag);
  free(name);
  return e;
}

mr_err_t mr_folder_list_parse(mr_folder_list_t *l, const char *path, const char *text, size_t n,
                              int64_t most, mr_diag_t *diag) {
  parse_t p = {.list = l, .path = path, .diag = diag};
  bool numbers = true;
  size_t start = 0;
  *l = (mr_folder_list_t){.most = most, .from = path};
  const mr_file_kind_t *kind = mr_file_kind_sure(text, n);
  if (kind)
    return mr_fail(diag, MR_ERR_DATA, "%s: is no list of files but %s: %s", path, kind->what,
                   kind->instead ? kind->instead : "want CSV or JSON lines");
  if (n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3, n -= 3; /* a byte order mark */
  while (start < n && strchr(" \t\r\n", text[start]) && text[start]) start++;
  mr_err_t e =
      start < n && text[start] == '{' ? parse_json_lines(&p, text, n) : parse_csv(&p, text, n);
  if (e >= 0 && !l->n) e = mr_fail(diag, MR_ERR_DATA, "%s: names no file", path);
  for (int64_t i = 0; i < l->n && e >= 0; i++) numbers &= is_class_number(p.label[i].text);
  if (e >= 0) e = numbers ? number_labels(&p) : name_labels(&p);
  for (int64_t i = 0; i < l->n; i++) free(p.label[i].text);
  free(p.label);
  if (e < 0) mr_folder_list_free(l);
  return e;
}
