/* Functions and equations.  The sample of an op shows which attributes the op has and of which
   kind; a line must match it, so that no rule of an op meets an attribute it does not expect. */
#include "model/parse/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/control/table.h"
#include "model/parse/parse_private.h"

/* The values of a function by name; a later value hides an earlier one of the same name. */
typedef struct binding {
  char name[MR_PARSE_NAME];
  mr_var_t *var;
} binding_t;

typedef struct scope {
  mr_fn_t *g;
  mr_var_t **unnamed; /* heap [n_unnamed]: those called "_", of which calls return some */
  int n_unnamed, cap_unnamed;
  binding_t *slot; /* open addressing; [size], a power of two, at most half full */
  size_t n, size;
} scope_t;

static binding_t *parse_slot_of(const scope_t *s, const char *name) {
  uint64_t h = 14695981039346656037u; /* FNV-1a */
  for (const char *c = name; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
  size_t i = (size_t)(h ^ h >> 32) & (s->size - 1);
  while (s->slot[i].var && strcmp(s->slot[i].name, name)) i = (i + 1) & (s->size - 1);
  return &s->slot[i];
}

static bool parse_grow(scope_t *s) {
  scope_t more = *s;
  more.size = s->size ? 2 * s->size : 64;
  if (!(more.slot = calloc(more.size, sizeof *more.slot))) return false;
  for (size_t i = 0; i < s->size; i++)
    if (s->slot[i].var) *parse_slot_of(&more, s->slot[i].name) = s->slot[i];
  free(s->slot);
  *s = more;
  return true;
}

/* Room for one more of array's n elements; NULL without memory. */
static void *parse_room(void *array, int n, int *cap, size_t size) {
  void *more = array;
  if (n == *cap) {
    int to = *cap ? 2 * *cap : 8;
    if (!(more = realloc(array, (size_t)to * size))) return NULL;
    *cap = to;
  }
  return more;
}

static mr_err_t bind_unnamed(mr_parser_t *p, scope_t *s, mr_var_t *v) {
  void *more = parse_room(s->unnamed, s->n_unnamed, &s->cap_unnamed, sizeof *s->unnamed);
  if (!more) return mr__parse_no_memory(p);
  s->unnamed = more;
  s->unnamed[s->n_unnamed++] = v;
  return MR_OK;
}

static mr_err_t parse_bind(mr_parser_t *p, scope_t *s, const char *name, mr_var_t *v) {
  if (!strcmp(name, "_")) return bind_unnamed(p, s, v);
  if (2 * s->n >= s->size && !parse_grow(s)) return mr__parse_no_memory(p);
  binding_t *b = parse_slot_of(s, name);
  s->n += !b->var;
  strcpy(b->name, name);
  b->var = v;
  return MR_OK;
}

/* *plain: v is a constant without its dtype; a value of its name comes before it. */
static mr_err_t parse_operand(mr_parser_t *p, scope_t *s, mr_var_t **v, bool *plain) {
  char name[MR_PARSE_NAME];
  if (mr__parse_at_literal(p, plain)) {
    if (!*plain) return mr__parse_literal(p, s->g, v);
    const char *here = p->at;
    bool word = *here >= 'A' && mr__parse_name(p, name) >= 0;
    *v = word && s->size ? parse_slot_of(s, name)->var : NULL;
    if (*v) return *plain = false, MR_OK;
    p->at = here;
    return mr__parse_plain(p, s->g, v);
  }
  *plain = false;
  const char *from = p->at;
  MR_TRY(mr__parse_name(p, name));
  *v = s->size ? parse_slot_of(s, name)->var : NULL;
  if (*v && *p->at != ':') return MR_OK;
  p->at = from;
  return mr__parse_fail(p, *v ? "a constant" : "a value that has been named before");
}

/* Whether "in (" is next, the end of the equations; "in" alone may be the name of a value. */
static bool at_end(mr_parser_t *p) {
  const char *here = p->at;
  bool end = mr__parse_is(p, "in") && mr__parse_is(p, "(");
  p->at = here;
  return end;
}

/* Whether an operand is next: not the end, and not a binder "name:" of the next equation. */
static bool operand_follows(mr_parser_t *p) {
  bool plain;
  if (mr__parse_at_literal(p, &plain)) return true;
  if (at_end(p)) return false;
  const char *c = p->at;
  while (mr__parse_in_name(*c)) c++;
  return c != p->at && *c != ':' && *c != '[';
}

/* The op's equation in its sample, which shows its attributes; NULL without one.  The caller
   destroys *keep, the graph of the sample. */
static const mr_eqn_t *example_of(const mr_op_def_t *op, mr_fn_t **keep) {
  mr_sample_t s = {.f = *keep = mr_fn_create()};
  if (s.f) s.f->precision = MR_PRECISION_NONE;
  if (!s.f || !op->sample || !op->sample(op, &s, 0)) return NULL;
  for (int i = s.f->n_eqn - 1; i >= 0; i--)
    if (s.f->eqn[i]->op == op) return s.f->eqn[i];
  return NULL;
}

mr_attr_t *mr__parse_find(mr_parse_line_t *l, const char *name) {
  for (int i = 0; i < l->n_attr; i++)
    if (!strcmp(l->attr[i].name, name)) return &l->attr[i];
  return NULL;
}

/* Whether the kinds match.  A whole number is converted if a float is wanted. */
static bool kind_fits(mr_attr_t *got, const mr_attr_t *want) {
  if (got->kind == MR_ATTR_INT && want->kind == MR_ATTR_FLOAT) {
    *got = mr_attr_float(got->name, (double)got->i[0]);
    return true;
  }
  return got->kind == want->kind;
}

/* Writes the default of an attribute that the text omits to *a, and returns whether there is one.
   A hidden shape is that of the result; a dtype is that of the result; a list is empty for a
   scalar operand; None and some False are what jax does not print. */
static bool default_of(const mr_parse_line_t *l, const mr_attr_t *want, mr_attr_t *a) {
  const mr_aval_t *x = l->n_in ? &l->in[0]->aval : NULL, *y = &l->out[0].aval;
  const char *name = want->name;
  switch (want->kind) {
    case MR_ATTR_INTS:
      *a = mr_attr_hide(
          mr_attr_ints(name, want->hidden ? y->ndim : 0, want->hidden ? y->dim : NULL));
      return want->hidden || (x && x->ndim == 0);
    case MR_ATTR_DTYPE: *a = mr_attr_dtype(name, y->dtype); return true;
    case MR_ATTR_NONE: *a = mr_attr_none(name); return true;
    case MR_ATTR_BOOL: *a = mr_attr_bool(name, false); return !strcmp(name, "weak_type");
    case MR_ATTR_INT: *a = mr_attr_int(name, 1); return !strcmp(name, "unroll");
    default: return false;
  }
}

static mr_err_t settle_attr(mr_parser_t *p, mr_fn_t *g, const mr_attr_t *want, mr_parse_line_t *l) {
  mr_attr_t *got = mr__parse_find(l, want->name);
  if (got && got->kind == MR_ATTR_NONE && want->kind == MR_ATTR_DTYPE)
    *got = mr_attr_dtype(got->name, l->out[0].aval.dtype);
  if (got) {
    if (!want->hidden && kind_fits(got, want) &&
        (want->kind != MR_ATTR_INTS || got->n <= MR_MAX_NDIM))
      return MR_OK;
    return mr__parse_fail(p, "attributes of the op's own kinds before");
  }
  if (l->n_attr == MR_PARSE_ATTRS || !default_of(l, want, &l->attr[l->n_attr]))
    return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: an equation lacks the attribute %s", want->name);
  mr_attr_t *a = &l->attr[l->n_attr++];
  a->name = mr_mem_text(&g->mem, want->name);
  return MR_OK;
}

/* The number of attributes of l that a sample need not have: the precision of a product, the key
   layout of a draw, f32 as the result of an op that can widen, the residuals of a call that reverse
   mode has rewritten, and where a dropout begins in a larger array. */
static int optional_attrs(const mr_eqn_t *e, mr_parse_line_t *l) {
  const mr_op_def_t *op = e->op;
  const mr_attr_t *wide = mr__parse_find(l, "preferred_element_type");
  const mr_attr_t *precision = mr__parse_find(l, "precision");
  const mr_attr_t *layout = mr__parse_find(l, "partitionable");
  const mr_attr_t *residuals = mr__parse_find(l, "residuals");
  const mr_attr_t *first = mr__parse_find(l, "first"), *pair = mr__parse_find(l, "pair");
  bool asks = (op->amp.mixes || op->amp.widens) && !mr_attr_find(e, "preferred_element_type");
  return (wide && wide->kind == MR_ATTR_DTYPE && wide->i[0] == MR_F32 && asks) +
         (precision && precision->kind == MR_ATTR_PRECISION && op->cost.product) +
         (layout && layout->kind == MR_ATTR_BOOL && op->draws) +
         (residuals && residuals->kind == MR_ATTR_INT && op->ad.spent) +
         (first && first->kind == MR_ATTR_INT && !strcmp(op->name, "dropout")) +
         (pair && pair->kind == MR_ATTR_BOOL && !strcmp(op->name, "sum_squares"));
}

static mr_err_t settle_attrs(mr_parser_t *p, mr_fn_t *g, const mr_op_def_t *op,
                             mr_parse_line_t *l) {
  mr_fn_t *keep = NULL;
  const mr_eqn_t *e = example_of(op, &keep);
  bool failed = !keep || keep->diag.code < 0; /* a sample has no other failure */
  mr_err_t err = failed ? mr__parse_no_memory(p)
                 : e    ? MR_OK
                        : mr__parse_fail(p, "an op with a sample");
  for (int i = 0; err >= 0 && i < e->n_attr; i++) err = settle_attr(p, g, &e->attr[i], l);
  int n = err >= 0 ? e->n_attr + optional_attrs(e, l) : 0;
  if (err >= 0 && n != l->n_attr) err = mr__parse_fail(p, "no other attributes before");
  mr_fn_destroy(keep);
  return err;
}

/* ---- equations ---- */

/* Fails at the beginning of the equation. */
static mr_err_t unknown_op(mr_parser_t *p, const char *name) {
  char expected[MR_PARSE_NAME + 64];
  snprintf(expected, sizeof expected, "a known op, not %s,", name);
  p->at = p->equation;
  return mr__parse_fail(p, expected);
}

/* Emits the line; out[n_out] receives its values. */
static mr_err_t emit_values(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l, mr_var_t **out) {
  bool done = false;
  MR_TRY(mr__parse_jax_over_axes(p, g, l, out, &done));
  if (!done) MR_TRY(mr__parse_jax(p, g, l, out, &done));
  if (done) return MR_OK;
  const mr_op_def_t *op = mr_op_find(l->op);
  if (!op) return unknown_op(p, l->op);
  mr__parse_jax_fit(g, l);
  MR_TRY(settle_attrs(p, g, op, l));
  mr_eqn_t *e = mr_emit(g, op, l->n_in, l->in, l->n_attr, l->attr, l->n_out);
  for (int i = 0; e && i < l->n_out; i++) out[i] = e->out[i];
  return e ? MR_OK : MR_ERR_DATA;
}

static mr_err_t emit_line(mr_parser_t *p, scope_t *s, mr_parse_line_t *l) {
  mr_var_t **out = mr_mem_take(&s->g->mem, (size_t)(l->n_out + 1) * sizeof *out);
  if (!out) return mr__parse_no_memory(p);
  mr_err_t err = emit_values(p, s->g, l, out);
  if (s->g->diag.code < 0)
    return mr_diag_prefix(p->diag, s->g->diag.code == MR_ERR_NOMEM ? MR_ERR_NOMEM : MR_ERR_DATA,
                          &s->g->diag, "jaxpr");
  if (err < 0) return err;
  bool calls = false;
  for (int i = 0; i < l->n_attr; i++) calls |= l->attr[i].kind == MR_ATTR_FN;
  for (int i = 0; i < l->n_out; i++) {
    char got[MR_AVAL_TEXT], want[MR_AVAL_TEXT];
    bool dead = calls && !strcmp(l->out[i].name, "_"); /* which of several is not said */
    if (!dead && !mr_aval_equal(&out[i]->aval, &l->out[i].aval))
      return mr_fail(p->diag, MR_ERR_DATA, "jaxpr: %s gives %s, the text says %s", l->op,
                     mr_aval_text(&out[i]->aval, got), mr_aval_text(&l->out[i].aval, want));
    MR_TRY(parse_bind(p, s, l->out[i].name, out[i]));
  }
  return MR_OK;
}

static mr_err_t parse_attrs(mr_parser_t *p, mr_fn_t *g, mr_parse_line_t *l) {
  if (*p->at != '[') return MR_OK;
  p->at++;
  while (!mr__parse_is(p, "]")) {
    if (l->n_attr == MR_PARSE_ATTRS) return mr__parse_fail(p, "fewer attributes");
    MR_TRY(mr__parse_attr(p, g, &l->attr[l->n_attr]));
    l->n_attr++;
  }
  return MR_OK;
}

/* The name of an op, which may contain '-': "scatter-add". */
static mr_err_t parse_op_name(mr_parser_t *p, char name[MR_PARSE_NAME]) {
  MR_TRY(mr__parse_name(p, name));
  size_t n = strlen(name);
  for (; *p->at == '-' || mr__parse_in_name(*p->at); p->at++, n++) {
    if (n == MR_PARSE_NAME - 1) return mr__parse_fail(p, "a shorter name");
    name[n] = *p->at, name[n + 1] = 0;
  }
  return MR_OK;
}

/* Whether an op without results is next, "jit[...]".  jax prints such calls if their results are
   unused; they do nothing. */
static bool at_op(mr_parser_t *p) {
  mr__parse_space(p);
  const char *c = p->at;
  while (mr__parse_in_name(*c)) c++;
  return c != p->at && *c == '[';
}

static mr_err_t parse_line(mr_parser_t *p, scope_t *s, mr_parse_line_t *l) {
  void *more;
  int cap_plain = 0;
  mr__parse_space(p);
  const char *equation = p->at;
  while (!at_op(p) && !mr__parse_is(p, "=")) {
    if (!(more = parse_room(l->out, l->n_out, &l->cap_out, sizeof *l->out)))
      return mr__parse_no_memory(p);
    l->out = more;
    MR_TRY(mr__parse_binder(p, &l->out[l->n_out++]));
  }
  MR_TRY(parse_op_name(p, l->op));
  MR_TRY(parse_attrs(p, s->g, l));
  while (operand_follows(p)) {
    if (!(more = parse_room(l->in, l->n_in, &l->cap_in, sizeof *l->in)))
      return mr__parse_no_memory(p);
    l->in = more;
    if (!(more = parse_room(l->plain, l->n_in, &cap_plain, sizeof *l->plain)))
      return mr__parse_no_memory(p);
    l->plain = more;
    MR_TRY(parse_operand(p, s, &l->in[l->n_in], &l->plain[l->n_in]));
    l->n_in++;
  }
  p->equation = equation;
  if (!l->n_out) return MR_OK;
  MR_TRY(mr__parse_jax_plain(p, s->g, l));
  return emit_line(p, s, l);
}

/* Destroys the functions in the attributes: the graph has copies of them, or does not need
   them. */
static void drop_called(const mr_parse_line_t *l) {
  for (int i = 0; i < l->n_attr; i++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&l->attr[i], &fns);
    for (int k = 0; k < n; k++) mr_fn_destroy((mr_fn_t *)(uintptr_t)fns[k]);
  }
}

