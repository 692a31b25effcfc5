/* millrace eval: evaluates a checkpoint on one split of the data.  It reads the data's place and
   its split from the folder of the run that wrote the checkpoint, so that the validation records
   are those which training did not see; then it runs a small graph that ends in eval-step. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/cli/model_arg.h"
#include "apps/cli/texts.h"
#include "apps/run/graph_arg.h"
#include "apps/run/interrupt.h"
#include "apps/run/run_dir.h"
#include "apps/run/synthetic.h"
#include "loaders/local/split.h"
#include "stages/train/state.h"
#include "stages/train/train_stage.h"

static const mr_flag_t eval_flags[] = {
    {"--data", "DIR",
     "Folder of CIFAR-10 in its official binary layout, or the word synthetic; default: the data "
     "that the checkpoint's run was trained on."},
    {"--split", "train|valid|test", "Which records to use; default test."},
    {"--dtype", "f32|bf16|f16",
     "Type that the model computes in; default, as for the three below: as the checkpoint's run."},
    {"--amp", "usual|jaxamp|none", "What computes in that type, as train-step's amp=."},
    {"--amp-rule", "RULES", "Exceptions to it, as train-step's amp-rule=."},
    {"--param-dtype", "f32|bf16|f16", "Type of the parameters that the model reads."},
    {"--threads", "N", "Number of compute threads; default one per processor."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]", "Where the model computes; default cpu."},
    {"--pin", NULL, "Binds each of these threads to a processor of its own."},
    {"--jsonl", "FILE", "Also writes the result as JSON."},
    {0}};

/* What a checkpoint is evaluated on. */
typedef struct judged {
  mr_graph_t *run;        /* of the checkpoint's run; NULL: it has none that can be read */
  char path[MR_RUN_PATH]; /* of the data, or the name of the source that makes it up */
  char setting[3][32];    /* the run's values of kept_name; "": default */
} judged_t;

/* The settings that decide which records belong to which split. */
static const char *const kept_name[3] = {"records", "holdout", "split-seed"};

/* Writes the run of a checkpoint RUN/checkpoints/NAME into run[0,MR_RUN_PATH); false if it has
   none. */
static bool run_of(const char *checkpoint, char *run) {
  char real[PATH_MAX], graph[PATH_MAX + 16];
  if (!realpath(checkpoint, real)) return false;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(real, '/');
    if (!slash) return false;
    *slash = 0;
  }
  snprintf(graph, sizeof graph, "%s/graph.mr", real);
  if (access(graph, R_OK) || strlen(real) >= MR_RUN_PATH) return false;
  strcpy(run, real);
  return true;
}

static void keep_setting(const mr_graph_t *g, const char *stage, const char *name, char *to,
                         size_t n) {
  const char *text = mr_graph_setting(g, stage, name);
  snprintf(to, n, "%s", text ? text : "");
}

/* Makes r the run as it was when it wrote a checkpoint of its folder. */
static mr_err_t become_as_of(mr_run_dir_t *r, const char *checkpoint, mr_diag_t *diag) {
  mr_train_progress_t at;
  mr_history_t h;
  MR_TRY(mr_train_state_progress(checkpoint, &at, diag));
  mr_err_t e = mr_history_read(r->path, &h, diag);
  const mr_history_part_t *part = e >= 0 ? mr_history_at(&h, at.step) : NULL;
  if (part) e = mr_run_dir_become(r, part, diag);
  mr_history_free(&h);
  return e;
}

/* Returns the graph of a checkpoint's run as it was then, which the caller destroys; NULL if it is
   missing or cannot be read. */
static mr_graph_t *graph_of_run(const char *checkpoint) {
  char run[MR_RUN_PATH];
  mr_run_dir_t r = {0};
  mr_diag_t unsaid = {0};
  if (!run_of(checkpoint, run)) return NULL;
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  bool found = g && mr_run_dir_read(&r, run, &unsaid) >= 0 &&
               become_as_of(&r, checkpoint, &unsaid) >= 0 && mr_run_dir_graph(&r, g, &unsaid) >= 0;
  mr_run_dir_free(&r);
  if (!found) mr_graph_destroy(g);
  return found ? g : NULL;
}

