/* Branches and loops inside captured runs, on the table in the place of CUDA's libraries
   (cuda_host.h): the device chooses by conditional nodes, from run to run anew, with the bytes of
   runs in which the host reads the values; and what CUDA refuses is run so. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <sys/wait.h>

#include "model/backends/cuda/condition.h"
#include "model/control/control.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/ops/lax.h"
#include "tests/model/cuda_host.h"

enum { N = 64, OUT_MAX = 3 };
static const int32_t number[] = {0, 3, 1, 2, 5, 0, -4, 9, 7, 4, 1};
enum { RUNS = sizeof number / sizeof *number };

static const mr_device_t *cuda;

/* ---- programs: (n i32[], v f32[64]) -> their results; n decides ---- */

typedef struct made {
  mr_fn_t *f;
  mr_var_t *n, *v;
} made_t;

static made_t made_create(void) {
  made_t m = {.f = mr_fn_create()};
  m.n = mr_fn_input(m.f, mr_aval_scalar(MR_I32));
  m.v = mr_fn_input(m.f, mr_aval_of(MR_F32, N));
  return m;
}

static mr_fn_t *made_end(const made_t *m, int n, mr_var_t *const *out) {
  if (mr_fn_return(m->f, n, out) < 0) fail_msg("%s", m->f->diag.text);
  return m->f;
}

static mr_var_t *plus(mr_fn_t *f, mr_var_t *i, int by) {
  return mr_lax_add(f, i, mr_literal(f, MR_I32, by));
}

/* Branch j of (n, v). */
static mr_fn_t *branch(int j) {
  made_t m = made_create();
  mr_var_t *v = m.v; /* of branch 0 */
  if (j == 1) v = mr_lax_sin(m.f, m.v);
  if (j == 2) v = mr_lax_add(m.f, mr_lax_mul(m.f, m.v, m.v), mr_lax_convert(m.f, m.n, MR_F32));
  if (j == 3) v = mr_lax_tanh(m.f, mr_lax_add(m.f, m.v, m.v));
  return made_end(&m, 1, &v);
}

/* One of four branches, by index; v is what it takes and gives. */
static mr_var_t *switched(mr_fn_t *f, mr_var_t *index, mr_var_t *n, mr_var_t *v) {
  mr_fn_t *b[] = {branch(0), branch(1), branch(2), branch(3)};
  mr_var_t *out = NULL;
  if (mr_lax_switch(f, index, 4, (const mr_fn_t *const *)b, (mr_var_t *[]){n, v}, &out) < 0)
    fail_msg("%s", f->diag.text);
  for (int j = 0; j < 4; j++) mr_fn_destroy(b[j]);
  return out;
}

/* (last, i, v) -> i < last */
static mr_fn_t *before_last(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *last = mr_fn_input(f, mr_aval_scalar(MR_I32)),
           *i = mr_fn_input(f, mr_aval_scalar(MR_I32));
  mr_fn_input(f, mr_aval_of(MR_F32, N));
  mr_var_t *less = mr_lax_lt(f, i, last);
  if (mr_fn_return(f, 1, &less) < 0) fail_msg("%s", f->diag.text);
  return f;
}

/* v after body(i, v) -> v for each i of [0,last). */
static mr_var_t *looped(mr_fn_t *f, mr_var_t *last, mr_var_t *v,
                        mr_var_t *(*body)(mr_fn_t *f, mr_var_t *i, mr_var_t *v)) {
  mr_fn_t *test = before_last();
  made_t m = made_create();
  mr_var_t *out[2], *next[2] = {plus(m.f, m.n, 1), body(m.f, m.n, m.v)};
  made_end(&m, 2, next);
  mr_var_t *in[] = {last, mr_literal(f, MR_I32, 0), v};
  if (mr_lax_while(f, test, 1, m.f, 0, in, out) < 0) fail_msg("%s", f->diag.text);
  mr_fn_destroy(test), mr_fn_destroy(m.f);
  return out[1];
}

static mr_var_t *sine(mr_fn_t *f, mr_var_t *i, mr_var_t *v) {
  return mr_lax_sin(f, mr_lax_add(f, v, mr_lax_convert(f, i, MR_F32)));
}

