/* Equations.  Which attributes an op has, and of which kind, is read off the op's own sample, so
   that no rule of an op meets an attribute it does not expect. */
#include "model/ir/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "model/ir/parse_private.h"
#include "model/ops/op.h"

#define MOST_IN 256 /* operands or outputs of an equation */
#define MOST_ATTR 16

typedef struct scope {
  mr_fn_t *g;
  struct binding {
    char name[MR_PARSE_NAME];
    mr_var_t *var;
  } * b;
  int n, cap;
} scope_t;

typedef struct binder {
  char name[MR_PARSE_NAME];
  mr_aval_t aval;
} binder_t;

static mr_err_t bind(mr_parser_t *p, scope_t *s, const char *name, mr_var_t *v) {
  if (!strcmp(name, "_")) return MR_OK;
  if (s->n == s->cap) {
    int cap = s->cap ? 2 * s->cap : 32;
    void *grown = realloc(s->b, (size_t)cap * sizeof *s->b);
    if (!grown) return mr_fail(p->diag, MR_ERR_NOMEM, "jaxpr: no memory");
    s->b = grown, s->cap = cap;
  }
  strcpy(s->b[s->n].name, name);
  s->b[s->n++].var = v;
  return MR_OK;
}

static mr_var_t *lookup(const scope_t *s, const char *name) {
  for (int i = s->n - 1; i >= 0; i--)
    if (!strcmp(s->b[i].name, name)) return s->b[i].var;
  return NULL;
}

static mr_err_t parse_binder(mr_parser_t *p, binder_t *b) {
  MR_TRY(mr__parse_name(p, b->name));
  MR_TRY(mr__parse_want(p, ":"));
  return mr__parse_aval(p, &b->aval);
}

/* "2.0:f32[]", "-inf:f32[]", "True:bool[]", or the name of a value. */
static mr_err_t parse_operand(mr_parser_t *p, scope_t *s, mr_var_t **v) {
  char name[MR_PARSE_NAME], *end;
  mr_aval_t a;
  mr__parse_space(p);
  const char *from = p->at;
  double number = mr_strtod(from, &end);
  if (end == from || *end != ':') {
    MR_TRY(mr__parse_name(p, name));
    if (*p->at != ':') {
      *v = lookup(s, name);
      p->at = *v ? p->at : from;
      return *v ? MR_OK : mr__parse_fail(p, "a value that has been named before");
    }
    if (strcmp(name, "True") && strcmp(name, "False")) return mr__parse_fail(p, "a constant");
    number = *name == 'T';
    end = (char *)(uintptr_t)p->at;
  }
  p->at = end + 1;
  MR_TRY(mr__parse_aval(p, &a));
  if (a.ndim) return mr__parse_fail(p, "a constant that is a scalar");
  *v = mr_literal(s->g, a.dtype, number);
  return MR_OK;
}

/* Whether an operand stands here: not "in (", not a binder "name:" of the next equation. */
static bool operand_follows(mr_parser_t *p) {
  mr__parse_space(p);
  const char *c = p->at;
  char *end;
  if (mr_strtod(c, &end), end != c && *end == ':') return true;
  if (!strncmp(c, "in", 2) && (isspace((unsigned char)c[2]) || c[2] == '(')) return false;
  while (isalnum((unsigned char)*c) || *c == '_') c++;
  if (c == p->at) return false;
  return *c != ':' || !strncmp(p->at, "True:", 5) || !strncmp(p->at, "False:", 6);
}

/* What the op's sample shows of its attributes; the sample's graph in *keep. */
static const mr_eqn_t *example_of(const mr_op_def_t *op, mr_fn_t **keep) {
  mr_sample_t s = {.f = *keep = mr_fn_create()};
  if (s.f) s.f->precision = MR_PRECISION_NONE;
  if (!s.f || !op->sample || !op->sample(op, &s, 0)) return NULL;
  for (int i = s.f->n_eqn - 1; i >= 0; i--)
    if (s.f->eqn[i]->op == op) return s.f->eqn[i];
  return NULL;
}

static mr_attr_t *find(mr_attr_t *a, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(a[i].name, name)) return &a[i];
  return NULL;
}

/* A whole number stands for a float too; None for whatever is not given. */
static bool kind_fits(mr_attr_t *got, const mr_attr_t *want) {
  if (got->kind == MR_ATTR_INT && want->kind == MR_ATTR_FLOAT) {
    *got = mr_attr_float(got->name, (double)got->i[0]);
    return true;
  }
  return got->kind == want->kind;
}

