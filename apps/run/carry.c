/* Both graphs are settled without their sinks, and a position behind the batches is followed up to
   the sources in the old one: stages that pass every record keep it, a mix says where each of its
   inputs is, an epoch that has another length keeps its number and what has passed of it. */
#include "apps/run/carry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/run/resume.h"
#include "base/text.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_stage.h"

typedef struct carry {
  mr_graph_t *was, *now;
  const char *facts; /* of the data as they were */
  FILE *out;         /* the settings */
  const char *anew;  /* a stage whose order within its epoch cannot continue; NULL: none */
  bool no_memory;    /* what was written is not whole */
} carry_t;

static int64_t follow_position(carry_t *c, const char *name, int64_t position);

/* The records that an epoch of a stage of the old graph had: its files may have changed since. */
static int64_t records_before(const carry_t *c, const mr_stage_t *s) {
  char line[512], *at;
  const char *below = mr_graph_before(c->was, s->name, 0);
  int64_t n = s->out_spec[0].n_records, had;
  if (s->def->source) {
    if (!mr_data_facts_of(c->facts, s->name, line, sizeof line)) return n;
    at = strstr(line, " records=");
    return at && sscanf(at, " records=%" SCNd64, &had) == 1 && had > 0 ? had : n;
  }
  const mr_stage_t *b = below ? mr_graph_stage(c->was, below) : NULL;
  bool alone = !mr_graph_before(c->was, s->name, 1);
  return b && alone && b->out_spec[0].n_records == n ? records_before(c, b) : n;
}

/* The same place of the same epoch where epochs have another length. */
static int64_t place_in_epoch(int64_t position, int64_t had, int64_t has) {
  if (had <= 0 || has <= 0 || had == has) return position;
  int64_t epoch = position / had, i = position % had;
  return epoch * has + (i < has ? i : has);
}

/* But for those of how long the stream is. */
static bool same_settings(const carry_t *c, const mr_stage_t *s) {
  for (const mr_opt_t *o = s->def->opts; o && o->name; o++) {
    if (o->length || !strcmp(o->name, "epochs")) continue;
    const char *a = mr_graph_setting(c->was, s->name, o->name),
               *b = mr_graph_setting(c->now, s->name, o->name);
    if (strcmp(o->name, "resume") && strcmp(a ? a : "", b ? b : "")) return false;
  }
  return true;
}

static int port_with_input(const mr_stage_t *s, const char *input) {
  for (int p = 0; p < s->n_in; p++)
    if (s->in_from[p] && !strcmp(s->in_from[p], input)) return p;
  return -1;
}

/* A stage that says where its inputs are: each continues by itself. */
static int64_t follow_inputs(carry_t *c, const mr_stage_t *a, const mr_stage_t *b,
                             int64_t position) {
  int64_t *had = calloc((size_t)(a->n_in + b->n_in) + 1, sizeof *had), *has;
  const char *resumed = mr_graph_setting(c->was, a->name, "resume");
  bool changed = !same_settings(c, b) || (resumed && *resumed);
  int n = 0;
  if (!had) return c->no_memory = true, position;
  has = had + a->n_in;
  a->def->order->reached(a, position, had);
  for (; n < b->n_in && b->in_from[n]; n++) {
    int p = port_with_input(a, b->in_from[n]);
    has[n] = p >= 0 ? follow_position(c, b->in_from[n], had[p]) : 0;
    changed |= p != n || has[n] != had[p];
  }
  changed |= n < a->n_in && a->in_from[n];
  if (!changed) return free(had), position;
  bool once = b->out_spec[0].n_epochs == 1;
  int64_t to = once ? position
                    : place_in_epoch(position, a->out_spec[0].n_records, b->out_spec[0].n_records);
  fprintf(c->out, "%s.resume=%" PRId64, b->name, to);
  for (int i = 0; i < n; i++) fprintf(c->out, "%c%" PRId64, i ? ',' : ':', has[i]);
  fputc('\n', c->out);
  free(had);
  return to;
}

/* Whether a stage would continue otherwise than it was. */
static bool continues_otherwise(const carry_t *c, const char *name) {
  mr_text_out_t out;
  carry_t tried = *c;
  tried.anew = NULL, tried.out = mr_text_out_open(&out);
  bool moved = tried.out && follow_position(&tried, name, 0) != 0;
  char *text = mr_text_out_close(&out, tried.out, NULL);
  moved |= tried.anew || tried.no_memory || !text || *text;
  free(text);
  return moved;
}

/* Whether records that a source gains come behind those that it had, as the order sees them. */
static bool gains_at_the_end(const carry_t *c, const char *name) {
  const mr_stage_t *s = mr_graph_stage(c->now, name);
  while (s && s->def->map) {
    const char *before = mr_graph_before(c->now, s->name, 0);
    s = before ? mr_graph_stage(c->now, before) : NULL;
  }
  return s && s->def->source;
}

