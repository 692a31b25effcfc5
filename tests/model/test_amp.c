/* Mixed precision: jaxamp's jaxprs and gradients (golden/amp), rows and scopes of a policy,
   functions that are called, and what the usual policy makes of the Vision Transformer. */
#include <math.h>

#include "model/model.h"
#include "model/transforms/amp.h"
#include "tests/vectors.h"

enum { TEXT = 1 << 14 };

/* ---- jaxamp's jaxprs ---- */

/* s, with each `from` as `to`, which is no longer. */
static void replace(char *s, const char *from, const char *to) {
  size_t n = strlen(from), m = strlen(to);
  for (char *at = s; (at = strstr(at, from)); at += m) {
    memcpy(at, to, m);
    memmove(at + m, at + n, strlen(at + n) + 1);
  }
}

/* jax 0.4's text as jax 0.10 prints it: no shape of what is broadcast, literals with their dtype.
 */
static void modernise(char *text) {
  replace(text, " shape=(1, 8)", "");
  replace(text, " shape=(1, 3)", "");
  replace(text, "<class 'jax.numpy.bfloat16'>", "bfloat16");
  replace(text, "<class 'jax.numpy.float16'>", "float16");
  replace(text, "name=<lambda>", "name=f");
  replace(text, "pjit[", "jit[");
  char *literal = strstr(text, " 12.0\n");
  assert_non_null(literal);
  memmove(literal + 11, literal + 5, strlen(literal + 5) + 1);
  memcpy(literal + 5, ":f32[]", 6);
}

/* The function under "## name". */
static mr_fn_t *golden_fn(const char *name) {
  char line[512], text[TEXT] = "";
  FILE *f = vectors_open("amp/policy.txt");
  bool here = false, in = false;
  while (fgets(line, sizeof line, f)) {
    if (!strncmp(line, "## ", 3))
      here = !strncmp(line + 3, name, strlen(name)) && line[3 + strlen(name)] == '\n';
    in = here && (in || line[0] == '{');
    if (in) assert_true(strlen(text) + strlen(line) + 64 < TEXT);
    if (in) strcat(text, line);
  }
  fclose(f);
  modernise(text);
  mr_fn_t *fn = NULL;
  mr_diag_t diag = {0};
  if (mr_fn_parse(text, &fn, &diag) < 0) fail_msg("%s: %s\n%s", name, diag.text, text);
  return fn;
}

/* A bias (1,8) beside (4,8) is written here as a broadcast of its own, which jax's add does itself:
   its operand stands for it. */
static const mr_var_t *spread_of(const mr_var_t *v) {
  const mr_eqn_t *e = v->def;
  return e && e->op == &mr_op_broadcast_in_dim && e->in[0]->aval.ndim == v->aval.ndim ? e->in[0]
                                                                                      : v;
}

static bool is_spread(const mr_eqn_t *e) {
  return e->n_out == 1 && spread_of(e->out[0]) != e->out[0];
}

/* v in a list of f's values that counts inputs and the results of equations, but no spreads. */
static int number_of(const mr_fn_t *f, const mr_var_t *v) {
  int at = 0;
  v = spread_of(v);
  for (int i = 0; i < f->n_in; i++, at++)
    if (f->in[i] == v) return at;
  for (int i = 0; i < f->n_eqn; i++) {
    if (is_spread(f->eqn[i])) continue;
    if (f->eqn[i]->out[0] == v) return at;
    at++;
  }
  return -1;
}

/* An equation a line: op, dtype of its result, its operands and their dtypes. */
static char *outline(const mr_fn_t *f) {
  char *text = calloc(1, TEXT), *at = text;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    if (is_spread(e)) continue;
    at += sprintf(at, "%s %s:", e->op->name, mr_dtype_name(e->out[0]->aval.dtype));
    for (int k = 0; k < e->n_in; k++)
      at += sprintf(at, e->in[k]->literal ? " literal %s" : " %2$d %1$s",
                    mr_dtype_name(e->in[k]->aval.dtype), number_of(f, e->in[k]));
    at += sprintf(at, "\n");
  }
  return text;
}

