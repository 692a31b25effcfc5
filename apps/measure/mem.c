/* millrace mem: prints the memory plan of a function of the model, and checks that a run follows
   it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "apps/cli/fn_arrays.h"
#include "apps/cli/model_arg.h"
#include "apps/look/mesh_arg.h"
#include "apps/look/pipeline_arg.h"
#include "apps/measure/mem_plan.h"
#include "apps/measure/mem_pprof.h"
#include "base/text.h"
#include "model/exec/device.h"
#include "model/exec/mem_causes.h"
#include "model/ir/op.h"
#include "model/train/fit.h"
#include "model/train/held.h"

static const mr_flag_t mem_flags[] = {
    {"--timeline", NULL, "Prints the bytes alive at each equation."},
    {"--top", "N", "Prints the N largest tensors alive at the peak; default 20."},
    {"--pprof", "FILE", "Writes the tensors alive at the peak as a profile for pprof."},
    {"--no-run", NULL, "Prints only the plan and does not run it."},
    {"--json", NULL, "Prints the bytes of each cause as one JSON object."},
    {"--fit", "SIZE",
     "Chooses --remat and --accumulate so that the peak is at most SIZE, for example 2GiB."},
    MR_MESH_FLAGS(
        "Plans what one rank of a step on this mesh holds, as of threads or processes, and "
        "runs nothing."),
    {"--rank", "N", "With --mesh, which rank; default 0.  Shares and stages are not alike."},
    MR_PIPELINE_FLAGS,
    {"--plan", "NxSIZE",
     "Proposes meshes for N devices of that memory, as 8x80GB, by predicted time, with the bytes "
     "of "
     "the fullest rank and why others do not fit."},
    MR_RATES_FLAG,
    MR_MODEL_FLAGS,
    MR_MODEL_RUN_FLAGS,
    MR_MODEL_BATCH_FLAGS,
    {0}};

typedef struct job {
  mr_fn_t *f;
  mr_exec_t *x;
  const char *update; /* scope of the optimizer; NULL: f has none */
  int n_held;
  mr_held_t held[MR_HELD_MOST];
  mr_mem_causes_t causes;
  size_t measured;           /* 0: not run */
  size_t room;               /* that the plan has to fit into; 0: it runs, or it is unknown */
  size_t needs;              /* bytes to compare with room */
  size_t at_open, libraries; /* bytes of the device beside plan and inputs; 0: unknown, or none */
  mr_fn_arrays_t arrays;
  mr_mem_report_t report;
} job_t;

static void job_fini(job_t *j) {
  mr_fn_arrays_fini(&j->arrays);
  mr_mem_report_fini(&j->report);
  mr_exec_destroy(j->x);
  mr_fn_destroy(j->f);
}

/* Prints a line that continues below itself, after `indent` spaces, where the terminal is narrow.
 */
static void mem_print(int indent, const char *format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  int columns = mr_columns(STDOUT_FILENO);
  mr_put_wrapped(stdout, line, columns, columns > indent + 30 ? indent : 4);
}

static void mem_print_timeline(const job_t *j) {
  const mr_mem_report_t *r = &j->report;
  const mr_fn_t *f = mr_exec_fn(j->x);
  for (int i = 0; i < r->n_time; i++) {
    int bar = r->peak < 0 || !r->alive[r->peak] ? 0 : (int)(40 * r->alive[i] / r->alive[r->peak]);
    mem_print(21, "%5d %14zu %-40.*s %s%s%s%s", i, r->alive[i], bar,
              "########################################", f->eqn[i]->op->name,
              *f->eqn[i]->scope ? " in " : "", f->eqn[i]->scope, i == r->peak ? "  <- peak" : "");
  }
}