/* An order of the records of an epoch.  Those that were added come at the end of this one; another
   change draws the rest of it anew. */
static int64_t follow_order(carry_t *c, const mr_stage_t *a, const mr_stage_t *b,
                            int64_t position) {
  int64_t had = records_before(c, a), has = b->out_spec[0].n_records, cut, began;
  int64_t epoch = had > 0 ? position / had : 0;
  const char *before = mr_graph_before(c->now, b->name, 0), *shard, *was;
  bool same = same_settings(c, b);
  shard = mr_graph_setting(c->now, b->name, "shard"),
  was = mr_graph_setting(c->was, a->name, "resume");
  if (!was || sscanf(was, "%" SCNd64 ":%" SCNd64, &cut, &began) != 2 || cut != epoch)
    cut = -1, began = had;
  bool appends = same && had > 0 && has > had && before && gains_at_the_end(c, before) &&
                 (!shard || !*shard) && mr_stage_def_opt(b->def, "resume");
  if (appends || (cut >= 0 && same && had == has))
    fprintf(c->out, "%s.resume=%" PRId64 ":%" PRId64 "\n", b->name, epoch, began);
  else if (had != has || !same || (before && continues_otherwise(c, before)))
    c->anew = b->name;
  return place_in_epoch(position, had, has);
}

/* The position in the new graph's stage of this name behind what has passed in the old one's. */
static int64_t follow_position(carry_t *c, const char *name, int64_t position) {
  const mr_stage_t *a = mr_graph_stage(c->was, name), *b = mr_graph_stage(c->now, name);
  if (!a || !b || a->def != b->def) return position;
  if (a->out_spec[0].sequential || b->out_spec[0].sequential) return position;
  const char *before = mr_graph_before(c->now, name, 0);
  if (a->def->order && a->def->order->reached) return follow_inputs(c, a, b, position);
  if (a->def->map || a->def->filter)
    return before ? follow_position(c, before, position) : position;
  if (a->def->order) return follow_order(c, a, b, position);
  return place_in_epoch(position, records_before(c, a), b->out_spec[0].n_records);
}

/* ---- both graphs ---- */

static char *dumped_graph(const mr_graph_t *g) {
  mr_text_out_t text;
  FILE *f = mr_text_out_open(&text);
  if (f) mr_graph_dump(g, f);
  return mr_text_out_close(&text, f, NULL);
}

/* Lets the sources of the old graph read the same data where they are now. */
static mr_err_t point_to_moved_data(mr_graph_t *g, const mr_run_dir_t *r, const mr_graph_t *now,
                                    const char *facts, mr_diag_t *diag) {
  static const char *const place[] = {"path", "images", "labels", "names"};
  char had[512], has[512];
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i), *t = mr_graph_stage(now, s->name);
    if (!s->def->source || !t || t->def != s->def) continue;
    if (!mr_data_facts_of(r->data, s->name, had, sizeof had) ||
        !mr_data_facts_of(facts, s->name, has, sizeof has) || strcmp(had, has) != 0)
      continue;
    for (int k = 0; k < 4; k++) {
      const char *value = mr_graph_setting(now, s->name, place[k]);
      if (value && mr_stage_def_opt(s->def, place[k]))
        MR_TRY(mr_graph_set(g, s->name, place[k], value, diag));
    }
  }
  return MR_OK;
}

/* Settles what is before the training step; *dump: its text (heap).  now: NULL, or the new graph
   and its facts, if this is the old one, which continues by its own carry. */
static mr_err_t settle_stream(const mr_run_dir_t *r, const mr_graph_t *now, const char *facts,
                              mr_graph_t **g, char **dump, char *last, size_t n, mr_diag_t *diag) {
  *g = mr_graph_create(mr_all_stages());
  if (!*g) return mr_no_memory(diag, "a graph");
  MR_TRY(mr_run_dir_graph(r, *g, diag));
  const mr_stage_t *step = mr_train_stage(*g);
  const char *before = step ? mr_graph_before(*g, step->name, 0) : NULL;
  snprintf(last, n, "%s", before ? before : "");
  if (!before) return MR_OK;
  MR_TRY(mr_graph_only(*g, before, diag));
  if (!(*dump = dumped_graph(*g))) return mr_no_memory(diag, "a graph");
  if (now) MR_TRY(mr_run_dir_carry(r, *g, diag));
  if (now) MR_TRY(point_to_moved_data(*g, r, now, facts, diag));
  const char *sink; /* settling opens no file */
  MR_TRY(
      mr_graph_add_def(*g, mr_registry_role(mr_all_stages(), MR_ROLE_DISCARD), NULL, &sink, diag));
  MR_TRY(mr_graph_link(*g, before, NULL, sink, NULL, diag));
  return mr_graph_settle(*g, diag);
}

