/* source: batches of `millrace serve`, as the start of a graph.

   The server decides what they are, so planning asks it for the spec; running is the work of
   link-in. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/halt.h"
#include "links/source_private.h"
#include "links/wire.h"
#include "pipeline/stage_step.h"

static const mr_opt_t source_opts[] = {
    {.name = "link",
     .type = MR_OPT_STR,
     .offset = offsetof(source_t, in.set.address),
     .unit = "",
     .help = "Address of the server, tcp://HOST:PORT, as it prints when it starts.",
     .positional = 1},
    {.name = "subscribe",
     .type = MR_OPT_STR,
     .offset = offsetof(source_t, subscribe),
     .unit = "",
     .help = "Name of the broadcast there (\"batches\", unless it is given another): takes its "
             "buffers as they come, and misses those for which it is late."},
    {.name = "window",
     .type = MR_OPT_INT,
     .offset = offsetof(source_t, in.set.window),
     .unit = "buffers",
     .def = "8",
     .lo = 1,
     .hi = MR_LINK_WINDOW_MAX,
     .help = "Most batches in flight or in use here."},
    {.name = "key",
     .type = MR_OPT_STR,
     .offset = offsetof(source_t, in.set.key),
     .unit = "",
     .help = "File of this end's secret key (`millrace keys`)."},
    {.name = "peers",
     .type = MR_OPT_STR,
     .offset = offsetof(source_t, in.set.peers),
     .unit = "",
     .help = "File of the server's public key."},
    {.name = "wait",
     .type = MR_OPT_INT,
     .offset = offsetof(source_t, wait),
     .unit = "s",
     .def = "10",
     .lo = 1,
     .hi = 86400,
     .help = "How long to wait for the server's answer before anything runs."},
    {0}};

mr_err_t mr__source_keep_spec(mr_stage_t *s, const mr_spec_t *spec) {
  source_t *t = s->state;
  void *wire = malloc(MR__LINK_SPEC);
  size_t n = wire ? mr__link_spec_write(spec, wire, MR__LINK_SPEC) : 0;
  free(t->names), t->names = NULL;
  bool good = n && mr__link_spec_read(wire, n, &s->out_spec[0], &t->names);
  free(wire);
  return good ? MR_OK : mr_stage_no_memory(s, "the names of a server's classes");
}

static void source_forget(mr_stage_t *s) {
  source_t *t = s->state;
  free(t->names), t->names = NULL;
}

static mr_err_t source_ask(mr_stage_t *s, mr_link_t *link) {
  const source_t *t = s->state;
  mr_diag_t why = {0};
  for (int64_t until = mr_now_ns() + t->wait * INT64_C(1000000000); !mr_link_spec(link);) {
    if (mr_link_pump(link, &why) < 0) return mr_stage_relay(s, why.code, &why);
    if (mr_halted())
      return mr_stage_fail(s, MR_ERR_CANCEL, "link = %s: no answer yet", t->in.set.address);
    if (mr_now_ns() > until)
      return mr_stage_fail(s, MR_ERR_IO, "link = %s: no answer; start millrace serve%s",
                           t->in.set.address,
                           t->in.set.key ? ", and check that each end has the other's public key"
                                         : " (an end with a key refuses peers without one)");
    if (!mr_link_spec(link)) mr_link_wait(link, 50);
  }
  return mr__source_keep_spec(s, mr_link_spec(link));
}

static mr_err_t source_plan(mr_stage_t *s) {
  source_t *t = s->state;
  t->in.set.link = MR_SERVE_LINK, t->in.set.linger = 2000;
  MR_TRY(mr_link_settings_check(s, &t->in.set, "link"));
  if (t->subscribe) return mr__source_listen_plan(s);
  mr_link_cfg_t cfg = mr_link_cfg(&t->in.set);
  mr_diag_t why = {0};
  cfg.window = 1;
  mr_link_t *link = mr_link_open_in(&cfg, NULL, NULL, &why);
  mr_err_t e = link ? source_ask(s, link) : mr_stage_relay(s, why.code, &why);
  mr_link_close(link);
  return e;
}

static bool is_subscriber(const mr_stage_t *s) { return ((const source_t *)s->state)->subscribe; }

static mr_err_t source_open(mr_stage_t *s) {
  return is_subscriber(s) ? mr__source_listen_open(s) : mr_link_in_open(s);
}

static mr_err_t source_step(mr_stage_t *s) {
  return is_subscriber(s) ? mr__source_listen_step(s) : mr_link_in_step(s);
}

static void source_close(mr_stage_t *s) {
  if (is_subscriber(s))
    mr__source_listen_close(s);
  else
    mr_link_in_close(s);
}

static void source_report(mr_stage_t *s, char *text, size_t n) {
  if (is_subscriber(s))
    mr__source_listen_report(s, text, n);
  else
    mr_link_in_report(s, text, n);
}

const mr_stage_def_t mr_stage_source = {
    .name = "source",
    .help =
        "Receives the batches of `millrace serve` or of a broadcast in another process or on "
        "another host.",
    .out = {{"out", MR_FLOW_BATCHES, false}},
    .step = &(const mr_step_def_t){.run = source_step, .outside = true},
    .opts = source_opts,
    .state_sz = sizeof(source_t),
    .plan = source_plan,
    .forget = source_forget,
    .open = source_open,
    .close = source_close,
    .report = source_report,
};
