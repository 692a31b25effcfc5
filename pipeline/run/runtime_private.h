/* One worker of a step stage while the graph runs.  wire.c makes it, port.c works with it; commit.c
   and durable.c have one call each. */
#ifndef MR_PIPELINE_RUN_RUNTIME_PRIVATE_H
#define MR_PIPELINE_RUN_RUNTIME_PRIVATE_H

#include "pipeline/records/records_private.h"

/* ---- the timeline ---- */

typedef enum mr__event_kind { MR__TOOK, MR__GAVE, MR__STARVES, MR__BLOCKS } mr__event_kind_t;

typedef struct mr__event {
  int64_t at_ns;
  int64_t what; /* number of the first buffer; for a wait its duration, ns */
  int64_t position;
  uint16_t n, stride; /* buffers, and the step from one number to the next */
  uint16_t port;
  uint16_t kind; /* mr__event_kind_t */
} mr__event_t;

_Static_assert(sizeof(mr__event_t) == 32, "memory of a timeline is said in events");

/* One worker's events; written by that worker alone, read after it has ended. */
typedef struct mr__timeline {
  uint64_t n;   /* events so far */
  uint64_t cap; /* a power of two */
  mr__event_t event[];
} mr__timeline_t;

static inline void mr__timeline_note(mr__timeline_t *t, mr__event_t e) {
  t->event[t->n++ & (t->cap - 1)] = e;
}

/* ---- a worker ---- */

/* Rings into one input port: producer t % n gives buffer number t of the edge. */
typedef struct mr__in {
  mr_ring_t **ring; /* [n * stride], every stride-th belongs to this worker */
  int n, stride;    /* producers, consumers; n 0: not linked, or records */
  uint64_t next;    /* number of the next buffer */
} mr__in_t;

/* Rings of one edge from this worker: buffer number t goes to consumer t % m. */
typedef struct mr__fan {
  mr_ring_t **ring; /* [m] */
  int m;
} mr__fan_t;

typedef struct mr__out {
  mr__fan_t *edge; /* [n_edges] */
  int n_edges;
  uint64_t next; /* number of the next buffer */
  mr_pool_t *pool;
} mr__out_t;

/* Written by the worker with relaxed stores, read live with relaxed loads: the numbers are
   independent.  But a wait that ends moves its time from waits_since to a sum: while it does,
   wait_turn is odd, and read_waits in watch.c, which reads them together, retries if it was odd or
   has changed (the releases of end_wait pair with its acquires). */
typedef struct mr__counters {
  _Atomic int64_t dropped; /* mr_set_dropped */
  /* mr_set_link; committed is written last (release) and read first (acquire), so that no reader
     sees it beyond released.  It is stored plus one; 0: not reported. */
  _Atomic int64_t released, committed_1;
  _Atomic int64_t given, taken, starved_ns, blocked_ns, start_ns, end_ns;
  _Atomic int64_t waits_since; /* ns; 0: not waiting */
  atomic_uint wait_turn;
  _Atomic int64_t depth_sum, depth_n;
  atomic_int wait_kind;             /* MR__STARVED or MR__BLOCKED */
  atomic_int tid;                   /* kernel's number of the thread; 0: not begun */
  _Atomic int64_t cpu_ns, delay_ns; /* mr_thread_time at the thread's end, 0 before */
} mr__counters_t;

enum { MR__STARVED, MR__BLOCKED };

typedef struct mr_runtime {
  mr_wait_t wait;
  mr_graph_t *g;
  mr__node_t *node;
  mr_stage_t *s;
  /* In lines of their own, because the worker writes to them. */
  mr__in_t *in;       /* [s->n_in] */
  mr__out_t *out;     /* [s->n_out] */
  mr_chain_t **chain; /* [s->n_in] */
  int n_in, n_out;    /* linked ports with rings */
  uint64_t n_takes;
  mr__timeline_t *timeline; /* NULL: off */
  mr_diag_t diag;
  pthread_t thread;
  bool running;
  bool over;        /* the thread has ended; under the graph's lock */
  atomic_bool lost; /* no one waits for it (stuck.c), and it ends if it comes back; relaxed: the
                       rings say so to its neighbours */
  int64_t still_since, still_cpu; /* stuck.c: since when it uses no processor; how much it has */
  _Alignas(64) mr__counters_t count;
} mr_runtime_t;

/* Adds to a counter that only this thread writes; relaxed, counters are independent. */
static inline void mr__count(_Atomic int64_t *c, int64_t n) {
  atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline bool mr__cancelled(const mr_runtime_t *rt) {
  /* seq_cst: a waiter decides by it whether to sleep (wait.h), and it pairs with mr_graph_cancel's
     exchange.  On x86-64 it is a plain load. */
  return atomic_load_explicit(&rt->g->cancel, memory_order_seq_cst);
}

/* Waits on the worker's wait object and accounts the time; returns at once if ready. */
void mr__wait_counted(mr_runtime_t *rt, int kind, bool (*ready)(void *arg), void *arg);

/* A sum that changes with everything that the worker may wait for. */
uint64_t mr__news(const mr_runtime_t *rt);
/* Waits until mr__news differs from mark, or the graph is cancelled. */
void mr__wait_news(mr_runtime_t *rt, uint64_t mark);

/* wire.c: makes what the workers of a settled graph run with: runtimes, rings, pools, chains.
   MR_ERR_NOMEM leaves some of it made.  mr__unwire frees what was made, when no thread runs. */
mr_err_t mr__wire(mr_graph_t *g);
void mr__unwire(mr_graph_t *g);

/* memory.c: MR_ERR_NOMEM for a settled graph that the machine has too little memory for. */
mr_err_t mr__memory_check(mr_graph_t *g, mr_diag_t *diag);

bool mr__in_over(mr__in_t *in, int worker);
bool mr__out_gone(const mr__out_t *out);
bool mr__commit_init(mr_graph_t *g); /* no stage keeps anything yet; false: no memory */

/* When a thread ends: it answers no further mark (pipeline/run/durable.h). */
void mr__durable_leave(mr_runtime_t *rt);

/* When a thread ends: closes every output ring, leaves every input ring and releases its
   buffers. */
void mr__leave(mr_runtime_t *rt);

/* stuck.c: blocks until every thread has ended, or the run is to end and the others are stuck in
   the kernel.  A notice names each of these.  Returns how many there are. */
int mr__join_threads(mr_graph_t *g);

#endif
