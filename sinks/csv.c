/* Metrics as a table: one row per report, one column per number.  The columns are known before the
   first row: those of every run, what the stages before it declare, among it what the model is
   judged by, then the graph's stages, STAGE.NUMBER.  A number that a report does not have is an
   empty field; a number without a column is named once. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xio.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "pipeline/watch/watch.h"
#include "sinks/appender.h"
#include "sinks/resume.h"

/* What a column holds. */
typedef enum held { NOTHING, OF_REPORT, NUMBER, LEDGER, USE } held_t;

typedef struct column {
  held_t holds;
  const mr_metric_def_t *def; /* NUMBER */
  const char *stage;          /* USE; NUMBER: of a stage, else NULL; owned by the graph */
  int use;                    /* USE: index of use_name; OF_REPORT: of report_name */
} column_t;

typedef struct columns {
  size_t n, room;
  column_t *at; /* [n] heap */
  bool lost;    /* memory ran out, and columns are missing */
} columns_t;

static const char *const report_name[] = {"kind", "step", "epoch", "images", "elapsed_s", NULL};
enum { BUSY, STARVED, BLOCKED, QUEUE, ITEMS, RELEASED, COMMITTED };
static const char *const use_name[] = {"busy",  "starved",  "blocked",  "queue",
                                       "items", "released", "committed"};

/* How every table begins. */
static const char beginning[] = "kind,step,epoch,images,elapsed_s,loss";

typedef struct csv {
  const char *path;
  mr_resume_t resume;
  columns_t columns;
  char *head; /* the names of the columns, with the newline; heap */
  bool said;  /* a number without a column has been named */
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
  char start[128]; /* sscanf calls strlen on its text, so it gets the start alone */
  snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), line);
  out->head = c->head && n == strlen(c->head) && !memcmp(line, c->head, n);
  if (out->head) return true;
  return !memchr(line, 0, n) && sscanf(start, "%63[^,],%" SCNd64 ",", out->kind, &out->step) == 2;
}

static mr_err_t csv_plan(mr_stage_t *s) {
  const csv_t *c = s->state;
  return c->path && c->path[0] ? MR_OK
                               : mr_stage_fail(s, MR_ERR_CONFIG, "path = \"\": want a file name");
}

/* ---- the columns ---- */

/* After a column without memory no other is added: those behind it would be in the wrong place. */
static void add_column(columns_t *c, column_t one) {
  if (c->n == c->room && !c->lost) {
    size_t room = c->room ? 2 * c->room : 64;
    column_t *more = realloc(c->at, room * sizeof *more);
    c->lost = !more;
    if (more) c->at = more, c->room = room;
  }
  if (c->lost) return;
  c->at[c->n++] = one;
}

static void add_number_column(columns_t *c, const mr_metric_def_t *def, const char *stage) {
  add_column(c, (column_t){.holds = NUMBER, .def = def, .stage = stage});
}

/* Those declared whose role is to come now: what the model is judged by before all else. */
static void add_declared(columns_t *c, const mr_metric_list_t *list, bool judged) {
  for (size_t i = 0; list && i < list->n; i++) {
    const mr_metric_def_t *d = list->def[i];
    bool own = mr_metric_own(d->name) == d;
    if ((d->role == MR_METRIC_JUDGED) == judged && d->column == MR_METRIC_DECLARED &&
        (judged || !own))
      add_number_column(c, d, NULL);
  }
}

static bool list_declares(const mr_metric_list_t *list, const mr_metric_def_t *def) {
  for (size_t i = 0; list && i < list->n; i++)
    if (list->def[i] == def) return true;
  return false;
}

/* Five columns for each stage with threads, two more for a link's end; then what each reports. */
static void add_stages(columns_t *c, const mr_stage_t *s) {
  for (int i = 0; i < mr_watch_n_stages(s); i++) {
    const mr_stage_def_t *def = mr_watch_def(s, i);
    int uses = !mr_watch_n_workers(s, i)         ? 0
               : def->step && def->step->outside ? COMMITTED + 1
                                                 : ITEMS + 1;
    for (int use = 0; use < uses; use++)
      add_column(c, (column_t){.holds = USE, .stage = mr_watch_name(s, i), .use = use});
  }
  for (int i = 0; i < mr_watch_n_stages(s); i++)
    for (const mr_metric_def_t *m = mr_watch_def(s, i)->metrics; m && m->name; m++)
      add_number_column(c, m, mr_watch_name(s, i));
}

