/* The screen of millrace top, drawn with ncurses: numbers, the curve of the loss, bars of
   stages. */
#include <curses.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/look/top_run.h"
#include "base/text.h"

enum { CHART = 9 /* lines of the curve */ };
enum { COLOUR_BUSY = 1, COLOUR_STARVED, COLOUR_BLOCKED, COLOUR_CURVE };

/* The mean loss of the steps that column x shows; NAN if it has none. */
static double column_loss(const mr_top_t *t, int x, int width) {
  int64_t from = t->n_losses * x / width, to = t->n_losses * (x + 1) / width, n = 0;
  double sum = 0;
  if (to == from && from < t->n_losses) to = from + 1;
  for (int64_t i = from; i < to; i++)
    if (isfinite(t->losses[i])) sum += t->losses[i], n++;
  return n ? sum / (double)n : NAN;
}

static void draw_curve(const mr_top_t *t, int y, int width) {
  double lo = INFINITY, hi = -INFINITY;
  for (int x = 0; x < width; x++) {
    double v = column_loss(t, x, width);
    if (isnan(v)) continue;
    lo = fmin(lo, v), hi = fmax(hi, v);
  }
  if (!(hi >= lo)) return;
  mvprintw(y, 0, "%8.4f", hi);
  mvprintw(y + CHART - 1, 0, "%8.4f", lo);
  attron(COLOR_PAIR(COLOUR_CURVE));
  for (int x = 0; x < width; x++) {
    double v = column_loss(t, x, width);
    if (!isnan(v))
      mvaddch(y + (int)((hi - v) / (hi - lo > 0 ? hi - lo : 1) * (CHART - 1) + .5), 9 + x, '*');
  }
  attroff(COLOR_PAIR(COLOUR_CURVE));
}

static void draw_bar(int y, int x, int width, const mr_top_stage_t *st) {
  const double share[] = {st->busy, st->starved, st->blocked};
  const char sign[] = {'#', '-', '='};
  for (int i = 0; i < 3; i++) {
    int n = (int)(share[i] * width + .5);
    attron(COLOR_PAIR(COLOUR_BUSY + i));
    for (int k = 0; k < n && x < COLS; k++) mvaddch(y, x++, (chtype)sign[i]);
    attroff(COLOR_PAIR(COLOUR_BUSY + i));
  }
}

/* Draws a text wrapped to the screen from line y on; returns the line after it. */
static int draw_text(int y, const char *text) {
  size_t n = mr_fitting(text, COLS);
  mvaddnstr(y++, 0, text, (int)n);
  for (text += n; *(text += strspn(text, " ")); text += n) {
    n = mr_fitting(text, COLS > 4 ? COLS - 2 : COLS);
    mvaddnstr(y++, COLS > 4 ? 2 : 0, text, (int)n);
  }
  return y;
}

static void top_screen_draw(mr_top_t *t) {
  char text[256], head[MR_TOP_HEAD_LINES][MR_TOP_LINE];
  const char *over = t->note[0] ? t->note : mr_top_feed_over(t->feed);
  int y = 0, width = COLS - 10 > 8 ? COLS - 10 : 8;
  erase();
  attron(A_BOLD);
  snprintf(text, sizeof text, "millrace top  %s", t->where);
  y = draw_text(y, text);
  attroff(A_BOLD);
  snprintf(text, sizeof text, "%s; q quits", over ? over : "running");
  y = draw_text(y, text);
  for (int i = 0, n = mr_top_head_text(t, head); i < n; i++) y = draw_text(y, head[i]);
  draw_curve(t, ++y, width);
  y += CHART + 1;
  if (t->n_stages && COLS < MR_TOP_STAGE_COLUMNS && y < LINES) y = draw_text(y, mr_top_narrow_head);
  for (int i = 0; i < t->n_stages && y < LINES; i++) {
    mr_top_stage_text(&t->stage[i], COLS, text, sizeof text);
    mvaddnstr(y, 0, text, COLS);
    draw_bar(y++, MR_TOP_STAGE_COLUMNS, 40, &t->stage[i]);
  }
  for (int i = 0; i < t->n_stages && y < LINES; i++)
    if (mr_top_link_text(&t->stage[i], text, sizeof text)) y = draw_text(y, text);
  for (int i = 0; i < t->n_reported && y < LINES; i++) y = draw_text(y, t->reported[i]);
  y++;
  for (int i = 0; i < t->n_lines && y < LINES; i++) y = draw_text(y, t->line[i]);
  refresh();
}

mr_err_t mr_top_watch(mr_top_t *t, mr_diag_t *diag) {
  setlocale(LC_CTYPE, "");
  initscr();
  cbreak(), noecho(), curs_set(0), timeout(200), keypad(stdscr, TRUE);
  if (has_colors()) {
    start_color(), use_default_colors();
    init_pair(COLOUR_BUSY, COLOR_GREEN, -1), init_pair(COLOUR_STARVED, COLOR_YELLOW, -1);
    init_pair(COLOUR_BLOCKED, COLOR_RED, -1), init_pair(COLOUR_CURVE, COLOR_CYAN, -1);
  }
  for (int key = 0; key != 'q' && key != 'Q' && key != 27; key = getch()) {
    mr_top_drain(t);
    top_screen_draw(t);
  }
  endwin();
  return MR_OK;
}