static mr_err_t parse_equation(mr_parser_t *p, scope_t *s) {
  mr_parse_line_t *l = calloc(1, sizeof *l);
  if (!l) return mr__parse_no_memory(p);
  mr_err_t err = parse_line(p, s, l);
  drop_called(l);
  free(l->out);
  free(l->in);
  free(l->plain);
  free(l);
  return err;
}

/* ---- functions ---- */

static mr_err_t parse_inputs(mr_parser_t *p, scope_t *s, const char *end) {
  while (!mr__parse_is(p, end)) {
    mr_parse_binder_t b;
    MR_TRY(mr__parse_binder(p, &b));
    mr_var_t *v = mr_fn_input(s->g, b.aval);
    if (!v) return mr_diag_prefix(p->diag, s->g->diag.code, &s->g->diag, "jaxpr");
    MR_TRY(parse_bind(p, s, b.name, v));
  }
  return MR_OK;
}

static mr_err_t parse_outputs(mr_parser_t *p, scope_t *s) {
  mr_var_t **out = NULL;
  int n = 0, cap = 0, n_unnamed = 0;
  bool plain;
  mr_err_t err = MR_OK;
  while (err >= 0 && !mr__parse_is(p, ")")) {
    void *more = parse_room(out, n, &cap, sizeof *out);
    if (more) out = more;
    if (more && mr__parse_is(p, "_"))
      out[n++] = NULL, n_unnamed++;
    else
      err = more ? parse_operand(p, s, &out[n++], &plain) : mr__parse_no_memory(p);
    if (err >= 0 && !mr__parse_is(p, ",")) {
      err = mr__parse_want(p, ")");
      break;
    }
  }
  if (err >= 0 && n_unnamed > s->n_unnamed) err = mr__parse_fail(p, "as many values _ before");
  if (err >= 0 && p->depth == 1 && n_unnamed && n_unnamed < s->n_unnamed) {
    char want[64]; /* a call has no use for the value, here it is the result */
    snprintf(want, sizeof want, "a name, as %d values are called _", s->n_unnamed);
    err = mr__parse_fail(p, want);
  }
  for (int i = 0; i < n && err >= 0; i++) /* the last of them, in their order */
    if (!out[i]) out[i] = s->unnamed[s->n_unnamed - n_unnamed--];
  if (err >= 0 && mr_fn_return(s->g, n, out) < 0)
    err = mr_diag_prefix(p->diag, s->g->diag.code, &s->g->diag, "jaxpr");
  free(out);
  return err;
}

