#include "apps/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "apps/notice.h"
#include "pipeline/timeline.h"

enum { TIMELINE_EVENTS = 1 << 16 /* 2 MB a worker */ };

static _Atomic(mr_graph_t *) running;
static atomic_bool signalled;

static void on_signal(int signo) {
  mr_graph_t *g = atomic_load(&running);
  atomic_store(&signalled, true);
  if (g) mr_graph_stop(g);
  signal(signo, SIG_DFL);
}

/* Readers are opened with the graph, or by a worker with its first record. */
static mr_err_t run(mr_graph_t *g, const mr_look_t *look, mr_diag_t *diag) {
  if (look->trace) mr_timeline_keep(g, TIMELINE_EVENTS);
  MR_TRY(mr_graph_start(g, diag));
  mr_notice_reader();
  mr_explain_t *live = look->explain ? mr_explain_begin(g) : NULL;
  mr_err_t e = mr_graph_join(g, diag);
  mr_explain_end(live);
  mr_notice_reader();
  if (e >= 0 && look->says) mr_explain_run(g);
  if (e >= 0 && look->trace) e = mr_look_write_trace(g, look->trace, diag);
  return e;
}

void mr_writes_fail(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

mr_err_t mr_run_interruptible(mr_graph_t *g, const mr_look_t *look, bool *stopped,
                              mr_diag_t *diag) {
  static const mr_look_t nothing;
  struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old_int, old_term;
  atomic_store(&signalled, false);
  atomic_store(&running, g);
  sigaction(SIGINT, &act, &old_int);
  sigaction(SIGTERM, &act, &old_term);
  mr_writes_fail();
  mr_err_t e = run(g, look ? look : &nothing, diag);
  sigaction(SIGINT, &old_int, NULL);
  sigaction(SIGTERM, &old_term, NULL);
  atomic_store(&running, NULL);
  *stopped = atomic_load(&signalled);
  return e;
}
