/* Serves the newest numbers of a run at /metrics, as OpenMetrics or in Prometheus' older text
   format, whichever the scraper accepts. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "metrics/metrics.h"
#include "pipeline/stage_step.h"
#include "sinks/http.h"
#include "sinks/resume.h"

typedef struct prometheus {
  mr_http_settings_t set;
  mr_http_t http;
  int64_t reported;                         /* last step that was reported before a resume */
  pthread_mutex_t lock;                     /* guards the fields below */
  bool ready;                               /* the lock is initialised */
  mr_metrics_t step, measured, valid, test; /* newest of each; all zero before the first */
  int64_t n_steps;
  double steps_s; /* sum of step_s */
  bool over;
} prometheus_t;

static const mr_opt_t prometheus_opts[] = {MR_HTTP_OPTS(offsetof(prometheus_t, set), "9464"),
                                           MR_RESUME_REPORTED_OPT(offsetof(prometheus_t, reported)),
                                           {0}};

/* ---- the text ---- */

typedef struct page {
  FILE *out;
  bool open_metrics;
} page_t;

static void prometheus_head(const page_t *p, const char *name, const char *type, const char *help) {
  bool total = !p->open_metrics && !strcmp(type, "counter"); /* the older format names the sample */
  fprintf(p->out, "# HELP millrace_%s%s %s\n# TYPE millrace_%s%s %s\n", name, total ? "_total" : "",
          help, name, total ? "_total" : "", type);
}

static void gauge(const page_t *p, const char *name, const char *help, double v) {
  prometheus_head(p, name, "gauge", help);
  mr_fprintf(p->out, "millrace_%s %.9g\n", name, v);
}

static void counter(const page_t *p, const char *name, const char *help, double v) {
  prometheus_head(p, name, "counter", help);
  mr_fprintf(p->out, "millrace_%s_total %.17g\n", name, v);
}

static bool known(const mr_metrics_t *r, const char *name, double *v) {
  for (int i = 0; i < r->n; i++)
    if (!strcmp(r->m[i].name, name)) {
      *v = r->m[i].value;
      return true;
    }
  return false;
}

/* Prints a number of training, validation and test, distinguished by a label. */
static void by_split(const page_t *p, const prometheus_t *t, const char *name, const char *help) {
  const struct {
    const char *split;
    const mr_metrics_t *r;
  } row[] = {{"train", &t->step}, {"valid", &t->valid}, {"test", &t->test}};
  double v;
  prometheus_head(p, name, "gauge", help);
  for (int i = 0; i < 3; i++)
    if (known(row[i].r, name, &v))
      mr_fprintf(p->out, "millrace_%s{split=\"%s\"} %.9g\n", name, row[i].split, v);
}

static void one(const page_t *p, const mr_metrics_t *r, const char *metric, const char *name,
                const char *help) {
  double v;
  if (known(r, metric, &v)) gauge(p, name, help, v);
}

static void step_times(const page_t *p, const prometheus_t *t) {
  static const char *const quantile[][2] = {
      {"0.5", "step_p50_s"}, {"0.9", "step_p90_s"}, {"0.99", "step_p99_s"}};
  double v;
  prometheus_head(p, "step_seconds", "summary",
                  "Time a training step takes; quantiles of the latest 512.");
  for (int i = 0; i < 3; i++)
    if (known(&t->measured, quantile[i][1], &v))
      mr_fprintf(p->out, "millrace_step_seconds{quantile=\"%s\"} %.9g\n", quantile[i][0], v);
  mr_fprintf(p->out, "millrace_step_seconds_sum %.9g\nmillrace_step_seconds_count %" PRId64 "\n",
             t->steps_s, t->n_steps);
}

/* Prints a label's value; backslash, quote and newline are escaped. */
static void label(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '\\' || *text == '"') fputc('\\', out);
    if (*text == '\n')
      fputs("\\n", out);
    else
      fputc(*text, out);
  }
}

static void stages(const page_t *p, const mr_metrics_t *r) {
  if (!r->n_stages) return;
  prometheus_head(p, "stage_time_ratio", "gauge",
                  "Share of a stage's time by state: busy, starved, blocked.");
  for (int i = 0; i < r->n_stages; i++) {
    const mr_metrics_stage_t *st = &r->stage[i];
    const double share[] = {st->busy, st->starved, st->blocked};
    static const char *const state[] = {"busy", "starved", "blocked"};
    for (int k = 0; k < 3; k++) {
      fputs("millrace_stage_time_ratio{stage=\"", p->out);
      label(p->out, st->name);
      mr_fprintf(p->out, "\",state=\"%s\"} %.6g\n", state[k], share[k]);
    }
  }
  prometheus_head(p, "stage_queue_buffers", "gauge",
                  "Buffers found waiting at a stage's inputs, mean.");
  for (int i = 0; i < r->n_stages; i++) {
    fputs("millrace_stage_queue_buffers{stage=\"", p->out);
    label(p->out, r->stage[i].name);
    mr_fprintf(p->out, "\"} %.6g\n", r->stage[i].queue);
  }
  prometheus_head(p, "stage_buffers", "counter", "Buffers that a stage has given or taken.");
  for (int i = 0; i < r->n_stages; i++) {
    fputs("millrace_stage_buffers_total{stage=\"", p->out);
    label(p->out, r->stage[i].name);
    fprintf(p->out, "\"} %" PRId64 "\n", r->stage[i].items);
  }
}