static mr_err_t parse_body(mr_parser_t *p, scope_t *s) {
  MR_TRY(mr__parse_want(p, "{"));
  MR_TRY(mr__parse_want(p, "lambda"));
  MR_TRY(parse_inputs(p, s, ";"));
  MR_TRY(parse_inputs(p, s, "."));
  MR_TRY(mr__parse_want(p, "let"));
  while (!at_end(p)) {
    MR_TRY(parse_equation(p, s));
    mr__parse_is(p, ";");
  }
  mr__parse_is(p, "in");
  mr__parse_is(p, "(");
  MR_TRY(parse_outputs(p, s));
  return mr__parse_want(p, "}");
}

/* Reads the function that is next. */
static mr_err_t parse_here(mr_parser_t *p, mr_fn_t **out) {
  scope_t s = {.g = mr_fn_create()};
  if (!s.g || s.g->diag.code < 0) {
    mr_fn_destroy(s.g);
    return mr__parse_no_memory(p);
  }
  s.g->precision = MR_PRECISION_NONE; /* the text has the precision of each product */
  mr_err_t err = parse_body(p, &s);
  free(s.slot), free(s.unnamed);
  *out = s.g;
  if (err < 0) {
    mr_fn_destroy(s.g);
    *out = NULL;
  }
  return err;
}