static mr_fn_t *amped(const mr_fn_t *f, const mr_amp_policy_t *p) {
  mr_diag_t diag = {0};
  mr_fn_t *g = NULL;
  if (mr_amp(f, p, &g, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static void assert_outline(const char *name, const mr_fn_t *got, const mr_fn_t *want) {
  char *a = outline(got), *b = outline(want);
  if (strcmp(a, b)) fail_msg("%s:\n%s\nwant\n%s", name, a, b);
  free(a);
  free(b);
}

/* The gradients by the four parameters, against those of jax, in relative L2. */
static void assert_gradients(const char *name, const mr_fn_t *f, double within) {
  enum { SIZE = 6 * 8 + 8 + 8 * 3 + 3 };
  static const char *const input[] = {"W1", "b1", "W2", "b2", "x", "t"};
  char file[80];
  void *in[6], *out[5];
  float loss, grads[SIZE], *at = grads;
  mr_fn_t *d = NULL;
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_value_and_grad(f, 4, (int[]){0, 1, 2, 3}, &d, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_compile(d, NULL, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < 6; i++) {
    snprintf(file, sizeof file, "amp/mlp.%s.npy", input[i]);
    in[i] = vectors_npy(file, mr_aval_bytes(&f->in[i]->aval));
  }
  out[0] = &loss;
  for (int i = 0; i < 4; i++) out[1 + i] = at, at += mr_aval_elems(&f->in[i]->aval);
  mr_exec_run(x, (const void *const *)in, out);
  snprintf(file, sizeof file, "amp/%s.grads.npy", name);
  float *want = vectors_npy(file, sizeof grads);
  double off = 0, all = 0;
  for (int i = 0; i < SIZE; i++) {
    off += pow((double)grads[i] - (double)want[i], 2);
    all += pow((double)want[i], 2);
  }
  if (!(sqrt(off / all) <= within)) fail_msg("%s: gradients are off by %g", name, sqrt(off / all));
  for (int i = 0; i < 6; i++) free(in[i]);
  free(want);
  mr_exec_destroy(x);
  mr_fn_destroy(d);
}

/* The MLP, its equations in scopes: the first product to the tanh in `first`, the second product in
   `product`, and what adds its bias in `sum`. */
static mr_fn_t *mlp(const char *first, const char *product, const char *sum) {
  mr_fn_t *f = golden_fn("f32");
  bool second = false;
  for (int i = 0; i < f->n_eqn; i++) {
    mr_eqn_t *e = f->eqn[i];
    bool dot = e->op == &mr_op_dot_general;
    if (dot && i) second = true;
    e->scope = !second ? first : dot ? product : sum;
    if (e->op == &mr_op_sub) {
      for (; i < f->n_eqn; i++) f->eqn[i]->scope = "";
    }
  }
  return f;
}

static void assert_case(const char *name, mr_fn_t *f, const mr_amp_policy_t *p, double within) {
  mr_fn_t *got = amped(f, p), *want = golden_fn(name);
  assert_outline(name, got, want);
  assert_gradients(name, got, within);
  mr_fn_destroy(got);
  mr_fn_destroy(want);
  mr_fn_destroy(f);
}

static void the_rows_of_jaxamps_policy(void **state) {
  char line[512], name[64], rule[64];
  mr_amp_policy_t p = mr_amp_jaxamp(MR_F16);
  FILE *f = vectors_open("amp/policy.txt");
  int rows = 0, others = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "policy %63[^\n]", name) != 1) continue;
    char *space = strrchr(name, ' ');
    assert_non_null(space);
    snprintf(rule, sizeof rule, "%s", space + 1);
    *space = 0;
    const char *want = strcmp(rule, "float32") ? rule : "f32";
    int i = 0;
    while (i < p.n_rows && strcmp(p.row[i].name, name) != 0) i++;
    assert_string_equal(mr_amp_rule_name(i < p.n_rows ? p.row[i].rule : p.others), want);
    rows += i < p.n_rows, others += i == p.n_rows;
  }
  fclose(f);
  assert_int_equal(rows, p.n_rows);
  assert_int_equal(others, 2); /* amp_default and "any other op" */
}

static void jaxamps_default_policy(void **state) {
  mr_amp_policy_t bf16 = mr_amp_jaxamp(MR_BF16), none = mr_amp_empty(MR_BF16);
  assert_case("bf16.default", mlp("", "", ""), &bf16, 0.01);
  assert_case("bf16.empty_policy", mlp("", "", ""), &none, 1e-6);
}

static void f16_equals_jaxamp(void **state) {
  mr_amp_policy_t f16 = mr_amp_jaxamp(MR_F16);
  assert_case("f16.default", mlp("", "", ""), &f16, 0.002);
}

static void scopes_equal_jaxamp(void **state) {
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_jaxamp(MR_BF16);
  assert_case("bf16.amp_stop_context", mlp("", "amp_stop", "amp_stop"), &p, 0.01);
  assert_case("bf16.amp_stop_decorator", mlp("", "amp_stop", ""), &p, 0.01);
  mr_amp_add(&p, "layer2", MR_AMP_ORIGINAL, &diag);
  assert_case("bf16.scope_layer2_original", mlp("layer1", "layer2/inner", "layer2/inner"), &p,
              0.01);
  mr_amp_add(&p, "inner", MR_AMP_COMPUTE, &diag);
  assert_case("bf16.scope_outermost", mlp("layer1", "layer2/inner", "layer2/inner"), &p, 0.01);
}

/* jax multiplies bf16 by f32 there, which no op here does: the operand is widened first. */
static void jaxamp_without_a_default_rule(void **state) {
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_empty(MR_BF16);
  mr_amp_add(&p, "layer1", MR_AMP_COMPUTE, &diag);
  mr_fn_t *f = mlp("layer1", "layer2/inner", "layer2/inner"), *g = amped(f, &p);
  int bf16 = 0;
  for (int i = 0; i < g->n_eqn; i++)
    if (strcmp(g->eqn[i]->by, ""))
      continue;
    else
      bf16 += g->eqn[i]->out[0]->aval.dtype == MR_BF16;
  assert_int_equal(bf16, 5); /* product, two broadcasts, sum, tanh */
  assert_gradients("bf16.only_layer1", g, 0.01);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
}

static void jaxamp_does_not_enter_functions(void **state) {
  mr_amp_policy_t p = mr_amp_jaxamp(MR_BF16);
  mr_fn_t *want = golden_fn("bf16.inner_jit"), *f = mlp("", "", ""), *g = amped(f, &p);
  /* the same program without amp: conversions of the golden one taken away */
  mr_fn_t *plain = mr_fn_create();
  mr_var_t *map[256] = {NULL}, *in[8];
  for (int i = 0; i < want->n_in; i++) map[want->in[i]->id] = mr_fn_input(plain, want->in[i]->aval);
  for (int i = 0; i < want->n_eqn; i++) {
    const mr_eqn_t *e = want->eqn[i];
    for (int k = 0; k < e->n_in; k++)
      in[k] = e->in[k]->literal ? mr_literal_like(plain, MR_F32, e->in[k]) : map[e->in[k]->id];
    if (e->op == &mr_op_convert_element_type) {
      map[e->out[0]->id] = in[0];
      continue;
    }
    mr_eqn_t copy = *e;
    mr_attr_t attr[8];
    copy.attr = attr;
    for (int k = 0; k < e->n_attr; k++) {
      attr[k] = e->attr[k];
      if (attr[k].kind == MR_ATTR_DTYPE) attr[k].i[0] = MR_F32;
    }
    map[e->out[0]->id] = mr_emit_like(plain, &copy, in)->out[0];
  }
  mr_fn_return(plain, 1, &map[want->out[0]->id]);
  mr_fn_destroy(g);
  assert_case("bf16.inner_jit", plain, &p, 0.01);
  mr_fn_destroy(want);
  mr_fn_destroy(f);
}

/* ---- policies ---- */

/* x w in bf16, plus an f32 array that comes through one op. */
static mr_fn_t *product_plus(bool repeats, bool first) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 8));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
  mr_var_t *b = mr_fn_input(f, repeats ? mr_aval_of(MR_F32, 8) : mr_aval_of(MR_F32, 8, 4));
  mr_var_t *y = mr_lax_dot(f, x, w);
  mr_var_t *over = repeats ? mr_lax_broadcast_in_dim(f, b, 2, (int64_t[]){4, 8}, (int[]){1})
                           : mr_lax_transpose(f, b, (int[]){1, 0});
  mr_var_t *z = first ? mr_lax_add(f, over, y) : mr_lax_add(f, y, over);
  assert_int_equal(mr_fn_return(f, 1, &z), MR_OK);
  return f;
}

