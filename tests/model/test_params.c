/* Parameters: the table against flax, initial values, and the learning-rate schedule. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/model.h"
#include "tests/model/vit_step.h"
#include "tests/vectors.h"

static mr_params_t recipe(uint64_t seed) {
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  vit_t c = vit_default();
  if (vit_params(&c, seed, &p, &diag) < 0) fail_msg("%s", diag.text);
  return p;
}

static void the_recipe_has_flax_s_tensors_and_modules(void **state) {
  char line[512], name[200];
  mr_params_t p = recipe(12);
  mr_summary_row_t *rows = NULL;
  int n = 0, row = 0, tensor = 0;
  long long count;
  assert_int_equal(mr_summary(&p, &rows, &n, NULL), MR_OK);
  assert_int_equal(p.count, 10695562);
  FILE *f = vectors_open("vit/tabulate.txt");
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "tensor %199s %lld", name, &count) == 2) {
      assert_string_equal(p.param[tensor].name, name);
      assert_int_equal(p.param[tensor++].size, count);
    } else if (sscanf(line, "module %199s %lld", name, &count) == 2) {
      while (row < n && !rows[row].count) assert_string_equal(rows[row++].module->type, "Dropout");
      assert_true(row < n);
      assert_string_equal(rows[row].name, name);
      assert_int_equal(rows[row].count, count);
      assert_non_null(rows[row++].module); /* each of them has been applied */
    }
  }
  fclose(f);
  assert_int_equal(tensor, p.n);
  assert_int_equal(row, n);
  assert_int_equal(rows[0].draws, 12);
  free(rows);
  mr_params_fini(&p);
}

static void initial_values_follow_the_seed_and_the_initialisers(void **state) {
  mr_params_t a = recipe(12), b = recipe(12), c = recipe(13);
  assert_memory_equal(values_of(&a), values_of(&b), a.arena_size * sizeof(float));
  assert_true(memcmp(values_of(&a), values_of(&c), a.arena_size * sizeof(float)) != 0);
  int k = mr_params_find(&a, "encoder_blocks.3.linear1.kernel");
  assert_true(k >= 0);
  const mr_param_t *t = &a.param[k];
  double sum = 0, square = 0, worst = 0;
  for (size_t i = 0; i < t->size; i++) {
    double v = values_of(&a)[t->offset + i];
    sum += v;
    square += v * v;
    worst = fmax(worst, fabs(v));
  }
  double n = (double)t->size, deviation = sqrt(1.0 / 384);
  assert_true(fabs(sum / n) < 4 * deviation / sqrt(n));
  assert_true(fabs(sqrt(square / n) / deviation - 1) < 0.01);
  assert_true(worst <= 2 * deviation / 0.8796 && worst > 1.9 * deviation / 0.8796);
  assert_int_equal(mr_params_find(&a, "no such tensor"), -1);
  for (int i = 0; i < a.n; i++) assert_int_equal(a.param[i].offset % 16, 0);
  mr_params_fini(&a);
  mr_params_fini(&b);
  mr_params_fini(&c);
}

static void the_schedule_warms_up_and_follows_half_a_cosine(void **state) {
  mr_schedule_t s = {.peak = 1e-3f, .end = 1e-5f, .warmup = 10, .total = 110};
  assert_true(mr_schedule_at(&s, 0) == 0);
  assert_true(fabsf(mr_schedule_at(&s, 5) - 5e-4f) < 1e-9f);
  assert_true(fabsf(mr_schedule_at(&s, 10) - 1e-3f) < 1e-9f);
  assert_true(fabsf(mr_schedule_at(&s, 60) - 5.05e-4f) < 1e-8f);
  assert_true(mr_schedule_at(&s, 110) == 1e-5f && mr_schedule_at(&s, 9999) == 1e-5f);
  s.kind = MR_SCHEDULE_LINEAR;
  assert_true(fabsf(mr_schedule_at(&s, 5) - 5e-4f) < 1e-9f);
  assert_true(fabsf(mr_schedule_at(&s, 35) - 7.525e-4f) < 1e-8f);
  assert_true(mr_schedule_at(&s, 110) == 1e-5f);
  s.kind = MR_SCHEDULE_RSQRT;
  assert_true(fabsf(mr_schedule_at(&s, 10) - 1e-3f) < 1e-9f);
  assert_true(fabsf(mr_schedule_at(&s, 1000) - 1e-4f) < 1e-9f);
  s.warmup = 0;
  assert_true(mr_schedule_at(&s, 0) == 1e-3f && fabsf(mr_schedule_at(&s, 4) - 5e-4f) < 1e-9f);
  mr_schedule_t constant = {.peak = 1e-3f};
  assert_true(mr_schedule_at(&constant, 0) == 1e-3f && mr_schedule_at(&constant, 77) == 1e-3f);
}

