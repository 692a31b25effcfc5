/* The memory that a graph announces is near what it takes, and a graph for which the machine has
   too little is refused by every program that would run it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/apps/program.h"

static program_t p;

/* The bytes of a cell such as "76.0 MB". */
static double cell_bytes(const char *text) {
  char *unit;
  double v = strtod(text, &unit);
  static const char prefix[] = "KMGT";
  double times = 1;
  while (*unit == ' ') unit++;
  for (const char *c = prefix; *c; c++) {
    times *= 1024;
    if (*unit == *c) return v * times;
  }
  return v;
}

/* What the last column of the table has for all stages. */
static double said_bytes(const char *graph) {
  program_run(&p, (const char *const[]){"graph", graph, "--memory", NULL});
  if (p.status) fail_msg("%s: %d %s", graph, p.status, p.err);
  const char *line = strstr(p.out, "\nall stages ");
  assert_non_null(line);
  const char *end = strchr(line + 1, '\n'), *at = end;
  while (at > line && at[-1] != ' ') at--; /* the unit */
  while (at > line && at[-1] == ' ') at--;
  while (at > line && at[-1] != ' ') at--; /* the number, or both */
  return cell_bytes(at);
}

/* The most that the program has had of memory. */
static double measured_bytes(const char *graph) {
  FILE *out = tmpfile(), *err = tmpfile();
  struct rusage use;
  int status;
  pid_t pid = program_start((const char *const[]){"run", graph, NULL}, out, err);
  assert_true(pid > 0);
  assert_int_equal(wait4(pid, &status, 0, &use), pid);
  fclose(out), fclose(err);
  if (status) fail_msg("%s: status %d", graph, status);
  return (double)use.ru_maxrss * 1024;
}

#define SMALL "synthetic n=8 ! shuffle ! normalize ! batch 8 "
#define LARGE "synthetic n=128 ! shuffle seed=1 ! normalize ! batch 64 "

static void the_memory_that_a_graph_announces_is_near_the_memory_that_it_takes(void **state) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  skip(); /* their shadow memory is several times what the graph takes */
#endif
  /* What the program itself and its libraries take shows in the least graph of the same kind. */
  static const char *const graph[][2] = {
      {"range 10 ! batch 1 ! null",
       "range 2000000 ! to-iter-dataset ! window-shuffle 2000000 seed=1 ! batch 4096 ! null"},
      {"range 10 ! batch 1 ! null", "synthetic n=16000 ! shuffle ! batch 64 ! null"},
      /* Parameters are more than all else; each rank that is a thread has its own. */
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! train-step model=mlp hidden=2048 layers=2 steps=2 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null", LARGE
       "! shard-to-device mesh=data=4 ! train-step model=mlp hidden=2048 layers=2 steps=2 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=4 ! train-step model=mlp hidden=2048 layers=2 steps=2 "
             "zero=1 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=2,model=2 ! train-step model=mlp hidden=2048 layers=2 "
             "steps=2 partition=\"*.kernel=(None,model)\" ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=2,model=2 ! train-step model=mlp hidden=2048 layers=2 "
             "steps=2 partition=\"*.kernel=(None,model)\" zero=1 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=4,model=2 ! train-step model=mlp hidden=2048 layers=2 "
             "steps=2 partition=\"*.kernel=(None,model)\" zero=2 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=2,model=2 ! train-step model=mlp hidden=2048 layers=2 "
             "steps=2 partition=\"*.kernel=(None,model)\" zero=3 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! shard-to-device mesh=data=2,model=2 ! train-step model=mlp hidden=2048 layers=2 "
             "steps=2 partition=\"*.kernel=(None,model)\" pipeline=2 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! train-step model=mlp hidden=2048 layers=2 steps=2 pipeline=2 ! null"},
      /* What products borrow, and the graph of many equations while it is compiled. */
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       LARGE "! train-step model=vit layers=4 steps=1 ! null"},
      {SMALL "! train-step model=mlp hidden=8 steps=1 ! null",
       SMALL "! train-step model=vit layers=32 embed=32 heads=2 mlp=64 steps=1 ! null"},
  };
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
    double program = measured_bytes(graph[i][0]) - said_bytes(graph[i][0]);
    double said = said_bytes(graph[i][1]), took = measured_bytes(graph[i][1]) - program;
    printf("%s: said %.1f MB, took %.1f MB\n", graph[i][1], said / 1e6, took / 1e6);
    if (took > 1.05 * said + 8e6 || said > 1.6 * took)
      fail_msg("%s: said %.1f MB, took %.1f MB", graph[i][1], said / 1e6, took / 1e6);
  }
}

