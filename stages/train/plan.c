/* Plans train-step: what follows from its settings and inputs: the model, the schedule, the length
   of the run, the outputs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/exec/device.h"
#include "stages/train/train_step_private.h"

enum { CONSTANT, COSINE, LINEAR, RSQRT }; /* setting schedule */

static int64_t total_steps(const train_t *v, const mr_spec_t *in) {
  int64_t stream = in->n_batches * in->n_epochs; /* 0: endless */
  if (stream) stream += in->ahead;
  if (!v->steps) return stream;
  return stream && stream < v->steps ? stream : v->steps;
}

double mr_train_stage_rate(const mr_stage_t *s, int64_t step) {
  return (double)mr_schedule_at(&((const train_t *)s->state)->rate, step - 1);
}

int64_t mr_train_stage_total(const mr_stage_t *s) { return ((const train_t *)s->state)->total; }

/* True if two losses take the same fields, whatever batches hold them as. */
static bool same_fields(const mr_loss_t *a, const mr_loss_t *b) {
  bool same = a->n_fields == b->n_fields && a->masked == b->masked && a->classes == b->classes;
  for (int i = 0; same && i < a->n_fields; i++)
    same = !strcmp(a->field[i].name, b->field[i].name) &&
           mr_aval_equal(&a->field[i].aval, &b->field[i].aval) &&
           a->field[i].classes == b->field[i].classes;
  return same;
}

/* True if bytes are normalised alike in both, where both hold bytes. */
static bool same_normalisation(const mr_loss_t *a, const mr_loss_t *b) {
  for (int i = 0; i < a->n_fields; i++)
    if (a->field[i].held == MR_U8 && b->field[i].held == MR_U8 &&
        (memcmp(a->field[i].mean, b->field[i].mean, sizeof a->field[i].mean) ||
         memcmp(a->field[i].std, b->field[i].std, sizeof a->field[i].std)))
      return false;
  return true;
}

static bool same_held(const mr_loss_t *a, const mr_loss_t *b) {
  for (int i = 0; i < a->n_fields; i++)
    if (a->field[i].held != b->field[i].held) return false;
  return true;
}

/* Plans the model of an evaluation input, in a copy of the settings.  Such an input may hold its
   pictures otherwise than input in does: the values are the same. */
static mr_err_t plan_input(mr_stage_t *s, int port) {
  train_t *v = s->state;
  const mr_model_def_t *def = mr__train_model_of(s);
  void *state = malloc(def->state_sz + 1);
  mr_model_t m;
  if (!state) return mr_stage_no_memory(s, "a model's settings");
  memcpy(state, mr__train_model_state(s), def->state_sz);
  mr_err_t e = mr_train_model_for(s, port, def, state, &m);
  free(state);
  MR_TRY(e);
  const mr_loss_t *train = &v->model.plan.loss, *l = &m.plan.loss;
  int64_t B = s->in_spec[port].batch;
  if (!same_fields(l, train) || !same_normalisation(l, train) ||
      (v->eval_batch && (v->eval_batch != B || !same_held(l, &v->eval_loss) ||
                         !same_normalisation(l, &v->eval_loss))))
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "input %s: want the fields, classes and normalisation of input in, and "
                         "one batch size, dtype and normalisation for valid and test",
                         s->in_name[port]);
  v->eval_batch = B;
  v->eval_loss = *train;
  for (int i = 0; i < l->n_fields; i++) {
    mr_model_field_t *f = &v->eval_loss.field[i];
    f->held = l->field[i].held, f->channel = l->field[i].channel;
    memcpy(f->mean, l->field[i].mean, sizeof f->mean);
    memcpy(f->std, l->field[i].std, sizeof f->std);
  }
  return MR_OK;
}

/* Plans the evaluation inputs, which share one compiled function and so a batch size. */
static mr_err_t plan_evaluation(mr_stage_t *s) {
  train_t *v = s->state;
  char of[MR_IN_NAME_MAX + 16];
  snprintf(of, sizeof of, "input %s", s->in_name[IN_TRAIN]);
  for (int port = IN_VALID; port < s->n_in; port++) {
    if (!s->in_linked[port]) continue;
    MR_TRY(mr_train_align(s, port, &s->in_spec[IN_TRAIN], of, &v->aligned[port]));
    MR_TRY(plan_input(s, port));
  }
  return MR_OK;
}

/* The class of a name or a number in text[0,n); -1: none. */
static int64_t find_class(const mr_classes_t *names, const char *text, size_t n) {
  for (int i = 0; names && i < names->n; i++)
    if (strlen(names->name[i]) == n && !strncmp(names->name[i], text, n)) return i;
  return -1;
}