static mr_var_t *switched_by_round(mr_fn_t *f, mr_var_t *i, mr_var_t *v) {
  return switched(f, i, i, v);
}

static mr_var_t *looped_to_round(mr_fn_t *f, mr_var_t *i, mr_var_t *v) {
  return looped(f, i, mr_lax_add(f, v, v), sine);
}

static mr_fn_t *a_switch(void) {
  made_t m = made_create();
  mr_var_t *v = switched(m.f, m.n, m.n, mr_lax_neg(m.f, m.v));
  v = mr_lax_add(m.f, v, v);
  return made_end(&m, 1, &v);
}

/* Carries change places, and one takes a constant. */
static mr_fn_t *a_while(void) {
  made_t m = made_create();
  mr_fn_t *test = mr_fn_create(), *body = mr_fn_create();
  mr_aval_t scalar = mr_aval_scalar(MR_I32), row = mr_aval_of(MR_F32, N);
  mr_var_t *last = mr_fn_input(test, scalar), *i = mr_fn_input(test, scalar), *out[3];
  mr_fn_input(test, row), mr_fn_input(test, row);
  mr_var_t *less = mr_lax_lt(test, i, last);
  mr_fn_return(test, 1, &less);
  mr_var_t *c = mr_fn_input(body, row);
  i = mr_fn_input(body, scalar);
  mr_var_t *a = mr_fn_input(body, row), *b = mr_fn_input(body, row);
  mr_fn_return(body, 3, (mr_var_t *[]){plus(body, i, 1), mr_lax_add(body, b, c), a});
  mr_var_t *in[] = {m.n, m.v, mr_literal(m.f, MR_I32, 0), m.v, mr_lax_sin(m.f, m.v)};
  if (mr_lax_while(m.f, test, 1, body, 1, in, out) < 0) fail_msg("%s", m.f->diag.text);
  mr_fn_destroy(test), mr_fn_destroy(body);
  return made_end(&m, 3, out);
}

static mr_fn_t *a_switch_in_a_while(void) {
  made_t m = made_create();
  mr_var_t *v = looped(m.f, m.n, m.v, switched_by_round);
  return made_end(&m, 1, &v);
}

static mr_fn_t *a_while_in_a_while(void) {
  made_t m = made_create();
  mr_var_t *v = looped(m.f, m.n, m.v, looped_to_round);
  return made_end(&m, 1, &v);
}

static mr_fn_t *a_while_in_a_branch(void) {
  made_t m = made_create(), own = made_create();
  mr_fn_t *sum = branch(2);
  mr_var_t *v = looped(own.f, own.n, own.v, sine);
  made_end(&own, 1, &v);
  mr_var_t *positive = mr_lax_gt(m.f, m.n, mr_literal(m.f, MR_I32, 0));
  if (mr_lax_cond(m.f, positive, own.f, sum, (mr_var_t *[]){m.n, m.v}, &v) < 0)
    fail_msg("%s", m.f->diag.text);
  mr_fn_destroy(own.f), mr_fn_destroy(sum);
  return made_end(&m, 1, &v);
}

/* Each step takes another branch: n, n - 1, ... */
static mr_fn_t *a_switch_in_a_scan(void) {
  made_t m = made_create(), step = made_create();
  const mr_scan_t s = {.length = 4, .n_carry = 2};
  mr_var_t *out[3], *v = switched(step.f, step.n, step.n, step.v);
  made_end(&step, 3, (mr_var_t *[]){plus(step.f, step.n, -1), v, mr_lax_neg(step.f, v)});
  if (mr_lax_scan(m.f, step.f, &s, (mr_var_t *[]){m.n, m.v}, out) < 0)
    fail_msg("%s", m.f->diag.text);
  mr_fn_destroy(step.f);
  return made_end(&m, 3, out);
}

/* Branches inside each other, `depth` of them if n is at most 0. */
static mr_fn_t *nested(int depth) {
  made_t m = made_create();
  if (!depth) {
    mr_var_t *v = mr_lax_sin(m.f, m.v);
    return made_end(&m, 1, &v);
  }
  mr_fn_t *b[] = {nested(depth - 1), branch(2)};
  mr_var_t *v;
  if (mr_lax_switch(m.f, m.n, 2, (const mr_fn_t *const *)b, (mr_var_t *[]){m.n, m.v}, &v) < 0)
    fail_msg("%s", m.f->diag.text);
  mr_fn_destroy(b[0]), mr_fn_destroy(b[1]);
  return made_end(&m, 1, &v);
}

