/* How a step lies on a mesh.  Fields of the batch lie along one axis, and whatever each of the
   parameters' rules says holds of its slots and its average too, which zero cuts further along the
   axis of the batch, and with zero=3 of its value; all else is whole on each rank. */
#include "model/train/cut.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/mesh/placement_copy.h"
#include "model/mesh/placement_rules.h"
#include "model/partition/partition.h"
#include "model/train/ranks.h"
#include "model/train/step.h"

/* ---- rules ---- */

/* The rules of the caller, then those of the model's table, which has names of other variants
   too. */
static mr_err_t read_rules(const mr_train_config_t *t, const mr_params_t *list,
                           mr_placement_rules_t *r, mr_diag_t *diag) {
  const char *own = t->partition ? t->partition : "", *table = t->table ? t->table : "";
  size_t n = strlen(own) + strlen(table) + 3;
  const char **name = calloc((size_t)list->n + 1, sizeof *name);
  char *text = malloc(n);
  mr_err_t e = name && text ? MR_OK : mr_no_memory(diag, "the rules of a partition");
  for (int i = 0; e >= 0 && i < list->n; i++) name[i] = list->param[i].name;
  if (e >= 0) e = mr_placement_rules_parse(own, r, diag);
  if (e >= 0) e = mr_placement_rules_check(r, name, list->n, diag);
  mr_placement_rules_fini(r);
  if (e >= 0) {
    snprintf(text, n, "%s%s%s", own, *own && *table ? ", " : "", table);
    e = mr_placement_rules_parse(text, r, diag);
  }
  free((void *)name), free(text);
  return e;
}

/* An axis beside that of the batch which cuts no parameter has ranks that all compute the same. */
static mr_err_t check_axes(const mr__cut_t *c, const mr_train_config_t *t, mr_diag_t *diag) {
  unsigned used = 1u << mr_mesh_batch(&c->mesh);
  for (int i = 0; i < c->list.n; i++)
    for (int d = 0; d < MR_MAX_NDIM; d++) used |= c->at[i].axes[d];
  for (int a = 0; a < c->mesh.n; a++) {
    if (c->mesh.size[a] == 1 || used >> a & 1) continue;
    return mr_fail(
        diag, MR_ERR_CONFIG,
        "partition: axis %s of the mesh has %d ranks and cuts no parameter%s: want rules "
        "with it, such as partition=\"*.kernel=(None,%s)\", or %s=1",
        c->mesh.name[a], c->mesh.size[a], t->table ? "" : ", as the model brings no table for it",
        c->mesh.name[a], c->mesh.name[a]);
  }
  return MR_OK;
}

/* The stages of pipelines are ranks along the axis of the batch, and have shares of slots. */
static mr_err_t share_stages(mr__cut_t *c, const mr_train_config_t *t, const mr_params_t *list,
                             mr_diag_t *diag) {
  int n = t->mesh->size[mr_mesh_batch(t->mesh)];
  if (!(c->share = calloc((size_t)n + 1, sizeof *c->share)))
    return mr_no_memory(diag, "shares of stages");
  for (int r = 0; r <= n; r++) c->share[r] = mr__step_first(t, list, r);
  return MR_OK;
}

/* A stage's ranks have different stages and pipelines along the axis of the batch. */
static mr_err_t check_stage_parts(const mr__cut_t *c, int i, mr_diag_t *diag) {
  int axis = mr_mesh_batch(&c->mesh);
  for (int d = 0; d < MR_MAX_NDIM; d++)
    if (c->at[i].axes[d] >> axis & 1)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "partition: %s is cut along %s, whose ranks are the stages of pipelines: want "
                     "rules with the other axes alone, or no pipeline",
                     c->list.param[i].name, c->mesh.name[axis]);
  return MR_OK;
}

static mr_err_t copy_list(const mr_params_t *list, mr_params_t *copy, mr_diag_t *diag) {
  for (int i = 0; i < list->n; i++)
    MR_TRY(
        mr_params_add(copy, list->param[i].name, list->param[i].aval, list->param[i].init, diag));
  return MR_OK;
}

