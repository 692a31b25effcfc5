/* Serves the newest numbers of a run at /metrics, as OpenMetrics or in Prometheus' older text
   format, whichever the scraper accepts. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "sinks/http.h"
#include "sinks/resume.h"

typedef struct prometheus {
  mr_http_settings_t set;
  mr_http_t http;
  int64_t reported, images; /* last step that was reported before a resume, and its images or, where
                               no step is repeated, those of the checkpoint */
  mr_stage_t *s;            /* for the definitions of its graph's metrics */
  pthread_mutex_t lock;     /* guards the fields below */
  bool ready;               /* the lock is initialised */
  mr_report_t step, measured; /* newest of each; all zero before the first */
  mr_report_t *evaluated;     /* [n_evaluated] newest of each input of held-back records and of the
                                 test; heap */
  size_t n_evaluated;
  int64_t n_steps;
  double steps_s; /* sum of step_s */
  bool over;
} prometheus_t;

static const mr_opt_t prometheus_opts[] = {
    MR_HTTP_OPTS(offsetof(prometheus_t, set), "9464"),
    MR_RESUME_REPORTED_OPT(offsetof(prometheus_t, reported)),
    {.name = "resume-images",
     .type = MR_OPT_INT,
     .offset = offsetof(prometheus_t, images),
     .unit = "images",
     .def = "0",
     .hi = 1e18,
     .help = "Training images up to resume-reported, or up to the checkpoint where no step is "
             "repeated; their counter begins there and waits there while steps are repeated."},
    {0}};

/* ---- the text ---- */

typedef struct page {
  FILE *out;
  bool open_metrics;
} page_t;

/* Prints a text in which backslash and newline are escaped, and a quote too if `quotes`. */
static void print_escaped(FILE *out, const char *text, bool quotes) {
  for (; *text; text++) {
    if (*text == '\\' || (*text == '"' && quotes)) fputc('\\', out);
    if (*text == '\n')
      fputs("\\n", out);
    else
      fputc(*text, out);
  }
}

static bool ends_with_unit(const char *name, const char *unit) {
  size_t n = strlen(name), k = strlen(unit);
  return n > k && name[n - k - 1] == '_' && !strcmp(name + n - k, unit);
}

/* unit: NULL or "" without one.  OpenMetrics has a line for it where the name ends with it; else it
   goes with the help.  The older format has no escape for a quote in a help. */
static void prometheus_head(const page_t *p, const char *name, const char *type, const char *help,
                            const char *unit) {
  bool has_unit = unit && *unit, named = has_unit && ends_with_unit(name, unit);
  bool total = !p->open_metrics && !strcmp(type, "counter"); /* the older format names the sample */
  fprintf(p->out, "# HELP millrace_%s%s ", name, total ? "_total" : "");
  print_escaped(p->out, help, p->open_metrics);
  if (has_unit && !named) {
    fputs(" Unit: ", p->out);
    print_escaped(p->out, unit, p->open_metrics);
    fputc('.', p->out);
  }
  if (named && p->open_metrics) fprintf(p->out, "\n# UNIT millrace_%s %s", name, unit);
  fprintf(p->out, "\n# TYPE millrace_%s%s %s\n", name, total ? "_total" : "", type);
}

/* Prometheus reads NaN and +Inf, and refuses the "-nan" that printf may print. */
static void put_value(FILE *out, double v) {
  if (isnan(v))
    fputs(" NaN\n", out);
  else if (isinf(v))
    fputs(v > 0 ? " +Inf\n" : " -Inf\n", out);
  else if (v == trunc(v) && fabs(v) < 1e15)
    fprintf(out, " %" PRId64 "\n", (int64_t)v);
  else
    mr_fprintf(out, " %.9g\n", v);
}

static void print_gauge(const page_t *p, const char *name, const char *help, const char *unit,
                        double v) {
  prometheus_head(p, name, "gauge", help, unit);
  fprintf(p->out, "millrace_%s", name), put_value(p->out, v);
}

static void print_counter(const page_t *p, const char *name, const char *help, const char *unit,
                          double v) {
  prometheus_head(p, name, "counter", help, unit);
  fprintf(p->out, "millrace_%s_total", name), put_value(p->out, v);
}

static void print_label(FILE *out, const char *text) { print_escaped(out, text, true); }

/* ---- numbers by the table ---- */

static const char *series_of(const mr_metric_def_t *d) {
  return d->prometheus ? d->prometheus : d->name;
}
static const char *help_of(const mr_metric_def_t *d) {
  return d->help && *d->help ? d->help : "As its stage or model reports it.";
}

