/* Looking at each value of a run, and going back from a result to the op that its infinities and
   NaNs come from.

   Memory of a value is reused once it is dead, so each value is looked at when it has been computed
   and only its summary is kept; the search then works on summaries.  A graph inside a call has a
   record of its own, which keeps the first fault of any of its runs. */
#include "model/exec/finite.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/exec/exec_private.h"

struct mr_finite {
  mr_exec_t *x;
  mr_seen_t *seen;       /* [n_var] */
  bool *reaches;         /* [n_var], of the search */
  const void *const *in; /* of the run */
  void *const *out;
  struct mr_finite **inner; /* [n_inner] of all calls, in their order */
  int n_inner;
  bool is_inner, faulty; /* an inner record: fault holds the first one */
  int64_t runs;
  mr_fault_t fault;
};

static const mr_seen_t finite_nothing = {.first = -1};

/* ---- one value ---- */

static double f16_value(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double v = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return h >> 15 ? -v : v;
}

static double finite_element(mr_dtype_t t, const char *data, int64_t i) {
  float f;
  double d;
  uint16_t h;
  switch (t) {
    case MR_F64: memcpy(&d, data + 8 * i, sizeof d); return d;
    case MR_F32: memcpy(&f, data + 4 * i, sizeof f); return (double)f;
    case MR_BF16: memcpy(&h, data + 2 * i, sizeof h); return (double)mr_bf16_to_f32(h);
    default: memcpy(&h, data + 2 * i, sizeof h); return f16_value(h);
  }
}

/* Elements [first,first + n) of a value, which lie at data in the host's memory. */
static void finite_add(mr_seen_t *s, mr_dtype_t t, const char *data, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double v = finite_element(t, data, i), size = fabs(v);
    if (isfinite(v)) {
      s->most = size > s->most ? size : s->most;
      continue;
    }
    if (!s->bad++) s->first = first + i, s->value = v;
  }
}

static bool is_looked_at(mr_dtype_t t) {
  return t == MR_F32 || t == MR_F64 || t == MR_BF16 || t == MR_F16;
}

static mr_seen_t finite_look(const mr_device_t *d, const mr_aval_t *a, const void *data) {
  mr_seen_t s = finite_nothing;
  int64_t n = mr_aval_elems(a);
  if (!is_looked_at(a->dtype) || !data) return s;
  if (d->backend->host) {
    finite_add(&s, a->dtype, data, 0, n);
    return s;
  }
  _Alignas(64) char piece[4096];
  int64_t size = (int64_t)mr_dtype_size(a->dtype), each = (int64_t)sizeof piece / size;
  for (int64_t i = 0; i < n; i += each) {
    int64_t m = n - i < each ? n - i : each;
    mr_device_copy(d, piece, (const char *)data + size * i, (size_t)(size * m), MR_COPY_OUT);
    finite_add(&s, a->dtype, piece, i, m);
  }
  return s;
}

/* The memory of v during a run; NULL: it has none, since nothing reads it. */
static const void *finite_memory(const mr_finite_t *w, const mr_var_t *v) {
  const mr_exec_t *x = w->x;
  int at = x->plan.of_var[v->id];
  if (at < 0) return NULL;
  const mr_block_t *b = &x->plan.block[at];
  switch (b->place) {
    case MR_BLOCK_ARENA: return x->arena + b->offset;
    case MR_BLOCK_CONST: return x->constants + b->offset;
    case MR_BLOCK_IN: return w->in[b->index];
    default: return w->out[b->index];
  }
}

/* ---- a run ---- */

/* Before a run of the graph: what inner records have seen in the one before. */
static void forget_inner(mr_finite_t *w) {
  for (int i = 0; i < w->n_inner; i++) {
    w->inner[i]->runs = 0, w->inner[i]->faulty = false;
    forget_inner(w->inner[i]);
  }
}

void mr__finite_begin(mr_finite_t *w, const void *const *in, void *const *out) {
  const mr_fn_t *f = w->x->fn;
  w->in = in, w->out = out;
  for (int i = 0; i < f->n_var; i++) w->seen[i] = finite_nothing;
  for (int i = 0; i < f->n_in; i++)
    w->seen[f->in[i]->id] = finite_look(w->x->device, &f->in[i]->aval, in[i]);
  if (!w->is_inner) forget_inner(w);
}

void mr__finite_call(mr_finite_t *w, int i) {
  const mr_eqn_t *e = w->x->fn->eqn[i];
  for (int k = 0; k < e->n_out; k++)
    w->seen[e->out[k]->id] =
        finite_look(w->x->device, &e->out[k]->aval, finite_memory(w, e->out[k]));
}

static bool search_origin(const mr_finite_t *w, int first, int n, mr_fault_t *fault);

/* An inner run has ended. */
void mr__finite_end(mr_finite_t *w) {
  int64_t run = w->runs++;
  if (!w->is_inner || w->faulty) return;
  mr_fault_t f = {0};
  if (!search_origin(w, 0, w->x->fn->n_out, &f) || !f.eqn) return; /* it came in */
  if (!f.call) f.run = run;
  w->fault = f, w->faulty = true;
}

/* ---- the search ---- */

static bool finite_is_bad(const mr_finite_t *w, const mr_var_t *v) {
  return v->literal ? !isfinite(v->value) : w->seen[v->id].bad > 0;
}

static bool has_nan(const mr_finite_t *w, const mr_var_t *v) {
  return v->literal ? isnan(v->value) : w->seen[v->id].bad > 0 && isnan(w->seen[v->id].value);
}

typedef bool finite_test_t(const mr_finite_t *w, const mr_var_t *v);

