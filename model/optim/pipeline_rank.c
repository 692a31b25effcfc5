/* A rank's exchanges are ppermutes in the order of its table.  What a rank sends may have a result
   that nothing reads, and two that only receive have the same operand: each has the number of its
   turn, which keeps passes from dropping or merging them (mr_eqn_is_awaited). */
#include "model/optim/pipeline_rank.h"

#include "model/control/control.h"
#include "model/transforms/transforms.h"

/* ---- several pipelines ---- */

int mr__pipe_lines(const mr_optim_ranks_t *ranks) {
  return ranks->pipeline ? ranks->size / ranks->pipeline->stages : ranks->size;
}

int mr__pipe_rank(const mr_optim_ranks_t *ranks, int line, int stage) {
  return stage * mr__pipe_lines(ranks) + line;
}

/* The parameters of a list from `first` on. */
typedef struct rest {
  int64_t (*size)(const void *arg, int i);
  const void *arg;
  int first;
} rest_t;

static int64_t size_in_rest(const void *arg, int i) {
  const rest_t *r = arg;
  return r->size(r->arg, r->first + i);
}

int mr__pipe_share_from(const mr_pipeline_t *plan, int64_t (*size)(const void *arg, int i),
                        const void *arg, int ranks, int rank) {
  int lines = ranks / plan->stages, stage = rank / lines;
  if (rank == ranks) return plan->first[plan->stages];
  const rest_t rest = {size, arg, plan->first[stage]};
  return rest.first + mr_optim_share_from(plan->first[stage + 1] - rest.first, size_in_rest, &rest,
                                          lines, rank % lines);
}

/* ---- one rank ---- */

mr__pipe_t *mr__pipe_start(mr_fn_t *g, const mr_optim_ranks_t *ranks, const mr_fn_t *first,
                           int n_data, int parts) {
  const mr_pipeline_t *plan = ranks->pipeline;
  int r = ranks->rank / mr__pipe_lines(ranks), n = 2 * plan->stages * parts;
  mr__pipe_t *p = mr_mem_take(&g->mem, sizeof *p);
  if (!p) return NULL;
  *p = (mr__pipe_t){
      .g = g, .ranks = ranks, .stage = r, .n_data = n_data, .parts = parts, .n_slot = n};
  p->slot = mr_mem_take(&g->mem, (size_t)n * sizeof *p->slot);
  p->part = mr_mem_take(&g->mem, (size_t)parts * sizeof *p->part);
  if (g->mem.failed) return NULL;
  for (int k = 0; k < parts; k++) p->part[k] = (mr__pipe_part_t){NULL};
  p->end = mr_pipeline_table(plan->kind, plan->stages, parts, p->slot);
  for (int side = 0; side < 2; side++) {
    int cut = r - 1 + side;
    if (cut < 0 || cut + 1 >= plan->stages) continue;
    if (mr_pipeline_sent(first, n_data, plan, cut, &p->cut[side], &g->diag) < 0) return NULL;
  }
  return p;
}

mr_err_t mr__pipe_forward(mr__pipe_t *p, int k, const mr_fn_t *f, mr_var_t *const *in,
                          mr_var_t **out) {
  const mr_pipeline_t *plan = p->ranks->pipeline;
  int r = p->stage;
  mr__pipe_part_t *part = &p->part[k];
  part->from = p->g->n_eqn;
  MR_TRY(mr_pipeline_inline(p->g, f, p->n_data, plan, r, in, part->x,
                            r + 1 < plan->stages ? &part->y : out));
  part->to = p->g->n_eqn;
  return p->g->diag.code;
}

mr_err_t mr__pipe_backward(mr__pipe_t *p, int k, mr_var_t *y, mr_var_t *dy, int n,
                           mr_var_t *const *param, mr_var_t **grad) {
  mr_fn_t *g = p->g;
  mr__pipe_part_t *part = &p->part[k];
  mr_var_t **wrt = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *wrt);
  mr_var_t **d = mr_mem_take(&g->mem, (size_t)(n + 1) * sizeof *d);
  if (g->mem.failed || g->diag.code < 0) return g->diag.code;
  if (!y) y = part->y, dy = part->dy;
  for (int i = 0; i < n; i++) wrt[i] = param[i];
  wrt[n] = part->x;
  int all = n + (part->x != NULL);
  MR_TRY(mr_backward_between(g, part->from, part->to, 1, &y, &dy, all, wrt, d));
  for (int i = 0; i < all; i++)
    if (!d[i]) d[i] = mr_lax_full(g, &wrt[i]->aval, 0);
  for (int i = 0; i < n; i++) grad[i] = d[i];
  if (part->x) part->dx = d[n];
  return g->diag.code;
}

/* The slot of a stage at a time; NULL: it waits. */
static const mr_pipeline_slot_t *slot_at(const mr__pipe_t *p, int stage, int time) {
  for (int i = 0; i < p->n_slot; i++)
    if (p->slot[i].rank == stage && p->slot[i].time == time) return &p->slot[i];
  return NULL;
}

/* Exchanges across the cut behind stage c. */
static mr_err_t exchange_cut(mr__pipe_t *p, int c, int time) {
  mr_fn_t *g = p->g;
  const mr_pipeline_slot_t *a = slot_at(p, c, time), *b = slot_at(p, c + 1, time);
  const int ahead = a && !a->backward ? a->part : -1, back = b && b->backward ? b->part : -1;
  bool before = p->stage == c; /* the cut is behind this rank's stage */
  int line = p->ranks->rank % mr__pipe_lines(p->ranks), perm[2][2], n = 0;
  const int here = mr__pipe_rank(p->ranks, line, c), next = mr__pipe_rank(p->ranks, line, c + 1);
  if (ahead < 0 && back < 0) return MR_OK;
  if (ahead >= 0) perm[n][0] = here, perm[n][1] = next, n++;
  if (back >= 0) perm[n][0] = next, perm[n][1] = here, n++;
  int sent = before ? ahead : back, received = before ? back : ahead;
  mr_var_t *v = sent < 0 ? mr_lax_full(g, &p->cut[before], 0)
                : before ? p->part[sent].y
                         : p->part[sent].dx;
  v = mr_lax_ppermute_in_turn(g, v, p->ranks->axis, n, (const int(*)[2])perm, 2 * time + (c & 1));
  if (received >= 0) *(before ? &p->part[received].dy : &p->part[received].x) = v;
  return g->diag.code;
}

mr_err_t mr__pipe_exchange(mr__pipe_t *p, int time) {
  int r = p->stage, stages = p->ranks->pipeline->stages;
  const char *outer = mr_scope_enter(p->g, "exchange");
  for (int odd = 0; odd < 2; odd++)
    for (int c = r - 1; c <= r; c++)
      if (c >= 0 && c + 1 < stages && (c & 1) == odd) MR_TRY(exchange_cut(p, c, time));
  mr_scope_leave(p->g, outer);
  return p->g->diag.code;
}

int mr__pipe_next_turn(const mr__pipe_t *p) { return 2 * p->end; }
