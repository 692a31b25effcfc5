/* Programs made from a seed: 20 to 60 equations over most ops and dtypes, calls, loops and branches
   among them, on values of a few small shapes.  A tame program keeps its values bounded and away
   from poles, so that f32 can be compared with f64; a wild one does not, and takes NaN, infinities
   and both zeros as inputs too. */
#ifndef MR_TESTS_MODEL_RANDOM_PROGRAM_H
#define MR_TESTS_MODEL_RANDOM_PROGRAM_H

#include "tests/model/random_ops.h"

enum { MAKER_OUTS = 4 };

/* ---- functions that are called: made like the program around them ---- */

static inline void make_equation(maker_t *m);

/* in[n] of m as inputs of a new function of a few equations. */
static inline maker_t inner_maker(const maker_t *m, int n, const made_t *in) {
  maker_t s = *m;
  s.f = mr_fn_create(), s.n = 0, s.depth = m->depth + 1;
  for (int i = 0; i < n; i++) keep_made(&s, mr_fn_input(s.f, in[i].v->aval), in[i].mag);
  return s;
}

static inline void grow(maker_t *s, int n_eqn) {
  int turn = 0;
  while (s->f->n_eqn < n_eqn && turn++ < 4 * n_eqn) make_equation(s);
}

/* Returns n values; those of floats are at most 1 where `bounded`, and have the avals in like[n].
 */
static inline void end_with(maker_t *s, int n, const mr_aval_t *like, bool bounded, made_t *out) {
  mr_var_t *v[MAKER_OUTS + 2];
  for (int k = 0; k < n; k++) {
    made_t x = pick_made(s);
    if (like) x = as_dtype(s, x, like[k].dtype);
    if (like) x.v = shaped(s, x.v, &like[k]);
    if (bounded && mr_is_float(x.v->aval.dtype) && x.mag > 1)
      x = (made_t){mr_lax_tanh(s->f, x.v), 1};
    if (out) out[k] = x;
    v[k] = x.v;
  }
  if (mr_fn_return(s->f, n, v) < 0) fail_msg("generator: %s", s->f->diag.text);
}

static inline int pick_operands(maker_t *m, made_t *in, mr_var_t **v) {
  int n = 1 + (int)under(3);
  for (int i = 0; i < n; i++) {
    in[i] = pick_made(m);
    if (mr_is_float(in[i].v->aval.dtype)) in[i] = tame(m, in[i], 10);
    v[i] = in[i].v;
  }
  return n;
}

/* The rule is not the function's own: a transform that loses it is found out. */
static inline mr_var_t *scaled_tangent(mr_fn_t *r, mr_var_t *t, const mr_aval_t *y) {
  if (!mr_is_float(t->aval.dtype) || !mr_is_float(y->dtype) || !mr_aval_elems(&t->aval))
    return mr_lax_full(r, y, 0);
  int axes[MR_MAX_NDIM] = {0, 1, 2, 3, 4, 5, 6, 7};
  t = mr_lax_reduce_sum(r, t, t->aval.ndim, axes);
  t = mr_lax_scale(r, 0.25, mr_lax_convert(r, t, y->dtype));
  return mr_lax_broadcast_in_dim(r, t, y->ndim, y->dim, NULL);
}

static inline mr_fn_t *random_jvp_rule(const mr_fn_t *body) {
  mr_fn_t *r = begin(body);
  mr_var_t *y[2 * MAKER_OUTS];
  for (int i = 0; i < body->n_in; i++) mr_fn_input(r, body->in[i]->aval);
  mr_inline(r, body, r->in, y);
  for (int k = 0; k < body->n_out; k++)
    y[body->n_out + k] = scaled_tangent(r, r->in[body->n_in + k % body->n_in], &body->out[k]->aval);
  if (mr_fn_return(r, 2 * body->n_out, y) < 0) fail_msg("generator: %s", r->diag.text);
  return r;
}

/* fwd keeps input 0; the cotangent of each input is made of one of an output. */
static inline void random_vjp_rule(const mr_fn_t *body, mr_fn_t **fwd, mr_fn_t **bwd) {
  mr_var_t *y[2 * MAKER_OUTS];
  *fwd = begin(body), *bwd = mr_fn_create();
  mr_inline(*fwd, body, (*fwd)->in, y);
  y[body->n_out] = (*fwd)->in[0];
  mr_fn_return(*fwd, body->n_out + 1, y);
  mr_fn_input(*bwd, body->in[0]->aval);
  for (int k = 0; k < body->n_out; k++) mr_fn_input(*bwd, body->out[k]->aval);
  for (int i = 0; i < body->n_in; i++)
    y[i] = scaled_tangent(*bwd, (*bwd)->in[1 + i % body->n_out], &body->in[i]->aval);
  if ((*fwd)->diag.code < 0 || mr_fn_return(*bwd, body->n_in, y) < 0)
    fail_msg("generator: a vjp rule failed");
}

