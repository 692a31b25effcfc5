/* Draws by key inside a graph: the values of base/random.h, which are jax's. */
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
  if (mr_compile(f, NULL, &x, &diag) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  mr_exec_run(x, in, out);
  mr_exec_destroy(x);
}

enum { SPLIT, BITS, UNIFORM, NORMAL, COINS, FOLD, CUT, INTEGERS, ORDER, DRAWS, CHILDREN = 7 };

/* key -> its children and a draw of each kind by one of them each, and what its fold by 7 gives. */
static mr_fn_t *drawer(mr_key_layout_t layout, int64_t n) {
  mr_fn_t *f = mr_fn_create();
  mr_key_layout_t outer = mr_key_layout_enter(f, layout);
  mr_var_t *key = mr_fn_input(f, mr_aval_of(MR_U32, 2)), *out[DRAWS], *k[CHILDREN];
  out[SPLIT] = mr_lax_random_split(f, key, CHILDREN);
  for (int64_t i = 0; i < CHILDREN; i++) {
    mr_var_t *row = mr_lax_slice(f, out[SPLIT], (int64_t[]){i, 0}, (int64_t[]){i + 1, 2});
    k[i] = mr_lax_reshape_to(f, row, 2);
  }
  out[BITS] = mr_lax_random_bits(f, k[0], 2, (int64_t[]){n, 1});
  out[UNIFORM] = mr_lax_random_uniform(f, k[1], -2, 3, 1, &n);
  out[NORMAL] = mr_lax_random_normal(f, k[2], 1, &n);
  out[COINS] = mr_lax_random_bernoulli(f, k[3], 0.3f, 1, &n);
  out[FOLD] = mr_lax_random_fold_in(f, key, mr_literal(f, MR_U32, 7));
  out[CUT] = mr_lax_random_truncated_normal(f, k[4], -1, 2, 1, &n);
  out[INTEGERS] = mr_lax_random_randint(f, k[5], -3, 1000, 1, &n);
  out[ORDER] = mr_lax_random_permutation(f, k[6], n);
  mr_key_layout_leave(f, outer);
  if (mr_fn_return(f, DRAWS, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* Values of all draws, for each of a few keys. */
enum { KEYS = 3 };
typedef struct drawn {
  _Alignas(64) uint32_t split[KEYS][2 * CHILDREN], bits[KEYS * N], fold[KEYS][2];
  _Alignas(64) float uniform[KEYS * N], normal[KEYS * N], cut[KEYS * N];
  _Alignas(64) int32_t integers[KEYS * N], order[KEYS * N];
  _Alignas(64) uint8_t coins[KEYS * N];
} drawn_t;

static void run_draws(const mr_fn_t *f, const uint32_t *key, drawn_t *d) {
  run(f, (const void *[]){key},
      (void *[]){d->split, d->bits, d->uniform, d->normal, d->coins, d->fold, d->cut, d->integers,
                 d->order});
}

static void draw_by_the_library(mr_prng_t k, int at, size_t n, drawn_t *d) {
  mr_prng_t sub[CHILDREN], fold = mr_random_fold_in(k, 7);
  mr_random_split(k, CHILDREN, sub);
  for (int i = 0; i < CHILDREN; i++)
    d->split[at][2 * i] = sub[i].key.a, d->split[at][2 * i + 1] = sub[i].key.b;
  d->fold[at][0] = fold.key.a, d->fold[at][1] = fold.key.b;
  size_t to = (size_t)at * n;
  mr_random_bits(sub[0], n, d->bits + to);
  mr_random_uniform(sub[1], n, -2, 3, d->uniform + to);
  mr_random_normal(sub[2], n, d->normal + to);
  mr_random_bernoulli(sub[3], n, 0.3f, d->coins + to);
  mr_random_truncated_normal(sub[4], n, -1, 2, d->cut + to);
  mr_random_randint(sub[5], n, -3, 1000, d->integers + to);
  assert_int_equal(mr_random_permutation(sub[6], (uint32_t)n, (uint32_t *)d->order + to, &diag),
                   MR_OK);
}

/* One key, then several mapped; the original layout depends on the number of elements, and on
   whether it is odd. */
static void draws_in_a_graph_are_those_of_the_library_to_the_bit_in_both_layouts(void **state) {
  static _Alignas(64) uint32_t key[2 * KEYS];
  static drawn_t got, want;
  for (int at = 0; at < 8; at++) {
    mr_key_layout_t layout = at & 1 ? MR_KEY_ORIGINAL : MR_KEY_PARTITIONABLE;
    size_t n = at & 2 ? N : N - 1;
    mr_fn_t *f = drawer(layout, (int64_t)n), *m = NULL;
    memset(&got, 0, sizeof got), memset(&want, 0, sizeof want);
    for (int i = 0; i < (at & 4 ? KEYS : 1); i++) {
      mr_prng_t k = mr_prng((uint64_t)(at + i) * 1234567, layout);
      key[2 * i] = k.key.a, key[2 * i + 1] = k.key.b;
      draw_by_the_library(k, i, n, &want);
    }
    if (at & 4) assert_int_equal(mr_vmap(f, KEYS, (int[]){0}, NULL, &m, &diag), MR_OK);
    run_draws(m ? m : f, key, &got);
    assert_memory_equal(&got, &want, sizeof got);
    mr_fn_destroy(f);
    mr_fn_destroy(m);
  }
}

static mr_err_t traced(mr_fn_t *f, void *arg) {
  mr_var_t *x = mr_lax_random_bits(f, f->in[0], 1, (int64_t[]){4});
  return mr_fn_return(f, 1, &x);
}

static uint32_t first_bits(mr_jitted_t *j, mr_array_t *key) {
  mr_array_t *out;
  const void *data;
  assert_int_equal(mr_jitted_call(j, 1, &key, 1, &out, &diag), MR_OK);
  assert_int_equal(mr_array_data(out, &data, &diag), MR_OK);
  uint32_t first = *(const uint32_t *)data;
  mr_array_drop(out);
  return first;
}

/* The setting of the process is part of what a compiled function is kept by, and is printed. */
static void the_process_may_ask_for_the_original_layout(void **state) {
  mr_queue_t *q;
  mr_jitted_t *j;
  uint32_t want[2][4];
  mr_array_t *key = mr_array_of(mr_aval_of(MR_U32, 2), (uint32_t[]){0, 5}, &diag);
  assert_int_equal(mr_queue_create(&q, &diag), MR_OK);
  assert_int_equal(mr_jitted_create(q, "bits", traced, NULL, NULL, &j, &diag), MR_OK);
  for (int layout = 0; layout < 2; layout++)
    mr_random_bits(mr_prng(5, (mr_key_layout_t)layout), 4, want[layout]);
  assert_true(want[0][0] != want[1][0]);
  assert_int_equal(first_bits(j, key), want[MR_KEY_PARTITIONABLE][0]);
  mr_key_layout_set(MR_KEY_ORIGINAL);
  assert_int_equal(first_bits(j, key), want[MR_KEY_ORIGINAL][0]);
  mr_fn_t *f = drawer(mr_key_layout(), 4);
  char *text = mr_fn_text(f);
  assert_non_null(strstr(text, "random_bits[partitionable=False shape=(4, 1)]"));
  free(text);
  mr_fn_destroy(f);
  mr_key_layout_set(MR_KEY_PARTITIONABLE);
  assert_int_equal(first_bits(j, key), want[MR_KEY_PARTITIONABLE][0]);
  assert_int_equal(mr_jitted_stats(j).misses, 2);
  mr_jitted_destroy(j);
  mr_queue_destroy(q);
  mr_array_drop(key);
}

static void a_word_of_the_environment_that_is_no_layout_is_refused(void **state) {
  mr_exec_t *x = NULL;
  mr_fn_t *f = drawer(MR_KEY_PARTITIONABLE, 4);
  setenv("MILLRACE_THREEFRY_PARTITIONABLE", "no", 1);
  assert_int_equal(mr_compile(f, NULL, &x, &diag), MR_ERR_CONFIG);
  assert_string_equal(diag.text,
                      "MILLRACE_THREEFRY_PARTITIONABLE: \"no\", want 1 (jax's default) or 0");
  unsetenv("MILLRACE_THREEFRY_PARTITIONABLE");
  diag = (mr_diag_t){0};
  mr_fn_destroy(f);
}

/* Dropout inside a function that is mapped over keys and derived: each example has its own mask,
   and the gradient has the mask of the values. */
static void dropout_by_key_is_mapped_over_keys_and_derived(void **state) {
  enum { SIZE = 50 };
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

static void a_value_that_is_no_key_is_refused(void **state) {
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
  mr_nn_t s = {.f = f, .params = &params, .dropout = 0.5f};
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
      cmocka_unit_test(draws_in_a_graph_are_those_of_the_library_to_the_bit_in_both_layouts),
      cmocka_unit_test(the_process_may_ask_for_the_original_layout),
      cmocka_unit_test(a_word_of_the_environment_that_is_no_layout_is_refused),
      cmocka_unit_test(dropout_by_key_is_mapped_over_keys_and_derived),
      cmocka_unit_test(layers_drop_by_key),
      cmocka_unit_test(a_value_that_is_no_key_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
