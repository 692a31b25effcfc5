/* What both ends of a link share: opening and closing, messages of the current session, beats, and
   waiting. */
#include "links/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/halt.h"
#include "links/link_private.h"

enum {
  PER_PUMP = 256,           /* messages read before other work gets its turn */
  STREAM = 2,               /* pumps in a row that found a message */
  SHORT_MESSAGE = 64 << 10, /* longest frame that a sending end accepts */
  SHORT_QUEUE = 16,         /* messages beside buffers that a peer may leave unread */
};

int64_t mr__link_now_ms(void) { return mr_now_ns() / 1000000; }

/* ---- open ---- */

/* Copies all texts, also after a failure, so that closing can free them. */
static bool copy_texts(mr_link_cfg_t *cfg) {
  const char **text[] = {&cfg->name, &cfg->address, &cfg->key, &cfg->peers};
  bool good = true;
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    if (*text[i] && !(*text[i] = strdup(*text[i]))) good = false;
  return good;
}

static mr_err_t check_cfg(const mr_link_cfg_t *cfg, mr_diag_t *diag) {
  size_t n = cfg->name ? strlen(cfg->name) : 0;
  if (n < 1 || n >= MR_LINK_NAME_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "link name \"%s\": want 1 to %d letters",
                   cfg->name ? cfg->name : "", MR_LINK_NAME_MAX - 1);
  if (cfg->window < 0 || cfg->window > MR_LINK_WINDOW_MAX)
    return mr_fail(diag, MR_ERR_CONFIG, "window = %d: want 1 to %d buffers", cfg->window,
                   MR_LINK_WINDOW_MAX);
  return MR_OK;
}

/* buffer: bytes of the longest message beside a spec. */
static mr_link_t *open_any(const mr_link_cfg_t *cfg, bool out, int64_t buffer, mr_diag_t *diag) {
  if (check_cfg(cfg, diag) < 0) return NULL;
  mr_link_t *l = calloc(1, sizeof *l);
  if (!l) return mr_no_memory(diag, "a link"), NULL;
  l->cfg = *cfg, l->out = out, l->total = l->wanted = -1, l->asked_state = MR_AGAIN;
  if (!l->cfg.window) l->cfg.window = MR__LINK_WINDOW;
  if (!l->cfg.linger_ms) l->cfg.linger_ms = MR__LINK_LINGER_MS;
  l->k.most = 2 * l->cfg.window + SHORT_QUEUE;
  l->said_ms = l->heard_ms = mr__link_now_ms();
  l->tried_ms = l->said_ms - MR__LINK_KNOCK_MS;
  bool good = copy_texts(&l->cfg);
  mr_buf_t **slots = calloc((size_t)l->cfg.window, sizeof(mr_buf_t *));
  if (out)
    l->held = slots;
  else
    l->came = slots;
  if (!good || !slots) mr_no_memory(diag, "a link");
  int64_t spec =
      out ? 0 : MR__LINK_SPEC; /* also another one than is wanted, to say how it differs */
  l->k.unread = out ? 0 : (l->cfg.window + 2) * buffer + spec;
  if (good && slots && mr__socket_open(&l->k, cfg, buffer + spec, diag) >= 0) return l;
  mr_link_close(l);
  return NULL;
}

/* Keeps the spec with a copy of its dataset, made through the bytes that the peer gets. */
static mr_err_t link_keep_spec(mr_link_t *l, const mr_spec_t *spec, mr_diag_t *diag) {
  size_t n = MR__LINK_SPEC;
  char *wire = malloc(n);
  if (!wire) return mr_no_memory(diag, "a link");
  mr_err_t e = mr__link_spec_carry(spec, wire, &n, &l->spec, &l->names, diag);
  free(wire);
  l->have_spec = e >= 0;
  return e;
}

mr_link_t *mr_link_open_out(const mr_link_cfg_t *cfg, const mr_spec_t *spec, int64_t first,
                            mr_diag_t *diag) {
  mr_link_t *l = open_any(cfg, true, SHORT_MESSAGE, diag);
  if (!l) return NULL;
  l->first_held = l->next = l->sent = l->limit = l->reached = first;
  l->acked = l->committed_heard = first;
  l->scratch = malloc(mr__link_first_max(spec));
  if (!l->scratch) mr_no_memory(diag, "a link");
  if (!l->scratch || link_keep_spec(l, spec, diag) < 0 ||
      (!l->cfg.copy && mr__share_open(l, diag) < 0))
    return mr_link_close(l), NULL;
  return l;
}