static inline void make_call(maker_t *m) {
  made_t in[3], out[MAKER_OUTS];
  mr_var_t *v[3], *y[2 * MAKER_OUTS];
  int n = pick_operands(m, in, v), n_out = 1 + (int)under(2);
  maker_t s = inner_maker(m, n, in);
  grow(&s, 2 + (int)under(6));
  end_with(&s, n_out, NULL, false, out);
  mr_fn_t *rule = NULL, *fwd = NULL, *bwd = NULL, *saved = NULL;
  mr_diag_t diag = {0};
  switch (under(4)) {
    case 0: mr_lax_jit(m->f, "inner", s.f, v, y); break;
    case 1:
      if (mr_checkpoint(s.f,
                        one_in(2)   ? mr_save_dots
                        : one_in(2) ? mr_save_everything
                                    : NULL,
                        &saved, &diag) < 0)
        fail_msg("generator: %s", diag.text);
      mr_inline(m->f, saved, v, y);
      break;
    case 2: mr_lax_custom_jvp(m->f, s.f, rule = random_jvp_rule(s.f), v, y); break;
    default:
      if (m->own_vjps) {
        random_vjp_rule(s.f, &fwd, &bwd);
        mr_lax_custom_vjp(m->f, s.f, fwd, bwd, v, y);
      } else {
        mr_inline(m->f, s.f, v, y);
      }
  }
  for (int k = 0; k < n_out; k++) keep_made(m, y[k], out[k].mag);
  mr_fn_t *used[] = {s.f, rule, fwd, bwd, saved};
  for (int i = 0; i < 5; i++) mr_fn_destroy(used[i]);
}

static inline void make_switch(maker_t *m) {
  made_t in[3], index = as_dtype(m, pick_made(m), MR_I32);
  mr_var_t *v[3], *y[MAKER_OUTS];
  mr_aval_t like[MAKER_OUTS], one = mr_aval_scalar(MR_I32);
  int n = pick_operands(m, in, v), n_out = 1 + (int)under(2), branches = 1 + (int)under(3);
  mr_fn_t *b[3];
  for (int k = 0; k < n_out; k++)
    like[k] = random_shape(m, one_in(4) ? whole_dtype() : float_dtype(m));
  for (int j = 0; j < branches; j++) {
    maker_t s = inner_maker(m, n, in);
    grow(&s, (int)under(5));
    end_with(&s, n_out, like, true, NULL);
    b[j] = s.f;
  }
  index.v = shaped(m, index.v, &one);
  mr_lax_switch(m->f, index.v, branches, (const mr_fn_t *const *)(uintptr_t)b, v, y);
  for (int k = 0; k < n_out; k++) keep_made(m, y[k], mr_is_float(like[k].dtype) ? 1 : 1e9);
  for (int j = 0; j < branches; j++) mr_fn_destroy(b[j]);
}

/* Carries are at most 1 and come out so. */
static inline made_t carry(maker_t *m) {
  made_t x = pick_made(m);
  return mr_is_float(x.v->aval.dtype) ? tame(m, x, 1) : x;
}

static inline void make_scan_loop(maker_t *m) {
  made_t in[3] = {pick_made(m), carry(m)}, x = pick_made(m), row;
  if (mr_is_float(in[0].v->aval.dtype)) in[0] = tame(m, in[0], 10);
  if (mr_is_float(x.v->aval.dtype)) x = tame(m, x, 10);
  int64_t n = x.v->aval.ndim ? x.v->aval.dim[0] : 0;
  if (!x.v->aval.ndim || n > 4) return;
  mr_aval_t a = x.v->aval, like[2] = {in[1].v->aval, random_shape(m, float_dtype(m))};
  a.ndim--;
  for (int i = 0; i < a.ndim; i++) a.dim[i] = a.dim[i + 1];
  row = (made_t){&(mr_var_t){.aval = a}, x.mag};
  in[2] = row;
  maker_t s = inner_maker(m, 3, in);
  grow(&s, 2 + (int)under(5));
  end_with(&s, 2, like, true, NULL);
  mr_var_t *y[2], *v[] = {in[0].v, in[1].v, x.v};
  mr_lax_scan(m->f, s.f, &(mr_scan_t){n, 1, 1, one_in(2)}, v, y);
  for (int k = 0; k < 2; k++) keep_made(m, y[k], mr_is_float(y[k]->aval.dtype) ? 1 : 1e9);
  mr_fn_destroy(s.f);
}

/* (bound, i, carry) -> i < bound, at most 3 */
static inline mr_fn_t *loop_condition(const mr_aval_t *carried) {
  mr_fn_t *c = mr_fn_create();
  mr_aval_t one = mr_aval_scalar(MR_I32);
  mr_var_t *bound = mr_fn_input(c, one), *i = mr_fn_input(c, one);
  mr_fn_input(c, *carried);
  i = mr_lax_lt(c, i, mr_lax_min(c, bound, mr_literal(c, MR_I32, 3)));
  mr_fn_return(c, 1, &i);
  return c;
}

