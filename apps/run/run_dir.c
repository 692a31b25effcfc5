/* A run's folder: its text files are read and written whole, and a lock keeps other processes
   out. */
#include "apps/run/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/synthetic.h"
#include "base/text.h"
#include "base/xio.h"
#include "stages/train/train_stage.h"

static const char runs[] = "runs";

/* The highest N of runs/N; 0 without any. */
static long newest_run(void) {
  long top = 0;
  DIR *d = opendir(runs);
  for (struct dirent *e; d && (e = readdir(d));) {
    char *end;
    long n = strtol(e->d_name, &end, 10);
    if (end != e->d_name && !*end && n > top) top = n;
  }
  if (d) closedir(d);
  return top;
}

/* Sets r->path to path or, if it is NULL, to the newest of runs/. */
static mr_err_t set_path(mr_run_dir_t *r, const char *path, mr_diag_t *diag) {
  *r = (mr_run_dir_t){0};
  if (path && (!*path || strlen(path) > MR_RUN_PATH - 64))
    return mr_fail(diag, MR_ERR_CONFIG, "--run-dir: \"%.40s\": want the name of a folder", path);
  if (path)
    snprintf(r->path, sizeof r->path, "%s", path);
  else
    snprintf(r->path, sizeof r->path, "%s/%ld", runs, newest_run());
  return MR_OK;
}

static void file_in(const mr_run_dir_t *r, const char *name, char *path) {
  snprintf(path, MR_RUN_PATH + 64, "%s/%s", r->path, name);
}

/* Whether NAME is a run's temporary file whose writer, the process id at its end, no longer
   exists: what becomes FILE is FILE.part-, 8 hexadecimal digits, - and that id. */
static bool is_leftover(const char *name) {
  const char *part = strstr(name, ".part-"), *dash = strrchr(name, '-');
  bool ours = !strncmp(name, ".latest-", 8) || !strncmp(name, ".writable-", 10);
  if (part && part != name && dash - part == 6 + 8)
    ours |= strspn(part + 6, "0123456789abcdef") == 8;
  if (!ours) return false;
  char *end;
  long pid = strtol(dash + 1, &end, 10);
  return pid > 0 && !*end && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void run_dir_sweep(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (is_leftover(e->d_name)) unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
}

/* How many folders at the end of path are missing. */
static int missing_folders(const char *path) {
  char part[MR_RUN_PATH];
  struct stat st;
  int n = 0;
  snprintf(part, sizeof part, "%s", path);
  for (char *slash = part; slash && *part; n++) {
    if (stat(part, &st) == 0 || errno != ENOENT) return n;
    while ((slash = strrchr(part, '/')) && !slash[1] && slash > part) *slash = 0;
    if (slash) *slash = 0;
  }
  return n;
}

/* Removes the folders that were missing, as far as they are empty. */
static void remove_made(mr_run_dir_t *r) {
  char part[MR_RUN_PATH], *slash = part;
  snprintf(part, sizeof part, "%s", r->path);
  for (; r->made > 0 && slash && *part; r->made--) {
    if (rmdir(part) < 0 && errno != ENOENT) break;
    while ((slash = strrchr(part, '/')) && !slash[1] && slash > part) *slash = 0;
    if (slash) *slash = 0;
  }
  r->made = 0;
}

/* Makes the next of runs/1, runs/2, ...; mkdir decides between processes that do so at once. */
static mr_err_t make_next(mr_run_dir_t *r, mr_diag_t *diag) {
  int missing = missing_folders(runs);
  MR_TRY(mr_make_folder(runs, diag));
  for (long n = newest_run() + 1;; n++) {
    snprintf(r->path, sizeof r->path, "%s/%ld", runs, n);
    if (mkdir(r->path, 0777) == 0) return r->made = missing + 1, MR_OK;
    if (errno == EEXIST) continue;
    mr_fail(diag, MR_ERR_IO, "%s: cannot make the folder: %s", r->path, strerror(errno));
    if (missing) rmdir(runs);
    return MR_ERR_IO;
  }
}

static mr_err_t make_named(mr_run_dir_t *r, mr_diag_t *diag) {
  r->made = missing_folders(r->path);
  return mr_make_folder(r->path, diag);
}

/* Locks the folder, which must hold no run, and sees that it can be written. */
static mr_err_t take_folder(mr_run_dir_t *r, mr_diag_t *diag) {
  char settings[MR_RUN_PATH + 64];
  MR_TRY(mr_run_lock_take(r->path, &r->lock, diag));
  file_in(r, "settings.txt", settings);
  if (access(settings, F_OK) == 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "--run-dir: %s holds an earlier run; resume it with --resume, or name another "
                   "folder",
                   r->path);
  file_in(r, "checkpoints", settings);
  run_dir_sweep(r->path), run_dir_sweep(settings);
  return mr_folder_writable(r->path, diag);
}

mr_err_t mr_run_dir_new(mr_run_dir_t *r, const char *path, mr_diag_t *diag) {
  MR_TRY(set_path(r, path, diag));
  mr_err_t e = path ? make_named(r, diag) : make_next(r, diag);
  if (e >= 0) e = take_folder(r, diag);
  if (e >= 0) return e;
  mr_run_lock_release(r->lock);
  r->lock = NULL;
  remove_made(r);
  return e;
}

void mr_run_dir_undo(mr_run_dir_t *r) {
  static const char *const written[] = {"settings.txt",  "graph.mr",      "data.txt",
                                        "history.jsonl", "versions.json", "web.url"};
  char path[MR_RUN_PATH + 64];
  struct stat st;
  file_in(r, "metrics.jsonl", path);
  if (stat(path, &st) == 0 && st.st_size > 0) return;
  unlink(path);
  file_in(r, "checkpoints", path);
  if (rmdir(path) < 0 && errno != ENOENT) return;
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    file_in(r, written[i], path);
    unlink(path);
  }
  mr_run_lock_release(r->lock);
  r->lock = NULL;
  remove_made(r);
}

