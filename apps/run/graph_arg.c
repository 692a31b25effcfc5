/* The graph that a command's first word names: a run's folder, a file or the text itself.  The
   words after it are settings; in a run's folder they join the run's own settings, in a text they
   override what is written there. */
#include "apps/run/graph_arg.h"
#include "apps/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/run/run_dir.h"
#include "apps/run/synthetic.h"
#include "stages/train/train_stage.h"

static mr_err_t graph_arg_parse(const mr_args_t *a, int at, const char *text, const char *origin,
                                mr_graph_t *g, mr_diag_t *diag) {
  MR_TRY(mr_graph_set_origin(g, origin, diag));
  mr_graph_on_plugin(g, mr_plugin_of_text, NULL);
  return mr_graph_parse(g, text, a->word + at + 1, a->n_words - at - 1, diag);
}

static bool graph_arg_is_run(const char *word) {
  char path[MR_RUN_PATH + 64];
  struct stat st;
  int n = snprintf(path, sizeof path, "%s/graph.mr", word);
  return n < (int)sizeof path && stat(path, &st) == 0;
}

void mr_note_step_ahead(const mr_args_t *a, int at, int64_t step) {
  int64_t done = 0;
  if (!graph_arg_is_run(a->word[at]) || mr_run_dir_steps(a->word[at], &done, NULL) < 0 ||
      step <= done)
    return;
  fprintf(stderr,
          "millrace: %s has done %lld step%s: step %lld has not run yet; these are the records "
          "that it would have\n",
          a->word[at], (long long)done, done == 1 ? "" : "s", (long long)step);
}

/* Builds the graph of a run, part NULL: as it is now. */
static mr_err_t from_part(const mr_args_t *a, int at, const mr_history_part_t *part, mr_graph_t *g,
                          mr_diag_t *diag) {
  mr_run_dir_t r = {0};
  mr_err_t e = mr_run_dir_read(&r, a->word[at], diag);
  if (e >= 0 && part) e = mr_run_dir_become(&r, part, diag);
  for (int i = at + 1; i < a->n_words && e >= 0; i++) e = mr_run_dir_word(&r, a->word[i], diag);
  if (e >= 0) e = mr_run_dir_graph(&r, g, diag);
  if (e >= 0) e = mr_run_dir_carry(&r, g, diag);
  mr_run_dir_free(&r);
  return e;
}

static mr_err_t from_text(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag) {
  char *text;
  const char *origin;
  MR_TRY(mr_graph_text(a->word[at], &text, &origin, diag));
  mr_err_t e = graph_arg_parse(a, at, text, origin, g, diag);
  free(text);
  for (int i = at + 1; i < a->n_words && e >= 0; i++)
    if (!strncmp(a->word[i], "data=", 5)) e = mr_graph_use_synthetic(g, a->word[i] + 5, diag);
  return e;
}

mr_err_t mr_graph_again(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag) {
  MR_TRY(graph_arg_is_run(a->word[at]) ? from_part(a, at, NULL, g, diag)
                                       : from_text(a, at, g, diag));
  MR_TRY(mr_graph_overrides_once(g, a->word + at + 1, a->n_words - at - 1, diag));
  return mr_train_stage_devices(g, diag);
}

mr_err_t mr_graph_from_args(const mr_args_t *a, int at, mr_graph_t **g, mr_diag_t *diag) {
  *g = NULL;
  MR_TRY(mr_args_settings(a, at + 1, diag));
  *g = mr_graph_create(mr_all_stages());
  if (!*g) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_graph_again(a, at, *g, diag);
  if (e < 0) {
    mr_graph_destroy(*g);
    *g = NULL;
  }
  return e;
}

/* ---- a run as it was ---- */

/* Whether batches of this stage are those that the training step takes. */
static bool feeds_training(const mr_graph_t *g, const char *stage) {
  const mr_stage_t *step = mr_train_stage(g);
  const char *last, *at = stage ? stage : mr_graph_batches(g, &last);
  if (!stage && at) at = last;
  for (const char *one = step ? mr_graph_before(g, step->name, 0) : NULL; one && at;
       one = mr_graph_before(g, one, 0))
    if (!strcmp(one, at)) return true;
  return false;
}

static void say_changed_plugins(const mr_history_part_t *part, int64_t step) {
  char said[1024] = "", *now = mr_run_plugins_text();
  if (now) mr_run_plugins_compare(part->plugins, now, said, sizeof said);
  if (*said)
    fprintf(stderr, "millrace: since step %lld, whose records these are: %s", (long long)step,
            said);
  free(now);
}

static mr_err_t graph_of_part(const mr_args_t *a, int at, const mr_history_part_t *part,
                              mr_graph_t **g, mr_diag_t *diag) {
  *g = mr_graph_create(mr_all_stages());
  if (!*g) return mr_no_memory(diag, "a graph");
  MR_TRY(from_part(a, at, part, *g, diag));
  MR_TRY(mr_graph_overrides_once(*g, a->word + at + 1, a->n_words - at - 1, diag));
  return mr_train_stage_devices(*g, diag);
}

/* Takes the graph of the part that the step belongs to, if it says anything of these batches. */
static mr_err_t take_part_of_run(const mr_args_t *a, int at, int64_t step, const char *stage,
                                 const mr_history_t *h, mr_graph_of_steps_t *to, mr_diag_t *diag) {
  const mr_history_part_t *part = mr_history_at(h, step);
  if (!part) return MR_OK;
  mr_err_t e = graph_of_part(a, at, part, &to->g, diag);
  if (e >= 0 && feeds_training(to->g, stage)) {
    if (part + 1 < h->part + h->n) to->last = part[1].from;
    if (*part->data && !(to->data = strdup(part->data))) e = mr_no_memory(diag, "a run as it was");
    say_changed_plugins(part, step);
    if (e >= 0) return MR_OK;
  }
  mr_graph_destroy(to->g);
  to->g = NULL;
  return e;
}

mr_err_t mr_graph_of_step(const mr_args_t *a, int at, int64_t step, const char *stage,
                          mr_graph_of_steps_t *to, mr_diag_t *diag) {
  mr_history_t h = {0};
  *to = (mr_graph_of_steps_t){.last = INT64_MAX};
  mr_err_t e = mr_args_settings(a, at + 1, diag);
  if (e >= 0 && graph_arg_is_run(a->word[at])) {
    e = mr_history_read(a->word[at], &h, diag);
    if (e >= 0) e = take_part_of_run(a, at, step, stage, &h, to, diag);
    mr_history_free(&h);
  }
  return e < 0 || to->g ? e : mr_graph_from_args(a, at, &to->g, diag);
}
