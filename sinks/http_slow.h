/* Ends connections that do not complete a request.  libmicrohttpd's own time-out restarts with each
   byte, so a client that sends one byte now and then could keep one of the few connections for
   hours.  Here a connection has a limited time from its start, or from the end of the last
   response, to a complete request. */
#ifndef MR_SINKS_HTTP_SLOW_H
#define MR_SINKS_HTTP_SLOW_H

#include <pthread.h>
#include <stdbool.h>

enum { MR_HTTP_CONNECTIONS = 32 };

typedef struct mr_http_slow {
  double limit_s;
  pthread_t thread;
  pthread_mutex_t lock; /* guards the fields below */
  pthread_cond_t wake;
  bool running, over;
  struct {
    int fd;       /* -1: free */
    double since; /* when its time began, mr_now_s; negative: a response is in progress */
  } each[MR_HTTP_CONNECTIONS];
} mr_http_slow_t;

/* Starts a thread that checks all connections once a second.  Returns false if it cannot start;
   then only close may be called. */
bool mr_http_slow_open(mr_http_slow_t *s, double limit_s);
void mr_http_slow_close(
    mr_http_slow_t *s); /* joins the thread; fine if all zero or closed already */

/* The events of a connection's life, from any thread.  fd must be open from begin to end. */
void mr_http_slow_begin(mr_http_slow_t *s, int fd);
void mr_http_slow_answer(mr_http_slow_t *s,
                         int fd);                  /* a request is complete; its response begins */
void mr_http_slow_wait(mr_http_slow_t *s, int fd); /* the response is out; the time begins anew */
void mr_http_slow_end(mr_http_slow_t *s, int fd);

#endif
