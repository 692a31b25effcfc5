/* One process of a graph: builds its part of the graph, runs it, and rebuilds it from another point
   of the streams when a peer requests that. */
#include "apps/run/process_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/interrupt.h"
#include "apps/run/resume.h"
#include "pipeline/graph/link_end.h"

enum { OUTS = 64 };

/* The starting points of the streams that leave this process, in the order of their stages. */
typedef struct outs {
  mr_stream_at_t at[OUTS];
  bool left[OUTS];           /* the peer of this stream has left */
  int n;                     /* 0: no peer has requested a point yet */
  mr_stream_at_t good[OUTS]; /* the last points from which the graph sent something */
  int n_good;
  mr_stream_at_t barred[OUTS]; /* points requested by peers, where the graph cannot start */
  int n_barred;
  char barred_why[256];
  bool blamed; /* the last failure was blamed on peers, which have requested no other point since */
} outs_t;

mr_err_t mr_process_cut(const mr_args_t *a, const char *run, mr_graph_t **g, mr_diag_t *diag) {
  MR_TRY(mr_graph_from_args(a, 0, g, diag));
  mr_err_t e = mr_run_set_flags(a, *g, diag);
  if (e >= 0) e = mr_graph_cut(*g, run, diag);
  if (e >= 0) return MR_OK;
  mr_graph_destroy(*g);
  *g = NULL;
  return e;
}

/* The k-th stage of a role in the process. */
static const mr_stage_t *nth_stage_in(const mr_graph_t *g, const char *process, mr_role_t role,
                                      int k) {
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    const mr_stage_t *s = mr_graph_stage_at(g, i);
    const char *in = mr_graph_process_of(g, s->name);
    if (s->def->role == role && in && !strcmp(in, process) && k-- == 0) return s;
  }
  return NULL;
}

/* Sets the ledgers of the process back to the step where its stream restarts. */
static mr_err_t set_ledgers(mr_graph_t *g, const char *process, int64_t step, mr_diag_t *diag) {
  char text[32];
  const mr_stage_t *s;
  snprintf(text, sizeof text, "%" PRId64, step);
  for (int k = 0; (s = nth_stage_in(g, process, MR_ROLE_LEDGER, k)); k++)
    MR_TRY(mr_graph_set(g, s->name, "resume-step", text, diag));
  return MR_OK;
}

static mr_err_t set_outs(mr_graph_t *g, const char *process, const outs_t *outs, mr_diag_t *diag) {
  const mr_stage_t *s;
  for (int k = 0; k < outs->n && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++) {
    MR_TRY(mr_graph_resume(g, mr_graph_before(g, s->name, 0), &outs->at[k], diag));
    MR_TRY(mr_graph_start_number(g, s->name, outs->at[k].number, diag));
    MR_TRY(set_ledgers(g, process, outs->at[k].number, diag));
  }
  return MR_OK;
}

/* Resumes from the newest checkpoint of the process, else from the state of its ledger, else from
   the beginning. */
static mr_err_t process_run_set_resume(mr_graph_t *g, const char *process, int64_t since,
                                       mr_train_progress_t *at, mr_diag_t *diag) {
  const mr_stage_t *keep = nth_stage_in(g, process, MR_ROLE_CHECKPOINT, 0);
  const mr_stage_t *ledger = nth_stage_in(g, process, MR_ROLE_LEDGER, 0);
  const char *step = keep ? mr_graph_before(g, keep->name, 0) : NULL;
  const char *state = ledger ? mr_graph_setting(g, ledger->name, "state") : NULL;
  char latest[4096];
  if (step) {
    snprintf(latest, sizeof latest, "%s/latest", mr_graph_setting(g, keep->name, "dir"));
    return mr_resume_is_newer(latest, since) ? mr_resume_from(g, step, latest, at, diag) : MR_OK;
  }
  if (!state || !mr_resume_is_newer(state, since)) return MR_OK;
  return mr_from_state(g, state, ledger->name, diag);
}

/* Sets what a resume of the whole graph shows.  The process with its first checkpoint speaks for
   all of them, when it is built first. */
static mr_err_t process_run_set_reported(mr_graph_t *g, const char *process, const outs_t *outs,
                                         int64_t since, const mr_train_progress_t *at,
                                         mr_diag_t *diag) {
  const mr_stage_t *keep = mr_graph_stage_with(g, MR_ROLE_CHECKPOINT, 0);
  if (!outs->n && keep && keep == nth_stage_in(g, process, MR_ROLE_CHECKPOINT, 0))
    mr_resume_say_unkept(g, at->step);
  return mr_resume_reported(g, since, at, diag);
}

static mr_err_t process_run_build(const mr_args_t *a, const outs_t *outs, mr_graph_t **g,
                                  mr_diag_t *diag) {
  const char *process = mr_args_text(a, "--process"), *run = mr_args_text(a, "--run-id");
  int64_t since = 0;
  MR_TRY(mr_args_int(a, "--since", 0, INT64_MAX, &since, diag));
  MR_TRY(mr_process_cut(a, run ? run : "run", g, diag));
  mr_err_t e = MR_OK;
  mr_train_progress_t at = {0};
  if (mr_args_text(a, "--resume")) e = process_run_set_resume(*g, process, since, &at, diag);
  if (e >= 0 && mr_args_text(a, "--resume"))
    e = process_run_set_reported(*g, process, outs, since, &at, diag);
  if (e >= 0) e = set_outs(*g, process, outs, diag);
  if (e >= 0) e = mr_graph_keep_process(*g, process, diag);
  return e < 0 ? e : mr_graph_settle(*g, diag);
}

