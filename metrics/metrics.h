/* One record of the metrics stream: what a step, an evaluation or the run's end says. */
#ifndef MR_METRICS_METRICS_H
#define MR_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "pipeline/spec.h"

MR_BEGIN_DECLS

enum { MR_METRICS_MAX = 40, MR_METRICS_CLASSES = 16, MR_METRICS_STAGES = 24 };
enum { MR_HISTOGRAM_BINS = 32, MR_METRICS_HISTOGRAMS_MAX = 8, MR_PICTURE_SIDE = 32 };

typedef enum mr_metrics_kind {
  MR_METRICS_STEP,       /* one training step */
  MR_METRICS_VALID,      /* after an epoch, on the held-back records */
  MR_METRICS_TEST,       /* at the end */
  MR_METRICS_FINAL,      /* the run is over: last record of numbers */
  MR_METRICS_HISTOGRAMS, /* the kinds from here carry what only some sinks use */
  MR_METRICS_SAMPLE,     /* a picture as training saw it */
  MR_METRICS_WRONG,      /* a picture that an evaluation took for something else */
  MR_METRICS_MARK,       /* a state follows: pipeline/durable.h */
} mr_metrics_kind_t;

typedef struct mr_metric {
  char name[24]; /* "loss", "accuracy", "lr", "grad_norm", "step_s", "images_per_s" ... */
  double value;
} mr_metric_t;

/* What a stage with threads of its own did since the last record that says so; in the final one,
   from its start to its end. */
typedef struct mr_metrics_stage {
  const char *name;              /* owned by the graph */
  double busy, starved, blocked; /* shares of the time, add up to 1 */
  double queue;                  /* buffers found waiting at its inputs, mean over the run */
  bool trains;                   /* it makes the metrics */
  int64_t items;                 /* buffers it has given, or taken, in the whole run */
  bool link;                     /* it is the end of a link; only then hold the next two */
  int64_t released, committed;   /* numbers of buffers, see links/link.h */
} mr_metrics_stage_t;

/* Values of one tensor: bins of equal width from min to max. */
typedef struct mr_histogram {
  char name[64]; /* "weights/..." or "gradients/..." */
  double min, max, sum, sum_squares;
  int64_t n; /* finite values */
  uint32_t count[MR_HISTOGRAM_BINS];
} mr_histogram_t;

typedef struct mr_picture {
  int32_t truth, guess; /* classes; guess -1: none was made */
  uint64_t key;         /* record id within the source */
  int32_t width, height;
  uint8_t rgb[MR_PICTURE_SIDE * MR_PICTURE_SIDE * 3]; /* (height,width,3) */
} mr_picture_t;

typedef struct mr_metrics {
  mr_metrics_kind_t kind;
  int64_t step, total_steps; /* step counts from 1; total 0: unknown */
  int64_t epoch;             /* of the newest step, from 1; 0 before the first */
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
  int n_histograms;
  union { /* by kind */
    mr_histogram_t histogram[MR_METRICS_HISTOGRAMS_MAX];
    mr_picture_t picture;
    int64_t mark; /* of the state that follows, from 1 */
  };
  char note[256]; /* why the run ended, or which records were evaluated, or "" */
} mr_metrics_t;

/* "step", "valid", "test", "final", "histograms", "sample", "wrong", "mark". */
const char *mr_metrics_kind_text(mr_metrics_kind_t kind);

/* The spec of an edge of metrics records about a dataset; NULL: none is known. */
mr_spec_t mr_metrics_spec(const mr_dataset_t *dataset);

/* A record of numbers, as every sink understands it. */
static inline bool mr_metrics_is_numbers(const mr_metrics_t *r) {
  return r->kind <= MR_METRICS_FINAL;
}

void mr_metrics_add(mr_metrics_t *r, const char *name, double value); /* dropped when full */
/* The numbers by which a model is judged, beside its loss: those that stand right behind it, up to
   the rate of a step or the count of an evaluation's records.  *n: how many there are; NULL: none.
 */
const mr_metric_t *mr_metrics_judged(const mr_metrics_t *r, int *n);
/* Whether a number of this name stands behind them, and is none of them. */
bool mr_metrics_ends_judged(const char *name);
/* The number of this name, or otherwise. */
double mr_metrics_get(const mr_metrics_t *r, const char *name, double otherwise);

MR_END_DECLS

#endif
