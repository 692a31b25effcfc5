/* A step cut over a mesh: each rank computes its parts of the batch, along the mesh's axis for
   batches, and of the parameters, slots and average, as rules say (mr_train_config_t.mesh).  The
   graph of one rank's step is cut as a whole (partition/partition.h), so that norms, the update and
   what a step reports follow by themselves.  Here: how everything lies, the graph, and copies
   between a rank's parts and whole parameters.  With a pipeline the graph is that of a stage, whose
   ranks along the axis of the batch are the stages of pipelines: what these exchange is of whole
   arrays, and all else is cut along the other axes.  Shared by train.c, ranks.c and
   train_graph.c. */
#ifndef MR_MODEL_TRAIN_CUT_H
#define MR_MODEL_TRAIN_CUT_H

#include "model/mesh/placement.h"
#include "model/nn/params.h"
#include "model/train/train.h"

typedef struct mr__cut {
  mr_mesh_t mesh;
  mr_placement_t *at; /* [list.n] of the values, as the loss reads them */
  /* [list.n] of slots and average: with zero they are cut along the axis of the batch too, in the
     first dimension that is whole and divides.  Ranks along that axis then update a piece each. */
  mr_placement_t *kept;
  bool values; /* with zero=3: from one step to the next values are where slots are */
  /* [size of the axis of the batch + 1] the first parameter whose slots and average, and with
     `values` values, a stage has; NULL: there are no stages, and each rank has its part of all */
  int *share;
  mr_params_t list; /* the whole parameters' names and places: no arenas */
} mr__cut_t;

/* Settles how the parameters of list lie, by t's rules.  The caller ends *c, also after a failure:
   MR_ERR_CONFIG and MR_ERR_SHAPE as mr_train_cut_parts; MR_ERR_NOMEM. */
mr_err_t mr__cut_init(const mr_train_config_t *t, const mr_params_t *list, mr__cut_t *c,
                      mr_diag_t *diag);
void mr__cut_fini(mr__cut_t *c); /* zeroed is fine */

/* Replaces *f, mr_train_step_fn's graph of a step without ranks, by what each rank computes. MR_OK,
   or the failures of mr_partition: *f is unchanged. */
mr_err_t mr__cut_step_fn(const mr_loss_t *l, const mr_train_config_t *t, const mr_params_t *list,
                         mr_fn_t **f, mr_diag_t *diag);

/* The mesh along whose axes the ranks of a step communicate. */
void mr__cut_mesh(const mr_train_config_t *t, mr_mesh_t *m);

/* Writes where a gradient of parameter i is to lie before it is read, as mr_lax_shard reads it.
   Returns false if that needs not be said. */
bool mr__cut_gradient(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]);
/* The same of parameter i itself: false if each rank has it whole. */
bool mr__cut_value(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]);
/* And of parameter i where the loss reads it: false if it lies so anyway. */
bool mr__cut_read(const mr__cut_t *c, int i, char text[MR_PLACEMENT_TEXT]);
/* Whether a rank has a part of parameter i in a set of this kind. */
bool mr__cut_has(const mr__cut_t *c, int rank, mr_set_kind_t kind, int i);
/* The elements that a rank has of parameter i in a set of this kind. */
size_t mr__cut_elems(const mr__cut_t *c, mr_set_kind_t kind, int i);

/* Lists a rank's parts of c's parameters in *part, which is the caller's.  MR_OK or MR_ERR_NOMEM.
 */
mr_err_t mr__cut_list(const mr__cut_t *c, mr_params_t *part, mr_diag_t *diag);
/* Then, before alloc: has the sets that part wants hold what this rank has of them alone, so that
   slots and average of a piece take its bytes and those of another stage none.  MR_OK or
   MR_ERR_NOMEM. */
mr_err_t mr__cut_pieces(const mr__cut_t *c, int rank, mr_params_t *part, mr_diag_t *diag);

/* Copies the rank's parts of all sets that `part` has out of whole parameters, and into them.
   Neither fails. */
void mr__cut_take(const mr__cut_t *c, int rank, const mr_params_t *whole, mr_params_t *part);
void mr__cut_join(const mr__cut_t *c, int rank, const mr_params_t *part, mr_params_t *whole);
/* The same of tensor i of a set, whose part is at `from`. */
void mr__cut_join_tensor(const mr__cut_t *c, int rank, const mr_param_set_t *set, int i,
                         const void *from, const mr_params_t *whole);

/* Returns the first of the records that a rank has of a batch of t->batch, and their number in
 *n. */
int64_t mr__cut_records(const mr_train_config_t *t, int rank, int64_t *n);

#endif
