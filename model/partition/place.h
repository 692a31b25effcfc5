/* The values of a function while it is cut (partition.c): each lies somewhere, and may be had in
   other placements.  reshard.c writes a value in another placement, and the equation that a device
   computes.  Vars and equations that are returned belong to g; every function leaves a failure in
   g->diag. */
#ifndef MR_MODEL_PARTITION_PLACE_H
#define MR_MODEL_PARTITION_PLACE_H

#include "model/ir/fn.h"
#include "model/ir/shard.h"
#include "model/mesh/placement.h"

/* Axes of the mesh, as bits: 1 << axis.  Several that cut one dimension are in the mesh's order,
   the first one cuts into the largest parts. */
typedef uint8_t mr_axes_t;

/* How a factor (ir/shard.h) is cut: along these axes, as that many blocks, >= 1 where axes cut,
   each of which is cut by itself. */
typedef struct mr_factor_cut {
  mr_axes_t axes;
  int64_t blocks;
} mr_factor_cut_t;

/* A value in one placement, without axes of size 1. */
typedef struct mr_version {
  mr_placement_t at;
  mr_var_t *var; /* of the local function */
  struct mr_version *next;
} mr_version_t;

typedef struct mr_place {
  mr_aval_t whole;
  mr_version_t own;        /* as its equation gave it; then the others */
  const mr_eqn_t *def;     /* the equation, which may be written again for a part; NULL: an input */
  struct mr_place **needs; /* [def->n_in] */
} mr_place_t;

typedef struct mr_cutter {
  mr_fn_t *g;
  const mr_mesh_t *mesh;
} mr_cutter_t;

/* Returns into how many parts these axes cut. */
int mr__parts_of(const mr_mesh_t *mesh, mr_axes_t axes);

/* Returns the value as `want` says, appended to g where needed; e needs it.  It belongs to g; NULL
   on failure. */
mr_var_t *mr__resharded(mr_cutter_t *c, mr_place_t *p, mr_placement_t want, const mr_eqn_t *e);

/* Appends e on its operands' parts, with factor k cut as cut[k] says (it divides, and is
   not WHOLE).  Returns the equation, which belongs to g, or NULL. */
mr_eqn_t *mr__cut_equation(mr_cutter_t *c, const mr_eqn_t *e, const mr_factors_t *s,
                           const mr_factor_cut_t *cut, mr_place_t *const *needs);

/* Appends e, a dropout, on operand 0 as `at` says, which is no sum, so that each device draws for
   its own elements alone; NULL, and nothing is appended or failed, if its elements are no part that
   mr_lax_dropout_part has.  The result, which lies as the operand, belongs to g.  Implemented in
   dropout.c. */
mr_var_t *mr__cut_dropout(mr_cutter_t *c, const mr_eqn_t *e, mr_place_t *const *needs,
                          const mr_placement_t *at);
/* Appends e, a sum of the squares of at least one operand, in f32.  The result, which each device
   has whole, belongs to g; NULL on failure.  Implemented in squares.c. */
mr_var_t *mr__cut_squares(mr_cutter_t *c, const mr_eqn_t *e, mr_place_t *const *needs);
/* Returns the device's place along these axes together, i32[]; it belongs to g. */
mr_var_t *mr__place_along(mr_cutter_t *c, mr_axes_t axes);

/* Returns how a value with these dimensions lies, if factor k is cut as cut[k] says. */
mr_placement_t mr__placement_of(const mr_aval_t *a, const mr_factors_t *s,
                                const mr_dim_factors_t *dim, const mr_factor_cut_t *cut);

/* Returns the factor of a dimension that these axes cut if it is cut as that many blocks, and sets
 *cut to how; -1: no factor is. */
int mr__factor_behind(const mr_cutter_t *c, const mr_factors_t *s, const mr_dim_factors_t *dim,
                      mr_axes_t axes, int64_t blocks, mr_factor_cut_t *cut);

/* Returns the maximum of x over the devices along these axes; it belongs to g, NULL on failure. */
mr_var_t *mr__max_over(mr_cutter_t *c, mr_var_t *x, mr_axes_t axes);

#endif
