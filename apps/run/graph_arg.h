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

/* If word[at] is the folder of a run that has not reached this step, prints that on standard error.
   Call it after showing the step's batch. */
void mr_note_step_ahead(const mr_args_t *a, int at, int64_t step);

/* Parses the same again into an empty g, which the caller destroys after a failure too. */
mr_err_t mr_graph_again(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag);

#endif
