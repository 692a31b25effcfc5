#include "model/train.h"

#include <stdlib.h>
#include <string.h>

#include "base/label.h"
#include "model/ops/cost.h"

mr_train_config_t mr_train_default(int64_t batch) {
  return (mr_train_config_t){.optim = mr_optim_of("adamw"), .batch = batch, .accumulate = 1};
}

mr_err_t mr_vit_params_list(const mr_vit_config_t *c, mr_params_t *params, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_fn_t *f = mr_vit_loss(c, 1, false, 0, params, &own);
  if (!f) return mr_fail(diag, own.code, "%s", own.text);
  mr_fn_destroy(f);
  return MR_OK;
}

mr_err_t mr_vit_params(const mr_vit_config_t *c, uint64_t seed, mr_params_t *params,
                       mr_diag_t *diag) {
  MR_TRY(mr_vit_params_list(c, params, diag));
  MR_TRY(mr_params_alloc(params, diag));
  mr_params_init(params, seed);
  return MR_OK;
}

/* What both kinds of step hold.  The scalars lie in arrays of their own that runs point at. */
typedef struct step {
  mr_exec_t *exec;
  mr_params_t list; /* names and places only: no arenas */
  int64_t batch, classes;
  int slots;     /* of the optimizer */
  bool averages; /* training keeps an average of the parameters */
  bool scales;   /* training keeps a loss scale of its own */
  const void **in;
  void **out;
  float *logits, *losses;
  uint64_t seed;
  uint32_t step;
  float lr, t, loss, norm, loss_scale;
  mr_scale_state_t scale, next_scale;
} step_t;

struct mr_train_step {
  step_t s;
  mr_err_t (*wait)(void *arg);
  void *wait_arg;
  mr_err_t waited; /* what the last run's wait returned */
};

struct mr_eval_step {
  step_t s;
};

static float *floats(int64_t n) {
  return aligned_alloc(64, ((size_t)n * sizeof(float) + 127) & ~(size_t)63);
}

static void step_fini(step_t *s) {
  mr_exec_destroy(s->exec);
  mr_params_fini(&s->list);
  free(s->in);
  free(s->out);
  free(s->logits);
  free(s->losses);
}

static mr_err_t step_alloc(step_t *s, mr_diag_t *diag) {
  const mr_fn_t *f = mr_exec_fn(s->exec);
  s->in = calloc((size_t)f->n_in, sizeof *s->in);
  s->out = calloc((size_t)f->n_out, sizeof *s->out);
  s->logits = floats(s->batch * s->classes);
  s->losses = floats(s->batch);
  if (!s->in || !s->out || !s->logits || !s->losses)
    return mr_fail(diag, MR_ERR_NOMEM, "out of memory for the outputs of a step");
  return MR_OK;
}

/* The checkpoint or the caller may bring parameters of another model. */
static mr_err_t same_params(const step_t *s, const mr_params_t *p, mr_diag_t *diag) {
  if (p->n != s->list.n || p->arena_size != s->list.arena_size || p->count != s->list.count)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "parameters of another model: %lld in %d tensors, want %lld in %d",
                   (long long)p->count, p->n, (long long)s->list.count, s->list.n);
  return MR_OK;
}

static mr_err_t check_labels(const step_t *s, const int32_t *labels, mr_diag_t *diag) {
  for (int64_t i = 0; i < s->batch; i++)
    if (labels[i] != MR_LABEL_NONE && (labels[i] < 0 || labels[i] >= s->classes))
      return mr_fail(diag, MR_ERR_DATA, "record %lld of the batch has label %d, want [0,%lld)",
                     (long long)i, labels[i], (long long)s->classes);
  return MR_OK;
}

/* The graph divides by the batch whatever labels there are, so that no other record's weight in the
   gradient changes when one is left out; the loss that is told is the mean of those that count. */
static float mean_loss(const step_t *s, const int32_t *labels) {
  int64_t n = 0;
  for (int64_t i = 0; i < s->batch; i++) n += labels[i] != MR_LABEL_NONE;
  return n == s->batch || !n ? s->loss : s->loss * ((float)s->batch / (float)n);
}

static void set_data(step_t *s, const float *images, const int32_t *labels) {
  s->in[MR_VIT_IMAGES] = images;
  s->in[MR_VIT_LABELS] = labels;
  s->in[MR_VIT_SEED] = &s->seed;
  s->in[MR_VIT_STEP] = &s->step;
}

/* ---- training ---- */
/* sets: of tensors that a step replaces. */
static mr_err_t compile_train(step_t *s, const mr_fn_t *f, const mr_vit_config_t *c, int sets,
                              bool plan_only, mr_diag_t *diag) {
  mr_compile_options_t options = {
      .in_place = s->list.n * sets, .threads = c->threads, .pin = c->pin, .plan_only = plan_only};
  return mr_compile(f, &options, &s->exec, diag);
}

