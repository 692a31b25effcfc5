/* Sums of squares: each device adds those of its parts in f64, tensors that lie along the same axes
   together, and one sum an axis gives the whole.  It is rounded to f32 at the end alone, so that
   how tensors are cut changes no bit of it, but for a sum that lies between two numbers of f32 as
   closely as f64 can tell. */
#include <math.h>

#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/partition/place.h"

static mr_axes_t axes_that_cut(const mr_placement_t *at, int ndim) {
  mr_axes_t all = 0;
  for (int d = 0; d < ndim; d++) all |= at->axes[d];
  return all;
}

/* Adds the squares of this device's part of a tensor to sum[axes]. */
static void add_squares(mr_cutter_t *c, mr_place_t *p, const mr_eqn_t *e, mr_var_t **sum) {
  mr_placement_t at = p->own.at;
  at.partial = 0;
  mr_var_t *x = mr__resharded(c, p, at, e);
  if (!x) return;
  mr_var_t *own = mr_lax_sum_squares_wide(c->g, x);
  mr_var_t **to = &sum[axes_that_cut(&at, p->whole.ndim)];
  *to = *to ? mr_lax_add(c->g, *to, own) : own;
}

mr_var_t *mr__cut_squares(mr_cutter_t *c, const mr_eqn_t *e, mr_place_t *const *needs) {
  mr_fn_t *g = c->g;
  mr_var_t *sum[1 << MR_MESH_AXES] = {NULL}, *all = NULL;
  const bool pair = e->out[0]->aval.ndim == 1;
  mr_origin_t before = mr_origin(g);
  mr_origin_from(g, e, "partition");
  g->scope = mr_mem_text(&g->mem, e->scope);
  if (g->row) g->row = mr_mem_text(&g->mem, g->row);
  for (int i = 0; i < e->n_in; i++) add_squares(c, needs[i], e, sum);
  for (int axes = 0; axes < 1 << MR_MESH_AXES; axes++) {
    for (int a = 0; a < c->mesh->n && sum[axes]; a++)
      if (axes >> a & 1) sum[axes] = mr_lax_psum(g, sum[axes], c->mesh->name[a]);
    if (sum[axes]) all = all ? mr_lax_add(g, all, sum[axes]) : sum[axes];
  }
  mr_var_t *y = mr_lax_convert(g, all, MR_F32);
  if (pair) {
    mr_var_t *small = mr_lax_scale(g, ldexp(1, -2 * MR_SQUARES_SHIFT), all);
    mr_var_t *both[] = {mr_lax_reshape_to(g, y, 1),
                        mr_lax_reshape_to(g, mr_lax_convert(g, small, MR_F32), 1)};
    y = mr_lax_concatenate(g, 2, both, 0);
  }
  mr_origin_set(g, before);
  return y;
}