/* Both can decrease when a process resumes from its checkpoint, so they are gauges. */
static void links(const page_t *p, const mr_metrics_t *r) {
  static const char *const name[] = {"link_released_buffers", "link_committed_buffers"};
  static const char *const help[] = {
      "Number before which the receiving end of a link holds no buffer.",
      "Number before which a link's buffers need not come again."};
  for (int k = 0; k < 2; k++) {
    bool any = false;
    for (int i = 0; i < r->n_stages; i++) {
      const mr_metrics_stage_t *st = &r->stage[i];
      if (!st->link) continue;
      if (!any) prometheus_head(p, name[k], "gauge", help[k]);
      any = true;
      fprintf(p->out, "millrace_%s{stage=\"", name[k]);
      label(p->out, st->name);
      fprintf(p->out, "\"} %" PRId64 "\n", k ? st->committed : st->released);
    }
  }
}

/* Prints the process and the machine; the GPU's rows only if there is one. */
static void machine(const page_t *p, const mr_metrics_t *r) {
  double v;
  one(p, r, "cpu_cores", "cpu_cores", "CPU seconds the process uses a second.");
  one(p, r, "rss_bytes", "resident_memory_bytes", "Resident memory of the process.");
  one(p, r, "rss_peak_bytes", "resident_memory_peak_bytes", "Most resident memory so far.");
  one(p, r, "disk_free_bytes", "disk_free_bytes", "Free space where the run lies.");
  if (known(r, "disk_read_bytes", &v))
    counter(p, "disk_read_bytes", "Bytes the process has read from disks.", v);
  if (known(r, "disk_written_bytes", &v))
    counter(p, "disk_written_bytes", "Bytes the process has written to disks.", v);
  if (known(r, "remote_bytes", &v))
    counter(p, "remote_bytes", "Bytes that sources have received from servers.", v);
  if (known(r, "remote_requests", &v))
    counter(p, "remote_requests", "Requests of sources to servers.", v);
  if (known(r, "remote_retries", &v))
    counter(p, "remote_retries", "Requests to servers that repeat another one.", v);
  one(p, r, "cache_hit_rate", "cache_hit_ratio", "Share of parts that the local cache had.");
  one(p, r, "gpu_busy", "gpu_busy_ratio", "Share of the time that the GPU works.");
  one(p, r, "gpu_memory_bytes", "gpu_memory_bytes", "Memory in use on the GPU.");
  one(p, r, "gpu_watts", "gpu_power_watts", "Power that the GPU draws.");
  one(p, r, "gpu_celsius", "gpu_temperature_celsius", "Temperature of the GPU.");
}

/* Prints nothing before the first step, or while a resumed run repeats steps that were scraped: the
   curves get a gap instead of going backwards. */
static void progress(const page_t *p, const prometheus_t *t) {
  if (!t->step.step) return;
  gauge(p, "step", "Training steps done, over all parts of a resumed run.", (double)t->step.step);
  gauge(p, "steps_planned", "Training steps of the whole run; 0: unknown.",
        (double)t->step.total_steps);
  gauge(p, "epoch", "Epoch of training, from 1.", (double)t->step.epoch);
  counter(p, "images", "Training images seen by this process's run, earlier parts included.",
          (double)t->step.images);
}

static void write_page(const page_t *p, const prometheus_t *t) {
  double v;
  progress(p, t);
  by_split(p, t, "loss", "Mean loss: of the newest batch, of the newest validation, of the test.");
  int n;
  const mr_metric_t *m = mr_metrics_judged(&t->step, &n);
  if (!m) m = mr_metrics_judged(&t->test, &n);
  for (int i = 0; i < n; i++)
    by_split(p, t, m[i].name,
             strcmp(m[i].name, "accuracy") ? "What the model is judged by, like loss."
                                           : "Share of right answers, like loss.");
  one(p, &t->step, "lr", "learning_rate", "Learning rate of the newest step.");
  one(p, &t->step, "grad_norm", "gradient_norm", "Global norm of the gradients, before clipping.");
  one(p, &t->step, "param_norm", "parameter_norm", "Global norm of the parameters.");
  one(p, &t->step, "loss_scale", "loss_scale",
      "What the loss was multiplied by before the gradient.");
  one(p, &t->step, "skipped_steps", "skipped_steps",
      "Steps whose update was skipped because loss or gradients were not finite.");
  one(p, &t->step, "images_per_s", "images_per_second", "Images a second of the newest step.");
  step_times(p, t);
  stages(p, &t->measured);
  links(p, &t->measured);
  machine(p, &t->measured);
  if (known(&t->measured, "telemetry_lost", &v))
    counter(p, "telemetry_lost", "Buffers that lossy inputs have let go.", v);
  counter(p, "publish_dropped", "Messages and buffers that slow subscribers have missed.",
          mr_metrics_get(&t->measured, "publish_dropped", 0));
  gauge(p, "finished", "1 once the run is over.", t->over);
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

static void prometheus_keep(prometheus_t *t, const mr_metrics_t *r) {
  if (r->kind == MR_METRICS_STEP) {
    if (!mr_resume_was_reported(t->reported, "step", r->step)) t->step = *r;
    t->n_steps++, t->steps_s += mr_metrics_get(r, "step_s", 0);
  }
  if (r->kind == MR_METRICS_VALID) t->valid = *r;
  if (r->kind == MR_METRICS_TEST) t->test = *r;
  if (r->n_stages) t->measured = *r;
  t->over |= r->kind == MR_METRICS_FINAL;
}

static mr_err_t prometheus_step(mr_stage_t *s) {
  prometheus_t *t = s->state;
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  pthread_mutex_lock(&t->lock);
  for (size_t i = 0; i < k; i++) {
    if (mr_metrics_is_numbers(b[i]->data)) prometheus_keep(t, b[i]->data);
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
