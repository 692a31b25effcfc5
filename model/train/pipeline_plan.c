/* Even stages: of all cuts between layers that a single value crosses, those with which the dearest
   stage has the fewest operations, by the least cost of the first k layers in s stages. */
#include "model/train/pipeline_plan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/transforms/passes.h"

const char *mr_pipeline_layer(const char *param, char *layer) {
  size_t n = strcspn(param, ".");
  if (param[n] && isdigit((unsigned char)param[n + 1])) n += 1 + strcspn(param + n + 1, ".");
  snprintf(layer, MR_PIPELINE_LAYER, "%.*s", (int)n, param);
  return layer;
}

/* The loss that is cut, and the places between layers where it can be. */
typedef struct planner {
  mr_params_t list;
  mr_fn_t *f;
  mr_pipeline_line_t *line;
  int n;           /* places, the beginning and the end included */
  int *param, *at; /* [n] the parameter behind each and the equation */
  mr_diag_t why;   /* of the last cut between layers that cannot be */
} planner_t;

static bool begins_layer(const mr_params_t *list, int i) {
  char a[MR_PIPELINE_LAYER], b[MR_PIPELINE_LAYER];
  return strcmp(mr_pipeline_layer(list->param[i - 1].name, a),
                mr_pipeline_layer(list->param[i].name, b)) != 0;
}

static mr_err_t plan_trace(planner_t *p, const mr_loss_t *l, const mr_compute_t *c, int64_t records,
                           mr_diag_t *diag) {
  const mr_loss_use_t use = {.batch = records, .train = true};
  p->f = mr_loss_fn(l, c, &use, &p->list, diag);
  if (!p->f) return diag->code;
  MR_TRY(mr_passes_before_grad(p->f, NULL, diag));
  return mr_pipeline_line(p->f, mr_loss_n_data(l), &p->line, diag);
}

static mr_err_t plan_places(planner_t *p, mr_diag_t *diag) {
  size_t n = (size_t)p->list.n + 2;
  p->param = calloc(n, sizeof *p->param), p->at = calloc(n, sizeof *p->at);
  if (!p->param || !p->at) return mr_no_memory(diag, "the places of cuts");
  p->n = 1;
  for (int i = 1; i < p->list.n; i++) {
    mr_pipeline_cut_t cut;
    if (!begins_layer(&p->list, i)) continue;
    p->why = (mr_diag_t){0};
    if (mr_pipeline_cut(p->line, i, &cut, &p->why) < 0) continue;
    p->param[p->n] = i, p->at[p->n++] = cut.at;
  }
  p->param[p->n] = p->list.n, p->at[p->n++] = p->f->n_eqn;
  return MR_OK;
}

static double cost_between(const planner_t *p, int a, int b) {
  return mr_pipeline_flop(p->line, p->at[a], p->at[b]);
}

/* least[s][k]: the cost of the dearest of s + 1 stages up to place k, whose last begins at
   from[s][k]. */
static mr_err_t plan_evenly(const planner_t *p, int stages, int *first, mr_diag_t *diag) {
  int n = p->n, k = n - 1;
  double *least = calloc((size_t)(stages * n), sizeof *least);
  int *from = calloc((size_t)(stages * n), sizeof *from);
  if (!least || !from) return free(least), free(from), mr_no_memory(diag, "stages");
  for (int s = 0; s < stages; s++)
    for (int b = 0; b < n; b++) {
      double best = s || !b ? (double)INFINITY : cost_between(p, 0, b);
      for (int a = s; s && a < b; a++) {
        double own = cost_between(p, a, b), before = least[(s - 1) * n + a];
        if (own < before) own = before;
        if (own < best) best = own, from[s * n + b] = a;
      }
      least[s * n + b] = best;
    }
  first[stages] = p->list.n;
  for (int s = stages - 1; s >= 0; s--) k = from[s * n + k], first[s] = p->param[k];
  free(least), free(from);
  return MR_OK;
}

static mr_err_t plan_stages(planner_t *p, const mr_pipeline_want_t *want, int *first,
                            mr_diag_t *diag) {
  if (want->names) return mr_pipeline_names(want->names, want->stages, &p->list, first, diag);
  MR_TRY(plan_places(p, diag));
  if (want->stages < p->n) return plan_evenly(p, want->stages, first, diag);
  return mr_fail(diag, MR_ERR_CONFIG,
                 "%d stages of a model that can be cut between layers into %d at most; want fewer "
                 "stages",
                 want->stages, p->n - 1);
}

/* Fills what the stages have, and checks that the loss can be cut there. */
static mr_err_t plan_show(const planner_t *p, mr_pipeline_plan_t *out, mr_diag_t *diag) {
  mr_pipeline_cut_t cut = {0};
  for (int s = 0; s < out->cut.stages; s++) {
    int from = out->cut.first[s], to = out->cut.first[s + 1], at = cut.at;
    mr_diag_t why = {0};
    cut = (mr_pipeline_cut_t){.at = p->f->n_eqn};
    if (to < p->list.n && mr_pipeline_cut(p->line, to, &cut, &why) < 0)
      return mr_diag_prefix(diag, why.code, &why, "the cut before %s", p->list.param[to].name);
    mr_pipeline_layer(p->list.param[from].name, out->stage[s].from);
    mr_pipeline_layer(p->list.param[to - 1].name, out->stage[s].to);
    for (int i = from; i < to; i++) out->stage[s].count += (int64_t)p->list.param[i].size;
    out->stage[s].flop = mr_pipeline_flop(p->line, at, cut.at);
    out->stage[s].sent = cut.x ? mr_aval_bytes(&cut.x->aval) : 0;
  }
  return MR_OK;
}

mr_err_t mr_pipeline_plan(const mr_loss_t *l, const mr_compute_t *c, int64_t records,
                          const mr_pipeline_want_t *want, mr_pipeline_plan_t *out,
                          mr_diag_t *diag) {
  planner_t p = {.n = 0};
  mr_pipeline_plan_t plan = {.cut = {.stages = want->stages, .kind = want->kind},
                             .records = records};
  mr_err_t e =
      want->stages < 2 || want->stages > MR_PIPELINE_STAGES
          ? mr_fail(diag, MR_ERR_CONFIG, "%d stages, want [2,%d]", want->stages, MR_PIPELINE_STAGES)
          : plan_trace(&p, l, c, records, diag);
  if (e >= 0) e = plan_stages(&p, want, plan.cut.first, diag);
  if (e >= 0) e = plan_show(&p, &plan, diag);
  if (e >= 0) *out = plan;
  mr_pipeline_line_destroy(p.line);
  mr_fn_destroy(p.f);
  mr_params_fini(&p.list);
  free(p.param), free(p.at);
  return e < 0 ? e : MR_OK;
}
