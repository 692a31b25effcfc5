/* vit-step: one training step a batch; evaluation after each epoch and at the end.

   Here the two graphs meet: batches come from the stream graph, a compiled tensor graph takes
   them.  The stage owns the parameters.  It reads its valid input up to the end of an epoch
   whenever the training stream ends one, and its test input at the end of the run; what it says
   leaves as metrics, what it is leaves as state for a checkpoint. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "model/fit.h"
#include "model/optim/schedule.h"
#include "stages/vit_common.h"
#include "stages/vit_profile.h"
#include "stages/vit_state.h"
#include "stages/vit_watch.h"

enum { IN_TRAIN, IN_VALID, IN_TEST };
enum { OUT_METRICS, OUT_STATE };
enum { CONSTANT, COSINE, LINEAR, RSQRT }; /* setting schedule */

typedef struct vit_step {
  mr_vit_settings_t model;
  double lr, b1, b2, eps, weight_decay, clip_norm, label_smoothing;
  int64_t warmup, steps, seed, checkpoint_every, watch_every, accumulate;
  int optimizer, schedule, device, leak_check, remat;
  bool nesterov;
  const char *resume, *fit;

  mr_vit_config_t config;
  mr_schedule_t rate;
  int64_t total; /* steps of the whole run, 0: unknown */
  mr_params_t params;
  mr_train_step_t *step;
  mr_eval_step_t *eval;
  mr_vit_progress_t at;
  int64_t eval_batch;
  int64_t saved_step; /* of the latest state given out or loaded, -1: none */
  double t0, step_t0;
  mr_vit_watch_t watch;
  mr_vit_profile_t profile;
} vit_step_t;

#define AT(field) offsetof(vit_step_t, field)

#define OPTIMIZERS "sgd|momentum|adam|adamw|lion|lamb"
static const char *const optimizer_name[] = {"sgd", "momentum", "adam", "adamw", "lion", "lamb"};

static const mr_opt_t vit_step_opts[] = {
    MR_VIT_OPTS(AT(model)),
    {"seed", MR_OPT_INT, AT(seed), "", "12", 0, 4294967295.0, NULL,
     "Seed of the initial parameters and of dropout.", 0},
    {"lr", MR_OPT_F64, AT(lr), "", "1e-3", 0, 100, NULL, "Peak learning rate.", 0},
    {"optimizer", MR_OPT_ENUM, AT(optimizer), "", "adamw", 0, 0, OPTIMIZERS,
     "How gradients move the parameters.", 0},
    {"b1", MR_OPT_F64, AT(b1), "", "-1", -1, 0.9999999, NULL,
     "Decay of the first moment, or of the momentum; -1: the optimizer's usual one.", 0},
    {"b2", MR_OPT_F64, AT(b2), "", "-1", -1, 0.9999999, NULL,
     "Decay of the second moment; -1: the optimizer's usual one.", 0},
    {"eps", MR_OPT_F64, AT(eps), "", "-1", -1, 1, NULL,
     "Added to the root of the second moment; -1: the optimizer's usual value.", 0},
    {"weight-decay", MR_OPT_F64, AT(weight_decay), "", "-1", -1, 10, NULL,
     "Decoupled weight decay, of every parameter; -1: the optimizer's usual one.", 0},
    {"nesterov", MR_OPT_BOOL, AT(nesterov), "", "false", 0, 0, NULL,
     "Momentum looks ahead by one step.", 0},
    {"accumulate", MR_OPT_INT, AT(accumulate), "parts", "1", 1, 65536, NULL,
     "Works through a batch in so many parts and adds up their gradients: less memory.", 0},
    {"remat", MR_OPT_ENUM, AT(remat), "", "none", 0, 0, "none|dots|full",
     "What the backward pass of a block computes again instead of keeping it: less memory.", 0},
    {"fit", MR_OPT_STR, AT(fit), "", NULL, 0, 0, NULL,
     "Size of memory, such as 2GiB: chooses remat and accumulate so that a step's planned peak is "
     "at most that.",
     0},
    {"clip-norm", MR_OPT_F64, AT(clip_norm), "", "0", 0, 1e9, NULL,
     "Scales gradients down to this global norm; 0 leaves them.", 0},
    {"label-smoothing", MR_OPT_F64, AT(label_smoothing), "", "0", 0, 0.999, NULL,
     "Share of the target spread evenly over all classes.", 0},
    {"schedule", MR_OPT_ENUM, AT(schedule), "", "constant", 0, 0, "constant|cosine|linear|rsqrt",
     "Learning rate after the warm-up: constant, a cosine or a line to 0 at the last step, or "
     "falling "
     "with the root of the step.",
     0},
    {"warmup", MR_OPT_INT, AT(warmup), "steps", "0", 0, 1e9, NULL,
     "Steps over which the learning rate rises linearly.", 0},
    {"steps", MR_OPT_INT, AT(steps), "steps", "0", 0, 1e12, NULL,
     "Ends the run after so many steps; 0: when the stream ends.", 0},
    {"checkpoint-every", MR_OPT_INT, AT(checkpoint_every), "steps", "0", 0, 1e12, NULL,
     "Also gives out state every so many steps; 0: after each epoch and at the end only.", 0},
    {"watch-every", MR_OPT_INT, AT(watch_every), "steps", "100", 0, 1e12, NULL,
     "Steps from one set of histograms and sample pictures to the next, the first after step 1; 0: "
     "none.",
     0},
    {"resume", MR_OPT_STR, AT(resume), "", NULL, 0, 0, NULL, "Checkpoint file to go on from.", 0},
    {"leak-check", MR_OPT_ENUM, AT(leak_check), "", "ids", 0, 0, "ids|content|off",
     "Refuses inputs that share records: by their place in their files, by their bytes, or never.",
     0},
    {"device", MR_OPT_ENUM, AT(device), "", "cpu", 0, 0, "cpu|cuda", "Where the step runs.", 0},
    {0},
};

