/* The definitions of train-step and vit-step: the stage's own settings joined with those of the
   model that the setting `model` names.

   A definition is made for each model when it is first used, and is kept for the program's life. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

enum { OPTS_MAX = MR_SETTINGS_MAX };
enum { MODEL_AT = (sizeof(train_t) + 63) / 64 * 64 };

typedef struct def {
  struct def *next;
  const mr_stage_def_t *of;
  const mr_model_def_t *model;
  char word[64]; /* the value of `model` */
  mr_opt_t opt[OPTS_MAX + 1];
  mr_stage_def_t stage;
} def_t;

static def_t *defs;

/* Values of `model` from when the ViT was the only one: forms of the ViT. */
static const struct {
  const char *word, *model, *setting;
} old[] = {{"flax", "vit", "style"}, {"timm", "vit", "style"}};

const mr_model_def_t *mr__train_model_of(const mr_stage_t *s) {
  for (const def_t *d = defs; d; d = d->next)
    if (s->def == &d->stage) return d->model;
  assert(!"a train-step that was not chosen");
  return NULL;
}

void *mr__train_model_state(const mr_stage_t *s) { return (char *)s->state + MODEL_AT; }

/* Joins the rows of the stage with those of the model after the first; false if there are too
   many. */
static bool def_join(def_t *d, const char *setting) {
  const mr_opt_t *own = mr__train_stage_opts;
  int n = 0;
  d->opt[n++] = *own++;
  d->opt[0].def = d->word;
  for (const mr_opt_t *o = d->model->opts; o && o->type != MR_OPT_END; o++) {
    if (n == OPTS_MAX) return false;
    d->opt[n] = *o;
    d->opt[n].offset += MODEL_AT;
    if (setting && !strcmp(o->name, setting)) d->opt[n].def = d->word;
    n++;
  }
  for (; own->type != MR_OPT_END; own++) {
    if (n == OPTS_MAX) return false;
    d->opt[n++] = *own;
  }
  return true;
}

/* A setting of the model that has the name of one of the stage's; NULL without one. */
static const char *clashing_setting(const mr_model_def_t *m) {
  for (const mr_opt_t *o = m->opts; o && o->type != MR_OPT_END; o++)
    for (const mr_opt_t *own = mr__train_stage_opts; own->type != MR_OPT_END; own++)
      if (!strcmp(o->name, own->name)) return o->name;
  return NULL;
}

static const mr_stage_def_t *def_make(const mr_stage_def_t *of, const mr_model_def_t *m,
                                      const char *word, const char *setting, char *hint, size_t n) {
  def_t *d = calloc(1, sizeof *d);
  const char *both = clashing_setting(m);
  if (both) snprintf(hint, n, "; its setting %s is one of the stage's", both);
  if (!d || both) return free(d), NULL;
  *d = (def_t){.next = defs, .of = of, .model = m, .stage = *of};
  snprintf(d->word, sizeof d->word, "%s", word);
  d->stage.opts = d->opt, d->stage.state_sz = MODEL_AT + m->state_sz;
  if (!def_join(d, setting)) {
    snprintf(hint, n, "; it has too many settings");
    return free(d), NULL;
  }
  defs = d;
  return &d->stage;
}

static void suggest_model(const char *word, char *hint, size_t n) {
  const mr_model_def_t *m;
  mr_suggest_t near = {.word = word};
  for (int i = 0; (m = mr_model_at(i)); i++) mr_suggest_offer(&near, m->name);
  mr_suggest_text(&near, hint, n);
  if (*hint) return;
  size_t at = (size_t)snprintf(hint, n, "; known:");
  for (int i = 0; (m = mr_model_at(i)) && at < n; i++)
    at += (size_t)snprintf(hint + at, n - at, "%s %s", i ? "," : "", m->name);
}

static const mr_stage_def_t *def_choose(const mr_stage_def_t *of, const char *word, char *hint,
                                        size_t n) {
  const char *name = word ? word : "vit", *setting = NULL;
  hint[0] = 0;
  for (const def_t *d = defs; d; d = d->next)
    if (d->of == of && !strcmp(d->word, name)) return &d->stage;
  const mr_model_def_t *m = mr_model_find(name);
  for (size_t i = 0; !m && i < sizeof old / sizeof *old; i++)
    if (!strcmp(name, old[i].word)) m = mr_model_find(old[i].model), setting = old[i].setting;
  if (!m) return suggest_model(name, hint, n), NULL;
  if (of == &mr_stage_vit_step && strcmp(m->name, "vit")) {
    snprintf(hint, n, "; vit-step trains vit alone: write train-step model=%s", name);
    return NULL;
  }
  return def_make(of, m, name, setting, hint, n);
}

bool mr_is_train_stage(const mr_stage_t *s) { return s->def->open == mr__train_stage_open; }

mr_stage_t *mr_train_stage(const mr_graph_t *g) {
  for (int i = 0; i < mr_graph_n_stages(g); i++)
    if (mr_is_train_stage(mr_graph_stage_at(g, i))) return mr_graph_stage_at(g, i);
  return NULL;
}

