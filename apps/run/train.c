/* millrace train: runs the default graph, or the user's, in a run folder, with orderly stop and
   resume. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/cli/model_arg.h"
#include "apps/cli/texts.h"
#include "apps/run/carry.h"
#include "apps/run/choose_graph.h"
#include "apps/run/interrupt.h"
#include "apps/run/leak.h"
#include "apps/run/limit_graph.h"
#include "apps/run/resume.h"
#include "apps/run/run_dir.h"
#include "apps/run/run_info.h"
#include "apps/run/synthetic.h"
#include "apps/run/train_job.h"
#include "apps/run/versions.h"
#include "model/exec/process_ranks.h"
#include "model/mesh/mesh.h"
#include "stages/train/train_stage.h"

static const mr_flag_t train_flags[] = {
    {"--data", "PATH", "The same as PATH; or the word synthetic."},
    {"--print-graph", NULL, "Prints the graph that would run, and ends."},
    {"--steps", "N", "Ends after N steps."},
    {"--epochs", "N", "Number of passes over the training records; default 1."},
    {"--run-dir", "DIR", "Folder of this run, as is run=DIR; default runs/1, runs/2, ..."},
    {"--resume", "[=auto]",
     "Resumes the run of --run-dir, or the newest one; auto starts a run in --run-dir if there is "
     "none yet."},
    {"--allow-change", "WORDS",
     "With --resume: what may differ from before, of data,seed,batch,model."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]",
     "Where the step runs; default cpu (docs/devices.md)."},
    {"--threads", "N",
     "Number of compute threads; default one per processor (pin=true binds them)."},
    {"--fit", "SIZE", "Limits the memory for the values of a step, for example to 2GiB."},
    {"--ordered", "N",
     "Works through a batch in N parts, a power of two, and adds their gradients as a fixed tree."},
    {"--mesh", "AXIS=N,...",
     "Trains by N ranks, threads of this process, as batch=8,model=1, or the processes of a job: "
     "data=RANKS without it (docs/distributed.md)."},
    {"--graph", "FILE", "Uses this graph instead of the default one."},
    MR_LIMIT_FLAGS,
    MR_LOOK_FLAGS,
    MR_FACE_FLAGS,
    {0}};

static const mr_hint_t train_words[] = {
    {"fit", "train", NULL}, {"resume", "train --resume", NULL}, {0}};

static const mr_hint_t train_flag_words[] = {
    {"datadir datapath dataroot root", "--data", NULL},
    {"maxsteps numsteps maxiter maxiters iterations trainsteps", "--steps", NULL},
    {"numepochs maxepochs e numtrainepochs", "--epochs", NULL},
    {"outputdir outdir logdir loggingdir savedir output o defaultrootdir", "--run-dir", NULL},
    {"continue", "--resume", NULL},
    {"numthreads nthreads", "--threads", NULL},
    {"config c f", "--graph", NULL},
    {"gpu gpus cuda accelerator", "--device cuda", NULL},
    {"profile profiler", "--trace", NULL},
    {"limittrainbatches maxtrainsamples", "--limit-train", NULL},
    {"limitvalbatches limittestbatches maxevalsamples maxvalsamples", "--limit-valid", NULL},
    {0}};

/* Whether this start resumes a run; auto: if one is there.  folder: the one that is named, NULL:
   none. */
static mr_err_t find_resumes(const mr_args_t *a, const char *folder, bool *resumes,
                             mr_diag_t *diag) {
  const char *how = mr_args_text(a, "--resume");
  char path[MR_RUN_PATH + 64];
  *resumes = how != NULL;
  if (!how || !*how) return MR_OK;
  if (!folder)
    return mr_fail(diag, MR_ERR_USAGE,
                   "--resume=auto: want --run-dir DIR beside it, which it starts or resumes");
  int n = snprintf(path, sizeof path, "%s/settings.txt", folder);
  *resumes = n < (int)sizeof path && access(path, F_OK) == 0;
  return MR_OK;
}

/* Checks the values of flags here, so that a wrong one is reported under the flag's name. */
static mr_err_t train_check_flags(const mr_args_t *a, mr_diag_t *diag) {
  int64_t unused;
  MR_TRY(mr_args_int(a, "--steps", 0, INT64_C(1000000000000), &unused, diag));
  MR_TRY(mr_args_int(a, "--epochs", 0, 1000000000, &unused, diag));
  if (mr_args_text(a, "--allow-change") && !mr_args_text(a, "--resume"))
    return mr_fail(diag, MR_ERR_USAGE, "--allow-change: goes with --resume");
  MR_TRY(mr_args_int(a, "--ordered", 0, MR_ORDERED_MOST, &unused, diag));
  return mr_args_int(a, "--threads", 0, 1024, &unused, diag);
}

/* Whether NAME of NAME=VALUE may be one of the graph: a setting of some stage. */
static bool train_is_setting(const char *name) {
  const mr_registry_t *reg = mr_all_stages();
  for (int i = 0; i < reg->n; i++)
    if (mr_stage_def_knows(mr_stage_def_usual(reg->def[i]), name)) return true;
  return false;
}

/* Refuses a setting that is another program's word for a flag of a run's folder: no setting of a
   graph can mean it. */
