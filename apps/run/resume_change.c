/* Builds the run's graph as it was and as it would be, compares them stage by stage and setting by
   setting, and sorts the differences by what they affect. */
#include "apps/run/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "base/shown.h"
#include "base/text.h"
#include "pipeline/graph/stream_settings.h"
#include "pipeline/stage_source.h"
#include "stages/train/train_stage.h"

/* What a change affects.  Those before FREE invalidate the ledger. */
typedef enum kind { DATA, SEED, BATCH, MODEL, FREE, UNSEEN } kind_t;
static const char *const kind_name[] = {"data", "seed", "batch", "model"};
enum { KINDS = sizeof kind_name / sizeof *kind_name };

typedef struct changes {
  mr_graph_t *was, *now;
  const mr_run_dir_t *r;
  bool refused[KINDS];
  bool allowed[KINDS];
  char text[700]; /* the refused ones, "batches.size 128 -> 64; ..." */
  mr_resume_news_t *news;
} changes_t;

static bool is_one_of(const char *name, const char *const *of) {
  for (; *of; of++)
    if (!strcmp(name, *of)) return true;
  return false;
}

/* ---- kinds ---- */

/* Whether a stage is upstream of input `port` of stage `step`. */
static bool is_before(const mr_graph_t *g, const char *step, int port, const char *name) {
  const char *at = mr_graph_before(g, step, port);
  if (!at) return false;
  if (!strcmp(at, name)) return true;
  for (int p = 0, n = mr_graph_n_inputs(g, at); p < n; p++)
    if (is_before(g, at, p, name)) return true;
  return false;
}

static bool trains_on(const mr_graph_t *g, const mr_stage_t *s) {
  const mr_stage_t *step = mr_train_stage(g);
  return step && is_before(g, step->name, 0, s->name);
}

/* Settings of a model about its training, not its structure. */
static const char *const training[] = {"label-smoothing", "loss", "focal-gamma", NULL};

static bool is_seed(const char *name) {
  size_t n = strlen(name);
  return n >= 4 && !strcmp(name + n - 4, "seed");
}

static kind_t resume_change_kind_of(const mr_graph_t *g, const mr_stage_t *s, const char *name) {
  const mr_stage_def_t *d = s->def;
  bool step = mr_is_train_stage(s), stream = !step && trains_on(g, s);
  if (step && mr_is_model_setting(s, name) && !is_one_of(name, training)) return MODEL;
  if (mr_setting_is_length(d, name)) return FREE;
  if ((step || stream) && is_seed(name)) return SEED;
  if (!stream) return mr_setting_is_means(name) ? UNSEEN : FREE;
  if (mr_setting_is_means(name)) return UNSEEN;
  if (d->out[0].device && (!strcmp(name, "device") || !strcmp(name, "mesh"))) return FREE;
  return d->in[0].flow == MR_FLOW_BATCHES || d->role == MR_ROLE_BATCH ? BATCH : DATA;
}

/* ---- reporting ---- */

static void resume_change_report(changes_t *c, kind_t kind, const char *what, const char *was,
                                 const char *now) {
  if (kind == UNSEEN) return;
  if (kind < FREE && !c->allowed[kind]) {
    size_t n = strlen(c->text);
    c->refused[kind] = true;
    snprintf(c->text + n, sizeof c->text - n, "%s%s %s -> %s", n ? "; " : "", what, was, now);
    return;
  }
  char *said = c->news->said;
  size_t n = strlen(said);
  snprintf(said + n, sizeof c->news->said - n, "changed: %s: %s -> %s\n", what, was, now);
}

/* ---- settings ---- */

/* Whether two texts of a setting give the same value. */
static bool same_value(const mr_stage_def_t *d, const mr_opt_t *o, const char *a, const char *b) {
  if (!a || !b) return a == b;
  if (!strcmp(a, b)) return true;
  if (o->type == MR_OPT_STR || o->type == MR_OPT_SECRET) return false;
  char *x = calloc(2, d->state_sz), *y = x + d->state_sz;
  bool same = x && mr_opt_set(o, x, d->name, a, NULL) >= 0 &&
              mr_opt_set(o, y, d->name, b, NULL) >= 0 && !memcmp(x, y, d->state_sz);
  free(x);
  return same;
}

static char *shown_value(const mr_opt_t *o, const char *value) {
  return value ? mr_shown(o, value) : strdup("none");
}

