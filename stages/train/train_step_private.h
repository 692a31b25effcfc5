/* The inside of train-step: its state, and what its files share. */
#ifndef MR_STAGES_TRAIN_STEP_PRIVATE_H
#define MR_STAGES_TRAIN_STEP_PRIVATE_H

#include "model/mesh/mesh.h"
#include "model/mesh/placement.h"
#include "model/optim/schedule.h"
#include "model/train/pipeline_plan.h"
#include "stages/train/agree.h"
#include "stages/train/amp.h"
#include "stages/train/fields.h"
#include "stages/train/inputs.h"
#include "stages/train/state.h"
#include "stages/train/tally.h"
#include "stages/train/team.h"
#include "stages/train/train_stage.h"
#include "stages/train/watch.h"

enum { IN_TRAIN, IN_VALID, IN_TEST, IN_MORE_VALID /* and the inputs after it */ };
enum { OUT_METRICS, OUT_STATE };

enum { MR__ORDERED_OF_RANKS = 8 }; /* parts that ranks share unless ordered= says otherwise */

/* A step in flight, whose results have not been read. */
typedef struct mr__train_flight {
  mr_buf_t *batch;
  mr_train_batch_t fields;
  float lr;
  bool watch;
} mr__train_flight_t;

void mr__train_flight_fini(mr__train_flight_t *f); /* releases its batch */

/* The state of train-step; the model's settings follow it (mr__train_model_state). */
typedef struct train {
  const char *model_name; /* as given; the definition says which model it is */
  mr_train_team_t team;
  mr_train_amp_t amp;
  int precision;
  double lr, b1, b2, eps, weight_decay, clip_norm, ema, scale_start;
  int64_t warmup, steps, seed, checkpoint_every, watch_every, accumulate, ordered, zero, pipeline,
      microbatches, scale_patience, max_skipped, redo_on_nan, validate_every, stop_after;
  double validate_minutes, checkpoint_minutes, warmup_epochs, stop_delta;
  const char *stop_by;
  int optimizer, schedule, leak_check, remat, on_nan, pipeline_schedule, checkpoint_files;
  mr_train_rules_t rules;
  const char *init;
  const char *class_weights, *from;
  float *class_weight; /* heap, from plan to forget; NULL: none */
  bool nesterov;
  const char *resume, *fit, *loss_scale, *replay_dir, *device, *stages, *partition, *checkpoint_dir;

  const mr_device_t *on;  /* that device, from open to close */
  bool there;             /* the training batches lie there (to-device) */
  int ranks;              /* that share each batch (shard-to-device); 0: the step has none */
  int as_one;             /* ranks of one process that its device computes as one; 0: none */
  mr_pipeline_plan_t cut; /* of a pipeline, whose stages the ranks are; 0 stages: no pipeline */
  mr_mesh_t mesh;         /* of shard-to-device's ranks, if it has declared them */
  char *lies;             /* how these lie, for the page (lies.c); heap, NULL: not in parts */
  bool in_parts;          /* these have parts of parameters: partition, or the model's table */
  mr__agree_t *agree;     /* from open to close, where they are processes; NULL: they are not */
  bool agreed_stop;       /* they have agreed to stop */
  uint32_t wants;         /* what they have agreed to do after the step that begins */
  mr_train_out_t said;    /* what the newest step that was read has reported */
  double fixed_scale;     /* of the loss; 0: a dynamic one */
  mr_model_t model;
  mr_train_metrics_t metrics; /* of the reports */
  mr_train_config_t used;     /* of the compiled step: the settings, and what fit= has chosen */
  mr_schedule_t rate;
  int64_t ema_after; /* applied steps before the average began */
  int64_t total;     /* steps of the whole run, 0: unknown */
  int64_t epoch;     /* of the newest step, from 1; 0 before the first.  at.epoch counts finished
                        epochs */
  mr_params_t params;
  mr_train_step_t *step;
  mr__train_flight_t flight[MR_TRAIN_RING];
  int64_t begun, read; /* steps begun and read; the others are in flight */
  mr_eval_step_t *eval;
  mr_train_aligned_t aligned[MR_MAX_PORTS]; /* evaluation inputs, from plan to forget */
  mr_dataset_t dataset; /* of input in, with the names of the classes that the model predicts */
  mr_loss_t eval_loss;  /* the model's, of fields as valid and test hold them; if eval_batch */
  mr_train_progress_t at;
  char *inputs;        /* heap, from open to close: what checkpoints say of the input in */
  int64_t eval_batch;  /* 0: neither is linked */
  mr_buf_t *saving;    /* a state whose parameters are being copied from the device; NULL: none */
  mr_judged_t stop_on; /* stop-by */
  char judged[MR_JUDGED_TEXT]; /* numbers of the newest validation */
  int64_t judged_step;         /* its step; -1: none */
  double valid_t0, saved_t0;   /* of the newest validation and state, or of the start */
  char *slices;                /* heap; names of the slices of other ranks, of this step; NULL */
  bool fetching;               /* the step gives the stage its parameters */
  int64_t slices_step;         /* the step whose slices have been written; -1: none */
  int64_t saved_step;          /* step of the latest state given or loaded, -1: none */
  int64_t marks;               /* states given with a mark before them */
  double t0, step_t0;
  mr_train_watch_t watch;
  mr_train_profile_t profile;
  mr_diag_t bad;      /* why a step that was not finite has ended the run */
  char bad_note[128]; /* the same for the final record: "step 5: the loss is nan" */
  int64_t bad_step;   /* its number */
  bool bad_said;      /* a step was skipped, and a notice has said so */
  int answered;       /* states asked for (mr__train_asked) when it emitted one, or began */
} train_t;