static mr_err_t train_check_setting(const char *word, mr_diag_t *diag) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  const mr_hint_t *row = mr_hint_find(train_flag_words, name);
  if (!row || strcmp(row->write, "--run-dir") || train_is_setting(name)) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE, "train: %.60s=: not a setting of the graph; write %s %.200s",
                 name, row->write, word + strlen(name) + 1);
}

/* What a command line asks for: its data, its settings, and the graph. */
typedef struct given {
  const char *place;  /* of the data: PATH or --data; NULL: not given */
  const char *folder; /* of the run: --run-dir or run=; NULL: not given */
  const char *word[MR_WORDS_MAX];
  int n;              /* of word: NAME=VALUE each, without those that mean a place, the folder or
                         what the chosen graph has taken */
  char *chosen;       /* the graph for that place; heap; NULL: another graph */
  char *own;          /* the text of --graph once it is read; heap */
  const char *origin; /* of that text */
} given_t;

/* Whether a word is a path or a URL: it is there, or looks like one. */
static bool is_path_of_data(const char *word) {
  const char *url = strstr(word, "://"), *value = strchr(word, '=');
  if (url && (!value || url < value)) return true;
  char *end;
  (void)strtod(word, &end);
  bool file = strchr(word, '.') && *end; /* 0.1 is a number */
  return !value && (file || strpbrk(word, "/{") || access(word, F_OK) == 0);
}

/* Refuses words that name a run, a folder or a file instead of a setting, with advice. */
static mr_err_t train_check_words(const mr_args_t *a, const given_t *in, mr_diag_t *diag) {
  char graph[MR_RUN_PATH + 64];
  struct stat st;
  for (int i = 0; i < a->n_words; i++) {
    const char *word = a->word[i];
    if (strchr(word, '=')) MR_TRY(train_check_setting(word, diag));
    if (strchr(word, '=') || stat(word, &st) < 0) continue;
    int n = snprintf(graph, sizeof graph, "%s/graph.mr", word);
    if (n < (int)sizeof graph && access(graph, F_OK) == 0)
      return mr_fail(
          diag, MR_ERR_USAGE,
          "train: %s is a run, expected NAME=VALUE; to resume it: millrace train --run-dir "
          "%s --resume",
          word, word);
    size_t n_word = strlen(word);
    if (n_word > 3 && !strcmp(word + n_word - 3, ".mr"))
      return mr_fail(diag, MR_ERR_USAGE,
                     "train: %s is a file, expected data or NAME=VALUE; --graph FILE names a graph",
                     word);
    if (word == in->place) continue;
    return mr_fail(diag, MR_ERR_USAGE,
                   "train: %s is a %s, expected NAME=VALUE: data are named once, as PATH or as "
                   "--data PATH; --run-dir %s writes into it",
                   word, S_ISDIR(st.st_mode) ? "folder" : "file", word);
  }
  mr_args_t rest = *a;
  rest.n_words = 0;
  for (int i = 0; i < a->n_words; i++)
    if (a->word[i] != in->place) rest.word[rest.n_words++] = a->word[i];
  return mr_args_settings(&rest, 0, diag);
}

/* The value of a setting among the words; NULL without one. */
static const char *given_setting(const given_t *in, const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < in->n; i++)
    if (!strncmp(in->word[i], name, n) && in->word[i][n] == '=') return in->word[i] + n + 1;
  return NULL;
}

/* Drops the words that are taken. */
static void drop_words(given_t *in, const bool *taken) {
  int n = 0;
  for (int i = 0; i < in->n; i++)
    if (!taken[i]) in->word[n++] = in->word[i];
  in->n = n;
}

/* Whether a place is left to the default graph though mr_recognise has failed: it is on this
   machine, and not there, or nothing is recognised in it.  A failure of a server is reported. */
static bool is_left_to_default(const char *place, const mr_found_t *f, mr_err_t e) {
  if (strstr(place, "://") || f->kind != MR_KINDS) return false;
  return e == MR_ERR_DATA || (e == MR_ERR_IO && access(place, F_OK) < 0 && errno == ENOENT);
}

/* Recognises the data and chooses their graph.  CIFAR-10 has the default graph; and a folder that
   nothing is recognised in is left to it too, if the user calls it CIFAR's (--data). */
static mr_err_t choose_for_place(given_t *in, bool by_flag, mr_diag_t *diag) {
  static char cifar[MR_FOUND_TEXT];
  mr_found_t *f = malloc(sizeof *f);
  bool taken[MR_WORDS_MAX] = {0};
  const char *kind = given_setting(in, "source");
  mr_diag_t why = {0};
  if (!f) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_recognise(in->place, kind, in->word, in->n, f, &why);
  bool unknown = by_flag && e < 0 && !kind && is_left_to_default(in->place, f, e);
  if (e >= 0 && f->kind == MR_KIND_CIFAR10)
    in->place = strcpy(cifar, f->data);
  else if (e >= 0)
    e = mr_choose_graph(in->place, f, in->word, in->n, taken, &in->chosen, &why);
  for (int i = 0; i < in->n; i++) taken[i] |= !strncmp(in->word[i], "source=", 7);
  drop_words(in, taken);
  free(f);
  return unknown ? MR_OK : mr_diag_relay(diag, e, &why);
}