/* A bias follows what it is added to, and is converted while it is small; an array of the sum's own
   size has a say in its dtype. */
static void only_what_repeats_a_smaller_value_follows_the_sum(void **state) {
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  for (int i = 0; i < 4; i++) {
    bool repeats = i & 1, met = false;
    mr_fn_t *f = product_plus(repeats, i & 2), *g = amped(f, &p);
    for (int k = 0; k < g->n_eqn; k++) {
      const mr_eqn_t *e = g->eqn[k];
      if (e->op == &mr_op_convert_element_type && e->in[0]->def && repeats)
        assert_ptr_not_equal(e->in[0]->def->op, &mr_op_broadcast_in_dim);
      if (e->op != &mr_op_add) continue;
      met = true;
      assert_int_equal(e->out[0]->aval.dtype, repeats ? MR_BF16 : MR_F32);
    }
    assert_true(met);
    mr_fn_destroy(g);
    mr_fn_destroy(f);
  }
}

static void rows_come_from_a_text_or_are_refused(void **state) {
  static const char *const bad[] = {"head",     "head=",   "=f32",     "head=f64",
                                    "head:f32", "a=f32,b", "head==f32"};
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  int before = p.n_rows;
  assert_int_equal(mr_amp_add_text(&p, " head = f32,attn=compute , exp=original,", &diag), MR_OK);
  assert_int_equal(p.n_rows, before + 3);
  assert_string_equal(p.row[before].name, "head");
  assert_int_equal(p.row[before + 1].rule, MR_AMP_COMPUTE);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_amp_policy_t q = mr_amp_usual(MR_BF16);
    diag = (mr_diag_t){0};
    assert_int_equal(mr_amp_add_text(&q, bad[i], &diag), MR_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "NAME=RULE"));
  }
  diag = (mr_diag_t){0};
  char key[MR_AMP_NAME + 1];
  memset(key, 'k', MR_AMP_NAME), key[MR_AMP_NAME] = 0;
  assert_int_equal(mr_amp_add(&p, key, MR_AMP_F32, &diag), MR_ERR_CONFIG);
  char row[MR_AMP_NAME + 32];
  snprintf(row, sizeof row, "head=f32, %s = f32", key);
  mr_amp_policy_t q = mr_amp_usual(MR_BF16);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_amp_add_text(&q, row, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "kkk\" has 96 characters, want"));
  while (p.n_rows < MR_AMP_ROWS) assert_int_equal(mr_amp_add(&p, "x", MR_AMP_F32, &diag), MR_OK);
  assert_int_equal(mr_amp_add(&p, "x", MR_AMP_F32, &diag), MR_ERR_CONFIG);
  p.compute = MR_F64;
  mr_fn_t *f = mlp("", "", ""), *g = NULL;
  assert_int_equal(mr_amp(f, &p, &g, &diag), MR_ERR_CONFIG);
  assert_null(g);
  mr_fn_destroy(f);
}

/* The dtype that the op of f in `scope` computes in: of its first operand. */
static mr_dtype_t computes_in(const mr_fn_t *f, const char *scope) {
  for (int i = 0; i < f->n_eqn; i++)
    if (!strcmp(f->eqn[i]->scope, scope) && f->eqn[i]->op == &mr_op_tanh)
      return f->eqn[i]->in[0]->aval.dtype;
  fail_msg("no tanh in scope %s", scope);
  return MR_F32;
}

