/* What the files of a step's graph have in common.  step.c checks the loss and traces the update;
   step_parts.c the parts of a batch and the order in which what they give is added; step_ranks.c
   what ranks exchange of it; step_gather.c the parts of a rank that has a share of the parameters'
   values alone; step_stage.c a rank that computes a stage of parts.  Each call appends
   to s->g; a failure is left there, and calls after one do nothing.  What they return belongs to
   the graph. */
#ifndef MR_MODEL_OPTIM_STEP_PRIVATE_H
#define MR_MODEL_OPTIM_STEP_PRIVATE_H

#include "model/optim/exchange.h"
#include "model/optim/optim.h"
#include "model/optim/pipeline_rank.h"

typedef struct mr__optim_step {
  mr_fn_t *g;
  const mr_optim_loss_t *loss;
  const mr_optim_t *o;
  int from, to;   /* the parts that are computed */
  int n, n_out;   /* parameters; outputs of the loss */
  int lo, hi;     /* the parameters that are updated; slot and average have no others */
  int *share;     /* [ranks+1] the first parameter of each rank; NULL: each updates all */
  int n_scale;    /* scalars that count steps (mr_optim_counts) */
  int n_fp8;      /* scales and history, or 0 */
  mr_var_t *amax; /* the largest magnitudes of the parts' products so far; NULL without fp8 */
  int p_lo, p_hi; /* the parameters whose values are inputs, and results: all, or the share */
  /* p is [n], NULL for those without an input; slot and average are [hi-lo] from lo on */
  mr_var_t **data, *lr, *t, **scale, **fp8, **p, **slot[MR_OPTIM_SLOTS], **average;
  mr__exchange_t *exchange; /* of ranks */
  mr_var_t **out;           /* [n_out] of the loss, over all parts */
  mr_var_t **grad;          /* [n] */
  int forward;              /* vars up to the end of the last part's forward pass */
  int computed;             /* equations up to the gradients of the last part */
} mr__optim_step_t;

/* ---- parts: step_parts.c ---- */

/* Whether data input i is cut into the parts' records; and its rows in parts [from,to) then. */
bool mr__optim_is_split(const mr_optim_loss_t *loss, int i);
int64_t mr__optim_rows(const mr_optim_loss_t *loss, int i, int from, int to);
bool mr__optim_is_dynamic(const mr__optim_step_t *s); /* the loss scale moves */
/* Marks what follows as written by fp8; returns what g->by was. */
const char *mr__optim_by_fp8(mr__optim_step_t *s);

const mr_aval_t *mr__optim_aval(const mr__optim_step_t *s, int i); /* of parameter i */
/* Gives the graph its inputs, and s their places. */
void mr__optim_inputs(mr__optim_step_t *s);
/* Returns the loss of part k, after the passes that spare its backward pass work; the caller
   destroys it.  NULL on failure. */
mr_fn_t *mr__optim_light_loss(mr__optim_step_t *s, int k);
/* Return the inputs of part k, and the cotangent of its loss. */
mr_var_t **mr__optim_inputs_of_part(mr__optim_step_t *s, int k);
mr_var_t *mr__optim_loss_seed(mr__optim_step_t *s, int k);
/* Traces loss and gradients of part k: out[n_out], grad[n].  What its products of fp8 have met goes
   to s->amax. */
mr_err_t mr__optim_run_part(mr__optim_step_t *s, int k, mr_var_t **out, mr_var_t **grad);

/* Sums of parts that wait for another, of decreasing size: one of a chain, one a level of a tree.
 */
typedef struct mr__optim_sums {
  mr_var_t **of[32];
  int n;
} mr__optim_sums_t;
/* Returns how many of the sums that wait are added to what part k gives. */
int mr__optim_sums_before(const mr__optim_step_t *s, int k);
/* Adds x[n], of part k, to them; x becomes a sum of `sums`. */
void mr__optim_sums_add(mr__optim_step_t *s, mr__optim_sums_t *sums, int k, int n, mr_var_t **x);
/* Adds the sums that wait, those of the last parts first, and returns the one that is left. */
mr_var_t **mr__optim_sums_end(mr__optim_step_t *s, mr__optim_sums_t *sums, int n);
/* Returns x, a scalar of part k, weighted if the parts are added as a tree; and the sum of such
   scalars x[n] of the parts from s->from on. */
mr_var_t *mr__optim_weighted(mr__optim_step_t *s, int k, mr_var_t *x);
mr_var_t *mr__optim_sum_of_scalars(mr__optim_step_t *s, int n, mr_var_t **x);
/* Returns output i of the loss over the parts that are computed, whose outputs lie n_out apart in
   `all`. */
mr_var_t *mr__optim_join(mr__optim_step_t *s, mr_var_t **all, int i);

/* ---- ranks: step_ranks.c ---- */

