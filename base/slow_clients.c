/* A table of connections and a thread that shuts down those past their time.  It only calls
   shutdown; the server closes the descriptor itself, so none is closed twice. */
#include "base/slow_clients.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/xio.h"

enum {
  LOOK_NS = 1000000000, /* between checks for slow connections */
  SHARE = 4             /* a listener may take one of this number of descriptors */
};

int mr_listener_most(int most) {
  struct rlimit r;
  mr_fd_reserve();
  if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY) return most;
  int64_t share = (int64_t)r.rlim_cur / SHARE;
  return share < most ? share < 2 ? 2 : (int)share : most;
}

/* Shuts slow connections down; the server then reads their end and closes them. */
static void end_slow(mr_slow_clients_t *s, double now) {
  for (int i = 0; i < s->most; i++)
    if (s->each[i].fd >= 0 && s->each[i].since >= 0 && now - s->each[i].since > s->limit_s) {
      shutdown(s->each[i].fd, SHUT_RDWR);
      s->each[i].since = -1; /* once */
    }
}

static void *slow_clients_watch(void *arg) {
  mr_slow_clients_t *s = arg;
  pthread_setname_np(pthread_self(), "slow-clients");
  pthread_mutex_lock(&s->lock);
  while (!s->over) {
    mr_cond_wait_until(&s->wake, &s->lock, mr_now_ns() + LOOK_NS);
    end_slow(s, mr_now_s());
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

bool mr_slow_clients_open(mr_slow_clients_t *s, int most, double limit_s) {
  s->limit_s = limit_s, s->over = false, s->most = most;
  s->each = malloc((size_t)most * sizeof *s->each);
  if (!s->each) return false;
  for (int i = 0; i < s->most; i++) s->each[i].fd = -1;
  pthread_mutex_init(&s->lock, NULL);
  mr_cond_init(&s->wake);
  s->running = pthread_create(&s->thread, NULL, slow_clients_watch, s) == 0;
  if (s->running) return true;
  pthread_cond_destroy(&s->wake), pthread_mutex_destroy(&s->lock);
  free(s->each), s->each = NULL;
  return false;
}

void mr_slow_clients_close(mr_slow_clients_t *s) {
  if (!s->running) return;
  pthread_mutex_lock(&s->lock);
  s->over = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->wake), pthread_mutex_destroy(&s->lock);
  free(s->each), s->each = NULL;
  s->running = false;
}

/* Replaces descriptor `was` (-1: a free slot) by `now` with that time. */
static void set_client(mr_slow_clients_t *s, int was, int now, double since) {
  pthread_mutex_lock(&s->lock);
  for (int i = 0; i < s->most; i++) {
    if (s->each[i].fd != was) continue;
    s->each[i].fd = now, s->each[i].since = since;
    break;
  }
  pthread_mutex_unlock(&s->lock);
}

void mr_slow_clients_begin(mr_slow_clients_t *s, int fd) { set_client(s, -1, fd, mr_now_s()); }
void mr_slow_clients_answer(mr_slow_clients_t *s, int fd) { set_client(s, fd, fd, -1); }
void mr_slow_clients_wait(mr_slow_clients_t *s, int fd) { set_client(s, fd, fd, mr_now_s()); }
void mr_slow_clients_end(mr_slow_clients_t *s, int fd) { set_client(s, fd, -1, -1); }
