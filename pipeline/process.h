/* Graphs of several processes.

     process reader { cifar10 ! shuffle ! batch 128 name=batches }
     process trainer restart=5 { vit-step name=train ! progress }
     batches. ! train.

   Edges between stages of two blocks become links when the graph is cut.  Uncut, the graph is one
   like any other, and gives the same stream in a single process.

   With copies=N a block runs in N processes, NAME-0 to NAME-(N-1): each makes its slice of every
   batch, and a stage "gather" on the other side puts them together again. */
#ifndef MR_PIPELINE_PROCESS_H
#define MR_PIPELINE_PROCESS_H

#include "pipeline/graph.h"

/* What a block can be told, as the settings of a stage; it is none and has no ports. */
extern const mr_stage_def_t mr_process_def;

typedef struct mr_process {
  const char *name;
  int64_t restart;                   /* how often it is started again when it dies */
  int64_t copies;                    /* processes that run the block, each its slice of batches */
  const char *address, *key, *peers; /* NULL: none */
  int64_t window;
} mr_process_t;

/* The blocks of the text, in its order; 0 for a graph of one process. */
int mr_graph_n_processes(const mr_graph_t *g);
/* The settings of block i in [0,n); texts are the graph's.  MR_ERR_CONFIG. */
mr_err_t mr_graph_process(const mr_graph_t *g, int i, mr_process_t *out, mr_diag_t *diag);

/* The block that a stage stands in, or NULL. */
const char *mr_graph_process_of(const mr_graph_t *g, const char *stage);
/* Whether an edge leads from block i to another block k.  Before mr_graph_keep_process. */
bool mr_graph_process_feeds(const mr_graph_t *g, int i, int k);

/* Puts a stage link-out and a stage link-in on every edge from one block to another, after blocks
   with copies=N have been written out as N blocks.  run: a word that all processes of a run are
   told, for the links of one host (mr_process_address, whose failures are passed on).
   MR_ERR_USAGE: a stage stands in no block, an edge carries what cannot leave a process, or a block
   cannot be copied.  Before settle. */
mr_err_t mr_graph_cut(mr_graph_t *g, const char *run, mr_diag_t *diag);

/* The k-th address from one: "tcp://HOST:PORT" with PORT + k, "ipc://@NAME" with "-k" behind it. */
mr_err_t mr_address_after(const char *address, int k, char *text, size_t n, mr_diag_t *diag);

/* The address of a link of a run between processes of this host, ipc://FOLDER/RUN-LINK, into text:
   in a folder of this user in XDG_RUNTIME_DIR, else in /tmp, which is made if need be and which no
   other user can enter.  MR_ERR_CONFIG: run is no word of letters, digits, - and _; MR_ERR_IO: the
   folder cannot be made, or is not this user's alone. */
mr_err_t mr_process_address(const char *run, int link, char *text, size_t n, mr_diag_t *diag);

/* After a run whose processes have all ended: removes the sockets that killed ones have left in
   that folder, and those of runs that were killed as a whole more than an hour ago. */
void mr_process_forget(const char *run);

/* Drops every stage of the other blocks from a cut and settled graph: the specs of links that come
   in stay as they were settled.  Before start. */
mr_err_t mr_graph_keep_process(mr_graph_t *g, const char *name, mr_diag_t *diag);

#endif
