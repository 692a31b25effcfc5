/* Building a fn: arrays that grow, vars and literals, and mr_emit, which checks each equation
   before it is appended.  Objects come from f->mem; the first failure stays in f->diag. */
#include "model/ir/fn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ir/op.h"

mr_fn_t *mr_fn_create(void) {
  mr_fn_t *f = calloc(1, sizeof *f);
  if (!f) { /* a failed fn, so that builders need no check */
    if (!(f = mr_mem_reserve(sizeof *f))) return NULL;
    f->of_reserve = f->mem.failed = true;
    mr_no_memory(&f->diag, "the description of a graph");
  }
  f->mem.diag = &f->diag;
  f->scope = "", f->by = "", f->precision = mr_matmul_precision(), f->keys = mr_key_layout();
  return f;
}

void mr_fn_destroy(mr_fn_t *f) {
  if (!f) return;
  for (int i = 0; i < f->n_child; i++) mr_fn_destroy(f->child[i]);
  free(f->child);
  mr_mem_fini(&f->mem);
  free(f->eqn);
  if (f->of_reserve)
    mr_mem_give_reserve();
  else
    free(f);
}

/* Makes room in *array for element n.  false: f has failed. */
static bool fn_room(mr_fn_t *f, void *array, int *cap, int n, size_t size) {
  void **a = array;
  if (n < *cap) return true;
  int more = *cap ? *cap * 2 : 32;
  void *grown = realloc(*a, (size_t)more * size);
  if (!grown) {
    mr_no_memory(&f->diag, "the description of a graph");
    return false;
  }
  *a = grown;
  *cap = more;
  return true;
}

/* A function body has no access to its caller's values; they must be operands of the call. */
#define TAKE_IT "; take it as an input"

/* NULL only if the reserve is used up. */
static mr_var_t *new_var(mr_fn_t *f, mr_aval_t aval, mr_eqn_t *def) {
  mr_var_t *v = mr_mem_take(&f->mem, sizeof *v);
  if (!v) return NULL;
  *v = (mr_var_t){.aval = aval, .def = def, .id = f->n_var++, .fn = f};
  return v;
}

mr_var_t *mr_fn_input(mr_fn_t *f, mr_aval_t aval) {
  char text[MR_AVAL_TEXT];
  const char *wrong = mr_aval_wrong(&aval);
  if (wrong) {
    mr_fail(&f->diag, MR_ERR_SHAPE, "input %d, %s: %s", f->n_in, mr_aval_text(&aval, text), wrong);
    return NULL;
  }
  if (f->n_in == f->cap_in) { /* from mem, so that a failed f has its inputs too */
    int cap = f->cap_in ? 2 * f->cap_in : 8;
    mr_var_t **in = mr_mem_take(&f->mem, (size_t)cap * sizeof *in);
    if (!in) return NULL;
    if (f->n_in) memcpy(in, f->in, (size_t)f->n_in * sizeof *in);
    f->in = in, f->cap_in = cap;
  }
  mr_var_t *v = new_var(f, aval, NULL);
  return v ? f->in[f->n_in++] = v : NULL;
}

mr_err_t mr_fn_return(mr_fn_t *f, int n, mr_var_t *const *out) {
  for (int i = 0; i < n; i++)
    if (!out[i])
      return mr_fail(&f->diag, MR_ERR_SHAPE, "output %d of the function has no value", i);
    else if (out[i]->fn != f)
      return mr_fail(&f->diag, MR_ERR_SHAPE, "output %d is a value of another function" TAKE_IT, i);
  if (f->diag.code < 0) return f->diag.code;
  f->out = mr_mem_copy(&f->mem, out, (size_t)n, sizeof *out);
  if (f->mem.failed) return f->diag.code;
  f->n_out = n;
  return MR_OK;
}

static mr_var_t *new_literal(mr_fn_t *f, mr_dtype_t dtype, double value, int64_t whole) {
  mr_var_t *v = new_var(f, mr_aval_scalar(dtype), NULL);
  if (!v) return NULL;
  v->literal = true;
  v->value = value;
  v->whole = whole;
  return v;
}

/* Returns the bits of the dtype's number that is nearest to value; NaN gives 0. */
static int64_t nearest_whole(mr_dtype_t dtype, double value) {
  int bits = 8 * (int)mr_dtype_size(dtype);
  bool is_unsigned = dtype == MR_BOOL || dtype == MR_U8 || dtype == MR_U32 || dtype == MR_U64;
  double most = ldexp(1, bits - !is_unsigned), least = is_unsigned ? 0 : -most;
  if (isnan(value)) return 0;
  if (value < least) return is_unsigned ? 0 : (int64_t)least;
  if (value >= most) return (int64_t)(~(uint64_t)0 >> (64 - bits + !is_unsigned));
  return is_unsigned ? (int64_t)(uint64_t)value : (int64_t)value;
}