extern const mr_stage_def_t mr_stage_train_step, mr_stage_vit_step;

/* train_step.c */
mr_err_t mr__train_stage_step(mr_stage_t *s);
void mr__train_stage_report(mr_stage_t *s, char *text, size_t n);

/* settings.c, plan.c: the settings, and what follows from them and the inputs. */
extern const mr_opt_t mr__train_stage_opts[];        /* without the model's settings */
extern const char *const mr__train_optimizer_name[]; /* index: setting optimizer */
mr_err_t mr__train_stage_plan(mr_stage_t *s);
mr_err_t mr__train_plan_scale(mr_stage_t *s); /* reads setting loss-scale; MR_ERR_CONFIG */
/* pipeline.c: cuts the model into the stages of a pipeline, if one is set, and sets ordered to its
   microbatches.  MR_ERR_CONFIG for what does not go with it, and as mr_pipeline_plan. */
mr_err_t mr__train_plan_pipeline(mr_stage_t *s);
int64_t mr__train_stages_in(const char *text); /* stages that the text of setting stages has */

/* parts.c: settles v->mesh and v->in_parts; and then what does not go with parameters in parts. */
mr_err_t mr__train_read_mesh(mr_stage_t *s);
mr_err_t mr__train_plan_mesh(mr_stage_t *s);
void mr__train_set_mesh(const train_t *v, mr_train_config_t *t); /* of a step of these ranks */

/* lies.c: sets v->lies to how the parameters of list lie, part[list->n] and at[list->n].  MR_OK or
   MR_ERR_NOMEM. */
mr_err_t mr__train_write_lies(train_t *v, const mr_params_t *list, const mr_aval_t *part,
                              const mr_placement_t *at, mr_diag_t *diag);

/* def.c: the model of a stage, and the model's settings in the stage's state, behind train_t. */
const mr_model_def_t *mr__train_model_of(const mr_stage_t *s);
void *mr__train_model_state(const mr_stage_t *s);

void mr__train_stage_forget(mr_stage_t *s);

/* train_step.c: says that this rank gives its parts of parameters, or receives those of others. */
void mr__train_says_fetching(const train_t *v);

/* share_files.c: whether ranks have shares of slots and average, by zero= or as stages; and whether
   each process of a job writes a slice of each checkpoint. */
