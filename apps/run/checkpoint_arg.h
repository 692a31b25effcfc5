/* A checkpoint that a command's word names, a file or the folder of a run, and the run that wrote
   it as it was then: its graph, settings and plug-ins, which say how records are prepared.  Main
   thread only. */
#ifndef MR_APPS_RUN_CHECKPOINT_ARG_H
#define MR_APPS_RUN_CHECKPOINT_ARG_H

#include "apps/run/run_dir.h"
#include "pipeline/graph/graph.h"

typedef struct mr_checkpoint_arg {
  char path[MR_RUN_PATH + 64]; /* of the file */
  char run[MR_RUN_PATH];       /* the folder that it was written to as RUN/checkpoints/NAME; "": it
                                  is of no run that is here */
  mr_graph_t *graph;           /* of that run; NULL: none */
  const char *step;            /* name of its training step; the graph's */
  bool placed;                 /* the graph has taken `data`, as its variable of that name */
} mr_checkpoint_arg_t;

/* Finds the checkpoint of a word, a run's newest, and parses its run's graph with the settings that
   held when it was written and then setting[0,n), NAME=VALUE each, of the command line.  data:
   where its records are now, NULL: as the run says.  The run's plug-ins are loaded.  MR_ERR_IO: a
   folder that holds no checkpoint; MR_ERR_USAGE: settings for a checkpoint without a run, or a
   graph without a training step; failures of reading the run and of parsing.  The caller calls
   mr_checkpoint_arg_fini, after a failure too. */
mr_err_t mr_checkpoint_arg(const char *word, const char *data, const char *const *setting, int n,
                           mr_checkpoint_arg_t *out, mr_diag_t *diag);
void mr_checkpoint_arg_fini(mr_checkpoint_arg_t *c); /* all zero is fine */

/* The stage whose batches the training step takes at an input, "in", "valid", "valid.NAME" or
   "test", in the host's memory; "valid" also finds the first of several.  NULL without one.  The
   graph owns the name. */
const char *mr_checkpoint_line(const mr_checkpoint_arg_t *c, const char *input);

/* The source of the records of a stage's batches; NULL if there are several.  The graph owns it. */
const mr_stage_t *mr_line_source(const mr_graph_t *g, const char *stage);

/* Where a source reads, the text of its setting `path` or of its bare one; NULL: it reads no files.
   As mr_graph_setting. */
const char *mr_source_place(const mr_graph_t *g, const mr_stage_t *source);

/* Sets that to text.  MR_ERR_USAGE, naming the flag `of`, if it has neither. */
mr_err_t mr_source_set_place(mr_graph_t *g, const mr_stage_t *source, const char *text,
                             const char *of, mr_diag_t *diag);

#endif
