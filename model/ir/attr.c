/* Attributes of equations: their constructors, and how each kind is printed in a jaxpr.  The text
   is JAX's own, down to the comma of a tuple of one, because the printed graphs are compared with
   JAX's and read back by parse/. */
#include "model/ir/attr.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/ir/fn.h"

mr_attr_t mr_attr_int(const char *name, int64_t v) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_INT, .n = 1, .i = {v}};
}

mr_attr_t mr_attr_ints(const char *name, int n, const int64_t *v) {
  mr_attr_t a = {.name = name, .kind = MR_ATTR_INTS, .n = n < MR_ATTR_MAX ? n : MR_ATTR_MAX};
  for (int k = 0; k < a.n; k++) a.i[k] = v[k];
  return a;
}

mr_attr_t mr_attr_axes(const char *name, int n, const int *v) {
  int64_t wide[MR_ATTR_MAX];
  for (int k = 0; k < n && k < MR_ATTR_MAX; k++) wide[k] = v[k];
  return mr_attr_ints(name, n, wide);
}

mr_attr_t mr_attr_float(const char *name, double v) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_FLOAT, .f = v};
}

mr_attr_t mr_attr_bool(const char *name, bool v) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_BOOL, .n = 1, .i = {v}};
}

mr_attr_t mr_attr_dtype(const char *name, mr_dtype_t v) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_DTYPE, .n = 1, .i = {(int64_t)v}};
}

mr_attr_t mr_attr_text(const char *name, const char *v) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_TEXT, .text = v};
}

mr_attr_t mr_attr_fn(const char *name, const struct mr_fn *fn) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_FN, .fn = fn};
}

mr_attr_t mr_attr_precision(mr_precision_t p) {
  return (mr_attr_t){.name = "precision", .kind = MR_ATTR_PRECISION, .n = 1, .i = {(int64_t)p}};
}

mr_attr_t mr_attr_fns(const char *name, int n, const struct mr_fn *const *fns) {
  return (mr_attr_t){.name = name, .kind = MR_ATTR_FNS, .n = n, .fns = fns};
}

int mr_attr_calls(const mr_attr_t *a, const struct mr_fn *const **fns) {
  *fns = a->kind == MR_ATTR_FN ? &a->fn : a->fns;
  return a->kind == MR_ATTR_FN ? 1 : a->kind == MR_ATTR_FNS ? a->n : 0;
}

mr_attr_t mr_attr_none(const char *name) { return (mr_attr_t){.name = name, .kind = MR_ATTR_NONE}; }

mr_attr_t mr_attr_hide(mr_attr_t a) {
  a.hidden = true;
  return a;
}

static bool attr_same_text(const char *a, const char *b) {
  return a == b || (a && b && !strcmp(a, b));
}

bool mr_attr_same(const mr_attr_t *a, const mr_attr_t *b) {
  return !strcmp(a->name, b->name) && a->kind == b->kind && a->n == b->n &&
         !memcmp(a->i, b->i, sizeof a->i) && !memcmp(&a->f, &b->f, sizeof a->f) &&
         attr_same_text(a->text, b->text) && a->fn == b->fn && a->fns == b->fns;
}

mr_attr_t mr_attr_dot(const char *name, const mr_dot_dims_t *d) {
  assert(2 + 2 * (d->n_contract + d->n_batch) <= MR_ATTR_MAX);
  mr_attr_t a = {.name = name, .kind = MR_ATTR_DOT, .n = 2};
  a.i[0] = d->n_contract;
  a.i[1] = d->n_batch;
  for (int k = 0; k < d->n_contract; k++) a.i[a.n++] = d->lhs_contract[k];
  for (int k = 0; k < d->n_contract; k++) a.i[a.n++] = d->rhs_contract[k];
  for (int k = 0; k < d->n_batch; k++) a.i[a.n++] = d->lhs_batch[k];
  for (int k = 0; k < d->n_batch; k++) a.i[a.n++] = d->rhs_batch[k];
  return a;
}

