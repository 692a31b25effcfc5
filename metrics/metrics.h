/* One record of the metrics stream, written by a training step, an evaluation or the end of the
   run.  Any thread may call; mr_metrics_json (json.c) alone allocates, and nothing else
   fails; all else is in metrics.c. */
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
  MR_METRICS_HISTOGRAMS, /* this kind and the later ones are used by some sinks only */
  MR_METRICS_SAMPLE,     /* a picture as the training step received it */
  MR_METRICS_WRONG,      /* a picture that an evaluation classified wrongly */
  MR_METRICS_MARK,       /* a state follows: pipeline/run/durable.h */
} mr_metrics_kind_t;

typedef struct mr_metric {
  char name[24]; /* "loss", "accuracy", "lr", "grad_norm", "step_s", "images_per_s" ... */
  double value;
} mr_metric_t;

/* What a stage with its own threads did since the last record with stages; in the final record,
   over its whole life. */
typedef struct mr_metrics_stage {
  const char *name;              /* owned by the graph */
  double busy, starved, blocked; /* shares of the time; their sum is 1 */
  double queue;                  /* buffers waiting at its inputs, mean over the run */
  bool trains;                   /* it produces the metrics */
  int64_t items;                 /* buffers it has given or taken in the whole run */
  bool link;                     /* it is the end of a link; the next two are valid only then */
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
  int32_t truth, guess; /* classes; guess -1: no prediction */
  uint64_t key;         /* of the record within its source */
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
  const mr_dataset_t *dataset; /* owned by the source stage; NULL: unknown */
  int n_stages;                /* > 0 in records to which telemetry has added measurements */
  mr_metrics_stage_t stage[MR_METRICS_STAGES];
  int n_classes; /* > 0: confusion holds [truth*n_classes + guess] */
  uint32_t confusion[MR_METRICS_CLASSES * MR_METRICS_CLASSES];
  int n_histograms;
  union { /* by kind */
    mr_histogram_t histogram[MR_METRICS_HISTOGRAMS_MAX];
    mr_picture_t picture;
    int64_t mark; /* number of the state that follows, from 1 */
  };
  char note[256]; /* why the run ended, or which records were evaluated, or "" */
} mr_metrics_t;

/* Returns "step", "valid", "test", "final", "histograms", "sample", "wrong" or "mark"; "unknown"
   for any other number.  Static. */
const char *mr_metrics_kind_text(mr_metrics_kind_t kind);

/* Returns the spec of an edge of metrics records.  dataset, which may be NULL, must outlive it. */
mr_spec_t mr_metrics_spec(const mr_dataset_t *dataset);

/* Returns whether the record holds numbers, which every sink handles. */
static inline bool mr_metrics_is_numbers(const mr_metrics_t *r) {
  return r->kind <= MR_METRICS_FINAL;
}

/* Adds a number; drops it if the record is full.  A name of 24 bytes or more is cut. */
void mr_metrics_add(mr_metrics_t *r, const char *name, double value);
/* Returns the numbers, besides the loss, that the model is judged by: *n of them, which follow the
   loss in r->m up to the first for which mr_metrics_ends_judged is true.  The array belongs to r.
   NULL and *n = 0 if there are none. */
const mr_metric_t *mr_metrics_judged(const mr_metrics_t *r, int *n);
/* Returns whether a number of this name (lr, grad_norm, step_s, images_per_s, records) ends the
   numbers that the model is judged by. */
bool mr_metrics_ends_judged(const char *name);
/* Returns the first number of this name, or otherwise if the record has none. */
double mr_metrics_get(const mr_metrics_t *r, const char *name, double otherwise);

/* Returns the record as one JSON object on one line, the form that files, pages and sockets share;
   no newline, the caller frees it.  NULL without memory. */
char *mr_metrics_json(const mr_metrics_t *r);

MR_END_DECLS

#endif
