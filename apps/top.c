/* millrace top: a run in a terminal, while it goes on. */
#include <cjson/cJSON.h>
#include <curses.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli.h"
#include "apps/top_feed.h"
#include "base/columns.h"
#include "base/printable.h"

enum { LOSSES = 1 << 16, STAGES = 24, LINES_KEPT = 6, CHART = 9 };

typedef struct stage {
  char name[24];
  double busy, starved, blocked, queue;
  int64_t released, committed; /* -1: it is no end of a link */
} stage_t;

typedef struct top {
  const char *where;
  mr_top_feed_t *feed;
  int64_t step, total, epoch;
  double loss, accuracy, rate, p50, p90, p99;
  double lr, grad_norm, param_norm, loss_scale;
  double cpu, rss, disk, read, written, lost, dropped;
  double gpu, gpu_memory, gpu_watts, gpu_celsius; /* NAN: there is none */
  double losses[LOSSES];                          /* every n_each-th step's, oldest first */
  int64_t n_losses, n_each, seen;
  stage_t stage[STAGES];
  int n_stages;
  char line[LINES_KEPT][128]; /* newest last */
  int n_lines;
  char note[80];
} top_t;

/* ---- what comes ---- */

static double number(const cJSON *j, const char *key, double otherwise) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);
  if (cJSON_IsNull(v)) return NAN; /* JSON has no NaN */
  return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

static int64_t whole(const cJSON *j, const char *key, int64_t otherwise) {
  double v = number(j, key, (double)otherwise);
  return v >= 0 && v < 1e15 ? (int64_t)v : otherwise;
}

static void keep_line(top_t *t, const char *text) {
  if (t->n_lines == LINES_KEPT) memmove(t->line[0], t->line[1], sizeof t->line[0] * --t->n_lines);
  mr_printable_cell(text, sizeof t->line[0], t->line[t->n_lines++], sizeof t->line[0]);
}

/* A long run keeps every second of its losses, then every fourth, and so on. */
static void keep_loss(top_t *t, double loss) {
  if (t->seen++ % t->n_each) return;
  if (t->n_losses == LOSSES) {
    for (int i = 0; i < LOSSES / 2; i++) t->losses[i] = t->losses[2 * i];
    t->n_losses /= 2, t->n_each *= 2;
  }
  t->losses[t->n_losses++] = loss;
}

static void take_stages(top_t *t, const cJSON *all) {
  const cJSON *one;
  t->n_stages = 0;
  cJSON_ArrayForEach(one, all) {
    if (t->n_stages == STAGES) break;
    stage_t *st = &t->stage[t->n_stages++];
    mr_printable_cell(one->string ? one->string : "", sizeof st->name, st->name, sizeof st->name);
    st->busy = number(one, "busy", 0), st->starved = number(one, "starved", 0);
    st->blocked = number(one, "blocked", 0), st->queue = number(one, "queue", 0);
    st->released = whole(one, "released", -1), st->committed = whole(one, "committed", -1);
  }
}

/* What only some records have keeps its last value. */
static void take_measured(top_t *t, const cJSON *j) {
  const struct {
    const char *key;
    double *at;
  } row[] = {{"step_p50_s", &t->p50},       {"step_p90_s", &t->p90},
             {"step_p99_s", &t->p99},       {"cpu_cores", &t->cpu},
             {"rss_bytes", &t->rss},        {"disk_free_bytes", &t->disk},
             {"disk_read_bytes", &t->read}, {"disk_written_bytes", &t->written},
             {"telemetry_lost", &t->lost},  {"publish_dropped", &t->dropped},
             {"gpu_busy", &t->gpu},         {"gpu_memory_bytes", &t->gpu_memory},
             {"gpu_watts", &t->gpu_watts},  {"gpu_celsius", &t->gpu_celsius}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    *row[i].at = number(j, row[i].key, *row[i].at);
}

static void take_step(top_t *t, const cJSON *j) {
  t->loss = number(j, "loss", t->loss), t->accuracy = number(j, "accuracy", t->accuracy);
  t->rate = number(j, "images_per_s", t->rate), t->lr = number(j, "lr", t->lr);
  t->grad_norm = number(j, "grad_norm", t->grad_norm);
  t->param_norm = number(j, "param_norm", t->param_norm);
  t->loss_scale = number(j, "loss_scale", t->loss_scale);
  keep_loss(t, t->loss);
}

static void take_record(top_t *t, const char *text) {
  cJSON *j = cJSON_Parse(text);
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
  char line[128];
  if (!kind || cJSON_HasObjectItem(j, "picture")) return cJSON_Delete(j);
  t->step = whole(j, "step", t->step);
  t->total = whole(j, "total_steps", t->total);
  t->epoch = whole(j, "epoch", t->epoch);
  take_measured(t, j);
  if (cJSON_HasObjectItem(j, "stages")) take_stages(t, cJSON_GetObjectItem(j, "stages"));
  if (!strcmp(kind, "step")) {
    take_step(t, j);
    t->note[0] = 0;
  } else if (!strcmp(kind, "final")) {
    const char *note = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "note"));
    note = note && *note ? note : "finished";
    mr_printable_cell(note, sizeof t->note, t->note, sizeof t->note);
  } else {
    snprintf(line, sizeof line, "%s at step %" PRId64 ": loss %.4f, accuracy %.4f", kind, t->step,
             number(j, "loss", NAN), number(j, "accuracy", NAN));
    keep_line(t, line);
  }
  cJSON_Delete(j);
}

