/* Sets the settings that a resumed graph needs: checkpoint, sinks, positions of the streams, and
   the last step that was reported before a kill. */
#include "apps/run/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lines.h"
#include "base/xio.h"

/* Sets every sink that keeps what an earlier run wrote. */
static mr_err_t set_sinks(mr_graph_t *g, const mr_train_progress_t *at, mr_diag_t *diag) {
  char text[32];
  const char *valid = at->unvalidated ? "false" : "true";
  snprintf(text, sizeof text, "%" PRId64, at->step);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (mr_stage_def_opt(s->def, "resume-step"))
      MR_TRY(mr_graph_set(g, s->name, "resume-step", text, diag));
    if (mr_stage_def_opt(s->def, "resume-valid"))
      MR_TRY(mr_graph_set(g, s->name, "resume-valid", valid, diag));
  }
  return MR_OK;
}

/* Sets each stream of the training stage to where the checkpoint left it. */
static mr_err_t set_streams(mr_graph_t *g, const char *step, const mr_train_progress_t *at,
                            mr_diag_t *diag) {
  for (int i = 0; i < MR_TRAIN_STREAMS; i++) {
    const char *before = mr_graph_before(g, step, i);
    if (before && at->stream_known[i]) MR_TRY(mr_graph_resume(g, before, &at->stream[i], diag));
  }
  for (int port = MR_TRAIN_STREAMS; port < MR_MAX_PORTS; port++) {
    const char *name = mr_graph_input_name(g, step, port), *before = mr_graph_before(g, step, port);
    for (int i = 0; name && before && i < MR_TRAIN_MORE; i++)
      if (!strcmp(name, at->more[i].name))
        MR_TRY(mr_graph_resume(g, before, &at->more[i].at, diag));
  }
  return MR_OK;
}

mr_err_t mr_resume_set(mr_graph_t *g, const char *step, const char *path,
                       const mr_train_progress_t *at, mr_diag_t *diag) {
  MR_TRY(mr_graph_set(g, step, "resume", path, diag));
  MR_TRY(set_sinks(g, at, diag));
  return set_streams(g, step, at, diag);
}

mr_err_t mr_resume_from(mr_graph_t *g, const char *step, const char *path, mr_train_progress_t *at,
                        mr_diag_t *diag) {
  MR_TRY(mr_train_state_progress(path, at, diag));
  return mr_resume_set(g, step, path, at, diag);
}

bool mr_resume_is_newer(const char *path, int64_t since) {
  struct stat st;
  if (lstat(path, &st) < 0) return false;
  return st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec >= since;
}

/* What the lines of a metrics file say last. */
typedef struct reported {
  int64_t step, images; /* -1 and 0 without a step */
} reported_t;

/* Whether a line is a step's, in the format of jsonl or of csv. */
static bool is_step_line(const char *line, reported_t *is) {
  if (sscanf(line, "step,%" SCNd64 ",%*[^,],%" SCNd64 ",", &is->step, &is->images) == 2)
    return true;
  if (sscanf(line, "{\"kind\":\"step\",\"step\":%" SCNd64 ",", &is->step) != 1) return false;
  const char *at = strstr(line, "\"images\":");
  if (!at || sscanf(at, "\"images\":%" SCNd64, &is->images) != 1) is->images = 0;
  return true;
}

/* Takes the last step among the last lines of a metrics file that was written since.  Returns false
   if there is no such file. */
static bool look_for_last_step(const char *path, int64_t since, reported_t *last) {
  reported_t is;
  char *line = NULL;
  size_t cap = 0;
  struct stat st;
  FILE *f = mr_resume_is_newer(path, since) ? mr_open_regular(path) : NULL;
  if (f && fstat(fileno(f), &st) == 0 && st.st_size > MR_LINES_TAIL)
    mr_lines_seek(f, st.st_size - MR_LINES_TAIL);
  while (f && mr_read_line(f, MR_LINE_MOST, &line, &cap) >= 0) {
    if (!is_step_line(line, &is)) continue;
    if (is.step > last->step) last->step = is.step;
    if (is.images > last->images) last->images = is.images;
  }
  if (f) fclose(f);
  free(line);
  return f != NULL;
}

