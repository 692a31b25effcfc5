/* The report of `millrace explain` as JSON: one object for each move, product, composite and pass,
   all of them and in the order of the graph.  Nothing is merged or cut here; that is what the
   tables do. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "apps/look/explain.h"
#include "model/ir/op.h"

static void explain_graph_json_add_eqn(cJSON *o, const char *op, const char *scope,
                                       const mr_eqn_t *e) {
  if (!e) return;
  cJSON_AddStringToObject(o, op, e->op->name);
  cJSON_AddStringToObject(o, scope, e->scope);
}

static cJSON *move_of(const mr_explanation_t *x, const mr_move_row_t *r) {
  char what[2 * MR_AVAL_TEXT], equation[MR_EQUATION_TEXT];
  cJSON *o = cJSON_CreateObject();
  mr_move_text(x, r, what, sizeof what);
  cJSON_AddStringToObject(o, "kind", mr_move_kind_name(r->kind));
  cJSON_AddStringToObject(o, "what", what);
  cJSON_AddNumberToObject(o, "bytes", (double)r->bytes);
  cJSON_AddNumberToObject(o, "times", (double)r->times);
  if (r->when) cJSON_AddStringToObject(o, "when", r->when);
  cJSON_AddNumberToObject(o, "share", x->made.bytes > 0 ? (double)r->bytes / x->made.bytes : 0);
  if (r->ns >= 0 && x->made.ns > 0) {
    cJSON_AddNumberToObject(o, "ns", r->ns);
    cJSON_AddNumberToObject(o, "time_share", r->ns / x->made.ns);
  }
  explain_graph_json_add_eqn(o, "op", "scope", r->eqn);
  if (r->eqn) cJSON_AddStringToObject(o, "by", r->eqn->by);
  if (r->eqn && r->eqn->of) cJSON_AddStringToObject(o, "of", r->eqn->of->name);
  if (r->eqn && r->eqn->row) cJSON_AddStringToObject(o, "row", r->eqn->row);
  mr_move_equation(r, equation, sizeof equation);
  if (*equation) cJSON_AddStringToObject(o, "equation", equation);
  if (r->loop) cJSON_AddTrueToObject(o, "in_loop");
  explain_graph_json_add_eqn(o, "for_op", "for_scope", r->user);
  cJSON_AddNumberToObject(o, "readers", r->n_user);
  return o;
}

static cJSON *product_of(const mr_product_row_t *p) {
  cJSON *o = cJSON_CreateObject();
  explain_graph_json_add_eqn(o, "op", "scope", p->eqn);
  cJSON_AddStringToObject(o, "asked", mr_precision_name(p->asked));
  cJSON_AddStringToObject(o, "executed", p->how);
  cJSON_AddNumberToObject(o, "flop", p->flop);
  cJSON_AddNumberToObject(o, "times", (double)p->times);
  if (p->when) cJSON_AddStringToObject(o, "when", p->when);
  return o;
}

static cJSON *composite_of(const mr_composite_row_t *r) {
  char text[512];
  cJSON *o = cJSON_CreateObject();
  mr_composite_text(r, text, sizeof text);
  explain_graph_json_add_eqn(o, "op", "scope", r->eqn);
  cJSON_AddStringToObject(o, "what", text);
  if (r->opened) cJSON_AddStringToObject(o, "of", r->opened->name);
  cJSON_AddNumberToObject(o, "times", (double)r->times);
  if (r->when) cJSON_AddStringToObject(o, "when", r->when);
  return o;
}

static cJSON *kernel_of(const mr_kernel_row_t *r) {
  char text[512];
  cJSON *o = cJSON_CreateObject();
  mr_kernel_text(r, text, sizeof text);
  explain_graph_json_add_eqn(o, "op", "scope", r->eqn);
  cJSON_AddStringToObject(o, "what", text);
  cJSON_AddNumberToObject(o, "number", r->number);
  if (r->registers >= 0) cJSON_AddNumberToObject(o, "registers", r->registers);
  if (r->stack >= 0) cJSON_AddNumberToObject(o, "stack_bytes", r->stack);
  return o;
}

static cJSON *pass_of(const mr_pass_row_t *p) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", p->name);
  cJSON_AddNumberToObject(o, "before", p->before);
  cJSON_AddNumberToObject(o, "after", p->after);
  return o;
}

mr_err_t mr_explanation_json(const mr_explanation_t *x, FILE *to, mr_diag_t *diag) {
  const mr_explained_t *m = &x->made;
  cJSON *all = cJSON_CreateObject();
  cJSON *moves = cJSON_AddArrayToObject(all, "moves");
  cJSON *products = cJSON_AddArrayToObject(all, "products");
  cJSON *composites = cJSON_AddArrayToObject(all, "composites");
  cJSON *passes = cJSON_AddArrayToObject(all, "passes");
  for (int i = 0; i < m->n_move; i++) cJSON_AddItemToArray(moves, move_of(x, &m->move[i]));
  for (int i = 0; i < m->n_product; i++) cJSON_AddItemToArray(products, product_of(&m->product[i]));
  for (int i = 0; i < m->n_composite; i++)
    cJSON_AddItemToArray(composites, composite_of(&m->composite[i]));
  cJSON *kernels = x->kernel ? cJSON_AddArrayToObject(all, "generated") : NULL;
  for (int i = 0; i < x->n_kernel; i++) cJSON_AddItemToArray(kernels, kernel_of(&x->kernel[i]));
  for (int i = 0; i < x->n_pass; i++) cJSON_AddItemToArray(passes, pass_of(&x->pass[i]));
  cJSON_AddNumberToObject(all, "bytes", m->bytes);
  cJSON_AddNumberToObject(all, "flop", m->flop);
  if (m->ns > 0) cJSON_AddNumberToObject(all, "ns", m->ns);
  cJSON_AddNumberToObject(all, "equations", m->n_eqn);
  if (m->kernels > 0) cJSON_AddNumberToObject(all, "kernels", m->kernels);
  if (x->slots) cJSON_AddNumberToObject(all, "slots_bytes", (double)x->slots);
  char *text = cJSON_Print(all);
  cJSON_Delete(all);
  if (!text) return mr_no_memory(diag, "the JSON of explain");
  fprintf(to, "%s\n", text);
  free(text);
  return MR_OK;
}
