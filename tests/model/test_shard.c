/* Cuts of every op over several devices, on the op's own samples: an op computed on parts of its
   operands, joined as its table of factors says, is the op on the whole of them. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/cell.h"

enum { FACTORS = 64 };

/* One equation of a sample, its operands' values, and what the whole op gives. */
typedef struct cut {
  char name[160];
  const mr_eqn_t *e;
  mr_factors_t s;
  double *in[GRID_MAX], *whole[GRID_MAX];
  int64_t parts[FACTORS], rank[FACTORS]; /* by factor */
} cut_t;

/* The place in a whole value v of element i of the part of c->rank. */
static int64_t place_of(const cut_t *c, const mr_aval_t *v, const mr_dim_factors_t *dim,
                        int64_t i) {
  mr_aval_t part = mr_part_aval(v, &c->s, dim, c->parts);
  int64_t whole = 0, stride = 1;
  for (int d = v->ndim - 1; d >= 0; d--) {
    int64_t at = i % part.dim[d], within = 1;
    i /= part.dim[d];
    for (int k = dim[d].n - 1; k >= 0; k--) {
      int f = dim[d].of[k];
      int64_t own = c->s.factor[f].size / c->parts[f];
      whole += (at % own + c->rank[f] * own) * within * stride;
      at /= own;
      within *= c->s.factor[f].size;
    }
    stride *= v->dim[d];
  }
  return whole;
}

static bool has_factor(const mr_aval_t *v, const mr_dim_factors_t *dim, int k) {
  for (int d = 0; d < v->ndim; d++)
    for (int i = 0; i < dim[d].n; i++)
      if (dim[d].of[i] == k) return true;
  return false;
}

/* e on parts of its operands, whose inputs are those that are no literals. */
static mr_fn_t *part_fn(const cut_t *c) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *in[GRID_MAX];
  for (int i = 0; i < c->e->n_in; i++) {
    const mr_var_t *v = c->e->in[i];
    in[i] = v->literal ? mr_literal_like(f, v->aval.dtype, v)
                       : mr_fn_input(f, mr_part_aval(&v->aval, &c->s, c->s.in[i], c->parts));
  }
  mr_eqn_t *e = mr_emit_part(f, c->e, &c->s, c->parts, in);
  if (!e || mr_fn_return(f, e->n_out, e->out) < 0) fail_msg("%s: %s", c->name, f->diag.text);
  for (int i = 0; i < e->n_out; i++) {
    mr_aval_t want = mr_part_aval(&c->e->out[i]->aval, &c->s, c->s.out[i], c->parts);
    if (!mr_aval_equal(&e->out[i]->aval, &want))
      fail_msg("%s: result %d of a part has another shape", c->name, i);
  }
  return f;
}

/* Runs the part of c->rank into out[e->n_out], new arrays. */
static void run_part(const cut_t *c, const mr_fn_t *f, double **out) {
  double *in[GRID_MAX];
  int n = 0;
  for (int i = 0; i < c->e->n_in; i++) {
    const mr_var_t *v = c->e->in[i];
    if (v->literal) continue;
    in[n] = doubles(elems(f->in[n]));
    for (int64_t k = 0; k < elems(f->in[n]); k++)
      in[n][k] = c->in[i][place_of(c, &v->aval, c->s.in[i], k)];
    n++;
  }
  run_as_it_is(f, in, out);
  free_all(n, in);
}

/* How a result that lacks some of the cut factors is joined. */
static mr_cut_t joined_by(const cut_t *c, int o) {
  mr_cut_t how = MR_CUT_EACH;
  for (int k = 0; k < c->s.n; k++)
    if (c->parts[k] > 1 && !has_factor(&c->e->out[o]->aval, c->s.out[o], k) &&
        c->s.factor[k].cut != MR_CUT_EACH)
      how = c->s.factor[k].cut;
  return how;
}

