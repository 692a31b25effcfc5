/* Products as backends hand them to cuBLASLt and CLBlast, without either: the plan of an equation,
   executed by plain loops over matrices of columns, gives what the CPU gives; the plans of the
   recipe's step are those of a table. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/transforms/passes.h"
#include "tests/model/product_plan.h"
#include "tests/model/vit_step.h"

/* ---- a plan, executed ---- */

/* Element (i,j) of op(matrix z), in an array of `bytes`: reading past its end fails. */
static double at_of(const mr_product_operand_t *o, const void *x, size_t bytes, int64_t z,
                    int64_t i, int64_t j) {
  int64_t row = o->transposed ? j : i, col = o->transposed ? i : j;
  assert_true(row < o->rows && col < o->cols && o->ld >= o->rows);
  int64_t at = z * o->batch_stride + row + col * o->ld;
  assert_true((size_t)(at + 1) * mr_dtype_size(o->dtype) <= bytes);
  return mr_get_f64(o->dtype, x, at);
}

static void execute(const mr_eqn_t *e, const mr_product_t *p, void *const *in, void *out) {
  char *scratch = grid_bytes(p->copies);
  const mr_product_operand_t *side[] = {&p->a, &p->b};
  const void *x[2];
  size_t bytes[2];
  memset(scratch, 0xFF, p->copies);
  for (int s = 0; s < 2; s++) {
    bool copied = side[s]->n_parts > 0;
    if (copied) copy_operand(side[s], in[side[s]->in], scratch);
    x[s] = copied ? scratch + side[s]->at : in[side[s]->in];
    bytes[s] = copied ? (size_t)side[s]->copied * mr_dtype_size(side[s]->dtype)
                      : mr_aval_bytes(&e->in[side[s]->in]->aval);
    if (copied) assert_true(side[s]->at % 256 == 0 && side[s]->at + bytes[s] <= p->copies);
  }
  for (int64_t z = 0; z < p->batch; z++)
    for (int64_t j = 0; j < p->n; j++)
      for (int64_t i = 0; i < p->m; i++) {
        double sum = p->bias >= 0 ? mr_get_f64(p->d, in[p->bias], i) : 0;
        for (int64_t k = 0; k < p->k; k++)
          sum += at_of(&p->a, x[0], bytes[0], z, i, k) * at_of(&p->b, x[1], bytes[1], z, k, j);
        mr_set_f64(p->d, out, z * p->d_batch + j * p->d_ld + i, sum);
      }
  free(scratch);
}

/* ---- against the CPU ---- */

static const mr_eqn_t *product_in(const mr_fn_t *f) {
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op->cost.product) return f->eqn[i];
  fail_msg("no product in %s", mr_fn_text(f));
  return NULL;
}

typedef bool plan_fn(const mr_eqn_t *e, mr_product_t *p);

/* f is one product of its inputs.  Returns whether it has a plan. */
static bool same_as_the_cpu(const char *what, mr_fn_t *f, plan_fn *plan, mr_product_t *p) {
  const mr_eqn_t *e = product_in(f);
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  if (!plan(e, p)) return false;
  void *in[3], *want = grid_bytes(mr_aval_bytes(&f->out[0]->aval)),
               *got = grid_bytes(mr_aval_bytes(&f->out[0]->aval));
  for (int i = 0; i < f->n_in; i++) {
    assert_ptr_equal(e->in[i], f->in[i]);
    in[i] = grid_bytes(mr_aval_bytes(&f->in[i]->aval));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      mr_set_f64(f->in[i]->aval.dtype, in[i], k, random_in(-1, 1));
  }
  mr_compile_options_t options = {.skip = "fold-convert,merge-products"};
  if (mr_compile(f, &options, &x, &diag) < 0) fail_msg("%s: %s", what, diag.text);
  mr_exec_run(x, (const void *const *)in, &want);
  execute(e, p, in, got);
  const mr_aval_t *y = &f->out[0]->aval;
  double tolerance = mr_dtype_size(y->dtype) == 2 ? 1.0 / 100 : y->dtype == MR_F32 ? 1e-5 : 1e-13;
  for (int64_t k = 0; k < mr_aval_elems(y); k++) {
    double a = mr_get_f64(y->dtype, got, k), b = mr_get_f64(y->dtype, want, k);
    char text[MR_PRODUCT_TEXT];
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
      fail_msg("%s: element %lld is %.9g, %.9g on the CPU\n%s\n%s", what, (long long)k, a, b,
               mr__product_text(p, text), mr_fn_text(f));
  }
  for (int i = 0; i < f->n_in; i++) free(in[i]);
  free(want), free(got);
  mr_exec_destroy(x);
  return true;
}