static mr_err_t class_weight_fail(mr_stage_t *s, const char *at, const char *want) {
  return mr_stage_fail(s, MR_ERR_CONFIG, "setting class-weights: %.40s: want %s", at, want);
}

/* Reads class-weights: numbers in the order of the classes, or NAME:NUMBER. */
static mr_err_t plan_class_weights(mr_stage_t *s) {
  train_t *v = s->state;
  mr_loss_t *l = &v->model.plan.loss;
  const char *at = v->class_weights;
  int64_t n = 0;
  free(v->class_weight), v->class_weight = NULL;
  if (!at || !*at) return MR_OK;
  const mr_spec_t *in = &s->in_spec[IN_TRAIN];
  int truth = mr_train_truth(in, l);
  if (truth < 0 || !l->classes)
    return class_weight_fail(s, at, "it unset: the model predicts no class of a label");
  const mr_classes_t *names = in->field[truth].classes;
  if (!(v->class_weight = malloc((size_t)l->classes * sizeof *v->class_weight)))
    return mr_stage_no_memory(s, "the weights of classes");
  for (int64_t i = 0; i < l->classes; i++) v->class_weight[i] = 1;
  bool named = strchr(at, ':') != NULL;
  for (bool more = true; more; n++) {
    size_t word = strcspn(at, ",");
    const char *value = at;
    int64_t c = n;
    for (size_t i = 0; named && i < word; i++)
      if (at[i] == ':') value = at + i + 1; /* the last: names may have some too */
    if (named) c = value == at ? -1 : find_class(names, at, (size_t)(value - at - 1));
    if (named && c < 0) {
      char known[300];
      return mr_stage_fail(s, MR_ERR_CONFIG,
                           "setting class-weights: %.40s: want NAME:NUMBER with the name of a "
                           "class; the classes of input %s are %s",
                           at, s->in_name[IN_TRAIN], mr_classes_text(names, known, sizeof known));
    }
    char *end;
    double weight = mr_strtod(value, &end);
    if (end == value || end != at + word || !(weight >= 0 && weight <= 1e6))
      return class_weight_fail(s, at, "a number of [0,1e6]");
    if (c < l->classes) v->class_weight[c] = (float)weight;
    more = at[word] == ',';
    at += word + more;
  }
  if (!named && n != l->classes)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting class-weights: %" PRId64 " numbers, want one for each of %" PRId64
                         " classes, or NAME:NUMBER",
                         n, l->classes);
  l->class_weight = v->class_weight;
  return MR_OK;
}

void mr__train_stage_forget(mr_stage_t *s) {
  train_t *v = s->state;
  free(v->class_weight), v->class_weight = NULL;
  free(v->lies), v->lies = NULL;
  for (int port = 0; port < MR_MAX_PORTS; port++) mr_train_aligned_fini(&v->aligned[port]);
}

/* The size of a state, from the list of parameters, traced with one record. */
static mr_err_t state_bytes(mr_stage_t *s, int64_t *bytes) {
  train_t *v = s->state;
  mr_params_t params = {0};
  mr_diag_t why = {0};
  mr_err_t e = mr_loss_params_list(&v->model.plan.loss, &params, &why);
  *bytes = (int64_t)mr_train_state_bytes(&params, v->ema > 0, s->in_spec[IN_TRAIN].ranks);
  mr_params_fini(&params);
  return mr_stage_relay(s, e, &why);
}

static mr_err_t plan_outputs(mr_stage_t *s) {
  train_t *v = s->state;
  int64_t bytes;
  MR_TRY(state_bytes(s, &bytes));
  mr_spec_t *in = &s->in_spec[IN_TRAIN];
  mr_train_name_dataset(in, mr_train_truth(in, &v->model.plan.loss), &v->dataset);
  const mr_dataset_t *dataset = s->in_spec[IN_TRAIN].dataset;
  static const mr_metric_id_t own[] = {MR_METRIC_ID_LR,         MR_METRIC_ID_GRAD_NORM,
                                       MR_METRIC_ID_PARAM_NORM, MR_METRIC_ID_LOSS_SCALE,
                                       MR_METRIC_ID_STEP_S,     MR_METRIC_ID_IMAGES_PER_S,
                                       MR_METRIC_ID_RECORDS,    MR_METRIC_ID_SKIPPED_STEPS};
  size_t n = sizeof own / sizeof *own - !mr__train_may_skip(v);
  mr_train_metrics_list(&v->metrics, &v->model.plan.loss, own, n);
  s->out_spec[OUT_METRICS] = mr_report_spec(dataset, &v->metrics.list);
  s->out_spec[OUT_METRICS].lies = v->in_parts ? v->lies : NULL;
  s->out_spec[OUT_STATE] = mr_spec_of_bytes(MR_FLOW_STATE, bytes);
  s->out_spec[OUT_STATE].dataset = dataset;
  s->out_spec[OUT_STATE].metrics = &v->metrics.list;
  return MR_OK;
}

