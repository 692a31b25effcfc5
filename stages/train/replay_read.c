/* Replay files as they are read.  A file is checked before it costs memory: the list of parameters
   that its model has is compared with the tensors that it holds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "pipeline/opt.h"
#include "stages/train/computes.h"
#include "stages/train/replay_private.h"
#include "stages/train/train_step_private.h"

static const char *replay_text(const mr_replay_t *r, const char *word, mr_diag_t *diag) {
  char name[64];
  snprintf(name, sizeof name, "millrace.%s", word);
  const char *text = mr_safetensors_meta(r->file, name);
  if (!text) mr_fail(diag, MR_ERR_DATA, "%s: metadata %s is missing", r->path, name);
  return text;
}

static mr_err_t replay_number(const mr_replay_t *r, const char *word, int base, uint64_t most,
                              uint64_t *out, mr_diag_t *diag) {
  const char *text = replay_text(r, word, diag);
  char *end = NULL;
  if (!text) return MR_ERR_DATA;
  bool digits = (*text >= '0' && *text <= '9') || (base == 16 && *text >= 'a' && *text <= 'f');
  *out = digits ? strtoull(text, &end, base) : 0;
  if (digits && !*end && *out <= most) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.%s is \"%.40s\", want a whole number up to %" PRIu64,
                 r->path, word, text, most);
}

static mr_err_t replay_bits(const mr_replay_t *r, const char *word, float *out, mr_diag_t *diag) {
  uint64_t n;
  MR_TRY(replay_number(r, word, 16, UINT32_MAX, &n, diag));
  uint32_t bits = (uint32_t)n;
  memcpy(out, &bits, sizeof bits);
  return MR_OK;
}

static mr_err_t replay_word(const mr_replay_t *r, const char *word, char *to, size_t n,
                            mr_diag_t *diag) {
  const char *text = replay_text(r, word, diag);
  if (!text) return MR_ERR_DATA;
  if (strlen(text) < n) return strcpy(to, text), MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.%s has %zu bytes, want less than %zu",
                 r->path, word, strlen(text), n);
}

static mr_err_t read_scale(mr_replay_t *r, mr_diag_t *diag) {
  mr_scale_state_t *c = &r->step.scale;
  const char *text = replay_text(r, "scale", diag);
  if (!text) return MR_ERR_DATA;
  bool good =
      mr_sscanf(text, "%f %d %d %d %d", &c->scale, &c->good, &c->bad, &c->resets, &c->skipped) == 5;
  if (good && c->scale == mr_scale_state_start(c->scale).scale && c->good >= 0 && c->skipped >= 0)
    return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: metadata millrace.scale is \"%.60s\", want a scale and four counts", r->path,
                 text);
}

static mr_err_t read_reported(mr_replay_t *r, mr_diag_t *diag) {
  mr_replay_report_t *t = &r->reported;
  uint64_t version, step, threads, keys, precision, after = 0;
  if (!mr_safetensors_meta(r->file, "millrace.replay"))
    return mr_fail(
        diag, MR_ERR_DATA,
        "%s: not a replay file: metadata millrace.replay is missing; on-nan=trace writes "
        "such files",
        r->path);
  MR_TRY(replay_number(r, "replay", 10, INT32_MAX, &version, diag));
  if (version != MR__REPLAY_VERSION)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: a replay file of version %" PRIu64
                   ", want %d; the millrace that wrote it "
                   "reads it",
                   r->path, version, MR__REPLAY_VERSION);
  MR_TRY(replay_number(r, "step", 10, UINT32_MAX, &step, diag));
  MR_TRY(replay_number(r, "seed", 10, UINT64_MAX, &t->seed, diag));
  MR_TRY(replay_number(r, "threads", 10, MR_THREADS_MAX, &threads, diag));
  MR_TRY(replay_number(r, "keys", 10, 1, &keys, diag));
  MR_TRY(replay_number(r, "precision", 10, MR_PRECISION_HIGHEST, &precision, diag));
  if (mr_safetensors_meta(r->file, "millrace.ema_after"))
    MR_TRY(replay_number(r, "ema_after", 10, step, &after, diag));
  t->step = (int64_t)step, t->threads = (int64_t)threads, t->ema_after = (int64_t)after;
  MR_TRY(replay_bits(r, "lr", &t->lr, diag));
  MR_TRY(replay_bits(r, "loss", &t->loss, diag));
  MR_TRY(replay_bits(r, "grad_norm", &t->grad_norm, diag));
  MR_TRY(replay_word(r, "stage", t->stage, sizeof t->stage, diag));
  MR_TRY(replay_word(r, "isa", t->isa, sizeof t->isa, diag));
  MR_TRY(replay_word(r, "made_with", t->made_with, sizeof t->made_with, diag));
  strcpy(t->device, "cpu");
  if (mr_safetensors_meta(r->file, "millrace.device"))
    MR_TRY(replay_word(r, "device", t->device, sizeof t->device, diag));
  r->defaults = (mr__replay_defaults_t){(mr_precision_t)precision, (mr_key_layout_t)keys};
  return read_scale(r, diag);
}

/* The definition that the line "model=NAME" chooses, which settings then are of. */
static mr_err_t choose_def(mr_replay_t *r, mr_diag_t *diag) {
  char hint[256] = "";
  const char *at = strncmp(r->words, "model=", 6) ? strstr(r->words, "\nmodel=") : r->words;
  if (at) at += *at == '\n';
  size_t n = at ? strcspn(at + 6, "\n") : 0;
  if (at && n < sizeof r->reported.model) memcpy(r->reported.model, at + 6, n);
  if (*r->reported.model)
    r->stage.def = mr_stage_train_step.choose(r->reported.model, hint, sizeof hint);
  if (r->stage.def) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "%s: a step of model \"%s\", which is unknown here%s", r->path,
                 r->reported.model, hint);
}

