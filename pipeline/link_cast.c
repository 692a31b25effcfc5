#include "pipeline/link_cast.h"

#include <stdlib.h>
#include <string.h>

#include "pipeline/link_plain.h"
#include "pipeline/link_private.h"

enum {
  SUBSCRIBERS = 256,
  REQUEST_MAX = 256, /* longest frame that is accepted */
  WAITING_MOST = 4,  /* messages that wait for one subscriber; more are dropped */
  PRESENT_MS = 5000, /* silence after which a subscriber counts as gone */
  PER_PUMP = 1024,   /* requests heard before buffers get their turn */
};

typedef struct kept {
  int64_t number;
  bool is_there;
  zmq_msg_t part[MR__PLAIN_PARTS];
} kept_t;

typedef struct subscriber {
  unsigned char id[MR__LINK_ID_MAX];
  size_t n_id; /* 0: free */
  bool waits;  /* for a buffer with this number or a later one */
  bool is_new; /* has got none yet, so it has missed none */
  bool knows_end;
  int64_t asked, heard_ms;
} subscriber_t;

struct mr_cast {
  mr__socket_t k;
  mr_spec_t spec; /* of which only shape and type are used */
  char name[MR_LINK_NAME_MAX];
  int window, linger_ms;
  kept_t *kept; /* [window], a ring: the next buffer goes to at */
  int at;
  bool ended;
  int64_t end; /* ended: buffers in the stream */
  mr_cast_stats_t stats;
  subscriber_t subscriber[SUBSCRIBERS];
};

mr_cast_t *mr_cast_open(const mr_link_cfg_t *cfg, const mr_spec_t *spec, mr_diag_t *diag) {
  mr_link_cfg_t bound = *cfg;
  bound.bind = true;
  if (spec->flow != MR_FLOW_BATCHES && spec->flow != MR_FLOW_BYTES)
    return mr_fail(diag, MR_ERR_SHAPE, "only batches and bytes can be published"), NULL;
  mr_cast_t *c = calloc(1, sizeof *c);
  if (!c) return mr_fail(diag, MR_ERR_NOMEM, "out of memory for a publisher"), NULL;
  c->spec = *spec, c->spec.dataset = NULL;
  c->window = cfg->window ? cfg->window : MR__LINK_WINDOW;
  c->linger_ms = cfg->linger_ms ? cfg->linger_ms : MR__LINK_LINGER_MS;
  strncpy(c->name, cfg->name, sizeof c->name - 1);
  c->kept = calloc((size_t)c->window, sizeof *c->kept);
  c->k.most = WAITING_MOST;
  if (!c->kept) mr_fail(diag, MR_ERR_NOMEM, "out of memory for a publisher");
  if (c->kept && mr__socket_open(&c->k, &bound, REQUEST_MAX, diag) >= 0) return c;
  mr_cast_close(c);
  return NULL;
}

static void forget(kept_t *t) {
  for (int i = 0; t->is_there && i < MR__PLAIN_PARTS; i++) zmq_msg_close(&t->part[i]);
  t->is_there = false;
}

void mr_cast_close(mr_cast_t *c) {
  if (!c) return;
  for (int i = 0; c->kept && i < c->window; i++) forget(&c->kept[i]);
  mr__socket_close(&c->k, c->linger_ms);
  free(c->kept), free(c);
}

/* ---- answers ---- */

/* Of what is kept, the first buffer with this number or a later one. */
static kept_t *first_from(mr_cast_t *c, int64_t number) {
  for (int i = 0; i < c->window; i++) { /* oldest first */
    kept_t *t = &c->kept[(c->at + i) % c->window];
    if (t->is_there && t->number >= number) return t;
  }
  return NULL;
}

static bool send_to(mr_cast_t *c, subscriber_t *s, zmq_msg_t part[MR__PLAIN_PARTS]) {
  memcpy(c->k.peer, s->id, s->n_id);
  c->k.n_peer = s->n_id;
  return mr__socket_send_all(&c->k, part, MR__PLAIN_PARTS);
}

static void send_kept(mr_cast_t *c, subscriber_t *s, kept_t *t) {
  zmq_msg_t part[MR__PLAIN_PARTS];
  for (int i = 0; i < MR__PLAIN_PARTS; i++) {
    zmq_msg_init(&part[i]);
    zmq_msg_copy(&part[i], &t->part[i]); /* the same bytes, counted */
  }
  bool sent = send_to(c, s, part);
  if (!s->is_new) c->stats.dropped += t->number - s->asked;
  c->stats.sent += sent;
  c->stats.dropped += !sent;
  s->waits = s->is_new = false;
}

