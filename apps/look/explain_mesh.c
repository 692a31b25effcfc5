/* millrace explain --mesh: the collectives of a function on a mesh of ranks, their bytes, what
   asked for them, their predicted times and what runs beside them.  A step is that of the ranks
   that share its batch, or have parts of parameters, as it is planned for a run; loss and grad are
   cut by mr_partition along all axes, and not compiled.  Nothing runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "apps/cli/model_arg.h"
#include "apps/look/explain.h"
#include "apps/look/mesh_arg.h"
#include "apps/look/rank_plans.h"
#include "model/ir/op.h"
#include "model/mesh/placement_rules.h"
#include "model/partition/partition.h"

/* What is printed of a function. */
typedef struct shown {
  const char *word, *table; /* the function; the name of the table of rates */
  const mr_mesh_t *mesh;
  const mr_rates_t *rates;
  const mr_times_rank_t *rank; /* the first one */
  double step_s;               /* of all ranks */
} shown_t;

static const char *axis_of(const shown_t *s, const mr_times_call_t *c) {
  return s->mesh->name[mr_times_axis(s->mesh, c->eqn)];
}

static int64_t received_bytes(const shown_t *s) {
  int64_t bytes = 0;
  for (int i = 0; i < s->rank->n_call; i++) bytes += s->rank->call[i].bytes;
  return bytes;
}

static double waits_s(const shown_t *s) { return s->step_s - s->rank->compute_s; }

static void print_collective(const shown_t *s, const mr_times_call_t *c) {
  char text[MR_AVAL_TEXT];
  const mr_eqn_t *e = c->eqn;
  printf("%-15s %-8s %-24s %14" PRId64 " %10.3f %10.3f  %s%s%s", e->op->name, axis_of(s, c),
         mr_aval_text(&e->in[0]->aval, text), c->bytes, 1e3 * c->s, 1e3 * c->waits_s,
         e->of ? e->of->name : "", e->of && *e->scope ? " in " : "", e->scope);
  if (s->rates->beside && c->beside)
    printf("; beside %.3f ms, %s%s%s", 1e3 * c->beside_s, c->beside->op->name,
           *c->beside->scope ? " in " : "", c->beside->scope);
  putchar('\n');
}

static void print_times(const shown_t *s) {
  printf("predicted: %.3f ms, of which rank %d computes %.3f and waits %.3f\n", 1e3 * s->step_s,
         s->rank->rank, 1e3 * s->rank->compute_s, 1e3 * waits_s(s));
  printf("by table %s: %s\n", s->table, s->rates->source);
  printf("%s\n", s->rates->beside ? "collectives run beside what does not read them"
                                  : "a rank waits in each collective: nothing runs beside it");
}

static mr_err_t print_collectives(const shown_t *s, mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT];
  int n = s->rank->n_call;
  printf("%s on the mesh %s: %d collective%s, in which a rank receives %" PRId64 " bytes\n",
         s->word, mr_mesh_text(s->mesh, mesh), n, n == 1 ? "" : "s", received_bytes(s));
  print_times(s);
  if (n)
    printf("%-15s %-8s %-24s %14s %10s %10s  %s\n", "op", "axis", "of", "bytes", "ms", "waits ms",
           "for");
  for (int i = 0; i < n; i++) print_collective(s, &s->rank->call[i]);
  return fflush(stdout) ? mr_fail(diag, MR_ERR_IO, "explain: standard output failed") : MR_OK;
}

static cJSON *collective_json(const shown_t *s, const mr_times_call_t *c) {
  char text[MR_AVAL_TEXT];
  const mr_eqn_t *e = c->eqn;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "op", e->op->name);
  cJSON_AddStringToObject(o, "axis", axis_of(s, c));
  cJSON_AddStringToObject(o, "of", mr_aval_text(&e->in[0]->aval, text));
  cJSON_AddStringToObject(o, "for", e->of ? e->of->name : "");
  cJSON_AddStringToObject(o, "scope", e->scope);
  cJSON_AddNumberToObject(o, "bytes", (double)c->bytes);
  cJSON_AddNumberToObject(o, "seconds", c->s);
  cJSON_AddNumberToObject(o, "waits_seconds", c->waits_s);
  cJSON_AddNumberToObject(o, "beside_seconds", s->rates->beside ? c->beside_s : 0);
  if (s->rates->beside && c->beside) {
    cJSON_AddStringToObject(o, "beside", c->beside->op->name);
    cJSON_AddStringToObject(o, "beside_scope", c->beside->scope);
  }
  return o;
}

