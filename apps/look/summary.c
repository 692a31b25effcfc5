/* millrace summary: prints the parameter table of a model as flax.nnx.tabulate does, or what a rank
   has of it.  The model is traced but never compiled or filled: counts and shapes come from the
   graph alone, so a model that does not fit this machine has a table too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/model_arg.h"
#include "apps/look/mesh_arg.h"
#include "apps/look/pipeline_arg.h"
#include "apps/look/summary_table.h"
#include "base/text.h"
#include "model/mesh/placement.h"
#include "model/nn/params.h"

static const mr_flag_t summary_flags[] = {
    MR_MODEL_FLAGS,
    {"--depth", "N", "Prints modules whose path has at most N parts; default all."},
    {"--dtype", "f32|bf16|f16", "Type that the model computes in; default bf16."},
    {"--param-dtype", "f32|bf16|f16", "Type of the parameters that the model reads."},
    MR_PIPELINE_FLAGS,
    MR_MESH_FLAGS("Prints what a rank of this mesh has of each parameter instead, and how it lies; "
                  "with --zero, which rank updates it and has its slots."),
    {0}};

/* Writes 10695562 as "10,695,562". */
static void group_digits(int64_t v, char text[32]) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRId64, v), at = 0;
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) text[at++] = ',';
    text[at++] = digits[i];
  }
  text[at] = 0;
}

/* Writes a shape as flax does: "4x4x3x384". */
static void summary_shape_text(const mr_aval_t *a, char text[64]) {
  size_t at = 0;
  text[0] = 0;
  for (int d = 0; d < a->ndim && at < 48; d++)
    at += (size_t)snprintf(text + at, 64 - at, "%s%" PRId64, d ? "x" : "", a->dim[d]);
}

/* ---- parts ---- */

/* What a rank of a mesh has. */
typedef struct parts {
  const mr_mesh_t *mesh;
  const mr_params_t *of;
  mr_aval_t *part;    /* heap [of->n] */
  mr_placement_t *at; /* heap [of->n] */
  int *updates;       /* heap [of->n]: the rank that does; NULL: each rank updates what it has */
  mr_aval_t *slots;   /* heap [of->n]: of a slot, where it is cut further; NULL: as `part` */
  bool values;        /* a rank has values of those alone that it updates */
} parts_t;

static void print_part(const parts_t *s, int i) {
  char shape[2][64], count[32], how[MR_PLACEMENT_TEXT];
  const mr_aval_t *part = &s->part[i];
  summary_shape_text(&s->of->param[i].aval, shape[0]), summary_shape_text(part, shape[1]);
  group_digits(mr_aval_elems(part), count);
  printf("%-40s %-18s %-18s %14s", s->of->param[i].name, shape[0], shape[1], count);
  if (s->updates) printf(" %12d", s->updates[i]);
  if (s->slots) summary_shape_text(&s->slots[i], shape[0]), printf(" %18s", shape[0]);
  printf("  %s\n", mr_placement_text(&s->at[i], s->mesh, part->ndim, how));
}

/* Which rank updates which parameter, of ranks with shares. */
static mr_err_t find_updates(parts_t *s, mr_train_config_t t, mr_diag_t *diag) {
  if ((!t.zero && !t.pipeline.stages) || t.ranks < 2) return MR_OK;
  s->values = t.zero == 3;
  if (t.mesh && !t.pipeline.stages) { /* each rank of a mesh that cuts updates pieces of all */
    s->slots = calloc((size_t)s->of->n + 1, sizeof *s->slots);
    return s->slots ? mr_train_cut_slots(&t, s->of, s->slots, diag)
                    : mr_no_memory(diag, "the slots of ranks");
  }
  s->updates = calloc((size_t)s->of->n + 1, sizeof *s->updates);
  if (!s->updates) return mr_no_memory(diag, "the shares of ranks");
  for (t.rank = t.ranks - 1; t.rank >= 0; t.rank--) { /* of those with parts of it the first */
    int from, to;
    mr_train_share_of(&t, s->of, &from, &to);
    for (int i = from; i < to; i++) s->updates[i] = t.rank;
  }
  return MR_OK;
}

