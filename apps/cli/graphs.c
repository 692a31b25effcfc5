/* The program's stages and its plug-ins.  The registry lives as long as the process: the
   definitions that a plug-in adds are used until the end, and no plug-in is ever unloaded. */
#include <stdio.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "base/xio.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "plugins/plugin.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

static mr_registry_t *stage_registry(void) {
  static mr_registry_t reg;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_links_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  return &reg;
}

const mr_registry_t *mr_all_stages(void) { return stage_registry(); }

mr_err_t mr_load_plugin(const char *file, mr_diag_t *diag) {
  return mr_plugin_load(file, stage_registry(), diag);
}

mr_err_t mr_plugin_of_text(void *ctx, const char *origin, const char *file, mr_diag_t *diag) {
  char path[MR_PATH_MAX];
  const char *slash = origin && *file != '/' ? strrchr(origin, '/') : NULL;
  int folder = slash ? (int)(slash - origin) + 1 : 0;
  if (snprintf(path, sizeof path, "%.*s%s", folder, origin ? origin : "", file) >= MR_PATH_MAX)
    return mr_fail(diag, MR_ERR_USAGE, "plugin %.200s...: the path is too long", file);
  return mr_load_plugin(path, diag);
}
