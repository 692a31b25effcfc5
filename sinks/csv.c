/* Metrics as a table: a row a record, a column a number.  The columns are fixed; what a record does
   not have is an empty field. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "pipeline/metrics.h"
#include "sinks/appender.h"
#include "sinks/resume.h"

static const char head[] =
    "kind,step,epoch,images,elapsed_s,loss,accuracy,lr,grad_norm,param_norm,loss_scale,step_s,"
    "images_per_s,step_p50_s,step_p90_s,step_p99_s,cpu_cores,rss_bytes,rss_peak_bytes,"
    "disk_read_bytes,disk_written_bytes,disk_free_bytes,gpu_busy,gpu_memory_bytes,gpu_watts,"
    "gpu_celsius,telemetry_lost,publish_dropped,ledger\n";

typedef struct csv {
  const char *path;
  mr_resume_t resume;
  mr_appender_t out;
} csv_t;

static const mr_opt_t csv_opts[] = {{.name = "path",
                                     .type = MR_OPT_STR,
                                     .offset = offsetof(csv_t, path),
                                     .unit = "",
                                     .def = "metrics.csv",
                                     .help = "File to write; its folder is made if need be.",
                                     .positional = 1},
                                    MR_RESUME_OPTS(offsetof(csv_t, resume)),
                                    {0}};

static bool row_holds(const void *arg, const char *line, size_t n) {
  char kind[16];
  long long step;
  if (n == sizeof head - 1 && !memcmp(line, head, n)) return true;
  return sscanf(line, "%15[a-z],%lld,", kind, &step) == 2 &&
         mr_resume_keeps(arg, kind, (double)step);
}

static mr_err_t csv_plan(mr_stage_t *s) {
  const csv_t *c = s->state;
  return c->path && c->path[0]
             ? MR_OK
             : mr_stage_fail(s, MR_ERR_CONFIG, "path: \"\", expected a file name");
}

/* An earlier file with other columns cannot be gone on with: it would mix two tables. */
static mr_err_t same_head(const char *path, mr_diag_t *diag) {
  char line[sizeof head] = "";
  FILE *f = fopen(path, "re");
  if (!f) return MR_OK;
  bool same = !fgets(line, sizeof line, f) || !strcmp(line, head);
  fclose(f);
  return same ? MR_OK
              : mr_fail(diag, MR_ERR_DATA,
                        "%s: has other columns than this version writes; name another path", path);
}

static mr_err_t prepare(mr_stage_t *s, mr_diag_t *diag) {
  csv_t *c = s->state;
  bool again = c->resume.step >= 0;
  if (again) MR_TRY(same_head(c->path, diag));
  if (again) MR_TRY(mr_resume_cut(c->path, row_holds, &c->resume, diag));
  MR_TRY(mr_appender_open(&c->out, c->path, again, diag));
  if (!mr_appender_size(&c->out)) mr_appender_add(&c->out, s, head, sizeof head - 1);
  return MR_OK;
}

static mr_err_t csv_open(mr_stage_t *s) {
  mr_diag_t diag = {0};
  mr_err_t e = prepare(s, &diag);
  return e < 0 ? mr_stage_fail(s, e, "%s", diag.text) : MR_OK;
}

/* The value of a named column into text, or nothing. */
static void field(const mr_metrics_t *r, const char *name, char *text, size_t n) {
  text[0] = 0;
  for (int i = 0; i < r->n; i++)
    if (!strcmp(r->m[i].name, name)) snprintf(text, n, "%.9g", r->m[i].value);
}

static void csv_write(mr_stage_t *s, const mr_metrics_t *r) {
  csv_t *c = s->state;
  char row[2048], names[sizeof head], *save = NULL;
  strcpy(names, head);
  names[strcspn(names, "\n")] = 0;
  int n = snprintf(row, sizeof row, "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6f",
                   mr_metrics_kind_text(r->kind), r->step, r->epoch, r->images, r->elapsed_s);
  int column = 0;
  for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
    char text[40];
    if (column++ < 5 || !strcmp(name, "ledger")) continue; /* written by themselves */
    field(r, name, text, sizeof text);
    n += snprintf(row + n, sizeof row - (size_t)n, ",%s", text);
  }
  n += snprintf(row + n, sizeof row - (size_t)n, ",%016" PRIx64 "\n", r->ledger);
  mr_appender_add(&c->out, s, row, (size_t)n);
}

static mr_err_t csv_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    if (mr_metrics_is_numbers(b[i]->data)) csv_write(s, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void csv_close(mr_stage_t *s) { mr_appender_close(&((csv_t *)s->state)->out, s); }

static void csv_report(mr_stage_t *s, char *text, size_t n) {
  const csv_t *c = s->state;
  char lost[48];
  mr_appender_lost_text(&c->out, lost, sizeof lost);
  snprintf(text, n, "%" PRId64 " rows in %s%s", c->out.written, c->path, lost);
}

const mr_stage_def_t mr_stage_csv = {
    .name = "csv",
    .help = "Writes the numbers of every metrics record as a row of a table.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = csv_opts,
    .state_sz = sizeof(csv_t),
    .plan = csv_plan,
    .open = csv_open,
    .close = csv_close,
    .step = csv_step,
    .report = csv_report,
};
