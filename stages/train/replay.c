/* Replay files, opened: the step of one is run again, or traced.  What a graph is compiled by
   without an argument, precision and layout of keys, belongs to the process and is the run's for
   that time. */
#include <stdlib.h>

#include "stages/train/replay_private.h"

mr_err_t mr_replay_open(const char *path, mr_replay_t **out, mr_diag_t *diag) {
  mr_replay_t *r = calloc(1, sizeof *r);
  if (!r) return mr_no_memory(diag, "replay file %s", path);
  r->path = path;
  mr_err_t e = mr__replay_read(r, diag);
  mr_safetensors_close(r->file);
  r->file = NULL, r->path = NULL, r->stage.name = r->reported.stage, r->stage.diag = NULL;
  if (e < 0) return mr_replay_close(r), e;
  r->reported.record = r->record;
  r->step.loss = &r->model.plan.loss, r->step.params = &r->params;
  r->step.field = (const void *const *)r->field;
  r->step.in =
      (mr_train_in_t){.step = r->reported.step, .seed = r->reported.seed, .lr = r->reported.lr};
  r->step.record = r->record, r->step.n_records = r->reported.n_records;
  *out = r;
  return MR_OK;
}

void mr_replay_close(mr_replay_t *r) {
  if (!r) return;
  for (int i = 0; i < MR_LOSS_FIELDS + 1; i++) free(r->field[i]);
  free(r->record), free(r->step.fp8.scale);
  mr_params_fini(&r->params);
  free(r->stage.state);
  free(r->words), free(r->field_words);
  free(r);
}

const mr_replay_report_t *mr_replay_report(const mr_replay_t *r) { return &r->reported; }

void mr_replay_set_device(mr_replay_t *r, const mr_device_t *device) {
  r->step.config.compute.device = device;
}

/* Sets the process's defaults; returns those until now. */
static mr__replay_defaults_t replay_defaults(mr__replay_defaults_t d) {
  mr__replay_defaults_t before = {mr_matmul_precision(), mr_key_layout()};
  mr_matmul_precision_set(d.precision);
  mr_key_layout_set(d.keys);
  return before;
}

static mr__traced_step_t replay_traced_step(const mr_replay_t *r, int threads) {
  mr__traced_step_t t = r->step;
  t.config.compute.threads = threads ? threads : (int)r->reported.threads;
  return t;
}

mr_err_t mr_replay_run(mr_replay_t *r, int threads, mr_train_out_t *out, mr_diag_t *diag) {
  mr__traced_step_t t = replay_traced_step(r, threads);
  mr_train_step_t *step = NULL;
  mr__replay_defaults_t before = replay_defaults(r->defaults);
  mr_err_t e = mr__traced_compile(&t, false, &step, diag);
  replay_defaults(before);
  if (e >= 0) e = mr__traced_run(&t, step, out, diag);
  mr_train_step_destroy(step);
  return e;
}

mr_err_t mr_replay_trace(mr_replay_t *r, int threads, FILE *list, mr_traced_t *out,
                         mr_diag_t *diag) {
  mr__traced_step_t t = replay_traced_step(r, threads);
  mr__replay_defaults_t before = replay_defaults(r->defaults);
  mr_err_t e = mr__trace_step(&t, list, out, diag);
  replay_defaults(before);
  return e;
}
