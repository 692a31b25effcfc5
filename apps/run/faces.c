/* Flags such as --web become lines of the run's graph text, which the run folder keeps.  A resumed
   run therefore has the same pages without the flags, and a graph that already has the stage is
   left as it is. */
#include "apps/cli/texts.h"
#include "apps/run/run_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph.h"

/* The stage of a face: the first word of its text. */
static void face_stage(const mr_face_t *f, char *name, size_t n) {
  snprintf(name, n, "%.*s", (int)strcspn(f->text, " "), f->text);
}

static int metrics_port(const mr_port_def_t *port) {
  for (int p = 0; p < MR_MAX_PORTS && port[p].name; p++)
    if (port[p].flow == MR_FLOW_METRICS) return p;
  return -1;
}

/* Writes the output that metrics come from, "train.metrics", or that of a stage which adds to them,
   "telemetry."; false if none does. */
static bool metrics_of(const mr_graph_t *g, char *text, size_t n) {
  const mr_stage_t *from = NULL;
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    bool adds = metrics_port(s->def->in) >= 0;
    if (metrics_port(s->def->out) >= 0 && (!from || (adds && metrics_port(from->def->in) < 0)))
      from = s;
  }
  if (!from) return false;
  int out = metrics_port(from->def->out);
  snprintf(text, n, "%s.%s", from->name, out ? from->def->out[out].name : "");
  return true;
}

static mr_err_t faces_append(mr_run_dir_t *r, const mr_face_t *f, const char *from,
                             mr_diag_t *diag) {
  char line[MR_RUN_PATH + 256], settings[MR_RUN_PATH + 128];
  snprintf(settings, sizeof settings, f->text, strstr(r->graph, "let run") ? "$run" : r->path);
  if (strstr(settings, "$run")) /* variables are not expanded in single quotes */
    for (char *q = settings; *q; q++)
      if (*q == '\'') *q = '"';
  int n = snprintf(line, sizeof line, "\n# %s\n%s ! %s\n", f->flag, from, settings);
  char *more = realloc(r->graph, strlen(r->graph) + (size_t)n + 1);
  if (!more) return mr_no_memory(diag, "the graph");
  r->graph = strcat(more, line);
  return MR_OK;
}

mr_err_t mr_faces_add(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag) {
  char from[128], stage[64];
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  mr_err_t e = mr_run_dir_parse(r, g, NULL, 0, diag);
  for (const mr_face_t *f = mr_faces; e >= 0 && f->flag; f++) {
    face_stage(f, stage, sizeof stage);
    if (!mr_args_text(a, f->flag) || mr_graph_stage_of(g, stage)) continue;
    e = metrics_of(g, from, sizeof from)
            ? faces_append(r, f, from, diag)
            : mr_fail(diag, MR_ERR_CONFIG, "%s: no stage of the graph gives metrics", f->flag);
  }
  mr_graph_destroy(g);
  return e;
}
