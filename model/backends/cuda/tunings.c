/* Reads and writes the tuning file.  It comes from outside: every field is
   checked for its length and its digits before it is used. */
#include "model/backends/cuda/tunings.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "millrace products 1"

enum { FIELDS = 6 };

typedef struct field {
  const char *at;
  size_t n;
} field_t;

/* Cuts line[0,n) at tabs; false unless there are FIELDS fields. */
static bool tuning_fields(const char *line, size_t n, field_t f[FIELDS]) {
  int k = 0;
  for (size_t begin = 0, i = 0; i <= n; i++) {
    if (i < n && line[i] != '\t') continue;
    if (k == FIELDS) return false;
    f[k++] = (field_t){line + begin, i - begin};
    begin = i + 1;
  }
  return k == FIELDS;
}

/* Printable ASCII, not empty, that fits to[0,room). */
static bool tuning_text(field_t f, char *to, size_t room) {
  if (!f.n || f.n >= room) return false;
  for (size_t i = 0; i < f.n; i++)
    if (f.at[i] < ' ' || f.at[i] > '~') return false;
  memcpy(to, f.at, f.n);
  to[f.n] = 0;
  return true;
}

static bool tuning_number(field_t f, uint64_t *out) {
  *out = 0;
  if (!f.n || f.n > 19) return false; /* 10^19 - 1 fits */
  for (size_t i = 0; i < f.n; i++) {
    if (f.at[i] < '0' || f.at[i] > '9') return false;
    *out = *out * 10 + (uint64_t)(f.at[i] - '0');
  }
  return true;
}

static int tuning_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* MR_CUDA_ALGORITHM numbers of 16 digits with a space between. */
static bool tuning_numbers(field_t f, uint64_t *out) {
  if (f.n != 17 * MR_CUDA_ALGORITHM - 1) return false;
  for (size_t i = 0; i < f.n; i++) {
    size_t k = i / 17;
    int digit = tuning_digit(f.at[i]);
    if (i % 17 == 16 ? f.at[i] != ' ' : digit < 0) return false;
    if (i % 17 < 16) out[k] = out[k] << 4 | (uint64_t)digit;
  }
  return true;
}

/* What is wrong with a line, or NULL. */
static const char *tuning_row(const char *line, size_t n, mr_cuda_tuning_t *row) {
  field_t f[FIELDS];
  *row = (mr_cuda_tuning_t){0};
  if (!tuning_fields(line, n, f)) return "want 6 fields with tabs between them";
  if (!tuning_text(f[0], row->device, sizeof row->device)) return "field 1: want a device's name";
  if (!tuning_number(f[1], &row->version)) return "field 2: want cuBLASLt's version";
  if (!tuning_text(f[2], row->product, sizeof row->product)) return "field 3: want a product";
  if (!tuning_numbers(f[3], row->algorithm)) return "field 4: want 8 numbers of 16 digits";
  if (!tuning_number(f[4], &row->workspace)) return "field 5: want the bytes of a workspace";
  if (!tuning_number(f[5], &row->ns)) return "field 6: want nanoseconds";
  return NULL;
}

static bool same_key(const mr_cuda_tuning_t *r, const char *device, uint64_t version,
                     const char *product) {
  return r->version == version && !strcmp(r->product, product) && !strcmp(r->device, device);
}

const mr_cuda_tuning_t *mr__cuda_tunings_find(const mr_cuda_tunings_t *t, const char *device,
                                              uint64_t version, const char *product) {
  for (size_t i = 0; i < t->n; i++)
    if (same_key(&t->row[i], device, version, product)) return &t->row[i];
  return NULL;
}

static mr_err_t tuning_append(mr_cuda_tunings_t *t, const mr_cuda_tuning_t *row, mr_diag_t *diag) {
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 64;
    mr_cuda_tuning_t *more = realloc(t->row, cap * sizeof *more);
    if (!more) return mr_no_memory(diag, "the tuning file of products");
    t->row = more, t->cap = cap;
  }
  t->row[t->n++] = *row;
  return MR_OK;
}

