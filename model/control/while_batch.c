/* vmap of while.  A carry that becomes mapped in some step must be mapped from the start.  If the
   condition is mapped, the loop runs while it is true for some example; an example for which it
   is false keeps its carries. */
#include "model/control/flow.h"
#include "model/ops/call.h"
#include "model/ops/rules.h"
#include "model/transforms/transforms.h"

typedef struct mapping {
  mr_while_parts_t p;
  int64_t size;
  bool *in;      /* [n_cond + n_body + n_carry]: whether each operand of e is mapped */
  bool *out;     /* [n_carry]: each result */
  bool *cond;    /* [n_cond + n_carry]: each operand of the condition */
  bool decision; /* the condition's result is mapped */
  mr_fn_t *mapped_cond, *mapped_body;
} mapping_t;

static mr_err_t map_body(mapping_t *m, mr_fn_t *f) {
  bool *in = m->in + m->p.n_cond, *carry = in + m->p.n_body;
  for (bool more = true; more;) {
    more = false;
    mr_fn_destroy(m->mapped_body);
    m->mapped_body = NULL;
    for (int k = 0; k < m->p.n_carry; k++) m->out[k] = carry[k];
    MR_TRY(mr__call_mapped(f, m->p.body, m->size, in, m->out, &m->mapped_body));
    for (int k = 0; k < m->p.n_carry; k++) {
      more |= m->out[k] != carry[k];
      carry[k] = m->out[k];
    }
  }
  return MR_OK;
}

static mr_err_t map_cond(mapping_t *m, mr_fn_t *f) {
  for (int i = 0; i < m->p.n_cond; i++) m->cond[i] = m->in[i];
  for (int k = 0; k < m->p.n_carry; k++)
    m->cond[m->p.n_cond + k] = m->in[m->p.n_cond + m->p.n_body + k];
  mr_fn_destroy(m->mapped_cond);
  m->mapped_cond = NULL;
  return mr__call_mapped(f, m->p.cond, m->size, m->cond, &m->decision, &m->mapped_cond);
}

/* The condition of the mapped loop: whether it is true for some example. */
static mr_fn_t *any_continues(const mapping_t *m) {
  const mr_fn_t *c = m->mapped_cond;
  mr_fn_t *g = mr_fn_create();
  mr_var_t *yes;
  for (int i = 0; i < c->n_in; i++) mr_fn_input(g, c->in[i]->aval);
  mr_inline(g, c, g->in, &yes);
  yes = mr_lax_reduce_max(g, mr_lax_convert(g, yes, MR_F32), 1, (int[]){0});
  yes = mr_lax_gt(g, yes, mr_literal(g, MR_F32, 0));
  mr_fn_return(g, 1, &yes);
  return g;
}

/* The body of the mapped loop: (the condition's constants, the body's, carries) -> for each
   example the body's carries if its condition is true, else the carries it had. */
static mr_fn_t *step_where_it_continues(const mapping_t *m) {
  const mr_fn_t *c = m->mapped_cond, *b = m->mapped_body;
  mr_fn_t *g = mr_fn_create();
  int n = m->p.n_cond;
  mr_var_t **in = mr_mem_take(&g->mem, (size_t)(c->n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&g->mem, (size_t)(b->n_out + 1) * sizeof(mr_var_t *)), *go = NULL;
  for (int i = 0; i < n; i++) mr_fn_input(g, c->in[i]->aval);
  for (int i = 0; i < b->n_in; i++) mr_fn_input(g, b->in[i]->aval);
  mr_var_t *const *carry = g->in + n + m->p.n_body;
  for (int i = 0; i < c->n_in; i++) in[i] = i < n ? g->in[i] : carry[i - n];
  mr_inline(g, c, in, &go);
  mr_inline(g, b, g->in + n, y);
  for (int k = 0; k < b->n_out; k++) y[k] = mr_batch_select(g, go, carry[k], y[k]);
  mr_fn_return(g, b->n_out, y);
  return g;
}

/* Handles a mapped condition.  Every carry becomes mapped, because examples end at different
   times. */
static mr_err_t map_decision(mapping_t *m, mr_fn_t *f) {
  for (int k = 0; k < m->p.n_carry; k++) m->in[m->p.n_cond + m->p.n_body + k] = true;
  MR_TRY(map_body(m, f));
  MR_TRY(map_cond(m, f));
  mr_fn_t *body = step_where_it_continues(m), *cond = any_continues(m);
  mr_fn_destroy(m->mapped_body);
  mr_fn_destroy(m->mapped_cond);
  m->mapped_body = body;
  m->mapped_cond = cond;
  if (body->diag.code < 0) return mr__call_failed(f, &body->diag);
  return cond->diag.code < 0 ? mr__call_failed(f, &cond->diag) : MR_OK;
}

static mr_err_t emit_mapped(const mapping_t *m, mr_fn_t *f, const mr_batched_t *in,
                            mr_batched_t *out) {
  int n_cond = m->p.n_cond, n_in = n_cond + m->p.n_body + m->p.n_carry, n = 0;
  mr_var_t **v = mr_mem_take(&f->mem, (size_t)(n_cond + n_in + 1) * sizeof(mr_var_t *));
  mr_var_t **y = mr_mem_take(&f->mem, (size_t)(m->p.n_carry + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < n_in; i++) {
    v[n++] = m->in[i] ? mr_batch_front(f, &in[i], m->size) : in[i].var;
    if (m->decision && i == n_cond - 1) /* the body evaluates the condition too */
      for (int k = 0; k < n_cond; k++) v[n++] = v[k];
  }
  MR_TRY(mr_lax_while(f, m->mapped_cond, n_cond, m->mapped_body,
                      m->p.n_body + (m->decision ? n_cond : 0), v, y));
  for (int k = 0; k < m->p.n_carry; k++) out[k] = (mr_batched_t){y[k], m->out[k] ? 0 : -1};
  return MR_OK;
}

mr_err_t mr__while_batch(mr_fn_t *f, const mr_eqn_t *e, const mr_batched_t *in, mr_batched_t *out) {
  mapping_t m = {.p = mr__while_parts(e), .size = mr__call_size(f, e, in)};
  m.in = mr_mem_take(&f->mem, (size_t)(2 * e->n_in + e->n_out) + 1);
  m.out = m.in + e->n_in;
  m.cond = m.out + e->n_out;
  for (int i = 0; i < e->n_in; i++) m.in[i] = in[i].axis >= 0;
  mr_err_t err = map_body(&m, f);
  if (err >= 0) err = map_cond(&m, f);
  if (err >= 0 && m.decision) err = map_decision(&m, f);
  if (err >= 0) err = emit_mapped(&m, f, in, out);
  mr_fn_destroy(m.mapped_cond);
  mr_fn_destroy(m.mapped_body);
  return err < 0 ? err : mr_rule_done(f);
}