typedef struct attrs {
  int n;
  mr_attr_t a[MOST_ATTR];
} attrs_t;

/* Gives *at what the op's attribute `want` needs: as written, or as printing left it out (a hidden
   shape is the result's, an empty list belongs to a scalar operand). */
static mr_err_t settle_attr(mr_parser_t *p, mr_fn_t *g, const mr_attr_t *want, attrs_t *at,
                            const mr_aval_t *x, const mr_aval_t *y) {
  mr_attr_t *got = find(at->a, at->n, want->name);
  if (got) {
    if (!want->hidden && kind_fits(got, want)) return MR_OK;
    return mr__parse_fail(p, "attributes of the op's own kinds before");
  }
  bool scalar = x && x->ndim == 0;
  if (want->kind != MR_ATTR_INTS || !(want->hidden || scalar) || at->n == MOST_ATTR)
    return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: an equation lacks the attribute %s", want->name);
  const char *name = mr_mem_text(&g->mem, want->name);
  at->a[at->n++] =
      mr_attr_hide(mr_attr_ints(name, want->hidden ? y->ndim : 0, want->hidden ? y->dim : NULL));
  return MR_OK;
}

/* What any product and any draw may say of itself, an op like e that can be asked for f32, and a
   call that reverse mode has gone through. */
static int optional_attrs(const mr_eqn_t *e, attrs_t *at) {
  const mr_op_def_t *op = e->op;
  const mr_attr_t *wide = find(at->a, at->n, "preferred_element_type");
  const mr_attr_t *precision = find(at->a, at->n, "precision");
  const mr_attr_t *layout = find(at->a, at->n, "partitionable");
  const mr_attr_t *residuals = find(at->a, at->n, "residuals");
  bool asks = (op->mixes || op->widens) && !mr_attr_find(e, "preferred_element_type");
  return (wide && wide->kind == MR_ATTR_DTYPE && wide->i[0] == MR_F32 && asks) +
         (precision && precision->kind == MR_ATTR_PRECISION && op->amp == MR_AMP_NARROW) +
         (layout && layout->kind == MR_ATTR_BOOL && op->draws) +
         (residuals && residuals->kind == MR_ATTR_INT && op->spent);
}

static mr_err_t settle_attrs(mr_parser_t *p, mr_fn_t *g, const mr_op_def_t *op, attrs_t *at,
                             const mr_aval_t *x, const mr_aval_t *y) {
  mr_fn_t *keep = NULL;
  const mr_eqn_t *e = example_of(op, &keep);
  mr_err_t err = e ? MR_OK : mr__parse_fail(p, "an op with a sample");
  for (int i = 0; e && i < e->n_attr && err >= 0; i++)
    err = settle_attr(p, g, &e->attr[i], at, x, y);
  int n = e ? e->n_attr + optional_attrs(e, at) : 0;
  if (err >= 0 && n != at->n) err = mr__parse_fail(p, "no other attributes before");
  mr_fn_destroy(keep);
  return err;
}

typedef struct line {
  int n_out, n_in;
  binder_t out[MOST_IN];
  mr_var_t *in[MOST_IN];
  attrs_t at;
  const mr_op_def_t *op;
} line_t;

static mr_err_t emit_line(mr_parser_t *p, scope_t *s, line_t *l) {
  mr_fn_t *g = s->g;
  MR_TRY(settle_attrs(p, g, l->op, &l->at, l->n_in ? &l->in[0]->aval : NULL, &l->out[0].aval));
  mr_eqn_t *e = mr_emit(g, l->op, l->n_in, l->in, l->at.n, l->at.a, l->n_out);
  if (!e) return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s", g->diag.text);
  for (int i = 0; i < l->n_out; i++) {
    char got[MR_AVAL_TEXT], want[MR_AVAL_TEXT];
    if (!mr_aval_equal(&e->out[i]->aval, &l->out[i].aval))
      return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s gives %s, the text says %s", l->op->name,
                     mr_aval_text(&e->out[i]->aval, got), mr_aval_text(&l->out[i].aval, want));
    MR_TRY(bind(p, s, l->out[i].name, e->out[i]));
  }
  return MR_OK;
}

