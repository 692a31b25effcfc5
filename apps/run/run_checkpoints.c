/* Where the checkpoints of a run are: in the folders that its graph names, now and in all parts of
   its history, so that a graph that keeps them elsewhere, or does so since a resume, is resumed.
   A part whose graph cannot be parsed any more names none; RUN/checkpoints is looked at always. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/run/run_dir.h"

static bool takes_folder(const char *path, int n, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  for (int i = 0; i < n; i++)
    if (!strcmp(folder[i], path)) return false;
  return n < most && strlen(path) < MR_RUN_CHECKPOINTS;
}

/* Adds the folders of r's graph; returns how many there are then. */
static int add_folders(const mr_run_dir_t *r, int n, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  mr_diag_t unsaid = {0};
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  const mr_stage_t *s;
  bool parsed = g && mr_run_dir_graph(r, g, &unsaid) >= 0;
  for (int k = 0; parsed && (s = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, k)); k++) {
    const char *dir = mr_graph_setting(g, s->name, "dir");
    if (dir && takes_folder(dir, n, folder, most)) strcpy(folder[n++], dir);
  }
  mr_graph_destroy(g);
  return n;
}

int mr_run_dir_checkpoints(const mr_run_dir_t *r, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  mr_history_t h;
  mr_diag_t unsaid = {0};
  int n = add_folders(r, 0, folder, most);
  for (int i = mr_history_read(r->path, &h, &unsaid) < 0 ? 0 : h.n; i-- > 0;) {
    const mr_history_part_t *part = &h.part[i], *later = i + 1 < h.n ? part + 1 : NULL;
    mr_run_dir_t was = {.read = true};
    if (later && !strcmp(later->graph, part->graph) && !strcmp(later->settings, part->settings))
      continue;
    snprintf(was.path, sizeof was.path, "%s", r->path);
    snprintf(was.origin, sizeof was.origin, "%s", r->origin);
    if (mr_run_dir_become(&was, part, &unsaid) >= 0) n = add_folders(&was, n, folder, most);
    mr_run_dir_free(&was);
  }
  mr_history_free(&h);
  char own[MR_RUN_CHECKPOINTS];
  snprintf(own, sizeof own, "%s/checkpoints", r->path);
  if (takes_folder(own, n, folder, most)) strcpy(folder[n++], own);
  return n;
}

mr_err_t mr_run_dir_resume_point(const mr_run_dir_t *r, mr_resume_point_t *out, mr_diag_t *diag) {
  static char folder[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  *out = (mr_resume_point_t){0}; /* no checkpoint yet: the run starts from its beginning */
  for (int i = 0, n = mr_run_dir_checkpoints(r, folder, MR_RUN_FOLDERS); i < n; i++) {
    mr_resume_point_t one;
    struct stat st;
    snprintf(one.path, sizeof one.path, "%.*s/latest", MR_RUN_CHECKPOINTS, folder[i]);
    if (lstat(one.path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR)) continue;
    MR_TRY(mr_train_state_progress(one.path, &one.at, diag));
    if (!out->path[0] || one.at.step > out->at.step) *out = one;
  }
  return MR_OK;
}