/* The stage that makes the batches of `last`; NULL if a stage between has a state of its own. */
static const mr_stage_t *batches_of(const mr_graph_t *g, const char *last) {
  for (const char *at = last; at && *at; at = mr_graph_before(g, at, 0)) {
    const mr_stage_t *s = mr_graph_stage(g, at);
    if (!s || !s->def->step) return NULL;
    if (s->def->role == MR_ROLE_BATCH) return s;
    if (s->def->step->n_words) return NULL;
  }
  return NULL;
}

/* A walk keeps positions of its sources' epochs, which nothing here can move. */
static void look_for_gains(carry_t *c) {
  for (int i = 0; i < mr_graph_n_stages(c->now); i++) {
    const mr_stage_t *b = mr_graph_stage_at(c->now, i), *a = mr_graph_stage(c->was, b->name);
    if (a && a->def == b->def && a->def->source && records_before(c, a) != b->out_spec[0].n_records)
      c->anew = b->name;
  }
}

/* Writes the settings of a stream that has changed, and moves *at.  False if it cannot continue. */
static bool carry_on(carry_t *c, const char *was_last, const char *now_last, mr_stream_at_t *at) {
  const mr_stage_t *a = batches_of(c->was, was_last), *b = batches_of(c->now, now_last);
  if (!a || !b || strcmp(a->name, b->name)) return false;
  int words = a->out_spec[0].n_words;
  if (words != b->out_spec[0].n_words || words != at->n_words) return false;
  const char *records = mr_graph_before(c->now, b->name, 0);
  if (!words && records) at->position = follow_position(c, records, at->position);
  if (words) look_for_gains(c);
  fprintf(c->out, "%s.resume=%" PRId64 ":%" PRId64, b->name, at->position, at->number);
  for (int i = 0; i < words; i++) fprintf(c->out, "%c%" PRId64, i ? ',' : ':', at->word[i]);
  fputc('\n', c->out);
  return true;
}

/* Compares the graphs of both and fills *text with the settings. */
static mr_err_t compare_streams(const mr_run_dir_t *was, const mr_run_dir_t *now,
                                mr_stream_at_t *at, char **text, mr_diag_t *diag) {
  carry_t c = {.facts = was->data};
  char *dump[2] = {NULL, NULL}, last[2][96];
  mr_text_out_t out;
  mr_diag_t why = {0};
  mr_err_t e = settle_stream(now, NULL, NULL, &c.now, &dump[1], last[1], sizeof last[1], diag);
  mr_err_t old = e;
  if (e >= 0)
    old = settle_stream(was, c.now, now->data, &c.was, &dump[0], last[0], sizeof last[0], &why);
  bool same = dump[0] && dump[1] && !strcmp(dump[0], dump[1]) &&
              !strcmp(was->data ? was->data : "", now->data ? now->data : "");
  if (e >= 0 && !same && old >= 0 && dump[0] && dump[1]) {
    c.out = mr_text_out_open(&out);
    bool went = c.out && carry_on(&c, last[0], last[1], at);
    char *written = mr_text_out_close(&out, c.out, NULL);
    if (!written || c.no_memory) e = mr_no_memory(diag, "settings");
    if (written && went) free(*text), *text = written, written = NULL;
    free(written);
    if (!went && e >= 0)
      mr_notice(
          "the training stream has changed, and the stages between its records and the step "
          "cannot continue in each source: it continues at its position");
    if (c.anew)
      mr_notice(
          "%s: after this change the rest of its epoch is another draw: some of the records "
          "may come twice in this epoch, and some not",
          c.anew);
  } else if (e >= 0 && !same && old < 0) {
    mr_notice(
        "the training stream as it was cannot be built again (%s): it continues at its "
        "position",
        why.text);
  }
  free(dump[0]), free(dump[1]);
  mr_graph_destroy(c.was), mr_graph_destroy(c.now);
  return e;
}

mr_err_t mr_carry_stream(mr_run_dir_t *r, const mr_history_t *h, mr_resume_point_t *at,
                         mr_diag_t *diag) {
  const mr_history_part_t *part = mr_history_at(h, at->at.step);
  free(r->carry), r->carry = NULL;
  if (!at->path[0] || !at->at.step || !part || !at->at.stream_known[0]) return MR_OK;
  mr_run_dir_t was = {.read = true};
  if (!(r->carry = strdup(part->carry))) return mr_no_memory(diag, "settings");
  mr_history_part_t now;
  mr_err_t made = mr_run_dir_part(r, 0, &now, diag);
  bool same = made >= 0 && !strcmp(now.graph, part->graph) &&
              !strcmp(now.settings, part->settings) &&
              !strcmp(now.data ? now.data : "", part->data);
  free(now.settings), free(now.plugins);
  if (made < 0 || same) return made;
  snprintf(was.path, sizeof was.path, "%s", r->path);
  snprintf(was.origin, sizeof was.origin, "%s", r->origin);
  mr_err_t e = mr_run_dir_become(&was, part, diag);
  if (e >= 0) e = compare_streams(&was, r, &at->at.stream[0], &r->carry, diag);
  mr_run_dir_free(&was);
  return e;
}
