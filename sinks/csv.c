/* Metrics as a table: one row per record, one column per number.  The first record with a loss
   fixes the columns: those of every run, among them the numbers that the model is judged by, then
   those of the graph's stages, STAGE.NUMBER.  A number that a record does not have is an empty
   field. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xio.h"
#include "metrics/metrics.h"
#include "pipeline/stage_step.h"
#include "pipeline/watch/watch.h"
#include "sinks/appender.h"
#include "sinks/resume.h"

enum { HEAD_MAX = 1 << 16 };

/* The numbers that the model is judged by come between these two. */
static const char of_run[] = "kind,step,epoch,images,elapsed_s,loss";
static const char behind_judged[] =
    ",lr,grad_norm,param_norm,loss_scale,step_s,"
    "images_per_s,step_p50_s,step_p90_s,step_p99_s,cpu_cores,rss_bytes,rss_peak_bytes,"
    "disk_read_bytes,disk_written_bytes,disk_free_bytes,gpu_busy,gpu_memory_bytes,gpu_watts,"
    "gpu_celsius,telemetry_lost,publish_dropped,ledger";

typedef struct csv {
  const char *path;
  mr_resume_t resume;
  char *head;          /* the names of the columns, with the newline; NULL: unknown yet; heap */
  char *of_stages;     /* the end of a new head: ",batch.busy,...\n"; heap */
  mr_metrics_t *early; /* [n_early] steps that were skipped before the head was known; heap */
  size_t n_early;
  mr_appender_t out;
} csv_t;

static const mr_opt_t csv_opts[] = {
    {.name = "path",
     .hint = "file filename filepath logfile location",
     .type = MR_OPT_STR,
     .offset = offsetof(csv_t, path),
     .unit = "",
     .def = "metrics.csv",
     .help = "File to write; its folder is created if it is missing.",
     .positional = 1},
    MR_RESUME_OPTS(offsetof(csv_t, resume)),
    {0}};

static bool read_row(const void *arg, const char *line, size_t n, mr_resume_line_t *out) {
  const csv_t *c = arg;
  char start[64]; /* sscanf calls strlen on its text, so it gets the start alone */
  snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), line);
  out->head = c->head && n == strlen(c->head) && !memcmp(line, c->head, n);
  if (out->head) return true;
  return !memchr(line, 0, n) && sscanf(start, "%15[a-z],%" SCNd64 ",", out->kind, &out->step) == 2;
}

static mr_err_t csv_plan(mr_stage_t *s) {
  const csv_t *c = s->state;
  return c->path && c->path[0] ? MR_OK
                               : mr_stage_fail(s, MR_ERR_CONFIG, "path = \"\": want a file name");
}

/* The columns of what is asked of servers, if a source of the graph does so; then those of the
   graph's stages: five for each stage with threads, two more for a link's end. */
static char *of_stages(const mr_stage_t *s) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  if (!out) return NULL;
  mr_asked_t asked;
  if (mr_watch_asked(s, &asked))
    fputs(",remote_bytes,remote_requests,remote_retries,cache_hit_rate", out);
  for (int i = 0, reported = 0; i < mr_watch_n_stages(s) && reported < MR_METRICS_STAGES; i++) {
    mr_stats_t so_far;
    const char *name = mr_watch_stage(s, i, &so_far);
    if (!mr_watch_n_workers(s, i)) continue;
    fprintf(out, ",%s.busy,%s.starved,%s.blocked,%s.queue,%s.items", name, name, name, name, name);
    const mr_step_def_t *step = mr_watch_def(s, i)->step;
    if (step && step->outside) fprintf(out, ",%s.released,%s.committed", name, name);
    reported++;
  }
  fputc('\n', out);
  return mr_text_out_close(&text, out, NULL);
}

/* Takes the columns of an earlier file, whatever stages the graph has now.  A file that begins with
   other columns is refused: it would become two tables. */
