/* A run looks up no attribute: they are read when an equation is lowered.  The linker puts the
   functions below in the place of those that look attributes up (test_run_attrs.wrap). */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdatomic.h>

#include "tests/model/grid.h"

static atomic_bool running; /* read by the threads of a run, which starts and ends in this one */
static atomic_int lookups;  /* within runs; relaxed: the run's end orders it */
static _Atomic(const char *) culprit;

static void note(const mr_eqn_t *e) {
  if (!atomic_load_explicit(&running, memory_order_relaxed)) return;
  atomic_fetch_add_explicit(&lookups, 1, memory_order_relaxed);
  atomic_store_explicit(&culprit, e->op->name, memory_order_relaxed);
}

const mr_attr_t *__real_mr_attr_find(const mr_eqn_t *e, const char *name);
const mr_attr_t *__wrap_mr_attr_find(const mr_eqn_t *e, const char *name);
const mr_attr_t *__wrap_mr_attr_find(const mr_eqn_t *e, const char *name) {
  note(e);
  return __real_mr_attr_find(e, name);
}

const mr_attr_t *__real_mr_attr_get(const mr_eqn_t *e, const char *name);
const mr_attr_t *__wrap_mr_attr_get(const mr_eqn_t *e, const char *name);
const mr_attr_t *__wrap_mr_attr_get(const mr_eqn_t *e, const char *name) {
  note(e);
  return __real_mr_attr_get(e, name);
}

const mr_fn_t *__real_mr_attr_called(const mr_eqn_t *e, const char *name);
const mr_fn_t *__wrap_mr_attr_called(const mr_eqn_t *e, const char *name);
const mr_fn_t *__wrap_mr_attr_called(const mr_eqn_t *e, const char *name) {
  note(e);
  return __real_mr_attr_called(e, name);
}

/* Compiled with and without fusion, since units have runs of their own. */
static void run_sample(const mr_op_def_t *op, const mr_sample_t *s, const char *skip) {
  mr_exec_t *x = NULL;
  mr_diag_t diag = {0};
  mr_compile_options_t o = {.skip = skip};
  void *in[MR_SAMPLE_IN], *out[GRID_MAX];
  if (mr_compile(s->f, &o, &x, &diag) < 0) fail_msg("%s: %s", op->name, diag.text);
  for (int i = 0; i < s->f->n_in; i++) {
    const mr_aval_t *a = &s->f->in[i]->aval;
    in[i] = grid_bytes(mr_aval_bytes(a));
    for (int64_t k = 0; k < mr_aval_elems(a); k++)
      mr_set_f64(a->dtype, in[i], k, random_in(s->lo[i], s->hi[i]));
  }
  for (int i = 0; i < s->f->n_out; i++) out[i] = grid_bytes(mr_aval_bytes(&s->f->out[i]->aval));
  atomic_store(&running, true);
  mr_exec_run(x, (const void *const *)in, out);
  atomic_store(&running, false);
  for (int i = 0; i < s->f->n_in; i++) free(in[i]);
  for (int i = 0; i < s->f->n_out; i++) free(out[i]);
  mr_exec_destroy(x);
  if (atomic_load(&lookups)) fail_msg("%s: %s looks up an attribute", op->name, culprit);
}

static void no_op_looks_up_an_attribute_while_it_runs(void **state) {
  int n = 0;
  for (int i = 0; i < mr_n_ops; i++)
    for (int k = 0;; k++, n++) {
      mr_sample_t s = {.f = mr_fn_create()};
      bool there = mr_ops[i]->sample(mr_ops[i], &s, k);
      if (there) {
        run_sample(mr_ops[i], &s, "");
        run_sample(mr_ops[i], &s, "fuse");
      }
      mr_fn_destroy(s.f);
      if (!there) break;
    }
  assert_true(n >= mr_n_ops);
}

/* Lookups are seen at all. */
static void a_lookup_within_a_run_is_noticed(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_var_t *x = mr_lax_cumsum(f, mr_fn_input(f, mr_aval_of(MR_F32, 3)), 0, false);
  atomic_store(&running, true);
  assert_int_equal(mr_attr_get(x->def, "axis")->i[0], 0);
  atomic_store(&running, false);
  assert_int_equal(atomic_exchange(&lookups, 0), 1);
  mr_fn_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lookup_within_a_run_is_noticed),
      cmocka_unit_test(no_op_looks_up_an_attribute_while_it_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
