/* Loops that compute the same of several tensors become one: an optimizer's update is written for
   each parameter, and a device would start a kernel for each.

   Loops are alike if their bodies are, but for the number of elements: same ops, dtypes, attributes
   and constants, operands of one element at the same places.  They are joined where the last of
   them is.  That is correct until an equation reads one of their results, which closes the group;
   and it must not be far from the first, since its operands are kept until then.  After the
   multi-tensor kernels of NVIDIA's Apex. */
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/transforms/passes.h"
#include "model/transforms/transforms.h"

/* A group takes a loop within REACH equations of its last one. */
enum { REACH = 24 };

typedef struct group {
  int first, last, n; /* loops, each but the last followed by the one in next[] */
  int ends;           /* operands and results, each once */
  bool closed;
  mr_eqn_t *e; /* the joined equation; NULL: its loops stay */
} group_t;

typedef struct joiner {
  mr_fn_t *f;
  const mr_target_t *t;
  int n_group;
  group_t *group; /* [n_eqn] */
  int *of, *next; /* by equation: its group, -1; the next loop of the group */
  mr_var_t **map; /* by var id: its var in the joined body */
} joiner_t;

/* ---- which loops can be joined ---- */

static int64_t join_elems(const mr_var_t *v) { return mr_aval_elems(&v->aval); }

static const mr_fn_t *join_body(const mr_eqn_t *e) { return mr_attr_called(e, "jaxpr"); }

/* The elements of a loop that has none but elementwise ops, of its tensors and of single numbers;
   0: another loop. */
static int64_t join_size(const mr_eqn_t *e) {
  const mr_fn_t *b = mr__loop_body(e);
  if (!b || mr_attr_find(e, "tensors")) return 0;
  int64_t n = b->n_out ? join_elems(b->out[0]) : 0;
  if (n < 2) return 0;
  for (int k = 0; k < e->n_in; k++)
    if (e->in[k]->literal || (join_elems(b->in[k]) != n && join_elems(b->in[k]) != 1)) return 0;
  for (int k = 0; k < b->n_out; k++)
    if (join_elems(b->out[k]) != n || !b->out[k]->def) return 0;
  for (int i = 0; i < b->n_eqn; i++) {
    const mr_eqn_t *m = b->eqn[i];
    mr_unit_t u = {0};
    if (!m->op->fuse.unit || !m->op->fuse.unit(m, &u)) return 0;
    if (join_elems(m->out[0]) != n && join_elems(m->out[0]) != 1) return 0;
    bool spreads = u.kind == MR_UNIT_REPEAT && join_elems(m->in[0]) == 1;
    if (u.kind != MR_UNIT_EACH && u.kind != MR_UNIT_SAME && !spreads) return 0;
  }
  return n;
}

/* The number of v in a body: inputs first, then the equations' results. */
static int number_in(const mr_fn_t *b, const mr_var_t *v) {
  for (int k = 0; k < b->n_in && !v->def; k++)
    if (b->in[k] == v) return k;
  for (int i = 0; i < b->n_eqn; i++)
    if (b->eqn[i] == v->def) return b->n_in + i;
  return -1;
}

static bool alike_vars(const mr_fn_t *a, const mr_var_t *x, const mr_fn_t *b, const mr_var_t *y) {
  if (x->literal || y->literal) return mr_literal_same(x, y);
  return x->aval.dtype == y->aval.dtype && (join_elems(x) == 1) == (join_elems(y) == 1) &&
         number_in(a, x) == number_in(b, y);
}

/* Reshapes and broadcasts of one element differ in their attributes alone. */
static bool alike_eqns(const mr_fn_t *a, const mr_eqn_t *x, const mr_fn_t *b, const mr_eqn_t *y) {
  mr_unit_t u = {0};
  if (x->op != y->op || x->n_in != y->n_in || x->n_attr != y->n_attr) return false;
  for (int k = 0; k < x->n_in; k++)
    if (!alike_vars(a, x->in[k], b, y->in[k])) return false;
  for (int k = 0; x->op->fuse.unit(x, &u) && u.kind == MR_UNIT_EACH && k < x->n_attr; k++)
    if (!mr_attr_same(&x->attr[k], &y->attr[k])) return false;
  return alike_vars(a, x->out[0], b, y->out[0]);
}

/* Whether two loops of join_size > 0 compute the same. */
static bool loops_alike(const mr_eqn_t *x, const mr_eqn_t *y) {
  const mr_fn_t *a = join_body(x), *b = join_body(y);
  if (a->n_in != b->n_in || a->n_eqn != b->n_eqn || a->n_out != b->n_out) return false;
  for (int k = 0; k < a->n_in; k++)
    if (!alike_vars(a, a->in[k], b, b->in[k])) return false;
  for (int i = 0; i < a->n_eqn; i++)
    if (!alike_eqns(a, a->eqn[i], b, b->eqn[i])) return false;
  for (int k = 0; k < a->n_out; k++)
    if (!alike_vars(a, a->out[k], b, b->out[k])) return false;
  return true;
}

/* ---- groups ---- */

static bool group_reads(const joiner_t *s, const group_t *g, const mr_var_t *v) {
  for (int j = 0, i = g->first; j < g->n; j++, i = s->next[i])
    for (int k = 0; k < s->f->eqn[i]->n_in; k++)
      if (s->f->eqn[i]->in[k] == v) return true;
  return false;
}

/* The operands and results that loop e adds to a group. */
static int new_ends(const joiner_t *s, const group_t *g, const mr_eqn_t *e) {
  int n = e->n_in + e->n_out;
  for (int k = 0; k < e->n_in; k++) n -= group_reads(s, g, e->in[k]);
  return n;
}