/* Whether this part repeats a result that another part gives: it lacks a factor of EACH. */
static bool repeats(const cut_t *c, int o) {
  for (int k = 0; k < c->s.n; k++)
    if (c->rank[k] && c->s.factor[k].cut == MR_CUT_EACH &&
        !has_factor(&c->e->out[o]->aval, c->s.out[o], k))
      return true;
  return false;
}

static void add_part(const cut_t *c, int o, const double *part, int64_t n, double *sum) {
  mr_cut_t how = joined_by(c, o);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = place_of(c, &c->e->out[o]->aval, c->s.out[o], i);
    if (how == MR_CUT_EACH)
      sum[at] = part[i];
    else if (how == MR_CUT_SUM)
      sum[at] += part[i];
    else
      sum[at] = fmax(sum[at], part[i]);
  }
}

/* The next rank of c->parts; false after the last one. */
static bool next_rank(cut_t *c) {
  for (int k = 0; k < c->s.n; k++) {
    if (++c->rank[k] < c->parts[k]) return true;
    c->rank[k] = 0;
  }
  return false;
}

/* Whether the op sums in an order that may depend on the sizes of its operands: then even a part
   without a term missing is the whole's within rounding.  Of all other ops it is so to the bit. */
static bool sums(const cut_t *c) {
  bool any = c->e->op->cost.product;
  for (int k = 0; k < c->s.n; k++) any |= c->s.factor[k].cut == MR_CUT_SUM;
  return any;
}

static void assert_joined(const cut_t *c, double *const *sum) {
  for (int o = 0; o < c->e->n_out; o++) {
    bool rounds = sums(c) && mr_is_float(c->e->out[o]->aval.dtype);
    for (int64_t i = 0; i < elems(c->e->out[o]); i++) {
      double a = sum[o][i], b = c->whole[o][i];
      if (a == b || (isnan(a) && isnan(b)) || (rounds && fabs(a - b) <= 2e-6 * (1 + fabs(b))))
        continue;
      fail_msg("%s: result %d element %lld is %.9g, want %.9g", c->name, o, (long long)i, a, b);
    }
  }
}

/* Cuts as c->parts says, computes each part, joins. */
static void check_parts_of(cut_t *c) {
  double *sum[GRID_MAX], *out[GRID_MAX];
  mr_fn_t *f = part_fn(c);
  for (int o = 0; o < c->e->n_out; o++) {
    sum[o] = doubles(elems(c->e->out[o]) + 1);
    for (int64_t i = 0; i < elems(c->e->out[o]); i++)
      sum[o][i] = joined_by(c, o) == MR_CUT_MAX ? -INFINITY : 0;
  }
  do {
    run_part(c, f, out);
    for (int o = 0; o < c->e->n_out; o++)
      if (!repeats(c, o)) add_part(c, o, out[o], elems(f->out[o]), sum[o]);
    free_all(c->e->n_out, out);
  } while (next_rank(c));
  assert_joined(c, sum);
  free_all(c->e->n_out, sum);
  mr_fn_destroy(f);
}

static bool divides(const cut_t *c, int k, int64_t parts) {
  const mr_factor_t *f = &c->s.factor[k];
  return f->cut != MR_CUT_WHOLE && f->size >= parts && f->size % parts == 0;
}

/* Every factor into 2 and 3 parts, every two factors into 2 each.  Returns the number of cuts. */
static int check_cuts(cut_t *c) {
  int n = 0;
  assert_true(c->s.n <= FACTORS);
  for (int k = 0; k < FACTORS; k++) c->parts[k] = 1, c->rank[k] = 0;
  for (int k = 0; k < c->s.n; k++) {
    for (int64_t p = 2; p <= 3; p++) {
      if (!divides(c, k, p)) continue;
      c->parts[k] = p;
      check_parts_of(c), n++;
    }
    c->parts[k] = divides(c, k, 2) ? 2 : 1;
    for (int j = k + 1; c->parts[k] > 1 && j < c->s.n; j++) {
      if (!divides(c, j, 2)) continue;
      c->parts[j] = 2;
      check_parts_of(c), n++;
      c->parts[j] = 1;
    }
    c->parts[k] = 1;
  }
  return n;
}

