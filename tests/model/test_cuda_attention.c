/* Attention's graphs for cuDNN, without a GPU: cuDNN's own heuristic, asked for
   a described H200, names engines for the shapes that the backend takes and for
   none of those that it refuses.

   The heuristic wants a driver to be loaded, though it asks it for nothing: the
   toolkit's stub of libcuda will do. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/xio.h"
#include "model/backends/cuda/attention_graph.h"
#include "model/model.h"

static const mr_cudnn_t *cudnn;
static char *h200; /* the description */

static int configurations(const mr_cuda_attention_t *a) {
  mr_cudnn_graph_t g;
  mr_diag_t diag = {0};
  int n = -1;
  if (mr__cudnn_graph(cudnn, a, NULL, &g, &diag) == MR_OK) {
    cudnnBackendDescriptor_t device = mr__cudnn_described(&g, h200);
    assert_non_null(device);
    n = mr__cudnn_configurations(&g, device);
  }
  mr__cudnn_graph_fini(&g);
  return n;
}

static void shapes_that_the_backend_takes_have_engines(void **state) {
  static const struct {
    int64_t B, T, H, D;
  } shape[] = {{128, 65, 8, 48}, {4096, 65, 8, 48}, {1, 65, 8, 48},
               {128, 64, 8, 48}, {128, 80, 6, 64},  {2, 1024, 12, 64},
               {16, 197, 3, 64}, {3, 17, 2, 8},     {128, 65, 2, 128}};
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (int k = 0; k < 8; k++) {
      mr_cuda_attention_t a = {
          shape[i].B,   shape[i].T,  shape[i].H, shape[i].D, k & 1 ? MR_F16 : MR_BF16,
          (k & 2) != 0, (k & 4) != 0};
      if (configurations(&a) <= 0)
        fail_msg("no engine for B=%d T=%d H=%d D=%d, variant %d", (int)a.B, (int)a.T, (int)a.H,
                 (int)a.D, k);
    }
}

static void a_head_of_another_size_has_no_engine(void **state) {
  static const int64_t D[] = {44, 47, 50, 4};
  for (int i = 0; i < 8; i++) {
    mr_cuda_attention_t a = {128, 65, 8, D[i / 2], MR_BF16, true, i % 2};
    assert_true(configurations(&a) <= 0);
  }
}

/* An equation of attention, or of its backward pass, on q, k, v of (B,T,H,D).
 */
static mr_fn_t *attention_of(mr_dtype_t t, int64_t D, bool packed, bool backward) {
  mr_fn_t *f = mr_fn_create(), *g = NULL;
  mr_diag_t diag = {0};
  int wrt[] = {0, 1, 2};
  mr_var_t *y = NULL;
  if (packed) {
    y = mr_lax_attention_packed(f, mr_fn_input(f, mr_aval_of(t, 2, 5, 3, 4, D)), 0.5f);
  } else {
    mr_var_t *q[3];
    for (int i = 0; i < 3; i++) q[i] = mr_fn_input(f, mr_aval_of(t, 2, 5, 4, D));
    y = mr_lax_attention(f, q[0], q[1], q[2], 0.5f);
  }
  if (backward) y = mr_lax_reduce_sum(f, mr_lax_convert(f, y, MR_F32), 4, (int[]){0, 1, 2, 3});
  if (mr_fn_return(f, 1, &y) < 0) fail_msg("%s", f->diag.text);
  if (backward && mr_grad(f, f->n_in, wrt, &g, &diag) < 0) fail_msg("%s", diag.text);
  if (backward) mr_fn_destroy(f), f = g;
  return f;
}

static const mr_eqn_t *equation_of(const mr_fn_t *f, const mr_op_def_t *op) {
  for (int i = 0; i < f->n_eqn; i++)
    if (f->eqn[i]->op == op) return f->eqn[i];
  fail_msg("no %s in %s", op->name, mr_fn_text(f));
  return NULL;
}