/* From `source` on, stages that keep more than any machine has. */
static const char *too_large(const char *source, const char *end) {
  static char text[8192];
  int at = snprintf(text, sizeof text, "%s ! to-iter-dataset", source);
  for (int i = 0; i < 100; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, " ! window-shuffle 1000000000 seed=%d", i);
  snprintf(text + at, sizeof text - (size_t)at, " ! %s", end);
  return text;
}

static void is_refused(const char *const *words) {
  program_run(&p, words);
  if (!p.status || !strstr(p.err, "that the stages of the graph keep, and there are") ||
      !strstr(p.err, "window-shuffle") || !strstr(p.err, "smaller window-size"))
    fail_msg("%s: %d %s", words[0], p.status, p.err);
}

static void a_graph_that_needs_more_memory_than_any_machine_has_is_refused(void **state) {
  const char *graph = too_large("range 1000000000 epochs=0", "batch 8 ! null");
  is_refused((const char *const[]){"run", graph, NULL});
  is_refused((const char *const[]){"batch", graph, "--step", "1", NULL});
  is_refused((const char *const[]){"bench", "loader", "--graph", graph, NULL});
  is_refused((const char *const[]){"graph", graph, "--memory", NULL});
  if (!strstr(p.out, "all stages")) fail_msg("%s", p.out); /* graph shows the table all the same */
}

static const char *own_address(void) {
  static char text[64];
  snprintf(text, sizeof text, "ipc://@mr-memory-%d", (int)getpid());
  return text;
}

static bool has_links(void) {
  program_run(&p, (const char *const[]){"inspect", "source", NULL});
  return !strstr(p.out, "Not built in") && !strstr(p.err, "Not built in");
}

/* Its address is taken before the graph starts. */
static void a_server_of_such_a_graph_refuses_it(void **state) {
  if (!has_links()) skip();
  const char *graph = too_large("range 1000000000", "batch 8 ! null");
  is_refused((const char *const[]){"serve", graph, "--bind", own_address(), NULL});
}

static void training_on_such_a_graph_is_refused(void **state) {
  char dir[] = "/tmp/mr_graph_memory_XXXXXX", file[64], run[64];
  assert_non_null(mkdtemp(dir));
  snprintf(file, sizeof file, "%s/graph.mr", dir), snprintf(run, sizeof run, "%s/run", dir);
  FILE *f = fopen(file, "w");
  assert_non_null(f);
  fputs(too_large("synthetic n=1000000000",
                  "normalize ! batch 8 name=batch ! train-step model=mlp steps=1 ! null"),
        f);
  assert_int_equal(fclose(f), 0);
  is_refused((const char *const[]){"train", "--graph", file, "--run-dir", run, NULL});
  assert_int_equal(program_forget(dir), 0);
}

/* ---- a control group that has less than the machine ---- */

enum { GROUP_BYTES = 80 << 20 };

/* Makes a group of GROUP_BYTES in that of this process, version 1 or 2; false where that is not
   allowed. */
static bool group_make(char dir[512]) {
  static const char *const form[][2] = {
      {"/sys/fs/cgroup/memory%s/mr_test_%d", "memory.limit_in_bytes"},
      {"/sys/fs/cgroup%s/mr_test_%d", "memory.max"}};
  char line[512], file[640];
  FILE *own = fopen("/proc/self/cgroup", "r");
  bool made = false;
  while (own && !made && fgets(line, sizeof line, own)) {
    line[strcspn(line, "\n")] = 0;
    const char *at = strchr(line, ':'), *path = at ? strchr(at + 1, ':') : NULL;
    bool first = at && !strncmp(at, ":memory:", 8);
    if (!path || !(first || !strncmp(line, "0::", 3))) continue;
    const char *const *of = form[!first];
    snprintf(dir, 512, of[0], strcmp(path + 1, "/") ? path + 1 : "", (int)getpid());
    if (mkdir(dir, 0755)) continue;
    snprintf(file, sizeof file, "%s/%s", dir, of[1]);
    FILE *f = fopen(file, "w");
    made = f && fprintf(f, "%d", GROUP_BYTES) > 0;
    if (f) made &= fclose(f) == 0;
    if (!made) rmdir(dir);
  }
  if (own) fclose(own);
  return made;
}

