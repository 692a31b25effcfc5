/* Training from a server: metrics tell what was asked of it and what the cache had, and a run that
   is killed and resumed has the ledger of one that was not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/loaders/origin.h"
#include "tests/port.h"

enum { KILLS = 3, LAST = 240, CONNECTIONS = 8 };

static char dir[64];
static origin_t origin;
static void *shard;
static program_t p;

static const char *in_dir(const char *name) {
  static char path[8][160];
  static int at;
  at = (at + 1) % 8;
  snprintf(path[at], sizeof path[at], "%s/%s", dir, name);
  return path[at];
}

/* Writes n numbers as numpy.save does. */
static int write_npy(const char *path, const char *shape, const float *v, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f) return -1;
  fwrite("\x93NUMPY\1\0\x76\0", 1, 10, f); /* 118 bytes of header follow */
  char head[120];
  int k =
      snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
  fprintf(f, "%s%*s\n", head, 117 - k, "");
  fwrite(v, sizeof *v, n, f);
  return fclose(f);
}

enum { RECORDS = 320, WIDTH = 400 };

/* Packs records of a regression as one tar file; 0 if that worked. */
static int pack_records(void) {
  static float x[RECORDS * WIDTH], y[RECORDS];
  char fields[400];
  round_t r = {.x = 3};
  for (int i = 0; i < RECORDS * WIDTH; i++) x[i] = (float)draw(&r, 1000) / 1000;
  for (int i = 0; i < RECORDS; i++) y[i] = x[i * WIDTH];
  if (write_npy(in_dir("x.npy"), "(320, 400)", x, RECORDS * WIDTH) ||
      write_npy(in_dir("y.npy"), "(320,)", y, RECORDS))
    return -1;
  snprintf(fields, sizeof fields, "npy fields=x:%s,y:%s", in_dir("x.npy"), in_dir("y.npy"));
  RUN(&p, "pack", fields, "-o", in_dir("packed"), "--records", "320");
  if (p.status) fprintf(stderr, "%s", p.err);
  return p.status;
}

static int setup(void **state) {
  char text[1024];
  size_t n;
  strcpy(dir, "/tmp/mr-remote-XXXXXX");
  if (!mkdtemp(dir)) return -1;
  for (const char *const *v = (const char *const[]){"http_proxy", "all_proxy", "ALL_PROXY", NULL};
       *v; v++)
    unsetenv(*v);
  if (pack_records() ||
      mr_read_file(in_dir("packed/shard-00000.tar"), (size_t)1 << 26, &shard, &n, NULL))
    return -1;
  origin_open(&origin, shard, n, 3);
  int length = snprintf(
      text, sizeof text,
      "let run = x\n"
      "tar http://127.0.0.1:%d/s.tar fields=x.npy:x:npy,y.npy:y:npy cache=%s/blocks "
      "cache-size=400kB "
      "cache-block=4096 ahead=1048576 connections=%d backoff=0.001 retries=40 timeout=0.3 ! "
      "shuffle seed=1 epochs=0 "
      "! batch 16 drop-remainder ! train-step name=train model=mlp hidden=8 threads=1 steps=%d "
      "checkpoint-every=3\n"
      "train.metrics ! telemetry every=0 name=t\n"
      "t. ! jsonl path=$run/metrics.jsonl\n"
      "t. ! csv path=$run/metrics.csv\n"
      "train.state ! checkpoint dir=$run/checkpoints\n",
      origin.port, dir, CONNECTIONS, LAST);
  return mr_write_file(in_dir("g.mr"), text, (size_t)length, NULL);
}

static int teardown(void **state) {
  origin_close(&origin);
  free(shard);
  return program_forget(dir);
}

static char *read_text(const char *path) {
  void *text;
  size_t n;
  mr_diag_t diag = {0};
  if (mr_read_file(path, (size_t)1 << 28, &text, &n, &diag) < 0) fail_msg("%s", diag.text);
  char *copy = strndup(text, n);
  free(text);
  return copy;
}

/* The number `name` of a record that begins at `record`. */
static double number_of(const char *record, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(record, key), *end = strchr(record, '\n');
  if (!at || (end && at > end)) fail_msg("no %s in %.500s", name, record);
  return strtod(at + strlen(key), NULL);
}

