/* A graph that runs for its batches. */
#ifndef MR_PULL_READER_H
#define MR_PULL_READER_H

#include <pthread.h>

#include "pipeline/graph/graph.h"
#include "pull/loader.h"

typedef struct mr__reader mr__reader_t;

/* Builds and settles the graph of settings.  *reader is NULL on failure. */
mr_err_t mr__reader_build(const char *graph, const mr_loader_settings_t *settings,
                          mr__reader_t **reader, mr_diag_t *diag);
/* Before start: where the stream begins. */
mr_err_t mr__reader_resume(mr__reader_t *r, const mr_stream_at_t *at, mr_diag_t *diag);
mr_err_t mr__reader_seek(mr__reader_t *r, int64_t step, mr_diag_t *diag);
mr_err_t mr__reader_start(mr__reader_t *r, mr_diag_t *diag);

/* Taking, waiting and the verdict are for one thread at a time.

   The oldest batch that has come in *batch, the caller's.  MR_OK: it is there, or NULL and the call
   is to be repeated, because a batch before the first one was dropped.  MR_AGAIN: nothing yet.
   MR_END: none will come. */
mr_err_t mr__reader_take(mr__reader_t *r, mr_buf_t **batch);
/* Where nothing was there: blocks until there may be one, fd is readable, ms have passed (< 0: no
   limit) or mr__reader_cancel.  MR_OK; MR_AGAIN: nothing yet, but a signal handler has run in this
   thread; MR_ERR_IO: no file descriptor is left to wait with. */
mr_err_t mr__reader_wait(mr__reader_t *r, int fd, int ms, mr_diag_t *diag);
/* Any thread: ends waits, and there will be no further batch. */
void mr__reader_cancel(mr__reader_t *r);
/* After the end: waits for the graph's threads.  MR_END, or what a stage failed with. */
mr_err_t mr__reader_verdict(mr__reader_t *r, mr_diag_t *diag);

/* A batch over a buffer, which it takes over; it has one reference.  NULL without memory, and buf
   is released. */
mr_batch_t *mr__reader_batch(mr__reader_t *r, mr_buf_t *buf, int64_t step);
int mr__reader_out(mr__reader_t *r); /* batches that are not dropped */

const mr_graph_t *mr__reader_graph(const mr__reader_t *r);
/* Adds the program's stages. */
void mr__reader_all_stages(mr_registry_t *reg);
/* As mr_loader_describe; in describe.c. */
mr_err_t mr__reader_describe(const mr__reader_t *r, const char *what, char **text, mr_diag_t *diag);
/* The program's own stages own-source and own-map (own.c), and what a graph of this registry, a
   reader's, calls by this name; NULL: nothing. */
extern const mr_stage_def_t *const mr__own_stages[];
const mr_own_t *mr__reader_own(const mr_registry_t *reg, const char *name);
const char *mr__reader_text(const mr__reader_t *r); /* the graph's, canonical */
const mr_spec_t *mr__reader_spec(const mr__reader_t *r);
const char *mr__reader_stage(const mr__reader_t *r); /* whose batches */
int64_t mr__reader_steps(const mr__reader_t *r);

/* Ends the graph and gives the caller's reference back: what its batches hold stays. */
void mr__reader_leave(mr__reader_t *r);

#endif
