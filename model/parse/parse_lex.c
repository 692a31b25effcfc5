/* Words, numbers, dtypes, avals and constants of a jaxpr.  There is no list of tokens: the parser
   asks for what may come next, and a failure says what was expected, in which line and before which
   text. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/parse/parse_private.h"

mr_err_t mr__parse_fail(mr_parser_t *p, const char *expected) {
  int line = 1;
  for (const char *c = p->text; c < p->at; c++) line += *c == '\n';
  return mr_fail(p->diag, MR_ERR_DATA, "jaxpr, line %d: expected %s at \"%.20s\"", line, expected,
                 p->at);
}

mr_err_t mr__parse_no_memory(mr_parser_t *p) {
  return mr_no_memory(p->diag, "the graph of a jaxpr");
}

static bool parse_lex_is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void mr__parse_space(mr_parser_t *p) {
  while (is_space(*p->at)) p->at++;
}

bool mr__parse_in_name(char c) {
  return parse_lex_is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool mr__parse_is(mr_parser_t *p, const char *word) {
  mr__parse_space(p);
  size_t n = strlen(word);
  if (strncmp(p->at, word, n) != 0 ||
      (mr__parse_in_name(word[n - 1]) && mr__parse_in_name(p->at[n])))
    return false;
  p->at += n;
  return true;
}

mr_err_t mr__parse_want(mr_parser_t *p, const char *word) {
  return mr__parse_is(p, word) ? MR_OK : mr__parse_fail(p, word);
}

mr_err_t mr__parse_name(mr_parser_t *p, char name[MR_PARSE_NAME]) {
  size_t n = 0;
  mr__parse_space(p);
  while (mr__parse_in_name(p->at[n])) n++;
  if (n == 0 || n >= MR_PARSE_NAME) return mr__parse_fail(p, "a name");
  memcpy(name, p->at, n);
  name[n] = 0;
  p->at += n;
  return MR_OK;
}

mr_err_t mr__parse_int(mr_parser_t *p, int64_t *v) {
  char *end;
  bool wrapped = mr__parse_is(p, "np.int64(") || mr__parse_is(p, "np.int32(");
  mr__parse_space(p);
  errno = 0;
  *v = strtoll(p->at, &end, 10);
  if (end == p->at || errno) return mr__parse_fail(p, "an integer");
  p->at = end;
  return wrapped ? mr__parse_want(p, ")") : MR_OK;
}

static mr_err_t parse_lex_parse_dtype(mr_parser_t *p, mr_dtype_t *t) {
  char name[MR_PARSE_NAME];
  MR_TRY(mr__parse_name(p, name));
  for (int k = 0; k < MR_DTYPE_COUNT; k++)
    if (!strcmp(name, mr_dtype_name((mr_dtype_t)k))) {
      *t = (mr_dtype_t)k;
      return MR_OK;
    }
  p->at -= strlen(name);
  return mr__parse_fail(p, "a dtype such as f32");
}

/* The most elements of a tensor in a text. */
#define MOST_ELEMS ((int64_t)1 << 44)

mr_err_t mr__parse_aval(mr_parser_t *p, mr_aval_t *a) {
  int64_t elems = 1;
  *a = (mr_aval_t){0};
  MR_TRY(parse_lex_parse_dtype(p, &a->dtype));
  MR_TRY(mr__parse_want(p, "["));
  while (!mr__parse_is(p, "]")) {
    if (a->ndim) MR_TRY(mr__parse_want(p, ","));
    if (a->ndim == MR_MAX_NDIM) return mr__parse_fail(p, "at most 8 dimensions");
    int64_t *d = &a->dim[a->ndim++];
    MR_TRY(mr__parse_int(p, d));
    if (*d < 0 || (*d && elems > MOST_ELEMS / *d)) return mr__parse_fail(p, "a smaller size");
    elems *= *d ? *d : 1;
  }
  return MR_OK;
}

mr_err_t mr__parse_binder(mr_parser_t *p, mr_parse_binder_t *b) {
  MR_TRY(mr__parse_name(p, b->name));
  MR_TRY(mr__parse_want(p, ":"));
  return mr__parse_aval(p, &b->aval);
}

/* ---- constants ---- */

/* Whether the line goes "name:aval name:aval =" from c. */
static bool is_left_side(const char *c) {
  for (;;) {
    while (*c == ' ') c++;
    if (*c == '=') return true;
    while (mr__parse_in_name(*c)) c++;
    if (*c++ != ':') return false;
    while (mr__parse_in_name(*c)) c++;
    if (*c != '[') return false;
    while (*c && *c != ']' && *c != '\n') c++;
    if (*c++ != ']') return false;
  }
}

