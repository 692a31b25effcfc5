/* Attributes of equations, "name=value", as JAX prints them.  The name alone does not give a
   value's kind, so its first characters decide: a bracket, a digit, a quote, a word.  Nesting has a
   limit, since the text may come from anywhere. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/parse/parse_private.h"

#define MOST_BRANCHES 64

/* Appends the integers up to the bracket `close` to v, also those of nested tuples: "1, 2)",
   "1,)", "1, 2]", "(0, 1), (2, 3))".  At most `most` of them. */
static mr_err_t parse_ints(mr_parser_t *p, const char *close, int most, int *n, int64_t *v) {
  while (!mr__parse_is(p, close)) {
    if (mr__parse_is(p, "(")) {
      if (p->depth == MR_PARSE_DEPTH) return mr__parse_fail(p, "tuples nested less deeply");
      p->depth++;
      MR_TRY(parse_ints(p, ")", most, n, v));
      p->depth--;
    } else {
      if (*n == most) return mr__parse_fail(p, "fewer integers");
      MR_TRY(mr__parse_int(p, &v[*n]));
      ++*n;
    }
    if (!mr__parse_is(p, ",")) return mr__parse_want(p, close);
  }
  return MR_OK;
}

/* A list of dimensions: "[1]", of jax 0.3 "(1,)". */
static mr_err_t parse_dims(mr_parser_t *p, int *n, int64_t *v) {
  bool tuple = mr__parse_is(p, "(");
  if (!tuple) MR_TRY(mr__parse_want(p, "["));
  return parse_ints(p, tuple ? ")" : "]", MR_MAX_NDIM, n, v);
}

static mr_err_t parse_pair(mr_parser_t *p, int *n, int *lhs, int *rhs) {
  int64_t v[2][MR_MAX_NDIM];
  int other = 0;
  *n = 0;
  MR_TRY(mr__parse_want(p, "("));
  MR_TRY(parse_dims(p, n, v[0]));
  MR_TRY(mr__parse_want(p, ","));
  MR_TRY(parse_dims(p, &other, v[1]));
  if (other != *n) return mr__parse_fail(p, "two lists of one length");
  for (int i = 0; i < *n; i++) {
    lhs[i] = v[0][i] >= 0 && v[0][i] < MR_MAX_NDIM ? (int)v[0][i] : -1;
    rhs[i] = v[1][i] >= 0 && v[1][i] < MR_MAX_NDIM ? (int)v[1][i] : -1;
  }
  return mr__parse_want(p, ")");
}

static mr_err_t parse_dot(mr_parser_t *p, const char *name, mr_attr_t *a) {
  mr_dot_dims_t d = {0};
  MR_TRY(parse_pair(p, &d.n_contract, d.lhs_contract, d.rhs_contract));
  MR_TRY(mr__parse_want(p, ","));
  MR_TRY(parse_pair(p, &d.n_batch, d.lhs_batch, d.rhs_batch));
  if (d.n_contract + d.n_batch > MR_MAX_NDIM) return mr__parse_fail(p, "at most 8 dimensions");
  *a = mr_attr_dot(name, &d);
  return mr__parse_want(p, ")");
}

/* "Precision.HIGH, Precision.HIGH)": the same for both operands. */
static mr_err_t parse_precision(mr_parser_t *p, mr_attr_t *a) {
  static const char *const names[] = {"DEFAULT", "HIGH", "HIGHEST"};
  int asked[2] = {-1, -1};
  for (int side = 0; side < 2; side++) {
    MR_TRY(mr__parse_want(p, side ? ", Precision." : "Precision."));
    for (int k = 0; k < 3; k++)
      if (asked[side] < 0 && mr__parse_is(p, names[k])) asked[side] = k;
  }
  if (asked[0] < 0 || asked[0] != asked[1])
    return mr__parse_fail(p, "one of DEFAULT, HIGH, HIGHEST, twice");
  *a = mr_attr_precision((mr_precision_t)(MR_PRECISION_DEFAULT + asked[0]));
  return mr__parse_want(p, ")");
}

/* Whether text is next, with any white space within. */
static bool parse_attr_opens(const mr_parser_t *p, const char *text) {
  const char *c = p->at;
  while (*text) {
    while (*c == ' ' || *c == '\n') c++;
    if (*c++ != *text++) return false;
  }
  return true;
}

static bool parse_attr_is_digit(char c) { return c >= '0' && c <= '9'; }

/* A value of any other kind, as a text: up to a space or a closing bracket outside of
   brackets. */
static mr_err_t parse_opaque(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  const char *from = p->at;
  int depth = 0;
  for (; *p->at && (depth || !strchr(" \n\t]", *p->at)); p->at++) {
    if (strchr("([{<", *p->at)) depth++;
    if (strchr(")]}>", *p->at)) depth--;
    if (depth < 0) break;
  }
  size_t n = (size_t)(p->at - from);
  if (depth || !n) return p->at = from, mr__parse_fail(p, "a value");
  char *text = mr_mem_copy(&g->mem, from, n + 1, 1);
  if (!text) return mr__parse_no_memory(p);
  text[n] = 0;
  *a = mr_attr_text(name, text);
  return MR_OK;
}

