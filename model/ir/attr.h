/* Attributes of an equation: named constants that its op reads, printed as in a jaxpr.

   An mr_attr_t is a plain value.  It borrows its name, text and functions: they must outlive it or,
   once mr_emit has taken it, the fn that holds the equation, except functions, which mr_emit
   copies.  Nothing here allocates, blocks or fails, and any thread may call it. */
#ifndef MR_MODEL_IR_ATTR_H
#define MR_MODEL_IR_ATTR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "model/ir/defaults.h"

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
  MR_ATTR_FNS        /* fns[n]: functions; the op calls one of them */
} mr_attr_kind_t;

#define MR_ATTR_MAX 24

typedef struct mr_attr {
  const char *name; /* static, or lives as long as the fn */
  mr_attr_kind_t kind;
  bool hidden; /* not printed; for attributes that jax does not print either */
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

/* Each returns an attribute of that name and value and cannot fail.  Its name and text are the
   caller's pointers; copying the equation into another fn copies them.

   ints, axes: v[n] is copied, at most its first MR_ATTR_MAX numbers, which is more than any shape
   has.  A negative n stays negative, so that mr_emit refuses it by the op's name.
   fn, fns (n >= 0): the functions are not copied here; the equation that takes the attribute owns
   copies of them.
   precision: named "precision".
   none: Python's None.
   dot: d->n_contract and d->n_batch are >= 0 and at most 8 together. */
mr_attr_t mr_attr_int(const char *name, int64_t v);
mr_attr_t mr_attr_ints(const char *name, int n, const int64_t *v);
mr_attr_t mr_attr_axes(const char *name, int n, const int *v);
mr_attr_t mr_attr_float(const char *name, double v);
mr_attr_t mr_attr_bool(const char *name, bool v);
mr_attr_t mr_attr_dtype(const char *name, mr_dtype_t v);
mr_attr_t mr_attr_text(const char *name, const char *v);
mr_attr_t mr_attr_fn(const char *name, const struct mr_fn *fn);
mr_attr_t mr_attr_precision(mr_precision_t p);
mr_attr_t mr_attr_fns(const char *name, int n, const struct mr_fn *const *fns);

/* Returns the number of functions that a holds, 0 unless it is an MR_ATTR_FN or MR_ATTR_FNS, and
   points *fns at them.  They belong to a (of an FN, *fns points into *a itself). */
int mr_attr_calls(const mr_attr_t *a, const struct mr_fn *const **fns);

/* Two more constructors; they return their attribute as those above do. */
mr_attr_t mr_attr_none(const char *name);
mr_attr_t mr_attr_dot(const char *name, const mr_dot_dims_t *d);
/* Returns the dimension numbers that mr_attr_dot was given; a must be an MR_ATTR_DOT (asserted). */
mr_dot_dims_t mr_attr_as_dot(const mr_attr_t *a);
/* Returns a copy of a that is not printed; cannot fail. */
mr_attr_t mr_attr_hide(mr_attr_t a);

/* Whether two attributes have one name and one value, floats compared by their bits.  Functions are
   the same only if they are one. */
bool mr_attr_same(const mr_attr_t *a, const mr_attr_t *b);

/* Writes "name=value" as jax does.  Functions are written as "...": their text depends on the names
   of the values around them (mr_fn_print).  Write errors are left in `to`. */
void mr_attr_print(const mr_attr_t *a, FILE *to);
/* Writes v as Python's repr does: the fewest digits that read back the same. */
void mr_print_float(double v, FILE *to);

MR_END_DECLS

#endif