bool mr__train_may_skip(const train_t *v) {
  return v->on_nan == MR__ON_NAN_SKIP || !v->fixed_scale;
}

/* Parses loss-scale: a number, or "dynamic". */
mr_err_t mr__train_plan_scale(mr_stage_t *s) {
  train_t *v = s->state;
  char *end;
  v->fixed_scale = 0;
  if (!strcmp(v->loss_scale, "dynamic")) return MR_OK;
  v->fixed_scale = mr_strtod(v->loss_scale, &end);
  bool good = end != v->loss_scale && !*end && v->fixed_scale >= 1e-9 && v->fixed_scale <= 1e9;
  if (good && v->redo_on_nan)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting redo-on-nan = %" PRId64
                         ": with a fixed loss-scale a step run again gives the same result, want "
                         "loss-scale=dynamic beside it",
                         v->redo_on_nan);
  if (good) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting loss-scale = %s: want a number of [1e-9,1e+09], or dynamic",
                       v->loss_scale);
}

/* fit= chooses into how many parts a batch is split, which ordered= says. */
static mr_err_t plan_ordered(mr_stage_t *s) {
  const train_t *v = s->state;
  if (v->ordered & (v->ordered - 1))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting ordered = %" PRId64 ": want a power of two, or 0 for none",
                         v->ordered);
  if (v->ordered && v->fit)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fit = %s: it chooses the parts of a batch, which ordered = "
                         "%" PRId64 " sets; want one of them, and remat= to need less memory",
                         v->fit, v->ordered);
  if (v->ordered && v->accumulate > 1)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting accumulate = %" PRId64 ": ordered = %" PRId64
                         " splits the batch too; want one of them",
                         v->accumulate, v->ordered);
  return MR_OK;
}

/* Ranks on devices are processes that share batches; what else ranks can share is the host's. */
static mr_err_t plan_ranks_on_device(mr_stage_t *s) {
  const train_t *v = s->state;
  char zero[40] = "";
  if (v->zero) snprintf(zero, sizeof zero, "zero=%" PRId64, v->zero);
  const char *other = v->cut.cut.stages ? "pipeline="
                      : v->in_parts     ? "a mesh that cuts parameters"
                      : v->zero         ? zero
                                        : NULL;
  if (!other) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting device = %s: ranks on devices share batches, and %s is for "
                       "device=cpu; want one of them",
                       v->device, other);
}

/* The ranks that shard-to-device has declared share the ordered parts of a batch. */
static mr_err_t plan_ranks(mr_stage_t *s) {
  train_t *v = s->state;
  int64_t batch = s->in_spec[IN_TRAIN].batch;
  v->ranks = s->in_spec[IN_TRAIN].ranks;
  v->as_one = 0;
  if (!v->ranks) v->ranks = v->cut.cut.stages;
  MR_TRY(mr__train_plan_mesh(s));
  if (!v->ranks) return MR_OK;
  if (!v->ordered && !v->in_parts) v->ordered = MR__ORDERED_OF_RANKS;
  bool on_device = !mr_device_on_host(v->device);
  if (on_device) MR_TRY(plan_ranks_on_device(s));
  if (!v->in_parts && v->ranks > v->ordered && !v->cut.cut.stages)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting ordered = %" PRId64
                         ": %d ranks share the parts of a batch; want "
                         "at most %" PRId64 " ranks, or ordered= of at least %d",
                         v->ordered, v->ranks, v->ordered, v->ranks);
  if (batch < v->ordered)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting ordered = %" PRId64 ": a batch of %" PRId64
                         " records has no record for each part that %d ranks share; want a batch "
                         "of at least %" PRId64 ", or a smaller ordered=",
                         v->ordered, batch, v->ranks, v->ordered);
  if (mr_process_ranks() && v->on_nan == MR__ON_NAN_TRACE)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting on-nan = trace: a step of %d processes cannot be run again by "
                         "one, which has its own records alone; want on-nan=stop, and on-nan=trace "
                         "in a run of one process from the same checkpoint",
                         v->ranks);
  v->as_one = on_device && !mr_process_ranks() ? v->ranks : 0;
  if (v->as_one) v->ranks = 0; /* which has the same bits */
  int all = v->in_parts ? mr_mesh_ranks(&v->mesh) : v->ranks;
  if (v->team.pin && all > 1)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting pin = true: %d ranks would be bound to the same processors; want "
                         "pin=false beside mesh=",
                         all);
  return MR_OK;
}