enum { SITES = 1 << 16 }; /* between two parts: no model has as many dropouts */

/* One trace a part; the first fills the list of parameters. */
static mr_err_t trace_parts(mr_params_t *list, const mr_vit_config_t *c, const mr_train_config_t *t,
                            mr_fn_t **part, mr_diag_t *diag) {
  for (int k = 0; k < t->accumulate; k++) {
    mr_vit_config_t own = *c;
    mr_params_t again = {0};
    own.first_site = (uint32_t)k * SITES;
    part[k] = mr_vit_loss(&own, t->batch / t->accumulate, true, t->label_smoothing,
                          k ? &again : list, diag);
    mr_params_fini(&again);
    if (!part[k]) return diag->code;
  }
  return MR_OK;
}

mr_err_t mr_train_step_fn(const mr_vit_config_t *c, const mr_train_config_t *t, mr_params_t *list,
                          mr_fn_t **out, mr_diag_t *diag) {
  MR_TRY(mr_optim_check(&t->optim, diag));
  if (t->accumulate < 1 || t->batch % t->accumulate)
    return mr_fail(diag, MR_ERR_CONFIG, "accumulate: %lld, want a divisor of the batch %lld",
                   (long long)t->accumulate, (long long)t->batch);
  const bool split[MR_VIT_N_DATA] = {[MR_VIT_IMAGES] = true, [MR_VIT_LABELS] = true};
  mr_fn_t **part = calloc((size_t)t->accumulate, sizeof *part);
  if (!part) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a step");
  mr_err_t err = trace_parts(list, c, t, part, diag);
  mr_optim_loss_t loss = {MR_VIT_N_DATA, (int)t->accumulate, (const mr_fn_t *const *)part, split};
  if (err >= 0) err = mr_optim_step_fn(&loss, &t->optim, out, diag);
  for (int k = 0; k < t->accumulate; k++) mr_fn_destroy(part[k]);
  free(part);
  return err;
}

static mr_err_t build_train(step_t *s, const mr_vit_config_t *c, const mr_train_config_t *t,
                            bool plan_only, mr_diag_t *diag) {
  mr_fn_t *f = NULL;
  mr_err_t err = mr_train_step_fn(c, t, &s->list, &f, diag);
  if (err >= 0) err = compile_train(s, f, c, mr_optim_sets(&t->optim), plan_only, diag);
  mr_fn_destroy(f);
  return err;
}

mr_err_t mr_train_step_create(const mr_vit_config_t *c, const mr_train_config_t *config,
                              mr_train_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_train_step_t *t = calloc(1, sizeof *t);
  if (!t) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a step");
  t->s.batch = config->batch;
  t->s.classes = c->classes;
  t->s.slots = config->optim.def ? config->optim.def->n_slots : 0;
  t->s.averages = config->optim.ema > 0;
  t->s.scales = config->optim.dynamic.patience > 0;
  t->s.loss_scale = config->optim.loss_scale > 0 ? config->optim.loss_scale : 1;
  t->s.scale = mr_scale_state_start(config->optim.dynamic.start);
  mr_err_t err = build_train(&t->s, c, config, false, &own);
  if (err >= 0) err = step_alloc(&t->s, &own);
  if (err < 0) {
    mr_train_step_destroy(t);
    return mr_fail(diag, err, "%s", own.text);
  }
  *out = t;
  return MR_OK;
}

/* A byte costs as much as 10 operations, about what machines with a few cores do. */
static double cost_of(const mr_fn_t *f) {
  double sum = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_cost_t c = mr_cost_of(f->eqn[i]);
    sum += c.flop + 10 * c.bytes;
  }
  return sum;
}

mr_err_t mr_train_step_plan(const mr_vit_config_t *c, const mr_train_config_t *config,
                            mr_train_plan_t *out, mr_diag_t *diag) {
  step_t s = {.batch = config->batch, .classes = c->classes};
  mr_diag_t own = {0};
  mr_err_t err = build_train(&s, c, config, true, &own);
  if (err >= 0) *out = (mr_train_plan_t){mr_exec_peak_bytes(s.exec), cost_of(mr_exec_fn(s.exec))};
  step_fini(&s);
  return err < 0 ? mr_fail(diag, err, "%s", own.text) : MR_OK;
}

/* A run reads the scale's state and writes the next one beside it. */
static void set_scale(step_t *s, int in, int out) {
  mr_scale_state_t *now = &s->scale, *next = &s->next_scale;
  const void *from[MR_SCALE_VARS] = {&now->scale, &now->good, &now->bad, &now->resets,
                                     &now->skipped};
  void *to[MR_SCALE_VARS] = {&next->scale, &next->good, &next->bad, &next->resets, &next->skipped};
  memcpy(s->in + in, from, sizeof from);
  memcpy(s->out + out, to, sizeof to);
}

