/* What strangers may take of a process that listens: a share of its descriptors, and a limited time
   to a complete request.  A server's own time-out restarts with each byte, so a client that sends
   one byte now and then could keep one of the few connections for hours.  Here a connection has a
   limited time from its start, or from the end of the last response, to a complete request. */
#ifndef MR_BASE_SLOW_CLIENTS_H
#define MR_BASE_SLOW_CLIENTS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/decls.h"

MR_BEGIN_DECLS

/* How many connections a listener may hold: `most`, and no more than a quarter of the descriptors
   that this process may open, but two.  Fills the reserve (mr_fd_reserve), so that the process can
   still write its own files when strangers and peers take the rest.  Any thread; does not fail. */
int mr_listener_most(int most);

typedef struct mr_slow_client {
  int fd;       /* -1: free */
  double since; /* when its time began, mr_now_s; negative: a response is in progress */
} mr_slow_client_t;

typedef struct mr_slow_clients {
  double limit_s;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the fields below */
  pthread_cond_t wake;
  bool running, over;
  mr_slow_client_t *each; /* [most] heap */
  int most;
} mr_slow_clients_t;

/* Starts a thread that checks all connections once a second, of which there are at most `most` at a
   time.  Returns false if it cannot start; then only close may be called. */
bool mr_slow_clients_open(mr_slow_clients_t *s, int most, double limit_s);
/* Joins the thread; fine if all is zero or it is closed already. */
void mr_slow_clients_close(mr_slow_clients_t *s);

/* The events of a connection's life, from any thread.  fd must be open from begin to end.  answer:
   a request is complete, and its response begins; wait: the response is out, and the time begins
   anew. */
void mr_slow_clients_begin(mr_slow_clients_t *s, int fd);
void mr_slow_clients_answer(mr_slow_clients_t *s, int fd);
void mr_slow_clients_wait(mr_slow_clients_t *s, int fd);
void mr_slow_clients_end(mr_slow_clients_t *s, int fd);

MR_END_DECLS

#endif
