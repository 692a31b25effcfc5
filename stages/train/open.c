/* Opens train-step: compiles the step from the settings, and fills its parameters, new or from a
   checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/machine.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "model/exec/device.h"
#include "model/exec/process_ranks.h"
#include "model/train/fit.h"
#include "model/train/held.h"
#include "pipeline/stage_step.h"
#include "stages/train/computes.h"
#include "stages/train/from.h"
#include "stages/train/trace_step.h"
#include "stages/train/train_step_private.h"

static void set_unless_usual(float *to, double v) {
  if (v >= 0) *to = (float)v;
}

static void open_set_scale(const train_t *v, mr_optim_t *o) {
  o->loss_scale = (float)v->fixed_scale;
  o->only_finite = true;
  bool skips = mr__train_may_skip(v);
  if (!v->fixed_scale) {
    o->dynamic = mr_loss_scale_usual();
    o->dynamic.start = (float)v->scale_start;
    o->dynamic.patience = (int32_t)v->scale_patience;
  }
  o->dynamic.max_bad = skips ? (int32_t)v->max_skipped : 0;
}

mr_train_config_t mr__train_config(const train_t *v, int64_t batch) {
  mr_train_config_t t = {.optim = mr_optim_of(mr__train_optimizer_name[v->optimizer]),
                         .compute = {.precision = (mr_precision_t)v->precision, /* same order */
                                     .remat = (mr_nn_remat_t)v->remat,
                                     .threads = (int)v->team.threads,
                                     .pin = v->team.pin,
                                     .device = v->on},
                         .batch = batch,
                         .accumulate = v->accumulate,
                         .ordered = v->ordered,
                         .zero = (int)v->zero,
                         .pipeline = v->cut.cut,
                         .there = v->there,
                         .rules = v->rules};
  mr_train_amp_set(&v->amp, &t.compute);
  set_unless_usual(&t.optim.b1, v->b1);
  set_unless_usual(&t.optim.b2, v->b2);
  set_unless_usual(&t.optim.eps, v->eps);
  set_unless_usual(&t.optim.weight_decay, v->weight_decay);
  t.optim.clip_norm = (float)v->clip_norm;
  open_set_scale(v, &t.optim);
  t.optim.nesterov = v->nesterov;
  t.optim.ema = (float)v->ema, t.optim.ema_after = (float)v->ema_after;
  return t;
}

/* Chooses remat and accumulate for a memory limit.  Evaluation works in the training step's memory,
   and has its own only if it needs more. */
static mr_err_t open_fit(train_t *v, mr_train_config_t *t, mr_diag_t *diag) {
  size_t limit;
  mr_fit_t choice;
  if (!v->fit) return MR_OK;
  MR_TRY(mr_bytes_parse("setting fit", v->fit, &limit, diag));
  MR_TRY(mr_fit(&v->model.plan.loss, v->model.def->remat, t, limit, &choice, diag));
  t->compute.remat = choice.remat;
  t->accumulate = choice.accumulate;
  mr_notice(
      "fit=%s: remat=%s accumulate=%lld, planned peak %zu bytes; a byte counts as %g operations",
      v->fit, mr_nn_remat_name(choice.remat), (long long)choice.accumulate, choice.peak,
      choice.byte);
  return MR_OK;
}

/* Says what the precision asked for loses. */
static void open_report_precision(const mr_stage_t *s, const mr_train_config_t *t) {
  const train_t *v = s->state;
  if (t->compute.values != MR_F32 && !t->compute.stochastic)
    mr_notice(
        "%s: master=none: parameters are kept in %s alone; updates below 2^-%d of a parameter "
        "are rounded away, rounding=stochastic keeps them on average and master=f32 exactly",
        s->name, mr_dtype_name(t->compute.values), t->compute.values == MR_BF16 ? 9 : 12);
  if (t->compute.dtype == MR_F16 && v->fixed_scale > 0)
    mr_notice(
        "%s: dtype=f16 with loss-scale=%s: scaled gradients below 6e-8 are 0, and those above "
        "65504 are not finite; loss-scale=dynamic keeps them between",
        s->name, v->loss_scale);
  if (t->compute.fp8.history)
    mr_notice(
        "%s: fp8: this CPU cannot multiply f8: values are multiplied as bf16, so results are "
        "those of f8, but no step is faster",
        s->name);
  mr_train_amp_report(s, &v->amp, &v->model.plan.loss);
}