/* Finds the source of classes of the run: its folder, and which records were held back.  False if
   the run has none. */
static bool data_of_run(judged_t *d) {
  const mr_stage_t *s = d->run ? mr_graph_stage_with(d->run, MR_ROLE_CLASSES, 0) : NULL;
  if (s) {
    keep_setting(d->run, s->name, "path", d->path, sizeof d->path);
    for (int i = 0; i < 3; i++)
      keep_setting(d->run, s->name, kept_name[i], d->setting[i], sizeof d->setting[i]);
  }
  return s && d->path[0];
}

/* The precision that the model computes in: as the flags say, else as the run trained it.  Of the
   run's settings, those that do not go with --dtype are left out. */
static mr_err_t eval_set_precision(const mr_args_t *a, const mr_graph_t *run, mr_graph_t *g,
                                   mr_diag_t *diag) {
  static const char *const name[] = {"dtype", "amp", "amp-rule", "param-dtype", "matmul-precision"};
  const mr_stage_t *s = run ? mr_train_stage(run) : NULL;
  const char *dtype = mr_args_text(a, "--dtype");
  for (int i = 0; i < 5; i++) {
    char flag[32];
    snprintf(flag, sizeof flag, "--%s", name[i]);
    const char *text = mr_args_text(a, flag);
    if (!text && s) {
      text = mr_graph_setting(run, s->name, name[i]);
      bool of_amp = i == 1 || i == 2, none = i == 1 && text && !strcmp(text, "none");
      if (text && of_amp && dtype && (none || !strcmp(dtype, "f32"))) text = NULL;
    }
    if (text && *text) MR_TRY(mr_graph_set(g, "eval", name[i], text, diag));
  }
  return MR_OK;
}

/* Chooses the data: --data, else the data of the checkpoint's run.  Never synthetic pictures for a
   checkpoint that was trained on others, unless they are requested. */
static mr_err_t eval_choose_data(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  const char *data = mr_args_text(a, "--data"), *checkpoint = a->word[0];
  mr_train_progress_t at;
  bool of_run = data_of_run(d);
  if (data && snprintf(d->path, sizeof d->path, "%s", data) >= (int)sizeof d->path)
    return mr_fail(diag, MR_ERR_USAGE, "--data: %.40s...: the path is too long", data);
  if (data) return MR_OK;
  MR_TRY(mr_train_state_progress(checkpoint, &at, diag));
  if (mr_is_synthetic(at.origin)) return strcpy(d->path, at.origin), MR_OK;
  const mr_stage_def_t *source = mr_registry_find(mr_all_stages(), at.origin);
  if (at.origin[0] && (!source || source->role != MR_ROLE_CLASSES))
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: was trained on data of the stage %s, and eval reads CIFAR-10 alone; give a "
                   "graph that ends in `eval-step checkpoint=%s` to `millrace run`",
                   checkpoint, at.origin, checkpoint);
  if (!of_run) strcpy(d->path, mr_usual_data);
  if (access(d->path, F_OK) == 0) return MR_OK;
  return mr_fail(
      diag, MR_ERR_IO,
      "%s: was trained on CIFAR-10, which is not in %s (%s); name its folder with --data",
      checkpoint, d->path, of_run ? "as its run says" : "where it usually is");
}

/* Refuses a folder, since users often name the run, and suggests its newest checkpoint. */
static mr_err_t check_is_file(const char *path, mr_diag_t *diag) {
  char latest[MR_RUN_PATH];
  struct stat st;
  if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) return MR_OK;
  int n = snprintf(latest, sizeof latest, "%s/checkpoints/latest", path);
  if (n < (int)sizeof latest && access(latest, F_OK) == 0)
    return mr_fail(diag, MR_ERR_IO, "eval: %s is a run; its newest checkpoint is %s", path, latest);
  return mr_fail(diag, MR_ERR_IO,
                 "eval: %s is a folder, want a checkpoint, such as RUN/checkpoints/latest", path);
}

