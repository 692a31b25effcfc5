/* millrace top: shows a live run in a terminal, or once, as plain lines.  It reads the same records
   as any other subscriber, from the run's folder or its page, and never touches the run itself; an
   observer cannot slow it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/look/top_run.h"
#include "base/clock.h"
#include "base/feature.h"
#include "base/text.h"

static int print_once(mr_top_t *t) {
  char text[256], head[MR_TOP_HEAD_LINES][MR_TOP_LINE];
  int n = mr_top_head_text(t, head), columns = mr_columns(STDOUT_FILENO);
  snprintf(text, sizeof text, "%s  %s", t->where, t->note);
  mr_put_wrapped(stdout, text, columns, 2);
  for (int i = 0; i < n; i++) mr_put_wrapped(stdout, head[i], columns, 2);
  if (t->n_stages && columns && columns < MR_TOP_STAGE_COLUMNS) puts(mr_top_narrow_head);
  for (int i = 0; i < t->n_stages; i++) {
    mr_top_stage_text(&t->stage[i], columns, text, sizeof text);
    mr_put_wrapped(stdout, text, columns, 2);
  }
  for (int i = 0; i < t->n_stages; i++)
    if (mr_top_link_text(&t->stage[i], text, sizeof text)) mr_put_wrapped(stdout, text, columns, 2);
  for (int i = 0; i < t->n_reported; i++) mr_put_wrapped(stdout, t->reported[i], columns, 2);
  for (int i = 0; i < t->n_lines; i++) mr_put_wrapped(stdout, t->line[i], columns, 2);
  return 0;
}

enum { FIRST_MS = 5000, ALL_MS = 10000 };
enum { ONCE = 1 << 20, LIVE = 64 << 20 /* bytes of a run's newest records, for its curve */ };

/* Waits until the page has sent all earlier records, which takes longer when training leaves it
   little time.  A page that has not done so by then, or has sent nothing at all, is not waited for:
   it may never end. */
static mr_err_t wait_for_all(mr_top_t *t, mr_diag_t *diag) {
  int64_t begun = mr_now_ns(), ms = 0;
  bool any = false;
  for (;; ms = (mr_now_ns() - begun) / 1000000) {
    bool more = mr_top_drain(t), up = mr_top_feed_caught_up(t->feed);
    any |= more || up;
    if (!more && (mr_top_feed_over(t->feed) || (up && (t->seen || ms >= FIRST_MS)))) return MR_OK;
    if (ms >= ALL_MS || (!any && ms >= FIRST_MS)) break;
    if (!more) usleep(50000);
  }
  if (!t->seen)
    return mr_fail(diag, MR_ERR_IO, "%s: no record of a run in %d s; is it the page of a run?",
                   t->where, (int)(ms / 1000));
  mr_notice("%s: its records have not ended after %d s; these are the newest until then", t->where,
            (int)(ms / 1000));
  return MR_OK;
}

/* Overwrites a token in the word, which is part of argv and visible to every user of the host. */
static void hide_token(const char *word) {
  char *token = strstr((char *)(uintptr_t)word, "token=");
  if (!token) return;
  for (token += strlen("token="); *token && *token != '&'; token++) *token = '*';
}

static int top_run(const mr_args_t *a, mr_diag_t *diag) {
  bool once = mr_args_text(a, "--once") != NULL;
  if (!once && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)))
    return mr_fail(diag, MR_ERR_USAGE,
                   "top: standard output is not a terminal; --once prints the numbers");
  mr_top_t *t = calloc(1, sizeof *t);
  if (!t) return mr_no_memory(diag, "top");
  mr_err_t e = mr_top_feed_open(a->word[0], once ? ONCE : LIVE, &t->feed, diag);
  int result = e;
  hide_token(a->word[0]);
  if (e >= 0) {
    t->where = mr_top_feed_name(t->feed);
    mr_top_forget(t);
    result = once ? wait_for_all(t, diag) : MR_OK;
    const char *over = once && !t->seen ? mr_top_feed_over(t->feed) : NULL;
    result = result < 0 ? result
             : over     ? mr_fail(diag, MR_ERR_IO, "%s: %s", t->where, over)
             : once     ? print_once(t)
                        : mr_top_watch(t, diag);
  }
  mr_top_feed_close(t->feed);
  mr_top_fini(t);
  free(t);
  return result;
}

static const mr_flag_t top_flags[] = {{"--once", NULL, "Prints the newest numbers and exits."},
                                      {0}};

static const mr_hint_t top_words[] = {{"watch monitor", "top", NULL}, {0}};

const mr_command_t mr_command_top = {
    .name = "top",
    .hint = top_words,
    .words = "RUN|RUN/web.url|URL",
    .help = "Shows a live run in the terminal, given its folder or the address of its page.",
    .more =
        "\n"
        "The address of a page holds a token, which other users can see in the process list.  To\n"
        "hide it, give the file RUN/web.url, or the address without the token and set\n"
        "MILLRACE_TOKEN.\n"
        "\n"
        "Bars: # busy, - waits for input, = waits for room.  q quits.",
    .flags = top_flags,
    .min_words = 1,
    .max_words = 1,
    .run = top_run,
};
