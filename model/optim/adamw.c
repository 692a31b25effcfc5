#include "model/optim/adamw.h"

#include "model/transforms/transforms.h"

/* What gradients are multiplied by so that their global norm is at most clip_norm. */
static mr_var_t *clip_scale(mr_fn_t *g, mr_var_t *norm, float clip_norm) {
  mr_var_t *one = mr_literal(g, MR_F32, 1);
  if (!(clip_norm > 0)) return one;
  return mr_lax_min(g, mr_lax_div(g, mr_literal(g, MR_F32, clip_norm), norm), one);
}

typedef struct inputs {
  int n; /* parameters */
  mr_var_t **data, *lr, *t, **p, **m, **v;
} inputs_t;

static inputs_t make_inputs(mr_fn_t *g, const mr_fn_t *loss, int n_data) {
  inputs_t s = {.n = loss->n_in - n_data};
  for (int i = 0; i < n_data; i++) mr_fn_input(g, loss->in[i]->aval);
  mr_fn_input(g, mr_aval_scalar(MR_F32));
  mr_fn_input(g, mr_aval_scalar(MR_F32));
  for (int set = 0; set < 3; set++)
    for (int i = 0; i < s.n; i++) mr_fn_input(g, loss->in[n_data + i]->aval);
  s.data = g->in; /* the array has its final place now */
  s.lr = g->in[n_data];
  s.t = g->in[n_data + 1];
  s.p = g->in + n_data + 2;
  s.m = s.p + s.n;
  s.v = s.m + s.n;
  return s;
}

static mr_err_t build(mr_fn_t *g, const mr_fn_t *loss, int n_data, const mr_adamw_config_t *c) {
  inputs_t s = make_inputs(g, loss, n_data);
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)loss->n_in * sizeof *in);
  mr_var_t **grad = mr_mem_take(&g->mem, (size_t)s.n * sizeof *grad);
  mr_var_t **out = mr_mem_take(&g->mem, (size_t)(loss->n_out + 1 + 3 * s.n) * sizeof *out);
  for (int i = 0; i < loss->n_in; i++) in[i] = i < n_data ? s.data[i] : s.p[i - n_data];
  MR_TRY(mr_inline(g, loss, in, out));
  MR_TRY(mr_backward(g, out[0], mr_literal(g, MR_F32, 1), s.n, s.p, grad));
  const char *outer = mr_scope_enter(g, "adamw");
  mr_var_t *norm = mr_lax_sqrt(g, mr_lax_sum_squares(g, s.n, grad));
  mr_var_t *scale = clip_scale(g, norm, c->clip_norm);
  mr_var_t **next = out + loss->n_out;
  *next++ = norm;
  for (int i = 0; i < s.n; i++) {
    mr_var_t *now[] = {s.p[i], grad[i], s.m[i], s.v[i]}, *then[3];
    MR_TRY(mr_lax_adamw(g, c, now, s.lr, s.t, scale, then));
    for (int set = 0; set < 3; set++) next[set * s.n + i] = then[set];
  }
  mr_scope_leave(g, outer);
  return mr_fn_return(g, loss->n_out + 1 + 3 * s.n, out);
}

mr_err_t mr_adamw_step_fn(const mr_fn_t *loss, int n_data, const mr_adamw_config_t *c,
                          mr_fn_t **out, mr_diag_t *diag) {
  if (loss->n_in <= n_data) return mr_fail(diag, MR_ERR_CONFIG, "adamw: no parameters");
  mr_fn_t *g = mr_fn_create();
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "adamw: no memory");
  mr_err_t err = build(g, loss, n_data, c);
  if (err < 0) {
    mr_fail(diag, err, "%s", g->diag.text);
    mr_fn_destroy(g);
    return err;
  }
  mr_dce(g);
  *out = g;
  return MR_OK;
}