static int by_bytes(const void *a, const void *b) {
  const mr_mem_row_t *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static void mem_print_row(const mr_mem_row_t *r) {
  char text[MR_AVAL_TEXT] = "literal";
  if (r->eqn && r->out >= 0) mr_aval_text(&r->eqn->out[r->out]->aval, text);
  if (r->eqn && r->out < 0) snprintf(text, sizeof text, "scratch");
  mem_print(31, "%14zu %14zu  %-24s %s%s%s", r->bytes, r->offset, text,
            r->eqn ? r->eqn->op->name : "", r->eqn && *r->eqn->scope ? " in " : "",
            r->eqn ? r->eqn->scope : "");
}

/* Prints the tensors alive at the peak.  Reorders the report's rows, so it is called last. */
static void print_alive(mr_mem_report_t *r, int64_t top) {
  int n = 0;
  for (int i = 0; i < r->n_row; i++)
    if (r->row[i].first <= r->peak && r->row[i].last >= r->peak) r->row[n++] = r->row[i];
  qsort(r->row, (size_t)n, sizeof *r->row, by_bytes);
  mem_print(4, "alive at the peak, equation %d: %d tensors", r->peak, n);
  mem_print(31, "%14s %14s  %-24s %s", "bytes", "offset", "tensor", "written by");
  for (int i = 0; i < n && i < top; i++) mem_print_row(&r->row[i]);
  if (n > top) printf("%14s %d more; --top N shows them\n", "", n - (int)top);
}

/* ---- causes ---- */

static mr_err_t name_held(job_t *j, const mr_model_job_t *m, const mr_params_t *params, bool step,
                          mr_diag_t *diag) {
  bool stages = m->train.mesh && m->train.pipeline.stages;
  mr_params_t whole = {0};
  mr_err_t e = stages ? mr_loss_params_list(&m->model.plan.loss, &whole, diag) : MR_OK;
  const mr_held_of_t of = {.exec = j->x,
                           .train = &m->train,
                           .params = params,
                           .whole = stages ? &whole : NULL,
                           .step = step,
                           .slots = step ? mr_model_slots_bytes(m) : 0,
                           .n_fields = m->model.plan.loss.n_fields};
  if (e >= 0) j->n_held = mr_train_held(&of, j->held);
  if (step) j->update = m->train.optim.def->name;
  mr_params_fini(&whole);
  return e;
}

static mr_err_t find_causes(job_t *j, mr_diag_t *diag) {
  const mr_fn_t *f = mr_exec_fn(j->x);
  const mr_var_t *loss = j->update ? mr_train_loss_of(f) : f->n_out > 1 ? f->out[0] : NULL;
  return mr_mem_causes_find(&j->causes, j->x,
                            &(mr_mem_parts_t){loss, j->update, MR_OPTIM_POSTED, MR_OPTIM_GATHERED},
                            diag);
}

static size_t held_bytes(const job_t *j) {
  size_t all = j->causes.constants + j->causes.outputs;
  for (int i = 0; i < j->n_held; i++) all += j->held[i].bytes;
  return all;
}

static void print_cause(size_t bytes, size_t of, const char *name) {
  if (bytes) mem_print(24, "%14zu %6.1f%%  %s", bytes, 100.0 * (double)bytes / (double)of, name);
}

static void print_causes(const job_t *j) {
  size_t peak = mr_exec_peak_bytes(j->x), held = held_bytes(j), all = peak + held;
  printf("%14s %7s  %s\n", "bytes", "share", "cause");
  for (int i = 0; i < j->n_held; i++) print_cause(j->held[i].bytes, all, j->held[i].name);
  print_cause(j->causes.constants, all, "constants outside the arena");
  print_cause(j->causes.outputs, all, "outputs");
  print_cause(held, all, "= held by the caller");
  for (int k = 0; k < MR_MEM_CAUSES; k++)
    print_cause(j->causes.bytes[k], all, mr_mem_cause_name((mr_mem_cause_t)k));
  print_cause(peak, all, "= arena at its peak");
  print_cause(all, all, "= in all");
}

/* Not in the sums: the driver's figures, after the plan's libraries and kernels were loaded. */
static void print_beside(const job_t *j) {
  if (!j->at_open && !j->libraries) return;
  printf("%14s %7s  %s\n", "bytes", "", "beside them, as the driver says");
  mem_print(24, "%14zu %7s  %s", j->at_open, "",
            "in use when the device was opened, context included");
  mem_print(24, "%14zu %7s  %s", j->libraries, "", "libraries and loaded kernels");
}

/* A plan that does not run may be of any size.  A described device has its memory alone for arena
   and inputs; one that is there is asked, as before a run, for a block as large as the arena. */
static void compare_with_room(job_t *j, bool described) {
  j->room = mr_device_room(mr_exec_device(j->x));
  j->needs = mr_exec_peak_bytes(j->x) + (described ? held_bytes(j) : 0);
}

static bool mem_fits(const job_t *j) { return !j->room || j->needs < j->room; }

static void print_whether_it_fits(const job_t *j, const char *device) {
  if (!mem_fits(j))
    mem_print(0, "it does not fit: %zu bytes are needed, and device %s gives at most %zu", j->needs,
              device, j->room);
}

static mr_err_t print_causes_json(const job_t *j, mr_diag_t *diag) {
  cJSON *o = cJSON_CreateObject(), *held = cJSON_AddObjectToObject(o, "held");
  cJSON *arena = cJSON_AddObjectToObject(o, "arena");
  for (int i = 0; i < j->n_held; i++)
    cJSON_AddNumberToObject(held, j->held[i].name, (double)j->held[i].bytes);
  cJSON_AddNumberToObject(held, "constants outside the arena", (double)j->causes.constants);
  cJSON_AddNumberToObject(held, "outputs", (double)j->causes.outputs);
  for (int k = 0; k < MR_MEM_CAUSES; k++)
    cJSON_AddNumberToObject(arena, mr_mem_cause_name((mr_mem_cause_t)k),
                            (double)j->causes.bytes[k]);
  cJSON_AddNumberToObject(o, "held_bytes", (double)held_bytes(j));
  cJSON_AddNumberToObject(o, "planned_peak_bytes", (double)mr_exec_peak_bytes(j->x));
  if (j->measured) cJSON_AddNumberToObject(o, "measured_peak_bytes", (double)j->measured);
  if (j->room) cJSON_AddNumberToObject(o, "room_bytes", (double)j->room);
  if (j->room) cJSON_AddBoolToObject(o, "fits", mem_fits(j));
  if (mr_exec_unplanned(j->x))
    cJSON_AddNumberToObject(o, "unplanned_workspaces", mr_exec_unplanned(j->x));
  if (j->at_open) cJSON_AddNumberToObject(o, "in_use_at_open_bytes", (double)j->at_open);
  if (j->at_open) cJSON_AddNumberToObject(o, "libraries_bytes", (double)j->libraries);
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  if (!text) return mr_no_memory(diag, "the JSON of mem");
  puts(text);
  free(text);
  return MR_OK;
}

/* ---- the command ---- */

static mr_err_t measure_peak(job_t *j, mr_diag_t *diag) {
  size_t planned = mr_exec_peak_bytes(j->x);
  MR_TRY(mr_fn_arrays_init(&j->arrays, j->x, diag));
  j->measured = mr_exec_touched(j->x, (const void *const *)j->arrays.in, j->arrays.out);
  if (j->measured == planned) return MR_OK;
  return mr_fail(diag, MR_ERR_DATA, "mem: a run touches %zu bytes where %zu were planned",
                 j->measured, planned);
}

/* Whether nothing runs: then there may be no memory for it. */
static bool mem_plans(const mr_args_t *a) {
  return mr_args_text(a, "--no-run") || mr_args_text(a, "--mesh") ||
         mr_device_is_described(mr_args_text(a, "--device"));
}

static mr_err_t report_memory(job_t *j, const mr_args_t *a, mr_diag_t *diag) {
  int64_t top = 20;
  MR_TRY(mr_args_int(a, "--top", 0, 1 << 20, &top, diag));
  MR_TRY(mr_mem_report_init(&j->report, j->x, diag));
  MR_TRY(find_causes(j, diag));
  const char *pprof = mr_args_text(a, "--pprof");
  if (pprof) MR_TRY(mr_mem_pprof(&j->report, pprof, diag));
  bool json = mr_args_text(a, "--json") != NULL;
  if (!json && mr_args_text(a, "--timeline")) mem_print_timeline(j);
  if (!json) printf("planned peak  %14zu bytes\n", mr_exec_peak_bytes(j->x));
  int unplanned = mr_exec_unplanned(j->x);
  if (!json && unplanned)
    mem_print(0,
              "not in it: the workspaces of %d products and attentions, which the libraries choose "
              "on the device, one at a time",
              unplanned);
  const char *device = mr_args_text(a, "--device");
  if (mem_plans(a)) compare_with_room(j, mr_device_is_described(device));
  if (!json) print_whether_it_fits(j, device ? device : "cpu");
  mr_err_t e = mem_plans(a) ? MR_OK : measure_peak(j, diag);
  if (!json && j->measured) printf("measured peak %14zu bytes\n", j->measured);
  MR_TRY(e);
  const mr_device_t *d = mr_exec_device(j->x);
  if (d->backend->memory->beside) j->libraries = d->backend->memory->beside(d, &j->at_open);
  if (json) return print_causes_json(j, diag);
  print_causes(j);
  print_beside(j);
  print_alive(&j->report, top);
  return MR_OK;
}

/* Applies --fit as the training stage would. */
static mr_err_t mem_fit(const mr_args_t *a, const char *word, mr_model_job_t *m, mr_diag_t *diag) {
  const char *text = mr_args_text(a, "--fit");
  size_t limit;
  mr_fit_t choice;
  if (!text) return MR_OK;
  if (strcmp(word, "step"))
    return mr_fail(diag, MR_ERR_USAGE, "mem: --fit is for `mem step`, not for %s", word);
  if (m->train.compute.fp8.history)
    return mr_fail(diag, MR_ERR_USAGE,
                   "mem: --fit: it chooses remat, which does not go with --fp8, expected "
                   "--accumulate instead");
  MR_TRY(mr_bytes_parse("--fit", text, &limit, diag));
  MR_TRY(mr_fit(&m->model.plan.loss, m->model.def->remat, &m->train, limit, &choice, diag));
  m->train.compute.remat = choice.remat;
  m->train.accumulate = choice.accumulate;
  if (mr_args_text(a, "--json")) return MR_OK;
  printf("fits %-8s  remat=%s accumulate=%" PRId64 "; a byte counts as %g operations\n", text,
         mr_nn_remat_name(choice.remat), choice.accumulate, choice.byte);
  return MR_OK;
}

/* The step of a rank in place of a function of the model, with --mesh.  m outlives job. */
static mr_err_t mem_plan_rank(const mr_args_t *a, const char *word, mr_mesh_t *m,
                              mr_model_job_t *job, mr_params_t *params, job_t *j, mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT];
  int64_t rank = 0;
  bool json = mr_args_text(a, "--json") != NULL;
  mr_diag_t why = {0};
  if (mr_args_text(a, "--fit"))
    return mr_fail(diag, MR_ERR_USAGE, "mem: --fit: expected no --mesh beside it");
  if (strcmp(word, "step"))
    return mr_fail(diag, MR_ERR_USAGE, "mem: --mesh: %.40s, expected function step", word);
  MR_TRY(mr_mesh_arg(a, m, diag));
  MR_TRY(mr_mesh_arg_step(a, m, !json, job, diag));
  MR_TRY(mr_args_int(a, "--rank", 0, mr_mesh_ranks(m) - 1, &rank, diag));
  job->train.rank = (int)rank;
  mr_err_t e = mr_train_step_plan_rank(&job->model.plan.loss, &job->train, params, &j->x, &why);
  if (e < 0)
    return mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "mem: --mesh");
  if (!json)
    printf("rank %d of %d on the mesh %s\n", (int)rank, job->train.ranks, mr_mesh_text(m, mesh));
  return MR_OK;
}

