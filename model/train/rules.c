/* Rules by name: which parameters a step leaves as they are, updates without weight decay, or with
   a smaller learning rate. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"
#include "model/train/step.h"

bool mr__train_means(const char *pattern, const mr_param_t *p) {
  char name[256];
  for (size_t n = 0; n < sizeof name; n++) {
    char c = p->name[n];
    name[n] = 0;
    if ((!c || c == '.') && fnmatch(pattern, name, 0) == 0) return true;
    if (!c) return false;
    name[n] = c;
  }
  return false;
}

/* A bias or a scale: timm's param_groups_weight_decay. */
static bool is_vector(const mr_param_t *p) {
  size_t n = strlen(p->name);
  return p->aval.ndim <= 1 || (n > 5 && !strcmp(p->name + n - 5, ".bias"));
}

/* The beginning of a name with as many parts as a pattern has. */
static void beginning_like(const char *name, const char *pattern, char text[128]) {
  int dots = 0;
  size_t n = 0;
  for (const char *p = pattern; *p; p++) dots += *p == '.';
  for (; name[n] && n < 127 && !(name[n] == '.' && dots-- == 0); n++) text[n] = name[n];
  text[n] = 0;
}

mr_err_t mr__train_refuse_pattern(const mr_params_t *list, const char *setting, const char *pattern,
                                  mr_diag_t *diag) {
  enum { SHOWN = 3 };
  char near[SHOWN + 1][128], text[SHOWN * 130] = "";
  size_t distance[SHOWN + 1], length = 0;
  int n = 0;
  for (int i = 0; i < list->n; i++) {
    char one[128];
    int at = n;
    bool twice = false;
    beginning_like(list->param[i].name, pattern, one);
    for (int k = 0; k < n; k++) twice |= !strcmp(near[k], one);
    size_t d = mr_edit_distance(pattern, one);
    for (; !twice && at > 0 && distance[at - 1] > d; at--)
      strcpy(near[at], near[at - 1]), distance[at] = distance[at - 1];
    if (twice || at == SHOWN) continue;
    strcpy(near[at], one), distance[at] = d;
    n += n < SHOWN;
  }
  for (int i = 0; i < n; i++)
    length +=
        (size_t)mr_snprintf(text + length, sizeof text - length, "%s%s", i ? ", " : "", near[i]);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%s: \"%.100s\" is no parameter; nearest are %s; `millrace summary` lists all",
                 setting, pattern, text);
}

/* Calls mark for each parameter that a list of patterns means. */
static mr_err_t mark_meant(const mr_params_t *list, const char *setting, const char *patterns,
                           mr_optim_each_t *each, void (*mark)(mr_optim_each_t *e),
                           mr_diag_t *diag) {
  char *text = strdup(patterns), *rest = NULL;
  if (!text) return mr_no_memory(diag, "a step");
  mr_err_t e = MR_OK;
  for (char *p = strtok_r(text, ", ", &rest); p && e >= 0; p = strtok_r(NULL, ", ", &rest)) {
    bool vectors = !strcmp(p, "vectors"), some = vectors;
    for (int i = 0; i < list->n; i++) {
      if (vectors ? !is_vector(&list->param[i]) : !mr__train_means(p, &list->param[i])) continue;
      mark(&each[i]);
      some = true;
    }
    if (!some) e = mr__train_refuse_pattern(list, setting, p, diag);
  }
  free(text);
  return e;
}

static void mark_frozen(mr_optim_each_t *e) { e->frozen = true; }
static void mark_no_decay(mr_optim_each_t *e) { e->decays = false; }

/* The first number among the parts of a name, -1: none. */
static int layer_number(const char *name) {
  for (const char *at = name; at; at = strchr(at, '.')) {
    at += *at == '.';
    size_t n = strspn(at, "0123456789");
    if (n && n < 9 && (!at[n] || at[n] == '.')) return atoi(at);
  }
  return -1;
}

static mr_err_t rate_layers(const mr_params_t *list, double decay, mr_optim_each_t *each,
                            mr_diag_t *diag) {
  int last = -1;
  bool met = false;
  for (int i = 0; i < list->n; i++) {
    int k = layer_number(list->param[i].name);
    last = k > last ? k : last;
  }
  if (last < 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "layer-decay: %g: no parameter has a number in its name that says its layer; "
                   "want 1",
                   decay);
  for (int i = 0; i < list->n; i++) {
    int k = layer_number(list->param[i].name);
    met |= k >= 0;
    int layer = k >= 0 ? k + 1 : met ? last + 2 : 0;
    each[i].rate = (float)pow(decay, last + 2 - layer);
  }
  return MR_OK;
}

mr_err_t mr_train_each(const mr_params_t *list, const mr_train_rules_t *r, const char *usual,
                       mr_optim_each_t **out, mr_diag_t *diag) {
  const char *no_decay = r->no_decay ? r->no_decay : usual;
  bool layers = r->layer_decay > 0 && r->layer_decay != 1, trained = false;
  *out = NULL;
  if (no_decay && !strcmp(no_decay, "none")) no_decay = NULL;
  if (!no_decay && !r->freeze && !layers) return MR_OK;
  mr_optim_each_t *each = malloc((size_t)(list->n + 1) * sizeof *each);
  if (!each) return mr_no_memory(diag, "a step");
  for (int i = 0; i < list->n; i++) each[i] = (mr_optim_each_t){.rate = 1, .decays = true};
  mr_err_t e = MR_OK;
  if (no_decay) e = mark_meant(list, "no-decay", no_decay, each, mark_no_decay, diag);
  if (e >= 0 && r->freeze) e = mark_meant(list, "freeze", r->freeze, each, mark_frozen, diag);
  if (e >= 0 && layers) e = rate_layers(list, r->layer_decay, each, diag);
  for (int i = 0; i < list->n; i++) trained |= !each[i].frozen;
  if (e >= 0 && !trained)
    e = mr_fail(diag, MR_ERR_CONFIG,
                "freeze: \"%.100s\" is all %d parameters, want at least one that is trained",
                r->freeze, list->n);
  if (e < 0) return free(each), e;
  *out = each;
  return MR_OK;
}
