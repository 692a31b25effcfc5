/* A rank of a step that computes a stage of each part: its passes in the order of the schedule,
   then the exchange of its gradients with the ranks that have the same stage, and of the outputs
   that the last stages have.  With zero=3 the values of its stage that those ranks have come before
   the first pass, and go with the last: a stage is a small part of a model, and reads its values
   twice for each microbatch. */
#include "model/control/control.h"
#include "model/optim/step_private.h"
#include "model/transforms/transforms.h"

/* Forward through part k of this pipeline's: out[n_out] in the last stage. */
static mr_err_t stage_forward(mr__optim_step_t *s, mr__pipe_t *p, int k, mr_var_t **out) {
  mr_fn_t *f = mr__optim_light_loss(s, s->from + k);
  mr_var_t **in = mr__optim_inputs_of_part(s, s->from + k);
  mr_err_t e = f && in ? mr__pipe_forward(p, k, f, in, out) : s->g->diag.code;
  mr_fn_destroy(f);
  return e;
}

/* Back through part k, whose gradients are added to those before.  Sums have an entry for each
   parameter of the stage, [first,end). */
static mr_err_t stage_backward(mr__optim_step_t *s, mr__pipe_t *p, int k, mr_var_t *loss,
                               mr__optim_sums_t *sums) {
  const int *first = &s->loss->ranks->pipeline->first[p->stage], n = first[1] - first[0];
  mr_var_t **grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof *grad);
  mr_var_t *seed = loss ? mr__optim_loss_seed(s, s->from + k) : NULL;
  if (!grad) return s->g->diag.code;
  grad += *first; /* room for all parameters, so that sums may be read by a parameter's number */
  MR_TRY(mr__pipe_backward(p, k, loss, seed, n, s->p + *first, grad));
  mr__optim_sums_add(s, sums, s->from + k, n, grad);
  return s->g->diag.code;
}

/* Outputs of the loss over all parts, from what the last stage of each pipeline posts: all, a row
   for each of its parts. */
static mr_err_t stage_outputs(mr__optim_step_t *s, mr__exchange_t *x, mr_var_t **all) {
  const mr_fn_t *f = s->loss->part[0];
  bool last = mr__optim_rank_with_outputs(s, s->loss->ranks->rank % mr__optim_sharers(s)) ==
              s->loss->ranks->rank;
  int *posted = mr_mem_take(&s->g->mem, (size_t)(s->n_out + 1) * sizeof *posted);
  const char *outer = mr_scope_enter(s->g, "exchange");
  const char *exchange = mr_scope_enter(s->g, "posted");
  for (int i = 0; posted && i < s->n_out; i++)
    posted[i] = last ? mr__optim_post_output(s, x, all, i)
                     : mr__exchange_post_none(x, mr__optim_posted_size(s, &f->out[i]->aval));
  mr_scope_leave(s->g, exchange);
  mr__exchange_publish(x);
  for (int i = 0; s->g->diag.code >= 0 && i < s->n_out; i++)
    s->out[i] = mr__optim_posted_output(s, x, posted[i], f->out[i]->aval);
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

/* The gradients, over the parts of all pipelines, of the parameters that this rank updates.  Those
   of its stage go in buckets to the ranks that have the stage too, when its passes are done. */
static mr_err_t stage_exchange(mr__optim_step_t *s, const mr__pipe_t *p, mr__optim_sums_t *sums) {
  const int *first = &s->loss->ranks->pipeline->first[p->stage];
  int turn = mr__pipe_next_turn(p);
  s->grad = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof(mr_var_t *));
  if (!s->grad) return s->g->diag.code;
  if (mr__optim_sharers(s) == 1) {
    mr_var_t **sum = mr__optim_sums_end(s, sums, first[1] - first[0]);
    for (int i = first[0]; i < first[1]; i++) s->grad[i] = sum[i - first[0]];
    return s->g->diag.code;
  }
  mr__optim_nodes_t nodes = mr__optim_nodes(s);
  const char *outer = mr_scope_enter(s->g, "exchange");
  for (int j = 0; j < sums->n; j++) sums->of[j] -= first[0];
  for (int to = first[1]; to > first[0] && s->g->diag.code >= 0;) {
    mr__optim_bucket_t b = mr__optim_bucket_before(s, to);
    mr__optim_exchange_bucket(s, &b, &nodes, sums, &turn);
    to = b.from;
  }
  mr_scope_leave(s->g, outer);
  return s->g->diag.code;
}

