/* The graph that a command's words name: text, a file, or the folder of a run. */
#ifndef MR_APPS_RUN_GRAPH_ARG_H
#define MR_APPS_RUN_GRAPH_ARG_H

#include "apps/cli/cli.h"
#include "pipeline/graph/graph.h"

/* Parses word[at] (text, a file's name, or the folder of a run, whose settings come first) with the
   words after it as overrides NAME=VALUE; data=synthetic does as in
   mr_graph_use_synthetic (synthetic.h).  The
   caller destroys *g, which is NULL on failure: MR_ERR_USAGE for a wrong word, else failures of
   reading or parsing.  Sentences about a file begin with its name. */
mr_err_t mr_graph_from_args(const mr_args_t *a, int at, mr_graph_t **g, mr_diag_t *diag);

/* A graph that recomputes steps of a run. */
typedef struct mr_graph_of_steps {
  mr_graph_t *g; /* the caller destroys it */
  int64_t last; /* the last step that these settings hold for; INT64_MAX: no later ones are known */
  char *data;   /* of mr_data_facts, as they were then; heap, the caller's; NULL: unknown */
} mr_graph_of_steps_t;

/* As mr_graph_from_args, but if word[at] is the folder of a run, with the graph, settings and data
   that its history has for this step, from 1, and continuing in the stream as that part of the run
   did.  stage: whose batches are wanted, NULL for the usual ones; batches that are not on the line
   before the training step have no history.  Says on standard error if a plug-in has changed since.
   to->g is NULL on failure, which is as for mr_graph_from_args, or of the history. */
mr_err_t mr_graph_of_step(const mr_args_t *a, int at, int64_t step, const char *stage,
                          mr_graph_of_steps_t *to, mr_diag_t *diag);

/* If word[at] is the folder of a run that has not reached this step, prints that on standard error.
   Call it after showing the step's batch. */
void mr_note_step_ahead(const mr_args_t *a, int at, int64_t step);

/* Parses the same again into an empty g, which the caller destroys after a failure too. */
mr_err_t mr_graph_again(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag);

#endif
