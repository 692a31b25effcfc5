/* Collectives of NCCL, by a substitute for its library over shared memory: the bits of threads
   between threads and processes, ranks that do not come, calls that differ, recorded calls, and
   the life of communicators. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

#include "model/control/control.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/exec/mesh_comm.h"
#include "model/ops/lax.h"
#include "ranks/nccl.h"
#include "tests/ranks/nccl_standin.h"
#include "tests/ranks/processes.h"
#include "tests/ranks/sequence.h"

enum { TURNS = 120, SEED = 30 };

static const standin_calls_t *standin;

/* ---- a device whose commands the stand-in's streams do ---- */

static void *device_mark(const mr_device_t *d) {
  uint64_t *mark = malloc(sizeof *mark);
  if (mark) *mark = standin->mark(d->context);
  return mark;
}

static mr_err_t device_reached(const mr_device_t *d, void *mark, bool wait, mr_diag_t *diag) {
  uint64_t all = standin->mark(d->context), until = mark ? *(uint64_t *)mark : all;
  if (!standin->reached(d->context, until, wait)) return MR_AGAIN;
  free(mark);
  return MR_OK;
}

static void *device_stream(const mr_device_t *d, bool *recorded) {
  *recorded = standin->records(d->context);
  return d->context;
}

static const mr_queue_ops_t queue_ops = {
    .mark = device_mark, .reached = device_reached, .stream = device_stream};

typedef struct fake {
  mr_backend_t backend;
  mr_device_t device;
} fake_t;

static void fake_open(fake_t *f) {
  f->device = *mr_device_default();
  f->backend = *f->device.backend;
  f->backend.host = false, f->backend.queue = &queue_ops;
  f->device.backend = &f->backend, f->device.name = "fake:0";
  f->device.context = standin->create();
}

static void fake_close(fake_t *f) { standin->destroy(f->device.context); }

/* The table, with a wait behind each call, since its operands are read at once. */
static _Thread_local const mr_device_t *here;

static void wait_here(void) { device_reached(here, NULL, true, NULL); }

static void all_reduce(mr_collect_t *c, mr_reduce_t how, mr_dtype_t t, int64_t n, const void *in,
                       void *out) {
  mr_collect_nccl.all_reduce(c, how, t, n, in, out), wait_here();
}
static void all_gather(mr_collect_t *c, size_t n, const void *in, void *out) {
  mr_collect_nccl.all_gather(c, n, in, out), wait_here();
}
static void reduce_scatter(mr_collect_t *c, mr_dtype_t t, int64_t n, const void *in, void *out) {
  mr_collect_nccl.reduce_scatter(c, t, n, in, out), wait_here();
}
static void all_to_all(mr_collect_t *c, size_t n, const void *in, void *out) {
  mr_collect_nccl.all_to_all(c, n, in, out), wait_here();
}
static void send_to(mr_collect_t *c, int to, size_t n, const void *data) {
  mr_collect_nccl.send(c, to, n, data), wait_here();
}
static void receive_from(mr_collect_t *c, int from, size_t n, void *data) {
  mr_collect_nccl.receive(c, from, n, data), wait_here();
}
static void send_receive(mr_collect_t *c, int to, int from, size_t n, const void *in, void *out) {
  mr_collect_nccl.send_receive(c, to, from, n, in, out), wait_here();
}
static mr_err_t has_failed(mr_collect_t *c, int *rank, mr_diag_t *diag) {
  return mr_collect_nccl.failed(c, rank, diag);
}

static const mr_collect_ops_t waiting = {.all_reduce = all_reduce,
                                         .all_gather = all_gather,
                                         .reduce_scatter = reduce_scatter,
                                         .all_to_all = all_to_all,
                                         .send = send_to,
                                         .receive = receive_from,
                                         .send_receive = send_receive,
                                         .failed = has_failed};

/* ---- ranks as threads ---- */

typedef struct member member_t;
typedef void member_fn(member_t *m, mr_collect_t *c);
struct member {
  int rank, size, missing;
  double limit_s;
  const char *id;
  member_fn *fn;
  uint64_t hash;
  float x[8];
  _Alignas(64) float results[112]; /* of a graph, as result_at says */
  int repeats;                     /* of its runs */
  mr_err_t code;
  mr_diag_t diag;
};