/* Factors within range, once in a value, and their product the dimension. */
static void check_table(const cut_t *c) {
  for (int i = 0; i < c->e->n_in + c->e->n_out; i++) {
    bool given = i >= c->e->n_in;
    const mr_aval_t *v = given ? &c->e->out[i - c->e->n_in]->aval : &c->e->in[i]->aval;
    const mr_dim_factors_t *dim = given ? c->s.out[i - c->e->n_in] : c->s.in[i];
    bool seen[FACTORS] = {false};
    for (int d = 0; d < v->ndim; d++) {
      int64_t n = 1;
      for (int k = 0; k < dim[d].n; k++) {
        int f = dim[d].of[k];
        assert_true(f >= 0 && f < c->s.n && !seen[f]);
        seen[f] = true;
        n *= c->s.factor[f].size;
      }
      if (n != v->dim[d])
        fail_msg("%s: dimension %d of value %d is %lld, its factors are %lld", c->name, d, i,
                 (long long)v->dim[d], (long long)n);
    }
  }
}

/* Computes the operands of e, an equation of the sample's graph, and the whole op on them. */
static void cut_init(cut_t *c, const cell_t *cell, const mr_eqn_t *e) {
  mr_var_t *v[GRID_MAX];
  double *got[GRID_MAX], *whole_in[GRID_MAX];
  int n = 0;
  c->e = e;
  for (int i = 0; i < e->n_in; i++)
    if (!e->in[i]->literal) v[n++] = e->in[i];
  assert_int_equal(mr_fn_return(cell->f, n, v), MR_OK);
  if (n) run_as_it_is(cell->f, cell->in, got);
  for (int i = 0, k = 0; i < e->n_in; i++) c->in[i] = e->in[i]->literal ? NULL : got[k++];
  for (int k = 0; k < FACTORS; k++) c->parts[k] = 1, c->rank[k] = 0;
  mr_fn_t *f = part_fn(c);
  for (int i = 0, k = 0; i < e->n_in; i++)
    if (c->in[i]) whole_in[k++] = c->in[i];
  run_as_it_is(f, whole_in, c->whole);
  mr_fn_destroy(f);
}

static void cut_fini(cut_t *c) {
  free_all(c->e->n_in, c->in);
  free_all(c->e->n_out, c->whole);
  mr_factors_fini(&c->s);
}

/* The number of cuts of the op's equations in sample k; -1: there is no such sample.  *err: what
   the op's rule returned last. */
static int check_sample(const mr_op_def_t *op, int k, mr_err_t *err) {
  cell_t cell;
  int n = 0;
  if (!cell_init(&cell, op, k)) return -1;
  for (int i = 0; i < cell.f->n_eqn; i++) {
    static cut_t c;
    mr_diag_t diag = {0};
    if (cell.f->eqn[i]->op != op) continue;
    c = (cut_t){0};
    *err = mr_factors_of(cell.f->eqn[i], &c.s, &diag);
    if (*err != MR_OK) continue;
    snprintf(c.name, sizeof c.name, "%s", cell.name);
    cut_init(&c, &cell, cell.f->eqn[i]);
    check_table(&c);
    n += check_cuts(&c);
    cut_fini(&c);
  }
  cell_fini(&cell);
  return n;
}

static void every_op_on_parts_of_its_operands_joins_to_the_whole(void **state) {
  int cuts = 0;
  for (int i = 0; i < mr_n_ops; i++) {
    mr_err_t err = MR_OK;
    for (int k = 0, n; (n = check_sample(mr_ops[i], k, &err)) >= 0; k++) cuts += n;
  }
  assert_true(cuts > 100); /* the walk has cut, and not found every op whole */
}

/* ---- what each op says ---- */

/* Which ops have no rule, which only their open form, and which can never be cut; draws of one key
   number their elements. */