static const mr_opt_t *replay_opt(const mr_stage_def_t *def, const char *name) {
  for (const mr_opt_t *o = def->opts; o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, name)) return o;
  return NULL;
}

static mr_err_t set_line(mr_replay_t *r, char *line, mr_diag_t *diag) {
  char *value = strchr(line, '=');
  if (value) *value++ = 0;
  const mr_opt_t *o = value && !mr__replay_leaves_out(line) ? replay_opt(r->stage.def, line) : NULL;
  if (!o)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: metadata millrace.settings has \"%.60s\", which is no "
                   "setting of a step",
                   r->path, line);
  return mr_opt_set(o, r->stage.state, r->path, value, diag);
}

static mr_err_t read_settings(mr_replay_t *r, mr_diag_t *diag) {
  const char *text = replay_text(r, "settings", diag);
  char *rest = NULL;
  if (!text) return MR_ERR_DATA;
  if (strlen(text) >= MR__REPLAY_SETTINGS)
    return mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.settings is too long", r->path);
  if (!(r->words = strdup(text))) return mr_no_memory(diag, "replay file %s", r->path);
  MR_TRY(choose_def(r, diag));
  const mr_stage_def_t *def = r->stage.def;
  r->stage.name = r->path, r->stage.diag = diag;
  if (!(r->stage.state = calloc(1, def->state_sz)))
    return mr_no_memory(diag, "replay file %s", r->path);
  for (const mr_opt_t *o = def->opts; o->type != MR_OPT_END; o++)
    if (o->def) MR_TRY(mr_opt_set(o, r->stage.state, r->path, o->def, diag));
  for (char *l = strtok_r(r->words, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest))
    MR_TRY(set_line(r, l, diag));
  MR_TRY(mr__train_plan_scale(&r->stage));
  return mr_train_amp_plan(&r->stage, &((train_t *)r->stage.state)->amp);
}

static mr_err_t bad_tensor(const mr_replay_t *r, const char *name, mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_DATA,
                 "%s: tensor %s is missing or not of the shape that the step has", r->path, name);
}