static void *member_main(void *arg) {
  member_t *m = arg;
  fake_t fake;
  mr_collect_t *c = NULL;
  fake_open(&fake);
  here = &fake.device;
  m->code = mr_collect_nccl.create(&fake.device, m->id, m->rank, m->size, m->limit_s, &c, &m->diag);
  if (c) {
    m->fn(m, c);
    m->code = mr_collect_nccl.failed(c, &m->missing, &m->diag);
  }
  mr_collect_nccl.destroy(c);
  fake_close(&fake);
  return NULL;
}

static void run_members(int size, double limit_s, const char *id, member_fn *fn, member_t *m) {
  pthread_t thread[8];
  for (int r = 0; r < size; r++) {
    m[r] = (member_t){.rank = r, .size = size, .limit_s = limit_s, .id = id, .fn = fn};
    assert_int_equal(pthread_create(&thread[r], NULL, member_main, &m[r]), 0);
  }
  for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
  assert_int_equal(standin->live(), 0);
}

static void all_ended_well(int size, const member_t *m) {
  for (int r = 0; r < size; r++)
    if (m[r].code < 0) fail_msg("rank %d: %s", r, m[r].diag.text);
  assert_string_equal(standin->fault(), "");
}

static void run_whole_sequence(member_t *m, mr_collect_t *c) {
  /* The first call connects, and is one that all make. */
  waiting.all_gather(c, sizeof m->rank, &m->rank, &(int[8]){0});
  m->hash = sequence_run(&waiting, c, m->rank, m->size, SEED, TURNS);
}

typedef struct plain {
  int rank, size;
  uint64_t hash;
} plain_t;

static void *plain_main(void *arg) {
  plain_t *p = arg;
  mr_collect_t *c = NULL;
  if (mr_collect_threads.create(mr_device_default(), "plain", p->rank, p->size, 600, &c, NULL) < 0)
    return NULL;
  p->hash = sequence_run(&mr_collect_threads, c, p->rank, p->size, SEED, TURNS);
  mr_collect_threads.destroy(c);
  return NULL;
}

static void hashes_of_threads(int size, uint64_t *hash) {
  pthread_t thread[8];
  plain_t p[8];
  for (int r = 0; r < size; r++) {
    p[r] = (plain_t){.rank = r, .size = size};
    assert_int_equal(pthread_create(&thread[r], NULL, plain_main, &p[r]), 0);
  }
  for (int r = 0; r < size; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < size; r++) assert_true((hash[r] = p[r].hash) != 0);
}

static void every_call_gives_the_bytes_of_threads(void **state) {
  static const int sizes[] = {1, 2, 3, 5};
  for (int i = 0; i < 4; i++) {
    member_t m[8];
    uint64_t hash[8];
    run_members(sizes[i], 600, "sequence", run_whole_sequence, m);
    all_ended_well(sizes[i], m);
    hashes_of_threads(sizes[i], hash);
    for (int r = 0; r < sizes[i]; r++) assert_true(m[r].hash == hash[r]);
  }
}

/* ---- processes of a job ---- */

static void process_main(const ranks_t *t, int rank, mr_job_t *job, said_t *said) {
  fake_t fake;
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  fake_open(&fake);
  here = &fake.device;
  if (mr_job_collect(job) != &mr_collect_nccl || mr_job_rank(job) != rank) abort();
  said->code = mr_collect_nccl.create(&fake.device, "job", rank, t->size, 600, &c, &diag);
  if (c) {
    waiting.all_gather(c, sizeof rank, &rank, &(int[8]){0});
    said->hash = sequence_run(&waiting, c, rank, t->size, SEED, TURNS);
    said->code = mr_collect_nccl.failed(c, &said->missing, &diag);
  }
  mr_collect_nccl.destroy(c);
  fake_close(&fake);
  if (standin->live() || *standin->fault()) said->code = MR_ERR_DATA;
  snprintf(said->text, sizeof said->text, "%.300s %.60s", diag.text, standin->fault());
}

