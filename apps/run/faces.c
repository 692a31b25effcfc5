/* Flags such as --web become lines of the run's graph text, which the run folder keeps.  A resumed
   run therefore has the same pages without the flags, and a graph that already has the stage is
   left as it is. */
#include "apps/run/run_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph.h"

static const struct face {
  const char *flag, *stage, *settings; /* settings: what follows the stage; %s is the run folder */
} faces[] = {{"--tensorboard", "tensorboard", "dir='%s/tensorboard'"},
             {"--prometheus", "prometheus", ""},
             {"--web", "web", "run='%s'"}};

/* Writes the output that metrics come from, "telemetry." or "train.metrics"; false if none does. */
static bool metrics_of(const mr_graph_t *g, char *text, size_t n) {
  const mr_stage_t *s = mr_graph_stage_of(g, "telemetry");
  if (s) snprintf(text, n, "%s.", s->name);
  for (int i = 0; !s && i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *t = mr_graph_stage_at(g, i);
    for (int p = 0; p < MR_MAX_PORTS && t->def->out[p].name; p++)
      if (t->def->out[p].flow == MR_FLOW_METRICS) {
        snprintf(text, n, "%s.%s", t->name, t->def->out[p].name);
        s = t;
      }
  }
  return s != NULL;
}

static mr_err_t faces_append(mr_run_dir_t *r, const struct face *f, const char *from,
                             mr_diag_t *diag) {
  char line[MR_RUN_PATH + 256], settings[MR_RUN_PATH + 128];
  snprintf(settings, sizeof settings, f->settings, strstr(r->graph, "let run") ? "$run" : r->path);
  if (strstr(settings, "$run")) /* variables are not expanded in single quotes */
    for (char *q = settings; *q; q++)
      if (*q == '\'') *q = '"';
  int n = snprintf(line, sizeof line, "\n# %s\n%s ! %s %s\n", f->flag, from, f->stage, settings);
  char *more = realloc(r->graph, strlen(r->graph) + (size_t)n + 1);
  if (!more) return mr_no_memory(diag, "the graph");
  r->graph = strcat(more, line);
  return MR_OK;
}

mr_err_t mr_faces_add(const mr_args_t *a, mr_run_dir_t *r, mr_diag_t *diag) {
  char from[128];
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "the graph");
  mr_err_t e = mr_run_dir_parse(r, g, NULL, 0, diag);
  for (size_t i = 0; e >= 0 && i < sizeof faces / sizeof *faces; i++) {
    if (!mr_args_text(a, faces[i].flag) || mr_graph_stage_of(g, faces[i].stage)) continue;
    e = metrics_of(g, from, sizeof from)
            ? faces_append(r, &faces[i], from, diag)
            : mr_fail(diag, MR_ERR_CONFIG, "%s: no stage of the graph gives metrics",
                      faces[i].flag);
  }
  mr_graph_destroy(g);
  return e;
}
