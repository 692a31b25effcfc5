/* A step stage: works on buffers, in a thread of its own or in workers=N threads; and the calls for
   its step function.  pipeline/records/chain.h has the calls to read records, pipeline/run/commit.h
   those to keep what a process resumes from.

   Unless stated otherwise a call is for the thread of its stage (one worker), while the graph
   runs.  Implemented in port.c, mr_use_pool in wire.c. */
#ifndef MR_PIPELINE_STAGE_STEP_H
#define MR_PIPELINE_STAGE_STEP_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

/* The sending end of a link, as the program sees it that runs the graph
 * (pipeline/graph/link_end.h). */
typedef struct mr_link_end mr_link_end_t;

/* A place in a stream of buffers. */
typedef struct mr_batch_place {
  int64_t number, epoch; /* of the buffer, both from 0 */
  int slot;              /* in it */
} mr_batch_place_t;

struct mr_step_def {
  /* Runs one burst.  MR_OK: did something, call again.  MR_AGAIN: no data or no room at a port now;
     the scheduler calls again after news.  MR_END: this worker is done.  < 0: failed, which ends
     the graph.  Never called by two threads for one worker. */
  mr_err_t (*run)(mr_stage_t *s);
  bool parallel; /* may run in workers=N threads (every such stage gets that setting) */
  bool pulled; /* it ends the graph, and has one worker and no thread: the program that has started
                  the graph takes buffers by the calls below, in one thread at a time, until it
                  joins the graph; it has neither run nor left */

  /* What buffer `number` >= 0 of output 0 begins with.  Returns the number of a buffer of input 0
     or, if that input has records, a position (0: start_number alone suffices); own[0,n_words) gets
     this stage's state before that buffer.  Where input 0 is by_record, it may set *record above 0
     instead, and return 0.  Returns -1 if the number alone does not decide.  After plan.  NULL: one
     buffer out for each one in. */
  int64_t (*seek)(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record);
  /* The inverse of seek, where input 0 has records: where in output 0 the record at `position` of
     input 0 is, into *out.  MR_OK, with number -1 where positions alone do not decide; MR_END:
     nowhere.  After plan.  NULL: they never do. */
  mr_err_t (*holds)(mr_stage_t *s, int64_t position, mr_batch_place_t *out);
  int n_words; /* numbers of state that it puts before those of the buffers it takes; the last one
                  is the number of the input buffer it resumes with */

  bool publishes; /* gives to subscribers outside the graph without waiting for them:
                     mr_set_dropped */
  bool outside;   /* the other end of its stream is in another process, which its setting "peer" may
                     name: without inputs it waits for buffers from there, else for room there */
  /* NULL: it is no sending end, or its peer always takes the stream as it comes. */
  const mr_link_end_t *link_end;
  /* Each worker's last call, in its thread, however it ends: run is not called again, also where
     the graph was cancelled or failed before run could tell.  NULL: nothing to do. */
  void (*left)(mr_stage_t *s);
};

/* ---- buffers; none of the first four calls blocks ---- */
/* Takes up to n buffers in order and returns how many, [0,n]; the caller owns them.  0: none now,
   or the port is not linked. */
size_t mr_take(mr_stage_t *s, int port, mr_buf_t **out, size_t n);
/* How many buffers mr_give takes now, [0,MR_BURST]; MR_BURST if the port is not linked. */
size_t mr_room(mr_stage_t *s, int port);
/* Gives n <= mr_room buffers and their references to every consumer of the port; without one they
   are released. */
void mr_give(mr_stage_t *s, int port, mr_buf_t *const *in, size_t n);
/* For a step without work: MR_AGAIN; MR_END once every input is over, or every linked output is
   gone; MR_ERR_CANCEL once the graph failed or was cancelled. */
mr_err_t mr_idle(mr_stage_t *s);
/* Whether a stage with linked outputs is unwanted: every consumer of each of them is gone. */
bool mr_unwanted(const mr_stage_t *s);

/* What a stage waits for, if its ports do not show it. */
typedef enum mr_waits { MR_WAITS_PORTS, MR_WAITS_INPUT, MR_WAITS_ROOM } mr_waits_t;

