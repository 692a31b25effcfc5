/* A stage: one constant, one file, one line in its folder's list.def.

   There are three kinds, told apart by which functions are set:
   - stages of a *record stream*, without a thread: a source (fetch); an order, which says what
     stands at a position (order: shuffle, slice, mix); a map, one record to one record (map);
     a filter, which leaves holes (keep); a join of several records into one (join: zip); and a
     walk, which gives records one after the other (next: interleave);
   - a *step* stage (step): works on buffers in a thread of its own, or in workers=N threads if
     .parallel is set.
   Record stages form a tree that ends in a step stage (batch), which runs it: by position with
   mr_chain_fill, or in order, without the holes, with mr_walk_next and mr_plan_fill.

   A record stream is *indexable* (grain's MapDataset): a function of any position >= 0, of which
   an epoch has n_records; some positions may be holes.  Or it is *sequential* (grain's
   IterDataset): a walk with a few numbers as its state.  Filters, maps and joins of sequential
   streams are sequential; a stage with both order and next (mix) is what its inputs are. */
#ifndef MR_PIPELINE_STAGE_H
#define MR_PIPELINE_STAGE_H

#include <stdbool.h>

#include "base/decls.h"
#include "base/err.h"
#include "base/philox.h"
#include "pipeline/buffer.h"
#include "pipeline/opt.h"
#include "pipeline/spec.h"

MR_BEGIN_DECLS

enum { MR_BURST = 32, MR_MAX_PORTS = 8, MR_MAX_LANES = 256 /* readers of one source */ };

typedef struct mr_stage mr_stage_t;
typedef struct mr_chain mr_chain_t;
typedef struct mr_walk mr_walk_t;
typedef struct mr_plan mr_plan_t;

/* One record on its way through a chain. */
typedef struct mr_rec {
  void *data; /* fetch sets it (may point into resident memory); a map reads in->data and
                 either writes out->data or sets out->data = in->data (nothing to do) */
  int32_t label;
  uint64_t key;           /* record id within the source */
  uint64_t draw;          /* hash of the draws so far: mr_draw_note */
  mr_philox_t *rng;       /* the record's own generator; NULL without a seed */
  struct mr_draws *draws; /* where draws are noted in words (pipeline/trace.h); NULL: nowhere */
  bool skipped; /* skip-records= leaves it out: the batch gets no label and zeros for it */
} mr_rec_t;

/* Where a record comes from. */
enum { MR_WHERE_MAX = 4096 };
typedef struct mr_where {
  uint64_t key;   /* as in mr_rec_t */
  char *file;     /* [MR_WHERE_MAX] the caller's: the file that holds it, or the words that say what
                     makes it */
  int64_t offset; /* of its first byte in the file; -1: it is made in memory */
} mr_where_t;

/* What an order finds at a position. */
typedef struct mr_at {
  int port;      /* input to ask, 0 unless set */
  int64_t index; /* position there, >= 0; the position asked for unless set */
  bool hole;     /* nothing stands here */
  bool seeded;   /* from here on the record's generator is Philox of key, its counter starting at
                    (0, 0, 0, counter); out_spec[0].seeded says so to the stages behind */
  uint64_t key[2], counter;
} mr_at_t;

/* How often a stream of records at positions repeats itself: the positions [k * n, (k + 1) * n)
   hold the same records for every k >= 0, in the same order if `ordered`.  n == 0: nobody knows. */
typedef struct mr_period {
  int64_t n;
  bool ordered;
} mr_period_t;

/* Notes a random decision in the ledger's hash of this record. */
void mr_draw_note(mr_rec_t *r, uint64_t what);