static void metrics_tell_what_was_asked_of_the_server(void **state) {
  char path[200];
  int before = origin.requests;
  RUN(&p, "train", "--graph", in_dir("g.mr"), "--run-dir", in_dir("whole"));
  if (p.status) fail_msg("%s%s", p.out, p.err);
  snprintf(path, sizeof path, "%s/metrics.jsonl", in_dir("whole"));
  char *text = read_text(path), *last = strstr(text, "{\"kind\":\"final\"");
  assert_non_null(last);
  double requests = number_of(last, "remote_requests"), hits = number_of(last, "cache_hit_rate");
  assert_true(requests > 2);
  /* The server has counted all but those that were in flight when the run ended, and abandoned ones
     that have not come to its thread yet. */
  for (int i = 0; i < 20000 && requests > origin.requests - before + CONNECTIONS; i++) usleep(1000);
  assert_true(requests <= origin.requests - before + CONNECTIONS);
  assert_true(number_of(last, "remote_bytes") > 100000);
  assert_true(number_of(last, "remote_retries") >= 0);
  assert_true(hits > 0.2 && hits < 1);              /* room for half of the blocks, many epochs */
  assert_true(number_of(text, "remote_bytes") > 0); /* of the first step */
  free(text);
  snprintf(path, sizeof path, "%s/metrics.csv", in_dir("whole"));
  text = read_text(path);
  assert_non_null(strstr(text, ",remote_bytes,remote_requests,remote_retries,cache_hit_rate,"));
  free(text);
}

/* The step of the newest checkpoint of a run folder; 0: not yet written.  Any thread. */
static long newest_of(const char *run) {
  char link[200], name[64];
  long step = 0;
  snprintf(link, sizeof link, "%s/%s/checkpoints/latest", dir, run);
  ssize_t n = readlink(link, name, sizeof name - 1);
  if (n < 0) return 0;
  name[n] = 0;
  return sscanf(name, "step-%ld.safetensors", &step) == 1 ? step : 0;
}

static long newest(void) { return newest_of("other"); }

/* The checkpoint after which the run is killed.  The server answers nothing from then on: what has
   been fetched ahead is less than three epochs of twenty steps, so that the run cannot end before.
 */
static atomic_long until;
static bool is_over(void) { return newest() >= until; }

static bool has_ended(pid_t pid) {
  siginfo_t ended = {0};
  assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  return ended.si_pid;
}

/* The ledger of a run's final record. */
static void ledger_of(const char *run, char out[32]) {
  char path[200];
  snprintf(path, sizeof path, "%s/metrics.jsonl", run);
  char *text = read_text(path), *last = strstr(text, "{\"kind\":\"final\""),
       *at = last ? strstr(last, "\"ledger\":\"") : NULL;
  if (!at) fail_msg("no ledger in %s", path);
  snprintf(out, 32, "%.16s", at + 10);
  free(text);
}

static void killed_and_resumed_the_ledger_is_the_same(void **state) {
  const char *fresh[] = {"train", "--graph", in_dir("g.mr"), "--run-dir", in_dir("other"), NULL};
  const char *again[] = {"train", "--run-dir", in_dir("other"), "--resume", NULL};
  char whole[32], killed[32];
  origin.trouble = 20;
  for (int i = 0; i < KILLS; i++) {
    FILE *out = tmpfile(), *err = tmpfile();
    until = newest() + 6;
    origin.holds = is_over;
    pid_t pid = program_start(i ? again : fresh, out, err);
    while (!is_over() && !has_ended(pid)) usleep(1000);
    kill(pid, SIGKILL);
    p.status = program_wait(pid);
    origin.holds = NULL;
    program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
    if (p.status != 128 + SIGKILL) fail_msg("status %d: %s", p.status, p.err);
  }
  program_run(&p, again);
  if (p.status) fail_msg("%s%s", p.out, p.err);
  ledger_of(in_dir("whole"), whole), ledger_of(in_dir("other"), killed);
  assert_string_equal(whole, killed);
}