/* The name of the variable, *n bytes, that a line of graph text gives a value; NULL: it gives none.
 */
static const char *let_of_line(const char *line, size_t *n) {
  const char *blanks = " \t\r", *let = line + strspn(line, blanks);
  if (strncmp(let, "let", 3) != 0) return NULL;
  const char *name = let + 3 + strspn(let + 3, blanks);
  *n = strcspn(name, " \t\r\n=\"'#$");
  if (name == let + 3 || !*n || name[*n + strspn(name + *n, blanks)] != '=') return NULL;
  return name;
}

/* The line behind a line; it is "" behind the last one. */
static const char *line_behind(const char *line) {
  line += strcspn(line, "\n");
  return line + (*line == '\n');
}

/* Whether a graph's text gives a variable a value. */
static bool lets_variable(const char *text, const char *variable) {
  size_t n;
  for (const char *line = text; *line; line = line_behind(line)) {
    const char *name = let_of_line(line, &n);
    if (name && n == strlen(variable) && !strncmp(name, variable, n)) return true;
  }
  return false;
}

/* Reads the graph of --graph, once: it may be a pipe. */
static mr_err_t read_own_graph(const mr_args_t *a, given_t *in, mr_diag_t *diag) {
  const char *file = mr_args_text(a, "--graph");
  return !file || in->own ? MR_OK : mr_graph_text(file, &in->own, &in->origin, diag);
}

/* Finds the folder of the run.  run=DIR, the variable that graphs name it by, says the same as
   --run-dir DIR; in a graph without that variable it may be a stage's setting. */
static mr_err_t find_run_folder(const mr_args_t *a, given_t *in, mr_diag_t *diag) {
  bool is_run[MR_WORDS_MAX] = {0};
  in->folder = mr_args_text(a, "--run-dir");
  if (!given_setting(in, "run")) return MR_OK;
  MR_TRY(read_own_graph(a, in, diag));
  if (in->own && !strstr(in->own, "$run") && !lets_variable(in->own, "run")) return MR_OK;
  if (mr_args_text(a, "--fast-dev-run"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "--fast-dev-run: its folder is removed at the end; want no run=");
  for (int i = 0; i < in->n; i++) {
    if (strncmp(in->word[i], "run=", 4)) continue;
    const char *folder = in->word[i] + 4;
    is_run[i] = true;
    if (in->folder && strcmp(in->folder, folder))
      return mr_fail(diag, MR_ERR_USAGE,
                     "train: the folder of the run is given twice, as %.300s and as run=%.300s",
                     in->folder, folder);
    in->folder = folder;
  }
  drop_words(in, is_run);
  return MR_OK;
}

/* Reads the words.  A graph of the user's own takes the place as its variable `data`. */
static mr_err_t train_read_words(const mr_args_t *a, given_t *in, mr_diag_t *diag) {
  const char *resume = mr_args_text(a, "--resume");
  const char *flag = mr_args_text(a, "--data");
  const char *path = NULL;
  for (int i = 0; i < a->n_words && !path; i++)
    if (is_path_of_data(a->word[i])) path = a->word[i];
  in->place = path ? path : flag;
  if (path && flag)
    return mr_fail(diag, MR_ERR_USAGE, "train: data are given twice, as %s and as --data %s", path,
                   flag);
  MR_TRY(train_check_words(a, in, diag));
  for (int i = 0; i < a->n_words; i++)
    if (a->word[i] != path) in->word[in->n++] = a->word[i];
  if (path && resume && !*resume)
    return mr_fail(diag, MR_ERR_USAGE,
                   "train: %s: a resumed run keeps its data; --data PATH says where they are now",
                   path);
  return find_run_folder(a, in, diag);
}

/* Chooses the graph for the data, unless there is one. */
static mr_err_t choose_graph_of(const mr_args_t *a, given_t *in, mr_diag_t *diag) {
  const char *resume = mr_args_text(a, "--resume");
  if (!in->place || mr_args_text(a, "--graph") || (resume && !*resume)) return MR_OK;
  bool by_flag = mr_args_text(a, "--data") != NULL;
  return mr_is_synthetic(in->place) ? MR_OK : choose_for_place(in, by_flag, diag);
}

/* The same words that have started a run resume it: its graph is the one that was chosen then. */
static void keep_chosen_graph(given_t *in) {
  if (in->chosen) in->place = NULL;
  free(in->chosen), in->chosen = NULL;
}

/* Appends flags and words to the run's settings; flags are settings with a short name, and only one
   of the two may be given. */
static mr_err_t train_settings(const mr_args_t *a, const given_t *in, mr_run_dir_t *r,
                               mr_diag_t *diag) {
  static const char *const known[] = {"--data", "--steps",   "--epochs",  "--device",
                                      "--fit",  "--threads", "--ordered", "--mesh"};
  MR_TRY(mr_device_named(a, diag));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const char *value = i ? mr_args_text(a, known[i]) : in->place, *name = known[i] + 2;
    char text[MR_RUN_PATH];
    if (!value) continue;
    if (given_setting(in, name))
      return mr_fail(diag, MR_ERR_USAGE, "train: %s is given twice, as %s and as %s=", name,
                     i || mr_args_text(a, "--data") ? known[i] : value, name);
    if (!i && in->chosen) continue; /* the graph has it */
    if (snprintf(text, sizeof text, "%s=%s", name, value) >= (int)sizeof text)
      return mr_fail(diag, MR_ERR_USAGE, "%s: the value is too long", known[i]);
    MR_TRY(mr_run_dir_set(r, text, diag));
  }
  for (int i = 0; i < in->n; i++) MR_TRY(mr_run_dir_set(r, in->word[i], diag));
  return MR_OK;
}

