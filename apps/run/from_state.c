/* Reads the ledger's state files (JSON) and sets a graph to resume there.  Of several files, one
   for each host, the earliest counts: hosts stop at different steps, and only up to that one do all
   have everything. */
#include "apps/run/resume.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"

enum { FILE_MAX = 1 << 16, VERSION = 2 /* 1 had no "version" */ };

typedef struct state {
  mr_stream_at_t at;
  char ledger[17];
} state_t;

static bool from_state_whole(const cJSON *o, const char *name, int64_t *out) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
  if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble <= 9e15)) return false;
  *out = (int64_t)v->valuedouble;
  return true;
}

static bool from_state_parse_words(const cJSON *words, state_t *st) {
  int n = cJSON_GetArraySize(words);
  if (!cJSON_IsArray(words) || n > MR_STREAM_WORDS_MAX) return false;
  for (int i = 0; i < n; i++) {
    const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(words, i));
    char *end = NULL;
    errno = 0;
    st->at.word[i] = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || *end || errno) return false;
  }
  st->at.n_words = n;
  return true;
}

static bool parse_ledger(const cJSON *o, state_t *st) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "ledger"));
  if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
  memcpy(st->ledger, text, sizeof st->ledger);
  return true;
}

static mr_err_t from_state_check_version(const char *path, const cJSON *o, mr_diag_t *diag) {
  int64_t version;
  if (!cJSON_GetObjectItemCaseSensitive(o, "version")) return MR_OK;
  if (from_state_whole(o, "version", &version) && version >= 1 && version <= VERSION) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA,
                 "--from: %s: a state of another version, want at most %d; use a newer millrace",
                 path, VERSION);
}

static mr_err_t parse_state(const char *path, const cJSON *o, state_t *st, mr_diag_t *diag) {
  MR_TRY(from_state_check_version(path, o, diag));
  bool good = o && from_state_whole(o, "step", &st->at.number) &&
              from_state_whole(o, "position", &st->at.position) && parse_ledger(o, st) &&
              from_state_parse_words(cJSON_GetObjectItemCaseSensitive(o, "words"), st);
  return good ? MR_OK
              : mr_fail(diag, MR_ERR_DATA, "--from: %s: is not the state of a stream", path);
}

static mr_err_t read_state(const char *path, state_t *st, mr_diag_t *diag) {
  void *text;
  size_t n;
  MR_TRY(mr_read_file(path, FILE_MAX, &text, &n, diag));
  cJSON *o = cJSON_ParseWithLength(text, n);
  mr_err_t e = parse_state(path, o, st, diag);
  cJSON_Delete(o);
  free(text);
  return e;
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
