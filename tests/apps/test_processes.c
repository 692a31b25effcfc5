/* Graphs of several processes: what dies is started again and nothing of the run changes; none is
   left behind.  scripts/links.sh kills a hundred times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "pipeline/graph/process.h"
#include "tests/apps/http.h"
#include "tests/apps/processes.h"
#include "tests/needs.h"

#ifndef MR_FAULTS
#define MR_FAULTS "" /* a sanitizer allows no preloaded library */
#endif

static const char training[] =
    "process reader restart=100 {\n"
    "  synthetic n=320 ! shuffle seed=1 epochs=4 ! flip ! normalize ! batch 16 name=batches\n"
    "  synthetic n=64 split=valid ! sequential epochs=0 ! normalize ! batch 32 name=held\n}\n"
    "process trainer restart=100 {\n"
    "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=5\n"
    "  train.state ! checkpoint dir=$out.d\n}\n"
    "batches. ! train.   held. ! train.valid\n";

static const char lines[] =
    "process reader restart=100 {\n"
    "  synthetic n=2000 ! shuffle seed=1 epochs=1 ! flip ! batch 16 name=batches workers=2\n}\n"
    "process between restart=100 { delay 2000 asleep name=delay }\n"
    "process writer restart=100 { ledger path=$out.txt state=$out.json every=5 name=lines }\n"
    "batches. ! delay.   delay. ! lines.\n";

static void a_run_whose_processes_are_killed_is_the_same(void **state) {
  static const char *const trained[] = {"--process=reader", "--process=trainer", NULL};
  char calm[TEXT_MAX], shaken[TEXT_MAX], a[24], b[24];
  write_graph("calm", training, calm);
  write_graph("shaken", training, shaken);
  running_t quiet = start((const char *const[]){"run", calm, NULL});
  finish(&quiet);
  if (quiet.p->status) fail_msg("%s", quiet.p->err);
  running_t r = start((const char *const[]){"run", shaken, NULL});
  int done = disturb(&r, shaken, trained);
  finish(&r);
  if (r.p->status) fail_msg("after %d kills: %s", done, r.p->err);
  assert_true(done > 0);
  ledger_line(quiet.p->out, "train: ", a);
  ledger_line(r.p->out, "train: ", b);
  assert_string_equal(a, b);
  char *x = file_of("calm", ".d/step-000080.safetensors");
  char *y = file_of("shaken", ".d/step-000080.safetensors");
  assert_memory_equal(x, y, 4000);
  free(x), free(y), free(quiet.p), free(r.p);
}

static void lines_come_once_and_in_order_through_a_process_between(void **state) {
  static const char *const all[] = {"--process=between", "--process=reader", "--process=writer",
                                    NULL};
  char calm[TEXT_MAX], shaken[TEXT_MAX];
  write_graph("a", lines, calm);
  write_graph("b", lines, shaken);
  running_t quiet = start((const char *const[]){"run", calm, NULL});
  finish(&quiet);
  if (quiet.p->status) fail_msg("%s", quiet.p->err);
  running_t r = start((const char *const[]){"run", shaken, NULL});
  assert_true(disturb(&r, shaken, all) > 0);
  finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  char *x = file_of("a", ".txt"), *y = file_of("b", ".txt");
  assert_string_equal(x, y);
  free(x), free(y), free(quiet.p), free(r.p);
}

static const char slowly[] =
    "process reader { synthetic n=640 ! shuffle seed=1 epochs=4 ! normalize ! batch 16 "
    "name=batches }\n"
    "process between { delay 0 asleep name=delay }\n"
    "process trainer {\n"
    "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=40\n"
    "  train.metrics ! telemetry every=0 ! jsonl path=$out.jsonl\n"
    "  train.state ! checkpoint dir=$out.d keep=0\n}\n"
    "batches. ! delay.   delay. ! train.\n";

