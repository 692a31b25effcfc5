/* Printing in jaxpr's notation.  jax prints a function on one line if that ends by column 80, else
   one equation on each line; an equation that would pass column 80 has its attributes on lines of
   their own.  Names continue within the functions that an equation calls. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/ir/fn.h"
#include "model/ir/op.h"

enum { WIDTH = 80 };

typedef struct names {
  int *number;           /* by var id; -1: not named yet, -2: unused */
  int *next;             /* next name; shared by all functions of one text */
  bool *short_of_memory; /* shared too */
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
  if (mr_is_float(v->aval.dtype))
    mr_print_float(v->value, to);
  else if (v->aval.dtype == MR_BOOL)
    fputs(v->value != 0 ? "True" : "False", to);
  else if (v->aval.dtype == MR_U64)
    fprintf(to, "%llu", (unsigned long long)v->whole);
  else
    fprintf(to, "%lld", (long long)v->whole);
  fprintf(to, ":%s", mr_aval_text(&v->aval, aval));
}

static void print_def(names_t *s, const mr_var_t *v, FILE *to) {
  char aval[MR_AVAL_TEXT];
  if (s->number[v->id] == -1) s->number[v->id] = (*s->next)++;
  if (s->number[v->id] == -2)
    fputc('_', to);
  else
    print_name(s->number[v->id], to);
  fprintf(to, ":%s", mr_aval_text(&v->aval, aval));
}

/* A `line` argument: FLAT for all on one line, else the column in which lines begin. */
enum { FLAT = -1 };

static void print_fn(const mr_fn_t *f, names_t *around, const mr_eqn_t *call, int line, int column,
                     FILE *to);

static void new_line(int column, FILE *to) { fprintf(to, "\n%*s", column, ""); }

static void print_fns(names_t *s, const mr_eqn_t *e, const mr_attr_t *a, int line, FILE *to) {
  for (int k = 0; k < a->n; k++) {
    if (line != FLAT)
      new_line(line + 2, to);
    else if (k)
      fputc(' ', to);
    print_fn(a->fns[k], s, e, line == FLAT ? FLAT : line + 2, line + 2, to);
  }
  if (line != FLAT) new_line(line, to);
}

static void print_attr(names_t *s, const mr_eqn_t *e, const mr_attr_t *a, int line, FILE *to) {
  if (a->kind != MR_ATTR_FN && a->kind != MR_ATTR_FNS) {
    mr_attr_print(a, to);
    return;
  }
  fprintf(to, "%s=", a->name);
  if (a->kind == MR_ATTR_FN) {
    print_fn(a->fn, s, e, line, line + (int)strlen(a->name) + 1, to);
    return;
  }
  fputc('(', to);
  print_fns(s, e, a, line, to);
  fputc(')', to);
}

/* jax sorts attributes by name, but prints the name of a function called by name first. */
static const mr_attr_t *attr_in_order(const mr_eqn_t *e, int i) {
  const mr_attr_t *name = e->op->shares_names ? mr_attr_find(e, "name") : NULL;
  if (!name) return &e->attr[i];
  return i == 0 ? name : &e->attr[i - (&e->attr[i - 1] < name)];
}

static void print_attrs(names_t *s, const mr_eqn_t *e, int line, FILE *to) {
  int shown = 0;
  for (int i = 0; i < e->n_attr; i++) {
    const mr_attr_t *a = attr_in_order(e, i);
    if (a->hidden) continue;
    if (!shown) fputc('[', to);
    if (line != FLAT)
      new_line(line + 2, to);
    else if (shown)
      fputc(' ', to);
    print_attr(s, e, a, line == FLAT ? FLAT : line + 2, to);
    shown++;
  }
  if (shown && line != FLAT) new_line(line, to);
  if (shown) fputc(']', to);
}

static void print_tail(names_t *s, const mr_eqn_t *e, int line, FILE *to) {
  fprintf(to, " = %s", e->op->name);
  print_attrs(s, e, line, to);
  for (int i = 0; i < e->n_in; i++) {
    fputc(' ', to);
    print_use(s, e->in[i], to);
  }
}

/* Returns the text that was printed to t, which the caller frees; NULL without memory, noted in
   s. */
static char *close_text(const names_t *s, mr_text_out_t *out, FILE *t, size_t *n) {
  char *text = mr_text_out_close(out, t, n);
  if (!text) *s->short_of_memory = true;
  return text;
}

static size_t print_print_head(names_t *s, const mr_eqn_t *e, FILE *to) {
  mr_text_out_t out;
  size_t n;
  FILE *t = mr_text_out_open(&out);
  for (int i = 0; t && i < e->n_out; i++) {
    if (i) fputc(' ', t);
    print_def(s, e->out[i], t);
  }
  char *text = close_text(s, &out, t, &n);
  if (text) fputs(text, to);
  free(text);
  return n;
}

/* Tries one line first; names that the attempt gave out are taken back if it is too long. */
static void print_eqn(names_t *s, const mr_eqn_t *e, int line, FILE *to) {
  size_t n_head = print_print_head(s, e, to), n_tail;
  mr_text_out_t out;
  if (line == FLAT) {
    print_tail(s, e, FLAT, to);
    return;
  }
  int next = *s->next;
  FILE *t = mr_text_out_open(&out);
  if (t) print_tail(s, e, FLAT, t);
  char *tail = close_text(s, &out, t, &n_tail);
  if (!tail) return;
  if ((size_t)line + n_head + n_tail <= WIDTH) {
    fputs(tail, to);
  } else {
    *s->next = next; /* the attempt names nothing */
    print_tail(s, e, line, to);
  }
  free(tail);
}

