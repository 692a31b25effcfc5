/* What each process of a job reads: of every batch the records of its own parts, so that no rank
   fetches what another needs.  The graph is changed before it is settled, by the settings that a
   user could give, because only the stage that makes batches knows their records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/process_ranks.h"
#include "model/mesh/mesh.h"
#include "stages/train/train_step_private.h"

extern const mr_stage_def_t mr_stage_shard_to_device; /* stages/shard_to_device.c */

/* Whether a stage makes slices for this reader alone. */
static bool can_slice(const mr_graph_t *g, const mr_stage_t *s) {
  return s && mr_stage_def_opt(s->def, "host") && mr_stage_def_opt(s->def, "parts") &&
         mr_graph_n_readers(g, s->name) == 1;
}

/* Which of how many slices this process makes, of a batch in that many parts. */
typedef struct slice {
  int number, of;
  char parts[16];
} slice_t;

/* The number that a setting has; 0: none. */
static int number_in_setting(const char *text) { return text ? atoi(text) : 0; }

/* Stages of the step's pipelines, of which each has a rank; 0: none. */
static int stages_of_step(const mr_graph_t *g, const char *step) {
  const char *names = mr_graph_setting(g, step, "stages");
  int n = number_in_setting(mr_graph_setting(g, step, "pipeline"));
  if (n < 2 && names && *names) n = (int)mr__train_stages_in(names);
  return n < 2 ? 0 : n;
}

/* Ranks that have parts of parameters share a batch by the axis of the batch alone, in one part
   each; the stages of a pipeline have the whole microbatches of it; others have parts of the
   step. */
static slice_t slice_of_process(const mr_graph_t *g, const mr_process_ranks_t *p, const char *shard,
                                const char *step) {
  slice_t own = {.number = p->rank, .of = p->size};
  const char *ordered = mr_graph_setting(g, step, "ordered");
  int stages = stages_of_step(g, step);
  const char *rules = mr_graph_setting(g, step, "partition");
  const char *text = mr_graph_setting(g, shard, "mesh");
  int at[MR_MESH_AXES], axis;
  mr_mesh_t m;
  if (stages && number_in_setting(mr_graph_setting(g, step, "microbatches")))
    ordered = mr_graph_setting(g, step, "microbatches");
  if (!ordered || !strcmp(ordered, "0"))
    snprintf(own.parts, sizeof own.parts, "%d", MR__ORDERED_OF_RANKS);
  else
    snprintf(own.parts, sizeof own.parts, "%s", ordered);
  if (!text || mr_mesh_parse(text, p->size, &m, NULL) < 0) return own; /* settle reports it */
  axis = mr_mesh_batch(&m);
  if (stages && m.size[axis] % stages == 0) {
    mr_mesh_place(&m, p->rank, at);
    own.of = m.size[axis] / stages;
    own.number = at[axis] % own.of;
    return own;
  }
  if (m.size[axis] == p->size && !(rules && *rules)) return own;
  mr_mesh_place(&m, p->rank, at);
  own.number = at[axis], own.of = m.size[axis];
  snprintf(own.parts, sizeof own.parts, "%d", own.of);
  return own;
}

/* Sets the slice of the stage before shard-to-device, which is called `shard`. */
static mr_err_t set_slice(mr_graph_t *g, const mr_process_ranks_t *p, const char *shard,
                          const slice_t *own, const char **whole, mr_diag_t *diag) {
  const char *before = mr_graph_before(g, shard, 0), *host;
  char text[48];
  if (!before) return MR_OK;      /* settle reports it */
  if (own->of == 1) return MR_OK; /* all ranks read all */
  if (!can_slice(g, mr_graph_stage(g, before)) || mr_graph_n_readers(g, shard) != 1) {
    *whole = before;
    return MR_OK;
  }
  host = mr_graph_setting(g, before, "host");
  if (host && *host)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: setting host = %s: which slice a rank makes follows from its number, want "
                   "no host= in a job of %d processes",
                   before, host, p->size);
  snprintf(text, sizeof text, "%d/%d", own->number, own->of);
  MR_TRY(mr_graph_set(g, before, "host", text, diag));
  return mr_graph_set(g, before, "parts", own->parts, diag);
}

mr_err_t mr_train_stage_slices(mr_graph_t *g, const char **whole, mr_diag_t *diag) {
  const mr_process_ranks_t *p = mr_process_ranks();
  const char *unused;
  if (!whole) whole = &unused;
  *whole = NULL;
  for (int i = 0, n = mr_graph_n_stages(g); p && i < n; i++) {
    const mr_stage_t *step = mr_graph_stage_at(g, i);
    const char *shard = mr_is_train_stage(step) ? mr_graph_before(g, step->name, 0) : NULL;
    if (!shard || mr_graph_stage(g, shard)->def != &mr_stage_shard_to_device) continue;
    slice_t own = slice_of_process(g, p, shard, step->name);
    MR_TRY(set_slice(g, p, shard, &own, whole, diag));
  }
  return MR_OK;
}