/* A line "NAME CLASSES LAYOUT", and the tensor field/NAME. */
static mr_err_t replay_read_field(mr_replay_t *r, char *line, mr_model_field_t *f,
                                  mr_diag_t *diag) {
  char name[MR__REPLAY_NAME], *rest = NULL, *end = NULL;
  const char *word = strtok_r(line, " ", &rest), *classes = strtok_r(NULL, " ", &rest);
  const char *layout = strtok_r(NULL, " ", &rest);
  *f = (mr_model_field_t){.name = word, .layout = layout ? layout : ""}; /* held as it is kept */
  f->classes = classes ? strtoll(classes, &end, 10) : -1;
  snprintf(name, sizeof name, "field/%.200s", word ? word : "");
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  bool good = word && classes && !*end && f->classes >= 0 && f->classes <= 1 << 20 && t &&
              t->ndim >= 1 && t->dim[0] >= 1 && t->dim[0] <= 1 << 20 &&
              (!r->step.config.batch || r->step.config.batch == t->dim[0]);
  if (!good) return bad_tensor(r, name, diag);
  r->step.config.batch = t->dim[0];
  f->aval = mr_aval(t->dtype, t->ndim - 1, t->dim + 1);
  return MR_OK;
}

static mr_err_t plan_model(mr_replay_t *r, mr_diag_t *diag) {
  mr_model_field_t field[MR_LOSS_FIELDS];
  const char *text = replay_text(r, "fields", diag);
  char *rest = NULL;
  int n = 0;
  mr_diag_t why = {0};
  if (!text) return MR_ERR_DATA;
  char *words = strdup(text);
  if (!words) return mr_no_memory(diag, "replay file %s", r->path);
  mr_err_t e = MR_OK;
  for (char *l = strtok_r(words, "\n", &rest); e >= 0 && l; l = strtok_r(NULL, "\n", &rest))
    e = n < MR_LOSS_FIELDS ? replay_read_field(r, l, &field[n++], diag)
                           : bad_tensor(r, "field", diag);
  r->field_words = words; /* its names are there */
  if (e < 0) return e;
  e = mr_model_plan(&r->model, mr__train_model_of(&r->stage), mr__train_model_state(&r->stage), n,
                    field, &why);
  return e < 0 ? mr_diag_prefix(diag, MR_ERR_DATA, &why, "%s", r->path) : MR_OK;
}

/* A copy of a tensor, aligned as a step takes it; the caller frees it.  NULL, with a sentence in
   diag, if it is not (B, record) or without memory. */
static void *replay_copy_rows(const mr_replay_t *r, const char *name, const mr_aval_t *record,
                              mr_diag_t *diag) {
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  int64_t B = r->step.config.batch;
  size_t bytes = (size_t)B * mr_aval_bytes(record);
  if (!t || t->dtype != record->dtype || t->ndim != 1 + record->ndim || t->dim[0] != B ||
      memcmp(t->dim + 1, record->dim, (size_t)record->ndim * sizeof *t->dim))
    return bad_tensor(r, name, diag), NULL;
  void *to = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!to) return mr_no_memory(diag, "the batch of %s", r->path), NULL;
  return memcpy(to, t->data, bytes);
}

static mr_err_t read_batch(mr_replay_t *r, mr_diag_t *diag) {
  const mr_loss_t *l = &r->model.plan.loss;
  const mr_aval_t one = mr_aval_scalar(MR_F32);
  char name[MR__REPLAY_NAME];
  for (int i = 0; i < l->n_fields; i++) {
    snprintf(name, sizeof name, "field/%.200s", l->field[i].name);
    if (!(r->field[i] = replay_copy_rows(r, name, &l->field[i].aval, diag))) return diag->code;
  }
  if (l->masked && !(r->field[l->n_fields] = replay_copy_rows(r, "counts", &one, diag)))
    return diag->code;
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, "records");
  if (!t || t->dtype != MR_U64 || t->ndim != 1 || t->dim[0] > r->step.config.batch)
    return bad_tensor(r, "records", diag);
  r->reported.n_records = (int)t->dim[0];
  if (!(r->record = calloc((size_t)t->dim[0] + 1, sizeof *r->record)))
    return mr_no_memory(diag, "the batch of %s", r->path);
  memcpy(r->record, t->data, (size_t)t->dim[0] * sizeof *r->record);
  return MR_OK;
}

