/* The settings of train-step, and what follows from them and its inputs: the model, the rate's
   course, how long the run is, what goes out. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "stages/train/train_step_private.h"

enum { CONSTANT, COSINE, LINEAR, RSQRT }; /* setting schedule */

#define AT(field) offsetof(train_t, field)

#define OPTIMIZERS "sgd|momentum|adam|adamw|lion|lamb"
const char *const mr__train_optimizer_name[] = {"sgd", "momentum", "adam", "adamw", "lion", "lamb"};

/* "model" comes first: def.c puts the model's own settings behind it. */
const mr_opt_t mr__train_stage_opts[] = {
    {"model", MR_OPT_STR, AT(model_name), "", "vit", 0, 0, NULL,
     "Model to train; its settings become settings of this stage: `millrace inspect train-step "
     "model=NAME`.",
     0},
    MR_TRAIN_TEAM_OPTS(AT(team)),
    {"matmul-precision", MR_OPT_ENUM, AT(precision), "", "none", 0, 0, "none|default|high|highest",
     "Precision of f32 products: bf16 with f32 sums (default), three of these (high) or f32 "
     "(highest); none: MILLRACE_MATMUL_PRECISION, else f32.",
     0},
    {"dtype", MR_OPT_ENUM, AT(dtype), "", "bf16", 0, 0, "f32|bf16",
     "Type of the matrix products; parameters are f32.", 0},
    {"seed", MR_OPT_INT, AT(seed), "", "12", 0, 4294967295.0, NULL,
     "Seed of the initial parameters and of dropout.", 0},
    {"lr", MR_OPT_F64, AT(lr), "", "1e-3", 0, 100, NULL, "Peak learning rate.", 0},
    {"optimizer", MR_OPT_ENUM, AT(optimizer), "", "adamw", 0, 0, OPTIMIZERS,
     "How gradients update the parameters.", 0},
    {"b1", MR_OPT_F64, AT(b1), "", "-1", -1, 0.9999999, NULL,
     "Decay of the first moment, or of the momentum; -1: the optimizer's usual value.", 0},
    {"b2", MR_OPT_F64, AT(b2), "", "-1", -1, 0.9999999, NULL,
     "Decay of the second moment; -1: the optimizer's usual one.", 0},
    {"eps", MR_OPT_F64, AT(eps), "", "-1", -1, 1, NULL,
     "Added to the root of the second moment; -1: the optimizer's usual value.", 0},
    {"weight-decay", MR_OPT_F64, AT(weight_decay), "", "-1", -1, 10, NULL,
     "Decoupled weight decay of all parameters; -1: the optimizer's usual value.", 0},
    {"nesterov", MR_OPT_BOOL, AT(nesterov), "", "false", 0, 0, NULL, "Uses Nesterov momentum.", 0},
    {"accumulate", MR_OPT_INT, AT(accumulate), "parts", "1", 1, 65536, NULL,
     "Splits a batch into this many parts and adds up their gradients: needs less memory.", 0},
    {"remat", MR_OPT_ENUM, AT(remat), "", "none", 0, 0, "none|dots|full",
     "What the backward pass of a block recomputes instead of storing it: needs less memory.", 0},
    {"fit", MR_OPT_STR, AT(fit), "", NULL, 0, 0, NULL,
     "A memory limit such as 2GiB: chooses remat and accumulate so that the planned peak of a step "
     "stays below it.",
     0},
    {"ema", MR_OPT_F64, AT(ema), "", "0", 0, 0.9999999, NULL,
     "Decay of an average of the weights over the steps, which validation and test then use and "
     "checkpoints hold beside the weights; 0: none.",
     0},
    {"clip-norm", MR_OPT_F64, AT(clip_norm), "", "0", 0, 1e9, NULL,
     "Scales gradients down to this global norm; 0 leaves them.", 0},
    {"loss-scale", MR_OPT_STR, AT(loss_scale), "", "1", 0, 0, NULL,
     "Multiplies the loss before the gradient, and divides the gradients by it again: small ones "
     "then do not vanish in the type of the products.  A number, of which a power of two changes "
     "nothing else; or dynamic: it grows as long as gradients stay finite, and steps with "
     "gradients that are not are skipped.",
     0},
    {"loss-scale-start", MR_OPT_F64, AT(scale_start), "", "32768", 1e-9, 1.7e38, NULL,
     "The first scale of loss-scale=dynamic.", 0},
    {"loss-scale-patience", MR_OPT_INT, AT(scale_patience), "steps", "2000", 1, 1e9, NULL,
     "Finite steps after which a dynamic scale doubles with the next one.", 0},
    {"max-skipped", MR_OPT_INT, AT(max_skipped), "steps", "100", 0, 1e9, NULL,
     "With a dynamic scale, at most this many steps in a row are skipped; the next one is applied "
     "even if it is not finite.",
     0},
    {"schedule", MR_OPT_ENUM, AT(schedule), "", "constant", 0, 0, "constant|cosine|linear|rsqrt",
     "Learning rate after the warm-up: constant, a cosine or a line to 0 at the last step, or "
     "falling with the root of the step.",
     0},
    {"warmup", MR_OPT_INT, AT(warmup), "steps", "0", 0, 1e9, NULL,
     "Steps over which the learning rate rises linearly.", 0},
    {"steps", MR_OPT_INT, AT(steps), "steps", "0", 0, 1e12, NULL,
     "Ends the run after this many steps; 0: when the stream ends.", 0},
    {"checkpoint-every", MR_OPT_INT, AT(checkpoint_every), "steps", "0", 0, 1e12, NULL,
     "Also emits the state every this many steps; 0: only after each epoch and at the end.", 0},
    {"watch-every", MR_OPT_INT, AT(watch_every), "steps", "100", 0, 1e12, NULL,
     "Reports histograms and sample pictures every this many steps, first after step 1; 0: never.",
     0},
    {"resume", MR_OPT_STR, AT(resume), "", NULL, 0, 0, NULL, "Checkpoint file to resume from.", 0},
    {"leak-check", MR_OPT_ENUM, AT(leak_check), "", "ids", 0, 0, "ids|content|off",
     "Refuses inputs that share records, compared by their position in the files, by their bytes, "
     "or not at all.",
     0},
    {"device", MR_OPT_ENUM, AT(device), "", "cpu", 0, 0, "cpu|cuda", "Where the step runs.", 0},
    {0},
};

