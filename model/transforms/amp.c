/* amp: the equations in order, each on operands of the dtypes its rule asks for.

   A value of f has one value in the new graph, which may have another dtype than f says ("now"),
   and its conversions, made where they are first asked for.  Looked up ahead: whether all that read
   a value compute narrow, so that an op can give it so at once (layer_norm's dtype), or all wide,
   so that a product's f32 sums need not be rounded; and whether a conversion can pass in front of a
   transposition, which then moves half the bytes.

   The equations of a function that is called have scopes within that of the call: rules are looked
   up by the whole scope, so that a row on a part of the model reaches into every function that the
   part calls.  Each call rewrites a copy of its own. */
#include "model/transforms/amp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/ops/lax.h"
#include "model/ops/operands.h"
#include "model/ops/rules.h"
#include "model/transforms/build.h"
#include "model/transforms/transforms.h"

typedef struct amp_value {
  mr_var_t *now;
  mr_var_t *as[3]; /* converted to f32, bf16, f16; NULL: not yet */
  bool narrow;     /* all that read it compute in the compute dtype */
  bool wide;       /* all that read it, scaled by literals at most, compute in f32 */
  bool early;      /* and it is transposed on the way there: converted first, half the bytes move */
} amp_value_t;

typedef struct amp_rewrite {
  const mr_amp_policy_t *policy;
  const char *outer; /* the whole scope of the equation that calls f; "": none does */
  mr_fn_t *g;
  amp_value_t *map; /* by f's var ids */
} amp_t;

static bool amp_converts(mr_dtype_t t) { return t == MR_F32 || t == MR_BF16 || t == MR_F16; }
static int amp_slot(mr_dtype_t t) { return t == MR_F32 ? 0 : t == MR_BF16 ? 1 : 2; }

/* ---- rules ---- */

static bool amp_ends_component(char c) { return !c || c == '/' || c == '.'; }

/* Returns the place in scope where name begins as whole components; NULL if it does not occur. */
static const char *amp_in_scope(const char *scope, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strstr(scope, name); at; at = strstr(at + 1, name))
    if ((at == scope || amp_ends_component(at[-1])) && amp_ends_component(at[n])) return at;
  return NULL;
}

static bool amp_calls(const mr_eqn_t *e) {
  const mr_fn_t *const *fns;
  for (int k = 0; k < e->n_attr; k++)
    if (mr_attr_calls(&e->attr[k], &fns)) return true;
  return false;
}

/* Calls see(arg, e) for the equations of f and of the functions that they call, those that a policy
   with that `enters` decides for by its rows; e's scope is the whole one.  Ends after the first for
   which see returns true, and returns whether there was one.  mem: for texts. */
typedef bool amp_see_fn(void *arg, const mr_eqn_t *e);
static bool amp_each(const mr_fn_t *f, const char *outer, bool enters, mr_mem_t *mem,
                     amp_see_fn *see, void *arg) {
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t e = *f->eqn[i];
    e.scope = mr_scope_within(mem, outer, e.scope);
    if (!e.scope) return false;
    bool calls = amp_calls(&e), found = !calls && see(arg, &e);
    for (int k = 0; k < e.n_attr && calls && enters && !found; k++) {
      const mr_fn_t *const *fns;
      int n = mr_attr_calls(&e.attr[k], &fns);
      for (int j = 0; j < n && !found; j++)
        found = amp_each(fns[j], e.scope, enters, mem, see, arg);
    }
    if (found) return true;
  }
  return false;
}

static bool amp_matches(void *arg, const mr_eqn_t *e) {
  const mr_amp_row_t *r = arg;
  return !strcmp(r->name, e->op->name) || amp_in_scope(e->scope, r->name);
}

