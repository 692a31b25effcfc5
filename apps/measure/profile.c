/* millrace profile: runs some training steps of a graph and reports where their time goes.  The
   whole graph runs, loaders included, and the training stage's thread copies the executable's times
   after each measured step; profile_*.c compare them with the machine's limits and print them. */
#include "apps/measure/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/cli/texts.h"
#include "apps/look/explain.h"
#include "apps/run/graph_arg.h"
#include "apps/run/interrupt.h"
#include "apps/run/synthetic.h"
#include "base/clock.h"
#include "base/xio.h"
#include "model/exec/backend.h"
#include "model/ir/op.h"
#include "model/ops/lax.h"
#include "stages/train/train_stage.h"

enum { WARM_UP = 2, STEPS_MAX = 1000 };

static const mr_flag_t profile_flags[] = {
    {"--steps", "N", "Measured steps, after 2 unmeasured ones; default 5."},
    {"--device", "cpu[:N]|opencl[:N]|cuda[:N]",
     "Where the step runs; default as the graph says, or cpu."},
    {"--trace", "FILE", "Also writes every kernel call as a Chrome trace (Perfetto opens it)."},
    {"--flame", "FILE", "Also writes a flame graph by scope as SVG."},
    {"--json", "FILE", "Also writes limits, ops and totals as JSON."},
    {0}};

/* Filled by the training stage's thread while the graph runs. */
typedef struct watch {
  mr_profile_t p;
  mr_graph_t *g;
  int64_t before_ns;       /* end of the step before */
  int64_t wall_ns;         /* of the steps before */
  mr_profile_call_t *call; /* [n_eqn] room for the executable's measurements */
  mr_diag_t diag;
} watch_t;

static void measure_limits(const mr_device_t *d, mr_profile_limits_t *l) {
  l->threads = mr_device_threads(d);
  l->f32 = d->backend->limits->fma(d, MR_F32, l->threads),
  l->f32_one = d->backend->limits->fma(d, MR_F32, 1);
  l->bf16 = d->backend->limits->fma(d, MR_BF16, l->threads),
  l->bf16_one = d->backend->limits->fma(d, MR_BF16, 1);
  l->copy = d->backend->limits->bandwidth(d, l->threads),
  l->copy_one = d->backend->limits->bandwidth(d, 1);
}

static mr_err_t profile_begin(watch_t *w, mr_exec_t *x) {
  mr_profile_t *p = &w->p;
  size_t n = (size_t)mr_exec_fn(x)->n_eqn, runs = (size_t)p->max_runs;
  w->call = calloc(n + 1, sizeof *w->call);
  p->call = calloc(n + 1, sizeof *p->call);
  p->at = calloc(n * runs + 1, sizeof *p->at);
  p->ns = calloc(n * runs + 1, sizeof *p->ns);
  if (!w->call || !p->call || !p->at || !p->ns)
    return mr_no_memory(&w->diag, "the profile of %zu steps", runs);
  measure_limits(mr_exec_device(x), &p->limit);
  mr_exec_profile(x, true);
  w->before_ns = mr_now_ns();
  return MR_OK;
}

static void profile_shape_text(const mr_eqn_t *e, char *text, size_t n) {
  char a[MR_AVAL_TEXT];
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < e->n_in && i < 2 && at < n; i++)
    at += (size_t)snprintf(text + at, n - at, "%s ", mr_aval_text(&e->in[i]->aval, a));
  if (e->n_in > 2 && at < n) at += (size_t)snprintf(text + at, n - at, ".. ");
  if (at < n) at += (size_t)snprintf(text + at, n - at, "-> %s", mr_aval_text(&e->out[0]->aval, a));
  if (e->op == &mr_op_fused && at < n)
    mr_fused_text(mr_attr_called(e, "jaxpr"), ";", text + at, n - at);
}

/* Copies a call's facts, since the executable is destroyed with its stage before they are
   printed. */
