/* What backends need from ops beyond an equation's avals and attributes: the roles and sizes of its
   operands, the addition that sums share, and the cost.

   Each function but mr_cost_of is implemented in the file of its op and takes an equation that the
   op's shape rule has accepted.  None fails, allocates or blocks; any thread may call them. */
#ifndef MR_MODEL_OPS_OPERANDS_H
#define MR_MODEL_OPS_OPERANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "model/ir/aval.h"

MR_BEGIN_DECLS

struct mr_eqn;
struct mr_fn;
struct mr_var;

/* ---- arithmetic ---- */
/* Each returns a + b; i2 wraps. */
float mr__add_f2(float a, float b);
double mr__add_d2(double a, double b);
int64_t mr__add_i2(int64_t a, int64_t b);

/* ---- dot_general ---- */
/* Dimensions of one operand; batch and contract pair with the other operand's in order, free
   ascend. */
typedef struct mr_side {
  int n_batch, n_free, n_contract;
  int batch[MR_MAX_NDIM], free[MR_MAX_NDIM], contract[MR_MAX_NDIM];
} mr_side_t;

/* Sets *a and *b for the operands of e, a dot_general.  Of any product: mr_op_def.fuse.sides. */
void mr__dot_sides(const struct mr_eqn *e, mr_side_t *a, mr_side_t *b);

/* ---- reduce_sum, reduce_max ---- */
unsigned mr__reduce_mask(const struct mr_eqn *e); /* returns bit i set if dimension i is reduced */
/* Sets [*first,*end) to the range of x's reduced dimensions, without regard to dimensions of size
   1.  false if a dimension that is not reduced lies between them, or if none is reduced. */
bool mr__reduce_range(const mr_aval_t *x, unsigned mask, int *first, int *end);

/* ---- take, take_vjp ---- */
/* Products of sizes: x (batch..., n, row...), index (batch..., at...), y (batch..., at...,
   row...). */
typedef struct mr_take_sizes {
  int64_t batch, n, at, row;
} mr_take_sizes_t;

/* Returns the sizes of e; x is the aval that rows are taken from, or added to. */
mr_take_sizes_t mr__take_sizes(const struct mr_eqn *e, const mr_aval_t *x);

/* ---- gelu, gelu_vjp ---- */
/* x Phi(x): by tanh's approximation (Hendrycks and Gimpel, 2016), or exactly. */
typedef enum mr_gelu { MR_GELU_TANH, MR_GELU_ERF } mr_gelu_t;

mr_gelu_t mr__gelu_kind(const struct mr_eqn *e); /* returns e's kind */

/* ---- attention, attention_vjp ---- */
/* q, k, v are (B,T,H,D) each, or side by side in one (B,T,3,H,D). */
typedef struct mr_attention_sizes {
  int64_t B, T, H, D;
  bool packed;
  bool backward; /* of attention_vjp */
} mr_attention_sizes_t;

bool mr__is_attention(const struct mr_eqn *e); /* returns whether e is one of the two */

mr_attention_sizes_t mr__attention_sizes(
    const struct mr_eqn *e); /* returns those of e's operands */

/* ---- convert_element_type, broadcast_in_dim, fused ---- */
bool mr__is_conversion(const struct mr_eqn *e); /* returns whether e converts between dtypes */
/* Returns the value whose elements v repeats, through any number of broadcasts; v if it repeats
   none.  It belongs to v's graph. */
const struct mr_var *mr__repeated(const struct mr_var *v);
/* Returns the body of a fused loop, which belongs to e; NULL if e is none. */
const struct mr_fn *mr__loop_body(const struct mr_eqn *e);

/* ---- draws by key ---- */
int64_t mr__key_count(const struct mr_eqn *e); /* returns the number of keys in operand 0 */

/* ---- cost: arithmetic and memory traffic on any backend, from the avals alone (cost.c) ---- */
typedef struct mr_cost {
  double flop;  /* additions and multiplications; a fused multiply-add counts as two */
  double bytes; /* each distinct operand read once, each result written once */
  bool product; /* matrix products: limited by arithmetic where their operands fit a cache */
} mr_cost_t;

/* Returns the cost of e by its op's fields flop, body, moves or flop_each (op.h); without them, one
   operation for each element of the largest operand or result.  Cannot fail. */
mr_cost_t mr_cost_of(const struct mr_eqn *e);

MR_END_DECLS

#endif