static int64_t total_steps(const vit_step_t *v, const mr_spec_t *in) {
  int64_t stream = in->n_batches * in->n_epochs; /* 0: endless */
  if (!v->steps) return stream;
  return stream && stream < v->steps ? stream : v->steps;
}

/* All evaluation inputs share one compiled function, so they share a batch size. */
static mr_err_t plan_evaluation(mr_stage_t *s) {
  vit_step_t *v = s->state;
  for (int port = IN_VALID; port <= IN_TEST; port++) {
    if (!s->in_linked[port]) continue;
    mr_vit_config_t c;
    MR_TRY(mr_vit_config_for(s, &v->model, port, &c));
    int64_t B = s->in_spec[port].dim[0];
    if (c.image != v->config.image || c.channels != v->config.channels ||
        c.classes != v->config.classes || (v->eval_batch && v->eval_batch != B))
      return mr_stage_fail(
          s, MR_ERR_SHAPE,
          "input %s: want the pictures and classes of input in, and one batch size "
          "for valid and test",
          s->def->in[port].name);
    v->eval_batch = B;
  }
  return MR_OK;
}

/* The list of parameters, from a trace with one record: sizes the state. */
static mr_err_t state_bytes(mr_stage_t *s, int64_t *bytes) {
  vit_step_t *v = s->state;
  mr_params_t params = {0};
  mr_diag_t why = {0};
  mr_fn_t *f = mr_vit_loss(&v->config, 1, false, 0, &params, &why);
  *bytes = (int64_t)mr_vit_state_bytes(&params);
  mr_params_fini(&params);
  mr_fn_destroy(f);
  return f ? MR_OK : mr_stage_fail(s, why.code, "%s", why.text);
}

static mr_err_t plan_outputs(mr_stage_t *s) {
  int64_t bytes;
  MR_TRY(state_bytes(s, &bytes));
  mr_spec_t out = {.dtype = MR_U8, .ndim = 1, .dataset = s->in_spec[IN_TRAIN].dataset};
  s->out_spec[OUT_METRICS] = s->out_spec[OUT_STATE] = out;
  s->out_spec[OUT_METRICS].flow = MR_FLOW_METRICS;
  s->out_spec[OUT_METRICS].dim[0] = sizeof(mr_metrics_t);
  s->out_spec[OUT_STATE].flow = MR_FLOW_STATE;
  s->out_spec[OUT_STATE].dim[0] = bytes;
  return MR_OK;
}

