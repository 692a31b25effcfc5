/* Runs as CUDA graphs, on the table in the place of CUDA's libraries (cuda_host.h): training steps
   under capture give the same bytes as steps whose kernels are started one by one, with a few calls
   a step, and what cannot be captured is run as before.  Branches and loops are in
   test_cuda_conditions.c. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>

#include "base/philox.h"
#include "model/backends/cuda/captured.h"
#include "model/backends/cuda/program.h"
#include "model/exec/device.h"
#include "model/ops/lax.h"
#include "model/train/slots.h"
#include "tests/model/cuda_host.h"
#include "tests/model/grid.h"
#include "tests/model/vit_step.h"

enum { B = 4, STEPS = 16, SIDE = 8, CLASSES = 5, PIXELS = SIDE * SIDE * 3, SLOTS = 5 };

static const mr_device_t *cuda;
static _Alignas(64) float images[STEPS][B * PIXELS];
static _Alignas(64) int32_t labels[STEPS][64];

/* How a run of STEPS steps is made. */
typedef struct way {
  bool off;    /* MILLRACE_GRAPH=off */
  bool counts; /* the loss scale's state passes from step to step */
  bool slots;  /* batches lie in slots on the device, as to-device leaves them */
  int unread;  /* runs that are begun before the first is read */
  int bad;     /* the step whose pictures are NaN; 0: none */
} way_t;

/* What it gives, and the calls of CUDA that each step makes. */
typedef struct run {
  mr_train_out_t out[STEPS];
  float *values;
  size_t bytes;
  int launches[STEPS], recorded[STEPS], graphs[STEPS], copies[STEPS];
} run_t;

static void run_fini(run_t *r) { free(r->values); }

static mr_train_step_t *step_open(const way_t *w, mr_params_t *params) {
  mr_train_config_t t = mr_train_default(B);
  vit_t v = vit_default();
  mr_train_step_t *step = NULL;
  mr_diag_t diag = {0};
  v.model.image = SIDE, v.model.classes = CLASSES, v.model.layers = 1;
  v.model.embed = 16, v.model.mlp = 32, v.model.heads = 2;
  v.how = (mr_compute_t){.dtype = MR_F32, .device = cuda};
  t.there = w->slots;
  t.optim.only_finite = w->counts;
  t.optim.dynamic.max_bad = 8;
  if (vit_params(&v, 12, params, &diag) < 0 || vit_step(&v, t, &step, &diag) < 0)
    fail_msg("%s", diag.text);
  return step;
}

static void fields_of(const way_t *w, mr_slots_t *slots, int i, const void **field) {
  static _Alignas(64) float nan[B * PIXELS];
  const size_t bytes[] = {sizeof images[0], B * sizeof(int32_t)};
  mr_diag_t diag = {0};
  for (int k = 0; k < B * PIXELS; k++) nan[k] = NAN;
  field[0] = i + 1 == w->bad ? nan : images[i], field[1] = labels[i];
  if (!w->slots) return;
  void *mark = mr_slots_fill(slots, i % SLOTS, field, bytes);
  assert_int_equal(mr_slots_filled(slots, mark, true, &diag), MR_OK);
  for (int k = 0; k < 2; k++) field[k] = mr_slots_at(slots, i % SLOTS, k);
}

static void step_once(const way_t *w, run_t *r, mr_train_step_t *step, mr_params_t *params,
                      mr_slots_t *slots, int i) {
  const void *field[2];
  mr_diag_t diag = {0};
  const mr_train_in_t in = {
      .step = 3 * i + 1, .seed = 7 + (uint64_t)i, .lr = 1e-3f * (float)(i + 1)};
  fields_of(w, slots, i, field);
  r->launches[i] = host.launches, r->recorded[i] = host.recorded;
  r->graphs[i] = host.graph_launches, r->copies[i] = host.copies_later;
  if (mr_train_step_run(step, params, field, &in, &diag) < 0) fail_msg("%s", diag.text);
  r->launches[i] = host.launches - r->launches[i], r->recorded[i] = host.recorded - r->recorded[i];
  r->graphs[i] = host.graph_launches - r->graphs[i];
  r->copies[i] = host.copies_later - r->copies[i];
}

