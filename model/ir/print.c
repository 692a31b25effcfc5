/* Printing in jaxpr's notation.  jax breaks an equation's attributes onto lines of their own
   where the line would pass 80 columns; so does this. */
#include <stdlib.h>
#include <string.h>

#include "model/ir/fn.h"
#include "model/ops/op.h"

typedef struct names {
  int *number; /* by var id; -1: not named yet, -2: nobody uses it */
  int next;
} names_t;

static void print_name(int n, FILE *to) {
  char text[16];
  int at = (int)sizeof text;
  text[--at] = 0;
  do {
    text[--at] = (char)('a' + n % 26);
    n /= 26;
  } while (n && at);
  fputs(text + at, to);
}

static void print_use(names_t *s, const mr_var_t *v, FILE *to) {
  char aval[MR_AVAL_TEXT];
  if (!v->literal) {
    print_name(s->number[v->id], to);
    return;
  }
  if (v->aval.dtype == MR_F32 || v->aval.dtype == MR_BF16 || v->aval.dtype == MR_F64)
    mr_print_float(v->value, to);
  else if (v->aval.dtype == MR_BOOL)
    fputs(v->value != 0 ? "True" : "False", to);
  else
    fprintf(to, "%.0f", v->value);
  fprintf(to, ":%s", mr_aval_text(&v->aval, aval));
}

static void print_def(names_t *s, const mr_var_t *v, FILE *to) {
  char aval[MR_AVAL_TEXT];
  if (s->number[v->id] == -2) {
    fputc('_', to);
  } else {
    s->number[v->id] = s->next++;
    print_name(s->number[v->id], to);
  }
  fprintf(to, ":%s", mr_aval_text(&v->aval, aval));
}

static void print_attrs(const mr_eqn_t *e, bool broken, FILE *to) {
  int shown = 0;
  for (int i = 0; i < e->n_attr; i++) {
    if (e->attr[i].hidden) continue;
    fputs(shown++ ? (broken ? "\n      " : " ") : (broken ? "[\n      " : "["), to);
    mr_attr_print(&e->attr[i], to);
  }
  if (shown) fputs(broken ? "\n    ]" : "]", to);
}

static void print_tail(names_t *s, const mr_eqn_t *e, bool broken, FILE *to) {
  fprintf(to, " = %s", e->op->name);
  print_attrs(e, broken, to);
  for (int i = 0; i < e->n_in; i++) {
    fputc(' ', to);
    print_use(s, e->in[i], to);
  }
}

static void print_eqn(names_t *s, const mr_eqn_t *e, FILE *to) {
  char *head = NULL, *tail = NULL;
  size_t n_head = 0, n_tail = 0;
  FILE *h = open_memstream(&head, &n_head);
  for (int i = 0; i < e->n_out; i++) {
    if (i) fputc(' ', h);
    print_def(s, e->out[i], h);
  }
  fclose(h);
  FILE *t = open_memstream(&tail, &n_tail);
  print_tail(s, e, false, t);
  fclose(t);
  fprintf(to, "    %s", head);
  if (4 + n_head + n_tail <= 80 && !strchr(tail, '\n'))
    fputs(tail, to);
  else
    print_tail(s, e, true, to);
  fputc('\n', to);
  free(head);
  free(tail);
}

static void mark_used(const mr_fn_t *f, int *number) {
  for (int i = 0; i < f->n_var; i++) number[i] = -2;
  for (int i = 0; i < f->n_in; i++) number[f->in[i]->id] = -1;
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) number[f->eqn[i]->in[k]->id] = -1;
  for (int i = 0; i < f->n_out; i++) number[f->out[i]->id] = -1;
}

void mr_fn_print(const mr_fn_t *f, FILE *to) {
  names_t s = {.number = calloc((size_t)f->n_var + 1, sizeof(int))};
  if (!s.number) return;
  mark_used(f, s.number);
  fputs("{ lambda ;", to);
  for (int i = 0; i < f->n_in; i++) {
    fputc(' ', to);
    print_def(&s, f->in[i], to);
  }
  fputs(". let\n", to);
  for (int i = 0; i < f->n_eqn; i++) print_eqn(&s, f->eqn[i], to);
  fputs("  in (", to);
  for (int i = 0; i < f->n_out; i++) {
    if (i) fputs(", ", to);
    print_use(&s, f->out[i], to);
  }
  fputs(f->n_out == 1 ? ",) }\n" : ") }\n", to);
  free(s.number);
}

char *mr_fn_text(const mr_fn_t *f) {
  char *text = NULL;
  size_t n = 0;
  FILE *to = open_memstream(&text, &n);
  if (!to) return NULL;
  mr_fn_print(f, to);
  fclose(to);
  return text;
}

/* jax sets a function inside an attribute six columns deeper. */
void mr_fn_print_nested(const mr_fn_t *f, FILE *to) {
  char *text = mr_fn_text(f);
  for (const char *at = text; at && *at; at++) {
    if (*at == '\n' && !at[1]) break;
    fputc(*at, to);
    if (*at == '\n') fputs("      ", to);
  }
  free(text);
}