/* Runs the program with these words in the group. */
static void run_in_group(const char *dir, const char *words) {
  char line[2048];
  FILE *out;
  snprintf(line, sizeof line, "echo $$ > %s/cgroup.procs && exec %s %s 2>&1", dir, MR_PROGRAM,
           words);
  assert_non_null(out = popen(line, "r"));
  size_t n = fread(line, 1, sizeof line - 1, out);
  line[n] = 0;
  int status = pclose(out);
  if (!WIFEXITED(status) || !WEXITSTATUS(status) || !strstr(line, "and there are 80.0 MiB") ||
      !strstr(line, "synthetic: keeps 87.9 MiB"))
    fail_msg("%s: %d %s", words, status, line);
}

static void a_graph_that_needs_more_than_its_control_group_has_is_refused(void **state) {
  static const char *const words[] = {
      "run 'synthetic n=30000 ! batch 8 ! null'",
      "batch 'synthetic n=30000 ! batch 8 ! null' --step 2",
      "bench loader --graph 'synthetic n=30000 ! shuffle epochs=0 ! batch 8 ! null'",
      "serve 'synthetic n=30000 ! batch 8 ! null' --bind ipc://@mr-memory-$$"};
  char dir[512];
  if (!group_make(dir)) skip();
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (i < 3 || has_links()) run_in_group(dir, words[i]);
  assert_int_equal(rmdir(dir), 0);
}

/* ---- a checkpoint that is larger than the group ---- */

enum { FILE_MB = 126, PARAMETERS_MB = 42 };

/* Trains a step of a model whose checkpoint has its parameters and two slots for each. */
static void train_large(const char *dir, char run[64]) {
  char graph[64];
  snprintf(graph, sizeof graph, "%s/graph.mr", dir), snprintf(run, 64, "%s/run", dir);
  FILE *f = fopen(graph, "w");
  assert_non_null(f);
  fprintf(f,
          "synthetic n=8 ! normalize ! batch 4 name=batches ! train-step model=mlp hidden=2048 "
          "layers=2 steps=1 name=train\ntrain.metrics ! null\n"
          "train.state ! checkpoint dir=%s/checkpoints\n",
          run);
  assert_int_equal(fclose(f), 0);
  program_run(&p, (const char *const[]){"train", "--graph", graph, "--run-dir", run, NULL});
  if (p.status) fail_msg("%d %s", p.status, p.err);
}

/* What `graph --memory` says of the graph with these words, in MB. */
static double said_mb(const char *checkpoint, const char *stage) {
  char graph[512];
  snprintf(graph, sizeof graph, "synthetic n=8 ! normalize ! batch 4 ! %s checkpoint=%s ! null",
           stage, checkpoint);
  return said_bytes(graph) / 1e6;
}

static void a_checkpoint_that_is_larger_than_the_memory_is_refused(void **state) {
  char dir[] = "/tmp/mr_graph_memory_XXXXXX", run[64], file[96], line[1024], group[512];
  assert_non_null(mkdtemp(dir));
  train_large(dir, run);
  snprintf(file, sizeof file, "%s/checkpoints/latest", run);
  for (int k = 0; k < 2; k++) {
    double mb = said_mb(file, k ? "predict" : "eval-step");
    if (mb < FILE_MB + PARAMETERS_MB || mb > 1.6 * (FILE_MB + PARAMETERS_MB))
      fail_msg("%s: %.1f MB", k ? "predict" : "eval-step", mb);
  }
  if (group_make(group)) {
    static const char *const words[] = {"eval %s", "predict %s --out %s/rows.jsonl x",
                                        "inspect %s/checkpoints/latest"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      char command[256];
      snprintf(command, sizeof command, words[i], run, run);
      snprintf(line, sizeof line, "echo $$ > %s/cgroup.procs && exec %s %s 2>&1", group, MR_PROGRAM,
               command);
      FILE *out = popen(line, "r");
      assert_non_null(out);
      size_t n = fread(line, 1, sizeof line - 1, out);
      line[n] = 0;
      int status = pclose(out);
      if (!WIFEXITED(status) || !WEXITSTATUS(status) || !strstr(line, "are read as a whole"))
        fail_msg("%s: %d %s", command, status, line);
    }
    assert_int_equal(rmdir(group), 0);
  }
  assert_int_equal(program_forget(dir), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_memory_that_a_graph_announces_is_near_the_memory_that_it_takes),
      cmocka_unit_test(a_graph_that_needs_more_memory_than_any_machine_has_is_refused),
      cmocka_unit_test(a_server_of_such_a_graph_refuses_it),
      cmocka_unit_test(training_on_such_a_graph_is_refused),
      cmocka_unit_test(a_graph_that_needs_more_than_its_control_group_has_is_refused),
      cmocka_unit_test(a_checkpoint_that_is_larger_than_the_memory_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