int mr__optim_sharers(const mr__optim_step_t *s); /* ranks, or pipelines of them, with parts */
/* Returns the rank that has the outputs of a sharer's parts. */
int mr__optim_rank_with_outputs(const mr__optim_step_t *s, int sharer);

/* A sum of the tree, of parts [from,to), and the place at which its rank has it. */
typedef struct mr__optim_node {
  int from, to, rank, place;
} mr__optim_node_t;
/* The sums that all ranks have, node[n] in order, and the most that one has; with pipelines the
   ranks of this one's stage. */
typedef struct mr__optim_nodes {
  mr__optim_node_t *node;
  int n, most;
} mr__optim_nodes_t;
mr__optim_nodes_t mr__optim_nodes(mr__optim_step_t *s);

/* Parameters [from,to) of one rank's share and of one dtype, whose gradients are sent together. */
typedef struct mr__optim_bucket {
  int from, to, owner;
} mr__optim_bucket_t;
/* Returns a bucket's arrays of array[n], one behind the other; and the arrays of such a vector. */
mr_var_t *mr__optim_bucket_flat(mr__optim_step_t *s, const mr__optim_bucket_t *b,
                                mr_var_t *const *array);
void mr__optim_bucket_split(mr__optim_step_t *s, const mr__optim_bucket_t *b, mr_var_t *flat,
                            mr_var_t **array);
/* Returns the bucket that ends before parameter `to`. */
mr__optim_bucket_t mr__optim_bucket_before(const mr__optim_step_t *s, int to);
/* Each rank sends its sums of a bucket's gradients to the owner, which adds them to s->grad.  All
   ranks have the messages in one order, that of the tree; *turn, which keeps each rank's own apart,
   may begin at different numbers. */
void mr__optim_exchange_bucket(mr__optim_step_t *s, const mr__optim_bucket_t *b,
                               const mr__optim_nodes_t *nodes, const mr__optim_sums_t *sums,
                               int *turn);

/* Returns the elements that a rank posts of an output of parts, which are a. */
int64_t mr__optim_posted_size(const mr__optim_step_t *s, const mr_aval_t *a);
/* Posts output i of this rank's parts: scalars part by part, weighted, others joined.  Returns its
   number. */
int mr__optim_post_output(mr__optim_step_t *s, mr__exchange_t *x, mr_var_t **all, int i);
/* Returns output i over the parts of all ranks, from what they have posted. */
mr_var_t *mr__optim_posted_output(mr__optim_step_t *s, const mr__exchange_t *x, int posted,
                                  mr_aval_t a);
/* Sets outputs, gradients and amax of all ranks' parts, from those of this rank's: outputs in all,
   and sums of gradients, which are not read if s->grad is there already. */
mr_err_t mr__optim_exchange(mr__optim_step_t *s, mr_var_t **all, const mr__optim_sums_t *sums);

/* Returns f32[]: the largest of the ranks' numbers; `most` is NULL for a rank without parameters.
 */
mr_var_t *mr__optim_most(mr__optim_step_t *s, mr_var_t *most);
bool mr__optim_is_frozen(const mr__optim_step_t *s, int i);
/* Returns the sum of the squares of all gradients that are not frozen, of which this rank may have
   a share: parameter by parameter, as mr_lax_sum_squares adds, or with `pair`
   mr_lax_sum_squares_pair. */
mr_var_t *mr__optim_squares(mr__optim_step_t *s, bool pair);
/* Completes the new values next[n], of which this rank has [lo,hi). */
void mr__optim_take_updates(mr__optim_step_t *s, mr_var_t **next);

/* ---- values that ranks have shares or pieces of: step_gather.c ---- */

/* The owner of a bucket sends its values to ranks to[n], of which it may be one, and value[s->n]
   has them on these and on the owner.  All ranks call it in one order, with one *turn. */
void mr__optim_send_values(mr__optim_step_t *s, const mr__optim_bucket_t *b, int n, const int *to,
                           int *turn, mr_var_t **value);
/* Traces this rank's parts, all[n_out] of each, with the values of parameters that others send, and
   sends its own to them and gradients to their owners: sets s->grad of its share. */
mr_err_t mr__optim_run_gathered(mr__optim_step_t *s, mr_var_t **all);
/* Traces all parts of a step whose values lie otherwise on a mesh than the loss reads them
   (mr_optim_loss_t.reads): outputs in all, and sums of gradients. */
mr_err_t mr__optim_run_placed(mr__optim_step_t *s, mr_var_t **all, mr__optim_sums_t *sums);

/* ---- a stage of a pipeline: step_stage.c ---- */

/* Traces this rank's passes and exchanges: sets outputs and gradients as mr__optim_exchange. */
mr_err_t mr__optim_run_stage(mr__optim_step_t *s);

#endif