static mr_err_t vit_step_plan(mr_stage_t *s) {
  vit_step_t *v = s->state;
  if (v->device)
    return mr_stage_fail(s, MR_ERR_UNAVAILABLE,
                         "setting device = cuda: this build has no CUDA backend, want cpu");
  MR_TRY(mr_vit_config_for(s, &v->model, IN_TRAIN, &v->config));
  v->eval_batch = 0;
  MR_TRY(plan_evaluation(s));
  v->total = total_steps(v, &s->in_spec[IN_TRAIN]);
  bool ends = v->schedule == COSINE || v->schedule == LINEAR;
  v->rate = (mr_schedule_t){.peak = (float)v->lr,
                            .warmup = v->warmup,
                            .total = ends ? v->total : 0,
                            .kind = v->schedule == RSQRT    ? MR_SCHEDULE_RSQRT
                                    : v->schedule == LINEAR ? MR_SCHEDULE_LINEAR
                                                            : MR_SCHEDULE_COSINE};
  if (!v->total && ends)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting schedule = %s: the stream is endless, want steps= beside it",
                         v->schedule == LINEAR ? "linear" : "cosine");
  return plan_outputs(s);
}

static void set_unless_usual(float *to, double v) {
  if (v >= 0) *to = (float)v;
}

static mr_train_config_t train_config(const vit_step_t *v, int64_t batch) {
  mr_train_config_t t = {.optim = mr_optim_of(optimizer_name[v->optimizer]),
                         .label_smoothing = (float)v->label_smoothing,
                         .batch = batch,
                         .accumulate = v->accumulate};
  set_unless_usual(&t.optim.b1, v->b1);
  set_unless_usual(&t.optim.b2, v->b2);
  set_unless_usual(&t.optim.eps, v->eps);
  set_unless_usual(&t.optim.weight_decay, v->weight_decay);
  t.optim.clip_norm = (float)v->clip_norm;
  t.optim.nesterov = v->nesterov;
  return t;
}

/* Evaluation works in the training step's memory; where it needs more, it has its own. */
static mr_err_t fit(vit_step_t *v, mr_train_config_t *t, mr_diag_t *diag) {
  size_t limit;
  mr_fit_t choice;
  if (!v->fit) return MR_OK;
  MR_TRY(mr_bytes_parse("setting fit", v->fit, &limit, diag));
  MR_TRY(mr_fit(&v->config, t, limit, &choice, diag));
  v->config.remat = choice.remat;
  t->accumulate = choice.accumulate;
  fprintf(stderr, "millrace: fit=%s: remat=%s accumulate=%lld, planned peak %zu bytes\n", v->fit,
          mr_vit_remat_name(choice.remat), (long long)choice.accumulate, choice.peak);
  return MR_OK;
}

/* Compiles both functions; the messages of the model get the stage's name. */
static mr_err_t compile(mr_stage_t *s) {
  vit_step_t *v = s->state;
  mr_train_config_t train = train_config(v, s->in_spec[IN_TRAIN].dim[0]);
  mr_diag_t why = {0};
  v->config.remat = (mr_vit_remat_t)v->remat; /* the enum's order */
  mr_err_t e = fit(v, &train, &why);
  if (e >= 0) e = mr_vit_params(&v->config, (uint64_t)v->seed, &v->params, &why);
  if (e >= 0) e = mr_train_step_create(&v->config, &train, &v->step, &why);
  if (e >= 0 && v->eval_batch)
    e = mr_eval_step_create(&v->config, v->eval_batch, v->step, &v->eval, &why);
  return e < 0 ? mr_stage_fail(s, e, "%s", why.text) : MR_OK;
}

/* A checkpoint is written from the parameters themselves while the next step computes its
   gradients; its update waits until that is done. */
static mr_err_t wait_for_checkpoint(void *arg) { return mr_all_back(arg, OUT_STATE); }