static void mark_used(const mr_fn_t *f, int *number) {
  for (int i = 0; i < f->n_var; i++) number[i] = -2;
  for (int i = 0; i < f->n_in; i++) number[f->in[i]->id] = -1;
  for (int i = 0; i < f->n_eqn; i++)
    for (int k = 0; k < f->eqn[i]->n_in; k++) number[f->eqn[i]->in[k]->id] = -1;
  for (int i = 0; i < f->n_out; i++) number[f->out[i]->id] = -1;
}

/* A function that jit calls takes the names of the values that it is called on. */
static void print_name_all(names_t *s, const mr_fn_t *f, const names_t *around,
                           const mr_eqn_t *call) {
  mark_used(f, s->number);
  if (!call || !call->op->shares_names) return;
  for (int i = 0; i < f->n_in && i < call->n_in; i++)
    if (s->number[f->in[i]->id] == -1 && !call->in[i]->literal)
      s->number[f->in[i]->id] = around->number[call->in[i]->id];
  for (int i = 0; i < f->n_out && i < call->n_out; i++)
    if (s->number[f->out[i]->id] == -1 && around->number[call->out[i]->id] >= 0)
      s->number[f->out[i]->id] = around->number[call->out[i]->id];
}

static void print_fn_lines(names_t *s, const mr_fn_t *f, int line, FILE *to) {
  fputs("{ lambda ;", to);
  for (int i = 0; i < f->n_in; i++) {
    fputc(' ', to);
    print_def(s, f->in[i], to);
  }
  fputs(f->n_eqn || line != FLAT ? ". let" : ". let ", to);
  for (int i = 0; i < f->n_eqn; i++) {
    if (line != FLAT)
      new_line(line + 4, to);
    else
      fputs(i ? "; " : " ", to);
    print_eqn(s, f->eqn[i], line == FLAT ? FLAT : line + 4, to);
  }
  if (line != FLAT)
    new_line(line + 2, to);
  else
    fputc(' ', to);
  fputs("in (", to);
  for (int i = 0; i < f->n_out; i++) {
    if (i) fputs(", ", to);
    print_use(s, f->out[i], to);
  }
  fputs(f->n_out == 1 ? ",) }" : ") }", to);
}

/* line: column in which the function's lines begin; column: that of its opening brace. */
static void print_fn(const mr_fn_t *f, names_t *around, const mr_eqn_t *call, int line, int column,
                     FILE *to) {
  names_t s = {calloc((size_t)f->n_var + 1, sizeof(int)), around->next, around->short_of_memory};
  mr_text_out_t out;
  size_t n;
  int next = *s.next;
  if (!s.number) {
    *s.short_of_memory = true;
    return;
  }
  print_name_all(&s, f, around, call);
  FILE *t = mr_text_out_open(&out);
  if (t) print_fn_lines(&s, f, FLAT, t);
  char *flat = close_text(&s, &out, t, &n);
  if (flat && (line == FLAT || (size_t)column + n <= WIDTH)) {
    fputs(flat, to);
  } else if (flat) {
    *s.next = next;
    print_name_all(&s, f, around, call);
    print_fn_lines(&s, f, line, to);
  }
  free(flat);
  free(s.number);
}

mr_err_t mr_fn_print(const mr_fn_t *f, FILE *to) {
  int next = 0;
  bool short_of_memory = false;
  print_fn(f, &(names_t){.next = &next, .short_of_memory = &short_of_memory}, NULL, 0, 0, to);
  fputc('\n', to);
  return short_of_memory ? MR_ERR_NOMEM : MR_OK;
}

char *mr_fn_text(const mr_fn_t *f) {
  mr_text_out_t out;
  FILE *to = mr_text_out_open(&out);
  mr_err_t e = to ? mr_fn_print(f, to) : MR_ERR_NOMEM;
  char *text = mr_text_out_close(&out, to, NULL);
  if (e >= 0) return text;
  free(text);
  return NULL;
}

mr_err_t mr_fn_each_text(const mr_fn_t *f, int n, mr_eqn_text_fn *take, void *arg) {
  int next = 0;
  bool short_of_memory = false;
  mr_text_out_t out;
  names_t s = {calloc((size_t)f->n_var + 1, sizeof(int)), &next, &short_of_memory};
  if (!s.number) return MR_ERR_NOMEM;
  print_name_all(&s, f, NULL, NULL);
  for (int i = -1; i < n && !short_of_memory; i++) {
    FILE *to = mr_text_out_open(&out);
    for (int k = 0; to && i < 0 && k < f->n_in; k++) print_def(&s, f->in[k], to);
    if (to && i >= 0) print_eqn(&s, f->eqn[i], FLAT, to);
    char *text = close_text(&s, &out, to, NULL);
    if (text && i >= 0) take(arg, i, text);
    free(text);
  }
  free(s.number);
  return short_of_memory ? MR_ERR_NOMEM : MR_OK;
}
