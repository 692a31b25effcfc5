/* Values computed twice instead of kept, and memory lent between executables: the same bits. */
#include "model/ir/op.h"
#include "model/model.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

enum { B = 16 };

static vit_t small_model(void) {
  vit_t c = vit_default();
  c.model.embed = 64, c.model.mlp = 256, c.model.heads = 4, c.model.layers = 5,
  c.how.dtype = MR_F32;
  return c;
}

typedef struct run {
  mr_params_t params;
  float loss, *logits;
  size_t peak;
  int dropouts;
} run_t;

static float *pictures(void) {
  float *x = aligned_alloc(64, B * 3072 * sizeof *x);
  for (int i = 0; i < B * 3072; i++) x[i] = (float)(i * 7919 % 1000) / 500 - 1;
  return x;
}

/* Those within fused loops too. */
static int count(const mr_fn_t *f, const char *op) {
  int n = 0;
  for (int i = 0; i < f->n_eqn; i++) {
    const mr_attr_t *body = mr_attr_find(f->eqn[i], "jaxpr");
    n += body ? count(body->fn, op) : !strcmp(f->eqn[i]->op->name, op);
  }
  return n;
}

/* The graph that mr_train_step_create compiles, with or without remat; parameters into p. */
static mr_exec_t *compiled(bool keep, mr_params_t *p) {
  mr_diag_t diag = {0};
  vit_t c = small_model();
  mr_train_config_t adamw = mr_train_default(B);
  if (vit_params(&c, 3, p, &diag) < 0) fail_msg("%s", diag.text);
  mr_params_t list = {0};
  mr_fn_t *loss = vit_loss(&c, B, true, &list, &diag), *f = NULL;
  const mr_fn_t *parts[] = {loss};
  mr_optim_loss_t whole = {.n_data = VIT_DATA, .parts = 1, .part = parts};
  if (!loss || mr_optim_step_fn(&whole, &adamw.optim, &f, &diag) < 0) fail_msg("%s", diag.text);
  mr_exec_t *x;
  if (mr_compile(f, &(mr_compile_options_t){.skip = keep ? "remat" : ""}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  mr_fn_destroy(f);
  mr_fn_destroy(loss);
  mr_params_fini(&list);
  return x;
}

/* A step of it. */
static run_t train(bool keep) {
  run_t r = {0};
  mr_exec_t *x = compiled(keep, &r.params);
  const mr_fn_t *f = mr_exec_fn(x);
  int n = r.params.n;
  const void **in = calloc((size_t)f->n_in, sizeof *in);
  void **out = calloc((size_t)f->n_out, sizeof *out);
  float *images = pictures(), lr = 1e-3f, t = 1, norm;
  int32_t labels[B];
  uint64_t seed = 5;
  uint32_t step = 1;
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  float *fresh = aligned_alloc(64, 3 * r.params.arena_size * sizeof *fresh), losses[B];
  r.logits = malloc(B * 10 * sizeof *r.logits);
  const void *data[] = {images, labels, &seed, &step, &lr, &t};
  memcpy(in, data, sizeof data);
  void *head[] = {&r.loss, r.logits, losses, &norm};
  memcpy(out, head, sizeof head);
  float *const arena[] = {values_of(&r.params), slot_of(&r.params, 0), slot_of(&r.params, 1)};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < n; i++) {
      size_t at = r.params.param[i].offset;
      in[6 + k * n + i] = arena[k] + at,
                     out[4 + k * n + i] = fresh + (size_t)k * r.params.arena_size + at;
    }
  mr_exec_run(x, in, out);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < n; i++) {
      const mr_param_t *q = &r.params.param[i];
      memcpy(arena[k] + q->offset, out[4 + k * n + i], q->size * sizeof(float));
    }
  r.peak = mr_exec_peak_bytes(x), r.dropouts = count(f, "dropout");
  free(in), free(out), free(images), free(fresh);
  mr_exec_destroy(x);
  return r;
}

static void computing_twice_changes_no_bit_and_needs_less(void **state) {
  run_t kept = train(true), twice = train(false);
  assert_memory_equal(&kept.loss, &twice.loss, sizeof kept.loss);
  assert_memory_equal(kept.logits, twice.logits, B * 10 * sizeof(float));
  size_t bytes = kept.params.arena_size * sizeof(float);
  assert_memory_equal(values_of(&kept.params), values_of(&twice.params), bytes);
  assert_memory_equal(slot_of(&kept.params, 0), slot_of(&twice.params, 0), bytes);
  assert_memory_equal(slot_of(&kept.params, 1), slot_of(&twice.params, 1), bytes);
  assert_true(twice.dropouts > kept.dropouts);
  if (!(twice.peak < kept.peak - kept.peak / 5))
    fail_msg("%zu bytes against %zu", twice.peak, kept.peak);
  mr_params_fini(&kept.params), mr_params_fini(&twice.params);
  free(kept.logits), free(twice.logits);
}

/* Three steps of a model with these precisions; returns the planned peak. */
static size_t steps_of(mr_dtype_t dtype, mr_dtype_t reads, const mr_fp8_t *fp8, const char *skip,
                       float loss[3]) {
  vit_t c = small_model();
  mr_train_config_t t = mr_train_default(B);
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  int32_t labels[B];
  float *images = pictures();
  c.how.dtype = dtype, c.how.reads = reads, t.skip = skip;
  if (fp8) c.how.fp8 = *fp8;
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int k = 0; k < 3; k++) {
    mr_train_out_t out;
    assert_int_equal(vit_run(step, &p, images, labels, 1e-3f, k + 1, 1, &out, &diag), MR_OK);
    loss[k] = out.loss;
  }
  size_t peak = mr_exec_peak_bytes(mr_train_step_exec(step));
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(images);
  return peak;
}

