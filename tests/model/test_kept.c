/* Parameters and slots that are kept narrower than the f32 in which updates compute: one step is
   the step of f32 from the same numbers, rounded; and parameters kept in f32 but read narrow are a
   master copy. */
#include "tests/vectors.h"

#include <math.h>

#include "tests/model/vit_step.h"

enum { B = 4, PIXELS = B * 8 * 8 * 3 };

typedef struct run {
  vit_t vit;
  mr_train_step_t *step;
  mr_params_t params;
  float images[PIXELS] __attribute__((aligned(64)));
  int32_t labels[B] __attribute__((aligned(64)));
} run_t;

static run_t *begin(mr_dtype_t compute, mr_dtype_t values, mr_dtype_t slots, mr_dtype_t reads) {
  run_t *r = aligned_alloc(64, (sizeof *r + 63) / 64 * 64);
  mr_diag_t diag = {0};
  memset(r, 0, sizeof *r);
  r->vit.model = mr_vit_default();
  r->vit.model.image = 8, r->vit.model.embed = 16, r->vit.model.mlp = 32, r->vit.model.heads = 2;
  r->vit.model.layers = 1, r->vit.model.dropout = 0;
  r->vit.how = (mr_compute_t){
      .dtype = compute, .values = values, .slots = slots, .reads = reads, .threads = 1};
  mr_train_config_t train = mr_train_default(B);
  mr_train_want_sets(&r->vit.how, &train.optim, &r->params);
  if (vit_params(&r->vit, 3, &r->params, &diag) < 0) fail_msg("%s", diag.text);
  if (vit_step(&r->vit, train, &r->step, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < PIXELS; i++) r->images[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < B; i++) r->labels[i] = i % 10;
  return r;
}

static mr_train_out_t take_step(run_t *r, int64_t number) {
  mr_diag_t diag = {0};
  mr_train_out_t out;
  if (vit_run(r->step, &r->params, r->images, r->labels, 1e-2f, number, 1, &out, &diag) < 0)
    fail_msg("%s", diag.text);
  return out;
}

static void end(run_t *r) {
  mr_train_step_destroy(r->step);
  mr_params_fini(&r->params);
  free(r);
}

static float rounded(mr_dtype_t t, float x) {
  return t == MR_BF16  ? mr_bf16_to_f32(mr_bf16_from_f32(x))
         : t == MR_F16 ? mr_f16_to_f32(mr_f16_from_f32(x))
                       : x;
}

static const mr_set_kind_t kind[] = {MR_SET_VALUES, MR_SET_SLOT, MR_SET_SLOT};
static const int number[] = {0, 0, 1};

/* Copies the numbers of every set of `from` into `to`, a run that keeps f32. */
static void copy_sets(const run_t *from, run_t *to) {
  for (int s = 0; s < 3; s++) {
    const mr_param_set_t *a = mr_params_set(&from->params, kind[s], number[s]);
    for (int k = 0; k < to->params.n; k++) {
      float *p = mr_params_at(&to->params, mr_params_set(&to->params, kind[s], number[s]), k);
      for (size_t i = 0; i < to->params.param[k].size; i++)
        p[i] = mr_params_read(&from->params, a, k, i);
    }
  }
}

static void assert_rounded(const run_t *narrow, const run_t *wide, mr_dtype_t values,
                           mr_dtype_t slots) {
  int changed = 0;
  for (int s = 0; s < 3; s++) {
    const mr_param_set_t *a = mr_params_set(&narrow->params, kind[s], number[s]);
    const mr_param_set_t *b = mr_params_set(&wide->params, kind[s], number[s]);
    mr_dtype_t t = s ? slots : values;
    assert_int_equal(a->dtype, t);
    for (int k = 0; k < narrow->params.n; k++)
      for (size_t i = 0; i < narrow->params.param[k].size; i++) {
        float got = mr_params_read(&narrow->params, a, k, i);
        float was = mr_params_read(&wide->params, b, k, i), want = rounded(t, was);
        if (memcmp(&got, &want, sizeof got))
          fail_msg("set %d, %s[%zu] is %.9g, want %.9g rounded to %.9g", s,
                   narrow->params.param[k].name, i, (double)got, (double)was, (double)want);
        changed += memcmp(&was, &want, sizeof was) != 0;
      }
  }
  assert_int_equal(changed > 0, values != MR_F32 || slots != MR_F32);
}

static void a_step_is_that_of_f32_rounded(void **state) {
  static const mr_dtype_t some[][2] = {{MR_F32, MR_F32},   {MR_BF16, MR_F32}, {MR_F32, MR_BF16},
                                       {MR_BF16, MR_BF16}, {MR_F16, MR_F32},  {MR_F16, MR_BF16}};
  static const mr_dtype_t compute[] = {MR_F32, MR_BF16, MR_F16};
  for (size_t c = 0; c < 3; c++)
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
      run_t *narrow = begin(compute[c], some[i][0], some[i][1], 0),
            *wide = begin(compute[c], 0, 0, 0);
      for (int64_t step = 1; step <= 3; step++) {
        copy_sets(narrow, wide);
        mr_train_out_t a = take_step(narrow, step), b = take_step(wide, step);
        assert_true(isfinite(a.loss));
        assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
        assert_rounded(narrow, wide, some[i][0], some[i][1]);
      }
      end(narrow);
      end(wide);
    }
}

