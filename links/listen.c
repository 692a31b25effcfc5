/* A subscriber asks for the next buffer by its number, repeats a request that stays unanswered, and
   asks for the spec again after each silence, because another publisher may have started. */
#include "links/listen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "links/link_private.h"

enum { AGAIN_MS = 1000 /* silence before it asks again */, PER_PUMP = 64, SHORT = 64 << 10 };

struct mr_listen {
  mr__socket_t k;
  char name[MR_LINK_NAME_MAX];
  int window;
  mr_spec_t spec;
  void *names; /* memory of the spec's names */
  bool takes, have_spec, ended;
  bool checked; /* the publisher has the expected spec; checked again after each silence */
  bool pool_is_given;
  int64_t asked_ms; /* 0: no request is open */
  int64_t next;     /* next number to request */
  mr_pool_t *pool;
  mr__rx_t *rx;
  /* in order of arrival: [released,taken) is in use, [taken,received) waits */
  mr_buf_t **came; /* [window] */
  int64_t released, taken;
  mr_diag_t failure;
  mr_listen_stats_t stats;
};

static void listen_fail(mr_listen_t *l, mr_err_t code, const char *text) {
  mr_fail(&l->failure, code, "broadcast %s: %s", l->name, text);
}

static void listen_ready(mr_listen_t *l) {
  l->pool = mr__rx_pool(&l->spec, l->window, &l->rx);
  l->have_spec = l->pool != NULL;
  if (!l->pool) mr_no_memory(&l->failure, "the buffers of broadcast %s", l->name);
}

static bool listen_keep_spec(mr_listen_t *l, const void *bytes, size_t n) {
  mr_spec_t spec;
  void *names = NULL;
  bool good = mr__link_spec_read(bytes, n, &spec, &names);
  char why[400], text[sizeof why + 80];
  if (l->have_spec) spec.n_epochs = l->spec.n_epochs; /* the number of epochs may differ */
  if (!good || l->have_spec) {
    if (good && !mr__link_spec_same(&spec, &l->spec, why, sizeof why)) {
      snprintf(text, sizeof text, "it publishes (there) other buffers than before (here): %s", why);
      listen_fail(l, MR_ERR_SHAPE, text);
    }
    free(names);
    return good;
  }
  l->spec = spec, l->names = names;
  listen_ready(l);
  return true;
}

static bool want_spec(mr_listen_t *l, const mr_spec_t *want) {
  if (!want) return true;
  char *wire = malloc(MR__LINK_SPEC);
  size_t n = wire ? mr__link_spec_write(want, wire, MR__LINK_SPEC) : 0;
  bool kept = n && listen_keep_spec(l, wire, n) && l->have_spec;
  free(wire);
  return kept;
}

mr_listen_t *mr_listen_open(const mr_link_cfg_t *cfg, const mr_spec_t *want, int64_t first,
                            mr_diag_t *diag) {
  mr_link_cfg_t comes = *cfg;
  size_t buffer = want ? mr__slot_of(want).bytes : (size_t)1 << 30;
  int64_t longest = (int64_t)buffer + MR__LINK_SPEC + SHORT; /* also of a spec that differs */
  mr_listen_t *l = calloc(1, sizeof *l);
  if (!l) return mr_no_memory(diag, "a subscriber"), NULL;
  comes.bind = false;
  l->window = cfg->window ? cfg->window : MR__LINK_WINDOW;
  l->next = first, l->takes = want != NULL;
  snprintf(l->name, sizeof l->name, "%s", cfg->name);
  l->came = calloc((size_t)l->window, sizeof(mr_buf_t *));
  bool good = l->came && want_spec(l, want);
  if (!good)
    mr_fail(diag, MR_ERR_SHAPE,
            "broadcast %s: want batches or bytes of a size that a link can carry", cfg->name);
  if (good && mr__socket_open(&l->k, &comes, longest, diag) >= 0) return l;
  mr_listen_close(l);
  return NULL;
}

void mr_listen_close(mr_listen_t *l) {
  if (!l || mr__socket_is_of_parent(&l->k)) return;
  for (; l->taken < l->stats.received; l->taken++) mr_buf_unref(l->came[l->taken % l->window]);
  mr__socket_close(&l->k, 0);
  if (!l->pool_is_given) mr_pool_destroy(l->pool);
  free(l->names), free(l->came), free(l);
}

/* ---- hearing ---- */

/* Buffers between two received ones are missed; those before the first one are not. */
static void count_gap(mr_listen_t *l, int64_t number) {
  if (!l->stats.received || number == l->next) return;
  l->stats.missed += number - l->next;
  l->stats.gaps++;
}

static bool listen_hear_data(mr_listen_t *l, const mr__link_head_t *head, const void *body,
                             mr__message_t *m) {
  mr__link_data_t d;
  mr__link_parts_t parts;
  mr_buf_t *b;
  if (!l->checked) return true;            /* it will be requested again */
  if (head->number < l->next) return true; /* requested twice */
  if (!mr_listen_credit(l) ||
      !mr__link_data_read(body, head->body, head->frames, &l->spec, &d, &parts) ||
      mr__rx_buf(l->rx, l->pool, l->stats.received, &d, &parts, m, &b) != MR_OK)
    return false;
  count_gap(l, head->number);
  b->seq = head->number;
  l->came[l->stats.received++ % l->window] = b;
  l->next = head->number + 1, l->asked_ms = 0;
  return true;
}

