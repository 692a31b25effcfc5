/* Small functions that show arithmetic, products, gradients, and loops in a jaxpr. */
#include "apps/jaxpr_examples.h"

#include "model/control/control.h"

static void jaxpr_examples_give(mr_fn_t *f, mr_var_t *y) { mr_fn_return(f, 1, &y); }

static void poly(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *square = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  mr_var_t *sum = mr_lax_add(f, square, mr_lax_scale(f, 2, x));
  jaxpr_examples_give(f, mr_lax_add(f, sum, mr_literal(f, MR_F32, 5)));
}

static void jaxpr_examples_dot(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1));
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  x = mr_lax_add(f, x, one);
  y = mr_lax_add(f, y, one);
  jaxpr_examples_give(f, mr_lax_dot(f, x, y));
}

static void gelu(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *one = mr_literal(f, MR_F32, 1);
  mr_var_t *cube = mr_lax_scale(f, 0.044715, mr_lax_integer_pow(f, x, 3));
  mr_var_t *t = mr_lax_scale(f, 0.7978845608028654, mr_lax_add(f, x, cube));
  t = mr_lax_scale(f, 0.5, mr_lax_add(f, one, mr_lax_tanh(f, t)));
  jaxpr_examples_give(f, mr_lax_mul(f, x, t));
}

/* sum(tanh(x W)^2): a scalar, so that it has a gradient. */
static void energy(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 5));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 5, 4));
  mr_var_t *t = mr_lax_tanh(f, mr_lax_dot(f, x, w));
  jaxpr_examples_give(f, mr_lax_reduce_sum(f, mr_lax_integer_pow(f, t, 2), 1, (int[]){0}));
}

/* One layer, tanh(x W), computed in bf16 with f32 input and output. */
static mr_fn_t *layer(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  mr_var_t *y = mr_lax_dot(f, mr_lax_convert(f, x, MR_BF16), mr_lax_convert(f, w, MR_BF16));
  jaxpr_examples_give(f, mr_lax_tanh(f, mr_lax_convert(f, y, MR_F32)));
  return f;
}

/* (w, i, x) -> (i + 1, x w'). */
static mr_fn_t *jaxpr_examples_turn(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *i = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  mr_var_t *y = mr_lax_dot(f, x, mr_lax_transpose(f, w, (int[]){1, 0}));
  mr_fn_return(f, 2, (mr_var_t *[]){mr_lax_add(f, i, mr_literal(f, MR_I32, 1)), y});
  return f;
}

static mr_fn_t *thrice(void) {
  mr_fn_t *f = mr_fn_create();
  if (!f) return NULL;
  mr_var_t *i = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_fn_input(f, mr_aval_of(MR_F32, 4, 16));
  jaxpr_examples_give(f, mr_lax_lt(f, i, mr_literal(f, MR_I32, 3)));
  return f;
}

/* Five layers of one matrix by scan, then three iterations by while. */
static void layers(mr_fn_t *f) {
  mr_fn_t *step = layer(), *back = jaxpr_examples_turn(), *more = thrice();
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 16, 16));
  mr_var_t *in[] = {w, mr_fn_input(f, mr_aval_of(MR_F32, 4, 16)), NULL}, *y[2] = {NULL};
  mr_scan_t s = {.length = 5, .n_consts = 1, .n_carry = 1};
  if (step && back && more && mr_lax_scan(f, step, &s, in, &in[2]) >= 0) {
    in[1] = mr_literal(f, MR_I32, 0);
    mr_lax_while(f, more, 0, back, 1, in, y);
  }
  if (y[1]) jaxpr_examples_give(f, y[1]);
  mr_fn_destroy(step), mr_fn_destroy(back), mr_fn_destroy(more);
}

const mr_jaxpr_example_t mr_jaxpr_examples[] = {
    {"poly", "3 x^2 + 2 x + 5.", poly},
    {"dot", "(x + 1) (y + 1), a product of matrices.", jaxpr_examples_dot},
    {"gelu", "GELU by tanh, written out.", gelu},
    {"energy", "sum(tanh(x W)^2).", energy},
    {"layers", "Five layers of one matrix by scan, three turns by while.", layers},
    {0}};