enum { VALUES_TURN = 1 << 24 }; /* of the first message of values; passes count theirs from 0 */

/* The values of the stage that other ranks have, in s->p.  On a mesh they come whole, and are put
   where the stage reads them. */
static mr_err_t gather_stage(mr__optim_step_t *s, int stage) {
  const int *first = &s->loss->ranks->pipeline->first[stage], lines = mr__optim_sharers(s);
  int turn = VALUES_TURN, *same = mr_mem_take(&s->g->mem, (size_t)lines * sizeof *same);
  mr_var_t **value = mr_mem_take(&s->g->mem, (size_t)s->n * sizeof *value);
  if (!same || !value) return s->g->diag.code;
  for (int line = 0; line < lines; line++) same[line] = mr__pipe_rank(s->loss->ranks, line, stage);
  for (int to = first[1]; to > first[0] && s->g->diag.code >= 0;) {
    mr__optim_bucket_t b = mr__optim_bucket_before(s, to);
    mr__optim_send_values(s, &b, lines, same, &turn, value);
    to = b.from;
  }
  for (int i = first[0]; i < first[1]; i++) {
    bool moves = s->loss->reads && s->loss->reads[i] && (i < s->lo || i >= s->hi);
    s->p[i] = moves ? mr_lax_shard(s->g, value[i], s->loss->reads[i]) : value[i];
  }
  return s->g->diag.code;
}

mr_err_t mr__optim_run_stage(mr__optim_step_t *s) {
  mr_mem_t *mem = &s->g->mem;
  int parts = s->to - s->from;
  mr_var_t **all = mr_mem_take(mem, (size_t)(parts * s->n_out) * sizeof *all);
  int64_t *elems = mr_mem_take(mem, (size_t)s->n * sizeof *elems);
  mr__exchange_t *x = mr_mem_take(mem, sizeof *x);
  mr_fn_t *first = mr__optim_light_loss(s, 0);
  mr__optim_sums_t sums = {0};
  mr__pipe_t *p =
      first ? mr__pipe_start(s->g, s->loss->ranks, first, s->loss->n_data, parts) : NULL;
  mr_fn_destroy(first);
  if (mem->failed || !p) return s->g->diag.code;
  bool last = p->stage + 1 == s->loss->ranks->pipeline->stages;
  if (s->loss->ranks->zero >= 3) MR_TRY(gather_stage(s, p->stage));
  for (int i = 0; i < p->n_slot; i++) {
    const mr_pipeline_slot_t *slot = &p->slot[i];
    mr_var_t **out = all + slot->part * s->n_out;
    bool own = slot->rank == p->stage;
    if (own && !slot->backward) MR_TRY(stage_forward(s, p, slot->part, out));
    if (own && slot->backward)
      MR_TRY(stage_backward(s, p, slot->part, last ? out[0] : NULL, &sums));
    if (i + 1 == p->n_slot || slot[1].time > slot->time) MR_TRY(mr__pipe_exchange(p, slot->time));
  }
  MR_TRY(stage_exchange(s, p, &sums));
  for (int i = 0; i < s->n; i++) elems[i] = mr_aval_elems(mr__optim_aval(s, i));
  *x = mr__exchange_start(s->g, s->loss->ranks, s->n, elems, s->share, s->n_out);
  if (mem->failed) return s->g->diag.code;
  s->exchange = x;
  return stage_outputs(s, x, all);
}
