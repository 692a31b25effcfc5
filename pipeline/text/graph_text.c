/* Where the text of a graph comes from: a word of a command line, or an argument of a call, names a
   file or is the text itself. */
#include "pipeline/text/graph_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xio.h"

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