static void ops_that_cannot_be_cut_are_known(void **state) {
  static const char *const none[] = {"psum",       "pmax",           "pmin",
                                     "all_gather", "reduce_scatter", "all_to_all",
                                     "ppermute",   "axis_index",     NULL};
  static const char *const open[] = {
      "custom_jvp_call", "custom_vjp_call", "checkpoint", "jit", "fused", NULL};
  static const char *const whole[] = {"scan", "cond", "while", "dropout_part", NULL};
  for (int i = 0; i < mr_n_ops; i++) {
    const mr_op_def_t *op = mr_ops[i];
    bool listed[3] = {false};
    assert_non_null(op->shard.rule);
    for (int k = 0; none[k]; k++) listed[0] |= !strcmp(op->name, none[k]);
    for (int k = 0; open[k]; k++) listed[1] |= !strcmp(op->name, open[k]);
    for (int k = 0; whole[k]; k++) listed[2] |= !strcmp(op->name, whole[k]);
    bool is[3] = {op->shard.rule == mr_no_shard, op->shard.rule == mr_shard_open,
                  op->shard.rule == mr_shard_whole};
    for (int k = 0; k < 3; k++)
      if (is[k] != listed[k])
        fail_msg("%s: its shard rule is another than this table says", op->name);
    if (is[1]) assert_ptr_not_equal(op->open, mr_no_open);
  }
}

typedef struct row {
  const char *op;
  int sample;
  const char *text;
} row_t;

/* As mr_factors_text writes them; sizes of samples are in the ops' files. */
static const row_t rows[] = {
    {"add", 0, "ab, ab -> ab"},
    {"add", 1, ", ab -> ab"},
    {"tanh", 0, "ab -> ab"},
    {"select_n", 1, ", ab, ab -> ab"},
    {"convert_element_type", 0, "ab -> ab"},
    {"dot_general", 0, "abd, dc -> abc | d SUM"},
    {"dot_general", 1, "acbe, adbe -> abcd | e SUM"},
    {"dot_general", 3, "a, a ->  | a SUM"},
    {"linear", 0, "ab., .c, c -> abc"},
    {"linear", 1, "ab., c., c -> abc"},
    {"linear", 2, "abd, dc -> abc | d SUM"},
    {"reduce_sum", 0, "abc -> ac | b SUM"},
    {"reduce_max", 2, "abc -> b | a MAX, c MAX"},
    {"cumsum", 0, "a.b -> a.b"},
    {"rev", 1, ".a. -> .a."},
    {"reshape", 0, "a(bc) -> (ab)()c"},
    {"reshape", 1, "ab -> (ab)"},
    {"squeeze", 0, "()a() -> a"},
    {"transpose", 0, "bca -> abc"},
    {"broadcast_in_dim", 0, "ac -> abc"},
    {"broadcast_in_dim", 1, "a() -> abc"},
    {"broadcast_in_dim", 2, " -> ab"},
    {"slice", 0, ".. -> .."},
    {"pad", 0, ".. -> .."},
    {"concatenate", 0, "a(), a., a. -> a."},
    {"take", 1, ".c, ab -> abc"},
    {"take_vjp", 0, "ab, a -> .b | a SUM"},
    {"layer_norm", 0, "ab., ., . -> ab., ab, ab"},
    {"layer_norm_vjp", 0, "ab., ., ab, ab, ab. -> ab., ., . | a SUM, b SUM"},
    {"softmax", 0, "a. -> a."},
    {"softmax_cross_entropy", 0, "a., a -> a"},
    {"softmax_cross_entropy_vjp", 0, "a., a, a -> a."},
    {"attention", 0, "a.b., a.b., a.b. -> a.b., ab."},
    {"attention", 1, "a..b. -> a.b., ab."},
    {"attention_vjp", 0, "a.b., a.b., a.b., a.b., ab., a.b. -> a.b., a.b., a.b."},
    {"adamw", 0, "ab, ab, ab, ab, , ,  -> ab, ab, ab"},
    {"iota", 0, " -> .a"},
    {"dropout", 0, ".., ,  -> .."},
    {"random_bits", 0, ". -> .."},
    {"random_bits", 1, "a. -> a.."},
};