static void send_end(mr_cast_t *c, subscriber_t *s) {
  zmq_msg_t part[MR__PLAIN_PARTS];
  if (mr__plain_end(c->end, part)) send_to(c, s, part);
  s->waits = false, s->knows_end = true;
}

static void answer(mr_cast_t *c, subscriber_t *s) {
  kept_t *t = s->waits ? first_from(c, s->asked) : NULL;
  if (t)
    send_kept(c, s, t);
  else if (s->waits && c->ended)
    send_end(c, s);
}

/* ---- requests ---- */

static bool is_here(const subscriber_t *s, int64_t now) {
  return s->n_id && now - s->heard_ms < PRESENT_MS;
}

/* Who spoke last; a newcomer takes the place of one that is gone.  NULL: there are too many. */
static subscriber_t *who(mr_cast_t *c, int64_t now) {
  subscriber_t *free_one = NULL;
  for (int i = 0; i < SUBSCRIBERS; i++) {
    subscriber_t *s = &c->subscriber[i];
    if (s->n_id == c->k.n_from && !memcmp(s->id, c->k.from, s->n_id)) return s;
    if (!is_here(s, now)) free_one = s;
  }
  if (!free_one) return NULL;
  *free_one = (subscriber_t){.n_id = c->k.n_from, .is_new = true};
  memcpy(free_one->id, c->k.from, c->k.n_from);
  c->stats.subscribers++;
  return free_one;
}

static void hear(mr_cast_t *c, zmq_msg_t part[2], int n_frames, int64_t now) {
  int64_t number;
  subscriber_t *s = NULL;
  if (n_frames == 1 &&
      mr__plain_read(zmq_msg_data(&part[0]), zmq_msg_size(&part[0]), c->name, &number))
    s = who(c, now);
  if (!s) {
    c->stats.malformed++;
    return;
  }
  s->heard_ms = now, s->asked = number, s->waits = true;
  answer(c, s);
}

void mr_cast_pump(mr_cast_t *c) {
  zmq_msg_t part[2];
  int n_frames;
  int64_t now = mr__link_now_ms();
  for (int i = 0; i < PER_PUMP; i++) {
    bool came = mr__socket_receive(&c->k, part, &n_frames);
    if (came) hear(c, part, n_frames, now);
    zmq_msg_close(&part[0]);
    zmq_msg_close(&part[1]);
    if (!came) return;
  }
}

static int present(const mr_cast_t *c) {
  int64_t now = mr__link_now_ms();
  int n = 0;
  for (int i = 0; i < SUBSCRIBERS; i++) n += is_here(&c->subscriber[i], now);
  return n;
}

bool mr_cast_give(mr_cast_t *c, mr_buf_t *b) {
  kept_t *t = &c->kept[c->at];
  c->stats.published++;
  forget(t);
  if (!present(c)) return true;
  t->number = b->seq;
  t->is_there = mr__plain_write(&c->spec, b, b->seq, false, t->part);
  if (!t->is_there) return false;
  c->at = (c->at + 1) % c->window;
  for (int i = 0; i < SUBSCRIBERS; i++) answer(c, &c->subscriber[i]);
  return true;
}

void mr_cast_end(mr_cast_t *c, int64_t number) {
  c->ended = true, c->end = number;
  for (int i = 0; i < SUBSCRIBERS; i++) answer(c, &c->subscriber[i]);
}

bool mr_cast_done(const mr_cast_t *c) {
  int64_t now = mr__link_now_ms();
  for (int i = 0; i < SUBSCRIBERS; i++)
    if (is_here(&c->subscriber[i], now) && !c->subscriber[i].knows_end) return false;
  return c->ended;
}

/* ---- the rest ---- */

int mr_cast_fds(mr_cast_t *c, struct pollfd *fd) {
  *fd = (struct pollfd){.fd = c->k.fd, .events = POLLIN};
  return 1;
}

bool mr_cast_pending(mr_cast_t *c) { return mr__socket_readable(&c->k); }

void mr_cast_stats(const mr_cast_t *c, mr_cast_stats_t *out) {
  *out = c->stats;
  out->present = present(c);
}

const char *mr_cast_address(const mr_cast_t *c) { return c->k.at; }
