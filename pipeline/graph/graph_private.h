/* The inside of a graph, shared by the builder (graph.c), the parser (text.c), values
   (override.c), settle.c with records.c and standstill.c, the reduction to a part (only.c), the cut
   into processes (process*.c), states (stream_at.c), chains and the scheduler (sched.c). */
#ifndef MR_PIPELINE_GRAPH_GRAPH_PRIVATE_H
#define MR_PIPELINE_GRAPH_GRAPH_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/halt.h"
#include "pipeline/graph/graph.h"
#include "pipeline/pool.h"
#include "pipeline/ring.h"

struct mr_lineage;
struct mr_snapshot;

typedef struct mr__pos {
  int line, column; /* from 1; line 0: built by calls */
} mr__pos_t;

typedef struct mr__setting {
  const char *name, *text;
  bool expand; /* text may hold $NAME */
  mr__pos_t pos;
  const char *value; /* text with variables replaced, by mr__graph_resolve; else NULL */
  const char *given; /* the NAME=VALUE of an override; NULL: from the text or a call */
} mr__setting_t;

typedef struct mr__var {
  const char *name, *text;
  bool expand;
  mr__pos_t pos;
  const char *value; /* as in mr__setting_t */
  const char *given; /* as in mr__setting_t */
} mr__var_t;

/* A stage's answers to marks (pipeline/run/durable.h). */
typedef struct mr__durable {
  bool answers;
  int64_t mark; /* the newest mark it has answered, 0: none */
  bool stored;
  bool late; /* a wait for it has timed out, with no answer since */
  bool gone; /* its thread has ended */
} mr__durable_t;

enum { MR__NOTHING_MAX = 200 };

typedef struct mr__node {
  const mr_stage_def_t *def;
  const char *name; /* "" until the parser names it */
  bool named;       /* by name=, not by its def */
  mr__pos_t pos;
  mr__setting_t *set;
  int n_set;
  int64_t start_position, start_number, start_record;
  int64_t *start_word; /* [n_start_words] */
  int n_start_words;
  void *state;
  mr_stage_t *worker;        /* [MR_MAX_WORKERS] */
  mr_atomic_i64_t *reported; /* mr_stage_t.reported; relaxed: each is a number of its own */
  int n_workers;             /* threads; 0: a record stage */
  int first_in;              /* the first edge that leads here, plus 1; 0: none */
  int last_in;               /* the last of them */
  int free_in;               /* every input before it is linked */
  int *edge_in;              /* [worker->n_in] the edge into each input, plus 1; 0: none.  From
                                settling on; NULL: the list from first_in says */
  void *ports;               /* what the worker's ports lie in */
  int process;               /* its block, from 1; 0: none */
  const char *alias;         /* of the stage, if the text calls it so; NULL: def->name */
  const char *next; /* the stage that follows it without "!", and so begins another chain; NULL:
                       none */
  int n_chains;     /* source: chains that read it */
  char nothing[MR__NOTHING_MAX]; /* mr_gave_nothing; "": it gave something, or did not say why
                                    not */
  bool opened, planned;          /* planned: plan has run, and forget not yet */
  _Atomic int64_t
      committed;         /* mr_committed; written under commit_lock (seq_cst, news for waiters) */
  mr__durable_t durable; /* under the graph's commit_lock */
  struct mr_runtime *rt; /* [n_workers] */
  struct mr__node *next_dropped;
} mr__node_t;

typedef struct mr__edge {
  int from, out, to, in; /* node, port, node, port */
  mr__pos_t pos;
  mr_ring_t **ring;    /* [workers of from][workers of to] */
  const char *in_name; /* of an input of a family, "valid.dogs", or behind the described ones, "aa";
                          NULL: the definition's */
  int next_in;         /* the next edge into the same node, plus 1; 0: none */
} mr__edge_t;

/* The number before which an edge's buffers are committed: `here` by the stage it leads to,
   `beyond` by the stages behind that one (pipeline/run/commit.c). */
typedef struct mr__commit {
  int64_t here, beyond;
} mr__commit_t;

typedef struct mr__text {
  struct mr__text *next;
  char s[];
} mr__text_t;

