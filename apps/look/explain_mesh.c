/* millrace explain --mesh: the collectives of a function on a mesh of ranks, their bytes and what
   asked for them.  A step is that of the ranks that share its batch, or have parts of parameters;
   loss and grad are cut by mr_partition along all axes.  Nothing is compiled. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/model_arg.h"
#include "apps/look/explain.h"
#include "apps/look/mesh_arg.h"
#include "model/control/control.h"
#include "model/ir/op.h"
#include "model/mesh/placement_rules.h"
#include "model/partition/partition.h"

/* The bytes that a rank receives in a collective of n ranks.  A sum is cut into a part a rank: the
   parts are received, added, and given to all. */
static int64_t count_received_bytes(const mr_eqn_t *e, int n) {
  int64_t in = (int64_t)mr_aval_bytes(&e->in[0]->aval);
  int64_t out = (int64_t)mr_aval_bytes(&e->out[0]->aval);
  int to, from = 0; /* of the first rank, whose graph is shown */
  if (e->op == &mr_op_ppermute)
    return mr_ppermute_places(e, n, 0, &to, &from, NULL) >= 0 && from >= 0 ? in : 0;
  if (e->op == &mr_op_all_gather || e->op == &mr_op_all_to_all) return out / n * (n - 1);
  if (e->op == &mr_op_reduce_scatter) return in / n * (n - 1);
  return 2 * (in * (n - 1) / n);
}

/* How many ranks communicate over an axis of f's collectives; the step has one of its own. */
static int ranks_along(const mr_mesh_t *m, const char *axis) {
  int a = mr_mesh_axis(m, axis, strlen(axis));
  return a < 0 ? m->size[mr_mesh_batch(m)] : m->size[a];
}

static const char *name_of_axis(const mr_mesh_t *m, const char *axis) {
  return mr_mesh_axis(m, axis, strlen(axis)) < 0 ? m->name[mr_mesh_batch(m)] : axis;
}

static bool is_exchange(const mr_eqn_t *e) { return e->op->collective && e->n_in; }

static void print_collective(const mr_eqn_t *e, const mr_mesh_t *m) {
  char text[MR_AVAL_TEXT];
  const char *axis = mr_attr_get(e, "axis_name")->text;
  printf("%-15s %-8s %-24s %14" PRId64 "  %s%s%s\n", e->op->name, name_of_axis(m, axis),
         mr_aval_text(&e->in[0]->aval, text), count_received_bytes(e, ranks_along(m, axis)),
         e->of ? e->of->name : "", e->of && *e->scope ? " in " : "", e->scope);
}

static mr_err_t print_collectives(const char *word, const mr_fn_t *f, const mr_mesh_t *m,
                                  mr_diag_t *diag) {
  char mesh[MR_MESH_TEXT];
  int n = 0;
  int64_t bytes = 0;
  for (int i = 0; i < f->n_eqn; i++)
    if (is_exchange(f->eqn[i])) {
      const char *axis = mr_attr_get(f->eqn[i], "axis_name")->text;
      n++, bytes += count_received_bytes(f->eqn[i], ranks_along(m, axis));
    }
  printf("%s on the mesh %s: %d collective%s, in which a rank receives %" PRId64 " bytes\n", word,
         mr_mesh_text(m, mesh), n, n == 1 ? "" : "s", bytes);
  if (n) printf("%-15s %-8s %-24s %14s  %s\n", "op", "axis", "of", "bytes", "for");
  for (int i = 0; i < f->n_eqn; i++)
    if (is_exchange(f->eqn[i])) print_collective(f->eqn[i], m);
  return fflush(stdout) ? mr_fail(diag, MR_ERR_IO, "explain: standard output failed") : MR_OK;
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

mr_err_t mr_explain_mesh(const mr_args_t *a, const char *word, const mr_mesh_t *m,
                         mr_diag_t *diag) {
  mr_model_job_t job;
  mr_params_t params = {0};
  mr_fn_t *f = NULL;
  bool step = !strcmp(word, "step");
  mr_err_t e = mr_model_arg(a, 1, &job, diag);
  if (e >= 0 && step) e = mr_mesh_arg_step(a, m, true, &job, diag);
  if (e >= 0 && !step) e = check_batch(m, job.train.batch, diag);
  if (e >= 0 && !(f = mr_model_fn(word, &job, &params, diag))) e = diag->code;
  if (e >= 0 && !step) e = cut_function(a, word, m, job.train.batch, &params, &f, diag);
  if (e >= 0) e = print_collectives(word, f, m, diag);
  mr_fn_destroy(f);
  mr_params_fini(&params);
  mr_model_job_fini(&job);
  return e;
}
