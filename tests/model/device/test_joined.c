/* Loops over several tensors (the pass `join`) on a device: the bits of one kernel for each tensor,
   in fewer kernels; random updates that read one another's results; results that are written over
   their operands, as a training step's are. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>

#include "model/exec/explain.h"
#include "tests/model/device_run.h"

enum { TENSORS = 20, SETS = 3, ENDS = SETS * TENSORS + 4 };
_Static_assert(ENDS <= GRID_MAX, "what run_there takes");

static int kernels_of(const mr_fn_t *f, const char *skip) {
  mr_compile_options_t o = {.device = device, .skip = skip};
  mr_explained_t r;
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  if (mr_explained_init(&r, x, &diag) < 0) fail_msg("%s", diag.text);
  int n = (int)r.kernels;
  mr_explained_fini(&r);
  mr_exec_destroy(x);
  return n;
}

static mr_aval_t random_aval(void) {
  mr_aval_t a = mr_aval_of(MR_F32, 1 + (int64_t)(grid_random() % 40));
  if (grid_random() % 3 == 0) a = mr_aval_of(MR_F32, 1 + (int64_t)(grid_random() % 9), 17);
  if (grid_random() % 9 == 0) a = mr_aval_of(MR_F32, 1);
  if (grid_random() % 9 == 0) a = mr_aval_of(MR_F32, 300, 257);
  return a;
}

/* x spread to the shape of `like`. */
static mr_var_t *spread(mr_fn_t *f, mr_var_t *x, const mr_var_t *like) {
  return mr_lax_broadcast_in_dim(f, x, like->aval.ndim, like->aval.dim, NULL);
}

/* An update of p by g and a moment m, with a rate that all updates share: *next_m, and the next p.
   Those of one kind are the same formula. */
static mr_var_t *updated(mr_fn_t *f, int kind, mr_var_t *p, mr_var_t *g, mr_var_t *m, mr_var_t *lr,
                         mr_var_t **next_m) {
  mr_var_t *keep = mr_lax_scale(f, kind == 1 ? 0.5 : 0.9, m);
  *next_m = mr_lax_add(f, keep, kind == 2 ? mr_lax_mul(f, g, g) : mr_lax_scale(f, 0.1, g));
  mr_var_t *step = mr_lax_div(
      f, g, mr_lax_add(f, mr_lax_sqrt(f, mr_lax_abs(f, *next_m)), mr_literal(f, MR_F32, 1e-3)));
  return mr_lax_sub(f, p, mr_lax_mul(f, spread(f, lr, p), step));
}

/* lr, then TENSORS gradients, moments and parameters -> moments and parameters.  With `apart`,
   gradients are of other tensors' results now and then. */
static mr_fn_t *updates(int kinds, bool apart) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *lr = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *g[TENSORS], *in[2][TENSORS], *out[2 * TENSORS];
  mr_aval_t a[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    a[i] = i && grid_random() % 4 == 0 ? a[i - 1] : random_aval();
    g[i] = mr_fn_input(f, a[i]);
  }
  for (int set = 0; set < 2; set++)
    for (int i = 0; i < TENSORS; i++) in[set][i] = mr_fn_input(f, a[i]);
  for (int i = 0; i < TENSORS; i++) {
    mr_var_t *from = g[i];
    int other = (int)(grid_random() % TENSORS);
    if (apart && other < i && mr_aval_equal(&a[other], &a[i])) from = out[TENSORS + other];
    out[TENSORS + i] =
        updated(f, (int)(grid_random() % (uint32_t)kinds), in[1][i], from, in[0][i], lr, &out[i]);
  }
  if (mr_fn_return(f, 2 * TENSORS, out) < 0) fail_msg("%s", f->diag.text);
  return f;
}

static void random_bytes(const mr_fn_t *f, void **bytes) {
  for (int i = 0; i < f->n_in; i++) {
    int64_t n = mr_aval_elems(&f->in[i]->aval);
    double *x = doubles(n);
    for (int64_t k = 0; k < n; k++) x[k] = random_in(-2, 2);
    bytes[i] = bytes_of(&f->in[i]->aval, x);
    free(x);
  }
}

