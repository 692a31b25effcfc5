/* millrace eval: a checkpoint over one split of the data. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli.h"
#include "apps/interrupt.h"
#include "apps/run_dir.h"

static const mr_flag_t eval_flags[] = {
    {"--data", "DIR", "CIFAR-10 in its official binary layout, or the word synthetic."},
    {"--split", "train|valid|test", "Which records; default test."},
    {"--dtype", "f32|bf16", "Type of the matrix products; default bf16."},
    {"--threads", "N", "Threads that compute; default one a processor."},
    {"--pin", NULL, "Ties each of them to a processor of its own."},
    {"--jsonl", "FILE", "Also writes the result as JSON."},
    {0}};

static const char usual_data[] = "data/cifar-10-batches-bin";

/* A checkpoint is a file; people name the run's folder. */
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

static mr_err_t build(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag) {
  const char *data = mr_args_text(a, "--data"), *split = mr_args_text(a, "--split"),
             *dtype = mr_args_text(a, "--dtype"), *jsonl = mr_args_text(a, "--jsonl"),
             *threads = mr_args_text(a, "--threads");
  if (!data) data = access(usual_data, F_OK) ? "synthetic" : usual_data;
  MR_TRY(check_is_file(a->word[0], diag));
  bool synthetic = !strcmp(data, "synthetic");
  MR_TRY(mr_graph_parse(g, synthetic ? "synthetic name=data" : "cifar10 name=data", NULL, 0, diag));
  if (!synthetic) MR_TRY(mr_graph_set(g, "data", "path", data, diag));
  MR_TRY(mr_graph_set(g, "data", "split", split ? split : "test", diag));
  MR_TRY(mr_graph_parse(g,
                        "data. ! normalize preset=cifar10 ! batch 256 ! vit-eval name=eval "
                        "eval. ! progress",
                        NULL, 0, diag));
  MR_TRY(mr_graph_set(g, "eval", "checkpoint", a->word[0], diag));
  if (split && strcmp(split, "test"))
    MR_TRY(mr_graph_set(g, "eval", "records",
                        strcmp(split, "train") ? "Held-back records" : "Training records", diag));
  if (dtype) MR_TRY(mr_graph_set(g, "eval", "dtype", dtype, diag));
  if (threads) MR_TRY(mr_graph_set(g, "eval", "threads", threads, diag));
  if (mr_args_text(a, "--pin")) MR_TRY(mr_graph_set(g, "eval", "pin", "true", diag));
  if (!jsonl) return MR_OK;
  MR_TRY(mr_graph_add(g, "jsonl", "jsonl", NULL, diag));
  MR_TRY(mr_graph_set(g, "jsonl", "path", jsonl, diag));
  return mr_graph_link(g, "eval", NULL, "jsonl", NULL, diag);
}

static int eval_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_fail(diag, MR_ERR_NOMEM, "out of memory for the graph");
  bool stopped = false;
  int e = build(a, g, diag);
  if (e >= 0) e = mr_run_interruptible(g, NULL, &stopped, diag);
  mr_graph_destroy(g);
  return e < 0 ? e : stopped ? MR_EXIT_STOPPED : 0;
}

const mr_command_t mr_command_eval = {
    .name = "eval",
    .words = "CHECKPOINT",
    .help = "Evaluates a checkpoint: loss, accuracy, confusion matrix.",
    .more = "\nA run's newest checkpoint is RUN/checkpoints/latest.",
    .flags = eval_flags,
    .min_words = 1,
    .max_words = 1,
    .run = eval_run,
};
