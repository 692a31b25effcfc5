/* Publishes metrics over ZeroMQ.  Each number has its own topic ("train/loss", "valid/accuracy",
   "stages/train/busy"), and each whole record the topic "record".  A subscription to "train" or
   "train/" receives all topics below, one to "train/loss" that topic alone.  While a resumed run
   repeats what was reported before, numbers have topics below "repeat" ("repeat/train/loss"), so
   that no curve goes back, and messages have a member "repeating_until".  A slow subscriber loses
   messages, which are counted, and delays nothing (sinks/subscribers.h). */
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loopback.h"
#include "base/text.h"
#include "metrics/report.h"
#include "pipeline/stage_step.h"
#include "sinks/resume.h"
#include "sinks/subscribers.h"

typedef struct publish {
  const char *bind;
  mr_subscribers_t *subscribers;
  mr_subscribers_stats_t count; /* as of the last step */
  bool said;                    /* that connections have been refused */
  char at[256];                 /* the address it is bound to */
  int64_t reported;
  double linger; /* s */
} publish_t;

static const mr_opt_t publish_opts[] = {
    {.name = "bind",
     .type = MR_OPT_STR,
     .offset = offsetof(publish_t, bind),
     .unit = "",
     .def = "tcp://127.0.0.1:5560",
     .help = "Address of the socket: tcp:// on loopback (port *: any free one), or ipc://FILE.",
     .positional = 1},
    {.name = "linger",
     .type = MR_OPT_F64,
     .offset = offsetof(publish_t, linger),
     .unit = "s",
     .def = "2",
     .lo = 0,
     .hi = 86400,
     .help = "How long the end of a run waits for subscribers to receive its last records."},
    MR_RESUME_REPORTED_OPT(offsetof(publish_t, reported)),
    {0}};

static mr_err_t publish_plan(mr_stage_t *s) {
  const publish_t *p = s->state;
  if (!mr_needs_proof(p->bind)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "bind = %s: want tcp://127.0.0.1:PORT or ipc://FILE; anyone who reaches the "
                       "socket can read the messages, so it must stay on this machine",
                       p->bind);
}

static mr_err_t publish_open(mr_stage_t *s) {
  publish_t *p = s->state;
  mr_diag_t why = {0};
  p->subscribers = mr_subscribers_open(p->bind, &why);
  if (!p->subscribers) return mr_diag_prefix(s->diag, why.code, &why, "%s: bind", s->name);
  snprintf(p->at, sizeof p->at, "%s", mr_subscribers_address(p->subscribers));
  mr_announce("%s: %s", s->name, p->at);
  return MR_OK;
}

/* Whether a report is of a step or validation that an earlier part of the run has reported. */
static bool is_repeated(const publish_t *p, const mr_report_t *r) {
  return mr_resume_was_reported(p->reported, mr_report_kind_text(r), r->step);
}

/* Writes the member that a message of a repeated step has, or "". */
static const char *repeating_text(const publish_t *p, const mr_report_t *r, char text[48]) {
  text[0] = 0;
  if (is_repeated(p, r)) snprintf(text, 48, ",\"repeating_until\":%" PRId64, p->reported);
  return text;
}

/* Sends a number under PATH/NAME; path has two parts for one of a stage. */
static void send_number(publish_t *p, const mr_report_t *r, const char *stage, const char *name,
                        double v) {
  char text[192], repeating[48], value[32] = "null", *topic = NULL; /* JSON has no NaN */
  const char *path = stage ? "stages" : mr_report_split(r);
  const char *repeat = !stage && is_repeated(p, r) ? "repeat/" : "";
  if (asprintf(&topic, "%s%s/%s%s%s", repeat, path, stage ? stage : "", stage ? "/" : "", name) < 0)
    return;
  bool wanted = mr_subscribers_topic(p->subscribers, topic);
  free(topic);
  if (!wanted) return;
  if (isfinite(v)) mr_snprintf(value, sizeof value, "%.17g", v);
  mr_snprintf(text, sizeof text, "{\"step\":%" PRId64 ",\"value\":%s,\"elapsed_s\":%.6f%s}",
              r->step, value, r->elapsed_s, repeating_text(p, r, repeating));
  mr_subscribers_text(p->subscribers, text);
}

