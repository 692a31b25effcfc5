/* Initialisers by name: the values that jax.nn.initializers draws with the same keys (JAX 0.10.2),
   which parameters a rule means, and rules that mean none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/model.h"
#include "model/train/train.h"
#include "tests/comma.h"
#include "tests/model/vit_step.h"

static mr_diag_t diag;

/* The first and the last value of kernels (6,10) and (2,3,4,5) and the sum of magnitudes, of
   initialiser(jax.random.split(jax.random.key(12), n)[i], shape). */
typedef struct drawn {
  const char *rules;
  double first[2], last[2], sum[2];
} drawn_t;

static const drawn_t of_jax[] = {
    {"lecun_normal",
     {-0.6902148723602295, -0.0422133132815361},
     {-0.14759697020053864, 0.13524456322193146},
     {22.575292587280273, 19.07880401611328}},
    {"lecun_uniform",
     {-0.6393429040908813, -0.0534665621817112},
     {-0.18485404551029205, 0.16296997666358948},
     {23.077247619628906, 20.59568214416504}},
    {"he_normal",
     {-0.9761111736297607, -0.05969863384962082},
     {-0.20873361825942993, 0.19126467406749725},
     {31.926284790039062, 26.98149871826172}},
    {"kaiming_uniform",
     {-0.9041674137115479, -0.07561314105987549},
     {-0.26142311096191406, 0.2304743528366089},
     {32.63615417480469, 29.126691818237305}},
    {"glorot_normal",
     {-0.597743570804596, -0.03979909047484398},
     {-0.12782271206378937, 0.12750978767871857},
     {19.5507755279541, 17.987667083740234}},
    {"xavier_uniform",
     {-0.5536872148513794, -0.05040876194834709},
     {-0.16008831560611725, 0.15364956855773926},
     {19.985485076904297, 19.417797088623047}},
    {"normal",
     {-0.016654014587402344, -0.0019068322144448757},
     {-0.00333738443441689, 0.006142484024167061},
     {0.5465927720069885, 0.8913182616233826}},
    {"normal:0.5",
     {-0.8327007293701172, -0.09534161537885666},
     {-0.16686922311782837, 0.30712419748306274},
     {27.329635620117188, 44.56591033935547}},
    {"truncated_normal:0.3",
     {-0.446148157119751, -0.05457254499197006},
     {-0.09540524333715439, 0.1748415231704712},
     {14.592449188232422, 24.664703369140625}},
    {"uniform",
     {0.00047916293260641396, 0.00424386840313673},
     {0.003692884463816881, 0.007304743397980928},
     {0.3127041161060333, 0.5716049671173096}},
    {"constant:0.25", {0.25, 0.25}, {0.25, 0.25}, {15, 30}},
};

static void add(mr_params_t *params, const char *name, mr_aval_t aval) {
  assert_int_equal(mr_params_add(params, name, aval, (mr_init_t){.kind = MR_INIT_ONES}, &diag),
                   MR_OK);
}

static mr_params_t two_kernels_and_a_bias(void) {
  mr_params_t params = {0};
  add(&params, "a.kernel", mr_aval_of(MR_F32, 6, 10));
  add(&params, "b.kernel", mr_aval_of(MR_F32, 2, 3, 4, 5));
  add(&params, "b.bias", mr_aval_of(MR_F32, 5));
  assert_int_equal(mr_params_alloc(&params, &diag), MR_OK);
  return params;
}