const mr_amp_row_t *mr_amp_unmatched(const mr_amp_policy_t *p, const mr_fn_t *f) {
  mr_mem_t mem = {0};
  const mr_amp_row_t *first = NULL;
  for (int i = 0; i < p->n_rows && !first; i++)
    if (p->row[i].asked &&
        !amp_each(f, "", p->enters, &mem, amp_matches, (void *)(uintptr_t)&p->row[i]))
      first = &p->row[i];
  mr_mem_fini(&mem);
  return first;
}

/* The row of p that decides for e, whose whole scope is `scope`; NULL: none names it. */
static const mr_amp_row_t *amp_row_of(const mr_amp_policy_t *p, const mr_eqn_t *e,
                                      const char *scope) {
  const mr_amp_row_t *by_op = NULL, *by_scope = NULL;
  const char *outermost = NULL;
  for (int i = 0; i < p->n_rows; i++) {
    const mr_amp_row_t *r = &p->row[i];
    if (!strcmp(r->name, e->op->name)) by_op = r;
    const char *at = amp_in_scope(scope, r->name);
    bool wins = at && (!by_scope || at < outermost ||
                       (at == outermost && strlen(r->name) >= strlen(by_scope->name)));
    if (wins) by_scope = r, outermost = at;
  }
  return by_scope ? by_scope : by_op;
}

/* e's whole scope; it lives as long as a->g.  "" without memory, and a->g has failed. */
static const char *amp_scope(const amp_t *a, const mr_eqn_t *e) {
  const char *scope = mr_scope_within(&a->g->mem, a->outer, e->scope);
  return scope ? scope : "";
}

static mr_amp_rule_t amp_rule_of(const amp_t *a, const mr_eqn_t *e) {
  const mr_amp_row_t *r = amp_row_of(a->policy, e, amp_scope(a, e));
  return r ? r->rule : a->policy->others;
}

static mr_amp_rule_t amp_rule(const amp_t *a, const mr_eqn_t *e) {
  mr_amp_rule_t r = amp_rule_of(a, e);
  if (r != MR_AMP_BY_CLASS) return r;
  return e->op->amp.how == MR_AMP_NARROW ? MR_AMP_COMPUTE
         : e->op->amp.how == MR_AMP_WIDE ? MR_AMP_F32
                                         : MR_AMP_WIDEST;
}

/* The rule of an equation that calls functions: it keeps its dtypes, or takes what there is. */
static mr_amp_rule_t amp_call_rule(const mr_amp_policy_t *p, const mr_eqn_t *e) {
  return p->enters && e->op->amp.passes ? MR_AMP_AS_IS : MR_AMP_ORIGINAL;
}

const char *mr_amp_row_text(const mr_amp_policy_t *p, const mr_eqn_t *e, const char *scope,
                            char *text, size_t size) {
  const char *name = p->name ? p->name : "own";
  const mr_amp_row_t *r = amp_row_of(p, e, scope);
  if (amp_calls(e))
    snprintf(text, size, "amp=%s, calls=%s", name, mr_amp_rule_name(amp_call_rule(p, e)));
  else if (!r)
    snprintf(text, size, "amp=%s, others=%s", name, mr_amp_rule_name(p->others));
  else if (r->asked)
    snprintf(text, size, "amp-rule %s=%s", r->name, mr_amp_rule_name(r->rule));
  else
    snprintf(text, size, "amp=%s, %s=%s", name, r->name, mr_amp_rule_name(r->rule));
  return text;
}

/* Whether e's op takes operands of t in place of its f32, bf16 and f16 ones. */
static bool amp_takes(const mr_eqn_t *e, mr_dtype_t t) {
  mr_diag_t why = {0};
  mr_eqn_t as = *e;
  size_t n = (size_t)e->n_in, each = sizeof(mr_var_t) + sizeof(mr_var_t *);
  mr_var_t *v = malloc((n + 1) * each + ((size_t)e->n_out + 1) * sizeof(mr_aval_t));
  if (!v) return true;
  mr_aval_t *out = (mr_aval_t *)(v + n + 1);
  as.in = (mr_var_t **)(void *)(out + e->n_out + 1);
  for (size_t k = 0; k < n; k++) {
    v[k] = *e->in[k];
    if (amp_converts(v[k].aval.dtype)) v[k].aval.dtype = t;
    as.in[k] = &v[k];
  }
  bool takes = e->op->shape(&as, out, &why) >= 0;
  free(v);
  return takes;
}

