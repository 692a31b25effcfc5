/* What the compiled steps of training and evaluation have in common.  Implemented in step.c, but
   for what a comment says. */
#ifndef MR_MODEL_TRAIN_STEP_H
#define MR_MODEL_TRAIN_STEP_H

#include "model/train/placed.h"
#include "model/train/train.h"
#include "model/train/train_runs.h"

typedef struct mr__step {
  mr_exec_t *exec;
  mr_loss_t loss;
  mr_params_t list; /* names and places only: no arenas */
  int64_t batch;
  mr__runs_t runs;
  mr__placed_t placed; /* the parameters on a device */
} mr__step_t;

/* Returns the part of a training step; it lives as long as t.  Implemented in train.c. */
mr__step_t *mr__train_step_of(mr_train_step_t *t);

/* Returns the dtype that set k of a step (values, slots..., average) is kept in. */
mr_dtype_t mr__step_kept_in(const mr_compute_t *c, int k, int n_slots);

/* The ranks that share parts of a batch or have stages of pipelines, and t->rank among them: all,
   or those along the axis of the batch where the other axes of t->mesh cut arrays. */
typedef struct mr__step_ranks {
  int rank, size;
} mr__step_ranks_t;
mr__step_ranks_t mr__step_ranks(const mr_train_config_t *t);

/* The tensors [from,to) of a list of parameters whose slots and average a step of t->rank has. */
typedef struct mr__share {
  int from, to;
} mr__share_t;
mr__share_t mr__step_share(const mr_train_config_t *t, const mr_params_t *list);
/* Returns the first of them for one of the ranks of mr__step_ranks; that of their number is
   list->n. */
int mr__step_first(const mr_train_config_t *t, const mr_params_t *list, int rank);
/* Those whose values are inputs of its graph, and results: all, or with zero=3 the same where ranks
   have shares or stages, and whether that is so. */
mr__share_t mr__step_values(const mr_train_config_t *t, const mr_params_t *list);
bool mr__step_has_value_shares(const mr_train_config_t *t);
/* What ranks of a step have a share of in the caller's params, as mr_optim_ranks_t.zero. */
int mr__step_shares(const mr_train_config_t *t);

/* Whether a pattern is the form of the parameter's name, or of its beginning up to a dot. */
bool mr__train_means(const char *pattern, const mr_param_t *p);
/* Fails, MR_ERR_CONFIG, with the beginnings of names that are nearest to a pattern of a setting
   that means none. */
mr_err_t mr__train_refuse_pattern(const mr_params_t *list, const char *setting, const char *pattern,
                                  mr_diag_t *diag);

/* The device that a step computes on, which belongs to who opened it, or NULL if it computes in the
   host's memory. */
const mr_device_t *mr__step_device(const mr_compute_t *c);

/* Traces the metrics of a batch of `batch` records into f, from the fields in[] and the loss's
   outputs out[].  MR_OK: *reported has `counts` and every metric of l.  Else f->diag says why:
   MR_ERR_CONFIG if the loss has not traced a metric that it names, or as l->metrics fails. */
mr_err_t mr__step_metrics(mr_fn_t *f, const mr_loss_t *l, int64_t batch, mr_var_t *const *in,
                          mr_var_t *const *out, mr_loss_report_t *reported);

/* Sets up the runs of s, whose graph is compiled.  there: the fields lie on the device before a
   run. n_reported: numbers that a run reports.  Fails as mr__runs_init. */
mr_err_t mr__step_runs(mr__step_t *s, bool there, int n_reported, mr_diag_t *diag);
void mr__step_fini(mr__step_t *s); /* of a step that may be incomplete */

/* A checkpoint or the caller may pass the parameters of another model: MR_ERR_SHAPE then. */
mr_err_t mr__step_same_params(const mr__step_t *s, const mr_params_t *p, mr_diag_t *diag);

/* Begins a run: checks the parameters and the classes of the batch, and puts its fields among the
   inputs.  MR_ERR_SHAPE, MR_ERR_DATA, or as mr__runs_begin fails; nothing runs then. */
mr_err_t mr__step_begin(mr__step_t *s, const mr_params_t *params, const void *const *field,
                        const mr__scalars_t *scalars, mr_diag_t *diag);
void mr__step_start(mr__step_t *s); /* all inputs and outputs are set */

#endif
