/* Settling: turns texts into checked settings, links ports, sorts the stages, and plans each one
   from sources to sinks, which settles every spec. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/records/care_private.h"
#include "pipeline/records/records_private.h"
#include "pipeline/stage_step.h"

/* ---- settings ---- */

static mr_err_t set_one(mr_graph_t *g, mr__node_t *node, const mr__setting_t *set,
                        mr_diag_t *diag) {
  static const mr_opt_t workers = {
      .name = "workers", .type = MR_OPT_INT, .unit = "threads", .lo = 1, .hi = MR_MAX_WORKERS};
  char at[160], who[256];
  snprintf(who, sizeof who, "%s%s", mr__setting_where(g, node->def, set, at, sizeof at),
           node->name);
  const char *text = mr__setting_text(set);
  const mr_opt_t *o = mr_stage_def_opt(node->def, set->name);
  if (o) return mr_opt_set(o, node->state, who, text, diag);
  int64_t n;
  MR_TRY(mr_opt_set(&workers, &n, who, text, diag));
  node->n_workers = (int)n;
  return MR_OK;
}

static bool is_set(const mr__node_t *node, const char *name) {
  for (int i = 0; i < node->n_set; i++)
    if (!strcmp(node->set[i].name, name)) return true;
  return false;
}

static mr_err_t settle_settings(mr_graph_t *g, mr__node_t *node, mr_diag_t *diag) {
  char at[32];
  mr__node_forget(node);
  memset(node->state, 0, node->def->state_sz);
  node->n_workers = mr__is_step(node->def) ? 1 : 0;
  for (const mr_opt_t *o = node->def->opts; o && o->type != MR_OPT_END; o++) {
    if (is_set(node, o->name)) continue;
    if (o->def)
      MR_TRY(mr_opt_set(o, node->state, node->name, o->def, diag));
    else if (o->type != MR_OPT_STR && o->type != MR_OPT_SECRET)
      return mr_fail(diag, MR_ERR_CONFIG, "%s%s: setting %s must be given",
                     mr__pos_text(node->pos, at, sizeof at), node->name, o->name);
  }
  uint64_t given[MR_SETTINGS_MAX / 64] = {0};
  for (int i = 0; i < node->n_set; i++) {
    const mr_opt_t *o = mr_stage_def_opt(node->def, node->set[i].name);
    MR_TRY(set_one(g, node, &node->set[i], diag));
    if (!o) continue;
    ptrdiff_t bit = o - node->def->opts;
    assert(bit < MR_SETTINGS_MAX);
    given[bit / 64] |= UINT64_C(1) << bit % 64;
  }
  if (!mr__node_ports(node, mr__count_inputs(g, node))) return mr_no_memory(diag, "a stage");
  free(node->reported);
  const mr_stage_t ports = *node->worker;
  if (!(node->reported = mr__metrics_none(node->def))) return mr_no_memory(diag, "a stage");
  *node->worker = (mr_stage_t){.def = node->def,
                               .reported = node->reported,
                               .name = node->name,
                               .state = node->state,
                               .n_workers = 1,
                               .start_position = node->start_position,
                               .registry = g->reg,
                               .elsewhere = g->here && node->process != g->here,
                               .base_seed = -1,
                               .n_in = ports.n_in,
                               .n_out = ports.n_out,
                               .in_spec = ports.in_spec,
                               .out_spec = ports.out_spec,
                               .in_linked = ports.in_linked,
                               .out_linked = ports.out_linked,
                               .in_name = ports.in_name,
                               .in_from = ports.in_from};
  memcpy(node->worker->given, given, sizeof given);
  return MR_OK;
}

/* ---- ports ---- */

static mr_err_t link_ports(mr_graph_t *g, mr_diag_t *diag) {
  char at[32];
  for (int i = 0; i < g->n_nodes; i++) {
    mr__node_t *node = g->node[i];
    free(node->edge_in);
    node->edge_in = calloc((size_t)node->worker->n_in + 1, sizeof *node->edge_in);
    if (!node->edge_in) return mr_no_memory(diag, "a stage");
  }
  for (int i = 0; i < g->n_edges; i++) {
    const mr__edge_t *e = &g->edge[i];
    mr__node_t *from = g->node[e->from], *to = g->node[e->to];
    if (to->worker->in_linked[e->in])
      return mr_fail(diag, MR_ERR_USAGE, "%s%s.%s has two connections, from %s and %s",
                     mr__pos_text(e->pos, at, sizeof at), to->name, mr__edge_in_name(g, e),
                     g->node[mr__edge_into(g, e->to, e->in)->from]->name, from->name);
    to->worker->in_linked[e->in] = true;
    to->worker->in_name[e->in] = mr__edge_in_name(g, e);
    to->worker->in_from[e->in] = from->name;
    to->edge_in[e->in] = i + 1;
    from->worker->out_linked[e->out] = true;
  }
  return MR_OK;
}