/* Cuts a placement along the axis of the batch too, where a dimension allows it. */
static mr_placement_t cut_further(const mr__cut_t *c, const mr_aval_t *a, mr_placement_t p) {
  int axis = mr_mesh_batch(&c->mesh), n = c->mesh.size[axis];
  for (int d = 0; d < a->ndim; d++)
    if (p.axes[d] >> axis & 1) return p;
  for (int d = 0; d < a->ndim; d++)
    if (!p.axes[d] && a->dim[d] >= n && a->dim[d] % n == 0)
      return p.axes[d] = (uint8_t)(1u << axis), p.outer[d] = 1, p;
  return p;
}

mr_err_t mr__cut_init(const mr_train_config_t *t, const mr_params_t *list, mr__cut_t *c,
                      mr_diag_t *diag) {
  mr_placement_rules_t *rules = calloc(1, sizeof *rules);
  *c = (mr__cut_t){.mesh = *t->mesh};
  c->at = calloc((size_t)list->n + 1, sizeof *c->at);
  c->kept = calloc((size_t)list->n + 1, sizeof *c->kept);
  mr_err_t e = c->at && c->kept && rules ? MR_OK : mr_no_memory(diag, "placements");
  if (e >= 0 && t->pipeline.stages) e = share_stages(c, t, list, diag);
  if (e >= 0) e = copy_list(list, &c->list, diag);
  if (e >= 0) e = read_rules(t, list, rules, diag);
  for (int i = 0; e >= 0 && i < list->n; i++) {
    const mr_param_t *p = &list->param[i];
    e = mr_placement_rules_place(rules, &c->mesh, p->name, p->aval.ndim, p->aval.dim, &c->at[i],
                                 diag);
    if (e >= 0 && c->at[i].partial)
      e = mr_fail(
          diag, MR_ERR_CONFIG,
          "partition: %s: a parameter does not lie as terms of a sum, want B or S(DIMENSION) "
          "for each axis",
          p->name);
    if (e >= 0 && c->share) e = check_stage_parts(c, i, diag);
  }
  if (e >= 0) e = check_axes(c, t, diag);
  c->values = t->zero == 3;
  for (int i = 0; e >= 0 && i < list->n; i++)
    c->kept[i] = t->zero && !c->share ? cut_further(c, &list->param[i].aval, c->at[i]) : c->at[i];
  if (rules) mr_placement_rules_fini(rules);
  free(rules);
  return e;
}

void mr__cut_fini(mr__cut_t *c) {
  free(c->at), free(c->kept), free(c->share);
  mr_params_fini(&c->list);
  *c = (mr__cut_t){.at = NULL};
}

/* How a set of this kind lies. */
static const mr_placement_t *placement_of(const mr__cut_t *c, mr_set_kind_t kind, int i) {
  return kind == MR_SET_VALUES && !c->values ? &c->at[i] : &c->kept[i];
}

static mr_aval_t cut_aval(const mr__cut_t *c, mr_set_kind_t kind, int i) {
  const mr_placement_t *p = placement_of(c, kind, i);
  mr_aval_t a = c->list.param[i].aval;
  for (int d = 0; d < a.ndim; d++) a.dim[d] /= mr_placement_parts(p, &c->mesh, d);
  return a;
}

mr_err_t mr_train_cut_parts(const mr_train_config_t *t, const mr_params_t *list, mr_aval_t *part,
                            mr_placement_t *at, mr_diag_t *diag) {
  mr__cut_t c;
  mr_err_t e = mr__cut_init(t, list, &c, diag);
  for (int i = 0; e >= 0 && i < list->n; i++) {
    if (part) part[i] = cut_aval(&c, MR_SET_VALUES, i);
    if (at) at[i] = *placement_of(&c, MR_SET_VALUES, i);
  }
  mr__cut_fini(&c);
  return e;
}

mr_err_t mr_train_cut_slots(const mr_train_config_t *t, const mr_params_t *list, mr_aval_t *part,
                            mr_diag_t *diag) {
  mr__cut_t c;
  mr_err_t e = mr__cut_init(t, list, &c, diag);
  for (int i = 0; e >= 0 && i < list->n; i++) part[i] = cut_aval(&c, MR_SET_SLOT, i);
  mr__cut_fini(&c);
  return e;
}