bool mr__train_has_shares(const train_t *v);
bool mr__train_has_value_shares(const train_t *v); /* of the values too: zero=3 */
bool mr__train_has_slices(const train_t *v);
/* Writes this rank's, for the step that was counted last, and learns the names of the others'; on
   all ranks at once.  MR_OK; or the failure of any rank, on all. */
mr_err_t mr__train_write_slices(mr_stage_t *s);

/* open.c: compiles the step and fills its parameters, or frees both. */
mr_err_t mr__train_stage_open(mr_stage_t *s);
void mr__train_stage_close(mr_stage_t *s);
/* What the compiled step and its parameters take, of one rank on the CPU. */
mr_err_t mr__train_stage_memory(mr_stage_t *s, bool models, mr_takes_t *out);
/* The training configuration that the settings describe, for batches of that many records. */
mr_train_config_t mr__train_config(const train_t *v, int64_t batch);

/* judge.c: validations: when they are due, and what they decide. */
mr_err_t mr__train_judge_plan(mr_stage_t *s);  /* MR_OK, or MR_ERR_CONFIG */
mr_err_t mr__train_judge_open(mr_stage_t *s);  /* as mr_safetensors_open, of the checkpoint */
bool mr__train_validates(const mr_stage_t *s); /* there are held-back records, of any name */
bool mr__train_valid_due(const mr_stage_t *s, int64_t step); /* after this step, by its number */
bool mr__train_valid_late(const mr_stage_t *s);              /* by the clock */
bool mr__train_state_late(const mr_stage_t *s);
/* Has the newest validation, whose numbers are in judged, decide. */
void mr__train_judge(mr_stage_t *s);
/* True if training ends because its validations have stopped improving; why may be NULL. */
bool mr__train_has_settled(const mr_stage_t *s, char *why, size_t n);

/* bad_step.c: steps whose loss or gradients are not finite (setting on-nan). */
enum { MR__ON_NAN_STOP, MR__ON_NAN_SKIP, MR__ON_NAN_TRACE };
/* What becomes of the step of f, which is read: MR_OK: it counts; MR_END: it ends the run, has been
   taken back and leaves its sentence in bad; or a failure. */
mr_err_t mr__train_look_at(mr_stage_t *s, const mr__train_flight_t *f, const mr_train_out_t *r);
/* Runs the step of f, which is read and was skipped because its gradients overflowed the loss
   scale, again with the next scale, up to redo-on-nan times, until they do not; *r becomes what
   came last. MR_OK, or mr_train_step_run's failure. */
mr_err_t mr__train_redo(mr_stage_t *s, const mr__train_flight_t *f, mr_train_out_t *r);
mr_err_t mr__train_verdict(mr_stage_t *s); /* that sentence as a failure of the run */

/* report.c: what the stage reports, on OUT_METRICS, nothing if that is not linked.  report_fresh:
   a buffer with the members that every report has; *out is NULL without a consumer, and report_give
   takes NULL; it adds what the graph's stages report, and MR_ERR_NOMEM is that of a part. */
mr_err_t mr__train_report_fresh(mr_stage_t *s, mr_report_kind_t kind, mr_buf_t **out);
mr_err_t mr__train_report_give(mr_stage_t *s, mr_buf_t *b);
/* plan.c: true if a step whose loss or gradients are not finite may be skipped. */
bool mr__train_may_skip(const train_t *v);
mr_err_t mr__train_report_step(mr_stage_t *s, const mr_train_out_t *r, const mr_buf_t *batch,
                               double lr);
/* True if histograms and samples follow the step of this number. */
bool mr__train_watched(const mr_stage_t *s, int64_t step);
mr_err_t mr__train_report_watched(mr_stage_t *s, const mr_buf_t *batch);
/* Reports a few pictures of each cell of the confusion matrix (mr_tally_t.wrong). */
void mr__train_report_wrong(mr_stage_t *s, const mr_tally_t *tally, int port, const mr_buf_t *batch,
                            int i, int32_t truth, int guess);

int mr__train_asked(void); /* how many states have been asked for in this process */

#endif
