/* ZAP: libzmq asks an inproc socket of its context whether to accept a peer's key; a thread answers
   from a list of public keys. */
#include "links/zap.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { FIELD_MAX = 256 };

struct mr_zap {
  void *asked, *stop, *stopped; /* REP; a PAIR between the owner and the thread */
  pthread_t thread;
  bool running;
  int n;
  unsigned char key[][MR_ZAP_KEY];
};

static bool is_accepted_key(const mr_zap_t *z, const unsigned char *key, int n) {
  for (int i = 0; n == MR_ZAP_KEY && i < z->n; i++)
    if (!memcmp(z->key[i], key, MR_ZAP_KEY)) return true;
  return false;
}

static void zap_say(void *s, const char *text, int flags) {
  zmq_send(s, text, strlen(text), flags);
}

/* Reads a request (version, id, domain, address, identity, mechanism, credentials) and answers
   it. */
static void zap_answer(mr_zap_t *z) {
  unsigned char field[7][FIELD_MAX];
  int size[7] = {0}, more = 1;
  size_t n = sizeof more;
  for (int i = 0; more; i++) {
    unsigned char rest[FIELD_MAX];
    int k = zmq_recv(z->asked, i < 7 ? field[i] : rest, FIELD_MAX, 0);
    if (i < 7) size[i] = k;
    if (k < 0 || zmq_getsockopt(z->asked, ZMQ_RCVMORE, &more, &n)) return;
  }
  bool good =
      size[5] == 5 && !memcmp(field[5], "CURVE", 5) && is_accepted_key(z, field[6], size[6]);
  zap_say(z->asked, "1.0", ZMQ_SNDMORE);
  zmq_send(z->asked, field[1], size[1] > FIELD_MAX ? FIELD_MAX : (size_t)size[1], ZMQ_SNDMORE);
  zap_say(z->asked, good ? "200" : "400", ZMQ_SNDMORE);
  zap_say(z->asked, good ? "OK" : "not on the list", ZMQ_SNDMORE);
  zap_say(z->asked, good ? "peer" : "", ZMQ_SNDMORE);
  zap_say(z->asked, "", 0);
}

static void *zap_main(void *arg) {
  mr_zap_t *z = arg;
  zmq_pollitem_t item[2] = {{z->asked, 0, ZMQ_POLLIN, 0}, {z->stopped, 0, ZMQ_POLLIN, 0}};
  while (zmq_poll(item, 2, -1) >= 0 && !(item[1].revents & ZMQ_POLLIN))
    if (item[0].revents & ZMQ_POLLIN) zap_answer(z);
  return NULL;
}

static mr_err_t zap_start(mr_zap_t *z, void *context, mr_diag_t *diag) {
  sigset_t all, before;
  z->asked = zmq_socket(context, ZMQ_REP);
  z->stop = zmq_socket(context, ZMQ_PAIR);
  z->stopped = zmq_socket(context, ZMQ_PAIR);
  if (!z->asked || !z->stop || !z->stopped)
    return mr_fail(diag, MR_ERR_NOMEM, "cannot create the sockets that check peers' keys: %s",
                   zmq_strerror(zmq_errno()));
  if (zmq_bind(z->asked, "inproc://zeromq.zap.01") || zmq_bind(z->stop, "inproc://stop") ||
      zmq_connect(z->stopped, "inproc://stop"))
    return mr_fail(diag, MR_ERR_IO, "cannot bind the sockets that check peers' keys: %s",
                   zmq_strerror(zmq_errno()));
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int error = pthread_create(&z->thread, NULL, zap_main, z);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  z->running = error == 0;
  if (z->running) return MR_OK;
  return mr_fail(diag, MR_ERR_NOMEM, "cannot start the thread that checks peers' keys: %s",
                 strerror(error));
}

void mr_zap_close(mr_zap_t *z) {
  if (!z) return;
  if (z->running) {
    zmq_send(z->stop, "", 0, 0);
    pthread_join(z->thread, NULL);
  }
  if (z->asked) zmq_close(z->asked);
  if (z->stop) zmq_close(z->stop);
  if (z->stopped) zmq_close(z->stopped);
  free(z);
}

mr_err_t mr_zap_open(void *context, const unsigned char (*key)[MR_ZAP_KEY], int n, mr_zap_t **out,
                     mr_diag_t *diag) {
  mr_zap_t *z = calloc(1, sizeof *z + (size_t)n * sizeof z->key[0]);
  if (!z) return mr_no_memory(diag, "the keys of %d peers", n);
  z->n = n;
  memcpy(z->key, key, (size_t)n * sizeof z->key[0]);
  mr_err_t e = zap_start(z, context, diag);
  if (e < 0) return mr_zap_close(z), e;
  return *out = z, MR_OK;
}
