/* millrace eval: evaluates a checkpoint on records that its run's graph leads into the training
   step.  The graph is that of the run, with its sources, its preparation of records and its
   plug-ins, cut behind the batches and ended by eval-step: what is measured is what the run
   measured.  A checkpoint without its run says by itself how its pictures were normalised. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/cli/model_arg.h"
#include "apps/cli/texts.h"
#include "apps/run/checkpoint_arg.h"
#include "apps/run/interrupt.h"
#include "apps/run/mistakes.h"
#include "apps/run/synthetic.h"
#include "loaders/local/split.h"
#include "stages/train/inputs.h"
#include "stages/train/state.h"

static const mr_flag_t eval_flags[] = {
    {"--data", "PATH",
     "Where the records are now: what the variable `data` of the run's graph, or its source, "
     "reads; "
     "or the word synthetic.  Default: as the run says."},
    {"--split", "train|valid|test",
     "Which records to use; default test, or valid if the run has no others."},
    {"--dtype", "f32|bf16|f16",
     "Type that the model computes in; default, as for the three below: as the checkpoint's run."},
    {"--amp", "usual|jaxamp|none", "What computes in that type, as train-step's amp=."},
    {"--amp-rule", "RULES", "Exceptions to it, as train-step's amp-rule=."},
    {"--param-dtype", "f32|bf16|f16", "Type of the parameters that the model reads."},
    {"--threads", "N", "Number of compute threads; default one per processor."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]", "Where the model computes; default cpu."},
    {"--pin", NULL, "Binds each of these threads to a processor of its own."},
    {"--jsonl", "FILE", "Also writes the result as JSON."},
    {"--mistakes", "FILE",
     "Writes a line of JSON for each record that is guessed wrong: its id (`who --record ID`), "
     "class and guess, and its file where the source knows it."},
    {0}};

enum { N_PRECISION = 5 };
static const char *const precision_name[N_PRECISION] = {"dtype", "amp", "amp-rule", "param-dtype",
                                                        "matmul-precision"};

/* A checkpoint and the graph that evaluates it. */
typedef struct judged {
  mr_checkpoint_arg_t of;
  mr_graph_t *g;                      /* of.graph, cut to what is evaluated, or own */
  mr_graph_t *own;                    /* of a checkpoint without a run; NULL: none */
  const char *line;                   /* the stage whose batches are evaluated */
  const char *called;                 /* what its records are called; NULL: test records */
  char name[32];                      /* of the stage that evaluates */
  const char *precision[N_PRECISION]; /* its settings of these names; NULL: default */
} judged_t;

/* What the records of --split are called; NULL: test records, which need no word. */
static const char *name_records(const char *split) {
  if (!split || !strcmp(split, "test")) return NULL;
  return strcmp(split, "train") ? "Held-back records" : "Training records";
}

/* ---- the records of the run ---- */

/* Gives the line that is evaluated the records of the training line: those in order, whole and
   without augmentation.  False if the two lines have different sources. */
static mr_err_t read_training_records(judged_t *d, const char *train, bool *done, mr_diag_t *diag) {
  const mr_stage_t *to = mr_line_source(d->g, d->line), *from = mr_line_source(d->g, train);
  *done = to && from && to->def == from->def;
  for (const mr_opt_t *o = *done ? to->def->opts : NULL; o && o->name; o++) {
    const char *value = mr_graph_setting(d->g, from->name, o->name),
               *was = mr_graph_setting(d->g, to->name, o->name);
    if (value && (!was || strcmp(value, was) != 0))
      MR_TRY(mr_graph_set(d->g, to->name, o->name, value, diag));
  }
  return MR_OK;
}

/* The training line itself, where the run evaluates no other: with the records of a split that its
   source divides them into, else with those of training. */
