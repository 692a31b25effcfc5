/* A graph as text of Python: functions of calls op(name, operands, results, attributes), which
   tests/model/random_programs_jax.py gives a meaning. */
#ifndef MR_TESTS_MODEL_PYTHON_TEXT_H
#define MR_TESTS_MODEL_PYTHON_TEXT_H

#include <math.h>
#include <stdio.h>

#include "model/model.h"
#include "model/ops/rules.h"

static inline void python_list(FILE *to, const int64_t *v, int n) {
  fputc('(', to);
  for (int k = 0; k < n; k++) fprintf(to, "%lld, ", (long long)v[k]);
  fputc(')', to);
}

static inline void python_number(FILE *to, double v) {
  fprintf(to, isnan(v) ? "nan" : isinf(v) ? (v < 0 ? "-inf" : "inf") : "%.17g", v);
}

static inline void python_aval(FILE *to, const mr_aval_t *a) {
  fprintf(to, "('%s', ", mr_dtype_name(a->dtype));
  python_list(to, a->dim, a->ndim);
  fputs("), ", to);
}

static inline void python_var(FILE *to, const mr_var_t *v) {
  if (!v->literal) {
    fprintf(to, "v%d, ", v->id);
    return;
  }
  fputs("const(", to);
  python_number(to, v->value);
  fprintf(to, ", '%s'), ", mr_dtype_name(v->aval.dtype));
}

static inline void python_ints(FILE *to, const int *v, int n) {
  int64_t wide[MR_MAX_NDIM];
  for (int k = 0; k < n; k++) wide[k] = v[k];
  python_list(to, wide, n);
}

static inline void python_dot(FILE *to, const mr_attr_t *a) {
  mr_dot_dims_t d = mr_attr_as_dot(a);
  fputs("((", to);
  python_ints(to, d.lhs_contract, d.n_contract), fputs(", ", to);
  python_ints(to, d.rhs_contract, d.n_contract), fputs("), (", to);
  python_ints(to, d.lhs_batch, d.n_batch), fputs(", ", to);
  python_ints(to, d.rhs_batch, d.n_batch), fputs("))", to);
}

/* Functions are named after the equation i and the attribute. */
static inline void python_attr(FILE *to, const mr_attr_t *a, int i) {
  const mr_fn_t *const *fns;
  int n = mr_attr_calls(a, &fns);
  fprintf(to, "%s=", a->name);
  switch (a->kind) {
    case MR_ATTR_FN: fprintf(to, "f%d_%s_0", i, a->name); break;
    case MR_ATTR_FNS:
      fputc('(', to);
      for (int k = 0; k < n; k++) fprintf(to, "f%d_%s_%d, ", i, a->name, k);
      fputc(')', to);
      break;
    case MR_ATTR_INT: fprintf(to, "%lld", (long long)a->i[0]); break;
    case MR_ATTR_BOOL: fputs(a->i[0] ? "True" : "False", to); break;
    case MR_ATTR_INTS: python_list(to, a->i, a->n); break;
    case MR_ATTR_FLOAT: python_number(to, a->f); break;
    case MR_ATTR_TEXT: fprintf(to, "'%s'", a->text); break;
    case MR_ATTR_DTYPE: fprintf(to, "'%s'", mr_dtype_name((mr_dtype_t)a->i[0])); break;
    case MR_ATTR_DOT: python_dot(to, a); break;
    default: fputs("None", to); break;
  }
  fputs(", ", to);
}

static inline void python_fn(FILE *to, const mr_fn_t *f, const char *name, int indent);

static inline void python_eqn(FILE *to, const mr_eqn_t *e, int i, int indent) {
  for (int k = 0; k < e->n_attr; k++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&e->attr[k], &fns);
    for (int j = 0; j < n; j++) {
      char name[96];
      snprintf(name, sizeof name, "f%d_%s_%d", i, e->attr[k].name, j);
      python_fn(to, fns[j], name, indent);
    }
  }
  fprintf(to, "%*s(", indent, "");
  for (int k = 0; k < e->n_out; k++) python_var(to, e->out[k]);
  fprintf(to, ") = op('%s', (", e->op->name);
  for (int k = 0; k < e->n_in; k++) python_var(to, e->in[k]);
  fputs("), (", to);
  for (int k = 0; k < e->n_out; k++) python_aval(to, &e->out[k]->aval);
  fputs("), ", to);
  for (int k = 0; k < e->n_attr; k++) python_attr(to, &e->attr[k], i);
  fputs(")\n", to);
}

/* def name(...), whose body takes no value of what stands around it. */
static inline void python_fn(FILE *to, const mr_fn_t *f, const char *name, int indent) {
  fprintf(to, "%*sdef %s(", indent, "", name);
  for (int i = 0; i < f->n_in; i++) python_var(to, f->in[i]);
  fputs("):\n", to);
  for (int i = 0; i < f->n_eqn; i++) python_eqn(to, f->eqn[i], i, indent + 1);
  fprintf(to, "%*sreturn (", indent + 1, "");
  for (int i = 0; i < f->n_out; i++) python_var(to, f->out[i]);
  fputs(")\n", to);
}

/* name = [(dtype, shape, [numbers]), ...] */
static inline void python_values(FILE *to, const char *name, int n, mr_var_t *const *v,
                                 double *const *at) {
  fprintf(to, "%s = [", name);
  for (int i = 0; i < n; i++) {
    fputs("(", to);
    python_aval(to, &v[i]->aval);
    fputs("[", to);
    for (int64_t k = 0; k < mr_aval_elems(&v[i]->aval); k++)
      python_number(to, at[i][k]), fputs(", ", to);
    fputs("]), ", to);
  }
  fputs("]\n", to);
}

#endif
