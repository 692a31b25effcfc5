/* Numbers in place of inputs, for every op on its own samples: what the compiler folds, merges and
   binds of them gives what the same values give as inputs. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/cell.h"

/* One number of v's dtype throughout: as it is for a scalar, else reshaped there and back, which
   moves nothing, and spread. */
static mr_var_t *constant(mr_fn_t *f, const mr_var_t *v, double value) {
  const mr_aval_t *a = &v->aval;
  mr_var_t *x = mr_literal(f, a->dtype, value);
  if (!a->ndim) return x;
  x = mr_lax_reshape(f, mr_lax_reshape_to(f, x, 1), 0, NULL);
  return mr_lax_broadcast_in_dim(f, x, a->ndim, a->dim, NULL);
}

/* A number that v's dtype holds, in the middle of what input i of c is drawn from. */
static double number(const cell_t *c, const mr_var_t *v, int i) {
  bool own = i < c->f->n_in;
  double lo = own ? c->sample.lo[i] : 0.5, hi = own ? c->sample.hi[i] : 1.5;
  double middle = mr_is_float(v->aval.dtype) ? 0.25 * lo + 0.75 * hi : floor((lo + hi) / 2);
  char room[16];
  mr_set_f64(v->aval.dtype, room, 0, middle);
  return mr_get_f64(v->aval.dtype, room, 0);
}

/* f with the number in place of input `which`; -1: of all of them.  It still takes them all. */
static mr_fn_t *with_constants(const cell_t *c, const mr_fn_t *f, int which) {
  mr_fn_t *g = mr_fn_create();
  mr_var_t *in[GRID_MAX], *out[GRID_MAX];
  for (int i = 0; i < f->n_in; i++) mr_fn_input(g, f->in[i]->aval);
  for (int i = 0; i < f->n_in; i++)
    in[i] = which < 0 || which == i ? constant(g, f->in[i], number(c, f->in[i], i)) : g->in[i];
  if (mr_inline(g, f, in, out) < 0 || mr_fn_return(g, f->n_out, out) < 0)
    fail_msg("%s: %s", c->name, g->diag.text);
  return g;
}

static void is_alike(const cell_t *c, const mr_fn_t *f, int which) {
  double *in[GRID_MAX], *got[GRID_MAX], *want[GRID_MAX];
  mr_fn_t *g = with_constants(c, f, which);
  char name[160];
  snprintf(name, sizeof name, "%s with a number for input %d", c->name, which);
  for (int i = 0; i < f->n_in; i++) {
    bool set = which < 0 || which == i;
    in[i] = doubles(elems(f->in[i]));
    for (int64_t k = 0; k < elems(f->in[i]); k++)
      in[i][k] = set ? number(c, f->in[i], i) : c->in[i][k];
  }
  run_as_it_is(g, in, got);
  run_as_it_is(f, in, want);
  assert_near(name, f, got, want, 1e-5);
  free_all(f->n_in, in);
  free_all(f->n_out, got);
  free_all(f->n_out, want);
  mr_fn_destroy(g);
}

static void numbers_in_place_of_inputs_give_what_inputs_of_them_give(void **state) {
  cell_t c;
  for (int op = 0; op < mr_n_ops; op++)
    for (int k = 0; cell_init(&c, mr_ops[op], k); k++) {
      mr_fn_t *g = NULL;
      for (int which = -1; which < c.f->n_in; which++) is_alike(&c, c.f, which);
      if (c.s && c.n_wrt && !c.forward_only) {
        mr_diag_t diag = {0};
        if (mr_value_and_grad(c.s, c.n_wrt, c.wrt, &g, &diag) < 0)
          fail_msg("%s: %s", c.name, diag.text);
        for (int which = -1; which < c.s->n_in; which++) is_alike(&c, g, which);
      }
      mr_fn_destroy(g);
      cell_fini(&c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_in_place_of_inputs_give_what_inputs_of_them_give),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