/* What wants the lineages of records (mr_graph_lineage). */
typedef struct mr__lineage_to {
  uint64_t (*fn)(void *ctx, const struct mr_lineage *t); /* mr_lineage_fn; NULL: no one asks */
  void *ctx;
  bool only;
} mr__lineage_to_t;

struct mr_graph {
  const mr_registry_t *reg;
  mr__text_t *texts;          /* every string of the graph */
  const char *origin;         /* of its text, for messages; NULL: unknown */
  mr_plugin_fn *load_plugin;  /* NULL: text may not load plug-ins */
  mr_missing_fn *add_missing; /* NULL: what an override names is there, or it is refused */
  void *plugin_ctx;
  const char **plugin; /* [n_plugins] file names as in the text */
  int n_plugins;
  mr__node_t **node;
  int n_nodes;
  mr__node_t *dropped;
  mr__node_t **process; /* blocks of the text: of these nodes only name, pos and set are used */
  int n_processes;
  int here; /* the block that this process runs (mr_graph_keep_process), from 1; 0: all */
  mr__edge_t *edge;
  int n_edges;
  mr__var_t *var;
  int n_vars;
  int timeline_events;       /* of each worker; 0: off */
  int depth;                 /* 0: by buffer size */
  int pool_most;             /* 0: as many as the rings hold */
  struct mr__taken *taken;   /* [cap_taken] the names in use (name.c); NULL: not known now */
  size_t n_taken, cap_taken; /* cap_taken: a power of two */
  int *order;                /* [n_nodes] topological, sources first; NULL until settled */
  bool settled, started, joined;
  int n_stuck;                    /* threads that have not ended though it is joined (stuck.c) */
  struct mr_graph *next_kept;     /* for good, because of them */
  uint32_t forks;                 /* mr_forks() where it was started */
  int64_t start_ns, start_cpu_ns; /* when its threads started; processor time of the process at that
                                     moment */
  _Atomic int64_t end_ns;         /* when the threads had ended; 0 before */
  int64_t start_all_ns, end_all_ns; /* processor time of all programs (mr_processors_ns) */
  int64_t end_cpu_ns;               /* written before end_ns, as end_all_ns */
  int64_t asked_ns;                 /* when the thread that joins saw that the run is to end */

  mr__lineage_to_t lineage;

  mr_pool_t **pool;        /* [n_nodes * MR_MAX_PORTS] */
  mr_wait_t **wait;        /* [n_waits] wait objects of all threads, grouped by node */
  _Atomic int n_waits;     /* release at the end of mr__wire, acquire by readers of `wait` */
  atomic_int stop, cancel; /* news for waiters: exchanged and loaded seq_cst (wait.h), but relaxed
                              by mr_stopping and mr__graph_halt, which look again soon */
  const mr_atomic_int_t *outer; /* mr_graph_ends_with; as stop for mr__graph_halt alone */
  pthread_mutex_t commit_lock;
  pthread_cond_t answered; /* signalled when a stage's mr__durable_t changes */
  mr__commit_t *commit;    /* [n_edges] under commit_lock; NULL before the start */
  atomic_int n_awaiting;   /* mr_link_end_await; relaxed: it hands nothing over, and a stage that
                              reads it late ends a wake-up later */
  atomic_int n_lost;       /* threads that no one waits for (stuck.c); as stop, news for waiters */
  pthread_cond_t ended;    /* signalled under lock when a thread has ended */
  pthread_mutex_t lock;    /* guards the four below, and which threads are over */
  mr_diag_t failure;       /* the first one */
  struct mr_snapshot *sample; /* where the window of mr_limiting_stage began; NULL: not yet */
  void (*free_sample)(struct mr_snapshot *sample); /* set with it */
  int64_t sampled_ns;
  char limiting[64];
};

/* A copy of s[0,n) that lives as long as the graph; NULL when memory is short. */
const char *mr__graph_text(mr_graph_t *g, const char *s, size_t n);
int mr__graph_find(const mr_graph_t *g, const char *name); /* node index, or -1 */

/* The parser's builder: the calls of graph.h by node index and with positions.  A new node stays
   nameless until mr__graph_rename or mr__graph_name_all. */
int mr__graph_new_node(mr_graph_t *g, const mr_stage_def_t *def, mr__pos_t pos); /* -1: no memory */