static void report_values(changes_t *c, kind_t kind, const char *what, const mr_opt_t *o,
                          const char *was, const char *now) {
  char *a = shown_value(o, was), *b = shown_value(o, now);
  bool alike = was && now && a && b && !strcmp(a, b) && strcmp(a, "(hidden)");
  resume_change_report(c, kind, what, a ? a : "(hidden)",
                       alike ? "the same with another user, password or query"
                       : b   ? b
                             : "(hidden)");
  free(a), free(b);
}

/* Compares the settings of a stage.  Returns whether a source reads its records as before, so that
   its facts can be compared. */
static bool compare_settings(changes_t *c, const mr_stage_t *s) {
  bool same = true;
  char name[160];
  for (const mr_opt_t *o = s->def->opts; o && o->name; o++) {
    const char *was = mr_graph_setting(c->was, s->name, o->name),
               *now = mr_graph_setting(c->now, s->name, o->name);
    if (mr_setting_is_place(s->def, o) || same_value(s->def, o, was, now)) continue;
    kind_t kind = resume_change_kind_of(c->now, s, o->name);
    same &= kind == FREE || kind == UNSEEN;
    snprintf(name, sizeof name, "%.64s.%.64s", s->name, o->name);
    report_values(c, kind, name, o, was, now);
  }
  return same;
}

/* ---- data ---- */

/* The first setting that names the data of a source; NULL without one. */
static const mr_opt_t *place_of(const mr_stage_t *s) {
  for (const mr_opt_t *o = s->def->opts; o && o->name; o++)
    if (mr_setting_is_place(s->def, o)) return o;
  return NULL;
}

static void report_moved(changes_t *c, const mr_stage_t *s, const mr_opt_t *place, const char *was,
                         const char *now) {
  char *a = shown_value(place, was), *b = shown_value(place, now), *said = c->news->said;
  size_t n = strlen(said);
  snprintf(said + n, sizeof c->news->said - n, "stage %s reads the same data from %s, was %s\n",
           s->name, b ? b : "(hidden)", a ? a : "(hidden)");
  free(a), free(b);
}

/* Objects are compared where they are still those of the same names: other servers give other
   ETags. Runs begun by earlier versions have no digest of them. */
static bool same_facts(char *was, char *now, bool in_place) {
  char *objects_was = strstr(was, MR_FACTS_OBJECTS), *objects_now = strstr(now, MR_FACTS_OBJECTS);
  if (in_place && objects_was && objects_now) return !strcmp(was, now);
  if (objects_was) *objects_was = 0;
  if (objects_now) *objects_now = 0;
  return !strcmp(was, now);
}

/* Compares the data of a source with its data when the run began.  For runs without data.txt only
   the place can be compared. */
static void compare_data(changes_t *c, const mr_stage_t *s, const char *facts) {
  char was[300], now[300], what[96];
  const mr_opt_t *place = place_of(s);
  const char *place_was = place ? mr_graph_setting(c->was, s->name, place->name) : NULL,
             *place_now = place ? mr_graph_setting(c->now, s->name, place->name) : NULL;
  bool moved = place_was && place_now && strcmp(place_was, place_now);
  kind_t kind = trains_on(c->now, s) ? DATA : FREE;
  snprintf(what, sizeof what, "data of stage %.64s", s->name);
  if (!mr_data_facts_of(facts, s->name, now, sizeof now)) return;
  if (!mr_data_facts_of(c->r->data, s->name, was, sizeof was)) {
    if (moved) report_values(c, kind, what, place, place_was, place_now);
  } else if (!same_facts(was, now, !moved)) {
    resume_change_report(c, kind, what, was, now);
  } else if (moved) {
    report_moved(c, s, place, place_was, place_now);
  }
}

static void compare_stage(changes_t *c, const mr_stage_t *s, const char *facts) {
  const mr_stage_t *was = mr_graph_stage(c->was, s->name);
  char name[96];
  if (!was) return; /* a sink that this resume adds */
  if (was->def == s->def) {
    if (compare_settings(c, s) && mr_says_where(s->def)) compare_data(c, s, facts);
    return;
  }
  snprintf(name, sizeof name, "stage %.64s", s->name);
  resume_change_report(c, trains_on(c->now, s) ? DATA : FREE, name, was->def->name, s->def->name);
}

/* Whether ranks share the batches of the step, or its layers, whose parts are then ordered without
 * a setting. */
static bool has_ranks_of_step(const mr_graph_t *g) {
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    if (mr_stage_def_opt(s->def, "mesh") && trains_on(g, s)) return true;
  }
  const mr_stage_t *step = mr_train_stage(g);
  const char *count = step ? mr_graph_setting(g, step->name, "pipeline") : NULL,
             *stages = step ? mr_graph_setting(g, step->name, "stages") : NULL;
  return (count && strtol(count, NULL, 10) > 1) || (stages && strchr(stages, '|'));
}

