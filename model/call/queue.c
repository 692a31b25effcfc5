/* A list of tasks under one mutex. busy marks a task in progress, on the queue's thread or on a
   caller's: a small task runs on the caller's thread if the queue is idle.

   A fork waits until no task of any queue is in progress, so that a child finds every queue whole.
   Its copies have no thread: there the callers run the tasks. */
#include "model/call/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/forks.h"
#include "model/call/array.h"
#include "model/exec/backend.h"

struct mr_queue {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t news, done; /* a task or the end has arrived; a task has ended */
  mr__task_t *first, **last;
  bool busy, end;    /* busy: a task is running; end: no more tasks will come */
  pthread_t runner;  /* while busy: the thread that runs the task */
  uint32_t forks;    /* mr_forks() where the queue's thread is */
  mr_queue_t *after; /* in the list of all */
};

/* ---- forks ---- */

static struct {
  pthread_mutex_t lock;
  mr_queue_t *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A task that forks is not waited for: it is this thread's own. */
static void queues_rest(void) {
  pthread_mutex_lock(&all.lock);
  for (mr_queue_t *q = all.first; q; q = q->after) {
    pthread_mutex_lock(&q->lock);
    while (q->busy && !pthread_equal(q->runner, pthread_self()))
      pthread_cond_wait(&q->done, &q->lock);
  }
}

static void queues_continue(void) {
  for (mr_queue_t *q = all.first; q; q = q->after) pthread_mutex_unlock(&q->lock);
  pthread_mutex_unlock(&all.lock);
}

/* The conditions still count the parent's threads as waiting. */
static void queues_begin_again(void) {
  for (mr_queue_t *q = all.first; q; q = q->after) {
    q->news = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    q->done = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
  }
  queues_continue();
}

__attribute__((constructor)) static void queues_outlive_forks(void) {
  pthread_atfork(queues_rest, queues_continue, queues_begin_again);
}

static void queue_list(mr_queue_t *q) {
  pthread_mutex_lock(&all.lock);
  q->forks = mr_forks();
  q->after = all.first, all.first = q;
  pthread_mutex_unlock(&all.lock);
}

static void queue_unlist(mr_queue_t *q) {
  pthread_mutex_lock(&all.lock);
  mr_queue_t **at = &all.first;
  while (*at != q) at = &(*at)->after;
  *at = q->after;
  pthread_mutex_unlock(&all.lock);
}

static bool queue_has_thread(const mr_queue_t *q) { return q->forks == mr_forks(); }

/* ---- tasks ---- */

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
  q->runner = pthread_self();
  return t;
}

/* In a child, with the lock: runs the tasks that are left, while a is not ready; NULL: all. */
static void queue_run_here(mr_queue_t *q, const mr_array_t *a) {
  while (!q->busy && q->first && !(a && mr_array_is_ready(a))) {
    mr__task_t *t = next_task(q);
    pthread_mutex_unlock(&q->lock);
    t->run(t);
    pthread_mutex_lock(&q->lock);
    queue_finish(q);
  }
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
  queue_list(q);
  if (pthread_create(&q->thread, NULL, run_tasks, q)) {
    queue_unlist(q);
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
  if (!queue_has_thread(q)) queue_run_here(q, NULL);
  while (q->busy || q->first) pthread_cond_wait(&q->done, &q->lock);
  pthread_mutex_unlock(&q->lock);
}

void mr_queue_destroy(mr_queue_t *q) {
  if (!q) return;
  if (!queue_has_thread(q)) mr_queue_drain(q);
  pthread_mutex_lock(&q->lock);
  q->end = true;
  pthread_cond_signal(&q->news);
  pthread_mutex_unlock(&q->lock);
  if (queue_has_thread(q)) pthread_join(q->thread, NULL);
  queue_unlist(q);
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->news);
  pthread_cond_destroy(&q->done);
  free(q);
}

/* A small task costs less than waking the thread. */
void mr__queue_put(mr_queue_t *q, mr__task_t *t, bool small) {
  pthread_mutex_lock(&q->lock);
  bool here = !queue_has_thread(q); /* on this thread, behind what is left from before the fork */
  if (here) queue_run_here(q, NULL);
  if ((small || here) && !q->busy && !q->first) {
    q->busy = true;
    q->runner = pthread_self();
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
  if (!queue_has_thread(q)) queue_run_here(q, a);
  while (!mr_array_is_ready(a)) pthread_cond_wait(&q->done, &q->lock);
  pthread_mutex_unlock(&q->lock);
}
