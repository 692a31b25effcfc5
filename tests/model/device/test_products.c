/* What libraries compute where a device has them, products and attention, and the gradients of a
   whole loss, on a device against double precision on the CPU. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/device_run.h"
#include "tests/model/product_plan.h"
#include "tests/model/vit_step.h"

static void fill(const mr_fn_t *f, double **in, double lo, double hi) {
  for (int i = 0; i < f->n_in; i++) {
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++) in[i][k] = random_in(lo, hi);
  }
}

/* Destroys f. */
static void near_f64(const char *what, mr_fn_t *f, double near, bool narrow) {
  double *in[GRID_MAX];
  fill(f, in, -1, 1);
  same_as_in_f64(what, f, in, near, narrow);
  free_all(f->n_in, in);
  mr_fn_destroy(f);
}

typedef struct kind {
  mr_dtype_t in, out;
  mr_precision_t precision;
  double near;
} kind_t;

static const kind_t kinds[] = {
    {MR_F32, MR_F32, MR_PRECISION_NONE, 1e-5},    {MR_F32, MR_F32, MR_PRECISION_HIGH, 1e-4},
    {MR_F32, MR_F32, MR_PRECISION_DEFAULT, 2e-2}, {MR_F64, MR_F64, MR_PRECISION_NONE, 1e-12},
    {MR_BF16, MR_F32, MR_PRECISION_NONE, 1e-4},   {MR_BF16, MR_BF16, MR_PRECISION_NONE, 1e-2},
    {MR_F16, MR_F32, MR_PRECISION_NONE, 1e-4},    {MR_F16, MR_F16, MR_PRECISION_NONE, 2e-3}};
enum { KINDS = sizeof kinds / sizeof *kinds, PRODUCTS = 12 };

static void products_of_random_dimensions_are_those_of_f64(void **state) {
  for (int i = 0; i < KINDS * PRODUCTS; i++) {
    const kind_t *k = &kinds[i % KINDS];
    char what[64];
    grid_state = (uint32_t)i + 77;
    snprintf(what, sizeof what, "product %d of %s", i, mr_dtype_name(k->in));
    near_f64(what, random_dot(k->in, k->out, k->precision), k->near, false);
  }
}

/* Sizes of the recipe's layers for one picture, forward and both ways back, with a bias. */
static mr_fn_t *layer(const kind_t *k, int64_t rows, int64_t from, int64_t to, int way) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(k->in, rows, from));
  mr_var_t *w = way == 1   ? mr_fn_input(f, mr_aval_of(k->in, to, from))
                : way == 2 ? mr_fn_input(f, mr_aval_of(k->in, rows, to))
                           : mr_fn_input(f, mr_aval_of(k->in, from, to));
  mr_dot_dims_t d = {.n_contract = 1, .lhs_contract = {way == 2 ? 0 : 1}};
  d.rhs_contract[0] = way == 1 ? 1 : 0;
  mr_precision_t before = mr_precision_enter(f, k->precision);
  mr_var_t *y = mr_lax_dot_general(f, x, w, &d, k->out);
  mr_precision_leave(f, before);
  if (way == 0) {
    mr_var_t *bias = mr_fn_input(f, mr_aval_of(k->out, to));
    y = mr_lax_add(f, y, mr_lax_broadcast_in_dim(f, bias, 2, y->aval.dim, (int[]){1}));
  }
  y = mr_lax_scale(f, 1.0 / 16, y);
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void products_of_layers_are_those_of_f64(void **state) {
  static const int64_t size[][3] = {
      {65, 384, 1152}, {65, 384, 384}, {130, 384, 1536}, {7, 384, 10}};
  for (int i = 0; i < KINDS; i++)
    for (int way = 0; way < 3; way++) {
      const int64_t *s = size[(i + way) % 4];
      char what[96];
      snprintf(what, sizeof what, "layer %lld x %lld x %lld of %s, way %d", (long long)s[0],
               (long long)s[1], (long long)s[2], mr_dtype_name(kinds[i].in), way);
      near_f64(what, layer(&kinds[i], s[0], s[1], s[2], way), kinds[i].near, false);
    }
}

/* Attention of (B,T,H,D) with the gradients of q, k and v. */
static mr_fn_t *attention_of(mr_dtype_t t, int64_t T, int64_t D, bool packed) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  int wrt[] = {0, 1, 2};
  mr_var_t *y, *q[3];
  float scale = 1 / sqrtf((float)D);
  if (packed) {
    y = mr_lax_attention_packed(f, mr_fn_input(f, mr_aval_of(t, 2, T, 3, 4, D)), scale);
  } else {
    for (int i = 0; i < 3; i++) q[i] = mr_fn_input(f, mr_aval_of(t, 2, T, 4, D));
    y = mr_lax_attention(f, q[0], q[1], q[2], scale);
  }
  y = mr_lax_sin(f, mr_lax_convert(f, y, MR_F32));
  y = mr_lax_reduce_sum(f, y, 4, (int[]){0, 1, 2, 3});
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  if (mr_grad(f, f->n_in, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  return g;
}

static void attention_and_its_gradients_are_those_of_f64(void **state) {
  static const struct {
    mr_dtype_t t;
    int64_t T, D;
    double near;
  } of[] = {{MR_BF16, 65, 48, 3e-2}, {MR_F16, 65, 48, 5e-3}, {MR_F32, 65, 48, 1e-5},
            {MR_BF16, 64, 64, 3e-2}, {MR_F16, 17, 8, 5e-3},  {MR_BF16, 5, 44, 3e-2}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int packed = 0; packed < 2; packed++) {
      char what[96];
      snprintf(what, sizeof what, "attention of %s, %lld tokens, heads of %lld%s",
               mr_dtype_name(of[i].t), (long long)of[i].T, (long long)of[i].D,
               packed ? ", packed" : "");
      near_f64(what, attention_of(of[i].t, of[i].T, of[i].D, packed), of[i].near, false);
    }
}

/* The loss of a Vision Transformer of the recipe's width, with dropout, and all its gradients. */
static void gradients_of_a_step_are_those_of_f64(void **state) {
  static const mr_dtype_t dtype[] = {MR_F32, MR_BF16};
  for (int i = 0; i < 2; i++) {
    vit_t v = vit_default();
    mr_params_t list = {0};
    mr_diag_t diag = {0};
    mr_fn_t *g = NULL;
    int wrt[256];
    double *in[GRID_MAX];
    v.model.layers = 1, v.how.dtype = dtype[i];
    mr_fn_t *f = vit_loss(&v, 2, true, &list, &diag);
    if (!f) fail_msg("%s", diag.text);
    for (int k = 0; k < list.n; k++) wrt[k] = VIT_DATA + k;
    if (mr_value_and_grad(f, list.n, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
    fill(g, in, -0.05, 0.05);
    for (int k = 0; k < 2; k++) in[1][k] = 3 + k, in[2 + k][0] = 11 + k;
    for (int64_t k = 0; k < elems(g->in[0]); k++) in[0][k] = random_in(-2, 2);
    same_as_in_f64(dtype[i] == MR_F32 ? "gradients in f32" : "gradients in bf16", g, in,
                   i ? 2e-2 : 1e-5, false);
    free_all(g->n_in, in);
    mr_fn_destroy(f), mr_fn_destroy(g);
    mr_params_fini(&list);
  }
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_random_dimensions_are_those_of_f64),
      cmocka_unit_test(products_of_layers_are_those_of_f64),
      cmocka_unit_test(attention_and_its_gradients_are_those_of_f64),
      cmocka_unit_test(gradients_of_a_step_are_those_of_f64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
