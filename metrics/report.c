/* A report's parts are arrays that grow by doubling and are kept from report to report.  Numbers
   are found by their definition, never by their name; those of stages also carry whose they are. */
#include "metrics/report.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/watch/watch.h"

enum { NUMBERS, STAGES, CONFUSED, HISTOGRAMS, PICTURES, PARTS };
enum { KEPT_BYTES = 1 << 20 /* of a part, for the next report */ };

/* Makes room for n elements of size bytes in an array of r->room[part]; false without memory. */
static bool report_grow(mr_report_t *r, int part, void **at, size_t n, size_t size) {
  size_t room = r->room[part] ? r->room[part] : 16;
  if (n <= r->room[part]) return true;
  while (room < n) room *= 2;
  void *more = room < SIZE_MAX / 2 / size ? realloc(*at, room * size) : NULL;
  if (!more) return !(r->incomplete = true);
  *at = more, r->room[part] = room;
  return true;
}

/* Adds a zeroed element to an array of *n; NULL without memory. */
static void *report_append(mr_report_t *r, int part, void **at, size_t *n, size_t size) {
  if (!report_grow(r, part, at, *n + 1, size)) return NULL;
  return memset((char *)*at + (*n)++ * size, 0, size);
}

/* Sets an array to a copy of from[0,n). */
static void report_take(mr_report_t *r, int part, void **at, size_t *n, const void *from,
                        size_t count, size_t size) {
  *n = 0;
  if (!count || !report_grow(r, part, at, count, size)) return;
  memcpy(*at, from, count * size);
  *n = count;
}

static void drop_if_large(mr_report_t *r, int part, void **at, size_t size) {
  if (r->room[part] * size <= KEPT_BYTES) return;
  free(*at);
  *at = NULL, r->room[part] = 0;
}

void mr_report_begin(mr_report_t *r, mr_report_kind_t kind) {
  drop_if_large(r, NUMBERS, (void **)&r->number, sizeof *r->number);
  drop_if_large(r, STAGES, (void **)&r->stage, sizeof *r->stage);
  drop_if_large(r, CONFUSED, (void **)&r->confused, sizeof *r->confused);
  drop_if_large(r, HISTOGRAMS, (void **)&r->histogram, sizeof *r->histogram);
  drop_if_large(r, PICTURES, (void **)&r->picture, sizeof *r->picture);
  mr_report_t empty = {.kind = kind,
                       .number = r->number,
                       .stage = r->stage,
                       .confused = r->confused,
                       .histogram = r->histogram,
                       .picture = r->picture};
  memcpy(empty.room, r->room, sizeof empty.room);
  *r = empty;
}

void mr_report_fini(mr_report_t *r) {
  free(r->number), free(r->stage), free(r->confused), free(r->histogram), free(r->picture);
  *r = (mr_report_t){0};
}

void mr_report_copy(mr_report_t *to, const mr_report_t *from) {
  mr_report_begin(to, from->kind);
  mr_report_t own = *to;
  *to = *from;
  to->number = own.number, to->stage = own.stage, to->confused = own.confused;
  to->histogram = own.histogram, to->picture = own.picture;
  memcpy(to->room, own.room, sizeof to->room);
  report_take(to, NUMBERS, (void **)&to->number, &to->n_numbers, from->number, from->n_numbers,
              sizeof *from->number);
  report_take(to, STAGES, (void **)&to->stage, &to->n_stages, from->stage, from->n_stages,
              sizeof *from->stage);
  report_take(to, CONFUSED, (void **)&to->confused, &to->n_confused, from->confused,
              from->n_confused, sizeof *from->confused);
  report_take(to, HISTOGRAMS, (void **)&to->histogram, &to->n_histograms, from->histogram,
              from->n_histograms, sizeof *from->histogram);
  report_take(to, PICTURES, (void **)&to->picture, &to->n_pictures, from->picture, from->n_pictures,
              sizeof *from->picture);
}

static void report_fini_value(void *value) { mr_report_fini(value); }

mr_spec_t mr_report_spec(const mr_dataset_t *dataset, const mr_metric_list_t *metrics) {
  mr_spec_t spec = mr_spec_of_bytes(MR_FLOW_METRICS, sizeof(mr_report_t));
  spec.dataset = dataset, spec.metrics = metrics, spec.fini = report_fini_value;
  return spec;
}

/* ---- adding ---- */

