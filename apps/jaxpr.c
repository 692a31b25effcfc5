/* millrace jaxpr: a function of the model, or an example, in the notation of JAX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/jaxpr_examples.h"
#include "apps/model_arg.h"
#include "base/suggest.h"
#include "model/backends/cpu/exec.h"
#include "model/transforms/transforms.h"

static const mr_flag_t jaxpr_flags[] = {
    {"--grad", NULL, "Of an example: its value and its gradient by the first input."},
    {"--compiled", NULL, "As it runs on the CPU, after all transforms of the compiler."},
    MR_MODEL_FLAGS,
    MR_MODEL_RUN_FLAGS,
    {0}};

static const mr_jaxpr_example_t *find(const char *name) {
  for (const mr_jaxpr_example_t *e = mr_jaxpr_examples; e->name; e++)
    if (!strcmp(e->name, name)) return e;
  return NULL;
}

static mr_err_t build_example(const mr_jaxpr_example_t *e, bool grad, mr_fn_t **out,
                              mr_diag_t *diag) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return mr_fail(diag, MR_ERR_NOMEM, "no memory for a graph");
  e->build(f);
  mr_err_t err = f->diag.code < 0 ? mr_fail(diag, f->diag.code, "%s", f->diag.text) : MR_OK;
  *out = f;
  if (err < 0 || !grad) return err;
  if (f->out[0]->aval.ndim)
    return mr_fail(diag, MR_ERR_USAGE, "jaxpr: --grad: %s gives no scalar; poly and energy do",
                   e->name);
  mr_fn_t *g = NULL;
  err = mr_value_and_grad(f, 1, (int[]){0}, &g, diag);
  mr_fn_destroy(f);
  *out = g;
  return err;
}

/* With the nearest of the words there are. */
static mr_err_t unknown(const char *word, mr_diag_t *diag) {
  char near[80];
  mr_suggest_t s = {.word = word};
  for (const mr_jaxpr_example_t *e = mr_jaxpr_examples; e->name; e++) mr_suggest_offer(&s, e->name);
  mr_suggest_offer(&s, "loss"), mr_suggest_offer(&s, "grad"), mr_suggest_offer(&s, "step");
  return mr_fail(diag, MR_ERR_USAGE, "jaxpr: unknown function \"%s\"%s; its --help lists them",
                 word, mr_suggest_text(&s, near, sizeof near));
}

static mr_err_t build(const mr_args_t *a, mr_fn_t **out, mr_diag_t *diag) {
  const char *word = a->word[0];
  const mr_jaxpr_example_t *e = find(word);
  bool grad = mr_args_text(a, "--grad") != NULL;
  if (e) return build_example(e, grad, out, diag);
  if (strcmp(word, "loss") && strcmp(word, "grad") && strcmp(word, "step"))
    return unknown(word, diag);
  if (grad) return mr_fail(diag, MR_ERR_USAGE, "jaxpr: --grad is for examples; take `jaxpr grad`");
  mr_vit_config_t c;
  int64_t batch = 128;
  mr_params_t params = {0};
  MR_TRY(mr_model_arg(a, &c, &batch, diag));
  *out = mr_model_fn(word, &c, batch, &params, diag);
  mr_params_fini(&params);
  return *out ? MR_OK : diag->code;
}

static mr_err_t print_compiled(const mr_fn_t *f, mr_diag_t *diag) {
  mr_exec_t *x = NULL;
  MR_TRY(mr_jit(f, NULL, &x, diag));
  mr_fn_print(mr_exec_fn(x), stdout);
  mr_exec_destroy(x);
  return MR_OK;
}

static int jaxpr_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_fn_t *f = NULL;
  mr_err_t e = build(a, &f, diag);
  if (e >= 0 && mr_args_text(a, "--compiled"))
    e = print_compiled(f, diag);
  else if (e >= 0)
    mr_fn_print(f, stdout);
  mr_fn_destroy(f);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_jaxpr = {
    .name = "jaxpr",
    .words = "FUNCTION",
    .help = "Prints a function's graph in the notation of JAX.",
    .more =
        "FUNCTION of the Vision Transformer: loss, grad (loss and gradients), step (with AdamW).\n"
        "Examples: poly, dot, gelu, energy.",
    .flags = jaxpr_flags,
    .min_words = 1,
    .max_words = 1,
    .run = jaxpr_run,
};