static long last_step(const char *name) {
  char *text = file_of(name, ".jsonl");
  long step = 0;
  for (const char *at = text; (at = strstr(at, "\"kind\":\"step\",\"step\":")); at++)
    sscanf(at, "\"kind\":\"step\",\"step\":%ld", &step);
  free(text);
  return step;
}

/* The step of the first record that reports a checkpoint as committed; 0: no such record yet. */
static long committed_at(const char *name) {
  char *text = file_of(name, ".jsonl"), *at = strstr(text, ",\"committed\":40}"), *line = at;
  long step = 0;
  while (line && line > text && line[-1] != '\n') line--;
  if (line) sscanf(line, "{\"kind\":\"step\",\"step\":%ld", &step);
  free(text);
  return step;
}

/* Between two checkpoints, and where the sending end has heard that the first one is written: it
   sends no more than a window of 8 beyond what it has heard to be released, which comes with what
   is committed.  False: the moment was missed. */
static bool kill_behind_the_first_checkpoint(const running_t *r, const char *name,
                                             const char *path) {
  char file[TEXT_MAX];
  pid_t pid[16];
  snprintf(file, sizeof file, "%s/%s.jsonl", dir, name);
  while (access(file, F_OK) && runs(r)) usleep(1000);
  long from = 0;
  while (runs(r) && !(from = committed_at(name))) usleep(1000);
  while (runs(r) && last_step(name) < from + 17) usleep(1000);
  if (find("--process=trainer", path, pid) != 1) return false;
  kill(pid[0], SIGKILL);
  while (!kill(pid[0], 0)) usleep(100); /* it writes nothing any more */
  snprintf(file, sizeof file, "%s/%s.d/step-000080.safetensors", dir, name);
  return access(file, F_OK) != 0;
}

/* What a sending process says of the return: in every process before it the same number. */
static void resumes_from_what_was_committed(const char *err, const char *stage) {
  char begin[64];
  long long from, released, committed, made;
  snprintf(begin, sizeof begin, "%s: the peer continues", stage);
  const char *at = strstr(err, begin);
  if (!at) fail_msg("%s says nothing: %s", stage, err);
  int n =
      sscanf(at + strlen(begin),
             " at buffer %lld; %lld were released and %lld committed, and %lld are produced again",
             &from, &released, &committed, &made);
  if (n != 4) fail_msg("%s", at);
  assert_int_equal(committed, 40);
  assert_int_equal(from, committed);
  assert_true(released > committed && made >= released - committed);
}

/* Records tell both numbers of the link, as they were: what is committed goes by checkpoints. */
static void tells_the_link_live(const char *name, const char *stage) {
  char *text = file_of(name, ".jsonl"), key[64];
  long long released = 0, committed = 0, n = 0;
  snprintf(key, sizeof key, "\"%s\":{", stage);
  for (const char *at = text; (at = strstr(at, key)); at++, n++) {
    const char *numbers = strstr(at, ",\"released\":");
    if (!numbers ||
        sscanf(numbers, ",\"released\":%lld,\"committed\":%lld}", &released, &committed) != 2)
      fail_msg("%.200s", at);
    if (committed % 40 || committed > released || released > 160) fail_msg("%.200s", at);
  }
  assert_true(n > 0);
  assert_true(committed >= 40); /* at the end: a step after a checkpoint waits for it */
  free(text);
}

