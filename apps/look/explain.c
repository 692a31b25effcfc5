/* millrace explain: reports what the compiler added to a graph, why, and at what cost.  What was
   executed is read from the compiled graph; the effect of each pass is found by running the passes
   once more, one by one, on copies. */
#include <stdlib.h>
#include <string.h>

#include "apps/cli/fn_arrays.h"
#include "apps/cli/model_arg.h"
#include "apps/look/explain.h"
#include "apps/look/mesh_arg.h"
#include "apps/look/pipeline_arg.h"
#include "model/exec/device.h"
#include "model/ir/op.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

static const mr_flag_t explain_flags[] = {
    {"--all", NULL, "Prints a row for each equation instead of one for all similar layers."},
    {"--top", "N", "Prints the N most expensive moves, and kernels; default 20."},
    {"--kernels", NULL,
     "Also compiles the generated kernels, and prints the registers that each takes: --device "
     "cuda, also a described one."},
    {"--json", NULL, "Prints everything as JSON."},
    {"--runs", "N",
     "Also runs the function N times, on zeros, and prints the share of the time of each row that "
     "is an equation of its own; default 0: shares are of planned bytes alone."},
    MR_MESH_FLAGS(
        "Ranks as a mesh with named axes: prints the collectives of FUNCTION step, loss or "
        "grad on it, the bytes that a rank receives, and what asked for them; with "
        "--array, draws an array.  Default data=N of N ranks."),
    MR_RATES_FLAG,
    MR_PIPELINE_FLAGS,
    {"--array", "ARRAY[=PLACEMENT]",
     "Draws which ranks hold which part of an array instead: a shape or the name of a parameter, "
     "as 384x1536=(None,model); a name alone lies as in a step (docs/distributed.md)."},
    MR_NAMED_FN_FLAGS,
    MR_MODEL_BATCH_FLAGS,
    {0}};

static void explain_graph_count(mr_explanation_t *x, int row, const char *name, const char *help,
                                int before, int after) {
  mr_pass_row_t *r = &x->pass[row];
  *r = (mr_pass_row_t){name, help, r->before + before, r->after + after};
}

/* Repeats the compiler's passes one by one on copies of f and of the functions of its loops and
   branches, and counts their equations. */
static mr_err_t count_passes(mr_explanation_t *x, const mr_fn_t *f, mr_diag_t *diag) {
  const mr_device_t *d = mr_exec_device(x->exec);
  mr_fn_t *g = NULL;
  MR_TRY(mr_open_calls(f, d->backend->compile->target(d), &g, diag));
  mr_err_t e = MR_OK;
  for (int i = 0; i < g->n_eqn; i++)
    for (int k = 0; k < g->eqn[i]->n_attr; k++) {
      const mr_fn_t *const *inner;
      int n = mr_attr_calls(&g->eqn[i]->attr[k], &inner);
      for (int j = 0; j < n && e >= 0; j++) e = count_passes(x, inner[j], diag);
    }
  int row = 0;
  explain_graph_count(x, row++, "open", "writes calls, and what no kernel does, as primitives",
                      f->n_eqn, g->n_eqn);
  for (const mr_pass_t *p = mr_passes; p->name && e >= 0 && row < MR_PASS_ROWS; p++) {
    if (mr_pass_skipped(p, NULL)) continue;
    int before = g->n_eqn;
    e = mr_pass_run(p, g, d->backend->compile->target(d), diag);
    mr_dce(g);
    explain_graph_count(x, row++, p->name, p->help, before, g->n_eqn);
  }
  x->n_pass = row;
  mr_fn_destroy(g);
  return e;
}

/* Profiles the runs of --runs, after one that is not counted. */
static mr_err_t explain_graph_measure(const mr_args_t *a, mr_exec_t *exec, mr_diag_t *diag) {
  int64_t runs = 0;
  mr_fn_arrays_t arrays = {0};
  MR_TRY(mr_args_int(a, "--runs", 0, 1000, &runs, diag));
  mr_err_t e = runs ? mr_fn_arrays_init(&arrays, exec, diag) : MR_OK;
  for (int64_t i = 0; e >= 0 && i < runs + (runs > 0); i++) {
    if (i == 1) mr_exec_profile(exec, true);
    mr_exec_run(exec, (const void *const *)arrays.in, arrays.out);
  }
  mr_fn_arrays_fini(&arrays);
  return e;
}

typedef struct found {
  mr_explanation_t *x;
  bool lost; /* there was no memory for a row */
} found_t;

