#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "model/ir/parse_private.h"

#define MOST_BRANCHES 64

/* "(1, 2)", "(1,)", "[1, 2]": at most MR_MAX_NDIM integers up to the closing bracket. */
static mr_err_t parse_ints(mr_parser_t *p, const char *close, int *n, int64_t *v) {
  for (*n = 0; !mr__parse_is(p, close); ++*n) {
    if (*n == MR_MAX_NDIM) return mr__parse_fail(p, "at most 8 integers");
    MR_TRY(mr__parse_int(p, &v[*n]));
    if (!mr__parse_is(p, ",")) {
      ++*n;
      return mr__parse_want(p, close);
    }
  }
  return MR_OK;
}

static mr_err_t parse_pair(mr_parser_t *p, int *n, int *lhs, int *rhs) {
  int64_t v[2][MR_MAX_NDIM];
  int other;
  MR_TRY(mr__parse_want(p, "("));
  MR_TRY(mr__parse_want(p, "["));
  MR_TRY(parse_ints(p, "]", n, v[0]));
  MR_TRY(mr__parse_want(p, ","));
  MR_TRY(mr__parse_want(p, "["));
  MR_TRY(parse_ints(p, "]", &other, v[1]));
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

/* "Precision.HIGH, Precision.HIGH)": both operands alike. */
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

static mr_err_t parse_tuple(mr_parser_t *p, const char *name, mr_attr_t *a) {
  int64_t v[MR_MAX_NDIM];
  int n;
  mr__parse_space(p);
  if (*p->at == '(') return parse_dot(p, name, a);
  if (*p->at == 'P') return parse_precision(p, a);
  MR_TRY(parse_ints(p, ")", &n, v));
  *a = mr_attr_ints(name, n, v);
  return MR_OK;
}

static mr_err_t parse_number(mr_parser_t *p, const char *name, mr_attr_t *a) {
  char *end_i, *end_f;
  long long i = strtoll(p->at, &end_i, 10);
  double f = mr_strtod(p->at, &end_f);
  if (end_f == p->at) return mr__parse_fail(p, "a value");
  *a = end_i == end_f ? mr_attr_int(name, i) : mr_attr_float(name, f);
  p->at = end_f;
  return MR_OK;
}

static const struct {
  const char *name;
  mr_dtype_t dtype;
} numpy_names[] = {{"bool", MR_BOOL},   {"uint8", MR_U8},      {"int32", MR_I32},
                   {"uint32", MR_U32},  {"int64", MR_I64},     {"uint64", MR_U64},
                   {"float16", MR_F16}, {"bfloat16", MR_BF16}, {"float32", MR_F32},
                   {"float64", MR_F64}};

static mr_err_t parse_word(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  char word[MR_PARSE_NAME];
  bool nameless = *p->at == '<'; /* "<lambda>" */
  if (nameless) p->at++;
  MR_TRY(mr__parse_name(p, word));
  if (nameless) {
    MR_TRY(mr__parse_want(p, ">"));
    *a = mr_attr_text(name, mr_mem_text(&g->mem, "<lambda>"));
    return strcmp(word, "lambda") ? mr__parse_fail(p, "<lambda> before") : MR_OK;
  }
  if (!strcmp(word, "None"))
    *a = mr_attr_none(name);
  else if (!strcmp(word, "True") || !strcmp(word, "False"))
    *a = mr_attr_bool(name, *word == 'T');
  else if (!strcmp(word, "inf") || !strcmp(word, "nan"))
    *a = mr_attr_float(name, mr_strtod(word, NULL));
  else
    *a = mr_attr_text(name, mr_mem_text(&g->mem, word));
  for (size_t i = 0; i < sizeof numpy_names / sizeof *numpy_names; i++)
    if (!strcmp(word, numpy_names[i].name)) *a = mr_attr_dtype(name, numpy_names[i].dtype);
  return MR_OK;
}

/* The function that an attribute holds lives with g until the equation has taken its copy. */
static mr_err_t parse_called(mr_parser_t *p, const char *name, mr_attr_t *a) {
  mr_fn_t *called;
  if (p->depth == MR_PARSE_DEPTH) return mr__parse_fail(p, "functions nested less deeply");
  p->depth++;
  MR_TRY(mr__parse_fn(p, &called));
  p->depth--;
  *a = mr_attr_fn(name, called);
  return MR_OK;
}

/* "({ lambda ... } { lambda ... })" */
static mr_err_t parse_branches(mr_parser_t *p, mr_fn_t *g, const char *name, mr_attr_t *a) {
  const mr_fn_t **fns = mr_mem_take(&g->mem, MOST_BRANCHES * sizeof(mr_fn_t *));
  mr_err_t err = MR_OK;
  int n = 0;
  if (p->depth == MR_PARSE_DEPTH) return mr__parse_fail(p, "functions nested less deeply");
  p->depth++;
  while (err >= 0 && !mr__parse_is(p, ")")) {
    err = n < MOST_BRANCHES ? mr__parse_fn(p, (mr_fn_t **)(uintptr_t)&fns[n])
                            : mr__parse_fail(p, "fewer functions");
    n += err >= 0;
  }
  p->depth--;
  if (err >= 0) {
    *a = mr_attr_fns(name, n, fns);
    return MR_OK;
  }
  while (n > 0) mr_fn_destroy((mr_fn_t *)(uintptr_t)fns[--n]);
  return err;
}

mr_err_t mr__parse_attr(mr_parser_t *p, mr_fn_t *g, mr_attr_t *a) {
  char word[MR_PARSE_NAME];
  MR_TRY(mr__parse_name(p, word));
  MR_TRY(mr__parse_want(p, "="));
  const char *name = mr_mem_text(&g->mem, word);
  mr__parse_space(p);
  if (*p->at == '{') return parse_called(p, name, a);
  if (*p->at == '(') {
    p->at++;
    mr__parse_space(p);
    if (*p->at == '{') return parse_branches(p, g, name, a);
    return parse_tuple(p, name, a);
  }
  bool number = isdigit((unsigned char)*p->at) || *p->at == '-';
  return number ? parse_number(p, name, a) : parse_word(p, g, name, a);
}