static void forget(top_t *t) {
  *t = (top_t){.where = t->where, .feed = t->feed, .n_each = 1};
  t->loss = t->accuracy = t->rate = t->p50 = t->p90 = t->p99 = NAN;
  t->lr = t->grad_norm = t->param_norm = t->loss_scale = NAN;
  t->cpu = t->rss = t->disk = t->read = t->written = t->lost = NAN;
  t->dropped = 0;
  t->gpu = t->gpu_memory = t->gpu_watts = t->gpu_celsius = NAN;
}

/* Everything that has come up to now. */
static bool drain(top_t *t) {
  bool again = false, any = false;
  for (char *text; (text = mr_top_feed_next(t->feed, &again)) || again; any = true) {
    if (again) forget(t);
    if (text) take_record(t, text);
    free(text);
  }
  return any;
}

/* ---- text, for both forms ---- */

enum { HEAD_LINES = 5, STAGE_COLUMNS = 76 /* of a stage's line in words */ };

static const char narrow_head[] = "stage            busy starv block   wait";

/* The lines of numbers; returns how many. */
static int head_text(const top_t *t, char text[HEAD_LINES][256]) {
  int n = 0;
  char of[32] = ""; /* nobody knows how many an endless stream has */
  if (t->total > 0) snprintf(of, sizeof of, "/%" PRId64, t->total);
  snprintf(text[n++], sizeof *text,
           "step %" PRId64 "%s  epoch %" PRId64
           "  loss %.4f  accuracy %.4f  %.1f images/s  step p50 %.3f s, p90 %.3f s, p99 %.3f s",
           t->step, of, t->epoch, t->loss, t->accuracy, t->rate, t->p50, t->p90, t->p99);
  snprintf(text[n++], sizeof *text,
           "learning rate %.3g  gradient norm %.4g  parameter norm %.4g  loss scale %g", t->lr,
           t->grad_norm, t->param_norm, t->loss_scale);
  snprintf(text[n++], sizeof *text,
           "CPU %.2f cores  memory %.0f MB  disk free %.1f GB, read %.1f MB, written %.1f MB  "
           "lost records %.0f",
           t->cpu, t->rss / 1e6, t->disk / 1e9, t->read / 1e6, t->written / 1e6, t->lost);
  if (t->dropped > 0)
    snprintf(text[n++], sizeof *text, "missed by slow subscribers: %.0f", t->dropped);
  if (!isnan(t->gpu) || !isnan(t->gpu_memory))
    snprintf(text[n++], sizeof *text, "GPU %.0f %% busy  memory %.0f MB  %.0f W  %.0f C",
             100 * t->gpu, t->gpu_memory / 1e6, t->gpu_watts, t->gpu_celsius);
  return n;
}

/* columns: of the terminal, 0 for none. */
static void stage_text(const stage_t *st, int columns, char *text, size_t n) {
  if (columns && columns < STAGE_COLUMNS) {
    snprintf(text, n, "%-15.15s %4.0f%% %4.0f%% %4.0f%% %6.1f", st->name, 100 * st->busy,
             100 * st->starved, 100 * st->blocked, st->queue);
    return;
  }
  snprintf(text, n, "%-16.16s %5.1f%% busy %5.1f%% starved %5.1f%% blocked %6.1f waiting", st->name,
           100 * st->busy, 100 * st->starved, 100 * st->blocked, st->queue);
}