static mr_fn_t *deep(void) { return nested(MR_CUDA_DEPTH); }
static mr_fn_t *too_deep(void) { return nested(MR_CUDA_DEPTH + 1); }

/* ---- runs ---- */

/* The results of all runs, and the calls of CUDA that each made. */
typedef struct ran {
  char *bytes;
  size_t each;
  int launches[RUNS], recorded[RUNS], graphs[RUNS], waits[RUNS], rounds[RUNS];
  int branches, loops; /* nodes */
} ran_t;

static size_t result_bytes(const mr_fn_t *f, int i) { return mr_aval_bytes(&f->out[i]->aval); }

static void count(ran_t *r, int i, int sign) {
  r->launches[i] += sign * host.launches, r->recorded[i] += sign * host.recorded;
  r->graphs[i] += sign * host.graph_launches;
  r->waits[i] += sign * (host.synchronized + host.copies_now);
}

static void run_once(ran_t *r, mr_exec_t *x, const mr_fn_t *f, void *const *in, void *const *out,
                     int i) {
  static _Alignas(64) float v[N];
  char *to = r->bytes + (size_t)i * r->each;
  for (int k = 0; k < N; k++) v[k] = (float)(k - N / 2) / (float)(N + i);
  mr_device_copy(cuda, in[0], &number[i], sizeof number[i], MR_COPY_IN);
  mr_device_copy(cuda, in[1], v, sizeof v, MR_COPY_IN);
  count(r, i, -1);
  mr_exec_start(x, (const void *const *)in, out);
  count(r, i, 1);
  r->rounds[i] -= host.rounds; /* what was given before is done */
  for (int k = 0; k < f->n_out; k++) {
    mr_device_copy(cuda, to, out[k], result_bytes(f, k), MR_COPY_OUT);
    to += result_bytes(f, k);
  }
  r->rounds[i] += host.rounds;
}

static ran_t ran(mr_fn_t *(*make)(void), bool off) {
  mr_fn_t *f = make();
  ran_t r = {.branches = -host.branches, .loops = -host.loops};
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  void *in[] = {mr_device_take(cuda, sizeof *number), mr_device_take(cuda, N * sizeof(float))},
       *out[OUT_MAX];
  if (mr_compile(f, &(mr_compile_options_t){.device = cuda}, &x, &diag) < 0)
    fail_msg("%s", diag.text);
  for (int k = 0; k < f->n_out; k++)
    out[k] = mr_device_take(cuda, result_bytes(f, k)), r.each += result_bytes(f, k);
  r.bytes = calloc(RUNS, r.each);
  if (off) setenv("MILLRACE_GRAPH", "off", 1);
  for (int i = 0; i < RUNS; i++) run_once(&r, x, f, in, out, i);
  unsetenv("MILLRACE_GRAPH");
  r.branches += host.branches, r.loops += host.loops;
  mr_exec_destroy(x);
  for (int k = 0; k < f->n_out; k++) mr_device_give(cuda, out[k], result_bytes(f, k));
  mr_device_give(cuda, in[0], sizeof *number), mr_device_give(cuda, in[1], N * sizeof(float));
  mr_fn_destroy(f);
  return r;
}

static void are_equal(const ran_t *a, const ran_t *b) {
  assert_int_equal(a->each, b->each);
  for (int i = 0; i < RUNS; i++)
    if (memcmp(a->bytes + (size_t)i * a->each, b->bytes + (size_t)i * b->each, a->each))
      fail_msg("run %d, with n = %d, differs", i + 1, (int)number[i]);
}

static void nothing_is_left(void) {
  assert_int_equal(host.captures, 0);
  assert_int_equal(host.graphs, 0);
  assert_int_equal(host.execs, 0);
  assert_int_equal(host_blocks_left(), 0);
}