typedef struct amp_unfit {
  const mr_amp_policy_t *policy;
  mr_amp_unfit_fn *take;
  void *arg;
} amp_unfit_t;

static bool amp_see_unfit(void *arg, const mr_eqn_t *e) {
  const amp_unfit_t *u = arg;
  const mr_amp_row_t *r = amp_row_of(u->policy, e, e->scope);
  if (!r || !r->asked || r->rule != MR_AMP_COMPUTE || e->op->amp.narrows) return false;
  if (!amp_takes(e, u->policy->compute)) u->take(u->arg, r, e);
  return false;
}

void mr_amp_each_unfit(const mr_amp_policy_t *p, const mr_fn_t *f, mr_amp_unfit_fn *take,
                       void *arg) {
  mr_mem_t mem = {0};
  amp_unfit_t u = {p, take, arg};
  amp_each(f, "", p->enters, &mem, amp_see_unfit, &u);
  mr_mem_fini(&mem);
}

/* ---- what is looked up ahead ---- */

/* Only moves the bytes of its one operand. */
static bool amp_moves(const mr_eqn_t *e) {
  return e->n_in == 1 && e->n_out == 1 && (e->op->cost.moves || e->op->kind == MR_OP_ALIAS) &&
         e->in[0]->aval.dtype == e->out[0]->aval.dtype;
}

static bool amp_scales(const mr_eqn_t *e) {
  return e->op->kind == MR_OP_ELEMENTWISE && e->n_in == 2 &&
         (e->in[0]->literal || e->in[1]->literal);
}

/* Fills narrow, wide and early: from the last equation to the first, since a move is read as its
   result is. */
static void amp_look_ahead(const amp_t *a, const mr_fn_t *f) {
  for (int i = 0; i < f->n_var; i++) a->map[i].narrow = a->map[i].wide = true;
  for (int i = 0; i < f->n_out; i++) a->map[f->out[i]->id].narrow = false;
  for (int i = f->n_eqn; i-- > 0;) {
    const mr_eqn_t *e = f->eqn[i];
    mr_amp_rule_t r = amp_calls(e) ? amp_call_rule(a->policy, e) : amp_rule(a, e);
    bool moved = r == MR_AMP_WIDEST && amp_moves(e) && a->map[e->out[0]->id].narrow;
    for (int k = 0; k < e->n_in; k++) {
      amp_value_t *v = &a->map[e->in[k]->id];
      v->narrow &= r == MR_AMP_COMPUTE || moved;
      v->wide &=
          r == MR_AMP_F32 || (r == MR_AMP_WIDEST && amp_scales(e) && a->map[e->out[0]->id].wide);
    }
    bool same = moved && mr_aval_elems(&e->in[0]->aval) == mr_aval_elems(&e->out[0]->aval);
    if (same && (e->op->kind != MR_OP_ALIAS || a->map[e->out[0]->id].early))
      a->map[e->in[0]->id].early = true;
  }
}

/* ---- values ---- */

static mr_var_t *amp_convert(const amp_t *a, const mr_eqn_t *e, mr_var_t *v, mr_dtype_t t,
                             const char *by) {
  if (!v || v->aval.dtype == t) return v;
  /* What was widened to f32 goes back as it was. */
  const mr_eqn_t *from = v->def;
  if (from && mr__is_conversion(from) && from->in[0]->aval.dtype == t && v->aval.dtype == MR_F32)
    return from->in[0];
  mr_fn_t *g = a->g;
  mr_origin_t before = mr_origin(g);
  if (e) {
    char row[MR_AMP_NAME + 64];
    mr_origin_from(g, e, by);
    g->scope = mr_mem_text(&g->mem, e->scope);
    g->row = mr_mem_text(&g->mem, mr_amp_row_text(a->policy, e, amp_scope(a, e), row, sizeof row));
  } else {
    g->by = by;
  }
  mr_var_t *c = mr_lax_convert(g, v, t);
  mr_origin_set(g, before);
  return c;
}