static void samples_of_products_have_plans_that_give_the_cpus_results(void **state) {
  const mr_op_def_t *ops[] = {&mr_op_dot_general, &mr_op_linear};
  int n = 0;
  for (int o = 0; o < 2; o++)
    for (int k = 0;; k++) {
      mr_sample_t s = {.f = mr_fn_create()};
      mr_product_t p;
      if (!ops[o]->sample(ops[o], &s, k)) {
        mr_fn_destroy(s.f);
        break;
      }
      assert_true(same_as_the_cpu(ops[o]->name, s.f, mr__product, &p));
      if (p.bias < 0) assert_true(same_as_the_cpu(ops[o]->name, s.f, mr__product_wide, &p));
      mr_fn_destroy(s.f);
      n++;
    }
  assert_int_equal(n, 7);
}

static void random_products_have_plans_that_give_the_cpus_results(void **state) {
  static const struct {
    mr_dtype_t in, out;
    mr_precision_t precision;
    int parts;
  } kind[] = {{MR_F32, MR_F32, MR_PRECISION_NONE, 0},    {MR_F32, MR_F32, MR_PRECISION_HIGHEST, 0},
              {MR_F32, MR_F32, MR_PRECISION_DEFAULT, 1}, {MR_F32, MR_F32, MR_PRECISION_HIGH, 3},
              {MR_BF16, MR_BF16, MR_PRECISION_NONE, 0},  {MR_BF16, MR_F32, MR_PRECISION_HIGH, 0},
              {MR_F16, MR_F16, MR_PRECISION_NONE, 0},    {MR_F16, MR_F32, MR_PRECISION_DEFAULT, 0},
              {MR_F64, MR_F64, MR_PRECISION_DEFAULT, 0}};
  int in_place = 0, copied = 0, transposed = 0;
  for (int i = 0; i < 1800; i++) {
    int k = i % 9;
    char what[60];
    mr_product_t p;
    grid_state = (uint32_t)i + 1;
    snprintf(what, sizeof what, "random product %d", i);
    mr_fn_t *f = random_dot(kind[k].in, kind[k].out, kind[k].precision);
    assert_true(same_as_the_cpu(what, f, mr__product, &p));
    for (int s = 0; s < 2; s++) {
      const mr_product_operand_t *o = s ? &p.a : &p.b;
      if (kind[k].parts) assert_int_equal(o->n_parts, kind[k].parts);
      if (!kind[k].parts) in_place += !o->n_parts, copied += o->n_parts > 0;
      transposed += !o->n_parts && o->transposed;
    }
    assert_true(same_as_the_cpu(what, f, mr__product_wide, &p));
    assert_true(p.a.dtype == p.b.dtype && p.a.dtype == (kind[k].in == MR_F64 ? MR_F64 : MR_F32));
    assert_int_equal(mr__product_is_narrow(&p), mr_dtype_size(kind[k].out) == 2);
    mr_fn_destroy(f);
  }
  assert_true(in_place > 1000 && copied > 100 && transposed > 300);
}

/* An infinity times a finite number is an infinity at any precision, not NaN. */
static void split_operands_keep_infinities(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_product_t p;
  float x[] = {INFINITY, 1.00390625f}, w[] = {3, 1e-3f}, y = 0;
  mr_var_t *in[] = {mr_fn_input(f, mr_aval_of(MR_F32, 1, 2)),
                    mr_fn_input(f, mr_aval_of(MR_F32, 2, 1))};
  mr_precision_enter(f, MR_PRECISION_HIGH);
  mr_var_t *out = mr_lax_dot(f, in[0], in[1]);
  assert_int_equal(mr_fn_return(f, 1, &out), MR_OK);
  for (int wide = 0; wide < 2; wide++) {
    assert_true((wide ? mr__product_wide : mr__product)(f->eqn[0], &p));
    x[0] = INFINITY;
    execute(f->eqn[0], &p, (void *[]){x, w}, &y);
    assert_true(isinf(y) && y > 0);
    x[0] = 1.001f;
    execute(f->eqn[0], &p, (void *[]){x, w}, &y);
    assert_true(fabs(y - (1.001 * 3 + 1.00390625e-3)) < 1e-4);
  }
  mr_fn_destroy(f);
}

