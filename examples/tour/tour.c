/* A tour of the transforms: gradients of gradients, Jacobians, a Hessian, vmap, compiling, a loop,
   draws by key.

   cc tour.c $(pkg-config --cflags --libs millrace) -o tour && ./tour */
#include <millrace.h>
#include <stdio.h>
#include <stdlib.h>

static mr_diag_t diag;

static void check(mr_err_t err) {
  if (err >= 0) return;
  fprintf(stderr, "tour: %s\n", diag.text);
  exit(1);
}

/* Compiles f and prints its output 0 at x, n numbers a line. */
static void show(const char *what, const mr_fn_t *f, const float *x, int n) {
  _Alignas(64) float in[16] = {0}, out[64];
  mr_exec_t *exec = NULL;
  int64_t count = mr_aval_elems(&f->out[0]->aval);
  for (int64_t i = 0; i < mr_aval_elems(&f->in[0]->aval); i++) in[i] = x[i];
  check(mr_compile(f, NULL, &exec, &diag));
  mr_exec_run(exec, (const void *[]){in}, (void *[]){out});
  printf("%s\n", what);
  for (int64_t i = 0; i < count; i++)
    printf(i % n == n - 1 || i + 1 == count ? " %9.4f\n" : " %9.4f", (double)out[i]);
  mr_exec_destroy(exec);
}

/* f(x) = 3 x^2 + 2 x + 5 */
static mr_fn_t *polynomial(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_var_t *y = mr_lax_scale(f, 3, mr_lax_integer_pow(f, x, 2));
  y = mr_lax_add(f, mr_lax_add(f, y, mr_lax_scale(f, 2, x)), mr_literal(f, MR_F32, 5));
  mr_fn_return(f, 1, &y);
  return f;
}

/* f(x, y, z) = [sin(x) y, exp(z) y, 1 - y]: a vector from a vector. */
static mr_fn_t *vector(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *v = mr_fn_input(f, mr_aval_of(MR_F32, 3)), *e[3];
  for (int64_t i = 0; i < 3; i++) e[i] = mr_lax_slice(f, v, &i, (int64_t[]){i + 1});
  mr_var_t *out[] = {mr_lax_mul(f, mr_lax_sin(f, e[0]), e[1]),
                     mr_lax_mul(f, mr_lax_exp(f, e[2]), e[1]),
                     mr_lax_sub(f, mr_literal(f, MR_F32, 1), e[1])};
  mr_var_t *y = mr_lax_concatenate(f, 3, out, 0);
  mr_fn_return(f, 1, &y);
  return f;
}

/* f(x) = sum(tanh(x)^2) */
static mr_fn_t *scalar(void) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 3));
  mr_var_t *y = mr_lax_integer_pow(f, mr_lax_tanh(f, x), 2);
  y = mr_lax_reduce_sum(f, y, 1, (int[]){0});
  mr_fn_return(f, 1, &y);
  return f;
}

/* x = 0.5 x + 0.1 sin(x), ten times: the step stands there once, however often it runs. */
static mr_fn_t *loop(void) {
  mr_fn_t *f = mr_fn_create(), *step = mr_fn_create();
  mr_fn_input(step, mr_aval_scalar(MR_I32)); /* which round this is */
  mr_var_t *x = mr_fn_input(step, mr_aval_scalar(MR_F32));
  mr_var_t *wave = mr_lax_scale(step, 0.1, mr_lax_sin(step, x));
  x = mr_lax_add(step, mr_lax_scale(step, 0.5, x), wave);
  mr_fn_return(step, 1, &x);
  x = mr_fn_input(f, mr_aval_scalar(MR_F32));
  mr_lax_fori_loop(f, 0, 10, step, 0, &x, &x);
  mr_fn_return(f, 1, &x);
  mr_fn_destroy(step);
  return f;
}

/* Three normal draws by each of two keys, which come of one: vmap over the keys. */
static void draws(void) {
  mr_fn_t *f = mr_fn_create(), *one = mr_fn_create(), *each = NULL;
  mr_var_t *y =
      mr_lax_random_normal(one, mr_fn_input(one, mr_aval_of(MR_U32, 2)), 1, (int64_t[]){3});
  mr_fn_return(one, 1, &y);
  check(mr_vmap(one, 2, NULL, NULL, &each, &diag));
  mr_var_t *keys = mr_lax_random_split(f, mr_fn_input(f, mr_aval_of(MR_U32, 2)), 2);
  mr_inline(f, each, &keys, &y);
  mr_fn_return(f, 1, &y);
  _Alignas(64) uint32_t key[2];
  mr_prng_t seed = mr_prng(42, MR_KEY_PARTITIONABLE);
  _Alignas(64) float out[6];
  mr_exec_t *exec = NULL;
  key[0] = seed.key.a, key[1] = seed.key.b;
  check(mr_compile(f, NULL, &exec, &diag));
  mr_exec_run(exec, (const void *[]){key}, (void *[]){out});
  printf("normal draws by two keys split from PRNGKey(42)\n");
  for (int i = 0; i < 6; i++) printf(i % 3 == 2 ? " %9.4f\n" : " %9.4f", (double)out[i]);
  mr_exec_destroy(exec);
  mr_fn_destroy(f);
  mr_fn_destroy(one);
  mr_fn_destroy(each);
}

int main(void) {
  const int first[] = {0};
  const float x[] = {1, 2, 0.5f}, two_rows[] = {1, 2, 0.5f, 0, -1, 2};
  mr_fn_t *p = polynomial(), *dp = NULL, *ddp = NULL, *f = vector(), *fwd = NULL, *rev = NULL;
  mr_fn_t *s = scalar(), *ds = NULL, *hessian = NULL, *rows = NULL;
  check(mr_grad(p, 1, first, &dp, &diag));
  check(mr_grad(dp, 1, first, &ddp, &diag));
  show("3x^2 + 2x + 5 at 1", p, x, 1);
  show("grad", dp, x, 1);
  show("grad of grad", ddp, x, 1);
  check(mr_jacfwd(f, 1, first, &fwd, &diag));
  check(mr_jacrev(f, 1, first, &rev, &diag));
  show("jacfwd of [sin(x) y, exp(z) y, 1 - y] at (1, 2, 0.5)", fwd, x, 3);
  show("jacrev", rev, x, 3);
  check(mr_hessian(s, 1, first, &hessian, &diag));
  show("hessian of sum(tanh(x)^2)", hessian, x, 3);
  check(mr_grad(s, 1, first, &ds, &diag));
  check(mr_vmap(ds, 2, NULL, NULL, &rows, &diag));
  show("vmap(grad) over two rows", rows, two_rows, 3);
  mr_fn_t *l = loop(), *dl = NULL;
  check(mr_grad(l, 1, first, &dl, &diag));
  show("ten times x = 0.5 x + 0.1 sin(x), from 1", l, x, 1);
  show("its gradient", dl, x, 1);
  mr_fn_print(l, stdout);
  draws();
  printf("vmap(grad) as a jaxpr\n");
  mr_fn_print(rows, stdout);
  mr_fn_t *all[] = {p, dp, ddp, f, fwd, rev, s, ds, hessian, rows, l, dl};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mr_fn_destroy(all[i]);
  return 0;
}