bool mr_is_model_setting(const mr_stage_t *s, const char *setting) {
  if (!strcmp(setting, "model")) return true;
  for (const mr_opt_t *o = mr__train_model_of(s)->opts; o && o->type != MR_OPT_END; o++)
    if (!strcmp(o->name, setting)) return true;
  return false;
}

static const mr_stage_def_t *choose_any(const char *word, char *hint, size_t n) {
  return def_choose(&mr_stage_train_step, word, hint, n);
}

static const mr_stage_def_t *choose_vit(const char *word, char *hint, size_t n) {
  return def_choose(&mr_stage_vit_step, word, hint, n);
}

static const mr_step_def_t train_step_run = {.run = mr__train_stage_step};

#define TRAIN_STEP                                                                                \
  .in = {{"in", MR_FLOW_BATCHES, .device = true},                                                 \
         {"valid", MR_FLOW_BATCHES, true},                                                        \
         {"test", MR_FLOW_BATCHES, true},                                                         \
         {"valid.*", MR_FLOW_BATCHES, true, .family = true},                                      \
         {"valid.*", MR_FLOW_BATCHES, true, .family = true},                                      \
         {"valid.*", MR_FLOW_BATCHES, true, .family = true},                                      \
         {"valid.*", MR_FLOW_BATCHES, true, .family = true},                                      \
         {"valid.*", MR_FLOW_BATCHES, true, .family = true}},                                     \
  .out = {{"metrics", MR_FLOW_METRICS, true}, {"state", MR_FLOW_STATE, true}},                    \
  .opts = mr__train_stage_opts, .state_sz = sizeof(train_t), .chosen_by = "model",                \
  .plan = mr__train_stage_plan, .memory = mr__train_stage_memory,                                 \
  .forget = mr__train_stage_forget, .open = mr__train_stage_open, .close = mr__train_stage_close, \
  .role = MR_ROLE_STEP, .setting_hint = train_step_setting_words, .step = &train_step_run,        \
  .verdict = mr__train_verdict, .report = mr__train_stage_report

static const mr_hint_t train_step_words[] = {
    {"train trainer fit model vit visiontransformer", "train-step model=vit",
     "stage \"train-step\" trains a model"},
    {"mlp multilayerperceptron", "train-step model=mlp", "stage \"train-step\" trains a model"},
    {"adam fusedadam", "train-step optimizer=adam", "it is a setting of the stage that trains"},
    {"adamw fusedadamw", "train-step optimizer=adamw", "it is a setting of the stage that trains"},
    {"sgd", "train-step optimizer=sgd", "it is a setting of the stage that trains"},
    {"momentum", "train-step optimizer=momentum", "it is a setting of the stage that trains"},
    {"lion", "train-step optimizer=lion", "it is a setting of the stage that trains"},
    {"lamb fusedlamb", "train-step optimizer=lamb", "it is a setting of the stage that trains"},
    {"optimizer", "train-step optimizer=adamw", "it is a setting of the stage that trains"},
    {"crossentropyloss crossentropy", "train-step label-smoothing=0.1",
     "it is the loss of models of classes, with label-smoothing="},
    {"focalloss focal", "train-step loss=focal", "it is a setting of the stage that trains"},
    {"mseloss mse l2loss", "train-step loss=mse", "it is a setting of the stage that trains"},
    {0}};

static const mr_hint_t train_step_setting_words[] = {
    {"momentum", "optimizer=momentum b1=0.9", NULL},
    {"betas", "b1=0.9 b2=0.999", "b1=0.9 b2=0.999 are two settings"},
    {"gradaccum accumsteps accumulationsteps gradientaccumulationsteps accumulategradbatches "
     "gradaccumsteps",
     "accumulate=4",
     "accumulate= divides a batch into parts; where batches are added up, a batch here is as large "
     "as all of them"},
    {"fp16 usefp16", "dtype=f16", NULL},
    {"bf16 usebf16", "dtype=bf16", NULL},
    {"mlpratio", "mlp=1536", "mlp= is the number of features, the ratio times embed="},
    {"warmupratio warmuppercent", "warmup=1000", "warmup= counts steps, warmup-epochs= epochs"},
    {"gpu gpus gpuid accelerator cuda usecuda", "device=cuda", NULL},
    {"stepsperepoch", NULL, "an epoch is what the source holds; steps= ends the run"},
    {"evalstrategy evaluationstrategy", NULL,
     "the input \"valid\" is evaluated after each epoch of the input \"in\", with validate-every= "
     "more often"},
    {"clipvalue gradclipvalue", "clip-norm=1", "gradients are scaled by their global norm"},
    {0}};

const mr_stage_def_t mr_stage_train_step = {
    .name = "train-step",
    .hint = train_step_words,
    .help = "Trains a model, one step per batch, and evaluates it.",
    TRAIN_STEP,
    .choose = choose_any};

const mr_stage_def_t mr_stage_vit_step = {
    .name = "vit-step",
    .help = "Trains a Vision Transformer: train-step model=vit.",
    TRAIN_STEP,
    .choose = choose_vit};
