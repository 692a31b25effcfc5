/* Reads the ledger's state files (JSON) and sets a graph to resume there.  Of several files, one
   for each host, the earliest counts: hosts stop at different steps, and only up to that one do all
   have everything. */
#include "apps/run/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "pull/state.h"

enum { FILE_MAX = 1 << 16 };

typedef struct state {
  mr_stream_at_t at;
  char ledger[17];
} state_t;

static mr_err_t read_state(const char *path, state_t *st, mr_diag_t *diag) {
  void *text;
  size_t n;
  mr_stream_state_t read;
  mr_diag_t why = {0};
  MR_TRY(mr_read_file(path, FILE_MAX, &text, &n, diag));
  mr_err_t e = mr_stream_state_read(text, n, &read, &why);
  free(text);
  if (e >= 0 && read.by_number)
    e = mr_fail(&why, MR_ERR_DATA, "is a state behind a seek, which says no position");
  st->at = read.at;
  memcpy(st->ledger, read.ledger, sizeof st->ledger);
  mr_stream_state_free(&read);
  return e < 0 ? mr_diag_prefix(diag, e, &why, "--from: %s", path) : MR_OK;
}

/* Reads the earliest of several states: hosts stop at different steps, and all have the steps up to
   the earliest. */
static mr_err_t read_earliest_state(const char *files, state_t *st, mr_diag_t *diag) {
  char *copy = strdup(files), *save = NULL;
  bool any = false;
  mr_err_t e = copy ? MR_OK : mr_no_memory(diag, "the names of the state files");
  for (char *path = copy ? strtok_r(copy, ",", &save) : NULL; path && e >= 0;
       path = strtok_r(NULL, ",", &save)) {
    state_t next = {0};
    e = read_state(path, &next, diag);
    if (e >= 0 && (!any || next.at.number < st->at.number)) *st = next;
    any = true;
  }
  free(copy);
  return e >= 0 && !any ? mr_fail(diag, MR_ERR_USAGE, "--from: want the name of a file") : e;
}

/* The stage whose stream the state is of: the one before the ledger, else the last that makes
   batches. */
static mr_err_t find_stream(const mr_graph_t *g, const char *name, const char **stage,
                            mr_diag_t *diag) {
  const mr_stage_t *ledger =
      name ? mr_graph_stage(g, name) : mr_graph_stage_with(g, MR_ROLE_LEDGER, 0);
  *stage = ledger ? mr_graph_before(g, ledger->name, 0) : NULL;
  if (!ledger) mr_graph_batches(g, stage);
  return *stage ? MR_OK : mr_fail(diag, MR_ERR_USAGE, "--from: the graph makes no batches");
}

mr_err_t mr_from_state(mr_graph_t *g, const char *files, const char *ledger, mr_diag_t *diag) {
  state_t st = {0};
  char step[32];
  const char *stage;
  MR_TRY(find_stream(g, ledger, &stage, diag));
  MR_TRY(read_earliest_state(files, &st, diag));
  snprintf(step, sizeof step, "%" PRId64, st.at.number);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (s->def->role != MR_ROLE_LEDGER || (ledger && strcmp(s->name, ledger))) continue;
    MR_TRY(mr_graph_set(g, s->name, "resume-step", step, diag));
    MR_TRY(mr_graph_set(g, s->name, "resume-ledger", st.ledger, diag));
  }
  return mr_graph_resume(g, stage, &st.at, diag);
}
