/* Four notations for one type.  Which one a text is in follows from its first word: S(, split( or
   P(sum) are SBP's, as are B and P unless the mesh has an axis of that name; column and row are
   Megatron's; all else is a tuple with an entry for each dimension. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "model/mesh/placement.h"

/* A text that is read from left to right. */
typedef struct spec_reader {
  const char *setting, *text, *at;
  const mr_mesh_t *m;
  int ndim; /* of the array */
  mr_placement_t *p;
  mr_diag_t *diag;
} spec_reader_t;

/* "SETTING: "TEXT": ", behind which comes what is wrong. */
static mr_err_t spec_fails(const spec_reader_t *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static mr_err_t spec_fails(const spec_reader_t *r, const char *format, ...) {
  char what[400];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return mr_fail(r->diag, MR_ERR_CONFIG, "%s: \"%.120s\": %s", r->setting, r->text, what);
}

static void skip_spec_blanks(spec_reader_t *r) { r->at += strspn(r->at, " \t\n"); }

/* Passes the character c, and white space before it. */
static bool pass_char(spec_reader_t *r, char c) {
  skip_spec_blanks(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

/* The word at the reader: letters, digits, '_', '-' and '.'. */
static size_t word_here(spec_reader_t *r) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  skip_spec_blanks(r);
  return strspn(r->at, letters);
}

static bool word_is(const char *word, size_t n, const char *other) {
  return n == strlen(other) && !memcmp(word, other, n);
}

/* An axis by name; it may cut one dimension, or be summed over, once. */
static mr_err_t find_axis(const spec_reader_t *r, const char *name, size_t n, int *axis) {
  char word[MR_AXIS_NAME + 32], near[MR_AXIS_NAME + 32], mesh[MR_MESH_TEXT];
  if ((*axis = mr_mesh_axis(r->m, name, n)) >= 0) return MR_OK;
  snprintf(word, sizeof word, "%.*s", n > 60 ? 60 : (int)n, name);
  mr_suggest_t s = {.word = word};
  for (int i = 0; i < r->m->n; i++) mr_suggest_offer(&s, r->m->name[i]);
  return spec_fails(r, "the mesh %.120s has no axis \"%s\"%s", mr_mesh_text(r->m, mesh), word,
                    mr_suggest_text(&s, near, sizeof near));
}

static mr_err_t cut_dim(const spec_reader_t *r, int d, int axis) {
  for (int k = 0; k < r->ndim; k++)
    if (r->p->axes[k] >> axis & 1)
      return spec_fails(r, "axis %s cuts dimension %d already: expected each axis once",
                        r->m->name[axis], k);
  if (r->p->axes[d] >> axis)
    return spec_fails(r,
                      "axis %s after a later one of the mesh: expected the axes of a dimension in "
                      "the order of the mesh, so that the first cuts it into the largest parts",
                      r->m->name[axis]);
  r->p->axes[d] |= (uint8_t)(1u << axis);
  return MR_OK;
}

/* The name of an axis, in quotes or without, which cuts dimension d; None is no cut. */
static mr_err_t read_name(spec_reader_t *r, int d) {
  char quote = 0;
  int axis;
  skip_spec_blanks(r);
  if (*r->at == '\'' || *r->at == '"') quote = *r->at++;
  size_t n = word_here(r);
  const char *name = r->at;
  r->at += n;
  if (!n || (quote && *r->at++ != quote))
    return spec_fails(r, "expected None, the name of an axis or (AXIS,AXIS) for dimension %d", d);
  if (!quote && (word_is(name, n, "None") || word_is(name, n, "null"))) return MR_OK;
  MR_TRY(find_axis(r, name, n, &axis));
  return cut_dim(r, d, axis);
}

/* Passes an opening bracket and returns the one that closes it; 0 if none is here. */
static char pass_bracket(spec_reader_t *r) {
  return pass_char(r, '(') ? ')' : pass_char(r, '[') ? ']' : 0;
}

/* 3*AXIS: that many blocks of the dimension, each of which is cut by itself. */
static mr_err_t read_dim_blocks(spec_reader_t *r, int d) {
  skip_spec_blanks(r);
  size_t n = strspn(r->at, "0123456789"), gap = n + strspn(r->at + n, " \t\n");
  int64_t blocks = 0;
  if (!n || r->at[gap] != '*') return MR_OK;
  for (size_t i = 0; i < n && i < 9; i++) blocks = 10 * blocks + (r->at[i] - '0');
  if (n > 9 || blocks < 1)
    return spec_fails(r, "dimension %d: expected N*AXIS with N from 1 to 999999999", d);
  r->at += gap + 1;
  r->p->outer[d] = blocks;
  return MR_OK;
}

/* One dimension: a name, or several in brackets, behind a number of blocks. */
static mr_err_t read_dim_axes(spec_reader_t *r, int d) {
  MR_TRY(read_dim_blocks(r, d));
  char close = pass_bracket(r);
  if (!close) return read_name(r, d);
  while (!pass_char(r, close)) {
    MR_TRY(read_name(r, d));
    if (pass_char(r, ',')) continue;
    if (!pass_char(r, close)) return spec_fails(r, "expected , or %c after an axis", close);
    break;
  }
  return MR_OK;
}

static mr_err_t read_end(spec_reader_t *r) {
  skip_spec_blanks(r);
  if (*r->at) return spec_fails(r, "expected nothing more before \"%.40s\"", r->at);
  return MR_OK;
}

/* A tuple; behind the name PartitionSpec or P it may have fewer entries than dimensions. */
static mr_err_t read_spec(spec_reader_t *r) {
  size_t n = word_here(r);
  const char *word = r->at;
  bool named = n == 1 ? *word == 'P' : n >= 13 && word_is(word + n - 13, 13, "PartitionSpec");
  if (named) r->at += n;
  char close = pass_bracket(r);
  int d = 0;
  if (!close)
    return spec_fails(r,
                      "expected (None,AXIS) with an entry for each dimension, PartitionSpec, SBP's "
                      "S(0) and B, or Megatron's column and row");
  while (!pass_char(r, close)) {
    if (d == r->ndim)
      return spec_fails(r, "more entries than the %d dimension%s of the array", d,
                        d == 1 ? "" : "s");
    MR_TRY(read_dim_axes(r, d++));
    if (pass_char(r, ',')) continue;
    if (!pass_char(r, close))
      return spec_fails(r, "expected , or %c after dimension %d", close, d - 1);
    break;
  }
  if (d < r->ndim && !named)
    return spec_fails(
        r, "%d entr%s for an array of %d dimensions: expected %d, None for what is whole", d,
        d == 1 ? "y" : "ies", r->ndim, r->ndim);
  return read_end(r);
}

/* The dimension of S(0) or split(0). */
static mr_err_t read_split(spec_reader_t *r, int axis) {
  long long d = 0;
  bool bracket = pass_char(r, '(');
  skip_spec_blanks(r);
  if (bracket && !strncmp(r->at, "dim=", 4)) r->at += 4;
  size_t n = strspn(r->at, "0123456789");
  for (size_t i = 0; i < n && i < 9; i++) d = 10 * d + (r->at[i] - '0');
  r->at += n;
  if (!bracket || !n || n > 9 || !pass_char(r, ')') || d >= r->ndim)
    return spec_fails(r, "axis %s: expected S(DIMENSION) with a dimension below %d",
                      r->m->name[axis], r->ndim);
  return cut_dim(r, (int)d, axis);
}

/* Words of SBP behind the names of their modules, which are left out. */
static size_t sbp_word(spec_reader_t *r, const char **word) {
  size_t n = word_here(r), dot = n;
  while (dot && r->at[dot - 1] != '.') dot--;
  *word = r->at + dot;
  return n - dot;
}

static mr_err_t read_signature(spec_reader_t *r, int axis) {
  const char *word;
  size_t n = sbp_word(r, &word);
  r->at = word + n;
  if (word_is(word, n, "S") || word_is(word, n, "split")) return read_split(r, axis);
  if (word_is(word, n, "B") || word_is(word, n, "broadcast")) return MR_OK;
  if (word_is(word, n, "P") && pass_char(r, '(')) {
    n = word_here(r);
    if (!word_is(r->at, n, "sum") || (r->at += n, !pass_char(r, ')')))
      return spec_fails(r, "axis %s: expected P(sum), the one kind of partial value",
                        r->m->name[axis]);
  } else if (!word_is(word, n, "P") && !word_is(word, n, "partial_sum")) {
    return spec_fails(r, "axis %s: expected S(DIMENSION), B or P(sum)", r->m->name[axis]);
  }
  r->p->partial |= (uint8_t)(1u << axis);
  return MR_OK;
}

/* A signature for each axis of the mesh, in its order. */
static mr_err_t read_sbp(spec_reader_t *r) {
  char close = pass_bracket(r), mesh[MR_MESH_TEXT];
  for (int k = 0; k < r->m->n; k++) {
    MR_TRY(read_signature(r, k));
    bool more = pass_char(r, ',');
    if (more && k < r->m->n - 1) continue;
    bool ended = close ? pass_char(r, close) : (skip_spec_blanks(r), !*r->at && !more);
    if (ended && k == r->m->n - 1) return read_end(r);
    if (!ended && !more)
      return spec_fails(r, "expected , after the word for axis %s", r->m->name[k]);
    return spec_fails(r, "%s words than the %d ax%s of the mesh %.120s: expected one for each",
                      ended ? "fewer" : "more", r->m->n, r->m->n == 1 ? "is" : "es",
                      mr_mesh_text(r->m, mesh));
  }
  return MR_OK;
}

static bool is_sbp(const spec_reader_t *given) {
  spec_reader_t r = *given;
  const char *word;
  pass_bracket(&r);
  const char *first = (skip_spec_blanks(&r), r.at);
  size_t n = sbp_word(&r, &word);
  r.at = word + n;
  bool has = mr_mesh_axis(r.m, first, (size_t)(r.at - first)) >= 0;
  if (word_is(word, n, "S") || word_is(word, n, "split")) return pass_char(&r, '(') || !has;
  if (word_is(word, n, "P") && pass_char(&r, '(')) {
    size_t kind = word_here(&r);
    return word_is(r.at, kind, "sum") && (r.at += kind, pass_char(&r, ')'));
  }
  return !has && (word_is(word, n, "B") || word_is(word, n, "broadcast") || word_is(word, n, "P") ||
                  word_is(word, n, "partial_sum"));
}

/* column(AXIS): a matrix (in, out) and its bias by columns, the outputs; row: a matrix by rows, the
   inputs, whose products are terms of a sum, to which each rank adds the whole bias. */
static mr_err_t read_megatron(spec_reader_t *r, bool column) {
  const char *name = "model";
  size_t n = 5;
  int axis, ndim = r->ndim;
  r->at += word_here(r);
  if (pass_char(r, '(')) {
    n = word_here(r), name = r->at;
    r->at += n;
    if (!pass_char(r, ')')) return spec_fails(r, "expected column(AXIS) or row(AXIS)");
  }
  MR_TRY(find_axis(r, name, n, &axis));
  MR_TRY(read_end(r));
  if (ndim != 1 && ndim != 2)
    return spec_fails(r,
                      "an array of %d dimensions: expected a matrix (in, out) or a bias; write "
                      "(None,%s) with an entry for each dimension",
                      ndim, r->m->name[axis]);
  if (column) return cut_dim(r, ndim - 1, axis);
  return ndim == 2 ? cut_dim(r, 0, axis) : MR_OK;
}

mr_err_t mr_placement_parse(const char *setting, const char *text, const mr_mesh_t *m, int ndim,
                            mr_placement_t *p, mr_diag_t *diag) {
  spec_reader_t r = {setting, text, text, m, ndim, p, diag};
  *p = (mr_placement_t){.partial = 0};
  size_t n = word_here(&r);
  if (word_is(r.at, n, "column") || word_is(r.at, n, "ColumnParallelLinear"))
    return read_megatron(&r, true);
  if (word_is(r.at, n, "row") || word_is(r.at, n, "RowParallelLinear"))
    return read_megatron(&r, false);
  return is_sbp(&r) ? read_sbp(&r) : read_spec(&r);
}
