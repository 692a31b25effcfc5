/* The table of models, from list.def and from plug-ins, with the checks of both, and the text
   that identifies a model in a checkpoint. */
#include "model/zoo/zoo.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define MR_MODEL(name) extern const mr_model_def_t mr_model_##name;
#include "model/zoo/list.def"
#undef MR_MODEL

static const mr_model_def_t *const own[] = {
#define MR_MODEL(name) &mr_model_##name,
#include "model/zoo/list.def"
#undef MR_MODEL
};
enum { OWN = sizeof own / sizeof *own };

static struct {
  const mr_model_def_t *def;
  const char *origin;
} added[MR_MODELS_ADDED_MAX];
static int n_added;

const mr_model_def_t *mr_model_at(int i) {
  if (i < 0 || i >= OWN + n_added) return NULL;
  return i < OWN ? own[i] : added[i - OWN].def;
}

static int zoo_index_of(const char *name) {
  const mr_model_def_t *def;
  for (int i = 0; (def = mr_model_at(i)); i++)
    if (!strcmp(def->name, name)) return i;
  return -1;
}

const mr_model_def_t *mr_model_find(const char *name) { return mr_model_at(zoo_index_of(name)); }

static mr_err_t zoo_check_settings(const mr_model_def_t *def, mr_diag_t *diag) {
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++) {
    const char *name = o->name ? o->name : "?";
    if (!o->name || !*o->name || !o->help)
      return mr_fail(diag, MR_ERR_CONFIG, "model \"%s\": setting %d has no %s", def->name,
                     (int)(o - def->opts), o->name && *o->name ? "help" : "name");
    if (!mr_opt_fits(o, def->state_sz))
      return mr_fail(diag, MR_ERR_CONFIG,
                     "model \"%s\": setting \"%s\" lies outside the state of %zu bytes", def->name,
                     name, def->state_sz);
  }
  return MR_OK;
}

static mr_err_t zoo_check_one(const mr_model_def_t *const *table, int i, mr_diag_t *diag) {
  static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const mr_model_def_t *def = table[i];
  if (!def->name || !*def->name || strspn(def->name, chars) != strlen(def->name))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "model %d: its name is \"%.60s\", expected letters, digits, - and _", i,
                   def->name ? def->name : "");
  if (!def->help || !def->plan || !def->loss || !def->metrics)
    return mr_fail(diag, MR_ERR_CONFIG, "model \"%.60s\": it has no %s", def->name,
                   !def->help   ? "help"
                   : !def->plan ? "plan"
                   : !def->loss ? "loss"
                                : "metrics");
  int at = zoo_index_of(def->name);
  if (at >= 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "model \"%s\": %s has a model of that name; rename one of them", def->name,
                   at < OWN ? "the program" : added[at - OWN].origin);
  for (int k = 0; k < i; k++)
    if (!strcmp(table[k]->name, def->name))
      return mr_fail(diag, MR_ERR_CONFIG, "model \"%s\": it is listed twice", def->name);
  if (n_added + i == MR_MODELS_ADDED_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "model \"%s\": no room for more than %d models", def->name,
                   MR_MODELS_ADDED_MAX);
  return zoo_check_settings(def, diag);
}

mr_err_t mr_models_check(const mr_model_def_t *const *table, const char *origin, mr_diag_t *diag) {
  for (int i = 0; table[i]; i++) {
    mr_diag_t why = {0};
    mr_err_t e = zoo_check_one(table, i, &why);
    if (e < 0) return mr_diag_prefix(diag, e, &why, "%s", origin);
  }
  return MR_OK;
}

void mr_models_add(const mr_model_def_t *const *table, const char *origin) {
  for (; *table; table++, n_added++) {
    assert(n_added < MR_MODELS_ADDED_MAX && !mr_model_find((*table)->name));
    added[n_added].def = *table, added[n_added].origin = origin;
  }
}

/* ---- for plan ---- */

const mr_model_field_t *mr_model_may_take(mr_model_plan_t *p, const char *name) {
  for (int i = 0; i < p->n_fields; i++) {
    if (strcmp(p->field[i].name, name)) continue;
    assert(p->loss.n_fields < MR_LOSS_FIELDS);
    p->loss.field[p->loss.n_fields++] = p->field[i];
    return &p->field[i];
  }
  return NULL;
}

const mr_model_field_t *mr_model_take(mr_model_plan_t *p, const char *name, mr_diag_t *diag) {
  const mr_model_field_t *f = mr_model_may_take(p, name);
  char list[256] = "";
  if (f) return f;
  for (int i = 0; i < p->n_fields; i++) {
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", p->field[i].name);
  }
  mr_fail(diag, MR_ERR_SHAPE, "want a field %s; these batches have %s", name,
          *list ? list : "none");
  return NULL;
}

/* Checks the metric where it is declared; mr_model_plan reports the fault. */
void mr_model_judged_by(mr_model_plan_t *p, const mr_metric_def_t *metric) {
  mr_loss_t *l = &p->loss;
  if (p->wrong.code < 0 || mr_metric_check(NULL, metric->name, MR_METRIC_JUDGED, &p->wrong) < 0)
    return;
  if (metric->role != MR_METRIC_JUDGED) {
    mr_fail(&p->wrong, MR_ERR_CONFIG, "its metric \"%.80s\" has another role than MR_METRIC_JUDGED",
            metric->name);
    return;
  }
  for (int i = 0; i < l->n_metrics; i++)
    if (!strcmp(l->metric[i]->name, metric->name)) {
      mr_fail(&p->wrong, MR_ERR_CONFIG, "it reports the metric \"%.80s\" twice", metric->name);
      return;
    }
  if (l->n_metrics == MR_LOSS_METRICS)
    mr_fail(&p->wrong, MR_ERR_CONFIG, "it reports more than %d metrics", MR_LOSS_METRICS);
  else
    l->metric[l->n_metrics++] = metric;
}

