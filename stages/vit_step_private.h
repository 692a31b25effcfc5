/* The inside of vit-step: its state, and what its files give each other. */
#ifndef MR_STAGES_VIT_STEP_PRIVATE_H
#define MR_STAGES_VIT_STEP_PRIVATE_H

#include "model/optim/schedule.h"
#include "stages/vit_common.h"
#include "stages/vit_profile.h"
#include "stages/vit_state.h"
#include "stages/vit_watch.h"

enum { IN_TRAIN, IN_VALID, IN_TEST };
enum { OUT_METRICS, OUT_STATE };

typedef struct vit_step {
  mr_vit_settings_t model;
  double lr, b1, b2, eps, weight_decay, clip_norm, label_smoothing, ema, scale_start;
  int64_t warmup, steps, seed, checkpoint_every, watch_every, accumulate, scale_patience,
      max_skipped;
  int optimizer, schedule, device, leak_check, remat;
  bool nesterov;
  const char *resume, *fit, *loss_scale;

  double fixed_scale; /* of the loss; 0: a dynamic one */
  mr_vit_config_t config;
  mr_schedule_t rate;
  int64_t total; /* steps of the whole run, 0: unknown */
  int64_t epoch; /* of the newest step, from 1; 0 before the first.  at.epoch counts those done */
  mr_params_t params;
  mr_train_step_t *step;
  mr_eval_step_t *eval;
  mr_vit_progress_t at;
  int64_t eval_batch;
  int64_t saved_step; /* of the latest state given out or loaded, -1: none */
  int64_t marks;      /* states given out with a mark before them */
  double t0, step_t0;
  mr_vit_watch_t watch;
  mr_vit_profile_t profile;
} vit_step_t;

/* vit_plan.c: the settings, and what follows from them and the inputs. */
extern const mr_opt_t mr__vit_step_opts[];
extern const char *const mr__vit_optimizer_name[]; /* by the setting optimizer */
mr_err_t mr__vit_step_plan(mr_stage_t *s);

/* vit_open.c: compiles the step and fills its parameters, or gives both back. */
mr_err_t mr__vit_step_open(mr_stage_t *s);
void mr__vit_step_close(mr_stage_t *s);
/* How a step on batch records trains, as the settings say it. */
mr_train_config_t mr__vit_train_config(const vit_step_t *v, int64_t batch);

/* vit_tell.c: what the stage says of itself, all on OUT_METRICS and nothing where it is not linked.
   metrics_fresh: a buffer with what every record of it says; *out is NULL when nobody listens, and
   metrics_give takes NULL. */
mr_err_t mr__vit_metrics_fresh(mr_stage_t *s, mr_metrics_kind_t kind, mr_buf_t **out);
mr_err_t mr__vit_metrics_give(mr_stage_t *s, mr_buf_t *b);
mr_err_t mr__vit_tell_step(mr_stage_t *s, const mr_train_out_t *r, const mr_buf_t *batch,
                           double lr);
/* Whether histograms and samples follow the step that comes to stand at. */
bool mr__vit_watched(const mr_stage_t *s, int64_t step);
mr_err_t mr__vit_tell_watched(mr_stage_t *s, const mr_buf_t *batch);
/* A few pictures of each cell of the confusion matrix (mr_vit_tally_t.wrong). */
void mr__vit_tell_wrong(mr_stage_t *s, const mr_vit_tally_t *tally, int port, const mr_buf_t *batch,
                        int i, int guess);

#endif
