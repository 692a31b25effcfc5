/* Every k-th allocation fails: building, reading, copying and transforming graphs gives the failure
   back, and leaves nothing behind. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "model/model.h"

static long countdown; /* 0: none fails; at 1 the next one does, and with `for_good` all after it */
static bool for_good;

static bool fails(void) {
  if (!countdown) return false;
  if (countdown > 1) return countdown--, false;
  countdown = for_good;
  return true;
}

static long live; /* blocks of the library */

static void *counted(void *p) { return live += p != NULL, p; }

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) { return fails() ? NULL : counted(__real_malloc(n)); }
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each) {
  return fails() ? NULL : counted(__real_calloc(n, each));
}
void *__real_aligned_alloc(size_t to, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n);
void *__wrap_aligned_alloc(size_t to, size_t n) {
  return fails() ? NULL : counted(__real_aligned_alloc(to, n));
}
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s) { return fails() ? NULL : counted(__real_strdup(s)); }
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
  if (fails()) return NULL;
  return p ? __real_realloc(p, n) : counted(__real_realloc(NULL, n));
}
void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p) {
  live -= p != NULL;
  __real_free(p);
}

static const char *const texts[] = {
    "{ lambda ; a:f32[3,4] b:f32[4,4]. let\n c:f32[3,4] = dot_general[dimension_numbers=(([1], "
    "[0]), "
    "([], []))] a b\n d:f32[3,4] = tanh c\n e:f32[3,4] = square d\n"
    " f:f32[] = reduce_sum[axes=(0, 1)] e\n in (f,) }",
    "let g = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in\n"
    "{ lambda ; a:f32[3]. let b:f32[3] = jit[name=g jaxpr=g] a\n c:f32[3] = jit[name=g jaxpr=g] b\n"
    " d:f32[2] e:f32[1] = split[axis=0 sizes=(2, 1)] c\n f:f32[] = reduce_sum[axes=(0,)] d\n"
    " in (f,) }",
    "{ lambda ; a:f32[4] b:f32[3,4]. let\n"
    " c:f32[4] d:f32[3,4] = scan[jaxpr={ lambda ; e:f32[4] f:f32[4]. let g:f32[4] = mul e f\n"
    "  h:f32[4] = cos g in (h, g) } length=3 num_carry=1 num_consts=0 reverse=False unroll=1] a b\n"
    " i:f32[] = reduce_sum[axes=(0,)] c\n in (i,) }",
    "{ lambda ; a:f32[4]. let b:i32[] = convert_element_type[new_dtype=int32] 1.0:f32[]\n"
    " c:f32[4] = cond[branches=({ lambda ; d:f32[4]. let e:f32[4] = sin d in (e,) } "
    "{ lambda ; f:f32[4]. let g:f32[4] = remat2[jaxpr={ lambda ; h:f32[4]. let i:f32[4] = exp h in "
    "(i,) }] f in (g,) })] b a\n j:f32[] = reduce_sum[axes=(0,)] c\n in (j,) }",
};

/* MR_ERR_NOMEM or MR_OK, whatever fails on the way. */
static mr_err_t work(const char *text) {
  mr_diag_t diag = {0};
  mr_fn_t *f = NULL, *g = NULL, *h = NULL, *m = NULL;
  mr_err_t e = mr_fn_parse(text, &f, &diag);
  if (e >= 0) e = mr_grad(f, 1, (int[]){0}, &g, &diag);
  if (e >= 0) e = mr_hvp(f, 1, (int[]){0}, &h, &diag);
  if (e >= 0) e = mr_vmap(g, 2, NULL, NULL, &m, &diag);
  mr_exec_t *x = NULL;
  const mr_compile_options_t o = {.threads = 1};
  if (e >= 0) e = mr_compile(m, &o, &x, &diag);
  mr_exec_destroy(x);
  if (e < 0 && (e != MR_ERR_NOMEM || !strstr(diag.text, "memory")))
    fail_msg("%d: %s\n%s", e, diag.text, text);
  mr_fn_destroy(f), mr_fn_destroy(g), mr_fn_destroy(h), mr_fn_destroy(m);
  return e;
}

static void every_failed_allocation_comes_back(void **state) {
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
    for (int good = 0; good < 2; good++) {
      long k = 1;
      mr_err_t e;
      do {
        long before = live;
        countdown = k++, for_good = good;
        e = work(texts[t]);
        bool reached = countdown <= 1;
        countdown = 0;
        if (live != before) fail_msg("allocation %ld of %s leaves %ld", k, texts[t], live - before);
        if (!reached) assert_int_equal(e, MR_OK);
        if (e >= 0 && !reached) break;
      } while (k < 5000);
      assert_in_range(k, 20, 4999);
    }
}

/* The reserve is whole again: after all those a graph can fail as often as before. */
static void a_function_without_memory_has_failed(void **state) {
  for (int i = 0; i < 100000; i++) {
    countdown = 1, for_good = true;
    mr_fn_t *f = mr_fn_create();
    assert_non_null(f);
    mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 2));
    x = mr_lax_add(f, mr_lax_sin(f, x), mr_literal(f, MR_F32, 2));
    assert_null(x);
    assert_int_equal(mr_fn_return(f, 0, NULL), MR_ERR_NOMEM);
    mr_fn_destroy(f);
    countdown = 0;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failed_allocation_comes_back),
      cmocka_unit_test(a_function_without_memory_has_failed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