/* Copies the mesh that the graph's own text says; "": none. */
static mr_err_t mesh_of_text(const mr_run_dir_t *r, char mesh[MR_MESH_TEXT], mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  *mesh = 0;
  if (!g) return mr_no_memory(diag, "the graph");
  mr_err_t e = mr_run_dir_parse(r, g, NULL, 0, diag);
  for (int i = 0, n = e < 0 ? 0 : mr_graph_n_stages(g); i < n; i++) {
    const char *text = mr_graph_setting(g, mr_graph_stage_at(g, i)->name, "mesh");
    if (text) snprintf(mesh, MR_MESH_TEXT, "%s", text);
  }
  mr_graph_destroy(g);
  return e;
}

/* The processes of a job are the ranks of a mesh, also if those of the run so far were others.  One
   of several axes in the graph's own text stays: if it does not fit, the stage that has it says so.
 */
static mr_err_t train_set_mesh(const mr_args_t *a, mr_run_dir_t *r, int processes,
                               mr_diag_t *diag) {
  char text[64], own[MR_MESH_TEXT] = "";
  mr_mesh_t mesh = {.n = 1, .name = {"data"}};
  bool given = mr_args_text(a, "--mesh") != NULL;
  for (int i = 0; i < a->n_words; i++) given |= strstr(a->word[i], "mesh=") != NULL;
  if (processes <= 1 || given) return MR_OK;
  const char *was = mr_run_dir_get(r, "mesh");
  if (!was) MR_TRY(mesh_of_text(r, own, diag));
  if (*own && mr_mesh_parse(own, 0, &mesh, diag) < 0) return diag->code;
  if (*own && (mesh.n > 1 || mr_mesh_ranks(&mesh) == processes)) return MR_OK;
  snprintf(text, sizeof text, "mesh=%s=%d", mesh.name[0], processes);
  if (was && !strcmp(was, text + 5)) return MR_OK;
  return mr_run_dir_set(r, text, diag);
}

/* The default graph without a setting of data, or a user's that leaves it open: CIFAR-10 if the
   default folder exists, else synthetic pictures. */
static mr_err_t train_choose_data(bool own, mr_run_dir_t *r, mr_diag_t *diag) {
  if (mr_run_dir_get(r, "data") || !strstr(r->graph, "$data")) return MR_OK;
  if (own && lets_variable(r->graph, "data")) return MR_OK;
  char text[64];
  const mr_stage_def_t *synthetic = mr_registry_role(mr_all_stages(), MR_ROLE_SYNTHETIC);
  snprintf(text, sizeof text, "data=%s",
           access(mr_usual_data, F_OK) ? synthetic->name : mr_usual_data);
  return mr_run_dir_set(r, text, diag);
}

/* Prepares a new run.  Sets *begun once the folder is this run's, to be undone on failure. */
static mr_err_t prepare_new(const mr_args_t *a, given_t *in, const char *dir, mr_run_dir_t *r,
                            int processes, bool *begun, mr_diag_t *diag) {
  MR_TRY(mr_run_dir_new(r, dir, diag));
  *begun = true;
  MR_TRY(read_own_graph(a, in, diag));
  snprintf(r->origin, sizeof r->origin, "%s",
           in->own      ? in->origin
           : in->chosen ? "chosen graph"
                        : "default graph");
  if (!(r->graph = strdup(in->own ? in->own : in->chosen ? in->chosen : mr_default_graph)))
    return mr_no_memory(diag, "the graph");
  MR_TRY(train_settings(a, in, r, diag));
  MR_TRY(train_set_mesh(a, r, processes, diag));
  MR_TRY(mr_faces_add(a, r, diag));
  MR_TRY(train_choose_data(in->own || in->chosen, r, diag));
  return mr_limit_set(a, r, diag);
}

/* The state of the run's folder before a resume. */
typedef struct resume {
  mr_resume_point_t at;
  mr_history_t history;
  char *history_text; /* of its file as it was; heap */
  int n_kept;         /* settings that the run had before */
  char *data;         /* its data.txt; heap; NULL: it had none */
  mr_resume_news_t news;
} resume_t;

/* The history of a run that an earlier version began is what its folder says. */
static mr_err_t read_history(const mr_run_dir_t *r, resume_t *was, mr_diag_t *diag) {
  mr_history_part_t part;
  MR_TRY(mr_history_read(r->path, &was->history, diag));
  if (!(was->history_text = strdup(was->history.text))) return mr_no_memory(diag, "the history");
  if (was->history.n) return MR_OK;
  mr_err_t e = mr_run_dir_part(r, 0, &part, diag);
  free(part.plugins), part.plugins = NULL; /* those of its steps are unknown */
  if (e >= 0) e = mr_history_add(&was->history, &part, diag);
  free(part.settings);
  return e;
}