static mr_var_t *dense(mr_nn_t *s, mr_var_t *x) { return mr_nn_linear(s, "p", x, 4); }
static mr_var_t *dense_timm(mr_nn_t *s, mr_var_t *x) { return mr_nn_linear_timm(s, "p", x, 4); }
static mr_var_t *norm(mr_nn_t *s, mr_var_t *x) { return mr_nn_layer_norm(s, "p", x, 1e-6f); }
static mr_var_t *mlp(mr_nn_t *s, mr_var_t *x) { return mr_nn_mlp(s, x, 4); }
static mr_var_t *mlp_timm(mr_nn_t *s, mr_var_t *x) { return mr_nn_mlp_timm(s, "p", x, 4); }
static mr_var_t *attend(mr_nn_t *s, mr_var_t *x) { return mr_nn_attention(s, "p", x, 2, false); }
static mr_var_t *headless(mr_nn_t *s, mr_var_t *x) { return mr_nn_attention(s, "p", x, 0, false); }
static mr_var_t *embed(mr_nn_t *s, mr_var_t *x) { return mr_nn_patch_embed(s, "p", x, 2, 4); }
static mr_var_t *unsided(mr_nn_t *s, mr_var_t *x) { return mr_nn_patch_embed(s, "p", x, 0, 4); }

static void a_layer_refuses_values_of_too_few_dimensions(void **state) {
  static const struct {
    mr_var_t *(*layer)(mr_nn_t *s, mr_var_t *x);
    int ndim;
    const char *want;
  } cases[] = {
      {dense, 0, "enc: linear f32[]: want x (...,in)"},
      {dense_timm, 0, "enc: linear f32[]: want x (...,in)"},
      {norm, 0, "enc: layer_norm f32[]: want x (...,C)"},
      {mlp, 0, "enc: mlp f32[]: want x (...,E)"},
      {mlp_timm, 0, "enc: mlp f32[]: want x (...,E)"},
      {attend, 2, "enc: attention f32[4,4]: want x (B,T,E) and heads >= 1"},
      {headless, 3, "enc: attention f32[4,4,4]: want x (B,T,E) and heads >= 1"},
      {embed, 3, "enc: patch_embed f32[4,4,4]: want x (B,H,W,C) and P >= 1"},
      {unsided, 4, "enc: patch_embed f32[4,4,4,4]: want x (B,H,W,C) and P >= 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    mr_params_t params = {0};
    mr_fn_t *f = mr_fn_create();
    mr_nn_t s = {.f = f, .params = &params};
    mr_nn_enter(&s, "enc");
    mr_var_t *x = mr_fn_input(f, mr_aval(MR_F32, cases[i].ndim, (int64_t[]){4, 4, 4, 4}));
    assert_null(cases[i].layer(&s, x));
    assert_int_equal(f->diag.code, MR_ERR_SHAPE);
    assert_string_equal(f->diag.text, cases[i].want);
    mr_fn_destroy(f);
    mr_params_fini(&params);
  }
}

/* What is forgotten is zero, takes no memory, and can be written again; the rest stays. */
static void forgotten_tensors_are_zeros_without_pages(void **state) {
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  static const int64_t size[] = {1000, 3 << 20, 77, 5000, 10};
  char name[] = "a";
  for (size_t i = 0; i < sizeof size / sizeof *size; i++, name[0]++)
    assert_true(mr_params_add(&p, name, mr_aval_of(MR_F32, size[i]),
                              (mr_init_t){.kind = MR_INIT_ONES}, &diag) >= 0);
  assert_int_equal(mr_params_alloc(&p, &diag), MR_OK);
  static const int cut[][2] = {{4, 5}, {3, 3}, {1, 3}, {0, 5}};
  for (size_t c = 0; c < sizeof cut / sizeof *cut; c++) {
    assert_int_equal(mr_params_init(&p, 1, &diag), MR_OK);
    mr_params_forget(&p, &p.set[0], cut[c][0], cut[c][1]);
    if (cut[c][1] - cut[c][0] > 1) {
      uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)mr_params_at(&p, p.set, 1);
      unsigned char there = 1;
      char *first = (char *)mr_params_at(&p, p.set, 1) + (page - at % page) % page;
      assert_int_equal(mincore(first, page, &there), 0);
      assert_false(there & 1);
    }
    for (int i = 0; i < p.n; i++) {
      const float *x = mr_params_at(&p, p.set, i), want = i < cut[c][0] || i >= cut[c][1];
      for (int64_t k = 0; k < size[i]; k++)
        if (x[k] != want) fail_msg("cut %zu: tensor %d has %g", c, i, (double)x[k]);
    }
  }
  mr_params_fini(&p);
}

