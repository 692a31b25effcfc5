/* A publisher keeps the last few buffers as ready messages, and answers each request with the first
   buffer of that number or later. */
#include "links/cast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "links/link_private.h"
#include "links/plain.h"

enum {
  SUBSCRIBERS = 256,
  REQUEST_MAX = 256, /* longest accepted frame */
  WAITING_MOST = 4,  /* messages queued for one subscriber; more are dropped */
  PRESENT_MS = 5000, /* silence after which a subscriber counts as gone */
  PER_PUMP = 1024,   /* requests read before buffers get their turn */
};

typedef struct kept {
  int64_t number;
  int n; /* frames of a plain answer; 0: empty */
  zmq_msg_t part[MR__PLAIN_MOST];
  zmq_msg_t first; /* first frame of a DATA message, all fields apart */
  uint32_t apart;  /* except empty ones */
} kept_t;

typedef struct subscriber {
  unsigned char id[MR__LINK_ID_MAX];
  size_t n_id; /* 0: free */
  bool waits;  /* it waits for buffer `asked` or a later one */
  bool is_new; /* has received none yet, so it has missed none */
  bool whole;  /* wants DATA messages */
  bool knows_end;
  int64_t asked, heard_ms;
} subscriber_t;

struct mr_cast {
  mr__socket_t k;
  mr_spec_t spec;    /* its names are only in `welcome` */
  zmq_msg_t welcome; /* has_welcome: the answer to "NAME spec", whose bytes all answers share */
  bool has_welcome;
  char name[MR_LINK_NAME_MAX];
  int window, linger_ms;
  kept_t *kept; /* [window], a ring: the next buffer goes to `at` */
  int at;
  bool ended;
  int64_t end; /* ended: buffers in the stream */
  mr_cast_stats_t stats;
  subscriber_t subscriber[SUBSCRIBERS];
};

static mr_err_t cast_write_welcome(mr_cast_t *c, const mr_spec_t *spec, mr_diag_t *diag) {
  mr__link_head_t head;
  mr_spec_t back;
  size_t n = MR__LINK_SPEC;
  void *names = NULL;
  char *body = calloc(1, MR__LINK_TOKEN + n);
  if (!body) return mr_no_memory(diag, "a publisher");
  mr_err_t e = mr__link_spec_carry(spec, body + MR__LINK_TOKEN, &n, &back, &names, diag);
  if (e >= 0 && zmq_msg_init_size(&c->welcome, sizeof head + MR__LINK_TOKEN + n))
    e = mr_no_memory(diag, "a publisher");
  if (e >= 0) {
    char *at = zmq_msg_data(&c->welcome);
    mr__link_head(&head, MR__LINK_WELCOME, 0, 0, MR__LINK_TOKEN + n, 0);
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, body, MR__LINK_TOKEN + n);
    c->has_welcome = true;
  }
  free(body), free(names);
  return e;
}

mr_cast_t *mr_cast_open(const mr_link_cfg_t *cfg, const mr_spec_t *spec, mr_diag_t *diag) {
  mr_link_cfg_t bound = *cfg;
  bound.bind = true;
  mr_cast_t *c = calloc(1, sizeof *c);
  if (!c) return mr_no_memory(diag, "a publisher"), NULL;
  c->spec = *spec, c->spec.dataset = NULL;
  for (int f = 0; f < c->spec.n_fields; f++) c->spec.field[f].classes = NULL;
  c->window = cfg->window ? cfg->window : MR__LINK_WINDOW;
  c->linger_ms = cfg->linger_ms ? cfg->linger_ms : MR__LINK_LINGER_MS;
  strncpy(c->name, cfg->name, sizeof c->name - 1);
  c->kept = calloc((size_t)c->window, sizeof *c->kept);
  c->k.most = WAITING_MOST, c->k.peers = SUBSCRIBERS + MR__LINK_PEERS;
  bool good = c->kept;
  if (!good) mr_no_memory(diag, "a publisher");
  good = good && cast_write_welcome(c, spec, diag) >= 0;
  if (good && mr__socket_open(&c->k, &bound, REQUEST_MAX, diag) >= 0) return c;
  mr_cast_close(c);
  return NULL;
}

static void cast_forget(kept_t *t) {
  if (t->n) zmq_msg_close(&t->first);
  while (t->n) zmq_msg_close(&t->part[--t->n]);
}

void mr_cast_close(mr_cast_t *c) {
  if (!c || mr__socket_is_of_parent(&c->k)) return;
  for (int i = 0; c->kept && i < c->window; i++) cast_forget(&c->kept[i]);
  mr__socket_close(&c->k, c->linger_ms);
  if (c->has_welcome) zmq_msg_close(&c->welcome);
  free(c->kept), free(c);
}