static mr_err_t choose_unprepared(judged_t *d, const char *split, mr_diag_t *diag) {
  d->line = mr_checkpoint_line(&d->of, "in");
  const mr_stage_t *source = d->line ? mr_line_source(d->g, d->line) : NULL;
  if (!d->line) return mr_fail(diag, MR_ERR_USAGE, "eval: nothing leads into %s", d->of.step);
  mr_notice(
      "eval: the run evaluates no records; these are prepared as for training, with its "
      "augmentation");
  mr_role_t role = source ? source->def->role : MR_ROLE_NONE;
  bool divides = role == MR_ROLE_CLASSES || role == MR_ROLE_SYNTHETIC;
  if (divides) return mr_graph_set(d->g, source->name, "split", split ? split : "test", diag);
  d->called = "Training records";
  if (!split || !strcmp(split, "train")) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "eval: --split %s: the run's graph leads only training records into %s", split,
                 d->of.step);
}

/* The line of training records, prepared as records are for evaluation. */
static mr_err_t choose_training(judged_t *d, mr_diag_t *diag) {
  const char *train = mr_checkpoint_line(&d->of, "in");
  bool done = false;
  d->called = "Training records";
  if (train) MR_TRY(read_training_records(d, train, &done, diag));
  if (done) return MR_OK;
  d->line = train;
  mr_notice(
      "eval: the run evaluates no records of its training source, so that these are as "
      "training takes them, with its order and its augmentation");
  return MR_OK;
}

/* Chooses the batches of the run's graph that are evaluated. */
static mr_err_t choose_line(judged_t *d, const char *split, mr_diag_t *diag) {
  const char *test = mr_checkpoint_line(&d->of, "test"),
             *valid = mr_checkpoint_line(&d->of, "valid");
  d->called = name_records(split);
  if (!test && !valid) return choose_unprepared(d, split, diag);
  d->line = test ? test : valid;
  if (split && !strcmp(split, "train")) return choose_training(d, diag);
  if (split) d->line = strcmp(split, "valid") ? test : valid;
  if (d->line == valid) d->called = "Held-back records";
  if (d->line) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "eval: --split %s: the run's graph leads no such records into %s; --split takes "
                 "another, of train, %s",
                 split, d->of.step, valid ? "valid" : "test");
}

/* Reads the records of the run's graph elsewhere: data is a folder, a file, or synthetic. */
static mr_err_t read_elsewhere(judged_t *d, const char *data, mr_diag_t *diag) {
  if (mr_is_synthetic(data)) return mr_graph_use_synthetic(d->g, data, diag);
  const mr_stage_t *source = mr_line_source(d->g, d->line);
  if (source) return mr_source_set_place(d->g, source, data, "--data", diag);
  return mr_fail(diag, MR_ERR_USAGE,
                 "--data: several sources lead into %s; give their settings as STAGE.SETTING=VALUE",
                 d->line);
}

static mr_err_t graph_of_run(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  const char *data = mr_args_text(a, "--data");
  d->g = d->of.graph;
  MR_TRY(choose_line(d, mr_args_text(a, "--split"), diag));
  MR_TRY(mr_graph_only(d->g, d->line, diag));
  return data && !d->of.placed ? read_elsewhere(d, data, diag) : MR_OK;
}

/* ---- a checkpoint alone ---- */

/* The records of a checkpoint that no run is known of: CIFAR-10, or synthetic ones. */
static mr_err_t find_alone(const mr_args_t *a, const char *checkpoint, const char **data,
                           mr_diag_t *diag) {
  mr_train_progress_t at;
  if ((*data = mr_args_text(a, "--data"))) return MR_OK;
  MR_TRY(mr_train_state_progress(checkpoint, &at, diag));
  if (mr_is_synthetic(at.origin)) {
    *data = mr_registry_role(mr_all_stages(), MR_ROLE_SYNTHETIC)->name;
    return MR_OK;
  }
  const mr_stage_def_t *source = mr_registry_find(mr_all_stages(), at.origin);
  if (at.origin[0] && (!source || source->role != MR_ROLE_CLASSES))
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: was trained on data of the stage %s, and without its run eval reads "
                   "CIFAR-10 alone; give a graph that ends in `eval-step checkpoint=%s` to "
                   "`millrace run`",
                   checkpoint, at.origin, checkpoint);
  *data = mr_usual_data;
  if (access(*data, F_OK) == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "%s: was trained on CIFAR-10, which is not in %s (where it usually is); name its "
                 "folder with --data",
                 checkpoint, *data);
}

