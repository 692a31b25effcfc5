/* The state of a stream of batches, and where streams begin that do not begin at their start.

   A position, a number or a state is set on the stage that gives the stream; report_back translates
   it for every stage upstream to the one that makes batches of records. */
#include "pipeline/graph/stream_at.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/graph/graph_private.h"
#include "pipeline/stage_step.h"

/* ---- a state ---- */

void mr_stream_at_pass(mr_stream_at_t *at, const mr_spec_t *spec, const mr_buf_t *b) {
  at->position = b->position;
  at->number++;
  at->n_words = spec->n_words;
  if (at->n_words) memcpy(at->word, b->word, (size_t)at->n_words * sizeof *at->word);
}

int mr_stream_at_pack(const mr_stream_at_t *at, int64_t *to) {
  to[0] = at->position, to[1] = at->number;
  memcpy(to + 2, at->word, (size_t)at->n_words * sizeof *to);
  return 2 + at->n_words;
}

bool mr_stream_at_unpack(mr_stream_at_t *at, const int64_t *from, int64_t n) {
  if (n < 2 || n > MR_STREAM_AT_NUMBERS) return false;
  for (int64_t i = 0; i < n; i++)
    if (from[i] < 0) return false;
  at->position = from[0], at->number = from[1], at->n_words = (int32_t)(n - 2);
  memcpy(at->word, from + 2, (size_t)(n - 2) * sizeof *from);
  return true;
}

/* ---- where streams begin ---- */

enum { MR_OWN_WORDS_MAX = 8 }; /* most numbers of a stage's own state */

static mr_err_t find_resumed(mr_graph_t *g, const char *stage, int64_t number, const char *what,
                             int *at, mr_diag_t *diag) {
  *at = mr__graph_find(g, stage);
  if (*at < 0)
    return mr_fail(diag, MR_ERR_USAGE, "no stage of the graph is called \"%.60s\"", stage);
  if (number >= 0 && number < INT64_C(1) << 62) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG, "%s: start %s %lld: want [0,2^62)", stage, what,
                 (long long)number);
}

static mr_err_t keep_words(mr__node_t *node, const int64_t *word, int n, mr_diag_t *diag) {
  int64_t *kept = malloc(((size_t)n + 1) * sizeof *kept);
  if (!kept) return mr_no_memory(diag, "a graph");
  if (n) memcpy(kept, word, (size_t)n * sizeof *kept);
  free(node->start_word);
  node->start_word = kept, node->n_start_words = n;
  return MR_OK;
}

static bool makes_batches(const mr_stage_def_t *def) {
  return !def->in[0].name || def->in[0].flow == MR_FLOW_RECORDS;
}

/* Sets the start of one stage; MR_END: no stage before it needs a start.  A stage with numbers of
   its own takes them off the front of the state and hands the rest upstream; the last of its own is
   the number of the input buffer it resumes with. */
static mr_err_t set_start(mr_graph_t *g, int at, mr_stream_at_t *here, const int64_t **word,
                          mr_diag_t *diag) {
  mr__node_t *node = g->node[at];
  const mr_step_def_t *step = node->def->step;
  int own = step && here->n_words ? step->n_words : 0;
  node->start_position = here->position, node->start_number = here->number;
  MR_TRY(keep_words(node, *word, here->n_words, diag));
  if (!step || makes_batches(node->def)) return MR_END;
  if (own > here->n_words)
    return mr_fail(diag, MR_ERR_DATA, "%s: was left with a state of %d numbers, want %d or more",
                   node->name, here->n_words, own);
  if (own) here->number = (*word)[own - 1] < 0 ? 0 : (*word)[own - 1]; /* the stage refuses it */
  *word += own, here->n_words -= own;
  return MR_OK;
}

/* Goes upstream along the first inputs; a stage with several has slices of one stream at each. */
static mr_err_t report_back(mr_graph_t *g, int at, mr_stream_at_t *here, const int64_t *word,
                            int depth, mr_diag_t *diag) {
  for (const mr__edge_t *before; depth <= g->n_nodes; depth++, at = before->from) {
    mr_err_t e = set_start(g, at, here, &word, diag);
    before = mr__edge_into(g, at, 0);
    if (e != MR_OK || !before) return e < 0 ? e : MR_OK;
    for (int in = 1, n = mr__count_inputs(g, g->node[at]); in < n; in++) {
      const mr__edge_t *beside = mr__edge_into(g, at, in);
      mr_stream_at_t same = *here;
      if (beside) MR_TRY(report_back(g, beside->from, &same, word, depth + 1, diag));
    }
  }
  return MR_OK;
}