/* ---- the graph ---- */

/* No name of an axis: nothing lies along that of the stages. */
static const char stages_axis[] = "stages of pipelines";

void mr__cut_mesh(const mr_train_config_t *t, mr_mesh_t *m) {
  *m = *t->mesh;
  if (t->pipeline.stages)
    snprintf(m->name[mr_mesh_batch(t->mesh)], MR_AXIS_NAME, "%s", MR__RANKS_AXIS);
}

mr_err_t mr__cut_step_fn(const mr_loss_t *l, const mr_train_config_t *t, const mr_params_t *list,
                         mr_fn_t **f, mr_diag_t *diag) {
  mr__cut_t c;
  mr_fn_t *whole = *f, *local = NULL;
  mr__share_t share = mr__step_share(t, list), values = mr__step_values(t, list);
  int n_values = values.to - values.from;
  int n_sets = mr_train_step_in_place(t, list), each = share.to - share.from;
  mr_placement_t *in = calloc((size_t)whole->n_in + 1, sizeof *in);
  mr_placement_t *out = calloc((size_t)whole->n_out + 1, sizeof *out);
  mr_err_t e = mr__cut_init(t, list, &c, diag);
  if (e >= 0 && (!in || !out)) e = mr_no_memory(diag, "placements");
  if (e >= 0) {
    mr_mesh_t mesh;
    mr__cut_mesh(t, &mesh);
    for (int i = 0; !c.share && i < l->n_fields + l->masked; i++)
      in[i].axes[0] = (uint8_t)(1u << mr_mesh_batch(&c.mesh)), in[i].outer[0] = 1;
    for (int i = 0; i < n_sets; i++)
      in[whole->n_in - n_sets + i] = out[whole->n_out - n_sets + i] =
          i < n_values ? *placement_of(&c, MR_SET_VALUES, values.from + i)
                       : c.kept[share.from + (i - n_values) % each];
    /* What stages exchange is not the partition's. */
    if (c.share) snprintf(mesh.name[mr_mesh_batch(&c.mesh)], MR_AXIS_NAME, "%s", stages_axis);
    e = mr_partition(whole, &mesh, in, out, &local, diag);
  }
  mr__cut_fini(&c);
  free(in), free(out);
  if (e < 0) return e;
  mr_fn_destroy(whole);
  return *f = local, MR_OK;
}

/* Writes a placement of array a as mr_lax_shard reads it. */
static void write_placement(const mr__cut_t *c, const mr_aval_t *a, const mr_placement_t *p,
                            char text[MR_PLACEMENT_TEXT]) {
  size_t n = 0;
  for (int d = 0; d < a->ndim; d++) {
    n += (size_t)snprintf(text + n, MR_PLACEMENT_TEXT - n, "%s", d ? "," : "(");
    if (p->outer[d] > 1)
      n += (size_t)snprintf(text + n, MR_PLACEMENT_TEXT - n, "%lld*", (long long)p->outer[d]);
    const char *before = p->axes[d] & (p->axes[d] - 1) ? "(" : "", *after = *before ? ")" : "";
    for (int x = 0; x < c->mesh.n; x++) {
      if (!(p->axes[d] >> x & 1)) continue;
      n += (size_t)snprintf(text + n, MR_PLACEMENT_TEXT - n, "%s%s", before, c->mesh.name[x]);
      before = ",";
    }
    n += (size_t)snprintf(text + n, MR_PLACEMENT_TEXT - n, "%s", p->axes[d] ? after : "None");
  }
  snprintf(text + n, MR_PLACEMENT_TEXT - n, a->ndim == 1 ? ",)" : ")");
}

static bool is_cut_further(const mr__cut_t *c, int i) {
  return memcmp(c->kept[i].axes, c->at[i].axes, sizeof c->at[i].axes) != 0;
}

bool mr__cut_gradient(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]) {
  if (!is_cut_further(c, i)) return false;
  write_placement(c, &c->list.param[i].aval, &c->kept[i], text);
  return true;
}

bool mr__cut_value(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]) {
  unsigned cut = 0;
  for (int d = 0; d < MR_MAX_NDIM; d++) cut |= c->at[i].axes[d];
  if (cut) write_placement(c, &c->list.param[i].aval, &c->at[i], text);
  return cut != 0;
}