/* Writes the settings of normalize by which the checkpoint's pictures were prepared. */
static mr_err_t say_normalisation(const char *checkpoint, char *text, size_t n, mr_diag_t *diag) {
  mr_train_inputs_t in;
  snprintf(text, n, "preset=cifar10"); /* of checkpoints that do not say it */
  MR_TRY(mr_train_inputs_read(checkpoint, &in, diag));
  for (int i = 0; i < in.spec.n_fields; i++) {
    const mr_field_t *f = &in.spec.field[i];
    if (!(f->std[0] > 0)) continue;
    snprintf(text, n, "mean=%.9g,%.9g,%.9g std=%.9g,%.9g,%.9g", (double)f->mean[0],
             (double)f->mean[1], (double)f->mean[2], (double)f->std[0], (double)f->std[1],
             (double)f->std[2]);
  }
  mr_train_inputs_fini(&in);
  return MR_OK;
}

static mr_err_t graph_alone(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  const char *split = mr_args_text(a, "--split"), *data;
  char normal[160], text[320];
  d->g = d->own = mr_graph_create(mr_all_stages());
  if (!d->own) return mr_no_memory(diag, "the graph");
  MR_TRY(find_alone(a, d->of.path, &data, diag));
  bool synthetic = mr_is_synthetic(data);
  const mr_stage_def_t *source =
      mr_registry_role(mr_all_stages(), synthetic ? MR_ROLE_SYNTHETIC : MR_ROLE_CLASSES);
  MR_TRY(mr_graph_add_def(d->g, source, "data", NULL, diag));
  if (!synthetic) MR_TRY(mr_graph_set(d->g, "data", "path", data, diag));
  MR_TRY(mr_graph_set(d->g, "data", "split", split ? split : "test", diag));
  MR_TRY(say_normalisation(d->of.path, normal, sizeof normal, diag));
  snprintf(text, sizeof text, mr_alone_text, normal);
  MR_TRY(mr_graph_parse(d->g, text, NULL, 0, diag));
  d->called = name_records(split);
  (void)mr_graph_batches(d->g, &d->line);
  return MR_OK;
}

/* ---- the stage that evaluates ---- */

/* The precision that the model computes in: as the flags say, else as the run trained it.  Of the
   run's settings, those that do not go with --dtype are left out.  Before the graph is cut. */
static void note_precision(const mr_args_t *a, judged_t *d) {
  const char *dtype = mr_args_text(a, "--dtype");
  for (int i = 0; i < N_PRECISION; i++) {
    char flag[32];
    snprintf(flag, sizeof flag, "--%s", precision_name[i]);
    const char *text = mr_args_text(a, flag);
    if (!text && d->of.graph) {
      text = mr_graph_setting(d->of.graph, d->of.step, precision_name[i]);
      bool of_amp = i == 1 || i == 2, none = i == 1 && text && !strcmp(text, "none");
      if (text && of_amp && dtype && (none || !strcmp(dtype, "f32"))) text = NULL;
    }
    d->precision[i] = text;
  }
}

/* Adds the stage behind the batches, under a name that is free. */
static mr_err_t add_stage(judged_t *d, mr_diag_t *diag) {
  char text[256];
  strcpy(d->name, "eval");
  for (int i = 2; mr_graph_stage(d->g, d->name); i++)
    snprintf(d->name, sizeof d->name, "eval%d", i);
  snprintf(text, sizeof text, mr_eval_text, d->name, d->name);
  MR_TRY(mr_graph_parse(d->g, text, NULL, 0, diag));
  return mr_graph_link(d->g, d->line, NULL, d->name, NULL, diag);
}

static mr_err_t set_stage(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  const char *threads = mr_args_text(a, "--threads"), *device = mr_args_text(a, "--device");
  MR_TRY(mr_graph_set(d->g, d->name, "checkpoint", d->of.path, diag));
  if (d->called) MR_TRY(mr_graph_set(d->g, d->name, "records", d->called, diag));
  for (int i = 0; i < N_PRECISION; i++)
    if (d->precision[i] && d->precision[i][0])
      MR_TRY(mr_graph_set(d->g, d->name, precision_name[i], d->precision[i], diag));
  if (threads) MR_TRY(mr_graph_set(d->g, d->name, "threads", threads, diag));
  const char *mistakes = mr_args_text(a, "--mistakes");
  if (device) MR_TRY(mr_graph_set(d->g, d->name, "device", device, diag));
  if (mistakes) MR_TRY(mr_graph_set(d->g, d->name, "mistakes", mistakes, diag));
  return mr_args_text(a, "--pin") ? mr_graph_set(d->g, d->name, "pin", "true", diag) : MR_OK;
}

