/* The sending end of a link, for the program that runs its graph: a peer may want its stream from
   another point than the graph gives it, and the program then builds the graph anew from there.

   A stage with the role MR_ROLE_LINK_OUT has a table of these functions in its step
   (mr_step_def_t.link_end).  Each may be NULL, as may the table: the peer then takes the stream as
   it comes.  The calls below are for the thread that builds graphs, but for the last two; they
   never block, but for mr_link_end_ask.  s is a stage of a graph; its state exists once the graph
   has settled. */
#ifndef MR_PIPELINE_GRAPH_LINK_END_H
#define MR_PIPELINE_GRAPH_LINK_END_H

#include "pipeline/graph/stream_at.h"
#include "pipeline/registry.h"
#include "pipeline/stage_step.h"

MR_BEGIN_DECLS

struct mr_link_end {
  bool (*moved)(const mr_stage_t *s, mr_stream_at_t *at);
  void (*refuse)(const mr_stage_t *s, const mr_stream_at_t *at, const char *why);
  bool (*left)(const mr_stage_t *s);
  void (*set_left)(const mr_stage_t *s);
  int64_t (*sent)(const mr_stage_t *s);
  mr_err_t (*ask)(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag);
};

/* After join: true, with the point in *at, if the peer wants the stream to resume elsewhere.  The
   graph must then be rebuilt with this stage's input at that point (mr_graph_resume).  False
   otherwise, also for a stage that never settled. */
bool mr_link_end_moved(const mr_stage_t *s, mr_stream_at_t *at);

/* Of a settled graph, before it starts: refuses a peer that asks for this point, with why (copied,
   up to 255 bytes), because the graph cannot be built there. */
void mr_link_end_refuse(const mr_stage_t *s, const mr_stream_at_t *at, const char *why);

/* After join: whether its peer has left: it has finished, or wants no more.  False for a stage that
   never settled. */
bool mr_link_end_left(const mr_stage_t *s);

/* Of a settled graph, before it starts: its peer has left an earlier graph of this program.  A peer
   that comes all the same is served, but the stage ends as soon as every other one has. */
void mr_link_end_set_left(const mr_stage_t *s);

/* After join: how many buffers it has sent; 0 for a stage that never settled. */
int64_t mr_link_end_sent(const mr_stage_t *s);

/* Of a settled graph that does not run: blocks until the peer has come, and sets *at to the point
   it wants to resume from.  MR_OK, with *at unchanged if the peer left the graph before or none
   comes soon; or a failure, with its sentence in diag. */
mr_err_t mr_link_end_ask(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag);

/* Ends every sending end of this program, for good: its peer has finished with the stream, or will
   not come.  It sets one flag, which the stages read.  Any thread; also in a signal handler. */
void mr_link_end_end_all(void);

/* Whether mr_link_end_end_all has been called.  A sending end without a peer then ends its stream,
   at the latest when it runs next, and its ask waits no longer.  Any thread. */
bool mr_link_end_all_ended(void);

/* Counts the sending ends of a graph that serve a peer or wait for one that may come, by +1 and -1:
   each from the stage's open on, to its end.  any_awaits: whether there is one in the graph of s.
   For the stage's own threads. */
void mr_link_end_await(const mr_stage_t *s, int change);
bool mr_link_end_any_awaits(const mr_stage_t *s);

MR_END_DECLS

#endif