static void the_unique_id_goes_through_the_job_of_processes(void **state) {
  ranks_t t = ranks_of(3, 600);
  uint64_t hash[8];
  t.cfg.communicator = "nccl";
  for (int r = 0; r < 3; r++) start_rank(&t, r, process_main);
  hashes_of_threads(3, hash);
  for (int r = 0; r < 3; r++) {
    said_t said = end_rank(&t, r);
    if (said.code < 0) fail_msg("rank %d: %s", r, said.text);
    assert_true(said.hash == hash[r]);
  }
}

/* ---- an axis of a mesh ---- */

static void *mesh_main(void *arg) {
  member_t *m = arg;
  mr_mesh_t mesh;
  mr_mesh_comm_t *comm = NULL;
  fake_t fake;
  fake_open(&fake);
  here = &fake.device;
  m->code = mr_mesh_parse("a=2,b=2", 4, &mesh, &m->diag);
  if (m->code >= 0)
    m->code =
        mr_mesh_comm_create(&mr_collect_nccl, here, &mesh, m->id, m->rank, 600, &comm, &m->diag);
  for (int a = 0; comm && a < 2; a++) {
    const float x = (float)(1 << m->rank);
    waiting.all_reduce(mr_mesh_comm_ranks(comm)[a].collect, MR_REDUCE_SUM, MR_F32, 1, &x, &m->x[a]);
  }
  if (comm) m->code = mr_mesh_comm_failed(comm, &m->missing, &m->diag);
  mr_mesh_comm_destroy(comm);
  fake_close(&fake);
  return NULL;
}

static void each_axis_of_a_mesh_has_a_communicator_of_its_own(void **state) {
  static const float sums[4][2] = {{1 + 4, 1 + 2}, {2 + 8, 1 + 2}, {1 + 4, 4 + 8}, {2 + 8, 4 + 8}};
  member_t m[4];
  pthread_t thread[4];
  for (int r = 0; r < 4; r++) {
    m[r] = (member_t){.rank = r, .id = "mesh"};
    assert_int_equal(pthread_create(&thread[r], NULL, mesh_main, &m[r]), 0);
  }
  for (int r = 0; r < 4; r++) pthread_join(thread[r], NULL);
  all_ended_well(4, m);
  for (int r = 0; r < 4; r++) assert_memory_equal(m[r].x, sums[r], sizeof sums[r]);
  assert_int_equal(standin->live(), 0);
}

/* ---- recorded calls ---- */

static void record_and_repeat(member_t *m, mr_collect_t *c) {
  static const float powers[] = {1, 10, 100};
  float in[2] = {powers[m->rank], -powers[m->rank]}, sum[2] = {0}, next = 0;
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 2, in, sum); /* connects */
  sum[0] = sum[1] = 0;
  standin->record(here->context, true);
  mr_collect_nccl.all_reduce(c, MR_REDUCE_SUM, MR_F32, 2, in, sum);
  mr_collect_nccl.send_receive(c, (m->rank + 1) % 3, (m->rank + 2) % 3, sizeof next, in, &next);
  standin->record(here->context, false);
  wait_here();
  m->x[0] = sum[0] + next; /* 0: nothing has been done */
  for (int turn = 1; turn <= 3; turn++) {
    in[0] = (float)turn * powers[m->rank];
    standin->replay(here->context);
    wait_here();
    m->x[turn] = sum[0] + sum[1] + next;
  }
  standin->forget(here->context);
}

static void calls_that_are_recorded_run_with_each_repeat(void **state) {
  static const float before[] = {100, 1, 10};
  member_t m[3];
  run_members(3, 600, "recorded", record_and_repeat, m);
  all_ended_well(3, m);
  for (int r = 0; r < 3; r++) {
    assert_true(m[r].x[0] == 0);
    for (int k = 1; k <= 3; k++)
      assert_true(m[r].x[k] == (float)k * 111 - 111 + (float)k * before[r]);
  }
}

/* ---- collectives of a graph, whose runs are recorded ---- */

static _Thread_local int repeats;

/* The first run gives its calls, the second one records them, and later ones start what is
   recorded. */
static void repeat_run(const mr_device_t *d, void **kept, const void *const *at, int n,
                       void (*give)(void *arg), void *arg) {
  int run = repeats++;
  if (run == 1) standin->record(d->context, true);
  if (run <= 1) give(arg);
  if (run == 1) standin->record(d->context, false);
  if (run >= 1) standin->replay(d->context);
  *kept = d->context;
}