static mr_err_t vit_step_open(mr_stage_t *s) {
  vit_step_t *v = s->state;
  mr_err_t e = compile(s);
  mr_team_release(); /* steps run in the stage's own thread, with a team of its own */
  if (e < 0) return e;
  mr_train_step_before_update(v->step, s->out_linked[OUT_STATE] ? wait_for_checkpoint : NULL, s);
  v->at = (mr_vit_progress_t){.seed = (uint64_t)v->seed};
  v->saved_step = -1;
  if (v->resume) {
    mr_diag_t why = {0};
    e = mr_vit_state_load(v->resume, &v->config, &v->params, &v->at, &why);
    if (e < 0) return mr_stage_fail(s, e, "%s", why.text);
    if (strcmp(v->at.optimizer, optimizer_name[v->optimizer]))
      return mr_stage_fail(
          s, MR_ERR_CONFIG,
          "setting optimizer = %s: the checkpoint %s was made by %s, whose moments "
          "mean something else; resume with that one",
          optimizer_name[v->optimizer], v->resume, v->at.optimizer);
    v->saved_step = v->at.step;
  }
  for (int i = 0; i < MR_VIT_STREAMS; i++) v->at.stream_known[i] = s->in_linked[i];
  snprintf(v->at.origin, sizeof v->at.origin, "%s", s->in_spec[IN_TRAIN].dataset->origin);
  snprintf(v->at.optimizer, sizeof v->at.optimizer, "%s", optimizer_name[v->optimizer]);
  v->t0 = v->step_t0 = mr_now_s();
  return MR_OK;
}

static void vit_step_close(mr_stage_t *s) {
  vit_step_t *v = s->state;
  mr_eval_step_destroy(v->eval); /* works in the training step's memory */
  mr_train_step_destroy(v->step);
  mr_vit_watch_fini(&v->watch);
  mr_params_fini(&v->params);
  v->step = NULL, v->eval = NULL;
}

/* A METRICS buffer with what every record says; *out is NULL when nobody listens. */
static mr_err_t metrics_fresh(mr_stage_t *s, mr_metrics_kind_t kind, mr_buf_t **out) {
  vit_step_t *v = s->state;
  *out = NULL;
  if (!s->out_linked[OUT_METRICS]) return MR_OK;
  MR_TRY(mr_fresh(s, OUT_METRICS, out));
  if (!*out) return MR_OK; /* every consumer is gone */
  mr_metrics_t *r = (*out)->data;
  memset(r, 0, sizeof *r);
  r->kind = kind, r->step = v->at.step, r->total_steps = v->total;
  r->epoch = v->at.epoch + (kind == MR_METRICS_STEP);
  r->images = v->at.images, r->elapsed_s = mr_now_s() - v->t0, r->ledger = v->at.ledger;
  r->dataset = s->in_spec[IN_TRAIN].dataset;
  (*out)->size = sizeof *r;
  return MR_OK;
}

static mr_err_t metrics_give(mr_stage_t *s, mr_buf_t *b) {
  return b ? mr_push(s, OUT_METRICS, b) : MR_OK;
}

static mr_err_t tell_step(mr_stage_t *s, const mr_train_out_t *r, const mr_buf_t *batch,
                          double lr) {
  vit_step_t *v = s->state;
  double took = mr_now_s() - v->step_t0;
  v->step_t0 += took;
  mr_buf_t *b;
  MR_TRY(metrics_fresh(s, MR_METRICS_STEP, &b));
  if (!b) return MR_OK;
  mr_metrics_t *m = b->data;
  mr_metrics_add(m, "loss", (double)r->loss);
  int64_t right = mr_vit_right(r->logits, batch->label, batch->n, v->config.classes);
  int64_t labels = mr_vit_labels(batch->label, batch->n);
  mr_metrics_add(m, "accuracy", labels ? (double)right / (double)labels : 0);
  mr_metrics_add(m, "lr", (double)lr);
  mr_metrics_add(m, "grad_norm", (double)r->grad_norm);
  mr_metrics_add(m, "param_norm", mr_vit_norm(v->params.p, v->params.arena_size));
  mr_metrics_add(m, "step_s", took);
  mr_metrics_add(m, "images_per_s", batch->n / took);
  return metrics_give(s, b);
}

/* Whether histograms and samples follow the step that comes to stand at. */
static bool watched(const mr_stage_t *s, int64_t step) {
  const vit_step_t *v = s->state;
  return s->out_linked[OUT_METRICS] && v->watch_every && (step - 1) % v->watch_every == 0;
}

