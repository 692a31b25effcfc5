/* Progress for the user: on a terminal one live line; everywhere a plain line every 20 steps, after
   each validation and at the end. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "pipeline/watch/watch.h"
#include "sinks/resume.h"

typedef struct progress {
  int64_t every, reported;
  bool terminal;
  bool begun;
  double line_s, shown_s; /* elapsed_s at the last plain line and the last live one */
  int64_t line_step, line_images;
  double rate, step_s; /* images/s and seconds a step, as last measured */
} progress_t;

static const mr_opt_t progress_opts[] = {
    {.name = "every",
     .hint = "loggingsteps logeverynsteps loginterval logevery printfreq printevery",
     .type = MR_OPT_INT,
     .offset = offsetof(progress_t, every),
     .unit = "steps",
     .def = "20",
     .lo = 1,
     .hi = 1e9,
     .help = "Steps between plain lines.",
     .positional = 1},
    MR_RESUME_REPORTED_OPT(offsetof(progress_t, reported)),
    {0}};

/* The stage that has the live line, which ends without a newline; NULL: none.  There is one
   terminal even for several such stages, so stdout's lock guards this. */
static const progress_t *live;

static void clear_live(void) {
  if (live) fputs("\r\033[K", stdout);
  live = NULL;
}

/* Prints a line; on a narrower terminal it is wrapped. */
__attribute__((format(printf, 1, 2))) static void say_line(const char *fmt, ...) {
  char text[2048];
  va_list ap;
  va_start(ap, fmt);
  mr_vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  mr_put_wrapped(stdout, text, mr_columns(STDOUT_FILENO), 2);
}

/* Prints the live line, cut so that it fits: clear_live would clear only the last row of a longer
   one. */
static void put_live(char *text) {
  int columns = mr_columns(STDOUT_FILENO);
  if (columns) text[mr_fitting(text, columns - 1)] = 0;
  size_t n = strlen(text);
  if (n && text[n - 1] == ',') text[n - 1] = 0;
  fputs(text, stdout);
}

static bool is_synthetic(const mr_report_t *r) {
  return r->dataset && r->dataset->origin && !strcmp(r->dataset->origin, "synthetic");
}

/* Writes "12m03s", "1h05m" or "7s". */
static void duration_text(double s, char *text, size_t n) {
  int64_t t = s > 0 ? (int64_t)(s + 0.5) : 0;
  if (t >= 3600)
    snprintf(text, n, "%" PRId64 "h%02dm", t / 3600, (int)(t % 3600 / 60));
  else if (t >= 60)
    snprintf(text, n, "%dm%02ds", (int)(t / 60), (int)(t % 60));
  else
    snprintf(text, n, "%ds", (int)t);
}

/* Computes rates since the last plain line; before the first one, takes the record's own. */
static void progress_measure(progress_t *p, const mr_report_t *r) {
  double s = r->elapsed_s - p->line_s;
  int64_t steps = r->step - p->line_step;
  if (p->begun && steps > 0 && s > 0) {
    p->rate = (double)(r->images - p->line_images) / s;
    p->step_s = s / (double)steps;
  } else if (!p->begun) {
    p->rate = mr_report_get(r, MR_METRIC_OWN(IMAGES_PER_S), 0);
    p->step_s = mr_report_get(r, MR_METRIC_OWN(STEP_S), 0);
  }
}

static void progress_mark(progress_t *p, const mr_report_t *r) {
  p->begun = true;
  p->line_s = r->elapsed_s;
  p->line_step = r->step;
  p->line_images = r->images;
}

/* Writes ", 45.1 images/s, ETA 12m03s, waiting for: train". */
static void pace_text(mr_stage_t *s, const mr_report_t *r, char *text, size_t n) {
  const progress_t *p = s->state;
  char eta[32] = "unknown", limiting[64] = "";
  if (r->total_steps > 0)
    duration_text(p->step_s * (double)(r->total_steps - r->step), eta, sizeof eta);
  mr_limiting_stage(s, limiting, sizeof limiting);
  mr_snprintf(text, n, ", %.1f images/s, ETA %s%s%s", p->rate, eta,
              limiting[0] ? ", waiting for: " : "", limiting);
}

static bool was_reported(const progress_t *p, const mr_report_t *r) {
  return mr_resume_was_reported(p->reported, mr_report_kind_text(r), r->step);
}

/* v, or a NaN without a sign, which printf would show. */
static double progress_unsigned_nan(double v) { return isnan(v) ? (double)NAN : v; }

/* Writes the numbers that the model is judged by: ", Accuracy: 0.4100" for a plain line, ",
   accuracy 0.4100" for the live one.  Of many it writes as many as there is room for and counts the
   others. */
