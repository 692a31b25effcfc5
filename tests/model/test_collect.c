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
  ops()->all_reduce(c, MR_REDUCE_SUM, MR_F32, RANKS * N, in, out);
  ops()->reduce_scatter(c, MR_F32, N, in, part);
  for (int i = 0; i < RANKS * N; i++) {
    sum = given(0, i, turn);
    for (int r = 1; r < RANKS; r++) sum += given(r, i, turn);
    if (out[i] != sum) return "all_reduce";
    if (i / N == rank && part[i % N] != sum) return "reduce_scatter";
  }
  for (int least = 0; least < 2; least++) {
    ops()->all_reduce(c, least ? MR_REDUCE_MIN : MR_REDUCE_MAX, MR_F32, RANKS * N, in, out);
    for (int i = 0; i < RANKS * N; i++) {
      float best = given(0, i, turn);
      for (int r = 1; r < RANKS; r++)
        if (least ? given(r, i, turn) < best : given(r, i, turn) > best) best = given(r, i, turn);
      if (out[i] != best) return "maximum and minimum";
    }
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
  int skip = turn % RANKS; /* all at once, round a ring of any step, which is a rank itself too */
  ops()->send_receive(c, (rank + skip) % RANKS, (rank + RANKS - skip) % RANKS, sizeof part, in,
                      part);
  for (int i = 0; i < N; i++)
    if (part[i] != given((rank + RANKS - skip) % RANKS, i, turn)) return "send_receive in a ring";
  ops()->send_receive(c, rank < RANKS - 1 ? rank + 1 : -1, rank - 1, sizeof part, in, part);
  for (int i = 0; i < N && rank; i++) /* a chain: its ends do one of both */
    if (part[i] != given(rank - 1, i, turn)) return "send_receive in a chain";
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

typedef struct extremes {
  mr_collect_t *c;
  mr_dtype_t dtype;
  int64_t n;
  const void *in;
  void *most, *least;
} extremes_t;

static void *take_extremes_of(void *arg) {
  extremes_t *e = arg;
  ops()->all_reduce(e->c, MR_REDUCE_MAX, e->dtype, e->n, e->in, e->most);
  ops()->all_reduce(e->c, MR_REDUCE_MIN, e->dtype, e->n, e->in, e->least);
  return NULL;
}

/* Of two ranks' values in one dtype, both ranks' maxima and minima. */
static void assert_extremes(mr_dtype_t t, int64_t n, const void *a, const void *b, const void *most,
                            const void *least) {
  char got[2][2][64];
  const void *in[] = {a, b};
  extremes_t e[2];
  pthread_t thread[2];
  size_t bytes = (size_t)n * mr_dtype_size(t);
  assert_true(bytes <= sizeof got[0][0]);
  for (int r = 0; r < 2; r++) {
    e[r] = (extremes_t){NULL, t, n, in[r], got[r][0], got[r][1]};
    assert_int_equal(ops()->create(mr_device_default(), "extremes", r, 2, 600, &e[r].c, NULL),
                     MR_OK);
  }
  for (int r = 0; r < 2; r++)
    assert_int_equal(pthread_create(&thread[r], NULL, take_extremes_of, &e[r]), 0);
  for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 2; r++) {
    assert_memory_equal(got[r][0], most, bytes);
    assert_memory_equal(got[r][1], least, bytes);
    ops()->destroy(e[r].c);
  }
}

/* NaN, both zeros (of equal values the last rank's stays, as in lax.max), and the ends of integers.
 */
static void extremes_keep_nan_and_order_every_dtype(void **state) {
  const float a[] = {1, NAN, 3, 0.0f, -INFINITY}, b[] = {2, 1, NAN, -0.0f, INFINITY};
  const float most[] = {2, NAN, NAN, -0.0f, INFINITY}, least[] = {1, NAN, NAN, -0.0f, -INFINITY};
  assert_extremes(MR_F32, 5, a, b, most, least);
  mr_bf16_t c[5], d[5], e[5], f[5];
  for (int i = 0; i < 5; i++) {
    c[i] = mr_bf16_from_f32(a[i]), d[i] = mr_bf16_from_f32(b[i]);
    e[i] = mr_bf16_from_f32(most[i]), f[i] = mr_bf16_from_f32(least[i]);
  }
  assert_extremes(MR_BF16, 5, c, d, e, f);
  const int32_t i1[] = {INT32_MIN, 5, -1}, i2[] = {INT32_MAX, -5, 0};
  assert_extremes(MR_I32, 3, i1, i2, (int32_t[]){INT32_MAX, 5, 0}, (int32_t[]){INT32_MIN, -5, -1});
  const uint64_t u1[] = {UINT64_MAX, 1}, u2[] = {1, UINT64_MAX - 1};
  assert_extremes(MR_U64, 2, u1, u2, (uint64_t[]){UINT64_MAX, UINT64_MAX - 1}, (uint64_t[]){1, 1});
  const bool t1[] = {true, false, true}, t2[] = {false, false, true};
  assert_extremes(MR_BOOL, 3, t1, t2, (bool[]){true, false, true}, (bool[]){false, false, true});
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
  ops()->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
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
  c = joined("alone", 0, 3, 0.01); /* waits for rank 1, from which it receives, first */
  y = 0;
  ops()->send_receive(c, 2, 1, sizeof y, &x, &y);
  assert_true(isnan(y));
  diag = (mr_diag_t){0};
  assert_int_equal(ops()->failed(c, &missing, &diag), MR_ERR_UNAVAILABLE);
  assert_int_equal(missing, 1);
  assert_non_null(strstr(diag.text, "rank 1 did not come to send"));
  ops()->destroy(c);
}

static void *waits(void *arg) {
  float x = 1, y = 0;
  ops()->all_reduce(arg, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
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
      cmocka_unit_test(extremes_keep_nan_and_order_every_dtype),
      cmocka_unit_test(a_rank_that_does_not_come_is_named),
      cmocka_unit_test(an_abort_ends_the_calls_that_wait),
      cmocka_unit_test(ranks_that_do_not_fit_a_group_are_refused_by_a_sentence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