static void equations_are_taken_by_dtype_and_head(void **state) {
  static const struct {
    mr_dtype_t t;
    int64_t D;
    bool taken;
  } of[] = {{MR_BF16, 48, true},  {MR_F16, 8, true},   {MR_F32, 48, false},
            {MR_BF16, 44, false}, {MR_BF16, 4, false}, {MR_F16, 100, false}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int k = 0; k < 4; k++) {
      mr_cuda_attention_t a;
      mr_fn_t *f = attention_of(of[i].t, of[i].D, k & 1, k & 2);
      const mr_eqn_t *e = equation_of(f, k & 2 ? &mr_op_attention_vjp : &mr_op_attention);
      assert_int_equal(mr__cuda_attention(e, &a), of[i].taken);
      if (of[i].taken) {
        assert_true(a.B == 2 && a.T == 5 && a.H == 4 && a.D == of[i].D && a.dtype == of[i].t);
        assert_true(a.packed == (k & 1) && a.backward == (k >> 1));
      }
      mr_fn_destroy(f);
    }
}

static void a_description_that_is_none_is_refused(void **state) {
  mr_cuda_attention_t a = {128, 65, 8, 48, MR_BF16, true, false};
  mr_cudnn_graph_t g;
  mr_diag_t diag = {0};
  assert_int_equal(mr__cudnn_graph(cudnn, &a, NULL, &g, &diag), MR_OK);
  assert_null(mr__cudnn_described(&g, "{\"deviceVer\": 900}"));
  mr__cudnn_graph_fini(&g);
}

static mr_cudnn_t old;

static void versions_that_are_too_old_or_wrong_are_refused(void **state) {
  static const struct {
    size_t version;
    const char *says, *wants;
  } bad[] = {{90500, "is cuDNN 9.5", "want 9.8 or newer"},
             {91000, "is cuDNN 9.10.0", "want 9.10.2 or newer"},
             {91001, "is cuDNN 9.10.1", "want 9.10.2 or newer"}};
  const mr_cudnn_t *c = NULL;
  old = *cudnn;
  mr__cudnn_put(&old);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mr_diag_t diag = {0};
    old.version = bad[i].version;
    assert_int_equal(mr__cudnn(&c, &diag), MR_ERR_UNAVAILABLE);
    assert_non_null(strstr(diag.text, bad[i].says));
    assert_non_null(strstr(diag.text, bad[i].wants));
  }
  old.version = 91002;
  assert_int_equal(mr__cudnn(&c, NULL), MR_OK);
  mr__cudnn_put(NULL);
}

/* Before 9.16 only the backward pass of any number of rows is refused. */
static void the_backward_pass_of_old_versions_wants_multiples_of_128(void **state) {
  static const struct {
    size_t version;
    int64_t T;
    bool backward, taken;
  } of[] = {{91500, 65, true, false}, {91501, 197, true, false}, {91500, 128, true, true},
            {91500, 65, false, true}, {91600, 65, true, true},   {90800, 256, true, true}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    mr_cuda_attention_t a = {16, of[i].T, 3, 64, MR_BF16, true, of[i].backward};
    mr_cudnn_graph_t g;
    mr_diag_t diag = {0};
    old = *cudnn, old.version = of[i].version;
    mr_err_t e = mr__cudnn_graph(&old, &a, NULL, &g, &diag);
    mr__cudnn_graph_fini(&g);
    assert_int_equal(e, of[i].taken ? MR_OK : MR_ERR_UNAVAILABLE);
    if (e < 0) assert_non_null(strstr(diag.text, "want 9.16 or newer"));
  }
}

