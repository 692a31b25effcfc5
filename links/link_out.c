/* link-out: sends buffers to another process.

   The thread waits for three things at once: buffers from the graph, room that the peer's
   acknowledgements make, and the peer itself, which may come, go and come back.  A peer that wants
   to resume where this end no longer is cancels the graph (an orderly end would tell the processes
   upstream that the stream is over); the program then rebuilds the graph from there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "links/link_stage.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/run/commit.h"
#include "pipeline/stage_step.h"

typedef struct out {
  mr_link_settings_t set;
  mr_link_t *link;
  mr_link_stats_t reported;     /* of the closed link */
  bool moved, ended, left;      /* left: the peer has finished, or wants no more */
  bool left_before;             /* the peer left an earlier graph of this process */
  bool awaited;                 /* this stage counts in its graph (mr_link_end_await) */
  int64_t connections, refused; /* those reported so far */
  mr_stream_at_t at;
  mr_link_point_t barred; /* barred_why[0]: a peer that asks for this point is refused */
  char barred_why[256];
} out_t;

static const mr_opt_t out_opts[] = {MR_LINK_OPTS(offsetof(out_t, set)), {0}};

static mr_err_t out_plan(mr_stage_t *s) {
  out_t *o = s->state;
  s->out_spec[0] = s->in_spec[0];
  s->holds = o->set.window; /* buffers that the peer has not released */
  return mr_link_settings_check(s, &o->set, "address");
}

static void set_awaited(const mr_stage_t *s, bool awaited) {
  out_t *o = s->state;
  if (o->awaited == awaited) return;
  o->awaited = awaited;
  mr_link_end_await(s, awaited ? 1 : -1);
}

/* Whether this stage only waits for a peer that has left before, and no other stage keeps the
   graph: should the peer come after all, its supervisor starts the process again. */
static bool is_idle(const mr_stage_t *s) {
  const out_t *o = s->state;
  return !o->awaited && !mr_link_end_any_awaits(s);
}

static mr_err_t out_open(mr_stage_t *s) {
  out_t *o = s->state;
  mr_link_cfg_t cfg = mr_link_cfg(&o->set);
  mr_diag_t why = {0};
  o->moved = o->ended = o->left = false, o->connections = o->refused = 0;
  o->link = mr_link_open_out(&cfg, &s->in_spec[0], s->start_number, &why);
  if (o->link && *o->barred_why) mr_link_refuse(o->link, &o->barred, o->barred_why);
  mr_commits(s);
  set_awaited(s, !o->left_before);
  return o->link ? MR_OK : mr_stage_relay(s, why.code, &why);
}

static void to_stream_at(const mr_link_point_t *p, mr_stream_at_t *at) {
  *at = (mr_stream_at_t){.position = p->position, .number = p->number, .n_words = p->n_words};
  memcpy(at->word, p->word, (size_t)p->n_words * sizeof *at->word);
}

/* Passes buffers from the graph to the link, as many as it takes; returns how many. */
static size_t link_out_pass_on(mr_stage_t *s, mr_link_t *link) {
  mr_buf_t *b[MR_BURST];
  size_t room = mr_link_room(link);
  size_t n = mr_take(s, 0, b, room < MR_BURST ? room : MR_BURST);
  for (size_t i = 0; i < n; i++) mr_link_send(link, b[i]);
  return n;
}

static mr_err_t out_wait(mr_stage_t *s, mr_link_t *link, uint64_t seen) {
  struct pollfd fd[MR_LINK_FDS];
  int ms, n = mr_link_fds(link, fd, &ms);
  const out_t *o = s->state;
  s->waits = o->ended || !mr_link_room(link) ? MR_WAITS_ROOM : MR_WAITS_INPUT;
  return mr_link_pending(link) ? MR_OK : mr_wait_fds(s, seen, fd, n, ms);
}

/* Reports what a peer's death costs. */
static void say_return(const mr_stage_t *s, int64_t number, const mr_link_stats_t *now,
                       const char *how) {
  if (number >= now->reached || !now->released) return;
  mr_notice("%s: the peer continues at buffer %" PRId64 "; %" PRId64 " were released and %" PRId64
            " committed, and %" PRId64 " are %s again",
            s->name, number, now->released, now->committed, now->reached - number, how);
}

static mr_err_t hear_peer(mr_stage_t *s) {
  out_t *o = s->state;
  mr_link_point_t asked;
  mr_link_stats_t now;
  mr_link_stats(o->link, &now);
  mr_commit(s, s->name, 0, now.committed);
  mr_set_link(s, now.released, now.committed);
  if (mr_link_asked(o->link, &asked) == MR_END) {
    say_return(s, asked.number, &now, "produced");
    to_stream_at(&asked, &o->at);
    o->moved = true;
    return mr_stage_fail(s, MR_ERR_CANCEL, "the peer continues at buffer %" PRId64, asked.number);
  }
  if (now.connections > o->connections) {
    o->connections = now.connections;
    set_awaited(s, true);
    say_return(s, asked.number, &now, "sent");
  }
  return MR_OK;
}

