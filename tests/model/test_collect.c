/* Collectives of threads: what each rank gets, to the bit; a rank that does not come is named. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "model/exec/collect.h"
#include "model/exec/device.h"

enum { RANKS = 4, N = 33, TURNS = 200 };

static const mr_collect_ops_t *ops(void) { return mr_device_default()->backend->collect; }

static float given(int rank, int i, int turn) {
  return (float)((rank * 37 + i * 11 + turn * 5) % 101) / 7;
}

typedef struct rank {
  int rank;
  const char *failed;
} rank_t;

/* Every call, again and again, between ranks that are not in step. */
static const char *rank_turn(mr_collect_t *c, int rank, int turn) {
  float in[RANKS * N], out[RANKS * N], part[N], sum;
  for (int i = 0; i < RANKS * N; i++) in[i] = given(rank, i, turn);
  ops()->all_reduce(c, MR_F32, RANKS * N, in, out);
  ops()->reduce_scatter(c, MR_F32, N, in, part);
  for (int i = 0; i < RANKS * N; i++) {
    sum = given(0, i, turn);
    for (int r = 1; r < RANKS; r++) sum += given(r, i, turn);
    if (out[i] != sum) return "all_reduce";
    if (i / N == rank && part[i % N] != sum) return "reduce_scatter";
  }
  ops()->all_gather(c, sizeof part, in, out);
  for (int i = 0; i < RANKS * N; i++)
    if (out[i] != given(i / N, i % N, turn)) return "all_gather";
  ops()->all_to_all(c, sizeof part, in, out);
  for (int i = 0; i < RANKS * N; i++)
    if (out[i] != given(i / N, rank * N + i % N, turn)) return "all_to_all";
  int next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
  if (rank % 2) ops()->receive(c, before, sizeof part, part);
  ops()->send(c, next, sizeof part, in);
  if (rank % 2 == 0) ops()->receive(c, before, sizeof part, part);
  for (int i = 0; i < N; i++)
    if (part[i] != given(before, i, turn)) return "send and receive";
  return NULL;
}

static void *rank_main(void *arg) {
  rank_t *r = arg;
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  int missing;
  if (ops()->create(mr_device_default(), "every call", r->rank, RANKS, 600, &c, &diag) < 0)
    return r->failed = "create", NULL;
  for (int t = 0; t < TURNS && !r->failed; t++) r->failed = rank_turn(c, r->rank, t);
  if (ops()->failed(c, &missing, &diag) < 0) r->failed = "failed";
  ops()->destroy(c);
  return NULL;
}

static void every_rank_gets_what_the_call_promises(void **state) {
  pthread_t thread[RANKS];
  rank_t rank[RANKS];
  for (int i = 0; i < RANKS; i++) {
    rank[i] = (rank_t){.rank = i};
    assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &rank[i]), 0);
  }
  for (int i = 0; i < RANKS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < RANKS; i++)
    if (rank[i].failed) fail_msg("rank %d: %s", i, rank[i].failed);
}

static mr_collect_t *joined(const char *id, int rank, int size, double limit_s) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  if (ops()->create(mr_device_default(), id, rank, size, limit_s, &c, &diag) < 0)
    fail_msg("%s", diag.text);
  return c;
}

static void a_rank_that_does_not_come_is_named(void **state) {
  mr_collect_t *c = joined("alone", 0, 3, 0.01);
  mr_diag_t diag = {0};
  float x = 1, y = 0;
  int missing = 0;
  assert_int_equal(ops()->failed(c, &missing, &diag), MR_OK);
  assert_int_equal(missing, -1);
  ops()->all_reduce(c, MR_F32, 1, &x, &y);
  assert_true(isnan(y));
  assert_int_equal(ops()->failed(c, &missing, &diag), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, 1);
  assert_non_null(strstr(diag.text, "rank 1 did not come to all_reduce within 0.01 s"));
  y = 0;
  ops()->all_gather(c, sizeof x, &x, (float[3]){0}); /* at once: it has failed */
  ops()->destroy(c);
  c = joined("alone", 0, 3, 0.01); /* another one of that name */
  ops()->receive(c, 2, sizeof y, &y);
  assert_true(isnan(y));
  diag = (mr_diag_t){0};
  assert_int_equal(ops()->failed(c, &missing, &diag), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, 2);
  ops()->destroy(c);
}

static void *waits(void *arg) {
  float x = 1, y = 0;
  ops()->all_reduce(arg, MR_F32, 1, &x, &y);
  return isnan(y) ? arg : NULL;
}

static void an_abort_ends_the_calls_that_wait(void **state) {
  mr_collect_t *a = joined("aborted", 0, 2, 3600), *b = joined("aborted", 1, 2, 3600);
  pthread_t thread;
  void *ended = NULL;
  int missing = 0;
  assert_int_equal(pthread_create(&thread, NULL, waits, a), 0);
  ops()->abort(b);
  pthread_join(thread, &ended);
  assert_ptr_equal(ended, a);
  assert_int_equal(ops()->failed(b, &missing, NULL), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, -1);
  ops()->destroy(a), ops()->destroy(b);
}

static void refused(const char *id, int rank, int size, double limit_s, const char *says) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(ops()->create(mr_device_default(), id, rank, size, limit_s, &c, &diag),
                   MR_ERR_CONFIG);
  if (!strstr(diag.text, says)) fail_msg("%s", diag.text);
}

static void ranks_that_do_not_fit_a_group_are_refused_by_a_sentence(void **state) {
  mr_collect_t *c = joined("pair", 0, 2, 1);
  refused("pair", 0, 2, 1, "rank 0 has joined already");
  refused("pair", 1, 3, 1, "size 3, the other ranks have 2");
  refused("other", 2, 2, 1, "rank 2 of 2");
  refused("other", 0, 1025, 1, "1 to 1024");
  refused("other", 0, 2, 0, "a limit above 0 s");
  ops()->destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rank_gets_what_the_call_promises),
      cmocka_unit_test(a_rank_that_does_not_come_is_named),
      cmocka_unit_test(an_abort_ends_the_calls_that_wait),
      cmocka_unit_test(ranks_that_do_not_fit_a_group_are_refused_by_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