static void judged_text(const mr_report_t *r, bool line, char *text, size_t n) {
  size_t at = 0, left = 0;
  text[0] = 0;
  for (size_t i = 0; i < r->n_numbers; i++) {
    const mr_number_t *m = &r->number[i];
    char one[96], *name = one + 2;
    if (!mr_number_is_judged(m)) continue;
    int k = mr_snprintf(one, sizeof one, line ? ", %s: %.4f" : ", %s %.4f", m->def->name,
                        progress_unsigned_nan(m->value));
    if (left || k >= (int)sizeof one || at + (size_t)k + 24 > n) {
      left++;
      continue;
    }
    for (size_t c = 0; c < strlen(m->def->name); c++) name[c] = name[c] == '_' ? ' ' : name[c];
    if (line && *name >= 'a' && *name <= 'z') *name = (char)(*name - 'a' + 'A');
    memcpy(text + at, one, (size_t)k + 1);
    at += (size_t)k;
  }
  if (left) snprintf(text + at, n - at, ", and %zu more", left);
}

/* Appends how many updates have been skipped as not finite, if any: ", skipped steps: 3". */
static void skipped_text(const mr_report_t *r, bool line, char *text, size_t n) {
  double skipped = mr_report_get(r, MR_METRIC_OWN(SKIPPED_STEPS), 0);
  size_t at = strlen(text);
  if (skipped > 0)
    mr_snprintf(text + at, n - at, line ? ", Skipped steps: %.0f" : ", skipped steps %.0f",
                skipped);
}

static void say_step(mr_stage_t *s, const mr_report_t *r) {
  progress_t *p = s->state;
  bool line = r->step % p->every == 0, again = was_reported(p, r);
  bool mine = p->terminal && (!live || live == p); /* one stage has the live line */
  if (!line && !(mine && (!p->begun || r->elapsed_s - p->shown_s > 0.1))) {
    if (!p->begun) progress_mark(p, r);
    return;
  }
  progress_measure(p, r);
  char pace[160], text[1024], judged[480];
  pace_text(s, r, pace, sizeof pace);
  judged_text(r, line, judged, sizeof judged);
  skipped_text(r, line, judged, sizeof judged);
  double loss = progress_unsigned_nan(mr_report_get(r, MR_METRIC_OWN(LOSS), 0));
  clear_live();
  if (line && again) {
    say_line("Repeating step %" PRId64 " until step %" PRId64 "%s", r->step, p->reported, pace);
  } else if (r->skipped) {
    say_line("Step %" PRId64 ", skipped%s", r->step, pace);
  } else if (line) {
    say_line("Step %" PRId64 ", Loss: %.4f%s%s", r->step, loss, judged, pace);
  } else {
    char of[96] = ""; /* empty for an endless stream */
    if (r->total_steps > 0) snprintf(of, sizeof of, "/%" PRId64, r->total_steps);
    if (again)
      snprintf(of + strlen(of), sizeof of - strlen(of), ", repeating until step %" PRId64,
               p->reported);
    mr_snprintf(text, sizeof text, "%" PRId64 "%s, loss %.4f%s%s", r->step, of, loss, judged, pace);
    put_live(text);
    live = p;
    p->shown_s = r->elapsed_s;
  }
  if (line || !p->begun) progress_mark(p, r);
}

/* The first characters of a class's name, escaped: it may come from a file or over a link. */
static const char *class_name(const mr_report_t *r, int i, size_t most, char text[64]) {
  bool known = r->dataset && i < r->dataset->n_classes;
  return mr_printable_cell(known ? r->dataset->class_name[i] : "?", most, text, 64);
}

enum { NAME = 12, CELL = 7, TABLE = 16 /* most classes of the table */, MISTAKES = 10 };

/* Records of class t taken for g. */
static uint32_t count_confused(const mr_report_t *r, int t, int g) {
  for (size_t i = 0; i < r->n_confused; i++)
    if (r->confused[i].truth == t && r->confused[i].guess == g) return r->confused[i].count;
  return 0;
}

/* Prints columns [from,to) of the table: rows are the truth, columns the guess. */
static void say_guesses(const mr_report_t *r, int from, int to, int cell) {
  int n = (int)r->n_classes;
  char name[64];
  printf("%-12s", "truth\\guess");
  for (int g = from; g < to; g++)
    printf(" %*s", cell - 1, class_name(r, g, (size_t)cell - 1, name));
  putchar('\n');
  for (int t = 0; t < n; t++) {
    printf("%-12s", class_name(r, t, NAME, name));
    for (int g = from; g < to; g++) printf(" %*" PRIu32, cell - 1, count_confused(r, t, g));
    putchar('\n');
  }
}

