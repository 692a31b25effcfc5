/* Reads tables of rates.  They come from outside: every value is checked for its form and range,
   and every name must be there once. */
#include "model/mesh/rates.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/share.h"
#include "base/text.h"
#include "base/xio.h"

#define HEAD "millrace ranks 1"
enum { TEXT_MOST = 1 << 16, LINE_MOST = 512 };

typedef struct rates_row {
  const char *name;
  size_t at;          /* in mr_rates_t */
  double unit, least; /* of the number, which is at least that before */
  bool optional;
} rates_row_t;

#define AT(field) offsetof(mr_rates_t, field)
#define FLOP(t) (AT(flop_s) + MR_##t * sizeof(double))
static const rates_row_t rates_rows[] = {
    {"f32-gflops", FLOP(F32), 1e9, 1e-3, false},     {"bf16-gflops", FLOP(BF16), 1e9, 1e-3, true},
    {"f16-gflops", FLOP(F16), 1e9, 1e-3, true},      {"copy-gbs", AT(copy_s), 1e9, 1e-3, false},
    {"equation-us", AT(equation_s), 1e-6, 0, false}, {"call-us", AT(call_s), 1e-6, 0, false},
    {"message-us", AT(message_s), 1e-6, 0, false},   {"link-gbs", AT(link_s), 1e9, 1e-3, false}};
enum { ROWS = sizeof rates_rows / sizeof *rates_rows, SOURCE = ROWS, BESIDE, NAMES };

static const char *rates_name(int i) {
  return i < ROWS ? rates_rows[i].name : i == SOURCE ? "source" : "beside";
}

static bool rates_number(const char *text, const rates_row_t *r, mr_rates_t *out) {
  char *end;
  double v = mr_strtod(text, &end);
  if (end == text || *end || !isfinite(v) || v < r->least || v > 1e12) return false;
  v *= r->unit;
  memcpy((char *)out + r->at, &v, sizeof v);
  return true;
}

static bool rates_source(const char *text, mr_rates_t *out) {
  for (const char *c = text; *c; c++)
    if (*c < ' ' || *c > '~') return false;
  if (!*text || strlen(text) >= sizeof out->source) return false;
  memcpy(out->source, text, strlen(text) + 1);
  return true;
}

static bool rates_beside(const char *text, mr_rates_t *out) {
  out->beside = !strcmp(text, "yes");
  return out->beside || !strcmp(text, "no");
}

static mr_err_t rates_line(char *line, int number, bool *seen, mr_rates_t *out, mr_diag_t *diag) {
  char *value = line + strcspn(line, " ");
  if (*value) *value++ = 0;
  value += strspn(value, " ");
  int i = 0;
  while (i < NAMES && strcmp(rates_name(i), line)) i++;
  if (i == NAMES) return mr_fail(diag, MR_ERR_DATA, "line %d: unknown name %.40s", number, line);
  if (seen[i]) return mr_fail(diag, MR_ERR_DATA, "line %d: %s is there twice", number, line);
  seen[i] = true;
  bool good = i < ROWS      ? rates_number(value, &rates_rows[i], out)
              : i == SOURCE ? rates_source(value, out)
                            : rates_beside(value, out);
  if (good) return MR_OK;
  if (i < ROWS)
    return mr_fail(diag, MR_ERR_DATA, "line %d: %s %.40s, want a number in [%g,1e12]", number, line,
                   value, rates_rows[i].least);
  return mr_fail(diag, MR_ERR_DATA, "line %d: %s %.40s, want %s", number, line, value,
                 i == SOURCE ? "a line of text" : "yes or no");
}

static mr_err_t rates_of_text(char *text, mr_rates_t *out, mr_diag_t *diag) {
  bool seen[NAMES] = {false};
  int number = 0;
  for (char *at = text, *next; at; at = next) {
    next = strchr(at, '\n');
    if (next) *next++ = 0;
    size_t n = strlen(at);
    while (n && (at[n - 1] == ' ' || at[n - 1] == '\r')) at[--n] = 0;
    if (!number++ && strcmp(at, HEAD))
      return mr_fail(diag, MR_ERR_DATA, "line 1: %.40s, want " HEAD, at);
    if (number > 1 && *at && *at != '#') MR_TRY(rates_line(at, number, seen, out, diag));
  }
  for (int i = 0; i < NAMES; i++)
    if (!seen[i] && !(i < ROWS && rates_rows[i].optional))
      return mr_fail(diag, MR_ERR_DATA, "%s is missing", rates_name(i));
  return MR_OK;
}

mr_err_t mr_rates_parse(const char *text, size_t n, mr_rates_t *out, mr_diag_t *diag) {
  *out = (mr_rates_t){.copy_s = 0};
  if (n > TEXT_MOST || memchr(text, 0, n))
    return mr_fail(diag, MR_ERR_DATA, "want a text of at most %d bytes", TEXT_MOST);
  char *copy = strndup(text, n);
  if (!copy) return mr_no_memory(diag, "a table of rates");
  mr_err_t e = rates_of_text(copy, out, diag);
  free(copy);
  return e;
}

mr_err_t mr_rates_read(const char *name, mr_rates_t *out, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  void *text;
  size_t n;
  mr_diag_t why = {0};
  if (strpbrk(name, "/.")) {
    snprintf(path, sizeof path, "%s", name);
  } else {
    char file[80];
    snprintf(file, sizeof file, "ranks/%.60s.txt", name);
    if (!mr_share_find(file, path, sizeof path))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%.60s: no table of that name, want threads or 8xH200, or a file", name);
  }
  MR_TRY(mr_read_file(path, TEXT_MOST, &text, &n, diag));
  mr_err_t e = mr_rates_parse(text, n, out, &why);
  free(text);
  return mr_diag_prefix(diag, e, &why, "%s", path);
}

double mr_rates_call(const mr_rates_t *r, int messages, double bytes) {
  return r->call_s + messages * r->message_s + bytes / r->link_s;
}

double mr_rates_equation(const mr_rates_t *r, mr_dtype_t t, double flop, double bytes) {
  double each = r->flop_s[t] > 0 ? r->flop_s[t] : r->flop_s[MR_F32];
  double compute = flop / each, move = bytes / r->copy_s;
  return r->equation_s + (compute > move ? compute : move);
}
