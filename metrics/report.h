/* A report: one record of the metrics stream, written by a training step, an evaluation or the end
   of the run.  It is a small header with parts that grow as needed: numbers, stages, a confusion
   matrix, histograms, pictures.

   A report in a buffer keeps the memory of its parts for the next one, so that a run allocates
   nothing once each buffer has held its largest report; mr_report_spec makes the pool free it.  A
   report of a caller's own is zeroed before mr_report_begin and ends with mr_report_fini.

   A report belongs to one thread at a time until it is given on, and is then read only.  A call
   that adds a part and finds no memory leaves it out and sets `incomplete`; the stage that gives
   the report on looks at that.  Nothing else fails unless it says so. */
#ifndef MR_METRICS_REPORT_H
#define MR_METRICS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/metric.h"
#include "pipeline/spec.h"
#include "pipeline/stage.h"

MR_BEGIN_DECLS

typedef enum mr_report_kind {
  MR_REPORT_STEP,       /* one training step */
  MR_REPORT_VALID,      /* after an epoch, on held-back records */
  MR_REPORT_TEST,       /* at the end */
  MR_REPORT_FINAL,      /* the run is over: the last report of numbers */
  MR_REPORT_HISTOGRAMS, /* this kind and the later ones are used by some sinks only */
  MR_REPORT_SAMPLE,     /* pictures as the training step received them */
  MR_REPORT_WRONG,      /* a picture that an evaluation classified wrongly */
  MR_REPORT_MARK,       /* a state follows: pipeline/run/durable.h */
} mr_report_kind_t;

/* ---- the parts ---- */
typedef struct mr_number {
  const mr_metric_def_t *def; /* what it is; lives as long as the graph */
  const char *stage;          /* MR_METRIC_STAGE: whose, owned by the graph; else NULL */
  double value;
} mr_number_t;

/* What a stage with its own threads did since the last report with stages; in the final one, over
   its whole life. */
typedef struct mr_stage_use {
  const char *name;              /* owned by the graph */
  double busy, starved, blocked; /* shares of the time; their sum is 1 */
  double queue;                  /* buffers waiting at its inputs, mean over the run */
  bool trains;                   /* it produces the metrics */
  int64_t items;                 /* buffers it has given or taken in the whole run */
  bool link;                     /* it is the end of a link; the next two are valid only then */
  int64_t released, committed;   /* numbers of buffers, see links/link.h */
} mr_stage_use_t;

/* A cell of a confusion matrix that is not 0. */
typedef struct mr_confused {
  int32_t truth, guess; /* classes */
  uint32_t count;       /* records */
} mr_confused_t;

enum { MR_HISTOGRAM_BINS = 32, MR_HISTOGRAM_NAME = 256, MR_PICTURE_SIDE = 32 };

/* Values of one tensor: bins of equal width from min to max. */
typedef struct mr_histogram {
  char name[MR_HISTOGRAM_NAME]; /* "weights/..." or "gradients/..." */
  double min, max, sum, sum_squares;
  int64_t n; /* finite values */
  uint32_t count[MR_HISTOGRAM_BINS];
} mr_histogram_t;

/* A record as a small picture. */
typedef struct mr_picture {
  int32_t truth, guess; /* classes; guess -1: no prediction */
  uint64_t key;         /* of the record within its source */
  int32_t width, height;
  uint8_t rgb[MR_PICTURE_SIDE * MR_PICTURE_SIDE * 3]; /* (height,width,3) */
} mr_picture_t;

/* ---- the report ---- */
typedef struct mr_report {
  mr_report_kind_t kind;
  const char *input; /* VALID, WRONG: the input of the training stage, "valid", "valid.NAME" or
                        "test", owned by the graph; NULL: "valid" */
  int64_t step, total_steps; /* step counts from 1; total 0: unknown */
  int64_t epoch;             /* of the newest step, from 1; 0 before the first */
  bool within;               /* VALID: that epoch is not over */
  int64_t images;            /* training images seen so far */
  double elapsed_s;          /* of this run */
  uint64_t ledger;
  const mr_dataset_t *dataset; /* owned by the source stage; NULL: unknown */
  bool skipped;                /* STEP: the step was left out, and has no numbers */
  int64_t bad_step;            /* FINAL: the step that was not finite and ended the run; 0: none */
  double average;              /* VALID, TEST: decay of the average of the weights that was
                                  evaluated; 0: the weights themselves were */
  int64_t mark;                /* MARK: number of the state that follows, from 1 */
  bool incomplete;             /* memory ran out, and a part is missing */
  char note[256];              /* why the run ended, or which records were evaluated, or "" */

  size_t n_numbers;
  mr_number_t *number;
  size_t n_stages; /* > 0 in reports to which telemetry has added measurements */
  mr_stage_use_t *stage;
  int64_t n_classes; /* of the confusion matrix; 0: the report has none */
  size_t n_confused;
  mr_confused_t *confused; /* by rising truth, then guess */
  size_t n_histograms;
  mr_histogram_t *histogram;
  size_t n_pictures; /* SAMPLE, WRONG */
  mr_picture_t *picture;
  size_t room[5]; /* of the parts, in this order; only report.c uses it */
} mr_report_t;

