/* Graphs as commands use them: from a command's words (graph_arg.c), run for their batches alone
   (take_batches.c), and checked for leaks between training and evaluation (leak.c). */
#ifndef MR_APPS_GRAPHS_H
#define MR_APPS_GRAPHS_H

#include "apps/cli.h"
#include "pipeline/graph/graph.h"

/* Parses word[at] (text, a file's name, or the folder of a run, whose settings come first) with the
   words after it as overrides NAME=VALUE; data=synthetic replaces cifar10 by synthetic sources, as
   train does.  The caller destroys *g, which is NULL on failure: MR_ERR_USAGE for a wrong word,
   else failures of reading or parsing.  Sentences about a file begin with its name. */
mr_err_t mr_graph_from_args(const mr_args_t *a, int at, mr_graph_t **g, mr_diag_t *diag);

/* If word[at] is the folder of a run that has not reached this step, prints that on standard error.
   Call it after showing the step's batch. */
void mr_note_step_ahead(const mr_args_t *a, int at, int64_t step);

/* Parses the same again into an empty g, which the caller destroys after a failure too. */
mr_err_t mr_graph_again(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag);

/* Receives the batch of a step; spec is its edge's.  The batch is valid only during the call.
   Returns MR_OK, MR_END to end the run, or a failure. */
typedef mr_err_t (*mr_take_fn)(void *ctx, const mr_spec_t *spec, int64_t step,
                               const mr_buf_t *batch, mr_diag_t *diag);

typedef struct mr_batches {
  const char *stage; /* whose batches; NULL: the end of the graph's line of batches */
  int64_t first, n;  /* steps first to first + n - 1, from 1; n 0: to the end */
  mr_take_fn take;
  void *ctx;
  int workers; /* of the batch stage; 0: one, which makes no batches that are not taken */
  bool (*ready)(void *ctx, const mr_graph_t *g); /* called with the settled graph; false ends the
                                                    call with MR_OK; NULL: true */
} mr_batches_t;

/* Cuts g, which must not be settled, down to the stage, starts it at step `first`, and passes each
   batch to take, in the order of steps, on another thread.  Blocks until the end; the caller
   destroys g.  MR_ERR_CONFIG if the stream has no step `first`, MR_ERR_USAGE if the graph makes no
   batches, else failures of the graph or of take. */
mr_err_t mr_take_batches(mr_graph_t *g, const mr_batches_t *want, mr_diag_t *diag);

/* Parses the graph again into an empty g; returns a failure of parsing. */
typedef mr_err_t (*mr_build_fn)(void *ctx, mr_graph_t *g, mr_diag_t *diag);

/* Checks that training and evaluation share no records, at every stage of g that has the setting
   leak-check: MR_ERR_CONFIG, with their number and the
   first ones, if two of its inputs get the same records.  Mode ids compares places in files,
   without reading them; content compares bytes; off checks nothing.  Blocks while it runs the
   graphs of the inputs, each built by `build`, and fails as they do; MR_ERR_NOMEM. */
mr_err_t mr_leak_check(const mr_graph_t *g, mr_build_fn build, void *ctx, mr_diag_t *diag);

#endif