/* Whether setting `name` has its default. */
static bool open_is_usual(const mr_stage_t *s, const char *name) {
  const mr_opt_t *o = s->def->opts;
  while (o->type != MR_OPT_END && strcmp(o->name, name)) o++;
  const void *at = (const char *)s->state + o->offset;
  switch (o->type) {
    case MR_OPT_INT: return *(const int64_t *)at == strtoll(o->def, NULL, 10);
    case MR_OPT_F64: return *(const double *)at == mr_strtod(o->def, NULL);
    case MR_OPT_ENUM: return *(const int *)at == 0; /* the default is the first choice */
    case MR_OPT_STR: {
      const char *text = *(const char *const *)at;
      return !text || (o->def && !strcmp(text, o->def));
    }
    default: return true;
  }
}

/* Whether setting `name` is a choice that has `word` and another one is chosen. */
static bool open_chose_other(const mr_stage_t *s, const char *name, const char *word) {
  const mr_opt_t *o = mr_stage_def_opt(s->def, name);
  if (!o || o->type != MR_OPT_ENUM || !mr_is_choice(o->choices, word)) return false;
  const char *at = o->choices;
  for (int i = *(const int *)((const char *)s->state + o->offset); i > 0; i--)
    at = strchr(at, '|') + 1;
  return strcspn(at, "|") != strlen(word) || strncmp(at, word, strlen(word)) != 0;
}

/* Says which settings change nothing beside the others.  They are not refused: a run may be resumed
   with on-nan or loss-scale changed alone. */
static void open_report_unused(const mr_stage_t *s) {
  const train_t *v = s->state;
  bool dynamic = !v->fixed_scale, fp8 = v->amp.fp8;
  const struct {
    const char *name, *needs;
    bool used;
  } row[] = {
      {"loss-scale-start", "loss-scale=dynamic", dynamic},
      {"loss-scale-patience", "loss-scale=dynamic", dynamic},
      {"max-skipped", "on-nan=skip or loss-scale=dynamic", dynamic || v->on_nan == MR__ON_NAN_SKIP},
      {"replay-dir", "on-nan=trace", v->on_nan == MR__ON_NAN_TRACE},
      {"stop-by", "stop-after=", v->stop_after > 0},
      {"stop-delta", "stop-after=", v->stop_after > 0},
      {"validate-every", "input valid", mr__train_validates(s)},
      {"validate-minutes", "input valid", mr__train_validates(s)},
      {"zero",
       v->pipeline > 1 ? "pipeline=0, as ranks with stages have the slots of their shares anyway"
                       : "ranks that share batches",
       v->ranks > 1 && v->pipeline < 2},
      {"checkpoint-files", "a job of processes", mr_process_ranks() != NULL},
      {"microbatches", "pipeline=", v->pipeline > 1},
      {"pipeline-schedule", "pipeline=", v->pipeline > 1},
      {"stages", "pipeline=, or \"|\" between stages",
       v->pipeline > 1 || !v->stages || !*v->stages},
      {"fp8-history", "fp8=", fp8},
      {"fp8-margin", "fp8=", fp8},
      {"fp8-amax", "fp8=", fp8},
      {"focal-gamma", "loss=focal", !open_chose_other(s, "loss", "focal")}, /* the model's */
      {"gelu", "activation=gelu", !open_chose_other(s, "activation", "gelu")}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!row[i].used && !open_is_usual(s, row[i].name))
      mr_notice("%s: setting %s changes nothing without %s", s->name, row[i].name, row[i].needs);
}