static bool any_in(const mr_finite_t *w, const mr_eqn_t *e, finite_test_t *test) {
  for (int k = 0; k < e->n_in; k++)
    if (test(w, e->in[k])) return true;
  return false;
}

/* The first result of e that the search goes through and passes the test; -1: none. */
static int reached_result(const mr_finite_t *w, const mr_eqn_t *e, finite_test_t *test) {
  for (int k = 0; k < e->n_out; k++)
    if (w->reaches[e->out[k]->id] && test(w, e->out[k])) return k;
  return -1;
}

/* Marks the values that are not finite and that outputs [first,first + n) go back to. */
static bool finite_mark(const mr_finite_t *w, int first, int n) {
  const mr_fn_t *f = w->x->fn;
  bool any = false;
  memset(w->reaches, 0, (size_t)f->n_var * sizeof *w->reaches);
  for (int i = first; i < first + n; i++)
    if (finite_is_bad(w, f->out[i]) && !f->out[i]->literal) w->reaches[f->out[i]->id] = any = true;
  for (int i = f->n_eqn - 1; any && i >= 0; i--) {
    const mr_eqn_t *e = f->eqn[i];
    if (reached_result(w, e, finite_is_bad) < 0) continue;
    for (int k = 0; k < e->n_in; k++)
      if (!e->in[k]->literal && finite_is_bad(w, e->in[k])) w->reaches[e->in[k]->id] = true;
  }
  return any;
}

/* The equation is a loop or a branch: the fault inside, if one has been seen there. */
static void go_inside(const mr_finite_t *w, int i, mr_fault_t *fault) {
  int at = 0;
  for (int k = 0; k < i; k++) at += w->x->call[k].n_inner;
  for (int k = 0; k < w->x->call[i].n_inner; k++) {
    const mr_finite_t *inner = w->inner[at + k];
    if (!inner->faulty) continue;
    *fault = inner->fault;
    fault->call = w->x->fn->eqn[i];
    return;
  }
}

static bool fault_at(const mr_finite_t *w, int i, int which, mr_fault_t *fault) {
  const mr_eqn_t *e = w->x->fn->eqn[i];
  *fault = (mr_fault_t){
      .fn = w->x->fn, .eqn = e, .index = i, .which = which, .seen = w->seen[e->out[which]->id]};
  go_inside(w, i, fault);
  return true;
}

static bool search_origin(const mr_finite_t *w, int first, int n, mr_fault_t *fault) {
  const mr_fn_t *f = w->x->fn;
  int which, any = -1;
  if (!finite_mark(w, first, n)) return false;
  for (int i = 0; i < f->n_eqn; i++) {
    if ((which = reached_result(w, f->eqn[i], finite_is_bad)) < 0) continue;
    if (any < 0) any = i;
    if (!any_in(w, f->eqn[i], finite_is_bad)) return fault_at(w, i, which, fault);
  }
  for (int i = 0; i < f->n_in; i++) {
    if (!w->reaches[f->in[i]->id]) continue;
    *fault = (mr_fault_t){.fn = f, .index = -1, .which = i, .seen = w->seen[f->in[i]->id]};
    return true;
  }
  for (int i = 0; i < f->n_eqn; i++)
    if ((which = reached_result(w, f->eqn[i], has_nan)) >= 0 && !any_in(w, f->eqn[i], has_nan))
      return fault_at(w, i, which, fault);
  if (any < 0) return false; /* the output is a literal */
  return fault_at(w, any, reached_result(w, f->eqn[any], finite_is_bad), fault);
}

bool mr_finite_origin(const mr_finite_t *w, int out, mr_fault_t *fault) {
  return search_origin(w, out, 1, fault);
}

const mr_seen_t *mr_finite_seen(const mr_finite_t *w, const mr_var_t *v) {
  return v->literal ? &finite_nothing : &w->seen[v->id];
}

/* ---- lifetime ---- */

static mr_err_t finite_create_inner(mr_finite_t *w, mr_diag_t *diag) {
  int n = 0;
  for (int i = 0; i < w->x->fn->n_eqn; i++) n += w->x->call[i].n_inner;
  if (n && !(w->inner = calloc((size_t)n, sizeof *w->inner)))
    return mr_no_memory(diag, "the search for values that are not finite");
  for (int i = 0; i < w->x->fn->n_eqn; i++)
    for (int k = 0; k < w->x->call[i].n_inner; k++) {
      MR_TRY(mr_finite_create(w->x->call[i].inner[k].exec, &w->inner[w->n_inner], diag));
      w->inner[w->n_inner++]->is_inner = true;
    }
  return MR_OK;
}

mr_err_t mr_finite_create(mr_exec_t *x, mr_finite_t **out, mr_diag_t *diag) {
  size_t n = (size_t)x->fn->n_var + 1;
  assert(!x->finite);
  mr_finite_t *w = calloc(1, sizeof *w);
  mr_err_t e = MR_OK;
  if (w) w->x = x, w->seen = calloc(n, sizeof *w->seen), w->reaches = calloc(n, 1);
  if (!w || !w->seen || !w->reaches)
    e = mr_no_memory(diag, "the search for values that are not finite");
  if (e >= 0) e = finite_create_inner(w, diag);
  if (e < 0) {
    mr_finite_destroy(w);
    return e;
  }
  x->finite = w;
  *out = w;
  return MR_OK;
}

void mr_finite_destroy(mr_finite_t *w) {
  if (!w) return;
  for (int i = 0; i < w->n_inner; i++) mr_finite_destroy(w->inner[i]);
  if (w->x->finite == w) w->x->finite = NULL;
  free(w->inner);
  free(w->seen);
  free(w->reaches);
  free(w);
}