/* ---- answers ---- */

/* The first kept buffer with this number or a later one; NULL without one. */
static kept_t *first_from(mr_cast_t *c, int64_t number) {
  for (int i = 0; i < c->window; i++) { /* oldest first */
    kept_t *t = &c->kept[(c->at + i) % c->window];
    if (t->n && t->number >= number) return t;
  }
  return NULL;
}

static bool send_to(mr_cast_t *c, const subscriber_t *s, zmq_msg_t *part, int n) {
  memcpy(c->k.peer, s->id, s->n_id);
  c->k.n_peer = s->n_id;
  return mr__socket_send_all(&c->k, false, part, n);
}

/* Sends a message of one frame. */
static void cast_report(mr_cast_t *c, const subscriber_t *s, uint64_t session, mr__link_kind_t kind,
                        int64_t number, const void *body, size_t n) {
  zmq_msg_t m;
  mr__link_head_t head;
  mr__link_head(&head, kind, session, number, n, 0);
  if (zmq_msg_init_size(&m, sizeof head + n)) return;
  memcpy(zmq_msg_data(&m), &head, sizeof head);
  if (n) memcpy((char *)zmq_msg_data(&m) + sizeof head, body, n);
  send_to(c, s, &m, 1);
}

static zmq_msg_t *add_kept(zmq_msg_t *at, zmq_msg_t *kept) {
  zmq_msg_init(at);
  zmq_msg_copy(at, kept); /* the same bytes, counted */
  return at + 1;
}

static void send_kept(mr_cast_t *c, subscriber_t *s, kept_t *t) {
  zmq_msg_t part[MR__PLAIN_MOST], *end = part;
  if (s->whole) end = add_kept(end, &t->first);
  for (int f = 0; s->whole && f < c->spec.n_fields; f++)
    if (t->apart >> f & 1) end = add_kept(end, &t->part[mr__plain_frame(&c->spec, f)]);
  for (int i = 0; !s->whole && i < t->n; i++) end = add_kept(end, &t->part[i]);
  bool sent = send_to(c, s, part, (int)(end - part));
  if (!s->is_new) c->stats.dropped += t->number - s->asked;
  c->stats.sent += sent;
  c->stats.dropped += !sent;
  s->waits = s->is_new = false;
}

static void send_end(mr_cast_t *c, subscriber_t *s) {
  zmq_msg_t part;
  if (s->whole)
    cast_report(c, s, 0, MR__LINK_END, c->end, NULL, 0);
  else if (mr__plain_end(c->end, &part))
    send_to(c, s, &part, 1);
  s->waits = false, s->knows_end = true;
}

static void cast_answer(mr_cast_t *c, subscriber_t *s) {
  kept_t *t = s->waits ? first_from(c, s->asked) : NULL;
  if (t)
    send_kept(c, s, t);
  else if (s->waits && c->ended)
    send_end(c, s);
}

/* ---- requests ---- */

static bool cast_is_here(const subscriber_t *s, int64_t now) {
  return s->n_id && now - s->heard_ms < PRESENT_MS;
}

/* The sender of the last message; a newcomer takes the place of one that is gone.  NULL: there are
   too many. */
static subscriber_t *find_sender(mr_cast_t *c, int64_t now) {
  subscriber_t *free_one = NULL;
  for (int i = 0; i < SUBSCRIBERS; i++) {
    subscriber_t *s = &c->subscriber[i];
    if (s->n_id == c->k.n_from && !memcmp(s->id, c->k.from, s->n_id)) return s;
    if (!cast_is_here(s, now)) free_one = s;
  }
  if (!free_one) return NULL;
  *free_one = (subscriber_t){.n_id = c->k.n_from, .is_new = true};
  memcpy(free_one->id, c->k.from, c->k.n_from);
  c->stats.subscribers++;
  return free_one;
}

static subscriber_t last_sender(const mr_cast_t *c) { /* the last sender, for an answer */
  subscriber_t s = {.n_id = c->k.n_from};
  memcpy(s.id, c->k.from, c->k.n_from);
  return s;
}

static void welcome_subscriber(mr_cast_t *c) {
  subscriber_t s = last_sender(c);
  zmq_msg_t m;
  add_kept(&m, &c->welcome);
  send_to(c, &s, &m, 1);
}