/* Says, or refuses, what differs from the newest start of the run. */
static mr_err_t compare_with_before(const mr_args_t *a, const mr_run_dir_t *r, resume_t *was,
                                    mr_diag_t *diag) {
  mr_run_dir_t before = {.read = true};
  snprintf(before.path, sizeof before.path, "%s", r->path);
  snprintf(before.origin, sizeof before.origin, "%s", r->origin);
  mr_err_t e = mr_run_dir_become(&before, &was->history.newest, diag);
  if (e >= 0)
    e = mr_resume_check_changes(&before, r, was->at.path[0], was->at.at.step,
                                mr_args_text(a, "--allow-change"), &was->news, diag);
  mr_run_dir_free(&before);
  char *plugins = e >= 0 ? mr_run_plugins_text() : NULL;
  if (plugins)
    mr_run_plugins_compare(was->history.newest.plugins, plugins, was->news.said,
                           sizeof was->news.said);
  free(plugins);
  return e;
}

static mr_err_t prepare_resume(const mr_args_t *a, const given_t *in, mr_run_dir_t *r,
                               int processes, resume_t *was, mr_diag_t *diag) {
  if (mr_args_text(a, "--graph") && !*mr_args_text(a, "--resume"))
    return mr_fail(diag, MR_ERR_USAGE, "--graph: a resumed run keeps its own graph");
  MR_TRY(mr_run_dir_open(r, in->folder, diag));
  was->n_kept = r->n_settings;
  MR_TRY(mr_run_dir_resume_point(r, &was->at, diag));
  MR_TRY(read_history(r, was, diag));
  MR_TRY(train_settings(a, in, r, diag));
  MR_TRY(train_set_mesh(a, r, processes, diag));
  MR_TRY(mr_faces_add(a, r, diag));
  MR_TRY(compare_with_before(a, r, was, diag));
  was->data = r->data, r->data = was->news.facts;
  return mr_carry_stream(r, &was->history, &was->at, diag);
}

static mr_err_t train_set_resume(mr_graph_t *g, const mr_resume_point_t *at, mr_diag_t *diag) {
  const mr_stage_t *step = mr_train_stage(g);
  if (!step)
    return mr_fail(diag, MR_ERR_USAGE, "--resume: the graph has no %s",
                   mr_registry_role(mr_all_stages(), MR_ROLE_STEP)->name);
  return mr_resume_set(g, step->name, at->path, &at->at, diag);
}

/* A replay file, if the graph asks for one, lies in the run's folder unless it says otherwise. */
static mr_err_t train_set_replay(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag) {
  const mr_stage_t *step = mr_train_stage(g);
  const char *on_nan = step ? mr_graph_setting(g, step->name, "on-nan") : NULL;
  if (!on_nan || strcmp(on_nan, "trace")) return MR_OK;
  if (mr_graph_setting(g, step->name, "replay-dir")) return MR_OK;
  return mr_graph_set(g, step->name, "replay-dir", r->path, diag);
}

/* What a rank that follows runs of the graph: the stream of training batches and the step.  Rank 0
   evaluates, and has the sinks. */
static mr_err_t train_only_step(mr_graph_t *g, mr_diag_t *diag) {
  const mr_stage_t *step = mr_train_stage(g);
  if (step) return mr_graph_only_input(g, step->name, 0, diag);
  return mr_fail(diag, MR_ERR_USAGE,
                 "the graph has no %s, which the processes of a job could share",
                 mr_registry_role(mr_all_stages(), MR_ROLE_STEP)->name);
}

/* Tells the step where its checkpoints go, for ranks that write slices of them. */
static mr_err_t train_set_folder(mr_graph_t *g, mr_diag_t *diag) {
  const mr_stage_t *step = mr_train_stage(g), *keep = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, 0);
  const char *dir = keep ? mr_graph_setting(g, keep->name, "dir") : NULL;
  if (!step || !dir || mr_graph_setting(g, step->name, "checkpoint-dir")) return MR_OK;
  return mr_graph_set(g, step->name, "checkpoint-dir", dir, diag);
}

static mr_err_t train_build_graph(const mr_run_dir_t *r, const mr_resume_point_t *resume,
                                  bool follows, mr_graph_t *g, mr_diag_t *diag) {
  const char *whole;
  MR_TRY(mr_run_dir_graph(r, g, diag));
  MR_TRY(mr_run_dir_carry(r, g, diag));
  MR_TRY(mr_train_stage_copies(g, diag));
  MR_TRY(mr_train_stage_slices(g, &whole, diag));
  if (whole && !follows)
    mr_notice(
        "each process reads whole batches, as %s is between the stage that makes them and the "
        "ranks, or gives them to others too",
        whole);
  if (mr_process_ranks()) MR_TRY(train_set_folder(g, diag));
  if (follows) MR_TRY(train_only_step(g, diag));
  if (resume && !follows && r->cut) mr_resume_say_unkept(g, resume->at.step);
  if (resume) MR_TRY(mr_resume_reported(g, 0, &resume->at, diag));
  if (resume && resume->path[0]) MR_TRY(train_set_resume(g, resume, diag));
  MR_TRY(train_set_replay(r, g, diag));
  return mr_graph_settle(g, diag);
}