static void tables_of_ops_read_as_written_here(void **state) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row_t *r = &rows[i];
    const mr_op_def_t *op = mr_op_find(r->op);
    mr_sample_t s = {.f = mr_fn_create()};
    mr_factors_t t;
    mr_diag_t diag = {0};
    char text[256];
    const mr_eqn_t *e = NULL;
    assert_non_null(op);
    assert_true(op->sample(op, &s, r->sample));
    for (int k = 0; k < s.f->n_eqn; k++)
      if (s.f->eqn[k]->op == op) e = s.f->eqn[k];
    assert_non_null(e);
    assert_int_equal(mr_factors_of(e, &t, &diag), MR_OK);
    mr_factors_text(e, &t, text, sizeof text);
    if (strcmp(text, r->text))
      fail_msg("%s sample %d: %s, want %s", r->op, r->sample, text, r->text);
    mr_factors_fini(&t);
    mr_fn_destroy(s.f);
  }
}

/* ---- reshapes ---- */

static void assert_reshape(const char *want, mr_aval_t x, mr_aval_t y) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_lax_reshape(f, mr_fn_input(f, x), y.ndim, y.dim);
  mr_factors_t t;
  mr_diag_t diag = {0};
  char text[128];
  assert_non_null(v);
  assert_int_equal(mr_factors_of(v->def, &t, &diag), MR_OK);
  assert_string_equal(mr_factors_text(v->def, &t, text, sizeof text), want);
  mr_factors_fini(&t);
  mr_fn_destroy(f);
}

/* Of (4,6) and (6,4) the outer half is one; behind it 2 and 3 have no factor in common. */
static void a_reshape_has_the_factors_that_both_shapes_share(void **state) {
  assert_reshape("ab(cde) -> abcde", mr_aval_of(MR_F32, 2, 5, 24),
                 mr_aval_of(MR_F32, 2, 5, 3, 2, 4));
  assert_reshape("(ab)c -> a(bc)", mr_aval_of(MR_F32, 6, 5), mr_aval_of(MR_F32, 2, 15));
  assert_reshape("(a.). -> (a.).", mr_aval_of(MR_F32, 4, 6), mr_aval_of(MR_F32, 6, 4));
  assert_reshape("..a -> ..a", mr_aval_of(MR_F32, 2, 3, 5), mr_aval_of(MR_F32, 3, 2, 5));
  assert_reshape(".. -> ..", mr_aval_of(MR_F32, 0, 6), mr_aval_of(MR_F32, 6, 0));
  assert_reshape(" -> ()()", mr_aval_scalar(MR_F32), mr_aval_of(MR_F32, 1, 1));
}

static void a_cut_that_no_table_allows_is_refused_by_name(void **state) {
  mr_fn_t *f = mr_fn_create(), *g[2] = {mr_fn_create(), mr_fn_create()};
  mr_var_t *y = mr_lax_softmax(f, mr_fn_input(f, mr_aval_of(MR_F32, 4, 6)));
  mr_factors_t t;
  mr_diag_t diag = {0};
  assert_int_equal(mr_factors_of(y->def, &t, &diag), MR_OK);
  mr_var_t *x = mr_fn_input(g[0], mr_aval_of(MR_F32, 4, 3));
  assert_null(mr_emit_part(g[0], y->def, &t, (int64_t[]){1, 2, 1}, &x));
  assert_int_equal(g[0]->diag.code, MR_ERR_SHAPE);
  assert_non_null(
      strstr(g[0]->diag.text, "softmax f32[4,6]: a dimension that must stay whole is cut"));
  x = mr_fn_input(g[1], mr_aval_of(MR_F32, 1, 6));
  assert_null(mr_emit_part(g[1], y->def, &t, (int64_t[]){3, 1, 1}, &x));
  assert_string_equal(g[1]->diag.text, "softmax: 4 places cannot be cut into 3 parts");
  mr_factors_fini(&t);
  mr_fn_destroy(f), mr_fn_destroy(g[0]), mr_fn_destroy(g[1]);
}