/* Finds when the average of the weights began: with the run, or with the resume that asks for one
   which the checkpoint does not have. */
static mr_err_t open_average(train_t *v, mr_diag_t *diag) {
  mr_train_progress_t then;
  v->ema_after = 0;
  if (!v->resume || !(v->ema > 0)) return MR_OK;
  MR_TRY(mr_train_state_progress(v->resume, &then, diag));
  mr_train_config_t c = mr__train_config(v, 1);
  v->ema_after = then.ema > 0 ? then.ema_after
                              : then.step - (mr_optim_counts(&c.optim) ? then.scale.skipped : 0);
  return MR_OK;
}

/* Compiles both functions; the stage's name comes before the model's sentences. */
static mr_err_t open_compile(mr_stage_t *s) {
  train_t *v = s->state;
  mr_train_config_t train = mr__train_config(v, s->in_spec[IN_TRAIN].batch);
  const mr_loss_t *loss = &v->model.plan.loss;
  mr_diag_t why = {0};
  mr_err_t e = open_fit(v, &train, &why);
  mr_train_want_sets(&train.compute, &train.optim, &v->params);
  open_report_precision(s, &train);
  open_report_unused(s);
  v->used = train;
  v->used.pipeline.stages = 0; /* a step that is run again is that of one rank */
  if (e >= 0) e = mr_loss_params(loss, (uint64_t)v->seed, &v->params, &why);
  if (e >= 0 && v->init) e = mr_train_init(&v->params, v->init, &why);
  if (e >= 0 && v->init) e = mr_params_init(&v->params, (uint64_t)v->seed, &why);
  mr__train_set_mesh(v, &train);
  if (e >= 0) e = mr__agree_open(s, v->ordered, v->cut.cut.stages, v->on, &v->agree);
  if (e < 0 && !why.code) return e;
  mr__agree_set(v->agree, &train);
  if (e >= 0) e = mr_train_step_create(loss, &train, &v->step, &why);
  if (v->ema > 0) train.compute.values = MR_F32; /* evaluation reads the average */
  if (e >= 0 && v->eval_batch)
    e = mr_eval_step_create(&v->eval_loss, &train.compute, v->eval_batch, v->step, &v->eval, &why);
  return mr_stage_relay(s, e, &why);
}

/* Adds what rank t->rank holds: its arena, what its products borrow, and its parameters with their
   slots and average, whose sums are those of `mem`.  Batches are the stream's.  *compiling: the
   most that the process has grown by while a rank was compiled: graphs, tables and the library's
   kernels, which have no plan of their own. */
static mr_err_t count_own_rank(const mr_loss_t *l, const mr_train_config_t *t, size_t *bytes,
                               size_t *compiling, mr_diag_t *diag) {
  mr_params_t list = {0}, whole = {0};
  mr_exec_t *x = NULL;
  mr_held_t held[MR_HELD_MOST];
  bool stages = t->mesh && t->pipeline.stages;
  size_t was, peak, now = mr_process_memory(&was);
  mr_err_t e = mr_train_step_plan_rank(l, t, &list, &x, diag);
  if (e >= 0 && stages) e = mr_loss_params_list(l, &whole, diag);
  if (e >= 0) {
    size_t then = mr_process_memory(&peak), took = then > now ? then - now : 0;
    if (peak > was && peak - now > took) took = peak - now;
    if (took > *compiling) *compiling = took;
    const mr_held_of_t of = {
        .exec = x, .train = t, .params = &list, .whole = stages ? &whole : NULL, .step = true};
    int n = mr_train_held(&of, held);
    *bytes += mr_exec_peak_bytes(x) + mr_exec_borrowed_bytes(x);
    for (int i = 0; i < n; i++)
      if (strncmp(held[i].name, "inputs", 6)) *bytes += held[i].bytes;
  }
  mr_exec_destroy(x);
  mr_params_fini(&list);
  mr_params_fini(&whole);
  return e;
}

