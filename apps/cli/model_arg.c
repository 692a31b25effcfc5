/* Sets a model up from a command's flags and words, without a stage: defaults, flags, NAME=VALUE
   words, then its plan.  It goes through the same rows and the same plan as train-step does, so
   that summary, jaxpr and mem show the model that would be trained. */
#include "apps/cli/model_arg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "model/exec/device.h"
#include "model/train/slots.h"
#include "model/transforms/transforms.h"
#include "pipeline/opt.h"

static bool command_takes(const mr_args_t *a, const char *flag) {
  for (const mr_flag_t *f = a->command->flags; f->name; f++)
    if (!strcmp(f->name, flag)) return true;
  return false;
}

/* ---- the model ---- */
static const mr_opt_t *opt_of(const mr_model_def_t *def, const char *name, size_t n) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
  return NULL;
}

/* The value of NAME among the words NAME=VALUE from `first` on, or NULL. */
static const char *word_value(const mr_args_t *a, int first, const char *name) {
  size_t n = strlen(name);
  for (int i = first; i < a->n_words; i++)
    if (!strncmp(a->word[i], name, n) && a->word[i][n] == '=') return a->word[i] + n + 1;
  return NULL;
}

static mr_err_t model_arg_find_model(const mr_args_t *a, int first, const mr_model_def_t **out,
                                     mr_diag_t *diag) {
  const char *name = word_value(a, first, "model");
  char hint[96];
  mr_suggest_t near = {.word = name ? name : "vit"};
  for (int i = 0; mr_model_at(i); i++) mr_suggest_offer(&near, mr_model_at(i)->name);
  *out = mr_model_find(near.word);
  if (*out) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "%s: model=%.60s: unknown%s", a->command->name, name,
                 mr_suggest_text(&near, hint, sizeof hint));
}

static mr_err_t set_word(const mr_args_t *a, const char *word, mr_model_job_t *job,
                         mr_diag_t *diag) {
  const mr_model_def_t *def = job->model.def;
  size_t n = strcspn(word, "=");
  char name[64], hint[96];
  if (n == 5 && !strncmp(word, "model", 5)) return MR_OK;
  const mr_opt_t *o = opt_of(def, word, n);
  if (o) return mr_opt_set(o, job->state, a->command->name, word + n + 1, diag);
  snprintf(name, sizeof name, "%.*s", (int)n, word);
  mr_suggest_t near = {.word = name};
  for (o = def->opts; o && o->type != MR_OPT_END; o++) mr_suggest_offer(&near, o->name);
  return mr_fail(diag, MR_ERR_USAGE, "%s: model %s has no setting \"%s\"%s", a->command->name,
                 def->name, name, mr_suggest_text(&near, hint, sizeof hint));
}

/* Applies the flags that are settings of the vit. */
static mr_err_t set_flags(const mr_args_t *a, mr_model_job_t *job, mr_diag_t *diag) {
  static const struct {
    const char *flag, *setting;
  } known[] = {{"--variant", "style"}, {"--layers", "layers"}, {"--embed", "embed"},
               {"--mlp", "mlp"},       {"--heads", "heads"},   {"--patch", "patch"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *text = mr_args_text(a, known[i].flag), *name = known[i].setting;
    const mr_opt_t *o = opt_of(job->model.def, name, strlen(name));
    int64_t size = 1;
    if (!text) continue;
    if (strcmp(name, "style")) MR_TRY(mr_args_int(a, known[i].flag, 1, 1 << 20, &size, diag));
    if (!o)
      return mr_fail(diag, MR_ERR_USAGE, "%s: %s: model %s has no setting %s", a->command->name,
                     known[i].flag, job->model.def->name, name);
    MR_TRY(mr_opt_set(o, job->state, a->command->name, text, diag));
  }
  return MR_OK;
}

/* --pictures and --slots.  Which mean and std bytes are normalised by changes no size. */
static mr_err_t held_flags(const mr_args_t *a, mr_model_job_t *job, mr_diag_t *diag) {
  const char *held = command_takes(a, "--pictures") ? mr_args_text(a, "--pictures") : NULL;
  mr_model_field_t *f = &job->field[0];
  job->slots = MR_SLOTS_USUAL;
  if (command_takes(a, "--slots"))
    MR_TRY(mr_args_int(a, "--slots", MR_TRAIN_RING, MR_SLOTS_MAX, &job->slots, diag));
  if (!held || !strcmp(held, "f32")) return MR_OK;
  if (strcmp(held, "bf16") && strcmp(held, "u8"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --pictures: \"%s\", expected f32, bf16 or u8",
                   a->command->name, held);
  f->held = strcmp(held, "u8") ? MR_BF16 : MR_U8, f->channel = 2;
  for (int c = 0; c < 3; c++) f->mean[c] = 0.5f, f->std[c] = 0.25f;
  return MR_OK;
}

static mr_err_t set_fields(const mr_args_t *a, mr_model_job_t *job, mr_diag_t *diag) {
  int64_t side = 32, classes = 10;
  MR_TRY(mr_args_int(a, "--image", 1, 1 << 20, &side, diag));
  MR_TRY(mr_args_int(a, "--classes", 1, 1 << 20, &classes, diag));
  job->field[0] = (mr_model_field_t){
      .name = "image", .aval = mr_aval_of(MR_F32, side, side, 3), .layout = "HWC"};
  job->field[1] = (mr_model_field_t){
      .name = "label", .aval = mr_aval_scalar(MR_I32), .layout = "", .classes = classes};
  return held_flags(a, job, diag);
}

/* ---- computation ---- */
static mr_err_t remat_flag(const mr_args_t *a, mr_nn_remat_t *out, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--remat");
  if (!text) return MR_OK;
  for (int r = 0; r < MR_NN_REMATS; r++)
    if (!strcmp(text, mr_nn_remat_name((mr_nn_remat_t)r))) {
      *out = (mr_nn_remat_t)r;
      return MR_OK;
    }
  return mr_fail(diag, MR_ERR_USAGE, "%s: --remat: \"%s\", expected none, dots or full",
                 a->command->name, text);
}

static mr_err_t dtype_flag(const mr_args_t *a, const char *flag, const char *text, mr_dtype_t *out,
                           mr_diag_t *diag) {
  static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
  if (!text) return MR_OK;
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, mr_dtype_name(some[i]))) {
      *out = some[i];
      return MR_OK;
    }
  return mr_fail(diag, MR_ERR_USAGE, "%s: %s: \"%s\", expected f32, bf16 or f16", a->command->name,
                 flag, text);
}

