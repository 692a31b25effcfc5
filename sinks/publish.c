/* publish: metrics for whoever wants to listen, over a ZeroMQ PUB socket.  Each number goes out
   under a topic of its own ("train/loss", "valid/accuracy", "stages/train/busy") and each whole
   record under "record"; a subscriber that is slow or gone loses messages and holds nobody. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/loopback.h"
#include "pipeline/metrics.h"
#include "pipeline/stage.h"
#include "sinks/json.h"

enum { HIGH_WATER = 1000, LONGEST_TOPIC = 4096, LINGER_MS = 500 };

typedef struct publish {
  const char *bind;
  void *context, *socket;
  char at[256]; /* the address it is bound to */
  int64_t sent;
} publish_t;

static const mr_opt_t publish_opts[] = {
    {.name = "bind",
     .type = MR_OPT_STR,
     .offset = offsetof(publish_t, bind),
     .unit = "",
     .def = "tcp://127.0.0.1:5560",
     .help = "Address of the socket: tcp:// on loopback (port * takes a free one), or ipc://FILE.",
     .positional = 1},
    {0}};

static bool starts(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

static mr_err_t publish_plan(mr_stage_t *s) {
  const publish_t *p = s->state;
  if (mr_address_stays_here(p->bind)) return MR_OK;
  return mr_stage_fail(s, MR_ERR_CONFIG,
                       "bind = %s: want tcp://127.0.0.1:PORT or ipc://FILE; the messages are "
                       "readable by all who reach the socket, so it stays on this machine",
                       p->bind);
}

static mr_err_t publish_open(mr_stage_t *s) {
  publish_t *p = s->state;
  int64_t longest = LONGEST_TOPIC; /* else a peer's size field decides what is allocated */
  int high = HIGH_WATER, linger = LINGER_MS, v6 = starts(p->bind, "tcp://[");
  size_t n = sizeof p->at;
  p->context = zmq_ctx_new();
  p->socket = p->context ? zmq_socket(p->context, ZMQ_PUB) : NULL;
  if (!p->socket) return mr_stage_fail(s, MR_ERR_NOMEM, "no socket: %s", zmq_strerror(zmq_errno()));
  zmq_setsockopt(p->socket, ZMQ_SNDHWM, &high, sizeof high);
  zmq_setsockopt(p->socket, ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(p->socket, ZMQ_IPV6, &v6, sizeof v6);
  zmq_setsockopt(p->socket, ZMQ_MAXMSGSIZE, &longest, sizeof longest);
  if (zmq_bind(p->socket, p->bind) < 0)
    return mr_stage_fail(s, MR_ERR_IO, "cannot bind %s: %s", p->bind, zmq_strerror(zmq_errno()));
  zmq_getsockopt(p->socket, ZMQ_LAST_ENDPOINT, p->at, &n);
  printf("%s: %s\n", s->name, p->at);
  fflush(stdout);
  return MR_OK;
}

static void send_text(publish_t *p, const char *topic, const char *text) {
  if (!text) return;
  if (zmq_send(p->socket, topic, strlen(topic), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return;
  if (zmq_send(p->socket, text, strlen(text), ZMQ_DONTWAIT) >= 0) p->sent++;
}

static void send_number(publish_t *p, const mr_metrics_t *r, const char *topic, double v) {
  char text[160], value[32] = "null"; /* JSON has no NaN */
  if (isfinite(v)) snprintf(value, sizeof value, "%.17g", v);
  snprintf(text, sizeof text, "{\"step\":%" PRId64 ",\"value\":%s,\"elapsed_s\":%.6f}", r->step,
           value, r->elapsed_s);
  send_text(p, topic, text);
}

static void send_record(publish_t *p, const mr_metrics_t *r) {
  char topic[160], *text = mr_metrics_json(r);
  const char *kind = r->kind == MR_METRICS_STEP ? "train" : mr_metrics_kind_text(r->kind);
  for (int i = 0; i < r->n; i++) {
    snprintf(topic, sizeof topic, "%s/%s", kind, r->m[i].name);
    send_number(p, r, topic, r->m[i].value);
  }
  for (int i = 0; i < r->n_stages; i++) {
    const mr_metrics_stage_t *st = &r->stage[i];
    snprintf(topic, sizeof topic, "stages/%s/busy", st->name);
    send_number(p, r, topic, st->busy);
  }
  send_text(p, "record", text);
  free(text);
}

static mr_err_t publish_step(mr_stage_t *s) {
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  for (size_t i = 0; i < k; i++) {
    if (mr_metrics_is_numbers(b[i]->data)) send_record(s->state, b[i]->data);
    mr_buf_unref(b[i]);
  }
  return k ? MR_OK : mr_idle(s);
}

static void publish_close(mr_stage_t *s) {
  publish_t *p = s->state;
  if (p->socket) zmq_close(p->socket);
  if (p->context) zmq_ctx_term(p->context);
  p->socket = p->context = NULL;
}

static void publish_report(mr_stage_t *s, char *text, size_t n) {
  const publish_t *p = s->state;
  snprintf(text, n, "%" PRId64 " messages at %s", p->sent, p->at);
}

const mr_stage_def_t mr_stage_publish = {
    .name = "publish",
    .help = "Publishes metrics over ZeroMQ, a topic a metric.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = publish_opts,
    .state_sz = sizeof(publish_t),
    .plan = publish_plan,
    .open = publish_open,
    .close = publish_close,
    .step = publish_step,
    .report = publish_report,
};