/* The stage's parameters, which are whole: what ranks of a mesh work on are parts beside them. */
static mr_err_t count_whole(const mr_loss_t *l, const mr_train_config_t *t, size_t *bytes,
                            mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_err_t e = mr_loss_params_list(l, &list, diag);
  if (e >= 0) mr_train_want_sets(&t->compute, &t->optim, &list);
  if (e >= 0) *bytes += mr_params_bytes(&list);
  mr_params_fini(&list);
  return e;
}

/* What histograms need of the step before (mr_train_watch_before). */
static mr_err_t count_watched(const mr_loss_t *l, const mr_train_config_t *t, size_t *bytes,
                              mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_err_t e = mr_loss_params_list(l, &list, diag);
  bool narrow = t->compute.values != MR_F32;
  *bytes += e >= 0 ? list.arena_size * (1 + narrow) * sizeof(float) : 0;
  mr_params_fini(&list);
  return e;
}

/* Ranks that are threads are all of this process, and their sums are not alike where they have
   shares or stages. */
mr_err_t mr__train_stage_memory(mr_stage_t *s, bool models, mr_takes_t *out) {
  train_t *v = s->state;
  if (v->on || v->used.batch) return MR_OK; /* a device's; open already */
  mr_train_config_t t = mr__train_config(v, s->in_spec[IN_TRAIN].batch);
  const mr_process_ranks_t *of = mr_process_ranks();
  const mr_loss_t *l = &v->model.plan.loss;
  mr_diag_t why = {0};
  out->advice = models ? "want a smaller batch, accumulate= or fit=SIZE, which recomputes"
                       : "want a smaller model";
  if (!models) { /* ranks may have shares or parts, of which only a plan knows */
    if (of || v->ranks > 1) return MR_OK;
    return mr_stage_relay(s, count_whole(l, &t, &out->bytes, &why), &why);
  }
  mr_err_t e = open_fit(v, &t, &why);
  mr__train_set_mesh(v, &t);
  if (of) t.ranks = of->size;
  int ranks = of || t.ranks < 1 ? 1 : t.ranks;
  size_t first = 0, compiling = 0;
  for (int r = 0; e >= 0 && r < ranks; r++) {
    t.rank = of ? of->rank : r;
    e = count_own_rank(l, &t, &out->bytes, r ? &compiling : &first, &why);
  }
  /* What is there once a process, the library's own and the team's, comes with the first rank. */
  out->bytes += first + compiling * (size_t)(ranks - 1);
  if (e >= 0 && mr__train_watched(s, 1)) e = count_watched(l, &t, &out->bytes, &why);
  if (e >= 0 && t.mesh && t.ranks > 1) e = count_whole(l, &t, &out->bytes, &why);
  return mr_stage_relay(s, e, &why);
}

