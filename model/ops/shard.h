/* Shard rules that several ops share, and the parts of which an op's own rule consists
   (ir/shard.h). A rule names what may be cut; the rest is WHOLE.  Each sets s and returns MR_OK,
   unless its line says otherwise. */
#ifndef MR_MODEL_OPS_SHARD_H
#define MR_MODEL_OPS_SHARD_H

#include "base/decls.h"
#include "model/ir/op.h"

MR_BEGIN_DECLS

/* each: elements of all operands and results by themselves; operands that are scalars serve all.
   rows: leading dimensions of operand 0 are rows, each by itself, and so are the leading dimensions
   of all other operands and results; operand 0's last dimension is WHOLE.
   reduce: the dimensions in attribute axes are summed, or their MAX for an op whose result is one.
   reshape: by factors that both shapes have in common, from the outermost inwards.
   keys: leading dimensions of keys, each of which draws by itself.  What one key draws is WHOLE:
   elements are numbered.
   seeded: as many leading dimensions as operand 1, the seed, has; elements of one seed are
   numbered. whole: nothing may be cut. open: returns MR_OPEN; the open form may be cut.
   mr_no_shard: returns MR_ERR_NORULE, with scope and op in diag: a collective, which stands for a
   cut itself */
mr_shard_rule mr_shard_each;
mr_shard_rule mr_shard_rows;
mr_shard_rule mr_shard_reduce;
mr_shard_rule mr_shard_reshape;
mr_shard_rule mr_shard_keys;
mr_shard_rule mr_shard_seeded;
mr_shard_rule mr_shard_whole;
mr_shard_rule mr_shard_open;
mr_shard_rule mr_no_shard;

/* ---- parts of rules; none fails ---- */
/* Dimension d of operands and results with more than d dimensions: one factor for all. */
void mr__factor_all(const mr_eqn_t *e, mr_factors_t *s, int d, mr_cut_t cut);
/* mr_shard_each for the dimensions of result 0 whose bit in whole is not set. */
mr_err_t mr__shard_but(const mr_eqn_t *e, mr_factors_t *s, unsigned whole);
/* mr_shard_rows for ops with operands and results that belong to all rows and have the last
   dimension alone: bit i of in, of out.  A cut of the rows gives such a result as a SUM. */
mr_err_t mr__shard_rows(const mr_eqn_t *e, mr_factors_t *s, unsigned in, unsigned out);

MR_END_DECLS

#endif
