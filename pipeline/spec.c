#include "pipeline/spec.h"

#include <stdarg.h>
#include <stdio.h>

#include "pipeline/metrics.h"

size_t mr_spec_bytes(const mr_spec_t *spec) {
  if (spec->flow == MR_FLOW_METRICS) return sizeof(mr_metrics_t);
  size_t n = mr_dtype_size(spec->dtype);
  for (int i = 0; i < spec->ndim; i++) n *= (size_t)spec->dim[i];
  return n;
}

typedef struct {
  char *text;
  size_t at, n;
} out_t;

__attribute__((format(printf, 2, 3))) static void put(out_t *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int k = vsnprintf(o->text + o->at, o->n - o->at, fmt, ap);
  va_end(ap);
  o->at += k > 0 ? (size_t)k : 0;
  if (o->at >= o->n) o->at = o->n - 1;
}

void mr_spec_text(const mr_spec_t *spec, char *text, size_t n) {
  static const char *const flow[] = {"any", "records", "batches", "metrics", "state", "bytes"};
  static const char *const layout[] = {"", " CHW", " HWC"};
  static const char *const place[] = {" host", " pinned", " cuda"};
  if (!n) return;
  out_t o = {text, 0, n};
  text[0] = 0;
  put(&o, "%s", flow[spec->flow]);
  if (spec->flow == MR_FLOW_NONE || spec->flow == MR_FLOW_METRICS) return;
  put(&o, " %s[", mr_dtype_name(spec->dtype));
  for (int i = 0; i < spec->ndim; i++) put(&o, "%s%lld", i ? "," : "", (long long)spec->dim[i]);
  put(&o, "]%s%s", layout[spec->layout], place[spec->place]);
}