mr_err_t mr__cuda_tunings_put(mr_cuda_tunings_t *t, const mr_cuda_tuning_t *row, mr_diag_t *diag) {
  char device[sizeof row->device], product[sizeof row->product];
  if (!tuning_text((field_t){row->device, strlen(row->device)}, device, sizeof device) ||
      !tuning_text((field_t){row->product, strlen(row->product)}, product, sizeof product))
    return mr_fail(diag, MR_ERR_CONFIG, "tuning file: \"%s\" cannot be written as a device's name",
                   row->device);
  for (size_t i = 0; i < t->n; i++)
    if (same_key(&t->row[i], row->device, row->version, row->product))
      return t->row[i] = *row, MR_OK;
  return tuning_append(t, row, diag);
}

static int compare_rows(const void *a, const void *b) {
  const mr_cuda_tuning_t *p = a, *q = b;
  int c = strcmp(p->device, q->device);
  if (!c) c = (p->version > q->version) - (p->version < q->version);
  return c ? c : strcmp(p->product, q->product);
}

/* Sorts the rows and refuses two of one product. */
static mr_err_t settle_rows(mr_cuda_tunings_t *t, mr_diag_t *diag) {
  if (t->n) qsort(t->row, t->n, sizeof *t->row, compare_rows);
  for (size_t i = 1; i < t->n; i++)
    if (!compare_rows(&t->row[i - 1], &t->row[i]))
      return mr_fail(diag, MR_ERR_DATA, "two rows for %s on %s, want one", t->row[i].product,
                     t->row[i].device);
  return MR_OK;
}

mr_err_t mr__cuda_tunings_parse(const char *text, size_t n, mr_cuda_tunings_t *t, mr_diag_t *diag) {
  size_t at = 0;
  for (int line = 1; at < n; line++) {
    const char *end = memchr(text + at, '\n', n - at);
    size_t len = end ? (size_t)(end - text) - at : n - at;
    mr_cuda_tuning_t row;
    const char *wrong = NULL;
    if (line == 1)
      wrong = len != strlen(HEAD) || memcmp(text, HEAD, len) != 0 ? "want \"" HEAD "\"" : NULL;
    else if (!(wrong = tuning_row(text + at, len, &row)))
      MR_TRY(tuning_append(t, &row, diag));
    if (!end) wrong = "the line has no end";
    if (t->n > MR_CUDA_TUNINGS_MOST) wrong = "more than 100000 rows";
    if (wrong) return mr_fail(diag, MR_ERR_DATA, "line %d: %s", line, wrong);
    at += len + 1;
  }
  if (!n) return mr_fail(diag, MR_ERR_DATA, "line 1: want \"" HEAD "\"");
  return settle_rows(t, diag);
}

void mr__cuda_tunings_fini(mr_cuda_tunings_t *t) {
  free(t->row);
  *t = (mr_cuda_tunings_t){0};
}

const char *mr__cuda_tunings_file(const char *device, uint64_t version,
                                  char name[MR_CUDA_TUNINGS_FILE]) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";
  int at = snprintf(name, MR_CUDA_TUNINGS_FILE, "cuda/products/");
  for (const char *c = device; *c && at < MR_CUDA_TUNINGS_FILE - 30; c++)
    name[at++] = strchr(plain, *c) ? *c : '-';
  snprintf(name + at, (size_t)(MR_CUDA_TUNINGS_FILE - at), "-%" PRIu64 ".txt", version);
  return name;
}

void mr__cuda_tunings_print(const void *what, FILE *to) {
  const mr_cuda_tunings_t *t = what;
  fputs(HEAD "\n", to);
  for (size_t i = 0; i < t->n; i++) {
    const mr_cuda_tuning_t *r = &t->row[i];
    fprintf(to, "%s\t%" PRIu64 "\t%s\t", r->device, r->version, r->product);
    for (int k = 0; k < MR_CUDA_ALGORITHM; k++)
      fprintf(to, "%s%016" PRIx64, k ? " " : "", r->algorithm[k]);
    fprintf(to, "\t%" PRIu64 "\t%" PRIu64 "\n", r->workspace, r->ns);
  }
}
