/* source with subscribe=: the buffers of a broadcast, as they come.

   The publisher does not wait for this end: buffers published while it is busy, away or not yet
   there are missed, and counted. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "links/source_private.h"
#include "pipeline/stage_step.h"

enum { ALONE_MS = 5000 };

static mr_err_t source_listen_ask(mr_stage_t *s, mr_listen_t *listen) {
  const source_t *t = s->state;
  mr_diag_t why = {0};
  struct pollfd fd;
  int ms;
  for (int64_t until = mr_now_ns() + t->wait * INT64_C(1000000000); !mr_listen_spec(listen);) {
    if (mr_listen_pump(listen, &why) < 0) return mr_stage_relay(s, why.code, &why);
    if (mr_now_ns() > until)
      return mr_stage_fail(
          s, MR_ERR_IO,
          "link = %s: no broadcast called \"%s\" answers there; start the run with "
          "the stage broadcast first%s",
          t->in.set.address, t->subscribe,
          t->in.set.key ? ", and check that each end has the other's public key" : "");
    mr_listen_fds(listen, &fd, &ms);
    if (!mr_listen_spec(listen) && !mr_listen_pending(listen)) poll(&fd, 1, ms < 50 ? ms : 50);
  }
  MR_TRY(mr__source_keep_spec(s, mr_listen_spec(listen)));
  s->out_spec[0].n_epochs = 0; /* its length is unknown */
  return MR_OK;
}

static mr_link_cfg_t cfg_of(const source_t *t) {
  mr_link_cfg_t cfg = mr_link_cfg(&t->in.set);
  cfg.name = t->subscribe;
  return cfg;
}

mr_err_t mr__source_listen_plan(mr_stage_t *s) {
  const source_t *t = s->state;
  mr_link_cfg_t cfg = cfg_of(t);
  mr_diag_t why = {0};
  mr_listen_t *listen = mr_listen_open(&cfg, NULL, 0, &why);
  mr_err_t e = listen ? source_listen_ask(s, listen) : mr_stage_relay(s, why.code, &why);
  mr_listen_close(listen);
  return e;
}

mr_err_t mr__source_listen_open(mr_stage_t *s) {
  source_t *t = s->state;
  mr_link_cfg_t cfg = cfg_of(t);
  mr_diag_t why = {0};
  t->listen = mr_listen_open(&cfg, &s->out_spec[0], s->start_number, &why);
  if (!t->listen) return mr_stage_relay(s, why.code, &why);
  t->in.opened_ns = mr_now_ns();
  mr_use_pool(s, 0, mr_listen_give_pool(t->listen));
  return MR_OK;
}

/* Once: most often the publisher was not started, or has ended. */
static void source_listen_say_alone(const mr_stage_t *s) {
  source_t *t = s->state;
  if (!t->in.opened_ns || mr_now_ns() - t->in.opened_ns < ALONE_MS * INT64_C(1000000)) return;
  t->in.opened_ns = 0;
  mr_notice("%s: nothing has come from %s so far; is it still publishing?", s->name,
            t->in.set.address);
}

static mr_err_t listen_wait(mr_stage_t *s, uint64_t seen) {
  source_t *t = s->state;
  struct pollfd fd;
  int ms, n = mr_listen_fds(t->listen, &fd, &ms);
  if (t->heard.received) t->in.opened_ns = 0;
  source_listen_say_alone(s);
  s->waits = mr_listen_credit(t->listen) ? MR_WAITS_INPUT : MR_WAITS_ROOM;
  return mr_listen_pending(t->listen) ? MR_OK : mr_wait_fds(s, seen, &fd, n, ms);
}

mr_err_t mr__source_listen_step(mr_stage_t *s) {
  source_t *t = s->state;
  mr_diag_t why = {0};
  mr_buf_t *b[MR_BURST];
  uint64_t seen = mr_news(s);
  if (mr_listen_pump(t->listen, &why) < 0) return mr_stage_relay(s, why.code, &why);
  if (mr_stopping(s) || mr_idle(s) == MR_END) return MR_END;
  size_t n = mr_listen_take(t->listen, b, mr_room(s, 0));
  mr_give(s, 0, b, n);
  mr_listen_stats(t->listen, &t->heard);
  if (mr_listen_over(t->listen)) return MR_END;
  return n ? MR_OK : listen_wait(s, seen);
}

void mr__source_listen_close(mr_stage_t *s) {
  source_t *t = s->state;
  if (t->listen) mr_listen_stats(t->listen, &t->heard);
  mr_listen_close(t->listen);
  t->listen = NULL;
}

void mr__source_listen_report(mr_stage_t *s, char *text, size_t n) {
  const source_t *t = s->state;
  mr_snprintf(text, n, "%" PRId64 " buffers received, %" PRId64 " missed in %" PRId64 " gaps",
              t->heard.received, t->heard.missed, t->heard.gaps);
}
