/* Counting over an evaluation stream: what train-step and eval-step share. */
#ifndef MR_STAGES_TRAIN_TALLY_H
#define MR_STAGES_TRAIN_TALLY_H

#include "metrics/metrics.h"
#include "model/train.h"
#include "pipeline/stage.h"
#include "pipeline/stream_at.h"

/* Counts of an evaluation. */
typedef struct mr_tally {
  const mr_loss_t *loss;                  /* what is evaluated */
  int64_t records;                        /* that count */
  double losses, metric[MR_LOSS_METRICS]; /* sums over them */
  mr_stream_at_t at; /* behind the last batch that was read, if it was right before */
  int n_classes;     /* 0: no confusion is counted */
  uint32_t confusion[MR_METRICS_CLASSES * MR_METRICS_CLASSES]; /* zeros if there are more classes */
  /* Told of every record with a wrong guess, after it is counted; NULL: of none. */
  void (*wrong)(mr_stage_t *s, const struct mr_tally *tally, int port, const mr_buf_t *b, int i,
                int guess);
} mr_tally_t;

/* Reads port up to the end of an epoch, or of the stream, and counts; step takes the port's
   batches. MR_END if the stream had ended before; MR_AGAIN if an orderly stop was asked for
   meanwhile.  tally: zero but for loss, at and wrong. */
mr_err_t mr_train_evaluate(mr_stage_t *s, int port, mr_eval_step_t *step, const mr_params_t *params,
                           mr_tally_t *tally);

/* Writes loss, metrics, records and the confusion matrix. */
void mr_tally_metrics(const mr_tally_t *tally, mr_metrics_t *r);

#endif
