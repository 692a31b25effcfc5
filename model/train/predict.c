/* The graph of a loss cut at its first output.  The loss and its labels then lead nowhere, and the
   compiler drops them; which fields are left is read off the graph. */
#include "model/train/predict.h"

#include <stdlib.h>
#include <string.h>

#include "model/ops/operands.h"
#include "model/train/step.h"
#include "model/transforms/transforms.h"

struct mr_predict_step {
  mr__step_t s;
  mr_dtype_t kept;
  mr_predict_form_t form;
};

/* The last product that v comes from: through operations that keep the number of elements. */
static mr_var_t *find_product(mr_var_t *v, int depth) {
  const mr_eqn_t *e = v->def;
  if (!e || depth == 0) return NULL;
  if (e->op == &mr_op_dot_general || e->op == &mr_op_linear) return v;
  for (int i = 0; i < e->n_in; i++) {
    mr_var_t *in = e->in[i];
    bool same = !in->literal && mr_aval_elems(&in->aval) == mr_aval_elems(&v->aval);
    mr_var_t *found = same ? find_product(in, depth - 1) : NULL;
    if (found) return found;
  }
  return NULL;
}

/* Whether v depends on an input of f. */
static bool depends_on(const mr_fn_t *f, const mr_var_t *v, const mr_var_t *input) {
  bool *needed = calloc((size_t)f->n_var + 1, sizeof *needed), any;
  if (!needed) return true; /* the field is then asked for */
  needed[v->id] = true;
  for (int i = f->n_eqn - 1; i >= 0; i--) {
    const mr_eqn_t *e = f->eqn[i];
    bool used = false;
    for (int k = 0; k < e->n_out; k++) used |= needed[e->out[k]->id];
    for (int k = 0; k < e->n_in && used; k++)
      if (!e->in[k]->literal) needed[e->in[k]->id] = true;
  }
  any = needed[input->id];
  free(needed);
  return any;
}

/* What is predicted, of the loss's first output. */
static mr_err_t choose_output(mr_fn_t *f, mr_var_t *out, mr_predicts_t what, mr_var_t **v) {
  *v = out;
  if (what == MR_PREDICTS_FEATURES) {
    mr_var_t *product = find_product(out, 16);
    if (!product)
      return mr_fail(&f->diag, MR_ERR_CONFIG,
                     "the model's output does not come from a product, so that there are no "
                     "features before it");
    *v = product->def->in[0];
  }
  *v = mr_lax_convert(f, *v, MR_F32);
  if (what == MR_PREDICTS_SHARES) *v = mr_lax_softmax(f, *v);
  return f->diag.code;
}

/* The graph (data, parameters) -> f32 (B * width). */
static mr_err_t trace_predictions(mr_predict_step_t *p, const mr_fn_t *loss, mr_predicts_t what,
                                  mr_fn_t *f) {
  int n_data = mr_loss_n_data(&p->s.loss), n_fields = p->s.loss.n_fields + p->s.loss.masked;
  mr_var_t *v, **u = mr_mem_take(&f->mem, (size_t)loss->n_out * sizeof *u);
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)loss->n_in * sizeof *in);
  if (loss->n_out < 3)
    return mr_fail(&f->diag, MR_ERR_CONFIG, "the model's loss has no outputs to predict by");
  for (int i = 0; i < loss->n_in; i++) {
    mr_aval_t a = loss->in[i]->aval;
    if (i >= n_data) a.dtype = p->kept;
    mr_fn_input(f, a);
  }
  MR_TRY(f->diag.code);
  for (int i = 0; i < loss->n_in; i++)
    in[i] = i < n_data ? f->in[i] : mr_lax_convert(f, f->in[i], MR_F32);
  MR_TRY(mr_inline(f, loss, in, u));
  MR_TRY(choose_output(f, u[1], what, &v));
  for (int i = 0; i < n_fields; i++) p->form.reads[i] = depends_on(f, v, f->in[i]);
  int64_t all = mr_aval_elems(&v->aval);
  p->form.width = all / p->s.batch;
  v = mr_lax_reshape_to(f, v, all);
  return v ? mr_fn_return(f, 1, &v) : f->diag.code;
}