/* A walk keeps its state in a few numbers; a stream with fewer of them than were saved is another
   stream, in which they would mean something else. */
mr_err_t mr__resume_check(const mr_graph_t *g, mr_diag_t *diag) {
  for (int i = 0; i < g->n_nodes; i++) {
    const mr__node_t *node = g->node[i];
    if (!mr__is_step(node->def) || !makes_batches(node->def)) continue;
    int want = node->worker[0].out_spec[0].n_words;
    if (node->n_start_words > want)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "%s: the stream was left with a state of %d numbers, this one has %d; resume "
                     "with the graph that wrote the state",
                     node->name, node->n_start_words, want);
  }
  return MR_OK;
}

mr_err_t mr_graph_resume(mr_graph_t *g, const char *stage, const mr_stream_at_t *at,
                         mr_diag_t *diag) {
  mr_stream_at_t here = *at;
  int node;
  MR_TRY(find_resumed(g, stage, at->position, "position", &node, diag));
  MR_TRY(find_resumed(g, stage, at->number, "number", &node, diag));
  return report_back(g, node, &here, at->word, 0, diag);
}

/* The stage that makes batches, and the record it begins with, 0: its number decides. */
typedef struct begin {
  int node;
  int64_t record;
} begin_t;

/* Computes the state before buffer `number` of a stage; false: it does not follow from the
   number. */
static bool state_before(const mr_graph_t *g, int at, int64_t number, mr_stream_at_t *st,
                         begin_t *begin) {
  const mr__node_t *node = g->node[at];
  const mr__edge_t *before = mr__edge_into(g, at, 0);
  int64_t own[MR_OWN_WORDS_MAX], from = number;
  const mr_step_def_t *step = node->def->step;
  if (!step || !before || step->n_words > MR_OWN_WORDS_MAX) return false;
  int n = step->n_words;
  if (step->seek && (from = step->seek(node->worker, number, own, &begin->record)) < 0)
    return false;
  if (makes_batches(node->def)) {
    *st = (mr_stream_at_t){.position = from, .number = number};
    begin->node = at;
    return step->seek != NULL;
  }
  if (!state_before(g, before->from, from, st, begin) || st->n_words + n > MR_STREAM_WORDS_MAX)
    return false;
  memmove(st->word + n, st->word, (size_t)st->n_words * sizeof *st->word);
  memcpy(st->word, own, (size_t)n * sizeof *own);
  st->n_words += n, st->number = number;
  return true;
}

mr_err_t mr_graph_seek(mr_graph_t *g, const char *stage, int64_t number, bool *found,
                       mr_diag_t *diag) {
  mr_stream_at_t st;
  begin_t begin = {0};
  int node;
  MR_TRY(find_resumed(g, stage, number, "number", &node, diag));
  *found = state_before(g, node, number, &st, &begin);
  if (!*found) return MR_OK;
  MR_TRY(report_back(g, node, &st, st.word, 0, diag));
  g->node[begin.node]->start_record = begin.record;
  return MR_OK;
}

mr_err_t mr_graph_start_at(mr_graph_t *g, const char *stage, int64_t position, mr_diag_t *diag) {
  int node;
  MR_TRY(find_resumed(g, stage, position, "position", &node, diag));
  g->node[node]->start_position = position;
  return MR_OK;
}

mr_err_t mr_graph_start_words(mr_graph_t *g, const char *stage, int64_t position,
                              const int64_t *word, int n, mr_diag_t *diag) {
  int node;
  MR_TRY(mr_graph_start_at(g, stage, position, diag));
  if (n < 0 || n > MR_STREAM_WORDS_MAX)
    return mr_fail(diag, MR_ERR_DATA, "%s: a state of %d numbers, want at most %d", stage, n,
                   MR_STREAM_WORDS_MAX);
  MR_TRY(find_resumed(g, stage, 0, "", &node, diag));
  mr_stream_at_t at = {.position = position, .number = g->node[node]->start_number, .n_words = n};
  if (n) memcpy(at.word, word, (size_t)n * sizeof *word);
  return report_back(g, node, &at, at.word, 0, diag);
}

mr_err_t mr_graph_start_number(mr_graph_t *g, const char *stage, int64_t number, mr_diag_t *diag) {
  int node;
  MR_TRY(find_resumed(g, stage, number, "number", &node, diag));
  g->node[node]->start_number = number;
  return MR_OK;
}
