/* The receiving end: says where to resume, grants credit, and acknowledges released and committed
   buffers. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "links/link_private.h"

static mr_buf_t **came_at(const mr_link_t *l, int64_t number) {
  assert(number >= l->released && number - l->released < l->cfg.window);
  return &l->came[number % l->cfg.window];
}

mr_err_t mr__link_in_ready(mr_link_t *l, mr_diag_t *diag) {
  l->pool = mr__rx_pool(&l->spec, l->cfg.window, &l->rx);
  return l->pool ? MR_OK : mr_no_memory(diag, "%d buffers of link %s", l->cfg.window, l->cfg.name);
}

/* ---- hearing ---- */

static void hear_knock(mr_link_t *l, const mr__link_head_t *head, const void *body) {
  mr__link_knock_t knock;
  memcpy(&knock, body, sizeof knock);
  if (head->body != sizeof knock || !memchr(knock.name, 0, sizeof knock.name))
    return mr__link_malformed(l);
  if (strcmp(knock.name, l->cfg.name))
    return mr__link_answer(l, MR__LINK_REFUSE, 0, "another link answers at this address");
  if (mr__link_let_in(l)) mr__link_part(l);
}

/* Stores the spec, or compares it with the expected one and reports a difference to both ends. */
static bool learn_spec(mr_link_t *l, const void *body, size_t n) {
  mr_spec_t got;
  void *names;
  char why[400], text[sizeof why + 80];
  if (!mr__link_spec_read(body, n, &got, &names)) {
    mr__link_malformed(l);
    mr__link_refuse_peer(l, MR_ERR_DATA,
                         "the peer describes buffers that are impossible or larger than 8 GiB");
    return false;
  }
  if (!l->have_spec) {
    l->spec = got, l->names = names, l->have_spec = true;
    return mr__link_in_ready(l, &l->failure) >= 0;
  }
  bool same = mr__link_spec_same(&got, &l->spec, why, sizeof why);
  free(names);
  if (same) return true;
  int k = snprintf(text, sizeof text,
                   "the sending end (there) has other buffers than the receiving end: %s", why);
  mr__link_say(l, MR__LINK_REFUSE, 0, text, (size_t)k);
  mr__link_refuse_peer(l, MR_ERR_SHAPE, text);
  return false;
}

static void hear_welcome(mr_link_t *l, const mr__link_head_t *head, const char *body) {
  if (head->body < MR__LINK_TOKEN || head->number != l->expected) return mr__link_malformed(l);
  if (!learn_spec(l, body + MR__LINK_TOKEN, head->body - MR__LINK_TOKEN)) return;
  mr__rx_new_session(l->rx, body);
  l->state = MR__LINK_MET;
  l->committed_said = -1; /* acknowledge again */
  l->stats.connections++;
}

static void note_point(mr_link_t *l, const mr_buf_t *b) {
  mr_link_point_t *p = &l->point;
  p->number = l->expected, p->epoch = b->epoch, p->position = b->position;
  p->n_words = b->word ? l->spec.n_words : 0;
  if (p->n_words) memcpy(p->word, b->word, (size_t)p->n_words * sizeof *p->word);
}

/* A sender of this session that sends an impossible buffer would send the same one again, so asking
   again would never end. */
static void refuse_data(mr_link_t *l, int64_t number) {
  char text[200];
  mr__link_malformed(l);
  snprintf(text, sizeof text,
           "buffer %lld came with sizes, labels, offsets or numbers that batches of its spec "
           "cannot have",
           (long long)number);
  mr__link_say(l, MR__LINK_REFUSE, 0, text, strlen(text));
  mr__link_refuse_peer(l, MR_ERR_DATA, text);
}

static void receive_hear_data(mr_link_t *l, const mr__link_head_t *head, const void *body,
                              mr__message_t *m) {
  mr__link_data_t d;
  mr__link_parts_t parts;
  mr_buf_t *b = NULL;
  if (head->number < l->expected) {
    l->stats.repeated++;
    return;
  }
  bool due = l->state == MR__LINK_MET && head->number == l->expected &&
             head->number < l->released + l->cfg.window;
  mr_err_t e = MR_OK;
  if (due)
    e = mr__link_data_read(body, head->body, head->frames, &l->spec, &d, &parts)
            ? mr__rx_buf(l->rx, l->pool, head->number, &d, &parts, m, &b)
            : MR_ERR_DATA;
  if (e < 0) return refuse_data(l, head->number);
  if (!b) { /* not due, or a buffer was lost, or a pool cannot be mapped: resume from here */
    mr__link_malformed(l);
    return mr__link_part(l);
  }
  *came_at(l, l->expected) = b;
  l->expected++;
  note_point(l, b);
  l->stats.received++;
  if (d.where == MR__LINK_WHERE_POOL)
    l->stats.by_reference++;
  else
    l->stats.bytes += (int64_t)d.size;
}