/* The graph that is to run: the processes of a job are its ranks. */
static mr_err_t train_build(const mr_run_dir_t *r, const mr_resume_point_t *resume, bool follows,
                            mr_graph_t *g, mr_diag_t *diag) {
  mr_process_ranks_pause(false);
  mr_err_t e = train_build_graph(r, resume, follows, g, diag);
  mr_process_ranks_pause(true);
  return e;
}

static void train_greet(const mr_run_dir_t *r, const resume_t *was) {
  printf("run folder: %s\n", r->path);
  if (was && was->at.path[0]) printf("resumed at step %" PRId64 "\n", was->at.at.step);
  if (was && !was->at.path[0]) puts("no checkpoint yet: starts from the beginning");
  if (was) fputs(was->news.said, stdout);
  fflush(stdout);
}

static mr_err_t train_build_again(void *run, mr_graph_t *g, mr_diag_t *diag) {
  return mr_run_dir_graph(run, g, diag);
}

/* Leaves a run that has done all its steps as it is (*done), and refuses one that has done more. */
static mr_err_t look_at_end(const mr_run_dir_t *r, const resume_t *was, const mr_graph_t *g,
                            bool *done, mr_diag_t *diag) {
  const mr_resume_point_t *at = &was->at;
  int64_t total = mr_train_stage_total(mr_train_stage(g)), step = at->at.step;
  mr_diag_t unsaid = {0};
  mr_run_info_t reported;
  if (!at->path[0]) return MR_OK;
  if (total && step > total)
    return mr_fail(diag, MR_ERR_USAGE,
                   "--resume: %s is at step %" PRId64
                   ", and with these settings it would end "
                   "before, at step %" PRId64 "; its checkpoints stay as they are",
                   r->path, step, total);
  bool more = step != total && r->n_settings > was->n_kept; /* they may make the stream longer */
  if (at->at.unvalidated || more) return MR_OK;
  *done = mr_run_info_read(r->path, &reported, &unsaid) >= 0 &&
          !strcmp(reported.state, "finished") && reported.step == step;
  if (*done)
    printf("run folder: %s\nnothing to do: the run has finished, at step %" PRId64
           ", ledger %016" PRIx64 "; --steps or --epochs makes it longer\n",
           r->path, step, at->at.ledger);
  return MR_OK;
}

/* Compares the records of evaluations with those of training, in all parts of the run. */
static mr_err_t check_leaks(mr_run_dir_t *r, const resume_t *was, const mr_graph_t *g,
                            mr_diag_t *diag) {
  int n = was && was->at.path[0] ? was->history.n : 0;
  while (n && was->history.part[n - 1].from >= was->at.at.step) n--; /* its steps are repeated */
  mr_run_dir_t *part = calloc((size_t)n + 1, sizeof *part);
  void **past = calloc((size_t)n + 1, sizeof *past);
  mr_err_t e = part && past ? MR_OK : mr_no_memory(diag, "the history");
  for (int i = 0; i < n && e >= 0; i++) {
    part[i].read = true;
    snprintf(part[i].path, sizeof part[i].path, "%s", r->path);
    snprintf(part[i].origin, sizeof part[i].origin, "%s", r->origin);
    e = mr_run_dir_become(&part[i], &was->history.part[i], diag);
    past[i] = &part[i];
  }
  if (e >= 0) e = mr_leak_check(g, train_build_again, r, past, n, diag);
  for (int i = 0; i < n && part; i++) mr_run_dir_free(&part[i]);
  free(part), free(past);
  return e;
}

/* Appends this start to the run's history. */
static mr_err_t note_start(const mr_run_dir_t *r, resume_t *was, mr_diag_t *diag) {
  mr_history_t fresh = {0}, *h = &fresh;
  mr_history_part_t part;
  if (was) h = &was->history;
  if (!was && !(fresh.text = strdup(""))) return mr_no_memory(diag, "the history");
  mr_err_t e = mr_run_dir_part(r, was ? was->at.at.step : 0, &part, diag);
  if (e >= 0) e = mr_history_add(h, &part, diag);
  if (e >= 0) e = mr_history_write(r->path, h->text, diag);
  free(part.settings), free(part.plugins);
  mr_history_free(&fresh);
  return e;
}

/* Builds and checks the graph and writes the run's files, so that mistakes are reported before the
   first thread starts. */
static mr_err_t train_begin(const given_t *in, mr_run_dir_t *r, resume_t *was, mr_graph_t *g,
                            bool *done, mr_diag_t *diag) {
  MR_TRY(train_build(r, was ? &was->at : NULL, false, g, diag));
  MR_TRY(mr_graph_overrides_once(g, in->word, in->n, diag));
  if (was) MR_TRY(look_at_end(r, was, g, done, diag));
  if (*done) return MR_OK;
  MR_TRY(mr_run_dir_refuse_foreign(r, !was, g, diag));
  MR_TRY(check_leaks(r, was, g, diag));
  if (!was && !(r->data = mr_data_facts(g))) return mr_no_memory(diag, "facts of the data");
  MR_TRY(mr_run_plugins_note(r, diag));
  MR_TRY(mr_run_dir_save(r, diag));
  MR_TRY(mr_run_dir_note_checkpoints(r, g, diag));
  MR_TRY(note_start(r, was, diag));
  if (!was) mr_resume_forget_reported(g);
  return mr_versions_save(r->path, diag);
}