/* A line of a stage that is the end of a link; false: it is none. */
static bool link_text(const stage_t *st, char *text, size_t n) {
  if (st->released < 0) return false;
  snprintf(text, n, "%-16.16s released up to %" PRId64 ", committed up to %" PRId64, st->name,
           st->released, st->committed);
  return true;
}

static int print_once(top_t *t) {
  char text[256], head[HEAD_LINES][256];
  int n = head_text(t, head), columns = mr_columns(STDOUT_FILENO);
  snprintf(text, sizeof text, "%s  %s", t->where, t->note);
  mr_put_wrapped(stdout, text, columns, 2);
  for (int i = 0; i < n; i++) mr_put_wrapped(stdout, head[i], columns, 2);
  if (t->n_stages && columns && columns < STAGE_COLUMNS) puts(narrow_head);
  for (int i = 0; i < t->n_stages; i++) {
    stage_text(&t->stage[i], columns, text, sizeof text);
    mr_put_wrapped(stdout, text, columns, 2);
  }
  for (int i = 0; i < t->n_stages; i++)
    if (link_text(&t->stage[i], text, sizeof text)) mr_put_wrapped(stdout, text, columns, 2);
  for (int i = 0; i < t->n_lines; i++) mr_put_wrapped(stdout, t->line[i], columns, 2);
  return 0;
}

/* ---- the screen ---- */

enum { COLOUR_BUSY = 1, COLOUR_STARVED, COLOUR_BLOCKED, COLOUR_CURVE };

/* The mean loss of each column's share of the steps, NAN where it has none. */
static double column(const top_t *t, int x, int width) {
  int64_t from = t->n_losses * x / width, to = t->n_losses * (x + 1) / width, n = 0;
  double sum = 0;
  if (to == from && from < t->n_losses) to = from + 1;
  for (int64_t i = from; i < to; i++)
    if (isfinite(t->losses[i])) sum += t->losses[i], n++;
  return n ? sum / (double)n : NAN;
}

static void draw_curve(const top_t *t, int y, int width) {
  double lo = INFINITY, hi = -INFINITY;
  for (int x = 0; x < width; x++) {
    double v = column(t, x, width);
    if (isnan(v)) continue;
    lo = fmin(lo, v), hi = fmax(hi, v);
  }
  if (!(hi >= lo)) return;
  mvprintw(y, 0, "%8.4f", hi);
  mvprintw(y + CHART - 1, 0, "%8.4f", lo);
  attron(COLOR_PAIR(COLOUR_CURVE));
  for (int x = 0; x < width; x++) {
    double v = column(t, x, width);
    if (!isnan(v))
      mvaddch(y + (int)((hi - v) / (hi - lo > 0 ? hi - lo : 1) * (CHART - 1) + .5), 9 + x, '*');
  }
  attroff(COLOR_PAIR(COLOUR_CURVE));
}

static void draw_bar(int y, int x, int width, const stage_t *st) {
  const double share[] = {st->busy, st->starved, st->blocked};
  const char sign[] = {'#', '-', '='};
  for (int i = 0; i < 3; i++) {
    int n = (int)(share[i] * width + .5);
    attron(COLOR_PAIR(COLOUR_BUSY + i));
    for (int k = 0; k < n && x < COLS; k++) mvaddch(y, x++, (chtype)sign[i]);
    attroff(COLOR_PAIR(COLOUR_BUSY + i));
  }
}

/* A text in lines that fit the screen, from line y on; returns the line after it. */
static int draw_text(int y, const char *text) {
  size_t n = mr_fitting(text, COLS);
  mvaddnstr(y++, 0, text, (int)n);
  for (text += n; *(text += strspn(text, " ")); text += n) {
    n = mr_fitting(text, COLS > 4 ? COLS - 2 : COLS);
    mvaddnstr(y++, COLS > 4 ? 2 : 0, text, (int)n);
  }
  return y;
}

