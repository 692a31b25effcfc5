/* Ends connections that do not come to a request: libmicrohttpd's own time-out begins anew with
   each byte, so a client that sends one now and then would keep its connection, of which there are
   few, for hours.  Here a connection has a time from its start, or from the end of the answer
   before, to a whole request. */
#ifndef MR_SINKS_HTTP_SLOW_H
#define MR_SINKS_HTTP_SLOW_H

#include <pthread.h>
#include <stdbool.h>

enum { MR_HTTP_CONNECTIONS = 32 };

typedef struct mr_http_slow {
  double limit_s;
  pthread_t thread;
  pthread_mutex_t lock; /* the rest */
  pthread_cond_t wake;
  bool running, over;
  struct {
    int fd;       /* -1: free */
    double since; /* when its time began, mr_now_s; negative: it is being answered */
  } each[MR_HTTP_CONNECTIONS];
} mr_http_slow_t;

/* Starts a thread that looks once a second.  False: no thread; then nothing else may be called. */
bool mr_http_slow_open(mr_http_slow_t *s, double limit_s);
void mr_http_slow_close(mr_http_slow_t *s); /* all zero or closed before is fine */

/* A connection's life, as the server sees it: any thread.  Between begin and end fd is open. */
void mr_http_slow_begin(mr_http_slow_t *s, int fd);
void mr_http_slow_answer(mr_http_slow_t *s, int fd); /* a request is there, an answer under way */
void mr_http_slow_wait(mr_http_slow_t *s, int fd);   /* the answer is out, another may be wanted */
void mr_http_slow_end(mr_http_slow_t *s, int fd);

#endif