/* Sends a report whole, as one object. */
static void send_record(publish_t *p, const mr_report_t *r) {
  char repeating[48], *whole = NULL, *text = mr_report_json(r, MR_REPORT_DENSE);
  repeating_text(p, r, repeating);
  if (text && *repeating && asprintf(&whole, "%.*s%s}", (int)strlen(text) - 1, text, repeating) < 0)
    whole = NULL;
  const char *sent = *repeating ? whole : text;
  mr_subscribers_text(p->subscribers, sent ? sent : "null"); /* without memory */
  free(text), free(whole);
}

static void send_report(publish_t *p, const mr_report_t *r) {
  for (size_t i = 0; i < r->n_numbers; i++) {
    const mr_number_t *m = &r->number[i];
    send_number(p, r, m->stage, m->def->name, m->value);
  }
  for (size_t i = 0; i < r->n_stages; i++)
    send_number(p, r, r->stage[i].name, "busy", r->stage[i].busy);
  if (mr_subscribers_topic(p->subscribers, "record")) send_record(p, r);
}

/* A refused subscriber hears nothing: ZeroMQ connects again and again without a word. */
static void say_refusals(mr_stage_t *s) {
  publish_t *p = s->state;
  if (p->said || !p->count.refused) return;
  p->said = true;
  if (p->count.full)
    mr_notice(
        "%s: %d subscribers are connected, the most that %s serves; further ones are refused "
        "until one leaves, want a second stage publish at another address for them",
        s->name, MR_SUBSCRIBERS_MAX, p->at);
  else
    mr_notice(
        "%s: a subscriber of %s could not be served for want of descriptors or memory; each "
        "takes about six descriptors, and `ulimit -n` shows how many the process may have",
        s->name, p->at);
}

static mr_err_t publish_step(mr_stage_t *s) {
  publish_t *p = s->state;
  mr_buf_t *b[MR_BURST];
  uint64_t seen = mr_news(s);
  bool more = mr_subscribers_pump(p->subscribers);
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    if (mr_report_is_numbers(b[i]->data)) send_report(p, b[i]->data);
    mr_buf_unref(b[i]);
  }
  mr_subscribers_stats(p->subscribers, &p->count);
  mr_set_dropped(s, p->count.dropped);
  say_refusals(s);
  mr_err_t e = k ? MR_OK : mr_idle(s);
  const struct pollfd fd = {.fd = mr_subscribers_fd(p->subscribers), .events = POLLIN};
  return k || more || e != MR_AGAIN
             ? e
             : mr_wait_fds(s, seen, &fd, 1, mr_subscribers_wait_ms(p->subscribers));
}

static void publish_close(mr_stage_t *s) {
  publish_t *p = s->state;
  mr_subscribers_close(p->subscribers, (int)(p->linger * 1000));
  p->subscribers = NULL;
}

static void publish_report(mr_stage_t *s, char *text, size_t n) {
  const publish_t *p = s->state;
  snprintf(text, n, "%" PRId64 " messages at %s, %" PRId64 " lost by slow subscribers",
           p->count.sent, p->at, p->count.dropped);
}

const mr_stage_def_t mr_stage_publish = {
    .name = "publish",
    .role = MR_ROLE_PUBLISH,
    .help = "Publishes metrics over ZeroMQ, one topic per metric.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .step = &(const mr_step_def_t){.run = publish_step, .publishes = true},
    .opts = publish_opts,
    .state_sz = sizeof(publish_t),
    .plan = publish_plan,
    .open = publish_open,
    .close = publish_close,
    .report = publish_report,
};
