/* What stages report of themselves: one number for each metric that a definition declares, the same
   for all workers and for the copies of a record stage in several chains.  A number is an atomic of
   the bits of a double, written by any thread of the stage and read by those that make reports. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/watch/watch.h"

/* The bits of a metric that has not been reported: a NaN that arithmetic does not produce, and
   metric_bits never returns. */
#define NOT_REPORTED INT64_MAX

static int64_t metric_bits(double v) {
  int64_t bits;
  if (isnan(v)) v = (double)NAN;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static double metric_value(int64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static int n_metrics(const mr_stage_def_t *def) {
  int n = 0;
  while (def->metrics && def->metrics[n].name) n++;
  return n;
}

mr_atomic_i64_t *mr__metrics_none(const mr_stage_def_t *def) {
  int n = n_metrics(def);
  mr_atomic_i64_t *at = malloc((size_t)(n + 1) * sizeof *at);
  for (int i = 0; at && i < n; i++) atomic_init(&at[i], NOT_REPORTED);
  return at;
}

void mr_metric_report(mr_stage_t *s, int i, double value) {
  assert(s->reported && i >= 0 && i < n_metrics(s->def));
  /* relaxed, as mr_watch_metric's load: the number says nothing of other memory */
  atomic_store_explicit(&s->reported[i], metric_bits(value), memory_order_relaxed);
}

void mr_metric_count(mr_stage_t *s, int i, int64_t n) {
  assert(s->reported && i >= 0 && i < n_metrics(s->def));
  /* relaxed, as mr_watch_metric's load: the number says nothing of other memory */
  int64_t was = atomic_load_explicit(&s->reported[i], memory_order_relaxed), now;
  do {
    now = metric_bits((was == NOT_REPORTED ? 0 : metric_value(was)) + (double)n);
  } while (!atomic_compare_exchange_weak_explicit(&s->reported[i], &was, now, memory_order_relaxed,
                                                  memory_order_relaxed));
}

bool mr_watch_metric(const mr_stage_t *s, int i, int k, double *value) {
  /* relaxed, as the stores of mr_metric_report and mr_metric_count */
  int64_t bits = atomic_load_explicit(&s->rt->g->node[i]->reported[k], memory_order_relaxed);
  *value = metric_value(bits);
  return bits != NOT_REPORTED;
}