/* --param-dtype, --master and --slot-dtype, as the settings of train-step. */
static mr_err_t kept_flags(const mr_args_t *a, mr_compute_t *c, mr_diag_t *diag) {
  const char *master = mr_args_text(a, "--master"), *slots = mr_args_text(a, "--slot-dtype");
  mr_dtype_t values = MR_F32;
  MR_TRY(dtype_flag(a, "--param-dtype", mr_args_text(a, "--param-dtype"), &values, diag));
  if (master && strcmp(master, "f32") && strcmp(master, "none"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --master: \"%s\", expected f32 or none",
                   a->command->name, master);
  bool alone = master && !strcmp(master, "none");
  if (alone && values == MR_F32)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: --master none: parameters are f32 without a copy, expected --param-dtype "
                   "bf16 or f16 beside it",
                   a->command->name);
  if (slots && strcmp(slots, "f32") && strcmp(slots, "bf16"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --slot-dtype: \"%s\", expected f32 or bf16",
                   a->command->name, slots);
  if (values != MR_F32 && alone) c->values = values;
  if (values != MR_F32 && !alone) c->reads = values;
  if (slots && !strcmp(slots, "bf16")) c->slots = MR_BF16;
  return MR_OK;
}

/* --fp8 and what belongs to it, as the settings of train-step. */
static mr_err_t fp8_flags(const mr_args_t *a, mr_compute_t *c, mr_diag_t *diag) {
  const char *format = mr_args_text(a, "--fp8"), *amax = mr_args_text(a, "--fp8-amax");
  int64_t history = mr_fp8_usual().history, margin = mr_fp8_usual().margin;
  MR_TRY(mr_args_int(a, "--fp8-history", 1, 65536, &history, diag));
  MR_TRY(mr_args_int(a, "--fp8-margin", -64, 64, &margin, diag));
  if (amax && strcmp(amax, "max") && strcmp(amax, "most-recent"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --fp8-amax: \"%s\", expected max or most-recent",
                   a->command->name, amax);
  if (!format || !strcmp(format, "none")) return MR_OK;
  if (strcmp(format, "hybrid") && strcmp(format, "e4m3"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --fp8: \"%s\", expected none, hybrid or e4m3",
                   a->command->name, format);
  c->fp8 = mr_fp8_usual();
  c->fp8.format = strcmp(format, "e4m3") ? MR_FP8_HYBRID : MR_FP8_E4M3;
  c->fp8.history = (int)history;
  c->fp8.margin = (int)margin;
  c->fp8.most_recent = amax && !strcmp(amax, "most-recent");
  return MR_OK;
}

/* --optimizer and --ema. */
static mr_err_t optim_flags(const mr_args_t *a, mr_optim_t *o, mr_diag_t *diag) {
  const char *name = mr_args_text(a, "--optimizer"), *ema = mr_args_text(a, "--ema");
  char *end = NULL;
  if (name) *o = mr_optim_of(name);
  if (!o->def)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: --optimizer: \"%s\", expected sgd, momentum, adam, adamw, lion or lamb",
                   a->command->name, name);
  if (ema) o->ema = strtof(ema, &end);
  if (ema && (end == ema || *end || !(o->ema >= 0 && o->ema <= 0.9999999f)))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --ema: \"%s\", expected a number in [0,0.9999999]",
                   a->command->name, ema);
  return MR_OK;
}

/* As mr_device_arg, for graphs that are planned alone unless the command runs them. */
static mr_err_t device_to_plan(const mr_args_t *a, const mr_device_t **out, mr_diag_t *diag) {
  const char *name = command_takes(a, "--device") ? mr_args_text(a, "--device") : NULL;
  mr_diag_t why = {0};
  *out = NULL;
  if (!name || mr_device_open_to_plan(name, out, &why) >= 0) return MR_OK;
  return mr_diag_prefix(diag, why.code == MR_ERR_CONFIG ? MR_ERR_USAGE : why.code, &why,
                        "%s: --device", a->command->name);
}

static mr_err_t step_flags(const mr_args_t *a, mr_train_config_t *t, mr_diag_t *diag) {
  const char *precision = command_takes(a, "--precision") ? mr_args_text(a, "--precision") : NULL;
  const char *dtype = command_takes(a, "--dtype") ? mr_args_text(a, "--dtype") : NULL;
  *t = mr_train_default(128);
  MR_TRY(device_to_plan(a, &t->compute.device, diag));
  if (command_takes(a, "--batch")) MR_TRY(mr_args_int(a, "--batch", 1, 65536, &t->batch, diag));
  if (command_takes(a, "--accumulate"))
    MR_TRY(mr_args_int(a, "--accumulate", 1, 65536, &t->accumulate, diag));
  if (command_takes(a, "--ordered"))
    MR_TRY(mr_args_int(a, "--ordered", 0, MR_ORDERED_MOST, &t->ordered, diag));
  if (command_takes(a, "--remat")) MR_TRY(remat_flag(a, &t->compute.remat, diag));
  if (precision) MR_TRY(mr_precision_parse("--precision", precision, &t->compute.precision, diag));
  if (command_takes(a, "--param-dtype")) MR_TRY(kept_flags(a, &t->compute, diag));
  if (command_takes(a, "--fp8")) MR_TRY(fp8_flags(a, &t->compute, diag));
  if (t->compute.fp8.history && t->compute.device && !t->compute.device->backend->host)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: --fp8: device %s has no kernels of f8, expected --device cpu beside it",
                   a->command->name, t->compute.device->name);
  if (command_takes(a, "--optimizer")) MR_TRY(optim_flags(a, &t->optim, diag));
  return dtype_flag(a, "--dtype", dtype, &t->compute.dtype, diag);
}