static void same_bits(const mr_fn_t *f, unsigned seed) {
  void *bytes[GRID_MAX], *alone[GRID_MAX], *joined[GRID_MAX];
  random_bytes(f, bytes);
  run_there("alone", f, "join", bytes, alone);
  run_there("joined", f, NULL, bytes, joined);
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    if (memcmp(alone[i], joined[i], n)) fail_msg("seed %u: output %d\n%s", seed, i, mr_fn_text(f));
    free(alone[i]), free(joined[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
}

static void joined_loops_have_the_bits_of_single_ones(void **state) {
  for (unsigned seed = 0; seed < 6; seed++) {
    grid_state = (seed + 1) * 2654435761u;
    mr_fn_t *f = updates(1 + (int)seed % 3, seed > 2);
    same_bits(f, seed);
    mr_fn_destroy(f);
  }
}

/* x r (1 - s) of three operands, in an order for each loop. */
static void loops_read_their_operands_in_any_order(void **state) {
  static const int order[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}};
  enum { LOOPS = sizeof order / sizeof *order, N = 100 };
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v[3], *y[LOOPS];
  double *in[3];
  for (int i = 0; i < 3; i++) {
    v[i] = mr_fn_input(f, mr_aval_of(MR_F32, N));
    in[i] = doubles(N);
    for (int64_t k = 0; k < N; k++) in[i][k] = random_in(-2, 2);
  }
  for (int j = 0; j < LOOPS; j++) {
    mr_var_t *x = mr_lax_mul(f, v[order[j][0]], v[order[j][1]]);
    y[j] = mr_lax_mul(f, x, mr_lax_sub(f, mr_lax_full(f, &x->aval, 1), v[order[j][2]]));
  }
  if (mr_fn_return(f, LOOPS, y) < 0) fail_msg("%s", f->diag.text);
  assert_true(kernels_of(f, NULL) < kernels_of(f, "join"));
  same_as_in_f64("operands in any order", f, in, 1e-5, false);
  for (int i = 0; i < 3; i++) free(in[i]);
  mr_fn_destroy(f);
}

/* Parameters are converted, and those of three products joined; results are cut apart. */
static void moves_of_many_tensors_are_few_kernels(void **state) {
  enum { N = 12 };
  mr_fn_t *f = mr_fn_create();
  mr_var_t *y[2 * N], *whole;
  void *bytes[GRID_MAX], *apart[GRID_MAX], *beside[GRID_MAX];
  grid_state = 9;
  for (int i = 0; i < N; i++) {
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3 + i % 5, 17));
    mr_var_t *z = mr_fn_input(f, mr_aval_of(MR_F32, 3 + i % 5, 17 + i));
    whole = mr_lax_concatenate(f, 2, (mr_var_t *[]){x, z}, 1);
    y[2 * i] = mr_lax_convert(f, whole, i % 2 ? MR_BF16 : MR_F16);
    y[2 * i + 1] = mr_lax_slice(f, mr_lax_tanh(f, z), (int64_t[]){1, 2}, (int64_t[]){3, 17});
  }
  if (mr_fn_return(f, 2 * N, y) < 0) fail_msg("%s", f->diag.text);
  assert_in_range(kernels_of(f, NULL), 1, N + 4);
  assert_in_range(kernels_of(f, "beside"), 4 * N - 8, 4 * N);
  random_bytes(f, bytes);
  run_there("apart", f, "beside", bytes, apart);
  run_there("side by side", f, NULL, bytes, beside);
  for (int i = 0; i < f->n_out; i++) {
    assert_memory_equal(apart[i], beside[i], mr_aval_bytes(&f->out[i]->aval));
    free(apart[i]), free(beside[i]);
  }
  for (int i = 0; i < f->n_in; i++) free(bytes[i]);
  mr_fn_destroy(f);
}

static void updates_of_all_tensors_are_few_kernels(void **state) {
  grid_state = 77;
  mr_fn_t *f = updates(1, false);
  int alone = kernels_of(f, "join"), joined = kernels_of(f, NULL);
  assert_true(alone >= TENSORS - 2); /* tensors of one element have a loop of their own */
  /* Five operands and results of each tensor, and one that all share. */
  assert_in_range(joined, 1, 6 + alone - TENSORS + 4);
  mr_fn_destroy(f);
}

/* A third of the arrays are gradients, which are not donated. */
static void a_donated_update_needs_no_memory(void **state) {
  grid_state = 5;
  mr_fn_t *f = updates(1, false);
  mr_compile_options_t o = {.device = device, .in_place = 2 * TENSORS};
  void *bytes[GRID_MAX], *want[GRID_MAX], *a[GRID_MAX];
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  random_bytes(f, bytes);
  run_there("apart", f, "join", bytes, want);
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  assert_int_equal(mr_exec_peak_bytes(x), 0);
  for (int i = 0; i < f->n_in; i++) a[i] = there(bytes[i], mr_aval_bytes(&f->in[i]->aval));
  void **y = a + f->n_in - f->n_out;
  mr_exec_run(x, (const void *const *)a, y);
  for (int i = 0; i < f->n_out; i++) {
    size_t n = mr_aval_bytes(&f->out[i]->aval);
    void *got = grid_bytes(n);
    mr_device_copy(device, got, y[i], n, MR_COPY_OUT);
    assert_memory_equal(got, want[i], n);
    free(got), free(want[i]);
  }
  for (int i = 0; i < f->n_in; i++) {
    mr_device_give(device, a[i], mr_aval_bytes(&f->in[i]->aval));
    free(bytes[i]);
  }
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(joined_loops_have_the_bits_of_single_ones),
      cmocka_unit_test(loops_read_their_operands_in_any_order),
      cmocka_unit_test(moves_of_many_tensors_are_few_kernels),
      cmocka_unit_test(updates_of_all_tensors_are_few_kernels),
      cmocka_unit_test(a_donated_update_needs_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