/* All columns that a table of this graph has. */
static void columns_of_graph(const mr_stage_t *s, columns_t *c) {
  const mr_metric_list_t *list = s->in_spec[0].metrics;
  mr_asked_t asked;
  for (int i = 0; report_name[i]; i++) add_column(c, (column_t){.holds = OF_REPORT, .use = i});
  add_number_column(c, MR_METRIC_OWN(LOSS), NULL);
  add_declared(c, list, true);
  for (int i = 0; i < MR_METRICS_N; i++) {
    const mr_metric_def_t *d = &mr_metric_table[i];
    bool extra =
        d->column == MR_METRIC_DECLARED && d->role != MR_METRIC_JUDGED && list_declares(list, d);
    if ((d->column == MR_METRIC_ALWAYS && d != MR_METRIC_OWN(LOSS)) || extra)
      add_number_column(c, d, NULL);
  }
  add_column(c, (column_t){.holds = LEDGER});
  add_declared(c, list, false);
  bool servers = mr_watch_asked(s, &asked);
  for (int i = 0; servers && i < MR_METRICS_N; i++)
    if (mr_metric_table[i].column == MR_METRIC_SERVERS)
      add_number_column(c, &mr_metric_table[i], NULL);
  add_stages(c, s);
}

/* Prints a column's name. */
static void put_name(FILE *out, const column_t *c) {
  if (c->stage) fprintf(out, "%s.", c->stage);
  switch (c->holds) {
    case NOTHING: break;
    case OF_REPORT: fputs(report_name[c->use], out); break;
    case NUMBER: fputs(c->def->name, out); break;
    case LEDGER: fputs("ledger", out); break;
    case USE: fputs(use_name[c->use], out); break;
  }
}

static char *head_text(const columns_t *c) {
  mr_text_out_t text;
  FILE *out = mr_text_out_open(&text);
  for (size_t i = 0; out && i < c->n; i++) {
    if (i) fputc(',', out);
    put_name(out, &c->at[i]);
  }
  if (out) fputc('\n', out);
  return mr_text_out_close(&text, out, NULL);
}

/* Whether a column is called name[0,n). */
static bool column_is_called(const column_t *c, const char *name, size_t n) {
  const char *last = c->holds == OF_REPORT ? report_name[c->use]
                     : c->holds == NUMBER  ? c->def->name
                     : c->holds == LEDGER  ? "ledger"
                                           : use_name[c->use];
  size_t k = c->stage ? strlen(c->stage) : 0;
  if (c->stage) {
    if (n <= k || memcmp(name, c->stage, k) != 0 || name[k] != '.') return false;
    name += k + 1, n -= k + 1;
  }
  return strlen(last) == n && !memcmp(name, last, n);
}

/* Takes the columns of an earlier file, whose head is c->head: those of this graph in their places,
   and empty ones for what it no longer has.  Names what has no column. */
static void take_columns(csv_t *c, const columns_t *of_graph) {
  char missing[512] = "";
  size_t at = 0;
  bool *found = calloc(of_graph->n + 1, sizeof *found);
  for (const char *name = c->head; found && *name && *name != '\n';) {
    size_t n = strcspn(name, ",\n"), i = 0;
    while (i < of_graph->n && !column_is_called(&of_graph->at[i], name, n)) i++;
    add_column(&c->columns, i < of_graph->n ? of_graph->at[i] : (column_t){.holds = NOTHING});
    if (i < of_graph->n) found[i] = true;
    name += n + (name[n] == ',');
  }
  for (size_t i = 0; found && i < of_graph->n && at < sizeof missing; i++) {
    const column_t *m = &of_graph->at[i];
    if (!found[i] && m->holds == NUMBER)
      at += (size_t)snprintf(missing + at, sizeof missing - at, "%s%s%s%s", at ? ", " : "",
                             m->stage ? m->stage : "", m->stage ? "." : "", m->def->name);
  }
  c->columns.lost |= !found;
  free(found);
  if (at)
    mr_notice("%s: it began without columns for %s, and stays without them", c->path, missing);
}

/* Reads the head of a file that an earlier part of the run has written.  A missing or empty file,
   or one whose head a kill has cut, has none.  A file that begins with other columns is refused: it
   would become two tables. */
static mr_err_t head_in_file(csv_t *c, mr_diag_t *diag) {
  FILE *f = mr_open_regular(c->path);
  char *line = NULL;
  size_t room = 0, n = strlen(beginning);
  ssize_t got = f ? mr_read_line(f, MR_LINE_MOST, &line, &room) : -1;
  if (f) fclose(f);
  bool whole = got > 0 && line[got - 1] == '\n';
  size_t length = got > 0 ? (size_t)got : 0;
  bool ours = length && !strncmp(line, beginning, length < n ? length : n);
  if (length && (!ours || (whole && length <= n))) {
    free(line);
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: has other columns than this version writes; name another path", c->path);
  }
  if (whole)
    c->head = line;
  else
    free(line);
  return MR_OK;
}