static mr_err_t take_head(csv_t *c, const char *line, mr_diag_t *diag) {
  size_t n = sizeof of_run - 1, length = strlen(line);
  bool whole = length && line[length - 1] == '\n';
  bool ours = !strncmp(of_run, line, length < n ? length : n);
  if (!whole && ours) return MR_OK; /* the line was cut by a kill, or the file is empty */
  const char *behind = ours && length > n ? strstr(line + n, behind_judged) : NULL;
  char end = behind ? behind[sizeof behind_judged - 1] : 0;
  if (end != ',' && end != '\n')
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: has other columns than this version writes; name another path", c->path);
  c->head = strdup(line);
  return c->head ? MR_OK : mr_no_memory(diag, "the columns");
}

/* Takes over the columns of a file that an earlier part of the run has written; a missing one has
   none. */
static mr_err_t head_in_file(csv_t *c, mr_diag_t *diag) {
  FILE *f = mr_open_regular(c->path);
  if (!f) return MR_OK;
  char *line = calloc(1, HEAD_MAX);
  mr_err_t e = line ? take_head(c, fgets(line, HEAD_MAX, f) ? line : "", diag)
                    : mr_no_memory(diag, "the columns");
  fclose(f);
  free(line);
  return e;
}

static mr_err_t csv_prepare(mr_stage_t *s, mr_diag_t *diag) {
  csv_t *c = s->state;
  bool again = c->resume.step >= 0;
  if (!(c->of_stages = of_stages(s))) return mr_no_memory(diag, "the columns");
  if (again) MR_TRY(head_in_file(c, diag));
  if (again) MR_TRY(mr_resume_cut(s, c->path, &c->resume, read_row, c, diag));
  MR_TRY(mr_appender_open(&c->out, s, c->path, again, diag));
  if (c->head && !mr_appender_size(&c->out)) mr_appender_add(&c->out, s, c->head, strlen(c->head));
  return MR_OK;
}

static mr_err_t csv_open(mr_stage_t *s) {
  mr_diag_t diag = {0};
  mr_err_t e = csv_prepare(s, &diag);
  return mr_stage_relay(s, e, &diag);
}

/* Prints a stage's number by the column's name; nothing for released and committed unless the stage
   is a link's end. */
static void put_of_stage(FILE *out, const mr_metrics_stage_t *s, const char *name) {
  if (!strncmp(name, "busy", 4)) mr_fprintf(out, "%.4g", s->busy);
  if (!strncmp(name, "starved", 7)) mr_fprintf(out, "%.4g", s->starved);
  if (!strncmp(name, "blocked", 7)) mr_fprintf(out, "%.4g", s->blocked);
  if (!strncmp(name, "queue", 5)) mr_fprintf(out, "%.4g", s->queue);
  if (!strncmp(name, "items", 5)) fprintf(out, "%" PRId64, s->items);
  if (s->link && !strncmp(name, "released", 8)) fprintf(out, "%" PRId64, s->released);
  if (s->link && !strncmp(name, "committed", 9)) fprintf(out, "%" PRId64, s->committed);
}

static bool is(const char *name, size_t n, const char *text) {
  return strlen(text) == n && !memcmp(name, text, n);
}

/* Prints the field of the column name[0,n). */
static void csv_put_field(FILE *out, const mr_metrics_t *r, const char *name, size_t n) {
  const char *dot = memchr(name, '.', n);
  for (int i = 0; dot && i < r->n_stages; i++)
    if (is(name, (size_t)(dot - name), r->stage[i].name)) put_of_stage(out, &r->stage[i], dot + 1);
  for (int i = 0; !dot && i < r->n; i++)
    if (is(name, n, r->m[i].name)) mr_fprintf(out, "%.9g", r->m[i].value);
  if (is(name, n, "ledger")) fprintf(out, "%016" PRIx64, r->ledger);
}

static void put_row(FILE *out, const mr_metrics_t *r, const char *head) {
  mr_fprintf(out, "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6f", mr_metrics_kind_text(r->kind),
             r->step, r->epoch, r->images, r->elapsed_s);
  int column = 0;
  for (const char *name = head; *name != '\n'; column++) {
    size_t n = strcspn(name, ",\n");
    if (column >= 5) fputc(',', out), csv_put_field(out, r, name, n);
    name += n + (name[n] == ',');
  }
  fputc('\n', out);
}

