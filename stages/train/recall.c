/* Restores a model from its description in a checkpoint. */
#include "stages/train/recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "pipeline/foreign.h"
#include "pipeline/opt.h"

static mr_err_t set_defaults(mr_recalled_t *r, mr_diag_t *diag) {
  for (const mr_opt_t *o = r->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->def) MR_TRY(mr_opt_set(o, r->state, r->def->name, o->def, diag));
  return MR_OK;
}

/* The setting that a word belongs to: KEY=VALUE, or one of a setting's choices alone; NULL: none.
 *value is its value. */
static const mr_opt_t *setting_of(const mr_model_def_t *def, const char *word, const char **value) {
  size_t key = strcspn(word, "=");
  *value = word[key] ? word + key + 1 : word;
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++) {
    if (!word[key] && o->type == MR_OPT_ENUM && mr_is_choice(o->choices, word)) return o;
    if (word[key] && strlen(o->name) == key && !strncmp(o->name, word, key)) return o;
  }
  return NULL;
}

/* Sets the settings among the words.  The other words describe fields and classes; they are
   compared with the stream's after the model is planned. */
static mr_err_t set_words(mr_recalled_t *r, char *words, mr_diag_t *diag) {
  char *rest = NULL;
  for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
    const char *value;
    const mr_opt_t *o = setting_of(r->def, w, &value);
    if (o) MR_TRY(mr_opt_set(o, r->state, r->def->name, value, diag));
  }
  return MR_OK;
}

mr_err_t mr_recall(mr_recalled_t *r, const char *path, const char *text, mr_diag_t *diag) {
  char name[64] = "", *rest;
  mr_diag_t why = {0};
  size_t n = strcspn(text, " ");
  *r = (mr_recalled_t){0};
  if (n < sizeof name) memcpy(name, text, n), name[n] = 0;
  if (!(r->def = mr_model_find(name)))
    return mr_fail(diag, MR_ERR_DATA,
                   "%s: a checkpoint of model \"%.60s\", which is unknown here; --plugin FILE.so "
                   "loads others",
                   path, name);
  r->state = calloc(1, r->def->state_sz + 1);
  r->words = strdup(text);
  if (!r->state || !r->words) return mr_fail(diag, MR_ERR_NOMEM, "out of memory for a model");
  rest = r->words + n;
  mr_err_t e = set_defaults(r, &why);
  if (e >= 0) e = set_words(r, rest, &why);
  return e < 0 ? mr_fail(diag, MR_ERR_DATA, "%s: metadata millrace.model: %s", path, why.text) : e;
}

void mr_recalled_fini(mr_recalled_t *r) {
  free(r->state);
  free(r->words);
  *r = (mr_recalled_t){0};
}
