/* The state that millrace top keeps of a run, its newest records, and the lines of text that both
   the screen and --once show.  One thread.  Implemented in top_run.c; mr_top_watch in top_screen.c,
   or without.c in a build without ncurses. */
#ifndef MR_APPS_LOOK_TOP_RUN_H
#define MR_APPS_LOOK_TOP_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/look/top_feed.h"
#include "base/err.h"
#include "base/metric.h"

enum { MR_TOP_LOSSES = 1 << 16, MR_TOP_LINES = 6, MR_TOP_HEAD_LINES = 7, MR_TOP_LINE = 640 };
enum { MR_TOP_BURST = 4096 };
enum { MR_TOP_STAGE_COLUMNS = 76 /* width of a stage's line in words */ };

typedef struct mr_top_stage {
  char name[64];
  double busy, starved, blocked, queue;
  int64_t released, committed; /* -1: no end of a link */
} mr_top_stage_t;

typedef struct mr_top {
  const char *where;   /* the caller's */
  mr_top_feed_t *feed; /* the caller's, who closes it */
  int64_t step, total, epoch;
  double value[MR_METRICS_N]; /* newest value of each metric of millrace's own, by mr_metric_id_t;
                                 NAN: not reported yet */
  char judged[400]; /* the numbers that the model is judged by: "  accuracy 0.4100"; "": none */
  double losses[MR_TOP_LOSSES]; /* of every n_each-th step, oldest first */
  int64_t n_losses, n_each, seen;
  mr_top_stage_t *stage; /* [n_stages] heap */
  int n_stages, room_stages;
  char (*reported)[MR_TOP_LINE]; /* [n_reported] what a stage reports of itself, one line each; heap
                                  */
  int n_reported;
  char line[MR_TOP_LINES][512]; /* newest last */
  int n_lines;
  char note[80];
} mr_top_t;

/* Resets everything except where and feed. */
void mr_top_forget(mr_top_t *t);
void mr_top_fini(mr_top_t *t); /* frees what t holds, but for where and feed; all zero is fine */

/* Takes the records available now, at most MR_TOP_BURST of them; returns whether there was any.
   Never blocks. */
bool mr_top_drain(mr_top_t *t);

/* Writes the lines of numbers; returns how many, in [3,MR_TOP_HEAD_LINES]. */
int mr_top_head_text(const mr_top_t *t, char text[MR_TOP_HEAD_LINES][MR_TOP_LINE]);

/* Writes a stage's line into text[0,n).  columns: of the terminal, 0 without one; if below
   MR_TOP_STAGE_COLUMNS, the line is a row of a table under mr_top_narrow_head. */
void mr_top_stage_text(const mr_top_stage_t *st, int columns, char *text, size_t n);
extern const char mr_top_narrow_head[];

/* Writes the line of a link's end into text[0,n); returns false for any other stage. */
bool mr_top_link_text(const mr_top_stage_t *st, char *text, size_t n);

/* Shows the run on the terminal, which must be standard input and output, until q is pressed.
   MR_ERR_UNAVAILABLE in a build without ncurses. */
mr_err_t mr_top_watch(mr_top_t *t, mr_diag_t *diag);

#endif