/* The metrics file of stage i of a graph, whose lines a resume cuts back, and the file beside it
   that keeps what was reported before a cut.  Returns NULL for another stage. */
static const char *metrics_file(const mr_graph_t *g, int i, char beside[MR_PATH_MAX]) {
  const mr_stage_t *s = mr_graph_stage_at(g, i);
  const char *path =
      mr_stage_def_opt(s->def, "resume-valid") ? mr_graph_setting(g, s->name, "path") : NULL;
  int n = path ? snprintf(beside, MR_PATH_MAX, "%s.reported", path) : 0;
  return n > 0 && n < MR_PATH_MAX ? path : NULL;
}

/* Whether path is a file of lines that was written since, beside which a file may be kept: no link,
   pipe or device, such as /dev/stdout. */
static bool is_newer_file(const char *path, int64_t since) {
  struct stat st;
  return mr_resume_is_newer(path, since) && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Keeps the last reported step beside a metrics file that is about to be cut, for a process that is
   killed before it has passed that step; without one removes what was kept.  A disk that is full,
   or a link or a device where the file would be, does not hold up a resume, and a notice says what
   another one will not know. */
static void keep_reported(const char *beside, const reported_t *last) {
  char line[96];
  mr_diag_t why = {0};
  if (last->step < 0) {
    unlink(beside);
    return;
  }
  int n = snprintf(line, sizeof line,
                   "{\"kind\":\"step\",\"step\":%" PRId64 ",\"images\":%" PRId64 "}\n", last->step,
                   last->images);
  if (mr_write_file(beside, line, (size_t)n, &why) < 0)
    mr_notice("%s: after another kill, a resume would not know that steps up to %" PRId64
              " were reported",
              why.text, last->step);
}

bool mr_resume_keeps_none(const mr_graph_t *g) {
  char beside[MR_PATH_MAX];
  bool shows = false;
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    shows |= mr_stage_def_opt(mr_graph_stage_at(g, i)->def, "resume-reported") != NULL;
    if (metrics_file(g, i, beside)) return false;
  }
  return shows;
}

void mr_resume_say_unkept(const mr_graph_t *g, int64_t step) {
  if (mr_resume_keeps_none(g))
    mr_notice(
        "resume: no stage jsonl or csv keeps which steps were reported: those after step %" PRId64
        " that were before the run was cut off are not shown as repeated",
        step);
}

/* Sets a setting of every stage that has it. */
static mr_err_t set_everywhere(mr_graph_t *g, const char *name, int64_t value, mr_diag_t *diag) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (mr_stage_def_opt(s->def, name)) MR_TRY(mr_graph_set(g, s->name, name, text, diag));
  }
  return MR_OK;
}

mr_err_t mr_resume_reported(mr_graph_t *g, int64_t since, const mr_train_progress_t *at,
                            mr_diag_t *diag) {
  reported_t last = {.step = -1, .images = at->images};
  char beside[MR_PATH_MAX];
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const char *path = metrics_file(g, i, beside);
    if (path && look_for_last_step(path, since, &last)) look_for_last_step(beside, since, &last);
  }
  if (last.step <= at->step) last.step = -1; /* none is repeated */
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const char *path = metrics_file(g, i, beside);
    if (path && is_newer_file(path, since)) keep_reported(beside, &last);
  }
  MR_TRY(set_everywhere(g, "resume-reported", last.step, diag));
  return set_everywhere(g, "resume-images", last.images, diag);
}

void mr_resume_forget_reported(const mr_graph_t *g) {
  char beside[MR_PATH_MAX];
  for (int i = 0; i < mr_graph_n_stages(g); i++)
    if (metrics_file(g, i, beside)) unlink(beside);
}