/* Prints the matrix as a table.  On a narrow terminal cells are narrower, and the table is split by
   columns. */
static void say_table(const mr_report_t *r) {
  int n = (int)r->n_classes, columns = mr_columns(STDOUT_FILENO), least = 4;
  for (size_t i = 0; i < r->n_confused; i++) {
    int width = 1 + snprintf(NULL, 0, "%" PRIu32, r->confused[i].count);
    if (width > least) least = width;
  }
  int room = columns ? columns - NAME : n * CELL, cell = room / n;
  if (cell < least) cell = least;
  if (cell > CELL) cell = CELL;
  int each = room / cell > 1 ? room / cell : 1;
  for (int from = 0; from < n; from += each)
    say_guesses(r, from, from + each < n ? from + each : n, cell);
}

/* Whether cell a comes before b: more records, then the earlier place. */
static bool is_worse(const mr_confused_t *a, const mr_confused_t *b) {
  return a->count > b->count || (a->count == b->count && a < b);
}

/* Prints the most frequent mistakes of a matrix that is too large for a table. */
static void say_mistakes(const mr_report_t *r) {
  const mr_confused_t *before = NULL;
  char truth[64], guess[64];
  size_t mistakes = 0;
  for (size_t i = 0; i < r->n_confused; i++)
    mistakes += r->confused[i].truth != r->confused[i].guess;
  for (size_t k = 0; k < mistakes && k < MISTAKES; k++) {
    const mr_confused_t *next = NULL;
    for (const mr_confused_t *c = r->confused; c < r->confused + r->n_confused; c++)
      if (c->truth != c->guess && (!before || is_worse(before, c)) && (!next || is_worse(c, next)))
        next = c;
    say_line("  %s taken for %s: %" PRIu32, class_name(r, next->truth, 40, truth),
             class_name(r, next->guess, 40, guess), next->count);
    before = next;
  }
  if (mistakes > MISTAKES)
    say_line("  and %zu other kinds of mistakes among %" PRId64 " classes", mistakes - MISTAKES,
             r->n_classes);
}

/* Whether lines of scores do not have room at their full width. */
static bool is_narrow(int columns) { return columns && columns < 47; }

/* A line of scores, for a terminal of that many columns (0: no terminal). */
static void say_score(int columns, const char *name, int64_t records, double precision,
                      double recall, double f1) {
  if (is_narrow(columns))
    mr_printf("%-10s %7" PRId64 " %6.4f %6.4f %6.4f\n", name, records, precision, recall, f1);
  else
    mr_printf("%-12s %8" PRId64 " %9.4f %7.4f %7.4f\n", name, records, precision, recall, f1);
}

/* Prints the scores of the classes, or of those with the lowest f1 where there are many, and the
   means over those that have records or were taken for some. */
static void say_scores(const mr_report_t *r) {
  mr_class_score_t *s = mr_report_scores(r);
  int64_t n = r->n_classes, records = 0;
  double precision = 0, recall = 0, f1 = 0, seen = 0;
  bool all = n <= TABLE;
  int columns = mr_columns(STDOUT_FILENO);
  char name[64];
  if (!s) return;
  printf(is_narrow(columns) ? "%-10s %7s %6s %6s %6s\n" : "%-12s %8s %9s %7s %7s\n",
         all ? "class" : "worst", "records", is_narrow(columns) ? "prec." : "precision", "recall",
         "f1");
  for (int64_t k = 0; k < n; k++) {
    records += s[k].records;
    precision += s[k].precision, recall += s[k].recall, f1 += s[k].f1;
    seen += s[k].records || s[k].guessed;
  }
  for (int64_t line = 0; line < n && line < (all ? TABLE : MISTAKES); line++) {
    int64_t at = line;
    for (int64_t k = 0; !all && k < n; k++) /* f1 above 1: is shown already */
      if (s[k].records && (!s[at].records || s[at].f1 > 1 || s[k].f1 < s[at].f1)) at = k;
    if (!all && (!s[at].records || s[at].f1 > 1)) break;
    say_score(columns, class_name(r, (int)at, is_narrow(columns) ? 10 : NAME, name), s[at].records,
              s[at].precision, s[at].recall, s[at].f1);
    if (!all) s[at].f1 = 2;
  }
  say_score(columns, "mean", records, precision / fmax(seen, 1), recall / fmax(seen, 1),
            f1 / fmax(seen, 1));
  free(s);
}

static void say_confusion(const mr_report_t *r) {
  if (r->n_classes < 1) return;
  if (r->n_classes <= TABLE)
    say_table(r);
  else
    say_mistakes(r);
  say_scores(r);
}