/* A number of the program says how often it runs its body. */
static inline void make_while_loop(maker_t *m) {
  mr_aval_t one = mr_aval_scalar(MR_I32);
  mr_var_t *v[4], *y[2];
  v[0] = mr_lax_stop_gradient(m->f, shaped(m, as_dtype(m, pick_made(m), MR_I32).v, &one));
  made_t in[3] = {pick_made(m), {mr_literal(m->f, MR_I32, 0), 3}, carry(m)};
  if (mr_is_float(in[0].v->aval.dtype)) in[0] = tame(m, in[0], 10);
  for (int i = 0; i < 3; i++)
    v[i + 1] = i == 1 || m->whiles ? in[i].v : mr_lax_stop_gradient(m->f, in[i].v);
  maker_t s = inner_maker(m, 3, in);
  mr_fn_t *c = loop_condition(&in[2].v->aval);
  mr_aval_t like = in[2].v->aval;
  made_t out;
  grow(&s, 2 + (int)under(5));
  end_with(&s, 1, &like, true, &out);
  y[0] = mr_lax_add(s.f, s.f->in[1], mr_literal(s.f, MR_I32, 1)), y[1] = out.v;
  mr_fn_return(s.f, 2, y);
  mr_lax_while(m->f, c, 1, s.f, 1, v, y);
  keep_made(m, y[1], mr_is_float(like.dtype) ? 1 : 1e9);
  mr_fn_destroy(c);
  mr_fn_destroy(s.f);
}

static inline void make_nested(maker_t *m) {
  if (m->depth > 2) return;
  switch (under(5)) {
    case 0: make_switch(m); break;
    case 1: make_scan_loop(m); break;
    case 2: make_while_loop(m); break;
    default: make_call(m); break;
  }
}

static inline void make_equation(maker_t *m) {
  switch (under(24)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: make_unary(m); break;
    case 5:
    case 6:
    case 7:
    case 8: make_binary(m); break;
    case 9:
    case 10: make_whole(m); break;
    case 11: make_compare(m); break;
    case 12: make_select(m); break;
    case 13: make_convert(m); break;
    case 14:
    case 15: make_move(m); break;
    case 16: make_concatenate(m); break;
    case 17: make_from_nothing(m); break;
    case 18:
    case 19: make_reduce(m); break;
    case 20: make_product(m); break;
    case 21: make_composite(m); break;
    case 22: make_draw(m); break;
    default: make_nested(m); break;
  }
}

/* What a wild program is given beside numbers. */
static inline void make_special(double *x, int64_t n) {
  static const double special[] = {0, -0.0, NAN, INFINITY, -INFINITY, 1, 1e-40, 3e38};
  for (int64_t k = 0; k < n; k++)
    if (one_in(5)) x[k] = special[under(8)];
}

static inline void draw_inputs(func_t *q, bool wild) {
  draw_all(q);
  for (int i = 0; i < q->f->n_in && wild; i++)
    if (mr_is_float(q->f->in[i]->aval.dtype)) make_special(q->in[i], elems(q->f->in[i]));
}

/* The program of a seed, with values for its inputs, of the caller (func_fini).  *narrow: whether
   it may hold bf16. */
static inline func_t random_program(uint32_t seed, bool wild, bool *narrow) {
  grid_state = (seed + 1) * 2654435761u;
  for (int i = 0; i < 4; i++) grid_random();
  uint32_t kind = under(4);
  func_t q = {.f = mr_fn_create(), .reverse_only = kind == 1, .forward_only = kind == 2};
  snprintf(q.name, sizeof q.name, "%s program %u", wild ? "wild" : "tame", seed);
  maker_t m = {.f = q.f, .a = under(24) ? 1 + under(4) : 0, .b = 1 + under(5), .wild = wild};
  m.whiles = kind == 2, m.own_vjps = kind == 1, m.draws = one_in(3);
  *narrow = m.narrow = one_in(3);
  const mr_dtype_t t[] = {MR_F32, MR_F32, float_dtype(&m), whole_dtype(), MR_BOOL};
  for (int i = 0; i < 5; i++) {
    mr_aval_t a = i ? random_shape(&m, t[i]) : mr_aval_of(MR_F32, m.a, m.b);
    q.lo[i] = i == 4 || t[i] == MR_U8 || t[i] == MR_U32 ? 0 : -2, q.hi[i] = i == 4 ? 1 : 2;
    keep_made(&m, mr_fn_input(m.f, a), i < 4 ? 2 : 1);
    if (i < 3) q.wrt[q.n_wrt++] = i;
  }
  grow(&m, 20 + (int)under(41));
  end_with(&m, 1 + (int)under(MAKER_OUTS), NULL, false, NULL);
  draw_inputs(&q, wild);
  return q;
}

#endif
