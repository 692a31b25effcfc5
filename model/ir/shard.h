/* How an op may be cut over several devices, as data: each dimension of its operands and results is
   a product of factors, outermost first, and each factor says what becomes of a cut along it.

   A cut of a factor of size n into p parts gives each device n / p of its places; operands and
   results that have the factor are cut, the others are not.  A dimension that is two factors, say 3
   and H, can be cut along the inner one: each device then holds its share of H for all of the 3.

       dot_general of (a b c) and (c d): a EACH, b EACH, c SUM, d EACH -> (a b d)

   An op's rule (mr_op_def.shard.rule) fills a table for one equation.  What it leaves out is WHOLE.
 */
#ifndef MR_MODEL_IR_SHARD_H
#define MR_MODEL_IR_SHARD_H

#include "base/decls.h"
#include "model/ir/fn.h"

MR_BEGIN_DECLS

/* What each device has, if it computes the op on its parts of the operands alone:
   of results that have the factor, its own part of what the whole op computes, to the bit unless
   the op sums (a table with a factor of SUM, or a product), as the order of its terms may depend on
   sizes; of results that lack it, as the kind says. */
typedef enum mr_cut {
  MR_CUT_WHOLE, /* never cut: a part's result depends on the other parts */
  MR_CUT_EACH,  /* rows, batch, heads: the whole result */
  MR_CUT_SUM,   /* contracted: a term, the result is the sum over the parts */
  MR_CUT_MAX    /* the result is the maximum over the parts */
} mr_cut_t;

typedef struct mr_factor {
  int64_t size; /* >= 1; 0 only for a dimension of size 0 */
  mr_cut_t cut;
} mr_factor_t;

/* A dimension: the factors [n] whose product it is, by their numbers, outermost first; a dimension
   of size 1 may have none. */
typedef struct mr_dim_factors {
  int n, of[MR_MAX_NDIM + 1];
} mr_dim_factors_t;

/* The table of one equation. */
typedef struct mr_factors {
  int n, max; /* factors in the table, and those it has room for */
  mr_factor_t *factor;
  int n_in, n_out;                                          /* of the equation */
  mr_dim_factors_t (*in)[MR_MAX_NDIM], (*out)[MR_MAX_NDIM]; /* [n_in], [n_out] */
  const char *fault; /* static: the first call that did not fit the table; NULL: none */
} mr_factors_t;

/* Fills s, whose tables hold no factor yet, with those that may be cut, by the calls below.
   MR_OK; MR_OPEN: only e's open form may be cut; MR_ERR_NORULE, with a sentence in diag. */
typedef mr_err_t mr_shard_rule(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag);

/* The group `shard` of an op's constant. */
typedef struct mr_op_shard {
  mr_shard_rule *rule; /* mr_no_shard (ops/shard.h): it has none */
  /* The attribute with the sizes of result 0, which a part replaces by its own; NULL: none.  from:
     the attribute with the places from which those sizes are counted (a slice's), multiples of them
     where they are cut, and of a part's sizes then; NULL: 0. */
  const char *sizes, *from;
  mr_cut_t folds; /* of a reduction: how its parts are joined, SUM or MAX */
  /* Linear in all operands together: if each operand is a term of a sum, the result is one. */
  bool linear;
} mr_op_shard_t;

/* For rules.  add: returns the number of a new factor of that size; a table has room for one factor
   for each dimension of each operand and result, and two more.  in, out: factor k becomes the next
   one, inwards, of dimension d of operand or result i; a dimension has at most MR_MAX_NDIM.  A call
   that does not fit (no room, a size < 0, no such factor, operand, result or dimension) changes
   nothing but fault, with which mr_factors_of fails; add then returns -1. */
int mr_factor_add(mr_factors_t *s, int64_t size, mr_cut_t cut);
void mr_factor_in(mr_factors_t *s, int i, int d, int k);
void mr_factor_out(mr_factors_t *s, int i, int d, int k);

/* Sets *s to e's table by its op's rule, complete: what no factor of the rule covers is a WHOLE
   factor of its own.  MR_OK: the caller ends it with mr_factors_fini.  Else *s is empty: MR_OPEN,
   or with a sentence in diag MR_ERR_NORULE, MR_ERR_NOMEM, or MR_ERR_CONFIG: the rule, such as a
   plug-in's, is wrong (a fault, or factors whose product does not divide their dimension).  Any
   thread. */
mr_err_t mr_factors_of(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag);
void mr_factors_fini(mr_factors_t *s);

/* Returns the aval of a device's part of a value a with the dimensions dim[a->ndim], if factor k is
   cut into parts[k] >= 1 parts. */
mr_aval_t mr_part_aval(const mr_aval_t *a, const mr_factors_t *s, const mr_dim_factors_t *dim,
                       const int64_t *parts);
/* Appends e on a device's parts in[e->n_in] of its operands to f, and returns the equation, owned
   by f.  parts[s->n]: into how many each factor is cut.  NULL on mr_emit's failures, and with
   MR_ERR_SHAPE if a factor is WHOLE or does not divide; the sentence is in f->diag. */
mr_eqn_t *mr_emit_part(mr_fn_t *f, const mr_eqn_t *e, const mr_factors_t *s, const int64_t *parts,
                       mr_var_t *const *in);

/* Writes the table into the caller's out[size] and returns out: "ab, bc -> ac | b SUM": a letter
   for each factor that may be cut, . for what is WHOLE, () for a dimension of several or none, and
   the factors that are not EACH behind the bar. */
const char *mr_factors_text(const mr_eqn_t *e, const mr_factors_t *s, char *out, size_t size);

MR_END_DECLS

#endif