/* Tensor i of a set; to is without its arena to check the file alone. */
static mr_err_t replay_read_tensor(const mr_replay_t *r, int which, int i, const mr_param_set_t *to,
                                   mr_diag_t *diag) {
  const mr_param_t *p = &r->params.param[i];
  char name[MR__REPLAY_NAME];
  snprintf(name, sizeof name, "%s/%.200s", mr__replay_set[which].name, p->name);
  const mr_st_tensor_t *t = mr_safetensors_find(r->file, name);
  if (!t || t->ndim != p->aval.ndim || (to && t->dtype != to->dtype) ||
      memcmp(t->dim, p->aval.dim, (size_t)t->ndim * sizeof *t->dim))
    return bad_tensor(r, name, diag);
  if (!to) return MR_OK;
  mr_aval_t a = p->aval;
  a.dtype = to->dtype;
  memcpy(mr_params_at(&r->params, to, i), t->data, mr_aval_bytes(&a));
  return MR_OK;
}

/* The set of the step that row k of mr__replay_set names; NULL: the step has none. */
static const mr_param_set_t *replay_set(const mr_replay_t *r, int k) {
  return mr_params_set(&r->params, mr__replay_set[k].kind, mr__replay_set[k].number);
}

static mr_err_t read_params(mr_replay_t *r, mr_diag_t *diag) {
  const mr_loss_t *l = &r->model.plan.loss;
  mr_diag_t why = {0};
  mr_train_want_sets(&r->step.config.compute, &r->step.config.optim, &r->params);
  mr_err_t e = mr_loss_params_list(l, &r->params, &why);
  if (e < 0) return mr_diag_prefix(diag, e, &why, "%s", r->path);
  for (int k = 0; k < MR__REPLAY_SETS; k++)
    for (int i = 0; i < r->params.n && replay_set(r, k); i++)
      MR_TRY(replay_read_tensor(r, k, i, NULL, diag));
  if ((e = mr_params_alloc(&r->params, &why)) < 0)
    return mr_diag_prefix(diag, e, &why, "%s", r->path);
  for (int k = 0; k < MR__REPLAY_SETS; k++)
    for (int i = 0; i < r->params.n && replay_set(r, k); i++)
      MR_TRY(replay_read_tensor(r, k, i, replay_set(r, k), diag));
  return MR_OK;
}

/* The state of fp8, if the step has one. */
static mr_err_t read_fp8(mr_replay_t *r, mr_diag_t *diag) {
  int history = r->step.config.compute.fp8.history;
  if (!history) return MR_OK;
  return mr__computes_load_fp8(r->file, r->path, history, &r->step.fp8, diag);
}

mr_err_t mr__replay_read(mr_replay_t *r, mr_diag_t *diag) {
  MR_TRY(mr_safetensors_open(r->path, &r->file, diag));
  MR_TRY(read_reported(r, diag));
  MR_TRY(read_settings(r, diag));
  MR_TRY(plan_model(r, diag));
  MR_TRY(mr_train_amp_plan(&r->stage, &((train_t *)r->stage.state)->amp));
  int64_t B = r->step.config.batch;
  r->reported.batch = B;
  ((train_t *)r->stage.state)->ema_after = r->reported.ema_after;
  r->step.config = mr__train_config(r->stage.state, B);
  r->reported.ema = r->step.config.optim.ema;
  const mr_train_config_t *c = &r->step.config;
  if (c->accumulate < 1 || B % c->accumulate)
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: accumulate=%" PRId64 " does not divide a batch of %" PRId64, r->path,
                   c->accumulate, B);
  mr_diag_t own = {0};
  if (mr_train_parts_check(c, &own) < 0)
    return mr_diag_prefix(diag, MR_ERR_DATA, &own, "%s", r->path);
  MR_TRY(read_batch(r, diag));
  MR_TRY(read_fp8(r, diag));
  return read_params(r, diag);
}
