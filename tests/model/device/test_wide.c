/* Loops whose items compute eight neighbouring elements: random ones, with broadcasts of every
   form, dropout and sums of columns, give the bits of the same loops of one element an item, which
   are what a promise of 8 bytes of alignment asks for. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "model/backends/kernels/kernel.h"
#include "tests/model/device_run.h"

enum { VALUES = 9, PLAIN = 8 /* bytes of alignment, too few for wide loops */ };

typedef struct maker {
  mr_fn_t *f;
  mr_aval_t a;
  mr_var_t *v[2 * VALUES];
  int n;
  mr_var_t *seed, *step;
} maker_t;

static mr_var_t *some_of(const maker_t *m) { return m->v[grid_random() % (uint32_t)m->n]; }

static mr_dtype_t some_dtype(void) {
  static const mr_dtype_t t[] = {MR_F32, MR_BF16, MR_F16};
  return t[grid_random() % 3];
}

/* An input of one or two of the dimensions, broadcast to all. */
static mr_var_t *spread(maker_t *m) {
  mr_dtype_t t = some_dtype();
  const int64_t *dim = m->a.dim;
  mr_aval_t to = mr_aval_of(t, dim[0], dim[1], dim[2]);
  switch (grid_random() % 5) {
    case 0:
      return mr_lax_broadcast_in_dim(m->f, mr_fn_input(m->f, mr_aval_of(t, dim[2])), 3, to.dim,
                                     (int[]){2});
    case 1:
      return mr_lax_broadcast_in_dim(m->f, mr_fn_input(m->f, mr_aval_of(t, dim[0])), 3, to.dim,
                                     (int[]){0});
    case 2:
      return mr_lax_broadcast_in_dim(m->f, mr_fn_input(m->f, mr_aval_of(t, dim[1])), 3, to.dim,
                                     (int[]){1});
    case 3:
      return mr_lax_broadcast_in_dim(m->f, mr_fn_input(m->f, mr_aval_of(t, dim[1], dim[2])), 3,
                                     to.dim, (int[]){1, 2});
    default:
      return mr_lax_broadcast_in_dim(m->f, mr_fn_input(m->f, mr_aval_scalar(t)), 3, to.dim, NULL);
  }
}

static mr_var_t *next_value(maker_t *m) {
  mr_fn_t *f = m->f;
  mr_var_t *a = some_of(m), *b = grid_random() % 3 ? some_of(m) : spread(m);
  mr_dtype_t t = some_dtype();
  a = mr_lax_convert(f, a, t), b = mr_lax_convert(f, b, t);
  switch (grid_random() % 7) {
    case 0: return mr_lax_tanh(f, mr_lax_add(f, a, b));
    case 1: return mr_lax_mul(f, mr_lax_tanh(f, a), b);
    case 2: return mr_lax_max(f, a, mr_lax_neg(f, b));
    case 3: return mr_lax_select_n(f, mr_lax_lt(f, a, b), a, b);
    case 4: return mr_lax_sub(f, mr_lax_scale(f, 0.5, a), b);
    default:
      return mr_lax_dropout(f, mr_lax_add(f, a, b), 0.25f, (int)(grid_random() % 9), m->seed,
                            m->step);
  }
}

static mr_fn_t *random_loop(int64_t d0, int64_t d1, int64_t d2) {
  maker_t m = {.f = mr_fn_create(), .a = mr_aval_of(MR_F32, d0, d1, d2)};
  mr_var_t *out[6];
  int n = 0;
  m.seed = mr_fn_input(m.f, mr_aval_scalar(MR_U64));
  m.step = mr_fn_input(m.f, mr_aval_scalar(MR_U32));
  for (int i = 0; i < 3; i++) m.v[m.n++] = mr_fn_input(m.f, mr_aval_of(some_dtype(), d0, d1, d2));
  while (m.n < VALUES) {
    mr_var_t *v = next_value(&m);
    m.v[m.n++] = v;
  }
  for (int i = 0; i < 2; i++) out[n++] = m.v[m.n - 1 - i];
  mr_var_t *x = mr_lax_convert(m.f, m.v[m.n - 1], MR_F32);
  int axes = (int)(grid_random() % 3);
  if (axes) out[n++] = mr_lax_reduce_sum(m.f, x, axes, (int[]){0, 1});
  if (axes == 2) out[n++] = mr_lax_reduce_max(m.f, mr_lax_mul(m.f, x, x), axes, (int[]){0, 1});
  if (grid_random() % 3 == 0) out[n++] = mr_lax_reduce_sum(m.f, m.v[0], 2, (int[]){0, 1});
  mr_fn_return(m.f, n, out);
  return m.f;
}