/* Sets of one list may hold other pieces of its tensors: each is aligned, has room for its piece
   alone, and begins as zeros. */
static void sets_of_pieces_take_what_they_hold(void **state) {
  static const size_t elems[] = {16, 0, 0, 100, 1};
  mr_params_t p = {0};
  mr_diag_t diag = {0};
  char name[] = "a";
  mr_params_want(&p, MR_SET_VALUES, 0, MR_F32);
  mr_params_want_slots(&p, 1, MR_BF16);
  for (int i = 0; i < 5; i++, name[0]++)
    assert_true(mr_params_add(&p, name, mr_aval_of(MR_F32, 1000), (mr_init_t){.kind = MR_INIT_ONES},
                              &diag) >= 0);
  assert_int_equal(mr__params_pieces(&p, MR_SET_SLOT, 0, elems, &diag), MR_OK);
  assert_int_equal(mr_params_alloc(&p, &diag), MR_OK);
  const mr_param_set_t *slot = mr_params_set(&p, MR_SET_SLOT, 0);
  const char *at = slot->data;
  for (int i = 0; i < p.n; i++) {
    assert_ptr_equal(mr_params_at(&p, slot, i), at);
    assert_int_equal((uintptr_t)at % 64, 0);
    at += (elems[i] * sizeof(mr_bf16_t) + 63) / 64 * 64;
    for (size_t k = 0; k < elems[i]; k++) assert_true(mr_params_read(&p, slot, i, k) == 0);
    memset(mr_params_at(&p, slot, i), 1, elems[i] * sizeof(mr_bf16_t));
  }
  assert_int_equal(mr_params_init(&p, 1, &diag), MR_OK);
  for (int i = 0; i < p.n; i++)
    for (size_t k = 0; k < elems[i]; k++) assert_true(mr_params_read(&p, slot, i, k) == 0);
  mr_params_fini(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_recipe_has_flax_s_tensors_and_modules),
      cmocka_unit_test(initial_values_follow_the_seed_and_the_initialisers),
      cmocka_unit_test(the_schedule_warms_up_and_follows_half_a_cosine),
      cmocka_unit_test(forgotten_tensors_are_zeros_without_pages),
      cmocka_unit_test(sets_of_pieces_take_what_they_hold),
      cmocka_unit_test(a_layer_refuses_values_of_too_few_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