static mr_err_t predict_build(mr_predict_step_t *p, const mr_compute_t *c, mr_predicts_t what,
                              mr_diag_t *diag) {
  mr_loss_use_t use = {.batch = p->s.batch};
  mr_fn_t *loss = mr_loss_fn(&p->s.loss, c, &use, &p->s.list, diag);
  mr_fn_t *f = loss ? mr_fn_create() : NULL;
  mr_compile_options_t options = {.device = c->device, .threads = c->threads, .pin = c->pin};
  mr_err_t e = f ? trace_predictions(p, loss, what, f) : MR_ERR_NOMEM;
  if (f && e < 0) mr_diag_relay(diag, e, &f->diag);
  if (e >= 0) e = mr_compile(f, &options, &p->s.exec, diag);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  return e < 0 && diag->code >= 0 ? mr_no_memory(diag, "a step") : e;
}

mr_err_t mr_predict_form(const mr_loss_t *l, mr_predicts_t what, mr_predict_form_t *out,
                         mr_diag_t *diag) {
  const mr_compute_t wide = {.dtype = MR_F32};
  mr_predict_step_t p = {.kept = MR_F32, .s = {.loss = *l, .batch = 1}};
  mr_loss_use_t use = {.batch = 1};
  mr_diag_t own = {0};
  mr_fn_t *loss = mr_loss_fn(l, &wide, &use, &p.s.list, &own), *f = loss ? mr_fn_create() : NULL;
  mr_err_t e = f ? trace_predictions(&p, loss, what, f) : MR_ERR_NOMEM;
  if (f && e < 0) mr_diag_relay(&own, e, &f->diag);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  mr_params_fini(&p.s.list);
  *out = p.form;
  if (e < 0 && own.code >= 0) return mr_no_memory(diag, "a graph");
  return e < 0 ? mr_diag_relay(diag, own.code, &own) : MR_OK;
}

mr_err_t mr_predict_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                                mr_predicts_t what, mr_predict_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_predict_step_t *p = calloc(1, sizeof *p);
  if (!p) return mr_no_memory(diag, "a compiled step");
  p->s.batch = batch;
  p->s.loss = *l;
  p->kept = mr__step_kept_in(c, 0, 0);
  p->s.placed = (mr__placed_t){.device = mr__step_device(c)};
  mr_err_t e = predict_build(p, c, what, &own);
  if (e >= 0) e = mr__step_runs(&p->s, false, (int)(p->form.width * batch), &own);
  if (e >= 0) return *out = p, MR_OK;
  mr_predict_step_destroy(p);
  return mr_diag_relay(diag, e, &own);
}

void mr_predict_step_destroy(mr_predict_step_t *s) {
  if (!s) return;
  mr__step_fini(&s->s);
  free(s);
}

const mr_exec_t *mr_predict_step_exec(const mr_predict_step_t *s) { return s->s.exec; }

mr_err_t mr_predict_step_run(mr_predict_step_t *p, const mr_params_t *params,
                             const void *const *field, mr_diag_t *diag) {
  mr__step_t *s = &p->s;
  const mr_param_set_t *judged = mr_params_judged(params);
  if (judged->dtype != p->kept)
    return mr_fail(diag, MR_ERR_SHAPE, "parameters are kept in %s, the prediction wants %s",
                   mr_dtype_name(judged->dtype), mr_dtype_name(p->kept));
  if (s->placed.device && s->placed.of != params) {
    MR_TRY(mr__step_same_params(s, params, diag));
    s->placed.average = judged->kind == MR_SET_AVERAGE;
    MR_TRY(mr__placed_put(&s->placed, params, diag));
  }
  const mr_param_set_t *set = mr__placed_set(&s->placed, params, judged->kind, judged->number);
  MR_TRY(mr__step_begin(s, params, field, &(mr__scalars_t){0}, diag));
  for (int i = 0; i < params->n; i++)
    s->runs.in[mr_loss_n_data(&s->loss) + i] = mr_params_at(params, set, i);
  mr__step_start(s);
  s->runs.begun++;
  return MR_OK;
}

mr_err_t mr_predict_step_read(mr_predict_step_t *p, bool wait, const float **values,
                              mr_diag_t *diag) {
  mr_err_t e = mr__runs_await(&p->s.runs, wait, diag);
  if (e != MR_OK) return e;
  *values = mr__runs_reported(&p->s.runs);
  p->s.runs.read++;
  return MR_OK;
}
