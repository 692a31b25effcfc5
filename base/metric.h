/* Metrics: what a number that a run reports is called, what it means and where it belongs.

   A definition is a constant, and a number refers to its definition (metrics/report.h), so that
   nothing that shows numbers compares names or relies on their order.  metrics.def has the
   definitions of millrace itself; a model declares what it is judged by (model/zoo/zoo.h), a stage
   what it reports (mr_stage_def_t.metrics).  Any thread may call. */
#ifndef MR_BASE_METRIC_H
#define MR_BASE_METRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"

MR_BEGIN_DECLS

typedef enum mr_metric_role {
  MR_METRIC_JUDGED,  /* the model is judged by it: the loss, and what the model declares */
  MR_METRIC_STEP,    /* of a training step or an evaluation */
  MR_METRIC_MACHINE, /* of the process and the machine */
  MR_METRIC_STAGE,   /* of one stage, which reports it: mr_metric_report */
} mr_metric_role_t;

typedef enum mr_metric_column {
  MR_METRIC_DECLARED, /* a table has a column of it if a stage of the graph declares it */
  MR_METRIC_ALWAYS,   /* every table has one */
  MR_METRIC_SERVERS,  /* if a source of the graph asks servers */
  MR_METRIC_NEVER,
} mr_metric_column_t;

/* A metric.  The texts live as long as the program.  Those who declare one fill name, unit, help
   and what follows from role on as needed; all else is 0. */
typedef struct mr_metric_def {
  const char *name; /* [a-z][a-z0-9_]*, at most MR_METRIC_NAME_MAX characters, not reserved */
  const char *unit; /* "s", "bytes"; "" or NULL: a plain number or a share */
  const char *help; /* one sentence, ends with a period; NULL: none */
  mr_metric_role_t role;
  bool more_is_better; /* JUDGED */
  bool total;          /* it counts from the run's start and never decreases */
  mr_metric_column_t column;
  const char *prometheus; /* of millrace's own: name of the series behind millrace_; NULL: none */
} mr_metric_def_t;

/* Several of them, for the spec of an edge of reports (mr_spec_t.metrics). */
typedef struct mr_metric_list {
  size_t n;
  const mr_metric_def_t *const *def; /* [n] */
} mr_metric_list_t;

enum { MR_METRIC_NAME_MAX = 512 };

/* ---- millrace's own ---- */
typedef enum mr_metric_id {
#define MR_METRIC(id, ...) MR_METRIC_ID_##id,
#include "base/metrics.def"
#undef MR_METRIC
  MR_METRICS_N
} mr_metric_id_t;

extern const mr_metric_def_t mr_metric_table[]; /* [MR_METRICS_N], by mr_metric_id_t */

/* The definition of one of them: MR_METRIC_OWN(LOSS).  Static. */
#define MR_METRIC_OWN(id) (&mr_metric_table[MR_METRIC_ID_##id])

/* Returns millrace's own metric of this name; NULL if it has none.  Static. */
const mr_metric_def_t *mr_metric_own(const char *name);

/* ---- those of models and stages ---- */
/* Checks the name of a metric that a model or a stage declares.  role: JUDGED or STAGE, whose
   reserved names differ; accuracy may be declared as JUDGED alone.  who begins the sentence, "model
   mixer"; NULL: the caller does so.  MR_OK; or MR_ERR_CONFIG, with the name, the reserved names or
   the form of a name, and the nearest name that is allowed. */
mr_err_t mr_metric_check(const char *who, const char *name, mr_metric_role_t role, mr_diag_t *diag);

/* Returns a judged definition of this name: millrace's own if it has one, else one that is made
   when the name is first asked for; equal names get the same one.  It lives as long as the process,
   name as well, which is copied.  NULL without memory. */
const mr_metric_def_t *mr_metric_judged(const char *name);

/* Returns whether a number of this name in a report's JSON is one that the model is judged by: no
   other number there and no member of the report itself is called so.  "loss" is none. */
bool mr_metric_is_judged_key(const char *name);

MR_END_DECLS

#endif
