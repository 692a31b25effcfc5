/* Graphs of several processes.

     process reader { cifar10 ! shuffle ! batch 128 name=batches }
     process trainer restart=5 { vit-step name=train ! progress }
     batches. ! train.

   Edges between stages of two blocks become links when the graph is cut.  Uncut, the graph is like
   any other, and gives the same stream in a single process.

   With copies=N a block runs in N processes, NAME-0 to NAME-(N-1): each makes its slice of every
   batch, and a stage of the role MR_ROLE_GATHER on the other side joins the slices.

   A call that returns mr_err_t gives MR_OK or fails with a sentence in diag (which may be NULL),
   with MR_ERR_NOMEM besides the codes it names.  Implemented in process.c, and process_folder.c for
   the folder of the sockets. */
#ifndef MR_PIPELINE_GRAPH_PROCESS_H
#define MR_PIPELINE_GRAPH_PROCESS_H

#include "pipeline/graph/graph.h"

/* The settings of a block, written as a stage's; it is not a stage and has no ports. */
extern const mr_stage_def_t mr_process_def;

typedef struct mr_process {
  const char *name;
  int64_t restart;                   /* how often it is restarted after it dies */
  int64_t copies;                    /* processes that run the block, each with its slice of
                                        batches */
  const char *address, *key, *peers; /* NULL: not given */
  int64_t window;
} mr_process_t;

/* The number of blocks in the text; 0 for a graph of one process. */
int mr_graph_n_processes(const mr_graph_t *g);
/* The settings of block i in [0,n), in the order of the text; the graph owns the strings.
   MR_ERR_CONFIG: a value out of its range. */
mr_err_t mr_graph_process(const mr_graph_t *g, int i, mr_process_t *out, mr_diag_t *diag);

/* The name of the block that contains a stage; NULL if no block does, or there is no such stage.
   The graph owns it. */
const char *mr_graph_process_of(const mr_graph_t *g, const char *stage);
/* True if an edge leads from block i to another block k.  Of a graph of which mr_graph_keep_process
   keeps one process, before settle. */
bool mr_graph_process_feeds(const mr_graph_t *g, int i, int k);

/* Puts the two ends of a link (the stages of MR_ROLE_LINK_OUT and MR_ROLE_LINK_IN) on every edge
   from one block to another, after writing out blocks with copies=N as N blocks.  run: a word that
   all processes of a run share, for the links of one host (mr_process_address, whose failures are
   passed on).  MR_ERR_USAGE: a stage is in no block, an edge carries what cannot leave a process, a
   block cannot be copied, or the graph is settled; MR_ERR_CONFIG: a setting of a block;
   MR_ERR_UNAVAILABLE: this build has no links.  Before settle. */
mr_err_t mr_graph_cut(mr_graph_t *g, const char *run, mr_diag_t *diag);

/* The k-th address after `address` into text[0,n): "tcp://HOST:PORT" with PORT + k, else "-k"
   appended.  MR_ERR_CONFIG: PORT is not a number, or PORT + k is beyond 65535. */
mr_err_t mr_address_after(const char *address, int k, char *text, size_t n, mr_diag_t *diag);

/* The address of a link of a run between processes of this host, ipc://FOLDER/RUN-LINK, into
   text[0,n).  FOLDER is this user's, in XDG_RUNTIME_DIR or else in /tmp; it is created if it is
   missing, and no other user can enter it.  MR_ERR_CONFIG: run is not a word of 1 to 32 letters,
   digits, - and _; MR_ERR_IO: the folder cannot be made, or other users can enter it. */
mr_err_t mr_process_address(const char *run, int link, char *text, size_t n, mr_diag_t *diag);

/* After all processes of a run have ended: removes the sockets that killed ones left in that
   folder, and those of runs that were killed as a whole more than an hour ago.  Failures are
   ignored. */
void mr_process_forget(const char *run);

/* Has settle plan the stages of the other blocks for their specs alone (mr_stage_t.elsewhere) and
   then drop them: the specs of incoming links stay as they were settled.  MR_ERR_USAGE: no such
   block, or the graph is settled.  After mr_graph_cut, before settle. */
mr_err_t mr_graph_keep_process(mr_graph_t *g, const char *name, mr_diag_t *diag);

#endif
