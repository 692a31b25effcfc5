/* Short runs: each line that leads into the training step is followed upwards to the stages that
   order its records, whose epochs are then cut short. */
#include "apps/run/limit_graph.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "base/err.h"
#include "pipeline/graph/graph.h"
#include "stages/train/train_stage.h"

enum { DEV_STEPS = 2 };

mr_err_t mr_limit_check(const mr_args_t *a, bool resumes, mr_diag_t *diag) {
  static const char *const flags[] = {"--limit-train", "--limit-valid", "--overfit-batches",
                                      "--fast-dev-run"};
  int64_t unused;
  for (int i = 0; i < 4; i++) {
    if (!mr_args_text(a, flags[i])) continue;
    if (i < 3) MR_TRY(mr_args_int(a, flags[i], 1, INT64_C(1000000000000), &unused, diag));
    if (resumes)
      return mr_fail(diag, MR_ERR_USAGE, "%s: a resumed run keeps the records that it has",
                     flags[i]);
  }
  if (mr_args_text(a, "--overfit-batches") && mr_args_text(a, "--limit-train"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "--overfit-batches: says which records are trained on, as --limit-train does; "
                   "want one of them");
  if (mr_args_text(a, "--fast-dev-run") && mr_args_text(a, "--run-dir"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "--fast-dev-run: its folder is removed at the end; want no --run-dir");
  return MR_OK;
}

static mr_err_t limit_add(mr_run_dir_t *r, const char *stage, const char *setting, int64_t n,
                          mr_diag_t *diag) {
  char text[160];
  snprintf(text, sizeof text, "%s.%s=%" PRId64, stage, setting, n);
  return mr_run_dir_set(r, text, diag);
}

/* Tells the stages that order the records of a line to end each epoch after n of them; again: with
   the same ones each time.  Adds the number of these stages to *n_set. */
static mr_err_t limit_line(const mr_graph_t *g, mr_run_dir_t *r, const char *stage, int64_t n,
                           bool again, int *n_set, mr_diag_t *diag) {
  const mr_stage_def_t *def = mr_graph_stage(g, stage)->def;
  if (mr_stage_def_opt(def, "first")) {
    char text[160];
    ++*n_set;
    MR_TRY(limit_add(r, stage, "first", n, diag));
    if (!again || !mr_stage_def_opt(def, "reshuffle")) return MR_OK;
    snprintf(text, sizeof text, "%s.reshuffle=false", stage);
    return mr_run_dir_set(r, text, diag);
  }
  for (int port = 0, ports = mr_graph_n_inputs(g, stage); port < ports; port++) {
    const char *before = mr_graph_before(g, stage, port);
    if (before) MR_TRY(limit_line(g, r, before, n, again, n_set, diag));
  }
  return MR_OK;
}

/* The records of a batch of a line; 0: no stage says it. */
static int64_t batch_of_line(const mr_graph_t *g, const char *stage) {
  for (; stage; stage = mr_graph_before(g, stage, 0)) {
    const mr_stage_def_t *def = mr_graph_stage(g, stage)->def;
    const char *size = mr_stage_def_opt(def, "drop-remainder") && mr_stage_def_opt(def, "size")
                           ? mr_graph_setting(g, stage, "size")
                           : NULL;
    if (size) return strtoll(size, NULL, 10);
  }
  return 0;
}

/* Limits one input of the step: to n records, or to this many batches. */
static mr_err_t limit_input(const mr_graph_t *g, mr_run_dir_t *r, const char *step, int port,
                            const char *flag, int64_t records, int64_t batches, bool again,
                            mr_diag_t *diag) {
  const char *before = mr_graph_before(g, step, port);
  int n_set = 0;
  if (!before || (!records && !batches)) return MR_OK;
  if (!records) records = batches * batch_of_line(g, before);
  if (records) MR_TRY(limit_line(g, r, before, records, again, &n_set, diag));
  if (n_set) return MR_OK;
  return mr_fail(
      diag, MR_ERR_USAGE,
      "%s: no stage shuffle or sequential leads to input %s of %s; put `slice :N` behind "
      "its source",
      flag, mr_graph_input_name(g, step, port), step);
}

static mr_err_t limit_inputs(const mr_args_t *a, const mr_graph_t *g, mr_run_dir_t *r,
                             mr_diag_t *diag) {
  const mr_stage_t *step = mr_train_stage(g);
  bool dev = mr_args_text(a, "--fast-dev-run") != NULL;
  int64_t train = 0, valid = 0, overfit = 0;
  if (!step) return mr_fail(diag, MR_ERR_USAGE, "--limit-train: the graph trains nothing");
  MR_TRY(mr_args_int(a, "--limit-train", 0, INT64_C(1000000000000), &train, diag));
  MR_TRY(mr_args_int(a, "--limit-valid", 0, INT64_C(1000000000000), &valid, diag));
  MR_TRY(mr_args_int(a, "--overfit-batches", 0, INT64_C(1000000000000), &overfit, diag));
  const char *of_train = train ? "--limit-train" : overfit ? "--overfit-batches" : "--fast-dev-run";
  int64_t batches = overfit ? overfit : dev ? DEV_STEPS : 0;
  MR_TRY(limit_input(g, r, step->name, 0, of_train, train, batches, overfit > 0, diag));
  for (int port = 1, n = mr_graph_n_inputs(g, step->name); port < n; port++)
    MR_TRY(limit_input(g, r, step->name, port, valid ? "--limit-valid" : "--fast-dev-run", valid,
                       dev ? 1 : 0, false, diag));
  return dev ? limit_add(r, step->name, "steps", DEV_STEPS, diag) : MR_OK;
}

mr_err_t mr_limit_set(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag) {
  if (!mr_args_text(a, "--limit-train") && !mr_args_text(a, "--limit-valid") &&
      !mr_args_text(a, "--overfit-batches") && !mr_args_text(a, "--fast-dev-run"))
    return MR_OK;
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  mr_err_t e = mr_run_dir_graph(r, g, diag);
  if (e >= 0) e = limit_inputs(a, g, r, diag);
  mr_graph_destroy(g);
  return e;
}

/* ---- the folder of --fast-dev-run ---- */

mr_err_t mr_limit_folder(char path[MR_RUN_PATH], mr_diag_t *diag) {
  const char *tmp = getenv("TMPDIR");
  snprintf(path, MR_RUN_PATH, "%s/millrace-dev-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (mkdtemp(path)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO, "--fast-dev-run: cannot make %s: %s", path, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at) {
  return remove(path);
}

void mr_limit_remove(const char *path) { (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }
