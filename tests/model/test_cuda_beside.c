/* Copies beside the commands of CUDA, on the table in the place of its libraries (cuda_host.h),
   whose streams come as far as the host's waits need and, by a seed, further: batches that are
   copied ahead, checkpoints that are copied while the next step computes, and the times of a
   profile. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>

#include "base/philox.h"
#include "model/backends/cuda/device.h"
#include "model/exec/device.h"
#include "model/ops/lax.h"
#include "model/train/slots.h"
#include "tests/model/cuda_host.h"
#include "tests/model/grid.h"
#include "tests/model/vit_step.h"

enum { B = 4, STEPS = 12, SIDE = 8, CLASSES = 5, PIXELS = SIDE * SIDE * 3, SLOTS = 5, SEEDS = 5 };

static const mr_device_t *cuda;
static _Alignas(64) float images[STEPS][B * PIXELS];
static _Alignas(64) int32_t labels[STEPS][64];
static const size_t field_bytes[] = {sizeof images[0], B * sizeof(int32_t)};

/* A step on the device, its parameters, and what its runs have reported. */
typedef struct side {
  mr_train_step_t *step;
  mr_params_t params;
  mr_train_out_t out[STEPS];
} side_t;

static void side_open(side_t *s, bool there) {
  mr_train_config_t t = mr_train_default(B);
  vit_t v = vit_default();
  mr_diag_t diag = {0};
  *s = (side_t){0};
  v.model.image = SIDE, v.model.classes = CLASSES, v.model.layers = 1;
  v.model.embed = 16, v.model.mlp = 32, v.model.heads = 2;
  v.how = (mr_compute_t){.dtype = MR_F32, .device = cuda};
  t.there = there;
  if (vit_params(&v, 12, &s->params, &diag) < 0 || vit_step(&v, t, &s->step, &diag) < 0)
    fail_msg("%s", diag.text);
}

static void side_close(side_t *s) {
  mr_train_step_destroy(s->step);
  mr_params_fini(&s->params);
  assert_int_equal(host_blocks_left(), 0);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
}

static void side_begin(side_t *s, int i, const void *const *field) {
  const void *own[] = {images[i], labels[i]};
  const mr_train_in_t in = {.step = i + 1, .seed = 7, .lr = 1e-3f};
  mr_diag_t diag = {0};
  if (mr_train_step_run(s->step, &s->params, field ? field : own, &in, &diag) < 0)
    fail_msg("step %d: %s", i + 1, diag.text);
}

static void side_read(side_t *s, int i) {
  mr_diag_t diag = {0};
  if (mr_train_step_read(s->step, true, &s->out[i], &diag) < 0) fail_msg("%s", diag.text);
}

/* ---- batches ahead ---- */

/* A slot's batch on the host, which is overwritten as soon as it has been copied. */
typedef struct slot {
  _Alignas(64) float image[B * PIXELS];
  _Alignas(64) int32_t label[64];
  void *mark;
} slot_t;

/* Counts of batches; batch i is in slot i % SLOTS. */
typedef struct ahead {
  int filled, there, run, read;
  mr_slots_t *slots;
  slot_t slot[SLOTS];
} ahead_t;

static void ahead_open(ahead_t *a) {
  mr_diag_t diag = {0};
  *a = (ahead_t){0};
  if (mr_slots_create(cuda, SLOTS, 2, field_bytes, &a->slots, &diag) < 0) fail_msg("%s", diag.text);
}

static void ahead_fill(ahead_t *a) {
  int i = a->filled++;
  slot_t *s = &a->slot[i % SLOTS];
  memcpy(s->image, images[i], sizeof s->image);
  memcpy(s->label, labels[i], field_bytes[1]);
  s->mark = mr_slots_fill(a->slots, i % SLOTS, (const void *[]){s->image, s->label}, field_bytes);
}

static void ahead_await(ahead_t *a) {
  slot_t *s = &a->slot[a->there++ % SLOTS];
  mr_diag_t diag = {0};
  if (mr_slots_filled(a->slots, s->mark, true, &diag) < 0) fail_msg("%s", diag.text);
  memset(s->image, 0x7F, sizeof s->image);
  memset(s->label, 0x7F, sizeof s->label);
}

static void ahead_run(ahead_t *a, side_t *s) {
  int i = a->run++;
  const void *field[] = {mr_slots_at(a->slots, i % SLOTS, 0), mr_slots_at(a->slots, i % SLOTS, 1)};
  side_begin(s, i, field);
}

/* One of the things that may happen next. */
static void ahead_move(ahead_t *a, side_t *s, mr_philox_t *g) {
  switch (mr_philox_integers(g, 0, 4)) {
    case 0:
      if (a->filled < STEPS && a->filled - a->read < SLOTS) ahead_fill(a);
      break;
    case 1:
      if (a->there < a->filled) ahead_await(a);
      break;
    case 2:
      if (a->run < a->there && a->run - a->read < MR_TRAIN_RING) ahead_run(a, s);
      break;
    default:
      if (a->read < a->run) side_read(s, a->read++);
  }
}

static void batches_copied_ahead_in_any_order_give_the_same_bytes(void **state) {
  static side_t here, ahead;
  static ahead_t a;
  side_open(&here, false);
  for (int i = 0; i < STEPS; i++) side_begin(&here, i, NULL), side_read(&here, i);
  for (uint32_t seed = 0; seed < SEEDS; seed++) {
    mr_philox_t g;
    mr_philox_init(&g, seed, 0);
    host.seed = seed;
    side_open(&ahead, true);
    ahead_open(&a);
    while (a.read < STEPS) ahead_move(&a, &ahead, &g);
    host.seed = 0;
    for (int i = 0; i < STEPS; i++)
      if (memcmp(&here.out[i], &ahead.out[i], sizeof here.out[i]))
        fail_msg("seed %u: step %d: loss %.9g, want %.9g", seed, i + 1, (double)ahead.out[i].loss,
                 (double)here.out[i].loss);
    mr_slots_destroy(a.slots);
    mr_train_step_destroy(ahead.step), mr_params_fini(&ahead.params);
  }
  side_close(&here);
}

static int commands_left(void) {
  int n = 0;
  for (const host_command_t *c = host.queue[0].first; c; c = c->next) n++;
  return n;
}

static void a_batch_is_there_while_the_step_before_it_has_not_begun(void **state) {
  static side_t s;
  static ahead_t a;
  side_open(&s, true);
  ahead_open(&a);
  ahead_fill(&a), ahead_await(&a);
  ahead_run(&a, &s);
  int left = commands_left();
  assert_true(left > 50);
  for (int i = 1; i < SLOTS; i++) ahead_fill(&a), ahead_await(&a);
  assert_int_equal(commands_left(), left);
  side_read(&s, 0);
  mr_slots_destroy(a.slots);
  side_close(&s);
}

static void slots_are_given_back_behind_their_copies(void **state) {
  static ahead_t a;
  mr_diag_t diag = {0};
  ahead_open(&a);
  for (int i = 0; i < SLOTS; i++) ahead_fill(&a);
  mr_slots_destroy(a.slots);
  assert_int_equal(mr_device_reached(cuda, NULL, true, &diag), MR_OK);
  for (int i = 0; i < SLOTS; i++)
    assert_int_equal(mr_device_reached(cuda, a.slot[i].mark, true, &diag), MR_OK);
  assert_int_equal(host_blocks_left(), 0);
}

/* ---- checkpoints ---- */

typedef struct sets {
  void *data[MR_PARAM_SETS];
  size_t bytes[MR_PARAM_SETS];
} sets_t;

static sets_t sets_of(const mr_params_t *p) {
  sets_t s = {0};
  for (int i = 0; i < p->n_sets; i++) {
    s.bytes[i] = p->arena_size * mr_dtype_size(p->set[i].dtype);
    s.data[i] = memcpy(grid_bytes(s.bytes[i]), p->set[i].data, s.bytes[i]);
  }
  return s;
}

static void sets_fini(sets_t *s) {
  for (int i = 0; i < MR_PARAM_SETS; i++) free(s->data[i]);
}

static void sets_are(const char *what, uint32_t seed, int step, const mr_params_t *p,
                     const sets_t *want) {
  for (int i = 0; i < p->n_sets; i++)
    if (memcmp(p->set[i].data, want->data[i], want->bytes[i]))
      fail_msg("%s, seed %u: set %d after step %d is not that of the step", what, seed, i,
               step + 1);
}

/* Takes a checkpoint of each third step, which is not read yet; the next step is begun, and read or
   not, before the copy is waited for. */
static void checkpoints_beside(const char *what, uint32_t seed, const sets_t *want) {
  static side_t s;
  mr_philox_t g;
  mr_diag_t diag = {0};
  int read = 0, begun = 0;
  mr_philox_init(&g, seed, 0);
  side_open(&s, false);
  host.seed = seed;
  while (begun < STEPS) {
    int step = begun++;
    side_begin(&s, step, NULL);
    while (begun - read > 2) side_read(&s, read++);
    if (step % 3 || step + 1 == STEPS) continue;
    if (mr_philox_integers(&g, 0, 2)) side_read(&s, read++);
    assert_int_equal(mr_train_step_fetch_begin(s.step, &s.params, &diag), MR_AGAIN);
    int next = (int)mr_philox_integers(&g, 0, 3);
    if (next) side_begin(&s, begun++, NULL);
    while (next > 1 && read < begun) side_read(&s, read++);
    assert_int_equal(mr_train_step_fetch_end(s.step, &diag), MR_OK);
    sets_are(what, seed, step, &s.params, &want[step]);
  }
  while (read < STEPS) side_read(&s, read++);
  host.seed = 0;
  if (mr_train_step_fetch(s.step, &s.params, &diag) < 0) fail_msg("%s", diag.text);
  sets_are(what, seed, STEPS - 1, &s.params, &want[STEPS - 1]);
  side_close(&s);
}

static void a_checkpoint_is_that_of_its_step_while_the_next_computes(void **state) {
  static side_t s;
  static sets_t want[STEPS];
  mr_diag_t diag = {0};
  side_open(&s, false);
  for (int i = 0; i < STEPS; i++) {
    side_begin(&s, i, NULL), side_read(&s, i);
    if (mr_train_step_fetch(s.step, &s.params, &diag) < 0) fail_msg("%s", diag.text);
    want[i] = sets_of(&s.params);
  }
  side_close(&s);
  for (uint32_t seed = 0; seed < 3 * SEEDS; seed++) checkpoints_beside("captured", seed, want);
  setenv("MILLRACE_GRAPH", "off", 1);
  for (uint32_t seed = 0; seed < 3 * SEEDS; seed++) checkpoints_beside("single", seed, want);
  unsetenv("MILLRACE_GRAPH");
  for (int i = 0; i < STEPS; i++) sets_fini(&want[i]);
}

/* Commands of the stream before its first wait for a copy to the host, and behind it. */
static void wait_within(int *before, int *behind) {
  bool met = false;
  *before = *behind = 0;
  for (const host_command_t *c = host.queue[0].first; c; c = c->next) {
    if (c->kind == HOST_WAIT && c->event->stream == 1 + MR_COPY_OUT)
      met = true;
    else
      ++*(met ? behind : before);
  }
  assert_true(met);
}

static void only_the_update_of_the_next_step_waits(void **state) {
  static side_t s;
  mr_diag_t diag = {0};
  int before, behind, now;
  for (int off = 0; off < 2; off++) {
    if (off) setenv("MILLRACE_GRAPH", "off", 1);
    side_open(&s, false);
    for (int i = 0; i < 3; i++) side_begin(&s, i, NULL), side_read(&s, i);
    now = host.copies_now;
    assert_int_equal(mr_train_step_fetch_begin(s.step, &s.params, &diag), MR_AGAIN);
    side_begin(&s, 3, NULL);
    assert_int_equal(host.copies_now, now); /* the host waits for none */
    wait_within(&before, &behind);
    print_message("%d commands before the wait, %d behind it\n", before, behind);
    assert_true(before > behind && behind > 1);
    side_read(&s, 3);
    assert_int_equal(mr_train_step_fetch_end(s.step, &diag), MR_OK);
    side_close(&s);
  }
  unsetenv("MILLRACE_GRAPH");
}

/* ---- pinned memory ---- */

static void pinned_memory_is_copied_to_directly(void **state) {
  enum { BYTES = 3 * HOST_PAGE };
  mr_diag_t diag = {0};
  char *here = aligned_alloc(HOST_PAGE, BYTES), *there = mr_device_take(cuda, BYTES);
  assert_false(cuda->backend->memory->pin(cuda, here + 64, BYTES - 64));
  assert_true(cuda->backend->memory->pin(cuda, here, BYTES));
  memset(here, 0x5A, BYTES);
  mr_device_copy(cuda, there, here, BYTES, MR_COPY_IN);
  memset(here, 0, BYTES);
  cuda->backend->queue->follow_beside(cuda, MR_COPY_OUT);
  cuda->backend->queue->copy_beside(cuda, here, there, BYTES, MR_COPY_OUT);
  void *mark = cuda->backend->queue->mark_beside(cuda, MR_COPY_OUT);
  assert_int_equal(here[0], 0); /* the copy is under way */
  host_drain(1 + MR_COPY_OUT);
  assert_int_equal(here[BYTES - 1], 0x5A); /* and no buffer is between */
  assert_int_equal(mr_device_reached(cuda, mark, true, &diag), MR_OK);
  cuda->backend->memory->unpin(cuda, here);
  assert_false(host_is_pinned(here, 1));
  mr_device_give(cuda, there, BYTES);
  free(here);
}

static void memory_behind_a_pinned_array_is_not_pinned(void **state) {
  enum { PINNED = HOST_PAGE + 64, BEHIND = 2 * HOST_PAGE };
  mr_diag_t diag = {0};
  char *here = aligned_alloc(HOST_PAGE, 4 * HOST_PAGE), *there = mr_device_take(cuda, BEHIND);
  assert_true(cuda->backend->memory->pin(cuda, here, PINNED));
  memset(here + PINNED, 0x5A, BEHIND); /* its first page is pinned, its last is not */
  int now = host.copies_now, later = host.copies_later;
  mr_device_copy_later(cuda, there, here + PINNED, BEHIND, MR_COPY_IN);
  assert_int_equal(host.copies_now, now); /* the driver does not wait: a buffer is between */
  assert_int_equal(host.copies_later, later + 1);
  assert_int_equal(mr_device_reached(cuda, mr_device_mark(cuda), true, &diag), MR_OK);
  memset(here + PINNED, 0, BEHIND);
  mr_device_copy(cuda, here + PINNED, there, BEHIND, MR_COPY_OUT);
  assert_int_equal(here[PINNED + BEHIND - 1], 0x5A);
  cuda->backend->memory->unpin(cuda, here);
  mr_device_give(cuda, there, BEHIND);
  free(here);
}

static void a_mark_that_has_not_come_leaves_no_error(void **state) {
  const mr_cuda_device_t *d = mr__cuda_use(cuda);
  mr_diag_t diag = {0};
  char *there = mr_device_take(cuda, 64);
  for (int i = 0; i < 200; i++) mr_device_copy(cuda, there, there + 32, 32, MR_COPY_WITHIN);
  void *mark = mr_device_mark(cuda);
  assert_int_equal(mr_device_reached(cuda, mark, false, &diag), MR_AGAIN);
  assert_int_equal(d->cu->cudaGetLastError(), cudaSuccess);
  assert_int_equal(mr_device_reached(cuda, mark, true, &diag), MR_OK);
  mr_device_give(cuda, there, 64);
}

enum { ROUNDS = 60, N = 1 << 18 };

/* Copies there and back, each by its queue, or both among the commands. */
static void *copies_of_a_thread(void *arg) {
  bool beside = *(int *)arg % 2;
  unsigned char *here = grid_bytes(N), *back = grid_bytes(N), *there = mr_device_take(cuda, N);
  cuda->backend->queue->follow_beside(cuda, MR_COPY_IN);
  for (int i = 0; i < ROUNDS; i++) {
    memset(here, *(int *)arg * ROUNDS + i, N), memset(back, 0, N);
    if (beside) {
      cuda->backend->queue->copy_beside(cuda, there, here, N, MR_COPY_IN);
      if (mr_device_reached(cuda, cuda->backend->queue->mark_beside(cuda, MR_COPY_IN), true, NULL) <
          0)
        return "failed";
      cuda->backend->queue->copy_beside(cuda, back, there, N, MR_COPY_OUT);
      if (mr_device_reached(cuda, cuda->backend->queue->mark_beside(cuda, MR_COPY_OUT), true,
                            NULL) < 0)
        return "failed";
    } else {
      mr_device_copy_later(cuda, there, here, N, MR_COPY_IN);
      mr_device_copy_later(cuda, back, there, N, MR_COPY_OUT);
      if (mr_device_reached(cuda, i % 2 ? mr_device_mark(cuda) : NULL, true, NULL) < 0)
        return "failed";
    }
    if (memcmp(here, back, N) != 0) return "other bytes";
  }
  mr_device_give(cuda, there, N);
  free(here), free(back);
  return NULL;
}

static void threads_copy_at_once(void **state) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  int number[THREADS];
  host.seed = 3;
  for (int i = 0; i < THREADS; i++) {
    number[i] = i;
    assert_int_equal(pthread_create(&thread[i], NULL, copies_of_a_thread, &number[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    if (wrong) fail_msg("thread %d: %s", i, (const char *)wrong);
  }
  host.seed = 0;
}

/* ---- times ---- */

static void a_profile_has_the_devices_times(void **state) {
  enum { CALLS = 8 };
  mr_profile_call_t call[CALLS];
  float x[64] = {0};
  mr_diag_t diag = {0};
  mr_exec_t *e = NULL;
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 8, 8));
  v = mr_lax_rev(f, mr_lax_tanh(f, mr_lax_rev(f, v, 1, (int[]){0})), 1, (int[]){1});
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  mr_compile_options_t o = {.device = cuda, .skip = "fuse"};
  if (mr_compile(f, &o, &e, &diag) < 0) fail_msg("%s", diag.text);
  assert_true(mr_exec_fn(e)->n_eqn <= CALLS);
  void *in = mr_device_take(cuda, sizeof x), *out = mr_device_take(cuda, sizeof x);
  mr_device_copy(cuda, in, x, sizeof x, MR_COPY_IN);
  mr_exec_profile(e, true);
  for (int runs = 1; runs <= 3; runs++) {
    int waits = host.synchronized;
    mr_exec_start(e, (const void *const[]){in}, (void *const[]){out});
    assert_int_equal(host.synchronized - waits, 1);
    int n = mr_exec_profile_calls(e, call);
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
      assert_int_equal(call[i].last_ns, 10000); /* a kernel takes 10 us on the table */
      assert_int_equal(call[i].ns, 10000 * runs);
      assert_true(!i || call[i].last_at - call[i - 1].last_at == 10000);
    }
  }
  mr_exec_destroy(e);
  mr_device_give(cuda, in, sizeof x), mr_device_give(cuda, out, sizeof x);
  mr_fn_destroy(f);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
}

static void make_batches(void) {
  mr_philox_t g;
  mr_philox_init(&g, 5, 0);
  for (int s = 0; s < STEPS; s++) {
    for (int i = 0; i < B * PIXELS; i++) images[s][i] = (float)mr_philox_uniform(&g, -2, 2);
    for (int i = 0; i < B; i++) labels[s][i] = (s + i) % CLASSES;
  }
}

static int open_cuda(void **state) {
  mr_diag_t diag = {0};
  if (mr_device_open("cuda", &cuda, &diag) == MR_OK) return 0;
  print_error("%s\n", diag.text);
  return -1;
}

/* A copy takes a microsecond there, whatever the host's clock says. */
static void copies_are_as_large_as_a_quarter_of_the_memory_and_timed_by_the_device(void **state) {
  const size_t least = host.least_free;
  host.least_free = (size_t)64 << 20;
  double gbs = cuda->backend->limits->bandwidth(cuda, 1);
  host.least_free = least;
  assert_true(fabs(gbs - 2.0 * (16 << 20) / 1e-6 / 1e9) < 1e-3 * gbs);
  assert_int_equal(host_blocks_left(), 0);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
}

static bool pools_refused[3]; /* whether the tests pass without a pool, by the reason */

/* Runs tests of memory in a process whose device has no pool, for a reason: MILLRACE_CUDA_POOL=off
   (NULL), or what the driver refuses (cuda_host.h).  Returns whether they pass with memory of
   cudaMalloc. */
static bool without_a_pool(const char *refused) {
  int status;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    if (!refused) setenv("MILLRACE_CUDA_POOL", "off", 1);
    host.refuse = refused;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_given_back_behind_their_copies),
        cmocka_unit_test(a_checkpoint_is_that_of_its_step_while_the_next_computes),
    };
    int failed = cmocka_run_group_tests_name(refused, tests, open_cuda, NULL);
    fflush(stdout);
    _exit(failed || !host.taken_now);
  }
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void every_way_without_a_pool_computes_the_same(void **state) {
  for (int i = 0; i < 3; i++) assert_true(pools_refused[i]);
  assert_int_equal(host.taken_now, 0); /* here there is a pool */
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_beside_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_beside_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  unsetenv("MILLRACE_GRAPH");
  make_batches();
  host_put();
  char kernels[] = "/tmp/mr-kernels-XXXXXX"; /* they are compiled once for all of these processes */
  if (mkdtemp(kernels)) setenv("MILLRACE_KERNELS", kernels, 1);
  pools_refused[0] = without_a_pool(NULL); /* before this process opens the device */
  pools_refused[1] = without_a_pool("cudaMallocAsync");
  pools_refused[2] = without_a_pool("memory pools");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_without_a_pool_computes_the_same),
      cmocka_unit_test(batches_copied_ahead_in_any_order_give_the_same_bytes),
      cmocka_unit_test(a_batch_is_there_while_the_step_before_it_has_not_begun),
      cmocka_unit_test(slots_are_given_back_behind_their_copies),
      cmocka_unit_test(a_checkpoint_is_that_of_its_step_while_the_next_computes),
      cmocka_unit_test(only_the_update_of_the_next_step_waits),
      cmocka_unit_test(pinned_memory_is_copied_to_directly),
      cmocka_unit_test(memory_behind_a_pinned_array_is_not_pinned),
      cmocka_unit_test(a_mark_that_has_not_come_leaves_no_error),
      cmocka_unit_test(threads_copy_at_once),
      cmocka_unit_test(a_profile_has_the_devices_times),
      cmocka_unit_test(copies_are_as_large_as_a_quarter_of_the_memory_and_timed_by_the_device),
  };
  int failed = cmocka_run_group_tests(tests, open_cuda, NULL);
  char remove[60];
  snprintf(remove, sizeof remove, "rm -rf %s", kernels);
  return system(remove) || failed;
}
