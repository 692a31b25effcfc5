#include "sinks/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOWEST = 19 };

typedef struct call {
  void (*fn)(void *arg);
  void *arg;
} call_t;

/* On Linux a thread has a priority of its own; it can go down without a privilege, and not up. */
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