/* The run that the server leaves without an answer once it has trained some steps. */
static atomic_bool left_waiting;
static bool leaves_it_waiting(void) {
  if (newest_of("silent") < 6) return false;
  left_waiting = true;
  return true;
}

/* The last step that was made is saved, though the server would be waited for longer than any test
   lasts. */
static void a_stop_is_heard_while_a_server_is_silent(void **state) {
  const char *words[] = {"train",
                         "--graph",
                         in_dir("g.mr"),
                         "--run-dir",
                         in_dir("silent"),
                         "tar.timeout=3600",
                         "tar.hedge=0",
                         "tar.cache-size=8192",
                         NULL};
  FILE *out = tmpfile(), *err = tmpfile();
  char path[200];
  origin.trouble = 0;
  origin.holds = leaves_it_waiting;
  pid_t pid = program_start(words, out, err);
  while (!left_waiting && !has_ended(pid)) usleep(1000);
  kill(pid, SIGTERM);
  p.status = program_wait(pid);
  origin.holds = NULL;
  program_read(out, p.out, sizeof p.out), program_read(err, p.err, sizeof p.err);
  if (!strstr(p.err, "stopping after this step")) fail_msg("status %d: %s", p.status, p.err);
  if (strstr(p.err, "reading was ended")) fail_msg("%s", p.err); /* a stop is no failure */
  snprintf(path, sizeof path, "%s/metrics.jsonl", in_dir("silent"));
  char *text = read_text(path), *last = strstr(text, "{\"kind\":\"final\"");
  assert_non_null(last);
  assert_int_equal(number_of(last, "step"), newest_of("silent"));
  free(text);
}

/* A run of a few steps, and a resume with this word for its source. */
static void resume_with(const char *word, const char *allow) {
  RUN(&p, "train", "--graph", in_dir("g.mr"), "--run-dir", in_dir("changed"), "--steps", "6");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", in_dir("changed"), "--resume", "--steps", "9", word, allow);
}

static void end_changed(void) {
  char command[200];
  snprintf(command, sizeof command, "rm -rf '%s'", in_dir("changed"));
  assert_int_equal(system(command), 0);
}

static void how_bytes_are_fetched_may_change_on_a_resume(void **state) {
  static const char *const word[] = {
      "connections=3",  "retries=50",       "backoff=0.002",        "timeout=5",
      "hedge=0",        "ahead=2000000",    "local-redirects=true", "index=auto",
      "cache-size=1MB", "cache-block=8192", "peer-token=0123456789"};
  char text[200];
  origin.trouble = 0;
  for (size_t i = 0; i <= sizeof word / sizeof *word; i++) {
    if (i < sizeof word / sizeof *word)
      snprintf(text, sizeof text, "tar.%s", word[i]);
    else
      snprintf(text, sizeof text, "tar.cache=%s", in_dir("elsewhere"));
    resume_with(text, NULL);
    if (p.status) fail_msg("%s: %s%s", text, p.out, p.err);
    assert_non_null(strstr(p.out, "resumed at step 6"));
    end_changed();
  }
}

/* The object has another ETag, and its bytes may be others. */
static void an_object_that_has_changed_is_other_data(void **state) {
  origin.trouble = 0;
  RUN(&p, "train", "--graph", in_dir("g.mr"), "--run-dir", in_dir("changed"), "--steps", "6");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  origin.etag = 1;
  RUN(&p, "train", "--run-dir", in_dir("changed"), "--resume", "--steps", "9");
  assert_int_not_equal(p.status, 0);
  if (!strstr(p.err, "data of stage tar") || !strstr(p.err, " objects=")) fail_msg("%s", p.err);
  RUN(&p, "train", "--run-dir", in_dir("changed"), "--resume", "--steps", "9", "--allow-change",
      "data");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  RUN(&p, "train", "--run-dir", in_dir("changed"), "--resume", "--steps", "12");
  if (p.status) fail_msg("%s%s", p.out, p.err);
  origin.etag = 0;
  end_changed();
}

