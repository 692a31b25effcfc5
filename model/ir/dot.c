/* A fn as a graph in DOT's language: inputs and outputs are ellipses, equations are boxes, and each
   use of a value is an edge. */
#include <string.h>

#include "model/ir/fn.h"
#include "model/ir/op.h"

static void print_quoted(const char *text, FILE *to) {
  fputc('"', to);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', to);
    fputc(*text, to);
  }
  fputc('"', to);
}

static void print_edge(const mr_var_t *v, int i, int to_eqn, const int *of_var, FILE *to) {
  char aval[MR_AVAL_TEXT];
  if (v->literal) return;
  if (of_var[v->id] < 0)
    fprintf(to, "  in%d -> ", -1 - of_var[v->id]);
  else
    fprintf(to, "  e%d -> ", of_var[v->id]);
  if (to_eqn >= 0)
    fprintf(to, "e%d", to_eqn);
  else
    fprintf(to, "out%d", i);
  fprintf(to, " [label=\"%s\"];\n", mr_aval_text(&v->aval, aval));
}

static void print_box(const mr_eqn_t *e, int i, FILE *to) {
  fprintf(to, "  e%d [shape=box, label=", i);
  print_quoted(e->op->name, to);
  if (*e->scope) {
    fputs(", tooltip=", to);
    print_quoted(e->scope, to);
  }
  fputs("];\n", to);
}

/* Neighbouring equations of one scope share one frame. */
static void print_boxes(const mr_fn_t *f, FILE *to) {
  for (int i = 0; i < f->n_eqn; i++) {
    const char *scope = f->eqn[i]->scope;
    bool first = i == 0 || strcmp(f->eqn[i - 1]->scope, scope) != 0;
    bool last = i + 1 == f->n_eqn || strcmp(f->eqn[i + 1]->scope, scope) != 0;
    if (first && *scope) {
      fprintf(to, "  subgraph cluster_%d {\n  label=", i);
      print_quoted(scope, to);
      fputs(";\n", to);
    }
    print_box(f->eqn[i], i, to);
    if (last && *scope) fputs("  }\n", to);
  }
}

void mr_fn_dot(const mr_fn_t *f, FILE *to) {
  mr_mem_t mem = {0};
  int *of_var = mr_mem_take(&mem, (size_t)(f->n_var + 1) * sizeof(int));
  char aval[MR_AVAL_TEXT];
  for (int i = 0; i < f->n_in; i++) of_var[f->in[i]->id] = -1 - i;
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_out; k++) of_var[f->eqn[i]->out[k]->id] = i;
  fputs("digraph fn {\n  node [fontname=\"Helvetica\"];\n", to);
  for (int i = 0; i < f->n_in; i++)
    fprintf(to, "  in%d [shape=ellipse, label=\"%s\"];\n", i, mr_aval_text(&f->in[i]->aval, aval));
  print_boxes(f, to);
  for (int i = 0; i < f->n_out; i++)
    fprintf(to, "  out%d [shape=ellipse, label=\"out %d\"];\n", i, i);
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) print_edge(f->eqn[i]->in[k], k, i, of_var, to);
  for (int i = 0; i < f->n_out; i++) print_edge(f->out[i], i, -1, of_var, to);
  fputs("}\n", to);
  mr_mem_fini(&mem);
}