/* For a stage that also waits for file descriptors; its step then returns MR_OK.  mr_news returns a
   number that changes with everything in the graph that the stage may wait for.  mr_wait_fds blocks
   until that number differs from `seen` (its value before the stage last inspected its ports), one
   of fd[0,n) is ready, or ms have passed (0: at once, < 0: no limit); n in [0,MR_WAIT_FDS].
   s->waits says how the time is counted.  MR_OK, also when the graph is cancelled; MR_ERR_IO with a
   sentence if the process has no descriptor left to wait with. */
struct pollfd;
uint64_t mr_news(const mr_stage_t *s);
mr_err_t mr_wait_fds(mr_stage_t *s, uint64_t seen, const struct pollfd *fd, int n, int ms);
/* For a pulled stage: the same, until mr_take has a buffer or mr_idle another answer than MR_AGAIN;
   and MR_AGAIN, nothing yet, if a signal handler has run in this thread. */
mr_err_t mr_wait_input(mr_stage_t *s, int port, const struct pollfd *fd, int n, int ms);

/* In open: replaces the pool of the buffers that this stage gives at a port.  The graph then owns
   p. */
void mr_use_pool(mr_stage_t *s, int port, mr_pool_t *p);

/* Buffers dropped at a lossy input so far, [0,...).  Any thread. */
int64_t mr_lost(const mr_stage_t *s, int port);

/* For publishing stages: reports the messages dropped so far because subscribers were slow.
   Telemetry adds them up over all stages as publish_dropped. */
void mr_set_dropped(mr_stage_t *s, int64_t n);

/* For the end of a link: reports the numbers before which its buffers are released and committed
   (links/link.h); neither may decrease. */
void mr_set_link(mr_stage_t *s, int64_t released, int64_t committed);

/* Blocking forms.  MR_OK.  MR_END: upstream is over or the port is not linked (pull), every
   consumer is gone (push, fresh; pull: nothing is there and the stage is unwanted).  MR_ERR_CANCEL:
   the graph failed or was cancelled.  The caller owns what pull and fresh return; push takes over b
   whatever it returns. */
mr_err_t mr_pull(mr_stage_t *s, int port, mr_buf_t **out);
mr_err_t mr_push(mr_stage_t *s, int port, mr_buf_t *b);
/* As mr_pull; also MR_END once an orderly stop was requested: for a stage that then wants no more
   input, whatever holds up the stages upstream. */
mr_err_t mr_pull_until_stop(mr_stage_t *s, int port, mr_buf_t **out);
mr_err_t mr_fresh(mr_stage_t *s, int port, mr_buf_t **out); /* a free buffer from the port's pool */
/* Blocks until every consumer has released what was given at the port, and with it what that points
   to.  For stages of one worker, which itself holds no buffer of the port.  MR_OK or
   MR_ERR_CANCEL. */
mr_err_t mr_all_back(mr_stage_t *s, int port);

/* Reports why this stage ends without having given a buffer, as a clause that follows a colon; kept
   for the run's report and for the stages downstream.  Once, by one worker, before it ends. */
void mr_gave_nothing(mr_stage_t *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* After mr_pull has returned MR_END for the port: why nothing came, "STAGE gave nothing: why" from
   the nearest stage upstream that reported it, into text[0,n); "" if none did. */
void mr_nothing_came(const mr_stage_t *s, int port, char *text, size_t n);

/* True after an orderly stop was requested (Ctrl-C); any thread. */
bool mr_stopping(const mr_stage_t *s);

/* For workers that take turns: blocks until *turn is number.  MR_OK; MR_END when the graph stops or
   every consumer of output 0 is gone; MR_ERR_CANCEL. */
mr_err_t mr_turn_wait(mr_stage_t *s, mr_atomic_i64_t *turn, int64_t number);
void mr_turn_pass(mr_stage_t *s, mr_atomic_i64_t *turn); /* adds 1 to *turn and wakes the workers */

MR_END_DECLS

#endif
