/* A plug-in with an op: hard swish, x min(max(x + 3, 0), 6) / 6 (Howard et al., "Searching for
   MobileNetV3", 2019), with its kernel and all rules: it is traced, printed and parsed,
   differentiated as often as one likes, mapped over, fused and compiled as any other op.

   cc -O2 -shared -fPIC hardswish.c $(pkg-config --cflags millrace-plugin) -o hardswish.so
   millrace jaxpr --plugin ./hardswish.so energy.jaxpr --grad */
#include <millrace.h>

/* The kernel: one function an element, for f32 and bf16, and one for f64.  Loops, threads and
   fusion with the ops around it are the library's. */
static float at_f32(float x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }
static double at_f64(double x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }

/* dx = dout (2 x + 3) / 6 between the kinks, 0 below and dout above: written with ops, so that it
   has derivatives itself. */
static mr_err_t hardswish_vjp(mr_fn_t *f, const mr_eqn_t *e, mr_var_t *const *dout,
                              mr_var_t **din) {
  mr_var_t *x = e->in[0], *three = mr_literal(f, x->aval.dtype, 3);
  mr_var_t *middle = mr_lax_scale(f, 1. / 6, mr_lax_add(f, mr_lax_scale(f, 2, x), three));
  mr_var_t *zero = mr_lax_full(f, &x->aval, 0), *one = mr_lax_full(f, &x->aval, 1);
  mr_var_t *above = mr_lax_ge(f, x, three), *below = mr_lax_le(f, x, mr_lax_neg(f, three));
  mr_var_t *slope = mr_lax_select_n(f, above, mr_lax_select_n(f, below, middle, zero), one);
  din[0] = mr_lax_mul(f, dout[0], slope);
  return mr_rule_done(f);
}

/* The same from other ops: what a transform writes in its place where it must. */
static mr_err_t hardswish_open(mr_fn_t *f, const mr_eqn_t *e, mr_var_t **out) {
  mr_var_t *x = e->in[0], *zero = mr_literal(f, x->aval.dtype, 0),
           *six = mr_literal(f, x->aval.dtype, 6), *three = mr_literal(f, x->aval.dtype, 3);
  mr_var_t *gate = mr_lax_min(f, mr_lax_max(f, mr_lax_add(f, x, three), zero), six);
  out[0] = mr_lax_mul(f, x, mr_lax_scale(f, 1. / 6, gate));
  return mr_rule_done(f);
}

/* What tests of all ops run on: pieces that keep clear of the kinks at -3 and 3. */
static bool hardswish_sample(const mr_op_def_t *op, mr_sample_t *s, int k) {
  static const double lo[] = {-2.5, 3.5, -6}, hi[] = {2.5, 6, -3.5};
  if (k > 2) return false;
  mr_var_t *x = mr_sample_f32(s, lo[k], hi[k], 2, 3);
  return mr_sample_done(s, mr_emit1(s->f, op, 1, &x, 0, NULL));
}

static const mr_op_def_t hardswish = {
    .name = "hardswish",
    .n_in = 1,
    .n_out = 1,
    .shape = mr_shape_floats,
    .batch = mr_batch_pointwise, /* a mapped dimension stays where it is */
    .open = hardswish_open,
    .sample = hardswish_sample,
    .kind = MR_OP_ELEMENTWISE,
    .ad = {.jvp = mr_jvp_symmetric,
           .vjp = hardswish_vjp},  /* one operand: forward is reverse mode */
    .fuse = {.view = mr_view_each, /* slices and transpositions pass through */
             .unit = mr_unit_pointwise},
    .reuse = {.of = {1}},
    .amp = {MR_AMP_FOLLOW},
    .cost = {.each = 5},
    .cpu = {.f1 = at_f32, .d1 = at_f64},
    .device = {.real = "a * fmin(fmax(a + (T)3, (T)0), (T)6) / (T)6"},
    .shard = {mr_shard_each}, /* each device computes its elements */
};

static const mr_op_def_t *const ops[] = {&hardswish, NULL};

const mr_plugin_t mr_plugin = {MR_PLUGIN_BUILT_FOR, .name = "hardswish", .ops = ops};
