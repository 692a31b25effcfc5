/* Synthetic records in place of a data set: the sources of a graph that have classes become the
   source whose role is to make records up. */
#include "apps/run/synthetic.h"

#include <string.h>

#include "apps/cli/cli.h"

bool mr_is_synthetic(const char *data) {
  const mr_stage_def_t *synthetic = mr_registry_role(mr_all_stages(), MR_ROLE_SYNTHETIC);
  return data && synthetic && !strcmp(data, synthetic->name);
}

mr_err_t mr_graph_use_synthetic(mr_graph_t *g, const char *data, mr_diag_t *diag) {
  const mr_stage_t *s;
  if (!mr_is_synthetic(data)) return MR_OK;
  while ((s = mr_graph_stage_with(g, MR_ROLE_CLASSES, 0)))
    MR_TRY(mr_graph_swap(g, s->def->name, data, diag));
  return MR_OK;
}