/* Whether an equation may begin at p->at: first on its line, or after a semicolon. */
static bool parse_lex_is_first(const mr_parser_t *p) {
  const char *c = p->at;
  while (c > p->text && c[-1] == ' ') c--;
  return c == p->text || c[-1] == '\n' || c[-1] == ';';
}

/* The end of the number, True or False at c; c itself without one. */
static const char *past_number(const char *c) {
  static const char *const words[] = {"inf", "nan", "True", "False"};
  const char *from = c;
  if (*c == '-') c++;
  for (int k = 0; k < 4; k++)
    if (!strncmp(c, words[k], strlen(words[k]))) {
      c += strlen(words[k]);
      return mr__parse_in_name(*c) ? from : c;
    }
  if (!parse_lex_is_digit(*c)) return from;
  while (parse_lex_is_digit(*c) || *c == '.') c++;
  if (*c == 'e' || *c == 'E') {
    c += c[1] == '-' || c[1] == '+' ? 2 : 1;
    while (parse_lex_is_digit(*c)) c++;
  }
  return c;
}

bool mr__parse_at_literal(mr_parser_t *p, bool *plain) {
  mr__parse_space(p);
  const char *end = past_number(p->at);
  *plain = end != p->at && *end != ':';
  if (end == p->at) return false;
  if (*plain) return !mr__parse_in_name(*end) && *end != '[' && *end != '=';
  bool word = mr__parse_in_name(*p->at) && !parse_lex_is_digit(*p->at);
  return !(word && parse_lex_is_first(p) &&
           is_left_side(p->at)); /* a value may be called inf or nan */
}

/* Reads [from,end) as an integer of dtype t into *v.  false if it is not one or does not fit. */
static bool whole_number(const char *from, const char *end, mr_dtype_t t, int64_t *v) {
  char *stop;
  bool minus = *from == '-', is_unsigned = t == MR_U8 || t == MR_U32 || t == MR_U64;
  size_t bits = 8 * mr_dtype_size(t);
  errno = 0;
  uint64_t size = strtoull(from + minus, &stop, 10);
  if (stop != end || errno || (minus && is_unsigned && size)) return false;
  uint64_t most = ~(uint64_t)0 >> (64 - bits + !is_unsigned);
  *v = (int64_t)(minus ? 0 - size : size);
  return size <= most + minus;
}

mr_err_t mr__parse_plain(mr_parser_t *p, mr_fn_t *g, mr_var_t **v) {
  mr__parse_space(p);
  const char *from = p->at, *end = past_number(from);
  size_t n = (size_t)(end - from);
  bool word = *from == 'T' || *from == 'F', whole = !word;
  for (size_t i = *from == '-'; i < n; i++) whole = whole && parse_lex_is_digit(from[i]);
  int64_t number = *from == 'T';
  char *stop;
  if (whole && !whole_number(from, end, MR_I32, &number))
    return mr__parse_fail(p, "a constant that i32 can hold");
  if (word || whole)
    *v = mr_literal_whole(g, word ? MR_BOOL : MR_I32, number);
  else
    *v = mr_literal(g, MR_F32, mr_strtod(from, &stop));
  if (!*v) return mr__parse_no_memory(p);
  if (!word && !whole && stop != end) return mr__parse_fail(p, "a number");
  p->at = end;
  return MR_OK;
}

mr_err_t mr__parse_literal(mr_parser_t *p, mr_fn_t *g, mr_var_t **v) {
  mr_aval_t a;
  mr__parse_space(p);
  const char *from = p->at, *end = past_number(from);
  int64_t whole = *from == 'T';
  bool is_word = *from == 'T' || *from == 'F', good;
  p->at = end + 1;
  MR_TRY(mr__parse_aval(p, &a));
  const char *next = p->at;
  p->at = from;
  if (a.ndim) return mr__parse_fail(p, "a constant that is a scalar");
  if (a.dtype == MR_BOOL || is_word) {
    good = a.dtype == MR_BOOL && (is_word || whole_number(from, end, MR_U8, &whole)) && whole <= 1;
    *v = good ? mr_literal_whole(g, MR_BOOL, whole) : NULL;
  } else if (!mr_is_float(a.dtype)) {
    good = whole_number(from, end, a.dtype, &whole);
    *v = good ? mr_literal_whole(g, a.dtype, whole) : NULL;
  } else {
    char *stop;
    double number = mr_strtod(from, &stop);
    *v = mr_literal(g, a.dtype, number);
    bool finite = from[*from == '-'] != 'i' && from[*from == '-'] != 'n';
    good = stop == end && (!finite || !*v || isfinite((*v)->value));
  }
  if (!good) return mr__parse_fail(p, "a constant that its dtype can hold");
  p->at = next;
  return *v ? MR_OK : mr__parse_no_memory(p);
}
