/* Requests for units.  What must be fetched waits until a connection is free.  Then the unit that
   is due first is requested, and with it the neighbours in the object that wait too: a chunk, one
   request.  While connections are free, nothing waits for neighbours; while none is, more of them
   gather. */
#include <stdlib.h>
#include <string.h>

#include "loaders/remote/remote_window_private.h"

enum {
  GAP_MAX = 8 << 10,    /* bytes between neighbours that are used one after the other */
  JOINED_MAX = 8 << 20, /* bytes of one request of those */
  /* Of a request of neighbours that are used at different times: */
  SPREAD_GAP = 32 << 10, /* bytes between two, without a cache: fetched sooner than asked for; with
                            one, they are blocks, which are fetched once */
  SPREAD_WASTE = 4,      /* at most one byte in this number is not used */
  REQUEST_BYTES = 1 << 10, /* of headers, which a gap saves: not counted as waste */
  SPREAD_LEAST = 64 << 10, /* bytes of one, whatever `ahead` is */
};

/* Gives a unit its own copy of its bytes, so that those of its neighbours can be given back before
   it is used.  Without memory it keeps them all. */
static void window_copy_out(mr__window_t *w, mr__unit_t *u) {
  mr__chunk_t *c = u->chunk, *own = malloc(sizeof *own);
  uint8_t *data = malloc((size_t)u->size);
  if (!own || !data) {
    free(own), free(data);
    return;
  }
  memcpy(data, c->data + (u->at - c->at), (size_t)u->size);
  *own = (mr__chunk_t){.window = w,
                       .data = data,
                       .at = u->at,
                       .size = u->size,
                       .object = c->object,
                       .refs = 1,
                       .first = MR_NO_UNIT,
                       .done = true};
  u->chunk = own, w->held += own->size;
  mr__chunk_drop(w, c);
}

static void settle_chunk(mr__window_t *w, mr__chunk_t *c) {
  mr_err_t code = mr__chunk_code(c);
  c->refs++; /* it stays while its units are settled */
  if (code >= 0) free(c->request), c->request = NULL;
  for (int32_t i = c->first, next; i != MR_NO_UNIT; i = next) {
    mr__unit_t *u = &w->unit[i];
    next = u->sibling;
    if (code < 0) mr_belady_drop(w->order, (uint32_t)i);
    if (mr_belady_holds(w->order, (uint32_t)i) && !u->on_disk && !u->writes) mr__unit_keep(w, i);
    mr__unit_settle(w, i);
    if (u->chunk == c && c->spread && code >= 0) window_copy_out(w, u);
  }
  mr__chunk_drop(w, c);
}

static void on_arrival(mr__request_t *q, void *arg) {
  mr__chunk_t *c = arg;
  mr__window_t *w = c->window;
  pthread_mutex_lock(&w->lock);
  if (c->asks_peer && q->code < 0 && q->code != MR_ERR_CANCEL && !w->closing) {
    mr__peers_failed(w->conf.peers, c->owner, q->diag.text);
    c->asks_peer = false, w->flying++;
    q->object = c->object, q->wanted = NULL, q->code = MR_OK, q->diag = (mr_diag_t){0};
    mr__engine_submit(w->conf.engine, q);
    pthread_mutex_unlock(&w->lock);
    return;
  }
  if (c->asks_peer && q->code >= 0) mr__peers_answered(w->conf.peers, c->owner);
  w->flying -= !c->asks_peer;
  c->done = true;
  settle_chunk(w, c);
  mr__window_send_due(w);
  pthread_cond_broadcast(&w->arrived);
  pthread_mutex_unlock(&w->lock);
}

/* A peer may stop answering while many requests wait for a connection to it: each of them would
   take the whole time-out. */
static bool is_wanted(const mr__request_t *q, void *arg) {
  const mr__chunk_t *c = arg;
  return !mr__peers_rests(c->window->conf.peers, c->owner);
}

static void submit_chunk(mr__window_t *w, mr__chunk_t *c) {
  mr__request_t *q = c->request;
  c->data = malloc((size_t)c->size);
  q->at = c->at, q->size = c->size, q->to = c->data;
  q->done = on_arrival, q->arg = c;
  const mr_object_t *peers =
      c->owner >= 0 && c->data ? mr__peers_object(w->conf.peers, c->owner, c->object) : NULL;
  c->asks_peer = peers != NULL;
  q->wanted = peers ? is_wanted : NULL;
  q->object = peers ? peers : c->object;
  if (c->data) {
    w->flying += !peers;
    mr__engine_submit(peers ? w->conf.peer_engine : w->conf.engine, q);
    return;
  }
  q->code = mr_no_memory(&q->diag, "%lld bytes of records", (long long)c->size);
  c->done = true;
  settle_chunk(w, c);
  pthread_cond_broadcast(&w->arrived);
}