mr_err_t mr__parse_fn(mr_parser_t *p, mr_fn_t **out) {
  const mr_parse_let_t *named = mr__parse_at_let(p);
  const char *behind = NULL;
  if (p->depth == MR_PARSE_DEPTH) return mr__parse_fail(p, "functions nested less deeply");
  if (p->bytes > MR_PARSE_BYTES) return mr__parse_fail(p, "functions that are called less often");
  if (named) {
    behind = p->at + strlen(named->name);
    p->at = named->fn;
  }
  p->depth++;
  mr_err_t err = parse_here(p, out);
  p->depth--;
  if (err < 0 || !named) return err;
  p->bytes += (size_t)(p->at - named->fn) + MR_PARSE_CALL;
  p->at = behind;
  return MR_OK;
}

const mr_parse_let_t *mr__parse_at_let(mr_parser_t *p) {
  size_t n = 0;
  mr__parse_space(p);
  while (mr__parse_in_name(p->at[n])) n++;
  for (int i = 0; n && i < p->n_let; i++)
    if (strlen(p->let[i].name) == n && !memcmp(p->let[i].name, p->at, n)) return &p->let[i];
  return NULL;
}

/* Skips the function that is next. */
static mr_err_t skip_fn(mr_parser_t *p) {
  int depth = 0;
  mr__parse_space(p);
  const char *c = p->at;
  do {
    depth += (*c == '{') - (*c == '}');
    if (!*c || depth < 1) return mr__parse_fail(p, "a function");
    c++;
  } while (depth > 1 || *c != '}');
  p->at = c + 1;
  return MR_OK;
}