/* Prints a number of training and of each evaluation, distinguished by a label. */
static void print_by_split(const page_t *p, const prometheus_t *t, const mr_metric_def_t *d) {
  double v;
  prometheus_head(p, series_of(d), "gauge", help_of(d), d->unit);
  for (size_t i = 0; i <= t->n_evaluated; i++) {
    const mr_report_t *r = i ? &t->evaluated[i - 1] : &t->step;
    if (!mr_report_has(r, d, &v)) continue;
    fprintf(p->out, "millrace_%s{split=\"", series_of(d));
    print_label(p->out, i ? mr_report_split(r) : "train");
    fputs("\"}", p->out), put_value(p->out, v);
  }
}

/* Prints a number of the newest report that has it. */
static void one_number(const page_t *p, const mr_report_t *r, const mr_metric_def_t *d) {
  double v;
  if (mr_report_has(r, d, &v))
    (d->total ? print_counter : print_gauge)(p, series_of(d), help_of(d), d->unit, v);
}

/* What millrace itself reports of steps and of the machine, in the order of the table. */
static void own_numbers(const page_t *p, const prometheus_t *t, mr_metric_role_t role) {
  for (int i = 0; i < MR_METRICS_N; i++) {
    const mr_metric_def_t *d = &mr_metric_table[i];
    if (d->role != role || !d->prometheus) continue;
    if (d == MR_METRIC_OWN(PUBLISH_DROPPED))
      print_counter(p, series_of(d), help_of(d), d->unit, mr_report_get(&t->measured, d, 0));
    else
      one_number(p, role == MR_METRIC_STEP ? &t->step : &t->measured, d);
  }
}

/* What the model is judged by, and what its stage declares besides. */
static void declared_numbers(const page_t *p, const prometheus_t *t) {
  const mr_metric_list_t *list = t->s->in_spec[0].metrics;
  for (size_t i = 0; list && i < list->n; i++) {
    const mr_metric_def_t *d = list->def[i];
    if (d->role == MR_METRIC_JUDGED && d != MR_METRIC_OWN(LOSS))
      print_by_split(p, t, d);
    else if (mr_metric_own(d->name) != d)
      one_number(p, &t->step, d);
  }
}

static void step_times(const page_t *p, const prometheus_t *t) {
  const struct {
    const char *quantile;
    const mr_metric_def_t *def;
  } row[] = {{"0.5", MR_METRIC_OWN(STEP_P50_S)},
             {"0.9", MR_METRIC_OWN(STEP_P90_S)},
             {"0.99", MR_METRIC_OWN(STEP_P99_S)}};
  double v;
  prometheus_head(p, "step_seconds", "summary",
                  "Time a training step takes; quantiles of the latest 512.", "seconds");
  for (int i = 0; i < 3; i++)
    if (mr_report_has(&t->measured, row[i].def, &v)) {
      fprintf(p->out, "millrace_step_seconds{quantile=\"%s\"}", row[i].quantile);
      put_value(p->out, v);
    }
  fputs("millrace_step_seconds_sum", p->out), put_value(p->out, t->steps_s);
  fprintf(p->out, "millrace_step_seconds_count %" PRId64 "\n", t->n_steps);
}

/* ---- stages ---- */

static void print_stages(const page_t *p, const mr_report_t *r) {
  if (!r->n_stages) return;
  prometheus_head(p, "stage_time_ratio", "gauge",
                  "Share of a stage's time by state: busy, starved, blocked.", "ratio");
  for (size_t i = 0; i < r->n_stages; i++) {
    const mr_stage_use_t *st = &r->stage[i];
    const double share[] = {st->busy, st->starved, st->blocked};
    static const char *const state[] = {"busy", "starved", "blocked"};
    for (int k = 0; k < 3; k++) {
      fputs("millrace_stage_time_ratio{stage=\"", p->out);
      print_label(p->out, st->name);
      mr_fprintf(p->out, "\",state=\"%s\"} %.6g\n", state[k], share[k]);
    }
  }
  prometheus_head(p, "stage_queue_buffers", "gauge",
                  "Buffers found waiting at a stage's inputs, mean.", "buffers");
  for (size_t i = 0; i < r->n_stages; i++) {
    fputs("millrace_stage_queue_buffers{stage=\"", p->out);
    print_label(p->out, r->stage[i].name);
    mr_fprintf(p->out, "\"} %.6g\n", r->stage[i].queue);
  }
  prometheus_head(p, "stage_buffers", "counter", "Buffers that a stage has given or taken.",
                  "buffers");
  for (size_t i = 0; i < r->n_stages; i++) {
    fputs("millrace_stage_buffers_total{stage=\"", p->out);
    print_label(p->out, r->stage[i].name);
    fprintf(p->out, "\"} %" PRId64 "\n", r->stage[i].items);
  }
}

