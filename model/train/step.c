/* Steps of either kind: what they are kept in, what they report, and how a run begins.  Both check
   what the caller passes before they write to the ring of runs, so that a refused batch leaves the
   runs that are unread as they are. */
#include "model/train/step.h"

#include "base/dataset.h"
#include "model/ops/operands.h"

mr_dtype_t mr__step_kept_in(const mr_compute_t *c, int k, int n_slots) {
  mr_dtype_t t = !k ? c->values : k <= n_slots ? c->slots : MR_F32;
  return t ? t : MR_F32;
}

void mr_train_want_sets(const mr_compute_t *c, const mr_optim_t *o, mr_params_t *params) {
  mr_params_want(params, MR_SET_VALUES, 0, c->values ? c->values : MR_F32);
  mr_params_want_slots(params, o ? o->def->n_slots : 0, c->slots ? c->slots : MR_F32);
  if (o && o->ema > 0) mr_params_want(params, MR_SET_AVERAGE, 0, MR_F32);
}

const mr_device_t *mr__step_device(const mr_compute_t *c) {
  return c->device && !c->device->backend->host ? c->device : NULL;
}

mr_err_t mr__step_metrics(mr_fn_t *f, const mr_loss_t *l, int64_t batch, mr_var_t *const *in,
                          mr_var_t *const *out, mr_loss_report_t *reported) {
  mr_var_t *field[MR_LOSS_FIELDS + 1];
  for (int i = 0; i < l->n_fields + l->masked; i++)
    field[i] = i < l->n_fields ? mr_loss_values(f, &l->field[i], in[i]) : in[i];
  MR_TRY(f->diag.code);
  MR_TRY(l->metrics(l->of, f, field, out, reported));
  const mr_aval_t rows = mr_aval_of(MR_F32, batch);
  if (!reported->counts) reported->counts = mr_lax_full(f, &rows, 1);
  for (int i = 0; i < l->n_metrics; i++)
    if (f->diag.code >= 0 && !reported->metric[i])
      return mr_fail(&f->diag, MR_ERR_CONFIG, "the loss has no %s", l->metric[i]->name);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

void mr__step_fini(mr__step_t *s) {
  mr__runs_fini(&s->runs);
  mr__placed_fini(&s->placed);
  mr_exec_destroy(s->exec);
  mr_params_fini(&s->list);
}

mr_err_t mr__step_runs(mr__step_t *s, bool there, int n_reported, mr_diag_t *diag) {
  int n = s->loss.n_fields + s->loss.masked;
  return mr__runs_init(&s->runs, mr_exec_fn(s->exec), s->placed.device, n,
                       there ? s->loss.n_fields : 0, n_reported, diag);
}

mr_err_t mr__step_same_params(const mr__step_t *s, const mr_params_t *p, mr_diag_t *diag) {
  if (p->n != s->list.n || p->arena_size != s->list.arena_size || p->count != s->list.count)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "parameters of another model: %lld in %d tensors, want %lld in %d",
                   (long long)p->count, p->n, (long long)s->list.count, s->list.n);
  return MR_OK;
}

mr_err_t mr_train_check_classes(const mr_model_field_t *f, const int32_t *label, int64_t n,
                                mr_diag_t *diag) {
  for (int64_t i = 0; i < n; i++)
    if (label[i] != MR_LABEL_NONE && (label[i] < 0 || label[i] >= f->classes))
      return mr_fail(diag, MR_ERR_DATA, "record %lld of the batch has %s %d, want [0,%lld)",
                     (long long)i, f->name, label[i], (long long)f->classes);
  return MR_OK;
}

mr_err_t mr__step_begin(mr__step_t *s, const mr_params_t *params, const void *const *field,
                        const mr__scalars_t *scalars, mr_diag_t *diag) {
  const mr_loss_t *l = &s->loss;
  MR_TRY(mr__step_same_params(s, params, diag));
  for (int i = s->runs.there; i < l->n_fields; i++)
    if (l->field[i].classes && l->field[i].aval.dtype == MR_I32 && !l->field[i].aval.ndim)
      MR_TRY(mr_train_check_classes(&l->field[i], field[i], s->batch, diag));
  return mr__runs_begin(&s->runs, field, scalars, diag);
}

void mr__step_start(mr__step_t *s) {
  mr__runs_send(&s->runs);
  mr_exec_start(s->exec, s->runs.in, s->runs.out);
  mr__runs_end(&s->runs);
}