static mr_err_t run_dir_read_text(const mr_run_dir_t *r, const char *name, char **text,
                                  mr_diag_t *diag) {
  char path[MR_RUN_PATH + 64];
  void *data;
  size_t n;
  file_in(r, name, path);
  MR_TRY(mr_read_file(path, MR_GRAPH_BYTES_MAX, &data, &n, diag));
  *text = realloc(data, n + 1);
  if (!*text) {
    free(data);
    return mr_no_memory(diag, "the text of %s", path);
  }
  (*text)[n] = 0;
  if (strlen(*text) == n) return MR_OK;
  free(*text);
  *text = NULL;
  return mr_fail(diag, MR_ERR_DATA, "%s: holds a zero byte, want text", path);
}

/* Reports a folder that is no run; "cannot open graph.mr" would not explain a wrong folder. */
static mr_err_t check_is_run(const mr_run_dir_t *r, mr_diag_t *diag) {
  char path[MR_RUN_PATH + 64];
  file_in(r, "graph.mr", path);
  if (access(path, F_OK) == 0 || errno != ENOENT) return MR_OK;
  return mr_fail(diag, MR_ERR_IO,
                 "%s: holds no graph.mr, so it is not a run; `millrace runs` lists the runs",
                 r->path);
}

static mr_err_t run_dir_find(mr_run_dir_t *r, const char *path, mr_diag_t *diag) {
  MR_TRY(set_path(r, path, diag));
  if (!path && !newest_run())
    return mr_fail(diag, MR_ERR_CONFIG, "--resume: there is no run in %s/; name one with --run-dir",
                   runs);
  return check_is_run(r, diag);
}

static mr_err_t read_files(mr_run_dir_t *r, mr_diag_t *diag) {
  char *settings = NULL, *save = NULL;
  file_in(r, "graph.mr", r->origin);
  r->read = true;
  MR_TRY(run_dir_read_text(r, "graph.mr", &r->graph, diag));
  MR_TRY(run_dir_read_text(r, "settings.txt", &settings, diag));
  mr_err_t e = MR_OK;
  for (char *line = strtok_r(settings, "\n", &save); line && e >= 0;
       line = strtok_r(NULL, "\n", &save))
    e = mr_run_dir_set(r, line, diag);
  free(settings);
  char path[MR_RUN_PATH + 64];
  file_in(r, "data.txt", path);
  bool has_data = access(path, F_OK) == 0;
  return e >= 0 && has_data ? run_dir_read_text(r, "data.txt", &r->data, diag) : e;
}

mr_err_t mr_run_dir_read(mr_run_dir_t *r, const char *path, mr_diag_t *diag) {
  MR_TRY(run_dir_find(r, path, diag));
  return read_files(r, diag);
}