static void draw(top_t *t) {
  char text[256], head[HEAD_LINES][256];
  const char *over = t->note[0] ? t->note : mr_top_feed_over(t->feed);
  int y = 0, width = COLS - 10 > 8 ? COLS - 10 : 8;
  erase();
  attron(A_BOLD);
  snprintf(text, sizeof text, "millrace top  %s", t->where);
  y = draw_text(y, text);
  attroff(A_BOLD);
  snprintf(text, sizeof text, "%s; q leaves", over ? over : "running");
  y = draw_text(y, text);
  for (int i = 0, n = head_text(t, head); i < n; i++) y = draw_text(y, head[i]);
  draw_curve(t, ++y, width);
  y += CHART + 1;
  if (t->n_stages && COLS < STAGE_COLUMNS && y < LINES) y = draw_text(y, narrow_head);
  for (int i = 0; i < t->n_stages && y < LINES; i++) {
    stage_text(&t->stage[i], COLS, text, sizeof text);
    mvaddnstr(y, 0, text, COLS);
    draw_bar(y++, STAGE_COLUMNS, 40, &t->stage[i]);
  }
  for (int i = 0; i < t->n_stages && y < LINES; i++)
    if (link_text(&t->stage[i], text, sizeof text)) y = draw_text(y, text);
  y++;
  for (int i = 0; i < t->n_lines && y < LINES; i++) y = draw_text(y, t->line[i]);
  refresh();
}

static int watch(top_t *t) {
  setlocale(LC_CTYPE, "");
  initscr();
  cbreak(), noecho(), curs_set(0), timeout(200), keypad(stdscr, TRUE);
  if (has_colors()) {
    start_color(), use_default_colors();
    init_pair(COLOUR_BUSY, COLOR_GREEN, -1), init_pair(COLOUR_STARVED, COLOR_YELLOW, -1);
    init_pair(COLOUR_BLOCKED, COLOR_RED, -1), init_pair(COLOUR_CURVE, COLOR_CYAN, -1);
  }
  for (int key = 0; key != 'q' && key != 'Q' && key != 27; key = getch()) {
    drain(t);
    draw(t);
  }
  endwin();
  return 0;
}

enum { FIRST_MS = 5000, ALL_MS = 60000 };

/* A page needs a moment to send what there is, and longer where training leaves it little time. */
static void wait_for_all(top_t *t) {
  for (int ms = 0; ms < ALL_MS && !mr_top_feed_over(t->feed); ms += 50) {
    drain(t);
    if (mr_top_feed_caught_up(t->feed) && (t->seen || ms >= FIRST_MS)) break;
    usleep(50000);
  }
  drain(t);
}

/* The word is one of main's argv, which every user of the host can read: a token there is
   overwritten. */
static void hide_token(const char *word) {
  char *token = strstr((char *)(uintptr_t)word, "token=");
  if (!token) return;
  for (token += strlen("token="); *token && *token != '&'; token++) *token = '*';
}

static int top_run(const mr_args_t *a, mr_diag_t *diag) {
  bool once = mr_args_text(a, "--once") != NULL;
  if (!once && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)))
    return mr_fail(diag, MR_ERR_USAGE, "top: this is no terminal; --once prints the numbers");
  top_t *t = calloc(1, sizeof *t);
  if (!t) return mr_fail(diag, MR_ERR_NOMEM, "no memory for top");
  mr_err_t e = mr_top_feed_open(a->word[0], &t->feed, diag);
  int result = e;
  hide_token(a->word[0]);
  if (e >= 0) {
    t->where = mr_top_feed_name(t->feed);
    forget(t);
    if (once) wait_for_all(t);
    const char *over = once && !t->seen ? mr_top_feed_over(t->feed) : NULL;
    result = over   ? mr_fail(diag, MR_ERR_IO, "%s: %s", t->where, over)
             : once ? print_once(t)
                    : watch(t);
  }
  mr_top_feed_close(t->feed);
  free(t);
  return result;
}

static const mr_flag_t top_flags[] = {{"--once", NULL, "Prints the newest numbers and ends."}, {0}};

const mr_command_t mr_command_top = {
    .name = "top",
    .words = "RUN|RUN/web.url|URL",
    .help = "Shows a run in the terminal while it goes on: its folder, or the address of its page.",
    .more =
        "\nA page's address holds a token: name the file RUN/web.url, or the address without it "
        "and "
        "set\nMILLRACE_TOKEN, so that no other user sees it among the processes.\n"
        "\nBars: # busy, - waits for input, = waits for room.  q leaves.",
    .flags = top_flags,
    .min_words = 1,
    .max_words = 1,
    .run = top_run,
};
