/* Adds measurements to the records of training, in its own thread: shares and queues of every
   stage, step-time quantiles, the process and the machine.

   Its input is lossy, so the training step never waits for it; all sinks after it get the same
   numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "pipeline/watch/watch.h"
#include "sinks/usage.h"

enum { WINDOW = 512 }; /* latest step times, for the quantiles */

typedef struct telemetry {
  double every;
  const char *disk;
  double took[WINDOW];
  int64_t n_took;
  double at;     /* time of the last measurement, mr_now_s; of open before the first */
  bool measured; /* the first record is measured too: so that a page shows every number at once */
  mr_usage_t usage;
  mr_gpu_t gpu;
  mr_stats_t *before; /* [n_stages] */
} telemetry_t;

static const mr_opt_t telemetry_opts[] = {
    {.name = "every",
     .type = MR_OPT_F64,
     .offset = offsetof(telemetry_t, every),
     .unit = "s",
     .def = "1",
     .lo = 0,
     .hi = 1e6,
     .help =
         "Seconds between measurements, the first with the first record; records in between pass "
         "unchanged."},
    {.name = "disk",
     .type = MR_OPT_STR,
     .offset = offsetof(telemetry_t, disk),
     .unit = "",
     .def = ".",
     .help = "Folder on the disk whose free space is reported."},
    {0}};

static mr_err_t telemetry_plan(mr_stage_t *s) {
  s->out_spec[0] = s->in_spec[0];
  return MR_OK;
}

static mr_err_t telemetry_open(mr_stage_t *s) {
  telemetry_t *t = s->state;
  t->at = mr_now_s();
  mr_usage_read(t->disk, &t->usage);
  mr_gpu_open(&t->gpu); /* without a GPU its numbers are missing */
  t->before = calloc((size_t)mr_watch_n_stages(s) + 1, sizeof *t->before);
  return t->before ? MR_OK : mr_stage_no_memory(s, "%d stages", mr_watch_n_stages(s));
}

static void telemetry_close(mr_stage_t *s) {
  telemetry_t *t = s->state;
  mr_gpu_close(&t->gpu);
  free(t->before);
  t->before = NULL;
}

static int telemetry_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void add_quantiles(const telemetry_t *t, mr_report_t *r) {
  double sorted[WINDOW];
  size_t n = t->n_took < WINDOW ? (size_t)t->n_took : WINDOW;
  if (!n) return;
  memcpy(sorted, t->took, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, telemetry_by_value);
  mr_report_add(r, MR_METRIC_OWN(STEP_P50_S), sorted[(n - 1) / 2]);
  mr_report_add(r, MR_METRIC_OWN(STEP_P90_S), sorted[(n - 1) * 9 / 10]);
  mr_report_add(r, MR_METRIC_OWN(STEP_P99_S), sorted[(n - 1) * 99 / 100]);
}

static double telemetry_share(int64_t part, int64_t whole) {
  return whole > 0 ? (double)part / (double)whole : 0;
}

/* Whether a stage produces metrics from something else than metrics. */
static bool makes_metrics(const mr_stage_def_t *def) {
  for (int p = 0; p < MR_MAX_PORTS && def->in[0].flow != MR_FLOW_METRICS && def->out[p].name; p++)
    if (def->out[p].flow == MR_FLOW_METRICS) return true;
  return false;
}

/* Adds shares since the last measurement.  The final record has those of a stage's whole life,
   because the stage may have ended before the last interval began. */
static void telemetry_add_stages(mr_stage_t *s, mr_report_t *r) {
  static const mr_stats_t birth;
  telemetry_t *t = s->state;
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    mr_stats_t now;
    const mr_stats_t *was = r->kind == MR_REPORT_FINAL ? &birth : &t->before[i];
    const char *name = mr_watch_stage(s, i, &now);
    if (!now.workers) continue;
    int64_t alive = now.alive_ns - was->alive_ns;
    mr_stage_use_t *use = mr_report_add_stage(r);
    if (use)
      *use = (mr_stage_use_t){.name = name,
                              .busy = telemetry_share(now.busy_ns - was->busy_ns, alive),
                              .starved = telemetry_share(now.starved_ns - was->starved_ns, alive),
                              .blocked = telemetry_share(now.blocked_ns - was->blocked_ns, alive),
                              .queue = now.depth,
                              .trains = makes_metrics(mr_watch_def(s, i)),
                              .items = now.items,
                              .link = now.link,
                              .released = now.released,
                              .committed = now.committed};
    t->before[i] = now;
  }
}

static void add_known(mr_report_t *r, const mr_metric_def_t *def, double v) {
  if (v >= 0) mr_report_add(r, def, v);
}

