/* broadcast: publishes buffers to any number of subscribers, without waiting for them.

   Its input is lossy, so the stage upstream never waits for this one, and this one never waits for
   a subscriber: a late request gets a later buffer.  docs/links.md describes the requests. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "links/cast.h"
#include "links/link_stage.h"
#include "pipeline/stage_step.h"

enum { END_MS = 2000 };

typedef struct broadcast {
  mr_link_settings_t set;
  mr_cast_t *cast;
  mr_cast_stats_t reported;
  int64_t lost;     /* dropped before this stage */
  int64_t next;     /* number after the last buffer */
  int64_t until_ns; /* deadline for subscribers to learn of the end; 0: not ended */
} broadcast_t;

static const mr_opt_t broadcast_opts[] = {
    {.name = "bind",
     .type = MR_OPT_STR,
     .offset = offsetof(broadcast_t, set.address),
     .unit = "",
     .def = "tcp://127.0.0.1:5580",
     .help = "Where subscribers come: tcp://HOST:PORT (port * takes a free one), ipc://@NAME or "
             "ipc://FILE.",
     .positional = 1},
    {.name = "link",
     .type = MR_OPT_STR,
     .offset = offsetof(broadcast_t, set.link),
     .unit = "",
     .def = "batches",
     .help = "Name that requests begin with."},
    MR_LINK_TEXT(key, offsetof(broadcast_t, set),
                 "File of the secret key, needed beyond loopback."),
    MR_LINK_TEXT(peers, offsetof(broadcast_t, set),
                 "Public key files of accepted peers, separated by commas."),
    {.name = "window",
     .type = MR_OPT_INT,
     .offset = offsetof(broadcast_t, set.window),
     .unit = "buffers",
     .def = "8",
     .lo = 1,
     .hi = MR_LINK_WINDOW_MAX,
     .help = "Buffers kept for subscribers that are a little late."},
    {0}};

static mr_err_t broadcast_plan(mr_stage_t *s) {
  broadcast_t *t = s->state;
  t->set.linger = 500;
  return mr_link_settings_check(s, &t->set, "bind");
}

static mr_err_t broadcast_open(mr_stage_t *s) {
  broadcast_t *t = s->state;
  mr_link_cfg_t cfg = mr_link_cfg(&t->set);
  mr_diag_t why = {0};
  t->until_ns = 0, t->next = s->start_number;
  t->cast = mr_cast_open(&cfg, &s->in_spec[0], &why);
  if (!t->cast) return mr_stage_relay(s, why.code, &why);
  mr_announce("%s: %s", s->name, mr_cast_address(t->cast));
  return MR_OK;
}

static size_t broadcast_publish(mr_stage_t *s, broadcast_t *t) {
  mr_buf_t *b[MR_BURST];
  size_t n = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < n; i++) {
    t->next = b[i]->seq + 1;
    mr_cast_give(t->cast, b[i]); /* without memory it is dropped */
    mr_buf_unref(b[i]);
  }
  return n;
}

/* A subscriber busy with the last buffer asks for the next one a little later. */
static mr_err_t say_end(broadcast_t *t, bool stopping) {
  struct pollfd fd[MR_CAST_FDS];
  int ms;
  if (!t->until_ns) t->until_ns = mr_now_ns() + END_MS * INT64_C(1000000);
  mr_cast_end(t->cast, t->next);
  int64_t left = t->until_ns - mr_now_ns();
  if (stopping || mr_cast_done(t->cast) || left <= 0) return MR_END;
  int n = mr_cast_fds(t->cast, fd, &ms), most = (int)(left / 1000000) + 1;
  if (!mr_cast_pending(t->cast)) poll(fd, (nfds_t)n, ms >= 0 && ms < most ? ms : most);
  return MR_OK;
}

static mr_err_t broadcast_step(mr_stage_t *s) {
  broadcast_t *t = s->state;
  struct pollfd fd[MR_CAST_FDS];
  int ms;
  uint64_t seen = mr_news(s);
  mr_cast_pump(t->cast);
  size_t n = broadcast_publish(s, t);
  mr_cast_stats(t->cast, &t->reported);
  mr_set_dropped(s, t->reported.dropped);
  if (!n && mr_idle(s) == MR_END) return say_end(t, mr_stopping(s));
  if (n || mr_cast_pending(t->cast)) return MR_OK;
  int fds = mr_cast_fds(t->cast, fd, &ms);
  return mr_wait_fds(s, seen, fd, fds, ms);
}

static void broadcast_close(mr_stage_t *s) {
  broadcast_t *t = s->state;
  t->lost = mr_lost(s, 0);
  if (t->cast) mr_cast_stats(t->cast, &t->reported);
  mr_cast_close(t->cast);
  t->cast = NULL;
}

static void broadcast_report(mr_stage_t *s, char *text, size_t n) {
  const broadcast_t *t = s->state;
  snprintf(text, n,
           "%" PRId64 " buffers published, %" PRId64 " sent to %" PRId64 " subscribers, %" PRId64
           " dropped that came too late for them, %" PRId64 " before they were published",
           t->reported.published, t->reported.sent, t->reported.subscribers, t->reported.dropped,
           t->lost);
}

const mr_stage_def_t mr_stage_broadcast = {
    .name = "broadcast",
    .help = "Publishes buffers to any number of subscribers, and waits for none.",
    .in = {{.name = "in", .lossy = true}},
    .step = &(const mr_step_def_t){.run = broadcast_step, .publishes = true},
    .opts = broadcast_opts,
    .state_sz = sizeof(broadcast_t),
    .plan = broadcast_plan,
    .open = broadcast_open,
    .close = broadcast_close,
    .report = broadcast_report,
};
