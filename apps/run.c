/* millrace run: any graph, from text or a file. */
#include <stdio.h>

#include "apps/from_state.h"
#include "apps/graph_arg.h"
#include "apps/interrupt.h"
#include "apps/leak.h"

static double share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* One line a stage that had a thread. */
static void print_stats(const mr_graph_t *g) {
  fprintf(stderr, "%-20s %8s %10s %7s %8s %8s %6s\n", "stage", "workers", "items", "busy",
          "starved", "blocked", "queue");
  for (int i = 0; i < mr_graph_n_stages(g); i++) {
    mr_stats_t st;
    mr_graph_stats(g, i, &st);
    if (st.workers < 1 || st.alive_ns <= 0) continue;
    fprintf(stderr, "%-20s %8d %10lld %6.1f%% %7.1f%% %7.1f%% %6.1f\n",
            mr_graph_stage_at(g, i)->name, st.workers, (long long)st.items,
            share(st.busy_ns, st.alive_ns), share(st.starved_ns, st.alive_ns),
            share(st.blocked_ns, st.alive_ns), st.depth);
  }
}

static const mr_flag_t run_flags[] = {
    {"--from", "FILE[,FILE...]",
     "Goes on where the stage ledger has left the stream; of several "
     "states, where the first stands."},
    {"--host", "I/N", "Makes only the I-th of N slices of each batch: N processes share the run."},
    {"--depth", "N", "Buffers that every ring holds, a power of two."},
    {"--pool", "N", "Most buffers a stage has under way: less memory; too few are refused."},
    MR_LOOK_FLAGS,
    {0}};

static mr_err_t set_flags(const mr_args_t *a, mr_graph_t *g, mr_diag_t *diag) {
  const char *last, *batch = mr_graph_batches(g, &last), *host = mr_args_text(a, "--host");
  int64_t depth = 0, pool = 0;
  MR_TRY(mr_args_int(a, "--depth", 2, 1024, &depth, diag));
  if (depth) MR_TRY(mr_graph_set_depth(g, (int)depth, diag));
  MR_TRY(mr_args_int(a, "--pool", 1, 65536, &pool, diag));
  if (pool) MR_TRY(mr_graph_set_pool(g, (int)pool, diag));
  if (host && !batch)
    return mr_fail(diag, MR_ERR_USAGE, "run: --host: the graph makes no batches to share");
  if (host) MR_TRY(mr_graph_set(g, batch, "host", host, diag));
  const char *from = mr_args_text(a, "--from");
  return from ? mr_from_state(g, from, diag) : MR_OK;
}

static mr_err_t build_again(void *args, mr_graph_t *g, mr_diag_t *diag) {
  return mr_graph_again(args, 0, g, diag);
}

static int run_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_graph_t *g;
  bool stopped = false;
  mr_look_t look = mr_look_of(a);
  MR_TRY(mr_graph_from_args(a, 0, &g, diag));
  int e = set_flags(a, g, diag);
  if (e >= 0) e = mr_leak_check(g, build_again, (void *)a, diag);
  look.says = false; /* after the statistics */
  if (e >= 0) e = mr_run_interruptible(g, &look, &stopped, diag);
  if (e >= 0) {
    mr_graph_report(g, stdout);
    fflush(stdout);
    print_stats(g);
    mr_explain_run(g);
  }
  mr_graph_destroy(g);
  return e < 0 ? e : stopped ? MR_EXIT_STOPPED : 0;
}

const mr_command_t mr_command_run = {
    .name = "run",
    .words = "GRAPH|FILE [KEY=VALUE...]",
    .help = "Runs a graph of stages, given as text or as a file.",
    .more =
        "\nKEY is a variable of the graph, STAGE.SETTING, or a setting that one stage has.\n"
        "Statistics of each stage, and which one limits, go to standard error at the end.",
    .flags = run_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = run_run,
};