/* The same of a rank that follows, which writes nothing. */
static mr_err_t follow_begin(mr_run_dir_t *r, const mr_resume_point_t *at, mr_graph_t *g,
                             mr_diag_t *diag) {
  MR_TRY(train_build(r, *at->path ? at : NULL, true, g, diag));
  if (!(r->data = mr_data_facts(g))) return mr_no_memory(diag, "facts of the data");
  return MR_OK;
}

/* A run of this process, or of this rank of a job. */
typedef struct train_run {
  const mr_args_t *args;
  given_t in;
  mr_train_job_t *job; /* NULL: none */
  mr_run_dir_t dir;
  resume_t was;
  bool resumes, follows;
  char dev[MR_RUN_PATH]; /* the folder of --fast-dev-run; "": none */
} train_run_t;

/* Begins the run on all ranks, or says on all of them why not. */
static mr_err_t begin_ranks(train_run_t *t, mr_graph_t *g, int *done, mr_diag_t *diag) {
  bool all_done = false;
  resume_t *was = t->resumes ? &t->was : NULL;
  MR_TRY(mr_train_job_share(t->job, &t->dir, &t->was.at, diag));
  mr_err_t e = t->follows ? follow_begin(&t->dir, &t->was.at, g, diag)
                          : train_begin(&t->in, &t->dir, was, g, &all_done, diag);
  *done = all_done;
  MR_TRY(mr_train_job_agree(t->job, e, done, diag));
  if (*done) return MR_OK;
  e = mr_train_job_same_data(t->job, t->dir.data, diag);
  return mr_train_job_agree(t->job, e, NULL, diag);
}

static int run_training(train_run_t *t, mr_diag_t *diag) {
  static const mr_look_t nothing;
  const mr_look_t look = t->follows ? nothing : mr_look_of(t->args);
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  bool stopped = false;
  int done = 0, status = 0;
  mr_err_t e = begin_ranks(t, g, &done, diag);
  if (e >= 0 && !done) {
    if (t->in.chosen) printf("%s\n", t->in.chosen);
    if (!t->follows) train_greet(&t->dir, t->resumes ? &t->was : NULL);
    mr_process_ranks_pause(false);
    e = mr_run_interruptible(g, &look, &stopped, diag);
    t->dir.fails |= mr_resume_keeps_none(g); /* until it has ended well */
    if (e >= 0 && t->job) stopped = mr_train_stage_stopped(mr_train_stage(g));
    if (e < 0) mr_train_job_fail(t->job, diag);
    status = mr_interrupt_status();
    if (e >= 0) e = mr_train_job_most(t->job, e, &status, diag); /* SIGTERM's, if any got it */
  }
  mr_graph_destroy(g);
  if (e >= 0 && stopped && !t->follows && !*t->dev)
    printf("stopped; resume with: millrace train --run-dir %s --resume\n", t->dir.path);
  return e < 0 ? (int)e : stopped ? status : 0;
}

/* Drops the settings given to a resumed run that failed before its next checkpoint, since they may
   be the cause. */
static void forget_settings(mr_run_dir_t *r, resume_t *was) {
  mr_resume_point_t now;
  mr_diag_t unsaid = {0}; /* the first failure is the one to report */
  if (was->n_kept == r->n_settings) return;
  if (mr_run_dir_resume_point(r, &now, &unsaid) < 0 || now.at.step != was->at.at.step) return;
  while (r->n_settings > was->n_kept) free(r->setting[--r->n_settings]);
  free(r->data);
  r->data = was->data, was->data = NULL;
  (void)mr_run_dir_save(r, &unsaid);
  (void)mr_history_write(r->path, was->history_text, &unsaid);
}

/* The value that the command line gives a variable; NULL: none. */
static const char *value_of_let(const mr_args_t *a, const given_t *in, const char *name) {
  static const char *const flags[] = {"--steps", "--epochs"};
  const char *value = given_setting(in, name);
  for (int i = 0; i < 2 && !value; i++)
    if (!strcmp(name, flags[i] + 2)) value = mr_args_text(a, flags[i]);
  return value || strcmp(name, "data") || in->chosen ? value : in->place;
}

/* Names the words that are settings of stages, and so not in the text. */
static void print_other_words(const given_t *in, const char *text) {
  int n = 0;
  for (int i = 0; i < in->n; i++) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(in->word[i], "="), in->word[i]);
    if (lets_variable(text, name)) continue;
    printf("%s %s",
           n++ ? "" : "# To be given on the command line of --graph FILE too:", in->word[i]);
  }
  if (n) puts("\n");
}

/* Prints the line that gives a variable a value: quoted, as graph text reads it. */
static void print_let(const char *name, const char *value) {
  printf("let %-6s = \"", name);
  for (; *value; value++) printf("%s%c", strchr("\"\\", *value) ? "\\" : "", *value);
  puts("\"");
}