/* Repeats a smaller value, as a bias or a gain is spread over the rows. */
static bool amp_repeats(const mr_var_t *x) {
  const mr_eqn_t *e = x->def;
  return e && e->op->cost.moves && e->n_in == 1 &&
         mr_aval_elems(&e->in[0]->aval) < mr_aval_elems(&x->aval);
}

static mr_var_t *amp_as(const amp_t *a, const mr_eqn_t *e, const mr_var_t *x, mr_dtype_t t,
                        const char *by);

/* x, which repeats a smaller value, in dtype t: that value is converted, before it is repeated. */
static mr_var_t *amp_repeated_as(const amp_t *a, const mr_eqn_t *e, const mr_var_t *x, mr_dtype_t t,
                                 const char *by) {
  mr_var_t *small = amp_as(a, e, x->def->in[0], t, by);
  mr_eqn_t *c = small ? mr_emit_like(a->g, x->def, &small) : NULL;
  return c ? c->out[0] : NULL;
}

/* The value x in dtype t. */
static mr_var_t *amp_as(const amp_t *a, const mr_eqn_t *e, const mr_var_t *x, mr_dtype_t t,
                        const char *by) {
  amp_value_t *v = &a->map[x->id];
  if (x->literal) return mr_literal_like(a->g, t, x);
  if (!v->now || v->now->aval.dtype == t) return v->now;
  mr_var_t **known = &v->as[amp_slot(t)];
  if (*known) return *known;
  bool smaller = a->policy->reuses && v->now->aval.dtype == MR_F32 && amp_repeats(x);
  mr_var_t *c = smaller ? amp_repeated_as(a, e, x, t, by) : amp_convert(a, e, v->now, t, by);
  if (a->policy->reuses) *known = c;
  return c;
}

/* The dtype operand k of e is wanted in; widest: of what the operands are now. */
static mr_dtype_t amp_dtype_for(const amp_t *a, mr_amp_rule_t r, const mr_var_t *x,
                                mr_dtype_t widest) {
  mr_dtype_t as_is =
      x->literal || !a->map[x->id].now ? x->aval.dtype : a->map[x->id].now->aval.dtype;
  if (!amp_converts(as_is)) return as_is;
  switch (r) {
    case MR_AMP_COMPUTE: return a->policy->compute;
    case MR_AMP_F32: return MR_F32;
    case MR_AMP_ORIGINAL: return x->aval.dtype;
    case MR_AMP_WIDEST: return widest;
    default: return x->literal ? widest : as_is;
  }
}

/* Returns the widest dtype that a float operand has now; MR_DTYPE_COUNT without such an operand.
   Literals do not count, nor, with repeats false, operands that repeat a smaller value. */
static mr_dtype_t amp_widest_of(const amp_t *a, const mr_eqn_t *e, bool repeats) {
  mr_dtype_t t = MR_DTYPE_COUNT;
  for (int k = 0; k < e->n_in; k++) {
    const mr_var_t *x = e->in[k];
    if (x->literal || !a->map[x->id].now || (!repeats && amp_repeats(x))) continue;
    mr_dtype_t now = a->map[x->id].now->aval.dtype;
    if (amp_converts(now)) t = t == MR_DTYPE_COUNT || t == now ? now : MR_F32;
  }
  return t;
}