/* Begins with the parameters of another file, if the setting names one. */
static mr_err_t start_from(mr_stage_t *s) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  char model[MR_MODEL_TEXT];
  mr__from_t said;
  char grid[80] = "", patch[80] = "", head[120] = "";
  if (!v->from || !*v->from || v->resume) return MR_OK;
  mr_model_text(&v->model, model);
  int truth = mr_train_truth(&s->in_spec[IN_TRAIN], &v->model.plan.loss);
  mr_err_t e = mr__train_from(v->from, model, truth < 0 ? NULL : &s->in_spec[IN_TRAIN].field[truth],
                              &v->params, &said, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  float *average = mr_params_f32(&v->params, MR_SET_AVERAGE, 0);
  const mr_param_set_t *values = mr_params_set(&v->params, MR_SET_VALUES, 0);
  for (int i = 0; average && i < v->params.n; i++)
    for (size_t k = 0; k < v->params.param[i].size; k++)
      average[v->params.param[i].offset + k] = mr_params_read(&v->params, values, i, k);
  if (said.to_patch)
    snprintf(patch, sizeof patch, "; its kernel for patches of %d pixels is resampled for %d",
             said.from_patch, said.to_patch);
  if (said.to_side)
    snprintf(grid, sizeof grid, "; its positions are interpolated from %dx%d to %dx%d patches",
             said.from_side, said.from_side, said.to_side, said.to_side);
  if (said.fresh_head)
    snprintf(head, sizeof head, "; its head does not fit the classes here and is drawn anew");
  else if (said.known)
    snprintf(head, sizeof head,
             "; its head follows the names of the classes: %d of %d are in both%s", said.known,
             said.classes, said.known < said.classes ? ", and the others are drawn anew" : "");
  else if (said.unnamed)
    snprintf(head, sizeof head,
             "; its head's classes are taken by number, as they have no names %s",
             s->in_spec[IN_TRAIN].field[truth].classes ? "there" : "here");
  mr_notice("%s: begins with the parameters of %s%s%s%s", s->name, v->from, patch, grid, head);
  return MR_OK;
}

/* A checkpoint is written from the parameters themselves while the next step computes its
   gradients; the step's update waits until it is written. */
static mr_err_t wait_for_checkpoint(void *arg) {
  const mr_stage_t *s = arg;
  const train_t *v = s->state;
  int64_t step = v->at.step + 1;
  mr__agree_doing(v->agree, "waits for the checkpoint before", step, MR_PACE_TENSORS);
  mr_err_t e = mr_all_back(arg, OUT_STATE);
  if (v->fetching)
    mr__train_says_fetching(v); /* a fetch waits for the checkpoint before too */
  else
    mr__agree_doing(v->agree, "computes", step, MR_PACE_LIMITED);
  return e;
}

/* A checkpoint counts finished epochs: one more has begun, unless it was made at an epoch's end. */
static int64_t newest_epoch(const mr_train_progress_t *at, const mr_spec_t *in) {
  bool at_end = in->n_batches ? at->epoch * in->n_batches + in->ahead == at->step : at->unvalidated;
  return at->epoch + (at->step > 0 && !at_end);
}

/* A checkpoint's model knows classes by number: those of the stream must be the same ones. */
static mr_err_t open_check_classes(mr_stage_t *s, const mr_spec_t *then, mr_diag_t *diag) {
  const train_t *v = s->state;
  char one[300], other[300];
  for (int f = 0; f < then->n_fields; f++) {
    int now = mr_spec_find(&s->in_spec[IN_TRAIN], then->field[f].name);
    const mr_classes_t *was = then->field[f].classes,
                       *is = now < 0 ? NULL : s->in_spec[IN_TRAIN].field[now].classes;
    if (!was != !is && now >= 0)
      mr_notice(
          "%s: the classes of field %s have names in %s alone, %s: those of %s are taken by "
          "number",
          s->name, then->field[f].name, was ? v->resume : "the records",
          mr_classes_text(was ? was : is, one, sizeof one), was ? "the records" : v->resume);
    if (!was || !is || mr_classes_same(was, is)) continue;
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: its model was trained on the %d classes %s of field %s, and input %s has "
                   "the %d classes %s: want the same classes in the same order, or a new run",
                   v->resume, was->n, mr_classes_text(was, one, sizeof one), then->field[f].name,
                   s->in_name[IN_TRAIN], is->n, mr_classes_text(is, other, sizeof other));
  }
  return MR_OK;
}

static mr_err_t open_check_inputs(mr_stage_t *s, mr_diag_t *diag) {
  const train_t *v = s->state;
  mr_train_inputs_t then;
  mr_err_t e = mr_train_inputs_read(v->resume, &then, diag);
  if (e >= 0) e = open_check_classes(s, &then.spec, diag);
  mr_train_inputs_fini(&then);
  return e;
}

