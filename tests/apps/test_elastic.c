/* A stream left under some hosts, workers and queues resumes under others with the same records,
   draws and bytes.  Hosts are processes of the program.

   MR_ELASTIC_PAIRS and MR_ELASTIC_KILLS make it longer (scripts/elastic.sh); MR_TEST_SEED repeats a
   run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "base/xio.h"
#include "tests/apps/program.h"

enum { HOSTS_MAX = 5, LINES_MAX = 8192, TEXT_MAX = 2048 };

/* Streams with shuffle, mix, zip, filter, prefetch, batch and rebatch, indexable, with holes and
   walked; each has a stage "batch". */
static const char *const graphs[] = {
    "synthetic n=90 ! shuffle seed=3 epochs=2 ! flip ! resized-crop scale=0.4:1 ! batch 10",
    "synthetic n=95 ! shuffle seed=3 epochs=2 ! flip ! batch 12 ! rebatch 7",
    "synthetic n=120 ! filter 0,1,2,5,8 ! shuffle seed=5 epochs=3 ! flip ! batch 7",
    "synthetic n=80 ! shuffle seed=7 epochs=2 ! flip ! mix.a "
    "synthetic n=60 split=test ! shuffle seed=8 epochs=2 ! mix.b mix name=mix weights=2,1 ! batch "
    "11",
    "synthetic n=70 ! shuffle seed=4 epochs=2 ! flip ! zip.a "
    "synthetic n=70 split=valid ! shuffle seed=9 epochs=2 ! zip.b zip name=zip ! batch 6",
    "synthetic n=120 ! shuffle seed=2 epochs=2 ! flip ! filter 1,2,3,4,7,9 ! to-iter-dataset ! "
    "mix.a "
    "synthetic n=90 split=test ! sequential epochs=1 ! to-iter-dataset ! mix.b "
    "mix weights=2,1 name=mix ! mp-prefetch 3 ! batch 8",
    "synthetic n=150 ! shuffle seed=6 epochs=1 ! flip ! to-iter-dataset ! window-shuffle 20 seed=4 "
    "! "
    "zip.a synthetic n=150 split=test ! filter p=0.9 ! to-iter-dataset ! zip.b "
    "zip name=zip ! batch 9"};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs };

typedef struct triple {
  int hosts, workers, depth;
} triple_t;

static char dir[64];
static unsigned seed;

static int draw(int lo, int hi) { return lo + rand_r(&seed) % (hi - lo + 1); }

static triple_t draw_triple(int batch) {
  int most = batch < HOSTS_MAX ? batch : HOSTS_MAX;
  return (triple_t){draw(1, most), draw(1, 4), 2 << draw(0, 3)};
}

static int batch_of(const char *graph) { return atoi(strstr(graph, "! batch ") + 8); }

/* ---- one process ---- */

static pid_t start(const char *graph, const char *phase, triple_t t, int host, int steps, int every,
                   const char *from) {
  char text[TEXT_MAX], slice[16], depth[16], workers[32], out[128];
  snprintf(text, sizeof text, "%s ! ledger path=%s/%s-%d.txt state=%s/%s-%d.json steps=%d every=%d",
           graph, dir, phase, host, dir, phase, host, steps, every);
  snprintf(workers, sizeof workers, "batch.workers=%d", t.workers);
  snprintf(slice, sizeof slice, "%d/%d", host, t.hosts);
  snprintf(depth, sizeof depth, "%d", t.depth);
  snprintf(out, sizeof out, "%s/said", dir);
  const char *fresh[] = {"run", text, workers, "--host", slice, "--depth", depth, NULL};
  const char *again[] = {"run",     text,  workers,  "--host", slice,
                         "--depth", depth, "--from", from,     NULL};
  FILE *said = fopen(out, "w");
  pid_t pid = program_start(from && *from ? again : fresh, said, said);
  fclose(said);
  assert_true(pid > 0);
  return pid;
}

static void ends_well(pid_t pid) {
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  char path[128];
  void *text = NULL;
  size_t n;
  snprintf(path, sizeof path, "%s/said", dir);
  mr_read_file(path, 1 << 16, &text, &n, NULL);
  fail_msg("status %d: %s", status, text ? (char *)text : "");
}

