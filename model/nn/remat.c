/* A part of the model as a function of its own, which is called as a checkpoint. */
#include "model/nn/nn.h"

/* Traces body into g, whose inputs are x, seed, step and the parameters body asks for. */
static void trace(mr_nn_t *s, mr_fn_t *g, mr_nn_body_fn *body, const void *arg,
                  const mr_aval_t *x) {
  mr_nn_t outer = *s;
  mr_stand(g, mr_standing(s->f));
  s->f = g;
  mr_var_t *in = mr_fn_input(g, *x);
  s->seed = mr_fn_input(g, outer.seed->aval);
  s->step = mr_fn_input(g, outer.step->aval);
  mr_var_t *y = body(s, arg, in);
  mr_fn_return(g, 1, &y);
  s->f = outer.f, s->seed = outer.seed, s->step = outer.step;
}

/* A call of ck in s->f, with its parameters as further inputs there. */
static mr_var_t *call(mr_nn_t *s, const mr_fn_t *ck, mr_var_t *x) {
  mr_var_t **in = mr_mem_take(&s->f->mem, (size_t)ck->n_in * sizeof(mr_var_t *)), *y = NULL;
  in[0] = x, in[1] = s->seed, in[2] = s->step;
  for (int i = 3; i < ck->n_in; i++) in[i] = mr_fn_input(s->f, ck->in[i]->aval);
  return mr_inline(s->f, ck, in, &y) < 0 ? NULL : y;
}

mr_var_t *mr_nn_remat(mr_nn_t *s, mr_policy_fn *policy, mr_nn_body_fn *body, const void *arg,
                      mr_var_t *x) {
  if (!policy || !x) return body(s, arg, x);
  mr_fn_t *g = mr_fn_create(), *ck = NULL;
  mr_var_t *y = NULL;
  if (!g) return mr_fail(&s->f->diag, MR_ERR_NOMEM, "no memory for a graph"), NULL;
  trace(s, g, body, arg, &x->aval);
  if (g->diag.code < 0)
    mr_fail(&s->f->diag, g->diag.code, "%s", g->diag.text);
  else if (mr_checkpoint(g, policy, &ck, &s->f->diag) >= 0)
    y = call(s, ck, x);
  mr_fn_destroy(ck);
  mr_fn_destroy(g);
  return y;
}