static bool hear_end(mr_listen_t *l, int64_t number) {
  if (number > l->next) count_gap(l, number);
  l->ended = true;
  return true;
}

static void note_refusal(mr_listen_t *l, const char *body, size_t n) {
  char text[200];
  size_t k = n < sizeof text ? n : sizeof text - 1;
  for (size_t i = 0; i < k; i++) text[i] = (unsigned char)body[i] < ' ' ? '?' : body[i];
  text[k] = 0;
  listen_fail(l, MR_ERR_DATA, text);
}

static bool listen_hear(mr_listen_t *l, mr__message_t *m) {
  mr__link_head_t head;
  const char *why, *first = zmq_msg_data(&m->frame[0]), *body = first + sizeof head;
  size_t n = zmq_msg_size(&m->frame[0]);
  if (m->bad || !mr__link_head_read(first, n, &head, &why) || head.frames != m->n - 1) {
    char text[160];
    int kind;
    if (mr__link_is_foreign(first, n, &kind, text, sizeof text)) listen_fail(l, MR_ERR_DATA, text);
    return false;
  }
  switch (head.kind) {
    case MR__LINK_WELCOME:
      if (head.body < MR__LINK_TOKEN) return false;
      if (!listen_keep_spec(l, body + MR__LINK_TOKEN, head.body - MR__LINK_TOKEN)) return false;
      if (!l->checked) l->asked_ms = 0;
      return l->checked = true;
    case MR__LINK_DATA: return listen_hear_data(l, &head, body, m);
    case MR__LINK_END: return hear_end(l, head.number);
    case MR__LINK_REFUSE: return note_refusal(l, body, head.body), true;
    default: return false;
  }
}

/* ---- asking ---- */

static void listen_ask(mr_listen_t *l) {
  char text[MR_LINK_NAME_MAX + 40];
  int64_t now = mr__link_now_ms();
  if (l->ended || (l->asked_ms && now - l->asked_ms < AGAIN_MS)) return;
  if (l->asked_ms) l->checked = false;
  if (l->checked && (!l->takes || !mr_listen_credit(l))) return;
  if (l->checked)
    snprintf(text, sizeof text, "%s %" PRId64 " whole", l->name, l->next);
  else
    snprintf(text, sizeof text, "%s spec", l->name);
  bool said = mr__socket_send(&l->k, false, text, strlen(text), NULL, 0);
  l->asked_ms = said ? now : now - AGAIN_MS + MR__LINK_RETRY_MS;
}

mr_err_t mr_listen_pump(mr_listen_t *l, mr_diag_t *diag) {
  mr__message_t m;
  if (mr__socket_is_of_parent(&l->k))
    return mr_fail(diag, MR_ERR_USAGE,
                   "%s was opened by the process that this one was forked from: use it there, and "
                   "open a subscriber of your own here",
                   l->name);
  for (int i = 0; i < PER_PUMP; i++) {
    if (!mr__socket_receive(&l->k, &m)) break;
    if (!listen_hear(l, &m)) l->stats.malformed++;
    mr__message_close(&m);
  }
  if (l->failure.code < 0) return mr_diag_relay(diag, l->failure.code, &l->failure);
  while (l->released < l->taken && mr__rx_is_released(l->rx, l->released)) l->released++;
  listen_ask(l);
  return MR_OK;
}

int mr_listen_fds(mr_listen_t *l, struct pollfd *fd, int *timeout_ms) {
  int64_t left = l->asked_ms ? l->asked_ms + AGAIN_MS - mr__link_now_ms() : AGAIN_MS;
  *fd = (struct pollfd){.fd = l->k.fd, .events = POLLIN};
  *timeout_ms = left < 0 ? 0 : (int)left;
  return 1;
}

bool mr_listen_pending(mr_listen_t *l) { return mr__socket_readable(&l->k); }

/* ---- calls ---- */

const mr_spec_t *mr_listen_spec(const mr_listen_t *l) { return l->have_spec ? &l->spec : NULL; }

size_t mr_listen_take(mr_listen_t *l, mr_buf_t **out, size_t n) {
  size_t k = 0;
  while (k < n && l->taken < l->stats.received) out[k++] = l->came[l->taken++ % l->window];
  return k;
}

bool mr_listen_credit(const mr_listen_t *l) { return l->stats.received - l->released < l->window; }

bool mr_listen_over(const mr_listen_t *l) { return l->ended && l->taken == l->stats.received; }

void mr_listen_stats(const mr_listen_t *l, mr_listen_stats_t *out) { *out = l->stats; }

mr_pool_t *mr_listen_give_pool(mr_listen_t *l) {
  l->pool_is_given = true;
  return l->pool;
}
