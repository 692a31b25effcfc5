/* Draws by key inside a graph: the values of model/random.h, which are jax's. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/nn/nn.h"
#include "tests/model/grid.h"

enum { N = 3000 };

static mr_diag_t diag;

static void run(const mr_fn_t *f, const void *const *in, void *const *out) {
  mr_exec_t *x = NULL;
  diag = (mr_diag_t){0};
  if (mr_jit(f, NULL, &x, &diag) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  mr_exec_run(x, in, out);
  mr_exec_destroy(x);
}

/* key -> bits, uniform, normal, coins of its children 0..3, and what its fold by 7 gives. */
static mr_fn_t *drawer(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *key = mr_fn_input(f, mr_aval_of(MR_U32, 2)), *out[6], *k[4];
  out[0] = mr_lax_random_split(f, key, 4);
  for (int64_t i = 0; i < 4; i++) {
    mr_var_t *row = mr_lax_slice(f, out[0], (int64_t[]){i, 0}, (int64_t[]){i + 1, 2});
    k[i] = mr_lax_reshape_to(f, row, 2);
  }
  out[1] = mr_lax_random_bits(f, k[0], 2, (int64_t[]){N / 10, 10});
  out[2] = mr_lax_random_uniform(f, k[1], -2, 3, 1, (int64_t[]){N});
  out[3] = mr_lax_random_normal(f, k[2], 1, (int64_t[]){N});
  out[4] = mr_lax_random_bernoulli(f, k[3], 0.3f, 1, (int64_t[]){N});
  out[5] = mr_lax_random_fold_in(f, key, mr_literal(f, MR_U32, 7));
  if (mr_fn_return(f, 6, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void draws_in_a_graph_are_those_of_the_library_to_the_bit(void **state) {
  static _Alignas(64) uint32_t key[2], split[8], bits[N], fold[2], bits_want[N];
  static _Alignas(64) float uniform[N], normal[N], want[N];
  static _Alignas(64) uint8_t coin[N], coin_want[N];
  mr_fn_t *f = drawer();
  for (uint64_t seed = 0; seed < 5; seed++) {
    mr_prng_t k = mr_prng(seed * 1234567, MR_KEY_PARTITIONABLE), sub[4];
    key[0] = k.key.a, key[1] = k.key.b;
    run(f, (const void *[]){key}, (void *[]){split, bits, uniform, normal, coin, fold});
    mr_random_split(k, 4, sub);
    for (int i = 0; i < 4; i++)
      assert_true(split[2 * i] == sub[i].key.a && split[2 * i + 1] == sub[i].key.b);
    mr_random_bits(sub[0], N, bits_want);
    assert_memory_equal(bits, bits_want, sizeof bits);
    mr_random_uniform(sub[1], N, -2, 3, want);
    assert_memory_equal(uniform, want, sizeof want);
    mr_random_normal(sub[2], N, want);
    assert_memory_equal(normal, want, sizeof want);
    mr_random_bernoulli(sub[3], N, 0.3f, coin_want);
    assert_memory_equal(coin, coin_want, sizeof coin);
    k = mr_random_fold_in(k, 7);
    assert_true(fold[0] == k.key.a && fold[1] == k.key.b);
  }
  mr_fn_destroy(f);
}

/* Dropout inside a function that is mapped over keys and derived: each example has its own mask,
   and the gradient has the mask of the values. */
static void dropout_by_key_is_mapped_over_keys_and_derived(void **state) {
  enum { KEYS = 3, SIZE = 50 };
  mr_fn_t *f = mr_fn_create(), *g = NULL, *m = NULL;
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, SIZE));
  mr_var_t *key = mr_fn_input(f, mr_aval_of(MR_U32, 2)), *y[2];
  y[1] = mr_lax_dropout_by_key(f, x, 0.25f, key);
  y[0] = mr_lax_reduce_sum(f, y[1], 1, (int[]){0});
  if (mr_fn_return(f, 2, y) < 0) fail_msg("%s", f->diag.text);
  assert_int_equal(mr_value_and_grad(f, 1, (int[]){0}, &g, &diag), MR_OK);
  assert_int_equal(mr_vmap(g, KEYS, (int[]){MR_UNMAPPED, 0}, NULL, &m, &diag), MR_OK);
  static _Alignas(64) uint32_t keys[2 * KEYS] = {0, 1, 0, 2, 9, 9};
  static _Alignas(64) float in[SIZE], sum[KEYS], out[KEYS][SIZE], grad[KEYS][SIZE];
  for (int i = 0; i < SIZE; i++) in[i] = (float)(i + 1);
  run(m, (const void *[]){in, keys}, (void *[]){sum, out, grad});
  for (int k = 0; k < KEYS; k++) {
    uint8_t coin[SIZE];
    mr_prng_t p = {{keys[2 * k], keys[2 * k + 1]}, MR_KEY_PARTITIONABLE};
    mr_random_bernoulli(p, SIZE, 0.75f, coin);
    for (int i = 0; i < SIZE; i++) {
      assert_true(out[k][i] == (coin[i] ? in[i] / 0.75f : 0));
      assert_true(fabsf(grad[k][i] - (coin[i] ? 1 / 0.75f : 0)) < 1e-6f);
    }
  }
  assert_true(memcmp(out[0], out[1], sizeof out[0]) != 0);
  mr_fn_destroy(f);
  mr_fn_destroy(g);
  mr_fn_destroy(m);
}

static void what_is_no_key_is_refused(void **state) {
  mr_fn_t *f = mr_fn_create();
  assert_null(mr_lax_random_normal(f, mr_fn_input(f, mr_aval_of(MR_U32, 3)), 0, NULL));
  assert_string_equal(f->diag.text,
                      "random_normal u32[3]: want a key u32[2], or several u32[...,2]");
  mr_fn_destroy(f);
  f = mr_fn_create();
  mr_var_t *key = mr_fn_input(f, mr_aval_of(MR_U32, 2));
  assert_null(mr_lax_dropout_by_key(f, mr_fn_input(f, mr_aval_of(MR_F32, 2)), 1.5f, key));
  assert_string_equal(f->diag.text, "dropout: the rate is 1.5, want one of [0,1]");
  mr_fn_destroy(f);
}

static mr_var_t *dropped(mr_nn_t *s, const void *arg, mr_var_t *x) { return mr_nn_dropout(s, x); }

/* Layers draw by the key they are given and the number of the dropout, under remat too. */
static void layers_drop_by_key(void **state) {
  enum { SIZE = 64 };
  mr_fn_t *f = mr_fn_create();
  mr_params_t params = {0};
  mr_nn_t s = {.f = f, .params = &params, .dtype = MR_F32, .dropout = 0.5f};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, SIZE)), *y[2];
  s.key = mr_fn_input(f, mr_aval_of(MR_U32, 2));
  y[0] = mr_nn_dropout(&s, x);
  y[1] = mr_nn_remat(&s, mr_save_nothing, dropped, NULL, x);
  if (mr_fn_return(f, 2, y) < 0) fail_msg("%s", f->diag.text);
  static _Alignas(64) uint32_t key[2] = {3, 4};
  static _Alignas(64) float in[SIZE], out[2][SIZE];
  for (int i = 0; i < SIZE; i++) in[i] = 1;
  run(f, (const void *[]){in, key}, (void *[]){out[0], out[1]});
  for (uint32_t site = 0; site < 2; site++) {
    uint8_t coin[SIZE];
    mr_prng_t k = {{3, 4}, MR_KEY_PARTITIONABLE};
    mr_random_bernoulli(mr_random_fold_in(k, site), SIZE, 0.5f, coin);
    for (int i = 0; i < SIZE; i++) assert_true(out[site][i] == 2 * (float)coin[i]);
  }
  mr_fn_destroy(f);
  mr_params_fini(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(draws_in_a_graph_are_those_of_the_library_to_the_bit),
      cmocka_unit_test(dropout_by_key_is_mapped_over_keys_and_derived),
      cmocka_unit_test(layers_drop_by_key),
      cmocka_unit_test(what_is_no_key_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