static run_t train(const way_t *w) {
  run_t r = {0};
  mr_params_t params = {0};
  mr_slots_t *slots = NULL;
  mr_diag_t diag = {0};
  const size_t bytes[] = {sizeof images[0], B * sizeof(int32_t)};
  if (w->off) setenv("MILLRACE_GRAPH", "off", 1);
  mr_train_step_t *step = step_open(w, &params);
  if (w->slots && mr_slots_create(cuda, SLOTS, 2, bytes, &slots, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int i = 0, read = 0; read < STEPS;) {
    if (i < STEPS && i - read < w->unread) {
      step_once(w, &r, step, &params, slots, i++);
    } else {
      mr_err_t e = mr_train_step_read(step, true, &r.out[read++], &diag);
      if (e != MR_OK) fail_msg("%s", diag.text);
    }
  }
  if (mr_train_step_fetch(step, &params, &diag) < 0) fail_msg("%s", diag.text);
  r.bytes = (size_t)params.arena_size * sizeof(float);
  r.values = memcpy(grid_bytes(r.bytes), values_of(&params), r.bytes);
  mr_train_step_destroy(step);
  mr_slots_destroy(slots);
  mr_params_fini(&params);
  unsetenv("MILLRACE_GRAPH");
  assert_int_equal(host_blocks_left(), 0);
  assert_int_equal(host.graphs, 0);
  assert_int_equal(host.execs, 0);
  assert_int_equal(host.events, HOST_EVENTS_KEPT);
  return r;
}

static void are_equal(const run_t *a, const run_t *b) {
  for (int i = 0; i < STEPS; i++)
    if (memcmp(&a->out[i], &b->out[i], sizeof a->out[i]))
      fail_msg("step %d: loss %.9g and %.9g", i + 1, (double)a->out[i].loss,
               (double)b->out[i].loss);
  assert_memory_equal(a->values, b->values, a->bytes);
}

/* Step 1 is plain, the next `most` are captured and launched, the rest are launched alone. */
static void calls_are_few(const run_t *r, int most, int copies) {
  assert_true(r->launches[0] > 50);
  assert_int_equal(r->graphs[0], 0);
  for (int i = 1; i < STEPS; i++) {
    assert_int_equal(r->launches[i], 0);
    assert_int_equal(r->recorded[i] > 0, i <= most);
    assert_true(i > most || r->recorded[i] >= r->launches[0]);
    assert_int_equal(r->graphs[i], 1);
    assert_int_equal(r->copies[i], copies);
  }
}

static void a_captured_step_gives_the_same_bytes_by_few_calls(void **state) {
  const way_t plain = {.off = true, .unread = MR_TRAIN_RING}, way = {.unread = MR_TRAIN_RING};
  run_t want = train(&plain), got = train(&way);
  for (int i = 0; i < STEPS; i++) {
    assert_int_equal(want.launches[i], want.launches[0]);
    assert_int_equal(want.graphs[i] + want.recorded[i], 0);
  }
  are_equal(&want, &got);
  assert_true(want.out[STEPS - 1].loss != want.out[0].loss);
  calls_are_few(&got, 1, 4); /* copies: pictures, labels, scalars, results */
  run_fini(&want), run_fini(&got);
}

static void each_slot_is_captured_once(void **state) {
  const way_t plain = {.off = true, .slots = true, .unread = MR_TRAIN_RING},
              way = {.slots = true, .unread = MR_TRAIN_RING};
  run_t want = train(&plain), got = train(&way);
  are_equal(&want, &got);
  calls_are_few(&got, SLOTS, 2); /* scalars and results */
  run_fini(&want), run_fini(&got);
}

/* The state is the host's before the first step and when all are read, and else the device's. */
static void the_states_of_steps_pass_on(void **state) {
  for (int unread = 1; unread <= MR_TRAIN_RING; unread += MR_TRAIN_RING - 1) {
    const way_t plain = {.off = true, .counts = true, .unread = 1, .bad = 4},
                way = {.counts = true, .unread = unread, .bad = 4};
    run_t want = train(&plain), got = train(&way);
    assert_int_equal(want.out[3].bad, 1);
    assert_false(want.out[3].applied);
    assert_true(want.out[STEPS - 1].skipped >= 1);
    are_equal(&want, &got);
    calls_are_few(&got, 1, 4);
    run_fini(&want), run_fini(&got);
  }
}

/* ---- what is not captured ---- */

typedef struct heard {
  int n;
  char text[400];
} heard_t;

static void hear(void *arg, const char *text) {
  heard_t *h = arg;
  snprintf(h->text, sizeof h->text, "%.*s", (int)sizeof h->text - 1, text);
  h->n++;
}

/* Two executables whose runs are not captured: they give `want` by launches. */
static void falls_back(const run_t *want) {
  const way_t way = {.unread = MR_TRAIN_RING};
  for (int twice = 0; twice < 2; twice++) {
    run_t got = train(&way);
    are_equal(want, &got);
    for (int i = 0; i < STEPS; i++) {
      assert_int_equal(got.launches[i], want->launches[0]);
      assert_int_equal(got.graphs[i], 0);
    }
    run_fini(&got);
  }
  assert_int_equal(mr_device_usable(cuda, NULL), MR_OK); /* a refusal is no failure of the device */
}

static void a_capture_that_fails_falls_back_and_is_said_once(void **state) {
  static const char *const call[] = {"cudaStreamBeginCapture", "cudaStreamEndCapture",
                                     "cudaGraphInstantiate", "cudaGraphLaunch"};
  const way_t plain = {.off = true, .unread = MR_TRAIN_RING}, way = {.unread = MR_TRAIN_RING};
  heard_t h = {0};
  run_t want = train(&plain);
  mr_notice_to(hear, &h);
  host.fail_recorded = host.recorded + 5;
  run_t got = train(&way);
  host.fail_recorded = 0;
  are_equal(&want, &got);
  assert_int_equal(got.launches[STEPS - 1], want.launches[0]);
  assert_int_equal(h.n, 1);
  assert_non_null(strstr(h.text, "does not become a CUDA graph"));
  assert_non_null(strstr(h.text, "failed with cudaErrorLaunchFailure"));
  for (int i = 0; i < 4; i++) {
    host.refuse = call[i];
    falls_back(&want);
  }
  host.refuse = NULL;
  assert_int_equal(h.n, 1);
  mr_notice_to(NULL, NULL);
  run_fini(&want), run_fini(&got);
}

static mr_exec_t *compiled(mr_fn_t *f) {
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  if (mr_compile(f, &(mr_compile_options_t){.device = cuda}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  return x;
}

static void addresses_that_never_come_back_are_not_captured_for_ever(void **state) {
  enum { RUNS = 4 * MR_CUDA_CAPTURED, N = 64 };
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_lax_tanh(f, mr_fn_input(f, mr_aval_of(MR_F32, N)));
  float x[N], y[N], want = 0;
  void *in = mr_device_take(cuda, sizeof x), *out = mr_device_take(cuda, 256 * (RUNS + 1));
  int before = host.instantiated, launches = host.launches;
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  for (int i = 0; i < N; i++) x[i] = (float)i / N;
  mr_device_copy(cuda, in, x, sizeof x, MR_COPY_IN);
  mr_exec_t *e = compiled(f);
  for (int i = 0; i < RUNS; i++) {
    char *at = (char *)out + 256 * i;
    mr_exec_run(e, (const void *const[]){in}, (void *const[]){at});
    mr_device_copy(cuda, y, at, sizeof y, MR_COPY_OUT);
    if (!i) want = y[N - 1];
    assert_true(y[N - 1] == want && fabsf(want - tanhf(x[N - 1])) < 1e-5f);
  }
  assert_int_equal(host.instantiated - before, 2 * MR_CUDA_CAPTURED);
  assert_int_equal(host.launches - launches, RUNS - 2 * MR_CUDA_CAPTURED);
  assert_true(host.execs <= MR_CUDA_CAPTURED);
  mr_exec_destroy(e);
  assert_int_equal(host.execs, 0);
  mr_device_give(cuda, in, sizeof x), mr_device_give(cuda, out, 256 * (RUNS + 1));
  mr_fn_destroy(f);
}

/* ---- what the table refuses, each in a process that it aborts ---- */

static mr_exec_t *doomed;
static void *doomed_in, *doomed_out;

static void doomed_run(const void *in) {
  mr_exec_start(doomed, (const void *const[]){in}, (void *const[]){doomed_out});
}

static void a_graph_after_its_memory_was_given_back(void) {
  mr_device_give(cuda, doomed_in, 256);
  doomed_run(doomed_in);
}

static void a_kernel_with_a_pointer_of_the_host(void) {
  static _Alignas(256) float x[64];
  doomed_run(x);
}

static void pinned_memory_freed_before_its_copy(void) {
  void *pinned;
  if (host_malloc_pinned(&pinned, 256) != cudaSuccess) _exit(0);
  mr_device_copy_later(cuda, doomed_in, pinned, 256, MR_COPY_IN);
  host_free_pinned(pinned);
}

static void an_event_destroyed_before_it_came(void) {
  cudaEvent_t e;
  host_event_create(&e, 0);
  doomed_run(doomed_in);
  host_event_record(e, (cudaStream_t)&host_streams[0]);
  host_event_destroy(e);
}

static void a_wait_while_capturing(void) {
  cudaStream_t s = (cudaStream_t)&host_streams[HOST_SPARE];
  host_begin_capture(s, cudaStreamCaptureModeThreadLocal);
  mr_device_reached(cuda, NULL, true, NULL);
}

static void aborts(void (*wrong)(void), const char *sentence) {
  int status = 0, end[2];
  char text[256] = "";
  assert_int_equal(pipe(end), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(end[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    wrong();
    _exit(0);
  }
  close(end[1]);
  if (read(end[0], text, sizeof text - 1) < 0) fail_msg("no answer");
  close(end[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status) || !strstr(text, sentence))
    fail_msg("status %d, \"%s\", want \"%s\"", status, text, sentence);
}

static void the_table_finds_wrong_calls(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_lax_tanh(f, mr_fn_input(f, mr_aval_of(MR_F32, 64)));
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  doomed = compiled(f), doomed_in = mr_device_take(cuda, 256),
  doomed_out = mr_device_take(cuda, 256);
  for (int i = 0; i < 3; i++) doomed_run(doomed_in);
  aborts(a_graph_after_its_memory_was_given_back, "lies in no block of the device");
  aborts(a_kernel_with_a_pointer_of_the_host, "lies in no block of the device");
  aborts(pinned_memory_freed_before_its_copy, "freed before a copy that uses it is done");
  aborts(an_event_destroyed_before_it_came, "destroyed before it came");
  aborts(a_wait_while_capturing, "may not be captured");
  mr_exec_destroy(doomed);
  mr_device_give(cuda, doomed_in, 256), mr_device_give(cuda, doomed_out, 256);
  mr_fn_destroy(f);
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

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_captured_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_captured_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  unsetenv("MILLRACE_GRAPH");
  make_batches();
  host_put();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_captured_step_gives_the_same_bytes_by_few_calls),
      cmocka_unit_test(each_slot_is_captured_once),
      cmocka_unit_test(the_states_of_steps_pass_on),
      cmocka_unit_test(a_capture_that_fails_falls_back_and_is_said_once),
      cmocka_unit_test(addresses_that_never_come_back_are_not_captured_for_ever),
      cmocka_unit_test(the_table_finds_wrong_calls),
  };
  return cmocka_run_group_tests(tests, open_cuda, NULL);
}