mr_var_t *mr_literal(mr_fn_t *f, mr_dtype_t dtype, double value) {
  if (dtype == MR_F32) value = (float)value;
  if (dtype == MR_BF16) value = mr_bf16_to_f32(mr_bf16_from_f32((float)value));
  if (dtype == MR_F16) value = mr_f16_to_f32(mr_f16_from_f64(value));
  if (mr_is_storage(dtype)) value = mr_f8_to_f32(dtype, mr_f8_from_f32(dtype, (float)value));
  return new_literal(f, dtype, value, mr_is_float(dtype) ? 0 : nearest_whole(dtype, value));
}

mr_var_t *mr_literal_whole(mr_fn_t *f, mr_dtype_t dtype, int64_t bits) {
  return new_literal(f, dtype, dtype == MR_U64 ? (double)(uint64_t)bits : (double)bits, bits);
}

mr_var_t *mr_literal_like(mr_fn_t *f, mr_dtype_t dtype, const mr_var_t *v) {
  bool same = dtype == v->aval.dtype && !mr_is_float(dtype);
  return same ? mr_literal_whole(f, dtype, v->whole) : mr_literal(f, dtype, v->value);
}

bool mr_literal_same(const mr_var_t *a, const mr_var_t *b) {
  return a->literal && b->literal && mr_aval_equal(&a->aval, &b->aval) && a->whole == b->whole &&
         !memcmp(&a->value, &b->value, sizeof a->value);
}

static int fn_by_name(const void *a, const void *b) {
  return strcmp(((const mr_attr_t *)a)->name, ((const mr_attr_t *)b)->name);
}

static mr_err_t fn_check_counts(mr_fn_t *f, const mr_eqn_t *e) {
  const mr_op_def_t *op = e->op;
  if (op->n_in >= 0 && e->n_in != op->n_in)
    return mr_fail(&f->diag, MR_ERR_SHAPE, "%s: %d inputs, want %d", op->name, e->n_in, op->n_in);
  if (op->n_out >= 0 && e->n_out != op->n_out)
    return mr_fail(&f->diag, MR_ERR_SHAPE, "%s: %d outputs, want %d", op->name, e->n_out,
                   op->n_out);
  return MR_OK;
}

/* A shape rule may compute sizes that overflow or have too many dimensions. */
static mr_err_t check_results(mr_fn_t *f, const mr_eqn_t *e, int n_out, const mr_aval_t *out) {
  for (int i = 0; i < n_out; i++) {
    const char *wrong = mr_aval_wrong(&out[i]);
    if (wrong) return mr_shape_fail(e, &f->diag, wrong);
  }
  return MR_OK;
}

/* A copy of fn, owned by f.  NULL: f has failed. */
static const mr_fn_t *own_copy(mr_fn_t *f, const mr_fn_t *fn) {
  mr_fn_t *copy = mr_fn_copy(fn, &f->diag);
  if (!copy) return NULL;
  if (!fn_room(f, &f->child, &f->cap_child, f->n_child, sizeof *f->child)) {
    mr_fn_destroy(copy);
    return NULL;
  }
  return f->child[f->n_child++] = copy;
}

/* Replaces the functions in *a by copies that f owns.  MR_OK or f's failure. */
static mr_err_t adopt_one(mr_fn_t *f, mr_attr_t *a) {
  const mr_fn_t *const *fns;
  int n = mr_attr_calls(a, &fns);
  if (!n) return MR_OK;
  const mr_fn_t **own = mr_mem_take(&f->mem, (size_t)n * sizeof(mr_fn_t *));
  if (f->mem.failed) return f->diag.code;
  for (int k = 0; k < n; k++)
    if (!(own[k] = own_copy(f, fns[k]))) return f->diag.code;
  a->fn = own[0];
  a->fns = own;
  return MR_OK;
}

static mr_err_t adopt_functions(mr_fn_t *f, mr_eqn_t *e) {
  for (int i = 0; i < e->n_attr; i++) MR_TRY(adopt_one(f, &e->attr[i]));
  return MR_OK;
}

