#include "apps/jaxpr_examples.h"

static void give(mr_fn_t *f, mr_var_t *y) { mr_fn_return(f, 1, &y); }

static void poly(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *square = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  mr_var_t *sum = mr_lax_add(f, square, mr_lax_scale(f, 2, x));
  give(f, mr_lax_add(f, sum, mr_literal(f, MR_F32, 5)));
}

static void dot(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3, 4));
  mr_var_t *y = mr_fn_input(f, mr_aval_of(MR_F32, 4, 1));
  mr_var_t *one = mr_literal(f, MR_F32, 1);
  x = mr_lax_add(f, x, one);
  y = mr_lax_add(f, y, one);
  give(f, mr_lax_dot(f, x, y));
}

static void gelu(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *one = mr_literal(f, MR_F32, 1);
  mr_var_t *cube = mr_lax_scale(f, 0.044715, mr_lax_integer_pow(f, x, 3));
  mr_var_t *t = mr_lax_scale(f, 0.7978845608028654, mr_lax_add(f, x, cube));
  t = mr_lax_scale(f, 0.5, mr_lax_add(f, one, mr_lax_tanh(f, t)));
  give(f, mr_lax_mul(f, x, t));
}

/* sum(tanh(W x)^2): a scalar, so that it has a gradient. */
static void energy(mr_fn_t *f) {
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 5));
  mr_var_t *w = mr_fn_input(f, mr_aval_of(MR_F32, 5, 4));
  mr_var_t *t = mr_lax_tanh(f, mr_lax_dot(f, x, w));
  give(f, mr_lax_reduce_sum(f, mr_lax_integer_pow(f, t, 2), 1, (int[]){0}));
}

const mr_jaxpr_example_t mr_jaxpr_examples[] = {
    {"poly", "3 x^2 + 2 x + 5.", poly},
    {"dot", "(x + 1) (y + 1), a product of matrices.", dot},
    {"gelu", "GELU by tanh, written out.", gelu},
    {"energy", "sum(tanh(x W)^2).", energy},
    {0}};
