/* A list of tasks under one mutex. busy marks a task in progress, on the queue's thread or on a
   caller's: a small task runs on the caller's thread if the queue is idle. */
#include "model/call/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "model/call/array.h"
#include "model/exec/backend.h"

struct mr_queue {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t news, done; /* a task or the end has arrived; a task has ended */
  mr__task_t *first, **last;
  bool busy, end; /* busy: a task is running; end: no more tasks will come */
};

static void queue_finish(mr_queue_t *q) {
  q->busy = false;
  pthread_cond_broadcast(&q->done);
  if (q->first || q->end) pthread_cond_signal(&q->news);
}

static mr__task_t *next_task(mr_queue_t *q) {
  while (q->busy || (!q->first && !q->end)) pthread_cond_wait(&q->news, &q->lock);
  mr__task_t *t = q->first;
  if (!t) return NULL;
  q->first = t->next;
  if (!q->first) q->last = &q->first;
  q->busy = true;
  return t;
}

static void *run_tasks(void *arg) {
  mr_queue_t *q = arg;
  mr__task_t *t;
  pthread_mutex_lock(&q->lock);
  while ((t = next_task(q))) {
    pthread_mutex_unlock(&q->lock);
    t->run(t);
    pthread_mutex_lock(&q->lock);
    queue_finish(q);
  }
  pthread_mutex_unlock(&q->lock);
  mr_backends_leave();
  return NULL;
}

mr_err_t mr_queue_create(mr_queue_t **out, mr_diag_t *diag) {
  mr_queue_t *q = calloc(1, sizeof *q);
  if (!q) return mr_no_memory(diag, "a queue of runs");
  q->last = &q->first;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->news, NULL);
  pthread_cond_init(&q->done, NULL);
  if (pthread_create(&q->thread, NULL, run_tasks, q)) {
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->news);
    pthread_cond_destroy(&q->done);
    free(q);
    return mr_fail(diag, MR_ERR_UNAVAILABLE, "the system gives no thread for a queue of runs");
  }
  *out = q;
  return MR_OK;
}

void mr_queue_drain(mr_queue_t *q) {
  pthread_mutex_lock(&q->lock);
  while (q->busy || q->first) pthread_cond_wait(&q->done, &q->lock);
  pthread_mutex_unlock(&q->lock);
}

void mr_queue_destroy(mr_queue_t *q) {
  if (!q) return;
  pthread_mutex_lock(&q->lock);
  q->end = true;
  pthread_cond_signal(&q->news);
  pthread_mutex_unlock(&q->lock);
  pthread_join(q->thread, NULL);
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->news);
  pthread_cond_destroy(&q->done);
  free(q);
}

/* A small task costs less than waking the thread. */
void mr__queue_put(mr_queue_t *q, mr__task_t *t, bool small) {
  pthread_mutex_lock(&q->lock);
  if (small && !q->busy && !q->first) {
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    t->run(t);
    pthread_mutex_lock(&q->lock);
    queue_finish(q);
  } else {
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
    if (!q->busy) pthread_cond_signal(&q->news);
  }
  pthread_mutex_unlock(&q->lock);
}

void mr__queue_wait(mr_queue_t *q, const mr_array_t *a) {
  pthread_mutex_lock(&q->lock);
  while (!mr_array_is_ready(a)) pthread_cond_wait(&q->done, &q->lock);
  pthread_mutex_unlock(&q->lock);
}
