/* Ranks on devices whose memory the host cannot read: the bytes of threads, through the host's
   memory, and the results of a graph that writes what only the host knows. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <pthread.h>
#include <string.h>

#include "model/control/control.h"
#include "model/exec/comm.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/ops/lax.h"
#include "tests/ranks/sequence.h"

enum { TURNS = 120, SEED = 31, MOST = 5 };

/* A device whose memory only its own copies may reach, as far as the ranks know. */
static mr_backend_t apart;
static mr_device_t device;

static int open_device(void **state) {
  device = *mr_device_default();
  apart = *device.backend;
  apart.host = false;
  device.backend = &apart, device.name = "apart:0";
  return 0;
}

typedef struct member {
  const mr_collect_ops_t *ops;
  const mr_device_t *d;
  int rank, size;
  void (*run)(struct member *m, mr_collect_t *c);
  uint64_t hash;
  _Alignas(64) float result[32];
  mr_err_t code;
  mr_diag_t diag;
} member_t;

static void *member_main(void *arg) {
  member_t *m = arg;
  mr_collect_t *c = NULL;
  int missing;
  m->code = m->ops->create(m->d, m->ops->name, m->rank, m->size, 600, &c, &m->diag);
  if (!c) return NULL;
  m->run(m, c);
  if (m->code >= 0) m->code = m->ops->failed(c, &missing, &m->diag);
  m->ops->destroy(c);
  return NULL;
}

static void run_members(int size, const mr_collect_ops_t *ops, const mr_device_t *d,
                        void (*run)(member_t *m, mr_collect_t *c), member_t *m) {
  pthread_t thread[MOST];
  for (int r = 0; r < size; r++) {
    m[r] = (member_t){.ops = ops, .d = d, .rank = r, .size = size, .run = run};
    assert_int_equal(pthread_create(&thread[r], NULL, member_main, &m[r]), 0);
  }
  for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < size; r++)
    if (m[r].code < 0) fail_msg("%s: rank %d: %s", ops->name, r, m[r].diag.text);
}

static void run_sequence(member_t *m, mr_collect_t *c) {
  m->hash = sequence_run(m->ops, c, m->rank, m->size, SEED, TURNS);
}

static void every_call_gives_the_bytes_of_threads(void **state) {
  static const int sizes[] = {1, 2, 3, MOST};
  static member_t m[MOST], want[MOST];
  for (int i = 0; i < 4; i++) {
    run_members(sizes[i], &mr_collect_by_host, &device, run_sequence, m);
    run_members(sizes[i], &mr_collect_threads, mr_device_default(), run_sequence, want);
    for (int r = 0; r < sizes[i]; r++) {
      assert_true(want[r].hash != 0);
      assert_true(m[r].hash == want[r].hash);
    }
  }
}

/* Each rank's number, and a row that goes one place on: rank 0 receives from none. */
static mr_fn_t *places_fn(int size) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
  int on[MOST][2];
  for (int r = 0; r + 1 < size; r++) on[r][0] = r, on[r][1] = r + 1;
  mr_var_t *out[] = {mr_lax_axis_index(f, "i"), mr_lax_ppermute(f, x, "i", size - 1, on)};
  mr_fn_return(f, 2, out);
  return f;
}

static void run_places(member_t *m, mr_collect_t *c) {
  const mr_comm_rank_t rank = {
      .ops = m->ops, .collect = c, .rank = m->rank, .size = m->size, .axis = "i"};
  const mr_compile_options_t o = {.device = m->d, .rank = &rank, .n_ranks = 1};
  _Alignas(64) float in[2] = {(float)(10 * m->rank + 1), (float)(10 * m->rank + 2)};
  mr_fn_t *f = places_fn(m->size);
  mr_exec_t *x = NULL;
  m->code = mr_compile(f, &o, &x, &m->diag);
  mr_fn_destroy(f);
  memset(m->result, 0xFF, sizeof m->result);
  if (m->code >= 0)
    mr_exec_run(x, (const void *const[]){in}, (void *const[]){m->result, m->result + 16});
  mr_exec_destroy(x);
}

static void a_graph_has_the_places_of_its_ranks(void **state) {
  static member_t m[3];
  const mr_collect_ops_t *const ops[] = {&mr_collect_by_host, &mr_collect_threads};
  for (int i = 0; i < 2; i++) {
    run_members(3, ops[i], i ? mr_device_default() : &device, run_places, m);
    for (int r = 0; r < 3; r++) {
      int32_t index;
      memcpy(&index, m[r].result, sizeof index);
      assert_int_equal(index, r);
      assert_true(m[r].result[16] == (r ? (float)(10 * r - 9) : 0));
      assert_true(m[r].result[17] == (r ? (float)(10 * r - 8) : 0));
    }
  }
}

/* Behind a call that all make, so that all are there. */
static void leave_others_waiting(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  int missing;
  mr_diag_t why = {0};
  m->ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  m->result[0] = y;
  if (m->rank == 0)
    (*m->ops->abort)(c);
  else
    m->ops->all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  m->result[1] = y;
  m->hash = m->ops->failed(c, &missing, &why) == MR_ERR_UNAVAILABLE;
}

static void *aborted_main(void *arg) {
  member_t *m = arg;
  mr_collect_t *c = NULL;
  if (m->ops->create(m->d, "aborted", m->rank, m->size, 600, &c, &m->diag) < 0) return NULL;
  leave_others_waiting(m, c);
  m->ops->destroy(c);
  return NULL;
}

static void an_abort_ends_the_calls_that_wait_and_their_results_are_no_numbers(void **state) {
  static member_t m[3];
  pthread_t thread[3];
  for (int r = 0; r < 3; r++) {
    m[r] = (member_t){.ops = &mr_collect_by_host, .d = &device, .rank = r, .size = 3};
    assert_int_equal(pthread_create(&thread[r], NULL, aborted_main, &m[r]), 0);
  }
  for (int r = 0; r < 3; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(m[r].hash, 1);
    assert_true(m[r].result[0] == 3);
    if (r) assert_true(m[r].result[1] != m[r].result[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_gives_the_bytes_of_threads),
      cmocka_unit_test(a_graph_has_the_places_of_its_ranks),
      cmocka_unit_test(an_abort_ends_the_calls_that_wait_and_their_results_are_no_numbers),
  };
  return cmocka_run_group_tests(tests, open_device, NULL);
}