/* Run 1 is plain, 2 is captured, and the others are one launch each, without a wait. */
static void is_captured(mr_fn_t *(*make)(void), int branches, int loops, int (*rounds)(int n)) {
  ran_t want = ran(make, true), got = ran(make, false);
  are_equal(&want, &got);
  assert_int_equal(want.branches + want.loops, 0);
  assert_int_equal(got.branches, branches);
  assert_int_equal(got.loops, loops);
  for (int i = 0; i < RUNS; i++) {
    assert_true(want.launches[i] > 0 && want.waits[i] > 0);
    assert_int_equal(want.graphs[i] + want.recorded[i], 0);
    if (!i) continue;
    assert_int_equal(got.launches[i] + got.waits[i], 0);
    assert_int_equal(got.recorded[i] > 0, i == 1);
    assert_int_equal(got.graphs[i], 1);
    assert_int_equal(got.rounds[i], rounds(number[i]));
  }
  assert_int_equal(got.graphs[0], 0);
  nothing_is_left();
  free(want.bytes), free(got.bytes);
}

static int one(int n) { return 1; }
static int four(int n) { return 4; }
static int each(int n) { return n > 0 ? n : 0; }
static int each_and_one(int n) { return 2 * each(n); }
static int one_and_each(int n) { return 1 + each(n); }
static int triangle(int n) { return n > 0 ? n + n * (n - 1) / 2 : 0; }
static int depth_or_one(int n) { return n > 0 ? 1 : MR_CUDA_DEPTH; }

static void the_device_chooses_a_branch(void **state) { is_captured(a_switch, 1, 0, one); }

static void the_device_ends_a_loop(void **state) { is_captured(a_while, 0, 1, each); }

static void branches_and_loops_may_be_inside_each_other(void **state) {
  is_captured(a_switch_in_a_while, 1, 1, each_and_one);
  is_captured(a_while_in_a_while, 0, 2, triangle);
  is_captured(a_while_in_a_branch, 1, 1, one_and_each);
  is_captured(deep, MR_CUDA_DEPTH, 0, depth_or_one);
}

static void each_step_of_a_scan_has_its_own_branch(void **state) {
  is_captured(a_switch_in_a_scan, 4, 0, four);
}

/* ---- refusals ---- */

typedef struct heard {
  int n;
  char text[400];
} heard_t;

static void hear(void *arg, const char *text) {
  heard_t *h = arg;
  snprintf(h->text, sizeof h->text, "%.*s", (int)sizeof h->text - 1, text);
  h->n++;
}

/* Whether runs that may be captured, but for what is refused, are those of the host, by as many
   launches. */
static bool is_the_hosts(mr_fn_t *(*make)(void)) {
  ran_t want = ran(make, true), got = ran(make, false);
  bool same = !memcmp(want.bytes, got.bytes, RUNS * want.each);
  for (int i = 0; i < RUNS; i++) same &= got.launches[i] == want.launches[i] && !got.graphs[i];
  free(want.bytes), free(got.bytes);
  return same;
}

/* What a process hears whose compiler does not know what sets a condition. */
static int without_a_setter(void) {
  heard_t h = {0};
  mr_notice_to(hear, &h);
  host.refuse = "nvrtcCompileProgram";
  bool same = is_the_hosts(a_switch_in_a_while);
  if (same && h.n == 1 && strstr(h.text, "preparing branches and loops failed with")) return 0;
  fprintf(stderr, "the same: %d, %d notices: %s\n", same, h.n, h.text);
  return 1;
}

/* The first test: what is prepared for conditions is prepared once a process. */
static void a_compiler_without_conditions_leaves_them_to_the_host(void **state) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) _exit(without_a_setter());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void conditions_that_cuda_refuses_are_left_to_the_host_with_one_notice(void **state) {
  static const char *const call[] = {"cudaGraphConditionalHandleCreate",
                                     "cudaGraphAddNode",
                                     "cudaStreamGetCaptureInfo",
                                     "cudaStreamUpdateCaptureDependencies",
                                     "cudaStreamBeginCaptureToGraph",
                                     "cudaStreamEndCapture",
                                     "cudaGraphInstantiate",
                                     "cudaGraphLaunch"};
  heard_t h = {0};
  mr_notice_to(hear, &h);
  for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
    host.refuse = call[i];
    if (!is_the_hosts(a_switch_in_a_while)) fail_msg("without %s", call[i]);
    if (!is_the_hosts(a_while_in_a_branch)) fail_msg("without %s", call[i]);
    nothing_is_left();
  }
  host.refuse = NULL;
  assert_true(is_the_hosts(too_deep));
  nothing_is_left();
  assert_int_equal(h.n, 1);
  assert_non_null(strstr(h.text, "does not become a CUDA graph"));
  assert_non_null(strstr(h.text, "a loop failed with cudaErrorNotSupported"));
  assert_int_equal(mr_device_usable(cuda, NULL), MR_OK);
  mr_notice_to(NULL, NULL);
}

