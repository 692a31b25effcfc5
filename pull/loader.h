/* A stream of batches for a loop of one's own: pulled without callbacks, from any thread.

     mr_loader_t *l;
     const mr_batch_t *b;
     mr_diag_t why = {0};
     mr_err_t e = mr_loader_open("folder photos/train ! shuffle seed=1 ! decode ! resized-crop 224"
                                 " ! normalize ! batch 64 workers=2", NULL, &l, &why);
     while (e >= 0 && (e = mr_loader_next(l, &b, &why)) == MR_OK)
       train(b->field[0].data, b->n);
     mr_loader_close(l);

   The batches, their order and the ledger are those of `millrace run` on the same graph.

   While the caller does something else, batches are made ahead: 8 wait for it for each worker of
   the stage that gives them, or 4 where there are more than two, beside the one in each worker's
   hands; of batches up to 1 MiB twice as many or more, up to 512; but no more than the stream has
   buffers.

   Any thread may make these calls, and several may share a loader: each batch goes to one of them.
   A call that returns mr_err_t gives MR_OK, or fails with a sentence in diag (which may be NULL);
   what else it may return stands with it.  In a child of the process that opened a loader every
   call fails with MR_ERR_USAGE, but mr_loader_close, which frees what is the child's own. */
#ifndef MR_PULL_LOADER_H
#define MR_PULL_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/decls.h"
#include "base/dtype.h"
#include "base/err.h"
#include "pipeline/spec.h"
#include "pull/own.h"

MR_BEGIN_DECLS

typedef struct mr_loader mr_loader_t;

/* One field of a batch. */
typedef struct mr_batch_field {
  const char *name;
  const char *dtype_name; /* "f32", as mr_dtype_name gives it */
  int32_t dtype;          /* mr_dtype_t */
  int32_t ndim;           /* of dim; at least 1 */
  int64_t dim[8];         /* the first is the batch's n; ragged: the rows of all records, joined */
  void *data;             /* row-major; at least 8-aligned */
  const int64_t *offset;  /* ragged: [n+1], record i has the rows [offset[i],offset[i+1]); NULL:
                             even */
} mr_batch_field_t;

/* A batch in the host's memory.  What it points to lives as long as the batch. */
typedef struct mr_batch {
  int64_t step;    /* number in the stream, from 1 */
  int64_t epoch;   /* from 0 */
  int32_t n;       /* records, [0,B] */
  int32_t first;   /* slot in the whole batch of record 0: above 0 where hosts share batches */
  bool ends_epoch; /* the last batch of its epoch */
  bool writable;   /* the values may be written until the batch is dropped */
  int32_t n_fields;
  mr_batch_field_t field[16]; /* [n_fields] */
  const uint64_t *key;        /* [n] record ids within the source */
  const uint64_t *draw;       /* [n] hashes of the records' draws */
  const uint8_t *excluded;    /* [n] not 0: the record has no weight (skip-records=, a hole) */
  int32_t kept;               /* further batches since the open or the seek that were kept then */
} mr_batch_t;

/* How a stream is opened.  Zero-initialise: every 0 and NULL is a usual value.  Nothing is kept but
   stages and own. */
typedef struct mr_loader_settings {
  const char *const *set; /* [n_set] "NAME=VALUE", as after the graph of `millrace run` */
  int32_t n_set;
  int32_t keep;        /* batches that the caller may have when it asks for the next one, besides
                          what mr_loader_next gave last, [0,4096] */
  int32_t host, hosts; /* slice `host` in [0,hosts) of each batch; hosts 0: whole batches */
  const char *stage;   /* whose batches; NULL: of the last stage of the first line of batches */
  const char *state;   /* where to begin: a text of mr_loader_state, or of the state file of
                          stage ledger; NULL: at the start */
  bool plugins;        /* the text may load plug-ins, which are code (plugins/plugin.h) */
  const struct mr_stage_def *const *stages; /* NULL-ended table of the program's own stages, which
                                               outlives the loader and its batches; NULL: none */
  const mr_own_t *own; /* [n_own] sources and maps that are functions; they outlive the loader and
                          its batches, which call them until mr_loader_close */
  int32_t n_own;
  const mr_atomic_int_t *halt; /* not 0: an opening that waits for a server ends, with
                                  MR_ERR_CANCEL; any thread sets it.  It outlives the loader and its
                                  batches; NULL: nothing ends an opening */
} mr_loader_settings_t;

/* Opens the stream of batches of a graph, given as text or as the name of a file; stages after the
   batches are not run.  settings may be NULL.  *loader is NULL on failure; the caller closes it.
   MR_ERR_USAGE: the text, no batches; MR_ERR_CONFIG, MR_ERR_SHAPE: settings that do not fit;
   MR_ERR_DATA: a state of another stream, with what differs; MR_ERR_UNAVAILABLE: a stage's library,
   plug-ins; or what opening a stage's files fails with.  Blocks while files are opened, and a stage
   waits for its server. */
mr_err_t mr_loader_open(const char *graph, const mr_loader_settings_t *settings,
                        mr_loader_t **loader, mr_diag_t *diag);

