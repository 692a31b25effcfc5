/* The models there are: a constant each, in a file of its own, with a line in list.def.

   A model is a table of functions and settings.  Its settings are those of the stage that trains it
   (train-step model=mlp hidden=512), which brings the batches, asks the functions in this order,
   and owns all the rest: parameters, optimizer, evaluation, checkpoints, what is told. plan from
   the fields of a batch: what is taken, classes, names of metrics; loss     traces parameters and
   fields into the graph; metrics  traces what is told of each record. */
#ifndef MR_MODEL_ZOO_ZOO_H
#define MR_MODEL_ZOO_ZOO_H

#include "base/decls.h"
#include "base/opt.h"
#include "model/nn/loss.h"

MR_BEGIN_DECLS

typedef struct mr_model_plan {
  int n_fields;
  const mr_model_field_t *field; /* [n_fields] what batches bring */
  mr_loss_t loss; /* what plan makes: fields (mr_model_take), masked, classes, metrics */
} mr_model_plan_t;

typedef struct mr_model_def {
  const char *name;     /* "mlp": train-step model=mlp */
  const char *help;     /* one sentence, ends with a period */
  const mr_opt_t *opts; /* settings, by offset in the state; end at {0}; NULL: none */
  size_t state_sz;      /* bytes, zeroed, then filled with the settings before plan */
  const char *shapes;   /* the settings that shape parameters, "hidden layers": a checkpoint holds
                           them, and fits a model that has the same */
  bool remat;           /* its parts are traced by mr_nn_remat under s->remat */

  /* Takes fields and says what comes out: p->loss but of, trace and metrics, which are set from the
     model's.  May keep what it finds in the state.  Fails with MR_ERR_SHAPE or MR_ERR_CONFIG and a
     sentence that says what is wanted. */
  mr_err_t (*plan)(void *state, mr_model_plan_t *p, mr_diag_t *diag);
  /* As mr_loss_t's: of is the state. */
  mr_err_t (*loss)(const void *state, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
  mr_err_t (*metrics)(const void *state, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                      mr_loss_told_t *told);
  /* The model as a checkpoint names it, into text[0,n): after plan.  NULL: name, taken fields,
     classes and the settings of shapes, "mlp image=f32[32,32,3] classes=10 hidden=512". */
  void (*text)(const void *state, const mr_model_plan_t *p, char *text, size_t n);
} mr_model_def_t;

/* ---- for plan ---- */
/* The field of this name, which loss then gets as its next one; NULL: batches bring none, and diag
   lists those they bring. */
const mr_model_field_t *mr_model_take(mr_model_plan_t *p, const char *name, mr_diag_t *diag);
/* The same, or NULL without a word. */
const mr_model_field_t *mr_model_may_take(mr_model_plan_t *p, const char *name);
/* Appends a metric's name, [a-z][a-z0-9_]* of at most MR_LOSS_METRIC_NAME characters (mr_model_plan
   refuses others), which lives as long as the program; beyond MR_LOSS_METRICS asserted. */
void mr_model_tells(mr_model_plan_t *p, const char *metric);

/* ---- the table ---- */
enum { MR_MODELS_ADDED_MAX = 64 };

/* Whether every model of a NULL-ended table from outside (plugins/plugin.h) can be added: its
   functions are there, its settings lie in its state, its name is free and there is room.
   MR_ERR_CONFIG names the model, what is wrong with it, and where the one that has its name comes
   from.  origin: "plug-in mixer (/lib/mixer.so)". */
mr_err_t mr_models_check(const mr_model_def_t *const *table, const char *origin, mr_diag_t *diag);
/* Adds a table that mr_models_check has passed, behind list.def's.  The models and origin are not
   copied and stay for as long as the process runs.  For the thread that builds graphs. */
void mr_models_add(const mr_model_def_t *const *table, const char *origin);
const mr_model_def_t *mr_model_at(int i);              /* NULL behind the last one */
const mr_model_def_t *mr_model_find(const char *name); /* NULL: there is none */

/* ---- a model whose settings are filled in ---- */
typedef struct mr_model {
  const mr_model_def_t *def;
  void *state;
  mr_model_plan_t plan; /* its loss can be traced, as long as def and state stand */
} mr_model_t;

enum { MR_MODEL_TEXT = 1024 };

/* Plans: field[n] are copied.  state: filled, the caller's.  Fails as plan; MR_ERR_CONFIG where the
   def's plan has left out what a loss must have, or a metric's name cannot be told. */
mr_err_t mr_model_plan(mr_model_t *m, const mr_model_def_t *def, void *state, int n,
                       const mr_model_field_t *field, mr_diag_t *diag);
/* What a checkpoint says it is of; two fit if theirs are equal.  text: [MR_MODEL_TEXT]. */
void mr_model_text(const mr_model_t *m, char *text);

MR_END_DECLS

#endif
