/* A map has found a record bad: finds the source that the record comes from, and has it replaced.

   A program joins records of several sources (zip).  The bad one is that whose field the map works
   on, so the search goes from the map's field down to the operation that fetched it. */
#include <assert.h>

#include "pipeline/records/care_private.h"
#include "pipeline/records/chain_private.h"

/* The first operation of the part of a program that ends with op[k]. */
static size_t part_begins(const mr_chain_t *c, const mr__op_t *op, size_t k) {
  switch ((mr__code_t)op[k].code) {
    case MR__OP_LEAF:
    case MR__OP_HOLE: break;
    case MR__OP_SEED:
    case MR__OP_RENUMBER:
    case MR__OP_MAP: return part_begins(c, op, k - 1);
    case MR__OP_JOIN:
      for (int i = c->branch[op[k].node].n_in; i > 0; i--) k = part_begins(c, op, k - 1);
  }
  return k;
}

/* The operation that fetched field f of the record that op[0..k] make. */
static const mr__op_t *leaf_of(const mr_chain_t *c, const mr__op_t *op, size_t k, int f) {
  while (op[k].code != MR__OP_LEAF) {
    const mr__branch_t *b = &c->branch[op[k].node];
    bool runs = op[k].code == MR__OP_MAP || op[k].code == MR__OP_JOIN;
    bool known = runs && b->field[f].in != MR__NO_FIELD; /* else any field of the first input */
    int port = known ? b->field[f].port : 0;
    assert(k > 0 && op[k].code != MR__OP_HOLE); /* a map does not run on holes */
    for (int i = op[k].code == MR__OP_JOIN ? b->n_in - 1 : 0; i > port; i--)
      k = part_begins(c, op, k - 1);
    if (runs) f = known ? b->field[f].in : 0;
    k--;
  }
  return &op[k];
}

mr_err_t mr__chain_reject(mr_chain_t *c, const mr__op_t *op, size_t n, mr_err_t e) {
  const mr__branch_t *b = &c->branch[c->failed->node];
  size_t k = (size_t)(c->failed - op);
  assert(k < n);
  if (e != MR_ERR_DATA || c->failed->code != MR__OP_MAP) return e;
  int f = b->n_made ? b->made[0] : 0;
  const mr__op_t *leaf = leaf_of(c, op, k, f);
  mr__branch_t *source = &c->branch[leaf->node];
  mr_diag_t why = *b->s.diag;
  *b->s.diag = (mr_diag_t){0}; /* the run continues, or mr__care_reject writes it again */
  return mr__care_reject(&source->s, source->worker, leaf->index, source->index[leaf->key[0]],
                         why.text);
}
