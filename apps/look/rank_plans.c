/* Plans of a step's ranks.  Of several pipelines the first one is planned, as the others compute
   the same of other records; of ranks without stages the first, for the same reason. */
#include "apps/look/rank_plans.h"

int mr_rank_plans_sharers(const mr_train_config_t *t) {
  return t->mesh ? t->mesh->size[mr_mesh_batch(t->mesh)] : t->ranks;
}

/* Of P pipelines, rank s * P along the axis of the batch is stage s of the first one. */
static int rank_of_plan(const mr_train_config_t *t, int i) {
  int at[MR_MESH_AXES] = {0}, stages = t->pipeline.stages;
  int place = stages ? i * (mr_rank_plans_sharers(t) / stages) : 0;
  if (!t->mesh) return place;
  at[mr_mesh_batch(t->mesh)] = place;
  return mr_mesh_rank(t->mesh, at);
}

mr_err_t mr_rank_plans(mr_model_job_t *job, const mr_mesh_t *m, const mr_rates_t *rates,
                       mr_rank_plans_t *p, mr_diag_t *diag) {
  mr_train_config_t *t = &job->train;
  int stages = t->pipeline.stages > 1 ? t->pipeline.stages : 1;
  *p = (mr_rank_plans_t){.n = 0};
  for (; p->n < stages; p->n++) {
    t->rank = rank_of_plan(t, p->n);
    MR_TRY(mr_train_step_plan_rank(&job->model.plan.loss, t, &p->list[p->n], &p->exec[p->n], diag));
    p->rank[p->n] = (mr_times_rank_t){.f = mr_exec_fn(p->exec[p->n]), .rank = t->rank};
  }
  t->rank = 0;
  return mr_times(rates, m, p->n, p->rank, diag);
}

void mr_rank_plans_fini(mr_rank_plans_t *p) {
  mr_times_fini(p->n, p->rank);
  for (int i = 0; i < MR_PIPELINE_STAGES; i++) {
    mr_exec_destroy(p->exec[i]);
    mr_params_fini(&p->list[i]);
  }
  *p = (mr_rank_plans_t){.n = 0};
}

double mr_rank_plans_step(const mr_rank_plans_t *p) {
  double s = 0;
  for (int i = 0; i < p->n; i++)
    if (p->rank[i].ends_s > s) s = p->rank[i].ends_s;
  return s;
}

double mr_rank_plans_waits(const mr_rank_plans_t *p, int i) {
  double s = mr_rank_plans_step(p);
  return s > 0 ? 1 - p->rank[i].compute_s / s : 0;
}
