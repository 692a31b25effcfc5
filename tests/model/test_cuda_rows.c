/* Attention inside a scan, whose rows begin at any multiple of their bytes: cuDNN is given
   addresses that are aligned as its graphs declare, and what was copied for that arrives.  And the
   choice between cuDNN and the kernel of one group a head, by MILLRACE_ATTENTION or by what was
   measured.  cuDNN is a table that records; the device is the table of cuda_host.h. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/backends/cuda/attention_graph.h"
#include "model/backends/cuda/device.h"
#include "model/backends/cuda/tuned.h"
#include "model/exec/device.h"
#include "model/model.h"
#include "tests/model/cuda_host.h"
#include "tests/model/device_run.h"

enum { STEPS = 4, ROWS = 5 /* T: statistics of 20 bytes a step */ };

/* ---- a cuDNN that records ---- */

static int64_t id[MR_CUDNN_IDS];
static void *at[MR_CUDNN_IDS];
static int64_t n_ids;
static int forwards, backwards, made;
static float seen[STEPS]; /* the statistics that backward passes were given */
static bool refuses;

static const char *no_error(cudnnStatus_t s) { return "recorded"; }
static void no_last_error(char *text, size_t n) { text[0] = 0; }
static cudnnStatus_t create(cudnnHandle_t *h) { return *h = (cudnnHandle_t)(uintptr_t)16, 0; }
static cudnnStatus_t set_stream(cudnnHandle_t h, cudaStream_t s) { return CUDNN_STATUS_SUCCESS; }
static cudnnStatus_t make(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d) {
  return *d = (cudnnBackendDescriptor_t)(uintptr_t)++made, CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t drop(cudnnBackendDescriptor_t d) { return CUDNN_STATUS_SUCCESS; }
static cudnnStatus_t finish(cudnnBackendDescriptor_t d) { return CUDNN_STATUS_SUCCESS; }

static cudnnStatus_t set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *value) {
  int64_t align;
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
    n_ids = n, memcpy(id, value, (size_t)n * sizeof *id);
  if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) memcpy(at, value, (size_t)n * sizeof *at);
  if (name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) {
    memcpy(&align, value, sizeof align);
    assert_int_equal(align, MR_CUDNN_ALIGN);
  }
  return CUDNN_STATUS_SUCCESS;
}

/* One configuration; a plan asks for 100 bytes. */
static cudnnStatus_t get(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, int64_t *count, void *value) {
  const int64_t bytes = 100;
  *count = 1;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) memcpy(value, &bytes, sizeof bytes);
  return CUDNN_STATUS_SUCCESS;
}

static void *given(mr_cudnn_id_t want) {
  for (int64_t i = 0; i < n_ids; i++)
    if (id[i] == want) return at[i];
  return NULL;
}

static const mr_device_t *cuda; /* opened by main */

/* The forward pass of step k gives statistics k + 1; a backward pass notes those that it is given.
 */
static cudnnStatus_t execute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
  bool backward = given(MR_CUDNN_DO) != NULL;
  float stats[ROWS];
  for (int64_t i = 0; i < n_ids; i++)
    if (id[i] != MR_CUDNN_SCALE && id[i] != MR_CUDNN_ONE)
      host_need((uintptr_t)at[i] % MR_CUDNN_ALIGN == 0, "cuDNN is given less than it was promised");
  if (refuses) return CUDNN_STATUS_EXECUTION_FAILED;
  for (int i = 0; i < ROWS; i++) stats[i] = (float)(forwards + 1);
  mr_device_copy(cuda, backward ? (void *)stats : given(MR_CUDNN_STATS),
                 backward ? given(MR_CUDNN_STATS) : (void *)stats, sizeof stats,
                 backward ? MR_COPY_OUT : MR_COPY_IN);
  if (backward)
    seen[backwards++ % STEPS] = stats[0];
  else
    forwards++;
  return CUDNN_STATUS_SUCCESS;
}

static const mr_cudnn_t recording = {.cudnnGetErrorString = no_error,
                                     .cudnnGetLastErrorString = no_last_error,
                                     .cudnnCreate = create,
                                     .cudnnSetStream = set_stream,
                                     .cudnnBackendCreateDescriptor = make,
                                     .cudnnBackendDestroyDescriptor = drop,
                                     .cudnnBackendFinalize = finish,
                                     .cudnnBackendSetAttribute = set,
                                     .cudnnBackendGetAttribute = get,
                                     .cudnnBackendExecute = execute,
                                     .version = 91900,
                                     .path = "recorded"};

/* ---- the graphs ---- */

/* Attention of each row of x (STEPS,1,ROWS,3,1,8), within a scope; the sum of all results. */
static mr_fn_t *scan_of_attention(void) {
  mr_fn_t *f = mr_fn_create(), *body = mr_fn_create();
  const char *outer = mr_scope_enter(body, "block");
  mr_var_t *y =
      mr_lax_attention_packed(body, mr_fn_input(body, mr_aval_of(MR_BF16, 1, ROWS, 3, 1, 8)), 0.5f);
  mr_scope_leave(body, outer);
  assert_int_equal(mr_fn_return(body, 1, &y), MR_OK);
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_BF16, STEPS, 1, ROWS, 3, 1, 8)), *all;
  mr_scan_t s = {.length = STEPS};
  if (mr_lax_scan(f, body, &s, &x, &all) < 0) fail_msg("%s", f->diag.text);
  all = mr_lax_reduce_sum(f, mr_lax_convert(f, all, MR_F32), 5, (int[]){0, 1, 2, 3, 4});
  assert_int_equal(mr_fn_return(f, 1, &all), MR_OK);
  mr_fn_destroy(body);
  return f;
}

