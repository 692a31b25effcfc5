/* Restoring a model: its name finds the definition, the other words are settings or describe fields
   and classes, which are compared with the stream's after the model is planned. */
#include "stages/train/recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "base/safetensors.h"
#include "pipeline/opt.h"
#include "stages/train/amp.h"

static mr_err_t set_defaults(mr_recalled_t *r, mr_diag_t *diag) {
  for (const mr_opt_t *o = r->def->opts; o && o->type != MR_OPT_END; o++)
    if (o->def) MR_TRY(mr_opt_set(o, r->state, r->def->name, o->def, diag));
  return MR_OK;
}

/* The setting that a word belongs to: NAME=VALUE, or one of a setting's choices alone; NULL: none.
 *value is its value. */
static const mr_opt_t *setting_of(const mr_model_def_t *def, const char *word, const char **value) {
  size_t n = strcspn(word, "=");
  *value = word[n] ? word + n + 1 : word;
  for (const mr_opt_t *o = def->opts; o && o->type != MR_OPT_END; o++) {
    if (!word[n] && o->type == MR_OPT_ENUM && mr_is_choice(o->choices, word)) return o;
    if (word[n] && strlen(o->name) == n && !strncmp(o->name, word, n)) return o;
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

mr_err_t mr_recall_model(mr_recalled_t *r, const char *path, const char *text, mr_diag_t *diag) {
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
  if (!r->state || !r->words) return mr_no_memory(diag, "a model");
  rest = r->words + n;
  mr_err_t e = set_defaults(r, &why);
  if (e >= 0) e = set_words(r, rest, &why);
  return e < 0 ? mr_diag_prefix(diag, MR_ERR_DATA, &why, "%s: metadata millrace.model", path) : e;
}

void mr_recalled_fini(mr_recalled_t *r) {
  free(r->state);
  free(r->words);
  *r = (mr_recalled_t){0};
}

mr_err_t mr_recall_list(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                        mr_params_t *params, mr_diag_t *diag) {
  char text[MR_MODEL_TEXT];
  bool averaged;
  mr_model_text(model, text);
  MR_TRY(mr_train_state_averaged(path, &averaged, diag));
  MR_TRY(mr_train_state_kept(path, c, diag));
  mr_train_want_sets(c, NULL, params);
  averaged &= average;
  if (averaged && c->values && c->values != MR_F32)
    c->reads = 0; /* a run without a master copy reads its average unrounded */
  if (averaged) c->values = MR_F32;
  if (averaged) mr_params_want(params, MR_SET_AVERAGE, 0, MR_F32);
  MR_TRY(mr_loss_params_list(&model->plan.loss, params, diag));
  return mr_train_state_check(path, text, params, diag);
}

mr_err_t mr_recall_params(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                          mr_params_t *params, mr_train_progress_t *at, mr_diag_t *diag) {
  char text[MR_MODEL_TEXT];
  mr_model_text(model, text);
  MR_TRY(mr_recall_list(path, model, average, c, params, diag));
  MR_TRY(mr_params_alloc(params, diag));
  return mr_train_state_load(path, text, params, at, diag);
}

mr_err_t mr_recall_takes(const char *path, const mr_model_t *model, bool average, mr_compute_t *c,
                         mr_takes_t *out, mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_safetensors_t *f;
  MR_TRY(mr_safetensors_open(path, &f, diag));
  mr_err_t e = mr_recall_list(path, model, average, c, &list, diag);
  if (e >= 0) out->bytes += mr_params_bytes(&list);
  for (int i = 0; i < mr_safetensors_count(f); i++)
    out->bytes += mr_safetensors_bytes(mr_safetensors_at(f, i));
  mr_safetensors_close(f);
  out->advice = "want a smaller batch, or the checkpoint of a smaller model";
  mr_params_fini(&list);
  return e;
}

size_t mr_recall_runs(const mr_exec_t *x, size_t now, size_t was) {
  size_t peak, then = mr_process_memory(&peak), took = then > now ? then - now : 0;
  if (peak > was && peak - now > took) took = peak - now;
  return took + mr_exec_peak_bytes(x) + mr_exec_borrowed_bytes(x);
}
