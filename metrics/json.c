/* A metrics record as one line of JSON, the format of metrics.jsonl, the page and top.  It is
   printed in one pass: building a tree of cJSON items would cost more than the record.  Numbers
   have the fewest digits that read back as the same double. */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static void json_put_text(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c < 0x20)
      fprintf(out, "\\u%04x", *c);
    else if (*c == '"' || *c == '\\')
      fputc('\\', out), fputc(*c, out);
    else
      fputc(*c, out);
  }
  fputc('"', out);
}

/* Prints 15 digits if they read back as the same number, else 17; JSON has no NaN. */
static void json_put_number(FILE *out, double v) {
  char text[32];
  if (!isfinite(v)) {
    fputs("null", out);
  } else if (v == trunc(v) && fabs(v) < 1e15) {
    fprintf(out, "%" PRId64, (int64_t)v);
  } else {
    mr_snprintf(text, sizeof text, "%.15g", v);
    if (mr_strtod(text, NULL) != v) mr_snprintf(text, sizeof text, "%.17g", v);
    fputs(text, out);
  }
}

static void json_put_confusion(FILE *out, const mr_metrics_t *r) {
  int C = r->n_classes < MR_METRICS_CLASSES ? r->n_classes : MR_METRICS_CLASSES;
  fputs(",\"confusion\":[", out);
  for (int t = 0; t < C; t++) {
    fputs(t ? ",[" : "[", out);
    for (int g = 0; g < C; g++)
      fprintf(out, "%s%" PRIu32, g ? "," : "", r->confusion[t * r->n_classes + g]);
    fputc(']', out);
  }
  fputc(']', out);
  if (!r->dataset) return;
  fputs(",\"classes\":[", out);
  for (int t = 0; t < C && t < r->dataset->n_classes; t++) {
    if (t) fputc(',', out);
    json_put_text(out, r->dataset->class_name[t]);
  }
  fputc(']', out);
}

/* Shares have four digits, so that the line of a step stays short. */
static void json_put_stages(FILE *out, const mr_metrics_t *r) {
  fputs(",\"stages\":{", out);
  for (int i = 0; i < r->n_stages; i++) {
    const mr_metrics_stage_t *st = &r->stage[i];
    if (i) fputc(',', out);
    json_put_text(out, st->name);
    mr_fprintf(
        out, ":{\"busy\":%.4g,\"starved\":%.4g,\"blocked\":%.4g,\"queue\":%.4g,\"items\":%" PRId64,
        st->busy, st->starved, st->blocked, st->queue, st->items);
    if (st->link)
      fprintf(out, ",\"released\":%" PRId64 ",\"committed\":%" PRId64, st->released, st->committed);
    fputc('}', out);
  }
  fputc('}', out);
}

static void json_put_record(FILE *out, const mr_metrics_t *r) {
  fprintf(out,
          "{\"kind\":\"%s\",\"step\":%" PRId64 ",\"total_steps\":%" PRId64 ",\"epoch\":%" PRId64
          ",\"images\":%" PRId64 ",\"elapsed_s\":",
          mr_metrics_kind_text(r->kind), r->step, r->total_steps, r->epoch, r->images);
  json_put_number(out, r->elapsed_s);
  for (int i = 0; i < r->n; i++) {
    fputc(',', out), json_put_text(out, r->m[i].name), fputc(':', out);
    json_put_number(out, r->m[i].value);
  }
  if (r->n_stages > 0) json_put_stages(out, r);
  if (r->n_classes > 0) json_put_confusion(out, r);
  fprintf(out, ",\"ledger\":\"%016" PRIx64 "\",\"data\":", r->ledger);
  json_put_text(out, r->dataset ? r->dataset->origin : "none");
  if (r->note[0]) fputs(",\"note\":", out), json_put_text(out, r->note);
  fputc('}', out);
}

char *mr_metrics_json(const mr_metrics_t *r) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (out) json_put_record(out, r);
  return mr_text_out_close(&text, out, NULL);
}