static void a_scope_is_matched_by_whole_components(void **state) {
  static const char *const scope[] = {"blocks.1/attn", "blocks.10/attn", "blocks.1.attention",
                                      "a/b/c"};
  static const struct {
    const char *rows;
    bool narrow[4];
  } want[] = {
      {"blocks.1=compute", {true, false, true, false}},
      {"attn=compute", {true, true, false, false}},
      {"1.attention=compute", {false, false, true, false}},
      {"b=compute", {false, false, false, true}},
      {"c=f32, a=compute", {false, false, false, true}},
      {"a=f32, c=compute", {false, false, false, false}},
      {"a=f32, a/b=compute", {false, false, false, true}},
      {"a=compute, a=f32", {false, false, false, false}},
      {"tanh=compute, a=f32", {true, true, true, false}},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    mr_diag_t diag = {0};
    mr_amp_policy_t p = mr_amp_empty(MR_BF16);
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4)), *y[4];
    assert_int_equal(mr_amp_add_text(&p, want[i].rows, &diag), MR_OK);
    for (int k = 0; k < 4; k++) {
      const char *outer = mr_scope_enter(f, scope[k]);
      y[k] = mr_lax_tanh(f, x);
      mr_scope_leave(f, outer);
    }
    mr_fn_return(f, 4, y);
    mr_fn_t *g = amped(f, &p);
    for (int k = 0; k < 4; k++)
      if ((computes_in(g, scope[k]) == MR_BF16) != want[i].narrow[k])
        fail_msg("\"%s\" in scope %s", want[i].rows, scope[k]);
    mr_fn_destroy(g);
    mr_fn_destroy(f);
  }
}

/* What no row can say: products of at least `least` columns are narrow, smaller ones f32; of other
   ops the first operand alone is narrow. */
typedef struct own {
  int64_t least;
  int asked;
  char scope[64];
} own_t;

static void narrow_large_products(void *arg, const mr_eqn_t *e, mr_dtype_t *want) {
  own_t *o = arg;
  o->asked++;
  snprintf(o->scope, sizeof o->scope, "%s", e->scope);
  const mr_aval_t *a = &e->in[0]->aval;
  bool narrow = e->op != &mr_op_dot_general || a->dim[1] >= o->least;
  for (int k = 0; k < e->n_in; k++) {
    assert_int_equal(want[k], MR_F32);
    if (narrow && (!k || e->op == &mr_op_dot_general)) want[k] = MR_BF16;
  }
}

static void a_rule_of_ones_own_sees_the_equation(void **state) {
  own_t own = {.least = 5};
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y[4], *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 4));
  mr_var_t *z = mr_fn_input(f, mr_aval_of(MR_F32, 5, 5));
  static const char *const name[] = {"dot_general", "mine", "sub"};
  for (int i = 0; i < 3; i++)
    assert_int_equal(mr_amp_add_fn(&p, name[i], narrow_large_products, &own, &diag), MR_OK);
  y[0] = mr_lax_dot(f, x, x);
  y[1] = mr_lax_dot(f, z, z);
  y[2] = mr_lax_sub(f, x, y[0]); /* takes no two dtypes: as written */
  const char *outer = mr_scope_enter(f, "mine");
  y[3] = mr_lax_tanh(f, x);
  mr_scope_leave(f, outer);
  assert_int_equal(mr_fn_return(f, 4, y), MR_OK);
  mr_fn_t *g = amped(f, &p);
  int products = 0, conversions = 0;
  for (int i = 0; i < g->n_eqn; i++) {
    const mr_eqn_t *e = g->eqn[i];
    mr_dtype_t in = e->in[0]->aval.dtype;
    if (e->op == &mr_op_dot_general) assert_int_equal(in, products++ ? MR_BF16 : MR_F32);
    if (e->op == &mr_op_sub) assert_int_equal(in, MR_F32);
    if (e->op != &mr_op_convert_element_type || e->out[0]->aval.dtype != MR_BF16) continue;
    assert_string_equal(e->by, "amp own");
    assert_true(!strcmp(e->row, "amp=usual, dot_general=own") ||
                !strcmp(e->row, "amp=usual, sub=own"));
    conversions++;
  }
  assert_int_equal(products, 2), assert_int_equal(conversions, 2);
  assert_int_equal(computes_in(g, "mine"), MR_BF16);
  assert_int_equal(own.asked, 4);
  assert_string_equal(own.scope, "mine");
  for (int i = 0; i < 4; i++) assert_int_equal(g->out[i]->aval.dtype, MR_F32);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
}

