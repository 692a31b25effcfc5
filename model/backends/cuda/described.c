/* Reads and writes descriptions of devices.  They come from outside: every value is checked for its
   form and range, and every name must be there once. */
#include "model/backends/cuda/described.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/share.h"
#include "base/text.h"
#include "base/xio.h"

#define HEAD "millrace device 1"

typedef enum described_kind { TEXT, CAPABILITY, WHOLE, RATE } described_kind_t;

typedef struct described_row {
  const char *name;
  described_kind_t kind;
  size_t at;            /* in mr_cuda_described_t; a capability's minor number follows it */
  uint64_t least, most; /* of a whole number */
} described_row_t;

#define AT(field) offsetof(mr_cuda_described_t, field)
static const described_row_t described_rows[] = {
    {"name", TEXT, AT(name), 0, 0},
    {"compute-capability", CAPABILITY, AT(major), 0, 0},
    {"processors", WHOLE, AT(processors), 1, 100000},
    {"memory", WHOLE, AT(memory), 1, UINT64_C(1) << 50},
    {"cublaslt", WHOLE, AT(cublaslt), 0, 100000000},
    {"cudnn", WHOLE, AT(cudnn), 0, 100000000},
    {"f32-gflops", RATE, AT(f32_gflops), 0, 0},
    {"bf16-gflops", RATE, AT(bf16_gflops), 0, 0},
    {"copy-gbs", RATE, AT(copy_gbs), 0, 0},
};
enum { ROWS = sizeof described_rows / sizeof *described_rows };

static bool described_whole(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  size_t n = strlen(text);
  if (!n || n > 18 || strspn(text, "0123456789") != n) return false;
  *out = strtoull(text, NULL, 10);
  return *out >= least && *out <= most;
}

/* "9.0": below 8.0 there is no bf16 (device.c). */
static bool described_capability(char *text, uint64_t *out) {
  char *dot = strchr(text, '.');
  if (!dot) return false;
  *dot = 0;
  return described_whole(text, 8, 99, &out[0]) && described_whole(dot + 1, 0, 9, &out[1]);
}

static bool described_rate(const char *text, double *out) {
  char *end;
  *out = mr_strtod(text, &end);
  return end != text && !*end && isfinite(*out) && *out >= 0 && *out <= 1e12;
}

/* Sets the field of a row from its value. */
static bool described_value(const described_row_t *r, char *value, mr_cuda_described_t *d) {
  void *at = (char *)d + r->at;
  switch (r->kind) {
    case TEXT:
      for (const char *c = value; *c; c++)
        if (*c < ' ' || *c > '~') return false;
      if (!*value) return false;
      memcpy(at, value, strlen(value) + 1); /* a value is shorter than any line (described_line) */
      return true;
    case CAPABILITY: return described_capability(value, at);
    case WHOLE: return described_whole(value, r->least, r->most, at);
    case RATE: return described_rate(value, at);
  }
  return false;
}

static const char *described_wants(described_kind_t kind) {
  static const char *const want[] = {"the name of a device", "a number from 8.0, as 9.0",
                                     "a whole number in its range", "a number, 0 if it is unknown"};
  return want[kind];
}

/* Takes one line that is neither head nor comment; seen[ROWS]. */
static mr_err_t described_line(const char *line, size_t n, int number, bool *seen,
                               mr_cuda_described_t *d, mr_diag_t *diag) {
  char text[MR_CUDA_DEVICE_TEXT];
  if (n >= sizeof text || memchr(line, 0, n))
    return mr_fail(diag, MR_ERR_DATA, "line %d: want a name and its value", number);
  memcpy(text, line, n), text[n] = 0;
  char *value = strchr(text, ' ');
  if (value) *value++ = 0;
  for (int i = 0; value && i < ROWS; i++) {
    if (strcmp(text, described_rows[i].name) != 0) continue;
    if (seen[i]) return mr_fail(diag, MR_ERR_DATA, "line %d: a second %s", number, text);
    seen[i] = true;
    if (described_value(&described_rows[i], value, d)) return MR_OK;
    return mr_fail(diag, MR_ERR_DATA, "line %d: %s: want %s", number, text,
                   described_wants(described_rows[i].kind));
  }
  return mr_fail(diag, MR_ERR_DATA, "line %d: want a name that a description has, and its value",
                 number);
}

mr_err_t mr__cuda_described_parse(const char *text, size_t n, mr_cuda_described_t *d,
                                  mr_diag_t *diag) {
  bool seen[ROWS] = {false};
  int number = 1;
  *d = (mr_cuda_described_t){.name = ""};
  for (size_t at = 0; at < n || number == 1; number++) {
    const char *line = text + at, *end = at < n ? memchr(line, '\n', n - at) : NULL;
    size_t len = end ? (size_t)(end - line) : n - at;
    if (number == 1 && (len != strlen(HEAD) || memcmp(line, HEAD, len) != 0))
      return mr_fail(diag, MR_ERR_DATA, "line 1: want \"" HEAD "\"");
    if (!end) return mr_fail(diag, MR_ERR_DATA, "line %d: the line has no end", number);
    if (number > 1 && len && *line != '#') MR_TRY(described_line(line, len, number, seen, d, diag));
    at += len + 1;
  }
  for (int i = 0; i < ROWS; i++)
    if (!seen[i]) return mr_fail(diag, MR_ERR_DATA, "%s is missing", described_rows[i].name);
  return MR_OK;
}

void mr__cuda_described_print(const void *what, FILE *to) {
  const mr_cuda_described_t *d = what;
  fputs(HEAD "\n", to);
  for (int i = 0; i < ROWS; i++) {
    const described_row_t *r = &described_rows[i];
    const void *at = (const char *)d + r->at;
    const uint64_t *whole = at;
    const double *rate = at;
    fprintf(to, "%s ", r->name);
    switch (r->kind) {
      case TEXT: fprintf(to, "%s\n", (const char *)at); break;
      case CAPABILITY: fprintf(to, "%" PRIu64 ".%" PRIu64 "\n", whole[0], whole[1]); break;
      case WHOLE: fprintf(to, "%" PRIu64 "\n", *whole); break;
      case RATE: fprintf(to, "%.6g\n", *rate); break;
    }
  }
}

mr_err_t mr__cuda_described_read(const char *what, mr_cuda_described_t *d, mr_diag_t *diag) {
  char path[MR_PATH_MAX], name[MR_PATH_MAX];
  mr_diag_t why = {0};
  void *text;
  size_t n;
  bool file = strchr(what, '/') != NULL;
  if (file)
    snprintf(path, sizeof path, "%s", what);
  else if (snprintf(name, sizeof name, "cuda/devices/%s.txt", what) >= (int)sizeof name ||
           !mr_share_find(name, path, sizeof path))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "device = cuda:described=%.60s: no such description comes with millrace; want "
                   "one of share/millrace/cuda/devices, or a file with a '/' in its name",
                   what);
  mr_err_t e = mr_read_file(path, MR_CUDA_DESCRIBED_BYTES, &text, &n, diag);
  if (e < 0) return e;
  e = mr__cuda_described_parse(text, n, d, &why);
  free(text);
  return e < 0 ? mr_diag_prefix(diag, e, &why, "%s", path) : MR_OK;
}