/* Says that an average of the weights was evaluated, if it was. */
static const char *average_text(const mr_report_t *r, char text[64]) {
  *text = 0;
  if (r->average > 0) mr_snprintf(text, 64, ", of the average of the weights (ema=%g)", r->average);
  return text;
}

static void say_valid(const progress_t *p, const mr_report_t *r) {
  char judged[480];
  if (was_reported(p, r))
    return say_line("Repeated validation %s epoch %" PRId64 " (step %" PRId64
                    "), until step %" PRId64,
                    r->within ? "in" : "after", r->epoch, r->step, p->reported);
  char average[64];
  judged_text(r, true, judged, sizeof judged);
  bool named = r->input && strcmp(r->input, "valid") != 0;
  say_line("Validation%s%s %s epoch %" PRId64 " (step %" PRId64 "), Loss: %.4f%s%s",
           named ? " " : "", named ? r->input : "", r->within ? "in" : "after", r->epoch, r->step,
           progress_unsigned_nan(mr_report_get(r, MR_METRIC_OWN(LOSS), 0)), judged,
           average_text(r, average));
}

static void say_test(const mr_report_t *r) {
  char note[4 * sizeof r->note], judged[480], average[64];
  judged_text(r, true, judged, sizeof judged);
  say_line("%s, Loss: %.4f%s%s%s", r->note[0] ? mr_printable(r->note, note, sizeof note) : "Test",
           progress_unsigned_nan(mr_report_get(r, MR_METRIC_OWN(LOSS), 0)), judged,
           average_text(r, average), is_synthetic(r) ? " (synthetic data)" : "");
  say_confusion(r);
}

static void say_final(const mr_report_t *r) {
  char time[32];
  duration_text(r->elapsed_s, time, sizeof time);
  say_line("Done: %" PRId64 " steps, %" PRId64 " images, %s%s%s", r->step, r->images, time,
           r->note[0] ? ", " : "", r->note);
  double dropped = mr_report_get(r, MR_METRIC_OWN(PUBLISH_DROPPED), 0);
  if (dropped > 0) say_line("Missed by slow subscribers: %.0f messages", dropped);
  if (is_synthetic(r)) say_line("These results are of SYNTHETIC data, generated by the program.");
  printf("ledger %016" PRIx64 "\n", r->ledger);
}

static void progress_say(mr_stage_t *s, const mr_report_t *r) {
  progress_t *p = s->state;
  if (!mr_report_is_numbers(r)) return;
  if (!p->begun) clear_live();
  if (!p->begun && is_synthetic(r))
    say_line(
        "*** SYNTHETIC DATA: generated pictures, not CIFAR-10.  `millrace data fetch` downloads "
        "the real ones, --data DIR uses a copy. ***");
  if (!p->begun && r->kind == MR_REPORT_STEP && was_reported(p, r))
    say_line("Steps %" PRId64 " to %" PRId64 " are repeated; they were reported before.", r->step,
             p->reported);
  if (r->kind == MR_REPORT_STEP) {
    say_step(s, r);
  } else {
    clear_live();
    if (r->kind == MR_REPORT_VALID) say_valid(p, r);
    if (r->kind == MR_REPORT_TEST) say_test(r);
    if (r->kind == MR_REPORT_FINAL) say_final(r);
    progress_mark(p, r); /* the time of an evaluation does not count as training */
  }
  fflush(stdout);
}

static mr_err_t progress_open(mr_stage_t *s) {
  progress_t *p = s->state;
  p->terminal = isatty(STDOUT_FILENO);
  return MR_OK;
}

static mr_err_t progress_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    flockfile(stdout);
    progress_say(s, b[i]->data);
    funlockfile(stdout);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void progress_close(mr_stage_t *s) {
  flockfile(stdout);
  if (live == s->state) {
    putchar('\n'); /* so that later messages do not overwrite the live line */
    live = NULL;
  }
  fflush(stdout);
  funlockfile(stdout);
}

static mr_err_t progress_plan(mr_stage_t *s) { return MR_OK; }

static const mr_hint_t progress_setting_words[] = {
    {"verbose debug loglevel", NULL,
     "stage \"progress\" shows how training goes, `--explain` what limits it"},
    {0}};

const mr_stage_def_t mr_stage_progress = {
    .name = "progress",
    .setting_hint = progress_setting_words,
    .help = "Shows the progress of training: a live line on a terminal, plain lines elsewhere.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = progress_opts,
    .state_sz = sizeof(progress_t),
    .plan = progress_plan,
    .open = progress_open,
    .close = progress_close,
    .step = &(const mr_step_def_t){.run = progress_step},
};