static void on_kernel_found(void *arg, const mr_call_t *c, const mr_backend_kernel_t *k) {
  found_t *f = arg;
  mr_explanation_t *x = f->x;
  if (x->n_kernel == x->cap_kernel) {
    int cap = 2 * x->cap_kernel + 64;
    mr_kernel_row_t *more = realloc(x->kernel, (size_t)cap * sizeof *more);
    f->lost |= !more;
    if (!more) return;
    x->kernel = more, x->cap_kernel = cap;
  }
  const mr_kernel_row_t *last = x->n_kernel ? &x->kernel[x->n_kernel - 1] : NULL;
  int number = last && last->eqn == c->eqn ? last->number + 1 : 1;
  x->kernel[x->n_kernel++] = (mr_kernel_row_t){c->eqn, number, 0, k->registers, k->stack};
}

/* The kernels of an equation follow each other: the last one's number is how many there are. */
static void kernels_count(mr_explanation_t *x) {
  for (int i = x->n_kernel - 1; i >= 0; i--) {
    bool last = i + 1 == x->n_kernel || x->kernel[i + 1].number == 1;
    x->kernel[i].of = last ? x->kernel[i].number : x->kernel[i + 1].of;
  }
}

/* Compiles the kernels, with --kernels. */
static mr_err_t kernels_find(const mr_args_t *a, mr_explanation_t *x, mr_diag_t *diag) {
  const mr_device_t *d = mr_exec_device(x->exec);
  if (!mr_args_text(a, "--kernels")) return MR_OK;
  if (!d->backend->compile->inspect)
    return mr_fail(diag, MR_ERR_USAGE,
                   "explain: --kernels: device %s does not tell its kernels, "
                   "expected --device cuda beside it",
                   d->name);
  found_t found = {x, false};
  MR_TRY(mr_exec_inspect(x->exec, on_kernel_found, &found, diag));
  kernels_count(x);
  return found.lost ? mr_no_memory(diag, "the kernels of explain") : MR_OK;
}

/* A step's batches, which its graph does not show. */
static mr_err_t find_slots(const mr_args_t *a, mr_explanation_t *out, mr_diag_t *diag) {
  mr_model_job_t job;
  mr_err_t e = mr_model_arg(a, 1, &job, diag);
  if (e >= 0) out->slots = mr_model_slots_bytes(&job), out->n_slots = (int)job.slots;
  mr_model_job_fini(&job);
  return e;
}

static mr_err_t explain_graph_explain(const mr_args_t *a, const char *word, const mr_fn_t *f,
                                      mr_exec_t *exec, mr_diag_t *diag) {
  int64_t top = 20;
  MR_TRY(mr_args_int(a, "--top", 0, 1 << 20, &top, diag));
  MR_TRY(explain_graph_measure(a, exec, diag));
  mr_explanation_t x = {.exec = exec};
  if (!strcmp(word, "step")) MR_TRY(find_slots(a, &x, diag));
  mr_err_t e = mr_explained_init(&x.made, exec, diag);
  if (e >= 0) e = count_passes(&x, f, diag);
  if (e >= 0) e = kernels_find(a, &x, diag);
  if (e >= 0 && mr_args_text(a, "--json"))
    e = mr_explanation_json(&x, stdout, diag);
  else if (e >= 0)
    e = mr_explanation_table(&x, mr_args_text(a, "--all") != NULL, (int)top, stdout, diag);
  mr_explained_fini(&x.made);
  free(x.kernel);
  return e;
}

static int explain_run(const mr_args_t *a, mr_diag_t *diag) {
  const char *word = a->n_words ? a->word[0] : "step";
  mr_fn_t *f = NULL;
  mr_exec_t *exec = NULL;
  if (mr_args_text(a, "--array")) return mr_explain_array(a, diag);
  MR_TRY(mr_mesh_arg_check(a, word, diag));
  if (mr_args_text(a, "--mesh")) return mr_explain_array(a, diag);
  if (mr_args_text(a, "--rates"))
    return mr_fail(diag, MR_ERR_USAGE, "explain: --rates: expected --mesh beside it");
  if (mr_args_text(a, "--runs") && mr_device_is_described(mr_args_text(a, "--device")))
    return mr_fail(diag, MR_ERR_USAGE, "explain: --runs: a described device runs nothing");
  mr_err_t e = mr_named_fn(a, word, &f, diag);
  if (e >= 0) e = mr_model_jit(a, f, word, !mr_args_text(a, "--runs"), &exec, diag);
  if (e >= 0) e = explain_graph_explain(a, word, f, exec, diag);
  mr_exec_destroy(exec);
  mr_fn_destroy(f);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_explain = {
    .name = "explain",
    .values = {mr_dtype_hints},
    .words = "[FUNCTION]",
    .help = "Prints each cast, copy and transpose of a compiled graph with its cause and cost.",
    .more = MR_NAMED_FN_HELP
    "  Default: step.\n"
    "What causes this copy?  Each row has its cause: the row of the policy, the setting, the\n"
    "transform or the pass that asked for it, and where; --all prints its equation too.\n"
    "Also prints how each product is computed, which equations form one kernel, and what each pass "
    "did.",
    .flags = explain_flags,
    .max_words = 1,
    .run = explain_run,
};