/* Why a required output is not connected: what follows its stage, into text[0,n). */
static const char *after_output(const mr_graph_t *g, const mr__node_t *node, char *text, size_t n) {
  char such[96];
  text[0] = 0;
  if (!node->next) {
    mr_registry_role_name(g->reg, MR_ROLE_DISCARD, "a sink", such, sizeof such);
    snprintf(text, n, "; join it by \"!\" to the stage that takes it, such as %s", such);
    return text;
  }
  const mr_opt_t *o = mr_stage_def_opt_taking(node->def, node->next);
  if (o)
    snprintf(text, n, ": \"%s\" after it is a stage of another chain; write %s=%s", node->next,
             o->name, node->next);
  else
    snprintf(text, n, ": \"%s\" after it begins another chain; put \"!\" between them", node->next);
  return text;
}

static mr_err_t settle_check_ports(const mr_graph_t *g, const mr__node_t *node, mr_diag_t *diag) {
  for (int out = 0; out < 2; out++) {
    const mr_port_def_t *port = out ? node->def->out : node->def->in;
    const bool *linked = out ? node->worker->out_linked : node->worker->in_linked;
    for (int i = 0; i < MR_MAX_PORTS && port[i].name; i++) {
      char at[32], hint[256] = "";
      if (linked[i] || port[i].optional) continue;
      return mr_fail(diag, MR_ERR_USAGE, "%s%s: the %s \"%s\" is not connected%s",
                     mr__pos_text(node->pos, at, sizeof at), node->name, out ? "output" : "input",
                     port[i].name, out ? after_output(g, node, hint, sizeof hint) : hint);
    }
  }
  return MR_OK;
}

/* ---- order ---- */

static mr_err_t fail_cycle(const mr_graph_t *g, const int *waits, mr_diag_t *diag) {
  char list[400] = "", at[32] = "";
  for (int i = 0; i < g->n_nodes; i++) {
    if (!waits[i]) continue;
    if (!*list) mr__pos_text(g->node[i]->pos, at, sizeof at);
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", g->node[i]->name);
  }
  return mr_fail(diag, MR_ERR_USAGE, "%sthe graph has a cycle through %s", at, list);
}

/* Kahn's algorithm; ready stages keep the order of the text. */
static mr_err_t sort_nodes(mr_graph_t *g, mr_diag_t *diag) {
  int *waits = calloc((size_t)g->n_nodes + 1, sizeof *waits), done = 0;
  g->order = calloc((size_t)g->n_nodes + 1, sizeof *g->order);
  if (!waits || !g->order) return free(waits), mr_no_memory(diag, "the order of the stages");
  for (int i = 0; i < g->n_edges; i++) waits[g->edge[i].to]++;
  for (int i = 0; i < g->n_nodes; i++)
    if (!waits[i]) g->order[done++] = i;
  for (int at = 0; at < done; at++)
    for (int i = 0; i < g->n_edges; i++)
      if (g->edge[i].from == g->order[at] && --waits[g->edge[i].to] == 0)
        g->order[done++] = g->edge[i].to;
  assert(done <= g->n_nodes); /* each once */
  mr_err_t e = done < g->n_nodes ? fail_cycle(g, waits, diag) : MR_OK;
  free(waits);
  return e;
}

/* ---- specs ---- */

static const char *flow_name(mr_flow_t f) {
  static const char *const name[] = {"anything", "records", "batches", "metrics", "state", "bytes"};
  return name[f];
}

