/* One rank of a pipeline, traced into the graph of its step: forward and backward passes of its
   stage in the order of the table, and between them what goes to neighbours and comes from them.
   At the end of each tick the ranks on both sides of a cut exchange what either has computed in it;
   first those of the cuts behind stages 0, 2, 4, ..., then the others, so that no two wait for each
   other in different exchanges.

   Several pipelines may share the parts of a batch.  Ranks are then numbered stage by stage: of P
   pipelines, rank r computes stage r / P of pipeline r % P.  For step_stage.c, and what ranks have
   a share of for train/. */
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
  int stage, n_data, parts, n_slot, end;
  mr_pipeline_slot_t *slot; /* [n_slot] the table, of all stages, which ends at `end` */
  mr_aval_t cut[2];         /* of what crosses the cut before and behind the stage */
  mr__pipe_part_t *part;    /* [parts] */
} mr__pipe_t;

/* Returns how many pipelines share the parts: 1 or more, or the number of ranks without stages.
   That of a rank is its number modulo this. */
int mr__pipe_lines(const mr_optim_ranks_t *ranks);
/* Returns the rank that has a stage of pipeline `line`. */
int mr__pipe_rank(const mr_optim_ranks_t *ranks, int line, int stage);
/* Returns the first parameter in the share of a rank in [0,ranks] of pipelines; that of rank
   `ranks` is the number of parameters.  The ranks of a stage share its parameters as
   mr_optim_share_from does, size and arg as there. */
int mr__pipe_share_from(const mr_pipeline_t *plan, int64_t (*size)(const void *arg, int i),
                        const void *arg, int ranks, int rank);

/* Starts a rank, ranks->rank of ranks->pipeline, in g, whose memory it takes; first is the loss of
   a part as mr__pipe_forward takes it, and parts are those of its pipeline.  NULL with the failure
   in g->diag. */
mr__pipe_t *mr__pipe_start(mr_fn_t *g, const mr_optim_ranks_t *ranks, const mr_fn_t *first,
                           int n_data, int parts);
/* Appends the forward pass of part k, f with inputs in[f->n_in].  out[f->n_out] is set by the last
   stage alone.  MR_OK or the failure in g->diag. */
mr_err_t mr__pipe_forward(mr__pipe_t *p, int k, const mr_fn_t *f, mr_var_t *const *in,
                          mr_var_t **out);
/* Appends the backward pass of part k: y is the loss and dy its cotangent in the last stage, else
   NULL; grad[n] becomes the gradients of param[n], those of the stage.  MR_OK or the failure in
   g->diag. */
mr_err_t mr__pipe_backward(mr__pipe_t *p, int k, mr_var_t *y, mr_var_t *dy, int n,
                           mr_var_t *const *param, mr_var_t **grad);
/* Appends what this rank exchanges at the end of tick `time`. */
mr_err_t mr__pipe_exchange(mr__pipe_t *p, int time);
/* The first turn (MR_TURN) of messages that no exchange of a tick has. */
int mr__pipe_next_turn(const mr__pipe_t *p);

#endif