static void print_parts(const parts_t *s) {
  char count[2][32], most[32];
  int64_t n = 0, all = 0, own = 0, largest = 0;
  printf("%-40s %-18s %-18s %14s", "parameter", "shape", "of a rank", "elements");
  if (s->updates) printf(" %12s", "updated by");
  if (s->slots) printf(" %18s", "of a slot");
  printf("  lies\n");
  for (int i = 0; i < s->of->n; i++) {
    print_part(s, i);
    n += mr_aval_elems(&s->part[i]), all += mr_aval_elems(&s->of->param[i].aval);
    if (s->updates && i && s->updates[i] != s->updates[i - 1]) own = 0;
    own += mr_aval_elems(s->slots ? &s->slots[i] : &s->part[i]);
    if (own > largest) largest = own;
  }
  group_digits(n, count[0]), group_digits(all, count[1]), group_digits(largest, most);
  printf("total: a rank has %s of %s elements\n", count[0], count[1]);
  if (s->updates || s->slots)
    printf("%s: a rank has those of at most %s elements\n",
           s->values ? "values and slots" : "slots", most);
}

/* The table of what a rank has. */
static mr_err_t summary_print_parts(const mr_args_t *a, mr_model_job_t *job, const mr_params_t *p,
                                    mr_diag_t *diag) {
  mr_mesh_t m;
  mr_diag_t why = {0};
  parts_t s = {&m, p, NULL, NULL, NULL, NULL, false};
  MR_TRY(mr_mesh_arg(a, &m, diag));
  MR_TRY(mr_mesh_arg_step(a, &m, false, job, diag));
  const mr_train_config_t t = {.mesh = &m,
                               .ranks = mr_mesh_ranks(&m),
                               .zero = job->train.mesh ? job->train.zero : 0,
                               .pipeline = job->train.pipeline,
                               .partition = mr_args_text(a, "--partition"),
                               .table = mr_mesh_arg_table(job, &m)};
  s.part = calloc((size_t)p->n + 1, sizeof *s.part);
  s.at = calloc((size_t)p->n + 1, sizeof *s.at);
  mr_err_t e = s.part && s.at ? MR_OK : mr_no_memory(&why, "placements");
  if (job->train.pipeline.stages && job->train.zero < 3)
    job->train.zero = 0; /* ranks with stages have shares anyway */
  if (e >= 0 && job->train.zero) e = mr_train_parts_check(&job->train, &why);
  if (e >= 0) e = mr_train_cut_parts(&t, p, s.part, s.at, &why);
  if (e >= 0) e = find_updates(&s, job->train, &why);
  if (e >= 0) print_parts(&s);
  free(s.part), free(s.at), free(s.updates), free(s.slots);
  job->train.mesh = NULL; /* m ends here */
  return mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "summary");
}

/* The type of the parameters that the model reads. */
static mr_dtype_t dtype_of_params(const mr_compute_t *c) {
  mr_dtype_t t = c->reads ? c->reads : c->values;
  return t ? t : MR_F32;
}

static int summary_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_model_job_t job;
  int64_t depth = INT64_MAX;
  MR_TRY(mr_args_int(a, "--depth", 0, 1024, &depth, diag));
  mr_params_t params = {0};
  mr_summary_row_t *rows = NULL;
  int n = 0;
  const mr_loss_use_t use = {.batch = 1, .whole = true};
  mr_err_t e = mr_model_arg(a, 0, &job, diag);
  const mr_loss_t *l = &job.model.plan.loss;
  mr_fn_t *fn = e < 0 ? NULL : mr_loss_fn(l, &job.train.compute, &use, &params, diag);
  e = fn ? mr_summary(&params, &rows, &n, diag) : diag->code;
  if (e >= 0) e = mr_mesh_arg_check(a, NULL, diag);
  if (e >= 0 && mr_args_text(a, "--mesh"))
    e = summary_print_parts(a, &job, &params, diag);
  else if (e >= 0)
    e = mr_summary_table_put(stdout, &params, rows, n, depth, dtype_of_params(&job.train.compute),
                             mr_columns(STDOUT_FILENO), diag);
  if (e >= 0) e = mr_pipeline_arg(a, true, &job, diag);
  free(rows);
  mr_fn_destroy(fn);
  mr_params_fini(&params);
  mr_model_job_fini(&job);
  return e < 0 ? e : 0;
}

static const mr_hint_t summary_words[] = {{"model", "summary", NULL}, {0}};

const mr_command_t mr_command_summary = {
    .name = "summary",
    .values = {mr_dtype_hints},
    .hint = summary_words,
    .words = "[model=NAME] [NAME=VALUE...] [--layers N] ...",
    .help = "Prints the parameter table of a model, as flax's nnx.tabulate does.",
    .more = MR_MODEL_WORDS_HELP,
    .flags = summary_flags,
    .max_words = MR_WORDS_MAX,
    .run = summary_run,
};
