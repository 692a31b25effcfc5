/* A table of connections and a thread that shuts down those past their time.  It only calls
   shutdown; the server closes the descriptor itself, so none is closed twice. */
#include "sinks/http_slow.h"

#include <sys/socket.h>

#include "base/clock.h"

enum { LOOK_NS = 1000000000 /* between checks for slow connections */ };

/* Shuts slow connections down; the server then reads their end and closes them. */
static void end_slow(mr_http_slow_t *s, double now) {
  for (int i = 0; i < MR_HTTP_CONNECTIONS; i++)
    if (s->each[i].fd >= 0 && s->each[i].since >= 0 && now - s->each[i].since > s->limit_s) {
      shutdown(s->each[i].fd, SHUT_RDWR);
      s->each[i].since = -1; /* once */
    }
}

static void *http_slow_watch(void *arg) {
  mr_http_slow_t *s = arg;
  pthread_setname_np(pthread_self(), "web-slow");
  pthread_mutex_lock(&s->lock);
  while (!s->over) {
    mr_cond_wait_until(&s->wake, &s->lock, mr_now_ns() + LOOK_NS);
    end_slow(s, mr_now_s());
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

bool mr_http_slow_open(mr_http_slow_t *s, double limit_s) {
  s->limit_s = limit_s, s->over = false;
  for (int i = 0; i < MR_HTTP_CONNECTIONS; i++) s->each[i].fd = -1;
  pthread_mutex_init(&s->lock, NULL);
  mr_cond_init(&s->wake);
  s->running = pthread_create(&s->thread, NULL, http_slow_watch, s) == 0;
  if (!s->running) pthread_cond_destroy(&s->wake), pthread_mutex_destroy(&s->lock);
  return s->running;
}

void mr_http_slow_close(mr_http_slow_t *s) {
  if (!s->running) return;
  pthread_mutex_lock(&s->lock);
  s->over = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->wake), pthread_mutex_destroy(&s->lock);
  s->running = false;
}

/* Replaces descriptor `was` (-1: a free slot) by `now` with that time. */
static void http_slow_set(mr_http_slow_t *s, int was, int now, double since) {
  pthread_mutex_lock(&s->lock);
  for (int i = 0; i < MR_HTTP_CONNECTIONS; i++) {
    if (s->each[i].fd != was) continue;
    s->each[i].fd = now, s->each[i].since = since;
    break;
  }
  pthread_mutex_unlock(&s->lock);
}

void mr_http_slow_begin(mr_http_slow_t *s, int fd) { http_slow_set(s, -1, fd, mr_now_s()); }
void mr_http_slow_answer(mr_http_slow_t *s, int fd) { http_slow_set(s, fd, fd, -1); }
void mr_http_slow_wait(mr_http_slow_t *s, int fd) { http_slow_set(s, fd, fd, mr_now_s()); }
void mr_http_slow_end(mr_http_slow_t *s, int fd) { http_slow_set(s, fd, -1, -1); }
