/* link-in: receives buffers from another process.

   A buffer is released when no stage of this graph holds it any more, and committed when a stage
   downstream commits it (mr_commit).  The thread waits for the peer, for room downstream and for
   buffers that come back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "links/link_stage.h"
#include "pipeline/run/commit.h"
#include "pipeline/stage_step.h"

enum { ALONE_MS = 5000 }; /* without a peer for that long: reported */

static const mr_opt_t in_opts[] = {MR_LINK_OPTS(offsetof(mr_link_in_t, set)), {0}};

static mr_err_t in_plan(mr_stage_t *s) {
  mr_link_in_t *t = s->state;
  s->out_spec[0] = s->in_spec[0];
  return mr_link_settings_check(s, &t->set, "address");
}

mr_err_t mr_link_in_open(mr_stage_t *s) {
  mr_link_in_t *t = s->state;
  mr_link_cfg_t cfg = mr_link_cfg(&t->set);
  cfg.by_hand = true;
  mr_link_point_t at = {
      .number = s->start_number, .position = s->start_position, .n_words = s->n_start_words};
  mr_diag_t why = {0};
  if (at.n_words > MR_LINK_WORDS) at.n_words = 0; /* found by its number, more slowly */
  if (at.n_words) memcpy(at.word, s->start_word, (size_t)at.n_words * sizeof *at.word);
  t->link = mr_link_open_in(&cfg, &s->out_spec[0], &at, &why);
  if (!t->link) return mr_stage_relay(s, why.code, &why);
  t->opened_ns = mr_now_ns();
  mr_use_pool(s, 0, mr_link_give_pool(t->link));
  return MR_OK;
}

/* If no stage keeps what a new process would resume from, everything released counts as
   committed. */
static void link_in_commit(const mr_stage_t *s, mr_link_t *link) {
  int64_t number = mr_committed(s);
  mr_link_commit(link, number < 0 ? INT64_MAX : number);
}

static void say_numbers(mr_stage_t *s, const mr_link_t *link) {
  mr_link_stats_t now;
  mr_link_stats(link, &now);
  mr_set_link(s, now.released, now.committed);
}

static size_t link_in_pass_on(mr_stage_t *s, mr_link_t *link) {
  mr_buf_t *b[MR_BURST];
  size_t n = mr_link_take(link, b, mr_room(s, 0));
  mr_give(s, 0, b, n);
  return n;
}

/* Most often an absent peer was not started, or not accepted. */
static void link_in_say_alone(const mr_stage_t *s) {
  mr_link_in_t *t = s->state;
  mr_link_stats_t now;
  if (!t->opened_ns || mr_now_ns() - t->opened_ns < ALONE_MS * INT64_C(1000000)) return;
  t->opened_ns = 0;
  mr_link_stats(t->link, &now);
  if (now.connections) return;
  mr_notice("%s: no answer from %s so far; is the other process running%s?", s->name,
            t->set.address, t->set.key ? ", and does each end know the other's key" : "");
}

static mr_err_t in_wait(mr_stage_t *s, mr_link_t *link, uint64_t seen) {
  link_in_say_alone(s);
  struct pollfd fd[MR_LINK_FDS];
  int ms, n = mr_link_fds(link, fd, &ms);
  s->waits = mr_link_credit(link) ? MR_WAITS_INPUT : MR_WAITS_ROOM;
  return mr_link_pending(link) ? MR_OK : mr_wait_fds(s, seen, fd, n, ms);
}

mr_err_t mr_link_in_step(mr_stage_t *s) {
  mr_link_in_t *t = s->state;
  mr_diag_t why = {0};
  uint64_t seen = mr_news(s);
  link_in_commit(s, t->link);
  if (mr_link_pump(t->link, &why) < 0) return mr_stage_relay(s, why.code, &why);
  mr_link_report_refusals(s, t->link, &t->refused);
  say_numbers(s, t->link);
  if (mr_stopping(s) || mr_idle(s) == MR_END) {
    mr_link_leave(t->link);
    mr_link_pump(t->link, NULL);
    return MR_END;
  }
  size_t n = link_in_pass_on(s, t->link);
  if (mr_link_over(t->link)) return MR_END;
  return n ? MR_OK : in_wait(s, t->link, seen);
}

void mr_link_in_close(mr_stage_t *s) {
  mr_link_in_t *t = s->state;
  if (t->link) {
    link_in_commit(s, t->link);
    mr_link_pump(t->link, NULL); /* counts buffers released since the last step */
    mr_link_stats(t->link, &t->reported);
  }
  if (t->link && mr_link_over(t->link)) mr_link_leave(t->link);
  mr_link_close(t->link);
  t->link = NULL;
}

void mr_link_in_report(mr_stage_t *s, char *text, size_t n) {
  const mr_link_in_t *t = s->state;
  snprintf(text, n,
           "%" PRId64 " buffers received (%" PRId64 " came again and were dropped), %" PRId64
           " connections; released up to %" PRId64 ", committed up to %" PRId64,
           t->reported.received, t->reported.repeated, t->reported.connections,
           t->reported.released, t->reported.committed);
}

const mr_stage_def_t mr_stage_link_in = {
    .name = "link-in",
    .role = MR_ROLE_LINK_IN,
    .help = "Receives buffers from a link-out in another process or on another host.",
    .in = {{"link", MR_FLOW_NONE, true}},
    .out = {{"out", MR_FLOW_NONE, false}},
    .step = &(const mr_step_def_t){.run = mr_link_in_step, .outside = true},
    .opts = in_opts,
    .state_sz = sizeof(mr_link_in_t),
    .plan = in_plan,
    .open = mr_link_in_open,
    .close = mr_link_in_close,
    .report = mr_link_in_report,
};