bool mr__cut_read(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]) {
  if (!c->values || !is_cut_further(c, i)) return false;
  write_placement(c, &c->list.param[i].aval, &c->at[i], text);
  return true;
}

/* ---- parts of parameters ---- */

bool mr__cut_has(const mr__cut_t *c, int rank, mr_set_kind_t kind, int i) {
  int at[MR_MESH_AXES];
  if ((kind == MR_SET_VALUES && !c->values) || !c->share) return true;
  mr_mesh_place(&c->mesh, rank, at);
  const int *own = &c->share[at[mr_mesh_batch(&c->mesh)]];
  return own[0] <= i && i < own[1];
}

size_t mr__cut_elems(const mr__cut_t *c, mr_set_kind_t kind, int i) {
  const mr_aval_t a = cut_aval(c, kind, i);
  return (size_t)mr_aval_elems(&a);
}

mr_err_t mr__cut_list(const mr__cut_t *c, mr_params_t *part, mr_diag_t *diag) {
  for (int i = 0; i < c->list.n; i++) {
    const mr_param_t *p = &c->list.param[i];
    MR_TRY(mr_params_add(part, p->name, cut_aval(c, MR_SET_VALUES, i), p->init, diag));
  }
  return MR_OK;
}

mr_err_t mr__cut_pieces(const mr__cut_t *c, int rank, mr_params_t *part, mr_diag_t *diag) {
  size_t *elems = malloc(((size_t)part->n + 1) * sizeof *elems);
  mr_err_t e = elems ? MR_OK : mr_no_memory(diag, "pieces of a rank's parts");
  for (int k = 0; k < part->n_sets && e >= 0; k++) {
    const mr_param_set_t *set = &part->set[k];
    for (int i = 0; i < part->n; i++)
      elems[i] = mr__cut_has(c, rank, set->kind, i) ? mr__cut_elems(c, set->kind, i) : 0;
    e = mr__params_pieces(part, set->kind, set->number, elems, diag);
  }
  free(elems);
  return e;
}

void mr__cut_take(const mr__cut_t *c, int rank, const mr_params_t *whole, mr_params_t *part) {
  for (int k = 0; k < part->n_sets; k++) {
    const mr_param_set_t *to = &part->set[k];
    const mr_param_set_t *from = mr_params_set(whole, to->kind, to->number);
    for (int i = 0; from && i < part->n; i++) {
      if (!mr__cut_has(c, rank, to->kind, i)) continue;
      const mr_aval_t *a = &whole->param[i].aval;
      mr_placement_cut(placement_of(c, to->kind, i), &c->mesh, a->ndim, a->dim,
                       mr_dtype_size(to->dtype), rank, mr_params_at(whole, from, i),
                       mr_params_at(part, to, i));
    }
  }
}

void mr__cut_join_tensor(const mr__cut_t *c, int rank, const mr_param_set_t *set, int i,
                         const void *from, const mr_params_t *whole) {
  const mr_param_set_t *to = mr_params_set(whole, set->kind, set->number);
  const mr_aval_t *a = &whole->param[i].aval;
  if (to && mr__cut_has(c, rank, to->kind, i))
    mr_placement_join(placement_of(c, to->kind, i), &c->mesh, a->ndim, a->dim,
                      mr_dtype_size(to->dtype), rank, from, mr_params_at(whole, to, i));
}

void mr__cut_join(const mr__cut_t *c, int rank, const mr_params_t *part, mr_params_t *whole) {
  for (int k = 0; k < part->n_sets; k++)
    for (int i = 0; i < part->n; i++)
      mr__cut_join_tensor(c, rank, &part->set[k], i, mr_params_at(part, &part->set[k], i), whole);
}

/* ---- records ---- */

int64_t mr__cut_records(const mr_train_config_t *t, int rank, int64_t *n) {
  int at[MR_MESH_AXES], axis = mr_mesh_batch(t->mesh);
  if (t->pipeline.stages) return *n = t->batch, 0;
  mr_mesh_place(t->mesh, rank, at);
  *n = t->batch / t->mesh->size[axis];
  return *n * at[axis];
}
