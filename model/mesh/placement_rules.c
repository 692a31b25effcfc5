/* Rules by name, the first one that fits.  A pattern that no parameter has is a mistake, as the
   parameter it means would silently lie whole on each rank. */
#include "model/mesh/placement_rules.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

/* On a mismatch the last star takes one character more, so that the time is at most the product of
   both lengths. */
static bool name_has_pattern(const char *name, const char *pattern) {
  const char *star = NULL, *from = NULL;
  while (*name) {
    if (*pattern == '*') {
      star = ++pattern, from = name;
    } else if (*pattern && (*pattern == '?' || *pattern == *name)) {
      pattern++, name++;
    } else {
      if (!star) return false;
      pattern = star, name = ++from;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}

/* The comma that ends a rule, or the end; NULL if a bracket is not closed, or was not open. */
static char *end_of_rule(char *at) {
  int depth = 0;
  for (; *at && (depth || *at != ','); at++) {
    if (*at == '(' || *at == '[') depth++;
    if ((*at == ')' || *at == ']') && --depth < 0) return NULL;
  }
  return depth ? NULL : at;
}

static char *trim_blanks(char *from, char *end) {
  while (from < end && strchr(" \t\n", *from)) from++;
  while (end > from && strchr(" \t\n", end[-1])) end--;
  *end = 0;
  return from;
}

mr_err_t mr_placement_rules_parse(const char *text, mr_placement_rules_t *r, mr_diag_t *diag) {
  r->n = 0;
  r->text = NULL;
  if (!text || !*text) return MR_OK;
  if (!(r->text = strdup(text))) return mr_no_memory(diag, "the rules of a partition");
  for (char *at = r->text, *end; at; at = end) {
    char *equals = strchr(at, '=');
    if (!(end = end_of_rule(at)))
      return mr_fail(diag, MR_ERR_CONFIG, "partition: \"%.120s\": expected brackets that close",
                     at);
    bool last = !*end;
    *end = 0;
    char *rule = trim_blanks(at, end);
    if (!equals || equals >= end)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "partition: \"%.120s\": expected PATTERN=PLACEMENT, as in "
                     "*.linear1.kernel=(None,model)",
                     rule);
    if (r->n == MR_PLACEMENT_RULES)
      return mr_fail(diag, MR_ERR_CONFIG, "partition: expected at most %d rules",
                     MR_PLACEMENT_RULES);
    struct mr_placement_rule *to = &r->rule[r->n];
    to->placement = trim_blanks(equals + 1, end);
    to->pattern = trim_blanks(at, equals);
    if (!*to->pattern || !*to->placement)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "partition: \"%.60s=%.60s\": expected PATTERN=PLACEMENT, none of them empty",
                     to->pattern, to->placement);
    r->n++;
    end = last ? NULL : end + 1;
  }
  return MR_OK;
}

void mr_placement_rules_fini(mr_placement_rules_t *r) {
  free(r->text);
  r->text = NULL, r->n = 0;
}

/* The last parts of a name, as many as the pattern has behind its stars: of "a.b.kernel" for
   "*.bb.kernel" it is "b.kernel". */
static const char *tail_of_name(const char *name, const char *pattern) {
  int dots = 0;
  const char *at = name + strlen(name);
  for (const char *c = pattern; *c; c++) dots += *c == '.';
  while (at > name && (at[-1] != '.' || dots-- > 0)) at--;
  return at;
}

mr_err_t mr_placement_rules_check(const mr_placement_rules_t *r, const char *const *name, int n,
                                  mr_diag_t *diag) {
  for (int i = 0; i < r->n; i++) {
    const char *pattern = r->rule[i].pattern, *own = pattern;
    char near[160];
    int k = 0;
    while (k < n && !name_has_pattern(name[k], pattern)) k++;
    if (k < n) continue;
    while (*own == '*' || *own == '.') own++;
    mr_suggest_t s = {.word = own};
    for (k = 0; k < n; k++) mr_suggest_offer(&s, tail_of_name(name[k], own));
    for (k = 0; k < n; k++) mr_suggest_offer(&s, name[k]);
    if (s.best)
      snprintf(near, sizeof near, "; did you mean \"%s%.80s\"?", own == pattern ? "" : "*.",
               s.best);
    else
      snprintf(near, sizeof near, ", such as %.120s", n ? name[0] : "none: the model has none");
    return mr_fail(diag, MR_ERR_CONFIG,
                   "partition: \"%.120s\": no parameter has this name, expected one of %d%s",
                   pattern, n, near);
  }
  return MR_OK;
}

mr_err_t mr_placement_rules_place(const mr_placement_rules_t *r, const mr_mesh_t *m,
                                  const char *name, int ndim, const int64_t *dim, mr_placement_t *p,
                                  mr_diag_t *diag) {
  *p = (mr_placement_t){.partial = 0};
  for (int i = 0; i < r->n; i++) {
    char setting[160];
    if (!name_has_pattern(name, r->rule[i].pattern)) continue;
    snprintf(setting, sizeof setting, "partition: %.120s", name);
    MR_TRY(mr_placement_parse(setting, r->rule[i].placement, m, ndim, p, diag));
    return mr_placement_fits(setting, p, m, ndim, dim, diag);
  }
  return MR_OK;
}