static mr_err_t print_collectives_json(const shown_t *s, mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT];
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "function", s->word);
  cJSON_AddStringToObject(o, "mesh", mr_mesh_text(s->mesh, mesh));
  cJSON_AddNumberToObject(o, "rank", s->rank->rank);
  cJSON_AddNumberToObject(o, "received_bytes", (double)received_bytes(s));
  cJSON_AddNumberToObject(o, "seconds", s->step_s);
  cJSON_AddNumberToObject(o, "compute_seconds", s->rank->compute_s);
  cJSON_AddNumberToObject(o, "waits_seconds", waits_s(s));
  cJSON_AddStringToObject(o, "rates", s->table);
  cJSON_AddStringToObject(o, "source", s->rates->source);
  cJSON *list = cJSON_AddArrayToObject(o, "collectives");
  for (int i = 0; i < s->rank->n_call; i++)
    cJSON_AddItemToArray(list, collective_json(s, &s->rank->call[i]));
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  if (!text) return mr_no_memory(diag, "the JSON of explain");
  puts(text);
  free(text);
  return MR_OK;
}

/* What lies how: arrays of records along the axis of the batch, parameters by rules. */
typedef struct cut {
  const mr_mesh_t *mesh;
  int64_t batch;
  const mr_params_t *params;
  mr_placement_rules_t rules;
  mr_placement_t *in, *out;
} cut_t;

static mr_placement_t place_of_records(const cut_t *c, const mr_aval_t *a) {
  mr_placement_t p = {.partial = 0};
  int axis = mr_mesh_batch(c->mesh);
  if (a->ndim && a->dim[0] == c->batch) p.axes[0] = (uint8_t)(1 << axis), p.outer[0] = 1;
  return p;
}

static mr_err_t place_parameter(const cut_t *c, int i, mr_placement_t *p, mr_diag_t *diag) {
  const mr_param_t *v = &c->params->param[i];
  return mr_placement_rules_place(&c->rules, c->mesh, v->name, v->aval.ndim, v->aval.dim, p, diag);
}

static mr_err_t check_patterns(const cut_t *c, mr_diag_t *diag) {
  const char **name = calloc((size_t)c->params->n + 1, sizeof *name);
  if (!name) return mr_no_memory(diag, "the names of parameters");
  for (int i = 0; i < c->params->n; i++) name[i] = c->params->param[i].name;
  mr_err_t e = mr_placement_rules_check(&c->rules, name, c->params->n, diag);
  free((void *)name);
  return e;
}

/* f has its parameters behind its data, and a gradient gives theirs last. */
static mr_err_t place_all(cut_t *c, const char *rules, const mr_fn_t *f, bool grad,
                          mr_diag_t *diag) {
  int n = c->params->n, first = f->n_in - n, grads = grad ? f->n_out - n : f->n_out;
  MR_TRY(mr_placement_rules_parse(rules, &c->rules, diag));
  MR_TRY(check_patterns(c, diag));
  c->in = calloc((size_t)f->n_in + 1, sizeof *c->in);
  c->out = calloc((size_t)f->n_out + 1, sizeof *c->out);
  if (!c->in || !c->out) return mr_no_memory(diag, "placements");
  for (int i = 0; i < first; i++) c->in[i] = place_of_records(c, &f->in[i]->aval);
  for (int i = 0; i < grads; i++) c->out[i] = place_of_records(c, &f->out[i]->aval);
  for (int i = 0; i < n; i++) {
    MR_TRY(place_parameter(c, i, &c->in[first + i], diag));
    if (grad) c->out[grads + i] = c->in[first + i];
  }
  return MR_OK;
}

