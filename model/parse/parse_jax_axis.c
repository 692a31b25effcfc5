/* Equations over named axes, as this tree prints them and as jax prints them inside shard_map: in
   jax a reduction has `axes=('i', 'j')`, one after the other here, and the rest an axis_name that
   may be a tuple of one, and attributes whose only values here are those that mean nothing. */
#include <string.h>

#include "model/control/control.h"
#include "model/control/table.h"
#include "model/ops/rules.h"
#include "model/parse/parse_private.h"

typedef mr_var_t *reduce_over(mr_fn_t *f, mr_var_t *x, const char *axis_name);

/* Ops of which each equation is one call for each axis. */
static const struct {
  const char *op;
  reduce_over *emit;
} reductions[] = {{"psum", mr_lax_psum}, {"pmax", mr_lax_pmax}, {"pmin", mr_lax_pmin}};

/* The next name of "('i', 'j')" or "i" in memory of g; NULL: the text is at its end. */
static const char *next_axis(mr_fn_t *g, const char **at) {
  *at += strspn(*at, "(), '\"");
  size_t n = strcspn(*at, "(), '\"");
  char *name = n ? mr_mem_copy(&g->mem, *at, n + 1, 1) : NULL;
  if (name) name[n] = 0;
  *at += n;
  return name;
}

/* Whether an attribute has the one value that these ops can have. */
static bool says_nothing_new(const mr_attr_t *a) {
  static const char *const dims[] = {"all_gather_dimension", "scatter_dimension", "split_axis",
                                     "concat_axis"};
  if (!strcmp(a->name, "axis_index_groups")) return a->kind == MR_ATTR_NONE;
  if (!strcmp(a->name, "tiled")) return a->kind == MR_ATTR_BOOL && !a->i[0];
  if (!strcmp(a->name, "axis_size")) return a->kind == MR_ATTR_INT;
  for (size_t k = 0; k < sizeof dims / sizeof *dims; k++)
    if (!strcmp(a->name, dims[k])) return a->kind == MR_ATTR_INT && !a->i[0];
  return false;
}

/* The text of its axes; NULL, with the failure, for an equation that has other attributes. */
static const char *axes_of(mr_parser_t *p, mr_parse_line_t *l) {
  const char *axes = NULL;
  for (int i = 0; i < l->n_attr; i++) {
    const mr_attr_t *a = &l->attr[i];
    bool names = (!strcmp(a->name, "axes") || !strcmp(a->name, "axis_name")) && !axes;
    if (names && a->kind == MR_ATTR_TEXT) {
      axes = a->text;
    } else if (!says_nothing_new(a) && strcmp(a->name, "perm") != 0) {
      mr__parse_fail(p, "axis_name, and no groups, tiles or dimensions but 0, before");
      return NULL;
    }
  }
  if (!axes) mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s lacks the attribute axis_name", l->op);
  return axes;
}

static mr_var_t *emit_over(mr_fn_t *g, mr_parse_line_t *l, const mr_op_def_t *op,
                           const char *axis) {
  mr_attr_t *size = mr__parse_find(l, "axis_size"), *perm = mr__parse_find(l, "perm");
  mr_attr_t attr[2] = {mr_attr_text("axis_name", axis)};
  int n = 1;
  if (op == &mr_op_all_gather && size) attr[n++] = mr_attr_int("axis_size", size->i[0]);
  if (op == &mr_op_ppermute && perm) attr[n++] = *perm, attr[1].name = "perm";
  if ((op == &mr_op_all_gather || op == &mr_op_ppermute) && n < 2) return NULL;
  return mr_emit1(g, op, op->n_in, l->in, n, attr);
}

/* out[n_out] of a reduction over all axes of the text. */
static mr_err_t reduce_axes(mr_fn_t *g, mr_parse_line_t *l, reduce_over *emit, const char *axes,
                            mr_var_t **out) {
  for (int i = 0; i < l->n_out; i++) {
    const char *at = axes, *axis;
    out[i] = l->in[i];
    while ((axis = next_axis(g, &at))) out[i] = emit(g, out[i], axis);
  }
  return mr_rule_done(g);
}

mr_err_t mr__parse_jax_over_axes(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out,
                                 bool *done) {
  const mr_op_def_t *op = mr_op_find(l->op);
  const mr_attr_t *dims = mr__parse_find(l, "axes");
  reduce_over *reduce = NULL;
  if (!op || !op->collective || (dims && dims->kind == MR_ATTR_INTS)) return MR_OK;
  for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++)
    if (!strcmp(l->op, reductions[k].op)) reduce = reductions[k].emit;
  const char *axes = axes_of(p, l), *at = axes;
  if (!axes) return MR_ERR_DATA;
  *done = true;
  if (reduce && l->n_in == l->n_out) return reduce_axes(g, l, reduce, axes, out);
  const char *axis = next_axis(g, &at);
  if (!axis || next_axis(g, &at) || l->n_in != op->n_in || l->n_out != op->n_out)
    return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s: want one axis and %d operand%s", l->op,
                   op->n_in, op->n_in == 1 ? "" : "s");
  out[0] = emit_over(g, l, op, axis);
  if (out[0] || g->diag.code < 0) return mr_rule_done(g);
  return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s lacks the attribute %s", l->op,
                 op == &mr_op_ppermute ? "perm" : "axis_size");
}
