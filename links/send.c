/* The sending end: holds every buffer until the peer has released it, sends within the credit, and
   answers peers that ask where to resume. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "links/link_private.h"
#include "links/plain.h"

static mr_buf_t **held_at(const mr_link_t *l, int64_t number) {
  assert(number >= l->first_held && number - l->first_held < l->cfg.window);
  return &l->held[number % l->cfg.window];
}

/* ---- sending ---- */

static void release_hold(void *data, void *hint) { mr_buf_unref(hint); }

/* Makes frames, holding the buffer, for the fields that travel apart; returns how many. */
static int hold_apart(const mr_link_t *l, const mr__link_data_t *d, mr_buf_t *b, zmq_msg_t *part) {
  int n = 0;
  for (int f = 0; f < l->spec.n_fields; f++) {
    if (!(d->apart >> f & 1)) continue;
    void *at = b->key ? b->field[f].data : b->data;
    zmq_msg_init_data(&part[n++], at, mr__link_field_bytes(&l->spec, b, f), release_hold,
                      mr_buf_ref(b));
  }
  return n;
}

static bool send_one(mr_link_t *l, int64_t number) {
  mr_buf_t *b = *held_at(l, number);
  assert(b && number < l->next);
  mr__place_t place = mr__share_place(l->share, b);
  mr__link_data_t d = mr__link_data_of(&l->spec, b, MR__LINK_INLINE);
  if (place.is_known)
    d.where = MR__LINK_WHERE_POOL, d.pool = place.pool, d.offset = place.offset, d.apart = 0;
  size_t n = mr__link_data_write(&d, &l->spec, b, l->session, number, l->scratch);
  zmq_msg_t part[MR_FIELDS_MAX];
  if (!mr__socket_send(&l->k, false, l->scratch, n, part, hold_apart(l, &d, b, part))) return false;
  l->said_ms = mr__link_now_ms();
  l->stats.sent++;
  if (number < l->reached) l->stats.resent++;
  if (place.is_known) l->stats.by_reference++;
  if (!place.is_known) l->stats.bytes += (int64_t)d.size;
  return true;
}

static void send_due(mr_link_t *l) {
  while (l->sent < l->next && l->sent < l->limit && send_one(l, l->sent))
    if (++l->sent > l->reached) l->reached = l->sent;
}

/* Answers a plain request once its buffer is there. */
static void send_wanted(mr_link_t *l) {
  zmq_msg_t part[MR__PLAIN_MOST];
  bool over = l->ended && l->wanted == l->next;
  if (l->wanted < l->first_held || (l->wanted >= l->next && !over)) return;
  mr_buf_t *b = over ? NULL : *held_at(l, l->wanted);
  int n = over ? mr__plain_end(l->next, part) : mr__plain_write(&l->spec, b, l->wanted, true, part);
  if (!n || !mr__socket_send_all(&l->k, false, part, n)) return; /* the peer asks again */
  if (over) {
    l->left = l->end_said = true;
  } else {
    l->stats.sent++, l->stats.bytes += (int64_t)mr__link_data_of(&l->spec, b, 0).size;
    if (l->wanted < l->reached) l->stats.resent++;
    if (l->wanted >= l->reached) l->sent = l->reached = l->wanted + 1;
  }
  l->wanted = -1;
}

void mr__link_out_speaks(mr_link_t *l) {
  int64_t now = mr__link_now_ms();
  if (l->state == MR__LINK_PLAIN) return send_wanted(l);
  if (l->state == MR__LINK_ALONE) {
    mr__link_knock_t knock = {{0}};
    if (l->k.router || l->left || now - l->tried_ms < MR__LINK_KNOCK_MS) return;
    l->tried_ms = now;
    strcpy(knock.name, l->cfg.name); /* check_cfg bounds its length */
    if (!mr__link_say(l, MR__LINK_KNOCK, l->first_held, &knock, sizeof knock))
      l->tried_ms = now - MR__LINK_KNOCK_MS + MR__LINK_RETRY_MS;
    return;
  }
  send_due(l);
  if (l->ended && l->sent == l->next && !l->end_said)
    l->end_said = mr__link_say(l, MR__LINK_END, l->next, NULL, 0);
}

/* ---- hearing ---- */

static void send_let_go(mr_link_t *l, int64_t number) {
  assert(number <= l->next);
  for (; l->first_held < number; l->first_held++) {
    mr_buf_unref(*held_at(l, l->first_held));
    *held_at(l, l->first_held) = NULL;
  }
}

static void note_acknowledged(mr_link_t *l, int64_t released, int64_t committed) {
  l->acked = released;
  if (committed > l->committed_heard) l->committed_heard = committed;
  send_let_go(l, released);
}

static bool send_welcome(mr_link_t *l, bool shares) {
  size_t room = mr__link_spec_bytes(&l->spec);
  char *body = calloc(1, MR__LINK_TOKEN + room);
  if (!body) return false;
  if (shares) mr__share_token(l->share, body);
  size_t n = mr__link_spec_write(&l->spec, body + MR__LINK_TOKEN, room);
  bool said = mr__link_say(l, MR__LINK_WELCOME, l->sent, body, MR__LINK_TOKEN + n);
  free(body);
  return said;
}

/* Whether a HELLO may be answered.  A peer that asks again and again gets a long spec no more often
   than it has to ask: each WELCOME has bytes of its own. */
static bool welcome_is_due(const mr_link_t *l) {
  enum { SHORT_SPEC = 64 << 10 };
  if (mr__link_now_ms() - l->welcomed_ms >= MR__LINK_KNOCK_MS) return true;
  return mr__link_spec_bytes(&l->spec) <= SHORT_SPEC;
}

