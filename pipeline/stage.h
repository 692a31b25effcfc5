/* A stage: one constant, one file, one line in its folder's list.def.

   There are three kinds, told apart by which functions are set:
   - a *source of records* (fetch) or an *order* over one (order): indexable, no thread;
   - a *map* (map): one record to one record; neighbours fuse, no thread;
   - a *step* stage (step): works on buffers in a thread of its own, or in
     workers=N threads if .parallel is set.
   A chain of fetch, order and map stages ends in a step stage (batch), which
   runs it with mr_chain_fill. */
#ifndef MR_PIPELINE_STAGE_H
#define MR_PIPELINE_STAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/philox.h"
#include "pipeline/buffer.h"
#include "pipeline/opt.h"
#include "pipeline/spec.h"

enum { MR_BURST = 32, MR_MAX_PORTS = 4 };

typedef struct mr_stage mr_stage_t;
typedef struct mr_chain mr_chain_t;

/* One record on its way through a chain. */
typedef struct mr_rec {
  void *data; /* fetch sets it (may point into resident memory); a map reads in->data and
                 either writes out->data or sets out->data = in->data (nothing to do) */
  int32_t label;
  uint64_t key;     /* record id within the source */
  uint64_t draw;    /* hash of the draws so far: mr_draw_note */
  mr_philox_t *rng; /* the record's own generator; NULL without a seed */
} mr_rec_t;

/* Notes a random decision in the ledger's hash of this record. */
void mr_draw_note(mr_rec_t *r, uint64_t what);

typedef struct mr_port_def {
  const char *name;
  mr_flow_t flow; /* MR_FLOW_NONE: any */
  bool optional;  /* may stay unconnected */
  bool lossy;     /* input: when its ring is full the oldest buffers go, and the stage before never
                     waits for this one.  For what is only watched */
} mr_port_def_t;

typedef struct mr_stage_def {
  const char *name;                                  /* said by graph files, logs and metrics */
  const char *help;                                  /* one sentence, ends with a period */
  mr_port_def_t in[MR_MAX_PORTS], out[MR_MAX_PORTS]; /* end at a NULL name */
  const mr_opt_t *opts;                              /* ends at {0}; NULL: none */
  size_t state_sz; /* bytes, zeroed, then filled with the settings before plan */
  bool parallel;   /* step may run in workers=N threads (a setting every such stage gets) */

  /* Settles the output specs (s->out_spec[i]) from the input specs (s->in_spec[i]); allocates
     nothing outside the state.  Fails with MR_ERR_SHAPE or MR_ERR_CONFIG. */
  mr_err_t (*plan)(mr_stage_t *s);
  mr_err_t (*open)(mr_stage_t *s); /* takes memory, files, devices */
  void (*close)(mr_stage_t *s);    /* gives back, also after a failed open or none */

  /* Source: sets data, label and key of out[i] for index[i] in [0,n_records).  May be called by
     several workers at once; worker in [0,workers) picks per-worker scratch, slot i of which
     stays valid until the next fetch of that worker.  n <= the chain's burst (MR_BURST). */
  mr_err_t (*fetch)(mr_stage_t *s, int worker, const int64_t *index, int n, mr_rec_t *out);

  /* Order: what stands at a position in [0, n_epochs*n_records): the index to ask the stage
     before for, and the seed of the record's generator (philox key; *seeded false: none). */
  mr_err_t (*order)(mr_stage_t *s, int64_t position, int64_t *index, uint64_t *seed, bool *seeded);

  /* Map: hot.  State is read-only here: several workers call it at once. */
  mr_err_t (*map)(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

  /* Step: one burst.  MR_OK: did something.  MR_AGAIN: wait for a port.  MR_END: over.  < 0:
   * failed. */
  mr_err_t (*step)(mr_stage_t *s);

  /* One line for people when the run is over (after close; state still stands) into text[0,n);
     left empty: nothing is said.  NULL: never says anything. */
  void (*report)(mr_stage_t *s, char *text, size_t n);

  /* Source: how its records would be read here and why, one line into text[0,n); after plan,
     without open: it looks at the files and keeps none.  NULL: they are made in memory. */
  mr_err_t (*explain)(mr_stage_t *s, char *text, size_t n);
} mr_stage_def_t;

/* A running (or planned) stage; with workers=N one mr_stage_t a worker, state shared. */
struct mr_stage {
  const mr_stage_def_t *def;
  const char *name;      /* unique in the graph: name=..., or def->name plus a number */
  void *state;           /* def->state_sz bytes */
  int worker, n_workers; /* worker in [0,n_workers) */
  mr_spec_t in_spec[MR_MAX_PORTS], out_spec[MR_MAX_PORTS];
  bool in_linked[MR_MAX_PORTS], out_linked[MR_MAX_PORTS];
  mr_diag_t *diag;        /* where this stage's thread tells failures: mr_stage_fail */
  int64_t start_position; /* where a resumed stream goes on; set before open, 0 else */
  struct mr_runtime *rt;  /* the scheduler's side */
};

/* Fails with "STAGE: sentence". */
mr_err_t mr_stage_fail(mr_stage_t *s, mr_err_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- calls for step functions; none of the first four blocks ---- */
size_t mr_take(mr_stage_t *s, int port, mr_buf_t **out,
               size_t n);                /* in order; the caller owns them */
size_t mr_room(mr_stage_t *s, int port); /* buffers that mr_give takes now, [0,MR_BURST] */
void mr_give(mr_stage_t *s, int port, mr_buf_t *const *in, size_t n); /* n <= room; ownership passes
                       on to every consumer of the port; with none linked they are released */
mr_err_t mr_idle(
    mr_stage_t *s); /* AGAIN, or END once every input is over (or every linked output is gone) */

/* Buffers that a lossy input has let go so far.  Any thread. */
int64_t mr_lost(const mr_stage_t *s, int port);

/* Blocking forms: MR_OK; MR_END when upstream is over (pull) or every consumer is gone (push,
   fresh); MR_ERR_CANCEL when the graph failed or was cancelled.  push owns b whatever it returns.
 */
mr_err_t mr_pull(mr_stage_t *s, int port, mr_buf_t **out);
mr_err_t mr_push(mr_stage_t *s, int port, mr_buf_t *b);
mr_err_t mr_fresh(mr_stage_t *s, int port, mr_buf_t **out); /* a free buffer of the port's pool */
/* Waits until every consumer has let go of what was given at the port, and of what that points to.
   For stages of one worker, which holds no buffer of the port.  MR_OK or MR_ERR_CANCEL. */
mr_err_t mr_all_back(mr_stage_t *s, int port);

bool mr_stopping(const mr_stage_t *s); /* somebody asked for an orderly stop (Ctrl-C) */

/* The chain before an input port of flow RECORDS. */
mr_chain_t *mr_in_chain(mr_stage_t *s, int port);
/* Runs positions [pos,pos+n) through the chain into slots [0,n) of buf (data, label, key, draw).
   One worker at a time per s. */
mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf);

/* The stage that the others wait for (largest busy share lately) into text; "" if unknown. */
void mr_limiting_stage(const mr_stage_t *s, char *text, size_t n);

#endif