static void initialisers_draw_what_jax_draws(void **state) {
  for (size_t k = 0; k < sizeof of_jax / sizeof *of_jax; k++) {
    const drawn_t *want = &of_jax[k];
    mr_params_t params = two_kernels_and_a_bias();
    if (mr_train_init(&params, want->rules, &diag) < 0) fail_msg("%s", diag.text);
    assert_int_equal(mr_params_init(&params, 12, &diag), MR_OK);
    for (int i = 0; i < 2; i++) {
      const float *x = mr_params_at(&params, mr_params_set(&params, MR_SET_VALUES, 0), i);
      size_t n = params.param[i].size;
      double sum = 0;
      for (size_t j = 0; j < n; j++) sum += fabs((double)x[j]);
      if (fabs((double)x[0] - want->first[i]) > 2e-7 * fabs(want->first[i]) ||
          fabs((double)x[n - 1] - want->last[i]) > 2e-7 * fabs(want->last[i]) ||
          fabs(sum - want->sum[i]) > 1e-6 * want->sum[i])
        fail_msg("%s of kernel %d: %.9g .. %.9g, sum %.9g", want->rules, i, (double)x[0],
                 (double)x[n - 1], sum);
    }
    const float *bias = mr_params_at(&params, mr_params_set(&params, MR_SET_VALUES, 0), 2);
    assert_float_equal(bias[4], 1, 0); /* no kernel */
    mr_params_fini(&params);
  }
}

static void expect_near(const char *what, double got, double want) {
  if (fabs(got - want) > 1e-6) fail_msg("%s: %.9g, want %.9g", what, got, want);
}

/* The greatest difference of a product of a matrix's rows, or columns if they are fewer, with
   themselves from `square` times the identity. */
static double off_identity(const float *x, int64_t rows, int64_t cols, double square) {
  const bool wide = rows < cols;
  const int64_t n = wide ? cols : rows, m = wide ? rows : cols;
  double worst = 0;
  for (int64_t a = 0; a < m; a++)
    for (int64_t b = 0; b <= a; b++) {
      double sum = a == b ? -square : 0;
      for (int64_t i = 0; i < n; i++)
        sum += wide ? (double)x[a * cols + i] * (double)x[b * cols + i]
                    : (double)x[i * cols + a] * (double)x[i * cols + b];
      worst = fmax(worst, fabs(sum));
    }
  return worst;
}

static const float *drawn_of(const mr_params_t *params, int i) {
  return mr_params_at(params, mr_params_set(params, MR_SET_VALUES, 0), i);
}

/* jax factors in f32, this in f64: the values are near.  First and last ones, as above. */
static void orthogonal_kernels_are_near_those_of_jax(void **state) {
  mr_params_t params = two_kernels_and_a_bias();
  assert_int_equal(mr_train_init(&params, "orthogonal", &diag), MR_OK);
  assert_int_equal(mr_params_init(&params, 12, &diag), MR_OK);
  const float *a = drawn_of(&params, 0), *b = drawn_of(&params, 1);
  expect_near("(6,10)", (double)a[0], -0.5549037456512451);
  expect_near("(6,10)", (double)a[59], -0.07030929625034332);
  expect_near("(2,3,4,5)", (double)b[0], -0.04391181468963623);
  expect_near("(2,3,4,5)", (double)b[119], 0.18154864013195038);
  assert_true(off_identity(a, 6, 10, 1) < 1e-6);
  assert_true(off_identity(b, 24, 5, 1) < 1e-6);
  assert_float_equal(drawn_of(&params, 2)[0], 1, 0);
  assert_int_equal(mr_train_init(&params, "b=delta_orthogonal:2,a=orthogonal:0.5", &diag), MR_OK);
  assert_int_equal(mr_params_init(&params, 12, &diag), MR_OK);
  expect_near("half", (double)a[0], -0.27745187282562256);
  int others = 0;
  for (int i = 0; i < 120; i++) others += i / 20 != 1 && b[i] != 0; /* its middle is (0,1) */
  assert_int_equal(others, 0);
  expect_near("delta", (double)b[20], -0.14725184440612793);
  expect_near("delta", (double)b[39], -1.1449103355407715);
  assert_true(off_identity(b + 20, 4, 5, 4) < 4e-6);
  mr_params_fini(&params);
}

