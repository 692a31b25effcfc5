/* The report of `millrace explain` as tables for people.  Layers repeat, so rows whose text is
   equal once the layer's number is a star are merged, and the most expensive come first; --all
   prints each of them. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apps/look/explain.h"
#include "base/text.h"
#include "model/exec/backend.h"
#include "model/ops/lax.h"
#include "model/ops/rules.h"

enum { LINE = 768 };

/* Rows of equal text, added up. */
typedef struct sum {
  char text[LINE];
  int number; /* position in order of appearance */
  int64_t calls;
  double amount;
  double ns; /* of the rows that have a time; -1: none has */
} sum_t;

typedef struct sums {
  sum_t *row;
  int n;
} sums_t;

static void explain_graph_table_add(sums_t *s, const char *text, double amount, int64_t times,
                                    double ns) {
  int i = 0;
  while (i < s->n && strcmp(s->row[i].text, text)) i++;
  if (i == s->n) {
    s->row[s->n++] = (sum_t){.number = i, .ns = -1};
    snprintf(s->row[i].text, LINE, "%s", text);
  }
  s->row[i].calls += times;
  s->row[i].amount += amount;
  if (ns >= 0) s->row[i].ns = ns + (s->row[i].ns >= 0 ? s->row[i].ns : 0);
}

static int by_amount(const void *a, const void *b) {
  const sum_t *x = a, *y = b;
  if (x->amount != y->amount) return (x->amount < y->amount) - (x->amount > y->amount);
  return x->number - y->number; /* qsort is stable only while it has memory */
}

/* Replaces the number of a layer by a star: "encoder_blocks.3.attn" -> "encoder_blocks.*.attn". */
static void star_layer_number(char *text, const char *scope, size_t size, bool all) {
  size_t at = 0;
  for (const char *c = scope; *c && at + 1 < size; c++) {
    bool number = isdigit((unsigned char)*c) && (c == scope || c[-1] == '.' || c[-1] == '/');
    text[at++] = number && !all ? '*' : *c;
    while (number && !all && isdigit((unsigned char)c[1])) c++;
  }
  text[at] = 0;
  if (at && text[at - 1] == '.') text[at - 1] = 0;
}

/* What asked for a move, wherever it is: the row of a policy, a setting, a transform or pass. */
static const char *asked_by(const mr_move_row_t *r) {
  const mr_eqn_t *e = r->eqn;
  if (!e) return "outputs in other memory";
  if (r->note) return r->kind == MR_MOVE_OPERAND ? "kernels of products" : "loops";
  return e->row ? e->row : *e->by ? e->by : "the function as written";
}

static void written_by(const mr_move_row_t *r, bool all, char *text, size_t size) {
  char at[128] = "", user[128] = "";
  const mr_eqn_t *e = r->eqn;
  if (!e) {
    snprintf(text, size, "an output in other memory");
    return;
  }
  star_layer_number(at, e->scope, sizeof at, all);
  if (r->user) star_layer_number(user, r->user->scope, sizeof user, all);
  if (r->note) {
    snprintf(text, size, "%s%s%s",
             r->kind == MR_MOVE_OPERAND ? "the order its kernel wants" : "the end of the loop",
             *at ? ", in " : "", at);
    return;
  }
  bool elsewhere = strcmp(at, user) != 0;
  int n = snprintf(text, size, "%s%s%s%s%s%s%s", e->row ? e->row : "", e->row ? ": " : "",
                   *e->by ? e->by : "as written", e->of ? " of " : "", e->of ? e->of->name : "",
                   *at ? " in " : "", at);
  if (n < 0 || (size_t)n >= size) return;
  if (r->loop)
    snprintf(text + n, size - (size_t)n, ", within a fused loop");
  else
    snprintf(text + n, size - (size_t)n, ", for %s%s%s%s",
             r->user ? r->user->op->name : "the caller", elsewhere && *user ? " in " : "",
             elsewhere ? user : "", r->n_user > 1 ? " and others" : "");
}

/* The cause of a move, and when it runs if a loop or branch decides that. */
static void cause_of(const mr_move_row_t *r, bool all, char *text, size_t size) {
  written_by(r, all, text, size);
  size_t n = strlen(text);
  if (r->when) snprintf(text + n, size - n, "; %s", r->when);
}

