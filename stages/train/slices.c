/* What each process of a job reads: of every batch the records of its own parts, so that no rank
   fetches what another needs.  The graph is changed before it is settled, by the settings that a
   user could give, because only the stage that makes batches knows their records. */
#include <stdio.h>
#include <string.h>

#include "model/exec/process_ranks.h"
#include "stages/train/train_step_private.h"

extern const mr_stage_def_t mr_stage_shard_to_device; /* stages/shard_to_device.c */

/* Whether a stage makes slices for this reader alone. */
static bool can_slice(const mr_graph_t *g, const mr_stage_t *s) {
  return s && mr_stage_def_opt(s->def, "host") && mr_stage_def_opt(s->def, "parts") &&
         mr_graph_n_readers(g, s->name) == 1;
}

/* Sets the slice of the stage before shard-to-device, which is called `shard`. */
static mr_err_t set_slice(mr_graph_t *g, const mr_process_ranks_t *p, const char *shard,
                          const char *ordered, const char **whole, mr_diag_t *diag) {
  const char *before = mr_graph_before(g, shard, 0), *host;
  char text[48];
  if (!before) return MR_OK; /* settle reports it */
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
  snprintf(text, sizeof text, "%d/%d", p->rank, p->size);
  MR_TRY(mr_graph_set(g, before, "host", text, diag));
  return mr_graph_set(g, before, "parts", ordered, diag);
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
    const char *ordered = mr_graph_setting(g, step->name, "ordered");
    char usual[16];
    snprintf(usual, sizeof usual, "%d", MR__ORDERED_OF_RANKS);
    if (!ordered || !strcmp(ordered, "0")) ordered = usual;
    MR_TRY(set_slice(g, p, shard, ordered, whole, diag));
  }
  return MR_OK;
}