static mr_err_t eval_build(const mr_args_t *a, judged_t *d, mr_graph_t *g, mr_diag_t *diag) {
  const char *split = mr_args_text(a, "--split"), *jsonl = mr_args_text(a, "--jsonl"),
             *threads = mr_args_text(a, "--threads"), *device = mr_args_text(a, "--device");
  MR_TRY(mr_device_named(a, diag));
  MR_TRY(check_is_file(a->word[0], diag));
  d->run = graph_of_run(a->word[0]);
  MR_TRY(eval_choose_data(a, d, diag));
  const char *data = d->path;
  bool synthetic = mr_is_synthetic(data);
  const mr_stage_def_t *source =
      mr_registry_role(mr_all_stages(), synthetic ? MR_ROLE_SYNTHETIC : MR_ROLE_CLASSES);
  MR_TRY(mr_graph_add_def(g, source, "data", NULL, diag));
  if (!synthetic) MR_TRY(mr_graph_set(g, "data", "path", data, diag));
  for (int i = 0; i < 3; i++)
    if (!synthetic && d->setting[i][0])
      MR_TRY(mr_graph_set(g, "data", kept_name[i], d->setting[i], diag));
  MR_TRY(mr_graph_set(g, "data", "split", split ? split : "test", diag));
  MR_TRY(mr_graph_parse(g, mr_eval_text, NULL, 0, diag));
  MR_TRY(mr_graph_set(g, "eval", "checkpoint", a->word[0], diag));
  if (split && strcmp(split, "test"))
    MR_TRY(mr_graph_set(g, "eval", "records",
                        strcmp(split, "train") ? "Held-back records" : "Training records", diag));
  MR_TRY(eval_set_precision(a, d->run, g, diag));
  if (threads) MR_TRY(mr_graph_set(g, "eval", "threads", threads, diag));
  if (device) MR_TRY(mr_graph_set(g, "eval", "device", device, diag));
  if (mr_args_text(a, "--pin")) MR_TRY(mr_graph_set(g, "eval", "pin", "true", diag));
  if (!jsonl) return MR_OK;
  const mr_stage_def_t *lines = mr_registry_role(mr_all_stages(), MR_ROLE_LINES);
  const char *name;
  MR_TRY(mr_graph_add_def(g, lines, NULL, &name, diag));
  MR_TRY(mr_graph_set(g, name, "path", jsonl, diag));
  return mr_graph_link(g, "eval", NULL, name, NULL, diag);
}

static int eval_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  bool stopped = false;
  judged_t d = {0};
  int e = eval_build(a, &d, g, diag);
  if (e >= 0) e = mr_run_interruptible(g, NULL, &stopped, diag);
  mr_graph_destroy(g), mr_graph_destroy(d.run);
  return e < 0 ? e : stopped ? MR_EXIT_STOPPED : 0;
}

static const mr_hint_t eval_words[] = {{"evaluate validate test", "eval", NULL}, {0}};

static const mr_hint_t eval_flag_words[] = {{"datadir datapath dataroot root", "--data", NULL},
                                            {"subset", "--split", NULL},
                                            {"precision", "--dtype", NULL},
                                            {"gpu gpus cuda", "--device cuda", NULL},
                                            {0}};

const mr_command_t mr_command_eval = {
    .name = "eval",
    .hint = eval_words,
    .flag_hint = eval_flag_words,
    .values = {mr_split_hints, mr_dtype_hints},
    .words = "CHECKPOINT",
    .help = "Evaluates a checkpoint: loss, accuracy, confusion matrix.",
    .more = "\nA run's newest checkpoint is RUN/checkpoints/latest.",
    .flags = eval_flags,
    .min_words = 1,
    .max_words = 1,
    .run = eval_run,
};