mr_err_t mr_run_dir_open(mr_run_dir_t *r, const char *path, mr_diag_t *diag) {
  MR_TRY(run_dir_find(r, path, diag));
  char lock[MR_RUN_PATH + 64];
  file_in(r, "lock", lock);
  r->cut = access(lock, F_OK) == 0;
  MR_TRY(mr_run_lock_take(r->path, &r->lock, diag));
  r->fails = r->cut; /* until it ends in order */
  run_dir_sweep(r->path);
  MR_TRY(read_files(r, diag));
  static char folder[MR_RUN_FOLDERS][MR_RUN_CHECKPOINTS];
  for (int i = 0, n = mr_run_dir_checkpoints(r, folder, MR_RUN_FOLDERS); i < n; i++)
    run_dir_sweep(folder[i]);
  return MR_OK;
}

/* Sets the quarantine files of its sources to the run's folder, unless the graph names others. */
static mr_err_t set_quarantine(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag) {
  char path[MR_RUN_PATH + 64];
  file_in(r, "quarantine.jsonl", path);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    const mr_opt_t *o = mr_stage_def_opt(s->def, "quarantine");
    if (o && o->def && !strcmp(mr_graph_setting(g, s->name, o->name), o->def))
      MR_TRY(mr_graph_set(g, s->name, o->name, path, diag));
  }
  return MR_OK;
}

mr_err_t mr_run_dir_parse(const mr_run_dir_t *r, mr_graph_t *g, const char *const *settings, int n,
                          mr_diag_t *diag) {
  if (*r->origin) MR_TRY(mr_graph_set_origin(g, r->origin, diag));
  MR_TRY(mr_run_plugins_load(r, diag));
  mr_graph_on_plugin(g, r->read ? mr_run_plugins_of_text : mr_plugin_of_text, (void *)r);
  mr_graph_on_missing(g, mr_train_stage_missing);
  return mr_graph_parse(g, r->graph, settings, n, diag);
}

mr_err_t mr_run_dir_graph(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag) {
  char run[MR_RUN_PATH + 8];
  const char *setting[MR_RUN_SETTINGS + 1], *data = mr_run_dir_get(r, "data");
  int n = 0;
  for (int i = 0; i < r->n_settings; i++)
    if (!mr_run_plugin_is(r->setting[i])) setting[n++] = r->setting[i];
  snprintf(run, sizeof run, "run=%s", r->path);
  if (strstr(r->graph, "$run")) setting[n++] = run;
  MR_TRY(mr_run_dir_parse(r, g, setting, n, diag));
  MR_TRY(mr_graph_use_synthetic(g, data, diag));
  return set_quarantine(r, g, diag);
}

mr_err_t mr_run_dir_set(mr_run_dir_t *r, const char *name_value, mr_diag_t *diag) {
  const char *eq = strchr(name_value, '=');
  if (!eq || eq == name_value || strchr(name_value, '\n'))
    return mr_fail(diag, MR_ERR_USAGE, "\"%.*s%s\": want NAME=VALUE in one line",
                   (int)strcspn(name_value, "=\n"), name_value, eq ? "=..." : "");
  if (r->n_settings == MR_RUN_SETTINGS)
    return mr_fail(diag, MR_ERR_USAGE, "more than %d settings", MR_RUN_SETTINGS);
  char *copy = strdup(name_value);
  if (!copy) return mr_no_memory(diag, "settings");
  r->setting[r->n_settings++] = copy;
  return MR_OK;
}

mr_err_t mr_run_dir_word(mr_run_dir_t *r, const char *name_value, mr_diag_t *diag) {
  bool folder = !strncmp(name_value, "run=", 4) && strstr(r->graph, "$run");
  if (folder && strcmp(name_value + 4, r->path) != 0)
    return mr_fail(diag, MR_ERR_USAGE, "%.300s: the graph is that of the run in %s, which stays so",
                   name_value, r->path);
  return mr_run_dir_set(r, name_value, diag);
}

const char *mr_run_dir_get(const mr_run_dir_t *r, const char *name) {
  size_t n = strlen(name);
  for (int i = r->n_settings - 1; i >= 0; i--)
    if (!strncmp(r->setting[i], name, n) && r->setting[i][n] == '=') return r->setting[i] + n + 1;
  return NULL;
}

/* Writes a file that only its owner can read: a setting or graph may contain a webhook's address or
   a token. */
static mr_err_t write_private(const mr_run_dir_t *r, const char *name, const char *text,
                              mr_diag_t *diag) {
  char path[MR_RUN_PATH + 64];
  file_in(r, name, path);
  mode_t before = umask(077);
  mr_err_t e = mr_write_file(path, text, strlen(text), diag);
  umask(before);
  return e;
}