static void profile_keep(mr_profile_op_t *to, const mr_profile_call_t *c) {
  to->op = c->op;
  snprintf(to->scope, sizeof to->scope, "%s", c->eqn->scope);
  profile_shape_text(c->eqn, to->shape, sizeof to->shape);
  to->narrow = c->cost.product && c->eqn->in[0]->aval.dtype == MR_BF16;
  to->serial = c->serial, to->cost = c->cost, to->ns = c->ns;
}

static void profile_note(watch_t *w, mr_exec_t *x) {
  mr_profile_t *p = &w->p;
  int64_t now = mr_now_ns();
  p->n = mr_exec_profile_calls(x, w->call);
  p->runs = (int)mr_exec_profile_runs(x, &p->wall_ns);
  p->outside_ns += now - w->before_ns - (p->wall_ns - w->wall_ns);
  w->before_ns = now, w->wall_ns = p->wall_ns;
  for (int i = 0; i < p->n; i++) {
    size_t at = (size_t)(p->runs - 1) * (size_t)p->n + (size_t)i;
    p->at[at] = w->call[i].last_at, p->ns[at] = w->call[i].last_ns;
    profile_keep(&p->call[i], &w->call[i]);
  }
}

static void after_step(void *arg, mr_exec_t *x, int64_t step) {
  watch_t *w = arg;
  if (w->diag.code < 0 || w->p.runs == w->p.max_runs) return;
  if (!w->call && step < WARM_UP) return;
  if (!w->call) {
    if (profile_begin(w, x) < 0) mr_graph_stop(w->g);
    return;
  }
  profile_note(w, x);
  if (w->p.runs == w->p.max_runs) mr_graph_stop(w->g);
}

static bool is_graph(const char *word) {
  return !strchr(word, '=') || strpbrk(word, "! \n") || !access(word, F_OK);
}

/* Whether a stage takes metrics or states and gives nothing: what it does leaves the run. */
static bool takes_results(const mr_stage_def_t *d) {
  return (d->in[0].flow == MR_FLOW_METRICS || d->in[0].flow == MR_FLOW_STATE) && !d->out[0].name;
}

/* Replaces the sinks by one that keeps nothing, so that a profile leaves no run folder behind. */
static mr_err_t replace_sinks(mr_graph_t *g, mr_diag_t *diag) {
  const mr_stage_def_t *none = mr_registry_role(mr_all_stages(), MR_ROLE_DISCARD);
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_def_t *d = mr_graph_stage_at(g, i)->def;
    if (takes_results(d)) MR_TRY(mr_graph_swap(g, d->name, none->name, diag));
  }
  return MR_OK;
}

static mr_err_t own_graph(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag) {
  const mr_stage_def_t *synthetic = mr_registry_role(mr_all_stages(), MR_ROLE_SYNTHETIC);
  const char *data = access(mr_usual_data, F_OK) ? synthetic->name : NULL;
  for (int i = 0; i < a->n_words; i++)
    if (!strncmp(a->word[i], "data=", 5)) data = a->word[i] + 5;
  MR_TRY(mr_args_settings(a, 0, diag));
  MR_TRY(mr_graph_set_origin(g, "default graph", diag));
  MR_TRY(mr_graph_parse(g, mr_default_graph, a->word, a->n_words, diag));
  MR_TRY(mr_graph_overrides_once(g, a->word, a->n_words, diag));
  return mr_graph_use_synthetic(g, data, diag);
}