/* What a run that has ended says of its scale, whose next state counts from now on. */
static void take_scale(step_t *s, mr_train_out_t *out) {
  out->loss_scale = s->scales ? s->scale.scale : s->loss_scale;
  out->applied = !s->scales || s->next_scale.skipped == s->scale.skipped;
  if (s->scales) s->scale = s->next_scale;
}

mr_scale_state_t *mr_train_step_scale(mr_train_step_t *s) { return &s->s.scale; }

mr_err_t mr_train_step_run(mr_train_step_t *step, mr_params_t *params, const float *images,
                           const int32_t *labels, float lr, int64_t t, uint64_t seed,
                           mr_train_out_t *out, mr_diag_t *diag) {
  step_t *s = &step->s;
  MR_TRY(same_params(s, params, diag));
  MR_TRY(check_labels(s, labels, diag));
  if (s->averages && !params->average)
    return mr_fail(diag, MR_ERR_CONFIG, "ema: the parameters have no room for their average");
  int n = params->n, in = MR_VIT_N_DATA, o = 0;
  set_data(s, images, labels);
  s->seed = seed;
  s->step = (uint32_t)t;
  s->lr = lr;
  s->t = (float)t;
  s->in[in++] = &s->lr;
  s->in[in++] = &s->t;
  s->out[o++] = &s->loss;
  s->out[o++] = s->logits;
  s->out[o++] = s->losses;
  s->out[o++] = &s->norm;
  if (s->scales) set_scale(s, in, o), in += MR_SCALE_VARS, o += MR_SCALE_VARS;
  float *arena[] = {params->p, params->m, params->v, NULL};
  if (s->averages) arena[1 + s->slots] = params->average;
  for (int set = 0; set < 1 + s->slots + s->averages; set++)
    for (int i = 0; i < n; i++) s->in[in++] = s->out[o++] = arena[set] + params->param[i].offset;
  step->waited = MR_OK;
  mr_exec_run(s->exec, s->in, s->out);
  if (step->waited < 0) return step->waited;
  *out = (mr_train_out_t){.loss = mean_loss(s, labels), .grad_norm = s->norm, .logits = s->logits};
  take_scale(s, out);
  return MR_OK;
}

static bool may_update(void *arg) {
  mr_train_step_t *s = arg;
  s->waited = s->wait(s->wait_arg);
  return s->waited >= 0;
}

void mr_train_step_before_update(mr_train_step_t *s, mr_err_t (*wait)(void *arg), void *arg) {
  s->wait = wait;
  s->wait_arg = arg;
  mr_exec_gate(s->s.exec, wait ? may_update : NULL, s);
}

const mr_exec_t *mr_train_step_exec(const mr_train_step_t *s) { return s->s.exec; }

mr_exec_t *mr_train_step_profiled(mr_train_step_t *s) { return s->s.exec; }

void mr_train_step_destroy(mr_train_step_t *s) {
  if (!s) return;
  step_fini(&s->s);
  free(s);
}

/* ---- evaluation ---- */
mr_err_t mr_eval_step_create(const mr_vit_config_t *c, int64_t batch, const mr_train_step_t *lender,
                             mr_eval_step_t **out, mr_diag_t *diag) {
  mr_diag_t own = {0};
  mr_eval_step_t *e = calloc(1, sizeof *e);
  if (!e) return mr_fail(diag, MR_ERR_NOMEM, "no memory to compile a step");
  e->s.batch = batch;
  e->s.classes = c->classes;
  mr_fn_t *loss = mr_vit_loss(c, batch, false, 0, &e->s.list, &own);
  mr_compile_options_t options = {
      .lender = lender ? lender->s.exec : NULL, .threads = c->threads, .pin = c->pin};
  mr_err_t err = loss ? mr_compile(loss, &options, &e->s.exec, &own) : own.code;
  mr_fn_destroy(loss);
  if (err >= 0) err = step_alloc(&e->s, &own);
  if (err < 0) {
    mr_eval_step_destroy(e);
    return mr_fail(diag, err, "%s", own.text);
  }
  *out = e;
  return MR_OK;
}

mr_err_t mr_eval_step_run(mr_eval_step_t *e, const mr_params_t *params, const float *images,
                          const int32_t *labels, const float **logits, const float **losses,
                          mr_diag_t *diag) {
  step_t *s = &e->s;
  MR_TRY(same_params(s, params, diag));
  MR_TRY(check_labels(s, labels, diag));
  set_data(s, images, labels);
  for (int i = 0; i < params->n; i++)
    s->in[MR_VIT_N_DATA + i] = mr_params_judged(params) + params->param[i].offset;
  s->out[0] = &s->loss;
  s->out[1] = s->logits;
  s->out[2] = s->losses;
  mr_exec_run(s->exec, s->in, s->out);
  *logits = s->logits;
  *losses = s->losses;
  return MR_OK;
}

void mr_eval_step_destroy(mr_eval_step_t *e) {
  if (!e) return;
  step_fini(&e->s);
  free(e);
}