/* Whether the stage behind an edge can read batches where they lie. */
static mr_err_t settle_memory(const mr_graph_t *g, const mr__edge_t *e, const mr_spec_t *spec,
                              mr_diag_t *diag) {
  const mr__node_t *from = g->node[e->from], *to = g->node[e->to];
  char text[32];
  bool passes_on = to->def->out[0].name || (to->def->step && to->def->step->outside);
  if (mr_stage_def_input(to->def, e->in)->device || (!spec->device && !(spec->ranks && passes_on)))
    return MR_OK;
  const mr_stage_def_t *trains = mr_registry_role(g->reg, MR_ROLE_STEP);
  const char *step = trains ? trains->name : "training step";
  const char *at = mr__pos_text(e->pos, text, sizeof text);
  if (spec->ranks)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%s: its input \"%s\" has no ranks, and %d ranks share the batches of %s; put "
                   "%s directly before the input \"in\" of a %s on the CPU",
                   at, to->name, mr__edge_in_name(g, e), spec->ranks, from->name, from->name, step);
  if (to->def->out[0].device)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%s: the batches of %s lie on device %s already; leave one of the two out", at,
                   to->name, from->name, spec->device);
  if (to->def->step && to->def->step->outside)
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%s: a link sends batches from the host's memory, and those of %s lie on "
                   "device %s; put %s behind the link, directly before the input \"in\" of a %s",
                   at, to->name, from->name, spec->device, from->name, step);
  return mr_fail(
      diag, MR_ERR_SHAPE,
      "%s%s: its input \"%s\" reads batches in the host's memory, and those of %s lie on "
      "device %s; put %s directly before the input \"in\" of a %s",
      at, to->name, mr__edge_in_name(g, e), from->name, spec->device, from->name, step);
}

/* Checks what the reports of a stage are declared to hold: each number has one name and a place in
   every face. */
static mr_err_t check_metric_list(const char *stage, const mr_metric_list_t *list,
                                  mr_diag_t *diag) {
  for (size_t i = 0; list && i < list->n; i++) {
    const mr_metric_def_t *d = list->def[i];
    if (!d || !d->name) return mr_metric_check(stage, NULL, MR_METRIC_STEP, diag);
    if (mr_metric_own(d->name) != d) {
      bool known =
          d->role == MR_METRIC_JUDGED || d->role == MR_METRIC_STEP || d->role == MR_METRIC_MACHINE;
      MR_TRY(mr_metric_check(stage, d->name, known ? d->role : MR_METRIC_STEP, diag));
      if (!known)
        return mr_fail(
            diag, MR_ERR_CONFIG,
            "%s: its metric \"%.80s\" has role %d; want MR_METRIC_JUDGED, MR_METRIC_STEP "
            "or MR_METRIC_MACHINE",
            stage, d->name, (int)d->role);
    }
    for (size_t k = 0; k < i; k++)
      if (!strcmp(list->def[k]->name, d->name))
        return mr_fail(diag, MR_ERR_CONFIG, "%s: it reports the metric \"%.80s\" twice", stage,
                       d->name);
  }
  return MR_OK;
}

static mr_err_t settle_edge(mr_graph_t *g, const mr__edge_t *e, mr_diag_t *diag) {
  mr__node_t *from = g->node[e->from], *to = g->node[e->to];
  const mr_spec_t *spec = &from->worker->out_spec[e->out];
  mr_flow_t want = mr_stage_def_input(to->def, e->in)->flow;
  char at[32], text[160], other[256];
  to->worker->in_spec[e->in] = *spec;
  if (spec->flow == MR_FLOW_METRICS && !mr_spec_bytes(spec))
    return mr_fail(diag, MR_ERR_SHAPE,
                   "%s%s: its plan leaves the records of output \"%s\" without a size; set "
                   "out_spec[%d] with mr_report_spec",
                   mr__pos_text(e->pos, at, sizeof at), from->name, from->def->out[e->out].name,
                   e->out);
  MR_TRY(check_metric_list(from->name, spec->metrics, diag));
  bool records = spec->flow == MR_FLOW_RECORDS;
  for (int f = 0; f < spec->n_fields && records && mr__is_step(to->def); f++)
    if (spec->field[f].varies)
      return mr_fail(
          diag, MR_ERR_SHAPE,
          "%s%s: field %s holds pictures of different sizes, and %s takes records of "
          "one size; %s before it makes them so",
          mr__pos_text(e->pos, at, sizeof at), to->name, spec->field[f].name, to->name,
          mr_registry_role_list(g->reg, MR_ROLE_SIZES, "size", "N", "HxW", other, sizeof other));
  if (want == spec->flow || (want == MR_FLOW_NONE && !records))
    return settle_memory(g, e, spec, diag);
  mr_spec_text(spec, text, sizeof text);
  mr_registry_role_name(g->reg, MR_ROLE_BATCH, "stage for it", other, sizeof other);
  return mr_fail(diag, MR_ERR_SHAPE, "%s%s gives %s, but %s takes %s%s%s%s",
                 mr__pos_text(e->pos, at, sizeof at), from->name, text, to->name,
                 want == MR_FLOW_NONE ? "buffers" : flow_name(want), records ? " (a " : "",
                 records ? other : "", records ? " makes batches of records)" : "");
}