static mr_err_t profile_build(const mr_args_t *a, watch_t *w, mr_diag_t *diag) {
  w->g = mr_graph_create(mr_all_stages());
  if (!w->g) return mr_no_memory(diag, "the graph");
  mr_graph_on_missing(w->g, mr_train_stage_missing);
  if (a->n_words && is_graph(a->word[0])) {
    MR_TRY(mr_args_settings(a, 1, diag));
    MR_TRY(mr_graph_again(a, 0, w->g, diag));
  } else {
    MR_TRY(own_graph(a, w->g, diag));
  }
  if (!mr_train_stage(w->g))
    return mr_fail(diag, MR_ERR_USAGE, "profile: the graph has no %s",
                   mr_registry_role(mr_all_stages(), MR_ROLE_STEP)->name);
  const char *device = mr_args_text(a, "--device");
  char set[64];
  if (device && snprintf(set, sizeof set, "device=%s", device) >= (int)sizeof set)
    return mr_fail(diag, MR_ERR_USAGE, "--device: the value is too long");
  if (device) MR_TRY(mr_graph_override(w->g, set, diag)); /* of all stages that have one */
  MR_TRY(mr_train_stage_copies(w->g, diag));
  MR_TRY(replace_sinks(w->g, diag));
  MR_TRY(mr_graph_settle(w->g, diag));
  mr_train_stage_profile(mr_train_stage(w->g), (mr_train_profile_t){after_step, w});
  return MR_OK;
}

/* The files that can be requested besides the table. */
static const struct {
  const char *flag;
  mr_err_t (*write)(const mr_profile_t *p, const char *path, mr_diag_t *diag);
} form[] = {
    {"--trace", mr_profile_trace}, {"--flame", mr_profile_flame}, {"--json", mr_profile_json}};
enum { FORMS = sizeof form / sizeof *form };

/* Checks before measuring that the files can be written. */
static mr_err_t check_files(const mr_args_t *a, mr_diag_t *diag) {
  mr_diag_t why = {0};
  for (int i = 0; i < FORMS; i++) {
    const char *path = mr_args_text(a, form[i].flag);
    if (path && mr_file_writable(path, &why) < 0)
      return mr_diag_prefix(diag, why.code, &why, "profile: %s", form[i].flag);
  }
  return MR_OK;
}

static mr_err_t profile_report(const mr_args_t *a, const watch_t *w, mr_diag_t *diag) {
  const mr_profile_t *p = &w->p;
  if (w->diag.code < 0) return mr_diag_relay(diag, w->diag.code, &w->diag);
  if (!p->runs)
    return mr_fail(diag, MR_ERR_USAGE, "profile: the stream ended within the first %d steps",
                   WARM_UP);
  mr_profile_table(p, stdout);
  for (int i = 0; i < FORMS; i++) {
    const char *path = mr_args_text(a, form[i].flag);
    if (!path) continue;
    MR_TRY(form[i].write(p, path, diag));
    printf("%s: %s\n", form[i].flag + 2, path);
  }
  return MR_OK;
}

static int profile_run(const mr_args_t *a, mr_diag_t *diag) {
  watch_t w = {0};
  int64_t steps = 5;
  bool stopped = false;
  MR_TRY(mr_args_int(a, "--steps", 1, STEPS_MAX, &steps, diag));
  MR_TRY(check_files(a, diag));
  w.p.max_runs = (int)steps;
  int e = profile_build(a, &w, diag);
  if (e >= 0) e = mr_run_interruptible(w.g, NULL, &stopped, diag);
  if (e >= 0) e = profile_report(a, &w, diag);
  mr_graph_destroy(w.g);
  free(w.call), free(w.p.call), free(w.p.at), free(w.p.ns);
  return e < 0 ? e : stopped ? mr_interrupt_status() : 0;
}

static const mr_hint_t profile_words[] = {{"trace", "profile", NULL}, {0}};

const mr_command_t mr_command_profile = {
    .name = "profile",
    .hint = profile_words,
    .words = "[GRAPH|FILE] [NAME=VALUE...]",
    .help = "Runs some training steps and reports where their time goes, by op and by scope.",
    .more =
        "\n"
        "Without a graph it runs the default one, on synthetic pictures if CIFAR-10 is missing.\n"
        "What takes metrics and checkpoints writes nothing.  FLOP and bytes follow from shapes; "
        "limits\n"
        "are measured at the start.",
    .flags = profile_flags,
    .max_words = MR_WORDS_MAX,
    .run = profile_run,
};
