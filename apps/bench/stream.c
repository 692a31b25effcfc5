/* Measurements of the stream graph: loading, reading, the time to the first batch of a process, and
   the cost of a hop. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/bench/bench.h"
#include "apps/cli/texts.h"
#include "apps/run/interrupt.h"
#include "base/clock.h"
#include "pipeline/graph/graph.h"

/* ---- time to the first batch ---- */

enum { TRIES = 9 };

extern char **environ;

/* Starts the process with its standard streams on /dev/null. */
static int spawn_run(const char *graph, pid_t *pid) {
  char text[2048];
  posix_spawn_file_actions_t silent;
  snprintf(text, sizeof text, "%s", graph);
  char *argv[] = {"millrace", "run", text, NULL};
  posix_spawn_file_actions_init(&silent);
  for (int fd = 0; fd < 3; fd++)
    posix_spawn_file_actions_addopen(&silent, fd, "/dev/null", O_RDWR, 0);
  int e = posix_spawn(pid, "/proc/self/exe", &silent, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&silent);
  return e;
}

/* Measures the milliseconds that `millrace run GRAPH` takes as a process, from its start to its
   end: the median of nine.  GRAPH must end after one batch. */
static mr_err_t bench_first(const char *graph, double *ms, mr_diag_t *diag) {
  double took[TRIES];
  for (int i = 0; i < TRIES; i++) {
    pid_t pid;
    int status = -1;
    int64_t begin = mr_now_ns();
    int e = spawn_run(graph, &pid);
    if (e) return mr_fail(diag, MR_ERR_IO, "bench: a process cannot be started (%s)", strerror(e));
    if (waitpid(pid, &status, 0) != pid || status != 0)
      return mr_fail(diag, MR_ERR_DATA, "bench: the graph of one batch has failed: %s", graph);
    took[i] = 1e-6 * (double)(mr_now_ns() - begin);
  }
  *ms = mr_bench_median(took, TRIES);
  return MR_OK;
}

/* ---- rates ---- */

enum { SAMPLES_MAX = 512 };
static const double SAMPLE_S = 0.25, POLL_S = 0.0005;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_s(double s) {
  struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
  nanosleep(&t, NULL);
}

typedef struct stream_case {
  int64_t seconds, workers, batch;
  char source[1024]; /* graph text */
  mr_role_t role;    /* of the source: MR_ROLE_CLASSES or MR_ROLE_SYNTHETIC */
  const char *data;  /* its name */
} stream_case_t;

/* Chooses CIFAR-10 if its folder exists or --data names one, else synthetic pictures. */
static mr_err_t bench_stream_choose_data(const mr_args_t *a, stream_case_t *p, mr_diag_t *diag) {
  const char *given = mr_args_text(a, "--data");
  const char *dir = given ? given : mr_usual_data;
  struct stat st;
  if (strlen(dir) > 900 || strpbrk(dir, "\"$"))
    return mr_fail(diag, MR_ERR_USAGE,
                   "bench: --data: want a folder whose name has no quotes and no dollar signs");
  if (given || stat(dir, &st) == 0) {
    snprintf(p->source, sizeof p->source, mr_bench_source_text, dir);
    p->role = MR_ROLE_CLASSES;
  } else {
    snprintf(p->source, sizeof p->source, "%s", mr_bench_synthetic_text);
    p->role = MR_ROLE_SYNTHETIC;
  }
  p->data = mr_registry_role(mr_all_stages(), p->role)->name;
  return MR_OK;
}

static mr_err_t make_stream_case(const mr_args_t *a, stream_case_t *p, mr_diag_t *diag) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  *p = (stream_case_t){.seconds = 5, .batch = 128};
  p->workers = cores < 1 ? 1 : cores > MR_MAX_WORKERS ? MR_MAX_WORKERS : cores;
  MR_TRY(mr_args_int(a, "--seconds", 1, 3600, &p->seconds, diag));
  MR_TRY(mr_args_int(a, "--workers", 1, MR_MAX_WORKERS, &p->workers, diag));
  MR_TRY(mr_args_int(a, "--batch", 1, 65536, &p->batch, diag));
  return bench_stream_choose_data(a, p, diag);
}

static int64_t items_of(const mr_graph_t *g, const char *name) {
  mr_stats_t st = {0};
  for (int i = 0; i < mr_graph_n_stages(g); i++)
    if (!strcmp(mr_graph_stage_at(g, i)->name, name)) mr_graph_stats(g, i, &st);
  return st.items;
}

/* The stage whose buffers are counted: b, if it gives batches, else the last stage batch, else b
   all the same.  NULL without any. */
static const mr_stage_t *counted_stage(const mr_graph_t *g) {
  const mr_stage_t *b = mr_graph_stage(g, "b");
  if (b && b->out_spec[0].flow == MR_FLOW_BATCHES) return b;
  for (int i = mr_graph_n_stages(g) - 1; i >= 0; i--)
    if (mr_graph_stage_at(g, i)->def->role == MR_ROLE_BATCH) return mr_graph_stage_at(g, i);
  return b;
}

/* A moment at which a buffer has just come from a stage, and how many have by then. */
typedef struct arrival {
  double s;
  int64_t items;
} arrival_t;