/* The next batch in *batch, valid until the next call that gives a batch, or, after
   mr_batch_keep, until mr_batch_drop.  Blocks until it is there.  MR_END: the stream is over, also
   on further calls.  MR_ERR_CANCEL: mr_loader_stop.  MR_ERR_USAGE: more batches are kept than
   settings.keep.  Else what a stage failed with, as "STAGE: ...", also on further calls.  *batch is
   NULL unless MR_OK is returned. */
mr_err_t mr_loader_next(mr_loader_t *l, const mr_batch_t **batch, mr_diag_t *diag);

/* The same, but the batch is the caller's until mr_batch_drop: for threads that share a loader.
   MR_AGAIN: nothing yet after ms milliseconds (< 0: no limit), or when a signal handler has
   run in this thread. */
mr_err_t mr_loader_take(mr_loader_t *l, int ms, const mr_batch_t **batch, mr_diag_t *diag);

/* Keeps the batch until mr_batch_drop has been called as often as mr_batch_keep and mr_loader_take
   gave it: its memory is the stream's, which has one buffer less meanwhile (settings.keep); one
   that came over a link holds up the link's window, so that those are better copied. Batches may
   outlive their loader. Any thread, also outside the loop; neither blocks, but for the last
   mr_batch_drop after mr_loader_close, which frees the graph.  Returns batch; NULL is fine. */
const mr_batch_t *mr_batch_keep(const mr_batch_t *batch);
void mr_batch_drop(const mr_batch_t *batch);
/* A copy of the batch in memory of its own, the caller's until mr_batch_drop: it is none of those
   that are kept, and its values may be written.  NULL without memory.  Any thread. */
const mr_batch_t *mr_batch_copy(const mr_batch_t *batch);
/* How many batches of the loader are kept now, without one that mr_loader_next gave last. */
int mr_loader_kept(mr_loader_t *l);

/* Ends every wait in mr_loader_next, now and later, with MR_ERR_CANCEL.  Async-signal-safe;
   never blocks.  Does nothing in a child. */
void mr_loader_stop(mr_loader_t *l);

/* Begins anew behind batch number `step`, in [0,steps]: the next one is step + 1, without making
   those before wherever batches follow from their number.  Also after the end, a failure or
   mr_loader_stop.  The ledger restarts at 0 there.  MR_ERR_CONFIG: the stream has fewer batches. */
mr_err_t mr_loader_seek(mr_loader_t *l, int64_t step, mr_diag_t *diag);

/* The state of the stream behind the batch that mr_loader_next gave last: a line of JSON of a few
   hundred bytes, 4 KiB plus the settings at most, in *text (heap, the caller frees it; NULL on
   failure).  A loader of the same stream opened with it, here or elsewhere, with other numbers of
   workers and hosts, gives the batches that follow; so does `millrace run --from`, but not from a
   state right behind a seek, which may hold no more than the number.  MR_ERR_NOMEM. */
mr_err_t mr_loader_state(mr_loader_t *l, char **text, mr_diag_t *diag);

/* What is over: the number of batches given so far, counted from the start of the stream, and the
   ledger of these (base/ledger.h) since the start or the last seek. */
int64_t mr_loader_step(mr_loader_t *l);
uint64_t mr_loader_ledger(mr_loader_t *l);

/* Batches of the whole stream; 0: endless, or not known before the end. */
int64_t mr_loader_steps(mr_loader_t *l);
/* Of one epoch; 0: not known.  records: records instead. */
int64_t mr_loader_epoch_steps(mr_loader_t *l);
int64_t mr_loader_epoch_records(mr_loader_t *l);

/* What the batches hold, spec->batch records of these fields; without their classes and data set,
   which "spec" below has.  Lives as long as the loader. */
const mr_spec_t *mr_loader_spec(mr_loader_t *l);

/* Text about the stream, as JSON in *text (heap, the caller frees it; NULL on failure).  what is
   one of
   "spec": {"batch":64,"fields":[{"name":..,"dtype":..,"dim":[..],"layout":..,"classes":[..]}]};
   "stats": {"stages":[{"name":..,"workers":..,"items":..,"busy":..,"starved":..,"blocked":..}],
   "limiting":"sentence"}, shares of the stages' time;
   "graph": a string, the graph's canonical text.
   MR_ERR_USAGE: none of these. */
mr_err_t mr_loader_describe(mr_loader_t *l, const char *what, char **text, mr_diag_t *diag);

/* The table of all stages as JSON in *text (heap, the caller frees it; NULL on failure):
   [{"name":..,"help":..,"in":[..],"out":[..],"parallel":true,"settings":[{"name":..,"type":..,
   "default":..,"unit":..,"choices":..,"help":..,"positional":true}]}].  A stage whose settings
   depend on its model has those of every model; of a name that several models have it is the one of
   the usual model, with the choices of all.  MR_ERR_NOMEM. */
mr_err_t mr_loader_stages(char **text, mr_diag_t *diag);

/* Stops the stream, waits for the calls in other threads, which return at once, and frees the
   loader; what is kept stays until it is dropped.  No call follows.  NULL is fine. */
void mr_loader_close(mr_loader_t *l);

MR_END_DECLS

#endif
