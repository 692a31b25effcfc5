/* millrace serve: serves batches to trainers in other processes or on other hosts, one shard of
   each batch to each.  Each shard is a process with a graph of its own that ends in a link.  When a
   trainer asks for another point of the stream than the link still keeps, the graph is built anew
   from there. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/interrupt.h"
#include "links/link_stage.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/graph/process.h"

enum { SHARDS = 64 };

static const mr_flag_t serve_flags[] = {
    {"--bind", "ADDRESS",
     "Address to listen at: tcp://HOST:PORT (shard I at PORT + I) or ipc://@NAME; default "
     "tcp://127.0.0.1:5570."},
    {"--shards", "N", "Serves N trainers, each one slice of every batch; default 1."},
    {"--window", "N", "Most batches in flight to, or in use at, a trainer; default 8."},
    {"--key", "FILE", "Secret key of the server (`millrace keys`); required beyond loopback."},
    {"--peers", "FILE[,FILE...]", "Public keys of the trainers that may connect."},
    {0}};

static mr_err_t set_link(const mr_args_t *a, mr_graph_t *g, int shard, mr_diag_t *diag) {
  const char *bind = mr_args_text(a, "--bind"), *window = mr_args_text(a, "--window");
  const char *key = mr_args_text(a, "--key"), *peers = mr_args_text(a, "--peers");
  char address[512];
  MR_TRY(
      mr_address_after(bind ? bind : "tcp://127.0.0.1:5570", shard, address, sizeof address, diag));
  MR_TRY(mr_graph_set(g, MR_SERVE_LINK, "link", MR_SERVE_LINK, diag));
  MR_TRY(mr_graph_set(g, MR_SERVE_LINK, "address", address, diag));
  MR_TRY(mr_graph_set(g, MR_SERVE_LINK, "bind", "true", diag));
  if (window) MR_TRY(mr_graph_set(g, MR_SERVE_LINK, "window", window, diag));
  if (key) MR_TRY(mr_graph_set(g, MR_SERVE_LINK, "key", key, diag));
  return peers ? mr_graph_set(g, MR_SERVE_LINK, "peers", peers, diag) : MR_OK;
}

/* Builds the graph up to its batches with a link after them, starting at a point of the stream. */
static mr_err_t serve_build(const mr_args_t *a, int shard, int shards, const mr_stream_at_t *at,
                            mr_graph_t **g, mr_diag_t *diag) {
  char host[32];
  const char *last, *shares;
  MR_TRY(mr_graph_from_args(a, 0, g, diag));
  const char *batch = mr_graph_batches(*g, &last);
  if (!batch)
    return mr_fail(diag, MR_ERR_USAGE,
                   "serve: the graph makes no batches; end it with a \"batch\"");
  MR_TRY(mr_graph_only(*g, last, diag));
  snprintf(host, sizeof host, "%d/%d", shard, shards);
  shares = mr_graph_shares(*g);
  if (shards > 1) MR_TRY(mr_graph_set(*g, shares ? shares : batch, "host", host, diag));
  MR_TRY(mr_graph_add_def(*g, &mr_stage_link_out, MR_SERVE_LINK, NULL, diag));
  MR_TRY(mr_graph_link(*g, last, NULL, MR_SERVE_LINK, NULL, diag));
  MR_TRY(set_link(a, *g, shard, diag));
  if (at->number || at->position) {
    MR_TRY(mr_graph_resume(*g, last, at, diag));
    MR_TRY(mr_graph_start_number(*g, MR_SERVE_LINK, at->number, diag));
  }
  MR_TRY(mr_graph_settle(*g, diag));
  const char *size = mr_graph_setting(*g, shares ? shares : batch, "size");
  long long records = size ? atoll(size) : 0;
  if (records % shards == 0) return MR_OK;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "serve: --shards %d: batches of %lld records have no slices of one shape for so "
                 "many trainers; want a number that divides %lld",
                 shards, records, records);
}

static void serve_greet(const mr_graph_t *g, int shard, int shards) {
  char spec[160];
  const mr_stage_t *s = mr_graph_stage(g, MR_SERVE_LINK);
  mr_spec_text(&s->in_spec[0], spec, sizeof spec);
  printf("shard %d/%d: source link=%s  %s\n", shard, shards,
         mr_graph_setting(g, MR_SERVE_LINK, "address"), spec);
  fflush(stdout);
}

typedef struct server {
  const mr_args_t *args;
  int shard, shards;
  bool greeted, stopped;
  mr_stream_at_t at;     /* where the next graph starts */
  mr_stream_at_t barred; /* a point requested by a trainer, where the graph cannot start */
  char barred_why[256];  /* "": none */
} server_t;

/* Runs one graph from v->at, then sets v->at to where the next one starts.  If a graph fails at a
   point that a trainer chose before it has sent a buffer, that trainer is refused, and the server
   continues. */
