/* A short-lived thread lowers its priority and calls the function, whose threads inherit it. */
#include "sinks/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOWEST = 19 };

typedef struct call {
  void (*fn)(void *arg);
  void *arg;
} call_t;

/* On Linux each thread has its own priority, which it can lower without a privilege. */
static void *call_low(void *arg) {
  const call_t *c = arg;
  setpriority(PRIO_PROCESS, (id_t)gettid(), LOWEST);
  c->fn(c->arg);
  return NULL;
}

void mr_in_background(void (*fn)(void *arg), void *arg) {
  call_t c = {fn, arg};
  pthread_t thread;
  if (pthread_create(&thread, NULL, call_low, &c) == 0)
    pthread_join(thread, NULL);
  else
    fn(arg);
}
