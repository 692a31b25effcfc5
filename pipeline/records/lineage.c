/* Notes the draws of each record, and passes its lineage to the function that asked for it.  A
   graph that runs for its lineage only does not open its sources: who and leak-check need
   positions, indices and keys, and none of the bytes.  A filter needs the bytes, and then sources
   are opened. */
#include "pipeline/records/lineage.h"

#include <assert.h>
#include <inttypes.h>

#include "base/ledger.h"
#include "pipeline/records/chain_private.h"

void mr_graph_lineage(mr_graph_t *g, mr_lineage_fn fn, void *ctx, bool only) {
  g->lineage = (mr__lineage_to_t){.fn = fn, .ctx = ctx, .only = only};
}

bool mr__lineage_opens(const mr_graph_t *g, const mr_stage_def_t *def) {
  if (!g->lineage.only || !def->source) return true;
  for (int i = 0; i < g->n_nodes; i++)
    if (g->node[i]->def->filter) return true;
  return false;
}

void mr_draw_note(mr_rec_t *r, uint64_t what) {
  mr_draws_t *d = r->draws;
  r->draw = mr_hash_mix(r->draw, what);
  if (!d || d->n == MR_DRAWS_MAX) return;
  d->row[d->n].stage = d->now;
  d->row[d->n++].what = what;
}

void mr_draw_text(const mr_draws_t *d, int i, char *text, size_t n) {
  const mr_stage_t *s = d->row[i].stage;
  char words[128];
  snprintf(words, sizeof words, "%" PRIu64, d->row[i].what);
  const mr_map_def_t *map = s ? s->def->map : NULL;
  if (map && map->draw_text) map->draw_text(s, d->row[i].what, words, sizeof words);
  snprintf(text, n, "%s: %s", s ? s->name : "source", words);
}

uint64_t mr__lineage_report(mr_chain_t *c, const mr__op_t *op, size_t n, int slot,
                            const mr_rec_t *rec) {
  mr_lineage_t t = {.slot = slot, .rec = rec, .spec = &c->spec, .leaf = c->leaf, .draws = c->draws};
  for (size_t k = 0; k < n; k++) {
    if (op[k].code != MR__OP_LEAF) continue;
    mr__branch_t *b = &c->branch[op[k].node];
    assert(t.n_leaves < c->n_branches);
    c->leaf[t.n_leaves++] = (mr_leaf_t){&b->s, op[k].index, rec ? &b->rec[op[k].key[0]] : NULL};
  }
  return c->lineage->fn(c->lineage->ctx, &t);
}
