/* Evaluates a stream and counts: what train-step and eval-step share. */
#ifndef MR_STAGES_TRAIN_TALLY_H
#define MR_STAGES_TRAIN_TALLY_H

#include "metrics/metrics.h"
#include "model/train/train.h"
#include "pipeline/graph/stream_at.h"
#include "pipeline/stage.h"

/* Counts of an evaluation. */
typedef struct mr_tally {
  const mr_loss_t *loss;                  /* the loss to evaluate */
  bool stopped;                           /* by an orderly stop: the counts are incomplete */
  int64_t records;                        /* records that count */
  double losses, metric[MR_LOSS_METRICS]; /* sums over these */
  mr_stream_at_t at;                      /* after the last batch read, if it was right before */
  int n_classes;                          /* 0: confusion is not counted */
  uint32_t confusion[MR_METRICS_CLASSES * MR_METRICS_CLASSES]; /* zeros if there are more classes */
  /* Called for every record with a wrong guess, after it is counted; NULL: not called. */
  void (*wrong)(mr_stage_t *s, const struct mr_tally *tally, int port, const mr_buf_t *b, int i,
                int guess);
} mr_tally_t;

/* Reads port up to the end of an epoch, or of the stream, and counts; step takes the port's
   batches.  Blocks.  tally: zero but for loss, at and wrong.  MR_OK.  MR_END if the stream ended
   and no record counted, or if an orderly stop was requested meanwhile (tally->stopped).  Or a
   failure. */
mr_err_t mr_train_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                           mr_tally_t *tally);

/* Adds loss, metrics, records and the confusion matrix to r. */
void mr_tally_metrics(const mr_tally_t *tally, mr_metrics_t *r);

#endif