/* ---- what the table refuses, each in a process that it aborts ---- */

/* A graph of one conditional node whose condition nothing sets; dependent: commands wait for it. */
static cudaGraph_t unset_begin(bool dependent) {
  cudaStream_t s = (cudaStream_t)&host_streams[HOST_SPARE],
               own = (cudaStream_t)&host_streams[HOST_SPARE + 1];
  struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeConditional};
  enum cudaStreamCaptureStatus status;
  const cudaGraphNode_t *after = NULL;
  const cudaGraphEdgeData *edge = NULL;
  cudaGraph_t graph = NULL, body;
  cudaGraphNode_t node = NULL;
  size_t n = 0;
  host_begin_capture(s, cudaStreamCaptureModeThreadLocal);
  host_capture_info(s, &status, NULL, &graph, &after, &edge, &n);
  host_handle_create(&p.conditional.handle, graph, 0, 0);
  p.conditional.type = cudaGraphCondTypeWhile, p.conditional.size = 1;
  host_add_node(&node, graph, after, edge, n, &p);
  if (dependent) host_capture_after(s, &node, NULL, 1, cudaStreamSetCaptureDependencies);
  host_begin_body(own, p.conditional.phGraph_out[0], NULL, NULL, 0,
                  cudaStreamCaptureModeThreadLocal);
  host_end_capture(own, &body);
  return graph;
}

static cudaGraphExec_t unset_end(cudaGraph_t graph) {
  cudaGraphExec_t exec = NULL;
  host_end_capture((cudaStream_t)&host_streams[HOST_SPARE], &graph);
  host_instantiate(&exec, graph, 0);
  return exec;
}

static void a_condition_that_nothing_sets(void) {
  host_graph_launch(unset_end(unset_begin(true)), (cudaStream_t)&host_streams[0]);
  host_stream_synchronize((cudaStream_t)&host_streams[0]);
}

static void a_node_that_nothing_waits_for(void) { unset_end(unset_begin(false)); }

static void a_graph_destroyed_before_its_instance(void) {
  cudaGraph_t graph = unset_begin(true);
  unset_end(graph);
  host_graph_destroy(graph);
}

static void a_handle_without_a_node(void) {
  cudaGraph_t graph = unset_begin(true);
  cudaGraphConditionalHandle handle;
  host_handle_create(&handle, graph, 0, 0);
  unset_end(graph);
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

static void the_table_finds_wrong_nodes(void **state) {
  aborts(a_condition_that_nothing_sets, "not set once since it was read last");
  aborts(a_node_that_nothing_waits_for, "does not wait for its last command");
  aborts(a_graph_destroyed_before_its_instance, "destroyed before its instance");
  aborts(a_handle_without_a_node, "has no node");
}

static int open_cuda(void **state) {
  mr_diag_t diag = {0};
  if (mr_device_open("cuda", &cuda, &diag) == MR_OK) return 0;
  print_error("%s\n", diag.text);
  return -1;
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_conditions_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_conditions_without_a_cpp_compiler\n");
    return 77; /* the kernels' text is C++ */
  }
  unsetenv("MILLRACE_GRAPH");
  host_put();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_compiler_without_conditions_leaves_them_to_the_host),
      cmocka_unit_test(the_device_chooses_a_branch),
      cmocka_unit_test(the_device_ends_a_loop),
      cmocka_unit_test(branches_and_loops_may_be_inside_each_other),
      cmocka_unit_test(each_step_of_a_scan_has_its_own_branch),
      cmocka_unit_test(conditions_that_cuda_refuses_are_left_to_the_host_with_one_notice),
      cmocka_unit_test(the_table_finds_wrong_nodes),
  };
  return cmocka_run_group_tests(tests, open_cuda, NULL);
}