static void a_rule_of_ones_own_has_a_function(void **state) {
  mr_amp_policy_t p = mr_amp_empty(MR_BF16);
  mr_diag_t diag = {0};
  assert_int_equal(mr_amp_add(&p, "exp", MR_AMP_OWN, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "amp: exp=own: want a function, which mr_amp_add_fn takes with it");
  assert_int_equal(mr_amp_add_text(&p, "exp=own", &(mr_diag_t){0}), MR_ERR_CONFIG);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_amp_add_fn(&p, "exp", NULL, &p, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text, "amp: exp=own: the function is NULL, want one");
  assert_int_equal(p.n_rows, 0);
}

/* A policy is plain data, which can be filled in without the functions that check it. */
static void a_policy_without_the_function_of_a_rule_is_refused(void **state) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_var_t *y = mr_lax_exp(f, mr_fn_input(f, mr_aval_of(MR_F32, 4)));
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  mr_amp_policy_t p = mr_amp_empty(MR_BF16);
  mr_diag_t diag = {0};
  p.others = MR_AMP_OWN;
  assert_int_equal(mr_amp(f, &p, &g, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "amp: others=own: want another rule; a function belongs to a row, which "
                      "mr_amp_add_fn appends");
  assert_null(g);
  p = mr_amp_empty(MR_BF16), diag = (mr_diag_t){0};
  assert_int_equal(mr_amp_add(&p, "exp", MR_AMP_F32, &diag), MR_OK);
  p.row[0].rule = MR_AMP_OWN;
  assert_int_equal(mr_amp(f, &p, &g, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "amp: exp=own: want a function, which mr_amp_add_fn takes with it");
  assert_null(g);
  mr_fn_destroy(f);
}

/* A part that is entered inside a scope of the graph's own keeps that scope in its path. */
static void parts_keep_the_scopes_around_them(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_params_t params = {0};
  mr_nn_t s = {.f = f, .params = &params};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 4));
  size_t a = mr_nn_enter(&s, "block");
  const char *outer = mr_amp_stop(f);
  x = mr_nn_linear(&s, "stopped", x, 4);
  mr_scope_leave(f, outer);
  x = mr_nn_linear(&s, "free", x, 4);
  mr_nn_leave(&s, a);
  x = mr_nn_linear(&s, "last", x, 4);
  mr_fn_return(f, 1, &x);
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  mr_fn_t *g = amped(f, &p);
  static const char *const scope[] = {"block/amp_stop/stopped", "block.free", "last"};
  int n = 0;
  for (int i = 0; i < g->n_eqn; i++) {
    const mr_eqn_t *e = g->eqn[i];
    if (e->op != &mr_op_linear) continue;
    assert_string_equal(e->scope, scope[n]);
    assert_int_equal(e->in[0]->aval.dtype, n ? MR_BF16 : MR_F32);
    n++;
  }
  assert_int_equal(n, 3);
  assert_string_equal(params.param[0].name, "block.stopped.kernel");
  mr_params_fini(&params);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
}

/* ---- the Vision Transformer ---- */

static mr_fn_t *vit(mr_vit_variant_t variant, mr_dtype_t dtype, const mr_amp_policy_t *policy) {
  mr_vit_config_t c = mr_vit_default();
  mr_diag_t diag = {0};
  mr_params_t params = {0};
  c.variant = variant, c.layers = 2;
  mr_loss_t loss = mr_vit_loss(&c);
  mr_compute_t compute = {.dtype = dtype, .policy = policy};
  mr_loss_use_t use = {.batch = 4, .train = true};
  mr_fn_t *f = mr_loss_fn(&loss, &compute, &use, &params, &diag);
  if (!f) fail_msg("%s", diag.text);
  mr_params_fini(&params);
  return f;
}

/* Products, attention and what follows them are narrow; the residual stream, norms' inputs and the
   loss are f32; each parameter is converted once. */
static void the_usual_policy_on_a_vision_transformer(void **state) {
  for (int variant = 0; variant < 2; variant++) {
    mr_fn_t *f = vit(variant ? MR_VIT_TIMM : MR_VIT_FLAX, MR_BF16, NULL);
    int linear = 0, norm = 0, residual = 0, converted[512] = {0};
    for (int i = 0; i < f->n_eqn; i++) {
      const mr_eqn_t *e = f->eqn[i];
      mr_dtype_t in = e->n_in ? e->in[0]->aval.dtype : MR_F32, out = e->out[0]->aval.dtype;
      bool narrow = e->op == &mr_op_linear || e->op == &mr_op_attention || e->op == &mr_op_gelu ||
                    e->op == &mr_op_dropout;
      if (narrow && (in != MR_BF16 || out != MR_BF16)) fail_msg("%s is not narrow", e->op->name);
      if (e->op == &mr_op_layer_norm) assert_true(in == MR_F32 && out == MR_BF16);
      if (e->op == &mr_op_add || e->op == &mr_op_softmax_cross_entropy)
        assert_int_equal(in, MR_F32);
      linear += e->op == &mr_op_linear;
      norm += e->op == &mr_op_layer_norm;
      residual += e->op == &mr_op_add;
      if (e->op == &mr_op_convert_element_type) {
        assert_int_equal(converted[e->in[0]->id]++, 0);
        assert_true(!strncmp(e->by, "amp", 3));
      }
    }
    assert_int_equal(linear, 1 + 2 * 4 + 1);
    assert_int_equal(norm, 2 * 2 + 1);
    assert_int_equal(residual, 1 + 2 * 2);
    mr_fn_destroy(f);
  }
}

static void a_row_keeps_a_part_of_the_model_in_f32(void **state) {
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  assert_int_equal(mr_amp_add_text(&p, "head=f32, encoder_blocks.1.attn=original", &diag), MR_OK);
  mr_fn_t *f = vit(MR_VIT_FLAX, MR_BF16, &p);
  int wide = 0;
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op == &mr_op_linear && f->eqn[i]->in[0]->aval.dtype == MR_F32) wide++;
  assert_int_equal(wide, 3); /* the head, and two of that block's attention */
  mr_fn_destroy(f);
}

static void a_row_that_names_nothing_is_found(void **state) {
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  mr_fn_t *f = vit(MR_VIT_FLAX, MR_F32, NULL);
  assert_null(mr_amp_unmatched(&p, f));
  assert_int_equal(mr_amp_add_text(&p, "head=f32, gelu=f32, encoder_blocks=f32", &diag), MR_OK);
  assert_null(mr_amp_unmatched(&p, f));
  assert_int_equal(mr_amp_add_text(&p, "encoder_block=f32", &diag), MR_OK);
  assert_string_equal(mr_amp_unmatched(&p, f)->name, "encoder_block");
  mr_fn_destroy(f);
}