static void forget_runs(const mr_device_t *d, void *kept) { standin->forget(kept); }

static const mr_record_ops_t record_ops = {.repeat = repeat_run, .forget = forget_runs};

static mr_fn_t *collectives_fn(void) {
  enum { RANKS = 3 };
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, RANKS, 2));
  mr_var_t *out[] = {mr_lax_psum(f, x, "i"),
                     mr_lax_pmax(f, x, "i"),
                     mr_lax_all_gather(f, x, "i", RANKS),
                     mr_lax_psum_scatter(f, x, "i"),
                     mr_lax_all_to_all(f, x, "i"),
                     mr_lax_ppermute(f, x, "i", RANKS, (const int[][2]){{0, 1}, {1, 2}, {2, 0}})};
  mr_fn_return(f, 6, out);
  return f;
}

/* Where the results of 6, 6, 18, 2, 6 and 6 numbers begin, each aligned as arrays are. */
static const int result_at[] = {0, 16, 32, 64, 80, 96};

static void run_graph(const mr_device_t *d, const mr_comm_rank_t *rank, float *results, int runs,
                      member_t *m) {
  _Alignas(64) float in[6];
  mr_exec_t *x = NULL;
  mr_fn_t *f = collectives_fn();
  const mr_compile_options_t o = {.device = d, .rank = rank, .n_ranks = 1};
  void *out[6];
  m->code = mr_compile(f, &o, &x, &m->diag);
  mr_fn_destroy(f);
  for (int run = 0; run < runs && m->code >= 0; run++) {
    for (int i = 0; i < 6; i++) in[i] = (float)(100 * m->rank + 10 * run + i);
    for (int i = 0; i < 6; i++) out[i] = results + result_at[i];
    memset(results, 0, sizeof m->results);
    mr_exec_start(x, (const void *const[]){in}, out);
    if (d->backend->queue) mr_device_reached(d, NULL, true, NULL);
  }
  mr_exec_destroy(x);
}

static void run_graph_by_nccl(member_t *m, mr_collect_t *c) {
  mr_comm_rank_t rank = {
      .ops = &mr_collect_nccl, .collect = c, .rank = m->rank, .size = m->size, .axis = "i"};
  fake_t recorded = {.backend = *here->backend, .device = *here};
  recorded.backend.record = &record_ops, recorded.device.backend = &recorded.backend;
  repeats = 0;
  run_graph(&recorded.device, &rank, m->results, 4, m);
  m->repeats = repeats;
}

static void *run_graph_by_threads(void *arg) {
  member_t *m = arg;
  mr_collect_t *c = NULL;
  m->code =
      mr_collect_threads.create(mr_device_default(), "graph", m->rank, m->size, 600, &c, &m->diag);
  mr_comm_rank_t rank = {
      .ops = &mr_collect_threads, .collect = c, .rank = m->rank, .size = m->size, .axis = "i"};
  if (m->code >= 0) run_graph(mr_device_default(), &rank, m->results, 4, m);
  mr_collect_threads.destroy(c);
  return NULL;
}

static void collectives_of_a_graph_are_recorded_with_its_runs(void **state) {
  member_t m[3], want[3];
  pthread_t thread[3];
  run_members(3, 600, "graph", run_graph_by_nccl, m);
  all_ended_well(3, m);
  for (int r = 0; r < 3; r++) {
    want[r] = (member_t){.rank = r, .size = 3};
    assert_int_equal(pthread_create(&thread[r], NULL, run_graph_by_threads, &want[r]), 0);
  }
  for (int r = 0; r < 3; r++) pthread_join(thread[r], NULL);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(want[r].code, MR_OK);
    assert_int_equal(m[r].repeats, 4);
    assert_memory_equal(m[r].results, want[r].results, sizeof m[r].results);
  }
}

static void record_first(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  standin->record(here->context, true);
  mr_collect_nccl.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  standin->record(here->context, false);
}

static void the_call_that_connects_may_not_be_recorded(void **state) {
  member_t m[2];
  run_members(2, 600, "too early", record_first, m);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(m[r].code, MR_ERR_UNAVAILABLE);
    if (!strstr(m[r].diag.text, "may not be one that is recorded")) fail_msg("%s", m[r].diag.text);
  }
}

