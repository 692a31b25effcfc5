/* Stages by name: each name, or range of a list, is a prefix of parameters' names up to a dot.
   Every parameter is in one stage, without a name in that of those around it, and stages are in the
   order in which the model reads them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "model/train/pipeline_plan.h"

typedef struct naming {
  const mr_params_t *of;
  int *stage; /* [of->n] of each parameter; -1: none yet */
  int now;    /* the stage that is read */
  mr_diag_t *diag;
} naming_t;

static bool is_within(const char *name, const char *prefix, size_t n) {
  return !strncmp(name, prefix, n) && (!name[n] || name[n] == '.');
}

static bool any_within(const naming_t *r, const char *prefix, size_t n) {
  for (int i = 0; i < r->of->n; i++)
    if (is_within(r->of->param[i].name, prefix, n)) return true;
  return false;
}

/* Whether the first part of a parameter's name, of *length bytes, ends with "_" and word[n]. */
static bool layer_ends_with(const char *name, const char *word, size_t n, size_t *length) {
  *length = strcspn(name, ".");
  return *length > n + 1 && name[*length - n - 1] == '_' && !strncmp(name + *length - n, word, n);
}

/* Offers layers, and lists of layers by their own names. */
static mr_err_t unknown_name(const naming_t *r, const char *word) {
  char near[80], layer[2][MR_PIPELINE_LAYER], plain[MR_PIPELINE_LAYER + 1];
  char(*name)[MR_PIPELINE_LAYER] = calloc(2 * (size_t)r->of->n + 1, sizeof *name);
  mr_suggest_t s = {.word = plain};
  snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "["), word);
  for (int i = 0; name && i < r->of->n; i++) {
    char *own = name[2 * i], *list = name[2 * i + 1];
    mr_suggest_offer(&s, mr_pipeline_layer(r->of->param[i].name, own));
    memcpy(list, own, strcspn(own, ".")); /* calloc's zero ends it */
    mr_suggest_offer(&s, list);
  }
  mr_suggest_text(&s, near, sizeof near);
  free(name);
  return mr_fail(r->diag, MR_ERR_CONFIG,
                 "\"%s\" is no layer of the model%s; want layers from %s to %s", word, near,
                 mr_pipeline_layer(r->of->param[0].name, layer[0]),
                 mr_pipeline_layer(r->of->param[r->of->n - 1].name, layer[1]));
}

/* Puts all parameters within a prefix into the stage that is read. */
static mr_err_t take_prefix(naming_t *r, const char *prefix) {
  for (int i = 0; i < r->of->n; i++) {
    if (!is_within(r->of->param[i].name, prefix, strlen(prefix))) continue;
    if (r->stage[i] >= 0)
      return mr_fail(r->diag, MR_ERR_CONFIG, "%s is in stage %d and in stage %d; want it in one",
                     r->of->param[i].name, r->stage[i], r->now);
    r->stage[i] = r->now;
  }
  return MR_OK;
}

static int elements_of_list(const naming_t *r, const char *list) {
  char name[MR_PIPELINE_LAYER + 16];
  int n = 0;
  for (;; n++) {
    snprintf(name, sizeof name, "%s.%d", list, n);
    if (!any_within(r, name, strlen(name))) return n;
  }
}

/* [FROM:TO] or [I] behind the name of a list. */
static mr_err_t take_range(naming_t *r, const char *list, const char *range) {
  char name[MR_PIPELINE_LAYER + 16], close = 0, colon = 0;
  int n = elements_of_list(r, list), used = 0;
  long from = 0, to = n; /* strtol gives the largest long for any larger number */
  const char *at = range + 1;
  if (isdigit((unsigned char)*at)) from = strtol(at, (char **)&at, 10);
  if (*at == ':') colon = *at++;
  if (colon && isdigit((unsigned char)*at)) to = strtol(at, (char **)&at, 10);
  if (!colon) to = from < n ? from + 1 : from;
  sscanf(at, "%c%n", &close, &used);
  if (close != ']' || at[used] || (!colon && at == range + 1) || from >= to || to > n)
    return mr_fail(r->diag, MR_ERR_CONFIG,
                   "%s%s: want a range [FROM:TO] with 0 <= FROM < TO <= %d, or [NUMBER]%s", list,
                   range, n, n ? "" : ", of a list of layers, which this is not");
  for (int i = (int)from; i < (int)to; i++) {
    snprintf(name, sizeof name, "%s.%d", list, i);
    MR_TRY(take_prefix(r, name));
  }
  return MR_OK;
}

/* A name of parameters, or of a list with a range behind it. */
static mr_err_t take_known(naming_t *r, const char *name, const char *range) {
  return *range ? take_range(r, name, range) : take_prefix(r, name);
}