/* The settings, one a line; heap, NULL without memory. */
static char *run_settings_text(const mr_run_dir_t *r) {
  mr_text_out_t out;
  FILE *f = mr_text_out_open(&out);
  for (int i = 0; f && i < r->n_settings; i++) fprintf(f, "%s\n", r->setting[i]);
  return mr_text_out_close(&out, f, NULL);
}

mr_err_t mr_run_dir_save(const mr_run_dir_t *r, mr_diag_t *diag) {
  char path[MR_RUN_PATH + 64], *text = run_settings_text(r);
  mr_err_t e = text ? write_private(r, "graph.mr", r->graph, diag) : mr_no_memory(diag, "settings");
  if (e >= 0) e = write_private(r, "settings.txt", text, diag);
  if (e >= 0 && r->data) e = write_private(r, "data.txt", r->data, diag);
  file_in(r, "data.txt", path);
  if (e >= 0 && !r->data) unlink(path);
  free(text);
  return e;
}

mr_err_t mr_run_dir_part(const mr_run_dir_t *r, int64_t from, mr_history_part_t *part,
                         mr_diag_t *diag) {
  *part = (mr_history_part_t){.from = from,
                              .graph = r->graph,
                              .settings = run_settings_text(r),
                              .carry = r->carry,
                              .data = r->data,
                              .plugins = mr_run_plugins_text()};
  return part->settings && part->plugins ? MR_OK : mr_no_memory(diag, "the history");
}

mr_err_t mr_run_dir_become(mr_run_dir_t *r, const mr_history_part_t *part, mr_diag_t *diag) {
  char *graph = strdup(part->graph), *data = *part->data ? strdup(part->data) : NULL,
       *carry = strdup(part->carry), *settings = strdup(part->settings), *save = NULL;
  bool whole = graph && carry && settings && (data || !*part->data);
  mr_err_t e = whole ? MR_OK : mr_no_memory(diag, "a run as it was");
  while (r->n_settings) free(r->setting[--r->n_settings]);
  free(r->graph), free(r->data), free(r->carry);
  r->graph = graph, r->data = data, r->carry = carry;
  for (char *line = whole ? strtok_r(settings, "\n", &save) : NULL; line && e >= 0;
       line = strtok_r(NULL, "\n", &save))
    e = mr_run_dir_set(r, line, diag);
  free(settings);
  return e;
}

mr_err_t mr_run_dir_carry(const mr_run_dir_t *r, mr_graph_t *g, mr_diag_t *diag) {
  char *text = strdup(r->carry ? r->carry : ""), *save = NULL;
  mr_err_t e = text ? MR_OK : mr_no_memory(diag, "settings");
  for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line && e >= 0;
       line = strtok_r(NULL, "\n", &save))
    e = mr_graph_override(g, line, diag);
  free(text);
  return e;
}

void mr_run_dir_free(mr_run_dir_t *r) {
  if (r->fails)
    mr_run_lock_leave(r->lock);
  else
    mr_run_lock_release(r->lock);
  for (int i = 0; i < r->n_settings; i++) free(r->setting[i]);
  free(r->graph), free(r->data), free(r->carry);
  *r = (mr_run_dir_t){0};
}

mr_err_t mr_run_dir_steps(const char *path, int64_t *steps, mr_diag_t *diag) {
  static const char member[] = "\"step\":";
  char file[MR_RUN_PATH + 64], tail[1 << 16];
  *steps = 0;
  if (snprintf(file, sizeof file, "%s/metrics.jsonl", path) >= (int)sizeof file) return MR_OK;
  FILE *f = mr_open_regular(file);
  if (!f && (errno == ENOENT || errno == ENOTDIR)) return MR_OK;
  if (!f) return mr_fail(diag, MR_ERR_IO, "%s: cannot be opened: %s", file, mr_open_reason(errno));
  if (fseeko(f, -(off_t)(sizeof tail - 1), SEEK_END) < 0) rewind(f);
  size_t n = fread(tail, 1, sizeof tail - 1, f);
  fclose(f);
  tail[n] = 0;
  for (char *at = tail; (at = strstr(at, member)); at++) {
    long long step = strtoll(at + sizeof member - 1, NULL, 10);
    if (step > *steps) *steps = step;
  }
  return MR_OK;
}