static void after_a_death_between_two_checkpoints_the_committed_ones_do_not_come_again(
    void **state) {
  char calm[TEXT_MAX], shaken[TEXT_MAX], a[24], b[24];
  write_graph("slow", slowly, calm);
  running_t quiet = start((const char *const[]){"run", calm, NULL}), r;
  finish(&quiet);
  if (quiet.p->status) fail_msg("%s", quiet.p->err);
  bool killed = false;
  for (int us = 5000; !killed && us < 1000000; us *= 4) { /* slower, until the moment is met */
    char name[32], delay[32];
    snprintf(name, sizeof name, "dies-%d", us);
    snprintf(delay, sizeof delay, "delay.us=%d", us);
    write_graph(name, slowly, shaken);
    r = start((const char *const[]){"run", shaken, delay, NULL});
    killed = kill_behind_the_first_checkpoint(&r, name, shaken);
    finish(&r);
    if (killed) tells_the_link_live(name, "from-delay");
    if (!killed) free(r.p);
  }
  assert_true(killed);
  if (r.p->status) fail_msg("%s", r.p->err);
  resumes_from_what_was_committed(r.p->err, "to-train");
  resumes_from_what_was_committed(r.p->err, "to-delay");
  ledger_line(quiet.p->out, "train: ", a);
  ledger_line(r.p->out, "train: ", b);
  assert_string_equal(a, b);
  assert_non_null(strstr(r.p->out, "released up to 160, committed up to 160"));
  tells_the_link_live("slow", "from-delay");
  free(quiet.p), free(r.p);
}

static const char uneven[] =
    "let making = 0\nlet using = 0\n"
    "process reader { synthetic n=640 ! shuffle seed=1 ! batch 16 ! delay $making asleep name=made "
    "}\n"
    "process writer { delay $using asleep name=used ! null }\n"
    "made. ! used.\n";

/* Which waits are the longer ones is decided here by sleeps, and by what else runs on the machine
   where these are short: they grow until they decide it. */
static void says_of_a_delay(const char *path, const char *setting, const char *const *sentence) {
  program_t *p = calloc(1, sizeof *p);
  char delay[48];
  int missing = -1;
  for (int us = 20000; missing && us < 2000000; us *= 4) {
    snprintf(delay, sizeof delay, "%s=%d", setting, us);
    RUN(p, "run", path, delay);
    if (p->status) fail_msg("%s", p->err);
    missing = 0;
    for (int i = 0; sentence[i]; i++) missing += strstr(p->err, sentence[i]) == NULL;
  }
  if (missing) fail_msg("%s", p->err);
  free(p);
}

static void a_process_that_waits_for_another_says_that_this_one_limits(void **state) {
  static const char *const uses[] = {"\nlimited by the process writer: to-used waits ",
                                     " % of the time for room there; of the stages here ",
                                     "\nused limits: used works ", NULL};
  static const char *const makes[] = {"\nlimited by the process reader: from-made waits ",
                                      " % of the time for buffers from there; of the stages here ",
                                      "\nmade limits: made works ", NULL};
  char path[TEXT_MAX];
  write_graph("uneven", uneven, path);
  says_of_a_delay(path, "using", uses);
  says_of_a_delay(path, "making", makes);
}

static const char judged[] =
    "process reader {\n"
    "  synthetic n=64 ! shuffle seed=1 epochs=2 ! normalize ! batch 32 drop-remainder "
    "name=batches\n"
    "  synthetic n=100 split=valid ! sequential epochs=0 ! normalize ! batch 64 name=held\n}\n"
    "process trainer {\n"
    "  vit-step name=train embed=16 mlp=16 heads=2 layers=1 patch=8 leak-check=off\n"
    "  train.metrics ! jsonl path=$out.jsonl\n}\n"
    "batches. ! train.   held. ! train.valid\n";

/* The parts of a run's records of validation that do not tell the time. */
static void judgements(const char *name, char *text, size_t n) {
  char *all = file_of(name, ".jsonl");
  size_t used = 0;
  text[0] = 0;
  for (const char *at = all; (at = strstr(at, "\"kind\":\"valid\"")); at++) {
    const char *from = strstr(at, "\"loss\":"), *to = from ? strstr(from, "]]") : NULL;
    if (!to) fail_msg("%.300s", at);
    used += (size_t)snprintf(text + used, n - used, "%.*s\n", (int)(to - from), from);
  }
  free(all);
}

/* 100 records in batches of 64: the second one is short, and lies in memory of the reader's, which
   the trainer can only read. */
