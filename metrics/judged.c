/* Numbers that judge a model: their names, their text, and which of two is better.

   The text is parsed as a file has it, so that a checkpoint of any origin can be asked; what
   is malformed counts as missing. */
#include "metrics/judged.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/text.h"

/* Writes "; it has loss, accuracy" for a sentence. */
static void judged_list(const mr_metric_list_t *list, const char *word, char *text, size_t n) {
  mr_suggest_t near = {.word = word};
  size_t at = 0;
  for (size_t i = 0; i < list->n && at < n; i++) {
    if (list->def[i]->role != MR_METRIC_JUDGED) continue;
    mr_suggest_offer(&near, list->def[i]->name);
    at += (size_t)snprintf(text + at, n - at, "%s %s", at ? "," : "", list->def[i]->name);
  }
  if (at < n) mr_suggest_text(&near, text + at, n - at);
}

static const mr_metric_def_t *judged_def(const mr_metric_list_t *list, const char *name) {
  for (size_t i = 0; i < list->n; i++)
    if (list->def[i]->role == MR_METRIC_JUDGED && !strcmp(list->def[i]->name, name))
      return list->def[i];
  return NULL;
}

mr_err_t mr_judged_by(mr_stage_t *s, const char *setting, const char *text,
                      const mr_metric_list_t *list, mr_judged_t *out) {
  const char *slash = strrchr(text, '/'), *metric = slash ? slash + 1 : text;
  char known[512];
  int n = snprintf(out->name, sizeof out->name, "%s%s", slash ? "" : "valid/", text);
  bool good = *metric && n < (int)sizeof out->name && !strpbrk(text, " =");
  const mr_metric_def_t *def = list ? judged_def(list, metric) : NULL;
  if (def) out->more_is_better = def->more_is_better;
  if (!list) out->more_is_better = !strcmp(metric, MR_METRIC_OWN(ACCURACY)->name);
  if (good && (def || !list)) return MR_OK;
  if (!list || !good)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting %s = %.100s: want a metric, loss, or an input and a metric, "
                         "valid/loss",
                         setting, text);
  judged_list(list, metric, known, sizeof known);
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting %s = %.100s: the model is judged by%s; want one of these, or an "
                       "input and one of them, valid/loss",
                       setting, text, known);
}

void mr_judged_add(const char *input, const mr_metric_def_t *def, double value, char *text) {
  size_t at = strlen(text);
  char one[MR_IN_NAME_MAX + MR_METRIC_NAME_MAX + 64];
  int n = mr_snprintf(one, sizeof one, "%s%s/%s=%.17g", at ? " " : "", input, def->name, value);
  if (at + (size_t)n < MR_JUDGED_TEXT) memcpy(text + at, one, (size_t)n + 1);
}

bool mr_judged_find(const mr_judged_t *j, const char *text, double *value) {
  size_t n = strlen(j->name);
  for (const char *at = text; at; at = strchr(at, ' ')) {
    char *end;
    at += strspn(at, " ");
    if (strncmp(at, j->name, n) || at[n] != '=') continue;
    *value = mr_strtod(at + n + 1, &end);
    return end != at + n + 1 && (!*end || *end == ' ') && isfinite(*value);
  }
  return false;
}

bool mr_judged_better(const mr_judged_t *j, double a, double b, double delta) {
  return j->more_is_better ? a > b + delta : a < b - delta;
}
