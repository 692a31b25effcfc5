/* Sizes that a user chooses: what a larger graph takes, counted in memory and in stack, never in
   time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

static program_t p;
static char dir[] = "/tmp/mr-growth-XXXXXX";

/* Writes a graph: `first`, n times `each`, in which %d is the number, `last`. */
static const char *long_graph(const char *first, const char *each, int n, const char *last) {
  static char path[64];
  snprintf(path, sizeof path, "%s/graph.mr", dir);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(first, f);
  for (int i = 1; i <= n; i++)
    for (const char *c = each; *c; c++)
      if (c[0] == '%' && c[1] == 'd')
        fprintf(f, "%d", i), c++;
      else
        fputc(*c, f);
  fputs(last, f);
  assert_int_equal(fclose(f), 0);
  return path;
}

/* Runs the program with that many bytes of stack for its first thread, and for the others too. */
static void run_within(size_t stack, const char *command, const char *word) {
  struct rlimit usual, small;
  assert_int_equal(getrlimit(RLIMIT_STACK, &usual), 0);
  small = (struct rlimit){stack, usual.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
  program_run(&p, (const char *const[]){command, word, NULL});
  assert_int_equal(setrlimit(RLIMIT_STACK, &usual), 0);
}

static void run_is_good(const char *what, const char *command, const char *word) {
  run_within(1 << 20, command, word);
  if (p.status) fail_msg("%s: status %d: %s", what, p.status, p.err);
}

/* Every kind of record stage, each in a chain that the walkers of graphs, fields, periods,
   positions and records go down. */
static void a_thousand_record_stages_run_within_a_mebibyte_of_stack(void **state) {
  static const struct {
    const char *what, *first, *each, *last;
    int n;
  } chains[] = {
      {"orders", "range 2000 ! shuffle seed=1", " ! repeat 1", " ! batch 256 ! null\n", 1000},
      {"walks", "range 200 ! shuffle seed=1", " ! window-shuffle 4 seed=1",
       " ! batch 8 ! ledger steps=2 ! null\n", 200},
      {"filters", "range 2000 ! shuffle seed=1", " ! filter label=0,1,2,3,4,5,6,7,8,9",
       " ! batch 256 ! null\n", 1000},
  };
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    run_is_good(chains[i].what, "run",
                long_graph(chains[i].first, chains[i].each, chains[i].n, chains[i].last));
  char path[64];
  snprintf(path, sizeof path, "%s/joins.mr", dir);
  for (int concatenates = 0; concatenates < 2; concatenates++) {
    const char *stage = concatenates ? "concatenate" : "mix weights=1,1";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("range 20 name=r0 ! m1.a\n", f);
    for (int k = 1; k <= 500; k++)
      fprintf(f, "range 20 name=r%d ! m%d.b\n%s name=m%d ! m%d.a\n", k, k, stage, k, k + 1);
    fputs("range 20 name=r501 ! m501.b\n", f);
    fprintf(f, "%s name=m501 ! shuffle seed=1 ! batch 8 ! ledger steps=20 ! null\n", stage);
    assert_int_equal(fclose(f), 0);
    run_is_good(stage, "run", path);
  }
}

static void more_record_stages_than_there_may_be_are_refused(void **state) {
  run_within(1 << 20, "run",
             long_graph("range 20 ! shuffle seed=1", " ! repeat 1", 2000, " ! batch 2 ! null\n"));
  assert_int_equal(p.status, 2);
  assert_non_null(
      strstr(p.err, "batch: more than 1024 stages of records follow one another before it"));
}

/* Functions nested up to the limit of their text's parser go through every pass. */
static void nested_functions_need_little_stack(void **state) {
  enum { DEEPEST = 199 };
  char path[64];
  static const char *const commands[] = {"jaxpr", "explain"};
  snprintf(path, sizeof path, "%s/nested.txt", dir);
  for (int more = 0; more < 2; more++) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < DEEPEST + more; i++)
      fputs("{ lambda ; a:f32[4]. let b:f32[4] = jit[jaxpr=", f);
    fputs("{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }", f);
    for (int i = 0; i < DEEPEST + more; i++) fputs(" name=f] a in (b,) }", f);
    assert_int_equal(fclose(f), 0);
    for (int i = 0; i < 2; i++) {
      run_within(1 << 20, commands[i], path);
      if (p.status != (more ? 1 : 0)) fail_msg("%s: status %d: %s", commands[i], p.status, p.err);
      if (more) assert_non_null(strstr(p.err, "functions nested less deeply"));
    }
  }
}

/* The most memory in kB that a run of a graph takes. */
static long memory_of(const char *graph) {
  struct rusage use;
  int status;
  FILE *out = tmpfile(), *err = tmpfile();
  pid_t pid = program_start((const char *const[]){"run", graph, NULL}, out, err);
  assert_true(pid > 0);
  assert_int_equal(wait4(pid, &status, 0, &use), pid);
  program_read(out, p.out, sizeof p.out);
  program_read(err, p.err, sizeof p.err);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s: %s", graph, p.err);
  return use.ru_maxrss;
}

