/* Dropout numbers the elements of its operand, so that a part draws by its place in the whole.  A
   part is rows of the whole, or a run of each of its rows, or both: what cuts of two dimensions
   give. */
#include "model/control/control.h"
#include "model/ops/lax.h"
#include "model/partition/place.h"

/* The dimensions that are cut, at most two: the first one, outer, -1 without one, and the last. */
typedef struct cut_dims {
  int outer, inner;
} cut_dims_t;

static bool find_cut_dims(const mr_aval_t *a, const mr_placement_t *at, cut_dims_t *dims) {
  int n = 0, d[2] = {-1, -1};
  for (int i = 0; i < a->ndim; i++) {
    if (!at->axes[i]) continue;
    if (n == 2 || at->outer[i] > 1) return false;
    d[n++] = i;
  }
  if (n == 2 && mr_aval_span(a, 0, d[0]) != 1) return false;
  *dims = n == 2 ? (cut_dims_t){d[0], d[1]} : (cut_dims_t){-1, d[0]};
  return n > 0;
}

static mr_var_t *place_vector(mr_cutter_t *c, mr_axes_t outer, mr_axes_t inner) {
  const mr_aval_t one = mr_aval_of(MR_I32, 1);
  const mr_axes_t axes[] = {outer, inner};
  mr_var_t *at[2];
  for (int i = 0; i < 2; i++)
    at[i] = axes[i] ? mr_lax_reshape_to(c->g, mr__place_along(c, axes[i]), 1)
                    : mr_lax_full(c->g, &one, 0);
  return mr_lax_concatenate(c->g, 2, at, 0);
}

mr_var_t *mr__cut_dropout(mr_cutter_t *c, const mr_eqn_t *e, mr_place_t *const *needs,
                          const mr_placement_t *at) {
  const mr_aval_t *a = &e->in[0]->aval;
  cut_dims_t d;
  if (!mr_aval_elems(a) || e->in[1]->aval.ndim || e->in[2]->aval.ndim || !find_cut_dims(a, at, &d))
    return NULL;
  mr_var_t *in[3];
  for (int i = 0; i < 3; i++)
    in[i] = mr__resharded(c, needs[i], i ? (mr_placement_t){.partial = 0} : *at, e);
  mr_origin_t before = mr_origin(c->g);
  mr_origin_from(c->g, e, "partition");
  c->g->scope = mr_mem_text(&c->g->mem, e->scope);
  if (c->g->row) c->g->row = mr_mem_text(&c->g->mem, c->g->row);
  mr_dropout_part_t p = {.rate = (float)mr_attr_get(e, "rate")->f,
                         .site = (uint32_t)mr_attr_get(e, "site")->i[0],
                         .first = mr_dropout_first(e),
                         .rows = mr_aval_span(a, 0, d.inner),
                         .row = mr_aval_span(a, d.inner, a->ndim)};
  p.run = p.row / mr__parts_of(c->mesh, at->axes[d.inner]);
  mr_var_t *place =
      place_vector(c, d.outer < 0 ? (mr_axes_t)0 : at->axes[d.outer], at->axes[d.inner]);
  mr_var_t *y = mr_lax_dropout_part(c->g, in[0], &p, in[1], in[2], place);
  mr_origin_set(c->g, before);
  return y;
}