/* Both can decrease when a process resumes from its checkpoint, so they are gauges. */
static void print_links(const page_t *p, const mr_report_t *r) {
  static const char *const name[] = {"link_released_buffers", "link_committed_buffers"};
  static const char *const help[] = {
      "Number before which the receiving end of a link holds no buffer.",
      "Number before which a link's buffers need not come again."};
  for (int k = 0; k < 2; k++) {
    bool any = false;
    for (size_t i = 0; i < r->n_stages; i++) {
      const mr_stage_use_t *st = &r->stage[i];
      if (!st->link) continue;
      if (!any) prometheus_head(p, name[k], "gauge", help[k], "buffers");
      any = true;
      fprintf(p->out, "millrace_%s{stage=\"", name[k]);
      print_label(p->out, st->name);
      fprintf(p->out, "\"} %" PRId64 "\n", k ? st->committed : st->released);
    }
  }
}

/* Whether number i is the first of its name among those of stages. */
static bool begins_series(const mr_report_t *r, size_t i) {
  if (!r->number[i].stage) return false;
  for (size_t k = 0; k < i; k++)
    if (r->number[k].stage && !strcmp(r->number[k].def->name, r->number[i].def->name)) return false;
  return true;
}

/* Prints what stages report, stage_NAME with the stage as a label.  Where several stages declare
   one name, it is a counter only if it is a total for all of them. */
static void print_stage_reports(const page_t *p, const mr_report_t *r) {
  char name[MR_METRIC_NAME_MAX + 16];
  for (size_t i = 0; i < r->n_numbers; i++) {
    if (!begins_series(r, i)) continue;
    const mr_metric_def_t *d = r->number[i].def;
    bool total = true;
    for (size_t k = i; k < r->n_numbers; k++)
      if (r->number[k].stage && !strcmp(r->number[k].def->name, d->name))
        total &= r->number[k].def->total;
    snprintf(name, sizeof name, "stage_%s", d->name);
    prometheus_head(p, name, total ? "counter" : "gauge", help_of(d), d->unit);
    for (size_t k = i; k < r->n_numbers; k++) {
      const mr_number_t *m = &r->number[k];
      if (!m->stage || strcmp(m->def->name, d->name) != 0) continue;
      fprintf(p->out, "millrace_%s%s{stage=\"", name, total ? "_total" : "");
      print_label(p->out, m->stage);
      fputs("\"}", p->out), put_value(p->out, m->value);
    }
  }
}

/* Whether the newest step is one that was reported before a resume; before the first step, whether
   it will be. */
static bool is_repeating(const prometheus_t *t) {
  return mr_resume_was_reported(t->reported, "step", t->step.step);
}

/* Before the first step of a resumed run prints only what is known of it.  While it repeats steps,
   gauges are those of the repeated step, and the counter waits, since it may never go back. */
static void print_progress(const page_t *p, const prometheus_t *t) {
  print_gauge(p, "repeating_until_step",
              "Last step that was reported before a resume, while the steps up to it are repeated; "
              "0: none is.",
              NULL, is_repeating(t) ? (double)t->reported : 0);
  if (t->step.step) {
    print_gauge(p, "step", "Training steps done, over all parts of a resumed run.", NULL,
                (double)t->step.step);
    print_gauge(p, "steps_planned", "Training steps of the whole run; 0: unknown.", NULL,
                (double)t->step.total_steps);
    print_gauge(p, "epoch", "Epoch of training, from 1.", NULL, (double)t->step.epoch);
  }
  if (!t->step.step && !t->images) return;
  print_counter(p, "images", "Training images seen by this process's run, earlier parts included.",
                "images", (double)(t->step.images > t->images ? t->step.images : t->images));
}

static void write_page(const page_t *p, const prometheus_t *t) {
  print_progress(p, t);
  print_by_split(p, t, MR_METRIC_OWN(LOSS));
  declared_numbers(p, t);
  own_numbers(p, t, MR_METRIC_STEP);
  step_times(p, t);
  print_stages(p, &t->measured);
  print_links(p, &t->measured);
  print_stage_reports(p, t->step.step ? &t->step : &t->measured);
  own_numbers(p, t, MR_METRIC_MACHINE);
  print_gauge(p, "finished", "1 once the run is over.", NULL, t->over);
  if (p->open_metrics) fputs("# EOF\n", p->out);
}

