/* A parent process that starts one child per process of the graph and waits for signals: ends of
   children, Ctrl-C, and a tick. */
#include "apps/run/process_run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/run/interrupt.h"
#include "base/clock.h"

enum {
  TICK_MS = 200,
  LATE_MS = 500,   /* after an end: time for others to end too */
  ALONE_MS = 2000, /* after the last end of a connected process: time to end in order */
  ARGS = MR_WORDS_MAX + MR_FLAGS_MAX + 2 * MR_PLUGINS_MAX + 16,
  TEXT = 4096
};

typedef struct child {
  mr_process_t set;
  pid_t pid;        /* 0: does not run */
  bool ended;       /* by itself, without a failure */
  bool knows_alone; /* knows that no peer will connect to its links any more */
  bool stopping;    /* was asked to stop */
  bool again;       /* was restarted */
  int64_t deaths, start_ms, end_ms;
} child_t;

typedef struct crew {
  const mr_args_t *args;
  const mr_graph_t *g;
  const char *run;
  int64_t since; /* when the run began, ns of the Unix clock */
  bool resume;   /* resume from what an earlier run has written */
  child_t child[MR_PROCESSES_MAX];
  int n;
  bool stopping, failed;
  int asked;   /* signals that counted: stop in order, end at once, kill */
  int stopped; /* the exit status of an orderly stop: by Ctrl-C or by SIGTERM */
  int64_t asked_ms;
  sigset_t before; /* the caller's signal mask */
} crew_t;

static int64_t supervise_now_ms(void) { return mr_now_ns() / 1000000; }

/* ---- starting ---- */

/* Writes "millrace run --flag=VALUE ... --process=NAME ... -- GRAPH NAME=VALUE ..." into argv, with
   new texts in text.  False if they do not fit. */
static bool write_args(const crew_t *c, const child_t *k, bool again, char **argv, char *text) {
  const mr_args_t *a = c->args;
  static const char *const own[] = {"--resume", "--run-id", "--since", "--process"};
  char *at = text, *end = text + TEXT;
  int n = 0;
  argv[n++] = "millrace", argv[n++] = (char *)a->command->name;
  for (int i = 0; a->command->flags[i].name; i++) {
    const char *name = a->command->flags[i].name;
    bool skip = !a->flag[i];
    for (int o = 0; o < 4; o++) skip |= !strcmp(name, own[o]);
    if (skip) continue;
    bool file = !strcmp(name, "--trace"); /* one for each process */
    argv[n++] = at;
    at += snprintf(at, (size_t)(end - at), a->command->flags[i].value ? "%s=%s%s%s" : "%s", name,
                   a->flag[i], file ? "." : "", file ? k->set.name : "");
    if (++at >= end) return false;
  }
  int left = (int)(end - at);
  int used = snprintf(at, (size_t)left, "--process=%s", k->set.name);
  argv[n++] = at, at += used + 1;
  if (used + 64 + (int)strlen(c->run) >= left) return false;
  argv[n++] = at, at += sprintf(at, "--run-id=%s", c->run) + 1;
  if (!c->resume) argv[n++] = at, at += sprintf(at, "--since=%" PRId64, c->since) + 1;
  if (again || c->resume) argv[n++] = "--resume";
  for (int i = 0; i < a->n_plugins; i++) argv[n++] = "--plugin", argv[n++] = (char *)a->plugin[i];
  argv[n++] = "--";
  for (int i = 0; i < a->n_words; i++) argv[n++] = (char *)a->word[i];
  argv[n] = NULL;
  return true;
}

/* Runs in the new process.  It is killed when the supervisor dies, and does not get the terminal's
   Ctrl-C, which goes to the supervisor alone.  SIGUSR1 stays ignored until its graph runs: it may
   be passed on at any moment. */
static void supervise_become(const crew_t *c, pid_t above, char **argv) {
  sigset_t mask = c->before;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != above) _exit(1);
  setpgid(0, 0);
  /* Pending until the process has a handler; unblocked it would kill it. */
  sigaddset(&mask, MR_SIGNAL_ALONE);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  execv("/proc/self/exe", argv);
  dprintf(STDERR_FILENO, "millrace: cannot start a process: %s\n", strerror(errno));
  _exit(1);
}

static mr_err_t supervise_start(crew_t *c, child_t *k, bool again, mr_diag_t *diag) {
  char *argv[ARGS], text[TEXT];
  if (!write_args(c, k, again, argv, text))
    return mr_fail(diag, MR_ERR_USAGE, "run: the flags are too long");
  pid_t above = getpid();
  fflush(NULL);
  k->ended = k->stopping = k->knows_alone = false;
  k->again = again;
  k->start_ms = supervise_now_ms();
  k->pid = fork();
  if (k->pid == 0) supervise_become(c, above, argv);
  if (k->pid > 0) return MR_OK;
  k->pid = 0;
  return mr_fail(diag, MR_ERR_IO, "process %s: cannot be started: %s", k->set.name,
                 strerror(errno));
}

/* ---- stopping ---- */