mr_link_t *mr_link_open_in(const mr_link_cfg_t *cfg, const mr_spec_t *want,
                           const mr_link_point_t *point, mr_diag_t *diag) {
  size_t bytes = want ? mr__slot_of(want).bytes : (size_t)1 << 30;
  if (point && (point->number < 0 || point->number > MR_LINK_NUMBER_MAX || point->position < 0 ||
                point->position > MR_LINK_POSITION_MAX))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "link %s: buffer %lld at position %lld: want numbers up to 2^40 and positions "
                   "up to 2^53",
                   cfg->name, (long long)point->number, (long long)point->position),
           NULL;
  mr_link_t *l = open_any(cfg, false, (int64_t)bytes + SHORT_MESSAGE, diag);
  if (!l) return NULL;
  if (point) l->point = *point;
  l->expected = l->taken = l->released = l->committed_said = l->released_said = l->point.number;
  atomic_init(&l->committed, l->point.number);
  l->spec_is_wanted = want != NULL;
  if (want && (link_keep_spec(l, want, diag) < 0 || mr__link_in_ready(l, diag) < 0))
    return mr_link_close(l), NULL;
  return l;
}

/* ---- close ---- */

/* A sending end waits for the last acknowledgement.  A receiving end that has everything, or wants
   no more, waits until the sending end knows: if the connection ended first, messages in flight to
   this end would take its last ones with them. */
static bool has_to_wait(const mr_link_t *l) {
  if (l->out) return l->ended && !mr_link_done(l);
  if (l->left_heard) return false;
  if (l->left) return l->state == MR__LINK_MET;
  return mr_link_over(l) && l->released == l->total;
}

static void link_linger(mr_link_t *l) {
  int64_t until = mr__link_now_ms() + l->cfg.linger_ms;
  if (!l->out) {
    l->ack_due_ms = 1; /* acknowledge at once what was released since */
    mr_link_pump(l, NULL);
  }
  while (has_to_wait(l) && mr_link_pump(l, NULL) >= 0) {
    int64_t left = until - mr__link_now_ms();
    if (left <= 0 || mr_halted()) return;
    mr_link_wait(l, left < MR_HALT_SLICE_MS ? (int)left : MR_HALT_SLICE_MS);
  }
}

void mr_link_close(mr_link_t *l) {
  if (!l || mr__socket_is_of_parent(&l->k)) return;
  if (l->k.socket) link_linger(l);
  for (int64_t i = l->first_held; l->held && i < l->next; i++)
    mr_buf_unref(l->held[i % l->cfg.window]);
  for (int64_t i = l->taken; l->came && i < l->expected; i++)
    mr_buf_unref(l->came[i % l->cfg.window]);
  mr__socket_close(&l->k, l->cfg.linger_ms);
  mr__share_close(l->share);
  if (!l->pool_is_given) mr_pool_destroy(l->pool);
  free((void *)l->cfg.name), free((void *)l->cfg.address);
  free((void *)l->cfg.key), free((void *)l->cfg.peers);
  free(l->names), free(l->held), free(l->came), free(l->scratch);
  free(l);
}

/* ---- messages ---- */

static size_t put_frame(mr_link_t *l, char *at, mr__link_kind_t kind, int64_t number,
                        const void *body, size_t n) {
  mr__link_head_t head;
  mr__link_head(&head, kind, l->session, number, n, 0);
  memcpy(at, &head, sizeof head);
  if (n) memcpy(at + sizeof head, body, n);
  return sizeof head + n;
}

bool mr__link_say(mr_link_t *l, mr__link_kind_t kind, int64_t number, const void *body, size_t n) {
  char little[512], *at = little;
  if (sizeof(mr__link_head_t) + n > sizeof little) at = malloc(sizeof(mr__link_head_t) + n);
  bool sent =
      at && mr__socket_send(&l->k, false, at, put_frame(l, at, kind, number, body, n), NULL, 0);
  if (at != little) free(at);
  if (!sent) return false;
  l->said_ms = mr__link_now_ms();
  return true;
}

void mr__link_answer(mr_link_t *l, mr__link_kind_t kind, uint64_t session, const char *text) {
  char at[sizeof(mr__link_head_t) + 256];
  mr__link_head_t head;
  size_t n = text ? strnlen(text, 255) : 0;
  mr__link_head(&head, kind, session, 0, n, 0);
  memcpy(at, &head, sizeof head);
  if (n) memcpy(at + sizeof head, text, n);
  mr__socket_send(&l->k, true, at, sizeof head + n, NULL, 0);
}

void mr__link_malformed(mr_link_t *l) { l->stats.malformed++; }