void mr_move_text(const mr_explanation_t *x, const mr_move_row_t *r, char *text, size_t size) {
  char from[MR_AVAL_TEXT], to[MR_AVAL_TEXT];
  if (r->note) {
    snprintf(text, size, "%s: %s", r->eqn->op->name, r->note);
  } else if (!r->eqn) {
    snprintf(text, size, "output %d %s", r->out,
             mr_aval_text(&mr_exec_fn(x->exec)->out[r->out]->aval, to));
  } else {
    snprintf(text, size, "%s %s -> %s", r->eqn->op->name, mr_aval_text(&r->eqn->in[0]->aval, from),
             mr_aval_text(&r->eqn->out[0]->aval, to));
  }
}

/* The text of one equation among those that mr_fn_each_text passes. */
typedef struct one_text {
  int i;
  char *text;
  size_t size;
} one_text_t;

static void take_equation(void *arg, int i, const char *text) {
  const one_text_t *o = arg;
  if (i == o->i) snprintf(o->text, o->size, "%s", text);
}

void mr_move_equation(const mr_move_row_t *r, char *text, size_t size) {
  *text = 0;
  if (!r->eqn) return;
  int i = 0;
  while (i < r->fn->n_eqn && r->fn->eqn[i] != r->eqn) i++;
  if (i < r->fn->n_eqn) mr_fn_each_text(r->fn, i + 1, take_equation, &(one_text_t){i, text, size});
}

/* ---- tables ---- */

/* Prints a line whose last column continues below itself where the terminal is narrow. */
static void print_line(FILE *to, const char *format, ...) {
  char line[LINE + 64];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  int columns = mr_columns(fileno(to));
  mr_put_wrapped(to, line, columns, columns > 60 ? 28 : 4);
}

/* run_ns: the time of a run, of which ns is a part; 0: the table has no times. */
static void print_sum(int64_t calls, double amount, double share, double ns, double run_ns,
                      const char *text, FILE *to) {
  char time[16] = "";
  if (run_ns > 0 && ns >= 0)
    snprintf(time, sizeof time, " %5.1f%%", 100 * ns / run_ns);
  else if (run_ns > 0)
    snprintf(time, sizeof time, " %6s", "-");
  print_line(to, "%6" PRId64 " %11.3f %5.1f%%%s  %s", calls, amount, share, time, text);
}

static void print_header(FILE *to, const char *amount, double run_ns, const char *what) {
  print_line(to, "%6s %11s %6s%s  %s", "calls", amount, "share", run_ns > 0 ? "   time" : "", what);
}

static void print_sums(sums_t *s, int top, double unit, double total, double run_ns, FILE *to) {
  qsort(s->row, (size_t)s->n, sizeof *s->row, by_amount);
  double rest = 0, rest_ns = -1;
  int64_t calls = 0;
  for (int i = 0; i < s->n; i++) {
    const sum_t *r = &s->row[i];
    if (i < top)
      print_sum(r->calls, r->amount / unit, total > 0 ? 100 * r->amount / total : 0, r->ns, run_ns,
                r->text, to);
    else
      rest += r->amount, calls += r->calls;
    if (i >= top && r->ns >= 0) rest_ns = r->ns + (rest_ns >= 0 ? rest_ns : 0);
  }
  if (s->n > top) {
    char text[64];
    snprintf(text, sizeof text, "%d more rows; --top N shows them", s->n - top);
    print_sum(calls, rest / unit, total > 0 ? 100 * rest / total : 0, rest_ns, run_ns, text, to);
  }
  s->n = 0;
}

/* The sums of all moves, by kind and by what asked for them; each table adds up to the total. */
static void print_summary(const mr_explained_t *m, sums_t *s, FILE *to) {
  char text[LINE];
  for (int i = 0; i < m->n_move; i++)
    explain_graph_table_add(s, "casts, copies and transposes in all", (double)m->move[i].bytes,
                            m->move[i].times, m->move[i].ns);
  fprintf(to, "A run reads and writes %.3f MB.\n", m->bytes / 1e6);
  if (m->ns > 0)
    print_line(to,
               "It takes %.3f ms; time is the measured share of an equation of its own, share that "
               "of planned bytes.",
               m->ns / 1e6);
  print_header(to, "MB", m->ns, "of it moved");
  print_sums(s, 1, 1e6, m->bytes, m->ns, to);
  for (int i = 0; i < m->n_move; i++) {
    snprintf(text, sizeof text, "  %s%s", mr_move_kind_name(m->move[i].kind),
             m->move[i].loop ? " within fused loops" : "");
    explain_graph_table_add(s, text, (double)m->move[i].bytes, m->move[i].times, m->move[i].ns);
  }
  print_sums(s, s->n, 1e6, m->bytes, m->ns, to);
  fputc('\n', to);
  print_header(to, "MB", m->ns, "by what asked for them");
  for (int i = 0; i < m->n_move; i++)
    explain_graph_table_add(s, asked_by(&m->move[i]), (double)m->move[i].bytes, m->move[i].times,
                            m->move[i].ns);
  print_sums(s, s->n, 1e6, m->bytes, m->ns, to);
}