/* Weights of torch have the outputs first; attention's kernels are matrices of all heads; values
   that are kept in bf16 are rounded. */
static void orthogonal_kernels_follow_the_layout(void **state) {
  mr_params_t torch = {0}, params = {0};
  vit_t c = vit_default();
  add(&torch, "conv.weight", mr_aval_of(MR_F32, 5, 4, 2, 3));
  assert_int_equal(mr_params_alloc(&torch, &diag), MR_OK);
  assert_int_equal(mr_train_init(&torch, "orthogonal", &diag), MR_OK);
  assert_int_equal(mr_params_init(&torch, 12, &diag), MR_OK);
  const float *w = drawn_of(&torch, 0);
  expect_near("torch", (double)w[0], -0.3257124423980713);
  expect_near("torch", (double)w[1], -0.33556386828422546);
  expect_near("torch", (double)w[119], -0.10380294919013977);
  assert_int_equal(mr_train_init(&torch, "delta_orthogonal", &diag), MR_OK);
  assert_int_equal(mr_params_init(&torch, 12, &diag), MR_OK);
  float middle[20]; /* (4,5), inputs first */
  for (int o = 0; o < 5; o++)
    for (int i = 0; i < 4; i++)
      for (int p = 0; p < 6; p++) {
        float x = w[(o * 4 + i) * 6 + p];
        if (p == 1) middle[i * 5 + o] = x;
        if (p != 1) assert_float_equal(x, 0, 0);
      }
  assert_true(off_identity(middle, 4, 5, 1) < 1e-6);
  if (vit_params(&c, 1, &params, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_train_init(&params, "*.query=delta_orthogonal", &diag), MR_ERR_CONFIG);
  diag = (mr_diag_t){0};
  assert_int_equal(mr_train_init(&params, "orthogonal,patch_embed=delta_orthogonal", &diag), MR_OK);
  assert_int_equal(mr_params_init(&params, 12, &diag), MR_OK);
  static const char *const square[] = {"encoder_blocks.0.attn.query.kernel",
                                       "encoder_blocks.0.attn.out.kernel"};
  for (int i = 0; i < 2; i++) {
    int k = mr_params_find(&params, square[i]);
    int64_t side = (int64_t)sqrt((double)params.param[k].size);
    assert_true(off_identity(drawn_of(&params, k), side, side, 1) < 1e-6);
  }
  mr_params_fini(&torch), mr_params_fini(&params);
}

static void later_rules_win_and_patterns_mean_what_freeze_means(void **state) {
  mr_params_t params = two_kernels_and_a_bias();
  assert_int_equal(mr_train_init(&params, "he_normal,b=constant:2, a=zeros", &diag), MR_OK);
  assert_int_equal(params.param[0].init.kind, MR_INIT_ZEROS);
  for (int i = 1; i < 3; i++) {
    assert_int_equal(params.param[i].init.kind, MR_INIT_CONSTANT);
    assert_float_equal(params.param[i].init.a, 2, 0);
  }
  assert_int_equal(mr_train_init(&params, "b=xavier_normal", &diag), MR_OK);
  assert_int_equal(params.param[1].init.kind, MR_INIT_LECUN_NORMAL);
  assert_int_equal(params.param[2].init.kind, MR_INIT_CONSTANT); /* a bias has no fans */
  mr_params_fini(&params);
}

/* flax's attention flattens its kernels of three dimensions; torch's weights have the outputs
   first. */
static void fans_are_those_of_flax_and_torch(void **state) {
  mr_params_t params = {0}, torch = {0};
  vit_t c = vit_default();
  if (vit_params(&c, 1, &params, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_train_init(&params, "xavier_uniform", &diag), MR_OK);
  static const char *const square[] = {"encoder_blocks.0.attn.query.kernel",
                                       "encoder_blocks.0.attn.out.kernel"};
  for (int i = 0; i < 2; i++) {
    const mr_param_t *p = &params.param[mr_params_find(&params, square[i])];
    assert_int_equal(p->aval.ndim, 3);
    double fans = 2 * sqrt((double)p->size); /* E by heads x D = E */
    assert_float_equal(p->init.a, sqrt(6 / fans), 1e-6);
  }
  add(&torch, "conv.weight", mr_aval_of(MR_F32, 5, 4, 2, 3));
  assert_int_equal(mr_train_init(&torch, "he_uniform", &diag), MR_OK);
  assert_float_equal(torch.param[0].init.a, sqrt(6. / (4 * 2 * 3)), 1e-6);
  assert_int_equal(mr_train_init(&torch, "xavier_uniform", &diag), MR_OK);
  assert_float_equal(torch.param[0].init.a, sqrt(6. / (4 * 6 + 5 * 6)), 1e-6);
  mr_params_fini(&params), mr_params_fini(&torch);
}

/* The fans of a kernel that an earlier rule has set are those that the model counts. */
static void a_later_rule_has_the_fans_of_the_model(void **state) {
  static const struct {
    const char *rules;
    mr_init_kind_t kind;
    double a;
  } want[] = {{"he_normal,enc.0=he_normal", MR_INIT_LECUN_NORMAL, 96},
              {"xavier_uniform,enc.0=he_normal", MR_INIT_LECUN_NORMAL, 96},
              {"normal:0.5,enc.0=lecun_normal", MR_INIT_LECUN_NORMAL, 192},
              {"xavier_uniform,enc.0=xavier_uniform", MR_INIT_SCALED_UNIFORM, .125}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    mr_params_t params = {0};
    const mr_init_t models = {.kind = MR_INIT_LECUN_NORMAL, .a = 192};
    assert_int_equal(
        mr_params_add(&params, "enc.0.query.kernel", mr_aval_of(MR_F32, 192, 3, 64), models, &diag),
        MR_OK);
    assert_int_equal(mr_train_init(&params, want[i].rules, &diag), MR_OK);
    const mr_init_t *is = &params.param[0].init;
    if (is->kind != want[i].kind || fabs((double)is->a - want[i].a) > 1e-6 * want[i].a)
      fail_msg("%s: %g, want %g", want[i].rules, (double)is->a, want[i].a);
    mr_params_fini(&params);
  }
}

/* variance_scaling is what lecun, he and glorot are made of. */
static void variance_scaling_is_what_the_names_mean(void **state) {
  static const struct {
    const char *scaling, *name;
  } same[] = {{"variance_scaling:1:fan_in:truncated_normal", "lecun_normal"},
              {"variance_scaling:2:fan_in:truncated_normal", "he_normal"},
              {"variance_scaling:1.0:fan_avg:truncated_normal", "glorot_normal"},
              {"variance_scaling:1:fan_in:uniform", "lecun_uniform"},
              {"variance_scaling:2:fan_in:uniform", "he_uniform"},
              {"variance_scaling:1:fan_avg:uniform", "xavier_uniform"},
              {"variance_scaling:1.5:fan_in:normal", "normal:0.5"}}; /* of 6 inputs */
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    mr_params_t a = two_kernels_and_a_bias(), b = two_kernels_and_a_bias();
    if (mr_train_init(&a, same[i].scaling, &diag) < 0) fail_msg("%s", diag.text);
    assert_int_equal(mr_train_init(&b, same[i].name, &diag), MR_OK);
    assert_int_equal(mr_params_init(&a, 12, &diag), MR_OK);
    assert_int_equal(mr_params_init(&b, 12, &diag), MR_OK);
    assert_memory_equal(mr_params_at(&a, mr_params_set(&a, MR_SET_VALUES, 0), 0),
                        mr_params_at(&b, mr_params_set(&b, MR_SET_VALUES, 0), 0),
                        60 * sizeof(float));
    mr_params_fini(&a), mr_params_fini(&b);
  }
  mr_params_t p = two_kernels_and_a_bias(); /* fan_out: 10, and 2 * 3 * 5 */
  assert_int_equal(mr_train_init(&p, "variance_scaling:3:fan_out:uniform", &diag), MR_OK);
  assert_float_equal(p.param[0].init.a, sqrt(9. / 10), 1e-6);
  assert_float_equal(p.param[1].init.a, sqrt(9. / 30), 1e-6);
  assert_int_equal(p.param[2].init.kind, MR_INIT_ONES);
  mr_params_fini(&p);
}

static void numbers_are_read_alike_in_every_locale(void **state) {
  if (!comma_locale()) skip();
  mr_params_t params = two_kernels_and_a_bias();
  mr_err_t e = mr_train_init(&params, "b.bias=constant:0.25", &diag);
  setlocale(LC_NUMERIC, "C");
  if (e < 0) fail_msg("%s", diag.text);
  assert_float_equal(params.param[2].init.a, .25, 0);
  mr_params_fini(&params);
}

static void rules_that_mean_nothing_are_refused(void **state) {
  static const struct {
    const char *rules, *said;
  } bad[] = {{"xavier_unifrom", "init: \"xavier_unifrom\" is no initialiser; did you mean "},
             {"orthogona", "did you mean \"orthogonal\"?"},
             {"zero", "\"zero\" is no initialiser; did you mean "},
             {"orthogonal:0", "orthogonal:0: want a number above 0"},
             {"b.bias=orthogonal", "init: b.bias=orthogonal: has no kernel"},
             {"delta_orthogonal", "init: delta_orthogonal: a.kernel is f32[6,10], and this "},
             {"constant", "init: constant: want its value"},
             {"normal:-1", "normal:-1: want a number above 0"},
             {"normal:x", "normal:x: want a number above 0"},
             {"he_normal:2", "he_normal has no number, and 2 is behind it"},
             {"zeros:1", "zeros has no number"},
             {"variance_scaling", "init: variance_scaling: want variance_scaling:S:MODE:"},
             {"variance_scaling:0:fan_in:normal", "init: variance_scaling:0:fan_in:normal: want "},
             {"variance_scaling:1:fan:normal", "S above 0; fan_in, fan_out or fan_avg; "},
             {"variance_scaling:1:fan_in:normals", "; truncated_normal, normal or uniform"},
             {"variance_scaling:1:fan_in", "variance_scaling:1:fan_in: want "},
             {"variance_scaling:1:fan_in:", "variance_scaling:1:fan_in:: want "},
             {"variance_scaling:x", "variance_scaling:x: want "},
             {"b.bias=variance_scaling:1:fan_in:normal", "b.bias=variance_scaling: has no kernel"},
             {"c=zeros", "init: \"c\" is no parameter; nearest are "},
             {"b.bias=he_normal", "init: b.bias=he_normal: has no kernel"}};
  mr_params_t params = two_kernels_and_a_bias();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    diag = (mr_diag_t){0};
    assert_int_equal(mr_train_init(&params, bad[i].rules, &diag), MR_ERR_CONFIG);
    if (!strstr(diag.text, bad[i].said)) fail_msg("%s: %s", bad[i].rules, diag.text);
  }
  diag = (mr_diag_t){0};
  mr_params_fini(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initialisers_draw_what_jax_draws),
      cmocka_unit_test(orthogonal_kernels_are_near_those_of_jax),
      cmocka_unit_test(orthogonal_kernels_follow_the_layout),
      cmocka_unit_test(later_rules_win_and_patterns_mean_what_freeze_means),
      cmocka_unit_test(fans_are_those_of_flax_and_torch),
      cmocka_unit_test(a_later_rule_has_the_fans_of_the_model),
      cmocka_unit_test(variance_scaling_is_what_the_names_mean),
      cmocka_unit_test(numbers_are_read_alike_in_every_locale),
      cmocka_unit_test(rules_that_mean_nothing_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