static void add_usage(telemetry_t *t, mr_report_t *r, double passed) {
  mr_usage_t now;
  mr_usage_read(t->disk, &now);
  if (passed > 0) mr_report_add(r, MR_METRIC_OWN(CPU_CORES), (now.cpu_s - t->usage.cpu_s) / passed);
  add_known(r, MR_METRIC_OWN(RSS_BYTES), now.rss);
  add_known(r, MR_METRIC_OWN(RSS_PEAK_BYTES), now.peak_rss);
  add_known(r, MR_METRIC_OWN(DISK_READ_BYTES), now.read);
  add_known(r, MR_METRIC_OWN(DISK_WRITTEN_BYTES), now.written);
  add_known(r, MR_METRIC_OWN(DISK_FREE_BYTES), now.disk_free);
  t->usage = now;
}

static void add_gpu(const telemetry_t *t, mr_report_t *r) {
  mr_gpu_now_t g;
  if (!mr_gpu_read(&t->gpu, &g)) return;
  add_known(r, MR_METRIC_OWN(GPU_BUSY), g.busy);
  add_known(r, MR_METRIC_OWN(GPU_MEMORY_BYTES), g.memory);
  add_known(r, MR_METRIC_OWN(GPU_WATTS), g.watts);
  add_known(r, MR_METRIC_OWN(GPU_CELSIUS), g.celsius);
}

/* What was asked of servers so far, and the share of the parts that the local cache had. */
static void add_asked(mr_stage_t *s, mr_report_t *r) {
  mr_asked_t a;
  if (!mr_watch_asked(s, &a)) return;
  mr_report_add(r, MR_METRIC_OWN(REMOTE_BYTES), (double)a.bytes);
  mr_report_add(r, MR_METRIC_OWN(REMOTE_REQUESTS), (double)a.requests);
  mr_report_add(r, MR_METRIC_OWN(REMOTE_RETRIES), (double)a.again);
  if (a.uses) mr_report_add(r, MR_METRIC_OWN(CACHE_HIT_RATE), (double)a.hits / (double)a.uses);
}

static int64_t lost_anywhere(const mr_stage_t *s) {
  int64_t n = 0;
  for (int i = 0; i < mr_watch_n_edges(s); i++) {
    mr_watch_edge_t e;
    mr_watch_edge(s, i, &e);
    n += e.lost;
  }
  return n;
}

/* Messages dropped by all publishing stages; -1 if the graph has none. */
static int64_t dropped_anywhere(const mr_stage_t *s) {
  int64_t n = -1;
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    mr_stats_t st;
    mr_watch_stage(s, i, &st);
    const mr_step_def_t *step = mr_watch_def(s, i)->step;
    if (step && step->publishes) n = (n < 0 ? 0 : n) + st.dropped;
  }
  return n;
}

static void telemetry_measure(mr_stage_t *s, mr_report_t *r) {
  telemetry_t *t = s->state;
  if (!mr_report_is_numbers(r)) return;
  double now = mr_now_s(), passed = now - t->at;
  double took = mr_report_get(r, MR_METRIC_OWN(STEP_S), -1);
  if (r->kind == MR_REPORT_STEP && took >= 0) t->took[t->n_took++ % WINDOW] = took;
  if (r->kind == MR_REPORT_STEP && t->measured && passed < t->every) return;
  t->at = now, t->measured = true;
  add_quantiles(t, r);
  telemetry_add_stages(s, r);
  add_usage(t, r, passed);
  add_gpu(t, r);
  add_asked(s, r);
  mr_report_add(r, MR_METRIC_OWN(TELEMETRY_LOST), (double)lost_anywhere(s));
  add_known(r, MR_METRIC_OWN(PUBLISH_DROPPED), (double)dropped_anywhere(s));
}

/* Passes a copy on, since other stages may read the input too. */
static mr_err_t telemetry_pass_on(mr_stage_t *s, mr_buf_t *in) {
  mr_buf_t *out;
  mr_err_t e = mr_fresh(s, 0, &out);
  if (e != MR_OK) return e;
  mr_report_t *r = out->data;
  mr_report_copy(r, in->data);
  out->size = sizeof *r;
  telemetry_measure(s, r);
  bool whole = !r->incomplete;
  e = mr_push(s, 0, out);
  return whole || e < 0 ? e : mr_stage_no_memory(s, "a report");
}

static mr_err_t telemetry_step(mr_stage_t *s) {
  mr_buf_t *b;
  if (!mr_take(s, 0, &b, 1)) return mr_idle(s);
  mr_err_t e = telemetry_pass_on(s, b);
  mr_buf_unref(b);
  return e;
}

const mr_stage_def_t mr_stage_telemetry = {
    .name = "telemetry",
    .help =
        "Adds busy shares of stages, queue depths, step-time quantiles, CPU, memory and disk usage "
        "to metrics.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .out = {{.name = "metrics", .flow = MR_FLOW_METRICS}},
    .opts = telemetry_opts,
    .state_sz = sizeof(telemetry_t),
    .plan = telemetry_plan,
    .open = telemetry_open,
    .close = telemetry_close,
    .step = &(const mr_step_def_t){.run = telemetry_step},
};
