/* A fused chain: source -> (order | map)* -> the port of a step stage.

   Positions are turned into indices by the orders, last one first; records are fetched in bursts
   and go through all maps one by one, while each is in the first-level cache, between two scratch
   records; the last map writes into the batch. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/ledger.h"
#include "pipeline/graph_private.h"

/* Stages are copies of this worker's own, so that failures are told in its own diag; their states
   are shared. */
struct mr_chain {
  mr_stage_t source;
  mr_stage_t *order; /* [n_orders] nearest the batch first */
  mr_stage_t *map;   /* [n_maps] in the order of flow */
  int n_orders, n_maps;
  int worker;        /* in [0,workers) of the source */
  int64_t n_records; /* of the source */
  size_t bytes;      /* of a finished record */
  size_t scratch_bytes;
  char *scratch[2]; /* 64-aligned */
  int64_t index[MR_BURST];
  mr_rec_t rec[MR_BURST];
  mr_philox_t rng[MR_BURST];
};

void mr_draw_note(mr_rec_t *r, uint64_t what) { r->draw = mr_hash_mix(r->draw, what); }

void mr__chain_destroy(mr_chain_t *c) {
  if (!c) return;
  free(c->order), free(c->map);
  free(c->scratch[0]), free(c->scratch[1]);
  free(c);
}

/* Walks back from the port to the source; maps come out last first. */
static void collect(mr_graph_t *g, mr_chain_t *c, int node, int port, mr_diag_t *diag) {
  for (const mr__edge_t *e = mr__edge_into(g, node, port); e; e = mr__edge_into(g, e->from, 0)) {
    mr__node_t *n = g->node[e->from];
    mr_stage_t own = *n->worker;
    own.diag = diag;
    size_t bytes = mr_spec_bytes(&n->worker->out_spec[e->out]);
    if (bytes > c->scratch_bytes) c->scratch_bytes = bytes;
    if (n->def->order) c->order[c->n_orders++] = own;
    if (n->def->map) c->map[c->n_maps++] = own;
    if (!n->def->fetch) continue;
    c->source = own;
    c->worker = n->n_chains++;
    c->n_records = n->worker->out_spec[e->out].n_records;
  }
  for (int i = 0; i < c->n_maps / 2; i++) {
    mr_stage_t kept = c->map[i];
    c->map[i] = c->map[c->n_maps - 1 - i], c->map[c->n_maps - 1 - i] = kept;
  }
}

mr_chain_t *mr__chain_create(mr_graph_t *g, int node, int port, mr_diag_t *diag) {
  mr_chain_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->order = calloc((size_t)g->n_nodes + 1, sizeof(mr_stage_t));
  c->map = calloc((size_t)g->n_nodes + 1, sizeof(mr_stage_t));
  if (!c->order || !c->map) return mr__chain_destroy(c), NULL;
  collect(g, c, node, port, diag);
  c->bytes = mr_spec_bytes(&g->node[node]->worker->in_spec[port]);
  c->scratch_bytes = (c->scratch_bytes + 63) / 64 * 64;
  for (int i = 0; i < 2; i++) c->scratch[i] = aligned_alloc(64, c->scratch_bytes + 64);
  if (!c->scratch[0] || !c->scratch[1] || !c->source.def) return mr__chain_destroy(c), NULL;
  return c;
}

/* Index and generator of the record at a position into slot k of the burst.  The order nearest the
   batch that gives a seed decides. */
static mr_err_t locate(mr_chain_t *c, int64_t position, int k) {
  bool has_seed = false;
  uint64_t seed = 0;
  for (int i = 0; i < c->n_orders; i++) {
    bool seeded = false;
    uint64_t s = 0;
    MR_TRY(c->order[i].def->order(&c->order[i], position, &position, &s, &seeded));
    if (seeded && !has_seed) seed = s, has_seed = true;
  }
  assert(position >= 0);
  c->index[k] = position % c->n_records;
  c->rec[k] = (mr_rec_t){.rng = has_seed ? &c->rng[k] : NULL};
  if (has_seed) mr_philox_init(&c->rng[k], seed, 0);
  return MR_OK;
}

/* The scratch record that data does not lie in. */
static void *other_scratch(const mr_chain_t *c, const void *data) {
  uintptr_t at = (uintptr_t)data, s = (uintptr_t)c->scratch[0];
  return c->scratch[at >= s && at < s + c->scratch_bytes];
}

static mr_err_t run_maps(mr_chain_t *c, mr_rec_t *rec, char *slot) {
  for (int i = 0; i < c->n_maps; i++) {
    mr_rec_t out = *rec;
    out.data = i + 1 < c->n_maps ? other_scratch(c, rec->data) : slot;
    MR_TRY(c->map[i].def->map(&c->map[i], rec, &out));
    *rec = out;
  }
  if (rec->data != slot) memcpy(slot, rec->data, c->bytes);
  return MR_OK;
}

static mr_err_t fill_burst(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf,
                           int slot) {
  for (int i = 0; i < n; i++) MR_TRY(locate(c, pos + i, i));
  MR_TRY(c->source.def->fetch(&c->source, c->worker, c->index, n, c->rec));
  for (int i = 0; i < n; i++) {
    mr_rec_t *r = &c->rec[i];
    MR_TRY(run_maps(c, r, (char *)buf->data + (size_t)(slot + i) * c->bytes));
    buf->label[slot + i] = r->label;
    buf->key[slot + i] = r->key;
    buf->draw[slot + i] = r->draw;
  }
  return MR_OK;
}

mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf) {
  for (int i = 0; i < n; i += MR_BURST) {
    int k = n - i < MR_BURST ? n - i : MR_BURST;
    MR_TRY(fill_burst(s, c, pos + i, k, buf, i));
  }
  return MR_OK;
}
