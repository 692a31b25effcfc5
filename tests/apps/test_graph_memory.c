/* The memory that a graph announces is near what it takes, and a graph for which the machine has
   too little is refused by every program that would run it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
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
       LARGE "! train-step model=mlp hidden=2048 layers=2 steps=2 pipeline=2 ! null"},
  };
  for (size_t i = 0; i < sizeof graph / sizeof *graph; i++) {
    double program = measured_bytes(graph[i][0]) - said_bytes(graph[i][0]);
    double said = said_bytes(graph[i][1]), took = measured_bytes(graph[i][1]) - program;
    printf("%s: said %.1f MB, took %.1f MB\n", graph[i][1], said / 1e6, took / 1e6);
    if (took > 1.6 * said || said > 1.6 * took)
      fail_msg("%s: said %.1f MB, took %.1f MB", graph[i][1], said / 1e6, took / 1e6);
  }
}

/* More than any machine has. */
static const char *too_large(void) {
  static char text[8192];
  int at = snprintf(text, sizeof text, "range 1000000000 ! to-iter-dataset");
  for (int i = 0; i < 100; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, " ! window-shuffle 1000000000 seed=%d", i);
  snprintf(text + at, sizeof text - (size_t)at, " ! batch 8 ! null");
  return text;
}

static void a_graph_that_needs_more_memory_than_any_machine_has_is_refused(void **state) {
  static const char *const words[][4] = {{"run"}, {"batch"}, {"graph", "--memory"}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *said[8];
    int n = 0;
    for (int k = 0; k < 4 && words[i][k] && *words[i][k] != '-'; k++) said[n++] = words[i][k];
    said[n++] = too_large();
    if (!strcmp(words[i][0], "batch")) said[n++] = "--step", said[n++] = "1";
    if (!strcmp(words[i][0], "graph")) said[n++] = "--memory";
    said[n] = NULL;
    program_run(&p, said);
    if (!p.status || !strstr(p.err, "that the stages of the graph keep, and there are") ||
        !strstr(p.err, "window-shuffle") || !strstr(p.err, "smaller window-size"))
      fail_msg("%s: %d %s", words[i][0], p.status, p.err);
  }
  if (!strstr(p.out, "all stages")) fail_msg("%s", p.out); /* graph shows the table all the same */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_memory_that_a_graph_announces_is_near_the_memory_that_it_takes),
      cmocka_unit_test(a_graph_that_needs_more_memory_than_any_machine_has_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
