/* Turns of a stage's workers: a shared number that each waits for and then passes on. */
#include <assert.h>

#include "pipeline/runtime_private.h"
#include "pipeline/stage_step.h"

typedef struct turn {
  mr_runtime_t *rt;
  _Atomic int64_t *at;
  int64_t number;
} turn_t;

/* seq_cst, as wait.h requires for what a waiter waits for; pairs with mr_turn_pass. */
static bool mine(const turn_t *t) {
  int64_t at = atomic_load_explicit(t->at, memory_order_seq_cst);
  assert(at <= t->number); /* no worker passes a turn it has not had */
  return at == t->number;
}

/* seq_cst: pairs with mr_graph_stop's exchange. */
static bool over(const mr_runtime_t *rt) {
  return atomic_load_explicit(&rt->g->stop, memory_order_seq_cst) || mr__out_gone(&rt->out[0]);
}

static bool turn_ready(void *arg) {
  const turn_t *t = arg;
  return mine(t) || mr__cancelled(t->rt) || over(t->rt);
}

mr_err_t mr_turn_wait(mr_stage_t *s, _Atomic int64_t *turn, int64_t number) {
  turn_t t = {s->rt, turn, number};
  mr__wait_counted(s->rt, MR__BLOCKED, turn_ready, &t);
  if (mr__cancelled(s->rt)) return MR_ERR_CANCEL;
  return over(s->rt) ? MR_END : MR_OK;
}

void mr_turn_pass(mr_stage_t *s, _Atomic int64_t *turn) {
  mr__node_t *node = s->rt->node;
  /* seq_cst: also hands over the work of this turn. */
  atomic_fetch_add_explicit(turn, 1, memory_order_seq_cst);
  for (int w = 0; w < node->n_workers; w++) mr_wait_wake(&node->rt[w].wait);
}