void mr_model_reports(mr_model_plan_t *p, const char *metric) {
  if (p->wrong.code < 0 || mr_metric_check(NULL, metric, MR_METRIC_JUDGED, &p->wrong) < 0) return;
  const mr_metric_def_t *def = mr_metric_judged(metric);
  if (def)
    mr_model_judged_by(p, def);
  else
    mr_no_memory(&p->wrong, "a metric");
}

/* ---- models ---- */

mr_err_t mr_model_plan(mr_model_t *m, const mr_model_def_t *def, void *state, int n,
                       const mr_model_field_t *field, mr_diag_t *diag) {
  *m = (mr_model_t){.def = def, .state = state, .plan = {.n_fields = n, .field = field}};
  mr_err_t e = def->plan(state, &m->plan, diag);
  m->plan.n_fields = 0, m->plan.field = NULL; /* the caller's */
  m->plan.loss.of = state, m->plan.loss.trace = def->loss, m->plan.loss.metrics = def->metrics;
  if (e < 0) return e;
  if (!m->plan.loss.n_fields)
    return mr_fail(diag, MR_ERR_CONFIG, "model %s: its plan takes no field", def->name);
  const mr_diag_t *wrong = &m->plan.wrong;
  return mr_diag_prefix(diag, wrong->code, wrong, "model %s", def->name);
}

/* Writes word i of choices, "flax|timm", to text. */
static void choice_text(const char *choices, int i, char *text, size_t n) {
  for (; i > 0 && choices; i--) choices = strchr(choices, '|'), choices += choices != NULL;
  snprintf(text, n, "%.*s", choices ? (int)strcspn(choices, "|") : 0, choices ? choices : "");
}

/* Writes the value of a setting as a user would give it. */
static void opt_text(const mr_opt_t *o, const void *state, char *text, size_t n) {
  const char *at = (const char *)state + o->offset;
  int count = o->type == MR_OPT_VEC     ? ((const mr_vec_t *)at)->n
              : o->type == MR_OPT_VEC3  ? 3
              : o->type == MR_OPT_RANGE ? 2
                                        : 1;
  const double *v = o->type == MR_OPT_VEC ? ((const mr_vec_t *)at)->v : (const double *)at;
  const char *word = o->type == MR_OPT_STR ? *(const char *const *)at : NULL;
  text[0] = 0;
  switch (o->type) {
    case MR_OPT_INT: snprintf(text, n, "%lld", (long long)*(const int64_t *)at); break;
    case MR_OPT_BOOL: snprintf(text, n, "%s", *(const bool *)at ? "true" : "false"); break;
    case MR_OPT_ENUM: choice_text(o->choices, *(const int *)at, text, n); break;
    case MR_OPT_STR: snprintf(text, n, "%s", word ? word : ""); break;
    case MR_OPT_F64:
    case MR_OPT_RANGE:
    case MR_OPT_VEC3:
    case MR_OPT_VEC:
      for (int i = 0; i < count; i++) {
        size_t len = strlen(text);
        mr_snprintf(text + len, n - len, "%s%.17g",
                    !i                        ? ""
                    : o->type == MR_OPT_RANGE ? ":"
                                              : ",",
                    v[i]);
      }
      break;
    case MR_OPT_SECRET:
    case MR_OPT_END: break;
  }
}

/* Where words, separated by blanks, have word, alone or before a "?"; NULL: nowhere. */
static const char *find_word(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *s = words; s && *s; s += strcspn(s, " "), s += strspn(s, " "))
    if (strcspn(s, " ?") == n && !strncmp(s, word, n)) return s;
  return NULL;
}

void mr_model_text(const mr_model_t *m, char *text) {
  const mr_loss_t *l = &m->plan.loss;
  char aval[MR_AVAL_TEXT], value[128];
  if (m->def->text) {
    m->def->text(m->state, &m->plan, text, MR_MODEL_TEXT);
    return;
  }
  snprintf(text, MR_MODEL_TEXT, "%s", m->def->name);
  for (int i = 0; i < l->n_fields; i++) {
    size_t n = strlen(text);
    snprintf(text + n, MR_MODEL_TEXT - n, " %s=%s", l->field[i].name,
             mr_aval_text(&l->field[i].aval, aval));
  }
  size_t n = strlen(text);
  if (l->classes) snprintf(text + n, MR_MODEL_TEXT - n, " classes=%lld", (long long)l->classes);
  for (const mr_opt_t *o = m->def->opts; o && o->type != MR_OPT_END; o++) {
    const char *word = find_word(m->def->shapes, o->name);
    if (!word) continue;
    opt_text(o, m->state, value, sizeof value);
    if (word[strlen(o->name)] == '?' && o->def && !strcmp(value, o->def)) continue;
    n = strlen(text);
    snprintf(text + n, MR_MODEL_TEXT - n, " %s=%s", o->name, value);
  }
}