void mr__link_in_hears(mr_link_t *l, const mr__link_head_t *head, const void *body,
                       mr__message_t *m) {
  switch (head->kind) {
    case MR__LINK_KNOCK: return hear_knock(l, head, body);
    case MR__LINK_WELCOME: return hear_welcome(l, head, body);
    case MR__LINK_DATA: return receive_hear_data(l, head, body, m);
    case MR__LINK_END:
      if (head->number != l->expected) return mr__link_part(l);
      l->total = head->number;
      return;
    case MR__LINK_LEAVE: /* 0 answers this end's own LEAVE, another number its last ACK */
      if (!l->left || !head->number) l->left_heard = true;
      return;
    case MR__LINK_REFUSE: return mr__link_refused(l, head, body);
    default: mr__link_malformed(l);
  }
}

/* ---- speaking ---- */

static void say_hello(mr_link_t *l) {
  int64_t now = mr__link_now_ms();
  struct {
    mr__link_hello_t hello;
    int64_t word[MR_LINK_WORDS];
  } m = {.hello = {.epoch = l->point.epoch,
                   .position = l->point.position,
                   .limit = l->released + l->cfg.window,
                   .flags = l->cfg.copy ? 0 : MR__LINK_SHARES,
                   .n_words = (uint32_t)l->point.n_words}};
  if (now - l->tried_ms < MR__LINK_KNOCK_MS) return;
  l->tried_ms = now;
  if (getrandom(&l->session, sizeof l->session, 0) != sizeof l->session) return;
  strcpy(m.hello.name, l->cfg.name);
  mr__share_host(m.hello.host);
  memcpy(m.word, l->point.word, sizeof m.word);
  size_t n = sizeof m.hello + m.hello.n_words * sizeof *m.word;
  if (!mr__link_say(l, MR__LINK_HELLO, l->expected, &m, n))
    l->tried_ms = now - MR__LINK_KNOCK_MS + MR__LINK_RETRY_MS;
}

/* A buffer may be durable before its last observer has released it. */
int64_t mr__link_in_committed(const mr_link_t *l) {
  /* acquire pairs with mr_link_commit's release. */
  int64_t by_hand = atomic_load_explicit(&l->committed, memory_order_acquire);
  return l->cfg.by_hand && by_hand < l->released ? by_hand : l->released;
}

/* To acknowledge many buffers at once, this waits for half a window or for a short time. */
static void say_ack(mr_link_t *l) {
  int64_t now = mr__link_now_ms();
  mr__link_ack_t ack = {l->released + l->cfg.window, mr__link_in_committed(l)};
  if (l->released == l->released_said && ack.committed == l->committed_said) {
    l->ack_due_ms = 0;
    return;
  }
  if (!l->ack_due_ms) l->ack_due_ms = now + MR__LINK_ACK_MS;
  bool many = l->released - l->released_said >= (l->cfg.window + 1) / 2 || l->committed_said < 0;
  if (!many && l->total < 0 && now < l->ack_due_ms) return;
  if (!mr__link_say(l, MR__LINK_ACK, l->released, &ack, sizeof ack)) {
    l->ack_due_ms = now + MR__LINK_RETRY_MS; /* no peer to receive it; not retried at once */
    return;
  }
  l->committed_said = ack.committed, l->released_said = l->released, l->ack_due_ms = 0;
}

void mr__link_in_speaks(mr_link_t *l) {
  while (l->released < l->taken && mr__rx_is_released(l->rx, l->released)) l->released++;
  if (l->state == MR__LINK_ALONE) return say_hello(l);
  say_ack(l);
  if (l->left && !l->left_said) l->left_said = mr__link_say(l, MR__LINK_LEAVE, 0, NULL, 0);
}

/* ---- calls ---- */

size_t mr_link_take(mr_link_t *l, mr_buf_t **out, size_t n) {
  size_t k = 0;
  assert(l->released <= l->taken && l->taken <= l->expected);
  for (; k < n && l->taken < l->expected; k++) out[k] = *came_at(l, l->taken++);
  return k;
}

size_t mr_link_credit(const mr_link_t *l) {
  assert(l->expected - l->released <= l->cfg.window);
  return (size_t)(l->released + l->cfg.window - l->expected);
}

bool mr_link_over(const mr_link_t *l) { return l->total >= 0 && l->taken == l->total; }

/* read by mr__link_in_committed */
void mr_link_commit(mr_link_t *l, int64_t number) {
  atomic_store_explicit(&l->committed, number, memory_order_release);
}

void mr_link_leave(mr_link_t *l) {
  if (!l->left) l->left_heard = false; /* what was heard so far answers an acknowledgement */
  l->left = true;
}

mr_pool_t *mr_link_give_pool(mr_link_t *l) {
  l->pool_is_given = true;
  return l->pool;
}
