/* After how many positions a stream holds the same records again. */
#include "pipeline/chain_private.h"

/* Records keep what the source says of them, so a filter after others keeps as many as well. */
mr_period_t mr__period(const mr_chain_t *c, int branch) {
  const mr__branch_t *b = &c->branch[branch];
  mr_period_t in[MR_MAX_PORTS] = {{0}}, none = {0};
  for (int i = 0; i < b->n_in; i++) in[i] = mr__period(c, b->in[i]);
  switch (b->kind) {
    case MR__SOURCE: return (mr_period_t){mr__branch_spec(b)->n_records, true};
    case MR__ORDER: return b->s.def->period ? b->s.def->period(&b->s, in) : none;
    case MR__MAP: return in[0];
    case MR__KEEP: return b->s.def->of_record ? in[0] : none;
    case MR__JOIN: break;
    case MR__NEXT: return none;
  }
  for (int i = 1; i < b->n_in; i++)
    if (mr__branch_spec(&c->branch[b->in[i]])->holes) return none;
  return in[0];
}