static int64_t total_steps(const train_t *v, const mr_spec_t *in) {
  int64_t stream = in->n_batches * in->n_epochs; /* 0: endless */
  if (!v->steps) return stream;
  return stream && stream < v->steps ? stream : v->steps;
}

int64_t mr_train_stage_total(const mr_stage_t *s) { return ((const train_t *)s->state)->total; }

/* Whether two losses take the same fields. */
static bool same_fields(const mr_loss_t *a, const mr_loss_t *b) {
  bool same = a->n_fields == b->n_fields && a->masked == b->masked && a->classes == b->classes;
  for (int i = 0; same && i < a->n_fields; i++)
    same = !strcmp(a->field[i].name, b->field[i].name) &&
           mr_aval_equal(&a->field[i].aval, &b->field[i].aval) &&
           a->field[i].classes == b->field[i].classes;
  return same;
}

/* The model of an evaluation input, in a state of its own that begins with the settings. */
static mr_err_t plan_input(mr_stage_t *s, int port) {
  train_t *v = s->state;
  const mr_model_def_t *def = mr__train_model_of(s);
  void *state = malloc(def->state_sz + 1);
  mr_model_t m;
  if (!state) return mr_stage_fail(s, MR_ERR_NOMEM, "out of memory for a model's settings");
  memcpy(state, mr__train_model_state(s), def->state_sz);
  mr_err_t e = mr_train_model_for(s, port, def, state, &m);
  int64_t B = s->in_spec[port].batch;
  if (e >= 0 &&
      (!same_fields(&m.plan.loss, &v->model.plan.loss) || (v->eval_batch && v->eval_batch != B)))
    e = mr_stage_fail(s, MR_ERR_SHAPE,
                      "input %s: want the fields and classes of input in, and one batch size "
                      "for valid and test",
                      s->def->in[port].name);
  v->eval_batch = B;
  free(state);
  return e;
}

/* All evaluation inputs share one compiled function, so they share a batch size. */
static mr_err_t plan_evaluation(mr_stage_t *s) {
  for (int port = IN_VALID; port <= IN_TEST; port++)
    if (s->in_linked[port]) MR_TRY(plan_input(s, port));
  return MR_OK;
}

/* The list of parameters, from a trace with one record: sizes the state. */
static mr_err_t state_bytes(mr_stage_t *s, int64_t *bytes) {
  train_t *v = s->state;
  mr_params_t params = {0};
  mr_diag_t why = {0};
  mr_err_t e = mr_loss_params_list(&v->model.plan.loss, &params, &why);
  *bytes = (int64_t)mr_train_state_bytes(&params, v->ema > 0);
  mr_params_fini(&params);
  return e >= 0 ? MR_OK : mr_stage_fail(s, e, "%s", why.text);
}

static mr_err_t plan_outputs(mr_stage_t *s) {
  int64_t bytes;
  MR_TRY(state_bytes(s, &bytes));
  const mr_dataset_t *dataset = s->in_spec[IN_TRAIN].dataset;
  s->out_spec[OUT_METRICS] = mr_metrics_spec(dataset);
  s->out_spec[OUT_STATE] = mr_spec_of_bytes(MR_FLOW_STATE, bytes);
  s->out_spec[OUT_STATE].dataset = dataset;
  return MR_OK;
}

/* A number, or the word. */
static mr_err_t plan_scale(mr_stage_t *s) {
  train_t *v = s->state;
  char *end;
  v->fixed_scale = 0;
  if (!strcmp(v->loss_scale, "dynamic")) return MR_OK;
  v->fixed_scale = mr_strtod(v->loss_scale, &end);
  if (end != v->loss_scale && !*end && v->fixed_scale >= 1e-9 && v->fixed_scale <= 1e9)
    return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting loss-scale = %s: want a number of [1e-9,1e+09], or dynamic",
                       v->loss_scale);
}

mr_err_t mr__train_stage_plan(mr_stage_t *s) {
  train_t *v = s->state;
  if (v->device)
    return mr_stage_fail(s, MR_ERR_UNAVAILABLE,
                         "setting device = cuda: this build has no CUDA backend, want cpu");
  MR_TRY(plan_scale(s));
  const mr_model_def_t *def = mr__train_model_of(s);
  MR_TRY(mr_train_model_for(s, IN_TRAIN, def, mr__train_model_state(s), &v->model));
  if (v->remat && !def->remat)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting remat = %s: model %s has no parts to compute again, want none",
                         mr_nn_remat_name((mr_nn_remat_t)v->remat), def->name);
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