static void a_resume_shows_no_secret_of_a_url(void **state) {
  static const char *const secret[] = {"zebra", "heron", "otter"};
  char word[200], shown[200];
  origin.trouble = 0;
  for (int allowed = 0; allowed < 2; allowed++) {
    snprintf(word, sizeof word,
             "tar.files=http://zebra:heron@127.0.0.1:%d/s.tar?X-Amz-Signature=otter", origin.port);
    snprintf(shown, sizeof shown,
             "tar.files%s http://127.0.0.1:%d/s.tar -> the same with another user, password or "
             "query",
             allowed ? ":" : "", origin.port);
    resume_with(word, allowed ? "--allow-change=data" : NULL);
    if (p.status != (allowed ? 0 : 2)) fail_msg("status %d: %s%s", p.status, p.out, p.err);
    const char *said = allowed ? p.out : p.err;
    if (!strstr(said, shown)) fail_msg("want '%s', got %s", shown, said);
    for (int i = 0; i < 3; i++)
      if (strstr(p.out, secret[i]) || strstr(p.err, secret[i])) fail_msg("%s%s", p.out, p.err);
    end_changed();
  }
  snprintf(word, sizeof word,
           "tar.files=http://zebra:heron@127.0.0.1:%d/s.tar::http://127.0.0.1:%d/t.tar?a=otter",
           origin.port, origin.port);
  resume_with(word, NULL);
  if (!strstr(p.err, "/s.tar -> (hidden)")) fail_msg("%s", p.err);
  end_changed();
}

/* Reads the records through a cache of blocks that are larger than they are. */
static void read_by_blocks(const char *size, const char *order) {
  char text[400];
  snprintf(text, sizeof text,
           "tar http://127.0.0.1:%d/s.tar fields=x.npy:x:npy cache=%s cache-block=65536 "
           "cache-size=%s%s ! batch 16 ! null",
           origin.port, in_dir("by-blocks"), size, order);
  RUN(&p, "run", text);
}

static void large_blocks_are_advised_against_only_where_that_helps(void **state) {
  const char *shuffled = " ! shuffle seed=1 epochs=1";
  read_by_blocks("400kB", shuffled);
  assert_int_equal(p.status, 0);
  assert_non_null(strstr(p.err, "fetches less"));
  read_by_blocks("400kB", "");
  assert_null(strstr(p.err, "fetches less"));
  read_by_blocks("10MB", shuffled);
  assert_null(strstr(p.err, "fetches less"));
  read_by_blocks("10", shuffled);
  assert_int_not_equal(p.status, 0);
  assert_non_null(strstr(p.err, "setting cache-size: 10, want at least a block"));
}

/* The command, and each process, settles the whole graph, and scans the files if no index is kept;
   only the process of the source answers at the peer's address in the end. */
static void a_process_of_a_graph_answers_its_peers(void **state) {
  char text[800];
  origin.trouble = 0;
  for (int kept = 0; kept < 2; kept++) {
    int port = port_free();
    int n = snprintf(text, sizeof text,
                     "process reader {\n"
                     "  tar http://127.0.0.1:%d/s.tar fields=x.npy:x:npy cache=%s index=%s "
                     "peers=127.0.0.1:%d peer=127.0.0.1:%d peer-token=0123456789abcdef ! "
                     "batch 16 name=batches\n"
                     "}\n"
                     "process sink { null name=end }\n"
                     "batches. ! end.\n",
                     origin.port, in_dir("of-processes"), kept ? "auto" : "/proc/none", port, port);
    assert_int_equal(mr_write_file(in_dir("processes.mr"), text, (size_t)n, NULL), 0);
    RUN(&p, "run", in_dir("processes.mr"));
    if (p.status) fail_msg("%s", p.err);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_blocks_are_advised_against_only_where_that_helps),
      cmocka_unit_test(metrics_tell_what_was_asked_of_the_server),
      cmocka_unit_test(killed_and_resumed_the_ledger_is_the_same),
      cmocka_unit_test(a_stop_is_heard_while_a_server_is_silent),
      cmocka_unit_test(how_bytes_are_fetched_may_change_on_a_resume),
      cmocka_unit_test(an_object_that_has_changed_is_other_data),
      cmocka_unit_test(a_resume_shows_no_secret_of_a_url),
      cmocka_unit_test(a_process_of_a_graph_answers_its_peers),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