static mr_err_t mem_plan(const mr_args_t *a, const char *word, mr_model_job_t *m,
                         mr_params_t *params, job_t *j, mr_diag_t *diag) {
  MR_TRY(mem_fit(a, word, m, diag));
  j->f = mr_model_fn(word, m, params, diag);
  return j->f ? mr_model_jit(a, j->f, word, mem_plans(a), &j->x, diag) : diag->code;
}

static int mem_run(const mr_args_t *a, mr_diag_t *diag) {
  if (mr_args_text(a, "--plan")) return mr_mem_plan(a, diag);
  if (mr_args_text(a, "--rates"))
    return mr_fail(diag, MR_ERR_USAGE, "mem: --rates: expected --plan beside it");
  bool named = a->n_words && !strchr(a->word[0], '=');
  const char *word = named ? a->word[0] : "step";
  mr_model_job_t m;
  mr_mesh_t mesh;
  mr_params_t params = {0};
  job_t j = {0};
  mr_err_t e = mr_model_arg(a, named, &m, diag);
  if (e >= 0) e = mr_mesh_arg_check(a, word, diag);
  if (e >= 0 && mr_args_text(a, "--rank") && !mr_args_text(a, "--mesh"))
    e = mr_fail(diag, MR_ERR_USAGE, "mem: --rank: expected --mesh beside it");
  if (e >= 0)
    e = mr_args_text(a, "--mesh") ? mem_plan_rank(a, word, &mesh, &m, &params, &j, diag)
                                  : mem_plan(a, word, &m, &params, &j, diag);
  if (e >= 0) e = name_held(&j, &m, &params, !strcmp(word, "step"), diag);
  if (e >= 0) e = report_memory(&j, a, diag);
  job_fini(&j);
  mr_params_fini(&params);
  mr_model_job_fini(&m);
  return e < 0 ? e : 0;
}

const mr_command_t mr_command_mem = {
    .name = "mem",
    .values = {mr_dtype_hints},
    .words = "[FUNCTION] [model=NAME] [NAME=VALUE...]",
    .help = "Prints the memory plan of a function of the model, and the peak of a real run.",
    .more =
        "FUNCTION: loss, grad (loss and gradients), step (with AdamW, in place); default step.\n"
        "The arena holds the intermediate values; inputs and outputs belong to the caller.\n"
        "Bytes are divided by cause (docs/precision.md); the sums are exact.\n" MR_MODEL_WORDS_HELP,
    .flags = mem_flags,
    .max_words = MR_WORDS_MAX,
    .run = mem_run,
};
