/* millrace run: runs any graph, from text or a file, in one process or several.  This file applies
   the flags and reports at the end; a graph of several processes goes to the supervisor
   (supervise.c), which starts this command again for each of them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "apps/run/interrupt.h"
#include "apps/run/leak.h"
#include "apps/run/process_run.h"
#include "apps/run/resume.h"

static double run_share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* Prints one line for each stage that had a thread. */
static void print_stats(const mr_graph_t *g) {
  fprintf(stderr, "%-20s %8s %10s %7s %8s %8s %6s\n", "stage", "workers", "items", "busy",
          "starved", "blocked", "queue");
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    mr_stats_t st;
    mr_graph_stats(g, i, &st);
    if (st.workers < 1 || st.alive_ns <= 0) continue;
    fprintf(stderr, "%-20s %8d %10lld %6.1f%% %7.1f%% %7.1f%% %6.1f\n",
            mr_graph_stage_at(g, i)->name, st.workers, (long long)st.items,
            run_share(st.busy_ns, st.alive_ns), run_share(st.starved_ns, st.alive_ns),
            run_share(st.blocked_ns, st.alive_ns), st.depth);
  }
}

static const mr_flag_t run_flags[] = {
    {"--from", "FILE[,FILE...]",
     "Resumes from the state saved by stage ledger; with several files, from the earliest."},
    {"--host", "I/N",
     "Produces only slice I of N of each batch, so that N processes share the run."},
    {"--depth", "N", "Number of buffers that each ring holds, a power of two."},
    {"--pool", "N",
     "Most buffers that a stage has in flight; fewer need less memory, too few are refused."},
    {"--process", "NAME", "Runs one process of the graph, for graphs over several hosts."},
    {"--run-id", "WORD",
     "Names the links of one host; must be the same for all processes of a run."},
    {"--resume", NULL, "Each process resumes from its newest checkpoint or its ledger's state."},
    {"--since", "NS",
     "With --resume: ignores what was written before this time (ns of the Unix clock)."},
    MR_LOOK_FLAGS,
    {0}};

mr_err_t mr_run_set_flags(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag) {
  const char *shares = mr_graph_shares(g), *host = mr_args_text(a, "--host");
  int64_t depth = 0, pool = 0;
  MR_TRY(mr_args_int(a, "--depth", 2, 1024, &depth, diag));
  if (depth) MR_TRY(mr_graph_set_depth(g, (int)depth, diag));
  MR_TRY(mr_args_int(a, "--pool", 1, 65536, &pool, diag));
  if (pool) MR_TRY(mr_graph_set_pool(g, (int)pool, diag));
  if (host && !shares)
    return mr_fail(diag, MR_ERR_USAGE, "run: --host: the graph makes no batches to share");
  if (host) MR_TRY(mr_graph_set(g, shares, "host", host, diag));
  const char *from = mr_args_text(a, "--from");
  return from ? mr_from_state(g, from, NULL, diag) : MR_OK;
}

static mr_err_t run_build_again(void *args, mr_graph_t *g, mr_diag_t *diag) {
  return mr_graph_again(args, 0, g, diag);
}

void mr_run_report(const mr_graph_t *g) {
  const char *process = mr_graph_n_processes(g) && mr_graph_n_stages(g)
                            ? mr_graph_process_of(g, mr_graph_stage_at(g, 0)->name)
                            : NULL;
  mr_graph_report(g, stdout);
  fflush(stdout);
  if (process) fprintf(stderr, "process %s:\n", process);
  print_stats(g);
  mr_observe_run(g);
}

/* Refuses flags of a graph of several processes for any other graph, and --from for such a
   graph. */
static mr_err_t run_check_flags(const mr_args_t *a, const mr_graph_t *g, mr_diag_t *diag) {
  static const char *const of_many[] = {"--process", "--run-id", "--resume", "--since"};
  for (size_t i = 0; i < sizeof of_many / sizeof *of_many; i++)
    if (mr_args_text(a, of_many[i]) && !mr_graph_n_processes(g))
      return mr_fail(diag, MR_ERR_USAGE, "run: %s: the graph has no process { } blocks",
                     of_many[i]);
  if (mr_args_text(a, "--from") && mr_graph_n_processes(g))
    return mr_fail(diag, MR_ERR_USAGE,
                   "run: --from: the processes of a graph resume by themselves; use --resume");
  return MR_OK;
}

/* Runs all processes.  The graph is settled here first, so that its mistakes are reported once;
   that one is given back, with what its sources hold: a peer's port, a share of a cache. */
static int run_processes(const mr_args_t *a, mr_diag_t *diag) {
  const char *given = mr_args_text(a, "--run-id");
  char run[32];
  unsigned char random[6];
  mr_graph_t *g;
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return mr_fail(diag, MR_ERR_IO, "run: cannot draw random numbers: %s", strerror(errno));
  for (size_t i = 0; i < sizeof random; i++) snprintf(run + 2 * i, 3, "%02x", random[i]);
  if (!given) given = run;
  MR_TRY(mr_process_cut(a, given, &g, diag));
  int e = mr_graph_settle(g, diag);
  mr_graph_destroy(g);
  g = NULL;
  if (e >= 0) e = mr_process_cut(a, given, &g, diag);
  if (e >= 0) e = mr_supervise(a, g, given, diag);
  mr_graph_destroy(g);
  mr_process_forget(given);
  if (e == MR_EXIT_STOPPED || e == 128 + SIGTERM)
    puts("stopped; the same command with --resume resumes it");
  return e;
}

static int run_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_graph_t *g;
  bool stopped = false;
  mr_look_t look = mr_look_of(a);
  MR_TRY(mr_graph_from_args(a, 0, &g, diag));
  int e = mr_run_set_flags(a, g, diag);
  if (e >= 0) e = run_check_flags(a, g, diag);
  bool several = mr_graph_n_processes(g) > 0;
  if (e >= 0 && !mr_args_text(a, "--process"))
    e = mr_leak_check(g, run_build_again, (void *)a, NULL, 0, diag);
  if (several) {
    mr_graph_destroy(g);
    if (e < 0) return e;
    return mr_args_text(a, "--process") ? mr_process_run(a, diag) : run_processes(a, diag);
  }
  look.says = false; /* after the statistics */
  if (e >= 0) e = mr_run_interruptible(g, &look, &stopped, diag);
  if (e >= 0) mr_run_report(g);
  mr_graph_destroy(g);
  return e < 0 ? e : stopped ? mr_interrupt_status() : 0;
}

static const mr_hint_t run_words[] = {{"launch gstlaunch1.0 exec", "run", NULL}, {0}};

const mr_command_t mr_command_run = {
    .name = "run",
    .hint = run_words,
    .words = "GRAPH|FILE [NAME=VALUE...]",
    .help = "Runs a graph of stages, given as text or in a file.",
    .more =
        "\n"
        "NAME is a variable of the graph, STAGE.SETTING, or a setting that one stage has.\n"
        "A graph with process { } blocks runs as supervised processes, one per block.\n"
        "At the end, statistics of each stage and the limiting one go to standard error.",
    .flags = run_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = run_run,
};