static void print_moves(const mr_explanation_t *x, sums_t *s, bool all, int top, FILE *to) {
  const mr_explained_t *m = &x->made;
  print_summary(m, s, to);
  for (int i = 0; i < m->n_move; i++) {
    char what[2 * MR_AVAL_TEXT], cause[LINE / 2 + 32], text[LINE], equation[MR_EQUATION_TEXT] = "";
    mr_move_text(x, &m->move[i], what, sizeof what);
    cause_of(&m->move[i], all, cause, sizeof cause);
    if (all) mr_move_equation(&m->move[i], equation, sizeof equation);
    snprintf(text, sizeof text, "%-9s %.160s: %.300s%s%s", mr_move_kind_name(m->move[i].kind), what,
             cause, *equation ? "; " : "", equation);
    explain_graph_table_add(s, text, (double)m->move[i].bytes, m->move[i].times, m->move[i].ns);
  }
  fputc('\n', to);
  print_header(to, "MB", m->ns, "casts, copies and transposes: cause");
  print_sums(s, top, 1e6, m->bytes, m->ns, to);
}

static void print_products(const mr_explanation_t *x, sums_t *s, bool all, FILE *to) {
  const mr_explained_t *m = &x->made;
  for (int i = 0; i < m->n_product; i++) {
    const mr_product_row_t *p = &m->product[i];
    char text[LINE], at[128], of[MR_AVAL_TEXT];
    star_layer_number(at, p->eqn->scope, sizeof at, true);
    int n = snprintf(text, sizeof text, "%-36s asked %-8s %s", p->how, mr_precision_name(p->asked),
                     p->eqn->op->name);
    if (all && n > 0)
      snprintf(text + n, sizeof text - (size_t)n, " -> %s in %s",
               mr_aval_text(&p->eqn->out[0]->aval, of), at);
    size_t end = strlen(text);
    if (p->when) snprintf(text + end, sizeof text - end, "; %s", p->when);
    explain_graph_table_add(s, text, p->flop, p->times, -1);
  }
  fputc('\n', to);
  print_header(to, "GFLOP", 0, "products as executed");
  print_sums(s, all ? m->n_product : 20, 1e9, m->flop, 0, to);
}

void mr_fused_text(const mr_fn_t *body, const char *name, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "%s", name);
  for (int i = 0; i < body->n_eqn && at + 1 < size; i++) {
    const char *op = body->eqn[i]->op->name;
    bool first = true;
    for (int k = 0; k < i; k++) first &= body->eqn[k]->op != body->eqn[i]->op;
    if (first) at += (size_t)snprintf(text + at, size - at, " %s", op);
  }
}

static void loop_text(const mr_eqn_t *e, char *text, size_t size) {
  const mr_attr_t *tensors = mr_attr_find(e, "tensors");
  char name[48] = "one loop:";
  if (tensors) snprintf(name, sizeof name, "one loop over %d tensors:", (int)tensors->i[0]);
  mr_fused_text(mr_attr_called(e, "jaxpr"), name, text, size);
}

void mr_composite_text(const mr_composite_row_t *r, char *text, size_t size) {
  const mr_eqn_t *e = r->eqn;
  if (e->op == &mr_op_fused)
    loop_text(e, text, size);
  else if (r->opened && e->op->open != mr_no_open)
    snprintf(text, size, "%s, opened: part of it is %s", r->opened->name, e->op->name);
  else if (r->opened)
    snprintf(text, size, "%s, opened into primitives", r->opened->name);
  else
    snprintf(text, size, "%s, kept as one kernel", e->op->name);
}

static void print_composites(const mr_explanation_t *x, sums_t *s, FILE *to) {
  const mr_explained_t *m = &x->made;
  for (int i = 0; i < m->n_composite; i++) {
    const mr_composite_row_t *r = &m->composite[i];
    char text[LINE];
    mr_composite_text(r, text, sizeof text);
    size_t end = strlen(text);
    if (r->when) snprintf(text + end, sizeof text - end, "; %s", r->when);
    explain_graph_table_add(s, text, 1, r->times, -1);
  }
  fputc('\n', to);
  print_header(to, "equations", 0, "composites");
  print_sums(s, 40, 1, m->n_eqn, 0, to);
}

