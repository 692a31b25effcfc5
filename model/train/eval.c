/* Compiled steps of evaluation: the losses and metrics of a batch are reported row by row,
   since the stage counts them in sums and in a confusion matrix.  The parameters are read where a
   training step keeps them, if it is on the same device. */
#include <stdlib.h>

#include "model/ops/operands.h"
#include "model/train/step.h"
#include "model/transforms/transforms.h"

struct mr_eval_step {
  mr__step_t s;
  mr_dtype_t kept;         /* of the parameters it reads */
  mr_train_step_t *lender; /* its parameters on a device are evaluated; NULL: none */
};

/* The graph (data, parameters) -> f32 (the rows of mr_eval_rows_t in order, B elements each). */
static mr_err_t rows_fn(mr_fn_t *f, const mr_loss_t *l, int64_t batch, const mr_fn_t *loss,
                        mr_dtype_t kept) {
  mr_var_t *out[MR_LOSS_OUTS] = {NULL}, *row[3 + MR_LOSS_METRICS];
  mr_loss_report_t reported = {0};
  int n = 0;
  mr_var_t **u = mr_mem_take(&f->mem, (size_t)loss->n_out * sizeof *u);
  mr_var_t **in = mr_mem_take(&f->mem, (size_t)loss->n_in * sizeof *in);
  for (int i = 0; i < loss->n_in; i++) {
    mr_aval_t a = loss->in[i]->aval;
    if (i >= mr_loss_n_data(l)) a.dtype = kept;
    mr_fn_input(f, a);
  }
  MR_TRY(f->diag.code);
  for (int i = 0; i < loss->n_in; i++)
    in[i] = i < mr_loss_n_data(l) ? f->in[i] : mr_lax_convert(f, f->in[i], MR_F32);
  MR_TRY(mr_inline(f, loss, in, u));
  for (int i = 0; i + 2 < loss->n_out; i++) out[i] = u[1 + i];
  MR_TRY(mr__step_metrics(f, l, batch, f->in, out, &reported));
  row[n++] = u[loss->n_out - 1];
  row[n++] = reported.counts;
  if (l->classes) row[n++] = reported.guess;
  for (int i = 0; i < l->n_metrics; i++) row[n++] = reported.metric[i];
  mr_var_t *all = mr_lax_concatenate(f, n, row, 0);
  return mr_fn_return(f, 1, &all);
}

static mr_err_t build_eval(mr__step_t *s, const mr_compute_t *c, mr_train_step_t *lender,
                           mr_diag_t *diag) {
  mr_loss_use_t use = {.batch = s->batch};
  mr_fn_t *loss = mr_loss_fn(&s->loss, c, &use, &s->list, diag), *f = loss ? mr_fn_create() : NULL;
  mr_compile_options_t options = {.device = c->device,
                                  .lender = lender ? mr__train_step_of(lender)->exec : NULL,
                                  .threads = c->threads,
                                  .pin = c->pin};
  mr_err_t e = f ? rows_fn(f, &s->loss, s->batch, loss, mr__step_kept_in(c, 0, 0)) : MR_ERR_NOMEM;
  if (f && e < 0) mr_diag_relay(diag, e, &f->diag);
  if (e >= 0) e = mr_compile(f, &options, &s->exec, diag);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  return e < 0 && diag->code >= 0 ? mr_no_memory(diag, "a step") : e;
}

mr_err_t mr_eval_step_create(const mr_loss_t *l, const mr_compute_t *c, int64_t batch,
                             mr_train_step_t *lender, mr_eval_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_eval_step_t *e = calloc(1, sizeof *e);
  if (!e) return mr_no_memory(diag, "a compiled step");
  e->s.batch = batch;
  e->s.loss = *l;
  e->kept = mr__step_kept_in(c, 0, 0);
  e->s.placed = (mr__placed_t){.device = mr__step_device(c)};
  e->lender = lender;
  mr_err_t err = build_eval(&e->s, c, lender, &own);
  int rows = 2 + (l->classes > 0) + l->n_metrics;
  if (err >= 0) err = mr__step_runs(&e->s, false, rows * (int)batch, &own);
  if (err < 0) {
    mr_eval_step_destroy(e);
    return mr_diag_relay(diag, err, &own);
  }
  *out = e;
  return MR_OK;
}

/* Points *out at the set that is evaluated: the host's, the training step's on the device, or a
   copy of its own there. */
static mr_err_t eval_find_judged(mr_eval_step_t *e, const mr_params_t *params,
                                 const mr_param_set_t **out, mr_diag_t *diag) {
  const mr_param_set_t *judged = mr_params_judged(params);
  const mr_device_t *device = e->s.placed.device;
  mr__placed_t *lender = e->lender ? &mr__train_step_of(e->lender)->placed : NULL;
  bool lent = lender && lender->device == device;
  mr__placed_t *p = lent ? lender : &e->s.placed;
  if (device && p->of != params) {
    MR_TRY(mr__step_same_params(&e->s, params, diag));
    if (!lent) p->average = judged->kind == MR_SET_AVERAGE;
    MR_TRY(mr__placed_put(p, params, diag));
  }
  *out = mr__placed_set(p, params, judged->kind, judged->number);
  return MR_OK;
}

mr_err_t mr_eval_step_run(mr_eval_step_t *e, const mr_params_t *params, const void *const *field,
                          mr_diag_t *diag) {
  mr__step_t *s = &e->s;
  const mr_param_set_t *judged;
  MR_TRY(eval_find_judged(e, params, &judged, diag));
  if (judged->dtype != e->kept)
    return mr_fail(diag, MR_ERR_SHAPE, "parameters are kept in %s, the evaluation wants %s",
                   mr_dtype_name(judged->dtype), mr_dtype_name(e->kept));
  MR_TRY(mr__step_begin(s, params, field, &(mr__scalars_t){0}, diag)); /* masks are not drawn */
  for (int i = 0; i < params->n; i++)
    s->runs.in[mr_loss_n_data(&s->loss) + i] = mr_params_at(params, judged, i);
  mr__step_start(s);
  s->runs.begun++;
  return MR_OK;
}

mr_err_t mr_eval_step_read(mr_eval_step_t *e, bool wait, mr_eval_rows_t *out, mr_diag_t *diag) {
  mr__step_t *s = &e->s;
  mr_err_t err = mr__runs_await(&s->runs, wait, diag);
  if (err != MR_OK) return err;
  const float *row = mr__runs_reported(&s->runs);
  s->runs.read++;
  *out = (mr_eval_rows_t){.losses = row, .counts = row + s->batch};
  row += 2 * s->batch;
  if (s->loss.classes) out->guess = row, row += s->batch;
  for (int i = 0; i < s->loss.n_metrics; i++, row += s->batch) out->metric[i] = row;
  return MR_OK;
}

void mr_eval_step_destroy(mr_eval_step_t *e) {
  if (!e) return;
  mr__step_fini(&e->s);
  free(e);
}

const mr_exec_t *mr_eval_step_exec(const mr_eval_step_t *e) { return e->s.exec; }
