/* The period of a stream: after how many positions it holds the same records again.  A walk that
   seeks a distant batch skips whole periods by it instead of counting records one by one.  A filter
   has a period only if it decides by the record alone, not by its draws. */
#include <assert.h>
#include <stdlib.h>

#include "pipeline/records/chain_private.h"

/* True if output field f of a branch is unchanged from a source, followed along first inputs: a
   joined record takes its period from the first one. */
static bool is_of_source(const mr_chain_t *c, int branch, int f) {
  const mr__branch_t *b = &c->branch[branch];
  bool made = b->kind == MR__MAP || b->kind == MR__JOIN;
  if (b->kind == MR__SOURCE) return true;
  if (made && (b->s.writes >> f & 1 || b->field[f].port || b->field[f].in == MR__NO_FIELD))
    return false;
  int n = b->kind == MR__JOIN ? 1 : b->n_in, in = made ? b->field[f].in : f;
  for (int i = 0; i < n; i++)
    if (!is_of_source(c, b->in[i], in)) return false;
  return true;
}

bool mr__is_of_record(const mr_chain_t *c, int branch) {
  const mr__branch_t *b = &c->branch[branch];
  if (!b->s.def->filter || !b->s.def->filter->of_record) return false;
  for (int f = 0; b->s.reads >> f; f++)
    if (b->s.reads >> f & 1 && !is_of_source(c, b->in[0], f)) return false;
  return true;
}

/* The period of a branch whose inputs have the periods in[0,n_in). */
static mr_period_t period_of(const mr_chain_t *c, int branch, bool assume, mr_period_t *in) {
  const mr__branch_t *b = &c->branch[branch];
  mr_period_t none = {0};
  switch (b->kind) {
    case MR__SOURCE: return (mr_period_t){mr__branch_spec(b)->n_records, true};
    case MR__ORDER: {
      mr_period_t own = b->s.def->order->period ? b->s.def->order->period(&b->s, in) : none;
      if (!assume || (own.n && (b->n_in > 1 || own.n < in[0].n))) return own;
      return b->n_in == 1 ? in[0] : (mr_period_t){mr__branch_spec(b)->n_records, false};
    }
    case MR__MAP: return in[0];
    /* Records keep their label and key, so a filter after other filters keeps equally many. */
    case MR__KEEP: return assume || mr__is_of_record(c, branch) ? in[0] : none;
    case MR__JOIN: break;
    case MR__NEXT: return none;
  }
  for (int i = 1; i < b->n_in; i++) {
    if (assume && in[i].n > in[0].n) in[0] = in[i];
    if (!assume && mr__branch_spec(&c->branch[b->in[i]])->holes) return none;
  }
  return in[0];
}

/* assume: with the assumptions of mr__pass_length.  Without memory for its inputs a stream has no
   known period, which costs time alone. */
static mr_period_t branch_period(const mr_chain_t *c, int branch, bool assume) {
  const mr__branch_t *b = &c->branch[branch];
  mr_period_t *in = calloc((size_t)b->n_in + 1, sizeof *in), out = {0};
  for (int i = 0; in && i < b->n_in; i++) in[i] = branch_period(c, b->in[i], assume);
  if (in) out = period_of(c, branch, assume, in);
  free(in);
  return out;
}

mr_period_t mr__period(const mr_chain_t *c, int branch) { return branch_period(c, branch, false); }

int64_t mr__pass_length(const mr_chain_t *c, int branch) {
  int64_t n = branch_period(c, branch, true).n;
  assert(n >= 0);
  return n > 0 ? n : 1;
}
