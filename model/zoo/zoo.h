/* The table of models.  A model is one constant in a file of its own, with a line in list.def;
   plug-ins add further ones.

   A model is a table of functions and settings.  The stage that trains it (train-step model=mlp
   hidden=512) takes its settings, brings the batches, and owns the rest: parameters, optimizer,
   evaluation, checkpoints, metrics.  It calls the functions in this order: plan chooses fields of
   the batch, classes and names of metrics; loss traces parameters and fields into the graph;
   metrics traces the numbers that are reported of each record.

   All functions here are for the thread that builds graphs.  Implemented in zoo.c. */
#ifndef MR_MODEL_ZOO_ZOO_H
#define MR_MODEL_ZOO_ZOO_H

#include "base/decls.h"
#include "base/opt.h"
#include "model/nn/loss.h"

MR_BEGIN_DECLS

typedef struct mr_model_plan {
  int n_fields;
  const mr_model_field_t
      *field;      /* [n_fields] the fields of a batch; belong to the caller of plan */
  mr_loss_t loss;  /* filled by plan: fields (mr_model_take), masked, classes, metrics */
  mr_diag_t wrong; /* the first fault of the metrics declared, for mr_model_plan */
} mr_model_plan_t;

typedef struct mr_model_def {
  const char *name;     /* "mlp": train-step model=mlp */
  const char *help;     /* one sentence, ends with a period */
  const mr_opt_t *opts; /* settings, by offset in the state; end at {0}; NULL: none */
  size_t state_sz;      /* bytes; zeroed, then filled with the settings, before plan */
  const char *shapes;   /* settings that shape parameters, "hidden layers": a checkpoint holds them,
                           and fits models with equal ones; one with a "?" behind it is said only
                           where it is not the default; NULL: none */
  bool remat;           /* it traces its blocks with mr_nn_remat and s->remat */

  /* Takes fields and fills p->loss, except for of, trace and metrics, which come from this table.
     It may store values in the state.  MR_OK, or MR_ERR_SHAPE or MR_ERR_CONFIG with a sentence
     that says what is expected. */
  mr_err_t (*plan)(void *state, mr_model_plan_t *p, mr_diag_t *diag);
  /* The functions of mr_loss_t; `of` is the state.  Each returns MR_OK or the failure in the
     graph's diag. */
  mr_err_t (*loss)(const void *state, mr_nn_t *s, mr_var_t *const *field, mr_loss_out_t *out);
  mr_err_t (*metrics)(const void *state, mr_fn_t *f, mr_var_t *const *field, mr_var_t *const *out,
                      mr_loss_report_t *reported);
  /* Writes the text by which a checkpoint identifies the model to text[0,n); called after plan.
     NULL: name, taken fields, classes and the settings of shapes, "mlp image=f32[32,32,3]
     classes=10 hidden=512". */
  void (*text)(const void *state, const mr_model_plan_t *p, char *text, size_t n);
  /* How parameters lie on a mesh with an axis "model", as rules by name (mesh/placement_rules.h);
     those of no parameter are skipped.  NULL: the model brings none. */
  const char *partition;
} mr_model_def_t;

/* ---- for plan ---- */
/* Takes the field of this name: loss then receives it as its next one.  Returns the field, which
   belongs to the caller of plan and lives until plan returns; NULL if the batches do not have it,
   with MR_ERR_SHAPE in diag and a list of the fields they have.  Asserts that at most
   MR_LOSS_FIELDS are taken. */
const mr_model_field_t *mr_model_take(mr_model_plan_t *p, const char *name, mr_diag_t *diag);
/* The same for an optional field: NULL without an error if the batches do not have it.  The
   caller of plan owns the field. */
const mr_model_field_t *mr_model_may_take(mr_model_plan_t *p, const char *name);
/* Appends a metric that the model is judged by, beside its loss.  It is not copied and must live as
   long as the program; its role is MR_METRIC_JUDGED.  mr_model_plan then refuses another role, a
   name that is reserved, has another form or occurs twice, and more than MR_LOSS_METRICS of them.
 */
void mr_model_judged_by(mr_model_plan_t *p, const mr_metric_def_t *metric);
/* The same by its name alone, which is copied: "accuracy", of which more is better; of any other
   less is. */
void mr_model_reports(mr_model_plan_t *p, const char *metric);

/* ---- the table ---- */
enum { MR_MODELS_ADDED_MAX = 64 };

/* Checks whether every model of a NULL-ended table of a plug-in (plugins/plugin.h) can be added:
   its functions are set, its settings lie in its state, its name is free, and there is room.
   MR_OK, or MR_ERR_CONFIG, which names the model, its fault, and the origin of a model that has
   its name already.  origin: "plug-in mixer (/lib/mixer.so)". */
mr_err_t mr_models_check(const mr_model_def_t *const *table, const char *origin, mr_diag_t *diag);
/* Adds a table that has passed mr_models_check, behind the models of list.def.  Models and origin
   are not copied and must live as long as the process. */
void mr_models_add(const mr_model_def_t *const *table, const char *origin);
/* The model with index i or of that name; it lives as long as the process.  NULL: there is no
   such model. */
const mr_model_def_t *mr_model_at(int i);
const mr_model_def_t *mr_model_find(const char *name);

/* ---- a model whose settings are filled in ---- */
typedef struct mr_model {
  const mr_model_def_t *def;
  void *state;
  mr_model_plan_t plan; /* its loss can be traced as long as def and state are valid */
} mr_model_t;

enum { MR_MODEL_TEXT = 1024 };

/* Calls def->plan and fills *m.  The fields that it takes are copied from field[n]; state, filled
   with the settings, stays the caller's.  MR_OK; the failure of plan; or MR_ERR_CONFIG if plan
   takes no field or a metric has a wrong name.  There is nothing to free. */
mr_err_t mr_model_plan(mr_model_t *m, const mr_model_def_t *def, void *state, int n,
                       const mr_model_field_t *field, mr_diag_t *diag);
/* Writes the text by which a checkpoint identifies the model to text[MR_MODEL_TEXT].  A
   checkpoint fits a model if their texts are equal. */
void mr_model_text(const mr_model_t *m, char *text);

MR_END_DECLS

#endif