/* All hosts of a phase at once; host h ends after steps[h] (0: at the stream's end). */
static void run_phase(const char *graph, const char *phase, triple_t t, const int *steps,
                      const char *from) {
  pid_t pid[HOSTS_MAX];
  for (int h = 0; h < t.hosts; h++)
    pid[h] = start(graph, phase, t, h, steps ? steps[h] : 0, 1000000, from);
  for (int h = 0; h < t.hosts; h++) ends_well(pid[h]);
}

/* ---- ledgers ---- */

typedef struct lines {
  char *line[LINES_MAX];
  int n;
} lines_t;

static int by_place(const void *a, const void *b) {
  long s[2], t[2];
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  assert_int_equal(sscanf(x, "%ld %ld", &s[0], &s[1]), 2);
  assert_int_equal(sscanf(y, "%ld %ld", &t[0], &t[1]), 2);
  return s[0] != t[0] ? (s[0] < t[0] ? -1 : 1) : s[1] < t[1] ? -1 : s[1] > t[1];
}

/* Lines of steps in (after, up_to] of all hosts of a phase. */
static void gather(lines_t *all, const char *phase, int hosts, long after, long up_to) {
  for (int h = 0; h < hosts; h++) {
    char path[128], *save = NULL;
    void *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s-%d.txt", dir, phase, h);
    assert_int_equal(mr_read_file(path, 1 << 24, &text, &n, NULL), MR_OK);
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
      long step = atol(l);
      if (step <= after || step > up_to || strstr(l, " - ")) continue;
      assert_in_range(all->n, 0, LINES_MAX - 1);
      all->line[all->n++] = strdup(l);
    }
    free(text);
  }
}

static void sort(lines_t *l) { qsort(l->line, (size_t)l->n, sizeof *l->line, by_place); }

static void drop(lines_t *l) {
  for (int i = 0; i < l->n; i++) free(l->line[i]);
  l->n = 0;
}

static void expect_same(const lines_t *whole, const lines_t *got, const char *what) {
  for (int i = 0; i < whole->n && i < got->n; i++)
    if (strcmp(whole->line[i], got->line[i]))
      fail_msg("%s: \"%s\", want \"%s\"", what, got->line[i], whole->line[i]);
  if (whole->n != got->n) fail_msg("%s: %d records, want %d", what, got->n, whole->n);
}