/* "(1, 2)", "((0, 1, 0), ...)", "(([1], [0]), ([], []))", "(Precision.HIGH, Precision.HIGH)" */
static mr_err_t parse_tuple(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  int64_t v[MR_ATTR_MAX];
  int n = 0;
  const char *from = p->at++;
  if (!strcmp(name, "perm")) return p->at = from, parse_opaque(p, g, name, a); /* of any length */
  if (parse_attr_opens(p, "([")) return parse_dot(p, name, a);
  if (!strcmp(name, "dimension_numbers") && parse_attr_opens(p, "((")) return parse_dot(p, name, a);
  if (parse_attr_opens(p, "Precision.")) return parse_precision(p, a);
  mr__parse_space(p);
  if (parse_attr_is_digit(*p->at) || strchr("-)(", *p->at) || !strncmp(p->at, "np.int", 6)) {
    MR_TRY(parse_ints(p, ")", MR_ATTR_MAX, &n, v));
    *a = mr_attr_ints(name, n, v);
    return MR_OK;
  }
  p->at = from;
  return parse_opaque(p, g, name, a);
}

/* "3", "-0.5", "1e-05", "np.int64(3)", "np.float32(0.5)" */
static mr_err_t parse_number(mr_parser_t *p, const char *name, mr_attr_t *a) {
  char *end_i, *end_f;
  bool wrapped = mr__parse_is(p, "np.int64(") || mr__parse_is(p, "np.int32(") ||
                 mr__parse_is(p, "np.float32(") || mr__parse_is(p, "np.float64(");
  errno = 0;
  long long i = strtoll(p->at, &end_i, 10);
  bool in_range = !errno;
  double f = mr_strtod(p->at, &end_f);
  if (end_f == p->at || (end_i == end_f && !in_range))
    return mr__parse_fail(p, "a number of 64 bits");
  *a = end_i == end_f ? mr_attr_int(name, i) : mr_attr_float(name, f);
  p->at = end_f;
  return wrapped ? mr__parse_want(p, ")") : MR_OK;
}

static const struct {
  const char *name;
  mr_dtype_t dtype;
} numpy_names[] = {{"bool", MR_BOOL},
                   {"uint8", MR_U8},
                   {"int32", MR_I32},
                   {"uint32", MR_U32},
                   {"int64", MR_I64},
                   {"uint64", MR_U64},
                   {"float16", MR_F16},
                   {"bfloat16", MR_BF16},
                   {"float32", MR_F32},
                   {"float64", MR_F64},
                   {"float8_e4m3fn", MR_F8_E4M3FN},
                   {"float8_e5m2", MR_F8_E5M2}};

/* None, True, inf, a dtype; any other value becomes a text: a name, "<lambda>", "Mode.CLIP". */
static mr_err_t parse_word(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  const char *from = p->at;
  MR_TRY(parse_opaque(p, g, name, a));
  const char *word = a->text;
  if (!strcmp(word, "None"))
    *a = mr_attr_none(name);
  else if (!strcmp(word, "True") || !strcmp(word, "False"))
    *a = mr_attr_bool(name, *word == 'T');
  else if (!strcmp(word, "inf") || !strcmp(word, "nan"))
    *a = mr_attr_float(name, mr_strtod(word, NULL));
  else
    for (size_t i = 0; i < sizeof numpy_names / sizeof *numpy_names; i++)
      if (!strcmp(word, numpy_names[i].name)) *a = mr_attr_dtype(name, numpy_names[i].dtype);
  if (a->kind == MR_ATTR_TEXT && p->at - from >= MR_PARSE_NAME * 16)
    return p->at = from, mr__parse_fail(p, "a shorter value");
  return MR_OK;
}

/* A function.  The caller destroys it (drop_called in parse.c) when the equation has its copy. */
static mr_err_t parse_function(mr_parser_t *p, const char *name, mr_attr_t *a) {
  mr_fn_t *called;
  MR_TRY(mr__parse_fn(p, &called));
  *a = mr_attr_fn(name, called);
  return MR_OK;
}

/* "{ lambda ... } f { lambda ... })": the functions of a tuple, after its opening bracket. */
static mr_err_t parse_branches(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  const mr_fn_t **fns = mr_mem_take(&g->mem, MOST_BRANCHES * sizeof(mr_fn_t *));
  mr_err_t err = fns ? MR_OK : mr__parse_no_memory(p);
  int n = 0;
  while (err >= 0 && !mr__parse_is(p, ")")) {
    err = n < MOST_BRANCHES ? mr__parse_fn(p, (mr_fn_t **)(uintptr_t)&fns[n])
                            : mr__parse_fail(p, "fewer functions");
    n += err >= 0;
  }
  if (err >= 0) {
    *a = mr_attr_fns(name, n, fns);
    return MR_OK;
  }
  while (n > 0) mr_fn_destroy((mr_fn_t *)(uintptr_t)fns[--n]);
  return err;
}

static bool at_function(mr_parser_t *p) {
  mr__parse_space(p);
  return *p->at == '{' || mr__parse_at_let(p);
}

/* Whether an attribute of that name holds a function.  The value alone does not show it, as a
   text may have the same name as a function. */
static bool holds_function(const char *name) {
  size_t n = strlen(name);
  return n >= 5 && !strcmp(name + n - 5, "jaxpr");
}

mr_err_t mr__parse_attr(mr_parser_t *p, mr_fn_t *g, mr_attr_t *a) {
  char word[MR_PARSE_NAME];
  MR_TRY(mr__parse_name(p, word));
  MR_TRY(mr__parse_want(p, "="));
  const char *name = mr_mem_text(&g->mem, word);
  if (!name) return mr__parse_no_memory(p);
  mr__parse_space(p);
  if (*p->at == '{' || (holds_function(name) && at_function(p))) return parse_function(p, name, a);
  if (*p->at == '(') {
    const char *here = p->at++;
    if (at_function(p)) return parse_branches(p, g, name, a);
    p->at = here;
    return parse_tuple(p, g, name, a);
  }
  bool number = parse_attr_is_digit(*p->at) || *p->at == '-' || !strncmp(p->at, "np.", 3);
  return number ? parse_number(p, name, a) : parse_word(p, g, name, a);
}