/* Waits at least `seconds` and then for the next buffer, but not beyond `end`. */
static arrival_t next_arrival(const mr_graph_t *g, const char *stage, double seconds, double end) {
  sleep_s(seconds);
  arrival_t a = {now_s(), items_of(g, stage)};
  for (int64_t before = a.items; a.items == before && a.s < end;) {
    sleep_s(POLL_S);
    a = (arrival_t){now_s(), items_of(g, stage)};
  }
  return a;
}

/* The median rate of samples, after a first one that does not count.  Samples begin and end with a
   buffer: a quarter of a second holds few batches of photographs, so that counting whole ones in it
   would round the rate. */
static double sample_rate(const mr_graph_t *g, const char *stage, double seconds) {
  double sample[SAMPLES_MAX], end = now_s() + SAMPLE_S + seconds;
  double each = seconds > 120 ? seconds / SAMPLES_MAX : SAMPLE_S;
  int n = 0;
  arrival_t last = next_arrival(g, stage, SAMPLE_S, end);
  do {
    arrival_t a = next_arrival(g, stage, each, end);
    sample[n++] = (double)(a.items - last.items) / (a.s - last.s);
    last = a;
  } while (last.s < end && n < SAMPLES_MAX);
  return mr_bench_median(sample, n);
}

/* Measures the buffers per second of the stage of an endless graph that is counted; it has one. */
static mr_err_t measure_rate(const char *text, double seconds, double *rate, mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_start(g, diag);
  if (e >= 0) {
    *rate = sample_rate(g, counted_stage(g)->name, seconds);
    mr_graph_stop(g);
    e = mr_graph_join(g, diag);
  }
  mr_graph_destroy(g);
  if (e >= 0) mr_notice_reader();
  return e;
}

static mr_err_t report_rate(const stream_case_t *p, const char *text, mr_bench_t *out,
                            mr_diag_t *diag) {
  double rate;
  MR_TRY(measure_rate(text, (double)p->seconds, &rate, diag));
  out->data = p->data;
  mr_bench_add(out, "images_per_s", rate * (double)p->batch);
  mr_bench_add(out, "batches_per_s", rate);
  mr_bench_add(out, "batch", (double)p->batch);
  mr_bench_add(out, "workers", (double)p->workers);
  return MR_OK;
}

/* Reads the batch size and workers of the user's graph. */
static mr_err_t bench_stream_look_at(const char *text, stream_case_t *p, mr_diag_t *diag) {
  mr_graph_t *g = mr_graph_create(mr_all_stages());
  if (!g) return mr_no_memory(diag, "a graph");
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_settle(g, diag);
  const mr_stage_t *b = e >= 0 ? counted_stage(g) : NULL;
  if (b && b->out_spec[0].flow == MR_FLOW_BATCHES)
    p->batch = b->out_spec[0].batch, p->workers = b->n_workers;
  else if (e >= 0)
    e = mr_fail(diag, MR_ERR_USAGE, "bench: --graph: want a stage batch in it");
  mr_graph_destroy(g);
  return e;
}

static mr_err_t bench_graph(const mr_args_t *a, const char *text, mr_bench_t *out,
                            mr_diag_t *diag) {
  stream_case_t p = {.seconds = 5, .data = "graph"};
  MR_TRY(mr_args_int(a, "--seconds", 1, 3600, &p.seconds, diag));
  MR_TRY(bench_stream_look_at(text, &p, diag));
  return report_rate(&p, text, out, diag);
}

/* Adds the time from the start of a process to its end after one batch. */
static mr_err_t report_first(const stream_case_t *p, mr_bench_t *out, mr_diag_t *diag) {
  char text[2048];
  double ms = 0;
  snprintf(text, sizeof text, mr_bench_first_text, p->source, (long long)p->batch,
           (long long)p->batch);
  MR_TRY(bench_first(text, &ms, diag));
  mr_bench_add(out, "first_batch_ms", ms);
  return MR_OK;
}

mr_err_t mr_bench_loader(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  stream_case_t p;
  char text[2048];
  if (mr_args_text(a, "--graph")) return bench_graph(a, mr_args_text(a, "--graph"), out, diag);
  MR_TRY(make_stream_case(a, &p, diag));
  snprintf(text, sizeof text, mr_bench_loader_text, p.source, (long long)p.batch,
           (long long)p.workers);
  MR_TRY(report_rate(&p, text, out, diag));
  return report_first(&p, out, diag);
}

mr_err_t mr_bench_reader(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  stream_case_t p;
  char text[2048];
  MR_TRY(make_stream_case(a, &p, diag));
  if (p.role != MR_ROLE_CLASSES)
    return mr_fail(diag, MR_ERR_USAGE,
                   "bench: reader needs CIFAR-10's files: --data DIR, or millrace data fetch");
  snprintf(text, sizeof text, mr_bench_reader_text, p.source, (long long)p.batch,
           (long long)p.workers);
  return report_rate(&p, text, out, diag);
}

mr_err_t mr_bench_stage(const mr_args_t *a, mr_bench_t *out, mr_diag_t *diag) {
  enum { HOPS = 7 }; /* edges between count, six stages and null */
  double rate;
  stream_case_t p;
  MR_TRY(make_stream_case(a, &p, diag));
  MR_TRY(measure_rate(mr_bench_hops_text, (double)p.seconds, &rate, diag));
  mr_bench_add(out, "buffers_per_s", rate);
  mr_bench_add(out, "ns_per_buffer", 1e9 / rate);
  mr_bench_add(out, "ns_per_hop", 1e9 / rate / HOPS);
  mr_bench_add(out, "stages", 6);
  return MR_OK;
}
