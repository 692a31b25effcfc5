/* Each open page is a client with its own position in the log.  libmicrohttpd reads its bytes in a
   callback; a client without news is suspended until the ticker resumes it. */
#include "sinks/web_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { TICK_NS = 100000000, CHUNK = 64 << 10, LAST_WORDS_MS = 2000 };

struct mr_web_client {
  mr_web_client_t *next;
  mr_web_stream_t *stream;
  struct MHD_Connection *connection;
  size_t at, thinned;    /* next message of the log, valid while log.thinned is thinned */
  uint64_t live;         /* number of the live text it has */
  mr_web_message_t *now; /* the message being sent; holds a reference */
  size_t sent;           /* bytes of now */
  bool asleep;
};

/* ---- a client reads ---- */

static bool has_news(const mr_web_client_t *c) {
  const mr_web_stream_t *s = c->stream;
  return c->now || c->at < s->log.n || c->thinned != s->log.thinned ||
         (s->live && c->live != s->live_number);
}

/* Takes the next message: records first, then the live text. */
static bool next_message(mr_web_client_t *c) {
  const mr_web_stream_t *s = c->stream;
  if (c->thinned != s->log.thinned) c->at = 0; /* the page sorts records by step */
  c->thinned = s->log.thinned;
  if (c->at < s->log.n) {
    c->now = s->log.message[c->at++];
  } else if (s->live && c->live != s->live_number) {
    c->now = s->live, c->live = s->live_number;
  } else {
    return false;
  }
  c->now->refs++;
  c->sent = 0;
  return true;
}

static size_t copy_news(mr_web_client_t *c, char *buf, size_t max) {
  size_t n = 0;
  while (n < max && (c->now || next_message(c))) {
    size_t left = c->now->n - c->sent, k = left < max - n ? left : max - n;
    memcpy(buf + n, c->now->text + c->sent, k);
    n += k, c->sent += k;
    if (c->sent < c->now->n) break;
    mr_web_message_unref(c->now);
    c->now = NULL;
  }
  return n;
}

static ssize_t events_read(void *arg, uint64_t pos, char *buf, size_t max) {
  mr_web_client_t *c = arg;
  mr_web_stream_t *s = c->stream;
  pthread_mutex_lock(&s->lock);
  ssize_t k = (ssize_t)copy_news(c, buf, max);
  if (!k && s->over) {
    k = MHD_CONTENT_READER_END_OF_STREAM;
  } else if (!k) {
    c->asleep = true; /* the ticker wakes it */
    MHD_suspend_connection(c->connection);
  }
  pthread_mutex_unlock(&s->lock);
  return k;
}

static void events_free(void *arg) {
  mr_web_client_t *c = arg;
  mr_web_stream_t *s = c->stream;
  pthread_mutex_lock(&s->lock);
  for (mr_web_client_t **at = &s->clients; *at; at = &(*at)->next)
    if (*at == c) {
      *at = c->next;
      break;
    }
  mr_web_message_unref(c->now);
  pthread_mutex_unlock(&s->lock);
  free(c);
}

struct MHD_Response *mr_web_stream_events(mr_web_stream_t *s, struct MHD_Connection *connection) {
  mr_web_client_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->stream = s, c->connection = connection;
  pthread_mutex_lock(&s->lock);
  c->next = s->clients, s->clients = c;
  c->thinned = s->log.thinned;
  pthread_mutex_unlock(&s->lock);
  struct MHD_Response *r =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK, events_read, c, events_free);
  if (!r) events_free(c);
  if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
  return r;
}

/* ---- the ticker ---- */

static void wake_clients(mr_web_stream_t *s) {
  for (mr_web_client_t *c = s->clients; c; c = c->next) {
    if (!c->asleep || !(s->over || has_news(c))) continue;
    c->asleep = false;
    MHD_resume_connection(c->connection);
  }
}

/* Replaces the live text unless it is unchanged. */
static void renew_live(mr_web_stream_t *s) {
  char *text = s->now(s->arg);
  mr_web_message_t *m = text ? mr_web_message("live", text) : NULL;
  free(text);
  if (m && s->live && m->n == s->live->n && !memcmp(m->text, s->live->text, m->n)) {
    mr_web_message_unref(m);
  } else if (m) {
    mr_web_message_unref(s->live);
    s->live = m, s->live_number++;
  }
}

static void *ticker_main(void *arg) {
  mr_web_stream_t *s = arg;
  pthread_setname_np(pthread_self(), "web-ticker");
  pthread_mutex_lock(&s->lock);
  while (!s->over) {
    mr_cond_wait_until(&s->wake, &s->lock, mr_now_ns() + TICK_NS);
    if (!s->clients) continue;
    renew_live(s);
    wake_clients(s);
  }
  wake_clients(s);
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* ---- life ---- */

bool mr_web_stream_open(mr_web_stream_t *s) {
  pthread_mutex_init(&s->lock, NULL);
  mr_cond_init(&s->wake);
  s->ready = true;
  s->ticking = pthread_create(&s->ticker, NULL, ticker_main, s) == 0;
  return s->ticking;
}

void mr_web_stream_end(mr_web_stream_t *s) {
  if (!s->ready) return;
  pthread_mutex_lock(&s->lock);
  renew_live(s); /* the final state, for every page, also one that opens now */
  s->over = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  if (s->ticking) pthread_join(s->ticker, NULL);
  s->ticking = false;
  for (int ms = 0; ms < LAST_WORDS_MS; ms += 10) { /* a slower client is cut off */
    pthread_mutex_lock(&s->lock);
    bool none = !s->clients;
    pthread_mutex_unlock(&s->lock);
    if (none) break;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
}

void mr_web_stream_fini(mr_web_stream_t *s) {
  mr_web_log_fini(&s->log);
  mr_web_message_unref(s->live);
  s->live = NULL;
  if (s->ready) pthread_cond_destroy(&s->wake), pthread_mutex_destroy(&s->lock);
  s->ready = false;
}