static mr_err_t serve_once(server_t *v, mr_diag_t *diag) {
  mr_graph_t *g = NULL;
  mr_diag_t why = {0};
  bool chosen = v->at.number || v->at.position;
  mr_err_t e = serve_build(v->args, v->shard, v->shards, &v->at, &g, &why);
  const mr_stage_t *link = e >= 0 ? mr_graph_stage(g, MR_SERVE_LINK) : NULL;
  if (link && *v->barred_why) mr_link_end_refuse(link, &v->barred, v->barred_why);
  if (link && !v->greeted) serve_greet(g, v->shard, v->shards), v->greeted = true;
  if (e >= 0) e = mr_run_interruptible(g, NULL, &v->stopped, &why);
  mr_stream_at_t asked = {0}; /* the beginning, unless a trainer requests a point */
  if (link && mr_link_end_moved(link, &asked)) {
    e = MR_OK;
  } else if (e < 0 && chosen && (!link || !mr_link_end_sent(link))) {
    v->barred = v->at;
    snprintf(v->barred_why, sizeof v->barred_why,
             "the stream cannot start at buffer %" PRId64 ", position %" PRId64 ": %.150s",
             v->at.number, v->at.position, why.text);
    e = MR_OK;
  }
  v->at = asked;
  if (e < 0) mr_diag_relay(diag, e, &why);
  mr_graph_destroy(g);
  return e;
}

/* Serves one trainer after another, each from the point that it requests, until Ctrl-C. */
static int serve_shard(const mr_args_t *a, int shard, int shards, mr_diag_t *diag) {
  server_t *v = calloc(1, sizeof *v);
  mr_err_t e = v ? MR_OK : mr_no_memory(diag, "serve");
  if (v) v->args = a, v->shard = shard, v->shards = shards;
  while (e >= 0 && !v->stopped) e = serve_once(v, diag);
  free(v);
  return e < 0 ? e : MR_EXIT_STOPPED;
}

/* ---- several shards, one process each ---- */

static int in_child(const mr_args_t *a, int shard, int shards, pid_t above) {
  mr_diag_t diag = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != above) return 1;
  int e = serve_shard(a, shard, shards, &diag);
  fflush(stdout);
  if (e < 0) fprintf(stderr, "millrace: %s\n", diag.text);
  return e < 0 ? mr_err_exit((mr_err_t)e) : e;
}

/* SIGINT, SIGTERM and SIGCHLD are blocked: one that comes between two waits is not lost. */
static int serve_watch(pid_t *pid, int n, const sigset_t *heard, mr_diag_t *diag) {
  int left = n, status, failed = 0;
  bool asked = false, stopping = false;
  while (left) {
    const struct timespec most = {.tv_sec = 1};
    int signo = sigtimedwait(heard, NULL, &most);
    asked |= signo == SIGINT || signo == SIGTERM;
    for (pid_t gone; (gone = waitpid(-1, &status, WNOHANG)) > 0;) {
      /* Ctrl-C reaches the shards too, even one that has no handler yet; so does the request. */
      int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      bool early = by == SIGINT || by == SIGTERM, heard_none = stopping && by == SIGUSR2;
      bool good =
          early || heard_none || (WIFEXITED(status) && WEXITSTATUS(status) == MR_EXIT_STOPPED);
      left--, failed |= !good, asked |= early;
      for (int i = 0; i < n; i++)
        if (pid[i] == gone) pid[i] = 0;
    }
    for (int i = 0; i < n; i++)
      if (pid[i] > 0 && (asked || failed) && !stopping) mr_interrupt_process(pid[i], false);
    stopping |= asked || failed;
  }
  return failed ? mr_fail(diag, MR_ERR_IO, "serve: a shard has failed") : MR_EXIT_STOPPED;
}

static int serve_run(const mr_args_t *a, mr_diag_t *diag) {
  int64_t shards = 1;
  pid_t pid[SHARDS] = {0}, above = getpid();
  sigset_t heard, before;
  MR_TRY(mr_args_int(a, "--shards", 1, SHARDS, &shards, diag));
  if (shards == 1) return serve_shard(a, 0, 1, diag);
  sigemptyset(&heard);
  sigaddset(&heard, SIGINT), sigaddset(&heard, SIGTERM), sigaddset(&heard, SIGCHLD);
  signal(SIGCHLD, SIG_DFL); /* one that was started with it ignored would not hear how they end */
  sigprocmask(SIG_BLOCK, &heard, &before);
  for (int i = 0; i < shards; i++) {
    pid[i] = fork();
    if (pid[i] == 0) {
      sigprocmask(SIG_SETMASK, &before, NULL);
      _exit(in_child(a, i, (int)shards, above));
    }
    if (pid[i] < 0)
      return mr_fail(diag, MR_ERR_IO, "serve: cannot start a process: %s", strerror(errno));
  }
  return serve_watch(pid, (int)shards, &heard, diag);
}

const mr_command_t mr_command_serve = {
    .name = "serve",
    .words = "GRAPH|FILE [NAME=VALUE...]",
    .help = "Serves the batches of a graph to remote trainers, one shard each.",
    .more =
        "\n"
        "Stages after the batches do not run.  A trainer's graph begins with\n"
        "`source link=ADDRESS`; it may connect, die and reconnect, and its stream continues at "
        "the\n"
        "batch that it asks for.  docs/processes.md has more.",
    .flags = serve_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = serve_run,
};
