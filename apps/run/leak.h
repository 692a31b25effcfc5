/* Checks a graph for records that training and evaluation share. */
#ifndef MR_APPS_RUN_LEAK_H
#define MR_APPS_RUN_LEAK_H

#include "pipeline/graph/graph.h"

/* Parses the graph again into an empty g; returns a failure of parsing. */
typedef mr_err_t (*mr_build_fn)(void *ctx, mr_graph_t *g, mr_diag_t *diag);

/* Checks that training and evaluation share no records, at every stage of g that has the setting
   leak-check: MR_ERR_CONFIG, with their number and the
   first ones, if two of its inputs get the same records.  Mode ids compares places in files,
   without reading them; content compares bytes; off checks nothing.  Blocks while it runs the
   graphs of the inputs, each built by `build`, and fails as they do; MR_ERR_NOMEM.

   past[0,n_past): what `build` builds the graph from as earlier parts of the run had it.  Their
   training records are looked through too, where their stream was another; one that cannot be built
   any more is named in a notice. */
mr_err_t mr_leak_check(const mr_graph_t *g, mr_build_fn build, void *ctx, void *const *past,
                       int n_past, mr_diag_t *diag);

#endif