/* Returns the spec of an edge of reports.  dataset and metrics, what the reports' numbers may be
   beside millrace's own, may be NULL and must live as long as the graph. */
mr_spec_t mr_report_spec(const mr_dataset_t *dataset, const mr_metric_list_t *metrics);

/* Empties r, which is zeroed or holds an earlier report, and keeps the memory of its parts unless
   it is much. */
void mr_report_begin(mr_report_t *r, mr_report_kind_t kind);
void mr_report_fini(mr_report_t *r); /* frees the parts and zeroes r; all zero is fine */
/* Makes `to`, as for mr_report_begin, a copy of `from` with parts of its own.  to->incomplete also
   if from is. */
void mr_report_copy(mr_report_t *to, const mr_report_t *from);

/* Adds a number of a metric of millrace's own, of the model or of the list of the edge's spec. */
void mr_report_add(mr_report_t *r, const mr_metric_def_t *def, double value);
/* Adds what the stages of s's graph have reported so far (mr_metric_report); nothing before the
   graph has started. */
void mr_report_add_stages(mr_report_t *r, const mr_stage_t *s);
/* Adds an element to a part and returns it, zeroed, or NULL without memory.  It belongs to r, and
   may move when another one is added. */
mr_stage_use_t *mr_report_add_stage(mr_report_t *r);
mr_histogram_t *mr_report_add_histogram(mr_report_t *r);
mr_picture_t *mr_report_add_picture(mr_report_t *r);
/* Takes a confusion matrix of n_classes >= 1 classes: the n cells that are not 0, in any order;
   they are copied. */
void mr_report_confuse(mr_report_t *r, int64_t n_classes, const mr_confused_t *cell, size_t n);

/* How well a class was distinguished from the others.  A share of nothing is 0, as in scikit-learn.
 */
typedef struct mr_class_score {
  int64_t records, guessed; /* records of the class, and records taken for it */
  double precision;         /* of those taken for it, the share that is of it */
  double recall;            /* of those that are of it, the share taken for it */
  double f1;                /* 2 precision recall / (precision + recall) */
} mr_class_score_t;
/* Returns the scores of all classes of the confusion matrix, [r->n_classes]; heap, the caller frees
   them.  NULL without a matrix or memory. */
mr_class_score_t *mr_report_scores(const mr_report_t *r);

/* Returns whether the report has a number of this metric; value may be NULL. */
bool mr_report_has(const mr_report_t *r, const mr_metric_def_t *def, double *value);
/* Returns that number, or `otherwise`. */
double mr_report_get(const mr_report_t *r, const mr_metric_def_t *def, double otherwise);
/* Returns whether the model is judged by this number, which is not the loss. */
static inline bool mr_number_is_judged(const mr_number_t *m) {
  return m->def->role == MR_METRIC_JUDGED && m->def != MR_METRIC_OWN(LOSS);
}

/* Returns whether the report holds numbers, which every sink handles. */
static inline bool mr_report_is_numbers(const mr_report_t *r) { return r->kind <= MR_REPORT_FINAL; }

/* Returns what files and faces call the kind of the report: "step", "valid" or the input's name,
   "test", "final", "histograms", "sample", "wrong", "mark"; "unknown" for any other number. Static,
   or the report's. */
const char *mr_report_kind_text(const mr_report_t *r);
/* Returns what the report is of, static or the report's: "train" for a step and its pictures, the
   input of an evaluation and of its pictures, else the same.  It comes before the names of numbers,
   "train/loss". */
const char *mr_report_split(const mr_report_t *r);

/* Returns whether a kind, as a file has it, is that of a validation: "valid", or "valid.NAME" of
   one of several inputs. */
bool mr_report_kind_is_valid(const char *kind);

enum { MR_REPORT_DENSE = 1024 /* classes of a matrix that files list as rows of numbers */ };
/* Returns the report as one JSON object on one line, the form that files, pages and sockets share;
   no newline, the caller frees it.  A matrix of up to `dense` classes is written as rows,
   "confusion":[[...],...], a larger one as its cells that are not 0,
   "n_classes":N,"confusion_cells":[[truth,guess,count],...].  Scores of classes follow rows as
   "per_class":{"precision":[...],"recall":[...],"f1":[...]}.  NULL without memory. */
char *mr_report_json(const mr_report_t *r, int64_t dense);
/* Writes the definitions of a list's metrics and of millrace's own as a JSON array of {name, unit,
   help, role, more_is_better}; list may be NULL.  The caller frees it.  NULL without memory. */
char *mr_report_metrics_json(const mr_metric_list_t *list);

MR_END_DECLS

#endif