static void a_short_batch_of_a_link_is_judged_as_in_one_process(void **state) {
  char path[TEXT_MAX], alone[TEXT_MAX], linked[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  write_graph("judged-alone", judged, path);
  RUN(p, "train", "--graph", path, "--run-dir", dir);
  if (p->status) fail_msg("%s", p->err);
  write_graph("judged", judged, path);
  RUN(p, "run", path);
  if (p->status) fail_msg("%s", p->err);
  judgements("judged-alone", alone, sizeof alone);
  judgements("judged", linked, sizeof linked);
  assert_non_null(strstr(alone, "\"records\":100"));
  assert_string_equal(alone, linked);
  free(p);
}

/* The trainer continues after its last buffer, while no peer hears from it. */
static const char late[] =
    "process reader { synthetic n=32 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 "
    "name=batches }\n"
    "process between { delay 0 asleep name=delay }\n"
    "process trainer {\n"
    "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8\n"
    "  train.metrics ! telemetry every=0 ! alert disk=1e18 command='sleep 3'\n}\n"
    "batches. ! delay.   delay. ! train.\n";

static void those_before_one_that_has_ended_end_too(void **state) {
  char path[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  write_graph("late", late, path);
  RUN(p, "run", path);
  if (p->status) fail_msg("%s", p->err);
  assert_non_null(strstr(p->out, "train: 2 steps"));
  free(p);
}

static const char shown[] =
    "process reader { synthetic n=160 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 "
    "name=batches }\n"
    "process trainer {\n"
    "  vit-step name=train embed=16 mlp=32 heads=2 layers=1 patch=8 checkpoint-every=4\n"
    "  train.state ! checkpoint dir=$out.d\n"
    "  train.metrics ! progress\n}\n"
    "batches. ! train.\n";

static void a_resume_of_several_processes_says_once_what_it_cannot_show(void **state) {
  static const char sentence[] = "keeps which steps were reported";
  char path[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  write_graph("shown", shown, path);
  RUN(p, "run", path, "train.steps=6");
  if (p->status) fail_msg("%s", p->err);
  RUN(p, "run", "--resume", path, "train.steps=8");
  const char *said = strstr(p->err, sentence);
  if (p->status || !said || strstr(said + 1, sentence)) fail_msg("%s", p->err);
  if (!strstr(said, "those after step 6 that were")) fail_msg("%s", p->err);
  free(p);
}

static const char endless[] =
    "process reader { synthetic n=320 ! shuffle seed=1 epochs=0 ! batch 16 name=batches }\n"
    "process writer { ledger path=$out.txt state=$out.json name=lines }\n"
    "batches. ! lines.\n";

static void wait_for_lines(const char *name) {
  char path[TEXT_MAX];
  snprintf(path, sizeof path, "%s/%s.json", dir, name);
  while (access(path, F_OK)) usleep(10000);
}

/* Stops a run of both processes by ask, which ends it with that status, and resumes it: ends as a
   run that was never stopped. */
static void stop_and_resume(void (*ask)(pid_t above, const char *path), int status) {
  char path[TEXT_MAX], steps[48];
  long done = -1;
  write_graph("stop", endless, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  wait_for_lines("stop");
  ask(r.pid, path);
  finish(&r);
  assert_int_equal(r.p->status, status);
  assert_non_null(strstr(r.p->out, "--resume resumes it"));
  pid_t pid[16];
  assert_int_equal(find("--process=", path, pid), 0);
  const char *at = strstr(r.p->out, "up to step ");
  if (!at || sscanf(at, "up to step %ld", &done) != 1) fail_msg("%s", r.p->out);
  snprintf(steps, sizeof steps, "lines.steps=%ld", done + 100);
  running_t on = start((const char *const[]){"run", "--resume", path, steps, NULL});
  finish(&on);
  if (on.p->status) fail_msg("%s", on.p->err);
  write_graph("whole", endless, path);
  running_t whole = start((const char *const[]){"run", path, steps, NULL});
  finish(&whole);
  char *x = file_of("stop", ".txt"), *y = file_of("whole", ".txt");
  assert_string_equal(x, y);
  free(x), free(y), free(r.p), free(on.p), free(whole.p);
  char state_file[TEXT_MAX];
  snprintf(state_file, sizeof state_file, "%s/stop.json", dir);
  unlink(state_file);
}

static void once(pid_t above, const char *path) { kill(above, SIGINT); }

/* As timeout and make do it. */
static void twice(pid_t above, const char *path) { kill(above, SIGTERM), kill(above, SIGTERM); }

/* As srun and the init program of a container do it. */
static void all_twice(pid_t above, const char *path) {
  pid_t pid[16];
  int n = find("--process=", path, pid);
  assert_int_equal(n, 2);
  for (int i = 0; i < 2 * n; i++) kill(pid[i / 2], SIGTERM);
  twice(above, path);
}

static void ctrl_c_stops_all_and_resume_continues(void **state) { stop_and_resume(once, 130); }

static void a_signal_that_comes_twice_is_one(void **state) {
  stop_and_resume(twice, 128 + SIGTERM);
  stop_and_resume(all_twice, 128 + SIGTERM);
}

static const char saving[] =
    "process reader { synthetic n=100000000 ! shuffle seed=1 epochs=0 ! normalize ! batch 16 "
    "name=batches }\n"
    "process trainer {\n"
    "  vit-step name=train embed=16 mlp=16 heads=2 layers=1 patch=8 threads=1 "
    "checkpoint-every=0\n"
    "  train.metrics ! jsonl path=$out.jsonl\n"
    "  train.state ! checkpoint dir=$out.ck\n}\n"
    "batches. ! train.\n";

/* Whether a run of processes has written this file. */
static bool has_written(const char *name) {
  char path[TEXT_MAX];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return stat(path, &st) == 0 && st.st_size > 0;
}

static void sigusr1_saves_and_sigterm_of_one_process_ends_all(void **state) {
  char path[TEXT_MAX];
  pid_t pid[16];
  write_graph("saving", saving, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  while (!has_written("saving.jsonl")) usleep(10000);
  assert_false(has_written("saving.ck/latest"));
  kill(r.pid, SIGUSR1);
  while (!has_written("saving.ck/latest")) usleep(10000);
  assert_int_equal(find("--process=trainer", path, pid), 1);
  kill(pid[0], SIGTERM);
  finish(&r);
  assert_int_equal(r.p->status, 128 + SIGTERM);
  assert_non_null(strstr(r.p->err, "writing a checkpoint after this step"));
  free(r.p);
}

/* Whether a signal waits for the process to take it. */
static bool is_pending(pid_t pid, int signo) {
  char path[64], line[128];
  unsigned long long set = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) (void)sscanf(line, "ShdPnd: %llx", &set);
  fclose(f);
  return set >> (signo - 1) & 1;
}

static void sigusr1_without_a_checkpoint_is_said(void **state) {
  char path[TEXT_MAX];
  write_graph("unsaved", endless, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  wait_for_lines("unsaved");
  kill(r.pid, SIGUSR1);
  while (runs(&r) && is_pending(r.pid, SIGUSR1)) usleep(1000);
  kill(r.pid, SIGINT);
  finish(&r);
  assert_int_equal(r.p->status, 130);
  assert_non_null(strstr(r.p->err, "SIGUSR1: no process that runs writes a checkpoint"));
  free(r.p);
}

/* The process has something to save, and waits for a server while it plans. */
static const char planned[] =
    "process one restart=1 {\n"
    "  table http://127.0.0.1:$port/x.csv fields=x ! sequential epochs=1 ! batch 2 ! null\n"
    "  synthetic n=64 ! shuffle seed=1 epochs=1 ! normalize ! batch 16 ! vit-step name=train "
    "embed=16 mlp=16 heads=2 layers=1 patch=8 threads=1\n"
    "  train.state ! checkpoint dir=$out.ck\n}\n";

/* Answers one request after another until one comes from a process that the supervisor has started,
   which it does when its own are answered.  Returns that one's connection; -1: the run has ended.
 */
static int answer_the_supervisor(http_t *h, const running_t *r, const char *path) {
  pid_t pid[16];
  for (;;) {
    struct pollfd way = {.fd = h->fd, .events = POLLIN};
    while (poll(&way, 1, 100) <= 0)
      if (!runs(r)) return -1;
    int c = accept(h->fd, NULL, NULL);
    if (find("--process=one", path, pid)) return c;
    http_answer(h, c);
    close(c);
  }
}

/* Starts a run whose process plans until its connection, *way, is answered or closed. */
static running_t start_planned(const char *name, http_t *h, int *way, char *path) {
  char text[TEXT_MAX];
  *h = (http_t){.body = "x\n1\n2\n3\n4\n", .size = 10, .ranges = true};
  assert_int_equal(http_listen(h), 0);
  snprintf(text, sizeof text, "let port = %d\n%s", h->port, planned);
  write_graph(name, text, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  *way = answer_the_supervisor(h, &r, path);
  if (*way >= 0) return r;
  finish(&r);
  fail_msg("%s", r.p->err);
  return r;
}

static void sigusr1_does_nothing_to_a_process_that_plans(void **state) {
  NEEDS("CURL");
  char path[TEXT_MAX];
  http_t server;
  int way;
  running_t r = start_planned("early", &server, &way, path);
  for (int i = 0; i < 2; i++) { /* when the second is taken, the first was passed on */
    kill(r.pid, SIGUSR1);
    while (runs(&r) && is_pending(r.pid, SIGUSR1)) usleep(1000);
  }
  http_answer(&server, way);
  close(way);
  while (runs(&r)) {
    struct pollfd next = {.fd = server.fd, .events = POLLIN};
    if (poll(&next, 1, 10) <= 0) continue;
    way = accept(server.fd, NULL, NULL);
    http_answer(&server, way);
    close(way);
  }
  close(server.fd);
  finish(&r);
  if (r.p->status) fail_msg("%s", r.p->err);
  assert_non_null(strstr(r.p->out, "train: 4 steps"));
  assert_null(strstr(r.p->err, "was killed by signal"));
  free(r.p);
}

/* It dies of the signal, which is no death to start it again after. */
static void a_signal_to_a_process_that_plans_ends_all(void **state) {
  NEEDS("CURL");
  static const int asks[] = {SIGTERM, SIGINT};
  for (int i = 0; i < 2; i++) {
    char path[TEXT_MAX], name[16];
    pid_t pid[16];
    http_t server;
    int way;
    snprintf(name, sizeof name, "ends-%d", i);
    running_t r = start_planned(name, &server, &way, path);
    close(server.fd); /* one that is started again fails */
    assert_int_equal(find("--process=one", path, pid), 1);
    kill(pid[0], asks[i]);
    finish(&r);
    close(way);
    if (r.p->status != 128 + asks[i]) fail_msg("status %d: %s", r.p->status, r.p->err);
    assert_non_null(strstr(r.p->out, "--resume resumes it"));
    assert_null(strstr(r.p->err, "was killed by signal"));
    free(r.p);
  }
}

/* The command has nothing left to stop: its status is that of the run. */
static void a_signal_behind_the_last_end_changes_nothing(void **state) {
  char path[TEXT_MAX];
  if (!MR_FAULTS[0]) skip();
  write_graph("late", lines, path);
  setenv("LD_PRELOAD", MR_FAULTS, 1);
  for (int i = 0; i < 2; i++) {
    setenv("FAULT_LATE", (const char *const[]){"2", "15"}[i], 1);
    running_t r = start((const char *const[]){"run", path, NULL});
    finish(&r);
    if (r.p->status) fail_msg("status %d: %s%s", r.p->status, r.p->out, r.p->err);
    assert_null(strstr(r.p->out, "stopped"));
    free(r.p);
  }
  unsetenv("LD_PRELOAD"), unsetenv("FAULT_LATE");
}

static void no_process_outlives_the_one_that_started_it(void **state) {
  char path[TEXT_MAX];
  write_graph("orphan", endless, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  wait_for_lines("orphan");
  kill(r.pid, SIGKILL);
  finish(&r);
  wait_until_gone(path);
  free(r.p);
}

static void one_that_fails_ends_all_with_its_reason(void **state) {
  char path[TEXT_MAX];
  write_graph("bad", endless, path);
  running_t r = start((const char *const[]){"run", path, "lines.path=/proc/no/such", NULL});
  finish(&r);
  assert_int_equal(r.p->status, 1);
  assert_non_null(strstr(r.p->err, "/proc/no/such"));
  assert_non_null(strstr(r.p->err, "process writer ended with status 1"));
  free(r.p);
}

static void two_that_fail_at_once_are_a_failure(void **state) {
  static const char failing[] =
      "process a { synthetic n=64 ! sequential epochs=1 ! batch 16 ! ledger path=/proc/no/a }\n"
      "process b { synthetic n=64 ! sequential epochs=1 ! batch 16 ! ledger path=/proc/no/b }\n";
  char path[TEXT_MAX];
  write_graph("two", failing, path);
  running_t r = start((const char *const[]){"run", path, NULL});
  finish(&r);
  assert_int_equal(r.p->status, 1);
  assert_non_null(strstr(r.p->err, "ended with status 1"));
  free(r.p);
}

static void one_that_dies_too_often_ends_all(void **state) {
  char path[TEXT_MAX];
  write_graph("often", endless, path);
  running_t r = start((const char *const[]){"run", path, "reader.restart=1", NULL});
  wait_for_lines("often");
  for (int i = 0; i < 2; i++) {
    pid_t pid[16] = {0}, killed = 0;
    while (!find("--process=reader", path, pid)) usleep(10000);
    kill(killed = pid[0], SIGKILL);
    while (find("--process=reader", path, pid) && pid[0] == killed) usleep(10000);
  }
  finish(&r);
  assert_int_equal(r.p->status, 1);
  assert_non_null(strstr(r.p->err, "process reader was killed by signal 9; restart = 1 allows"));
  free(r.p);
}

static void processes_that_are_started_one_by_one_meet(void **state) {
  char path[TEXT_MAX];
  char id[32];
  snprintf(id, sizeof id, "--run-id=x%d", (int)getpid());
  write_graph("one", endless, path);
  running_t w =
      start((const char *const[]){"run", "--process=writer", id, path, "lines.steps=50", NULL});
  running_t r =
      start((const char *const[]){"run", "--process=reader", id, path, "lines.steps=50", NULL});
  finish(&w);
  finish(&r);
  if (w.p->status || r.p->status) fail_msg("%s\n%s", w.p->err, r.p->err);
  char at[256];
  assert_int_equal(mr_process_address(id + strlen("--run-id="), 0, at, sizeof at, NULL), MR_OK);
  assert_true(access(at + strlen("ipc://"), F_OK) < 0);
  assert_non_null(strstr(w.p->out, "up to step 50, 800 records"));
  free(w.p), free(r.p);
}

/* Another user tries every socket of the run: exits with 0 if none lets it in and with 1 if one
   does; 2: there was none. */
static int knock_as_another(const char *id) {
  char line[512];
  int found = 0;
  if (setgid(65534) < 0 || setuid(65534) < 0) return 3;
  FILE *f = fopen("/proc/net/unix", "r");
  while (f && fgets(line, sizeof line, f)) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char *name = strpbrk(line, "/@"), *end = name ? strchr(name, '\n') : NULL;
    if (!end || !strstr(name, id) || (size_t)(end - name) >= sizeof at.sun_path) continue;
    memcpy(at.sun_path, name, (size_t)(end - name));
    if (*name == '@') at.sun_path[0] = 0;
    socklen_t n =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(end - name) + (*name != '@'));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, n) == 0) return 1;
    if (errno == EACCES) found++;
    close(fd);
    if (*name == '/' && unlink(at.sun_path) == 0) return 1; /* would take its place */
  }
  return found ? 0 : 2;
}

static void another_user_of_the_host_cannot_reach_the_links_of_a_run(void **state) {
  char path[TEXT_MAX], word[32], id[48];
  int status = 2 << 8;
  if (geteuid()) {
    print_message("not root: nobody to try it as\n");
    skip();
  }
  snprintf(word, sizeof word, "u%d", (int)getpid());
  snprintf(id, sizeof id, "--run-id=%s", word);
  write_graph("closed", endless, path);
  running_t r = start((const char *const[]){"run", id, path, NULL});
  while (runs(&r) && WEXITSTATUS(status) == 2) { /* no socket yet */
    pid_t child = fork();
    if (!child) _exit(knock_as_another(word));
    assert_int_equal(waitpid(child, &status, 0), child);
  }
  bool ran = runs(&r);
  kill(r.pid, SIGINT);
  finish(&r);
  if (!ran) fail_msg("%s", r.p->err);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  free(r.p);
}

static void wrong_process_words_are_refused(void **state) {
  char path[TEXT_MAX];
  program_t *p = calloc(1, sizeof *p);
  write_graph("words", endless, path);
  RUN(p, "run", path, "--process=writr");
  assert_int_equal(p->status, 2);
  assert_non_null(strstr(p->err, "no process of the graph is called \"writr\""));
  RUN(p, "run", "synthetic ! batch 4 ! null", "--process=a");
  assert_int_equal(p->status, 2);
  assert_non_null(strstr(p->err, "--process: the graph has no process { } blocks"));
  free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_whose_processes_are_killed_is_the_same),
      cmocka_unit_test(lines_come_once_and_in_order_through_a_process_between),
      cmocka_unit_test(after_a_death_between_two_checkpoints_the_committed_ones_do_not_come_again),
      cmocka_unit_test(a_process_that_waits_for_another_says_that_this_one_limits),
      cmocka_unit_test(a_short_batch_of_a_link_is_judged_as_in_one_process),
      cmocka_unit_test(those_before_one_that_has_ended_end_too),
      cmocka_unit_test(a_resume_of_several_processes_says_once_what_it_cannot_show),
      cmocka_unit_test(ctrl_c_stops_all_and_resume_continues),
      cmocka_unit_test(a_signal_that_comes_twice_is_one),
      cmocka_unit_test(sigusr1_saves_and_sigterm_of_one_process_ends_all),
      cmocka_unit_test(sigusr1_without_a_checkpoint_is_said),
      cmocka_unit_test(sigusr1_does_nothing_to_a_process_that_plans),
      cmocka_unit_test(a_signal_to_a_process_that_plans_ends_all),
      cmocka_unit_test(a_signal_behind_the_last_end_changes_nothing),
      cmocka_unit_test(no_process_outlives_the_one_that_started_it),
      cmocka_unit_test(one_that_fails_ends_all_with_its_reason),
      cmocka_unit_test(two_that_fail_at_once_are_a_failure),
      cmocka_unit_test(one_that_dies_too_often_ends_all),
      cmocka_unit_test(processes_that_are_started_one_by_one_meet),
      cmocka_unit_test(another_user_of_the_host_cannot_reach_the_links_of_a_run),
      cmocka_unit_test(wrong_process_words_are_refused),
  };
  setenv("OMP_WAIT_POLICY", "passive", 0);
  return cmocka_run_group_tests(tests, setup, teardown);
}