static void report_add_number(mr_report_t *r, const mr_metric_def_t *def, const char *stage,
                              double value) {
  mr_number_t *m = report_append(r, NUMBERS, (void **)&r->number, &r->n_numbers, sizeof *r->number);
  if (m) *m = (mr_number_t){.def = def, .stage = stage, .value = value};
}

void mr_report_add(mr_report_t *r, const mr_metric_def_t *def, double value) {
  report_add_number(r, def, NULL, value);
}

void mr_report_add_stages(mr_report_t *r, const mr_stage_t *s) {
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    const mr_metric_def_t *m = mr_watch_def(s, i)->metrics;
    double value;
    for (int k = 0; m && m[k].name; k++)
      if (mr_watch_metric(s, i, k, &value)) report_add_number(r, &m[k], mr_watch_name(s, i), value);
  }
}

mr_stage_use_t *mr_report_add_stage(mr_report_t *r) {
  return report_append(r, STAGES, (void **)&r->stage, &r->n_stages, sizeof *r->stage);
}

mr_histogram_t *mr_report_add_histogram(mr_report_t *r) {
  return report_append(r, HISTOGRAMS, (void **)&r->histogram, &r->n_histograms,
                       sizeof *r->histogram);
}

mr_picture_t *mr_report_add_picture(mr_report_t *r) {
  return report_append(r, PICTURES, (void **)&r->picture, &r->n_pictures, sizeof *r->picture);
}

static int confused_by_place(const void *a, const void *b) {
  const mr_confused_t *x = a, *y = b;
  if (x->truth != y->truth) return x->truth < y->truth ? -1 : 1;
  return (x->guess > y->guess) - (x->guess < y->guess);
}

mr_class_score_t *mr_report_scores(const mr_report_t *r) {
  if (r->n_classes < 1) return NULL;
  mr_class_score_t *score = calloc((size_t)r->n_classes, sizeof *score);
  for (size_t i = 0; score && i < r->n_confused; i++) {
    const mr_confused_t *c = &r->confused[i];
    score[c->truth].records += c->count, score[c->guess].guessed += c->count;
    if (c->truth == c->guess) score[c->truth].f1 = c->count; /* the right ones, for now */
  }
  for (int64_t k = 0; score && k < r->n_classes; k++) {
    mr_class_score_t *s = &score[k];
    double right = s->f1, both = (double)(s->records + s->guessed);
    s->precision = s->guessed ? right / (double)s->guessed : 0;
    s->recall = s->records ? right / (double)s->records : 0;
    s->f1 = both > 0 ? 2 * right / both : 0;
  }
  return score;
}

void mr_report_confuse(mr_report_t *r, int64_t n_classes, const mr_confused_t *cell, size_t n) {
  report_take(r, CONFUSED, (void **)&r->confused, &r->n_confused, cell, n, sizeof *cell);
  if (r->n_confused < n) return; /* without memory there is no matrix rather than a false one */
  r->n_classes = n_classes;
  if (n) qsort(r->confused, n, sizeof *cell, confused_by_place);
}

/* ---- finding ---- */

bool mr_report_has(const mr_report_t *r, const mr_metric_def_t *def, double *value) {
  for (size_t i = 0; i < r->n_numbers; i++)
    if (r->number[i].def == def && !r->number[i].stage) {
      if (value) *value = r->number[i].value;
      return true;
    }
  return false;
}

double mr_report_get(const mr_report_t *r, const mr_metric_def_t *def, double otherwise) {
  double value;
  return mr_report_has(r, def, &value) ? value : otherwise;
}

const char *mr_report_kind_text(const mr_report_t *r) {
  switch (r->kind) {
    case MR_REPORT_STEP: return "step";
    case MR_REPORT_VALID: return r->input ? r->input : "valid";
    case MR_REPORT_TEST: return "test";
    case MR_REPORT_FINAL: return "final";
    case MR_REPORT_HISTOGRAMS: return "histograms";
    case MR_REPORT_SAMPLE: return "sample";
    case MR_REPORT_WRONG: return "wrong";
    case MR_REPORT_MARK: return "mark";
  }
  return "unknown";
}

bool mr_report_kind_is_valid(const char *kind) {
  size_t n = strlen("valid");
  return !strncmp(kind, "valid", n) && (!kind[n] || kind[n] == '.');
}

const char *mr_report_split(const mr_report_t *r) {
  switch (r->kind) {
    case MR_REPORT_STEP:
    case MR_REPORT_SAMPLE: return "train";
    case MR_REPORT_WRONG: return r->input ? r->input : "valid";
    default: return mr_report_kind_text(r);
  }
}
