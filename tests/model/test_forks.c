/* A process that forks after it has computed: the child computes the same bits, with its copies of
   queues, functions and arrays, and so does the parent afterwards. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/forks.h"
#include "model/call/pmap.h"
#include "model/model.h"
#include "tests/child.h"

enum { N = 1 << 20, SMALL = 4 };

static mr_queue_t *queue;
static mr_jitted_t *whole, *product;
static mr_array_t *x, *small, *square;

static mr_err_t trace_sum(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_tanh(f, f->in[0]);
  y = mr_lax_reduce_sum(f, mr_lax_mul(f, y, y), 1, (int[]){0});
  return mr_fn_return(f, 1, &y);
}

static mr_err_t trace_product(mr_fn_t *f, void *arg) {
  mr_var_t *y = mr_lax_dot(f, f->in[0], f->in[0]);
  return mr_fn_return(f, 1, &y);
}

static mr_array_t *filled(mr_aval_t a) {
  int64_t n = mr_aval_elems(&a);
  float *v = malloc((size_t)n * sizeof *v);
  assert_non_null(v);
  for (int64_t i = 0; i < n; i++) v[i] = (float)(i % 97) / 97 - 0.5f;
  mr_array_t *out = mr_array_of(a, v, NULL);
  free(v);
  assert_non_null(out);
  return out;
}

static int set_up(void **state) {
  mr_diag_t diag = {0};
  if (mr_queue_create(&queue, &diag) < 0 ||
      mr_jitted_create(queue, "whole", trace_sum, NULL, NULL, &whole, &diag) < 0 ||
      mr_jitted_create(queue, "product", trace_product, NULL, NULL, &product, &diag) < 0)
    return -1;
  x = filled(mr_aval_of(MR_F32, N));
  small = filled(mr_aval_of(MR_F32, SMALL));
  square = filled(mr_aval_of(MR_F32, 300, 300));
  return 0;
}

static int tear_down(void **state) {
  mr_array_drop(x), mr_array_drop(small), mr_array_drop(square);
  mr_jitted_destroy(whole), mr_jitted_destroy(product);
  mr_queue_destroy(queue);
  return 0;
}

static uint32_t bits_of(const void *data, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)data)[i]) * 16777619u;
  return h;
}

/* A hash of what a call gives; 0 with the sentence printed. */
static uint32_t value(mr_jitted_t *j, mr_array_t *a) {
  mr_array_t *out = NULL;
  mr_diag_t diag = {0};
  const void *data = NULL;
  if (mr_jitted_call(j, 1, &a, 1, &out, &diag) < 0 || mr_array_data(out, &data, &diag) < 0)
    return print_error("%s\n", diag.text), 0;
  uint32_t h = bits_of(data, mr_aval_bytes(mr_array_aval(out)));
  mr_array_drop(out);
  return h;
}

typedef struct wanted {
  uint32_t whole, small, product;
  int depth; /* forks from here on */
} wanted_t;

static int computes_the_same(void *arg) {
  const wanted_t *w = arg;
  for (int i = 0; i < 3; i++)
    if (value(whole, x) != w->whole || value(whole, small) != w->small ||
        value(product, square) != w->product)
      return 1;
  if (w->depth > 1) {
    wanted_t below = *w;
    below.depth--;
    in_a_child(computes_the_same, &below);
  }
  mr_queue_drain(queue);
  mr_jitted_destroy(whole), mr_jitted_destroy(product);
  mr_queue_destroy(queue);
  if (mr_queue_create(&queue, NULL) < 0) return 2; /* one of its own, with a thread */
  if (mr_jitted_create(queue, "whole", trace_sum, NULL, NULL, &whole, NULL) < 0) return 3;
  if (value(whole, x) != w->whole) return 4;
  mr_queue_destroy(queue);
  return 0;
}

static void children_and_theirs_compute_what_the_parent_does(void **state) {
  uint32_t count = mr_forks();
  wanted_t w = {value(whole, x), value(whole, small), value(product, square), 3};
  assert_true(w.whole && w.small && w.product);
  for (int i = 0; i < 3; i++) in_a_child(computes_the_same, &w);
  assert_int_equal(value(whole, x), w.whole); /* and so does the parent */
  assert_int_equal(value(product, square), w.product);
  assert_int_equal(mr_forks(), count);
}

/* Runs that were queued, of which some may be in progress. */
typedef struct queued {
  mr_array_t *out[20];
  uint32_t want;
} queued_t;

static int reads_all(void *arg) {
  queued_t *q = arg;
  for (int i = 0; i < 20; i++) {
    const void *data = NULL;
    mr_diag_t diag = {0};
    if (mr_array_data(q->out[i], &data, &diag) < 0) return print_error("%s\n", diag.text), 1;
    if (bits_of(data, 4) != q->want) return 2;
  }
  return 0;
}

static void runs_that_were_queued_before_a_fork_are_executed_in_both(void **state) {
  queued_t q = {.want = value(whole, x)};
  for (int i = 0; i < 20; i++)
    assert_int_equal(mr_jitted_call(whole, 1, &x, 1, &q.out[i], NULL), MR_OK);
  in_a_child(reads_all, &q);
  assert_int_equal(reads_all(&q), 0);
  for (int i = 0; i < 20; i++) mr_array_drop(q.out[i]);
}

/* A thread that uses the queue while another forks. */
static void *calls_many(void *arg) {
  for (int i = 0; i < 60; i++)
    if (value(whole, i % 2 ? x : small) == 0) return arg;
  return NULL;
}

static void a_fork_beside_a_thread_that_computes_leaves_a_whole_queue(void **state) {
  pthread_t thread;
  void *bad = NULL;
  wanted_t w = {value(whole, x), value(whole, small), value(product, square), 1};
  assert_int_equal(pthread_create(&thread, NULL, calls_many, &w), 0);
  for (int i = 0; i < 5; i++) in_a_child(computes_the_same, &w);
  pthread_join(thread, &bad);
  assert_null(bad);
}

static int maps_again(void *arg) {
  mr_pmapped_t *p = arg;
  float in[2 * SMALL], out[2] = {0};
  for (int i = 0; i < 2 * SMALL; i++) in[i] = (float)i;
  for (int k = 0; k < 2; k++) {
    mr_pmap_run(p, (const void *[]){in}, (void *[]){out});
    if (out[0] != 28 || out[1] != 28) return 1;
  }
  if (mr_forks()) mr_pmap_destroy(p);
  return 0;
}

static void a_child_maps_over_ranks(void **state) {
  mr_pmapped_t *p = NULL;
  mr_diag_t diag = {0};
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, SMALL));
  mr_var_t *y = mr_lax_psum(f, mr_lax_reduce_sum(f, v, 1, (int[]){0}), "i");
  assert_int_equal(mr_fn_return(f, 1, &y), MR_OK);
  if (mr_pmap(f, "i", 2, NULL, &p, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(maps_again(p), 0);
  in_a_child(maps_again, p);
  assert_int_equal(maps_again(p), 0);
  mr_pmap_destroy(p);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(children_and_theirs_compute_what_the_parent_does),
      cmocka_unit_test(runs_that_were_queued_before_a_fork_are_executed_in_both),
      cmocka_unit_test(a_fork_beside_a_thread_that_computes_leaves_a_whole_queue),
      cmocka_unit_test(a_child_maps_over_ranks)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
