/* mr_nn_remat: traces a part of the model as a function of its own and calls it as a checkpoint.
   What the function needs from outside (its parameters, seed and step) become its inputs. */
#include "model/nn/nn.h"

/* The vars that dropout draws from, those of seed, step and key that are set: at[0,n) point at
   their fields in s.  Returns n. */
static int find_draws(mr_nn_t *s, mr_var_t **at[3]) {
  mr_var_t **all[] = {&s->seed, &s->step, &s->key};
  int n = 0;
  for (int i = 0; i < 3; i++)
    if (*all[i]) at[n++] = all[i];
  return n;
}

/* Traces body into g.  Its inputs are x, the vars that dropout draws from, and the parameters
   that body requests. */
static void remat_trace(mr_nn_t *s, mr_fn_t *g, mr_nn_body_fn *body, const void *arg,
                        const mr_aval_t *x) {
  mr_nn_t outer = *s;
  mr_var_t **draw[3];
  mr_origin_set(g, mr_origin(s->f));
  s->f = g, s->called = true;
  mr_var_t *in = mr_fn_input(g, *x);
  int n = find_draws(s, draw);
  for (int i = 0; i < n; i++) *draw[i] = mr_fn_input(g, (*draw[i])->aval);
  mr_var_t *y = body(s, arg, in);
  mr_fn_return(g, 1, &y);
  s->f = outer.f, s->called = outer.called, s->seed = outer.seed, s->step = outer.step,
  s->key = outer.key;
}

/* Calls ck in s->f; its parameters become further inputs of s->f. */
static mr_var_t *remat_call(mr_nn_t *s, const mr_fn_t *ck, mr_var_t *x) {
  mr_var_t **in = mr_mem_take(&s->f->mem, (size_t)ck->n_in * sizeof(mr_var_t *)), *y = NULL;
  mr_var_t **draw[3];
  int n = find_draws(s, draw);
  in[0] = x;
  for (int i = 0; i < n; i++) in[1 + i] = *draw[i];
  for (int i = 1 + n; i < ck->n_in; i++) in[i] = mr_fn_input(s->f, ck->in[i]->aval);
  return mr_inline(s->f, ck, in, &y) < 0 ? NULL : y;
}

mr_var_t *mr_nn_remat(mr_nn_t *s, mr_policy_fn *policy, mr_nn_body_fn *body, const void *arg,
                      mr_var_t *x) {
  if (!policy || !x) return body(s, arg, x);
  mr_fn_t *g = mr_fn_create(), *ck = NULL;
  mr_var_t *y = NULL;
  if (!g) return mr_no_memory(&s->f->diag, "a graph"), NULL;
  remat_trace(s, g, body, arg, &x->aval);
  if (g->diag.code < 0)
    mr_diag_relay(&s->f->diag, g->diag.code, &g->diag);
  else if (mr_checkpoint(g, policy, &ck, &s->f->diag) >= 0)
    y = remat_call(s, ck, x);
  mr_fn_destroy(ck);
  mr_fn_destroy(g);
  return y;
}

const char *mr_nn_remat_name(mr_nn_remat_t r) {
  static const char *const names[] = {"none", "dots", "full"};
  return names[r];
}

mr_policy_fn *mr_nn_policy(mr_nn_remat_t remat) {
  if (remat == MR_NN_REMAT_NONE) return NULL;
  return remat == MR_NN_REMAT_DOTS ? mr_save_dots : mr_save_nothing;
}