/* What e's operands follow: a bias takes the dtype of what it is added to. */
static mr_dtype_t amp_widest(const amp_t *a, const mr_eqn_t *e) {
  mr_dtype_t t = MR_DTYPE_COUNT;
  if (e->op->kind == MR_OP_ELEMENTWISE) t = amp_widest_of(a, e, false);
  if (t == MR_DTYPE_COUNT) t = amp_widest_of(a, e, true);
  return t == MR_DTYPE_COUNT ? MR_F32 : t;
}

/* ---- equations ---- */

static const char *amp_by(mr_amp_rule_t r) {
  static const char *const by[] = {"amp",        "amp compute", "amp f32", "amp original",
                                   "amp follow", "amp as-is",   "amp own"};
  return by[r];
}

/* Whether e's shape rule takes operands of in's dtypes. */
static bool amp_fits(const amp_t *a, const mr_eqn_t *e, mr_var_t *const *in) {
  mr_diag_t why = {0};
  mr_eqn_t t = *e;
  mr_aval_t *out = mr_mem_take(&a->g->mem, (size_t)(e->n_out + 1) * sizeof *out);
  t.in = (mr_var_t **)(uintptr_t)in;
  return out && e->op->shape(&t, out, &why) >= 0;
}

static mr_err_t amp_body(const mr_amp_policy_t *policy, const char *outer, const mr_fn_t *f,
                         const mr_aval_t *in, bool keeps, mr_dtype_t *now, mr_fn_t **out,
                         mr_diag_t *diag);

/* The functions e calls, rewritten; in: its operands now.  The caller drops them (amp_drop). */
static mr_err_t amp_functions(const amp_t *a, const mr_eqn_t *e, mr_var_t *const *in,
                              mr_attr_t *attr) {
  mr_err_t err = MR_OK;
  const char *scope = amp_scope(a, e);
  mr_aval_t *now = mr_mem_take(&a->g->mem, (size_t)(e->n_in + 1) * sizeof *now);
  for (int k = 0; now && k < e->n_in; k++) now[k] = in[k]->aval;
  for (int k = 0; k < e->n_attr; k++) {
    const mr_fn_t *const *fns;
    int n = mr_attr_calls(&e->attr[k], &fns);
    if (!n) continue;
    const mr_fn_t **inner = mr_mem_take(&a->g->mem, (size_t)n * sizeof(mr_fn_t *));
    for (int i = 0; inner && i < n; i++) inner[i] = NULL;
    for (int i = 0; inner && now && i < n && err >= 0; i++)
      err = amp_body(a->policy, scope, fns[i], e->op->amp.passes ? now : NULL, !e->op->amp.passes,
                     NULL, (mr_fn_t **)(uintptr_t)&inner[i], &a->g->diag);
    attr[k].fn = inner ? inner[0] : NULL; /* all are replaced, also after a failure: amp_drop */
    attr[k].fns = inner;
  }
  return a->g->diag.code < 0 ? a->g->diag.code : err;
}

static void amp_drop(const mr_eqn_t *e, mr_attr_t *attr) {
  for (int k = 0; k < e->n_attr; k++) {
    if (attr[k].kind != MR_ATTR_FN && attr[k].kind != MR_ATTR_FNS) continue;
    int n = attr[k].kind == MR_ATTR_FN ? 1 : attr[k].n;
    for (int i = 0; attr[k].fns && i < n; i++) mr_fn_destroy((mr_fn_t *)(uintptr_t)attr[k].fns[i]);
  }
}

/* The dtype that a product of operands in[] gives, by its attribute `asked`.  It sums in f32: where
   all that read it do so too, the sums need not be rounded. */
static mr_dtype_t amp_product(const amp_t *a, const mr_eqn_t *e, mr_amp_rule_t r,
                              mr_var_t *const *in, mr_dtype_t asked) {
  bool by_class = amp_rule_of(a, e) == MR_AMP_BY_CLASS;
  if (r == MR_AMP_ORIGINAL) return asked;
  if (in[0] && in[0]->aval.dtype == MR_F32) return MR_F32;
  return r == MR_AMP_COMPUTE && !(by_class && a->map[e->out[0]->id].wide) ? a->policy->compute
                                                                          : asked;
}