static mr_err_t check_batch(const mr_mesh_t *m, int64_t batch, mr_diag_t *diag) {
  int axis = mr_mesh_batch(m), n = m->size[axis];
  if (batch % n == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_USAGE,
                 "explain: --mesh: a batch of %" PRId64
                 " records does not divide among the %d "
                 "ranks of %s: %" PRId64
                 " left over, expected --batch of a multiple, such as "
                 "%" PRId64,
                 batch, n, m->name[axis], batch % n, (batch / n + 1) * n);
}

/* Replaces *f by what each rank computes. */
static mr_err_t cut_function(const mr_args_t *a, const char *word, const mr_mesh_t *m,
                             int64_t batch, const mr_params_t *params, mr_fn_t **f,
                             mr_diag_t *diag) {
  cut_t c = {.mesh = m, .batch = batch, .params = params};
  mr_diag_t why = {0};
  mr_fn_t *local = NULL;
  mr_err_t e = place_all(&c, mr_args_text(a, "--partition"), *f, !strcmp(word, "grad"), &why);
  e = mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "explain");
  if (e >= 0) e = mr_partition(*f, m, c.in, c.out, &local, diag);
  mr_placement_rules_fini(&c.rules);
  free(c.in), free(c.out);
  if (e < 0) return e;
  mr_fn_destroy(*f);
  return *f = local, MR_OK;
}

static mr_err_t show_collectives(const mr_args_t *a, const shown_t *s, mr_diag_t *diag) {
  return (mr_args_text(a, "--json") ? print_collectives_json : print_collectives)(s, diag);
}

/* A step: the ranks of pipelines have graphs of their own. */
static mr_err_t show_step(const mr_args_t *a, mr_model_job_t *job, shown_t *s, mr_diag_t *diag) {
  mr_rank_plans_t p;
  mr_diag_t why = {0};
  MR_TRY(mr_mesh_arg_step(a, s->mesh, !mr_args_text(a, "--json"), job, diag));
  mr_err_t e = mr_rank_plans(job, s->mesh, s->rates, &p, &why);
  e = mr_diag_prefix(diag, e == MR_ERR_CONFIG ? MR_ERR_USAGE : e, &why, "explain: --mesh");
  s->rank = &p.rank[0], s->step_s = mr_rank_plans_step(&p);
  if (e >= 0) e = show_collectives(a, s, diag);
  mr_rank_plans_fini(&p);
  return e;
}

/* A loss or a gradient, which all ranks compute alike. */
static mr_err_t show_function(const mr_args_t *a, mr_model_job_t *job, shown_t *s,
                              mr_diag_t *diag) {
  mr_params_t params = {0};
  mr_times_rank_t rank = {.rank = 0};
  MR_TRY(check_batch(s->mesh, job->train.batch, diag));
  mr_fn_t *f = mr_model_fn(s->word, job, &params, diag);
  mr_err_t e =
      f ? cut_function(a, s->word, s->mesh, job->train.batch, &params, &f, diag) : diag->code;
  rank.f = f;
  if (e >= 0) e = mr_times(s->rates, s->mesh, 1, &rank, diag);
  s->rank = &rank, s->step_s = rank.ends_s;
  if (e >= 0) e = show_collectives(a, s, diag);
  mr_times_fini(1, &rank);
  mr_fn_destroy(f);
  mr_params_fini(&params);
  return e;
}

mr_err_t mr_explain_mesh(const mr_args_t *a, const char *word, const mr_mesh_t *m,
                         mr_diag_t *diag) {
  mr_model_job_t job;
  mr_rates_t rates;
  shown_t s = {.word = word, .mesh = m, .rates = &rates};
  MR_TRY(mr_rates_arg(a, &s.table, &rates, diag));
  mr_err_t e = mr_model_arg(a, 1, &job, diag);
  if (e >= 0) e = (!strcmp(word, "step") ? show_step : show_function)(a, &job, &s, diag);
  mr_model_job_fini(&job);
  return e;
}