void mr_kernel_text(const mr_kernel_row_t *r, char *text, size_t size) {
  char what[200], of[MR_AVAL_TEXT];
  if (r->eqn->op == &mr_op_fused)
    loop_text(r->eqn, what, sizeof what);
  else
    snprintf(what, sizeof what, "%s", r->eqn->op->name);
  snprintf(text, size, "%s -> %s", what, mr_aval_text(&r->eqn->out[0]->aval, of));
}

/* Counts a kernel among those that differ neither in their text nor in their registers; -1:
   unknown. */
static void kernel_add(sums_t *s, const char *text, int registers) {
  int i = 0;
  while (i < s->n && (strcmp(s->row[i].text, text) || s->row[i].amount != registers)) i++;
  if (i == s->n) {
    s->row[s->n++] = (sum_t){.number = i, .amount = registers, .ns = -1};
    snprintf(s->row[i].text, LINE, "%s", text);
  }
  s->row[i].calls++;
}

/* A row for kernels that are alike; the amount is the registers of each. */
static void print_kernels(const mr_explanation_t *x, sums_t *s, bool all, int top, FILE *to) {
  for (int i = 0; i < x->n_kernel; i++) {
    const mr_kernel_row_t *r = &x->kernel[i];
    char text[LINE], what[LINE / 2], at[128], number[40] = "", stack[40] = "";
    mr_kernel_text(r, what, sizeof what);
    star_layer_number(at, r->eqn->scope, sizeof at, all);
    if (r->of > 1) snprintf(number, sizeof number, ", kernel %d of %d", r->number, r->of);
    if (r->stack > 0) snprintf(stack, sizeof stack, "; %d bytes in memory", r->stack);
    snprintf(text, sizeof text, "%.340s%s%s%s%s", what, *at ? " in " : "", at, number, stack);
    kernel_add(s, text, r->registers);
  }
  if (!x->kernel) return;
  fputc('\n', to);
  print_line(to, "%6s %11s %6s  %s", "number", "registers", "", "generated kernels: result");
  qsort(s->row, (size_t)s->n, sizeof *s->row, by_amount);
  for (int i = 0; i < s->n && i < top; i++) {
    char registers[16] = "unknown";
    if (s->row[i].amount >= 0) snprintf(registers, sizeof registers, "%.0f", s->row[i].amount);
    print_line(to, "%6" PRId64 " %11s %6s  %s", s->row[i].calls, registers, "", s->row[i].text);
  }
  if (s->n > top)
    print_line(to, "%6s %11s %6s  %d more rows; --top N shows them", "", "", "", s->n - top);
  s->n = 0;
}

static void print_passes(const mr_explanation_t *x, FILE *to) {
  fputc('\n', to);
  print_line(to, "%6s %11s %6s  %s", "before", "after", "", "passes over the equations");
  for (int i = 0; i < x->n_pass; i++)
    print_line(to, "%6d %11d %6s  %s: %s", x->pass[i].before, x->pass[i].after, "", x->pass[i].name,
               x->pass[i].help);
  print_line(to, "%6d equations run, %d more share their operand's bytes and cost nothing",
             x->made.n_eqn - x->made.n_alias, x->made.n_alias);
  if (x->made.kernels > 0)
    print_line(to, "%6.0f kernels start on %s in a run", x->made.kernels,
               mr_exec_device(x->exec)->name);
  if (x->slots)
    print_line(to, "%6d batches lie in the slots of to-device, %zu bytes", x->n_slots, x->slots);
}

mr_err_t mr_explanation_table(const mr_explanation_t *x, bool all, int top, FILE *to,
                              mr_diag_t *diag) {
  size_t n = (size_t)(x->made.n_move + x->made.n_eqn + x->n_kernel) + 2;
  sums_t s = {calloc(n, sizeof *s.row), 0};
  if (!s.row) return mr_no_memory(diag, "the table of explain");
  print_moves(x, &s, all, top, to);
  print_products(x, &s, all, to);
  print_composites(x, &s, to);
  print_kernels(x, &s, all, top, to);
  print_passes(x, to);
  free(s.row);
  return MR_OK;
}