/* ---- compute asked of what does not take it ---- */

typedef struct unfit {
  int n;
  char text[400];
} unfit_t;

static void note_unfit(void *arg, const mr_amp_row_t *row, const mr_eqn_t *e) {
  unfit_t *u = arg;
  size_t n = strlen(u->text);
  u->n++;
  snprintf(u->text + n, sizeof u->text - n, "%s:%s ", row->name, e->op->name);
}

/* (x f32[2,3], labels i32[2]) -> sum of the cross entropies, in scope "head/loss". */
static mr_fn_t *classifier_fn(bool called) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3)),
           *l = mr_fn_input(f, mr_aval_of(MR_I32, 2));
  const char *head = mr_scope_enter(f, "head"), *outer = mr_scope_enter(f, "loss");
  mr_var_t *y = mr_lax_softmax_cross_entropy(f, mr_lax_tanh(f, x), l, 0);
  mr_scope_leave(f, outer);
  y = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  mr_scope_leave(f, head);
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  if (!called) return f;
  mr_fn_t *g = mr_fn_create();
  for (int i = 0; i < 2; i++) mr_fn_input(g, f->in[i]->aval);
  mr_var_t *z;
  assert_int_equal(mr_lax_jit(g, "inner", f, g->in, &z), MR_OK);
  assert_int_equal(mr_fn_return(g, 1, &z), MR_OK);
  mr_fn_destroy(f);
  return g;
}

static void ops_that_do_not_take_the_compute_dtype_are_named(void **state) {
  static const struct {
    const char *rules, *want;
  } rows[] = {
      {"head=compute", "head:softmax_cross_entropy "},
      {"loss=compute", "loss:softmax_cross_entropy "},
      {"head=compute, loss=f32", "head:softmax_cross_entropy "}, /* the outermost part wins */
      {"softmax_cross_entropy=compute", "softmax_cross_entropy:softmax_cross_entropy "},
      {"softmax_cross_entropy=compute, head=f32", ""},
      {"tanh=compute, reduce_sum=compute", ""},
      {"head=f32", ""}};
  mr_diag_t diag = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int called = 0; called < 2; called++) {
      mr_fn_t *f = classifier_fn(called), *g = NULL;
      mr_amp_policy_t p = mr_amp_usual(MR_BF16);
      assert_int_equal(mr_amp_add_text(&p, rows[i].rules, &diag), MR_OK);
      unfit_t u = {0};
      mr_amp_each_unfit(&p, f, note_unfit, &u);
      assert_string_equal(u.text, rows[i].want);
      g = amped(f, &p); /* and it stays in f32 */
      const mr_fn_t *at = called ? g->child[g->n_child - 1] : g;
      for (int k = 0; k < at->n_eqn; k++)
        if (at->eqn[k]->op == &mr_op_softmax_cross_entropy)
          assert_int_equal(at->eqn[k]->in[0]->aval.dtype, MR_F32);
      mr_fn_destroy(f), mr_fn_destroy(g);
    }
}

/* ---- rules on what functions compute that are called ---- */

typedef enum call {
  PLAIN,
  JIT,
  CHECKPOINT,
  SCAN,
  FORI,
  COND,
  WHILE,
  CUSTOM_JVP,
  CUSTOM_VJP,
  NESTED, /* a jit in a scan */
  INLINED,
  CALLS
} call_t;

static const char *const call_name[] = {"nothing",    "jit",         "checkpoint", "scan",
                                        "fori_loop",  "cond",        "while",      "custom_jvp",
                                        "custom_vjp", "jit in scan", "mr_inline"};

static const mr_aval_t square = {.dtype = MR_F32, .ndim = 2, .dim = {4, 4}};

/* Two products, the second in scope "inner". */
static mr_var_t *two_products(mr_fn_t *f, mr_var_t *x) {
  mr_var_t *y = mr_lax_dot(f, x, x);
  const char *outer = mr_scope_enter(f, "inner");
  y = mr_lax_dot(f, mr_lax_tanh(f, y), x);
  mr_scope_leave(f, outer);
  return y;
}

static mr_fn_t *returned(mr_fn_t *f, int n, mr_var_t *const *y) {
  if (mr_fn_return(f, n, y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static mr_fn_t *products_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = two_products(f, mr_fn_input(f, square));
  return returned(f, 1, &y);
}

/* x -> whether the sum of x is below -1e9 */
static mr_fn_t *never_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y = mr_lax_reduce_sum(f, mr_fn_input(f, square), 2, (int[]){0, 1});
  y = mr_lax_lt(f, y, mr_literal(f, MR_F32, -1e9));
  return returned(f, 1, &y);
}

/* (x, dx) -> (y, dy); (x) -> (y, x); (x, dy) -> dx: each with products of its own. */
static mr_fn_t *jvp_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, square), *dx = mr_fn_input(f, square);
  return returned(f, 2, (mr_var_t *[]){two_products(f, x), two_products(f, dx)});
}

static mr_fn_t *fwd_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, square);
  return returned(f, 2, (mr_var_t *[]){two_products(f, x), x});
}

static mr_fn_t *bwd_fn(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, square), *dy = mr_fn_input(f, square), *y = mr_lax_dot(f, dy, x);
  const char *outer = mr_scope_enter(f, "inner");
  y = mr_lax_dot(f, y, x);
  mr_scope_leave(f, outer);
  return returned(f, 1, &y);
}