/* The policy of --amp and --amp-rule. */
static mr_err_t amp_flags(const mr_args_t *a, mr_model_job_t *job, mr_diag_t *diag) {
  const char *amp = command_takes(a, "--amp") ? mr_args_text(a, "--amp") : NULL;
  const char *rules = command_takes(a, "--amp-rule") ? mr_args_text(a, "--amp-rule") : NULL;
  bool none = amp && !strcmp(amp, "none");
  if (amp && !none && strcmp(amp, "usual") && strcmp(amp, "jaxamp"))
    return mr_fail(diag, MR_ERR_USAGE, "%s: --amp: \"%s\", expected usual, jaxamp or none",
                   a->command->name, amp);
  if (none && job->train.compute.dtype != MR_F32)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: --amp none: the model computes in f32 as it is written, expected --dtype "
                   "f32 beside it",
                   a->command->name);
  if (none) amp = NULL;
  if ((amp || rules) && job->train.compute.dtype == MR_F32)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: --%s: nothing computes narrower with --dtype f32, expected bf16 or f16",
                   a->command->name, amp ? "amp" : "amp-rule");
  job->policy = amp && !strcmp(amp, "jaxamp") ? mr_amp_jaxamp(MR_BF16) : mr_amp_usual(MR_BF16);
  job->train.compute.policy = &job->policy;
  mr_diag_t why = {0};
  if (rules && mr_amp_add_text(&job->policy, rules, &why) < 0)
    return mr_diag_prefix(diag, MR_ERR_USAGE, &why, "%s: --amp-rule", a->command->name);
  return MR_OK;
}

