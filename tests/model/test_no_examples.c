/* Maps and loops over no examples: on every op the outputs are shaped so, and running does no
   harm. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "tests/model/made.h"

/* g on inputs of no examples: its outputs are shaped so, and running it does no harm. */
static void runs_empty(const char *name, const char *what, mr_fn_t *g) {
  double *in[GRID_MAX], *out[GRID_MAX];
  assert_true(g->n_in <= GRID_MAX && g->n_out <= GRID_MAX);
  for (int i = 0; i < g->n_in; i++) in[i] = values(g->in[i], 0, 0);
  run_as_it_is(g, in, out);
  for (int k = 0; k < g->n_out; k++)
    if (elems(g->out[k])) fail_msg("%s: %s of no examples gives %s", name, what, mr_fn_text(g));
  free_all(g->n_in, in);
  free_all(g->n_out, out);
  mr_fn_destroy(g);
}

static bool has_room(const mr_fn_t *f) {
  for (int i = 0; i < f->n_in; i++)
    if (f->in[i]->aval.ndim + 2 > MR_MAX_NDIM) return false;
  return true;
}

/* The first input mapped, the others shared: what fused kernels take as rows. */
static void try_first_alone(const cell_t *c) {
  int axes[GRID_MAX], out_axes[GRID_MAX] = {0};
  mr_fn_t *m = NULL;
  if (!c->f->n_in) return;
  for (int i = 0; i < c->f->n_in; i++) axes[i] = i ? MR_UNMAPPED : 0;
  DO(c, mr_vmap(c->f, 0, axes, out_axes, &m, &diag));
  runs_empty(c->name, "vmap over the first", m);
}

static void maps_and_loops_over_no_examples_run_on_every_op(void **state) {
  cell_t c;
  for (int op = 0; op < mr_n_ops; op++)
    for (int k = 0; cell_init(&c, mr_ops[op], k); k++) {
      mr_fn_t *m = NULL, *g = NULL, *mg = NULL, *s = mr_fn_create();
      mr_var_t *y[GRID_MAX];
      if (has_room(c.f)) {
        DO(&c, mr_vmap(c.f, 0, NULL, NULL, &m, &diag));
        runs_empty(c.name, "vmap", m);
        try_first_alone(&c);
        for (int i = 0; i < c.f->n_in; i++) {
          mr_aval_t a = c.f->in[i]->aval;
          for (int d = a.ndim++; d > 0; d--) a.dim[d] = a.dim[d - 1];
          a.dim[0] = 0;
          mr_fn_input(s, a);
        }
        mr_lax_scan(s, c.f, &(mr_scan_t){.length = 0}, s->in, y);
        if (mr_fn_return(s, c.f->n_out, y) < 0) fail_msg("%s: %s", c.name, s->diag.text);
        runs_empty(c.name, "scan", mr_fn_copy(s, NULL));
        if (c.s && c.n_wrt && !c.forward_only) {
          DO(&c, mr_grad(c.s, c.n_wrt, c.wrt, &g, &diag));
          DO(&c, mr_vmap(g, 0, NULL, NULL, &mg, &diag));
          runs_empty(c.name, "vmap of grad", mg);
        }
      }
      mr_fn_destroy(g);
      mr_fn_destroy(s);
      cell_fini(&c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_and_loops_over_no_examples_run_on_every_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