static bool same_point(const mr_link_point_t *a, const mr_link_point_t *b) {
  return a->number == b->number && a->position == b->position && a->n_words == b->n_words &&
         !memcmp(a->word, b->word, (size_t)a->n_words * sizeof *a->word);
}

/* Why the stream cannot start at this point; NULL: no reason known. */
static const char *send_why_not(const mr_link_t *l, const mr_link_point_t *p, char *text,
                                size_t n) {
  int words = l->spec.flow == MR_FLOW_BATCHES ? l->spec.n_words : 0;
  if (*l->barred_why && same_point(p, &l->barred)) return l->barred_why;
  if (!p->n_words || p->n_words == words) return NULL;
  snprintf(text, n, "resume from a state of %d numbers: this stream's has %d", p->n_words, words);
  return text;
}

static void hear_hello(mr_link_t *l, const mr__link_head_t *head, const void *body) {
  mr__link_hello_t hello;
  mr_link_point_t p = {.number = head->number};
  if (!mr__link_hello_read(body, head->body, p.number, &hello, p.word))
    return mr__link_malformed(l);
  if (strcmp(hello.name, l->cfg.name))
    return mr__link_answer(l, MR__LINK_REFUSE, head->session,
                           "another link answers at this address");
  char text[128];
  p.epoch = hello.epoch, p.position = hello.position, p.n_words = (int)hello.n_words;
  const char *why = send_why_not(l, &p, text, sizeof text);
  if (why) {
    mr__link_count_refusal(l, why);
    return mr__link_answer(l, MR__LINK_REFUSE, head->session, why);
  }
  if (!welcome_is_due(l) || !mr__link_let_in(l)) return;
  l->asked = p;
  l->session = head->session;
  l->asked_state = MR_END;
  if (p.number < l->first_held || p.number > l->next) return mr__link_part(l);
  l->asked_state = MR_OK;
  l->sent = l->acked = p.number, l->limit = hello.limit, l->end_said = false;
  bool shares = hello.flags & MR__LINK_SHARES && mr__share_same_host(l->share, hello.host);
  mr__share_use(l->share, shares);
  if (!send_welcome(l, shares)) return mr__link_part(l);
  l->state = MR__LINK_MET;
  l->heard_ms = l->welcomed_ms = mr__link_now_ms();
  l->stats.connections++;
}

static void refuse_plain(mr_link_t *l, int64_t number) {
  zmq_msg_t part;
  mr__link_count_refusal(l, l->barred_why);
  if (mr__plain_error(number, l->barred_why, &part)) mr__socket_send_all(&l->k, true, &part, 1);
}

bool mr__link_out_hears_plain(mr_link_t *l, const void *frame, size_t n) {
  int64_t number;
  if (!mr__plain_read(frame, n, l->cfg.name, &number)) return false;
  if (!l->k.router) return true;
  if (*l->barred_why && same_point(&(mr_link_point_t){.number = number}, &l->barred)) {
    refuse_plain(l, number);
    return true;
  }
  if (!mr__link_let_in(l)) return true; /* the peer repeats its request until its turn comes */
  l->heard = true;
  l->heard_ms = mr__link_now_ms();
  l->asked = (mr_link_point_t){.number = number};
  l->asked_state = number < l->first_held || number > l->next ? MR_END : MR_OK;
  if (l->state != MR__LINK_PLAIN) l->stats.connections++;
  l->state = MR__LINK_PLAIN, l->session = 0, l->wanted = number;
  mr__share_use(l->share, false);
  if (l->asked_state == MR_OK) note_acknowledged(l, number, number);
  return true;
}

static void hear_ack(mr_link_t *l, const mr__link_head_t *head, const void *body) {
  mr__link_ack_t ack;
  if (head->number > l->sent || !mr__link_ack_read(body, head->body, head->number, &ack))
    return mr__link_malformed(l);
  note_acknowledged(l, head->number, ack.committed);
  l->limit = ack.limit;
  /* The receiving end waits for this before it closes: an acknowledgement in flight when its
     connection closed may never arrive here. */
  if (mr_link_done(l)) mr__link_say(l, MR__LINK_LEAVE, l->next, NULL, 0);
}

void mr__link_out_hears(mr_link_t *l, const mr__link_head_t *head, const void *body) {
  if (head->kind == MR__LINK_HELLO) return hear_hello(l, head, body);
  if (head->kind == MR__LINK_ACK) return hear_ack(l, head, body);
  if (head->kind == MR__LINK_LEAVE) {
    l->left = true;
    mr__link_say(l, MR__LINK_LEAVE, 0, NULL, 0); /* otherwise the peer repeats it */
    return;
  }
  if (head->kind == MR__LINK_REFUSE) return mr__link_refused(l, head, body);
  mr__link_malformed(l);
}

/* ---- calls ---- */

mr_err_t mr_link_asked(const mr_link_t *l, mr_link_point_t *point) {
  *point = l->asked;
  return l->asked_state;
}

void mr_link_refuse(mr_link_t *l, const mr_link_point_t *point, const char *why) {
  l->barred = *point;
  snprintf(l->barred_why, sizeof l->barred_why, "%s", why);
}

size_t mr_link_room(const mr_link_t *l) {
  if (l->left || l->ended) return 0;
  return (size_t)(l->cfg.window - (l->next - l->first_held));
}

void mr_link_send(mr_link_t *l, mr_buf_t *b) {
  assert(mr_link_room(l) > 0);
  *held_at(l, l->next++) = b;
  if (l->state == MR__LINK_MET) send_due(l);
}

void mr_link_end(mr_link_t *l) { l->ended = true; }

bool mr_link_left(const mr_link_t *l) { return l->left; }

bool mr_link_done(const mr_link_t *l) {
  return l->left || (l->ended && l->end_said && l->acked == l->next);
}
