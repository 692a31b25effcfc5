/* The reading half of npy.h.  The header's Python dictionary is not parsed as Python: its three
   names are found by their text, and every value is checked. */
#include "base/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file_kind.h"
#include "base/suggest.h"
#include "base/xio.h"

enum { HEADER_MAX = MR_NPY_HEADER_MAX - 12 };

static const struct {
  const char *name; /* behind the byte order */
  mr_dtype_t dtype;
  size_t size;
  bool is_signed;
} npy_types[] = {{"b1", MR_BOOL, 1, 0}, {"u1", MR_U8, 1, 0},  {"i1", MR_I32, 1, 1},
                 {"i2", MR_I32, 2, 1},  {"u2", MR_I32, 2, 0}, {"i4", MR_I32, 4, 1},
                 {"u4", MR_U32, 4, 0},  {"i8", MR_I64, 8, 1}, {"u8", MR_U64, 8, 0},
                 {"f2", MR_F16, 2, 1},  {"f4", MR_F32, 4, 1}, {"f8", MR_F64, 8, 1}};

/* The text after 'name': in the header's Python dictionary; NULL if the name is missing. */
static const char *npy_value_of(const char *header, const char *name) {
  const char *at = strstr(header, name);
  if (!at) return NULL;
  at += strlen(name);
  return at + strspn(at, " ");
}

/* Parses "'<f4'". */
static bool npy_parse_dtype(const char *at, mr_npy_t *out) {
  if (at[0] != '\'' || !at[1] || !strchr("<>|=", at[1])) return false;
  for (size_t i = 0; i < sizeof npy_types / sizeof npy_types[0]; i++) {
    if (strncmp(at + 2, npy_types[i].name, 2) != 0 || at[4] != '\'') continue;
    out->dtype = npy_types[i].dtype, out->size = npy_types[i].size;
    out->is_signed = npy_types[i].is_signed, out->swapped = at[1] == '>' && out->size > 1;
    return true;
  }
  return false;
}

/* Parses "(2, 3)", "(5,)" or "()" into ndim, dim and count; 0 if it is no such tuple or too
   large. */
static int parse_shape(const char *at, mr_npy_t *a) {
  if (*at++ != '(') return 0;
  a->ndim = 0;
  a->count = 1;
  while (*(at += strspn(at, " ,")) != ')') {
    char *end;
    long long v = strtoll(at, &end, 10);
    if (end == at || v < 0 || a->ndim == MR_MAX_NDIM) return 0;
    if (__builtin_mul_overflow(a->count, (size_t)v, &a->count)) return 0;
    a->dim[a->ndim++] = v;
    at = end;
  }
  return 1;
}

/* The offset of the header's dictionary, and its length in *len; 0 if file is no .npy file. */
static size_t header_place(const unsigned char *file, size_t n, size_t *len) {
  if (n < 12 || memcmp(file, "\x93NUMPY", 6) || file[6] < 1 || file[6] > 3) return 0;
  size_t at = file[6] == 1 ? 10 : 12;
  *len = (size_t)file[8] | (size_t)file[9] << 8;
  if (file[6] > 1) *len |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
  return at;
}

/* Copies the header's type for an error sentence; bytes that cannot be shown become '?'. */
static void quote_type(const char *at, char *text, size_t n) {
  size_t i = 0;
  for (; i + 1 < n && at[i] && at[i] != ',' && at[i] != '}'; i++)
    text[i] = at[i] >= ' ' && at[i] <= '~' ? at[i] : '?';
  text[i] = 0;
}

/* Parses the dictionary of a header into *out. */
static mr_err_t parse_header(const char *path, const char *header, mr_npy_t *out, mr_diag_t *diag) {
  const char *descr = npy_value_of(header, "'descr':"),
             *order = npy_value_of(header, "'fortran_order':");
  const char *shape = npy_value_of(header, "'shape':");
  char type[24];
  size_t bytes;
  if (!descr || !order || !shape)
    return mr_fail(diag, MR_ERR_DATA, "%s: its header does not name descr, fortran_order and shape",
                   path);
  if (!npy_parse_dtype(descr, out)) {
    quote_type(descr, type, sizeof type);
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its type is %s, want b1 u1 i1 i2 u2 i4 u4 i8 u8 f2 f4 or f8; "
                   "a.astype(\"<f4\") in NumPy, or the like, makes one",
                   path, type);
  }
  if (!parse_shape(shape, out) ||
      __builtin_mul_overflow(out->count, mr_dtype_size(out->dtype), &bytes))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its shape is not valid: want at most %d dimensions that are not negative "
                   "and fit in memory",
                   path, MR_MAX_NDIM);
  int long_ones = 0; /* dimensions along which the order matters */
  for (int i = 0; i < out->ndim; i++) long_ones += out->dim[i] != 1;
  out->fortran = !strncmp(order, "True", 4) && long_ones > 1;
  return MR_OK;
}

/* Refuses a file without npy's mark, with what it is instead. */
static mr_err_t fail_other_kind(const char *path, const void *file, size_t n, mr_diag_t *diag) {
  const mr_file_kind_t *kind = mr_file_kind(file, n);
  const char *what = mr_file_described(file, n);
  if (!what) return mr_fail(diag, MR_ERR_DATA, "%s: not an .npy file of format 1 to 3", path);
  return mr_fail(diag, MR_ERR_DATA, "%s: not an .npy file of format 1 to 3; it is %s: %s", path,
                 what,
                 kind && kind->what == what && kind->instead ? kind->instead
                                                             : "save each array with numpy.save");
}