/* Tells a peer that takes this for a server of batches what it is. */
static void answer_stranger(mr_cast_t *c, const void *frame, size_t n) {
  mr__link_head_t head = {0};
  const char *why;
  char text[160];
  int kind;
  c->stats.malformed++;
  if (mr__link_head_read(frame, n, &head, &why))
    kind = head.kind;
  else if (!mr__link_is_foreign(frame, n, &kind, text, sizeof text))
    return;
  if (kind != MR__LINK_HELLO) return;
  subscriber_t s = last_sender(c);
  int k = snprintf(text, sizeof text, "a broadcast answers there; say subscribe=%s", c->name);
  cast_report(c, &s, head.session, MR__LINK_REFUSE, 0, text, (size_t)k);
}

static void cast_hear(mr_cast_t *c, mr__message_t *m, int64_t now) {
  int64_t number;
  mr__cast_ask_t what;
  subscriber_t *s = NULL;
  const void *frame = zmq_msg_data(&m->frame[0]);
  size_t n = zmq_msg_size(&m->frame[0]);
  if (m->bad || m->n != 1 || !mr__cast_read(frame, n, c->name, &what, &number))
    return answer_stranger(c, frame, n);
  if (what == MR__CAST_SPEC) return welcome_subscriber(c);
  if (!(s = find_sender(c, now))) {
    c->stats.malformed++;
    return;
  }
  s->heard_ms = now, s->whole = what == MR__CAST_WHOLE, s->asked = number, s->waits = true;
  cast_answer(c, s);
}

void mr_cast_pump(mr_cast_t *c) {
  mr__message_t m;
  if (mr__socket_is_of_parent(&c->k)) return;
  int64_t now = mr__link_now_ms();
  mr_guard_tend(c->k.guard);
  for (int i = 0; i < PER_PUMP; i++) {
    int64_t malformed = c->stats.malformed;
    if (!mr__socket_receive(&c->k, &m)) return;
    cast_hear(c, &m, now);
    mr_guard_heard(c->k.guard, &m.frame[0], c->stats.malformed == malformed, false);
    mr__message_close(&m);
  }
}

static int count_present(const mr_cast_t *c) {
  int64_t now = mr__link_now_ms();
  int n = 0;
  for (int i = 0; i < SUBSCRIBERS; i++) n += cast_is_here(&c->subscriber[i], now);
  return n;
}

static bool put_first(const mr_cast_t *c, const mr_buf_t *b, kept_t *t) {
  mr__link_data_t d = mr__link_data_of(&c->spec, b, 0);
  if (zmq_msg_init_size(&t->first, mr__link_first_bytes(&d, &c->spec, b))) return false;
  mr__link_data_write(&d, &c->spec, b, 0, b->seq, zmq_msg_data(&t->first));
  t->apart = d.apart;
  return true;
}

bool mr_cast_give(mr_cast_t *c, mr_buf_t *b) {
  kept_t *t = &c->kept[c->at];
  c->stats.published++;
  cast_forget(t);
  if (!count_present(c)) return true;
  t->number = b->seq;
  if (!put_first(c, b, t)) return false;
  t->n = mr__plain_write(&c->spec, b, b->seq, false, t->part);
  if (!t->n) return zmq_msg_close(&t->first), false;
  c->at = (c->at + 1) % c->window;
  for (int i = 0; i < SUBSCRIBERS; i++) cast_answer(c, &c->subscriber[i]);
  return true;
}

void mr_cast_end(mr_cast_t *c, int64_t number) {
  c->ended = true, c->end = number;
  for (int i = 0; i < SUBSCRIBERS; i++) cast_answer(c, &c->subscriber[i]);
}

bool mr_cast_done(const mr_cast_t *c) {
  int64_t now = mr__link_now_ms();
  for (int i = 0; i < SUBSCRIBERS; i++)
    if (cast_is_here(&c->subscriber[i], now) && !c->subscriber[i].knows_end) return false;
  return c->ended;
}

/* ---- calls ---- */

int mr_cast_fds(mr_cast_t *c, struct pollfd fd[MR_CAST_FDS], int *timeout_ms) {
  fd[0] = (struct pollfd){.fd = c->k.fd, .events = POLLIN};
  fd[1] = (struct pollfd){.fd = mr_guard_fd(c->k.guard), .events = POLLIN};
  *timeout_ms = mr_guard_wait_ms(c->k.guard);
  return 2;
}

bool mr_cast_pending(mr_cast_t *c) { return mr__socket_readable(&c->k); }

void mr_cast_stats(const mr_cast_t *c, mr_cast_stats_t *out) {
  *out = c->stats;
  out->present = count_present(c);
}

const char *mr_cast_address(const mr_cast_t *c) { return c->k.at; }