/* Reads any number of "let f = { lambda ... } in" before the function.  jax names functions that
   are called more than once in this way, in any order. */
static mr_err_t parse_lets(mr_parser_t *p) {
  while (mr__parse_is(p, "let")) {
    void *more = parse_room(p->let, p->n_let, &p->cap_let, sizeof *p->let);
    if (!more) return mr__parse_no_memory(p);
    p->let = more;
    mr_parse_let_t *l = &p->let[p->n_let];
    MR_TRY(mr__parse_name(p, l->name));
    MR_TRY(mr__parse_want(p, "="));
    mr__parse_space(p);
    l->fn = p->at;
    MR_TRY(skip_fn(p));
    mr__parse_is(p, "in");
    p->n_let++;
  }
  return MR_OK;
}

mr_err_t mr_fn_parse(const char *text, mr_fn_t **out, mr_diag_t *diag) {
  mr_parser_t p = {.text = text, .at = text, .diag = diag};
  *out = NULL;
  mr_err_t err = parse_lets(&p);
  if (err >= 0) err = mr__parse_fn(&p, out);
  mr__parse_space(&p);
  if (err >= 0 && *p.at) err = mr__parse_fail(&p, "the end");
  free(p.let);
  if (err >= 0) return MR_OK;
  mr_fn_destroy(*out);
  *out = NULL;
  return err;
}