static void a_collective_says_that_it_has_no_shard_rule(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_factors_t t;
  mr_diag_t diag = {0};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  mr_attr_t axis = mr_attr_text("axis_name", "i");
  mr_var_t *y = mr_emit1(f, mr_op_find("psum"), 1, &x, 1, &axis);
  assert_non_null(y);
  assert_int_equal(mr_factors_of(y->def, &t, &diag), MR_ERR_NORULE);
  assert_string_equal(diag.text, "psum has no shard rule");
  mr_fn_destroy(f);
}

/* ---- rules that are wrong, as a plug-in's may be ---- */

enum { MANY = 1000 };

static mr_err_t adds_too_many(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  for (int i = 0; i < MANY; i++) mr_factor_in(s, 0, 0, mr_factor_add(s, 1, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t repeats_a_factor(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  int k = mr_factor_add(s, 1, MR_CUT_EACH);
  for (int i = 0; i < MANY; i++) mr_factor_out(s, 0, 1, k);
  return MR_OK;
}
static mr_err_t names_no_factor(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_in(s, 0, 0, 3);
  return MR_OK;
}
static mr_err_t names_no_operand(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_in(s, e->n_in, 0, mr_factor_add(s, 4, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t names_no_dimension(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_out(s, 0, MR_MAX_NDIM, mr_factor_add(s, 4, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t divides_nothing(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_in(s, 0, 0, mr_factor_add(s, 3, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t has_an_empty_factor(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_in(s, 0, 0, mr_factor_add(s, 0, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t has_a_negative_factor(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  mr_factor_in(s, 0, 0, mr_factor_add(s, -2, MR_CUT_EACH));
  return MR_OK;
}
static mr_err_t overflows(const mr_eqn_t *e, mr_factors_t *s, mr_diag_t *diag) {
  for (int i = 0; i < 3; i++) mr_factor_in(s, 0, 0, mr_factor_add(s, INT64_MAX, MR_CUT_EACH));
  return MR_OK;
}

static void a_wrong_rule_is_refused_before_it_writes_beside_its_table(void **state) {
  static const struct {
    mr_shard_rule *rule;
    const char *why;
  } row[] = {{adds_too_many, "more factors than operands and results have dimensions"},
             {repeats_a_factor, "a dimension with too many factors"},
             {names_no_factor, "a factor that was not added"},
             {names_no_operand, "that the op lacks"},
             {names_no_dimension, "that the op lacks"},
             {divides_nothing, "does not divide their dimension"},
             {has_an_empty_factor, "does not divide their dimension"},
             {has_a_negative_factor, "a size below 0"},
             {overflows, "does not divide their dimension"}};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = mr_lax_tanh(f, mr_fn_input(f, mr_aval_of(MR_F32, 4, 6)));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_op_def_t op = *y->def->op;
    mr_eqn_t e = *y->def;
    mr_factors_t t;
    mr_diag_t diag = {0};
    op.shard.rule = row[i].rule, e.op = &op;
    assert_int_equal(mr_factors_of(&e, &t, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, row[i].why)) fail_msg("%s, want %s", diag.text, row[i].why);
    assert_non_null(strstr(diag.text, "tanh: its shard rule is wrong: "));
    assert_true(!t.factor && !t.in && !t.out && !t.n);
  }
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_op_on_parts_of_its_operands_joins_to_the_whole),
      cmocka_unit_test(ops_that_cannot_be_cut_are_known),
      cmocka_unit_test(tables_of_ops_read_as_written_here),
      cmocka_unit_test(a_reshape_has_the_factors_that_both_shapes_share),
      cmocka_unit_test(a_cut_that_no_table_allows_is_refused_by_name),
      cmocka_unit_test(a_collective_says_that_it_has_no_shard_rule),
      cmocka_unit_test(a_wrong_rule_is_refused_before_it_writes_beside_its_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
