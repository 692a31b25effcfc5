/* millrace graph: prints the settled graph as DOT, or has Graphviz's dot draw it.  The picture is
   written into a new file that replaces the old one only if dot succeeds. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/cli/cli.h"
#include "apps/run/graph_arg.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/xio.h"
#include "pipeline/run/memory.h"

extern char **environ;

static const mr_flag_t graph_flags[] = {
    {"--svg", "FILE", "Writes a picture instead, drawn by Graphviz's dot."},
    {"--memory", NULL,
     "Prints what each stage will take of memory at most, and fails if the machine has less."},
    {0}};

/* Runs dot on the DOT file with its output on the descriptor svg_fd. */
static mr_err_t call_dot(const char *dot, const char *svg, int svg_fd, mr_diag_t *diag) {
  char *argv[] = {"dot", "-Tsvg", (char *)dot, NULL};
  pid_t pid;
  posix_spawn_file_actions_t fa;
  if (posix_spawn_file_actions_init(&fa)) return mr_no_memory(diag, "the drawing of a graph");
  int status, e = posix_spawn_file_actions_adddup2(&fa, svg_fd, STDOUT_FILENO);
  if (!e) e = posix_spawnp(&pid, "dot", &fa, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&fa);
  if (e == ENOENT)
    return mr_fail(
        diag, MR_ERR_UNAVAILABLE,
        "--svg: the program dot is missing; install Graphviz (apt-get install graphviz)");
  if (e) return mr_fail(diag, MR_ERR_UNAVAILABLE, "--svg: cannot start dot: %s", strerror(e));
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return mr_fail(diag, MR_ERR_IO, "--svg: cannot wait for dot: %s", strerror(errno));
  if (status != 0) return mr_fail(diag, MR_ERR_IO, "%s: dot failed, status %d", svg, status);
  return MR_OK;
}

static mr_err_t write_svg(const char *text, size_t n, const char *svg, mr_diag_t *diag) {
  char dot[MR_PATH_MAX];
  mr_newfile_t f;
  if (strlen(svg) > sizeof dot - 64)
    return mr_fail(diag, MR_ERR_USAGE, "--svg: the name is too long");
  snprintf(dot, sizeof dot, "%s.dot-%ld", svg, (long)getpid());
  MR_TRY(mr_write_file(dot, text, n, diag));
  mr_err_t e = mr_newfile_open(&f, svg, diag);
  if (e >= 0) {
    e = call_dot(dot, svg, f.fd, diag);
    if (e >= 0)
      e = mr_newfile_commit(&f, diag);
    else
      mr_newfile_drop(&f);
  }
  unlink(dot);
  return e;
}

static const char *bytes_cell(size_t bytes, char text[24]) {
  return bytes ? mr_bytes_text(bytes, text) : "-";
}

static void print_memory(const mr_stage_memory_t *row, int n, size_t total) {
  static const char format[] = "%-20s %8s %12s %12s %12s %12s %12s %12s\n";
  mr_stage_memory_t sum = {0};
  char cell[6][24], threads[12];
  printf(format, "stage", "threads", "buffers", "queues", "records", "stacks", "own", "all");
  for (int i = 0; i <= n; i++) {
    const mr_stage_memory_t *r = i < n ? &row[i] : &sum;
    snprintf(threads, sizeof threads, "%d", r->workers);
    printf(format, i < n ? r->stage : "all stages", r->workers ? threads : "-",
           bytes_cell(r->buffers, cell[0]), bytes_cell(r->queues, cell[1]),
           bytes_cell(r->records, cell[2]), bytes_cell(r->threads, cell[3]),
           bytes_cell(r->own, cell[4]), bytes_cell(i < n ? r->all : total, cell[5]));
    sum.workers += r->workers, sum.buffers += r->buffers, sum.queues += r->queues;
    sum.records += r->records, sum.threads += r->threads, sum.own += r->own;
  }
}

static mr_err_t show_memory(mr_graph_t *g, mr_diag_t *diag) {
  int n = mr_graph_n_stages(g);
  mr_stage_memory_t *row = calloc((size_t)n + 1, sizeof *row);
  size_t total, peak, program = mr_process_memory(&peak);
  char room[24], itself[24];
  if (!row) return mr_no_memory(diag, "the sum of a graph");
  mr_err_t e = mr_graph_memory(g, true, row, &total, diag);
  if (e >= 0) print_memory(row, n, total);
  if (e >= 0)
    printf("the program itself has %s beside them; the machine or its control group has %s\n",
           mr_bytes_text(program, itself), mr_bytes_text(mr_machine_memory(), room));
  if (e >= 0) e = mr_graph_memory_check(g, row, diag);
  free(row);
  return e;
}

static int graph_run(const mr_args_t *a, mr_diag_t *diag) {
  mr_graph_t *g;
  bool memory = mr_args_text(a, "--memory") != NULL;
  const char *svg = mr_args_text(a, "--svg");
  MR_TRY(mr_graph_from_args(a, 0, &g, diag));
  int e = mr_graph_settle(g, diag);
  if (e >= 0 && memory) e = show_memory(g, diag);
  if (e >= 0 && !svg && !memory && mr_graph_dot(g, stdout) < 0)
    e = mr_no_memory(diag, "the text of a graph");
  if (e >= 0 && svg && !memory) {
    mr_text_out_t out;
    size_t n;
    FILE *f = mr_text_out_open(&out);
    bool whole = f && mr_graph_dot(g, f) >= 0;
    char *text = mr_text_out_close(&out, f, &n);
    e = text && whole ? write_svg(text, n, svg, diag)
                      : mr_no_memory(diag, "the drawing of a graph");
    free(text);
  }
  mr_graph_destroy(g);
  return e < 0 ? e : 0;
}

static const mr_hint_t graph_words[] = {{"dot plot show", "graph", NULL}, {0}};

const mr_command_t mr_command_graph = {
    .name = "graph",
    .hint = graph_words,
    .words = "GRAPH|FILE [NAME=VALUE...]",
    .help = "Prints a graph with the specs of its edges in Graphviz's DOT language.",
    .more =
        "\n"
        "Opens no file or device of the graph, except the headers of .npy files "
        "and the indexes of shards.",
    .flags = graph_flags,
    .min_words = 1,
    .max_words = MR_WORDS_MAX,
    .run = graph_run,
};