/* How many kernels of f, as it is compiled with wide loops, read eight elements at once. */
static int wide_kernels(const mr_fn_t *f) {
  mr_compile_options_t o = {.device = device};
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  int n = 0;
  if (mr_compile(f, &o, &x, &diag) < 0) fail_msg("%s", diag.text);
  const mr_fn_t *g = mr_exec_fn(x);
  for (int i = 0; i < g->n_eqn; i++) {
    mr_kernels_t k = {0};
    if (mr_kernels_write(g->eqn[i], 64, &k, NULL) < 0) continue;
    for (int j = 0; j < k.n; j++) n += strstr(k.kernel[j].text, "load8_") != NULL;
    mr_kernels_fini(&k);
    if (mr_kernels_write(g->eqn[i], PLAIN, &k, NULL) < 0) continue;
    for (int j = 0; j < k.n; j++) assert_null(strstr(k.kernel[j].text, "load8_"));
    mr_kernels_fini(&k);
  }
  mr_exec_destroy(x);
  return n;
}

static void same_wide_and_plain(const char *what, const mr_fn_t *f) {
  same_either_way(what, f, 2, (mr_compile_options_t){0}, (mr_compile_options_t){.align = PLAIN});
}

static void random_loops_have_the_bits_of_single_elements(void **state) {
  static const int64_t sizes[][3] = {{4, 65, 128}, {64, 64, 8},  {3, 2731, 8},
                                     {33, 8, 128}, {2, 5, 4096}, {2049, 16, 1}};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  const char *n = getenv("MILLRACE_PROGRAMS");
  unsigned rounds = n ? (unsigned)strtoul(n, NULL, 10) : 18;
  int wide = 0;
  for (unsigned seed = 0; seed < rounds; seed++) {
    char what[48];
    const int64_t *d = sizes[seed % SIZES];
    grid_state = (seed + 1) * 2654435761u;
    snprintf(what, sizeof what, "random loop of seed %u", seed);
    mr_fn_t *f = random_loop(d[0], d[1], d[2]);
    if (f->diag.code < 0) fail_msg("%s: %s", what, f->diag.text);
    wide += wide_kernels(f);
    same_wide_and_plain(what, f);
    mr_fn_destroy(f);
  }
  printf("%d kernels of %u programs read eight elements at once\n", wide, rounds);
  assert_true(wide * 2 >= (int)rounds);
}

/* Sums of columns alone, few and many, of few terms and of many: in parts, and whole. */
static void sums_of_columns_are_those_of_f64(void **state) {
  static const int64_t sizes[][2] = {{2048, 8},  {8320, 24},   {4099, 40}, {3000, 7},
                                     {128, 512}, {2100, 1536}, {7, 8192}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    static const mr_dtype_t some[] = {MR_F32, MR_BF16, MR_F16};
    mr_fn_t *f = mr_fn_create();
    mr_var_t *x = mr_fn_input(f, mr_aval_of(some[i % 3], sizes[i][0], sizes[i][1]));
    mr_var_t *w = mr_lax_convert(f, x, MR_F32);
    mr_var_t *out[] = {
        mr_lax_scale(f, 1.0 / (double)sizes[i][0], mr_lax_reduce_sum(f, w, 1, (int[]){0})),
        mr_lax_reduce_max(f, x, 1, (int[]){0})};
    double *in[1] = {doubles(elems(x))};
    char what[64];
    for (int64_t k = 0; k < elems(x); k++) in[0][k] = random_in(-2, 2);
    snprintf(what, sizeof what, "columns of %lld x %lld", (long long)sizes[i][0],
             (long long)sizes[i][1]);
    mr_fn_return(f, 2, out);
    same_as_in_f64(what, f, in, 1e-5, some[i % 3] != MR_F32);
    same_wide_and_plain(what, f);
    free_all(1, in);
    mr_fn_destroy(f);
  }
}

/* Sums of no terms are 0, and there may be many of them. */
static void sums_of_nothing_are_0(void **state) {
  static const int64_t sizes[][2] = {{0, 40}, {7, 0}, {0, 0}, {1, 40}};
  for (int i = 0; i < 4; i++)
    for (int axis = 0; axis < 2; axis++) {
      mr_fn_t *f = mr_fn_create();
      mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, sizes[i][0], sizes[i][1]));
      mr_var_t *out[] = {mr_lax_reduce_sum(f, x, 1, &axis),
                         mr_lax_reduce_sum(f, x, 2, (int[]){0, 1})};
      double *in[1] = {doubles(elems(x) + 1)};
      assert_int_equal(mr_fn_return(f, 2, out), MR_OK);
      same_as_in_f64("a sum of nothing", f, in, 1e-6, false);
      free_all(1, in);
      mr_fn_destroy(f);
    }
}

int main(int argc, char **argv) {
  int status = open_device(argc, argv);
  if (status) return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_loops_have_the_bits_of_single_elements),
      cmocka_unit_test(sums_of_columns_are_those_of_f64),
      cmocka_unit_test(sums_of_nothing_are_0),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
