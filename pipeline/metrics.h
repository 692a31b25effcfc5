/* One record of the metrics stream: what a step, an evaluation or the run's end says. */
#ifndef MR_PIPELINE_METRICS_H
#define MR_PIPELINE_METRICS_H

#include <stdint.h>

#include "pipeline/spec.h"

enum { MR_METRICS_MAX = 40, MR_METRICS_CLASSES = 16, MR_METRICS_STAGES = 24 };

typedef enum mr_metrics_kind {
  MR_METRICS_STEP,  /* one training step */
  MR_METRICS_VALID, /* after an epoch, on the held-back records */
  MR_METRICS_TEST,  /* at the end */
  MR_METRICS_FINAL, /* the run is over: last record of the stream */
} mr_metrics_kind_t;

typedef struct mr_metric {
  char name[24]; /* "loss", "accuracy", "lr", "grad_norm", "step_s", "images_per_s" ... */
  double value;
} mr_metric_t;

/* What a stage with threads of its own did since the last record that says so. */
typedef struct mr_metrics_stage {
  const char *name;              /* owned by the graph */
  double busy, starved, blocked; /* shares of the time, add up to 1 */
  double queue;                  /* buffers found waiting at its inputs, mean over the run */
  int64_t items;                 /* buffers it has given, or taken, in the whole run */
} mr_metrics_stage_t;

typedef struct mr_metrics {
  mr_metrics_kind_t kind;
  int64_t step, total_steps; /* step counts from 1; total 0: unknown */
  int64_t epoch;             /* from 1 */
  int64_t images;            /* training images seen so far */
  double elapsed_s;          /* of this run */
  uint64_t ledger;
  int n;
  mr_metric_t m[MR_METRICS_MAX];
  const mr_dataset_t *dataset;
  int n_stages; /* > 0 in the records that telemetry has measured at */
  mr_metrics_stage_t stage[MR_METRICS_STAGES];
  int n_classes; /* > 0: confusion holds [truth*n_classes + guess] */
  uint32_t confusion[MR_METRICS_CLASSES * MR_METRICS_CLASSES];
  char note[256]; /* why the run ended, or "" */
} mr_metrics_t;

/* "step", "valid", "test", "final". */
const char *mr_metrics_kind_text(mr_metrics_kind_t kind);

void mr_metrics_add(mr_metrics_t *r, const char *name, double value); /* dropped when full */
double mr_metrics_get(const mr_metrics_t *r, const char *name, double otherwise);

#endif