static bool join_takes(const joiner_t *s, int g, int i) {
  const group_t *x = &s->group[g];
  const mr_eqn_t *e = s->f->eqn[i];
  return !x->closed && i - x->last <= REACH && loops_alike(s->f->eqn[x->first], e) &&
         x->ends + new_ends(s, x, e) <= s->t->joined_ends;
}

static void join_place(joiner_t *s, int i) {
  int g = s->n_group - 1;
  while (g >= 0 && !join_takes(s, g, i)) g--;
  if (g < 0) {
    g = s->n_group++;
    s->group[g] = (group_t){.first = i, .last = i};
  }
  group_t *x = &s->group[g];
  x->ends += new_ends(s, x, s->f->eqn[i]);
  s->next[x->last] = i;
  x->last = i, x->n++;
  s->of[i] = g;
}

static void join_find_groups(joiner_t *s, int *made_by) {
  for (int i = 0; i < s->f->n_eqn; i++) {
    const mr_eqn_t *e = s->f->eqn[i];
    s->of[i] = -1;
    for (int k = 0; k < e->n_in; k++) {
      int from = made_by[e->in[k]->id] - 1;
      if (from >= 0 && s->of[from] >= 0) s->group[s->of[from]].closed = true;
    }
    if (join_size(e)) join_place(s, i);
    for (int k = 0; k < e->n_out; k++) made_by[e->out[k]->id] = i + 1;
  }
}

/* ---- one group as an equation ---- */

/* Appends the body of loop e.  in[*n_in]: the operands so far. */
static mr_err_t add_loop(joiner_t *s, mr_fn_t *body, const mr_eqn_t *e, mr_var_t **in, int *n_in,
                         mr_var_t **out) {
  mr_var_t *operand[MR_LOOP_ENDS];
  for (int k = 0; k < e->n_in; k++) {
    mr_var_t *v = e->in[k];
    if (!s->map[v->id]) {
      s->map[v->id] = mr_fn_input(body, v->aval);
      in[(*n_in)++] = v;
    }
    operand[k] = s->map[v->id];
  }
  return mr_inline(body, join_body(e), operand, out);
}

static mr_err_t join_fill(joiner_t *s, const group_t *g, mr_fn_t *body, mr_var_t **in, int *n_in) {
  mr_var_t *out[MR_JOINED_ENDS];
  int n = 0;
  for (int j = 0, i = g->first; j < g->n; j++, i = s->next[i]) {
    MR_TRY(add_loop(s, body, s->f->eqn[i], in, n_in, out + n));
    n += s->f->eqn[i]->n_out;
  }
  for (int k = 0; k < *n_in; k++) s->map[in[k]->id] = NULL;
  return mr_fn_return(body, n, out);
}

/* The joined equation assigns the vars that its loops assigned. */
static void join_emit(joiner_t *s, group_t *g, const mr_fn_t *body, mr_var_t **in, int n_in) {
  mr_origin_t before = mr_origin(s->f);
  mr_origin_from(s->f, s->f->eqn[g->last], "join");
  mr_attr_t attr[] = {mr_attr_fn("jaxpr", body), mr_attr_int("tensors", g->n)};
  int n = s->f->n_eqn; /* the list is rewritten later */
  g->e = mr_emit(s->f, &mr_op_fused, n_in, in, 2, attr, body->n_out);
  s->f->n_eqn = n;
  mr_origin_set(s->f, before);
  for (int j = 0, i = g->first, o = 0; g->e && j < g->n; j++, i = s->next[i])
    for (int k = 0; k < s->f->eqn[i]->n_out; k++, o++) {
      g->e->out[o] = s->f->eqn[i]->out[k];
      g->e->out[o]->def = g->e;
    }
}

static mr_err_t join_form(joiner_t *s, group_t *g) {
  mr_var_t *in[MR_JOINED_ENDS];
  int n_in = 0;
  mr_fn_t *body = mr_fn_create();
  if (!body) return mr_no_memory(&s->f->diag, "join");
  mr_err_t e = join_fill(s, g, body, in, &n_in);
  if (e < 0)
    mr_diag_relay(&s->f->diag, e, &body->diag);
  else
    join_emit(s, g, body, in, n_in);
  mr_fn_destroy(body);
  return s->f->diag.code;
}

static mr_err_t join_rewrite(joiner_t *s) {
  int n = s->f->n_eqn, kept = 0;
  for (int g = 0; g < s->n_group; g++)
    if (s->group[g].n > 1) MR_TRY(join_form(s, &s->group[g]));
  for (int i = 0; i < n; i++) {
    const group_t *g = s->of[i] < 0 ? NULL : &s->group[s->of[i]];
    if (!g || !g->e)
      s->f->eqn[kept++] = s->f->eqn[i];
    else if (g->last == i)
      s->f->eqn[kept++] = g->e;
  }
  s->f->n_eqn = kept;
  return MR_OK;
}

mr_err_t mr_join(mr_fn_t *f, const mr_target_t *t, mr_diag_t *diag) {
  size_t n = (size_t)f->n_eqn + 1, v = (size_t)f->n_var + 1;
  if (!t->joined_ends) return MR_OK;
  joiner_t s = {.f = f, .t = t};
  s.group = calloc(n, sizeof *s.group);
  s.of = calloc(2 * n + v, sizeof *s.of);
  s.map = calloc(v, sizeof *s.map);
  mr_err_t e = MR_ERR_NOMEM;
  if (s.group && s.of && s.map) {
    s.next = s.of + n;
    join_find_groups(&s, s.next + n);
    e = join_rewrite(&s);
  }
  free(s.group), free(s.of), free(s.map);
  return e < 0 && f->diag.code >= 0 ? mr_no_memory(diag, "join") : mr_diag_relay(diag, e, &f->diag);
}