/* Which arrays of the device a graph has, by the numbers that it declares, and their alignment. */
static bool declared[MR_CUDNN_IDS];
static int64_t declared_align;
static cudnnStatus_t noting_set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                cudnnBackendAttributeType_t type, int64_t n, const void *value) {
  int64_t number = 0;
  if (name == CUDNN_ATTR_TENSOR_UNIQUE_ID || name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
    memcpy(&number, value, sizeof number);
  if (name == CUDNN_ATTR_TENSOR_UNIQUE_ID && number < MR_CUDNN_IDS) declared[number] = true;
  if (name == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && number > declared_align) declared_align = number;
  return cudnn->cudnnBackendSetAttribute(d, name, type, n, value);
}

/* An accumulator of f32 in memory is added to by atomic operations, in any order; without one, two
   runs give the same bits. */
static void more_than_128_rows_have_no_accumulator(void **state) {
  static const int64_t T[] = {65, 128, 129, 197, 1024};
  for (size_t i = 0; i < sizeof T / sizeof *T; i++) {
    mr_cuda_attention_t a = {16, T[i], 3, 64, MR_BF16, true, true};
    mr_cudnn_t t = *cudnn;
    mr_cudnn_graph_t g;
    memset(declared, 0, sizeof declared), declared_align = 0;
    t.cudnnBackendSetAttribute = noting_set;
    assert_int_equal(mr__cudnn_graph(&t, &a, NULL, &g, NULL), MR_OK);
    mr__cudnn_graph_fini(&g);
    assert_int_equal(declared[MR_CUDNN_DQ_SUM], T[i] <= 128);
    assert_true(declared[MR_CUDNN_DQ] && declared[MR_CUDNN_DSUM]);
    assert_int_equal(declared_align, MR_CUDNN_ALIGN);
  }
}

/* Calls that count what is made and destroyed. */
static int living;
static cudnnStatus_t counted_create(cudnnBackendDescriptorType_t type,
                                    cudnnBackendDescriptor_t *d) {
  living++;
  return cudnn->cudnnBackendCreateDescriptor(type, d);
}
static cudnnStatus_t counted_destroy(cudnnBackendDescriptor_t d) {
  living--;
  return cudnn->cudnnBackendDestroyDescriptor(d);
}
static int left_to_finalize;
static cudnnStatus_t failing_finalize(cudnnBackendDescriptor_t d) {
  return left_to_finalize-- ? cudnn->cudnnBackendFinalize(d) : CUDNN_STATUS_BAD_PARAM;
}

static void a_call_that_fails_ends_the_graph_and_frees_what_was_made(void **state) {
  mr_cudnn_t t = *cudnn;
  mr_cuda_attention_t a = {128, 65, 8, 48, MR_BF16, true, true};
  t.cudnnBackendCreateDescriptor = counted_create;
  t.cudnnBackendDestroyDescriptor = counted_destroy;
  t.cudnnBackendFinalize = failing_finalize;
  int n = 0;
  for (mr_err_t e = MR_ERR_UNAVAILABLE; e != MR_OK; n++) {
    mr_cudnn_graph_t g;
    mr_diag_t diag = {0};
    left_to_finalize = n;
    e = mr__cudnn_graph(&t, &a, NULL, &g, &diag);
    assert_true(e == MR_OK || (e == MR_ERR_UNAVAILABLE && strstr(diag.text, "cuDNN refuses")));
    assert_int_equal(living, g.n_made);
    mr__cudnn_graph_fini(&g);
    assert_int_equal(living, 0);
    assert_true(n < 200);
  }
  assert_true(n > 50); /* descriptors of the whole graph */
}

static bool has_driver(void) {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) ||
         dlopen(MR_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL);
}

#ifdef __SANITIZE_ADDRESS__
/* cuDNN unloads its engines at the end of the process without freeing what they hold.  What the
   backend itself makes is counted by the test of calls that fail. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_that_the_backend_takes_have_engines),
      cmocka_unit_test(a_head_of_another_size_has_no_engine),
      cmocka_unit_test(equations_are_taken_by_dtype_and_head),
      cmocka_unit_test(a_description_that_is_none_is_refused),
      cmocka_unit_test(versions_that_are_too_old_or_wrong_are_refused),
      cmocka_unit_test(the_backward_pass_of_old_versions_wants_multiples_of_128),
      cmocka_unit_test(more_than_128_rows_have_no_accumulator),
      cmocka_unit_test(a_call_that_fails_ends_the_graph_and_frees_what_was_made),
  };
  mr_diag_t diag = {0};
  size_t n;
  void *text;
  if (mr__cudnn(&cudnn, &diag) < 0 || !has_driver()) {
    printf("[  SKIPPED ] cuda_attention\n%s\n",
           *diag.text ? diag.text : "no libcuda, nor its stub");
    return 77;
  }
  if (mr_read_file(MR_SOURCE_DIR "/tests/model/cuda_h200.json", 1 << 16, &text, &n, &diag) < 0) {
    fprintf(stderr, "%s\n", diag.text);
    return 1;
  }
  h200 = text;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(h200);
  return failed;
}
