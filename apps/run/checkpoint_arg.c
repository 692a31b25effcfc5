/* A checkpoint lies in RUN/checkpoints, so that its run is found from its real path.  The run's
   history says which graph, settings and plug-ins held at the checkpoint's step: what comes out of
   the checkpoint then is prepared and named as it was in training. */
#include "apps/run/checkpoint_arg.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stages/train/train_stage.h"

static bool in_folder(const char *folder, const char *name, char *path, size_t n) {
  return snprintf(path, n, "%s/%s", folder, name) < (int)n && access(path, F_OK) == 0;
}

/* The newest checkpoint of a run, wherever its graph keeps it. */
static mr_err_t find_newest(const char *run, mr_checkpoint_arg_t *c, mr_diag_t *diag) {
  mr_run_dir_t r = {0};
  mr_resume_point_t at = {0};
  mr_err_t e = mr_run_dir_read(&r, run, diag);
  if (e >= 0) e = mr_run_dir_resume_point(&r, &at, diag);
  mr_run_dir_free(&r);
  if (e < 0) return e;
  strcpy(c->path, at.path), strcpy(c->run, run);
  if (c->path[0]) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "%s: the run has no checkpoint yet; train writes one after each epoch, every "
                 "checkpoint-every= steps and at its end",
                 run);
}

/* Sets the file: the word, or the newest checkpoint of the run that it names, and then the run. */
static mr_err_t find_file(const char *word, mr_checkpoint_arg_t *c, mr_diag_t *diag) {
  char graph[MR_RUN_PATH + 64];
  struct stat st;
  if (strlen(word) >= sizeof c->run)
    return mr_fail(diag, MR_ERR_IO, "%.60s...: the path is too long", word);
  strcpy(c->path, word);
  if (stat(word, &st) < 0 || !S_ISDIR(st.st_mode)) return MR_OK;
  if (in_folder(word, "graph.mr", graph, sizeof graph)) return find_newest(word, c, diag);
  if (in_folder(word, "checkpoints/latest", c->path, sizeof c->path)) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "%s is a folder that holds no run, want a run or a checkpoint, such as "
                 "RUN/checkpoints/latest",
                 word);
}

/* Sets the run of RUN/checkpoints/NAME; "" if it is of none. */
static void find_run(mr_checkpoint_arg_t *c) {
  char real[PATH_MAX], graph[PATH_MAX + 16];
  if (c->run[0] || !realpath(c->path, real)) return;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(real, '/');
    if (!slash) return;
    *slash = 0;
  }
  if (strlen(real) < sizeof c->run && in_folder(real, "graph.mr", graph, sizeof graph))
    strcpy(c->run, real);
}

/* Makes r the run as it was when it wrote the checkpoint. */
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

/* Sets the variable `data` of the run's text. */
static mr_err_t place_data(mr_run_dir_t *r, const char *data, mr_checkpoint_arg_t *c,
                           mr_diag_t *diag) {
  char text[MR_RUN_PATH + 8];
  if (!data || !strstr(r->graph, "$data")) return MR_OK;
  if (snprintf(text, sizeof text, "data=%s", data) >= (int)sizeof text)
    return mr_fail(diag, MR_ERR_USAGE, "--data: %.40s...: the path is too long", data);
  c->placed = true;
  return mr_run_dir_set(r, text, diag);
}

static mr_err_t parse_run(const char *data, const char *const *setting, int n,
                          mr_checkpoint_arg_t *c, mr_diag_t *diag) {
  mr_run_dir_t r = {0};
  mr_err_t e = mr_run_dir_read(&r, c->run, diag);
  if (e >= 0) e = become_as_of(&r, c->path, diag);
  if (e >= 0) e = place_data(&r, data, c, diag);
  for (int i = 0; i < n && e >= 0; i++) e = mr_run_dir_word(&r, setting[i], diag);
  if (e >= 0) e = mr_run_dir_graph(&r, c->graph, diag);
  if (e >= 0) e = mr_graph_overrides_once(c->graph, setting, n, diag);
  mr_run_dir_free(&r);
  return e;
}

mr_err_t mr_checkpoint_arg(const char *word, const char *data, const char *const *setting, int n,
                           mr_checkpoint_arg_t *out, mr_diag_t *diag) {
  *out = (mr_checkpoint_arg_t){0};
  MR_TRY(find_file(word, out, diag));
  find_run(out);
  if (!out->run[0] && n)
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: the checkpoint is of no run that is here, so that there is no graph whose "
                   "settings %s could change",
                   word, setting[0]);
  if (!out->run[0]) return MR_OK;
  out->graph = mr_graph_create(mr_all_stages());
  if (!out->graph) return mr_no_memory(diag, "the graph");
  MR_TRY(parse_run(data, setting, n, out, diag));
  const mr_stage_t *step = mr_train_stage(out->graph);
  if (!step)
    return mr_fail(diag, MR_ERR_USAGE, "%s: the run's graph has no %s", out->run,
                   mr_registry_role(mr_all_stages(), MR_ROLE_STEP)->name);
  out->step = step->name;
  return MR_OK;
}

void mr_checkpoint_arg_fini(mr_checkpoint_arg_t *c) {
  mr_graph_destroy(c->graph);
  *c = (mr_checkpoint_arg_t){0};
}

/* Whether an input is the one that is asked for, or one of several of that name. */
static bool is_input(const char *name, const char *want, bool any) {
  size_t n = strlen(want);
  return name && (any ? !strncmp(name, want, n) && name[n] == '.' : !strcmp(name, want));
}

const char *mr_checkpoint_line(const mr_checkpoint_arg_t *c, const char *input) {
  for (int any = 0; any < 2; any++)
    for (int port = 0, n = mr_graph_n_inputs(c->graph, c->step); port < n; port++)
      if (is_input(mr_graph_input_name(c->graph, c->step, port), input, any)) {
        const char *last = mr_graph_before(c->graph, c->step, port);
        return last ? mr_graph_on_host(c->graph, last) : NULL;
      }
  return NULL;
}

const mr_stage_t *mr_line_source(const mr_graph_t *g, const char *stage) {
  for (const char *before; (before = mr_graph_before(g, stage, 0)); stage = before)
    if (mr_graph_before(g, stage, 1)) return NULL;
  const mr_stage_t *s = mr_graph_stage(g, stage);
  return s && !s->def->in[0].name ? s : NULL;
}

/* The setting that says where a source reads: path, or its bare value; NULL: it reads no files. */
static const mr_opt_t *place_setting(const mr_stage_t *source) {
  const mr_opt_t *place = mr_stage_def_opt(source->def, "path");
  for (const mr_opt_t *o = source->def->opts; o && o->name && !place; o++)
    if (o->positional && o->type == MR_OPT_STR) place = o;
  return place;
}

const char *mr_source_place(const mr_graph_t *g, const mr_stage_t *source) {
  const mr_opt_t *place = place_setting(source);
  return place ? mr_graph_setting(g, source->name, place->name) : NULL;
}

mr_err_t mr_source_set_place(mr_graph_t *g, const mr_stage_t *source, const char *text,
                             const char *of, mr_diag_t *diag) {
  const mr_opt_t *place = place_setting(source);
  if (place) return mr_graph_set(g, source->name, place->name, text, diag);
  return mr_fail(diag, MR_ERR_USAGE, "%s: stage %s reads no files, expected nothing", of,
                 source->name);
}
