/* The table of millrace's own metrics, and which names are left for others.  A name is reserved if
   a face of a run would say two things by it: a member of the report in JSON, a column of the CSV
   file, a number of a stage, or a series of Prometheus, with the suffixes that its formats add. */
#include "base/metric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE true
#define LESS false
#define GROWS true
#define READ false
const mr_metric_def_t mr_metric_table[] = {
#define MR_METRIC(id, called, of_unit, words, of_role, better, grows, has_column, series) \
  [MR_METRIC_ID_##id] = {.name = called,                                                  \
                         .unit = of_unit,                                                 \
                         .help = words,                                                   \
                         .role = MR_METRIC_##of_role,                                     \
                         .more_is_better = better,                                        \
                         .total = grows,                                                  \
                         .column = MR_METRIC_##has_column,                                \
                         .prometheus = series},
#include "base/metrics.def"
#undef MR_METRIC
};

/* Members of a report and columns that are no metrics (metrics/json.c, sinks/csv.c). */
static const char *const of_report[] = {
    "kind",      "step",      "total_steps", "epoch",     "images",  "elapsed_s",
    "skipped",   "stages",    "bad_step",    "confusion", "classes", "confusion_cells",
    "n_classes", "ledger",    "data",        "note",      "picture", "repeating_until",
    "ema",       "per_class", NULL};

/* Series of Prometheus that are no row of the table (sinks/prometheus.c). */
static const char *const of_prometheus[] = {"step",
                                            "steps_planned",
                                            "epoch",
                                            "images",
                                            "images_total",
                                            "step_seconds",
                                            "finished",
                                            "repeating_until_step",
                                            "step_seconds_sum",
                                            "link_released_buffers",
                                            "step_seconds_count",
                                            "link_committed_buffers",
                                            NULL};

/* Numbers that every stage has, and the rest of their series' names behind stage_. */
static const char *const of_stages[] = {"busy",          "starved",  "blocked",       "queue",
                                        "items",         "released", "committed",     "time_ratio",
                                        "queue_buffers", "buffers",  "buffers_total", NULL};

static bool is_in(const char *const *list, const char *name) {
  for (; *list; list++)
    if (!strcmp(*list, name)) return true;
  return false;
}

const mr_metric_def_t *mr_metric_own(const char *name) {
  for (int i = 0; i < MR_METRICS_N; i++)
    if (!strcmp(mr_metric_table[i].name, name)) return &mr_metric_table[i];
  return NULL;
}

/* Whether a series of Prometheus of the table has this name, "remote_bytes" or
   "remote_bytes_total". */
static bool is_series(const char *name) {
  for (int i = 0; i < MR_METRICS_N; i++) {
    const mr_metric_def_t *d = &mr_metric_table[i];
    size_t n = d->prometheus ? strlen(d->prometheus) : 0;
    if (n && !strncmp(name, d->prometheus, n) &&
        (!name[n] || (d->total && !strcmp(name + n, "_total"))))
      return true;
  }
  return is_in(of_prometheus, name);
}

/* Prometheus calls a counter NAME_total: so a metric "x_total" would be the counter of another,
   "x". */
static const char total_end[] = "_total";

static bool ends_in_total(const char *name) {
  size_t n = strlen(name), end = sizeof total_end - 1;
  return n > end && !strcmp(name + n - end, total_end);
}

static bool is_reserved(const char *name, mr_metric_role_t role) {
  if (ends_in_total(name)) return true;
  if (role == MR_METRIC_STAGE) return is_in(of_stages, name);
  if (!strcmp(name, MR_METRIC_OWN(ACCURACY)->name)) return role != MR_METRIC_JUDGED;
  return mr_metric_own(name) || is_in(of_report, name) || is_series(name) ||
         !strncmp(name, "stage_", strlen("stage_"));
}

bool mr_metric_is_judged_key(const char *name) {
  const mr_metric_def_t *own = mr_metric_own(name);
  if (own) return own->role == MR_METRIC_JUDGED && own != MR_METRIC_OWN(LOSS);
  return !is_in(of_report, name);
}