typedef struct mr_port_def {
  const char *name;
  mr_flow_t flow; /* MR_FLOW_NONE: any */
  bool optional;  /* may stay unconnected */
  bool lossy;     /* input: when its ring is full the oldest buffers go, and the stage before never
                     waits for this one.  For what is only watched */
  bool leaves;    /* input: buffers go on to other processes, so that they are best made in memory
                     that those can map */
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

  /* Source: the next fetch of this worker will most likely be of index[0,n); true if their reads
     have begun.  What its last fetch gave stays, failures are told by fetch.  n == 0 asks whether
     it is worth while now.  NULL: it never is. */
  bool (*ahead)(mr_stage_t *s, int worker, const int64_t *index, int n);

  /* Source: where record index comes from, into *out, whose file stands.  After plan; a pure
     function that touches no file.  NULL: nobody can tell but fetch. */
  void (*where)(mr_stage_t *s, int64_t index, mr_where_t *out);
  size_t care; /* source: offset of an mr_care_t in the state (pipeline/care.h), 0: none */

  /* Order: what stands at a position >= 0. */
  mr_err_t (*order)(mr_stage_t *s, int64_t position, mr_at_t *at);

  /* Order: the period of what comes out, in[p] being that of input p, whose epochs need not be a
     whole number of periods long.  After plan.  NULL: none is known, and seeking behind a filter
     goes through all records. */
  mr_period_t (*period)(const mr_stage_t *s, const mr_period_t *in);

  /* Map: hot.  State is read-only here: several workers call it at once, each with a scratch of
     its own. */
  mr_err_t (*map)(mr_stage_t *s, const mr_rec_t *in, mr_rec_t *out);

  /* Map: says what mr_draw_note(r, what) meant, "mirrored", into text[0,n).  NULL: the number. */
  void (*draw_text)(const mr_stage_t *s, uint64_t what, char *text, size_t n);

  /* Filter: whether a record stays.  As read-only as map; a record may be asked for twice. */
  mr_err_t (*keep)(mr_stage_t *s, const mr_rec_t *rec, bool *keep);
  bool of_record; /* filter: asks label and key alone */

  /* Join: one record from those of the inputs [0,n); out->data has room for one, out's label,
     key, draw and generator are the first input's unless set. */
  mr_err_t (*join)(mr_stage_t *s, const mr_rec_t *in, int n, mr_rec_t *out);

  /* Walk: makes the next record this stage's next one with a single mr_walk_pull that gave
     MR_OK; MR_END when there is none. */
  mr_err_t (*next)(mr_stage_t *s, mr_walk_t *w);
  /* Walk: moves on as n >= 1 calls of next would, without finding the records (mr_walk_skip):
     MR_OK, or MR_END where there are not n and the walk may stand anywhere.  NULL: calls next. */
  mr_err_t (*skip)(mr_stage_t *s, mr_walk_t *w, int64_t n);
  bool deals;    /* walk: a part (offset, stride) of its stream is made of every stride-th of its
                    inputs, whole, and not of a part of each; the walk may then have no walk below */
  bool one_each; /* walk: each record is the next one of its only input */
  int n_words;   /* numbers of state that next keeps in mr_walk_words, zero at the start; a step
                    stage: that it adds before those of the buffers it takes, the last of them the
                    number of the buffer it goes on with */
  int (*n_walks)(const mr_stage_t *s); /* walks over parts of input 0; NULL: one over each input */

  bool sparse;    /* order leaves holes */
  bool publishes; /* gives to subscribers outside the graph and waits for none: mr_set_dropped */
  bool outside;   /* the other end of its stream is in another process, which its setting "peer" may
                     name: without inputs it waits for that one's buffers, else for room there */
  bool uncounted; /* does not count where grain counts the steps from a pipeline's seed */

  /* Step: one burst.  MR_OK: did something.  MR_AGAIN: wait for a port.  MR_END: over.  < 0:
   * failed. */
  mr_err_t (*step)(mr_stage_t *s);

  /* Step: what buffer number >= 0 of output 0 begins with: the number of a buffer of input 0, where
     that has records their position (0: start_number says all); own[0,n_words) is what this stage
     keeps before it.  Or, where input 0 is by_record, *record above 0, and number 0.  After plan.
     -1: it does not follow from the number alone.  NULL: a buffer out for each one in. */
  int64_t (*seek)(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record);

  /* After close: a failure makes a run fail in which nothing else has.  NULL: never. */
  mr_err_t (*verdict)(mr_stage_t *s);

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
  mr_diag_t *diag;           /* where this stage's thread tells failures: mr_stage_fail */
  int64_t start_position;    /* where a resumed stream goes on; set before open, 0 else */
  int64_t start_number;      /* number of the first buffer it gives, from 0; without a position the
                                stage goes there by itself */
  int64_t start_record;      /* above 0: the first buffer begins with this record of the stream of
                                batches, from 0, instead; those of empty batches do not count */
  const int64_t *start_word; /* [n_start_words] mr_buf_t.word there; NULL: none are known */
  int n_start_words;
  uint64_t given;        /* bit i: setting i of def->opts was given, not left to its default */
  bool has_default_seed; /* the pipeline has a seed, from which this stage's own one follows as */
  uint32_t default_seed; /* grain derives it */
  int64_t holds;         /* plan may set it: buffers that a worker keeps while it waits for more, 0
                            stands for 1; pools are made so much larger */
  size_t scratch_bytes;  /* map: plan may set it, bytes that each worker has for itself at */
  void *scratch;         /* scratch, 64-aligned, for the time of a call; NULL where it set none */
  int waits;             /* mr_waits_t: the stage may set it before mr_wait_fds */
  int64_t base_seed;     /* plan sets it (-1): stages after this one derive their seeds from it */
  struct mr_runtime *rt; /* the scheduler's side */
};