/* ---- failures ---- */

static void fails_everywhere(int size, const member_t *m, int missing, const char *says) {
  bool said = false;
  for (int r = 0; r < size; r++) {
    assert_int_equal(m[r].code, MR_ERR_UNAVAILABLE);
    if (missing >= 0) assert_int_equal(m[r].missing, missing);
    said |= strstr(m[r].diag.text, says) != NULL;
  }
  if (!said) fail_msg("%s", m[0].diag.text);
}

/* All come to the first call, and rank 1 not to the second: it waits for the others' failure. */
static void skip_a_call(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  mr_diag_t unsaid = {0};
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  while (m->rank == 1 && mr_collect_nccl.failed(c, &m->missing, &unsaid) >= 0) sched_yield();
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y); /* at once, as all that follow */
  m->x[0] = y;
}

static void a_call_to_which_a_rank_does_not_come_ends_within_the_limit_on_all(void **state) {
  member_t m[3];
  run_members(3, 4, "skipped", skip_a_call, m);
  fails_everywhere(3, m, -1, "in all_reduce: it did not end within the limit");
  for (int r = 0; r < 3; r++) assert_true(isnan(m[r].x[0]));
  assert_string_equal(standin->fault(), "");
}

/* Rank 2 never makes a call: it is the carrier that names it. */
static void never_connect(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  mr_diag_t unsaid = {0};
  while (m->rank == 2 && mr_collect_nccl.failed(c, &m->missing, &unsaid) >= 0) sched_yield();
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  m->x[0] = y;
}

/* The same of a run that all have recorded, and that rank 1 does not start again. */
static void skip_a_recorded_run(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  mr_diag_t unsaid = {0};
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  standin->record(here->context, true);
  mr_collect_nccl.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  standin->record(here->context, false);
  if (m->rank != 1) {
    standin->replay(here->context);
    mr_collect_nccl.given(c);
  }
  while (mr_collect_nccl.failed(c, &m->missing, &unsaid) >= 0) sched_yield();
  wait_here(); /* its calls end, while NCCL waits for the recording */
  standin->forget(here->context);
}

static void a_recorded_run_to_which_a_rank_does_not_come_ends_within_the_limit(void **state) {
  member_t m[3];
  run_members(3, 4, "skipped run", skip_a_recorded_run, m);
  fails_everywhere(3, m, -1, "in a recorded run: it did not end within the limit");
  assert_string_equal(standin->fault(), "");
}

static void a_rank_that_never_connects_is_named(void **state) {
  member_t m[3];
  run_members(3, 4, "absent", never_connect, m);
  fails_everywhere(3, m, 2, "rank 2 did not come to all_gather within 4 s");
  for (int r = 0; r < 3; r++) assert_true(isnan(m[r].x[0]));
}

static void abort_beside(member_t *m, mr_collect_t *c) {
  float x = 1, y = 0;
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  if (m->rank)
    waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 1, &x, &y);
  else
    (*mr_collect_nccl.abort)(c);
}

static void an_abort_ends_the_calls_that_wait_on_all_ranks(void **state) {
  member_t m[3];
  run_members(3, 3600, "aborted", abort_beside, m);
  fails_everywhere(3, m, -1, "it was aborted");
  assert_string_equal(standin->fault(), "");
}

static void sum_bools(member_t *m, mr_collect_t *c) {
  bool x = true, y = false;
  waiting.all_reduce(c, MR_REDUCE_MAX, MR_BOOL, 1, &x, &y);
  m->x[0] = y;
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_BOOL, 1, &x, &y);
}

static void a_dtype_that_nccl_has_not_is_named(void **state) {
  member_t m[2];
  run_members(2, 600, "bool", sum_bools, m);
  fails_everywhere(2, m, -1, "NCCL does not compute with bool");
  for (int r = 0; r < 2; r++) assert_true(m[r].x[0] == 1);
}