static void assert_same_slots(const run_t *a, const run_t *b) {
  for (int k = 0; k < MR_PARAM_SLOTS; k++)
    assert_memory_equal(slot_of(&a->params, k), slot_of(&b->params, k),
                        a->params.arena_size * sizeof(float));
}

/* The model reads them rounded: loss and gradients are those of a run whose parameters have been
   rounded, to the bit, and what is kept has not. */
static void a_master_copy_is_read_rounded(void **state) {
  static const mr_dtype_t reads[] = {MR_BF16, MR_F16};
  for (int t = 0; t < 2; t++) {
    run_t *master = begin(MR_F32, MR_F32, 0, reads[t]), *plain = begin(MR_F32, 0, 0, 0);
    int kept = 0;
    for (int64_t step = 1; step <= 3; step++) {
      copy_sets(master, plain);
      float *p = values_of(&plain->params), *m = values_of(&master->params);
      for (size_t i = 0; i < plain->params.arena_size; i++) {
        kept += rounded(reads[t], m[i]) < m[i];
        p[i] = rounded(reads[t], p[i]);
      }
      mr_train_out_t a = take_step(master, step), b = take_step(plain, step);
      assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
      assert_memory_equal(&a.grad_norm, &b.grad_norm, sizeof a.grad_norm);
      assert_same_slots(master, plain); /* moments: what the gradients were */
    }
    assert_true(kept > 0);
    end(master);
    end(plain);
  }
}

static void sets_of_another_dtype_are_refused(void **state) {
  run_t *narrow = begin(MR_BF16, MR_BF16, 0, 0), *wide = begin(MR_BF16, 0, 0, 0);
  mr_train_out_t out;
  mr_diag_t diag = {0};
  assert_int_equal(
      vit_run(wide->step, &narrow->params, wide->images, wide->labels, 1e-3f, 1, 1, &out, &diag),
      MR_ERR_SHAPE);
  assert_non_null(strstr(diag.text, "kept in bf16"));
  mr_eval_step_t *eval = NULL;
  mr_eval_rows_t rows;
  diag = (mr_diag_t){0};
  assert_int_equal(vit_eval(&wide->vit, B, NULL, &eval, &diag), MR_OK);
  assert_int_equal(vit_judge(eval, &narrow->params, wide->images, wide->labels, &rows, &diag),
                   MR_ERR_SHAPE);
  mr_eval_step_destroy(eval);
  narrow->vit.how.values = MR_I32;
  diag = (mr_diag_t){0};
  mr_train_step_t *none = NULL;
  assert_int_equal(vit_step(&narrow->vit, mr_train_default(B), &none, &diag), MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "dtype of parameters: i32"));
  end(narrow);
  end(wide);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_is_that_of_f32_rounded),
      cmocka_unit_test(a_master_copy_is_read_rounded),
      cmocka_unit_test(sets_of_another_dtype_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