/* Asks every peer where it wants to resume.  This happens while nothing is sent, so that the
   answers still hold when the graph runs. */
static mr_err_t ask_all(const mr_graph_t *g, const char *process, outs_t *outs, mr_diag_t *diag) {
  const mr_stage_t *s;
  for (int k = 0; k < outs->n && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++) {
    MR_TRY(mr_link_end_ask(s, &outs->at[k], diag));
    outs->left[k] = mr_link_end_left(s);
  }
  return MR_OK;
}

/* Whether a peer requests another part of its stream than this graph sends. */
static bool asks_elsewhere(const mr_graph_t *g, const char *process) {
  const mr_stage_t *s;
  mr_stream_at_t at;
  for (int k = 0; k < OUTS && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++)
    if (mr_link_end_moved(s, &at)) return true;
  return false;
}

/* Stores the requested parts in outs. */
static void take_asked(const mr_graph_t *g, const char *process, outs_t *outs) {
  const mr_stage_t *s;
  outs->blamed = false;
  for (outs->n = 0; outs->n < OUTS && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, outs->n));
       outs->n++) {
    bool moved = mr_link_end_moved(s, &outs->at[outs->n]);
    outs->left[outs->n] = !moved && mr_link_end_left(s);
  }
}

/* Before a run: streams whose peers have left earlier graphs do not keep the process. */
static void set_left(const mr_graph_t *g, const char *process, const outs_t *outs) {
  const mr_stage_t *s;
  for (int k = 0; k < outs->n && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++)
    if (outs->left[k]) mr_link_end_set_left(s);
}

/* Refuses, before a run, peers that request a point again where the graph could not start. */
static void bar_replays(const mr_graph_t *g, const char *process, const outs_t *outs) {
  const mr_stage_t *s;
  for (int k = 0; k < outs->n_barred && (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++)
    mr_link_end_refuse(s, &outs->barred[k], outs->barred_why);
}

static bool has_sent(const mr_graph_t *g, const char *process) {
  const mr_stage_t *s;
  for (int k = 0; (s = nth_stage_in(g, process, MR_ROLE_LINK_OUT, k)); k++)
    if (mr_link_end_sent(s)) return true;
  return false;
}

/* Handles a graph that fails at points requested by its peers before it has sent anything: the
   peers are refused, and the process returns to its earlier points.  Returns false if the graph
   fails there too; then the failure is its own. */
static bool blame_peers(outs_t *outs, const char *why) {
  if (!outs->n || outs->blamed) return false;
  outs->blamed = true;
  memcpy(outs->barred, outs->at, sizeof outs->at);
  snprintf(outs->barred_why, sizeof outs->barred_why, "the stream cannot start there: %.200s", why);
  outs->n_barred = outs->n, outs->n = outs->n_good;
  memcpy(outs->at, outs->good, sizeof outs->at);
  return true;
}

/* Runs one graph.  MR_OK; *moved: its peers ask for another part, build another graph from outs. */
static mr_err_t run_once(const mr_args_t *a, outs_t *outs, bool *stopped, bool *moved,
                         mr_diag_t *diag) {
  const char *process = mr_args_text(a, "--process");
  mr_look_t look = mr_look_of(a);
  mr_graph_t *g = NULL;
  mr_diag_t why = {0};
  mr_err_t e = process_run_build(a, outs, &g, &why);
  look.says = false;
  if (e >= 0) bar_replays(g, process, outs), set_left(g, process, outs);
  if (e >= 0) e = mr_run_interruptible(g, &look, stopped, &why);
  bool sent = g && has_sent(g, process), asked = g && !*stopped && asks_elsewhere(g, process);
  if (sent) memcpy(outs->good, outs->at, sizeof outs->at), outs->n_good = outs->n;
  if (asked) take_asked(g, process, outs);
  *moved = asked || (e < 0 && !sent && !*stopped && blame_peers(outs, why.text));
  if (*moved) e = MR_OK;
  if (asked && outs->n > 1) e = ask_all(g, process, outs, diag);
  if (e >= 0 && !*moved) mr_run_report(g);
  if (e < 0) mr_diag_relay(diag, e, &why);
  mr_graph_destroy(g);
  return e;
}

static void on_alone(int signo) { mr_link_end_end_all(); }

int mr_process_run(const mr_args_t *a, mr_diag_t *diag) {
  struct sigaction act = {.sa_handler = on_alone, .sa_flags = SA_RESTART};
  sigaction(MR_SIGNAL_ALONE, &act, NULL);
  sigset_t heard;
  sigemptyset(&heard), sigaddset(&heard, MR_SIGNAL_ALONE);
  sigprocmask(SIG_UNBLOCK, &heard, NULL);
  outs_t *outs = calloc(1, sizeof *outs);
  bool stopped = false, moved = true;
  if (!outs) return mr_no_memory(diag, "a process");
  mr_err_t e = MR_OK;
  while (e >= 0 && moved) e = run_once(a, outs, &stopped, &moved, diag);
  free(outs);
  return e < 0 ? e : stopped ? mr_interrupt_status() : 0;
}
