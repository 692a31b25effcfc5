/* Ranks of a mesh that have parts of parameters: when they do, and what does not go with it.  The
   step is then cut as a whole (model/train/cut.h), with results that are close to those of one
   rank, so that it has no ordered parts but the microbatches of a pipeline. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/mesh/placement.h"
#include "pipeline/stage_step.h"
#include "stages/train/train_step_private.h"

/* The axes of the mesh beside that of the batch. */
static bool has_other_axes(const mr_mesh_t *m) {
  for (int a = 0; a < m->n; a++)
    if (a != mr_mesh_batch(m) && m->size[a] > 1) return true;
  return false;
}

static const char *table_of_model(const train_t *v) {
  int model = mr_mesh_axis(&v->mesh, "model", 5);
  return model >= 0 && model != mr_mesh_batch(&v->mesh) ? v->model.def->partition : NULL;
}

void mr__train_set_mesh(const train_t *v, mr_train_config_t *t) {
  t->ranks = v->ranks;
  if (!v->in_parts) return;
  t->ranks = mr_mesh_ranks(&v->mesh);
  t->mesh = &v->mesh, t->partition = v->partition, t->table = table_of_model(v);
}

static mr_err_t refuse_beside(mr_stage_t *s, const char *setting, const char *want) {
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "setting %s: it does not go with the mesh %s, whose ranks have parts of "
                       "parameters; want %s",
                       setting, s->in_spec[IN_TRAIN].mesh, want);
}

static mr_err_t check_beside_parts(mr_stage_t *s) {
  const train_t *v = s->state;
  if (v->ordered && !v->cut.cut.stages)
    return refuse_beside(s, "ordered",
                         "ordered=0, as results are close to those of one rank alone");
  if (v->accumulate > 1) return refuse_beside(s, "accumulate", "accumulate=1, or more ranks");
  if (v->fit) return refuse_beside(s, "fit", "remat= or more ranks to need less memory");
  if (v->amp.fp8) return refuse_beside(s, "fp8", "fp8=none");
  if (mr_process_ranks() && v->on_nan == MR__ON_NAN_TRACE)
    return refuse_beside(s, "on-nan = trace", "on-nan=stop");
  return MR_OK;
}

/* Whether rules, batch and parameters fit each other. */
static mr_err_t check_rules_of_parts(mr_stage_t *s) {
  train_t *v = s->state;
  mr_params_t list = {0};
  mr_aval_t *part = NULL;
  mr_placement_t *at = NULL;
  mr_diag_t why = {0};
  mr_train_config_t t = {.batch = s->in_spec[IN_TRAIN].batch,
                         .accumulate = 1,
                         .ordered = v->ordered,
                         .zero = (int)v->zero,
                         .pipeline = v->cut.cut};
  mr__train_set_mesh(v, &t);
  mr_err_t e = mr_train_parts_check(&t, &why);
  if (e >= 0) e = mr_loss_params_list(&v->model.plan.loss, &list, &why);
  if (e >= 0) part = calloc((size_t)list.n + 1, sizeof *part);
  if (e >= 0) at = calloc((size_t)list.n + 1, sizeof *at);
  if (e >= 0 && (!part || !at)) e = mr_no_memory(&why, "how parameters lie");
  if (e >= 0) e = mr_train_cut_parts(&t, &list, part, at, &why);
  if (e >= 0) e = mr__train_write_lies(v, &list, part, at, &why);
  mr_params_fini(&list);
  free(part), free(at);
  return e < 0 ? mr_diag_prefix(s->diag, e, &why, "%s: setting mesh = %s", s->name,
                                s->in_spec[IN_TRAIN].mesh)
               : MR_OK;
}

mr_err_t mr__train_read_mesh(mr_stage_t *s) {
  train_t *v = s->state;
  const mr_spec_t *in = &s->in_spec[IN_TRAIN];
  mr_diag_t why = {0};
  v->in_parts = false;
  if (in->ranks && mr_mesh_parse(in->mesh, 0, &v->mesh, &why) < 0)
    return mr_stage_relay(s, why.code, &why);
  bool rules = v->partition && *v->partition;
  if (rules && !in->ranks)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting partition = %s: there is no mesh on which parameters could lie, "
                         "want --mesh such as data=2,model=2, which puts shard-to-device before "
                         "this stage",
                         v->partition);
  v->in_parts = in->ranks && (rules || has_other_axes(&v->mesh));
  return MR_OK;
}

mr_err_t mr__train_plan_mesh(mr_stage_t *s) {
  const train_t *v = s->state;
  MR_TRY(mr__train_read_mesh(s));
  if (!v->in_parts) return MR_OK;
  MR_TRY(check_beside_parts(s));
  return check_rules_of_parts(s);
}
