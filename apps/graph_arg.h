/* A graph made from a command's words. */
#ifndef MR_APPS_GRAPH_ARG_H
#define MR_APPS_GRAPH_ARG_H

#include "apps/cli.h"
#include "pipeline/graph.h"

/* Parses word[at] (text, a file's name, or the folder of a run, whose settings come first) with the
   words after it as overrides KEY=VALUE; data=synthetic puts synthetic sources in the place of
   cifar10, as train does.  The caller destroys *g; on failure there is none.  Sentences of a file
   begin with its name. */
mr_err_t mr_graph_from_args(const mr_args_t *a, int at, mr_graph_t **g, mr_diag_t *diag);

/* Where word[at] is the folder of a run that has not made this step: says so on standard error,
   once its batch has been shown. */
void mr_note_step_ahead(const mr_args_t *a, int at, int64_t step);

/* Parses the same once more into an empty g. */
mr_err_t mr_graph_again(const mr_args_t *a, int at, mr_graph_t *g, mr_diag_t *diag);

#endif