void mr__workers_free(mr_stage_t *worker); /* a node's; NULL is fine */

/* Gives a node's first worker its ports, with `inputs` inputs or as many as its definition
   describes: nothing is linked, and every spec is zeros.  False without memory. */
bool mr__node_ports(mr__node_t *node, int inputs);

/* Runs forget of a stage whose plan has run, once; before its state is zeroed or freed. */
void mr__node_forget(mr__node_t *node);
mr_err_t mr__graph_new_edge(mr_graph_t *g, mr__edge_t e, mr_diag_t *diag);
/* Lets an edge lead to input 0 of node `to`, under the input's own name. */
void mr__graph_redirect(mr_graph_t *g, int edge, int to);
void mr__graph_list_edges(mr_graph_t *g); /* after nodes or edges have got other numbers */
mr_err_t mr__graph_put(mr_graph_t *g, mr__node_t *node, mr__setting_t set, mr_diag_t *diag);
/* For a family: gives the node the definition that its settings choose, which then must know all of
   them.  Not resolved: does nothing if a variable decides.  MR_ERR_CONFIG names the setting. */
mr_err_t mr__graph_choose(mr_graph_t *g, mr__node_t *node, bool resolved, mr_diag_t *diag);
/* name.c: the characters of the names of stages, and of the inputs that a graph names. */
extern const char mr__name_characters[];
/* Names a node; MR_ERR_USAGE if another has the name or it has other characters. */
mr_err_t mr__graph_rename(mr_graph_t *g, mr__node_t *node, const char *name, mr_diag_t *diag);
/* Names a node after its def, or after the alias by which the text calls it, with a number from the
   second on. */
mr_err_t mr__graph_name(mr_graph_t *g, mr__node_t *node, mr_diag_t *diag);
mr_err_t mr__graph_name_all(mr_graph_t *g, mr_diag_t *diag); /* those without a name */
void mr__names_forget(mr_graph_t *g);                        /* after a name has become free */
int mr__process_find(const mr_graph_t *g, const char *name); /* index, or -1 */
/* Records a plug-in of the text, and loads it. */
mr_err_t mr__graph_plugin(mr_graph_t *g, const char *file, mr_diag_t *diag);
/* Adds a block without name or settings; NULL without memory. */
mr__node_t *mr__process_new(mr_graph_t *g, mr__pos_t pos);
/* MR_ERR_USAGE for more than MR_PROCESSES_MAX processes, each copy counted. */
mr_err_t mr__process_count(const mr_graph_t *g, mr_diag_t *diag);
/* Writes out every block with copies=N as N blocks (process_copies.c). */
mr_err_t mr__process_copies(mr_graph_t *g, mr_diag_t *diag);
/* Drops the nodes of other processes than g->here from the nodes and their order. */
mr_err_t mr__process_drop_others(mr_graph_t *g, mr_diag_t *diag);
/* Drops the nodes i with kept[i] == 0, and their edges; kept[i] becomes the new number or -1. */
void mr__graph_drop(mr_graph_t *g, int *kept);
/* For a settled graph: MR_ERR_CONFIG if a stage is to resume from a state with more numbers than
   its stream has.  A state with fewer comes from an earlier version. */
mr_err_t mr__resume_check(const mr_graph_t *g, mr_diag_t *diag);
/* Index of a port by name (NULL: the first), or -1 with a sentence that begins with pos and
   stage. */
int mr__graph_port(const mr_stage_def_t *def, bool out, const char *name, const char *stage,
                   mr__pos_t pos, mr_diag_t *diag);
/* The same for an input of node i, in e->in, with the name of one of a family in e->in_name: the
   one of that name, or else the first that is free.  MR_OK, or MR_ERR_USAGE. */
mr_err_t mr__graph_input(mr_graph_t *g, int i, const char *name, mr__pos_t pos, mr__edge_t *e,
                         mr_diag_t *diag);
/* What the graph calls the input that an edge leads to.  Owned by the graph or the definition. */
const char *mr__edge_in_name(const mr_graph_t *g, const mr__edge_t *e);

/* Replaces the variables in every variable and setting: sets their `value`, owned by the graph.
   MR_ERR_USAGE if a value grows longer than MR__MOST_VALUE bytes, or all of them together than
   MR__MOST_VALUES, with the place; MR_ERR_NOMEM. */
