/* One rank of a pipeline, traced into the graph of its step: forward and backward passes of its
   stage in the order of the table, and between them what goes to neighbours and comes from them.
   At the end of each tick the ranks on both sides of a cut exchange what either has computed in it;
   first those of the cuts behind stages 0, 2, 4, ..., then the others, so that no two wait for each
   other in different exchanges.  For step.c alone. */
#ifndef MR_MODEL_OPTIM_PIPELINE_RANK_H
#define MR_MODEL_OPTIM_PIPELINE_RANK_H

#include "model/optim/optim.h"

typedef struct mr__pipe_part {
  mr_var_t *x, *y, *dy, *dx; /* received, to send; NULL where there is no neighbour */
  int from, to;              /* equations of its forward pass in the graph */
} mr__pipe_part_t;

typedef struct mr__pipe {
  mr_fn_t *g;
  const mr_optim_ranks_t *ranks;
  int n_data, parts, n_slot;
  mr_pipeline_slot_t *slot; /* [n_slot] the table, of all ranks */
  mr_aval_t cut[2];         /* of what crosses the cut before and behind the stage */
  mr__pipe_part_t *part;    /* [parts] */
} mr__pipe_t;

/* Starts a rank, ranks->rank of ranks->pipeline, in g, whose memory it takes; first is the loss of
   a part as mr__pipe_forward takes it.  NULL with the failure in g->diag. */
mr__pipe_t *mr__pipe_start(mr_fn_t *g, const mr_optim_ranks_t *ranks, const mr_fn_t *first,
                           int n_data, int parts);
/* Appends the forward pass of part k, f with inputs in[f->n_in].  out[f->n_out] is set by the last
   rank alone.  MR_OK or the failure in g->diag. */
mr_err_t mr__pipe_forward(mr__pipe_t *p, int k, const mr_fn_t *f, mr_var_t *const *in,
                          mr_var_t **out);
/* Appends the backward pass of part k: y is the loss and dy its cotangent on the last rank, else
   NULL; grad[n] becomes the gradients of param[n], those of the stage.  MR_OK or the failure in
   g->diag. */
mr_err_t mr__pipe_backward(mr__pipe_t *p, int k, mr_var_t *y, mr_var_t *dy, int n,
                           mr_var_t *const *param, mr_var_t **grad);
/* Appends what this rank exchanges at the end of tick `time`. */
mr_err_t mr__pipe_exchange(mr__pipe_t *p, int time);
/* Gives out[n] of the last rank, of aval[n], to all; f32 holds their elements. */
mr_err_t mr__pipe_publish(mr__pipe_t *p, int n, const mr_aval_t *aval, mr_var_t **out);

#endif