static mr_err_t tell_watched(mr_stage_t *s, const mr_buf_t *batch) {
  vit_step_t *v = s->state;
  mr_buf_t *b;
  for (int i = 0; i < MR_VIT_SAMPLES && i < batch->n; i++) {
    MR_TRY(metrics_fresh(s, MR_METRICS_SAMPLE, &b));
    if (b) mr_vit_picture(&s->in_spec[IN_TRAIN], batch, i, -1, b->data);
    MR_TRY(metrics_give(s, b));
  }
  for (int first = 0; first < 2 * v->params.n; first += MR_METRICS_HISTOGRAMS_MAX) {
    MR_TRY(metrics_fresh(s, MR_METRICS_HISTOGRAMS, &b));
    if (b) mr_vit_watch_histograms(&v->watch, &v->params, first, b->data);
    MR_TRY(metrics_give(s, b));
  }
  return MR_OK;
}

/* A few pictures of each cell of the confusion matrix. */
static void tell_wrong(mr_stage_t *s, const mr_vit_tally_t *tally, int port, const mr_buf_t *batch,
                       int i, int guess) {
  mr_buf_t *b;
  if (tally->confusion[batch->label[i] * tally->n_classes + guess] > MR_VIT_WRONG) return;
  if (metrics_fresh(s, MR_METRICS_WRONG, &b) < 0 || !b) return;
  mr_vit_picture(&s->in_spec[port], batch, i, guess, b->data);
  (void)metrics_give(s, b); /* lossy: a failure here is the graph's, and ends the step anyway */
}

/* Gives out state unless this step's is out already.  last: the run ends with it. */
static mr_err_t save(mr_stage_t *s, bool last) {
  vit_step_t *v = s->state;
  if (!s->out_linked[OUT_STATE] || (v->saved_step == v->at.step && !v->at.unvalidated && !last))
    return MR_OK;
  mr_buf_t *b = NULL;
  MR_TRY(mr_fresh(s, OUT_STATE, &b));
  if (!b) return MR_OK;
  b->size = mr_vit_state_pack(&v->params, &v->config, &v->at, last, b->data);
  v->saved_step = v->at.step;
  return mr_push(s, OUT_STATE, b);
}

/* MR_AGAIN: an orderly stop came in between, nothing was told. */
static mr_err_t evaluate(mr_stage_t *s, int port, mr_metrics_kind_t kind) {
  vit_step_t *v = s->state;
  if (!s->in_linked[port]) return MR_OK;
  mr_vit_tally_t tally = {.wrong = tell_wrong};
  if (port < MR_VIT_STREAMS) tally.at = v->at.stream[port];
  mr_err_t e = mr_vit_evaluate(s, port, v->eval, &v->params, &tally);
  v->step_t0 = mr_now_s();
  if (e == MR_END) return MR_OK;
  if (e != MR_OK) return e;
  if (port < MR_VIT_STREAMS) v->at.stream[port] = tally.at;
  mr_buf_t *b;
  MR_TRY(metrics_fresh(s, kind, &b));
  if (b) mr_vit_tally_metrics(&tally, b->data);
  return metrics_give(s, b);
}

static mr_err_t validate(mr_stage_t *s) {
  vit_step_t *v = s->state;
  mr_err_t e = evaluate(s, IN_VALID, MR_METRICS_VALID);
  if (e == MR_OK) v->at.unvalidated = false;
  return e;
}

/* The run's end: test unless stopped, the last state, the final record. */
static mr_err_t finish(mr_stage_t *s) {
  bool stopped = mr_stopping(s);
  if (!stopped) {
    mr_err_t e = evaluate(s, IN_TEST, MR_METRICS_TEST);
    if (e < 0) return e;
    stopped = e == MR_AGAIN;
  }
  MR_TRY(save(s, true));
  mr_buf_t *b;
  MR_TRY(metrics_fresh(s, MR_METRICS_FINAL, &b));
  if (b)
    snprintf(((mr_metrics_t *)b->data)->note, sizeof((mr_metrics_t *)b->data)->note, "%s",
             stopped ? "stopped on request" : "finished");
  MR_TRY(metrics_give(s, b));
  return MR_END;
}

/* The step counts, so that those after it are the same: their rate, masks and corrections follow
   its number. */