enum { MR__MOST_VALUE = 65536, MR__MOST_VALUES = 1 << 24 };
/* mr_graph_override without resolving. */
mr_err_t mr__graph_override(mr_graph_t *g, const char *name_value, mr_diag_t *diag);
/* Applies name_value[0,n).  Those that others depend on come first: variables, and the settings
   that choose a member of a family. */
mr_err_t mr__graph_overrides(mr_graph_t *g, const char *const *name_value, int n, mr_diag_t *diag);
mr_err_t mr__graph_resolve(mr_graph_t *g, mr_diag_t *diag);
/* The length of the variable's name that s begins with; 0 without one. */
size_t mr__var_span(const char *s);
/* Index of the variable called name[0,n), or -1. */
int mr__graph_var(const mr_graph_t *g, const char *name, size_t n);
/* The value of a setting of a graph that has been resolved; lives as long as the graph. */
const char *mr__setting_text(const mr__setting_t *set);

/* "3:14: " or "" into text[0,n). */
/* Room for the metrics that a definition declares, none of them reported (mr_stage_t.reported); the
   caller frees it.  NULL without memory. */
mr_atomic_i64_t *mr__metrics_none(const mr_stage_def_t *def);

const char *mr__pos_text(mr__pos_t pos, char *text, size_t n);
/* Where the value of a setting of def comes from, into text[0,n): "epochs=three: " for an override
   of the setting or of a variable in it, as it may be shown, else the place in the text, or "".
   Returns text. */
const char *mr__setting_where(const mr_graph_t *g, const mr_stage_def_t *def,
                              const mr__setting_t *set, char *text, size_t n);
/* Fails with code and why's sentence; the text's origin comes before a sentence that begins with a
   place. */
mr_err_t mr__fail_at_origin(const mr_graph_t *g, mr_err_t code, const mr_diag_t *why,
                            mr_diag_t *diag);
/* As mr_graph_set, for the NAME=VALUE of an override. */
mr_err_t mr__graph_set_given(mr_graph_t *g, const char *stage, const char *setting,
                             const char *value, const char *given, mr_diag_t *diag);

/* True if def is a step stage, which threads run. */
static inline bool mr__is_step(const mr_stage_def_t *def) { return def->step != NULL; }

/* What the waits of threads that work for a graph ask: whether it was stopped or cancelled. */
mr_halt_t mr__graph_halt(const mr_graph_t *g);

/* One more than the last input of a node that is linked. */
int mr__count_inputs(const mr_graph_t *g, const mr__node_t *node);

/* The edge into an input port, or NULL. */
const mr__edge_t *mr__edge_into(const mr_graph_t *g, int node, int port);

/* An edge downstream of a node. */
typedef struct mr__behind {
  int edge;
  bool first; /* the first one in the list that leads to its stage */
} mr__behind_t;
/* Lists every edge downstream of a node, each once, in *list (heap, the caller frees it) and *n; in
   a time proportional to the graph, without recursion.  MR_ERR_NOMEM, and *list is NULL. */
mr_err_t mr__edges_behind(const mr_graph_t *g, int node, mr__behind_t **list, int *n);

/* standstill.c: sizes of rings and pools, and the check that a graph with them cannot come to a
   standstill. */

/* Buffers that each ring of an edge counts for in the sizes of pools, and that it holds: as many,
   or twice as many before a pulled stage.  After the specs are settled. */
size_t mr__edge_depth(const mr_graph_t *g, const mr__edge_t *e);
size_t mr__ring_depth(const mr_graph_t *g, const mr__edge_t *e);

/* The buffers of each of a stage's pools: as many as the rings allow in flight, but along a long
   chain of single workers a few for each stage; or the most that mr_graph_set_pool allows.
   MR_ERR_NOMEM. */
mr_err_t mr__pool_size(const mr_graph_t *g, int node, size_t *n);

/* Refuses a settled graph whose stages could wait for each other for ever, with the reason. */
mr_err_t mr__check_standstill(const mr_graph_t *g, mr_diag_t *diag);

/* True in a child of the process that runs g: its threads are not here.  Implemented in sched.c. */
bool mr__graph_is_of_parent(const mr_graph_t *g);

#endif