static void run(const mr_fn_t *f) {
  mr_compile_options_t o = {.device = cuda};
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  void *in[1], *out[1];
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s\n%s", diag.text, mr_fn_text(f));
  size_t n_in = mr_aval_bytes(&f->in[0]->aval), n_out = mr_aval_bytes(&f->out[0]->aval);
  in[0] = mr_device_take(cuda, n_in), out[0] = mr_device_take(cuda, n_out);
  mr_exec_start(x, (const void *const *)in, out);
  mr_device_reached(cuda, NULL, true, NULL);
  mr_device_give(cuda, in[0], n_in), mr_device_give(cuda, out[0], n_out);
  mr_exec_destroy(x);
}

static void a_step_back_reads_what_the_step_gave(void **state) {
  mr_fn_t *f = scan_of_attention(), *g;
  mr_diag_t diag = {0};
  if (mr_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  run(g);
  assert_int_equal(forwards, STEPS);
  assert_int_equal(backwards, STEPS);
  for (int k = 0; k < STEPS; k++) assert_float_equal(seen[k], STEPS - k, 0);
  mr_fn_destroy(g), mr_fn_destroy(f);
}

/* The kernel computes each step, in the text that CUDA compiles, and cuDNN is not called. */
static void the_kernel_is_asked_for_and_computes(void **state) {
  mr_fn_t *f = scan_of_attention(), *g;
  mr_diag_t diag = {0};
  double *in[2];
  int before = forwards, after = backwards;
  if (mr_grad(f, 1, (int[]){0}, &g, &diag) < 0) fail_msg("%s", diag.text);
  in[0] = doubles(elems(g->in[0]));
  for (int64_t k = 0; k < elems(g->in[0]); k++) in[0][k] = random_in(-2, 2);
  setenv("MILLRACE_ATTENTION", "own", 1);
  device = cuda;
  same_as_in_f64("the sum", f, in, 1e-2, false);
  same_as_in_f64("its gradient", g, in, 1e-2, false);
  unsetenv("MILLRACE_ATTENTION");
  assert_int_equal(forwards, before);
  assert_int_equal(backwards, after);
  free(in[0]);
  mr_fn_destroy(g), mr_fn_destroy(f);
}

static char tuning[64]; /* the tuning file of this process */

#define ROW "attention B=1 T=5 H=1 D=8 bf16 packed"

/* The recorded cuDNN takes no time, so that it is the faster one; a row that says otherwise is
   believed. */
static void the_faster_one_is_measured_and_kept(void **state) {
  mr_cuda_tuning_t row;
  mr_fn_t *f = scan_of_attention();
  int before;
  setenv("MILLRACE_TUNE", "1", 1);
  run(f);
  unsetenv("MILLRACE_TUNE");
  const mr_cuda_device_t *d = mr__cuda_use(cuda);
  assert_true(mr__cuda_tuned_own(d->name, recording.version, ROW, &row));
  assert_int_equal(row.algorithm[0], 0);
  assert_int_equal(access(tuning, R_OK), 0);
  before = forwards;
  run(f);
  assert_int_equal(forwards, before + STEPS);
  row.algorithm[0] = 1;
  mr__cuda_tuned_put(&row);
  run(f);
  assert_int_equal(forwards, before + STEPS);
  setenv("MILLRACE_ATTENTION", "cudnn", 1);
  run(f);
  unsetenv("MILLRACE_ATTENTION");
  assert_int_equal(forwards, before + 2 * STEPS);
  row.algorithm[0] = 0;
  mr__cuda_tuned_put(&row);
  mr_fn_destroy(f);
}

static char said[400];
static void keep_notice(void *arg, const char *text) { snprintf(said, sizeof said, "%s", text); }

/* Last: a device that has failed stays so. */
static void a_pass_that_fails_names_op_and_scope(void **state) {
  mr_fn_t *f = scan_of_attention();
  mr_notice_to(keep_notice, NULL);
  refuses = true;
  run(f);
  mr_notice_to(NULL, NULL);
  if (!strstr(said, "attention in block failed with recorded")) fail_msg("%s", said);
  mr_fn_destroy(f);
}

int main(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  printf("[  SKIPPED ] cuda_rows_under_a_sanitizer\n");
  printf("the kernels of this test are not built for a sanitizer\n");
  return 77;
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_back_reads_what_the_step_gave),
      cmocka_unit_test(the_kernel_is_asked_for_and_computes),
      cmocka_unit_test(the_faster_one_is_measured_and_kept),
      cmocka_unit_test(a_pass_that_fails_names_op_and_scope),
  };
  if (system("g++ --version >/dev/null 2>&1")) {
    printf("[  SKIPPED ] cuda_rows: there is no g++\n");
    return 77;
  }
  snprintf(tuning, sizeof tuning, "/tmp/mr-attention-%ld.txt", (long)getpid());
  setenv("MILLRACE_TUNING", tuning, 1);
  host_put();
  mr__cudnn_put(&recording);
  mr_diag_t diag = {0};
  if (mr_device_open("cuda", &cuda, &diag) < 0) return puts(diag.text), 1;
  int status = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(tuning);
  return status;
}