/* ---- answering ---- */

static struct MHD_Response *prometheus_answer(void *arg, struct MHD_Connection *c,
                                              const char *path) {
  prometheus_t *t = arg;
  const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
  page_t p = {.open_metrics = accept && strstr(accept, "application/openmetrics-text")};
  mr_text_out_t text;
  if (strcmp(path, "/metrics") || !(p.out = mr_text_out_open(&text))) return NULL;
  pthread_mutex_lock(&t->lock);
  write_page(&p, t);
  pthread_mutex_unlock(&t->lock);
  size_t n;
  char *whole = mr_text_out_close(&text, p.out, &n);
  if (!whole) return NULL;
  return mr_http_text(whole, n,
                      p.open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                     : "text/plain; version=0.0.4; charset=utf-8");
}

/* ---- the stage ---- */

static mr_err_t prometheus_plan(mr_stage_t *s) {
  return mr_http_plan(s, &((prometheus_t *)s->state)->set);
}

static mr_err_t prometheus_open(mr_stage_t *s) {
  prometheus_t *t = s->state;
  char url[512];
  t->s = s;
  pthread_mutex_init(&t->lock, NULL);
  t->ready = true;
  /* A token is needed only beyond loopback. */
  bool beyond = t->set.cert[0] != 0;
  MR_TRY(mr_http_open(&t->http, s, &t->set, beyond, NULL, prometheus_answer, t));
  mr_http_url(&t->http, url, sizeof url);
  char *query = strchr(url, '?');
  mr_announce("%s: %.*smetrics%s", s->name, (int)(query ? query - url : (long)strlen(url)), url,
              query ? query : "");
  return MR_OK;
}

/* Keeps an evaluation in the place of the one before of its input. */
static void keep_evaluation(prometheus_t *t, const mr_report_t *r) {
  size_t i = 0;
  while (i < t->n_evaluated && strcmp(mr_report_split(&t->evaluated[i]), mr_report_split(r)) != 0)
    i++;
  if (i == t->n_evaluated) {
    mr_report_t *more = realloc(t->evaluated, (i + 1) * sizeof *more);
    if (!more) return; /* the next one may find memory */
    t->evaluated = more;
    t->evaluated[t->n_evaluated++] = (mr_report_t){0};
  }
  mr_report_copy(&t->evaluated[i], r);
}

static void prometheus_keep(prometheus_t *t, const mr_report_t *r) {
  if (r->kind == MR_REPORT_STEP) {
    mr_report_copy(&t->step, r);
    t->n_steps++, t->steps_s += mr_report_get(r, MR_METRIC_OWN(STEP_S), 0);
  }
  if (r->kind == MR_REPORT_VALID || r->kind == MR_REPORT_TEST) keep_evaluation(t, r);
  if (r->n_stages) mr_report_copy(&t->measured, r);
  t->over |= r->kind == MR_REPORT_FINAL;
}

static mr_err_t prometheus_step(mr_stage_t *s) {
  prometheus_t *t = s->state;
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  pthread_mutex_lock(&t->lock);
  for (size_t i = 0; i < k; i++) {
    if (mr_report_is_numbers(b[i]->data)) prometheus_keep(t, b[i]->data);
    mr_buf_unref(b[i]);
  }
  pthread_mutex_unlock(&t->lock);
  return k ? MR_OK : mr_idle(s);
}

static void prometheus_close(mr_stage_t *s) {
  prometheus_t *t = s->state;
  mr_http_close(&t->http);
  if (t->ready) pthread_mutex_destroy(&t->lock);
  t->ready = false;
  mr_report_fini(&t->step), mr_report_fini(&t->measured);
  for (size_t i = 0; i < t->n_evaluated; i++) mr_report_fini(&t->evaluated[i]);
  free(t->evaluated);
  t->evaluated = NULL, t->n_evaluated = 0;
}

const mr_stage_def_t mr_stage_prometheus = {
    .name = "prometheus",
    .help = "Serves the newest metrics at /metrics for Prometheus.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = prometheus_opts,
    .state_sz = sizeof(prometheus_t),
    .plan = prometheus_plan,
    .open = prometheus_open,
    .close = prometheus_close,
    .step = &(const mr_step_def_t){.run = prometheus_step},
};