/* Sets the attribute of e that says which dtype it gives, as its rule and those that read it ask.
 */
static void amp_give(const amp_t *a, const mr_eqn_t *e, mr_amp_rule_t r, mr_var_t *const *in,
                     mr_attr_t *attr) {
  for (int k = 0; k < e->n_attr; k++) {
    mr_dtype_t asked = (mr_dtype_t)attr[k].i[0];
    if (attr[k].kind != MR_ATTR_DTYPE || !amp_converts(asked)) continue;
    if (!strcmp(attr[k].name, "preferred_element_type"))
      attr[k].i[0] = amp_product(a, e, r, in, asked);
    else if (e->op->amp.narrows &&
             (r == MR_AMP_COMPUTE || (r != MR_AMP_ORIGINAL && a->map[e->out[0]->id].narrow)))
      attr[k].i[0] = a->policy->compute;
  }
}

static void amp_operands(const amp_t *a, const mr_eqn_t *e, mr_amp_rule_t r, mr_var_t **in) {
  mr_dtype_t widest = amp_widest(a, e);
  for (int k = 0; k < e->n_in; k++)
    in[k] = amp_as(a, e, e->in[k], amp_dtype_for(a, r, e->in[k], widest), amp_by(r));
}

/* The operands of e as the function of its row wants them.  want: room for e->n_in. */
static void amp_own_operands(const amp_t *a, const mr_eqn_t *e, mr_dtype_t *want, mr_var_t **in) {
  mr_eqn_t whole = *e;
  mr_dtype_t widest = amp_widest(a, e);
  whole.scope = amp_scope(a, e);
  const mr_amp_row_t *row = amp_row_of(a->policy, e, whole.scope);
  for (int k = 0; k < e->n_in; k++) want[k] = amp_dtype_for(a, MR_AMP_AS_IS, e->in[k], widest);
  row->own(row->arg, &whole, want); /* of mr_amp_add_fn: mr_amp_dtypes refuses others */
  for (int k = 0; k < e->n_in; k++) {
    mr_dtype_t now = amp_dtype_for(a, MR_AMP_AS_IS, e->in[k], widest);
    mr_dtype_t t = amp_converts(now) && amp_converts(want[k]) ? want[k] : now;
    in[k] = amp_as(a, e, e->in[k], t, amp_by(MR_AMP_OWN));
  }
}

static mr_err_t amp_eqn(const amp_t *a, const mr_eqn_t *e) {
  mr_fn_t *g = a->g;
  bool calls = amp_calls(e), enters = calls && a->policy->enters;
  mr_amp_rule_t r = calls ? amp_call_rule(a->policy, e) : amp_rule(a, e);
  if (r == MR_AMP_WIDEST && amp_moves(e) && a->map[e->in[0]->id].narrow &&
      a->map[e->in[0]->id].early)
    r = MR_AMP_COMPUTE;
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof(mr_var_t *));
  mr_attr_t *attr = mr_mem_copy(&g->mem, e->attr, (size_t)e->n_attr, sizeof *attr);
  mr_dtype_t *want = mr_mem_take(&g->mem, (size_t)(e->n_in + 1) * sizeof *want);
  mr_eqn_t copy = *e, *c = NULL;
  if (g->mem.failed) return mr_rule_done(g);
  copy.attr = attr;
  if (r == MR_AMP_OWN)
    amp_own_operands(a, e, want, in);
  else
    amp_operands(a, e, r, in);
  amp_give(a, e, r, in, attr);
  MR_TRY(mr_rule_done(g));
  if (!calls && r != MR_AMP_ORIGINAL && !amp_fits(a, &copy, in)) {
    for (int k = 0; k < e->n_attr; k++) attr[k] = e->attr[k]; /* the op does not take that dtype */
    amp_operands(a, e, MR_AMP_ORIGINAL, in);
    if (e->op->amp.narrows) amp_give(a, e, r, in, attr); /* but it may give it */
  }
  if ((!enters || amp_functions(a, e, in, attr) >= 0) && mr_rule_done(g) >= 0)
    c = mr_emit_like(g, &copy, in);
  if (enters) amp_drop(e, attr);
  for (int k = 0; c && k < e->n_out; k++) a->map[e->out[k]->id].now = c->out[k];
  return mr_rule_done(g);
}

