/* Diagnoses a running graph every three seconds, and once more at its end, for --explain.  A thread
   of its own compares snapshots of the workers' counters, so that the graph never waits for the
   observer. */
#include "apps/run/observe.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/xio.h"
#include "pipeline/graph/graph.h"
#include "pipeline/watch/diagnose.h"

#define EVERY_NS INT64_C(3000000000)

struct mr_observer {
  const mr_graph_t *g;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool end;
};

mr_look_t mr_look_of(const mr_args_t *a) {
  return (mr_look_t){mr_args_text(a, "--explain") != NULL, true, mr_args_text(a, "--trace")};
}

static void explain_say(const mr_graph_t *g, const mr_snapshot_t *from, const mr_snapshot_t *to) {
  mr_diagnosis_t d;
  char text[768];
  if (!to || !mr_diagnose(g, from, to, &d)) return;
  mr_diagnosis_text(&d, text, sizeof text);
  mr_put_wrapped(stderr, text, mr_columns(STDERR_FILENO), 2);
}

void mr_observe_run(const mr_graph_t *g) {
  mr_snapshot_t *all = mr_snapshot_take(g);
  explain_say(g, NULL, all);
  mr_snapshot_free(all);
}

/* Waits a few seconds; true if the run is over. */
static bool wait_some(mr_observer_t *e) {
  int64_t until = mr_now_ns() + EVERY_NS;
  pthread_mutex_lock(&e->lock);
  while (!e->end && mr_cond_wait_until(&e->ended, &e->lock, until)) continue;
  bool end = e->end;
  pthread_mutex_unlock(&e->lock);
  return end;
}

static void *explain_main(void *arg) {
  mr_observer_t *e = arg;
  mr_snapshot_t *from = mr_snapshot_take(e->g);
  while (!wait_some(e)) {
    mr_snapshot_t *to = mr_snapshot_take(e->g);
    if (from) explain_say(e->g, from, to);
    mr_snapshot_free(from);
    from = to;
  }
  mr_snapshot_free(from);
  return NULL;
}

mr_observer_t *mr_observe_begin(const mr_graph_t *g) {
  mr_observer_t *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->g = g;
  pthread_mutex_init(&e->lock, NULL);
  mr_cond_init(&e->ended);
  if (!pthread_create(&e->thread, NULL, explain_main, e)) return e;
  free(e);
  return NULL;
}

void mr_observe_end(mr_observer_t *e) {
  if (!e) return;
  pthread_mutex_lock(&e->lock);
  e->end = true;
  pthread_cond_signal(&e->ended);
  pthread_mutex_unlock(&e->lock);
  pthread_join(e->thread, NULL);
  pthread_cond_destroy(&e->ended);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static void explain_print_timeline(const void *graph, FILE *to) { mr_timeline_write(graph, to); }

mr_err_t mr_look_write_trace(const mr_graph_t *g, const char *path, mr_diag_t *diag) {
  return mr_write_printed(path, explain_print_timeline, g, diag);
}
