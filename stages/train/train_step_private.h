/* The inside of train-step: its state, and what its files give each other. */
#ifndef MR_STAGES_TRAIN_STEP_PRIVATE_H
#define MR_STAGES_TRAIN_STEP_PRIVATE_H

#include "model/optim/schedule.h"
#include "stages/train/fields.h"
#include "stages/train/state.h"
#include "stages/train/tally.h"
#include "stages/train/team.h"
#include "stages/train/train_stage.h"
#include "stages/train/watch.h"

enum { IN_TRAIN, IN_VALID, IN_TEST };
enum { OUT_METRICS, OUT_STATE };

/* A run that is not read yet. */
typedef struct mr__train_flight {
  mr_buf_t *batch;
  mr_train_batch_t fields;
  float lr;
  bool watch;
} mr__train_flight_t;

void mr__train_flight_fini(mr__train_flight_t *f); /* lets go of its batch */

/* The settings of the model follow (mr__train_model_state). */
typedef struct train {
  const char *model_name; /* as given: mr__train_def_t says which model it is */
  mr_train_team_t team;
  int dtype, precision;
  double lr, b1, b2, eps, weight_decay, clip_norm, ema, scale_start;
  int64_t warmup, steps, seed, checkpoint_every, watch_every, accumulate, scale_patience,
      max_skipped;
  int optimizer, schedule, device, leak_check, remat;
  bool nesterov;
  const char *resume, *fit, *loss_scale;

  double fixed_scale; /* of the loss; 0: a dynamic one */
  mr_model_t model;
  mr_schedule_t rate;
  int64_t total; /* steps of the whole run, 0: unknown */
  int64_t epoch; /* of the newest step, from 1; 0 before the first.  at.epoch counts those done */
  mr_params_t params;
  mr_train_step_t *step;
  mr__train_flight_t flight[MR_TRAIN_RING];
  int64_t begun, read; /* runs; between them those in flight */
  mr_eval_step_t *eval;
  mr_train_progress_t at;
  int64_t eval_batch;
  int64_t saved_step; /* of the latest state given out or loaded, -1: none */
  int64_t marks;      /* states given out with a mark before them */
  double t0, step_t0;
  mr_train_watch_t watch;
  mr_train_profile_t profile;
} train_t;

extern const mr_stage_def_t mr_stage_train_step, mr_stage_vit_step;

/* train_step.c */
mr_err_t mr__train_stage_step(mr_stage_t *s);
void mr__train_stage_report(mr_stage_t *s, char *text, size_t n);

/* plan.c: the settings, and what follows from them and the inputs. */
extern const mr_opt_t mr__train_stage_opts[];        /* without the model's */
extern const char *const mr__train_optimizer_name[]; /* by the setting optimizer */
mr_err_t mr__train_stage_plan(mr_stage_t *s);

/* def.c: the model of a stage, and where its settings and what it plans lie in the stage's state.
 */
const mr_model_def_t *mr__train_model_of(const mr_stage_t *s);
void *mr__train_model_state(const mr_stage_t *s);

/* open.c: compiles the step and fills its parameters, or gives both back. */
mr_err_t mr__train_stage_open(mr_stage_t *s);
void mr__train_stage_close(mr_stage_t *s);
/* How a step on batch records trains, as the settings say it. */
mr_train_config_t mr__train_config(const train_t *v, int64_t batch);

/* tell.c: what the stage says of itself, all on OUT_METRICS and nothing where it is not linked.
   metrics_fresh: a buffer with what every record of it says; *out is NULL when nobody listens, and
   metrics_give takes NULL. */
mr_err_t mr__train_metrics_fresh(mr_stage_t *s, mr_metrics_kind_t kind, mr_buf_t **out);
mr_err_t mr__train_metrics_give(mr_stage_t *s, mr_buf_t *b);
mr_err_t mr__train_tell_step(mr_stage_t *s, const mr_train_out_t *r, const mr_buf_t *batch,
                             double lr);
/* Whether histograms and samples follow the step that comes to stand at. */
bool mr__train_watched(const mr_stage_t *s, int64_t step);
mr_err_t mr__train_tell_watched(mr_stage_t *s, const mr_buf_t *batch);
/* A few pictures of each cell of the confusion matrix (mr_tally_t.wrong). */
void mr__train_tell_wrong(mr_stage_t *s, const mr_tally_t *tally, int port, const mr_buf_t *batch,
                          int i, int guess);

#endif
