/* The program's stages, its plug-ins, and the text of a graph argument.  The registry lives as long
   as the process: the definitions that a plug-in adds are used until the end, and no plug-in is
   ever unloaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Whether a word means a file: it has a '/' or ends in .mr, and has nothing that only a graph
   has. */
static bool looks_like_file(const char *arg) {
  size_t n = strlen(arg);
  return !strpbrk(arg, " !\n") && (strchr(arg, '/') || (n > 3 && !strcmp(arg + n - 3, ".mr")));
}

mr_err_t mr_graph_text(const char *arg, char **text, const char **origin, mr_diag_t *diag) {
  struct stat st;
  *text = NULL;
  *origin = "graph";
  bool there = stat(arg, &st) == 0;
  if (there && S_ISDIR(st.st_mode))
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s: it is a folder that holds no run, want a graph, its file or a run", arg);
  if (looks_like_file(arg) || (there && S_ISREG(st.st_mode))) {
    void *bytes;
    size_t n;
    MR_TRY(mr_read_file(arg, MR_GRAPH_BYTES_MAX, &bytes, &n, diag));
    *origin = arg;
    *text = bytes;
    if (!memchr(bytes, 0, n)) return MR_OK;
    free(bytes);
    *text = NULL;
    return mr_fail(diag, MR_ERR_DATA, "%s: not a text file", arg);
  }
  *text = strdup(arg);
  return *text ? MR_OK : mr_no_memory(diag, "the text of a graph");
}
