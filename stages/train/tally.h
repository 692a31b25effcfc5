/* Evaluates a stream and counts: what train-step and eval-step share. */
#ifndef MR_STAGES_TRAIN_TALLY_H
#define MR_STAGES_TRAIN_TALLY_H

#include "metrics/judged.h"
#include "model/train/train.h"
#include "pipeline/graph/stream_at.h"
#include "pipeline/stage.h"
#include "stages/train/align.h"

/* Counts of an evaluation. */
typedef struct mr_tally {
  const mr_loss_t *loss;                  /* the loss to evaluate */
  const mr_train_aligned_t *aligned;      /* how the port's labels are renumbered; NULL: not */
  bool stopped;                           /* by an orderly stop: the counts are incomplete */
  int64_t records;                        /* records that count */
  double losses, metric[MR_LOSS_METRICS]; /* sums over these */
  int64_t odd;                            /* of these, records whose loss is not finite */
  uint64_t first_odd;                     /* the id of the first */
  mr_stream_at_t at;                      /* after the last batch read, if it was right before */
  int64_t n_classes;                      /* 0: the loss predicts no class */
  mr_confused_t *confused; /* [room] heap: cells of the confusion matrix, found by hashing; free
                              ones count 0 */
  size_t n_confused, room;
  /* Called for every record of class truth with a wrong guess, after it is counted; NULL: not
     called. */
  void (*wrong)(mr_stage_t *s, const struct mr_tally *tally, int port, const mr_buf_t *b, int i,
                int32_t truth, int guess);
} mr_tally_t;

/* Reads port up to the end of an epoch, or of the stream, and counts; step takes the port's
   batches.  Blocks.  A notice tells of records whose loss is not finite.  tally: zero but for loss,
   aligned, at and wrong; the caller ends it with mr_tally_fini, also after a failure.  MR_OK.
   MR_END if the stream ended and no record counted, or if an orderly stop was requested meanwhile
   (tally->stopped).  Or a failure. */
mr_err_t mr_train_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                           mr_tally_t *tally);

/* Returns how many records of class truth were taken for guess. */
uint32_t mr_tally_confused(const mr_tally_t *tally, int32_t truth, int32_t guess);

/* Adds loss, metrics, records and the confusion matrix to r.  MR_OK; MR_ERR_NOMEM. */
mr_err_t mr_tally_report(const mr_tally_t *tally, mr_report_t *r);
/* Appends loss and metrics as those of an evaluation of this input (metrics/judged.h). */
void mr_tally_judged(const mr_tally_t *tally, const char *input, char text[MR_JUDGED_TEXT]);
void mr_tally_fini(mr_tally_t *tally); /* frees the matrix */

/* What the reports of a stage may hold (mr_report_spec): the loss, what the model is judged by,
   what the stage adds. */
typedef struct mr_train_metrics {
  mr_metric_list_t list;
  const mr_metric_def_t *def[MR_LOSS_METRICS + MR_METRICS_N];
} mr_train_metrics_t;

/* Fills m, which must not move: the loss and its metrics, then own[0,n) of millrace's. */
void mr_train_metrics_list(mr_train_metrics_t *m, const mr_loss_t *loss, const mr_metric_id_t *own,
                           size_t n);

#endif