/* What a fault leaves in the stand-in stays there, so that this is the last test. */
static void differ(member_t *m, mr_collect_t *c) {
  float x[2] = {1, 2}, y[4] = {0};
  waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 2, x, y);
  if (m->rank == 1)
    waiting.all_gather(c, sizeof x, x, y);
  else
    waiting.all_reduce(c, MR_REDUCE_SUM, MR_F32, 2, x, y);
  mr_diag_t unsaid = {0};
  while (mr_collect_nccl.failed(c, &m->missing, &unsaid) >= 0) sched_yield();
}

static void ranks_that_make_different_calls_fail_with_nccl_s_reason(void **state) {
  member_t m[2];
  run_members(2, 600, "different", differ, m);
  fails_everywhere(2, m, -1, "NCCL: invalid usage: ranks have made different calls");
}

/* ---- opening ---- */

static void an_old_version_is_refused_by_a_sentence(void **state) {
  mr_diag_t diag = {0};
  assert_int_equal(mr__nccl_fits(21800, "libnccl.so.2", &diag), MR_OK);
  assert_int_equal(mr__nccl_fits(23003, "libnccl.so.2", &diag), MR_OK);
  assert_int_equal(mr__nccl_fits(21701, "/x/libnccl.so.2", &diag), MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(diag.text, "/x/libnccl.so.2 is NCCL 2.17, want 2.18 or newer"));
  diag = (mr_diag_t){0};
  assert_int_equal(mr__nccl_fits(2708, "old", &diag), MR_ERR_UNAVAILABLE);
  assert_non_null(strstr(diag.text, "old is NCCL 2.7"));
}

static void a_device_without_a_stream_is_refused(void **state) {
  mr_collect_t *c = NULL;
  mr_diag_t diag = {0};
  assert_int_equal(mr_collect_nccl.create(mr_device_default(), "cpu", 0, 1, 1, &c, &diag),
                   MR_ERR_CONFIG);
  assert_non_null(strstr(diag.text, "device cpu has no stream for NCCL"));
}

/* ---- */

static void reduce_as_threads_do(int type, int op, void *out, const void *x, size_t n) {
  static const mr_dtype_t dtypes[] = {MR_U8,  MR_U8,  MR_I32, MR_U32, MR_I64,
                                      MR_U64, MR_F16, MR_F32, MR_F64, MR_BF16};
  mr_reduce_t how = op == MR_NCCL_SUM   ? MR_REDUCE_SUM
                    : op == MR_NCCL_MAX ? MR_REDUCE_MAX
                                        : MR_REDUCE_MIN;
  mr__collect_reduce(how, dtypes[type], out, x, (int64_t)n);
}

int main(void) {
  setenv("MILLRACE_CUDA_LIBRARIES", MR_NCCL_STANDIN, 1);
  void *lib = dlopen(MR_NCCL_STANDIN "/libnccl.so.2", RTLD_NOW);
  standin_calls_fn *calls = NULL;
  if (lib) *(void **)&calls = dlsym(lib, STANDIN_CALLS);
  if (!calls) return fprintf(stderr, "%s\n", dlerror()), 1;
  standin = calls();
  standin->reduce_by(reduce_as_threads_do);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_call_gives_the_bytes_of_threads),
      cmocka_unit_test(the_unique_id_goes_through_the_job_of_processes),
      cmocka_unit_test(each_axis_of_a_mesh_has_a_communicator_of_its_own),
      cmocka_unit_test(calls_that_are_recorded_run_with_each_repeat),
      cmocka_unit_test(collectives_of_a_graph_are_recorded_with_its_runs),
      cmocka_unit_test(the_call_that_connects_may_not_be_recorded),
      cmocka_unit_test(a_call_to_which_a_rank_does_not_come_ends_within_the_limit_on_all),
      cmocka_unit_test(a_recorded_run_to_which_a_rank_does_not_come_ends_within_the_limit),
      cmocka_unit_test(a_rank_that_never_connects_is_named),
      cmocka_unit_test(an_abort_ends_the_calls_that_wait_on_all_ranks),
      cmocka_unit_test(a_dtype_that_nccl_has_not_is_named),
      cmocka_unit_test(an_old_version_is_refused_by_a_sentence),
      cmocka_unit_test(a_device_without_a_stream_is_refused),
      cmocka_unit_test(ranks_that_make_different_calls_fail_with_nccl_s_reason),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
