/* An op of one's own, outside the library: squareplus, (x + sqrt(x^2 + 4)) / 2 (Barron,
   "Squareplus: A Softplus-Like Algebraic Rectifier", 2021), with its rules.  It is then traced,
   differentiated and compiled like any other op.

   cc squareplus.c $(pkg-config --cflags --libs millrace) -o squareplus && ./squareplus */
#include <math.h>
#include <millrace.h>
#include <stdio.h>

extern const mr_op_def_t squareplus_op;

static mr_var_t *squareplus(mr_fn_t *f, mr_var_t *x) {
  return mr_emit1(f, &squareplus_op, 1, &x, 0, NULL);
}

/* How it runs: one function an element, on all cores, in f32, bf16 or f64. */
static float at_f32(float x) { return .5f * (x + sqrtf(x * x + 4)); }
static double at_f64(double x) { return .5 * (x + sqrt(x * x + 4)); }

/* y / sqrt(x^2 + 4), the slope: of ops with rules of their own, so it has a slope itself. */
static mr_var_t *slope(mr_fn_t *f, const mr_eqn_t *e) {
  mr_var_t *square = mr_lax_mul(f, e->in[0], e->in[0]);
  mr_var_t *root = mr_lax_rsqrt(f, mr_lax_add(f, square, mr_literal(f, square->aval.dtype, 4)));
  return mr_lax_mul(f, e->out[0], root);
}

static mr_err_t backward(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout, mr_var_t **din) {
  din[0] = mr_lax_mul(f, dout[0], slope(f, e));
  return mr_rule_done(f);
}

/* Elementwise: forward mode is the same product with the slope, and a mapped dimension stays where
   it is; the library has both rules. */
const mr_op_def_t squareplus_op = {
    .name = "squareplus",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_same,
    .batch = mr_batch_pointwise,
    .open = mr_no_open,
    .kind = MR_OP_ELEMENTWISE,
    .sample = mr_sample_unary,
    .ad = {.jvp = mr_jvp_symmetric, .vjp = backward},
    .fuse = {.unit = mr_unit_pointwise},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cpu = {.f1 = at_f32, .d1 = at_f64},
    .shard = {mr_shard_each},
};

enum { N = 5 };

/* sum(squareplus(x)): its gradient is the slope at each x. */
static mr_fn_t *sum(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, N));
  mr_var_t *y = mr_lax_reduce_sum(f, squareplus(f, x), 1, (int[]){0});
  mr_fn_return(f, 1, &y);
  return f;
}

int main(void) {
  _Alignas(64) float x[N] = {-2, -.5f, 0, 1, 3}, value, grad[N];
  mr_diag_t diag = {0};
  mr_fn_t *f = sum(), *g = NULL;
  mr_exec_t *exec = NULL;
  if (mr_value_and_grad(f, 1, (int[]){0}, &g, &diag) < 0 || mr_compile(g, NULL, &exec, &diag) < 0) {
    fprintf(stderr, "squareplus: %s\n", diag.text);
    return 1;
  }
  mr_fn_print(g, stdout);
  mr_exec_run(exec, (const void *[]){x}, (void *[]){&value, grad});
  for (int i = 0; i < N; i++) {
    double want = .5 * (1 + (double)x[i] / sqrt((double)(x[i] * x[i] + 4)));
    printf("squareplus'(%4.1f) = %.6f\n", (double)x[i], (double)grad[i]);
    if (fabs((double)grad[i] - want) > 1e-6) return 1;
  }
  mr_exec_destroy(exec);
  mr_fn_destroy(g);
  mr_fn_destroy(f);
  return 0;
}