static mr_err_t add_lines(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  const char *jsonl = mr_args_text(a, "--jsonl"), *name;
  if (!jsonl) return MR_OK;
  MR_TRY(
      mr_graph_add_def(d->g, mr_registry_role(mr_all_stages(), MR_ROLE_LINES), NULL, &name, diag));
  MR_TRY(mr_graph_set(d->g, name, "path", jsonl, diag));
  return mr_graph_link(d->g, d->name, NULL, name, NULL, diag);
}

static mr_err_t eval_build(const mr_args_t *a, judged_t *d, mr_diag_t *diag) {
  MR_TRY(mr_device_named(a, diag));
  MR_TRY(mr_checkpoint_arg(a->word[0], mr_args_text(a, "--data"), a->word + 1, a->n_words - 1,
                           &d->of, diag));
  note_precision(a, d);
  MR_TRY(d->of.graph ? graph_of_run(a, d, diag) : graph_alone(a, d, diag));
  MR_TRY(add_stage(d, diag));
  MR_TRY(set_stage(a, d, diag));
  return add_lines(a, d, diag);
}

/* Runs the graph.  Data that have moved are what most often fails here. */
static mr_err_t run_built(const mr_args_t *a, judged_t *d, bool *stopped, mr_diag_t *diag) {
  mr_diag_t why = {0};
  const mr_stage_t *source = mr_line_source(d->g, d->line);
  const char *place = source ? mr_source_place(d->g, source) : NULL;
  mr_err_t e = mr_run_interruptible(d->g, NULL, stopped, &why);
  bool moved = e < 0 && place && access(place, F_OK) < 0 && !mr_args_text(a, "--data");
  if (!moved) return mr_diag_relay(diag, e, &why);
  return mr_fail(diag, e, "%s; if the data have moved, name its folder with --data", why.text);
}

/* Says, after a run that was not stopped, which files hold the records that were guessed wrong. */
static mr_err_t name_mistakes(const mr_args_t *a, const judged_t *d, bool stopped,
                              mr_diag_t *diag) {
  const char *file = mr_args_text(a, "--mistakes");
  const mr_stage_t *source = mr_line_source(d->g, d->line);
  char count[32] = "";
  const char *why;
  int64_t n;
  if (!file) return MR_OK;
  if (stopped) {
    fprintf(stderr, "millrace: stopped: %s is not written without a result\n", file);
    return MR_OK;
  }
  MR_TRY(
      mr_mistakes_name(file, source ? mr_graph_stage(d->g, source->name) : NULL, &n, &why, diag));
  if (n >= 0) snprintf(count, sizeof count, "%" PRId64 " ", n);
  fprintf(stderr, "millrace: %s has the %srecords that were guessed wrong%s%s\n", file, count,
          n && why ? "; " : "", n && why ? why : "");
  return MR_OK;
}

static int eval_run(const mr_args_t *a, mr_diag_t *diag) {
  bool stopped = false;
  judged_t d = {0};
  MR_TRY(mr_args_settings(a, 1, diag));
  int e = eval_build(a, &d, diag);
  if (e >= 0) e = run_built(a, &d, &stopped, diag);
  if (e >= 0) e = name_mistakes(a, &d, stopped, diag);
  mr_graph_destroy(d.own);
  mr_checkpoint_arg_fini(&d.of);
  return e < 0 ? e : stopped ? mr_interrupt_status() : 0;
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
    .words = "RUN|CHECKPOINT [NAME=VALUE...]",
    .help = "Evaluates a checkpoint: loss, accuracy, confusion matrix.",
    .more =
        "\nThe checkpoint's run prepares the records: its graph, settings and plug-ins, as they "
        "were then.\nNAME=VALUE changes a setting of that graph.",
    .flags = eval_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = eval_run,
};
