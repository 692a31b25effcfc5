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