/* Counts are checked too: callers may have computed them. */
static mr_err_t check_call(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in,
                           int n_attr, const mr_attr_t *attr) {
  const char *scope = f->scope, *colon = *scope ? ": " : "";
  if (n_in < 0)
    return mr_fail(&f->diag, MR_ERR_SHAPE, "%s%s%s: %d operands", scope, colon, op->name, n_in);
  for (int i = 0; i < n_in; i++)
    if (!in[i])
      return mr_fail(&f->diag, MR_ERR_SHAPE, "%s%s%s: operand %d has no value", scope, colon,
                     op->name, i);
    else if (in[i]->fn != f)
      return mr_fail(&f->diag, MR_ERR_SHAPE,
                     "%s%s%s: operand %d is a value of another function" TAKE_IT, scope, colon,
                     op->name, i);
  for (int i = 0; i < n_attr; i++)
    if (attr[i].n < 0)
      return mr_fail(&f->diag, MR_ERR_SHAPE, "%s%s%s: %d %s, want at least 0", scope, colon,
                     op->name, attr[i].n, attr[i].name);
  return MR_OK;
}

mr_eqn_t *mr_emit(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                  const mr_attr_t *attr, int n_out) {
  if (f->diag.code < 0 || check_call(f, op, n_in, in, n_attr, attr) < 0) return NULL;
  mr_eqn_t *e = mr_mem_take(&f->mem, sizeof *e);
  if (f->mem.failed) return NULL;
  *e = (mr_eqn_t){.op = op, .n_in = n_in, .n_out = n_out, .n_attr = n_attr, .scope = f->scope};
  e->by = f->by, e->of = f->of, e->row = f->row;
  e->in = mr_mem_copy(&f->mem, in, (size_t)n_in, sizeof *in);
  e->attr = mr_mem_copy(&f->mem, attr, (size_t)n_attr, sizeof *attr);
  if (f->mem.failed) return NULL;
  if (f->precision && op->cost.product && !mr_attr_find(e, "precision"))
    mr_attr_set(f, e, mr_attr_precision(f->precision));
  n_attr = e->n_attr;
  /* In jax's printing order, so that equal equations also compare attribute by attribute (cse). */
  if (n_attr > 1) qsort(e->attr, (size_t)n_attr, sizeof *attr, fn_by_name);
  mr_aval_t *out = mr_mem_take(&f->mem, (size_t)(n_out + 1) * sizeof *out);
  if (f->mem.failed || fn_check_counts(f, e) < 0 || adopt_functions(f, e) < 0 ||
      op->shape(e, out, &f->diag) < 0 || check_results(f, e, n_out, out) < 0)
    return NULL;
  e->out = mr_mem_take(&f->mem, (size_t)n_out * sizeof *e->out);
  for (int i = 0; i < n_out && !f->mem.failed; i++) e->out[i] = new_var(f, out[i], e);
  if (f->mem.failed || !fn_room(f, &f->eqn, &f->cap_eqn, f->n_eqn, sizeof *f->eqn)) return NULL;
  return f->eqn[f->n_eqn++] = e;
}

mr_err_t mr_eqn_widen(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr, int n, const mr_aval_t *more) {
  MR_TRY(adopt_one(f, &attr));
  attr.name = mr_attr_get(e, attr.name)->name;
  mr_var_t **out = mr_mem_take(&f->mem, (size_t)(e->n_out + n + 1) * sizeof(mr_var_t *));
  for (int i = 0; i < e->n_out + n && !f->mem.failed; i++)
    out[i] = i < e->n_out ? e->out[i] : new_var(f, more[i - e->n_out], e);
  if (f->mem.failed) return f->diag.code;
  e->out = out;
  e->n_out += n;
  mr_attr_set(f, e, attr);
  return f->diag.code < 0 ? f->diag.code : MR_OK;
}

mr_var_t *mr_emit1(mr_fn_t *f, const mr_op_def_t *op, int n_in, mr_var_t *const *in, int n_attr,
                   const mr_attr_t *attr) {
  mr_eqn_t *e = mr_emit(f, op, n_in, in, n_attr, attr, 1);
  return e ? e->out[0] : NULL;
}

/* Copies e's attributes into g: their names and texts must not point into e's own fn. */
static mr_attr_t *own_attrs(mr_fn_t *g, const mr_eqn_t *e) {
  mr_attr_t *a = mr_mem_copy(&g->mem, e->attr, (size_t)e->n_attr, sizeof *a);
  for (int i = 0; i < e->n_attr && !g->mem.failed; i++) {
    a[i].name = mr_mem_text(&g->mem, a[i].name);
    if (a[i].text) a[i].text = mr_mem_text(&g->mem, a[i].text);
  }
  return a;
}

