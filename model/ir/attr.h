/* Attributes of an equation: named constants that its op reads, printed as in a jaxpr. */
#ifndef MR_MODEL_IR_ATTR_H
#define MR_MODEL_IR_ATTR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "model/ir/precision.h"

MR_BEGIN_DECLS

typedef enum mr_attr_kind {
  MR_ATTR_INT,       /* i[0] */
  MR_ATTR_INTS,      /* i[0,n), printed as a tuple */
  MR_ATTR_FLOAT,     /* f */
  MR_ATTR_BOOL,      /* i[0] */
  MR_ATTR_DTYPE,     /* i[0] is an mr_dtype_t */
  MR_ATTR_TEXT,      /* text */
  MR_ATTR_NONE,      /* None */
  MR_ATTR_DOT,       /* dimension numbers of a product: four lists, see mr_attr_dot */
  MR_ATTR_PRECISION, /* i[0] is an mr_precision_t, of both operands */
  MR_ATTR_FN,        /* fn: a function that the op calls */
  MR_ATTR_FNS        /* fns[n]: functions of which it calls one */
} mr_attr_kind_t;

#define MR_ATTR_MAX 24

typedef struct mr_attr {
  const char *name; /* lives as long as the program or the fn */
  mr_attr_kind_t kind;
  bool hidden; /* not printed (what jax does not print either) */
  int n;
  int64_t i[MR_ATTR_MAX];
  double f;
  const char *text;
  const struct mr_fn *fn;
  const struct mr_fn *const *fns;
} mr_attr_t;

/* Dimension numbers of dot_general: contracted and batch dimensions of both sides. */
typedef struct mr_dot_dims {
  int n_contract, n_batch;
  int lhs_contract[MR_MAX_NDIM], rhs_contract[MR_MAX_NDIM];
  int lhs_batch[MR_MAX_NDIM], rhs_batch[MR_MAX_NDIM];
} mr_dot_dims_t;

/* Attributes by value; name and text are kept, not copied (an equation's own are, when it is copied
   into another fn).  None fails. */
mr_attr_t mr_attr_int(const char *name, int64_t v);
/* At most MR_ATTR_MAX of them, which is more than any shape has.  A negative n stays: mr_emit
   refuses it by the op's name. */
mr_attr_t mr_attr_ints(const char *name, int n, const int64_t *v);
mr_attr_t mr_attr_axes(const char *name, int n, const int *v);
mr_attr_t mr_attr_float(const char *name, double v);
mr_attr_t mr_attr_bool(const char *name, bool v);
mr_attr_t mr_attr_dtype(const char *name, mr_dtype_t v);
mr_attr_t mr_attr_text(const char *name, const char *v);
/* The equation that takes the attribute keeps a copy of fn. */
mr_attr_t mr_attr_fn(const char *name, const struct mr_fn *fn);
mr_attr_t mr_attr_precision(mr_precision_t p); /* named "precision" */
/* The same of n >= 0 functions. */
mr_attr_t mr_attr_fns(const char *name, int n, const struct mr_fn *const *fns);
/* How many functions the attribute holds, and where they stand: [n]. */
int mr_attr_calls(const mr_attr_t *a, const struct mr_fn *const **fns);
mr_attr_t mr_attr_none(const char *name); /* Python's None */
/* n_contract + n_batch <= 8 */
mr_attr_t mr_attr_dot(const char *name, const mr_dot_dims_t *d);
/* What mr_attr_dot was given; a of MR_ATTR_DOT. */
mr_dot_dims_t mr_attr_as_dot(const mr_attr_t *a);
/* a, but not printed. */
mr_attr_t mr_attr_hide(mr_attr_t a);

/* Writes "name=value" as jax does; functions, which need the names around them, as "..." */
void mr_attr_print(const mr_attr_t *a, FILE *to);
/* A number as Python's repr writes a float: the shortest that reads back the same. */
void mr_print_float(double v, FILE *to);

MR_END_DECLS

#endif
