/* Where the checkpoints of a run are: in RUN/checkpoints, and in the folders that
   RUN/checkpoints.txt lists, a line each.  A start of training notes there where its graph keeps
   them, since the setting may be relative to a working folder that is another one at the next
   start.  Of a run that an earlier version began, the absolute paths count that the graphs of its
   history name; one that cannot be parsed any more names none. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/run/run_dir.h"
#include "base/xio.h"

static void name_list(const mr_run_dir_t *r, char file[MR_RUN_PATH + 64]) {
  snprintf(file, MR_RUN_PATH + 64, "%s/checkpoints.txt", r->path);
}

static bool is_same_folder(const char *a, const char *b) {
  struct stat x, y;
  if (!strcmp(a, b)) return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_folder(const char *path, char (*folder)[MR_RUN_CHECKPOINTS], int n) {
  for (int i = 0; i < n; i++)
    if (is_same_folder(folder[i], path)) return true;
  return false;
}

static int add_folder(const char *path, int n, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  if (n == most || strlen(path) >= MR_RUN_CHECKPOINTS || has_folder(path, folder, n)) return n;
  strcpy(folder[n], path);
  return n + 1;
}

/* Adds the folders of the run's list; returns how many there are then. */
static int add_listed(const mr_run_dir_t *r, int n, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  char file[MR_RUN_PATH + 64], *rest = NULL;
  mr_diag_t unsaid = {0};
  void *data = NULL;
  size_t bytes = 0;
  name_list(r, file);
  if (access(file, F_OK) < 0 ||
      mr_read_file(file, (size_t)MR_RUN_FOLDERS * MR_RUN_CHECKPOINTS, &data, &bytes, &unsaid) < 0)
    return n;
  char *text = malloc(bytes + 1);
  if (text) memcpy(text, data, bytes), text[bytes] = 0;
  for (char *p = text ? strtok_r(text, "\n", &rest) : NULL; p; p = strtok_r(NULL, "\n", &rest))
    n = add_folder(p, n, folder, most);
  free(text), free(data);
  return n;
}

/* Adds those that r's graph names by absolute paths. */
static int add_named(const mr_run_dir_t *r, int n, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  mr_diag_t unsaid = {0};
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  const mr_stage_t *s;
  bool parsed = g && mr_run_dir_graph(r, g, &unsaid) >= 0;
  for (int k = 0; parsed && (s = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, k)); k++) {
    const char *dir = mr_graph_setting(g, s->name, "dir");
    if (dir && *dir == '/') n = add_folder(dir, n, folder, most);
  }
  mr_graph_destroy(g);
  return n;
}

int mr_run_dir_checkpoints(const mr_run_dir_t *r, char (*folder)[MR_RUN_CHECKPOINTS], int most) {
  mr_history_t h;
  mr_diag_t unsaid = {0};
  char own[MR_RUN_CHECKPOINTS], file[MR_RUN_PATH + 64];
  snprintf(own, sizeof own, "%s/checkpoints", r->path);
  int n = add_listed(r, add_folder(own, 0, folder, most), folder, most);
  name_list(r, file);
  if (access(file, F_OK) == 0) return n;
  n = add_named(r, n, folder, most);
  for (int i = mr_history_read(r->path, &h, &unsaid) < 0 ? 0 : h.n; i-- > 0;) {
    const mr_history_part_t *part = &h.part[i], *later = i + 1 < h.n ? part + 1 : NULL;
    mr_run_dir_t was = {.read = true};
    if (later && !strcmp(later->graph, part->graph) && !strcmp(later->settings, part->settings))
      continue;
    snprintf(was.path, sizeof was.path, "%s", r->path);
    snprintf(was.origin, sizeof was.origin, "%s", r->origin);
    if (mr_run_dir_become(&was, part, &unsaid) >= 0) n = add_named(&was, n, folder, most);
    mr_run_dir_free(&was);
  }
  mr_history_free(&h);
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

/* ---- a start ---- */

static mr_err_t refuse_foreign(const mr_stage_t *s, const char *dir,
                               char (*own)[MR_RUN_CHECKPOINTS], int n, mr_diag_t *diag) {
  char latest[PATH_MAX];
  struct stat st;
  if (has_folder(dir, own, n)) return MR_OK;
  if (snprintf(latest, sizeof latest, "%s/latest", dir) >= (int)sizeof latest ||
      lstat(latest, &st) < 0)
    return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "stage %s: dir = %s holds checkpoints of another run, want a folder without any",
                 s->name, dir);
}

/* The folder's absolute name, which is made if it is not there. */
static mr_err_t resolve_folder(const mr_stage_t *s, const char *dir, char path[MR_RUN_CHECKPOINTS],
                               mr_diag_t *diag) {
  char real[PATH_MAX];
  MR_TRY(mr_make_folder(dir, diag));
  if (!realpath(dir, real))
    return mr_fail(diag, MR_ERR_IO, "stage %s: dir = %s: %s", s->name, dir, strerror(errno));
  if (strlen(real) >= MR_RUN_CHECKPOINTS || strchr(real, '\n'))
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "stage %s: dir = %.60s...: a resume looks for it by a path of one line of at most "
        "%d bytes",
        s->name, real, MR_RUN_CHECKPOINTS - 1);
  strcpy(path, real);
  return MR_OK;
}

mr_err_t mr_run_dir_refuse_foreign(const mr_run_dir_t *r, bool fresh, const mr_graph_t *g,
                                   mr_diag_t *diag) {
  static char own[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  const mr_stage_t *s;
  int n = fresh ? 0 : mr_run_dir_checkpoints(r, own, MR_RUN_FOLDERS);
  for (int k = 0; (s = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, k)); k++) {
    const char *dir = mr_graph_setting(g, s->name, "dir");
    if (dir) MR_TRY(refuse_foreign(s, dir, own, n, diag));
  }
  return MR_OK;
}

mr_err_t mr_run_dir_note_checkpoints(const mr_run_dir_t *r, const mr_graph_t *g, mr_diag_t *diag) {
  static char own[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  static char text[MR_RUN_FOLDERS * MR_RUN_CHECKPOINTS];
  char file[MR_RUN_PATH + 64], path[MR_RUN_CHECKPOINTS];
  const mr_stage_t *s;
  size_t at = 0;
  int n = mr_run_dir_checkpoints(r, own, MR_RUN_FOLDERS);
  for (int k = 0; (s = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, k)); k++) {
    const char *dir = mr_graph_setting(g, s->name, "dir");
    if (!dir) continue;
    MR_TRY(resolve_folder(s, dir, path, diag));
    n = add_folder(path, n, own, MR_RUN_FOLDERS);
    if (!has_folder(path, own, n))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "stage %s: dir = %s: the run has kept checkpoints in %d folders, which is all "
                     "that it may have",
                     s->name, dir, MR_RUN_FOLDERS);
  }
  if (n == 1) return MR_OK; /* RUN/checkpoints alone */
  for (int i = 1; i < n; i++) at += (size_t)snprintf(text + at, sizeof text - at, "%s\n", own[i]);
  name_list(r, file);
  return mr_write_file(file, text, at, diag);
}