static bool any_runs(const crew_t *c) {
  for (int i = 0; i < c->n; i++)
    if (c->child[i].pid) return true;
  return false;
}

static bool feeds_a_running_one(const crew_t *c, int i) {
  for (int k = 0; k < c->n; k++)
    if (c->child[k].pid && mr_graph_process_feeds(c->g, i, k)) return true;
  return false;
}

/* Stops the processes that feed no running process.  When they have ended, all that they received
   has had its effect, and the processes before them are stopped next. */
static void stop_last_ones(crew_t *c) {
  for (int i = 0; i < c->n; i++) {
    child_t *k = &c->child[i];
    if (!k->pid || k->stopping || feeds_a_running_one(c, i)) continue;
    k->stopping = true;
    mr_interrupt_process(k->pid, false);
  }
}

static void kill_all(const crew_t *c) {
  for (int i = 0; i < c->n; i++)
    if (c->child[i].pid) kill(c->child[i].pid, SIGKILL);
}

/* Handles SIGINT or SIGTERM.  One within the grace time after the last one counts as the same. */
static void on_interrupt(crew_t *c, int signo) {
  if (c->asked && supervise_now_ms() - c->asked_ms < MR_INTERRUPT_GRACE_MS) return;
  if (!c->stopping) c->stopped = signo == SIGTERM ? 128 + SIGTERM : MR_EXIT_STOPPED;
  c->asked++, c->asked_ms = supervise_now_ms();
  c->stopping = true;
  if (c->asked == 1) {
    fprintf(stderr,
            "millrace: stopping the processes in order; Ctrl-C again, from %d seconds on, ends "
            "them at once\n",
            MR_INTERRUPT_GRACE_MS / 1000);
    stop_last_ones(c);
  }
  for (int i = 0; c->asked == 2 && i < c->n; i++) /* checkpoints in progress are finished */
    if (c->child[i].pid) mr_interrupt_process(c->child[i].pid, true);
  if (c->asked > 2) kill_all(c);
}

/* Passes SIGUSR1 on to the processes that write checkpoints; one that does not run its graph yet
   has nothing to save and ignores it. */
static void on_save(const crew_t *c) {
  const mr_stage_t *s;
  int sent = 0;
  for (int n = 0; (s = mr_graph_stage_with(c->g, MR_ROLE_CHECKPOINT, n)); n++)
    for (int i = 0; i < c->n; i++) {
      const char *of = mr_graph_process_of(c->g, s->name);
      if (!of || strcmp(of, c->child[i].set.name) != 0 || !c->child[i].pid) continue;
      kill(c->child[i].pid, SIGUSR1), sent++;
    }
  if (!sent) fputs("millrace: SIGUSR1: no process that runs writes a checkpoint\n", stderr);
}

/* ---- ends ---- */

static void supervise_fail(crew_t *c, mr_diag_t *diag, const child_t *k, const char *how,
                           int number, const char *more) {
  if (!c->failed && !c->stopping)
    mr_fail(diag, MR_ERR_IO, "process %s %s %d%s", k->set.name, how, number, more);
  c->failed |= !c->stopping; /* one that fails after another changes nothing */
  c->stopping = true;
}

/* Whether two processes are connected.  One that has ended is restarted with a connected one that
   died: it sends again what was lost, or confirms that nothing is missing. */
static bool supervise_are_connected(const crew_t *c, int i, int k) {
  return mr_graph_process_feeds(c->g, i, k) || mr_graph_process_feeds(c->g, k, i);
}

static mr_err_t start_again(crew_t *c, int i, mr_diag_t *diag) {
  MR_TRY(supervise_start(c, &c->child[i], true, diag));
  for (int k = 0; k < c->n; k++)
    if (c->child[k].ended && supervise_are_connected(c, i, k)) MR_TRY(start_again(c, k, diag));
  return MR_OK;
}

/* A signal that asks for an end reached a process: all stop, and the command ends with this. */
static void stop_by_hand(crew_t *c, int status) {
  if (!c->stopping) c->stopped = status;
  c->stopping = true;
}

/* A process that plans or opens its stages dies of the signals that ask for an end. */
static mr_err_t note_death(crew_t *c, int i, int signo, mr_diag_t *diag) {
  child_t *k = &c->child[i];
  if (signo == SIGTERM) stop_by_hand(c, 128 + SIGTERM);
  if (signo == SIGINT) stop_by_hand(c, MR_EXIT_STOPPED);
  if (c->stopping) return MR_OK;
  if (k->deaths == k->set.restart) {
    char more[96];
    snprintf(more, sizeof more, "; restart = %" PRId64 " allows no further start", k->set.restart);
    return supervise_fail(c, diag, k, "was killed by signal", signo, more), MR_OK;
  }
  k->deaths++;
  fprintf(stderr,
          "millrace: process %s was killed by signal %d; start %" PRId64 " of %" PRId64 "\n",
          k->set.name, signo, k->deaths + 1, k->set.restart + 1);
  return start_again(c, i, diag);
}