/* Prints a graph's text, its variables with the values that the command line gives them. */
static void print_text(const mr_args_t *a, const given_t *in, const char *text) {
  print_other_words(in, text);
  for (const char *line = text, *end; *line; line = end) {
    char name[128] = "";
    size_t n = 0;
    const char *let = let_of_line(line, &n), *value = NULL;
    end = line_behind(line);
    if (let && n < sizeof name) {
      snprintf(name, sizeof name, "%.*s", (int)n, let);
      value = value_of_let(a, in, name);
    }
    if (value)
      print_let(name, value);
    else
      fwrite(line, 1, (size_t)(end - line), stdout);
  }
}

/* Prints the text that would run. */
static int print_graph(const mr_args_t *a, given_t *in, mr_diag_t *diag) {
  if (mr_args_text(a, "--resume"))
    return mr_fail(diag, MR_ERR_USAGE, "--print-graph: a resumed run's graph is its graph.mr");
  MR_TRY(choose_graph_of(a, in, diag));
  MR_TRY(read_own_graph(a, in, diag));
  for (int i = 0; i < in->n; i++)
    if (strchr(in->word[i], '\n'))
      return mr_fail(diag, MR_ERR_USAGE,
                     "--print-graph: %.*s=: want a value of one line, which graph text can hold",
                     (int)strcspn(in->word[i], "="), in->word[i]);
  print_text(a, in, in->own ? in->own : in->chosen ? in->chosen : mr_default_graph);
  return 0;
}

/* Prepares the run's folder, on rank 0, and runs. */
static int prepare_and_run(train_run_t *t, mr_diag_t *diag) {
  const mr_args_t *a = t->args;
  int processes = mr_train_job_size(t->job);
  bool begun = false;
  mr_err_t prepared = MR_OK;
  if (!t->follows) prepared = choose_graph_of(a, &t->in, diag);
  if (prepared >= 0 && t->resumes) keep_chosen_graph(&t->in);
  if (prepared >= 0 && !t->follows && t->resumes)
    prepared = prepare_resume(a, &t->in, &t->dir, processes, &t->was, diag);
  if (prepared >= 0 && !t->follows && !t->resumes)
    prepared =
        prepare_new(a, &t->in, *t->dev ? t->dev : t->in.folder, &t->dir, processes, &begun, diag);
  bool ready = prepared >= 0;
  int e = mr_train_job_agree(t->job, prepared, NULL, diag);
  if (e >= 0) e = run_training(t, diag);
  if (e < 0 && ready && t->resumes && !t->follows) forget_settings(&t->dir, &t->was);
  if (e < 0 && begun) mr_run_dir_undo(&t->dir);
  return e;
}

static int train_with(train_run_t *t, mr_diag_t *diag) {
  const mr_args_t *a = t->args;
  MR_TRY(mr_train_job_open(a, &t->job, diag));
  t->follows = mr_train_job_follows(t->job);
  bool dev = mr_args_text(a, "--fast-dev-run") && !t->follows;
  int e = dev ? mr_limit_folder(t->dev, diag) : MR_OK;
  if (e >= 0) e = prepare_and_run(t, diag);
  t->dir.fails &= e < 0;
  mr_run_dir_free(&t->dir);
  if (dev && *t->dev) mr_limit_remove(t->dev);
  mr_history_free(&t->was.history);
  free(t->was.data), free(t->was.history_text);
  mr_train_job_close(t->job, e < 0 ? (mr_err_t)e : MR_OK, diag);
  return e;
}

static int train_run(const mr_args_t *a, mr_diag_t *diag) {
  train_run_t t = {.args = a};
  mr_writes_fail();
  MR_TRY(train_check_flags(a, diag));
  const char *resume = mr_args_text(a, "--resume");
  MR_TRY(mr_limit_check(a, resume && !*resume, diag));
  int e = train_read_words(a, &t.in, diag);
  if (e >= 0) e = find_resumes(a, t.in.folder, &t.resumes, diag);
  if (e >= 0)
    e = mr_args_text(a, "--print-graph") ? print_graph(a, &t.in, diag) : train_with(&t, diag);
  free(t.in.chosen), free(t.in.own);
  return e;
}

const mr_command_t mr_command_train = {
    .name = "train",
    .hint = train_words,
    .flag_hint = train_flag_words,
    .words = "[PATH] [NAME=VALUE...]",
    .help = "Trains a model on your data, or on CIFAR-10 or synthetic pictures.",
    .more =
        "\n"
        "PATH is a folder, a file or a URL of data: what lies there is recognised, a graph is "
        "chosen "
        "for it,\nprinted and kept as RUN/graph.mr; source=STAGE says what it is.  Without PATH: "
        "CIFAR-10.\n"
        "NAME is a variable of the graph (batch, seed), STAGE.SETTING, or a setting that one "
        "stage\n"
        "has (lr, dropout, ...): `millrace inspect train-step [model=NAME]` lists them.\n"
        "Ctrl-C finishes the step, writes a checkpoint and ends; a second one, two seconds later "
        "or more, ends at once.",
    .flags = train_flags,
    .max_words = MR_WORDS_MAX,
    .run = train_run,
};