/* Two steps of a batch in that many parts, with parameters in bf16 alone, which *p receives for the
   caller; returns the planned peak. */
static size_t narrow_steps(int parts, const char *skip, mr_params_t *p) {
  vit_t c = small_model();
  mr_train_config_t t = mr_train_default(B);
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  int32_t labels[B];
  float *images = pictures();
  c.model.embed = 192, c.how.dtype = c.how.values = MR_BF16;
  t.skip = skip, t.accumulate = parts;
  for (int i = 0; i < B; i++) labels[i] = i % 10;
  mr_train_want_sets(&c.how, &t.optim, p);
  if (vit_params(&c, 3, p, &diag) < 0 || vit_step(&c, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int k = 0; k < 2; k++) {
    mr_train_out_t out;
    assert_int_equal(vit_run(step, p, images, labels, 1e-3f, k + 1, 1, &out, &diag), MR_OK);
  }
  size_t peak = mr_exec_peak_bytes(mr_train_step_exec(step));
  mr_train_step_destroy(step);
  free(images);
  return peak;
}

/* Neither a parameter in f32 nor the matrices of an attention side by side live through a step.  Of
   a batch in parts, what is computed again reads what is computed again. */
static void copies_of_narrow_parameters_are_computed_twice(void **state) {
  for (int parts = 1; parts <= 4; parts *= 2) {
    mr_params_t p = {0}, q = {0};
    size_t twice = narrow_steps(parts, "", &p), once = narrow_steps(parts, "remat", &q);
    const mr_param_set_t *a = mr_params_set(&p, MR_SET_VALUES, 0);
    const mr_param_set_t *b = mr_params_set(&q, MR_SET_VALUES, 0);
    for (int i = 0; i < p.n; i++)
      assert_memory_equal(mr_params_at(&p, a, i), mr_params_at(&q, b, i), 2 * p.param[i].size);
    size_t matrices = (size_t)small_model().model.layers * 3 * 192 * 192 * 2;
    if (!(twice + matrices < once)) fail_msg("%d parts: %zu bytes of %zu", parts, twice, once);
    mr_params_fini(&p), mr_params_fini(&q);
  }
}

/* Rounded parameters are values of the graph, biases among them, which only the forward pass of a
   norm reads. */
static void a_norm_of_rounded_parameters_is_computed_twice_as_any(void **state) {
  const mr_dtype_t dtype[] = {MR_F32, MR_BF16};
  for (int i = 0; i < 2; i++) {
    float loss[3], kept[3];
    size_t plain = steps_of(dtype[i], (mr_dtype_t)0, NULL, "", loss);
    size_t twice = steps_of(dtype[i], MR_BF16, NULL, "", loss);
    size_t once = steps_of(dtype[i], MR_BF16, NULL, "remat", kept);
    assert_memory_equal(loss, kept, sizeof kept);
    if (!(twice < once && twice < plain + plain / 12))
      fail_msg("%s: %zu bytes, %zu without remat, %zu without rounding", mr_dtype_name(dtype[i]),
               twice, once, plain);
  }
}

/* Codes of f8 are kept, and not what they are widened to. */
static void codes_are_kept_as_codes(void **state) {
  mr_fp8_t usual = mr_fp8_usual();
  float loss[3], kept[3];
  size_t twice = steps_of(MR_BF16, (mr_dtype_t)0, &usual, "", loss);
  size_t once = steps_of(MR_BF16, (mr_dtype_t)0, &usual, "remat", kept);
  assert_memory_equal(loss, kept, sizeof kept);
  if (!(twice < once - once / 8)) fail_msg("%zu bytes, %zu without remat", twice, once);
}

static void evaluation_in_lent_memory_says_the_same(void **state) {
  vit_t c = small_model();
  mr_train_config_t adamw = mr_train_default(B);
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  mr_train_step_t *step;
  mr_eval_step_t *own, *lent;
  if (vit_params(&c, 3, &p, &diag) < 0 || vit_step(&c, adamw, &step, &diag) < 0 ||
      vit_eval(&c, B, NULL, &own, &diag) < 0 || vit_eval(&c, B, step, &lent, &diag) < 0)
    fail_msg("%s", diag.text);
  float *images = pictures();
  int32_t labels[B] = {0};
  mr_eval_rows_t rows[2];
  mr_train_out_t out;
  for (int round = 1; round <= 2; round++) {
    assert_int_equal(vit_run(step, &p, images, labels, 1e-3f, round, 1, &out, &diag), MR_OK);
    assert_int_equal(vit_judge(own, &p, images, labels, &rows[0], &diag), MR_OK);
    assert_int_equal(vit_judge(lent, &p, images, labels, &rows[1], &diag), MR_OK);
    assert_memory_equal(rows[0].losses, rows[1].losses, B * sizeof(float));
    assert_memory_equal(rows[0].guess, rows[1].guess, B * sizeof(float));
  }
  mr_eval_step_destroy(lent), mr_eval_step_destroy(own);
  mr_train_step_destroy(step);
  mr_params_fini(&p);
  free(images);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(computing_twice_changes_no_bit_and_needs_less),
      cmocka_unit_test(a_norm_of_rounded_parameters_is_computed_twice_as_any),
      cmocka_unit_test(codes_are_kept_as_codes),
      cmocka_unit_test(copies_of_narrow_parameters_are_computed_twice),
      cmocka_unit_test(evaluation_in_lent_memory_says_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