static mr_err_t append_call(mr_fn_t *f, call_t call, mr_var_t *x, mr_var_t **y) {
  mr_fn_t *b = products_fn(), *one = NULL, *two = NULL;
  mr_err_t e = MR_OK;
  switch (call) {
    case PLAIN: *y = two_products(f, x); break;
    case JIT: e = mr_lax_jit(f, "b", b, &x, y); break;
    case CHECKPOINT: e = mr_lax_checkpoint(f, b, 0, &x, y); break;
    case SCAN: e = mr_lax_scan(f, b, &(mr_scan_t){.length = 2, .n_carry = 1}, &x, y); break;
    case FORI: {
      one = mr_fn_create();
      mr_fn_input(one, mr_aval_scalar(MR_I32));
      mr_var_t *z = two_products(one, mr_fn_input(one, square));
      e = mr_lax_fori_loop(f, 0, 2, returned(one, 1, &z), 0, &x, y);
      break;
    }
    case COND: {
      mr_var_t *sum = mr_lax_reduce_sum(f, x, 2, (int[]){0, 1});
      e = mr_lax_cond(f, mr_lax_gt(f, sum, mr_literal(f, MR_F32, 0)), b, b, &x, y);
      break;
    }
    case WHILE: e = mr_lax_while(f, one = never_fn(), 0, b, 0, &x, y); break;
    case CUSTOM_JVP: e = mr_lax_custom_jvp(f, b, one = jvp_fn(), &x, y); break;
    case CUSTOM_VJP: e = mr_lax_custom_vjp(f, b, one = fwd_fn(), two = bwd_fn(), &x, y); break;
    case NESTED: {
      one = mr_fn_create();
      mr_var_t *z = mr_fn_input(one, square);
      e = mr_lax_jit(one, "b", b, &z, &z);
      returned(one, 1, &z);
      if (e >= 0) e = mr_lax_scan(f, one, &(mr_scan_t){.length = 2, .n_carry = 1}, &x, y);
      break;
    }
    default: e = mr_inline(f, b, &x, y);
  }
  mr_fn_destroy(b), mr_fn_destroy(one), mr_fn_destroy(two);
  return e;
}

/* x -> the sum of what the call gives, within scope `around` ("": within mr_amp_stop). */
static mr_fn_t *call_fn(call_t call, const char *around) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, square), *y = NULL;
  const char *outer = *around ? mr_scope_enter(f, around) : mr_amp_stop(f);
  if (append_call(f, call, x, &y) < 0) fail_msg("%s: %s", call_name[call], f->diag.text);
  mr_scope_leave(f, outer);
  y = mr_lax_reduce_sum(f, y, 2, (int[]){0, 1});
  return returned(f, 1, &y);
}

typedef enum way { AS_IS, GRAD, VMAP, GRAD_OF_VMAP, VMAP_OF_GRAD, OPENED, WAYS } way_t;

static const char *const way_name[] = {
    "", "grad of ", "vmap of ", "grad of vmap of ", "vmap of grad of ", "opened "};

/* Takes over f. */
static mr_fn_t *transformed(mr_fn_t *f, way_t way) {
  mr_diag_t diag = {0};
  mr_fn_t *g = NULL, *s = NULL;
  if (way == AS_IS) return f;
  if (way == GRAD) mr_value_and_grad(f, 1, (int[]){0}, &g, &diag);
  if (way == VMAP) mr_vmap(f, 3, NULL, NULL, &g, &diag);
  if (way == OPENED) mr_open(f, &g, &diag);
  if (way == VMAP_OF_GRAD && mr_value_and_grad(f, 1, (int[]){0}, &s, &diag) >= 0)
    mr_vmap(s, 3, NULL, NULL, &g, &diag);
  if (way == GRAD_OF_VMAP && mr_vmap(f, 3, NULL, NULL, &s, &diag) >= 0) {
    mr_fn_t *sum = mr_fn_create();
    mr_var_t *x = mr_fn_input(sum, s->in[0]->aval), *y;
    mr_inline(sum, s, &x, &y);
    y = mr_lax_reduce_sum(sum, y, 1, (int[]){0});
    mr_value_and_grad(returned(sum, 1, &y), 1, (int[]){0}, &g, &diag);
    mr_fn_destroy(sum);
  }
  if (!g) fail_msg("%s%s", way_name[way], diag.text);
  mr_fn_destroy(f), mr_fn_destroy(s);
  return g;
}

typedef struct counted {
  int narrow[2], wide[2]; /* products outside and inside of "inner" */
} counted_t;

/* Counts the products of f and of all functions that it calls. */
static void count_products(const mr_fn_t *f, const char *outer, counted_t *n) {
  for (int i = 0; i < f->n_eqn; i++) {
    mr_mem_t mem = {0};
    const mr_eqn_t *e = f->eqn[i];
    const char *scope = mr_scope_within(&mem, outer, e->scope);
    bool inner = strstr(scope, "inner") != NULL;
    if (e->op == &mr_op_dot_general)
      ++*(e->in[0]->aval.dtype == MR_F32 ? &n->wide[inner] : &n->narrow[inner]);
    for (int k = 0; k < e->n_attr; k++) {
      const mr_fn_t *const *fns;
      int calls = mr_attr_calls(&e->attr[k], &fns);
      for (int j = 0; j < calls; j++) count_products(fns[j], scope, n);
    }
    mr_mem_fini(&mem);
  }
}