/* A stopped stream is not over: the peer waits for a process that continues it. */
static mr_err_t out_turn(mr_stage_t *s) {
  out_t *o = s->state;
  mr_diag_t why = {0};
  uint64_t seen = mr_news(s);
  if (mr_stopping(s)) return MR_END;
  size_t n = mr_link_room(o->link) ? link_out_pass_on(s, o->link) : 0;
  if (!n && !o->ended && mr_idle(s) == MR_END) mr_link_end(o->link), o->ended = true;
  if (mr_link_pump(o->link, &why) < 0) return mr_stage_relay(s, why.code, &why);
  mr_link_report_refusals(s, o->link, &o->refused);
  MR_TRY(hear_peer(s));
  o->left = mr_link_left(o->link);
  if (o->left || mr_link_end_all_ended() || is_idle(s)) return MR_END;
  return n ? MR_OK : out_wait(s, o->link, seen);
}

static mr_err_t out_step(mr_stage_t *s) {
  mr_err_t e = out_turn(s);
  if (e < 0 || e == MR_END) set_awaited(s, false);
  return e;
}

static void out_close(mr_stage_t *s) {
  out_t *o = s->state;
  set_awaited(s, false);
  if (o->link) mr_link_stats(o->link, &o->reported);
  mr_link_close(o->link);
  o->link = NULL;
}

static void out_report(mr_stage_t *s, char *text, size_t n) {
  const out_t *o = s->state;
  mr_snprintf(text, n,
              "%" PRId64 " buffers sent (%" PRId64 " again, %" PRId64 " by reference), %" PRId64
              " connections; released up to %" PRId64 ", committed up to %" PRId64,
              o->reported.sent, o->reported.resent, o->reported.by_reference,
              o->reported.connections, o->reported.released, o->reported.committed);
}

bool mr_link_out_moved(const mr_stage_t *s, mr_stream_at_t *at) {
  const out_t *o = s->state;
  if (o && o->moved) *at = o->at; /* it never settled */
  return o && o->moved;
}

void mr_link_out_refuse(const mr_stage_t *s, const mr_stream_at_t *at, const char *why) {
  out_t *o = s->state;
  o->barred =
      (mr_link_point_t){.number = at->number, .position = at->position, .n_words = at->n_words};
  memcpy(o->barred.word, at->word, (size_t)at->n_words * sizeof *at->word);
  snprintf(o->barred_why, sizeof o->barred_why, "%s", why);
}

bool mr_link_out_left(const mr_stage_t *s) {
  const out_t *o = s->state;
  return o && (o->left || (o->left_before && !o->connections));
}

void mr_link_out_set_left(const mr_stage_t *s) {
  out_t *o = s->state;
  o->left_before = true;
}

int64_t mr_link_out_sent(const mr_stage_t *s) {
  const out_t *o = s->state;
  return o ? o->reported.sent : 0; /* it never settled */
}

/* A peer that has all it wants never comes, and its news of that may have been lost with the link
   before; meanwhile it may wait for another stream of this process. */
enum { ASK_MS = 3000 };

mr_err_t mr_link_out_ask(const mr_stage_t *s, mr_stream_at_t *at, mr_diag_t *diag) {
  out_t *o = s->state;
  if (mr_link_out_left(s)) return MR_OK;
  mr_link_cfg_t cfg = mr_link_cfg(&o->set);
  mr_link_point_t asked = {0};
  mr_diag_t why = {0};
  mr_link_t *link = mr_link_open_out(&cfg, &s->in_spec[0], 0, &why);
  if (!link) return mr_diag_relay(diag, why.code, &why);
  mr_err_t e;
  mr_err_t come = MR_AGAIN;
  int64_t until = mr_now_ns() + ASK_MS * INT64_C(1000000);
  while ((e = mr_link_pump(link, diag)) >= 0 && !mr_link_end_all_ended() && mr_now_ns() < until) {
    come = mr_link_asked(link, &asked);
    if (come != MR_AGAIN) break;
    mr_link_wait(link, 250);
  }
  if (come != MR_AGAIN) to_stream_at(&asked, at);
  o->left = mr_link_left(link); /* a peer whose leave is heard here does not repeat it */
  mr_link_close(link);
  return e;
}

static const mr_link_end_t out_end = {.moved = mr_link_out_moved,
                                      .refuse = mr_link_out_refuse,
                                      .left = mr_link_out_left,
                                      .set_left = mr_link_out_set_left,
                                      .sent = mr_link_out_sent,
                                      .ask = mr_link_out_ask};

const mr_stage_def_t mr_stage_link_out = {
    .name = "link-out",
    .role = MR_ROLE_LINK_OUT,
    .help = "Sends buffers to a link-in in another process or on another host.",
    .in = {{.name = "in", .leaves = true}},
    .out = {{"link", MR_FLOW_NONE, true}},
    .step = &(const mr_step_def_t){.run = out_step, .outside = true, .link_end = &out_end},
    .opts = out_opts,
    .state_sz = sizeof(out_t),
    .plan = out_plan,
    .open = out_open,
    .close = out_close,
    .report = out_report,
};
