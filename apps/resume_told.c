/* Finds the last reported step in a run's metrics files. */
#include "apps/resume_told.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/resume.h"
#include "base/xio.h"

/* The last step among the lines of a metrics file that was written since; -1 without one.  Only
   lines in the format of sinks/json.c count. */
static int64_t last_step(const char *path, int64_t since) {
  int64_t last = -1, step;
  char *line = NULL;
  size_t cap = 0;
  FILE *f = mr_resume_is_newer(path, since) ? mr_open_regular(path) : NULL;
  while (f && getline(&line, &cap, f) > 0)
    if (sscanf(line, "{\"kind\":\"step\",\"step\":%" SCNd64 ",", &step) == 1 && step > last)
      last = step;
  if (f) fclose(f);
  free(line);
  return last;
}

mr_err_t mr_resume_told(mr_graph_t *g, int64_t since, mr_diag_t *diag) {
  int64_t told = -1;
  char text[32];
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    const char *path = mr_graph_setting(g, s->name, "path");
    int64_t last = path && !strcmp(s->def->name, "jsonl") ? last_step(path, since) : -1;
    if (last > told) told = last;
  }
  snprintf(text, sizeof text, "%" PRId64, told);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (mr_stage_def_opt(s->def, "resume-told"))
      MR_TRY(mr_graph_set(g, s->name, "resume-told", text, diag));
  }
  return MR_OK;
}