static void csv_add_row(mr_stage_t *s, const mr_metrics_t *r) {
  csv_t *c = s->state;
  mr_text_out_t text;
  size_t n;
  FILE *out = c->head ? mr_text_out_open(&text) : NULL;
  if (out) put_row(out, r, c->head);
  char *row = out ? mr_text_out_close(&text, out, &n) : NULL;
  mr_appender_add(&c->out, s, row, row ? n : 0);
  free(row);
}

/* The head of a table whose model is judged by the numbers of r; heap, NULL without memory. */
static char *csv_head_of(const csv_t *c, const mr_metrics_t *r) {
  mr_text_out_t text;
  int n;
  const mr_metric_t *judged = mr_metrics_judged(r, &n);
  FILE *out = mr_text_out_open(&text);
  if (!out) return NULL;
  fputs(of_run, out);
  for (int i = 0; i < n; i++) fprintf(out, ",%s", judged[i].name);
  if (mr_metrics_get(r, "skipped_steps", -1) >= 0) fputs(",skipped_steps", out);
  fprintf(out, "%s%s", behind_judged, c->of_stages);
  return mr_text_out_close(&text, out, NULL);
}

/* Writes the head and the rows that waited for it.  Without memory the next record retries. */
static void begin_table(mr_stage_t *s, const mr_metrics_t *r) {
  csv_t *c = s->state;
  if (!(c->head = csv_head_of(c, r))) return;
  mr_appender_add(&c->out, s, c->head, strlen(c->head));
  for (size_t i = 0; i < c->n_early; i++) csv_add_row(s, &c->early[i]);
  free(c->early);
  c->early = NULL, c->n_early = 0;
}

/* Keeps a skipped step, which does not have the numbers that the model is judged by, until the head
   is known.  False without memory. */
static bool keep_early(csv_t *c, const mr_metrics_t *r) {
  mr_metrics_t *more = realloc(c->early, (c->n_early + 1) * sizeof *more);
  if (!more) return false;
  c->early = more;
  c->early[c->n_early++] = *r;
  return true;
}

static mr_err_t csv_write(mr_stage_t *s, const mr_metrics_t *r) {
  csv_t *c = s->state;
  bool skipped = r->kind == MR_METRICS_STEP && mr_metrics_get(r, "skipped", 0) != 0;
  if (r->kind == MR_METRICS_MARK) {
    if (c->n_early) begin_table(s, &c->early[0]); /* records before a mark must be written */
    mr_appender_mark(&c->out, s, r);
  }
  if (!mr_metrics_is_numbers(r)) return MR_OK;
  if (!c->head && skipped && keep_early(c, r)) return MR_OK;
  if (!c->head) begin_table(s, r);
  csv_add_row(s, r);
  return MR_OK;
}

static mr_err_t csv_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  mr_err_t e = MR_OK;
  for (size_t i = 0; i < k; i++) {
    if (e >= 0) e = csv_write(s, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return e < 0 ? e : k ? MR_OK : mr_idle(s);
}

static void csv_close(mr_stage_t *s) {
  csv_t *c = s->state;
  if (c->n_early) begin_table(s, &c->early[0]);
  mr_appender_close(&c->out, s);
  free(c->head), free(c->of_stages), free(c->early);
  c->head = c->of_stages = NULL, c->early = NULL, c->n_early = 0;
}

static mr_err_t csv_verdict(mr_stage_t *s) {
  return mr_appender_verdict(&((const csv_t *)s->state)->out, s);
}

static void csv_report(mr_stage_t *s, char *text, size_t n) {
  const csv_t *c = s->state;
  char lost[48];
  mr_appender_lost_text(&c->out, lost, sizeof lost);
  snprintf(text, n, "%" PRId64 " rows in %s%s", c->out.written, c->path, lost);
}

const mr_stage_def_t mr_stage_csv = {
    .name = "csv",
    .help = "Writes the numbers of each metrics record as a row of a CSV file.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = csv_opts,
    .state_sz = sizeof(csv_t),
    .plan = csv_plan,
    .open = csv_open,
    .close = csv_close,
    .step = &(const mr_step_def_t){.run = csv_step},
    .verdict = csv_verdict,
    .report = csv_report,
};