mr_err_t mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out, size_t *offset,
                       mr_diag_t *diag) {
  size_t len, at = header_place(file, n, &len);
  *out = (mr_npy_t){0};
  if (at == 0) return fail_other_kind(path, file, n, diag);
  if (len > n - at || len > HEADER_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: a header of %zu bytes does not fit", path, len);
  char *header = strndup((const char *)file + at, len);
  if (!header) return mr_no_memory(diag, "the header of %s", path);
  mr_err_t e = parse_header(path, header, out, diag);
  free(header);
  *offset = at + len;
  if (e < 0) *out = (mr_npy_t){0};
  return e;
}

bool mr_npy_as_is(const mr_npy_t *a) {
  return !a->fortran && !a->swapped && a->size == mr_dtype_size(a->dtype);
}

/* The bytes of one element as its value; to need not be aligned. */
static void npy_element(const mr_npy_t *a, const uint8_t *from, uint8_t *to) {
  uint8_t b[8];
  for (size_t i = 0; i < a->size; i++) b[i] = from[a->swapped ? a->size - 1 - i : i];
  if (a->size == mr_dtype_size(a->dtype)) {
    memcpy(to, b, a->size);
    return;
  }
  int32_t v = a->size == 1 ? (int8_t)b[0] : b[0] | b[1] << 8;
  if (a->size == 2 && a->is_signed) v = (int16_t)v;
  memcpy(to, &v, sizeof v);
}

void mr_npy_convert(const mr_npy_t *a, const void *from, void *to) {
  size_t wide = mr_dtype_size(a->dtype), step[MR_MAX_NDIM], at = 0;
  int64_t index[MR_MAX_NDIM] = {0};
  if (mr_npy_as_is(a)) {
    memcpy(to, from, a->count * wide);
    return;
  }
  size_t run = 1; /* elements between neighbours along each dimension, in the file */
  for (int i = 0; i < a->ndim; i++) {
    int d = a->fortran ? i : a->ndim - 1 - i;
    step[d] = run, run *= (size_t)a->dim[d];
  }
  for (size_t i = 0; i < a->count; i++) {
    npy_element(a, (const uint8_t *)from + at * a->size, (uint8_t *)to + i * wide);
    for (int d = a->ndim - 1; d >= 0; d--) {
      at += step[d];
      if (++index[d] < a->dim[d]) break;
      at -= step[d] * (size_t)a->dim[d], index[d] = 0;
    }
  }
}

mr_err_t mr_npy_check_size(const char *path, const mr_npy_t *a, size_t bytes, mr_diag_t *diag) {
  if (bytes == a->count * a->size) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: holds %zu data bytes, its shape wants %zu", path, bytes,
                 a->count * a->size);
}

mr_err_t mr_npy_peek(const char *path, mr_npy_t *out, size_t *offset, mr_diag_t *diag) {
  *out = (mr_npy_t){0};
  char hint[256];
  FILE *f = mr_open_regular(path);
  int reason = errno;
  if (!f)
    return mr_fail(diag, MR_ERR_IO, "%s: cannot open: %s%s", path, mr_open_reason(reason),
                   mr_path_hint(path, hint, sizeof hint));
  char *head = malloc(HEADER_MAX + 12);
  struct stat st;
  size_t n = head ? fread(head, 1, HEADER_MAX + 12, f) : 0;
  mr_err_t e = MR_OK;
  if (!head)
    e = mr_no_memory(diag, "the header of %s", path);
  else if (ferror(f) || fstat(fileno(f), &st) < 0)
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot read, want an .npy file: %s", path, strerror(errno));
  else
    e = mr_npy_header(path, head, n, out, offset, diag);
  fclose(f);
  free(head);
  return e < 0 ? e : mr_npy_check_size(path, out, (size_t)st.st_size - *offset, diag);
}

static mr_err_t npy_take(const char *path, const unsigned char *file, size_t n, mr_npy_t *a,
                         mr_diag_t *diag) {
  size_t at;
  MR_TRY(mr_npy_header(path, file, n, a, &at, diag));
  MR_TRY(mr_npy_check_size(path, a, n - at, diag));
  size_t wide = mr_dtype_size(a->dtype), bytes = a->count * wide;
  a->data = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!a->data) return mr_no_memory(diag, "%s, %zu bytes", path, bytes);
  mr_npy_convert(a, file + at, a->data);
  a->size = wide, a->is_signed = a->swapped = a->fortran = false;
  return MR_OK;
}

mr_err_t mr_npy_parse(const char *path, const void *file, size_t n, mr_npy_t *out,
                      mr_diag_t *diag) {
  *out = (mr_npy_t){0};
  mr_err_t e = npy_take(path, file, n, out, diag);
  if (e < 0) *out = (mr_npy_t){0};
  return e;
}

mr_err_t mr_npy_load(const char *path, mr_npy_t *out, mr_diag_t *diag) {
  *out = (mr_npy_t){0};
  void *file;
  size_t n;
  MR_TRY(mr_read_file(path, (size_t)1 << 34, &file, &n, diag));
  mr_err_t e = mr_npy_parse(path, file, n, out, diag);
  free(file);
  return e;
}

void mr_npy_free(mr_npy_t *a) {
  if (!a) return;
  free(a->data);
  *a = (mr_npy_t){0};
}
