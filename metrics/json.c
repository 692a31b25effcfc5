/* A report as one line of JSON, the format of metrics.jsonl, the page and top.  It is printed in
   one pass: building a tree of cJSON items would cost more than the report.  Numbers have the
   fewest digits that read back as the same double. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "metrics/report.h"

/* The bytes of the UTF-8 character at c, of which n bytes are there; 0 if it is none. */
static size_t utf8_bytes(const unsigned char *c, size_t n) {
  size_t k = *c < 0x80 ? 1 : *c < 0xc2 ? 0 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : *c < 0xf5 ? 4 : 0;
  if (k > n) return 0;
  for (size_t i = 1; i < k; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  bool over_long = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
  bool beyond = (*c == 0xf4 && c[1] > 0x8f) || (*c == 0xed && c[1] > 0x9f);
  return k > 1 && (over_long || beyond) ? 0 : k;
}

/* Names of classes may come from folders, whose names are any bytes: what is no UTF-8 becomes the
   mark for it, since JSON has no such bytes. */
static void json_put_text(FILE *out, const char *text) {
  size_t n = strlen(text);
  fputc('"', out);
  for (const unsigned char *c = (const unsigned char *)text; n; c++, n--) {
    size_t k = utf8_bytes(c, n);
    if (!k)
      fputs("\\ufffd", out);
    else if (*c < 0x20)
      fprintf(out, "\\u%04x", *c);
    else if (*c == '"' || *c == '\\')
      fputc('\\', out), fputc(*c, out);
    else
      fwrite(c, 1, k, out);
    if (k > 1) c += k - 1, n -= k - 1;
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

/* ---- the confusion matrix ---- */

static void json_put_rows(FILE *out, const mr_report_t *r) {
  const mr_confused_t *cell = r->confused, *end = cell + r->n_confused;
  fputs(",\"confusion\":[", out);
  for (int64_t t = 0; t < r->n_classes; t++) {
    fputs(t ? ",[" : "[", out);
    for (int64_t g = 0; g < r->n_classes; g++) {
      bool there = cell < end && cell->truth == t && cell->guess == g;
      fprintf(out, "%s%" PRIu32, g ? "," : "", there ? cell->count : 0);
      cell += there;
    }
    fputc(']', out);
  }
  fputc(']', out);
}

static void json_put_cells(FILE *out, const mr_report_t *r) {
  fprintf(out, ",\"n_classes\":%" PRId64 ",\"confusion_cells\":[", r->n_classes);
  for (size_t i = 0; i < r->n_confused; i++) {
    const mr_confused_t *c = &r->confused[i];
    fprintf(out, "%s[%" PRId32 ",%" PRId32 ",%" PRIu32 "]", i ? "," : "", c->truth, c->guess,
            c->count);
  }
  fputc(']', out);
}

static void put_shares(FILE *out, const char *name, const mr_class_score_t *s, int64_t n,
                       size_t offset) {
  fprintf(out, "\"%s\":[", name);
  for (int64_t k = 0; k < n; k++)
    mr_fprintf(out, "%s%.4g", k ? "," : "", *(const double *)((const char *)&s[k] + offset));
  fputc(']', out);
}

static void put_scores(FILE *out, const mr_report_t *r) {
  mr_class_score_t *s = mr_report_scores(r);
  if (!s) return;
  fputs(",\"per_class\":{", out);
  put_shares(out, "precision", s, r->n_classes, offsetof(mr_class_score_t, precision));
  fputc(',', out), put_shares(out, "recall", s, r->n_classes, offsetof(mr_class_score_t, recall));
  fputc(',', out), put_shares(out, "f1", s, r->n_classes, offsetof(mr_class_score_t, f1));
  fputc('}', out);
  free(s);
}

/* The names of the classes. */
static void put_classes(FILE *out, const mr_report_t *r) {
  fputs(",\"classes\":[", out);
  for (int t = 0; t < r->n_classes && t < r->dataset->n_classes; t++) {
    if (t) fputc(',', out);
    json_put_text(out, r->dataset->class_name[t]);
  }
  fputc(']', out);
}

static void json_put_confusion(FILE *out, const mr_report_t *r, int64_t dense) {
  if (r->n_classes > dense) return json_put_cells(out, r);
  json_put_rows(out, r);
  if (r->dataset) put_classes(out, r);
  put_scores(out, r);
}

/* ---- numbers and stages ---- */

/* Prints the numbers that a stage has reported. */
static void put_reported(FILE *out, const mr_report_t *r, const char *stage, bool first) {
  for (size_t i = 0; i < r->n_numbers; i++) {
    const mr_number_t *m = &r->number[i];
    if (!m->stage || strcmp(m->stage, stage)) continue;
    if (!first) fputc(',', out);
    first = false;
    json_put_text(out, m->def->name), fputc(':', out);
    json_put_number(out, m->value);
  }
}

static bool is_measured(const mr_report_t *r, const char *stage) {
  for (size_t i = 0; i < r->n_stages; i++)
    if (!strcmp(r->stage[i].name, stage)) return true;
  return false;
}

/* Whether number i is the first of a stage that telemetry has not measured. */
static bool begins_stage(const mr_report_t *r, size_t i) {
  const char *stage = r->number[i].stage;
  if (!stage || is_measured(r, stage)) return false;
  for (size_t k = 0; k < i; k++)
    if (r->number[k].stage && !strcmp(r->number[k].stage, stage)) return false;
  return true;
}

/* Shares have four digits, so that the line of a step stays short. */
static void json_put_stages(FILE *out, const mr_report_t *r) {
  bool any = false;
  for (size_t i = 0; i < r->n_stages; i++, any = true) {
    const mr_stage_use_t *st = &r->stage[i];
    fputs(any ? "," : ",\"stages\":{", out);
    json_put_text(out, st->name);
    mr_fprintf(
        out, ":{\"busy\":%.4g,\"starved\":%.4g,\"blocked\":%.4g,\"queue\":%.4g,\"items\":%" PRId64,
        st->busy, st->starved, st->blocked, st->queue, st->items);
    if (st->link)
      fprintf(out, ",\"released\":%" PRId64 ",\"committed\":%" PRId64, st->released, st->committed);
    put_reported(out, r, st->name, false);
    fputc('}', out);
  }
  for (size_t i = 0; i < r->n_numbers; i++) {
    if (!begins_stage(r, i)) continue;
    fputs(any ? "," : ",\"stages\":{", out);
    any = true;
    json_put_text(out, r->number[i].stage), fputs(":{", out);
    put_reported(out, r, r->number[i].stage, true);
    fputc('}', out);
  }
  if (any) fputc('}', out);
}

static void json_put_report(FILE *out, const mr_report_t *r, int64_t dense) {
  fputs("{\"kind\":", out), json_put_text(out, mr_report_kind_text(r));
  fprintf(out,
          ",\"step\":%" PRId64 ",\"total_steps\":%" PRId64 ",\"epoch\":%" PRId64
          ",\"images\":%" PRId64 ",\"elapsed_s\":",
          r->step, r->total_steps, r->epoch, r->images);
  json_put_number(out, r->elapsed_s);
  if (r->skipped) fputs(",\"skipped\":1", out);
  if (r->average > 0) fputs(",\"ema\":", out), json_put_number(out, r->average);
  if (r->bad_step) fprintf(out, ",\"bad_step\":%" PRId64, r->bad_step);
  for (size_t i = 0; i < r->n_numbers; i++) {
    if (r->number[i].stage) continue;
    fputc(',', out), json_put_text(out, r->number[i].def->name), fputc(':', out);
    json_put_number(out, r->number[i].value);
  }
  json_put_stages(out, r);
  if (r->n_classes > 0) json_put_confusion(out, r, dense);
  fprintf(out, ",\"ledger\":\"%016" PRIx64 "\",\"data\":", r->ledger);
  json_put_text(out, r->dataset ? r->dataset->origin : "none");
  if (r->note[0]) fputs(",\"note\":", out), json_put_text(out, r->note);
  fputc('}', out);
}

char *mr_report_json(const mr_report_t *r, int64_t dense) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (out) json_put_report(out, r, dense);
  return mr_text_out_close(&text, out, NULL);
}

/* ---- definitions ---- */

static void put_def(FILE *out, const mr_metric_def_t *d) {
  static const char *const role[] = {"judged", "step", "machine", "stage"};
  fputs("{\"name\":", out), json_put_text(out, d->name);
  fputs(",\"unit\":", out), json_put_text(out, d->unit ? d->unit : "");
  fputs(",\"help\":", out), json_put_text(out, d->help ? d->help : "");
  fprintf(out, ",\"role\":\"%s\",\"more_is_better\":%s}", role[d->role],
          d->more_is_better ? "true" : "false");
}

char *mr_report_metrics_json(const mr_metric_list_t *list) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (!out) return NULL;
  fputc('[', out);
  for (int i = 0; i < MR_METRICS_N; i++) {
    if (i) fputc(',', out);
    put_def(out, &mr_metric_table[i]);
  }
  for (size_t i = 0; list && i < list->n; i++)
    if (mr_metric_own(list->def[i]->name) != list->def[i])
      fputc(',', out), put_def(out, list->def[i]);
  fputc(']', out);
  return mr_text_out_close(&text, out, NULL);
}