static mr_err_t model_arg_fill(const mr_args_t *a, int first, mr_model_job_t *job,
                               mr_diag_t *diag) {
  const mr_model_def_t *def = job->model.def;
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++)
    if (o->def) MR_TRY(mr_opt_set(o, job->state, def->name, o->def, diag));
  MR_TRY(set_flags(a, job, diag));
  for (int i = first; i < a->n_words; i++) MR_TRY(set_word(a, a->word[i], job, diag));
  MR_TRY(set_fields(a, job, diag));
  MR_TRY(step_flags(a, &job->train, diag));
  MR_TRY(amp_flags(a, job, diag));
  return mr_model_plan(&job->model, def, job->state, 2, job->field, diag);
}

mr_err_t mr_model_arg(const mr_args_t *a, int first, mr_model_job_t *job, mr_diag_t *diag) {
  *job = (mr_model_job_t){.state = NULL};
  if (a->n_words > first) MR_TRY(mr_args_settings(a, first, diag));
  MR_TRY(model_arg_find_model(a, first, &job->model.def, diag));
  job->state = calloc(1, job->model.def->state_sz + 1);
  if (!job->state) return mr_no_memory(diag, "a model");
  return model_arg_fill(a, first, job, diag);
}

void mr_model_job_fini(mr_model_job_t *job) {
  free(job->state);
  *job = (mr_model_job_t){.state = NULL};
}

/* ---- its functions ---- */
static mr_fn_t *grad_of(const mr_fn_t *loss, int n_data, mr_diag_t *diag) {
  int n = loss->n_in - n_data;
  int *wrt = calloc((size_t)n, sizeof *wrt);
  mr_fn_t *f = NULL;
  if (!wrt) return mr_no_memory(diag, "the gradient"), NULL;
  for (int i = 0; i < n; i++) wrt[i] = n_data + i;
  mr_err_t e = mr_value_and_grad(loss, n, wrt, &f, diag);
  free(wrt);
  return e < 0 ? NULL : f;
}

mr_fn_t *mr_model_fn(const char *word, const mr_model_job_t *job, mr_params_t *params,
                     mr_diag_t *diag) {
  bool grad = !strcmp(word, "grad"), step = !strcmp(word, "step");
  const mr_loss_t *l = &job->model.plan.loss;
  mr_fn_t *f = NULL;
  if (!grad && !step && strcmp(word, "loss")) {
    mr_fail(diag, MR_ERR_USAGE, "unknown function \"%s\"; expected loss, grad or step", word);
    return NULL;
  }
  if (step) return mr_train_step_fn(l, &job->train, params, &f, diag) < 0 ? NULL : f;
  mr_loss_use_t use = {.batch = job->train.batch, .train = true};
  mr_fn_t *loss = mr_loss_fn(l, &job->train.compute, &use, params, diag);
  if (!loss || !grad) return loss;
  f = grad_of(loss, mr_loss_n_data(l), diag);
  mr_fn_destroy(loss);
  return f;
}

mr_err_t mr_device_named(const mr_args_t *a, mr_diag_t *diag) {
  const char *name = mr_args_text(a, "--device");
  mr_diag_t why = {0};
  mr_err_t e = name ? mr_device_check(name, &why) : MR_OK;
  if (e >= 0) return MR_OK;
  return mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "%s: --device",
                        a->command->name);
}

mr_err_t mr_device_arg(const mr_args_t *a, const mr_device_t **out, mr_diag_t *diag) {
  const char *name = command_takes(a, "--device") ? mr_args_text(a, "--device") : NULL;
  mr_diag_t why = {0};
  *out = NULL;
  if (!name || mr_device_open(name, out, &why) >= 0) return MR_OK;
  return mr_diag_prefix(diag, why.code == MR_ERR_CONFIG ? MR_ERR_USAGE : why.code, &why,
                        "%s: --device", a->command->name);
}

/* A step's first output is its metrics; the others, the state of fp8 among them, take the place of
   its last inputs. */
mr_err_t mr_model_jit(const mr_args_t *a, const mr_fn_t *f, const char *word, bool plan_only,
                      mr_exec_t **out, mr_diag_t *diag) {
  mr_compile_options_t o = {.in_place = strcmp(word, "step") ? 0 : f->n_out - 1,
                            .plan_only = plan_only};
  MR_TRY(device_to_plan(a, &o.device, diag));
  return mr_compile(f, &o, out, diag);
}

size_t mr_model_slots_bytes(const mr_model_job_t *job) {
  enum { FIELDS = sizeof job->field / sizeof *job->field };
  const mr_device_t *d = job->train.compute.device;
  size_t bytes[FIELDS];
  if (!d || d->backend->host) return 0;
  for (int i = 0; i < FIELDS; i++) {
    const mr_aval_t held = mr_loss_held(&job->field[i]);
    bytes[i] = mr_aval_bytes(&held) * (size_t)job->train.batch;
  }
  return mr_slots_bytes(d, (int)job->slots, FIELDS, bytes);
}