static int64_t end_of(const mr__chunk_t *c) { return c->at + c->size; }

static void join_unit(mr__window_t *w, mr__chunk_t *c, int32_t i, int64_t at, int64_t end) {
  mr__unit_t *u = &w->unit[i];
  mr__unit_end_pending(w, u);
  w->held += end - at - c->size;
  c->at = at, c->size = end - at, c->refs++;
  u->chunk = c, u->sibling = c->first, c->first = i;
}

/* Joins what is used next, as long as it lies close behind. */
static void join_in_order(mr__window_t *w, mr__chunk_t *c, const mr__pending_t *p) {
  for (int32_t i; (i = mr__pending_first(p)) != MR_PENDING_NONE;) {
    const mr__unit_t *u = &w->unit[i];
    int64_t gap = u->at - end_of(c), end = u->at + u->size;
    if (u->object != c->object || u->owner != c->owner || gap < 0 || gap > GAP_MAX ||
        end - c->at > JOINED_MAX || w->held + gap + u->size > w->conf.ahead)
      return;
    join_unit(w, c, i, c->at, end);
  }
}

/* Joins a neighbour that is used some time later; false if it is too far away or missing. */
static bool join_spread(mr__window_t *w, mr__chunk_t *c, int32_t i) {
  if (i == MR_PENDING_NONE) return false;
  const mr__unit_t *u = &w->unit[i];
  int64_t u_end = u->at + u->size, c_end = end_of(c);
  int64_t at = u->at < c->at ? u->at : c->at, end = u_end > c_end ? u_end : c_end;
  int64_t gap = u->at > c_end ? u->at - c_end : u_end < c->at ? c->at - u_end : 0;
  int64_t wasted = c->wasted + (gap > REQUEST_BYTES ? gap - REQUEST_BYTES : 0);
  int64_t most = w->conf.ahead / (2 * w->conf.connections); /* so that all connections have some */
  if (most < SPREAD_LEAST) most = SPREAD_LEAST;
  if (most > JOINED_MAX) most = JOINED_MAX;
  if ((u->direct ? -1 : u->owner) != c->owner || gap > (w->conf.cache ? 0 : SPREAD_GAP) ||
      wasted * SPREAD_WASTE > end - at || end - at > most ||
      (w->held + end - at - c->size > w->conf.ahead && !u->pins))
    return false;
  c->wasted = wasted, c->spread = true;
  join_unit(w, c, i, at, end);
  return true;
}

/* Requests a pending unit, and with it the neighbours that are pending too.  Without memory no
   request is made: the reader that takes it asks the server. */
void mr__unit_send(mr__window_t *w, int32_t i) {
  mr__unit_t *u = &w->unit[i];
  const mr__pending_t *p = mr__unit_pending(w, u);
  bool first = mr__pending_first(p) == i;
  mr__chunk_t *c = calloc(1, sizeof *c);
  if (c) c->request = calloc(1, sizeof *c->request);
  if (!c || !c->request) {
    free(c);
    mr_belady_drop(w->order, (uint32_t)i), mr__unit_end_pending(w, u);
    return;
  }
  c->window = w, c->object = u->object, c->owner = u->direct ? -1 : u->owner;
  c->at = u->at, c->first = MR_NO_UNIT;
  int64_t last = u->at;
  join_unit(w, c, i, u->at, u->at + u->size);
  if (first) join_in_order(w, c, p);
  if (w->unit[c->first].at > last) last = w->unit[c->first].at;
  for (int32_t k; join_spread(w, c, k = mr__pending_from(p, c->object, last));)
    last = w->unit[k].at;
  while (join_spread(w, c, mr__pending_before(p, c->object, c->at))) continue;
  submit_chunk(w, c);
}

/* Requests what is due first, as far as connections are free; what peers keep, at once. */
void mr__window_send_due(mr__window_t *w) {
  for (int32_t i; !w->closing && w->held < w->conf.ahead && w->flying < w->conf.connections;) {
    if ((i = mr__pending_first(w->pending[0])) == MR_PENDING_NONE) break;
    mr__unit_send(w, i);
  }
  for (int32_t i; !w->closing && w->held < w->conf.ahead;) {
    if ((i = mr__pending_first(w->pending[1])) == MR_PENDING_NONE) break;
    mr__unit_send(w, i);
  }
}

/* Notes that the unit is to be requested, with `direct` from the server in any case.  Without
   memory it is not: who takes it asks the server. */
bool mr__unit_fetch(mr__window_t *w, int32_t i, bool direct) {
  mr__unit_t *u = &w->unit[i];
  if (mr__unit_is_pending(u) && u->direct == direct) return true;
  mr__unit_end_pending(w, u);
  u->direct = direct;
  u->pending = mr__pending_add(mr__unit_pending(w, u), i, u->object, u->at, u->size);
  return mr__unit_is_pending(u);
}