static mr_err_t note_end(crew_t *c, int i, int status, mr_diag_t *diag) {
  child_t *k = &c->child[i];
  k->pid = 0, k->end_ms = supervise_now_ms();
  if (WIFSIGNALED(status)) return note_death(c, i, WTERMSIG(status), diag);
  int code = WEXITSTATUS(status);
  k->ended = code == 0;
  bool by_hand = code == MR_EXIT_STOPPED || code == 128 + SIGTERM;
  if (by_hand) stop_by_hand(c, code);
  if (code && !by_hand) supervise_fail(c, diag, k, "ended with status", code, "");
  return MR_OK;
}

static mr_err_t supervise_reap(crew_t *c, mr_diag_t *diag) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    for (int i = 0; i < c->n; i++)
      if (c->child[i].pid == pid) MR_TRY(note_end(c, i, status, diag));
  if (c->stopping) stop_last_ones(c);
  return MR_OK;
}

/* ---- the watch ---- */

/* Whether a process has ended but a connected one was restarted after it had started, and may still
   wait for it. */
static bool is_missed(const crew_t *c, int i) {
  const child_t *k = &c->child[i];
  if (!k->ended || supervise_now_ms() - k->end_ms < LATE_MS) return false;
  for (int x = 0; x < c->n; x++)
    if (c->child[x].pid && c->child[x].again && c->child[x].start_ms > k->start_ms &&
        supervise_are_connected(c, i, x))
      return true;
  return false;
}

/* Whether all processes that it feeds have ended and none will be restarted.  Processes before it
   may wait for it in turn. */
static bool is_left_alone(const crew_t *c, int i) {
  const child_t *k = &c->child[i];
  int fed = 0;
  if (!k->pid || k->knows_alone || supervise_now_ms() - k->start_ms < ALONE_MS) return false;
  for (int x = 0; x < c->n; x++) {
    const child_t *other = &c->child[x];
    if (!mr_graph_process_feeds(c->g, i, x)) continue;
    if (!other->ended || supervise_now_ms() - other->end_ms < ALONE_MS) return false;
    fed++;
  }
  return fed > 0;
}

static mr_err_t start_missed(crew_t *c, mr_diag_t *diag) {
  for (int i = 0; i < c->n && !c->stopping; i++) {
    if (is_missed(c, i)) MR_TRY(supervise_start(c, &c->child[i], true, diag));
    if (!is_left_alone(c, i)) continue;
    c->child[i].knows_alone = true;
    kill(c->child[i].pid, MR_SIGNAL_ALONE);
  }
  return MR_OK;
}

static mr_err_t supervise_watch(crew_t *c, const sigset_t *heard, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  while (any_runs(c) && e >= 0) {
    const struct timespec most = {.tv_nsec = TICK_MS * 1000000L};
    int signo = sigtimedwait(heard, NULL, &most);
    if (signo == SIGINT || signo == SIGTERM) on_interrupt(c, signo);
    if (signo == SIGUSR1) on_save(c);
    e = supervise_reap(c, diag); /* signals that came together are one */
    if (e >= 0) e = start_missed(c, diag);
  }
  return e;
}

static mr_err_t run_all(crew_t *c, const sigset_t *heard, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  for (int i = 0; i < c->n && e >= 0; i++) e = supervise_start(c, &c->child[i], false, diag);
  if (e >= 0) e = supervise_watch(c, heard, diag);
  kill_all(c);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) errno = 0;
  return e;
}

static void print_restarts(const crew_t *c) {
  for (int i = 0; i < c->n; i++)
    if (c->child[i].deaths)
      fprintf(stderr, "millrace: process %s was started again %" PRId64 " times\n",
              c->child[i].set.name, c->child[i].deaths);
}

int mr_supervise(const mr_args_t *a, const mr_graph_t *g, const char *run, mr_diag_t *diag) {
  crew_t *c = calloc(1, sizeof *c);
  struct timespec now;
  sigset_t heard;
  if (!c) return mr_no_memory(diag, "the processes");
  clock_gettime(CLOCK_REALTIME, &now);
  c->args = a, c->g = g, c->run = run, c->n = mr_graph_n_processes(g);
  c->since = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  c->resume = mr_args_text(a, "--resume") != NULL;
  sigemptyset(&heard);
  sigaddset(&heard, SIGINT), sigaddset(&heard, SIGTERM), sigaddset(&heard, SIGCHLD);
  sigaddset(&heard, SIGUSR1);
  sigprocmask(SIG_BLOCK, &heard, &c->before);
  mr_err_t e = MR_OK;
  for (int i = 0; i < c->n && e >= 0; i++) e = mr_graph_process(g, i, &c->child[i].set, diag);
  if (e >= 0) e = run_all(c, &heard, diag);
  bool failed = c->failed;
  int stopped = c->stopping ? c->stopped : 0;
  print_restarts(c);
  signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN); /* one that waits came behind the last end */
  sigprocmask(SIG_SETMASK, &c->before, NULL);
  free(c);
  if (e < 0) return e;
  return failed ? MR_ERR_IO : stopped;
}