mr_dot_dims_t mr_attr_as_dot(const mr_attr_t *a) {
  assert(a->kind == MR_ATTR_DOT);
  mr_dot_dims_t d = {.n_contract = (int)a->i[0], .n_batch = (int)a->i[1]};
  const int64_t *at = a->i + 2;
  for (int k = 0; k < d.n_contract; k++) d.lhs_contract[k] = (int)*at++;
  for (int k = 0; k < d.n_contract; k++) d.rhs_contract[k] = (int)*at++;
  for (int k = 0; k < d.n_batch; k++) d.lhs_batch[k] = (int)*at++;
  for (int k = 0; k < d.n_batch; k++) d.rhs_batch[k] = (int)*at++;
  return d;
}

void mr_print_float(double v, FILE *to) {
  if (isinf(v) || isnan(v)) {
    fputs(isnan(v) ? "nan" : v < 0 ? "-inf" : "inf", to);
    return;
  }
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    mr_snprintf(text, sizeof text, "%.*g", digits, v);
    if (mr_strtod(text, NULL) == v) break;
  }
  if (fabs(v) >= 1 && fabs(v) < 1e16 && strchr(text, 'e'))
    mr_snprintf(text, sizeof text, "%.1f", v); /* Python writes exponents from 1e16 on */
  fputs(text, to);
  if (!strpbrk(text, ".e")) fputs(".0", to);
}

static const char *numpy_name(mr_dtype_t t) {
  switch (t) {
    case MR_BOOL: return "bool";
    case MR_U8: return "uint8";
    case MR_I32: return "int32";
    case MR_U32: return "uint32";
    case MR_I64: return "int64";
    case MR_U64: return "uint64";
    case MR_BF16: return "bfloat16";
    case MR_F16: return "float16";
    case MR_F32: return "float32";
    case MR_F64: return "float64";
    case MR_F8_E4M3FN: return "float8_e4m3fn";
    case MR_F8_E5M2: return "float8_e5m2";
    case MR_DTYPE_COUNT: break;
  }
  return "?";
}

static const int64_t *print_list(const int64_t *v, int64_t n, FILE *to) {
  fputc('[', to);
  for (int64_t k = 0; k < n; k++) fprintf(to, k ? ", %lld" : "%lld", (long long)v[k]);
  fputc(']', to);
  return v + n;
}

static void print_dot(const mr_attr_t *a, FILE *to) {
  fputs("((", to);
  const int64_t *at = print_list(a->i + 2, a->i[0], to);
  fputs(", ", to);
  at = print_list(at, a->i[0], to);
  fputs("), (", to);
  at = print_list(at, a->i[1], to);
  fputs(", ", to);
  print_list(at, a->i[1], to);
  fputs("))", to);
}

/* jax prints the precision of each operand; here both always have the same. */
static void print_precision(const mr_attr_t *a, FILE *to) {
  static const char *const names[] = {"None", "Precision.DEFAULT", "Precision.HIGH",
                                      "Precision.HIGHEST"};
  fprintf(to, "(%s, %s)", names[a->i[0]], names[a->i[0]]);
}

static void print_tuple(const mr_attr_t *a, FILE *to) {
  fputc('(', to);
  for (int k = 0; k < a->n; k++) fprintf(to, k ? ", %lld" : "%lld", (long long)a->i[k]);
  fputs(a->n == 1 ? ",)" : ")", to);
}

void mr_attr_print(const mr_attr_t *a, FILE *to) {
  fprintf(to, "%s=", a->name);
  switch (a->kind) {
    case MR_ATTR_INT: fprintf(to, "%lld", (long long)a->i[0]); break;
    case MR_ATTR_INTS: print_tuple(a, to); break;
    case MR_ATTR_FLOAT: mr_print_float(a->f, to); break;
    case MR_ATTR_BOOL: fputs(a->i[0] ? "True" : "False", to); break;
    case MR_ATTR_DTYPE: fputs(numpy_name((mr_dtype_t)a->i[0]), to); break;
    case MR_ATTR_TEXT: fputs(a->text, to); break;
    case MR_ATTR_NONE: fputs("None", to); break;
    case MR_ATTR_DOT: print_dot(a, to); break;
    case MR_ATTR_PRECISION: print_precision(a, to); break;
    case MR_ATTR_FN:
    case MR_ATTR_FNS: fputs("...", to); break;
  }
}