/* A mesh or pipeline that comes or goes is no change if ordered= is set: any number of ranks has
   the same bits.  Else it changes the order in which gradients are added. */
static void compare_ranks(changes_t *c) {
  const mr_stage_t *step = mr_train_stage(c->now);
  const char *ordered = step ? mr_graph_setting(c->now, step->name, "ordered") : NULL;
  bool was = has_ranks_of_step(c->was), now = has_ranks_of_step(c->now);
  if (was == now || (ordered && strcmp(ordered, "0"))) return;
  resume_change_report(c, BATCH, "mesh or pipeline (sets ordered=)", was ? "given" : "none",
                       now ? "given" : "none");
}

/* ---- allowed changes ---- */

static mr_err_t read_allowed(changes_t *c, const char *allow, mr_diag_t *diag) {
  for (const char *at = allow; at && *at;) {
    size_t n = strcspn(at, ","), i = 0;
    while (i < KINDS && (strlen(kind_name[i]) != n || strncmp(kind_name[i], at, n))) i++;
    if (i == KINDS)
      return mr_fail(diag, MR_ERR_USAGE,
                     "--allow-change: \"%.*s\": want one or more of data, seed, batch, model, "
                     "separated by commas",
                     (int)(n < 40 ? n : 40), at);
    c->allowed[i] = true;
    at += n + (at[n] == ',');
  }
  return MR_OK;
}

static mr_err_t judge_changes(const changes_t *c, mr_diag_t *diag) {
  char words[64] = "";
  for (int i = 0; i < KINDS; i++)
    if (c->refused[i] || (c->allowed[i] && c->text[0]))
      sprintf(words + strlen(words), "%s%s", words[0] ? "," : "", kind_name[i]);
  if (!c->text[0]) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "--resume: this would not be the same run any more: %s; --allow-change=%s resumes "
                 "it nevertheless",
                 c->text, words);
}

/* Builds a run's graph; the caller destroys *g, after a failure too. */
static mr_err_t graph_with(const mr_run_dir_t *r, mr_graph_t **g, mr_diag_t *diag) {
  *g = mr_graph_create(mr_all_stages());
  if (!*g) return mr_no_memory(diag, "the graph");
  return mr_run_dir_graph(r, *g, diag);
}

/* Says by how much the learning rate of the next step is another one than by the settings before:
   where a run is made longer, its schedule reaches its end later.  A graph that cannot be settled
   any more, since its data is gone, has no rate. */
static void compare_rates(changes_t *c, int64_t step) {
  const mr_stage_t *now = mr_train_stage(c->now);
  mr_diag_t unsaid = {0};
  char *said = c->news->said;
  size_t n = strlen(said);
  if (!n || step < 1 || !now || mr_graph_settle(c->was, &unsaid) < 0) return;
  const mr_stage_t *was = mr_train_stage(c->was);
  double before = was ? mr_train_stage_rate(was, step + 1) : 0,
         then = mr_train_stage_rate(now, step + 1);
  if (!was || before == then) return;
  mr_snprintf(said + n, sizeof c->news->said - n,
              "changed: learning rate of step %lld: %.4g -> %.4g; step %lld had %.4g\n",
              (long long)step + 1, before, then, (long long)step, mr_train_stage_rate(was, step));
}

mr_err_t mr_resume_check_changes(const mr_run_dir_t *was, const mr_run_dir_t *r, bool begun,
                                 int64_t step, const char *allow, mr_resume_news_t *news,
                                 mr_diag_t *diag) {
  changes_t c = {.r = r, .news = news};
  *news = (mr_resume_news_t){0};
  MR_TRY(read_allowed(&c, allow, diag));
  for (int i = 0; i < KINDS; i++) c.allowed[i] |= !begun;
  mr_err_t e = graph_with(was, &c.was, diag);
  if (e >= 0) e = graph_with(r, &c.now, diag);
  if (e >= 0) e = mr_graph_settle(c.now, diag);
  if (e >= 0 && !(news->facts = mr_data_facts(c.now))) e = mr_no_memory(diag, "facts of the data");
  for (int i = 0; e >= 0 && i < mr_graph_n_stages(c.now); i++)
    compare_stage(&c, mr_graph_stage_at(c.now, i), news->facts);
  if (e >= 0) compare_ranks(&c);
  if (e >= 0) e = judge_changes(&c, diag);
  if (e >= 0) compare_rates(&c, step);
  mr_graph_destroy(c.was), mr_graph_destroy(c.now);
  if (e < 0) free(news->facts), news->facts = NULL;
  return e;
}