/* The checkpoint's optimizer must be that of the settings: others keep other slots. */
static mr_err_t open_check_optimizer(const train_t *v, mr_diag_t *diag) {
  const char *name = mr__train_optimizer_name[v->optimizer];
  mr_train_progress_t then;
  MR_TRY(mr_train_state_progress(v->resume, &then, diag));
  if (!strcmp(then.optimizer, name)) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "setting optimizer = %s: the checkpoint %s was made by %s, whose moments mean "
                 "something else; resume with that one",
                 name, v->resume, then.optimizer);
}

static mr_err_t load_state(train_t *v, mr_diag_t *diag) {
  char model[MR_MODEL_TEXT];
  mr_model_text(&v->model, model);
  MR_TRY(open_check_optimizer(v, diag));
  return mr_train_state_load(v->resume, model, &v->params, &v->at, diag);
}

/* Loads parameters and progress of the checkpoint that the settings name, if any. */
static mr_err_t resume_training(mr_stage_t *s) {
  train_t *v = s->state;
  if (!v->resume) return MR_OK;
  mr_diag_t why = {0};
  mr_err_t e = open_check_inputs(s, &why);
  if (e >= 0) e = load_state(v, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  MR_TRY(mr__computes_resume(s));
  v->saved_step = v->at.step;
  v->epoch = newest_epoch(&v->at, &s->in_spec[IN_TRAIN]);
  return MR_OK;
}

/* The checkpoint's loss scale and counts, as these settings use them. */
static void open_scale(train_t *v, int64_t batch) {
  mr_scale_state_t *now = mr_train_step_scale(v->step);
  int32_t most = mr__train_config(v, batch).optim.dynamic.max_bad;
  float fixed = now->scale;
  if (!(v->at.scale.scale > 0)) return;
  *now = v->at.scale;
  if (v->fixed_scale > 0) now->scale = fixed;
  if (now->bad > most) now->bad = most;
}

/* Puts the further streams of held-back records in the order of their ports; one that the
   checkpoint does not have begins at its start. */
static void sort_more_streams(mr_stage_t *s) {
  train_t *v = s->state;
  mr_train_more_t sorted[MR_TRAIN_MORE];
  memset(sorted, 0, sizeof sorted);
  for (int i = 0; i < MR_TRAIN_MORE; i++) {
    const char *name = s->in_linked[IN_MORE_VALID + i] ? s->in_name[IN_MORE_VALID + i] : NULL;
    if (!name) continue;
    for (int k = 0; k < MR_TRAIN_MORE; k++)
      if (!strcmp(v->at.more[k].name, name)) sorted[i] = v->at.more[k];
    snprintf(sorted[i].name, sizeof sorted[i].name, "%s", name);
  }
  memcpy(v->at.more, sorted, sizeof sorted);
}

/* Says that a resume changes which parameters decay: the rule of a model may have come after the
   run began. */
static mr_err_t open_no_decay(mr_stage_t *s) {
  train_t *v = s->state;
  char then[2048];
  mr_diag_t why = {0};
  const char *usual = v->model.plan.loss.no_decay, *given = v->rules.no_decay;
  v->at.no_decay = given ? given : usual ? usual : "none";
  if (!v->resume) return MR_OK;
  mr_err_t e = mr_train_state_text(v->resume, MR_TRAIN_NO_DECAY, then, sizeof then, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  const char *was = *then ? then : "none";
  if (strcmp(was, v->at.no_decay) && mr__train_config(v, 1).optim.weight_decay > 0)
    mr_notice(
        "%s: no-decay=%s from here on, and the checkpoint was trained with no-decay=%s, "
        "which continues as before",
        s->name, v->at.no_decay, was);
  return MR_OK;
}

static mr_err_t open_and_resume(mr_stage_t *s) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  v->answered = mr__train_asked();
  mr_train_team_report(s, &v->team);
  if (v->as_one > 1)
    mr_notice(
        "%s: device %s computes what %d ranks share as one, with the same bits: a process for each "
        "rank, by mpirun, srun or torchrun, uses several devices",
        s->name, v->device, v->as_one);
  if (v->on_nan == MR__ON_NAN_TRACE &&
      mr__replay_folder(v->replay_dir ? v->replay_dir : "", &why) < 0)
    return mr_diag_prefix(s->diag, MR_ERR_IO, &why, "%s: setting replay-dir", s->name);
  mr_err_t e = mr_device_open(v->device, &v->on, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  e = open_average(v, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  e = open_compile(s);
  mr_backends_leave(); /* steps run in the stage's own thread, with its own team */
  if (e < 0) return e;
  mr_train_step_before_update(v->step, s->out_linked[OUT_STATE] ? wait_for_checkpoint : NULL, s);
  v->at = (mr_train_progress_t){.seed = (uint64_t)v->seed};
  v->saved_step = v->slices_step = -1;
  MR_TRY(start_from(s));
  MR_TRY(resume_training(s));
  if (mr_train_step_put(v->step, &v->params, &why) < 0) return mr_stage_relay(s, why.code, &why);
  v->inputs = mr_train_inputs_text(&s->in_spec[IN_TRAIN], &v->model.plan.loss);
  if (!v->inputs) return mr_stage_no_memory(s, "the description of its inputs");
  v->at.inputs = v->inputs;
  v->at.ema = (float)v->ema, v->at.ema_after = v->ema_after;
  mr__computes_text(&v->used.compute, v->at.computes);
  v->at.fp8_rules = mr__computes_rules(&v->amp);
  open_scale(v, s->in_spec[IN_TRAIN].batch);
  for (int i = 0; i < MR_TRAIN_STREAMS; i++) v->at.stream_known[i] = s->in_linked[i];
  sort_more_streams(s);
  const mr_dataset_t *dataset = s->in_spec[IN_TRAIN].dataset;
  snprintf(v->at.origin, sizeof v->at.origin, "%s", dataset ? dataset->origin : "");
  snprintf(v->at.optimizer, sizeof v->at.optimizer, "%s", mr__train_optimizer_name[v->optimizer]);
  v->t0 = v->step_t0 = mr_now_s();
  MR_TRY(open_no_decay(s));
  e = mr_train_each(&v->params, &v->rules, v->model.plan.loss.no_decay, &v->watch.each, &why);
  if (e < 0) return mr_stage_relay(s, e, &why);
  return mr__train_judge_open(s);
}

/* Several parts of the stage read the checkpoint: held open, it is read and checked once.  Whether
   it can be opened is said by the first of them. */
mr_err_t mr__train_stage_open(mr_stage_t *s) {
  const train_t *v = s->state;
  mr_safetensors_t *held = NULL;
  mr_diag_t unsaid = {0};
  if (v->resume) (void)mr_safetensors_open(v->resume, &held, &unsaid);
  mr_err_t e = open_and_resume(s);
  mr_safetensors_close(held);
  return e;
}

void mr__train_stage_close(mr_stage_t *s) {
  train_t *v = s->state;
  mr__agree_leave_steps(v->agree);
  mr_eval_step_destroy(v->eval);  /* uses the training step's memory */
  mr_train_step_destroy(v->step); /* waits for runs that still read their batches */
  mr__agree_close(v->agree);
  v->agree = NULL;
  while (v->read < v->begun) mr__train_flight_fini(&v->flight[v->read++ % MR_TRAIN_RING]);
  mr_buf_unref(v->saving);
  v->saving = NULL;
  free(v->inputs), free(v->slices);
  v->slices = NULL;
  v->inputs = NULL, v->at.inputs = NULL;
  mr_train_watch_fini(&v->watch);
  mr_params_fini(&v->params);
  mr_device_close(v->on);
  v->step = NULL, v->eval = NULL, v->on = NULL;
}