static void empty_dir(void) {
  DIR *d = opendir(dir);
  for (struct dirent *e; (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
  closedir(d);
}

/* The uninterrupted stream of graph g, by one process with one worker; its number of steps. */
static int whole_of(int g, lines_t *out) {
  run_phase(graphs[g], "whole", (triple_t){1, 1, 4}, NULL, NULL);
  gather(out, "whole", 1, 0, LONG_MAX);
  sort(out);
  assert_in_range(out->n, 100, LINES_MAX);
  return (int)atol(out->line[out->n - 1]);
}

/* ---- pairs of triples ---- */

static void states_of(const char *phase, int hosts, char *out, size_t n) {
  size_t at = 0;
  for (int h = 0; h < hosts; h++)
    at += (size_t)snprintf(out + at, n - at, "%s%s/%s-%d.json", h ? "," : "", dir, phase, h);
}

static void one_pair(int g, const lines_t *whole, int steps) {
  static lines_t got;
  triple_t a = draw_triple(batch_of(graphs[g])), b = draw_triple(batch_of(graphs[g]));
  int stop[HOSTS_MAX] = {0}, cut = draw(1, steps - 1), first = steps;
  char from[HOSTS_MAX * 128], what[160];
  for (int h = 0; h < a.hosts; h++) {
    stop[h] = cut + draw(0, 3);
    if (stop[h] > steps - 1) stop[h] = steps - 1;
    if (stop[h] < first) first = stop[h];
  }
  run_phase(graphs[g], "a", a, stop, NULL);
  states_of("a", a.hosts, from, sizeof from);
  run_phase(graphs[g], "b", b, NULL, from);
  gather(&got, "a", a.hosts, 0, first);
  gather(&got, "b", b.hosts, first, LONG_MAX);
  sort(&got);
  snprintf(what, sizeof what, "graph %d, (%d,%d,%d) to step %d, then (%d,%d,%d)", g, a.hosts,
           a.workers, a.depth, first, b.hosts, b.workers, b.depth);
  expect_same(whole, &got, what);
  drop(&got);
}

static int number_of(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void any_triple_resumes_where_any_other_has_left(void **state) {
  int pairs = number_of("MR_ELASTIC_PAIRS", 12);
  for (int g = 0; g < N_GRAPHS; g++) {
    static lines_t whole;
    int steps = whole_of(g, &whole), n = pairs / N_GRAPHS + (g < pairs % N_GRAPHS);
    for (int k = 0; k < n; k++) one_pair(g, &whole, steps);
    drop(&whole);
    empty_dir();
  }
  print_message("%d pairs of (hosts, workers, queue depth): every ledger as the whole one\n",
                pairs);
}

/* ---- kill -9 ---- */

static void sleep_us(int us) {
  nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000L}, NULL);
}

/* Kills a run at random moments until it has been killed this many times or has ended by itself;
   returns the kills. */
static int killed_run(int g, int most, int whole_us) {
  char from[128];
  int kills = 0, status;
  snprintf(from, sizeof from, "%s/k-0.json", dir);
  for (;;) {
    triple_t t = {1, draw(1, 4), 2 << draw(0, 3)};
    pid_t pid = start(graphs[g], "k", t, 0, 0, 1, access(from, F_OK) == 0 ? from : NULL);
    if (kills < most) {
      sleep_us(draw(0, whole_us));
      kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
      assert_int_equal(WEXITSTATUS(status), 0);
      return kills;
    }
    kills++;
  }
}

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void kill_9_at_any_moment_loses_and_moves_nothing(void **state) {
  int want = number_of("MR_ELASTIC_KILLS", 12), kills = 0;
  for (int g = 0; kills < want; g = (g + 1) % N_GRAPHS) {
    static lines_t whole, got;
    whole_of(g, &whole);
    int64_t t0 = now_us();
    ends_well(start(graphs[g], "k", (triple_t){1, 1, 4}, 0, 0, 1, NULL));
    int whole_us = (int)(now_us() - t0);
    empty_dir();
    kills += killed_run(g, 8, whole_us);
    gather(&got, "k", 1, 0, LONG_MAX);
    sort(&got);
    expect_same(&whole, &got, "killed");
    drop(&whole), drop(&got);
    empty_dir();
  }
  print_message("%d kills: every ledger as the whole one\n", kills);
}

/* ---- states that are none ---- */

static void a_spoilt_state_is_refused(void **state) {
  static const char *const bad[] = {"", "{}", "[1]", "{\"step\":1,\"position\":-1,\"words\":[]}",
                                    "{\"step\":1,\"position\":7,\"words\":[],\"ledger\":\"x\"}"};
  static program_t p;
  char path[128];
  snprintf(path, sizeof path, "%s/bad.json", dir);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(mr_write_file(path, bad[i], strlen(bad[i]), NULL), MR_OK);
    RUN(&p, "run", "synthetic n=90 ! shuffle ! batch 10 ! null", "--from", path);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, "is not the state of a stream"));
  }
  RUN(&p, "run", "synthetic n=90 ! shuffle ! batch 10 ! null", "--from", "/none/there");
  assert_int_equal(p.status, 1);
  RUN(&p, "run", "count 5 ! null", "--from", path);
  assert_int_equal(p.status, 2);
}

/* Numbers that nothing asks for would be passed over in silence, and other records come. */
static void a_state_of_another_graph_is_refused(void **state) {
  static program_t p;
  char graph[256], path[128];
  snprintf(path, sizeof path, "%s/rebatched.json", dir);
  snprintf(graph, sizeof graph,
           "synthetic n=90 ! shuffle ! batch 10 ! rebatch 7 ! ledger state=%s steps=3", path);
  RUN(&p, "run", graph);
  assert_int_equal(p.status, 0);
  RUN(&p, "run", "synthetic n=90 ! shuffle ! batch 10 ! null", "--from", path);
  assert_int_equal(p.status, 2);
  assert_non_null(
      strstr(p.err, "batch: the stream was left with a state of 2 numbers, this one has 0"));
}

static int setup(void **state) {
  strcpy(dir, "/tmp/mr-elastic-XXXXXX");
  const char *given = getenv("MR_TEST_SEED");
  seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  print_message("MR_TEST_SEED=%u\n", seed);
  return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_triple_resumes_where_any_other_has_left),
      cmocka_unit_test(kill_9_at_any_moment_loses_and_moves_nothing),
      cmocka_unit_test(a_spoilt_state_is_refused),
      cmocka_unit_test(a_state_of_another_graph_is_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
