/* Looks a name up among examples, files and the model's functions. */
#include "apps/named_fn.h"

#include <stdlib.h>
#include <string.h>

#include "apps/jaxpr_examples.h"
#include "base/suggest.h"
#include "base/xio.h"
#include "model/parse/parse.h"
#include "model/transforms/transforms.h"

static const mr_jaxpr_example_t *named_fn_find(const char *name) {
  for (const mr_jaxpr_example_t *e = mr_jaxpr_examples; e->name; e++)
    if (!strcmp(e->name, name)) return e;
  return NULL;
}

static mr_err_t build_example(const mr_jaxpr_example_t *e, mr_fn_t **out, mr_diag_t *diag) {
  mr_fn_t *f = *out = mr_fn_create();
  if (!f) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a graph");
  e->build(f);
  return f->diag.code < 0 ? mr_fail(diag, f->diag.code, "%s", f->diag.text) : MR_OK;
}

static bool is_file(const char *word) {
  size_t n = strlen(word);
  return strchr(word, '/') || (n > 6 && !strcmp(word + n - 6, ".jaxpr"));
}

static mr_err_t read_fn(const char *path, mr_fn_t **out, mr_diag_t *diag) {
  void *text;
  size_t n;
  mr_diag_t why = {0};
  MR_TRY(mr_read_file(path, 1 << 20, &text, &n, diag));
  mr_err_t e = mr_fn_parse(text, out, &why);
  free(text);
  return e < 0 ? mr_fail(diag, e, "%s: %s", path, why.text) : MR_OK;
}

/* Replaces *f by its value and gradient. */
static mr_err_t named_fn_differentiate(const char *command, const char *word, mr_fn_t **f,
                                       mr_diag_t *diag) {
  mr_fn_t *g = NULL;
  if ((*f)->n_in < 1 || (*f)->n_out != 1 || (*f)->out[0]->aval.ndim)
    return mr_fail(diag, MR_ERR_USAGE, "%s: --grad: %s gives no scalar; poly and energy do",
                   command, word);
  mr_err_t e = mr_value_and_grad(*f, 1, (int[]){0}, &g, diag);
  mr_fn_destroy(*f);
  *f = g;
  return e;
}

/* Fails with the nearest known word. */
static mr_err_t named_fn_unknown(const char *command, const char *word, mr_diag_t *diag) {
  char near[80];
  mr_suggest_t s = {.word = word};
  for (const mr_jaxpr_example_t *e = mr_jaxpr_examples; e->name; e++) mr_suggest_offer(&s, e->name);
  mr_suggest_offer(&s, "loss"), mr_suggest_offer(&s, "grad"), mr_suggest_offer(&s, "step");
  return mr_fail(diag, MR_ERR_USAGE, "%s: unknown function \"%s\"%s; its --help lists them",
                 command, word, mr_suggest_text(&s, near, sizeof near));
}

mr_err_t mr_named_fn(const mr_args_t *a, const char *word, mr_fn_t **out, mr_diag_t *diag) {
  const char *command = a->command->name;
  const mr_jaxpr_example_t *e = named_fn_find(word);
  bool grad = mr_args_text(a, "--grad") != NULL;
  if (e || is_file(word)) {
    if (a->n_words > 1)
      return mr_fail(diag, MR_ERR_USAGE, "%s: one word too many, \"%s\": %s is no model", command,
                     a->word[1], word);
    MR_TRY(e ? build_example(e, out, diag) : read_fn(word, out, diag));
    return grad ? named_fn_differentiate(command, word, out, diag) : MR_OK;
  }
  if (strcmp(word, "loss") && strcmp(word, "grad") && strcmp(word, "step"))
    return named_fn_unknown(command, word, diag);
  if (grad)
    return mr_fail(diag, MR_ERR_USAGE, "%s: --grad is for examples and files; take `%s grad`",
                   command, command);
  mr_model_job_t job;
  mr_params_t params = {0};
  mr_err_t err = mr_model_arg(a, 1, &job, diag);
  *out = err < 0 ? NULL : mr_model_fn(word, &job, &params, diag);
  mr_params_fini(&params);
  mr_model_job_fini(&job);
  return *out ? MR_OK : diag->code;
}