/* Writes the reserved names, "kind, step, ..., stage_*", into text[0,n). */
static void reserved_text(mr_metric_role_t role, char *text, size_t n) {
  size_t at = 0;
  if (role == MR_METRIC_STAGE) {
    for (int i = 0; of_stages[i] && at < n; i++)
      at += (size_t)snprintf(text + at, n - at, "%s%s", i ? ", " : "", of_stages[i]);
    if (at < n) snprintf(text + at, n - at, " and *%s", total_end);
    return;
  }
  for (int i = 0; of_report[i] && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s%s", i ? ", " : "", of_report[i]);
  for (int i = 0; i < MR_METRICS_N && at < n; i++)
    if (&mr_metric_table[i] != MR_METRIC_OWN(ACCURACY))
      at += (size_t)snprintf(text + at, n - at, ", %s", mr_metric_table[i].name);
  if (at < n)
    snprintf(text + at, n - at, ", stage_*, *%s and the names of Prometheus' series", total_end);
}

static bool has_form(const char *name) {
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return n > 0 && n <= MR_METRIC_NAME_MAX && !name[n] && name[0] >= 'a' && name[0] <= 'z';
}

/* Writes the nearest name that is allowed: letters in lower case, one "_" for other characters, a
   word behind it until it is not reserved. */
static void nearest_name(const char *name, mr_metric_role_t role, char *text, size_t n) {
  size_t at = 0;
  for (const char *c = name; *c && at + 8 < n; c++) {
    bool upper = *c >= 'A' && *c <= 'Z', lower = *c >= 'a' && *c <= 'z';
    bool digit = *c >= '0' && *c <= '9';
    char to = upper ? (char)(*c - 'A' + 'a') : lower || digit ? *c : '_';
    if (!at && !upper && !lower) continue; /* it begins with a letter */
    if (to == '_' && text[at - 1] == '_') continue;
    text[at++] = to;
  }
  text[at] = 0;
  while (ends_in_total(text)) text[at -= sizeof total_end - 1] = 0;
  while (at && text[at - 1] == '_') text[--at] = 0;
  if (!at) snprintf(text, n, "metric");
  if (!is_reserved(text, role)) return;
  char was[MR_METRIC_NAME_MAX];
  snprintf(was, sizeof was, "%s", text);
  snprintf(text, n, role == MR_METRIC_STAGE ? "own_%.480s" : "model_%.480s", was);
}

mr_err_t mr_metric_check(const char *who, const char *name, mr_metric_role_t role,
                         mr_diag_t *diag) {
  char reserved[900], near[MR_METRIC_NAME_MAX];
  const char *colon = who ? ": " : "";
  if (!who) who = "";
  if (!name)
    return mr_fail(diag, MR_ERR_CONFIG, "%s%sit reports a metric without a name", who, colon);
  bool form = has_form(name);
  if (form && !is_reserved(name, role)) return MR_OK;
  nearest_name(name, role, near, sizeof near);
  if (!form)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s%sit reports a metric \"%.80s\"; want [a-z][a-z0-9_]*, %d characters at "
                   "most; \"%.80s\" is allowed",
                   who, colon, name, MR_METRIC_NAME_MAX, near);
  reserved_text(role, reserved, sizeof reserved);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s%sit reports a metric \"%.60s\", which is reserved; \"%.80s\" is allowed; "
                 "reserved are %s",
                 who, colon, name, near, reserved);
}

/* ---- names that models give without more ---- */

typedef struct named {
  struct named *next;
  mr_metric_def_t def;
  char name[];
} named_t;

static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static named_t *all_named; /* under named_lock; never freed: reports refer to them */

const mr_metric_def_t *mr_metric_judged(const char *name) {
  const mr_metric_def_t *own = mr_metric_own(name);
  if (own) return own;
  pthread_mutex_lock(&named_lock);
  named_t *d = all_named;
  while (d && strcmp(d->name, name)) d = d->next;
  size_t n = strlen(name) + 1;
  if (!d && (d = calloc(1, sizeof *d + n))) {
    memcpy(d->name, name, n);
    d->def = (mr_metric_def_t){.name = d->name,
                               .unit = "",
                               .help = "What the model is judged by, like loss.",
                               .role = MR_METRIC_JUDGED};
    d->next = all_named, all_named = d;
  }
  pthread_mutex_unlock(&named_lock);
  return d ? &d->def : NULL;
}
