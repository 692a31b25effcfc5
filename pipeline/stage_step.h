/* A step stage: works on buffers, in a thread of its own or in workers=N threads; and the calls for
   its step function.  Calls for one that reads records are in pipeline/chain.h, for one that keeps
   what a process would resume from in pipeline/commit.h. */
#ifndef MR_PIPELINE_STAGE_STEP_H
#define MR_PIPELINE_STAGE_STEP_H

#include "pipeline/stage.h"

MR_BEGIN_DECLS

struct mr_step_def {
  /* One burst.  MR_OK: did something.  MR_AGAIN: wait for a port.  MR_END: over.  < 0: failed. */
  mr_err_t (*run)(mr_stage_t *s);
  bool parallel; /* may run in workers=N threads (a setting every such stage gets) */

  /* What buffer number >= 0 of output 0 begins with: the number of a buffer of input 0, where that
     has records their position (0: start_number says all); own[0,n_words) is what this stage keeps
     before it.  Or, where input 0 is by_record, *record above 0, and number 0.  After plan.  -1: it
     does not follow from the number alone.  NULL: a buffer out for each one in. */
  int64_t (*seek)(const mr_stage_t *s, int64_t number, int64_t *own, int64_t *record);
  int n_words; /* numbers of state that it adds before those of the buffers it takes, the last of
                  them the number of the buffer it resumes with */

  bool publishes; /* gives to subscribers outside the graph and waits for none: mr_set_dropped */
  bool outside;   /* the other end of its stream is in another process, which its setting "peer" may
                     name: without inputs it waits for that one's buffers, else for room there */
};

/* ---- buffers; none of the first four calls blocks ---- */
/* Up to n buffers in order; the caller owns them. */
size_t mr_take(mr_stage_t *s, int port, mr_buf_t **out, size_t n);
/* Buffers that mr_give takes now, [0,MR_BURST]. */
size_t mr_room(mr_stage_t *s, int port);
/* n <= room; ownership passes on to every consumer of the port; without one they are released. */
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

/* In open: the buffers that this stage gives at a port come from p, which the graph then owns. */
void mr_use_pool(mr_stage_t *s, int port, mr_pool_t *p);

/* Buffers that a lossy input has let go so far.  Any thread. */
int64_t mr_lost(const mr_stage_t *s, int port);

/* For publishing stages: messages dropped so far because subscribers were slow.
   Telemetry tells the sum over all stages as publish_dropped. */
void mr_set_dropped(mr_stage_t *s, int64_t n);

/* Of a stage that is the end of a link: the numbers before which its buffers are released and
   committed (links/link.h), each call's no less than those of the call before. */
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

bool mr_stopping(const mr_stage_t *s); /* an orderly stop was asked for (Ctrl-C) */

/* Workers that take turns: waits until *turn is number.  MR_OK; MR_END when the graph stops or
   every consumer of output 0 is gone; MR_ERR_CANCEL. */
mr_err_t mr_turn_wait(mr_stage_t *s, mr_atomic_i64_t *turn, int64_t number);
void mr_turn_pass(mr_stage_t *s, mr_atomic_i64_t *turn); /* to the next number; wakes its worker */

MR_END_DECLS

#endif