void mr__link_count_refusal(mr_link_t *l, const char *why) {
  l->stats.refused++;
  snprintf(l->refusal, sizeof l->refusal, "%s", why);
}

void mr__link_refuse_peer(mr_link_t *l, mr_err_t code, const char *why) {
  mr__link_count_refusal(l, why);
  if (!l->k.router) {
    mr_fail(&l->failure, code, "link %s: %s", l->cfg.name, why);
    return;
  }
  mr__link_part(l);
  l->k.n_peer = 0;
}

const char *mr_link_refusal(const mr_link_t *l) { return l->refusal; }

void mr__link_refused(mr_link_t *l, const mr__link_head_t *head, const void *body) {
  char text[400];
  size_t n = head->body < sizeof text ? head->body : sizeof text - 1;
  memcpy(text, body, n), text[n] = 0;
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) text[i] = '?'; /* for terminals */
  mr__link_refuse_peer(l, MR_ERR_DATA, text);
}

void mr__link_part(mr_link_t *l) {
  l->state = MR__LINK_ALONE;
  l->tried_ms = mr__link_now_ms() - MR__LINK_KNOCK_MS; /* the next attempt is due now */
}

/* A newcomer replaces a peer only if that is silent or its connection is gone: one link has one
   peer, and no other may take over a running stream. */
bool mr__link_let_in(mr_link_t *l) {
  char at[sizeof(mr__link_head_t)];
  if (mr__socket_is_peer(&l->k)) return true;
  bool silent = mr__link_now_ms() - l->heard_ms > MR__LINK_SILENT_MS;
  if (l->state == MR__LINK_PLAIN && !silent) return false; /* it understands no message of ours */
  if (l->state == MR__LINK_MET && !silent &&
      mr__socket_peer_stands(&l->k, at, put_frame(l, at, MR__LINK_BEAT, 0, NULL, 0)))
    return false;
  mr__socket_set_peer(&l->k);
  mr__link_part(l);
  return true;
}

static bool of_this_session(mr_link_t *l, const mr__link_head_t *head) {
  if (head->kind == MR__LINK_KNOCK || head->kind == MR__LINK_HELLO) return true;
  if (mr__socket_is_peer(&l->k) && head->session == l->session) return true;
  /* A peer that speaks in a session of an earlier process gets a RESET; a RESET never answers
     another. */
  if (head->kind != MR__LINK_RESET && head->kind != MR__LINK_REFUSE)
    mr__link_answer(l, MR__LINK_RESET, head->session, NULL);
  return false;
}

/* A peer of another version reads no more of an answer than that it is of another version. */
static void hear_unread(mr_link_t *l, const void *frame, size_t n) {
  char why[160];
  int kind;
  mr__link_malformed(l);
  if (!mr__link_is_foreign(frame, n, &kind, why, sizeof why)) return;
  if (!l->k.router) return mr__link_refuse_peer(l, MR_ERR_DATA, why);
  if (kind != MR__LINK_KNOCK && kind != MR__LINK_HELLO) return;
  mr__link_count_refusal(l, why);
  mr__link_answer(l, MR__LINK_REFUSE, 0, NULL);
}

void mr__link_hear(mr_link_t *l, mr__message_t *m) {
  mr__link_head_t head;
  const char *why;
  const char *first = zmq_msg_data(&m->frame[0]);
  size_t n = zmq_msg_size(&m->frame[0]);
  if (l->out && m->n == 1 && !m->bad && mr__link_out_hears_plain(l, first, n)) return;
  if (m->bad || !mr__link_head_read(first, n, &head, &why) || head.frames != m->n - 1)
    return hear_unread(l, first, n);
  if (!of_this_session(l, &head)) return;
  if (mr__socket_is_peer(&l->k)) l->heard_ms = mr__link_now_ms();
  if (head.kind == MR__LINK_BEAT) return;
  l->heard = true;
  if (head.kind == MR__LINK_RESET) return mr__link_part(l);
  if (l->out)
    mr__link_out_hears(l, &head, first + sizeof head);
  else
    mr__link_in_hears(l, &head, first + sizeof head, m);
}

/* A receiver that has the whole stream says nothing until its program has done with the last
   buffer, however long that takes, and then acknowledges it in this connection.  A sender that
   waits for that keeps to it: one that has taken the receiver's place answers its beats with a
   RESET. */
static void send_beat(mr_link_t *l) {
  int64_t now = mr__link_now_ms();
  if (l->state != MR__LINK_MET) return;
  bool may_be_silent = l->out && l->end_said;
  if (!may_be_silent && now - l->heard_ms > MR__LINK_SILENT_MS) return mr__link_part(l);
  if (now - l->said_ms >= MR__LINK_BEAT_MS && !mr__link_say(l, MR__LINK_BEAT, 0, NULL, 0))
    l->said_ms = now; /* no peer to receive it; not retried at once */
}