/* The sentence of a failed plan, with its place in the text and the input specs. */
static mr_err_t explain_plan(mr_graph_t *g, int i, mr_err_t code, const mr_diag_t *why,
                             mr_diag_t *diag) {
  const mr__node_t *node = g->node[i];
  char at[32], from[512] = "", spec[160];
  for (int p = 0; p < node->worker->n_in && code == MR_ERR_SHAPE; p++) {
    const mr__edge_t *e = mr__edge_into(g, i, p);
    if (!e) continue;
    size_t n = strlen(from);
    mr_spec_text(&node->worker->in_spec[p], spec, sizeof spec);
    snprintf(from + n, sizeof from - n, "; %s gives %s", g->node[e->from]->name, spec);
  }
  mr__pos_text(node->pos, at, sizeof at);
  if (why->code >= 0)
    return mr_fail(diag, code, "%s%s: %s%s", at, node->name, mr_err_text(code), from);
  return mr_fail(diag, code, "%s%s%s", at, why->text, from);
}

/* A stage that copies a spec and gives a label another number of classes has other classes than
   those that the names are of. */
static void forget_stale_names(mr_spec_t *spec) {
  for (int f = 0; f < spec->n_fields && f < MR_FIELDS_MAX; f++) {
    mr_field_t *field = &spec->field[f];
    if (field->classes && field->n_classes && field->n_classes != field->classes->n)
      field->classes = NULL;
  }
}

static mr_err_t plan_node(mr_graph_t *g, int i, mr_diag_t *diag) {
  mr__node_t *node = g->node[i];
  mr_diag_t why = {0};
  for (int k = node->first_in; k; k = g->edge[k - 1].next_in)
    MR_TRY(settle_edge(g, &g->edge[k - 1], diag));
  node->worker->diag = &why;
  node->worker->n_workers = node->n_workers ? node->n_workers : 1;
  for (int p = 0; p < node->worker->n_out; p++)
    node->worker->out_spec[p].flow = node->def->out[p].flow;
  node->worker->writes = node->worker->reads = 0;
  node->worker->renumber = NULL;
  memset(node->worker->from, 0, sizeof node->worker->from);
  mr_err_t e = mr__default_seed(g, i, node->worker);
  if (e >= 0) e = mr__before_plan(node->worker);
  if (e >= 0) e = mr__care_plan(node->worker);
  if (e >= 0 && node->def->plan) node->planned = true, e = node->def->plan(node->worker);
  for (int p = 0; p < node->worker->n_out && e >= 0; p++)
    forget_stale_names(&node->worker->out_spec[p]);
  if (e >= 0) e = mr__after_plan(node->worker);
  node->worker->diag = NULL;
  if (e < 0) return explain_plan(g, i, e, &why, diag);
  for (int w = 1; w < node->n_workers; w++) {
    node->worker[w] = *node->worker;
    node->worker[w].worker = w;
  }
  return MR_OK;
}

static mr_err_t settle_settle(mr_graph_t *g, mr_diag_t *diag) {
  if (!g->n_nodes) return mr_fail(diag, MR_ERR_USAGE, "the graph has no stages");
  MR_TRY(mr__process_count(g, diag));
  free(g->order), g->order = NULL;
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(settle_settings(g, g->node[i], diag));
  MR_TRY(link_ports(g, diag));
  MR_TRY(sort_nodes(g, diag));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(settle_check_ports(g, g->node[i], diag));
  for (int i = 0; i < g->n_nodes; i++) MR_TRY(plan_node(g, g->order[i], diag));
  for (int i = 0; i < g->n_nodes; i++)
    for (int p = 0; p < g->node[i]->worker->n_in && g->node[i]->n_workers; p++)
      MR_TRY(mr__chain_check(g, i, p, diag));
  MR_TRY(mr__check_standstill(g, diag));
  if (g->here) MR_TRY(mr__process_drop_others(g, diag));
  g->settled = true;
  return MR_OK;
}

mr_err_t mr_graph_settle(mr_graph_t *g, mr_diag_t *diag) {
  if (g->settled) return MR_OK;
  mr_diag_t why = {0};
  mr_halt_t outer = mr_halt_set(mr__graph_halt(g));
  mr_err_t e = settle_settle(g, &why);
  mr_halt_set(outer);
  if (e >= 0 || !why.code) return e;
  return mr__fail_at_origin(g, e, &why, diag);
}