static void a_rule_reaches_into_every_kind_of_call(void **state) {
  static const struct {
    const char *around, *rules;
    bool narrow[2]; /* products outside and inside of "inner"; none else */
  } c[] = {{"", "", {false, false}},
           {"head", "head=f32", {false, false}},
           {"head", "", {true, true}},
           {"head", "inner=f32", {true, false}},
           {"a/head", "head/inner=f32", {true, false}},
           {"head", "inner=compute, head=original", {false, false}},
           {"head", "dot_general=f32, head=compute", {true, true}}};
  for (int call = 0; call < CALLS; call++)
    for (int way = 0; way < WAYS; way++)
      for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (int before = 0; before < 2; before++) { /* amp before or after the transform */
          bool grad = way == GRAD || way == GRAD_OF_VMAP || way == VMAP_OF_GRAD;
          if (call == WHILE && grad) continue; /* it has no reverse mode */
          mr_amp_policy_t p = mr_amp_usual(MR_BF16);
          mr_diag_t diag = {0};
          counted_t n = {0};
          assert_int_equal(mr_amp_add_text(&p, c[i].rules, &diag), MR_OK);
          mr_fn_t *f = call_fn((call_t)call, c[i].around), *g;
          if (!before) f = transformed(f, (way_t)way);
          const mr_amp_row_t *none = mr_amp_unmatched(&p, f);
          if (none)
            fail_msg("%s%s: %s matches nothing", way_name[way], call_name[call], none->name);
          g = amped(f, &p);
          if (before) g = transformed(g, (way_t)way);
          count_products(g, "", &n);
          for (int k = 0; k < 2; k++)
            if (n.narrow[k] + n.wide[k] == 0 || *(c[i].narrow[k] ? &n.wide[k] : &n.narrow[k]))
              fail_msg("%s%s, \"%s\" %s it: %d products narrow, %d in f32 in scope %s%s",
                       way_name[way], call_name[call], c[i].rules, before ? "before" : "after",
                       n.narrow[k], n.wide[k], c[i].around, k ? "/inner" : "");
          mr_fn_destroy(f), mr_fn_destroy(g);
        }
}

/* A function that is not entered is decided for by no row. */
static void a_row_on_functions_that_are_not_entered_matches_nothing(void **state) {
  mr_diag_t diag = {0};
  mr_amp_policy_t p = mr_amp_jaxamp(MR_BF16);
  assert_int_equal(mr_amp_add_text(&p, "head=f32", &diag), MR_OK);
  mr_fn_t *plain = call_fn(PLAIN, "head"), *called = call_fn(SCAN, "head");
  assert_null(mr_amp_unmatched(&p, plain));
  assert_string_equal(mr_amp_unmatched(&p, called)->name, "head");
  mr_fn_destroy(plain), mr_fn_destroy(called);
}

/* What is unfit is found by the same scopes. */
static void note_scope(void *arg, const mr_amp_row_t *row, const mr_eqn_t *e) {
  snprintf(arg, 64, "%s", e->scope);
}

static void unfit_ops_are_found_within_the_scope_of_a_call(void **state) {
  mr_diag_t diag = {0};
  char scope[64] = "";
  mr_amp_policy_t p = mr_amp_usual(MR_BF16);
  mr_fn_t *b = classifier_fn(false), *f = mr_fn_create();
  mr_var_t *y;
  for (int i = 0; i < 2; i++) mr_fn_input(f, b->in[i]->aval);
  const char *outer = mr_scope_enter(f, "net");
  assert_int_equal(mr_lax_jit(f, "b", b, f->in, &y), MR_OK);
  mr_scope_leave(f, outer);
  returned(f, 1, &y);
  assert_int_equal(mr_amp_add_text(&p, "net=compute, head=f32", &diag), MR_OK);
  mr_amp_each_unfit(&p, f, note_scope, scope);
  assert_string_equal(scope, "net/head/loss");
  mr_fn_destroy(b), mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_rows_of_jaxamps_policy),
      cmocka_unit_test(jaxamps_default_policy),
      cmocka_unit_test(f16_equals_jaxamp),
      cmocka_unit_test(scopes_equal_jaxamp),
      cmocka_unit_test(jaxamp_without_a_default_rule),
      cmocka_unit_test(jaxamp_does_not_enter_functions),
      cmocka_unit_test(only_what_repeats_a_smaller_value_follows_the_sum),
      cmocka_unit_test(rows_come_from_a_text_or_are_refused),
      cmocka_unit_test(a_scope_is_matched_by_whole_components),
      cmocka_unit_test(a_rule_of_ones_own_sees_the_equation),
      cmocka_unit_test(a_rule_of_ones_own_has_a_function),
      cmocka_unit_test(a_policy_without_the_function_of_a_rule_is_refused),
      cmocka_unit_test(parts_keep_the_scopes_around_them),
      cmocka_unit_test(the_usual_policy_on_a_vision_transformer),
      cmocka_unit_test(a_row_keeps_a_part_of_the_model_in_f32),
      cmocka_unit_test(a_row_that_names_nothing_is_found),
      cmocka_unit_test(ops_that_do_not_take_the_compute_dtype_are_named),
      cmocka_unit_test(a_rule_reaches_into_every_kind_of_call),
      cmocka_unit_test(a_row_on_functions_that_are_not_entered_matches_nothing),
      cmocka_unit_test(unfit_ops_are_found_within_the_scope_of_a_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