static mr_err_t pass_step(mr_stage_t *s, const mr_buf_t *batch) {
  vit_step_t *v = s->state;
  mr_buf_t *b;
  v->at.step++;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, NULL, NULL, 0, 0);
  MR_TRY(metrics_fresh(s, MR_METRICS_STEP, &b));
  if (b) mr_metrics_add(b->data, "skipped", 1);
  MR_TRY(metrics_give(s, b));
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  return MR_OK;
}

static mr_err_t train_on(mr_stage_t *s, const mr_buf_t *batch) {
  vit_step_t *v = s->state;
  if (!batch->n) return pass_step(s, batch);
  if (batch->n != s->in_spec[IN_TRAIN].dim[0])
    return mr_stage_fail(s, MR_ERR_SHAPE,
                         "a batch of %d records: want %" PRId64
                         "; give the batch stage drop-remainder",
                         batch->n, s->in_spec[IN_TRAIN].dim[0]);
  float lr = mr_schedule_at(&v->rate, v->at.step);
  mr_train_out_t r;
  bool watch = watched(s, v->at.step + 1);
  if (watch) {
    mr_optim_t optim = train_config(v, batch->n).optim;
    mr_vit_watch_before(&v->watch, &optim, lr, &v->params);
  }
  MR_TRY(mr_train_step_run(v->step, &v->params, batch->data, batch->label, lr, v->at.step + 1,
                           v->at.seed, &r, s->diag));
  if (v->profile.after)
    v->profile.after(v->profile.arg, mr_train_step_profiled(v->step), v->at.step + 1);
  uint32_t bits;
  memcpy(&bits, &r.loss, sizeof bits);
  v->at.step++;
  v->at.images += batch->n;
  mr_stream_at_pass(&v->at.stream[IN_TRAIN], &s->in_spec[IN_TRAIN], batch);
  v->at.ledger = mr_ledger_step(v->at.ledger, v->at.step, batch->key, batch->draw, batch->n, bits);
  MR_TRY(tell_step(s, &r, batch, lr));
  if (watch) MR_TRY(tell_watched(s, batch));
  if (batch->flags & MR_BUF_EPOCH_END) v->at.epoch = batch->epoch + 1, v->at.unvalidated = true;
  return MR_OK;
}

static mr_err_t vit_step_step(mr_stage_t *s) {
  vit_step_t *v = s->state;
  if (v->at.unvalidated && !mr_stopping(s)) {
    mr_err_t e = validate(s);
    if (e != MR_OK) return e == MR_AGAIN ? MR_OK : e;
    MR_TRY(save(s, false));
  }
  if (mr_stopping(s) || (v->total && v->at.step >= v->total)) return finish(s);
  mr_buf_t *batch = NULL;
  mr_err_t e = mr_pull(s, IN_TRAIN, &batch);
  if (e == MR_END) return finish(s);
  if (e != MR_OK) return e;
  e = train_on(s, batch);
  mr_buf_unref(batch);
  if (e == MR_OK && v->checkpoint_every && v->at.step % v->checkpoint_every == 0 &&
      !v->at.unvalidated)
    e = save(s, false);
  return e;
}

void mr_vit_step_profile(mr_stage_t *s, mr_vit_profile_t p) {
  ((vit_step_t *)s->state)->profile = p;
}

static void vit_step_report(mr_stage_t *s, char *text, size_t n) {
  const vit_step_t *v = s->state;
  snprintf(text, n, "%" PRId64 " steps, ledger %016" PRIx64, v->at.step, v->at.ledger);
}

const mr_stage_def_t mr_stage_vit_step = {
    .name = "vit-step",
    .help = "Trains a Vision Transformer, one step a batch, and evaluates it.",
    .in = {{"in", MR_FLOW_BATCHES, false},
           {"valid", MR_FLOW_BATCHES, true},
           {"test", MR_FLOW_BATCHES, true}},
    .out = {{"metrics", MR_FLOW_METRICS, true}, {"state", MR_FLOW_STATE, true}},
    .opts = vit_step_opts,
    .state_sz = sizeof(vit_step_t),
    .plan = vit_step_plan,
    .open = vit_step_open,
    .close = vit_step_close,
    .step = vit_step_step,
    .report = vit_step_report,
};
