/* A metrics record: a flat list of named numbers beside a few facts about its step.  Lookups go by
   name, since a model brings metrics of its own and a record has a dozen at most; those between
   loss and the usual numbers is the model's. */
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>

const char *mr_metrics_kind_text(mr_metrics_kind_t kind) {
  switch (kind) {
    case MR_METRICS_STEP: return "step";
    case MR_METRICS_VALID: return "valid";
    case MR_METRICS_TEST: return "test";
    case MR_METRICS_FINAL: return "final";
    case MR_METRICS_HISTOGRAMS: return "histograms";
    case MR_METRICS_SAMPLE: return "sample";
    case MR_METRICS_WRONG: return "wrong";
    case MR_METRICS_MARK: return "mark";
  }
  return "unknown";
}

mr_spec_t mr_metrics_spec(const mr_dataset_t *dataset) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_METRICS, sizeof(mr_metrics_t));
  spec.dataset = dataset;
  return spec;
}

void mr_metrics_add(mr_metrics_t *r, const char *name, double value) {
  if (r->n == MR_METRICS_MAX) return;
  snprintf(r->m[r->n].name, sizeof r->m[r->n].name, "%s", name);
  r->m[r->n++].value = value;
}

double mr_metrics_get(const mr_metrics_t *r, const char *name, double otherwise) {
  for (int i = 0; i < r->n; i++)
    if (!strcmp(r->m[i].name, name)) return r->m[i].value;
  return otherwise;
}

bool mr_metrics_ends_judged(const char *name) {
  static const char *const behind[] = {"lr", "grad_norm", "step_s", "images_per_s", "records"};
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
    if (!strcmp(name, behind[i])) return true;
  return false;
}

const mr_metric_t *mr_metrics_judged(const mr_metrics_t *r, int *n) {
  int from = 0, to;
  while (from < r->n && strcmp(r->m[from].name, "loss")) from++;
  for (to = ++from; to < r->n && !mr_metrics_ends_judged(r->m[to].name);) to++;
  *n = to > from ? to - from : 0;
  return *n ? &r->m[from] : NULL;
}