/* Its own part of the graph, its queue and its share of the pools, and its thread's stack. */
static void a_stage_with_a_thread_takes_as_much_memory_in_a_long_chain(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  enum { STAGE_KB = 400 }; /* with what a sanitizer keeps of each thread and block */
#else
  enum { STAGE_KB = 100 };
#endif
  static const char first[] = "count n=2000 bytes=64", each[] = " ! identity name=i%d";
  long few = memory_of(long_graph(first, each, 50, " ! null\n"));
  long many = memory_of(long_graph(first, each, 250, " ! null\n"));
  if (many - few > 200 * STAGE_KB) fail_msg("%ld kB for 50 stages, %ld kB for 250", few, many);
}

/* The most that one of its processes takes, each of which settles the whole graph. */
static long memory_of_processes(int n) {
  char path[64];
  snprintf(path, sizeof path, "%s/processes.mr", dir);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("process src { count n=1 bytes=4096 name=i0 }\n", f);
  for (int i = 1; i <= n; i++) fprintf(f, "process p%d { identity name=i%d }\n", i, i);
  fputs("process end { null name=z }\n", f);
  for (int i = 1; i <= n; i++) fprintf(f, "i%d. ! i%d.\n", i - 1, i);
  fprintf(f, "i%d. ! z.\n", n);
  assert_int_equal(fclose(f), 0);
  return memory_of(path);
}

static void a_process_takes_little_memory_for_each_of_the_others(void **state) {
  enum { PROCESS_KB = 300 };
  NEEDS("ZMQ");
  long few = memory_of_processes(4), many = memory_of_processes(32);
  if (many - few > 28 * PROCESS_KB) fail_msg("%ld kB of 4 processes, %ld kB of 32", few, many);
}

/* Bytes that this process and the children it has waited for have read; -1 where the system does
   not count them. */
static long long bytes_read(void) {
  long long n = -1;
  FILE *f = fopen("/proc/self/io", "r");
  if (f && fscanf(f, "rchar: %lld", &n) != 1) n = -1;
  if (f) fclose(f);
  return n;
}

/* 100 MB of metrics: `lines` steps, a validation after 50 of each 100 and none in the last part. */
static void write_metrics(const char *run, int lines) {
  char path[96];
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  assert_int_equal(mr_make_folder(run, NULL), MR_OK);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  for (int i = 1; i <= lines; i++) {
    fprintf(f,
            "{\"kind\":\"step\",\"step\":%d,\"total_steps\":%d,\"epoch\":%d,\"loss\":%.4f,"
            "\"images_per_s\":1000,\"filled\":\"%0100d\"}\n",
            i, lines + 1, i / 100, 1.0 + i % 2, 0);
    if (i == lines - 20000) fprintf(f, "{\"kind\":\"valid\",\"step\":%d,\"accuracy\":0.5125}\n", i);
  }
  assert_int_equal(fclose(f), 0);
}

static void runs_are_shown_by_their_newest_lines(void **state) {
  enum { LINES = 500000 };
  char a[64], b[64];
  snprintf(a, sizeof a, "%s/runs/a", dir), snprintf(b, sizeof b, "%s/runs/b", dir);
  write_metrics(a, LINES), write_metrics(b, 1000);
  const char *const words[][4] = {{"runs", a, b}, {"top", a, "--once"}};
  for (int i = 0; i < 2; i++) {
    long long before = bytes_read();
    program_run(&p, words[i]);
    long long took = bytes_read() - before;
    if (p.status) fail_msg("%s: %s", words[i][0], p.err);
    assert_non_null(strstr(p.out, "500000"));
    assert_non_null(strstr(p.out, "0.51"));
    if (!i) assert_non_null(strstr(p.out, "loss at step 800"));
    if (!i) assert_non_null(strstr(p.out, "1.5000"));
    if (before >= 0 && took > 48 << 20) fail_msg("%s: %lld bytes read", words[i][0], took);
  }
}

static void records_before_a_line_of_megabytes_are_shown(void **state) {
  char run[64], path[96];
  snprintf(run, sizeof run, "%s/runs/long", dir);
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  write_metrics(run, 30);
  for (int end = 0; end < 2; end++) { /* without its newline, and with it */
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    for (int i = 0; i < 3 << 20 && !end; i++) putc('y', f);
    if (end) putc('\n', f);
    assert_int_equal(fclose(f), 0);
    program_run(&p, (const char *const[]){"top", run, "--once", NULL});
    if (p.status || !strstr(p.out, "step 30")) fail_msg("%s%s", p.err, p.out);
  }
}

static int setup(void **state) { return mkdtemp(dir) ? 0 : -1; }
static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thousand_record_stages_run_within_a_mebibyte_of_stack),
      cmocka_unit_test(more_record_stages_than_there_may_be_are_refused),
      cmocka_unit_test(nested_functions_need_little_stack),
      cmocka_unit_test(a_process_takes_little_memory_for_each_of_the_others),
      cmocka_unit_test(runs_are_shown_by_their_newest_lines),
      cmocka_unit_test(records_before_a_line_of_megabytes_are_shown),
      cmocka_unit_test(a_stage_with_a_thread_takes_as_much_memory_in_a_long_chain),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