static mr_err_t parse_line(mr_parser_t *p, scope_t *s, line_t *l) {
  char name[MR_PARSE_NAME];
  while (!mr__parse_is(p, "=")) {
    if (l->n_out == MOST_IN) return mr__parse_fail(p, "fewer outputs");
    MR_TRY(parse_binder(p, &l->out[l->n_out++]));
  }
  MR_TRY(mr__parse_name(p, name));
  if (!l->n_out || !(l->op = mr_op_find(name))) return mr__parse_fail(p, "a known op before");
  if (*p->at == '[') {
    p->at++;
    while (!mr__parse_is(p, "]")) {
      if (l->at.n == MOST_ATTR) return mr__parse_fail(p, "fewer attributes");
      MR_TRY(mr__parse_attr(p, s->g, &l->at.a[l->at.n++]));
    }
  }
  while (operand_follows(p)) {
    if (l->n_in == MOST_IN) return mr__parse_fail(p, "fewer operands");
    MR_TRY(parse_operand(p, s, &l->in[l->n_in++]));
  }
  return emit_line(p, s, l);
}

/* The functions that attributes hold have been copied into the graph, or will not be. */
static void drop_called(const attrs_t *at) {
  for (int i = 0; i < at->n; i++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&at->a[i], &fns);
    for (int k = 0; k < n; k++) mr_fn_destroy((mr_fn_t *)(uintptr_t)fns[k]);
  }
}

static mr_err_t parse_equation(mr_parser_t *p, scope_t *s) {
  line_t *l = calloc(1, sizeof *l);
  if (!l) return mr_fail(p->diag, MR_ERR_NOMEM, "jaxpr: no memory");
  mr_err_t err = parse_line(p, s, l);
  drop_called(&l->at);
  free(l);
  return err;
}

static mr_err_t parse_inputs(mr_parser_t *p, scope_t *s, const char *end) {
  while (!mr__parse_is(p, end)) {
    binder_t b;
    MR_TRY(parse_binder(p, &b));
    MR_TRY(bind(p, s, b.name, mr_fn_input(s->g, b.aval)));
  }
  return MR_OK;
}

static mr_err_t parse_outputs(mr_parser_t *p, scope_t *s) {
  mr_var_t **out = calloc(MOST_IN, sizeof *out);
  int n = 0;
  mr_err_t err = out ? MR_OK : mr_fail(p->diag, MR_ERR_NOMEM, "jaxpr: no memory");
  while (err >= 0 && !mr__parse_is(p, ")")) {
    if (n == MOST_IN) err = mr__parse_fail(p, "fewer outputs");
    if (err >= 0) err = parse_operand(p, s, &out[n++]);
    if (err >= 0 && !mr__parse_is(p, ",")) {
      err = mr__parse_want(p, ")");
      break;
    }
  }
  if (err >= 0) err = mr_fn_return(s->g, n, out);
  free(out);
  return err;
}

static mr_err_t parse_body(mr_parser_t *p, scope_t *s) {
  MR_TRY(mr__parse_want(p, "{"));
  MR_TRY(mr__parse_want(p, "lambda"));
  MR_TRY(parse_inputs(p, s, ";"));
  MR_TRY(parse_inputs(p, s, "."));
  MR_TRY(mr__parse_want(p, "let"));
  for (;;) {
    const char *here = p->at;
    if (mr__parse_is(p, "in") && mr__parse_is(p, "(")) break;
    p->at = here;
    MR_TRY(parse_equation(p, s));
  }
  MR_TRY(parse_outputs(p, s));
  return mr__parse_want(p, "}");
}

mr_err_t mr__parse_fn(mr_parser_t *p, mr_fn_t **out) {
  scope_t s = {.g = mr_fn_create()};
  if (!s.g) return mr_fail(p->diag, MR_ERR_NOMEM, "jaxpr: no memory");
  s.g->precision = MR_PRECISION_NONE; /* the text says what is asked */
  mr_err_t err = parse_body(p, &s);
  free(s.b);
  *out = s.g;
  if (err < 0) {
    mr_fn_destroy(s.g);
    *out = NULL;
  }
  return err;
}

mr_err_t mr_fn_parse(const char *text, mr_fn_t **out, mr_diag_t *diag) {
  mr_parser_t p = {.text = text, .at = text, .diag = diag};
  MR_TRY(mr__parse_fn(&p, out));
  mr__parse_space(&p);
  if (!*p.at) return MR_OK;
  mr_fn_destroy(*out);
  *out = NULL;
  return mr__parse_fail(&p, "the end");
}