/* A name that lacks what is before its last "_": all layers that end so. */
static mr_err_t take_short(naming_t *r, const char *word) {
  char whole[2 * MR_PIPELINE_LAYER], last[MR_PIPELINE_LAYER] = "";
  size_t own = strcspn(word, ".["), dots = strcspn(word, "["), n;
  bool known = false;
  for (int i = 0; i < r->of->n; i++) {
    const char *name = r->of->param[i].name;
    bool again = !strncmp(name, last, strlen(last)) && name[strlen(last)] == '.';
    if ((*last && again) || !layer_ends_with(name, word, own, &n) || n >= sizeof last) continue;
    snprintf(last, sizeof last, "%.*s", (int)n, name);
    snprintf(whole, sizeof whole, "%s%.*s", last, (int)(dots - own), word + own);
    if (!any_within(r, whole, strlen(whole))) continue;
    MR_TRY(take_known(r, whole, word + dots));
    known = true;
  }
  return known ? MR_OK : unknown_name(r, word);
}

/* One name, without blanks around it. */
static mr_err_t take_layers(naming_t *r, const char *word, size_t n) {
  char whole[MR_PIPELINE_LAYER + 1], name[MR_PIPELINE_LAYER + 1];
  if (!n) return mr_fail(r->diag, MR_ERR_CONFIG, "stage %d has an empty name", r->now);
  if (n > MR_PIPELINE_LAYER)
    return mr_fail(r->diag, MR_ERR_CONFIG, "%.40s...: want a name of at most %d bytes", word,
                   MR_PIPELINE_LAYER);
  snprintf(whole, sizeof whole, "%.*s", (int)n, word);
  size_t m = strcspn(whole, "[");
  if (!any_within(r, whole, m)) return take_short(r, whole);
  snprintf(name, sizeof name, "%.*s", (int)m, whole);
  return take_known(r, name, whole + m);
}

/* Reads names between commas up to "|" or the end; returns where it stopped, NULL on failure. */
static const char *take_stage(naming_t *r, const char *at) {
  for (;;) {
    at += strspn(at, " \t");
    size_t n = strcspn(at, ",|"), more = n;
    while (n && isspace((unsigned char)at[n - 1])) n--;
    if (take_layers(r, at, n) < 0) return NULL;
    at += more;
    if (*at != ',') return at;
    at++;
  }
}

/* Layers without a name are of the stage of those around them. */
static void naming_fill(naming_t *r) {
  for (int i = 0; i < r->of->n; i++) {
    int before = i ? r->stage[i - 1] : -1, after = -1;
    if (r->stage[i] >= 0) continue;
    for (int k = i + 1; k < r->of->n && after < 0; k++) after = r->stage[k];
    if (before < 0 || after < 0 || before == after) r->stage[i] = before < 0 ? after : before;
  }
}

static mr_err_t naming_check(const naming_t *r, int *first) {
  char a[MR_PIPELINE_LAYER], b[MR_PIPELINE_LAYER];
  int stages = r->now;
  for (int i = 0; i < r->of->n; i++) {
    const char *name = r->of->param[i].name;
    if (r->stage[i] < 0)
      return mr_fail(r->diag, MR_ERR_CONFIG,
                     "%s, between stages, is in none; want its name in one of them",
                     mr_pipeline_layer(name, a));
    if (i && r->stage[i] < r->stage[i - 1])
      return mr_fail(r->diag, MR_ERR_CONFIG,
                     "%s is in stage %d and %s, which the model reads after it, in stage %d; want "
                     "layers in the order of the model",
                     mr_pipeline_layer(r->of->param[i - 1].name, b), r->stage[i - 1],
                     mr_pipeline_layer(name, a), r->stage[i]);
    if (!i || r->stage[i] > r->stage[i - 1]) first[r->stage[i]] = i;
  }
  first[stages] = r->of->n;
  return MR_OK;
}

mr_err_t mr_pipeline_names(const char *text, int stages, const mr_params_t *of, int *first,
                           mr_diag_t *diag) {
  naming_t r = {.of = of, .stage = calloc((size_t)of->n + 1, sizeof *r.stage), .diag = diag};
  mr_err_t e = MR_OK;
  if (!r.stage) return mr_no_memory(diag, "the names of stages");
  for (int i = 0; i < of->n; i++) r.stage[i] = -1;
  for (const char *at = text; at;) {
    if (!(at = take_stage(&r, at))) e = diag->code;
    r.now++;
    if (!at || !*at) break;
    at++;
  }
  if (e >= 0 && r.now != stages)
    e = mr_fail(diag, MR_ERR_CONFIG, "it has %d stages between \"|\", and pipeline = %d", r.now,
                stages);
  naming_fill(&r);
  if (e >= 0) e = naming_check(&r, first);
  free(r.stage);
  return e;
}