mr_eqn_t *mr_emit_like(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *in) {
  mr_origin_t outer = mr_origin(f);
  const char *scope = mr_mem_text(&f->mem, e->scope);
  const char *row = e->row ? mr_mem_text(&f->mem, e->row) : NULL;
  if (f->mem.failed) return NULL;
  mr_origin_set(f, (mr_origin_t){scope, e->by, MR_PRECISION_NONE, e->of,
                                 row}); /* e's own precision is among its attributes */
  mr_eqn_t *c = mr_emit(f, e->op, e->n_in, in, e->n_attr, own_attrs(f, e), e->n_out);
  mr_origin_set(f, outer);
  return c;
}

const char *mr_scope_enter(mr_fn_t *f, const char *name) {
  const char *outer = f->scope;
  size_t n = strlen(outer) + strlen(name) + 2;
  char *inner = mr_mem_take(&f->mem, n);
  if (!inner) return outer; /* f has failed */
  snprintf(inner, n, "%s%s%s", outer, *outer ? "/" : "", name);
  f->scope = inner;
  return outer;
}

void mr_scope_leave(mr_fn_t *f, const char *outer) { f->scope = outer; }

const char *mr_scope_within(mr_mem_t *m, const char *outer, const char *inner) {
  size_t n = strlen(outer), more = strlen(inner);
  bool has = !strncmp(inner, outer, n) && (!inner[n] || inner[n] == '/' || inner[n] == '.');
  if (!n || has) return inner;
  if (!more) return outer;
  char *whole = mr_mem_take(m, n + more + 2);
  if (whole) snprintf(whole, n + more + 2, "%s/%s", outer, inner);
  return whole;
}

mr_precision_t mr_precision_enter(mr_fn_t *f, mr_precision_t p) {
  mr_precision_t outer = f->precision;
  f->precision = p;
  return outer;
}

void mr_precision_leave(mr_fn_t *f, mr_precision_t outer) { f->precision = outer; }

mr_key_layout_t mr_key_layout_enter(mr_fn_t *f, mr_key_layout_t layout) {
  mr_key_layout_t outer = f->keys;
  f->keys = layout;
  return outer;
}

void mr_key_layout_leave(mr_fn_t *f, mr_key_layout_t outer) { f->keys = outer; }

mr_precision_t mr_precision_of(const mr_eqn_t *e) {
  const mr_attr_t *a = mr_attr_find(e, "precision");
  return a && a->kind == MR_ATTR_PRECISION ? (mr_precision_t)a->i[0] : MR_PRECISION_NONE;
}

mr_origin_t mr_origin(const mr_fn_t *f) {
  return (mr_origin_t){f->scope, f->by, f->precision, f->of, f->row};
}

void mr_origin_set(mr_fn_t *f, mr_origin_t s) {
  f->scope = s.scope, f->by = s.by, f->precision = s.precision, f->of = s.of, f->row = s.row;
}

void mr_origin_from(mr_fn_t *f, const mr_eqn_t *e, const char *by) {
  mr_origin_set(f, (mr_origin_t){e->scope, by, mr_precision_of(e), e->op, e->row});
}

const mr_attr_t *mr_attr_find(const mr_eqn_t *e, const char *name) {
  for (int i = 0; i < e->n_attr; i++)
    if (!strcmp(e->attr[i].name, name)) return &e->attr[i];
  return NULL;
}

const mr_attr_t *mr_attr_get(const mr_eqn_t *e, const char *name) {
  const mr_attr_t *a = mr_attr_find(e, name);
  assert(a);
  return a;
}

const mr_fn_t *mr_attr_called(const mr_eqn_t *e, const char *name) {
  const mr_attr_t *a = mr_attr_get(e, name);
  assert(a->kind == MR_ATTR_FN);
  return a->fn;
}

void mr_attr_set(mr_fn_t *f, mr_eqn_t *e, mr_attr_t attr) {
  for (int i = 0; i < e->n_attr; i++)
    if (!strcmp(e->attr[i].name, attr.name)) {
      e->attr[i] = attr;
      return;
    }
  mr_attr_t *more = mr_mem_take(&f->mem, (size_t)(e->n_attr + 1) * sizeof *more);
  if (f->mem.failed) return;
  if (e->n_attr) memcpy(more, e->attr, (size_t)e->n_attr * sizeof *more);
  more[e->n_attr++] = attr;
  e->attr = more;
  qsort(e->attr, (size_t)e->n_attr, sizeof *more, fn_by_name);
}