/* Scales of fp8 do not reach products inside functions that the graph calls, and the kernels of a
   device have no codes of f8. */
static mr_err_t plan_fp8(mr_stage_t *s) {
  const train_t *v = s->state;
  if (v->amp.fp8 && v->remat)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting remat = %s: with fp8 blocks cannot be recomputed, want "
                         "remat=none, and accumulate= to need less memory",
                         mr_nn_remat_name((mr_nn_remat_t)v->remat));
  if (v->amp.fp8 && v->fit)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting fit = %s: it chooses remat, which does not go with fp8, want "
                         "accumulate= instead",
                         v->fit);
  if (v->amp.fp8 && !mr_device_on_host(v->device))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting device = %s: it has no kernels of f8, want device=cpu beside "
                         "fp8, or fp8=none",
                         v->device);
  return MR_OK;
}

/* A device without a number is then the one of its kind on which the batches lie. */
static bool plan_takes_device(const char *there, const char **own) {
  size_t n = strlen(*own);
  if (!strchr(*own, ':') && !strncmp(*own, there, n) && there[n] == ':') *own = there;
  return mr_device_same(there, *own);
}

/* Where the training batches lie. */
static mr_err_t plan_there(mr_stage_t *s) {
  train_t *v = s->state;
  const char *there = s->in_spec[IN_TRAIN].device;
  v->there = there != NULL;
  if (!there || plan_takes_device(there, &v->device)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting device = %s: the batches of input in lie on device %s, want the "
                       "same device here and in the to-device before",
                       v->device, there);
}

/* Epochs of a known length without an end; where stages such as filter and limit decide how many
   batches there are, nothing is known of the end either. */
static bool plan_is_endless(const mr_spec_t *in) { return in->n_batches && !in->n_epochs; }

/* The steps of the warm-up, which may be given in epochs. */
static mr_err_t plan_warmup(mr_stage_t *s, int64_t *steps) {
  const train_t *v = s->state;
  int64_t each = s->in_spec[IN_TRAIN].n_batches;
  *steps = v->warmup;
  if (!(v->warmup_epochs > 0)) return MR_OK;
  if (v->warmup)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting warmup-epochs = %g: warmup = %" PRId64
                         " says it in steps; want one of them",
                         v->warmup_epochs, v->warmup);
  if (!each)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting warmup-epochs = %g: the number of batches of an epoch is not "
                         "known before they are made; want warmup= in steps",
                         v->warmup_epochs);
  *steps = llround(v->warmup_epochs * (double)each);
  return MR_OK;
}

mr_err_t mr__train_stage_plan(mr_stage_t *s) {
  train_t *v = s->state;
  mr_diag_t why = {0};
  if (mr_device_check(v->device, &why) < 0) return mr_stage_relay(s, why.code, &why);
  MR_TRY(plan_there(s));
  MR_TRY(mr__train_plan_scale(s));
  MR_TRY(mr_train_amp_plan(s, &v->amp));
  const mr_model_def_t *def = mr__train_model_of(s);
  MR_TRY(mr_train_model_for(s, IN_TRAIN, def, mr__train_model_state(s), &v->model));
  if (v->remat && !def->remat)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting remat = %s: model %s has no parts to recompute, want none",
                         mr_nn_remat_name((mr_nn_remat_t)v->remat), def->name);
  MR_TRY(plan_class_weights(s));
  MR_TRY(mr__train_plan_pipeline(s));
  MR_TRY(plan_ranks(s));
  MR_TRY(plan_ordered(s));
  MR_TRY(plan_fp8(s));
  v->eval_batch = 0;
  MR_TRY(plan_evaluation(s));
  v->total = total_steps(v, &s->in_spec[IN_TRAIN]);
  bool ends = v->schedule == COSINE || v->schedule == LINEAR;
  int64_t warmup;
  MR_TRY(plan_warmup(s, &warmup));
  v->rate = (mr_schedule_t){.peak = (float)v->lr,
                            .warmup = warmup,
                            .total = ends ? v->total : 0,
                            .kind = v->schedule == RSQRT    ? MR_SCHEDULE_RSQRT
                                    : v->schedule == LINEAR ? MR_SCHEDULE_LINEAR
                                                            : MR_SCHEDULE_COSINE};
  if (!v->total && ends)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting schedule = %s: %s, want steps= beside it",
                         v->schedule == LINEAR ? "linear" : "cosine",
                         plan_is_endless(&s->in_spec[IN_TRAIN])
                             ? "the stream is endless"
                             : "the number of batches is not known before they are made");
  MR_TRY(plan_outputs(s));
  return mr__train_judge_plan(s);
}