static mr_err_t csv_prepare(mr_stage_t *s, mr_diag_t *diag) {
  csv_t *c = s->state;
  bool again = c->resume.step >= 0;
  columns_t of_graph = {0};
  if (again) MR_TRY(head_in_file(c, diag));
  columns_of_graph(s, &of_graph);
  bool lost = of_graph.lost;
  if (c->head)
    take_columns(c, &of_graph), free(of_graph.at);
  else
    c->columns = of_graph, c->head = head_text(&of_graph);
  if (!c->head || lost || c->columns.lost) return mr_no_memory(diag, "the columns");
  if (again) MR_TRY(mr_resume_cut(s, c->path, &c->resume, read_row, c, diag));
  MR_TRY(mr_appender_open(&c->out, s, c->path, again, diag));
  if (!mr_appender_size(&c->out)) mr_appender_add(&c->out, s, c->head, strlen(c->head));
  return MR_OK;
}

static mr_err_t csv_open(mr_stage_t *s) {
  mr_diag_t diag = {0};
  mr_err_t e = csv_prepare(s, &diag);
  return mr_stage_relay(s, e, &diag);
}

/* ---- the rows ---- */

static void put_of_report(FILE *out, const mr_report_t *r, int which) {
  switch (which) {
    case 0: fputs(mr_report_kind_text(r), out); break;
    case 1: fprintf(out, "%" PRId64, r->step); break;
    case 2: fprintf(out, "%" PRId64, r->epoch); break;
    case 3: fprintf(out, "%" PRId64, r->images); break;
    default: mr_fprintf(out, "%.6f", r->elapsed_s);
  }
}

/* Prints a measured number of a stage; nothing for released and committed unless the stage is a
   link's end. */
static void put_use(FILE *out, const mr_report_t *r, const column_t *c) {
  const mr_stage_use_t *u = r->stage, *end = u + r->n_stages;
  while (u < end && strcmp(u->name, c->stage) != 0) u++;
  if (u == end) return;
  switch (c->use) {
    case BUSY: mr_fprintf(out, "%.4g", u->busy); break;
    case STARVED: mr_fprintf(out, "%.4g", u->starved); break;
    case BLOCKED: mr_fprintf(out, "%.4g", u->blocked); break;
    case QUEUE: mr_fprintf(out, "%.4g", u->queue); break;
    case ITEMS: fprintf(out, "%" PRId64, u->items); break;
    default:
      if (u->link) fprintf(out, "%" PRId64, c->use == RELEASED ? u->released : u->committed);
  }
}

static bool is_of(const mr_number_t *m, const column_t *c) {
  return c->holds == NUMBER && m->def == c->def && !m->stage == !c->stage &&
         (!m->stage || !strcmp(m->stage, c->stage));
}

/* A NaN has no sign here, which printf would show. */
static void csv_put_number(FILE *out, const mr_report_t *r, const column_t *c) {
  for (size_t i = 0; i < r->n_numbers; i++) {
    if (!is_of(&r->number[i], c)) continue;
    if (isnan(r->number[i].value))
      fputs("nan", out);
    else
      mr_fprintf(out, "%.9g", r->number[i].value);
    return;
  }
}

static void put_row(FILE *out, const csv_t *c, const mr_report_t *r) {
  for (size_t i = 0; i < c->columns.n; i++) {
    const column_t *at = &c->columns.at[i];
    if (i) fputc(',', out);
    switch (at->holds) {
      case NOTHING: break;
      case OF_REPORT: put_of_report(out, r, at->use); break;
      case NUMBER: csv_put_number(out, r, at); break;
      case LEDGER: fprintf(out, "%016" PRIx64, r->ledger); break;
      case USE: put_use(out, r, at); break;
    }
  }
  fputc('\n', out);
}

/* Names the first number that has no column although its kind has columns: a stage reports what it
   does not declare. */
static void say_without_column(csv_t *c, const mr_stage_t *s, const mr_report_t *r) {
  for (size_t i = 0; i < r->n_numbers && !c->said && c->resume.step < 0; i++) {
    const mr_number_t *m = &r->number[i];
    size_t k = 0;
    while (k < c->columns.n && !is_of(m, &c->columns.at[k])) k++;
    if (k < c->columns.n || m->def->column == MR_METRIC_NEVER) continue;
    mr_notice("%s: %s: no column for %s, which no stage before it declares", s->name, c->path,
              m->def->name);
    c->said = true;
  }
}

static void csv_write(mr_stage_t *s, const mr_report_t *r) {
  csv_t *c = s->state;
  mr_text_out_t text;
  size_t n = 0;
  if (r->kind == MR_REPORT_MARK) mr_appender_mark(&c->out, s, r);
  if (!mr_report_is_numbers(r)) return;
  say_without_column(c, s, r);
  FILE *out = mr_text_out_open(&text);
  if (out) put_row(out, c, r);
  char *row = mr_text_out_close(&text, out, &n);
  mr_appender_add(&c->out, s, row, row ? n : 0);
  free(row);
}

static mr_err_t csv_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    csv_write(s, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void csv_close(mr_stage_t *s) {
  csv_t *c = s->state;
  mr_appender_close(&c->out, s);
  free(c->head), free(c->columns.at);
  c->head = NULL, c->columns = (columns_t){0};
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
