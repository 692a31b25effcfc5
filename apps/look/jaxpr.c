/* millrace jaxpr: prints a function of the model, or an example, in JAX's notation, as it was
   traced or, with --compiled, as the compiler's passes leave it.  Nothing is computed, so a
   function of any size can be looked at on any machine. */
#include <stdio.h>

#include "apps/cli/model_arg.h"
#include "model/exec/exec.h"

static const mr_flag_t jaxpr_flags[] = {
    {"--compiled", NULL, "The graph as it runs on --device, after all passes of the compiler."},
    MR_NAMED_FN_FLAGS,
    {0}};

static mr_err_t jaxpr_print(const mr_fn_t *f, mr_diag_t *diag) {
  if (mr_fn_print(f, stdout) >= 0) return MR_OK;
  return mr_no_memory(diag, "the text of a graph, which is incomplete");
}

static mr_err_t print_compiled(const mr_args_t *a, const mr_fn_t *f, mr_diag_t *diag) {
  mr_exec_t *x = NULL;
  MR_TRY(mr_model_jit(a, f, a->word[0], true, &x, diag));
  mr_err_t e = jaxpr_print(mr_exec_fn(x), diag);
  mr_exec_destroy(x);
  return e;
}

static int jaxpr_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_fn_t *f = NULL;
  mr_err_t e = mr_named_fn(a, a->word[0], &f, diag);
  if (e >= 0 && mr_args_text(a, "--compiled"))
    e = print_compiled(a, f, diag);
  else if (e >= 0)
    e = jaxpr_print(f, diag);
  mr_fn_destroy(f);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_jaxpr = {
    .name = "jaxpr",
    .words = "FUNCTION [model=NAME] [NAME=VALUE...]",
    .help = "Prints a function's graph in the notation of JAX.",
    .more = MR_NAMED_FN_HELP,
    .flags = jaxpr_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = jaxpr_run,
};
