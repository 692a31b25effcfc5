/* After how many positions a stream holds the same records again. */
#include <assert.h>

#include "pipeline/chain_private.h"

/* assume: as mr__pass_length. */
static mr_period_t period(const mr_chain_t *c, int branch, bool assume) {
  const mr__branch_t *b = &c->branch[branch];
  mr_period_t in[MR_MAX_PORTS] = {{0}}, none = {0};
  for (int i = 0; i < b->n_in; i++) in[i] = period(c, b->in[i], assume);
  switch (b->kind) {
    case MR__SOURCE: return (mr_period_t){mr__branch_spec(b)->n_records, true};
    case MR__ORDER: {
      mr_period_t own = b->s.def->order->period ? b->s.def->order->period(&b->s, in) : none;
      if (!assume || (own.n && (b->n_in > 1 || own.n < in[0].n))) return own;
      return b->n_in == 1 ? in[0] : (mr_period_t){mr__branch_spec(b)->n_records, false};
    }
    case MR__MAP: return in[0];
    /* Records keep what the source says of them, so a filter after others keeps as many as well. */
    case MR__KEEP: return b->s.def->filter->of_record || assume ? in[0] : none;
    case MR__JOIN: break;
    case MR__NEXT: return none;
  }
  for (int i = 1; i < b->n_in; i++) {
    if (assume && in[i].n > in[0].n) in[0] = in[i];
    if (!assume && mr__branch_spec(&c->branch[b->in[i]])->holes) return none;
  }
  return in[0];
}

mr_period_t mr__period(const mr_chain_t *c, int branch) { return period(c, branch, false); }

int64_t mr__pass_length(const mr_chain_t *c, int branch) {
  int64_t n = period(c, branch, true).n;
  assert(n >= 0);
  return n > 0 ? n : 1;
}