/* f's body into a graph of its own, on inputs of the avals in (NULL: f's); outer: the scope of the
   call; keeps: its outputs have f's dtypes; now: as mr_amp_dtypes, or NULL. */
static mr_err_t amp_body(const mr_amp_policy_t *policy, const char *outer, const mr_fn_t *f,
                         const mr_aval_t *in, bool keeps, mr_dtype_t *now, mr_fn_t **out,
                         mr_diag_t *diag) {
  if (f->diag.code < 0) return mr_diag_relay(diag, f->diag.code, &f->diag);
  mr_fn_t *g = mr_fn_create();
  amp_t a = {policy, outer, g, calloc((size_t)f->n_var + 1, sizeof *a.map)};
  if (!g || !a.map) {
    mr_fn_destroy(g);
    free(a.map);
    return mr_no_memory(diag, "amp");
  }
  mr_var_t **all = mr_mem_take(&g->mem, (size_t)(f->n_out + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < f->n_in; i++)
    a.map[f->in[i]->id].now = mr_fn_input(g, in ? in[i] : f->in[i]->aval);
  amp_look_ahead(&a, f);
  for (int i = 0; i < f->n_eqn && mr_rule_done(g) >= 0; i++) amp_eqn(&a, f->eqn[i]);
  for (int i = 0; i < f->n_out && mr_rule_done(g) >= 0; i++) {
    const mr_var_t *y = f->out[i], *v = a.map[y->id].now;
    mr_dtype_t t = keeps || !v ? y->aval.dtype : v->aval.dtype;
    all[i] = amp_as(&a, NULL, y, t, "amp output");
  }
  for (int i = 0; now && i < f->n_var; i++)
    now[i] = a.map[i].now ? a.map[i].now->aval.dtype : MR_F32;
  for (int i = 0; now && i < f->n_in; i++)
    if (a.map[f->in[i]->id].narrow && now[f->in[i]->id] == MR_F32)
      now[f->in[i]->id] = policy->compute;
  free(a.map);
  return mr__finish(g, f->n_out, all, out, diag);
}

mr_err_t mr_amp_dtypes(const mr_fn_t *f, const mr_amp_policy_t *policy, mr_dtype_t *now,
                       mr_fn_t **out, mr_diag_t *diag) {
  if (policy->compute != MR_BF16 && policy->compute != MR_F16)
    return mr_fail(diag, MR_ERR_CONFIG, "amp: compute dtype %s, want bf16 or f16",
                   mr_dtype_name(policy->compute));
  if (policy->others == MR_AMP_OWN)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "amp: others=own: want another rule; a function belongs to a row, which "
                   "mr_amp_add_fn appends");
  for (int i = 0; i < policy->n_rows; i++)
    if (policy->row[i].rule == MR_AMP_OWN && !policy->row[i].own)
      return mr_fail(diag, MR_ERR_CONFIG,
                     "amp: %s=own: want a function, which mr_amp_add_fn takes with it",
                     policy->row[i].name);
  return amp_body(policy, "", f, NULL, true, now, out, diag);
}

mr_err_t mr_amp(const mr_fn_t *f, const mr_amp_policy_t *policy, mr_fn_t **out, mr_diag_t *diag) {
  return mr_amp_dtypes(f, policy, NULL, out, diag);
}