/* True if the setting at this offset of the state was given. */
bool mr_setting_given(const mr_stage_t *s, size_t offset);

/* In plan of a stage that draws: fails where the records of input 0 have no generator to draw from.
   otherwise: which settings do without one, "p=0 or p=1". */
mr_err_t mr_needs_generator(mr_stage_t *s, const char *otherwise);

/* Fails with "STAGE: sentence". */
mr_err_t mr_stage_fail(mr_stage_t *s, mr_err_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- calls for step functions; none of the first four blocks ---- */
/* Up to n buffers in order; the caller owns them. */
size_t mr_take(mr_stage_t *s, int port, mr_buf_t **out, size_t n);
/* Buffers that mr_give takes now, [0,MR_BURST]. */
size_t mr_room(mr_stage_t *s, int port);
/* n <= room; ownership passes on to every consumer of the port, or to nobody: then released. */
void mr_give(mr_stage_t *s, int port, mr_buf_t *const *in, size_t n);
/* AGAIN, or END once every input is over (or every linked output is gone). */
mr_err_t mr_idle(mr_stage_t *s);

/* What a stage waits for, where its ports do not tell. */
typedef enum mr_waits { MR_WAITS_PORTS, MR_WAITS_INPUT, MR_WAITS_ROOM } mr_waits_t;

/* For a stage that also waits for file descriptors, whose step then returns MR_OK: news changes
   with everything that the stage may wait for in the graph; wait_fds returns once it is no longer
   seen (what it was before the stage last looked around), a descriptor is ready, or ms have passed.
   n in [0,MR_WAIT_FDS].  The time counts as s->waits says. */
struct pollfd;
uint64_t mr_news(const mr_stage_t *s);
mr_err_t mr_wait_fds(mr_stage_t *s, uint64_t seen, const struct pollfd *fd, int n, int ms);

/* What a process goes on from when it has died is kept by a few stages: a checkpoint, the state of
   a ledger, a link out (whose other end keeps it).  They say in open that they will, and then, once
   it is durable, that the buffers before number at an input port of stage `of` (the stage itself or
   one before it) need not come again.  Of several such stages behind a stream the last one counts.
   Not from several workers.  number < 0, or a port that nothing leads to: nothing is said. */
void mr_commits(mr_stage_t *s);
void mr_commit(mr_stage_t *s, const char *of, int port, int64_t number);
/* The buffers before this one of output 0 need not come again; -1: nobody behind it keeps anything.
   Any thread, after every stage is open; a stage without inputs is woken when it changes. */
int64_t mr_committed(const mr_stage_t *s);

/* In open: the buffers that this stage gives at a port come from p, which the graph then owns. */
void mr_use_pool(mr_stage_t *s, int port, mr_pool_t *p);

/* Buffers that a lossy input has let go so far.  Any thread. */
int64_t mr_lost(const mr_stage_t *s, int port);

/* Of a stage that gives to others outside the graph: how much they were too slow for so far.
   Telemetry tells the sum over all stages as publish_dropped. */
void mr_set_dropped(mr_stage_t *s, int64_t n);

/* Of a stage that is the end of a link: the numbers before which its buffers are released and
   committed (pipeline/link.h), each call's no less than those of the call before. */
void mr_set_link(mr_stage_t *s, int64_t released, int64_t committed);

/* Blocking forms: MR_OK; MR_END when upstream is over (pull) or every consumer is gone (push,
   fresh); MR_ERR_CANCEL when the graph failed or was cancelled.  push always owns b. */
mr_err_t mr_pull(mr_stage_t *s, int port, mr_buf_t **out);
mr_err_t mr_push(mr_stage_t *s, int port, mr_buf_t *b);
mr_err_t mr_fresh(mr_stage_t *s, int port, mr_buf_t **out); /* a free buffer of the port's pool */
/* Waits until every consumer has let go of what was given at the port, and of what that points to.
   For stages of one worker, which holds no buffer of the port.  MR_OK or MR_ERR_CANCEL. */
mr_err_t mr_all_back(mr_stage_t *s, int port);

/* Says why this stage ends without having given a buffer, as a clause that follows a colon; kept
   for the report of the run and for the stages behind.  Once, by one worker, before it ends. */
void mr_gave_nothing(mr_stage_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Once mr_pull has returned MR_END for the port: what the nearest stage before it that gave nothing
   said, as "STAGE gave nothing: why" into text[0,n); "" if none did. */
void mr_nothing_came(const mr_stage_t *s, int port, char *text, size_t n);

bool mr_stopping(const mr_stage_t *s); /* somebody asked for an orderly stop (Ctrl-C) */

/* The chain before an input port of flow RECORDS. */
mr_chain_t *mr_in_chain(mr_stage_t *s, int port);
/* Runs positions [pos,pos+n) through the chain into slots [0,n) of buf (data, label, key, draw).
   The stream is indexable and none of the positions a hole (MR_ERR_DATA).  One worker at a time
   per s. */
mr_err_t mr_chain_fill(mr_stage_t *s, mr_chain_t *c, int64_t pos, int n, mr_buf_t *buf);
/* The fill after the next one will be of [pos,pos+n), n >= 0: a wish for its reads to begin. */
void mr_chain_then(mr_chain_t *c, int64_t pos, int n);

/* ---- walking a chain: its records in order, without holes ----

   A walk finds records and appends them to a plan; mr_plan_fill then makes them, in any worker of
   the stage.  A walk is used by one worker at a time, with that worker's own chain. */

/* A walk over the records of c.  Over an indexable stream it visits the positions offset, offset +
   stride, ... of all epochs; over a sequential one the streams below are taken apart so (grain's
   worker processes).  NULL when memory is short; mr_walk_destroy takes NULL. */
mr_walk_t *mr_walk_create(mr_chain_t *c, int64_t offset, int64_t stride);
void mr_walk_destroy(mr_walk_t *w);

/* Appends the next record: MR_OK; MR_END after the last one, or when the graph ends; MR_AGAIN if
   it would stand at position until or behind (indexable streams; the walk then stands there). */
mr_err_t mr_walk_next(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t until, mr_plan_t *plan);

/* Moves n >= 0 records on without finding them, where the stages allow it in a time that does not
   grow with n: MR_OK; MR_END if there are not n or the graph ends: it then stands anywhere. */
mr_err_t mr_walk_pass(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t n);

/* How many records each epoch of the indexable stream c has, by looking at one; MR_AGAIN: nothing
   says that the others have as many.  w is a walk over all of it and stays where it is. */
mr_err_t mr_walk_epoch(mr_stage_t *s, mr_chain_t *c, mr_walk_t *w, int64_t *records);

/* The walk's whole state: in_spec.n_words numbers.  An indexable stream has one: how many
   positions the walk has passed. */
void mr_walk_save(const mr_walk_t *w, int64_t *word);
bool mr_walk_load(mr_walk_t *w, const int64_t *word); /* false: a number that cannot be */

/* A plan with room for n records of c (it grows if need be); NULL when memory is short. */
mr_plan_t *mr_plan_create(const mr_chain_t *c, int n);
void mr_plan_destroy(mr_plan_t *p);
void mr_plan_clear(mr_plan_t *p);
int mr_plan_n(const mr_plan_t *p);
/* Makes the plan's records [from,from+n) into slots [0,n) of buf. */
mr_err_t mr_plan_fill(mr_stage_t *s, mr_chain_t *c, const mr_plan_t *p, int from, int n,
                      mr_buf_t *buf);

/* Workers that take turns: waits until *turn is number.  MR_OK; MR_END when the graph stops or
   every consumer of output 0 is gone; MR_ERR_CANCEL. */
mr_err_t mr_turn_wait(mr_stage_t *s, mr_atomic_i64_t *turn, int64_t number);
void mr_turn_pass(mr_stage_t *s, mr_atomic_i64_t *turn); /* to the next number; wakes its worker */

/* ---- calls for next: w is the stage's own walk, those below it are numbered from 0 ---- */
int64_t *mr_walk_words(mr_walk_t *w); /* [n_words], part of the state; may have come from a file,
                                         so only 0 <= word < 2^62 is sure */
int mr_walk_n_below(const mr_walk_t *w);
mr_err_t mr_walk_pull(mr_walk_t *w, int i); /* takes the next record of walk i: MR_OK, MR_END */
void mr_walk_rewind(mr_walk_t *w, int i);   /* to its start */
/* As pull, but a hole comes as a record too: zeros, label -1, key 2^64-1; maps leave it alone. */
mr_err_t mr_walk_pull_any(mr_walk_t *w, int i);
/* The record pulled last has this generator from here on; for a walk over a part of the stream
   (offset, stride) number k stands for offset + k * stride. */
mr_err_t mr_walk_seed(mr_walk_t *w, const uint64_t key[2], int64_t k);
/* A window: pulls up to n records of walk 0 and says how many it got; then give makes number i of
   them this stage's next record.  The state that is saved is the one at the window's start and the
   stage's own words, so after a load the window is not held (-1) and is to be pulled again. */
mr_err_t mr_walk_hold(mr_walk_t *w, int64_t n, int64_t *got);
mr_err_t mr_walk_give(mr_walk_t *w, int64_t i);
int64_t mr_walk_held(const mr_walk_t *w); /* -1: no window yet, or not since a load */

/* ---- calls for skip: n >= 0, walk i as above ---- */
mr_err_t mr_walk_skip(mr_walk_t *w, int i, int64_t n);     /* MR_OK; MR_END: it stands anywhere */
mr_err_t mr_walk_skip_any(mr_walk_t *w, int i, int64_t n); /* counting holes as records */
/* As many of n as there are, into *done; walk i stands behind them. */
mr_err_t mr_walk_skip_most(mr_walk_t *w, int i, int64_t n, int64_t *done);
/* How many of `most` records walk i still has; it stays where it is. */
mr_err_t mr_walk_left(mr_walk_t *w, int i, int64_t most, int64_t *left);
mr_err_t mr_walk_next_all(mr_walk_t *w, int64_t n); /* calls next n times; MR_OK, MR_END */
void mr_walk_let_go(mr_walk_t *w); /* of the window: it is to be pulled again, as after a load */

/* The stage that the others wait for (largest busy share lately) into text; "" if unknown. */
void mr_limiting_stage(const mr_stage_t *s, char *text, size_t n);

MR_END_DECLS

#endif