/* Asking an empty socket costs a system call.  If messages come singly, the caller gets the first
   one at once, and the socket is asked again before the next wait; in a stream of messages it is
   emptied. */
static void hear_all(mr_link_t *l) {
  mr__message_t m;
  int most = l->streak < STREAM ? 1 : PER_PUMP;
  for (int i = 0; i < most && l->failure.code >= 0; i++) {
    bool came = mr__socket_receive(&l->k, &m);
    int64_t malformed = l->stats.malformed;
    if (came) mr__link_hear(l, &m);
    if (came && l->k.guard)
      mr_guard_heard(l->k.guard, &m.frame[0], l->stats.malformed == malformed,
                     mr__socket_is_peer(&l->k));
    if (came) mr__message_close(&m);
    if (!i) l->streak = came ? l->streak + 1 : 0;
    if (!came) return;
  }
  l->heard = true; /* there may be more */
}

mr_err_t mr_link_pump(mr_link_t *l, mr_diag_t *diag) {
  if (mr__socket_is_of_parent(&l->k))
    return mr_fail(diag, MR_ERR_USAGE,
                   "link %s was opened by the process that this one was forked from: use it there, "
                   "and open a link of your own here",
                   l->cfg.name);
  if (l->k.guard) mr_guard_tend(l->k.guard);
  hear_all(l);
  if (l->failure.code < 0) return mr_diag_relay(diag, l->failure.code, &l->failure);
  if (l->out) {
    mr__share_pump(l->share);
    mr__link_out_speaks(l);
  } else {
    mr__link_in_speaks(l);
  }
  send_beat(l);
  return MR_OK;
}

/* ---- waiting ---- */

static int64_t due_ms(const mr_link_t *l) {
  int64_t alone = l->tried_ms + MR__LINK_KNOCK_MS, met = l->said_ms + MR__LINK_BEAT_MS;
  /* A sender that binds, or that has been left, does nothing before a receiver connects. */
  if (l->state == MR__LINK_ALONE && l->out && (l->k.router || l->left))
    return mr__link_now_ms() + MR__LINK_BEAT_MS;
  if (l->state == MR__LINK_ALONE) return alone;
  if (l->state == MR__LINK_PLAIN) return met;
  return l->ack_due_ms && l->ack_due_ms < met ? l->ack_due_ms : met;
}

int mr_link_fds(mr_link_t *l, struct pollfd fd[MR_LINK_FDS], int *timeout_ms) {
  int64_t left = due_ms(l) - mr__link_now_ms();
  int share = mr__share_fd(l->share);
  int n = 0, guard_ms = l->k.guard ? mr_guard_wait_ms(l->k.guard) : -1;
  *timeout_ms = left < 0 ? 0 : (int)left;
  if (guard_ms >= 0 && guard_ms < *timeout_ms) *timeout_ms = guard_ms;
  fd[n++] = (struct pollfd){.fd = l->k.fd, .events = POLLIN};
  if (share >= 0) fd[n++] = (struct pollfd){.fd = share, .events = POLLIN};
  if (l->k.guard) fd[n++] = (struct pollfd){.fd = mr_guard_fd(l->k.guard), .events = POLLIN};
  return n;
}

bool mr_link_pending(mr_link_t *l) {
  if (mr__socket_is_of_parent(&l->k)) return true; /* pump says so */
  bool heard = l->heard;
  l->heard = false;
  return heard || mr__socket_readable(&l->k);
}

void mr_link_wait(mr_link_t *l, int ms) {
  struct pollfd fd[MR_LINK_FDS];
  if (mr__socket_is_of_parent(&l->k)) return;
  int due, n = mr_link_fds(l, fd, &due);
  if (mr_link_pending(l)) return;
  poll(fd, (nfds_t)n, ms < 0 || due < ms ? due : ms);
}

/* ---- both ends ---- */

const mr_spec_t *mr_link_spec(const mr_link_t *l) { return l->have_spec ? &l->spec : NULL; }
const char *mr_link_address(const mr_link_t *l) { return l->k.at; }

void mr_link_stats(const mr_link_t *l, mr_link_stats_t *out) {
  *out = l->stats;
  out->released = l->out ? l->first_held : l->released, out->reached = l->reached;
  out->committed = l->out ? l->committed_heard : mr__link_in_committed(l);
  out->connected = l->state != MR__LINK_ALONE;
}