static void products_that_no_library_takes_are_refused(void **state) {
  static const struct {
    mr_dtype_t in, out;
    int64_t k;
  } no[] = {{MR_F32, MR_BF16, 4},
            {MR_F32, MR_F64, 4},
            {MR_BF16, MR_F16, 4},
            {MR_F16, MR_BF16, 4},
            {MR_F64, MR_F32, 4},
            {MR_BF16, MR_F32, 0},
            {MR_BF16, MR_F32, (int64_t)1 << 32}};
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
    mr_fn_t *f = mr_fn_create();
    mr_product_t p;
    mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {1}};
    mr_var_t *x = mr_fn_input(f, mr_aval_of(no[i].in, 2, no[i].k));
    mr_var_t *w = mr_fn_input(f, mr_aval_of(no[i].in, no[i].k, 3));
    assert_non_null(mr_lax_dot_general(f, x, w, &d, no[i].out));
    assert_false(mr__product(f->eqn[0], &p) || mr__product_wide(f->eqn[0], &p));
    mr_fn_destroy(f);
  }
  mr_fn_t *f = mr_fn_create();
  mr_product_t p;
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2, 3));
  assert_non_null(mr_lax_exp(f, x));
  assert_false(mr__product(f->eqn[0], &p));
  mr_fn_destroy(f);
}

/* ---- the recipe's step ---- */

static bool opens_what_no_library_takes(const mr_target_t *t, const mr_eqn_t *e) {
  mr_product_t p;
  return strncmp(e->op->name, "attention", 9) != 0 && !mr__product(e, &p);
}

static float element_on_the_host(const mr_op_def_t *op, float a, float b) {
  return op->cpu.f1 ? op->cpu.f1(a) : op->cpu.f2(a, b);
}

/* The lines of all products in f, sorted and counted: "6 x m=1152 ...". */
static void list_products(const mr_fn_t *f, FILE *to) {
  char(*line)[MR_PRODUCT_TEXT] = calloc((size_t)f->n_eqn + 1, sizeof *line);
  int n = 0;
  assert_non_null(line);
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_eqn_t *e = f->eqn[i];
    mr_product_t p;
    if (!e->op->cost.product || !strncmp(e->op->name, "attention", 9)) continue;
    if (!mr__product(e, &p)) fail_msg("%s: no plan", e->scope);
    mr__product_text(&p, line[n++]);
    if (p.copies) fail_msg("%s: %s is copied", e->scope, line[n - 1]);
  }
  qsort(line, (size_t)n, sizeof *line, (int (*)(const void *, const void *))strcmp);
  for (int i = 0, k; i < n; i = k) {
    for (k = i; k < n && !strcmp(line[k], line[i]); k++) continue;
    fprintf(to, "%d x %s\n", k - i, line[i]);
  }
  free(line);
}

static void products_of_the_recipes_step_are_those_of_the_table(void **state) {
  mr_target_t target = {.loop_eqns = 96,
                        .loop_ends = 16,
                        .element = element_on_the_host,
                        .opens = opens_what_no_library_takes};
  vit_t v = vit_default();
  mr_loss_t l = mr_vit_loss(&v.model);
  mr_train_config_t t = mr_train_default(128);
  mr_params_t list = {0};
  mr_fn_t *f = NULL, *g = NULL;
  mr_diag_t diag = {0};
  char *text = NULL, want[4096] = "";
  size_t size = 0;
  t.compute = v.how;
  if (mr_train_step_fn(&l, &t, &list, &f, &diag) < 0 || mr_open_calls(f, &target, &g, &diag) < 0 ||
      mr_passes_run(g, &target, NULL, &diag) < 0)
    fail_msg("%s", diag.text);
  FILE *to = open_memstream(&text, &size);
  list_products(g, to);
  assert_int_equal(fclose(to), 0);
  FILE *table = fopen(MR_SOURCE_DIR "/tests/model/cuda_products.txt", "r");
  assert_non_null(table);
  assert_true(fread(want, 1, sizeof want - 1, table) > 0);
  fclose(table);
  assert_string_equal(text, want);
  free(text);
  mr_fn_destroy(f), mr_fn_destroy(g);
  mr_params_fini(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_of_products_have_plans_that_give_the_cpus_results),
      cmocka_unit_test(random_products_have_plans_that_give_the_cpus_results),
      cmocka_unit_test(split_operands_keep_infinities),
      cmocka_unit_test(products_that_no_library_takes_are_refused),
      cmocka_unit_test(products_of_the_recipes_step_are_those_of_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
